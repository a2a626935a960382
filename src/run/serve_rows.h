/* Rows in the body of a request, and predictions as the body of an answer (docs/serving.md).
 *
 *   JSON     {"instances": [ROW, ...]}; a dense row is an array of numbers, nested or flat, a sparse one
 *            {"indices": [...], "values": [...]}, without values they are 1. Answer: {"predictions": [...]}, a number for
 *            each row of two classes told apart by one unit (the probability of class 1) or of a regression with one
 *            number, otherwise an array for each row
 *   text     sparse rows as lines of LIBSVM, labels may be missing. Answer: a line for each row
 *   binary   little-endian: u32 rows; of dense rows f32 [rows, numbers]; of sparse rows u32 entries of each row, then u32
 *            indices of all, then f32 values of all. Answer: f32 predictions of all rows */
#ifndef SHOAL_RUN_SERVE_ROWS_H
#define SHOAL_RUN_SERVE_ROWS_H

#include "base/text.h"
#include "data/rows.h"

typedef enum { SERVE_JSON, SERVE_TEXT, SERVE_BINARY } serve_type;

/* By the request's Content-Type, NULL: JSON; false: it is none of them. */
bool serve_type_find(const char *content_type, serve_type *out);
const char *serve_type_name(serve_type t);

/* Appends the body's rows to `into`, whose schema is the model's (ROWS_SPARSE, or ROWS_DENSE of f32), at most `rows_max` in
 * all. Sparse indices that are too large for the schema are left in (rows_drop_beyond). INPUT error: what is wrong with
 * the body, and where. */
SHOAL_CHECKED shoal_status serve_rows_read(serve_type type, const void *body, size_t n, int64_t rows_max,
                                           rows_block *into);
/* values [rows, outputs], of which each row shows the columns from `first` on. */
void serve_rows_write(serve_type type, const float *values, int64_t rows, int outputs, int first, text *out);

#endif
