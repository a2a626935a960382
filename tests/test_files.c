/* Which files are meant. */
#include "data/files.h"
#include "files.h"

#include <sys/stat.h>

static char dir[FILES_PATH];

static const char *at(const char *name) {
  static char paths[8][FILES_PATH + 64];
  static int turn;
  char *path = paths[turn++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", dir, name);
  return path;
}

static int set_up(void **state) {
  files_make_folder(dir);
  static const char *const names[] = {"b.csv", "a.csv",  "c.txt",      ".hidden",    "x,y.csv",
                                      "y.npy", "README", "truth.json", "c.txt.part", "b-labels.npy"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) files_write(at(names[i]), "label,x\n1,2\n", 12);
  return 0;
}

static int tear_down(void **state) {
  files_remove_folder(dir);
  return 0;
}

static void expect(const char *words, size_t count, const char *const *names) {
  files_list list;
  assert_ok(files_find(words, NULL, &list));
  assert_int_equal(list.count, count);
  for (size_t i = 0; i < count; i++) assert_string_equal(list.paths[i], at(names[i]));
  files_fini(&list);
}

static void finds(void **state) {
  char words[3 * FILES_PATH];
  expect(at("a.csv"), 1, (const char *const[]){"a.csv"});
  expect(at("x,y.csv"), 1, (const char *const[]){"x,y.csv"});
  expect(at("?.csv"), 2, (const char *const[]){"a.csv", "b.csv"});
  expect(at("[ab].csv"), 2, (const char *const[]){"a.csv", "b.csv"});
  expect(dir, 4, (const char *const[]){"a.csv", "b.csv", "c.txt", "x,y.csv"});
  snprintf(words, sizeof words, "%s/", dir);
  expect(words, 4, (const char *const[]){"a.csv", "b.csv", "c.txt", "x,y.csv"});
  snprintf(words, sizeof words, "%s,%s", at("c.txt"), at("?.csv"));
  expect(words, 3, (const char *const[]){"c.txt", "a.csv", "b.csv"});
}

static void says_what_is_missing(void **state) {
  files_list list;
  char words[3 * FILES_PATH];
  assert_fails(files_find(at("none.csv"), NULL, &list), SHOAL_ERR_INPUT, "none.csv: cannot open: No such file");
  assert_fails(files_find(at("*.gz"), NULL, &list), SHOAL_ERR_INPUT, "*.gz: no file matches");
  assert_fails(files_find("", NULL, &list), SHOAL_ERR_ARGUMENT, "no files given");
  snprintf(words, sizeof words, "%s,,%s", at("a.csv"), at("b.csv"));
  assert_fails(files_find(words, NULL, &list), SHOAL_ERR_INPUT, "empty item");
  snprintf(words, sizeof words, "%s,%s", at("a.csv"), at("?.csv"));
  assert_fails(files_find(words, NULL, &list), SHOAL_ERR_INPUT, "a.csv: listed twice");
  char empty[FILES_PATH];
  files_make_folder(empty);
  assert_fails(files_find(empty, NULL, &list), SHOAL_ERR_INPUT, "no data files in this folder");
  if (geteuid()) { /* root may read everything */
    chmod(empty, 0);
    assert_fails(files_find(empty, NULL, &list), SHOAL_ERR_INPUT, "Permission denied");
    chmod(empty, 0700);
  }
  files_remove_folder(empty);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds), cmocka_unit_test(says_what_is_missing)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
