/* A small file of each format, made on the spot. A format without one here fails the test that walks the table. */
#ifndef SHOAL_TESTS_FORMAT_FIXTURES_H
#define SHOAL_TESTS_FORMAT_FIXTURES_H

#include "files.h"

#include "data/format.h"

/* Puts FIXTURE_ROWS rows into the new folder `dir`; path: what is to be opened. */
typedef struct {
  const char *format;
  void (*make)(const char *dir, char path[FILES_PATH * 2]);
} format_fixture;

enum { FIXTURE_ROWS = 7 };

extern const format_fixture format_fixtures[];
extern const size_t format_fixture_count;

/* Removes the folder with what is in it, folders too. */
void fixture_remove(const char *dir);

#endif
