/* What a task tells monitoring, and how that is written: OpenMetrics 1.0, or Prometheus' older text format. */
#ifndef SHOAL_OBSERVE_OPENMETRICS_H
#define SHOAL_OBSERVE_OPENMETRICS_H

#include "base/text.h"
#include "dist/ps_server.h"
#include "shoal/train.h"

/* NaN: not known, or nothing that this role has. Counters only rise while the process lives. */
typedef struct {
  double step, examples, epoch; /* of the training, as far as this task knows */
  double loss, accuracy, rate, examples_per_second, staleness;
  double test_loss, test_accuracy;
  double compute, network, barrier, server, input;     /* seconds, as in shoal_times */
  double sent, received;                               /* bytes to and from other tasks */
  double memory, cpu_seconds;                          /* of the process */
  double updates, gradients, handed_on, refused, busy; /* parameter server */
  double evaluations;                                  /* evaluator */
  bool has_staleness;                                  /* parameter server: */
  int64_t by_staleness[PS_STALENESS_MAX];
  double staleness_sum;
} openmetrics_values;

typedef enum { OPENMETRICS_1_0, PROMETHEUS_0_0_4 } openmetrics_format;

openmetrics_values openmetrics_none(void);
/* Adds all that is known. task: "worker/0", the one label of all but the build's. */
void openmetrics_write(const openmetrics_values *v, const char *task, openmetrics_format format, text *out);

#endif
