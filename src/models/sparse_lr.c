/* Logistic regression on sparse rows: the probability of a click is sigmoid(w.x), with one weight a feature. */
#include "models/table.h"

static void build(shoal_model *m, const shoal_model_options *options) {
  shoal_model_sparse_dense(m, 1, model_options(m, options, NULL, NULL, 0).bias, "sigmoid");
}

const shoal_model_kind model_sparse_lr = {
    .name = "sparse-lr",
    .summary = "sparse logistic regression: one weight a feature (33,762,578 parameters)",
    .data = NULL,
    .batch_size = 100,
    .epochs = 1,
    .rate = 0.3,
    .optimizer = "adagrad",
    .input = {1, {33762578}},
    .sparse = true,
    .build = build,
};
