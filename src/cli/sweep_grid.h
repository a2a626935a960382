/* The settings of a sweep: each flag of `shoal train` with one value or several. */
#ifndef SHOAL_CLI_SWEEP_GRID_H
#define SHOAL_CLI_SWEEP_GRID_H

#include "cli/batch.h"
#include "cli/flags.h"

#define AXES_MOST 8
#define VALUES_MOST 64
#define SWEEP_RUNS_MOST 4096

/* A flag with its values; those with several span the grid. */
typedef struct {
  const flag_row *flag;
  const char *values[VALUES_MOST]; /* "yes" and "no" for a flag without value */
  int count;
} sweep_axis;

typedef struct {
  const char *model;
  sweep_axis flags[FLAGS_MOST];
  int count;
  int axes[AXES_MOST]; /* which of `flags` have several values, in the order they were given */
  int axes_count;
  int cells;         /* combinations */
  char **words;      /* owned: what was given, which the values point into */
  int words_count;
} sweep_grid;

void sweep_grid_fini(sweep_grid *g);
/* Words after the command's name: the model and flags of train. Commas separate values of numbers and choices; any flag
 * may be given several times. */
SHOAL_CHECKED shoal_status sweep_grid_read(int argc, char **argv, sweep_grid *out);
/* The value of axis `a` in a cell. */
const char *sweep_grid_value(const sweep_grid *g, int cell, int a);
/* Adds all runs to a batch, `repeats` for each cell with seeds that follow each other, and checks each as train would.
 * Runs of a cell follow each other. */
SHOAL_CHECKED shoal_status sweep_grid_runs(const sweep_grid *g, int repeats, batch *out);

#endif
