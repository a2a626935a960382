#include "run/ps_report.h"

#include "base/json_text.h"

#include "dist/ps_protocol.h"

#include <stdlib.h>
#include <string.h>

#define SPAN_BYTES 24 /* of a report, at least */
#define SPANS_MIN 8   /* fewer are not worth sending */
#define DIGITS 13

char *ps_report_words(const shoal_task_report *t, metrics *log, const task_trace *trace) {
  size_t spans = trace->events && log->kept ? PS_REPORT_MAX / SPAN_BYTES : 0;
  for (;; spans = spans > SPANS_MIN ? spans / 2 : 0) {
    json_t *all = task_report_to_json(t, true);
    pthread_mutex_lock(&log->lock);
    if (log->kept) json_object_set(all, "kept_samples", log->kept);
    if (spans) json_object_set_new(all, "trace", task_trace_part(trace, spans));
    char *words = json_words(all, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    pthread_mutex_unlock(&log->lock);
    json_decref(all);
    if (!words || !spans || strlen(words) <= PS_REPORT_MAX) return words;
    free(words);
  }
}
