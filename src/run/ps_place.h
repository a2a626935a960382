/* A task of a cluster with parameter servers: a worker, or a server. Worker 0 is the chief: it saves checkpoints and
 * weights, writes the settings, and tells how training goes. */
#ifndef SHOAL_RUN_PS_PLACE_H
#define SHOAL_RUN_PS_PLACE_H

#include "run/job_file.h"
#include "run/sink.h"

typedef struct {
  training *base; /* settings filled, folder named; of a worker, data may be loaded */
  const job_file *job;
  int index;
  const int *stop;
  /* Nobody started all tasks: reports go through the servers to worker 0, which hands them on as on_task. */
  bool collects;
  const char *job_path; /* the job file, where other servers may take over; NULL: they stay */
  const run_sink *sink;
} ps_place;

SHOAL_CHECKED shoal_status ps_place_work(const ps_place *t);
SHOAL_CHECKED shoal_status ps_place_serve(const ps_place *t);

#endif
