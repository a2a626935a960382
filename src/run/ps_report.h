/* What a task without a folder says at its end, to be kept by server 0 for the chief: its report, its samples, and as
 * much of its timeline as there is room for. */
#ifndef SHOAL_RUN_PS_REPORT_H
#define SHOAL_RUN_PS_REPORT_H

#include "run/metrics.h"
#include "run/task_report.h"
#include "run/task_trace.h"

/* The caller frees it; NULL: no memory. */
char *ps_report_words(const shoal_task_report *t, metrics *log, const task_trace *trace);

#endif
