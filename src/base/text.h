/* Growing strings; and what shoal/text.h has, by short names. */
#ifndef SHOAL_BASE_TEXT_H
#define SHOAL_BASE_TEXT_H

#include "base/status.h"
#include "shoal/text.h"

#define text_nearest shoal_nearest_name
#define text_to_int shoal_parse_int
#define text_to_double shoal_parse_double
#define grouped_text shoal_group_digits
#define GROUPED_TEXT SHOAL_DIGITS_TEXT

/* A growing string. Zero-initialise; text_fini when done. When memory runs out, `failed` sticks. */
typedef struct {
  char *data; /* NUL-terminated, or NULL while empty */
  size_t length, capacity;
  bool failed;
} text;

void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(text *t, const char *bytes, size_t length);
void text_fini(text *t);

/* ARGUMENT: "unknown optimizer 'adm': did you mean 'adam'? Known: sgd, adam, ...". what: "optimizer". */
SHOAL_CHECKED shoal_status status_unknown(const char *what, const char *name, const char *const *known, size_t count);

#endif
