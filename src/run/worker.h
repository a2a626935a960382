/* One worker, whatever the strategy: it trains, records, tests, and tells a sink how it goes. */
#ifndef SHOAL_RUN_WORKER_H
#define SHOAL_RUN_WORKER_H

#include "net/transport.h"
#include "run/sink.h"
#include "run/task_trace.h"
#include "run/training.h"

/* What only the strategy's own kind can tell; none is NULL. context: worker_options.link_context. */
typedef struct {
  /* Bytes to and from other tasks so far. */
  void (*traffic)(void *context, net_stats *out);
  /* The server that holds the first part of a variable; -1: none does. */
  int (*server_of)(void *context, const shoal_value *variable);
  /* A server's clock minus this machine's, in seconds. */
  double (*clock)(void *context, int server);
  /* Training has ended, and the model is about to be tested and saved. */
  shoal_status (*after_training)(void *context);
  /* All is tested and saved: the worker's report goes to whoever collects them, with what `log` has kept and the
   * timeline. Takes what *own owns. */
  shoal_status (*finish)(void *context, task_result *own, metrics *log, const task_trace *trace);
} worker_link;

extern const worker_link worker_alone; /* without other tasks; its context is the sink */

typedef struct {
  training *base; /* loaded and compiled */
  int index;
  const char *name; /* what users call it; NULL: worker/INDEX */
  bool chief;       /* it saves the weights, writes the settings and tells how training goes */
  bool has_folder;  /* the run's folder can be written to from here */
  bool samples_host;
  int port;                 /* its number among the tasks of this machine (metrics.h) */
  int servers;              /* whose clocks the timeline is about */
  double tell_every;        /* seconds between two steps told of; 0: all that are logged */
  const char *graph_device; /* of the chief's graph for TensorBoard */
  int64_t rows;             /* of the training data, as the job counts them */
  shoal_progress *last;     /* gets how far it is, for messages; NULL: nobody asks */
  const int *stop;
  shoal_strategy *strategy; /* NULL: none */
  events *events;           /* of the timeline; NULL: none */
  const worker_link *link;
  void *link_context;
  const run_sink *sink;
} worker_options;

SHOAL_CHECKED shoal_status worker_run(const worker_options *options);

#endif
