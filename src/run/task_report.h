/* What one process of a run has done (shoal_task_report), and as JSON: on its way to whoever collects the reports, and
 * in summary.json. docs/run-folder.md has the keys. */
#ifndef SHOAL_RUN_TASK_REPORT_H
#define SHOAL_RUN_TASK_REPORT_H

#include "base/status.h"
#include "shoal/run.h"

#include <jansson.h>

/* Of a task that is none of worker, server and evaluator yet; host and pid are this process's. name: NULL: ROLE/INDEX. */
shoal_task_report task_report_begin(const char *role, int index, const char *name);
void task_report_fini(shoal_task_report *t);

/* host_use: with what the machine was used for, as a task tells it on its way; summary.json has that in one place for
 * each host. The caller owns it; NULL: no memory. */
json_t *task_report_to_json(const shoal_task_report *t, bool host_use);
/* What the object does not have stays as task_report_begin makes it. */
SHOAL_CHECKED shoal_status task_report_from_json(const json_t *object, shoal_task_report *out);
/* A machine's use as it stands in summary.json. */
json_t *host_usage_to_json(const shoal_host_usage *use, const char *name);

/* A list of reports; owns them. */
typedef struct {
  shoal_task_report *tasks;
  size_t count, capacity;
} task_reports;

/* Takes what *t owns. */
SHOAL_CHECKED shoal_status task_reports_add(task_reports *list, shoal_task_report *t);
void task_reports_fini(task_reports *list);

#endif
