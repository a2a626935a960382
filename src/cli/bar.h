/* How far long work has come: one live line on a terminal's standard error; nothing elsewhere. */
#ifndef SHOAL_CLI_BAR_H
#define SHOAL_CLI_BAR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const char *what; /* "rows" */
  int64_t total;    /* 0: not known */
  bool live, drawn;
  double started, last;
  const int *stop; /* NULL, or not 0 once the work is to end */
} bar;

void bar_init(bar *b, const char *what, bool quiet, const int *stop);
/* A shoal_rows_progress whose context is a bar: shows it, and goes on unless it is to stop. */
bool bar_on_rows(void *context, int64_t done, int64_t total);
/* Removes the line. */
void bar_clear(bar *b);

#endif
