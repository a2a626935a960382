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
#define TRAINED_FLAGS(base)                                                                                             \
  {.name = "data", .kind = FLAG_TEXT, .offset = (base) + offsetof(shoal_trained_options, data), .value = "NAME|PATH",         \
   .help = "data set by name, or files of rows", .standard = "the test rows of its run",                              \
   .complete = COMPLETE_FILE},                                                                                        \
      {.name = "format", .kind = FLAG_TEXT, .offset = (base) + offsetof(shoal_trained_options, format), .value = "NAME",      \
       .help = "of the files in --data; 'shoal data list' names them", .standard = "found out from the content"},     \
      {.name = "columns", .kind = FLAG_TEXT, .offset = (base) + offsetof(shoal_trained_options, columns), .value = "TEXT",    \
       .help = "csv and tsv: which column is what", .standard = "as when it was trained"},                            \
      {.name = "model", .kind = FLAG_TEXT, .offset = (base) + offsetof(shoal_trained_options, model), .value = "NAME",        \
       .help = "which model it is, when the file lies outside a run", .standard = "from the run's settings"},         \
      {.name = "activation", .kind = FLAG_CHOICE, .offset = (base) + offsetof(shoal_trained_options, activation),             \
       .value = "NAME", .help = "of the hidden layers", .standard = "from the run's settings",                        \
       .choices = trained_activation_names},                                                                              \
      {.name = "pool", .kind = FLAG_CHOICE, .offset = (base) + offsetof(shoal_trained_options, pool), .value = "NAME",        \
       .help = "pooling", .standard = "from the run's settings", .choices = trained_pool_names},                          \
      {.name = "threads", .kind = FLAG_INT, .offset = (base) + offsetof(shoal_trained_options, threads), .value = "N",        \
       .help = "threads that compute", .standard = "one a processor", .least = 1, .most = 1024},                      \
      {.name = "kernels", .kind = FLAG_CHOICE, .offset = (base) + offsetof(shoal_trained_options, kernels), .value = "NAME",  \
       .help = "which numeric code runs", .standard = "auto", .choices = trained_kernel_names}

#endif
