/* AlexNet after Krizhevsky (2014), for images of 256 x 256: five convolutions, three dense layers. Where a layer's
 * activation comes after its pooling, and where it has none, is as the experiments have it. */
#include "models/table.h"

static void build(shoal_model *m, const shoal_model_options *options) {
  shoal_model_options o = model_options(m, options, "relu", "max", model_alexnet.classes);
  shoal_model_initial(m, 0.01, 0.5);
  shoal_model_conv2d(m, 64, 11, 4, SHOAL_VALID, NULL); /* 62 x 62 x 64 */
  model_pool(m, o.pool, 3, 2);                         /* 30 x 30 x 64 */
  shoal_model_activation(m, o.activation);
  shoal_model_initial(m, 0.01, 1);
  shoal_model_conv2d(m, 192, 5, 1, SHOAL_SAME, o.activation); /* 30 x 30 x 192 */
  model_pool(m, o.pool, 3, 2);                                /* 14 x 14 x 192 */
  shoal_model_initial(m, 0.03, 0.5);
  shoal_model_conv2d(m, 384, 3, 1, SHOAL_SAME, NULL);         /* 14 x 14 x 384 */
  shoal_model_conv2d(m, 256, 3, 1, SHOAL_SAME, o.activation); /* 14 x 14 x 256 */
  shoal_model_conv2d(m, 256, 3, 1, SHOAL_SAME, NULL);         /* 14 x 14 x 256 */
  model_pool(m, o.pool, 3, 2);                                /* 6 x 6 x 256 */
  shoal_model_activation(m, o.activation);
  shoal_model_flatten(m);
  shoal_model_initial(m, 0.01, 1);
  shoal_model_dense(m, 4096, o.activation);
  shoal_model_dropout(m, 0.25);
  shoal_model_dense(m, 4096, o.activation);
  shoal_model_dropout(m, 0.25);
  shoal_model_initial(m, 0.01, -7);
  shoal_model_dense(m, o.classes, "softmax");
}

const shoal_model_kind model_alexnet = {
    .name = "alexnet",
    .summary = "AlexNet on 256x256 images: five convolutions, three dense layers (61,100,840 parameters)",
    .data = "fake",
    .batch_size = 128,
    .epochs = 1,
    .rate = 0.001,
    .schedule = "staircase",
    .decay_factor = 0.9,
    .optimizer = "momentum",
    .l2 = 0.0005,
    .bias_rate = 2,
    .top_k = 5,
    .classes = 1000,
    .input = {3, {256, 256, 3}},
    .transform = "standardise", /* small weights beside large biases: of plain pixels little is seen behind */
    .build = build,
};
