/* Samples this process, and on request its machine, through the run: a thread of its own that looks at /proc every so
 * often. Rates are over the time since the sample before. */
#ifndef SHOAL_OBSERVE_SAMPLER_H
#define SHOAL_OBSERVE_SAMPLER_H

#include "base/status.h"
#include "observe/proc.h"
#include "shoal/run.h"

#include <stdbool.h>

typedef struct {
  double seconds;                      /* since the sampler started */
  double interval;                     /* that the rates are over */
  double user_percent, system_percent; /* 100: one processor kept busy */
  int64_t rss_bytes;
  int threads;
  double net_sent, net_received;  /* bytes a second, by the job's own connections */
  double disk_read, disk_written; /* bytes a second */
  shoal_times times;              /* so far, as noted last */
} sampler_task;

typedef struct {
  char name[PROC_NAME];
  double sent, received; /* bytes a second */
} sampler_interface;

typedef struct {
  double interval;
  double user_percent, system_percent, idle_percent; /* of all processors together, 0 to 100 */
  int n_cores;
  const double (*cores)[2]; /* [n_cores] user and system, 0 to 100 each */
  int64_t memory_used_bytes, memory_free_bytes;
  sampler_interface interfaces[PROC_INTERFACES_MAX];
  int n_interfaces;
  double disk_read, disk_written; /* bytes a second */
} sampler_host;

typedef struct {
  double every; /* seconds */
  bool host;    /* sample the machine, too */
  void *context;
  /* Called by the sampler's thread, and once by the one that stops it. on_host may be NULL. */
  void (*on_task)(void *context, const sampler_task *s);
  void (*on_host)(void *context, const sampler_host *s);
} sampler_options;

typedef struct sampler sampler;

SHOAL_CHECKED shoal_status sampler_start(const sampler_options *options, sampler **out);
/* What only the process itself can tell; any thread. times may be NULL. */
void sampler_note(sampler *s, int64_t net_sent_bytes, int64_t net_received_bytes, const shoal_times *times);
/* Takes a last sample and ends the thread. Again: nothing. NULL is fine. */
void sampler_stop(sampler *s);
/* From start to now. */
void sampler_read(sampler *s, shoal_usage *out);
void sampler_destroy(sampler *s); /* stops it; NULL is fine */

#endif
