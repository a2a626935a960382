/* The update of a model's weights by gradients that come from elsewhere, as one vector, and of its moving averages by
 * their changes. */
#ifndef SHOAL_TRAIN_APPLY_H
#define SHOAL_TRAIN_APPLY_H

#include "train/model.h"

typedef struct {
  shoal_model *model;
  shoal_value *update;
  shoal_feed *feeds; /* [n + 1] gradients, then the rate */
  int n;             /* of them, in model_exchanged's order */
  int64_t *counts;   /* [n] numbers in each */
  int64_t elements;  /* of all */
} apply;

/* Adds the update to the model's graph. */
SHOAL_CHECKED shoal_status apply_create(shoal_model *m, apply *out);
void apply_fini(apply *a);
/* vector: [elements]; the weights' gradients one after the other. Uses all threads of the session. */
SHOAL_CHECKED shoal_status apply_run(apply *a, float *vector, double rate);
/* Of all variables that training changes, the optimizer's too; never 0. */
SHOAL_CHECKED shoal_status apply_hash(const apply *a, uint64_t *out);
/* Of the weights alone. */
SHOAL_CHECKED shoal_status apply_hash_weights(const apply *a, uint64_t *out);

#endif
