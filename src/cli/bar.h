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
} bar;

void bar_init(bar *b, const char *what, int64_t total, bool quiet);
void bar_show(bar *b, int64_t done);
/* Removes the line. */
void bar_clear(bar *b);

#endif
