/* metrics.jsonl in columns: what charts are drawn from.
 *
 * A track is the lines of one kind by one task ("step" of worker/0); each numeric key is a column. A track holds at
 * most REPORT_ROWS_MAX rows: past that, each four rows are cut to the two with the least and the greatest of their
 * first value, so memory is bounded however long a run gets, and peaks stay. Tracks of the chief, which alone
 * validates, come before those of other tasks. */
#ifndef SHOAL_OBSERVE_REPORT_METRICS_H
#define SHOAL_OBSERVE_REPORT_METRICS_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>
#include <sys/types.h>

#define REPORT_ROWS_MAX (1 << 20)
#define REPORT_TRACKS_MAX 1024
#define REPORT_COLUMNS_MAX 64

typedef struct {
  char *name;
  bool wide; /* a place in the run (step, examples, seconds, time), kept as double; others are float */
  union {
    double *wide_at; /* [capacity of the track] */
    float *at;       /* NaN: not measured */
  };
} report_column;

typedef struct {
  char *kind, *task; /* task "" where lines name none */
  report_column columns[REPORT_COLUMNS_MAX];
  int count;
  size_t rows, capacity;
  int64_t lines; /* that were read for it, before any cut */
} report_track;

typedef struct {
  report_track **tracks;
  size_t count, capacity;
  off_t offset; /* whole lines read so far */
  ino_t inode;
} report_metrics;

/* Reads the lines added since the last call. Takes the file's descriptor; -1: it is not there, and empty. A file that
 * was replaced or cut is read anew. Lines that are no JSON objects with a kind are passed over. */
SHOAL_CHECKED shoal_status report_metrics_read(report_metrics *m, int fd);
/* A test's line says at which step it was, but its `seconds` and `examples` are the test's own. Sets them to what the
 * training had at that step, so that tests stand in the right place on each axis of a chart. `training` may be `m`. */
SHOAL_CHECKED shoal_status report_metrics_place_tests(report_metrics *m, const report_metrics *training);
size_t report_metrics_bytes(const report_metrics *m); /* of memory */
void report_metrics_fini(report_metrics *m);

/* Which part of a track, and how finely. */
typedef struct {
  int points;      /* at most so many a column */
  const char *by;  /* a wide column that `from` and `to` refer to; NULL: everything */
  double from, to; /* inclusive; one row more at each end, so that lines reach the edges of a chart */
} report_range;

/* Adds the track as a JSON object: {"kind", "task", "rows", "thin", "columns": {NAME: [...]}}. A thinned column is
 * {"mean": [...], "least": [...], "most": [...]} over groups of neighbouring rows, a place the group's last one. */
void report_track_write(const report_track *t, const report_range *range, text *out);

/* JSON text of bytes or numbers that is also safe inside an HTML script element. */
void report_write_string(text *out, const char *value);
void report_write_number(text *out, double value, bool wide);

#endif
