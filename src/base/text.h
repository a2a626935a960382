/* Text: growing strings, the nearest of several names, numbers read strictly. */
#ifndef SHOAL_BASE_TEXT_H
#define SHOAL_BASE_TEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing string. Zero-initialise; text_fini when done. When memory runs out, `failed` sticks. */
typedef struct {
  char *data; /* NUL-terminated, or NULL while empty */
  size_t length, capacity;
  bool failed;
} text;

void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(text *t, const char *bytes, size_t length);
void text_fini(text *t);

/* The candidate nearest to `word` (edit distance at most a third of its length, plus 1), or NULL. */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

/* 1234567 to "1,234,567"; returns buffer. */
#define GROUPED_TEXT 32
const char *grouped_text(int64_t value, char buffer[GROUPED_TEXT]);

/* Whole-string numbers: false when there is anything else, or out of range. *out is set only on success. */
bool text_to_int(const char *word, int64_t *out);
bool text_to_double(const char *word, double *out);

#endif
