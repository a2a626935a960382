/* Each model is one file that defines a row; the rows are listed in table.c. */
#ifndef SHOAL_MODELS_TABLE_H
#define SHOAL_MODELS_TABLE_H

#include "shoal/models.h"

extern const shoal_model_kind model_softmax, model_lenet, model_alexnet, model_sparse_lr, model_linear;

/* Options with what is left out filled in; `options` may be NULL. */
shoal_model_options model_options(const shoal_model_options *options, const char *act, const char *pool,
                                  int classes);
/* A pooling layer without padding: "max" or "avg". */
void model_pool(shoal_model *m, const char *pool, int size, int stride);

#endif
