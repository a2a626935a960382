/* Files for tests: a scratch folder, writing bytes, finding the source tree; and looking into errors. */
#ifndef SHOAL_TESTS_FILES_H
#define SHOAL_TESTS_FILES_H

#include "shoal/status.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FILES_PATH 512

/* dir becomes a new empty folder. */
static inline void files_make_folder(char dir[FILES_PATH]) {
  const char *base = getenv("TMPDIR");
  snprintf(dir, FILES_PATH, "%s/shoal-test-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(dir)) fail_msg("cannot make a folder %s", dir);
}

static inline int files_count(const char *dir) {
  DIR *folder = opendir(dir);
  int n = 0;
  if (!folder) return 0;
  for (struct dirent *e; (e = readdir(folder));) n += e->d_name[0] != '.';
  closedir(folder);
  return n;
}

/* Removes the folder and the files in it (no sub-folders). */
static inline void files_remove_folder(const char *dir) {
  DIR *folder = opendir(dir);
  if (!folder) return;
  for (struct dirent *e; (e = readdir(folder));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlinkat(dirfd(folder), e->d_name, 0);
  closedir(folder);
  rmdir(dir);
}

static inline void files_write(const char *path, const void *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, n, file) != n || fclose(file)) fail_msg("cannot write %s", path);
}

/* The whole file, to be freed. */
static inline uint8_t *files_read(const char *path, size_t *n) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("cannot open %s", path);
  fseek(file, 0, SEEK_END);
  *n = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(*n + 1);
  if (!bytes || fread(bytes, 1, *n, file) != *n) fail_msg("cannot read %s", path);
  fclose(file);
  return bytes;
}

/* The source tree: $SHOAL_SOURCE_ROOT, or the nearest folder upwards that holds data/mnist. */
static inline const char *files_root(void) {
  static const char *const guesses[] = {".", "..", "../.."};
  const char *given = getenv("SHOAL_SOURCE_ROOT");
  if (given && *given) return given;
  for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
    char path[FILES_PATH];
    snprintf(path, sizeof path, "%s/data/mnist", guesses[i]);
    if (!access(path, R_OK)) return guesses[i];
  }
  fail_msg("data/mnist is not found: run the tests in the source tree or set SHOAL_SOURCE_ROOT");
  return ".";
}

#define assert_ok(call)                                                          \
  do {                                                                           \
    shoal_status ok_status_ = (call);                                            \
    if (ok_status_) fail_msg("%s: %s", #call, shoal_status_message(ok_status_)); \
  } while (0)

/* The call fails with this code, and the message holds `words`. */
#define assert_fails(call, wanted_code, words)                                                                    \
  do {                                                                                                            \
    shoal_status fails_status_ = (call);                                                                          \
    if (!fails_status_) fail_msg("%s: expected an error with '%s'", #call, words);                                \
    if (shoal_status_code(fails_status_) != (wanted_code) || !strstr(shoal_status_message(fails_status_), words)) \
      fail_msg("%s: expected %s with '%s', got %s: %s", #call, shoal_code_name(wanted_code), words,               \
               shoal_code_name(shoal_status_code(fails_status_)), shoal_status_message(fails_status_));           \
    shoal_status_free(fails_status_);                                                                             \
  } while (0)

#endif
