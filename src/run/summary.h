/* summary.json: the result of a run, for programs. docs/run-folder.md has the keys; they are only ever added. */
#ifndef SHOAL_RUN_SUMMARY_H
#define SHOAL_RUN_SUMMARY_H

#include "base/status.h"
#include "shoal/run.h"

#include <jansson.h>

/* The caller owns it; NULL: no memory. Numbers that are not finite become null. */
json_t *summary_to_json(const shoal_run_report *r);
/* Whether the run came to its end. */
bool summary_is_finished(const json_t *summary);

#endif
