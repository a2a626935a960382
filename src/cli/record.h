/* What tasks tell the process that started them: one JSON object a line.
 *
 *   {"ready": {...}}       worker 0 is about to train
 *   {"progress": {...}}    what the callbacks of training see; "kind": "step" or "epoch"
 *   {"note": "..."}        for the person at the terminal
 *   {"error": {"message": "...", "code": N}}   the task fails
 *   {"result": {...}}      the task is done
 *   {"trace": {...}}       a part of the timeline (observe/trace_file.h)
 *   {"tasks": [...]}       results of all tasks, where they come through the servers */
#ifndef SHOAL_CLI_RECORD_H
#define SHOAL_CLI_RECORD_H

#include "cli/summary.h"

#include <jansson.h>

typedef enum { RECORD_INT, RECORD_REAL, RECORD_BOOL } record_kind;
typedef struct {
  const char *name; /* NULL ends a list */
  record_kind kind;
  size_t offset;
} record_field;

extern const record_field progress_record[], fit_record[], evaluation_record[];

/* Numbers that are not finite become null, and NaN when read. The caller owns it; NULL: no memory. */
json_t *record_to_json(const record_field *fields, const void *record);
/* What the object does not have stays as it is. */
void record_from_json(const record_field *fields, const json_t *object, void *record);

/* Sends {"key": value} to the process that started this one. Takes `value`. */
void record_send(const char *key, json_t *value);

#endif
