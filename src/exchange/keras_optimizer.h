/* What an optimizer has learned, its slots and the number of its updates, from and for .keras archives. */
#ifndef SHOAL_EXCHANGE_KERAS_OPTIMIZER_H
#define SHOAL_EXCHANGE_KERAS_OPTIMIZER_H

#include "exchange/keras.h"
#include "train/model.h"

/* Into a compiled model with the same optimizer; with another one, or an archive that has no state, nothing happens. weights:
 * all of the archive's, in their order. */
SHOAL_CHECKED shoal_status keras_load_state(const json_t *config, const hdf5_file *file, const keras_weights *weights,
                                            shoal_model *m);

/* A weight that Keras trains: one of ours, or two that are its rows. */
typedef struct {
  const char *names[2]; /* the second NULL: one. Borrowed */
  shoal_shape shape;    /* in Keras */
} keras_variable;

/* Where a state is written to. */
typedef struct {
  keras_variable *list; /* in Keras' order */
  size_t n, cap;
  shoal_graph *graph; /* with the weights */
  shoal_session *session;
  void *context;
  shoal_status (*add)(void *context, char *path, shoal_tensor t); /* takes both */
} keras_state;

/* The state that belongs to the weights, out of the checkpoint at `path` or, where that has weights alone, the newest one in
 * the folder checkpoints beside it. Nothing is written when there is none of these very weights. */
SHOAL_CHECKED shoal_status keras_save_state(keras_state *s, const shoal_compile_options *options, const char *path);

#endif
