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
  {"data",                                                                                                        \
   FLAG_TEXT,                                                                                                     \
   (base) + offsetof(shoal_trained_options, data),                                                                \
   "NAME|PATH",                                                                                                   \
   "data set by name, or files of rows",                                                                          \
   "the test rows of its run",                                                                                    \
   .complete = COMPLETE_FILE},                                                                                    \
      {"format",                                                                                                  \
       FLAG_TEXT,                                                                                                 \
       (base) + offsetof(shoal_trained_options, format),                                                          \
       "NAME",                                                                                                    \
       "of the files in --data; 'shoal data list' names them",                                                    \
       "found out from the content",                                                                              \
       .marks = 0},                                                                                               \
      {"columns",                                                                                                 \
       FLAG_TEXT,                                                                                                 \
       (base) + offsetof(shoal_trained_options, columns),                                                         \
       "TEXT",                                                                                                    \
       "csv and tsv: which column is what",                                                                       \
       "as when it was trained",                                                                                  \
       .marks = 0},                                                                                               \
      {"model",                                                                                                   \
       FLAG_TEXT,                                                                                                 \
       (base) + offsetof(shoal_trained_options, model),                                                           \
       "NAME",                                                                                                    \
       "which model it is, when the file lies outside a run",                                                     \
       "from the run's settings",                                                                                 \
       .marks = 0},                                                                                               \
      {"activation",                                                                                              \
       FLAG_CHOICE,                                                                                               \
       (base) + offsetof(shoal_trained_options, activation),                                                      \
       "NAME",                                                                                                    \
       "of the hidden layers",                                                                                    \
       "from the run's settings",                                                                                 \
       .choices = trained_activation_names},                                                                      \
      {"pool",                                                                                                    \
       FLAG_CHOICE,                                                                                               \
       (base) + offsetof(shoal_trained_options, pool),                                                            \
       "NAME",                                                                                                    \
       "pooling",                                                                                                 \
       "from the run's settings",                                                                                 \
       .choices = trained_pool_names},                                                                            \
      {"threads",                                                                                                 \
       FLAG_INT,                                                                                                  \
       (base) + offsetof(shoal_trained_options, threads),                                                         \
       "N",                                                                                                       \
       "threads that compute",                                                                                    \
       "one a processor",                                                                                         \
       .least = 1,                                                                                                \
       .most = 1024},                                                                                             \
  {                                                                                                               \
    "kernels", FLAG_CHOICE, (base) + offsetof(shoal_trained_options, kernels), "NAME", "which numeric code runs", \
        "auto", .choices = trained_kernel_names                                                                   \
  }

#endif
