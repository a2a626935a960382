#include "run/curve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADING "rows,step,seconds,progressive_loss,test_rows,test_loss,test_error_rate,test_auc\n"

shoal_status curve_open(curve *c, const char *folder) {
  *c = (curve){0};
  if (asprintf(&c->path, "%s/curve.csv", folder) < 0) {
    c->path = NULL;
    return status_no_memory();
  }
  FILE *f = fopen(c->path, "re");
  char line[512];
  for (bool first = true; f && fgets(line, sizeof line, f); first = false)
    if (!first && strchr(line, '\n')) text_add(&c->lines, "%s", line);
  if (f) fclose(f);
  return c->lines.failed ? status_no_memory() : NULL;
}

/* Keeps the points before that row. */
static void cut(curve *c, int64_t rows) {
  size_t at = 0;
  while (at < c->lines.length && strtoll(c->lines.data + at, NULL, 10) < rows)
    at += strcspn(c->lines.data + at, "\n") + 1;
  if (at >= c->lines.length) return;
  c->lines.length = at;
  c->lines.data[at] = 0;
}

static shoal_status write_whole(const curve *c) {
  char *temporary;
  if (asprintf(&temporary, "%s.tmp", c->path) < 0) return status_no_memory();
  FILE *f = fopen(temporary, "we");
  bool good = f && fputs(HEADING, f) >= 0 && fputs(c->lines.data, f) >= 0;
  if (f && fclose(f)) good = false;
  if (!good || rename(temporary, c->path)) {
    shoal_status status = status_errno(errno, "cannot write %s", c->path);
    remove(temporary);
    free(temporary);
    return status;
  }
  free(temporary);
  return NULL;
}

shoal_status curve_add(curve *c, int64_t rows, const shoal_progress *p, const shoal_evaluation *e) {
  cut(c, rows);
  text_add(&c->lines, "%lld,%lld,%.3f,%.6f,%lld,%.6f,%.6f,%.6f\n", (long long)rows, (long long)p->step, p->seconds,
           p->loss, (long long)e->examples, e->loss, 1 - e->accuracy, e->auc);
  return c->lines.failed ? status_no_memory() : write_whole(c);
}

void curve_close(curve *c) {
  free(c->path);
  text_fini(&c->lines);
  *c = (curve){0};
}
