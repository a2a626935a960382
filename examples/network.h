/* A model of the program's own: two hidden layers and one number to be predicted. csv_regression.c trains it,
 * predict_run.c makes it again from what the run left. */
#include <shoal/shoal.h>

static void build_network(shoal_model *m, const shoal_model_options *options) {
  (void)options;
  shoal_model_dense(m, 32, "relu");
  shoal_model_dense(m, 16, "relu");
  shoal_model_dense(m, 1, NULL);
}

static const shoal_model_kind network = {.name = "network",
                                         .summary = "two hidden layers",
                                         .batch_size = 32,
                                         .epochs = 100,
                                         .rate = 0.01,
                                         .optimizer = "adam",
                                         .input = {1, {1}},
                                         .input_rule = SHOAL_INPUT_ANY,
                                         .transform = "standardise",
                                         .loss = "mse",
                                         .build = build_network};
