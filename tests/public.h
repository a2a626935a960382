/* For tests of what programs around the library see: only <shoal/...> is in reach. */
#ifndef TESTS_PUBLIC_H
#define TESTS_PUBLIC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <shoal/shoal.h>

static inline void check_ok(shoal_status status, const char *file, int line) {
  if (status) print_error("%s\n", shoal_status_message(status));
  _assert_true(!status, "no error", file, line);
}

static inline void check_fails(shoal_status status, shoal_code code, const char *words, const char *file, int line) {
  _assert_int_equal(shoal_status_code(status), code, file, line);
  if (!strstr(shoal_status_message(status), words)) print_error("'%s'\n", shoal_status_message(status));
  _assert_true(strstr(shoal_status_message(status), words) != NULL, words, file, line);
  shoal_status_free(status);
}

#define assert_ok(call) check_ok(call, __FILE__, __LINE__)
#define assert_fails(call, code, words) check_fails(call, code, words, __FILE__, __LINE__)

/* A new folder; test_path gives a name in it. Both are of static life. */
static inline const char *test_folder(void) {
  static char folder[64];
  snprintf(folder, sizeof folder, "/tmp/shoal-public-XXXXXX");
  assert_non_null(mkdtemp(folder));
  return folder;
}

static inline const char *test_path(const char *folder, const char *name) {
  static char paths[8][256];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static inline void test_remove(const char *folder) {
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  assert_int_equal(system(command), 0);
}

static inline void test_write(const char *path, const char *words) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(words, f);
  assert_int_equal(fclose(f), 0);
}

#endif
