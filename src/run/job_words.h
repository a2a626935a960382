/* Settings of a job as words: "--batch-size", "64", "--nesterov", as `shoal train` takes them. */
#ifndef SHOAL_RUN_JOB_WORDS_H
#define SHOAL_RUN_JOB_WORDS_H

#include "base/status.h"
#include "shoal/run.h"

typedef struct {
  const char *const *words; /* [count] borrowed */
  int count, at;
} job_words;

/* The next setting and its value, which is NULL when the setting stands alone. A word that belongs to no setting has
 * *row NULL. At the end both are NULL. */
SHOAL_CHECKED shoal_status job_words_next(job_words *w, const shoal_setting **row, const char **value);
/* "train", MODEL and settings to a job, as said; texts are borrowed. */
SHOAL_CHECKED shoal_status job_from_words(const char *const *words, int n, shoal_job *out);

#endif
