#include "cli/metrics.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the last whole line ends. */
static long whole_lines(FILE *f) {
  long end = 0, at = 0;
  int c;
  while ((c = getc(f)) != EOF) {
    at++;
    if (c == '\n') end = at;
  }
  return end;
}

shoal_status metrics_open(metrics *m, const char *path) {
  *m = (metrics){0};
  FILE *f = fopen(path, "a+e");
  if (!f) return status_errno(errno, "cannot write %s", path);
  rewind(f);
  if (ftruncate(fileno(f), whole_lines(f))) {
    shoal_status status = status_errno(errno, "cannot shorten %s to its whole lines", path);
    fclose(f);
    return status;
  }
  fseek(f, 0, SEEK_END);
  m->path = strdup(path);
  m->file = f;
  return NULL;
}

static void set_number(json_t *object, const char *key, double value) {
  json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

bool metrics_add(metrics *m, const char *kind, const shoal_progress *p) {
  if (!m->file || m->failed) return true;
  double seconds = p->seconds - m->last_seconds;
  double speed = seconds > 0 ? (double)(p->examples - m->last_examples) / seconds : NAN;
  json_t *o = json_object();
  json_object_set_new(o, "kind", json_string(kind));
  json_object_set_new(o, "step", json_integer(p->step));
  json_object_set_new(o, "epoch", json_integer(p->epoch));
  json_object_set_new(o, "examples", json_integer(p->examples));
  set_number(o, "loss", p->loss);
  set_number(o, "accuracy", p->accuracy);
  set_number(o, "examples_per_second", speed);
  set_number(o, "seconds", p->seconds);
  set_number(o, "rate", p->rate);
  if (!strcmp(kind, "epoch")) {
    set_number(o, "validation_loss", p->validation_loss);
    set_number(o, "validation_accuracy", p->validation_accuracy);
  }
  bool good = o && json_dumpf(o, m->file, JSON_COMPACT) == 0 && putc('\n', m->file) != EOF && fflush(m->file) == 0;
  json_decref(o);
  if (seconds > 0) {
    m->last_examples = p->examples;
    m->last_seconds = p->seconds;
  }
  m->failed = !good;
  return good;
}

void metrics_close(metrics *m) {
  if (m->file) fclose(m->file);
  free(m->path);
  *m = (metrics){0};
}
