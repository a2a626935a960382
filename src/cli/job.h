/* The settings of a training job: the flags of `shoal train`, and the model they describe. */
#ifndef SHOAL_CLI_JOB_H
#define SHOAL_CLI_JOB_H

#include "cli/confusion.h"
#include "cli/flags.h"
#include "shoal/models.h"

#include <math.h>

typedef struct {
  const char *data, *test_data;
  const char *format, *columns, *fields, *transform, *on_bad_row;
  const char *input; /* NULL: the model's own */
  int64_t classes, features, memory_limit, shuffle_rows; /* memory_limit: MB; shuffle_rows: below 0: not said */
  bool stream;
  int64_t epochs, steps, batch_size, eval_every;
  double lr;
  const char *optimizer;
  double momentum;
  bool nesterov;
  const char *schedule;
  double decay_factor;
  int64_t decay_every;
  double final_lr;
  const char *pieces;
  int64_t warmup;
  bool scale_lr;
  double l1, l2, bias_rate;
  bool bias;
  const char *activation, *pool, *loss;
  int64_t seed, threads;
  const char *kernels;
  bool no_fusion;
  double validation_split;
  int64_t patience, top_k;
  const char *strategy;
  int64_t workers, ps;
  double rate_scale;
  int64_t global_batch; /* 0, with strategies that do not cut it among their workers */
  bool deterministic;
  const char *wire;
  int64_t check_replicas;
  const char *mode;
  int64_t staleness; /* below 0: no bound */
  int64_t in_flight; /* 0: not said */
  const char *transport, *transfer;
  double deadline, heartbeat; /* seconds */
  int64_t backup_workers;
  int64_t max_restarts; /* below 0: not said */
  const char *cluster, *keys;
  bool insecure, evaluator, follow_logs;
  const char *task, *job; /* of a process that is a task of a cluster */
  const char *run_dir;
  bool resume;
  int64_t checkpoint_every, keep;
  bool no_checkpoints, quiet;
  int64_t log_every, histograms, trace; /* steps; 0: by time, never, never */
  double sample_every;                  /* seconds */
} job_flags;

/* Before the command line and settings are read. */
#define JOB_FLAGS_NONE_GIVEN                                                                                   \
  ((job_flags){.lr = NAN, .l2 = NAN, .bias_rate = NAN, .seed = 1, .staleness = -1, .max_restarts = -1, \
               .shuffle_rows = -1})

#define WORKERS_MOST 1024
#define SERVERS_MOST 256

extern const flag_row job_table[];

/* Once filled: is it more than one process? Do its workers step together? Rows that go into one update. */
bool job_is_cluster(const job_flags *f);
/* The strategies allreduce, and mirrored. */
bool job_is_ranks(const job_flags *f);
bool job_is_mirrored(const job_flags *f);
bool job_is_together(const job_flags *f);
int64_t job_global_batch(const job_flags *f);
/* Gradients come late and the rate, not below the model's own, stays up to the end: the weights are left wherever the
 * last gradients threw them. Of softmax at 0.5, 91.0 to 92.4 % after the same training, six seeds; with a falling rate
 * 92.5 to 92.6. */
bool job_rate_is_rough(const job_flags *f, const shoal_model_kind *kind);
/* The weights are a table on servers, of which workers see what their batches touch. */
bool job_has_table(const job_flags *f, const shoal_model_kind *kind);
/* What --scale-lr multiplies rates by: as many workers as go into one update. */
double job_rate_scale(const job_flags *f);

/* Choices that other commands' flags share. */
const char *const *job_kernel_names(void);
const char *const *job_activation_names(void);
const char *const *job_pool_names(void);

/* The model kind called `name`; otherwise SHOAL_ERR_ARGUMENT with the nearest. */
SHOAL_CHECKED shoal_status job_find_kind(const char *name, const shoal_model_kind **out);
/* Fills what neither the command line nor the settings of a resumed run said. */
void job_fill(job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind);
/* Whether a flag means something to the strategy. */
bool job_flag_suits(const char *flag, const char *strategy, const shoal_model_kind *kind);
/* Flags that contradict each other. */
SHOAL_CHECKED shoal_status job_check(const job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind);
/* It predicts numbers, instead of telling classes apart. */
bool job_is_regression(const shoal_model_kind *kind);
/* One example, as the model takes it; f->input has been checked. */
shoal_shape job_input(const job_flags *f, const shoal_model_kind *kind);
/* The layers, not compiled yet. classes: of the data. */
SHOAL_CHECKED shoal_status job_build(const shoal_model_kind *kind, const job_flags *f, int classes, shoal_model **out);

/* What training rows taught, to be used for all others. Borrowed. */
typedef struct {
  const char *const *class_names; /* NULL: found in the data */
  const char *preprocessing;      /* NULL: learned from the data */
} job_learned;
job_learned job_learned_of(const shoal_model *m);

/* Where a job's rows come from. */
typedef struct {
  shoal_dataset *data;           /* in memory; or NULL, and then they are streamed: */
  shoal_pipeline_options stream; /* its texts live as long as this */
  char *files, *transform;       /* owned, or NULL */
  const char *const *class_names; /* owned; NULL: classes are numbers */
  char *preprocessing;            /* owned; NULL: there is none */
  int classes;       /* 0: labels are numbers to be predicted */
  bool targets;      /* they are */
  shoal_shape input; /* of an example, as the model is to take it */
  bool follows;      /* then the model's own shape gives way to that of the rows, where its layers allow it */
} job_rows;

/* Which rows, and what for. */
typedef struct {
  const char *split;              /* "train", "test" */
  job_learned known;              /* what the training rows taught */
  bool follows;                   /* they are trained on: the model's input follows them, unless f->input is said */
  bool may_stream;                /* rows that are too large for memory, or with --stream, are not loaded */
  bool scored;                    /* by a trained model: entries of sparse rows that it does not know are left out */
  bool labels_optional;           /* a row without a label has -1; they are not loaded either */
} job_rows_options;

/* Finds the rows of a split and, unless they are to be streamed, loads them. Images are made to fit the model. */
SHOAL_CHECKED shoal_status job_open_rows(const job_flags *f, const shoal_model_kind *kind,
                                         const job_rows_options *options, job_rows *out);
void job_close_rows(job_rows *rows);
/* Sparse rows: how many features there are when nobody said: one more than the largest index in both files. The click
 * log, and TFRecord files whose indices go beyond a million, have the model's own number. test: may have no files. */
SHOAL_CHECKED shoal_status job_find_features(const shoal_model_kind *kind, const job_rows *train, const job_rows *test,
                                             int64_t *out);
/* On all rows, in memory or streamed. counts (may be NULL): also how classes are taken for each other, where it was
 * begun. */
SHOAL_CHECKED shoal_status job_evaluate(shoal_model *m, const job_rows *rows, confusion *counts,
                                        shoal_evaluation *out);
/* Has the data rows of this split? */
bool job_has_split(const job_flags *f, const char *split);

/* "--pieces 1000:0.05,2000:0.01". */
#define PIECES_MOST 32
typedef struct {
  int64_t boundaries[PIECES_MOST];
  double rates[PIECES_MOST];
  int count;
} job_pieces;
SHOAL_CHECKED shoal_status job_read_pieces(const char *words, job_pieces *out);

#endif
