/* Structs as JSON objects, by tables of their members. */
#ifndef SHOAL_RUN_RECORD_H
#define SHOAL_RUN_RECORD_H

#include "shoal/run.h"

#include <jansson.h>

typedef enum { RECORD_INT, RECORD_INT32, RECORD_REAL, RECORD_BOOL } record_kind;
typedef struct {
  const char *name; /* NULL ends a list */
  record_kind kind;
  size_t offset;
} record_field;

#define RECORD_INT_NAMED(name, type, field) \
  { name, RECORD_INT, offsetof(type, field) }
#define RECORD_INT32_NAMED(name, type, field) \
  { name, RECORD_INT32, offsetof(type, field) }
#define RECORD_REAL_NAMED(name, type, field) \
  { name, RECORD_REAL, offsetof(type, field) }
#define RECORD_INT_OF(type, field) RECORD_INT_NAMED(#field, type, field)
#define RECORD_INT32_OF(type, field) RECORD_INT32_NAMED(#field, type, field)
#define RECORD_REAL_OF(type, field) RECORD_REAL_NAMED(#field, type, field)
#define RECORD_BOOL_OF(type, field) \
  { #field, RECORD_BOOL, offsetof(type, field) }

extern const record_field progress_record[], fit_record[], evaluation_record[];

/* Numbers that are not finite become null, and NaN when read. The caller owns it; NULL: no memory. */
json_t *record_to_json(const record_field *fields, const void *record);
/* What the object does not have stays as it is. */
void record_from_json(const record_field *fields, const json_t *object, void *record);

#endif
