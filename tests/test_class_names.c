/* One dictionary of class names for all files of a job: over shards, for other files, in the model's file. */
#include "data/class_names.h"
#include "data/dataset.h"
#include "data/pipeline.h"
#include "train_data.h"

#include <sys/stat.h>

#define ROWS_LIMIT (1 << 20)

static char dir[FILES_PATH], shards[FILES_PATH * 2 + 80], train_path[FILES_PATH + 32], test_path[FILES_PATH + 32];

static void write_text(const char *path, const char *content) { files_write(path, content, strlen(content)); }

static int set_up(void **state) {
  files_make_folder(dir);
  snprintf(train_path, sizeof train_path, "%s/a.csv", dir);
  snprintf(test_path, sizeof test_path, "%s/b.csv", dir);
  snprintf(shards, sizeof shards, "%s,%s", train_path, test_path);
  write_text(train_path, "1,2,emu\n3,4,cat\n");
  write_text(test_path, "5,6,dog\n7,8,emu\n9,10,cat\n");
  return 0;
}

static int tear_down(void **state) {
  files_remove_folder(dir);
  return 0;
}

static shoal_status read_set(const char *files, const char *const *names, const char *columns, shoal_dataset **out) {
  return shoal_dataset_read(&(shoal_pipeline_options){.files = files, .class_names = names, .columns = columns},
                            ROWS_LIMIT, out);
}

static void assert_labels(const shoal_dataset *d, const char *const *expected) {
  for (int64_t i = 0; expected[i]; i++)
    assert_string_equal(d->class_names[(int)shoal_tensor_get(&d->labels, i)], expected[i]);
}

/* The words of all files, in their order, whatever the order of the files and rows. */
static void shards_agree(void **state) {
  shoal_dataset *d;
  assert_ok(read_set(shards, NULL, NULL, &d));
  assert_int_equal(d->classes, 3);
  assert_true(class_names_equal(d->class_names, (const char *const[]){"cat", "dog", "emu", NULL}));
  assert_labels(d, (const char *const[]){"emu", "cat", "dog", "emu", "cat", NULL});
  shoal_dataset_destroy(d);
  assert_ok(read_set(shards, NULL, "classes=emu|dog|cat|fox", &d));
  assert_int_equal(d->classes, 4);
  assert_labels(d, (const char *const[]){"emu", "cat", "dog", "emu", "cat", NULL});
  assert_int_equal((int)shoal_tensor_get(&d->labels, 0), 0);
  shoal_dataset_destroy(d);
}

/* A worker of two reads one of the files, and numbers words as the other does. */
static void workers_agree(void **state) {
  for (int worker = 0; worker < 2; worker++) {
    shoal_pipeline *p;
    const shoal_batch *b;
    assert_ok(shoal_pipeline_create(
        &(shoal_pipeline_options){.files = shards, .shard = worker, .shards = 2, .epochs = 1}, &p));
    assert_int_equal(class_names_count(shoal_pipeline_class_names(p)), 3);
    assert_ok(shoal_pipeline_next(p, &b));
    assert_int_equal((int)shoal_tensor_get(&b->labels, 0), worker ? 1 : 2);
    shoal_pipeline_destroy(p);
  }
}

/* Other files are read with the names they are given; a word that is none of them is named, with its place. */
static void other_files(void **state) {
  shoal_dataset *train, *test;
  const char *const known[] = {"cat", "dog", NULL};
  assert_ok(read_set(test_path, NULL, NULL, &train));
  assert_ok(read_set(train_path, train->class_names, NULL, &test));
  assert_int_equal(test->classes, 3);
  assert_labels(test, (const char *const[]){"emu", "cat", NULL});
  shoal_dataset_destroy(test);
  shoal_dataset_destroy(train);
  assert_fails(read_set(test_path, known, NULL, &test), SHOAL_ERR_INPUT,
               "b.csv: record 1 at byte 8: line 2: column 2: "
               "'emu' is not among the 2 classes: cat, dog");
  const char *const twice[] = {"cat", "cat", NULL};
  assert_fails(read_set(test_path, twice, NULL, &test), SHOAL_ERR_ARGUMENT, "'cat' is listed twice");
}

static void write_image(const char *class, bool folder_only) {
  char path[FILES_PATH * 2];
  snprintf(path, sizeof path, "%s/images/%s", dir, class);
  mkdir(path, 0700);
  strcat(path, "/a.jpg");
  if (!folder_only) write_text(path, "\xff\xd8\xff\xe0 enough");
}

static void remove_image(const char *class) {
  char path[FILES_PATH * 2];
  snprintf(path, sizeof path, "%s/images/%s/a.jpg", dir, class);
  unlink(path);
  *strrchr(path, '/') = 0;
  rmdir(path);
}

/* A folder without one of the classes: the others keep their numbers. */
static void folders(void **state) {
  char path[FILES_PATH + 32];
  snprintf(path, sizeof path, "%s/images", dir);
  mkdir(path, 0700);
  write_image("dog", false);
  write_image("emu", false);
  write_image("nobody", true);
  const char *const names[] = {"cat", "dog", "emu", "fox", NULL};
  shoal_pipeline *p;
  const rows_block *b;
  rows_schema s;
  assert_ok(shoal_pipeline_create(&(shoal_pipeline_options){.files = path, .class_names = names, .epochs = 1}, &p));
  pipeline_schema(p, &s);
  assert_int_equal(s.classes, 4);
  assert_ok(pipeline_next(p, &b, NULL, NULL));
  assert_int_equal(b->labels[0], 1);
  assert_int_equal(b->labels[1], 2);
  shoal_pipeline_destroy(p);
  assert_fails(shoal_pipeline_create(&(shoal_pipeline_options){.files = path, .class_names = names + 2}, &p),
               SHOAL_ERR_INPUT, "images/dog: 'dog' is not among the 2 classes: emu, fox");
  remove_image("dog");
  remove_image("emu");
  remove_image("nobody");
  rmdir(path);
}

/* fit takes the data's names; weights carry them; data of other names is refused. */
static void models_keep_them(void **state) {
  char path[FILES_PATH + 32];
  snprintf(path, sizeof path, "%s/weights.safetensors", dir);
  const char *const names[] = {"even", "odd", NULL}, *const others[] = {"odd", "even", NULL};
  const shoal_compile_options options = {.schedule = {.rate = 0.1}, .threads = 1};
  shoal_dataset d;
  data_make_xor(64, 1, &d);
  d.class_names = names;
  shoal_model *m = model_make_xor(&options), *again = model_make_xor(&options);
  assert_ok(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 1}, NULL));
  assert_true(class_names_equal(shoal_model_class_names(m), names));
  assert_ok(shoal_model_save(m, path));
  assert_ok(shoal_model_load(again, path));
  assert_true(class_names_equal(shoal_model_class_names(again), names));
  shoal_evaluation e;
  assert_ok(shoal_model_evaluate(again, &d, &e));
  d.class_names = others;
  assert_fails(shoal_model_evaluate(again, &d, &e), SHOAL_ERR_INPUT,
               "the classes of the data are odd, even, those of the "
               "model even, odd");
  assert_fails(shoal_model_set_class_names(m, (const char *const[]){"a", "b", "c", NULL}), SHOAL_ERR_ARGUMENT,
               "3 names of classes are given, but the model has 2");
  shoal_model_destroy(m);
  shoal_model_destroy(again);
  data_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shards_agree), cmocka_unit_test(workers_agree),
                                     cmocka_unit_test(other_files), cmocka_unit_test(folders),
                                     cmocka_unit_test(models_keep_them)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
