/* A sweep: its grid, its folder and its runs. */
#ifndef SHOAL_RUN_SWEEP_H
#define SHOAL_RUN_SWEEP_H

#include "run/run_list.h"
#include "run/sweep_grid.h"

struct shoal_sweep {
  sweep_grid grid;
  int64_t repeats;
  char **words; /* [n_words] what was asked for; owned */
  int n_words;
  char *folder, *description; /* its sweep.json */
  shoal_run_list *runs;       /* `repeats` of each cell after each other */
};

#endif
