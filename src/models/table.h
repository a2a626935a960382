/* Each model is one file that defines a row. */
#ifndef SHOAL_MODELS_TABLE_H
#define SHOAL_MODELS_TABLE_H

#include "shoal/models.h"

/* A new model is one file and one line here (and its name in meson.build). */
#define MODELS(MODEL) \
  MODEL(softmax)      \
  MODEL(lenet)        \
  MODEL(alexnet)      \
  MODEL(sparse_lr)    \
  MODEL(linear)

#define DECLARE_MODEL(name) extern const shoal_model_kind model_##name;
MODELS(DECLARE_MODEL)
#undef DECLARE_MODEL

/* Options with what is left out filled in; `options` may be NULL. Errors stick to the model. */
shoal_model_options model_options(shoal_model *m, const shoal_model_options *options, const char *act, const char *pool,
                                  int classes);
/* A pooling layer without padding: "max" or "avg". */
void model_pool(shoal_model *m, const char *pool, int size, int stride);

#endif
