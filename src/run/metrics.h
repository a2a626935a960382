/* What a process records about itself while it trains: lines in metrics.jsonl, events for TensorBoard, samples of the
 * machine. docs/run-folder.md has the formats.
 *
 * All tasks of a run on one machine add to the same metrics.jsonl: a line is one write to the file's end. A task that
 * has no folder keeps its samples, to be handed to the one that has. Any thread may add. */
#ifndef SHOAL_RUN_METRICS_H
#define SHOAL_RUN_METRICS_H

#include "net/transport.h"
#include "observe/event_file.h"
#include "observe/exporter.h"
#include "observe/graph_export.h"
#include "observe/sampler.h"
#include "observe/tracking.h"

#include <jansson.h>
#include <pthread.h>

#define METRICS_WARNING "warning: metrics.jsonl and the event files cannot be written any more"
#define METRICS_KEPT_MAX 96 /* samples of a task without a folder; when there are more, every second one goes */

typedef struct {
  const char *folder; /* of the run; NULL: there is none on this machine */
  const char *role;   /* "worker", "ps" */
  int index;
  const char *task; /* what users call it; NULL: ROLE/INDEX */
  bool host;        /* sample the machine, too: one task on each does */
  double every;     /* seconds between samples */
  bool resumed;     /* continues an earlier life of the run */
  int port;         /* of the task among those of its machine: counted on from the job's `metrics_port` */
  int metrics_port; /* to serve metrics at; 0: none */
  const char *metrics_address;
  const char *sinks; /* services that the chief's lines are sent to; NULL: none */
} metrics_options;

typedef struct {
  int fd; /* metrics.jsonl; -1: none */
  char task[32];
  char *folder;
  event_file *events, *tests;
  bool failed; /* once a write fails nothing more is written: the file ends with a whole line or is told about */
  int64_t last_examples, last_step;
  double last_seconds, last_made, last_input;
  int64_t step; /* for samples' events */
  sampler *sampler;
  exporter *exporter;      /* NULL: nobody asks */
  tracking *tracking;      /* NULL: no service */
  metrics_options options; /* its texts are the caller's, for as long */
  pthread_mutex_t lock;    /* of `kept` */
  json_t *kept;            /* lines, or NULL */
} metrics;

/* The exporter of a task at that port; *out stays as it is where the port is 0. */
SHOAL_CHECKED shoal_status metrics_serve(int port, const char *address, const char *task, exporter **out);
/* Cuts off a line that a killed run left half-written; before any task opens the file. */
SHOAL_CHECKED shoal_status metrics_repair(const char *path);
/* Worker 0's events go to the folder itself, those of others to a folder in it. */
SHOAL_CHECKED shoal_status metrics_open(metrics *m, const metrics_options *options);
void metrics_close(metrics *m); /* fine on a zeroed or a closed one */

/* The graph and the settings (an object of flags), to graph.json and TensorBoard. picture: of the layers (SVG); NULL: none. */
SHOAL_CHECKED shoal_status metrics_describe(metrics *m, const char *model, const shoal_graph *g,
                                            const graph_export_options *options, const char *picture,
                                            const json_t *settings);

/* The first failure of a service that lines are sent to, once; the caller frees it. NULL: none. */
char *metrics_failure(metrics *m);
/* Tells the services how it ended, which may take some seconds. */
void metrics_end(metrics *m, bool finished, bool stopped);

/* Those below return false the first time that writing fails. */

/* kind: "step" or "epoch"; net may be NULL. */
bool metrics_add(metrics *m, const char *kind, const shoal_progress *p, const net_stats *net);
bool metrics_test(metrics *m, int64_t step, const shoal_evaluation *e);
bool metrics_inspect(metrics *m, const shoal_inspection *i);
/* What a parameter server has done so far, for those who ask over HTTP. */
void metrics_serving(metrics *m, const ps_server_result *so_far, int workers);
/* A line that another task made. */
bool metrics_line(metrics *m, const json_t *line);

/* Samples are taken between the two. */
SHOAL_CHECKED shoal_status metrics_start_sampling(metrics *m);
void metrics_stop_sampling(metrics *m);

#endif
