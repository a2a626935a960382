/* Where a training stands: everything beside the variables that the steps to come depend on. It goes into each
 * checkpoint, so that a run killed at any moment and resumed ends as if nothing had happened. */
#ifndef SHOAL_TRAIN_FIT_STATE_H
#define SHOAL_TRAIN_FIT_STATE_H

#include "train/checkpoint.h"
#include "train/model_ids.h"
#include "train/model.h"

#define FIT_RECENT 100 /* steps over which the final loss is taken */

typedef struct {
  int64_t step;                    /* finished, of all workers; alone, also names the random numbers of the next one */
  int64_t epoch;                   /* finished */
  int64_t position;                /* examples of the epoch under way that are done */
  int64_t seen;                    /* steps whose losses were seen here: apart, a worker does not see the others' */
  double epoch_loss, epoch_hits;   /* sums over ... */
  int64_t epoch_seen;              /* ... so many examples of the epoch under way */
  double best_loss, best_accuracy; /* of the validation with the least loss so far; NaN: none */
  int64_t best_epoch;              /* after which that was, from 1; 0: none */
  int64_t waited;                  /* epochs since the validation loss was last the best */
  bool ended;                      /* by patience */
  double validation_loss, validation_accuracy; /* of the last validation; NaN: none */
  /* Of a run that reads from a pipeline; input is empty otherwise. */
  char input[SHOAL_POSITION_TEXT]; /* the pipeline's position */
  int64_t examples;                /* of the finished epochs */
  int64_t epoch_steps, last_steps; /* steps of the epoch under way, of the one before */
  /* The s-th step seen stands in row s % FIT_RECENT: sum of the examples' losses, examples right, examples. */
  double recent[FIT_RECENT][3];
} fit_state;

void fit_state_init(fit_state *s);
/* Mean loss and accuracy over the last `steps` steps (at most FIT_RECENT and as many as there were); NaN: none. */
void fit_state_recent(const fit_state *s, int64_t steps, double *loss, double *accuracy);

/* What is saved: every variable of the session and the state itself. */
typedef struct {
  checkpoint_entry *entries;
  int n;
  int fixed;      /* of them: not of growing ids, which stand behind them, as fit_saved_refresh put them there */
  model_ids *ids; /* the model's, borrowed; NULL: none */
  const model_elsewhere *elsewhere; /* the same: has growing ids, which are elsewhere */
  bool some;                        /* they are those that changed since the checkpoint of step ... */
  int64_t base;                     /* ... this, the last one that has all; -1: there is none */
  fit_state *state;                 /* borrowed */
  const char *const *class_names;   /* the model's, borrowed; NULL: none */
  char *stream; /* where the shards of a stream stand that several workers read (dist/stream_leases.h); or NULL */
  const char *preprocessing; /* likewise */
} fit_saved;

SHOAL_CHECKED shoal_status fit_saved_init(shoal_model *m, fit_state *state, fit_saved *out);
void fit_saved_fini(fit_saved *saved);
/* Before it is saved: what it has of growing ids. all: of all of them; otherwise of those that changed, if they are few. */
SHOAL_CHECKED shoal_status fit_saved_refresh(fit_saved *saved, bool all);
/* It was written, or at least copied. */
SHOAL_CHECKED shoal_status fit_saved_done(fit_saved *saved);
/* Copies the text; NULL: there is none. */
SHOAL_CHECKED shoal_status fit_saved_stream(fit_saved *saved, const char *stream);
SHOAL_CHECKED shoal_status fit_save(const fit_saved *saved, const char *dir, const char *settings, int keep);
/* The half of it that uses `saved`; checkpoint_finish is the other. */
SHOAL_CHECKED shoal_status fit_save_begin(const fit_saved *saved, const char *dir, const char *settings,
                                          checkpoint_file *out);
SHOAL_CHECKED shoal_status fit_save_best(const fit_saved *saved, const char *dir, const char *settings);
/* Fills state and variables. Refuses a checkpoint that was made with other settings and says which differ; then, and on
 * any other error, nothing has changed. */
SHOAL_CHECKED shoal_status fit_restore(fit_saved *saved, const char *path, const char *settings);

#endif
