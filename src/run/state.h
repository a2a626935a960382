/* A run under way in this process, and the report it makes. */
#ifndef SHOAL_RUN_STATE_H
#define SHOAL_RUN_STATE_H

#include "run/sink.h"
#include "run/training.h"

typedef struct {
  shoal_run_report report; /* first: shoal_run_report_destroy gets it by this */
  training base;
  json_t *kept;                     /* settings of a run that is resumed; texts in the job may point into it */
  const shoal_run_options *options; /* while shoal_run runs */
  shoal_progress last;              /* how far it came */
  double started;                   /* clock */
  int next_threads;                 /* of each worker, if there was one more; 0: as many */
  task_reports tasks;
  shoal_membership_event *membership;
  size_t membership_capacity;
  shoal_status lost; /* why a task's report could not be kept, the first time; the summary would not be whole */
  json_t *traces;    /* parts of a timeline; NULL: none */
  char *error;       /* owned: the report's */
} run_state;

/* Has somebody asked to stop? The signal's number, or 0. */
int run_state_asked(const run_state *s);
/* A line for people. */
void run_state_note(const run_state *s, const char *line);
/* Fills the report with what worker 0, here or in another process, tells; tells the listener. */
run_sink run_state_sink(run_state *s);
SHOAL_CHECKED shoal_status run_state_add_task(run_state *s, shoal_task_report *t); /* takes what it owns */
/* The result of a training: takes what it owns, but for the task's own report. */
void run_state_take_result(run_state *s, task_result *r);
/* Once all tasks are there: what follows from them. */
void run_state_complete(run_state *s);

#endif
