#include "graph/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static shoal_status refuse(const char *words, const char *at) {
  return status_make(SHOAL_ERR_ARGUMENT,
                     "device '%s': expected /job:NAME, /task:NUMBER or both, as in /job:worker/task:2, not '%s'", words,
                     at);
}

static bool begins(const char *at, const char *key) { return !strncasecmp(at, key, strlen(key)); }

shoal_status device_parse(const char *words, device *out) {
  device d = DEVICE_ANY;
  for (const char *at = words ? words : ""; *at;) {
    size_t length = 1 + strcspn(at + 1, "/");
    if (begins(at, "/job:") && length > 5 && length - 5 < DEVICE_JOB) {
      memcpy(d.job, at + 5, length - 5);
      d.job[length - 5] = 0;
      for (const char *c = d.job; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-') return refuse(words, at);
    } else if (begins(at, "/task:") && length > 6 && length < 12) {
      char *end;
      long task = strtol(at + 6, &end, 10);
      if (!isdigit((unsigned char)at[6]) || end != at + length) return refuse(words, at);
      d.task = (int)task;
    } else if (!begins(at, "/replica:0") && !begins(at, "/device:cpu") && !begins(at, "/cpu")) {
      return refuse(words, at);
    }
    at += length;
  }
  *out = d;
  return NULL;
}

device device_inside(const device *outer, const device *inner) {
  device d = *inner;
  bool other_job = *inner->job && *outer->job && strcmp(inner->job, outer->job) != 0;
  if (!*d.job) memcpy(d.job, outer->job, sizeof d.job);
  if (d.task < 0 && !other_job) d.task = outer->task;
  return d;
}

bool device_allows(const device *wanted, const device *task) {
  return (!*wanted->job || !strcmp(wanted->job, task->job)) && (wanted->task < 0 || wanted->task == task->task);
}

const char *device_text(const device *d, char buffer[DEVICE_TEXT]) {
  char task[24] = "";
  if (d->task >= 0) snprintf(task, sizeof task, "/task:%d", d->task);
  snprintf(buffer, DEVICE_TEXT, "%s%s%s", *d->job ? "/job:" : "", d->job, task);
  return buffer;
}
