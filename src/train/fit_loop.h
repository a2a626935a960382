/* What the files of the training loop share: fit.c, the whole; fit_setup.c, what comes before the first step;
 * fit_run.c, the loop; fit_save.c, checkpoints; fit_inspect.c, looks at gradients. */
#ifndef SHOAL_TRAIN_FIT_LOOP_H
#define SHOAL_TRAIN_FIT_LOOP_H

#include "base/events.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/pipeline.h"
#include "train/batch_source.h"
#include "train/fit_state.h"
#include "train/snapshot.h"

typedef struct fit_inspect fit_inspect;

typedef struct fit_loop {
  shoal_model *model;
  const shoal_dataset *data;                  /* NULL: a stream */
  const shoal_fit_options *options;           /* given */
  shoal_fit_options given;                    /* what the program gave, as this library knows it ... */
  shoal_pipeline_options stream, test_stream; /* ... and what that points to */
  tower *tower;
  compute compute;
  shoal_strategy *strategy;
  shoal_strategy *own_strategy; /* NULL: it is the caller's */
  strategy_setup setup;
  batch_source *source;
  train_batch batch_now; /* under way */
  int64_t rows;          /* of the data set that are trained on */
  int64_t usable;        /* of them in an epoch: fewer when a short batch is dropped */
  int64_t batch;         /* of this worker, for an update ... */
  int64_t accumulate;    /* ... computed in so many parts */
  int64_t chunk;         /* rows of a stream taken at a time: several batches where steps can be run together */
  int64_t round;         /* rows of all workers in a step */
  int64_t steps_per_epoch, steps; /* updates */
  strategy_plan plan;
  const shoal_dataset *validation; /* NULL: none */
  shoal_dataset held_out;          /* view of the rows split off, if there are some */
  int32_t *split; /* then: the rows that are trained on, [rows], and behind them the others; else NULL */
  text settings;
  fit_state state;
  fit_saved saved;
  snapshot *writer;     /* of checkpoints that are large; NULL: they are written between two steps */
  int64_t saved_step;   /* of the last checkpoint written or tried; -1: none */
  bool save_due;        /* a checkpoint, as soon as all workers have the same parameters */
  bool fresh;           /* nothing written yet: what lies in the folder is another run's */
  strategy_place place; /* as the strategy said last */
  double place_seconds; /* from the first place to the last one, on the strategy's clock */
  int64_t first_rows;   /* done before this run; -1: not known yet */
  shoal_progress progress;
  double since_loss, since_hits; /* sums over ... */
  int64_t since_examples;        /* ... so many examples since steps were last reported */
  shoal_tensor *best;            /* [best_count] with options->restore_best: the weights that validated best, or NULL */
  int best_count;
  double start, last_progress;
  int64_t run_examples, worker_examples, worker_steps;
  bool drained;       /* a server has to leave */
  int64_t batches;    /* taken by this worker, those included whose answer is on its way */
  int64_t lost_steps; /* undone because a server was lost */
  double eval_seconds, checkpoint_seconds;
  double network_seconds, barrier_seconds, server_seconds;
  int64_t staleness, staleness_steps; /* since the last progress */
  int64_t touched, exchanged;         /* rows of a table, summed over steps; bytes that went there and back */
  fit_inspect *inspect;               /* NULL: nobody wants to look */
  events *events;                     /* the session's timeline, or NULL */
  uint32_t labels;                    /* in it: the first of FIT_LABELS */
} fit_loop;

static inline bool is_chief(const fit_loop *l) { return l->strategy->worker == 0; }
/* How long an epoch is, is known: of data in memory, or of a stream whose rows were counted. */
static inline bool fit_counted(const fit_loop *l) { return l->usable > 0; }
/* Rows of the finished epochs, and of all. */
static inline int64_t fit_rows_before(const fit_loop *l) {
  return fit_counted(l) ? l->state.epoch * l->usable : l->state.examples;
}
static inline int64_t fit_rows_done(const fit_loop *l) { return fit_rows_before(l) + l->state.position; }

/* Refuses options that contradict each other. */
SHOAL_CHECKED shoal_status fit_check_options(const shoal_fit_options *o, bool has_data);
/* How the rows are cut into training and validation, batches, rounds and epochs. */
SHOAL_CHECKED shoal_status fit_cut(fit_loop *l);
SHOAL_CHECKED shoal_status fit_cut_stream(fit_loop *l);
/* The tower for the rows that will come, which must fit the model. */
SHOAL_CHECKED shoal_status fit_stream_tower(fit_loop *l);
/* The source of batches, and what the strategy is told. */
SHOAL_CHECKED shoal_status fit_make_source(fit_loop *l);
/* What the loop itself adds to a timeline, around what operators and messages add. */
enum { FIT_STEP, FIT_INPUT, FIT_EXCHANGE, FIT_SAVE, FIT_TEST, FIT_LABELS };
SHOAL_CHECKED shoal_status fit_trace_label(fit_loop *l);
static inline uint64_t fit_trace_now(const fit_loop *l) { return events_on(l->events) ? events_now() : 0; }
/* since: from fit_trace_now, before it began. */
static inline void fit_trace_add(const fit_loop *l, uint32_t what, uint64_t since) {
  if (__builtin_expect(since != 0, 0) && events_on(l->events))
    events_add(l->events, 0, l->labels + what, since, events_now(), 0);
}

/* For callbacks.on_inspect: made before the first step; from then on looks at the steps that are due. */
SHOAL_CHECKED shoal_status fit_inspect_create(fit_loop *l, fit_inspect **out);
void fit_inspect_destroy(fit_inspect *i);

/* What a checkpoint's place in the training depends on, then the caller's own words. */
SHOAL_CHECKED shoal_status fit_write_settings(fit_loop *l);

/* ---- parts of the loop */
void fit_note(const fit_loop *l, const char *line);
/* Fills l->progress as of now. */
void fit_set_progress(fit_loop *l);
/* Takes in the losses of a step: sums over `examples` rows. */
void fit_count_losses(fit_loop *l, int64_t examples, double loss, double hits);
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
/* For the strategy: back to the last checkpoint (strategy_setup.restore). context: the loop. */
SHOAL_CHECKED shoal_status fit_go_back(void *context, strategy_place *place);
/* For the strategy: the state says where a stream stands. context: the loop. */
void fit_describe(void *context);
/* The strategy has gathered what is saved: of a stream, where it stood then counts. */
SHOAL_CHECKED shoal_status fit_take_gathered(fit_loop *l);
/* The loop; fit_run.c. */
SHOAL_CHECKED shoal_status fit_run(fit_loop *l, bool *stopped);

#endif
