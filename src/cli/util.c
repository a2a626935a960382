#include "cli/util.h"

#include <time.h>

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

shoal_status memory_open(memory_text *out) {
  *out = (memory_text){0};
  out->to = open_memstream(&out->words, &out->length);
  return out->to ? NULL : status_no_memory();
}

shoal_status memory_close(memory_text *m) {
  if (!fclose(m->to)) return NULL;
  free(m->words);
  m->words = NULL;
  return status_no_memory();
}
