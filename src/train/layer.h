/* What the files of layers share: a kind says how its nodes and variables are made from its input. */
#ifndef SHOAL_TRAIN_LAYER_H
#define SHOAL_TRAIN_LAYER_H

#include "graph/graph.h"
#include "train/model.h"

struct layer_kind {
  const char *name;
  shoal_value *(*apply)(branch *b, layer *l, shoal_value *x);
};

/* Makes weight i of the layer, or gives the one made before: "LAYER/NAME" whatever the scope. NULL on failure. The
 * first starts by the layer's initializer and counts for the L2 term; the second starts with all elements alike and does
 * not. */
shoal_value *layer_kernel(branch *b, layer *l, int i, const char *name, shoal_shape shape, double fan_in,
                          double fan_out);
shoal_value *layer_filled(branch *b, layer *l, int i, const char *name, shoal_shape shape, double fill);
/* The layer's bias for `units` outputs: weight i. */
shoal_value *layer_bias(branch *b, layer *l, int i, int64_t units);

/* Adds a copy of `l` to the model, with an activation or NULL. */
void layer_add(shoal_model *m, layer l, const char *activation);
/* Refuses numbers below 1. */
bool layer_positive(shoal_model *m, const char *kind, const char *what, int64_t value);
/* Refuses an input of less than `least` or more than `most` dimensions, batch included, and says what is expected. */
bool layer_takes(branch *b, const layer *l, const shoal_value *x, int least, int most, const char *expected);

#endif
