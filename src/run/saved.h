/* A trained model, made again from what its run left. */
#ifndef SHOAL_RUN_SAVED_H
#define SHOAL_RUN_SAVED_H

#include "run/rows.h"

typedef struct {
  const shoal_model_kind *kind;
  model_file *file; /* that `kind` is in; NULL: none */
  shoal_job job;
  json_t *settings; /* texts in `job` may point into it */
  shoal_model *model;
  char *weights; /* path of the file loaded */
  int classes;
} saved_model;

/* The rows that eval and predict are about: --data, all of it or, where it has parts, its test rows; otherwise the
 * run's test rows. split: as the user said, or NULL. */
const char *saved_split(const saved_model *s, const shoal_trained_options *options, const char *split);
/* target: a run's folder or a safetensors file. */
SHOAL_CHECKED shoal_status saved_model_load(const char *target, const shoal_trained_options *options, saved_model *out);
void saved_model_fini(saved_model *s);

#endif
