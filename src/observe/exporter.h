/* Serves what a task tells monitoring over HTTP:
 *
 *   /metrics   openmetrics.h; who may ask is in http.h
 *   /healthz   200: the process answers
 *   /readyz    200: the task takes part in the training; 503: not yet, or no longer
 *
 * The last two say nothing that needs a token, so that kubelets and balancers can ask. Any thread may change values. */
#ifndef SHOAL_OBSERVE_EXPORTER_H
#define SHOAL_OBSERVE_EXPORTER_H

#include "observe/openmetrics.h"

typedef struct exporter exporter;

typedef struct {
  const char *address; /* NULL: 127.0.0.1 */
  int port;            /* 0: any that is free */
  const char *token;   /* NULL: none */
  const char *task;    /* "worker/0", copied */
} exporter_options;

SHOAL_CHECKED shoal_status exporter_create(const exporter_options *options, exporter **out);
int exporter_port(const exporter *e);
/* The values, to be changed until exporter_unlock. NULL stays NULL. */
openmetrics_values *exporter_lock(exporter *e);
void exporter_unlock(exporter *e);
void exporter_set_ready(exporter *e, bool ready); /* NULL is fine */
void exporter_destroy(exporter *e);               /* NULL is fine */

#endif
