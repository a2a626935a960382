/* The model that is served: scores batches, and takes over newer weights of its run between two of them.
 *
 * 1. A batch is scored by one set of weights as a whole.
 * 2. Newer weights are loaded and tried out beside the old ones, so that no request waits for a file.
 * 3. Batches are filled up with empty rows to a power of two, so that all plans are made before the first request.
 * serve_model_score and serve_model_refresh may be called by two threads at once, each by one at a time. */
#ifndef SHOAL_RUN_SERVE_MODEL_H
#define SHOAL_RUN_SERVE_MODEL_H

#include "data/rows.h"
#include "shoal/run.h"

typedef struct serve_model serve_model;

/* batch_max: rows of a batch, a power of two. options: its texts must outlive the model. */
SHOAL_CHECKED shoal_status serve_model_create(const char *target, const shoal_trained_options *options,
                                              int64_t batch_max, serve_model **out);
void serve_model_destroy(serve_model *m); /* NULL is fine */

/* Fixed for its life: newer weights of another shape are refused. */
const char *serve_model_name(const serve_model *m);
const rows_schema *serve_model_schema(const serve_model *m); /* of the rows it is given */
int serve_model_outputs(const serve_model *m);               /* numbers for each row ... */
int serve_model_first(const serve_model *m); /* ... of which those before this one follow from the others */

/* rows: at most batch_max, of its schema; more are appended, to a power of two. out [rows, outputs]. */
SHOAL_CHECKED shoal_status serve_model_score(serve_model *m, rows_block *rows, float *out);
/* Takes over newer weights, if there are any. *changed: there were. */
SHOAL_CHECKED shoal_status serve_model_refresh(serve_model *m, bool *changed);
/* The file in use, and the step it is of (-1: not known); buffer: SERVE_WEIGHTS_TEXT bytes. */
#define SERVE_WEIGHTS_TEXT 4096
int64_t serve_model_weights(serve_model *m, char *path);

#endif
