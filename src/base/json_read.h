/* JSON texts into jansson's values. jansson's own reader drops a character when it has no memory for it: an assertion then
 * ends the process, or a word comes out shorter than it was, without an error. This one fails instead. */
#ifndef SHOAL_BASE_JSON_READ_H
#define SHOAL_BASE_JSON_READ_H

#include <jansson.h>
#include <stdio.h>

/* As json_loadb, json_loads, json_load_file and json_loadf. flags: JSON_REJECT_DUPLICATES, JSON_DECODE_ANY. NULL: *error,
 * which may be NULL, has why, line, column and position. */
json_t *json_read(const char *bytes, size_t n, size_t flags, json_error_t *error);
json_t *json_read_words(const char *words, size_t flags, json_error_t *error);
json_t *json_read_file(const char *path, size_t flags, json_error_t *error);
json_t *json_read_stream(FILE *f, size_t flags, json_error_t *error);

#endif
