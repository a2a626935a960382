/* Where a node is to run: "/job:worker/task:2", or a part of that. */
#ifndef SHOAL_GRAPH_DEVICE_H
#define SHOAL_GRAPH_DEVICE_H

#include "base/status.h"

#include <stdbool.h>

#define DEVICE_JOB 32
#define DEVICE_TEXT 64

typedef struct {
  char job[DEVICE_JOB]; /* "": any */
  int task;             /* -1: any */
} device;

#define DEVICE_ANY ((device){.task = -1})

/* NULL and "" are any device. TensorFlow's /replica:0 and /device:CPU:0 (also /cpu:0) may stand there and say
 * nothing. */
SHOAL_CHECKED shoal_status device_parse(const char *words, device *out);
/* `inner` where it says something, `outer` otherwise. A job without a task does not take over the task of another. */
device device_inside(const device *outer, const device *inner);
/* Whether a task is one that `wanted` allows. */
bool device_allows(const device *wanted, const device *task);
/* "" for any; returns buffer. */
const char *device_text(const device *d, char buffer[DEVICE_TEXT]);

#endif
