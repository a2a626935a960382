/* What every format must do, by walking the table of formats: a new one without a fixture fails here. */
#include "format_fixtures.h"

#include "base/mem.h"

#include <sys/stat.h>

/* cmocka has a macro skip(); (f->skip)(...) is the format's. */

static const format_options standard;

static const format_fixture *fixture_of(const format *f) {
  for (size_t i = 0; i < format_fixture_count; i++)
    if (!strcmp(format_fixtures[i].format, f->name)) return &format_fixtures[i];
  fail_msg("format '%s' has no fixture in tests/format_fixtures.c", f->name);
  return NULL;
}

/* Rows [first, first + b->count) of `all` are those of b. */
static void assert_rows(const rows_block *all, int64_t first, const rows_block *b) {
  assert_int_equal(all->count - first, b->count);
  for (int64_t i = 0; i < b->count; i++) {
    int64_t k = first + i;
    assert_int_equal(all->labels[k], b->labels[i]);
    if (all->targets) assert_true(all->targets[k] == b->targets[i]);
    if (all->schema.kind == ROWS_DENSE) {
      size_t n = rows_dense_bytes(&all->schema);
      assert_memory_equal((char *)all->features + (size_t)k * n, (char *)b->features + (size_t)i * n, n);
      continue;
    }
    size_t n = (size_t)(all->offsets[k + 1] - all->offsets[k]);
    assert_int_equal(b->offsets[i + 1] - b->offsets[i], n);
    if (all->schema.kind == ROWS_BYTES) {
      assert_memory_equal(all->bytes + all->offsets[k], b->bytes + b->offsets[i], n);
    } else if (n) {
      assert_memory_equal(all->indices + all->offsets[k], b->indices + b->offsets[i], n * sizeof *b->indices);
      assert_memory_equal(all->values + all->offsets[k], b->values + b->offsets[i], n * sizeof *b->values);
    }
  }
}

static file_reader *open_with(const format *f, const char *path, rows_block *block) {
  file_reader *r;
  rows_schema schema;
  assert_ok(f->open(path, &standard, &r));
  assert_ptr_equal(r->format, f);
  assert_string_equal(r->path, path);
  f->schema(r, &schema);
  rows_init(block, &schema);
  return r;
}

/* The rest, `piece` rows at a time. */
static void read_rest(file_reader *r, int64_t piece, rows_block *into) {
  int64_t got;
  do {
    int64_t before = into->count;
    assert_ok(r->format->read(r, piece, into, &got));
    assert_in_range(got, 0, piece);
    assert_int_equal(into->count, before + got);
  } while (got);
}

static void from_row(const format *f, const char *path, const rows_block *all, int64_t k) {
  rows_block a, b;
  file_position by_skip, by_read;
  int64_t got;
  file_reader *r = open_with(f, path, &a);
  assert_ok((f->skip)(r, k, &got));
  assert_int_equal(got, k);
  f->tell(r, &by_skip);
  assert_int_equal(by_skip.record, k);
  read_rest(r, 1000, &a);
  assert_rows(all, k, &a);
  /* Backwards, to the same place. */
  rows_clear(&a);
  assert_ok(f->seek(r, &by_skip));
  read_rest(r, 2, &a);
  assert_rows(all, k, &a);
  assert_ok((f->skip)(r, 5, &got));
  assert_int_equal(got, 0);
  f->close(r);
  rows_fini(&a);

  /* Reading k rows leads to the same place, and a new reader goes on from there. */
  r = open_with(f, path, &a);
  for (int64_t done = 0; done < k; done += got) assert_ok(f->read(r, k - done, &a, &got));
  f->tell(r, &by_read);
  assert_int_equal(by_read.record, by_skip.record);
  f->close(r);
  r = open_with(f, path, &b);
  assert_ok(f->seek(r, &by_read));
  read_rest(r, 3, &b);
  assert_rows(all, k, &b);
  f->close(r);
  rows_fini(&a);
  rows_fini(&b);
}

static void same_rows_anyhow(void **state) {
  for (size_t i = 0; format_at(i); i++) {
    const format *f = format_at(i), *found = NULL;
    char dir[FILES_PATH], path[FILES_PATH * 2];
    files_make_folder(dir);
    fixture_of(f)->make(dir, path);
    assert_ok(format_detect(path, &found));
    assert_string_equal(found->name, f->name);
    assert_ptr_equal(format_find(f->name), f);
    assert_true(f->summary && *f->summary && strlen(f->summary) < 120);

    rows_block all;
    file_reader *r = open_with(f, path, &all);
    read_rest(r, 1000, &all);
    f->close(r);
    assert_int_equal(all.count, FIXTURE_ROWS);
    if (all.schema.classes)
      for (int64_t k = 0; k < all.count; k++) assert_in_range(all.labels[k], 0, all.schema.classes - 1);
    for (int64_t piece = 1; piece < 5; piece++) {
      rows_block again;
      r = open_with(f, path, &again);
      read_rest(r, piece, &again);
      assert_rows(&all, 0, &again);
      f->close(r);
      rows_fini(&again);
    }
    for (int64_t k = 0; k <= FIXTURE_ROWS; k++) from_row(f, path, &all, k);
    rows_fini(&all);
    f->close(NULL);
    fixture_remove(dir);
  }
  assert_null(format_find("no such format"));
}

/* Opens and reads, going on after bad rows: rows or INPUT errors that name the file, nothing else. Returns the rows. */
static int64_t survive(const format *f, const char *path, int *errors) {
  file_reader *r = NULL;
  rows_block b;
  rows_schema schema;
  shoal_status status = f->open(path, &standard, &r);
  *errors = status != NULL;
  if (status) {
    shoal_code code = shoal_status_code(status);
    if ((code != SHOAL_ERR_INPUT && code != SHOAL_ERR_ARGUMENT) || !strstr(shoal_status_message(status), path))
      fail_msg("%s: %s: %s", f->name, shoal_code_name(code), shoal_status_message(status));
    shoal_status_free(status);
    return 0;
  }
  f->schema(r, &schema);
  rows_init(&b, &schema);
  bool more = true;
  for (int calls = 0; more; calls++) {
    int64_t got = 0, before = b.count;
    assert_true(calls < 100000);
    status = f->read(r, 10, &b, &got);
    assert_int_equal(b.count, before + got);
    more = got > 0;
    if (!status) continue;
    ++*errors;
    if (shoal_status_code(status) != SHOAL_ERR_INPUT || !strstr(shoal_status_message(status), path))
      fail_msg("%s: %s", f->name, shoal_status_message(status));
    more = r->can_go_on;
    shoal_status_free(status);
  }
  int64_t rows = b.count;
  rows_fini(&b);
  f->close(r);
  return rows;
}

/* Cut anywhere, a file gives fewer rows, or an error, or both, but never rows that are not there. */
static void cut_and_garbled(void **state) {
  for (size_t i = 0; format_at(i); i++) {
    const format *f = format_at(i);
    char dir[FILES_PATH], path[FILES_PATH * 2];
    struct stat info;
    files_make_folder(dir);
    fixture_of(f)->make(dir, path);
    if (!stat(path, &info) && S_ISREG(info.st_mode)) {
      size_t n;
      int errors;
      uint8_t *bytes = files_read(path, &n);
      size_t step = n > 2000 ? 37 : 1;
      for (size_t cut = 0; cut < n; cut += step) {
        files_write(path, bytes, cut);
        assert_true(survive(f, path, &errors) <= FIXTURE_ROWS);
      }
      files_write(path, bytes, 0);
      assert_int_equal(survive(f, path, &errors), 0);
      const format *found;
      assert_fails(format_detect(path, &found), SHOAL_ERR_INPUT, "empty");
      for (size_t at = 0; at < n; at += step) {
        uint8_t held = bytes[at];
        bytes[at] ^= (uint8_t)(1 << at % 8);
        files_write(path, bytes, n);
        survive(f, path, &errors);
        bytes[at] = held;
      }
      for (size_t at = 0; at < n; at++) bytes[at] = (uint8_t)(at * at * 7 + at / 3 + 129);
      files_write(path, bytes, n);
      survive(f, path, &errors);
      free(bytes);
    }
    fixture_remove(dir);
  }
}

static void not_there(void **state) {
  char dir[FILES_PATH], file[FILES_PATH * 2], below[FILES_PATH * 2 + 8];
  files_make_folder(dir);
  snprintf(file, sizeof file, "%s/file.dat", dir);
  snprintf(below, sizeof below, "%s/below", file);
  files_write(file, "?\x01\x02", 3);
  const format *found;
  assert_fails(format_detect(below, &found), SHOAL_ERR_INPUT, below);
  assert_fails(format_detect("no/such/file", &found), SHOAL_ERR_INPUT, "no/such/file: cannot open");
  assert_fails(format_detect(file, &found), SHOAL_ERR_INPUT, "known formats are idx");
  assert_fails(format_detect(dir, &found), SHOAL_ERR_INPUT, "folder");
  assert_fails(format_detect("/dev/null", &found), SHOAL_ERR_INPUT, "neither a file nor a folder");
  for (size_t i = 0; format_at(i); i++) {
    int errors;
    if (!strcmp(format_at(i)->name, "fake")) continue;
    assert_int_equal(survive(format_at(i), below, &errors), 0);
    assert_int_equal(errors, 1);
    survive(format_at(i), dir, &errors);
    assert_int_equal(errors, 1);
  }
  fixture_remove(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_rows_anyhow), cmocka_unit_test(cut_and_garbled),
                                     cmocka_unit_test(not_there)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
