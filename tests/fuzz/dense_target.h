/* Any bytes at all through a format of dense rows or encoded images that opens files by their path: what is read once
 * is read the same again. */
#ifndef SHOAL_TESTS_FUZZ_DENSE_TARGET_H
#define SHOAL_TESTS_FUZZ_DENSE_TARGET_H

#include "data/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { DENSE_ROWS_MAX = 200 };

/* INPUT errors are expected; ARGUMENT ones where the options may not fit the file. */
static inline void dense_expect(shoal_status status) {
  shoal_code code = shoal_status_code(status);
  if (code != SHOAL_ERR_INPUT && code != SHOAL_ERR_ARGUMENT) __builtin_trap();
  shoal_status_free(status);
}

static inline void dense_read(const format *f, const char *path, const format_options *options) {
  file_reader *r;
  rows_schema schema;
  shoal_status status = f->open(path, options, &r);
  if (status) {
    dense_expect(status);
    return;
  }
  f->schema(r, &schema);
  rows_block once, again;
  rows_init(&once, &schema);
  rows_init(&again, &schema);
  file_position start;
  f->tell(r, &start);
  for (int64_t got = 1; got && once.count < DENSE_ROWS_MAX;) {
    int64_t before = once.count;
    status = f->read(r, 3, &once, &got);
    if (once.count != before + got) __builtin_trap();
    if (!status) continue;
    dense_expect(status);
    if (!r->can_go_on) break;
    got = 1;
  }
  /* From the start again, up to the first bad row. */
  status = f->seek(r, &start);
  if (status) __builtin_trap();
  int64_t got = 0;
  status = f->read(r, DENSE_ROWS_MAX, &again, &got);
  if (status) dense_expect(status);
  if (again.count > once.count + 3) __builtin_trap();
  int64_t same = again.count < once.count ? again.count : once.count;
  const bool dense = schema.kind == ROWS_DENSE, sparse = schema.kind == ROWS_SPARSE;
  size_t bytes = !same ? 0 : dense ? (size_t)same * rows_dense_bytes(&schema) : (size_t)again.offsets[same];
  if (sparse) bytes *= sizeof *once.indices;
  const void *first = dense ? once.features : sparse ? (void *)once.indices : once.bytes;
  const void *second = dense ? again.features : sparse ? (void *)again.indices : again.bytes;
  if (same && ((bytes && memcmp(first, second, bytes)) ||
               memcmp(once.labels, again.labels, (size_t)same * sizeof *once.labels)))
    __builtin_trap();
  status = (f->skip)(r, INT64_MAX, &got);
  if (status) dense_expect(status);
  rows_fini(&once);
  rows_fini(&again);
  f->close(r);
}

static inline void dense_target(const char *name, const uint8_t *bytes, size_t n, const format_options *options) {
  char path[64];
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const format *f = format_find(name);
  if (n) f->detect(path, bytes, n < 4096 ? n : 4096, false);
  dense_read(f, path, options);
  close(fd);
}

#endif
