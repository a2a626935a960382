#include "base/json_text.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

static int add(const char *bytes, size_t n, void *context) {
  text *out = context;
  text_add_bytes(out, bytes, n);
  return out->failed ? -1 : 0;
}

char *json_words(const json_t *value, size_t flags) {
  text out = {0};
  if (value && !json_dump_callback(value, add, &out, flags) && !out.failed) return out.data;
  text_fini(&out);
  return NULL;
}

shoal_status json_text(json_t *o, int digits, char **out) {
  char *words = o ? json_words(o, JSON_INDENT(2) | JSON_REAL_PRECISION(digits)) : NULL;
  json_decref(o);
  char *ended = NULL;
  const int length = words ? asprintf(&ended, "%s\n", words) : -1;
  free(words);
  if (length < 0) return status_no_memory();
  *out = ended;
  return NULL;
}
