/* Timelines on their way from the tasks' rings (base/events.h) to one trace.json in Chrome's format, which Perfetto and
 * chrome://tracing open. docs/run-folder.md has the format; shoal/observe.h reads it.
 *
 * A part is what one task has recorded, as a JSON object that can travel:
 *   task, boot (tells machines apart), fma_gflops (of one thread; 0: not known), ahead (of a worker: each server's
 * clock minus its own, seconds), lost (spans), labels [[kind, name, op, kernel, phase, flops, bytes], ...], spans
 * [[track, label, start, duration, step, amount], ...] with times in nanoseconds. */
#ifndef SHOAL_OBSERVE_TRACE_FILE_H
#define SHOAL_OBSERVE_TRACE_FILE_H

#include "base/events.h"

#include <jansson.h>

/* At most the newest `most` spans of each track. ahead [servers]. The caller owns it; NULL: no memory. */
json_t *trace_part(const events *e, const char *task, const double *ahead, int servers, size_t most);

/* Puts an array of parts onto one clock: worker 0's or the client's, or the first part's when there is none. Under its
 * name only when it is whole. */
SHOAL_CHECKED shoal_status trace_write(const json_t *parts, const char *path);

#endif
