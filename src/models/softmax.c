/* Softmax regression: prediction = softmax(x W + b). */
#include "models/table.h"

static void build(shoal_model *m, const shoal_model_options *options) {
  shoal_model_options o = model_options(m, options, NULL, NULL, model_softmax.classes);
  shoal_model_initializer(m, "zeros");
  shoal_model_flatten(m);
  shoal_model_dense(m, o.classes, "softmax");
}

const shoal_model_kind model_softmax = {
    .name = "softmax",
    .summary = "softmax regression: one dense layer (on MNIST 7,850 parameters)",
    .data = "mnist",
    .batch_size = 200,
    .epochs = 50,
    .rate = 0.5,
    .classes = 10,
    .input = {3, {28, 28, 1}},
    .input_rule = SHOAL_INPUT_ANY,
    .build = build,
};
