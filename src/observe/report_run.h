/* Folders of runs as the page shows them: found, watched, and written out as JSON.
 *
 * Only regular files with the names of a run's folder are opened, and no symbolic link is followed: nothing outside of
 * the folder one is told can be read through it. */
#ifndef SHOAL_OBSERVE_REPORT_RUN_H
#define SHOAL_OBSERVE_REPORT_RUN_H

#include "observe/report_metrics.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum {
  REPORT_SUMMARY,
  REPORT_SETTINGS,
  REPORT_GRAPH,
  REPORT_SWEEP,      /* of a folder with the runs of a sweep */
  REPORT_COMPARISON, /* of an experiment: our figures beside the reported ones */
  REPORT_TRACE,
  REPORT_METRICS,
  REPORT_TESTS, /* by an evaluator: the tests of checkpoints */
  REPORT_FILES
} report_file;

typedef struct {
  int id;     /* of its own in a set, never used again */
  char *name; /* below the folder that was searched: "lenet-1", "sweep/workers=2" */
  char *path;
  bool is_run, is_sweep;
  bool seen; /* by the search under way */
  struct {
    int64_t size, changed; /* bytes; nanoseconds. Size -1: not there */
  } files[REPORT_FILES];
  uint64_t revision; /* rises with each change */
  text listed;       /* its summary in a list, as it was at `listed_at`; empty: none is kept */
  uint64_t listed_at;
  report_metrics metrics, tests;
  uint64_t used; /* when its metrics were last asked for; the oldest are given up */
} report_run;

/* Runs and sweeps below a folder. */
typedef struct {
  char *root; /* NULL: only what was added by hand */
  report_run **runs;
  size_t count, capacity;
  uint64_t clock; /* gives revisions and uses their order */
  int next_id;
} report_set;

void report_set_fini(report_set *s);
/* Adds the run, or all runs below a folder, to a set without a root. */
SHOAL_CHECKED shoal_status report_set_add(report_set *s, const char *path);
/* Looks for runs that came, changed or went below the root. *changed: something did. */
SHOAL_CHECKED shoal_status report_set_search(report_set *s, bool *changed);
report_run *report_set_find(report_set *s, int id); /* NULL: none */
/* Memory for metrics of all runs together is kept below this; a run that is asked for is read again. */
#define REPORT_MEMORY_MAX (72u << 20)

/* Adds {"id", "name", "revision", "summary", "settings", "graph", "tracks"}. */
SHOAL_CHECKED shoal_status report_run_write(report_set *s, report_run *run, const report_range *range, text *out);
/* Adds [{"id", "name", "revision", "run", "sweep", "summary"}, ...]. */
SHOAL_CHECKED shoal_status report_set_write_list(report_set *s, text *out);
/* Adds the sweep's description, "sweep" and "comparison": null where there is none. */
SHOAL_CHECKED shoal_status report_sweep_write(const report_run *sweep, text *out);
/* Adds {"tasks": [...], "names": [...], "events": [[task, thread, name, category, start, length], ...]}; or null. */
SHOAL_CHECKED shoal_status report_trace_write(const report_run *run, text *out);

#endif
