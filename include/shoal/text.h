/** @file
 * Words in, words out: what a program around the library needs to read its arguments as strictly as Shoal reads its
 * own, and to say the same helpful things about them. Any thread. */
#ifndef SHOAL_TEXT_H
#define SHOAL_TEXT_H

#include "shoal/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** For "unknown name X; did you mean Y?": the one of `count` names that is nearest to `word` by letters added, left
 * out, replaced or swapped; NULL when none is near. Borrowed from `names`. */
SHOAL_API const char *shoal_nearest_name(const char *word, const char *const *names, size_t count);

/** A decimal integer that is the whole of `word`: false when there is anything else, or when it is out of range. *out
 * is set only on success. */
SHOAL_API bool shoal_parse_int(const char *word, int64_t *out);
/** The same for a number with a fraction or an exponent. */
SHOAL_API bool shoal_parse_double(const char *word, double *out);

/** Room for what shoal_group_digits writes. */
#define SHOAL_DIGITS_TEXT 32
/** 1234567 to "1,234,567". Returns `buffer`. */
SHOAL_API const char *shoal_group_digits(int64_t value, char buffer[SHOAL_DIGITS_TEXT]);
/** 1234.567 to "1,234.57", with so many digits after the point. Returns `buffer`. */
SHOAL_API const char *shoal_group_decimals(double value, int digits, char buffer[SHOAL_DIGITS_TEXT]);

/** 31400000 to "31.4 MB". Returns `buffer`. */
SHOAL_API const char *shoal_size_text(int64_t bytes, char buffer[SHOAL_DIGITS_TEXT]);

/** A growing string. Zero-initialise it; shoal_text_fini when done. */
typedef struct {
  char *data;      /**< ended by 0, or NULL while empty */
  size_t length;   /**< without the end */
  size_t capacity; /**< bytes there is room for */
  bool failed;     /**< memory ran out once: what was added since is lost */
} shoal_text;

/** Adds as printf writes it. */
SHOAL_API void shoal_text_add(shoal_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Adds bytes as they are. */
SHOAL_API void shoal_text_add_bytes(shoal_text *t, const char *bytes, size_t length);
/** Writes it to a file, which gets its name only when it is whole. SHOAL_ERR_SYSTEM, also when memory had run out. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_text_write(const shoal_text *t, const char *path);
/** Frees it; it is empty then. */
SHOAL_API void shoal_text_fini(shoal_text *t);

#ifdef __cplusplus
}
#endif
#endif
