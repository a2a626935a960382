#include "base/json_text.h"

#include <stdio.h>
#include <stdlib.h>

shoal_status json_text(json_t *o, int digits, char **out) {
  char *words = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(digits)) : NULL;
  json_decref(o);
  char *text = NULL;
  const int length = words ? asprintf(&text, "%s\n", words) : -1;
  free(words);
  if (length < 0) return status_no_memory();
  *out = text;
  return NULL;
}
