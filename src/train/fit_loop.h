/* What the files of the training loop share: fit.c, which runs it, fit_shared.c, which runs it with other workers, and
 * fit_setup.c, which plans it. */
#ifndef SHOAL_TRAIN_FIT_LOOP_H
#define SHOAL_TRAIN_FIT_LOOP_H

#include "base/events.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/pipeline.h"
#include "dist/sparse_set.h"
#include "train/fit_state.h"
#include "train/snapshot.h"
#include "train/strategy.h"

typedef struct fit_inspect fit_inspect;

/* What a step fetches first. */
enum { GOT_LOSS, GOT_ACCURACY };

typedef struct fit_loop {
  shoal_model *model;
  const shoal_dataset *data;
  const shoal_fit_options *options;
  tower *tower;
  int64_t rows;   /* of the data set that are trained on */
  int64_t usable; /* of them in an epoch: fewer when a short batch is dropped */
  int64_t batch;                      /* of this worker */
  int64_t chunk;                      /* rows of a stream taken at a time: several batches where steps can be run together */
  float *rates;                       /* [chunk / batch] of a chunk's steps */
  int64_t round;                      /* rows of all workers in a step */
  int64_t steps_per_epoch, steps;     /* updates */
  shoal_strategy *strategy;           /* NULL: this process alone */
  shoal_value **fetches;              /* of a step: loss, accuracy if measured, then update or gradients */
  int n_fetches;
  shoal_tensor *got; /* [n_fetches] */
  const shoal_dataset *validation; /* NULL: none */
  shoal_dataset held_out;          /* view of the rows split off, if there are some */
  int32_t *split;                  /* then: the rows that are trained on, [rows], and behind them the others; else NULL */
  int32_t *order;                  /* [rows] of the epoch under way; NULL: as they stand */
  text settings;
  fit_state state;
  fit_saved saved;
  snapshot *writer;   /* of checkpoints that are large; NULL: they are written between two steps */
  int64_t saved_step; /* of the last checkpoint written or tried; -1: none */
  bool fresh;         /* nothing written yet: what lies in the folder is another run's */
  shoal_progress progress;
  double since_loss, since_hits; /* sums over ... */
  int64_t since_examples;        /* ... so many examples since steps were last reported */
  shoal_tensor *best;            /* [best_count] with options->restore_best: the weights that validated best, or NULL */
  int best_count;
  double start, last_progress;
  int64_t run_examples, worker_examples, worker_steps;
  int64_t computed;   /* batches of this worker, those included whose answer is on its way */
  int64_t lost_steps; /* undone because a server was lost */
  double eval_seconds, checkpoint_seconds, input_seconds;
  double network_seconds, barrier_seconds, server_seconds; /* with a strategy */
  int64_t staleness, staleness_steps;                      /* since the last progress */
  fit_inspect *inspect; /* NULL: nobody wants to look */
  events *events;       /* the session's timeline, or NULL */
  uint32_t labels;      /* in it: the first of FIT_LABELS */
  shoal_pipeline *pipeline;  /* NULL: the data is in memory */
  const shoal_batch *now;    /* of the pipeline, trained on next */
  int64_t shard, index;      /* of a stream with a strategy: what the pipeline reads; of `now`, over all epochs */
  double past_input_seconds; /* of pipelines before this one */
  strategy_plan plan;        /* with a strategy */
  strategy_place place;      /* the same: as it said last */
  double place_seconds;      /* the same: from the first place to the last one, on the strategy's clock */
  int64_t first_rows;        /* the same: done before this run */
  int64_t touched, exchanged; /* rows of a table, summed over steps; bytes that went there and back */
  sparse_set spread;         /* with `dense`: to count them */
  float *dense;              /* [features] a gradient of few rows, for a strategy that takes whole ones; else NULL */
} fit_loop;

static inline bool is_chief(const fit_loop *l) { return !l->strategy || l->strategy->worker == 0; }
static inline bool is_together(const fit_loop *l) { return !l->strategy || l->strategy->together; }

/* The strategy computes by itself, on its own share of each round. */
static inline bool trains_itself(const fit_loop *l) { return l->strategy && l->strategy->kind->train; }

/* Refuses options that contradict each other. */
SHOAL_CHECKED shoal_status fit_check_options(const shoal_fit_options *o, bool has_data);
/* How the rows are cut into training and validation, batches, rounds and epochs. */
SHOAL_CHECKED shoal_status fit_cut(fit_loop *l);
void fit_cut_stream(fit_loop *l);
/* probe: only to see what the rows are like. */
SHOAL_CHECKED shoal_status fit_open_stream(const fit_loop *l, const char *position, bool probe, shoal_pipeline **out);
/* Another one may be opened after it. */
void fit_close_stream(fit_loop *l);
/* Waited for rows so far. */
double fit_input_seconds(const fit_loop *l);
/* The tower for the rows that will come, which must fit the model. */
SHOAL_CHECKED shoal_status fit_stream_tower(fit_loop *l);
/* What the loop itself adds to a timeline, around what operators and messages add. */
enum { FIT_STEP, FIT_INPUT, FIT_EXCHANGE, FIT_SAVE, FIT_TEST, FIT_LABELS };
SHOAL_CHECKED shoal_status fit_trace_label(fit_loop *l);
static inline uint64_t fit_trace_now(const fit_loop *l) { return events_on(l->events) ? events_now() : 0; }
/* since: from fit_trace_now, before it began. */
static inline void fit_trace_add(const fit_loop *l, uint32_t what, uint64_t since) {
  if (__builtin_expect(since != 0, 0) && events_on(l->events))
    events_add(l->events, 0, l->labels + what, since, events_now(), 0);
}

/* For callbacks.on_inspect: made before the first step; looks at the step about to be taken with these feeds. */
SHOAL_CHECKED shoal_status fit_inspect_create(fit_loop *l, fit_inspect **out);
SHOAL_CHECKED shoal_status fit_inspect_run(fit_loop *l, const shoal_feed *feeds, int n_feeds);
void fit_inspect_destroy(fit_inspect *i);

/* What a checkpoint's place in the training depends on, then the caller's own words. */
SHOAL_CHECKED shoal_status fit_write_settings(fit_loop *l);

/* ---- parts of the loop */
void fit_note(const fit_loop *l, const char *line);
/* Mixes the rows of an epoch. */
void fit_shuffle(fit_loop *l, int64_t epoch);
/* Computes on n rows from `first` of the epoch on; `number` names the random numbers. */
SHOAL_CHECKED shoal_status fit_compute(fit_loop *l, int64_t first, int64_t n, int64_t number, double rate);
/* Takes `status`, which says that the loss is no number; adds where that came from and what to try. */
SHOAL_CHECKED shoal_status fit_explain_bad_loss(fit_loop *l, shoal_status status, const shoal_feed *feeds, int n_feeds,
                                                int64_t number, double rate);
/* Takes `status`, of a computation on these rows by the strategy; adds the step and, if the loss is bad, the above. */
SHOAL_CHECKED shoal_status fit_explain_rows(fit_loop *l, shoal_status status, const strategy_rows *rows);
/* Fills l->progress as of now. */
void fit_set_progress(fit_loop *l);
/* Trains on the stream's chunk of sparse rows: as many steps as it has batches. */
SHOAL_CHECKED shoal_status fit_sparse_steps(fit_loop *l);
/* Takes in the losses of a step: sums over `examples` rows. */
void fit_count_losses(fit_loop *l, int64_t examples, double loss, double hits);
/* The losses and hits of the rows computed last: sums. */
void fit_losses(const fit_loop *l, int64_t n, double *loss, double *hits);
/* What follows a step, callbacks and checkpoints; before: the step it started from. */
SHOAL_CHECKED shoal_status fit_between_steps(fit_loop *l, int64_t before, bool epoch_over, bool *stopped);
SHOAL_CHECKED shoal_status fit_end_epoch(fit_loop *l, bool *stop);
/* best: best.safetensors. Writing may fail, which is noted, and training goes on. */
void fit_checkpoint(fit_loop *l, bool best);
/* Notes the weights as the best so far; goes back to them (*restored false: nobody has them any more). */
SHOAL_CHECKED shoal_status fit_best_keep(fit_loop *l);
SHOAL_CHECKED shoal_status fit_best_restore(fit_loop *l, bool *restored);
void fit_best_fini(fit_loop *l);
/* Until what was saved while training went on is on the disk. */
void fit_wait_for_writer(fit_loop *l);
/* Goes back to the newest checkpoint, if there is one. */
SHOAL_CHECKED shoal_status fit_resume(fit_loop *l, bool *found);
bool fit_asked_to_stop(const fit_loop *l);
/* A pass over the test rows when so many more were trained on; `rows`: those just done. */
SHOAL_CHECKED shoal_status fit_test_if_due(fit_loop *l, int64_t rows);
/* The next batch of the stream; *more false: there is none. */
SHOAL_CHECKED shoal_status fit_next_batch(fit_loop *l, bool *more);
/* Takes in what steps with others have come to; begun, traced: when the last of them was handed on. */
void fit_count_outcome(fit_loop *l, const strategy_outcome *o, double begun, uint64_t traced);
/* Takes over where the training stands. */
void fit_set_place(fit_loop *l, const strategy_place *place);
/* The loop with other workers on the shards of a stream. */
SHOAL_CHECKED shoal_status fit_stream_begin(fit_loop *l);
SHOAL_CHECKED shoal_status fit_stream_run(fit_loop *l, bool *stopped);
/* The strategy has gathered what is saved: of a stream, where it stood then counts. */
SHOAL_CHECKED shoal_status fit_stream_saved(fit_loop *l);
/* The loop with other workers. */
SHOAL_CHECKED shoal_status fit_shared_begin(fit_loop *l);
SHOAL_CHECKED shoal_status fit_shared_run(fit_loop *l, bool *stopped);

#endif
