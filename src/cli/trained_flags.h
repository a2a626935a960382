/* Flags of the commands that take a trained model. */
#ifndef SHOAL_CLI_TRAINED_FLAGS_H
#define SHOAL_CLI_TRAINED_FLAGS_H

#include "cli/flags.h"

/* As `shoal train` has them. */
const char *const *trained_activation_names(void);
const char *const *trained_pool_names(void);
const char *const *trained_kernel_names(void);
const char *const *trained_split_names(void);

/* The rows of the flag tables of eval and predict that fill shoal_trained_options at `base`. */
#define TRAINED_FLAGS(base)                                                                                       \
  FLAG_IN(base, shoal_trained_options, data, "data", TEXT, "NAME|PATH", "data set by name, or files of rows",     \
          "the test rows of its run", .complete = COMPLETE_FILE),                                                 \
      FLAG_IN(base, shoal_trained_options, format, "format", TEXT, "NAME",                                        \
              "format format format of the files in --data; 'shoal data list' names them",                        \
              "detected from the content", .marks = 0),                                                           \
      FLAG_IN(base, shoal_trained_options, columns, "columns", TEXT, "TEXT", "csv and tsv: roles of the columns", \
              "as when it was trained", .marks = 0),                                                              \
      FLAG_IN(base, shoal_trained_options, model, "model", TEXT, "NAME",                                          \
              "the model, if the file is not in a run folder", "from the run's settings", .marks = 0),            \
      FLAG_IN(base, shoal_trained_options, activation, "activation", CHOICE, "NAME",                              \
              "activation of the hidden layers", "from the run's settings", .choices = trained_activation_names), \
      FLAG_IN(base, shoal_trained_options, pool, "pool", CHOICE, "NAME", "pooling", "from the run's settings",    \
              .choices = trained_pool_names),                                                                     \
      FLAG_IN(base, shoal_trained_options, threads, "threads", INT, "N", "compute threads", "one per processor",  \
              .least = 1, .most = 1024),                                                                          \
      FLAG_IN(base, shoal_trained_options, kernels, "kernels", CHOICE, "NAME", "which kernels to use", "auto",    \
              .choices = trained_kernel_names)

#endif
