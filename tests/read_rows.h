/* Reading whole files through a format, and comparing what came out. */
#ifndef SHOAL_TESTS_READ_ROWS_H
#define SHOAL_TESTS_READ_ROWS_H

#include "files.h"

#include "data/format.h"

#include <zlib.h>

#undef skip /* cmocka's, in the way of format.skip */

/* Up to `most` rows in steps of `step`; the caller rows_fini()s the block. */
static inline void read_some(const format *f, file_reader *r, int64_t most, int64_t step, rows_block *out) {
  rows_schema schema;
  f->schema(r, &schema);
  rows_init(out, &schema);
  for (int64_t got = 1, left = most; got && left; left -= got)
    assert_ok(f->read(r, step < left ? step : left, out, &got));
}

static inline void read_file_rows(const format *f, const char *path, const format_options *options, rows_block *out) {
  file_reader *r;
  assert_ok(f->open(path, options, &r));
  read_some(f, r, INT64_MAX, 100, out);
  f->close(r);
}

/* Rows of sparse block `a` from `first` on are those of `b`. */
static inline void assert_same_rows(const rows_block *a, int64_t first, const rows_block *b) {
  assert_int_equal(a->count - first, b->count);
  if (!b->count) return;
  assert_memory_equal(a->labels + first, b->labels, (size_t)b->count * sizeof *b->labels);
  int64_t shift = a->offsets[first];
  for (int64_t i = 0; i <= b->count; i++) assert_int_equal(a->offsets[first + i] - shift, b->offsets[i]);
  size_t entries = (size_t)b->offsets[b->count];
  if (!entries) return;
  assert_memory_equal(a->indices + shift, b->indices, entries * sizeof *b->indices);
  assert_memory_equal(a->values + shift, b->values, entries * sizeof *b->values);
}

/* The same bytes compressed; window as zlib's deflateInit2 wants it: MAX_WBITS for zlib, + 16 for gzip. */
static inline void compress_file(const char *from, const char *to, int window) {
  size_t n;
  uint8_t *bytes = files_read(from, &n);
  uint8_t *packed = malloc(n * 2 + 1000);
  z_stream z = {.next_in = bytes, .avail_in = (uInt)n, .next_out = packed, .avail_out = (uInt)(n * 2 + 1000)};
  assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  files_write(to, packed, z.total_out);
  deflateEnd(&z);
  free(packed);
  free(bytes);
}

/* Skipping to any of a few rows, going back to a position told, reading in odd steps, and compressed copies all give
 * the same rows. */
static inline void check_positions(const format *f, const char *path, const format_options *options) {
  rows_block all;
  read_file_rows(f, path, options, &all);
  char dir[FILES_PATH], packed[2][FILES_PATH + 24];
  files_make_folder(dir);
  for (int p = 0; p < 2; p++) {
    snprintf(packed[p], sizeof packed[p], "%s/packed%d", dir, p);
    compress_file(path, packed[p], MAX_WBITS + 16 * p);
  }
  const char *paths[] = {path, packed[0], packed[1]};
  int64_t starts[] = {0, 1, all.count / 3, all.count - 1, all.count};
  for (int p = 0; p < 3; p++) {
    file_reader *r;
    const format *found;
    assert_ok(format_detect(paths[p], &found));
    assert_ptr_equal(found, f);
    assert_ok(f->open(paths[p], options, &r));
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
      file_position start = {0}, position;
      rows_block rest;
      int64_t got;
      assert_ok(f->seek(r, &start));
      assert_ok(f->skip(r, starts[s], &got));
      assert_int_equal(got, starts[s]);
      f->tell(r, &position);
      assert_int_equal(position.record, starts[s]);
      read_some(f, r, INT64_MAX, 7, &rest);
      assert_same_rows(&all, starts[s], &rest);
      rows_fini(&rest);
      assert_ok(f->skip(r, 5, &got));
      assert_int_equal(got, 0);
      assert_ok(f->seek(r, &position));
      read_some(f, r, INT64_MAX, 1000, &rest);
      assert_same_rows(&all, starts[s], &rest);
      rows_fini(&rest);
    }
    f->close(r);
  }
  files_remove_folder(dir);
  rows_fini(&all);
}

/* data/NAME of the folder of real files beside the source tree; skips the test where there is none. */
static inline void shared_path(const char *name, char path[FILES_PATH]) {
  snprintf(path, FILES_PATH, "%s/../shared/data/%s", files_root(), name);
  if (access(path, R_OK)) {
    print_message("%s is not there\n", path);
    _skip(__FILE__, __LINE__);
  }
}

#endif
