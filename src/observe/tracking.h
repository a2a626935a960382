/* Services that users track their runs with: each line of progress that worker 0 writes to metrics.jsonl is also sent there.
 *
 * Each has a thread of its own with a bounded queue: training never waits for it, and what does not fit is dropped, oldest
 * first. A failure is told once; the service is tried again. Rows of a table: tracking_kinds. */
#ifndef SHOAL_OBSERVE_TRACKING_H
#define SHOAL_OBSERVE_TRACKING_H

#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

/* What a service is told of the run. */
typedef struct {
  const char *target;     /* behind "mlflow:", or what the variable says */
  const char *folder;     /* of the run */
  const char *model;      /* its name */
  const json_t *settings; /* an object of flags */
  double until;           /* clock: when the job has ended, no request goes on for longer; 0: it has not. Atomic */
} tracked_run;

typedef struct {
  const char *name;                                            /* "mlflow" */
  const char *variable;                                        /* of the environment: the target when none is said */
  shoal_status (*check)(const char *target);                   /* whether it can be one; makes nothing */
  shoal_status (*begin)(const tracked_run *run, void **state); /* tried again when it fails */
  shoal_status (*send)(void *state, const tracked_run *run, json_t *const *lines, size_t n); /* of metrics.jsonl */
  shoal_status (*end)(void *state, const tracked_run *run, bool finished, bool stopped);
  void (*destroy)(void *state); /* NULL is fine */
} tracking_kind;

extern const tracking_kind tracking_mlflow, tracking_otlp;

/* ---- for the rows */

/* Seconds that a request may take now. */
double tracking_seconds(const tracked_run *run);
/* What a variable of the environment says; NULL: nothing. */
const char *tracking_variable(const char *name);
/* Calls f for each number of a line: names begin with "epoch_" and "test_" in lines of epochs and tests. */
void tracking_numbers(const json_t *line, void *context, void (*f)(void *context, const char *name, double value));

/* ---- for the one who has lines */

typedef struct tracking tracking;

/* sinks: "mlflow:DIR,otlp:http://HOST:PORT,mlflow". ARGUMENT names what is wrong. */
SHOAL_CHECKED shoal_status tracking_check(const char *sinks);
/* Asks nobody yet. */
SHOAL_CHECKED shoal_status tracking_open(const char *sinks, const char *folder, const char *model,
                                         const json_t *settings, tracking **out);
/* Never waits. NULL is fine. */
void tracking_add(tracking *t, json_t *line);
/* The first failure of a service, once: the caller frees it. NULL: none that was not told. */
char *tracking_failure(tracking *t);
/* Sends what is left and the end, for a few seconds at most. NULL is fine. */
void tracking_end(tracking *t, bool finished, bool stopped);
void tracking_destroy(tracking *t); /* NULL is fine */

#endif
