/* Computes a step by the model's own session: losses, and gradients or the update, of one batch. */
#ifndef SHOAL_TRAIN_COMPUTE_H
#define SHOAL_TRAIN_COMPUTE_H

#include "dist/leases.h"
#include "exec/session.h"
#include "train/model.h"

/* Rows to compute on: `rows` of `features` and `labels` from `first` on, through `order` if that is not NULL. Borrowed
 * from its source until the batch after it is asked for. */
typedef struct {
  int64_t rows; /* 0: none in this step */
  int64_t first;
  const int32_t *order;
  const shoal_tensor *features, *labels; /* [.., input]; [..], or targets [.., outputs]; not of sparse rows */
  const shoal_tensor *weights;           /* [..] what each row counts; NULL: all the same, or rows are sparse */
  const shoal_batch *sparse;             /* sparse rows; NULL: dense ones */
  lease_span span;                       /* of a batch that was handed out, of data in memory */
  int64_t shard, index, epoch;           /* the same of a stream: see strategy_place; the epoch it belongs to */
  const char *
      mark; /* of a stream: where the batch after it begins, of rounds: where it does, if that is to be told; else NULL */
  int64_t number; /* names the random numbers */
  int64_t step;   /* updates before it */
  double rate;    /* learning rate, as far as it is known here */
  bool last;      /* of a stream: its epoch ends with it */
} train_batch;

/* Rows [first, first + n) of a batch, counted from its first one. */
static inline shoal_tensor batch_features(const train_batch *b, int64_t first, int64_t n) {
  return model_rows(b->features, b->order, b->first + first, n);
}
static inline shoal_tensor batch_labels(const train_batch *b, int64_t first, int64_t n) {
  return model_rows(b->labels, b->order, b->first + first, n);
}
static inline shoal_tensor batch_weights(const train_batch *b, int64_t first, int64_t n) {
  return model_rows(b->weights, b->order, b->first + first, n);
}

typedef struct {
  shoal_model *model;
  tower *tower;
  shoal_value **fetches; /* loss, accuracy if measured, then the update, or gradients as the tower has them */
  int n_fetches, first_gradient;
  shoal_tensor *got; /* [n_fetches] of the last run */
  int64_t runs;      /* so far */
  /* Gradient accumulation: */
  int64_t at_once; /* rows that a run has at most; a batch of more is run in several parts. 0: all of them */
  int64_t parts;   /* that a batch has at most */
  float *sum; /* [elements] gradients of the batch, one after the other; `got` points into it. NULL: not asked for */
  int64_t *offsets;  /* [gradients + 1] of each in it */
  float share;       /* rows of the part under way among those of the batch */
  bool first;        /* it is the batch's first */
  double loss, hits; /* of the batch: sums over rows */
  /* NULL, or called with the feeds before a run: weights and gradients are wanted for a look. */
  void *inspector;
  shoal_status (*inspect)(void *inspector, const train_batch *b, const shoal_feed *feeds, int n);
} compute;

/* What a step fetches first. */
enum { GOT_LOSS, GOT_ACCURACY };

#define COMPUTE_FEEDS_MAX (TOWER_FEEDS_MAX + 1)

/* gradients: of all that workers exchange (model_exchanged); otherwise the update. */
SHOAL_CHECKED shoal_status compute_init(compute *c, shoal_model *m, tower *t, bool gradients);
/* From here on batches have up to parts * at_once rows, of which at_once are run at a time; gradients are the mean over all
 * of them, in c->sum. For dense rows, after compute_init with `gradients`. */
SHOAL_CHECKED shoal_status compute_accumulate(compute *c, int64_t at_once, int64_t parts);
void compute_fini(compute *c);
/* Feeds for rows [first, first + n) of a dense batch; returns how many. */
#define DENSE_FEEDS 4
int compute_feed(const compute *c, const train_batch *b, int64_t first, int64_t n, float *rate,
                 shoal_feed feeds[DENSE_FEEDS]);
/* Makes the plans for a batch of n rows such as the example's, so that no step has to. */
SHOAL_CHECKED shoal_status compute_plan_batch(const compute *c, const train_batch *example, int64_t n);
/* The plan for a run of n rows. */
SHOAL_CHECKED shoal_status compute_plan(const compute *c, shoal_session *session, const train_batch *example,
                                        int64_t n);
/* Runs the whole batch; with sparse rows `indices`, unless NULL, counts instead of the batch's own. */
SHOAL_CHECKED shoal_status compute_run(compute *c, const train_batch *b, const shoal_tensor *indices,
                                       const session_watcher *watcher);
/* Losses and hits of the rows computed last: sums. hits NaN: not measured. */
void compute_losses(const compute *c, int64_t rows, double *loss, double *hits);
/* The gradients of the last run, in model_exchanged's order. */
static inline shoal_tensor *compute_gradients(const compute *c) { return c->got + c->first_gradient; }
/* Takes `status`, of a computation on that batch; adds the step and, if the loss is no number, which operator was the
 * first to make one and what to try. */
SHOAL_CHECKED shoal_status compute_explain(const compute *c, const train_batch *b, shoal_status status);
/* The same with feeds of one's own. */
SHOAL_CHECKED shoal_status compute_explain_feeds(const compute *c, const train_batch *b, shoal_status status,
                                                 const shoal_feed *feeds, int n);

#endif
