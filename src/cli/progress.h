/* What a person sees while training runs: one live line on a terminal, plain lines elsewhere. */
#ifndef SHOAL_CLI_PROGRESS_H
#define SHOAL_CLI_PROGRESS_H

#include "shoal/train.h"

#include <stdio.h>

typedef struct {
  FILE *to;
  int64_t batch_size;
  bool quiet, live, colour;
  bool drawn;             /* a live line stands on the terminal */
  double last_plain;      /* clock time of the last plain line */
  double last_draw;       /* clock time of the last redraw */
  double speed;           /* examples a second, smoothed */
  int64_t speed_examples; /* at the last measurement */
  double speed_seconds;
} progress;

void progress_init(progress *p, FILE *to, int64_t batch_size, bool quiet);
void progress_step(progress *p, const shoal_progress *now);
void progress_epoch(progress *p, const shoal_progress *now);
/* The test rows after so many rows. */
void progress_test(progress *p, int64_t rows, const shoal_progress *now, const shoal_evaluation *e);
/* Removes the live line. */
void progress_clear(progress *p);

/* "1:02:03", "2:03" or "4 s"; returns buffer. */
#define DURATION_TEXT 32
const char *duration_text(double seconds, char buffer[DURATION_TEXT]);

#endif
