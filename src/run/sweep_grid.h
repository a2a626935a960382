/* The settings of a sweep, each with one value or several, and the runs they span. */
#ifndef SHOAL_RUN_SWEEP_GRID_H
#define SHOAL_RUN_SWEEP_GRID_H

#include "base/status.h"
#include "base/text.h"
#include "shoal/run.h"
#include "shoal/sweep.h"

#define SWEEP_SETTINGS_MAX 128
#define SWEEP_AXES_MAX 8
#define SWEEP_VALUES_MAX 64
#define SWEEP_RUNS_MAX 4096

/* Those with several values are axes of the grid. */
typedef struct {
  const shoal_setting *row;
  char *values[SWEEP_VALUES_MAX]; /* owned; "yes" and "no" of one that is on or off */
  int count;
} sweep_setting;

typedef struct {
  char *model;
  sweep_setting settings[SWEEP_SETTINGS_MAX];
  int count;
  int axes[SWEEP_AXES_MAX]; /* which of `settings`, in the order they were given */
  int n_axes;
  int cells; /* combinations */
} sweep_grid;

void sweep_grid_fini(sweep_grid *g);
/* `out` is zeroed; sweep_grid_fini also after a failure. */
SHOAL_CHECKED shoal_status sweep_grid_read(const char *const *words, int n, sweep_grid *out);
const sweep_setting *sweep_grid_axis(const sweep_grid *g, int a);
/* The value of axis `a` in a cell. The last axis changes fastest. */
const char *sweep_grid_axis_value(const sweep_grid *g, int cell, int a);
/* The value of any setting in a cell; NULL: it was not said. */
const char *sweep_grid_value(const sweep_grid *g, int cell, const char *setting);
/* "batch-size=64,workers=2,repeat=1" */
void sweep_grid_name(const sweep_grid *g, int cell, int repeat, int repeats, text *out);
/* Adds all runs, those of a cell after each other with seeds that follow each other. */
SHOAL_CHECKED shoal_status sweep_grid_add_runs(const sweep_grid *g, int64_t repeats, shoal_run_list *out);

#endif
