/* Several runs of this program, one after the other: what a sweep and an experiment are made of.
 *
 * Each run is a process of its own with a folder below the batch's; its output goes to logs/NAME.log there. A run that
 * is finished already is not run again, one that was interrupted goes on from its checkpoint, so the whole can be
 * stopped and started again at any time. */
#ifndef SHOAL_CLI_BATCH_H
#define SHOAL_CLI_BATCH_H

#include "cli/util.h"

#include <jansson.h>
#include <stdbool.h>

#define BATCH_WORDS_MAX 160

typedef struct {
  char *name;                      /* of its folder; owned */
  char *words[BATCH_WORDS_MAX];   /* "train", "lenet", "--epochs", "3", ...: without folder; owned */
  int count;
  json_t *summary;                 /* of a run that has ended; NULL: none yet */
  char *error;                     /* why it failed; NULL: it did not */
} batch_run;

typedef struct {
  const char *folder; /* borrowed */
  batch_run *runs;
  size_t count, capacity;
  bool quiet;
  const int *stop; /* becomes a signal's number */
  size_t failed;
  bool stopped; /* before all were done */
} batch;

void batch_fini(batch *b);
/* Takes nothing; name is copied. The run is valid until the next call. */
SHOAL_CHECKED shoal_status batch_add(batch *b, const char *name, batch_run **out);
SHOAL_CHECKED shoal_status batch_add_word(batch_run *r, const char *word);
/* Words between blanks. */
SHOAL_CHECKED shoal_status batch_add_words(batch_run *r, const char *words);
/* Checks a run as train would before it begins. *seed: the one it would take. */
SHOAL_CHECKED shoal_status batch_check(const batch_run *r, int64_t *seed);
/* Reads what the folder already holds of the runs. */
SHOAL_CHECKED shoal_status batch_look(batch *b);
/* Runs what is not finished, shows progress and the time left. Failed runs are told and counted; the others go on. */
SHOAL_CHECKED shoal_status batch_go(batch *b);
/* One command to its end, for what runs need, e.g. data. Its output goes to `log`. */
SHOAL_CHECKED shoal_status batch_once(const char *name, char *const *argv, const char *log, const int *stop);

SHOAL_CHECKED shoal_status json_write_file(const json_t *value, const char *path);
/* "The page is in FOLDER/report.html"; says so when this build has none. */
void batch_report(const batch *b);

#endif
