/** @file
 * Jobs that run and the runs that others have left below a folder: everything `shoal ps`, `status`, `stop`, `tail` and
 * `clean` do.
 *
 *     shoal_runs *runs;
 *     shoal_runs_read("runs", &runs);
 *     for (size_t i = 0; i < runs->count; i++) printf("%s %s\n", runs->runs[i].name, runs->runs[i].state);
 *     shoal_runs_destroy(runs);
 *
 * A job runs in a folder while its process holds the folder's lock; who that is is said in the file `lock`. Any thread. */
#ifndef SHOAL_JOBS_H
#define SHOAL_JOBS_H

#include "shoal/run.h"
#include "shoal/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is */
/** How a run stands. Texts are never NULL unless said; numbers that are not known are NaN or below 0. */
typedef struct {
  const char *path;           /**< of its folder */
  const char *name;           /**< below the folder that was looked through: "lenet-1", "sweep/workers=2" */
  const char *state;          /**< "running"; as in summary.json: "finished", "stopped early", "interrupted", "failed";
                                 * or "lost": it was killed before it could say anything */
  const char *error;          /**< why it failed; NULL: it did not */
  const char *model;          /**< "": not known */
  const char *data;           /**< "": not known */
  const char *strategy;       /**< "single", "mirrored", "allreduce", "ps"; "": not known */
  const char *mode;           /**< with servers: "sync", "async"; "": without */
  int64_t workers;            /**< of the job */
  int64_t ps;                 /**< parameter servers */
  int64_t epoch;              /**< that it is in, from 1; once it has ended: how many it made */
  int64_t epochs;             /**< that were asked for */
  int64_t step;               /**< updates so far */
  int64_t steps;              /**< that were asked for */
  int64_t examples;           /**< so far */
  double examples_per_second; /**< lately; once it has ended: on average */
  double loss;                /**< lately */
  double accuracy;            /**< on the training rows, lately */
  double test_accuracy;       /**< once it has ended */
  double started;             /**< seconds since 1970 */
  double changed;             /**< the same: its last sign of life */
  int pid;                    /**< of the process that holds the folder; 0: none does */
  char host[SHOAL_HOST_NAME]; /**< on which it runs; "": it does not */
  int64_t bytes;              /**< of all its files */
  bool part;                  /**< of a sweep or an experiment, whose folder it is in */
  int64_t reserved[8];        /**< 0 */
} shoal_run_status;

/** Runs: those that are running first, then the youngest first. */
typedef struct {
  const shoal_run_status *runs; /**< [count] */
  size_t count;                 /**< of them */
} shoal_runs;

/** Those below a folder, or the one that it is. A folder that is not there has none. *out: destroy it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_runs_read(const char *folder, shoal_runs **out);
/** The one run in that folder. SHOAL_ERR_ARGUMENT: there is none. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_status_read(const char *run_dir, shoal_runs **out);
/** NULL is fine. */
SHOAL_API void shoal_runs_destroy(shoal_runs *r);
/** For people. all: every column; otherwise those that fit a list. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_runs_table(const shoal_runs *r, bool all, shoal_result_table **out);
/** As a JSON array of objects. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_runs_json(const shoal_runs *r, char **out);

/* ---- stopping */
/** Asks the job that runs in that folder to stop, as a TERM signal does: it saves a checkpoint and ends. Waits for its
 * end. now: ends it at once, with what was saved before. SHOAL_ERR_ARGUMENT: no job runs there, or it runs on another
 * host, which is named. SHOAL_ERR_PEER: it has not ended in `seconds`. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_stop(const char *run_dir, double seconds, bool now);

/* ---- following */
/** A line of metrics.jsonl: of steps, epochs and tests. */
typedef struct {
  const char *kind;           /**< "step", "epoch", "eval" */
  const char *task;           /**< "worker/0" */
  const char *line;           /**< all of it, JSON */
  int64_t step;               /**< updates so far */
  int64_t epoch;              /**< from 0; below 0: not said */
  int64_t examples;           /**< so far; of a test: tested */
  double loss;                /**< ... */
  double accuracy;            /**< ... */
  double validation_loss;     /**< of an epoch */
  double validation_accuracy; /**< of an epoch */
  double rate;                /**< the learning rate */
  double examples_per_second; /**< ... */
} shoal_run_line;

/** How a run is followed; NULL and zero in every field is the usual. */
typedef struct {
  size_t size;     /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int64_t last;    /**< lines of before to begin with */
  bool no_waiting; /**< only what is there already */
  const int *stop; /**< ends it once *stop is not 0; may be NULL */
  void *context;   /**< handed to the functions below; each may be NULL */
  void (*on_line)(void *context, const shoal_run_line *line);        /**< progress */
  void (*on_log)(void *context, const char *task, const char *line); /**< a line of a task's log */
} shoal_follow_options;

/** Tells what comes until the job ends. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_follow(const char *run_dir, const shoal_follow_options *options);

/* ---- room on the disk */
/** Which runs go. A run that is running, and one that is part of a sweep or an experiment, always stays. */
typedef struct {
  size_t size;       /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int64_t keep;      /**< all but the youngest so many; below 1: not by number */
  double older_days; /**< those whose last sign of life is older; 0: not by age */
  int64_t max_bytes; /**< the oldest, until all runs together take no more; 0: not by size */
  bool unfinished;   /**< also runs that were interrupted, failed or lost, which --resume could continue */
  bool dry_run;      /**< removes nothing */
} shoal_clean_options;

/** Removes runs below a folder, symbolic links not followed. *removed: those that are gone or, of a dry run, would go; the
 * caller's to destroy. SHOAL_ERR_ARGUMENT: nothing says which. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_runs_clean(const char *folder, const shoal_clean_options *options,
                                                      shoal_runs **removed);
/** "10GB", "500 MB", "1.5TB", or bytes. SHOAL_ERR_ARGUMENT says what is expected. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_parse_size(const char *words, int64_t *bytes);

/* ---- telling others of the end */
/** Runs a command of the shell with SHOAL_RUN (the run's folder), SHOAL_STATUS ("finished", "failed" ...) and SHOAL_EXIT
 * (the exit status) in its environment, as `shoal train` does with `on_end`. It is ended after `seconds`; 0: 60. An error
 * says what became of it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_end_hook(const char *command, const char *run_dir, const char *status,
                                                        int exit_status, double seconds);

#ifdef __cplusplus
}
#endif
#endif
