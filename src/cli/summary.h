/* The result of a run: summary.json for programs, tables for people. */
#ifndef SHOAL_CLI_SUMMARY_H
#define SHOAL_CLI_SUMMARY_H

#include "cli/job.h"
#include "observe/sampler.h"
#include "observe/verdict.h"

#include <sys/types.h>
#include <time.h>

typedef struct {
  const shoal_model_kind *kind;
  const job_flags *flags;
  const char *status; /* "finished", "stopped early", "interrupted", "failed" */
  const char *error;  /* NULL: none */
  time_t started;
  int threads;
  int next_threads; /* of each worker, if there was one more; 0: as many */
  int64_t parameters;
  shoal_fit_result fit;
  shoal_evaluation test; /* NaN where not measured */
  json_t *confusion;               /* of the test rows, as confusion_json; NULL: not counted */
  const char *const *class_names; /* borrowed; NULL: classes are numbers */
  double final_rate;
  double startup_seconds, total_seconds;
  sampler_use use;
  int restarts;  /* of tasks of a cluster of local processes */
  bool has_chief; /* users call worker 0 chief/0, worker 1 worker/0, ... */
  json_t *membership; /* workers that left or came while others trained, in order (membership.h); NULL: none */
  verdict verdict; /* set by summary_json */
  json_t *traces; /* parts of a timeline (observe/trace_file.h); NULL: none */
  json_t *tasks; /* of a cluster, as they go to summary.json; borrowed. NULL: this process alone */
} run_report;

/* One process of the run. */
typedef struct {
  const char *role; /* "worker", "ps" */
  int index;
  const char *name; /* what users call it; NULL: ROLE/INDEX */
  pid_t pid;
  double seconds; /* in training */
  sampler_use use;
  shoal_times times; /* of a worker */
  int64_t net_sent_bytes, net_received_bytes;
  int threads;   /* of a worker, to compute with; 0: not known */
  int64_t steps; /* below 0: it is no worker, and what follows is left out */
  int64_t examples;
  shoal_evaluation test;
  int64_t touched_rows; /* 0: of rows that are not sparse */
  int64_t exchanged_bytes; /* then: to and from servers in steps, without what testing and saving took */
} task_report;

/* What users call a task that is one of summary.json's. */
const char *summary_task_name(const json_t *task);
/* Adds a part of a timeline; takes it. */
void summary_add_trace(run_report *r, json_t *part);
/* The caller owns it; NULL: no memory. */
json_t *task_json(const task_report *t);
/* Gradients of that worker that were used by every server. */
int64_t summary_gradients(const json_t *tasks, int worker);

/* The caller owns it; NULL: no memory. Numbers that are not finite become null. Keys are only ever added. */
json_t *summary_json(run_report *r);
/* The result table, a line for each task, and, once summary_json has found it, the verdict. */
void summary_print(const run_report *r, FILE *to);

#endif
