/** @file
 * Whole training jobs and what they leave behind: everything `shoal train`, `eval`, `predict` and `sweep` do.
 *
 *     shoal_job job;
 *     shoal_job_init(&job, sizeof job);
 *     job.model = "lenet";
 *     job.workers = 2;
 *     job.run_dir = "runs/first";
 *     shoal_run_report *report;
 *     shoal_run(&job, NULL, &report);      one parameter server, two workers, all of them processes of this machine
 *     printf("%.4f\n", report->test.accuracy);
 *     shoal_run_report_destroy(report);
 *
 * A job's settings are resolved once, by shoal_job_resolve: what is not said takes its default, and what contradicts is
 * SHOAL_ERR_ARGUMENT. Messages name settings in backticks, by their names here: `batch_size`. */
#ifndef SHOAL_RUN_H
#define SHOAL_RUN_H

#include "shoal/models.h"
#include "shoal/options.h"
#include "shoal/table.h"
#include "shoal/text.h"

#include <stddef.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings */
/** What a setting's field holds. */
typedef enum {
  SHOAL_SETTING_BOOL,   /**< bool */
  SHOAL_SETTING_INT,    /**< int64_t */
  SHOAL_SETTING_NUMBER, /**< double */
  SHOAL_SETTING_TEXT,   /**< const char *, borrowed */
  SHOAL_SETTING_CHOICE  /**< the same: one of `choices` */
} shoal_setting_kind;

/** What a shell can complete a value with. */
typedef enum { SHOAL_COMPLETE_NOTHING, SHOAL_COMPLETE_FILE, SHOAL_COMPLETE_DIRECTORY } shoal_setting_completion;

/** What is done with a setting; bits of shoal_setting.marks. */
enum {
  SHOAL_SETTING_KEPT = 1,   /**< goes to settings.json, from where a resumed run, eval and predict take it */
  SHOAL_SETTING_SHAPES = 2, /**< decides what is learned: a run is not resumed with another value */
  SHOAL_SETTING_HIDDEN = 4  /**< for the program itself, not for people */
};

/** A setting: one row of a table, from which flags, --help, settings.json and messages are made. */
typedef struct {
  const char *name;                    /**< with dashes, as a flag: "batch-size"; NULL ends a table */
  shoal_setting_kind kind;             /**< what its field holds */
  size_t offset;                       /**< of its field in the struct that the table is about */
  const char *value;                   /**< what stands for the value in --help: "N" */
  const char *help;                    /**< one sentence without a full stop */
  const char *standard;                /**< the default, in words; NULL: nothing worth saying */
  double least;                        /**< numbers: the smallest; both 0: any */
  double most;                         /**< numbers: the largest */
  const char *const *(*choices)(void); /**< SHOAL_SETTING_CHOICE: the names, ended by NULL */
  shoal_setting_completion complete;   /**< for shells */
  uint32_t marks;                      /**< SHOAL_SETTING_KEPT ... */
  const char *bare;                    /**< the value when the name stands alone; NULL: it needs one */
} shoal_setting;

/** The row of that name; dashes and underscores are the same. SHOAL_ERR_ARGUMENT: none, with the nearest. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_setting_find(const shoal_setting *table, const char *name,
                                                        const shoal_setting **out);
/** Sets the field of a row in `fields` from text, which is borrowed; a bool from "yes", "no" or NULL, which is yes.
 * SHOAL_ERR_ARGUMENT says what is expected. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_setting_set(const shoal_setting *row, const char *value, void *fields);

/** The settings of a training job. shoal_job_init makes all of them "not said"; texts are borrowed. */
typedef struct {
  size_t size;                 /**< of this struct as the program knows it: set by shoal_job_init */
  const char *model;           /**< one of shoal_model_kind_at, or a model file: "my.json" */
  const char *data;            /**< a data set by name, files, a folder, a glob */
  const char *test_data;       /**< rows to test on; NULL: the test rows in `data` */
  const char *format;          /**< of the files; NULL: found out */
  const char *columns;         /**< csv: which column is what */
  const char *fields;          /**< tfrecord: names of the features to read */
  const char *transform;       /**< done to each row */
  const char *on_bad_row;      /**< "stop", "skip" */
  const char *input;           /**< of an example as the model takes it; NULL: as in the data, or the model's own */
  int64_t classes;             /**< 0: found from the data */
  int64_t features;            /**< sparse rows; 0: found from the data */
  int64_t memory_limit;        /**< MB; data that takes more is streamed. 0: 1024 */
  int64_t shuffle_rows;        /**< of a stream; below 0: 10000 */
  bool stream;                 /**< read the files while training */
  int64_t epochs;              /**< 0: the model's own, unless `steps` */
  int64_t steps;               /**< 0: by epochs */
  int64_t batch_size;          /**< of each worker; 0: the model's own */
  int64_t eval_every;          /**< rows between two tests, of sparse rows; 0: at the end */
  double lr;                   /**< learning rate; NaN: the model's own, or the optimizer's usual one */
  const char *optimizer;       /**< NULL: the model's own */
  double momentum;             /**< 0: the optimizer's usual one */
  bool nesterov;               /**< of momentum */
  const char *schedule;        /**< NULL: the model's own */
  double decay_factor;         /**< staircase, exponential; 0: the model's own */
  int64_t decay_every;         /**< steps; 0: an epoch, cosine: the whole run */
  double final_lr;             /**< cosine; NaN: the model's own */
  const char *pieces;          /**< piecewise: "1000:0.05,2000:0.01" */
  int64_t warmup;              /**< steps */
  bool scale_lr;               /**< multiply the rate by the workers */
  double l1;                   /**< ftrl */
  double l2;                   /**< weight of the squared weights; NaN: the model's own */
  double bias_rate;            /**< rate of biases as a multiple of lr; NaN: the model's own */
  bool bias;                   /**< models that go without one: add one */
  const char *activation;      /**< of the hidden layers; NULL: the model's own */
  const char *pool;            /**< NULL: the model's own */
  const char *loss;            /**< as in shoal_compile_options; NULL: the model's own */
  int64_t seed;                /**< below 0: 1 */
  int64_t threads;             /**< of each worker; 0: one a processor */
  const char *kernels;         /**< as in shoal_session_options */
  bool no_fusion;              /**< as in shoal_session_options */
  double validation_split;     /**< share of the training rows held out */
  const char *validation_data; /**< or rows of their own to validate on after each epoch */
  int64_t patience;            /**< epochs without a better validation loss; 0: never stops early */
  int64_t top_k;               /**< also report top-k accuracy; 0: the model's own */
  const char *strategy;        /**< "single", "mirrored", "allreduce", "ps"; NULL: by workers and servers */
  int64_t workers;             /**< 0: 1 */
  int64_t ps;                  /**< parameter servers; 0: 1 with the strategy ps */
  double rate_scale;           /**< what scale_lr came to when the run began; 0: not yet */
  int64_t global_batch;        /**< of all workers, where the strategy cuts it among them; 0: batch_size times them */
  bool deterministic;          /**< the same bits on any number of workers, servers and threads */
  const char *wire;            /**< allreduce, ps: "f32", "bf16", "fp16", "int8", "topk" */
  int64_t check_replicas;      /**< allreduce: steps between two comparisons of the ranks; 0: 100 */
  const char *mode;            /**< ps: "sync", "async"; NULL: sync */
  int64_t staleness;           /**< async: steps a worker may be ahead; -1: any number; below: not said */
  int64_t in_flight;           /**< async: gradients without an answer; 0: 1 */
  const char *transport;       /**< ps: "auto", "shm", "tls", "zmq" */
  const char *transfer;        /**< ps, sparse rows: "sparse", "dense" */
  double deadline;             /**< seconds a task waits for another; 0: 60 */
  double heartbeat;            /**< seconds; 0: 5 */
  int64_t backup_workers;      /**< sync: gradients a step can do without */
  int64_t max_restarts; /**< of a task that was killed; in a cluster that was described, above 0: one whose connection
                                * is lost is waited for, for `deadline`. Below 0: 3 */
  const char *cluster;  /**< file that describes the cluster; NULL: TF_CONFIG or Slurm, if there */
  const char *keys;     /**< folder of the cluster's keys */
  bool insecure;        /**< talk to other hosts without keys */
  bool evaluator;       /**< ps: one more process tests each checkpoint */
  bool follow_logs;     /**< ps: on_log hears what local tasks write to their logs */
  const char *task;     /**< which task of the cluster this is: "worker:1" */
  const char *job_file; /**< of a process that a local cluster has started */
  const char *run_dir;  /**< folder of the run; NULL: runs/MODEL-DATE-TIME */
  bool resume;          /**< continue the run there, with its settings */
  int64_t checkpoint_every; /**< steps; 0: an epoch */
  int64_t keep;             /**< checkpoints; 0: 3 */
  bool no_checkpoints;      /**< save none */
  bool quiet;               /**< no notes on the data */
  int64_t log_every;        /**< steps between two lines in metrics.jsonl; 0: about four a second */
  int64_t histograms;       /**< steps; 0: never */
  int64_t trace;            /**< steps to record a timeline of; 0: none */
  double sample_every;      /**< seconds between two samples of the machine; 0: 1 */
  double label_smoothing;   /**< as in shoal_compile_options */
  double weight_decay;      /**< as in shoal_optimizer_options, also the next four; NaN: the optimizer's usual one */
  double average;           /**< of weights; 0: none */
  double clip_value;        /**< 0: none */
  double clip_norm;         /**< 0: none */
  double clip_global_norm;  /**< 0: none */
  const char *class_weight; /**< "balanced", or what a row counts by its class: "1,2.5"; NULL: all the same */
  const char *set;          /**< of a model file: values of its parameters, "hidden=128,activation=tanh" */
  int64_t replicas;         /**< ps: backups of each parameter server, 0 or 1 */
  int64_t metrics_port;     /**< each task serves /metrics, /healthz and /readyz there; tasks that this process starts
                             * on one machine count on from it, servers first. 0: none does */
  const char *metrics_address; /**< of the machine, for that; NULL: 127.0.0.1. Others than loopback need a token in
                                * the environment variable SHOAL_METRICS_TOKEN */
  double beta1;                /**< as in shoal_optimizer_options, also the next two; 0: the optimizer's usual one */
  double beta2;                /**< ... */
  double epsilon;              /**< ... */
  double rho;                  /**< decay in shoal_optimizer_options: of rmsprop */
  const char
      *weights; /**< to begin with: a run, its weights, or a model.keras; NULL: random, or those of the model's file */
  double drain; /**< seconds for leaving in order when `stop` is set: a parameter server goes on that long and has
                         * worker 0 save a checkpoint and end the job. 0: it ends at once. The command then ends with 0
                         * after SIGTERM */
  int64_t retry_status; /**< exit status of the command where a new try may end well: a task or the machine failed, not
                         * the settings, the data or the loss; with `drain`, also where the job has ended before its end.
                         * 0: 1, as of all failures */
  const char *on_end;   /**< a command of the shell that the command `shoal train` runs when the job has ended; programs
                       * call shoal_run_end_hook (shoal/jobs.h) */
  const char *sink; /**< services that worker 0 sends its lines of metrics.jsonl to, separated by commas: "mlflow:DIR",
                       * "mlflow:http://HOST:PORT", "otlp:http://HOST:PORT"; without a target as MLFLOW_TRACKING_URI or
                       * OTEL_EXPORTER_OTLP_ENDPOINT says */
  bool json;        /**< the command `shoal train` prints summary.json in place of tables and progress */
  int64_t accumulate; /**< batches whose mean gradient makes an update, as in shoal_fit_options; 0: 1 */
  double accumulator; /**< as in shoal_optimizer_options; 0: the optimizer's usual one */
  const char *
      compress; /**< allreduce, ps: "none", allreduce: "powersgd", or "auto", which measures the network and chooses, also among
                          * the formats of `wire`; NULL: none */
  int64_t compress_rank; /**< of PowerSGD; 0: 4 */
  int64_t local_steps;   /**< allreduce, ps: steps that each worker makes by itself between two exchanges; 0: 1 */
  double outer_lr; /**< with local_steps: rate of the update that an exchange makes; NaN: 1, with outer_momentum 0.7;
                    * ps, async: divided by the number of workers */
  double outer_momentum;  /**< the same: its Nesterov momentum; NaN: 0 */
  int64_t server_threads; /**< ps: of each server, to add up and update; 0: one a processor where it holds 4 million
                           * parameters or more, otherwise 1 */
  const char
      *report; /**< HTML file that shows the run, as `shoal report` makes it, written when it has ended; NULL: none */
  bool growing_ids;        /**< sparse rows: as in shoal_compile_options, also the next three */
  int64_t ids_memory;      /**< MB; 0: as many as it takes */
  int64_t admit;           /**< batches; 0: 1 */
  int64_t evict_after;     /**< steps; 0: never */
  int64_t cache_rows;      /**< ps, sparse rows: as in shoal_ps_options, also the next */
  int64_t cache_staleness; /**< ... */
} shoal_job;

/** Nothing is said. size: sizeof *job, so that programs go on with later versions, whose jobs have more settings. Every
 * job begins so: zero is not "not said" in every field, and a job without it is refused. */
SHOAL_API void shoal_job_init(shoal_job *job, size_t size);
/** The rows of all settings, ended by one without a name. */
SHOAL_API const shoal_setting *shoal_job_settings(void);
/** Sets one by its name ("batch-size" or "batch_size") from text, which is borrowed. SHOAL_ERR_ARGUMENT: no such
 * setting, with the nearest; or no such value, with what is expected. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_job_set(shoal_job *job, const char *name, const char *value);
/** *out: the job with everything filled in that is not said, once it is known that its settings go together. For
 * looking at: shoal_run takes the job as it was said. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_job_resolve(const shoal_job *job, shoal_job *out);

/* ---- what a run came to */
/** What a machine was used for while a run went on, by whomever. */
typedef struct {
  bool known;                     /**< the machine was sampled */
  int cores;                      /**< processors */
  int64_t memory_bytes;           /**< of the machine */
  double cpu_percent_mean;        /**< of all processors together, 0 to 100 */
  double cpu_percent_peak;        /**< the same */
  int64_t memory_used_mean_bytes; /**< ... */
  int64_t memory_used_peak_bytes; /**< ... */
  int64_t net_sent_bytes;         /**< all interfaces but loopback */
  int64_t net_received_bytes;     /**< the same */
  int64_t disk_read_bytes;        /**< by the storage */
  int64_t disk_written_bytes;     /**< the same */
} shoal_host_usage;

/** What a process used, from start to end. */
typedef struct {
  int samples;                /**< that were taken */
  double cpu_percent_mean;    /**< 100: one processor kept busy */
  double cpu_percent_peak;    /**< the same */
  double cpu_user_seconds;    /**< ... */
  double cpu_system_seconds;  /**< ... */
  int64_t rss_peak_bytes;     /**< memory, of the process's whole life */
  int64_t rss_mean_bytes;     /**< memory */
  int64_t disk_read_bytes;    /**< by the storage, not the page cache; of the process's whole life */
  int64_t disk_written_bytes; /**< the same */
  shoal_host_usage host;      /**< its machine, if it sampled that */
} shoal_usage;

/** What a parameter server has counted for one worker. */
typedef struct {
  int64_t gradients;  /**< used */
  int64_t examples;   /**< they were made of */
  int64_t late;       /**< gradients that came too late and were dropped */
  int64_t joins;      /**< times it joined */
  int64_t late_joins; /**< of them, when training was under way */
  int64_t deaths;     /**< times it was lost */
} shoal_worker_counts;

/** Length of a task's name with its end. */
#define SHOAL_TASK_NAME 32
/** Length of a host's name with its end. */
#define SHOAL_HOST_NAME 256

/** One process of a run. */
typedef struct {
  char role[12];                /**< "worker", "ps", "evaluator" */
  int index;                    /**< in its role */
  char name[SHOAL_TASK_NAME];   /**< what users call it: "worker/0", "chief/0" */
  char host[SHOAL_HOST_NAME];   /**< where it ran */
  int pid;                      /**< of the process */
  double seconds;               /**< in training */
  shoal_usage use;              /**< of the machine */
  int64_t net_sent_bytes;       /**< to other tasks of the run */
  int64_t net_received_bytes;   /**< from them */
  int threads;                  /**< worker: to compute with; 0: not known */
  int64_t steps;                /**< worker: of its own; below 0: it is none */
  int64_t examples;             /**< worker */
  shoal_times times;            /**< worker: where the time went */
  double test_accuracy;         /**< worker: NaN: not measured */
  double test_rmse;             /**< worker, of a regression: the same */
  double test_r2;               /**< worker, of a regression: the same */
  int64_t touched_rows;         /**< worker: of sparse features, summed over its steps; 0: not of sparse rows */
  int64_t exchanged_bytes;      /**< worker, then: to and from servers in steps */
  int64_t updates;              /**< server; below 0: it is none */
  double busy_seconds;          /**< server: at work, in `seconds` */
  shoal_worker_counts *counts;  /**< server: [counted] for each worker */
  int counted;                  /**< of `counts` */
  int64_t handed_on_rows;       /**< server 0: of lost workers, given to others */
  int64_t uneven_updates;       /**< server, deterministic: made of other rows than one process would */
  int64_t refused_messages;     /**< server */
  double staleness_mean;        /**< server: updates between a gradient's parameters and its use */
  int64_t staleness_max;        /**< server: the same */
  int64_t staleness_ahead;      /**< server: steps that the fastest worker was ahead of the slowest */
  int64_t *staleness_histogram; /**< server: [staleness_bins] gradients of that staleness */
  int staleness_bins;           /**< of the histogram */
  int64_t evaluations;          /**< evaluator: checkpoints tested; below 0: it is none */
  double evaluation_seconds;    /**< evaluator: spent on them */
  double last_loss;             /**< evaluator: of the last; NaN: none */
  double last_accuracy;         /**< evaluator: of the last; NaN: none */
  double last_rmse;             /**< evaluator, of a regression: the same */
  int64_t asked_rows;           /**< server with a table: rows of features that workers asked for, to train on */
  double hot_share;             /**< server, then: of the 256 rows that were asked for most often, of a sample */
  int64_t reserved[6];          /**< 0 */
} shoal_task_report;

/** A worker that left or came while others trained, a server whose backup took over, or another number of servers. */
typedef struct {
  char task[SHOAL_TASK_NAME]; /**< what users call it */
  char event[12];             /**< "left", "joined", "rejoined"; of a server: "replaced"; of all: "scaled" */
  char reason
      [24]; /**< "no heartbeat", "connection closed", "damaged message" ...; "1 to 3" servers; "": it did not leave */
  int64_t step;           /**< when */
  int64_t handed_on_rows; /**< its rows that others took over */
  double time;            /**< seconds since 1970 */
  double pause_seconds;   /**< of a server: from its last sign of life until its backup served; of another number
                               * of them: between the last update before it and the first one after it */
  int64_t reserved[1];    /**< 0 */
} shoal_membership_event;

/** Length of a sentence of a verdict with its end. */
#define SHOAL_VERDICT_TEXT 320
/** Warnings a verdict has room for. */
#define SHOAL_VERDICT_WARNINGS 16

/** Something a careful colleague would point out. */
typedef struct {
  const char *kind;              /**< "slow_task" ...: docs/run-folder.md */
  char task[SHOAL_TASK_NAME];    /**< "": none */
  char text[SHOAL_VERDICT_TEXT]; /**< a sentence */
} shoal_verdict_warning;

/** Where the time of a run went, what held it up, and what one more worker would bring. */
typedef struct {
  int cause;                                              /**< see shoal_verdict_cause_name */
  char text[SHOAL_VERDICT_TEXT];                          /**< a sentence */
  double compute;                                         /**< share of the workers' time */
  double network;                                         /**< the same */
  double barrier;                                         /**< the same */
  double server;                                          /**< the same */
  double input;                                           /**< the same */
  bool has_next;                                          /**< there is a forecast for one more worker */
  double next_examples_per_second;                        /**< with it */
  double speedup;                                         /**< of it */
  char next_text[SHOAL_VERDICT_TEXT];                     /**< without has_next: why there is no forecast, or "" */
  shoal_verdict_warning warnings[SHOAL_VERDICT_WARNINGS]; /**< what else to say */
  int n_warnings;                                         /**< of them */
} shoal_verdict;

/** "computing", "network", ... */
SHOAL_API const char *shoal_verdict_cause_name(int cause);

/** How classes were taken for each other on the test rows. */
typedef struct {
  int classes;     /**< of the model */
  int64_t *counts; /**< [classes, classes] rows of class i that were taken for class j; NULL: not counted */
} shoal_confusion;

/** What a run came to. Everything in it lives until shoal_run_report_destroy. */
typedef struct {
  shoal_job job;                            /**< its settings, resolved */
  const char *run_dir;                      /**< its folder */
  const char *trace;                        /**< the timeline's file; NULL: none */
  const char *status;                       /**< "finished", "stopped early", "interrupted", "failed" */
  const char *error;                        /**< why it failed; NULL: it did not */
  time_t started;                           /**< when */
  int threads;                              /**< of each worker */
  int64_t parameters;                       /**< of the model */
  int64_t global_batch;                     /**< rows of an update */
  double effective_rate;                    /**< the learning rate after scaling */
  double final_rate;                        /**< of the last step */
  double startup_seconds;                   /**< before the first step */
  double total_seconds;                     /**< all */
  shoal_fit_result fit;                     /**< of the training */
  shoal_evaluation test;                    /**< on the test rows; NaN where not measured */
  shoal_confusion confusion;                /**< on the test rows */
  const char *const *class_names;           /**< NULL: classes are numbers */
  const shoal_task_report *tasks;           /**< [n_tasks] servers first, then workers */
  int n_tasks;                              /**< of them; a process alone has one */
  const shoal_membership_event *membership; /**< [n_membership] in order */
  int n_membership;                         /**< of them */
  int restarts;                             /**< of tasks of a local cluster */
  int final_workers;                        /**< that delivered a result */
  bool has_chief;                           /**< users call worker 0 chief/0, worker 1 worker/0, ... */
  bool trained;                             /**< training came to its end, whatever happened then */
  bool reports;                             /**< this process has the result; of other tasks all above is their own */
  shoal_verdict verdict;                    /**< on all that */
} shoal_run_report;

/** The task of that role and number; NULL: it delivered nothing. */
SHOAL_API const shoal_task_report *shoal_run_report_task(const shoal_run_report *r, const char *role, int index);
/** Gradients of that worker that every server has used; without servers, its steps. */
SHOAL_API int64_t shoal_run_report_gradients(const shoal_run_report *r, int worker);
/** What users call that worker; returns `out`. */
SHOAL_API const char *shoal_run_report_worker_name(const shoal_run_report *r, int worker, char out[SHOAL_TASK_NAME]);
/** Sum over the workers of one of server 0's counts: offset is that of a member of shoal_worker_counts. */
SHOAL_API int64_t shoal_run_report_count(const shoal_run_report *r, size_t offset);
/** What a step of a worker exchanges with the servers of sparse features: means over all steps. */
typedef struct {
  double touched_features; /**< by its batch */
  double step_bytes;       /**< to and from the servers */
  double whole_step_bytes; /**< if all weights went each way */
} shoal_exchange;
/** False: nothing of that kind was exchanged. */
SHOAL_API bool shoal_run_report_exchange(const shoal_run_report *r, shoal_exchange *out);
/** The result for people, one row. *out: the caller's to destroy, as of the next. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_report_table(const shoal_run_report *r, shoal_result_table **out);
/** Its tasks for people: what each has done and used. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_report_task_table(const shoal_run_report *r, shoal_result_table **out);
/** What summary.json has of it. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_report_json(const shoal_run_report *r, char **out);
/** Adds what is worth saying besides the figures, a sentence a line: who was lost or came late, scores, bytes exchanged,
 * rows left out. Settings are named in `backticks`. */
SHOAL_API void shoal_run_report_notes(const shoal_run_report *r, shoal_text *out);
/** Frees it with all in it. NULL is fine. */
SHOAL_API void shoal_run_report_destroy(shoal_run_report *r);

/* ---- running a job */
/** What is known when training begins. */
typedef struct {
  const shoal_job *job; /**< resolved */
  int64_t parameters;   /**< of the model */
  int threads;          /**< of each worker */
  int64_t rows;         /**< to train on; 0: streamed, not counted */
  bool late_gradients;  /**< gradients come late, and the rate is as high as for gradients that do not */
} shoal_run_ready;

/** Who hears how a run goes. Called by the thread that called shoal_run; NULL: nobody. */
typedef struct {
  void *context;                                                 /**< handed to each of them */
  void (*on_ready)(void *context, const shoal_run_ready *ready); /**< training begins */
  void (*on_step)(void *context, const shoal_progress *p);       /**< now and then */
  void (*on_epoch)(void *context, const shoal_progress *p);      /**< after each epoch */
  void (*on_test)(void *context, int64_t rows, const shoal_progress *p,
                  const shoal_evaluation *e);                        /**< a test on the way, after so many rows */
  void (*on_note)(void *context, const char *line);                  /**< a line for people */
  void (*on_log)(void *context, const char *task, const char *line); /**< `follow_logs`: a line of a task's log */
  /** This process is a rank of MPI that fails: it is about to be ended with all others. The exit status to end with. */
  int (*on_abort)(void *context, const struct shoal_error *why);
  void (*on_ranks_end)(void *context, int exit_status); /**< of ranks that shoal_run has started through mpirun */
  void (*reserved[4])(void);                            /**< NULL */
} shoal_run_listener;

/** How a job is run; NULL and zero in every field is the usual. */
typedef struct {
  size_t size;                  /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const int *stop;              /**< the run stops cleanly, with a checkpoint, once *stop is not 0 */
  shoal_run_listener listener;  /**< who hears of it */
  const shoal_model_kind *kind; /**< a model of the program's own in place of job->model; strategies single and
                                 * mirrored, and others under a launcher that starts this program everywhere */
  const char *program; /**< what tasks of a local cluster run: a program that does as `shoal` does, with `train` and
                        * its flags. NULL: "shoal", looked for as a shell does */
} shoal_run_options;

/** Whether this process is the one that people watch; false of ranks other than the first, and of processes that
 * shoal_run has started. Before shoal_run. */
SHOAL_API bool shoal_run_speaks(const shoal_job *job);
/** Runs a job to its end: loads the data, trains, tests, saves, and leaves a run folder. Alone, with local processes, or
 * as one task of a cluster that TF_CONFIG, Slurm, mpirun or job->cluster describes. On failure the folder says why.
 * SHOAL_ERR_CANCELLED: it was stopped before training began. SHOAL_ERR_REPORTED: another process of the job failed and
 * has said why. *out: the caller's to destroy, after a failure, too: it then says how far it came; NULL: there is none.
 * Not thread-safe for one
 * folder: two runs at once need two. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run(const shoal_job *job, const shoal_run_options *options,
                                               shoal_run_report **out);

/** Asks the job that runs in that folder, whose tasks are processes of this machine, to go on with so many parameter servers.
 * New ones are started and, between two updates, given all that the old ones hold: no update is lost. Waits for up to
 * `seconds` until the job has taken the request; what becomes of it the job says itself. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_scale(const char *run_dir, int64_t servers, double seconds);
/** The same for the workers of an all-reduce without MPI: more are started, or some leave, between two steps. A step has as
 * many rows as before. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_scale_workers(const char *run_dir, int64_t workers, double seconds);

/* ---- trained models */
/** A model made again from what its run left: a run's folder, or a file of weights. */
typedef struct shoal_trained shoal_trained;

/** What is to be otherwise than the run's settings say; NULL and 0: nothing. */
typedef struct {
  size_t size;                  /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *model;            /**< which model it is, when the file lies outside a run */
  const char *data;             /**< other rows than the run's */
  const char *format;           /**< of these files */
  const char *columns;          /**< of these files */
  const char *activation;       /**< of a file outside a run */
  const char *pool;             /**< the same */
  const char *kernels;          /**< as in shoal_session_options */
  int64_t threads;              /**< as in shoal_session_options */
  int64_t top_k;                /**< also report top-k accuracy */
  const shoal_model_kind *kind; /**< a model of the program's own, as in shoal_run_options */
} shoal_trained_options;

/** target: a run's folder (its final weights or, while it is not finished, its newest checkpoint) or a safetensors
 * file. options may be NULL; its texts must outlive the model. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trained_open(const char *target, const shoal_trained_options *options,
                                                        shoal_trained **out);
/** NULL is fine. */
SHOAL_API void shoal_trained_close(shoal_trained *t);
/** Borrowed, as all below. */
SHOAL_API shoal_model *shoal_trained_model(shoal_trained *t);
/** The run's settings. */
SHOAL_API const shoal_job *shoal_trained_job(const shoal_trained *t);
/** Path of the file that was loaded. */
SHOAL_API const char *shoal_trained_weights(const shoal_trained *t);

/** How well a trained model does. */
typedef struct {
  shoal_evaluation scores;   /**< loss, accuracy ... */
  shoal_confusion confusion; /**< freed by shoal_test_result_free; counts NULL: not counted */
  const char *split;         /**< which rows: "test", "train", or "all" of what options->data names */
} shoal_test_result;

/** On rows of options->data, or of the run. split: "test", "train"; NULL: its test rows or, where options->data has no
 * parts, all of it. confusion: count also of more than 20 classes how they are taken for each other. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trained_evaluate(shoal_trained *t, const char *split, bool confusion,
                                                            shoal_test_result *out);
/** All of it as one JSON object. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_test_result_json(shoal_trained *t, const shoal_test_result *r, char **out);
/** Its scores for people, one row. *out: the caller's to destroy, as of the next. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_test_result_table(shoal_trained *t, const shoal_test_result *r,
                                                             shoal_result_table **out);
/** A row a class: what its rows were taken for, and the share that was right. names: of the classes; NULL: numbers. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_confusion_table(const shoal_confusion *c, const char *const *names,
                                                           shoal_result_table **out);
/** Frees what it owns. */
SHOAL_API void shoal_test_result_free(shoal_test_result *r);

/** What a model sees in a row. */
typedef struct {
  const char *input;   /**< the picture's path; FILE:ROW or ROW otherwise */
  int64_t row;         /**< its number; of a picture 0 */
  int64_t label;       /**< its class; below 0: it has none */
  double target;       /**< of a regression: what is known of it; NaN: nothing */
  const float *values; /**< [count] class probabilities; of sparse rows that of class 1; of a regression
                         * the numbers */
  int count;           /**< of them */
} shoal_prediction;

/** The most probable class. */
SHOAL_API int shoal_prediction_class(const shoal_prediction *p);
/** As JSON in one line: an object or, of sparse rows, the probability alone. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_prediction_json(shoal_trained *t, const shoal_prediction *p, char **out);

/** Called for each row in order. */
typedef shoal_status (*shoal_prediction_taker)(void *context, const shoal_prediction *p);
/** A file that predictions are written to. */
typedef struct shoal_prediction_file shoal_prediction_file;
/** By its ending: .csv (input, label, class, its probability, then the probability of each class by its name; or the numbers of a
 * regression), .jsonl (an object a line, as shoal_prediction_json), .npy (f32 [rows, shoal_model_outputs]). It is there under its name
 * once it is closed. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_prediction_file_open(shoal_trained *t, const char *path,
                                                                shoal_prediction_file **out);
/** A shoal_prediction_taker, whose context is the file. */
SHOAL_API shoal_status shoal_prediction_file_take(void *file, const shoal_prediction *p);
/** keep: false: nothing is left of it. NULL is fine. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_prediction_file_close(shoal_prediction_file *f, bool keep);

/** Of files: pictures (PNG, JPEG, raw bytes) or files of rows, which need no labels. n 0: options->data, or the run's
 * rows. unknown_entries: values of sparse rows whose index the model does not know, which are left out; may be NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trained_predict(shoal_trained *t, const char *const *files, int n,
                                                           const char *split, shoal_prediction_taker take,
                                                           void *context, int64_t *unknown_entries);
/** Of rows first to last of the data that shoal_trained_evaluate tests on. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trained_predict_range(shoal_trained *t, const char *split, int64_t first,
                                                                 int64_t last, shoal_prediction_taker take,
                                                                 void *context);

/* ---- several runs */
/** A run as a process of its own, as each run of a sweep is: it dies with this process, and what it prints goes to a
 * log. */
typedef struct {
  size_t size;             /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *program;     /**< as in shoal_run_options */
  const char *const *argv; /**< ended by NULL, the program's name first: "shoal", "train", "lenet", ... */
  const char *name;        /**< for messages */
  const char *log;         /**< path */
  const int *stop;         /**< once *stop is not 0 the process is asked to stop (SIGTERM); may be NULL */
  double stop_seconds;     /**< for that: afterwards it is ended; 0: 40 */
  void *context;           /**< for on_tick */
  void (*on_tick)(void *context); /**< about ten times a second; may be NULL */
} shoal_process;

/** Runs it to its end. *status: as from waitpid. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_process_run(const shoal_process *p, int *status);

/** A name for a folder that is not taken: runs/MODEL-YYYYmmdd-HHMMSS. The caller frees it; NULL: no memory. */
SHOAL_API char *shoal_run_dir_name(const char *model);
/** Whether the folder holds a run, finished or not. */
SHOAL_API bool shoal_run_dir_used(const char *path);
/** Takes away the settings, the summary, the metrics and the weights of a run, so that it can begin anew. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_dir_clear(const char *path);
/** Whether a setting means something to the strategy, e.g. "staleness" to "single". */
SHOAL_API bool shoal_job_setting_suits(const char *name, const char *strategy, const shoal_model_kind *kind);

#ifdef __cplusplus
}
#endif
#endif
