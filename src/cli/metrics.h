/* metrics.jsonl: one JSON object a line, added to as training goes on. */
#ifndef SHOAL_CLI_METRICS_H
#define SHOAL_CLI_METRICS_H

#include "base/status.h"
#include "shoal/train.h"

#include <stdio.h>

typedef struct {
  FILE *file;
  char *path;
  bool failed; /* once a write fails nothing more is written: the file ends with a whole line or is told about */
  int64_t last_examples;
  double last_seconds;
} metrics;

/* Adds to what is there; a line that a killed run left half-written is cut off. */
SHOAL_CHECKED shoal_status metrics_open(metrics *m, const char *path);
/* kind: "step" or "epoch". Returns false the first time writing fails. */
bool metrics_add(metrics *m, const char *kind, const shoal_progress *p);
void metrics_close(metrics *m);

#endif
