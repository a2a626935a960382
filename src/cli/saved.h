/* A trained model, made again from what its run left. */
#ifndef SHOAL_CLI_SAVED_H
#define SHOAL_CLI_SAVED_H

#include "cli/job.h"

/* What the command line may say; what it does not say comes from the run's settings. */
typedef struct {
  const char *model, *data, *format, *columns, *activation, *pool, *kernels;
  int64_t threads, top_k;
} saved_options;

typedef struct {
  const shoal_model_kind *kind;
  job_flags job;
  json_t *settings; /* texts in `job` may point into it */
  shoal_model *model;
  char *weights; /* path of the file loaded */
  int classes;
} saved_model;

/* The rows that eval and predict are about: --data, all of it or, where it has parts, its test rows; otherwise the
 * run's test rows. split: as the user said, or NULL. */
const char *saved_split(const saved_model *s, const saved_options *options, const char *split);
/* target: a run's folder or a safetensors file. */
SHOAL_CHECKED shoal_status saved_model_load(const char *target, const saved_options *options, saved_model *out);
void saved_model_fini(saved_model *s);

/* The rows of the flag tables of eval and predict that fill saved_options at `base`. */
#define SAVED_FLAGS(base)                                                                                             \
  {.name = "data", .kind = FLAG_TEXT, .offset = (base) + offsetof(saved_options, data), .value = "NAME|PATH",         \
   .help = "data set by name, or files of rows", .standard = "the test rows of its run",                              \
   .complete = COMPLETE_FILE},                                                                                        \
      {.name = "format", .kind = FLAG_TEXT, .offset = (base) + offsetof(saved_options, format), .value = "NAME",      \
       .help = "of the files in --data; 'shoal data list' names them", .standard = "found out from the content"},     \
      {.name = "columns", .kind = FLAG_TEXT, .offset = (base) + offsetof(saved_options, columns), .value = "TEXT",    \
       .help = "csv and tsv: which column is what", .standard = "as when it was trained"},                            \
      {.name = "model", .kind = FLAG_TEXT, .offset = (base) + offsetof(saved_options, model), .value = "NAME",        \
       .help = "which model it is, when the file lies outside a run", .standard = "from the run's settings"},         \
      {.name = "activation", .kind = FLAG_CHOICE, .offset = (base) + offsetof(saved_options, activation),             \
       .value = "NAME", .help = "of the hidden layers", .standard = "from the run's settings",                        \
       .choices = job_activation_names},                                                                              \
      {.name = "pool", .kind = FLAG_CHOICE, .offset = (base) + offsetof(saved_options, pool), .value = "NAME",        \
       .help = "pooling", .standard = "from the run's settings", .choices = job_pool_names},                          \
      {.name = "threads", .kind = FLAG_INT, .offset = (base) + offsetof(saved_options, threads), .value = "N",        \
       .help = "threads that compute", .standard = "one a processor", .least = 1, .most = 1024},                      \
      {.name = "kernels", .kind = FLAG_CHOICE, .offset = (base) + offsetof(saved_options, kernels), .value = "NAME",  \
       .help = "which numeric code runs", .standard = "auto", .choices = job_kernel_names}

#endif
