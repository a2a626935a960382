/* Pieces of JSON texts that several writers need. */
#ifndef SHOAL_BASE_JSON_TEXT_H
#define SHOAL_BASE_JSON_TEXT_H

#include "base/status.h"

#include <jansson.h>
#include <math.h>

/* JSON has no NaN and no infinity: they become null. */
static inline json_t *json_finite(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Enough digits to tell two floats apart. */
enum { JSON_FLOAT_DIGITS = 9 };

/* As json_dumps, which leaves out a key and says nothing when memory runs out just there. NULL: no memory, or no value. */
char *json_words(const json_t *value, size_t flags);

/* Takes o, also on failure. digits: of numbers; 0: all that doubles have. *out: its text, indented, with a newline at the
 * end; the caller frees it. */
SHOAL_CHECKED shoal_status json_text(json_t *o, int digits, char **out);

#endif
