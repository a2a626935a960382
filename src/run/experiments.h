/* The experiments that were reported of the systems before this one, each as runs of the command: one table. */
#ifndef SHOAL_RUN_EXPERIMENTS_H
#define SHOAL_RUN_EXPERIMENTS_H

#include "shoal/sweep.h"

#include <jansson.h>

#define EXPERIMENT_FIGURES_MAX 8
#define EXPERIMENT_ROWS_MAX 16
#define FIGURE_TEXT 64

/* What is read from a run's summary; "-" where it has none. */
typedef struct {
  const char *name; /* "accuracy" */
  const char *head; /* "test accuracy" */
  void (*show)(const json_t *summary, char out[FIGURE_TEXT]);
} experiment_figure;

typedef struct {
  const char *name;  /* for people, and in short for its folder: "sync, batch 10"; NULL ends a list */
  const char *words; /* the command; {folder} stands for the experiment's */
  const char *reported[EXPERIMENT_FIGURES_MAX]; /* beside each figure; NULL: nothing was */
} experiment_row;

struct shoal_experiment {
  const char *id, *title;
  const char *figures[EXPERIMENT_FIGURES_MAX];
  experiment_row rows[EXPERIMENT_ROWS_MAX];
  const char *prepare; /* a command that makes {folder}/data; NULL: none is needed */
  const char *note;    /* what one must know to compare; NULL: nothing */
};

const experiment_figure *experiment_figure_find(const char *name); /* NULL: none */
int experiment_rows(const shoal_experiment *e);

#endif
