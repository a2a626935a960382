/* Linear regression: prediction = x w + b. */
#include "models/table.h"

static void build(shoal_model *m, const shoal_model_options *options) {
  shoal_model_initializer(m, "zeros");
  shoal_model_flatten(m);
  shoal_model_dense(m, 1, NULL);
}

const shoal_model_kind model_linear = {
    .name = "linear",
    .summary = "linear regression: a number to be predicted, e.g. --columns target=price",
    .data = NULL,
    .batch_size = 32,
    .epochs = 100,
    /* Of standardised rows: the error of a prediction falls by 2 % a step, and the noise of the last steps is gone. */
    .rate = 0.01,
    .schedule = "cosine",
    .final_share = 0.05,
    .input = {1, {1}},
    .input_rule = SHOAL_INPUT_ANY,
    .transform = "standardise",
    .loss = "mse",
    .build = build,
};
