/* Files of rows: formats, what is in them, other formats, data out of a seed, arrays of NumPy. */
#include "public.h"

static void test_formats_and_sets_are_listed(void **state) {
  shoal_data_format f;
  bool csv = false, written = false;
  for (int i = 0; shoal_data_format_at(i, &f); i++) csv |= !strcmp(f.name, "csv") && *f.summary;
  for (int i = 0; shoal_data_format_written_at(i, &f); i++)
    written |= !strcmp(f.name, "npy") && !strcmp(f.summary, ".npy");
  assert_true(csv && written);
  assert_false(shoal_data_format_at(-1, &f));
  char *path = NULL, data[256];
  snprintf(data, sizeof data, "%s/data", getenv("SHOAL_SOURCE_ROOT"));
  setenv("SHOAL_DATA", data, 1);
  assert_ok(shoal_dataset_find("mnist", &path));
  assert_non_null(strstr(path, "mnist"));
  free(path);
  assert_fails(shoal_dataset_find("mnits", &path), SHOAL_ERR_ARGUMENT, "did you mean 'mnist'?");
}

static const char *const table =
    "age,city,label\n"
    "10,Rome,yes\n"
    ",Oslo,no\n"
    "30,Rome,yes\n";

static void test_a_table_is_inspected(void **state) {
  const char *folder = test_folder(), *path = test_path(folder, "a.csv");
  test_write(path, table);
  shoal_data_summary *s;
  assert_ok(shoal_data_inspect(&(shoal_pipeline_options){.files = path, .columns = "missing=mean"}, 2, NULL, NULL, &s));
  assert_string_equal(s->format, "csv");
  assert_string_equal(s->files, path);
  assert_int_equal(s->file_bytes, (int64_t)strlen(table));
  assert_int_equal(s->rows, 3);
  assert_int_equal(s->kind, SHOAL_ROWS_DENSE);
  assert_int_equal(s->shape.dim[0], 3); /* the age, and a number for each city */
  assert_int_equal(s->classes, 2);
  assert_string_equal(s->class_names[0], "no");
  assert_int_equal(s->class_rows[0], 1);
  assert_int_equal(s->class_rows[1], 2);
  assert_int_equal(s->n_columns, 2);
  assert_string_equal(s->columns[0].name, "age");
  assert_int_equal(s->columns[0].kind, SHOAL_COLUMN_NUMBER);
  assert_int_equal(s->columns[0].missing, 1);
  assert_true(s->columns[0].mean == 20);
  assert_string_equal(s->columns[0].text, "age: 1 missing, mean 20");
  assert_int_equal(s->columns[1].kind, SHOAL_COLUMN_CATEGORIES);
  assert_string_equal(s->columns[1].text, "city: 2 categories (Oslo, Rome)");
  assert_int_equal(s->n_first, 2);
  assert_int_equal(s->first[1].label, 0);
  assert_true(s->first[1].values[0] == 20); /* the mean stands for what is missing */
  assert_true(s->values.max == 30 && s->values.min == 0 && s->values.count == 9);
  shoal_data_summary_destroy(s);
  test_remove(folder);
}

static void test_sparse_rows_go_through_formats(void **state) {
  const char *folder = test_folder(), *from = test_path(folder, "a.libsvm"), *to = test_path(folder, "b.csv");
  test_write(from, "1 1:0.5 3:2\n0 2:4\n");
  shoal_convert_result r;
  assert_ok(shoal_data_convert(&(shoal_pipeline_options){.files = from}, &(shoal_convert_options){.path = to}, &r));
  assert_string_equal(r.format, "csv");
  assert_int_equal(r.rows, 2);
  shoal_data_summary *sparse, *dense;
  assert_ok(shoal_data_inspect(&(shoal_pipeline_options){.files = from}, 1, NULL, NULL, &sparse));
  assert_ok(shoal_data_inspect(&(shoal_pipeline_options){.files = to}, 1, NULL, NULL, &dense));
  assert_int_equal(sparse->kind, SHOAL_ROWS_SPARSE);
  assert_int_equal(sparse->values.count, 3);
  assert_int_equal(sparse->index_max, 3);
  assert_int_equal(sparse->first[0].indices[1], 3);
  assert_true(sparse->sizes.max == 2 && sparse->sizes.mean == 1.5);
  assert_int_equal(dense->kind, SHOAL_ROWS_DENSE);
  assert_int_equal(dense->first[0].size, 3);
  assert_true(dense->first[0].values[0] == 0.5 && dense->first[0].values[2] == 2);
  shoal_data_summary_destroy(sparse);
  shoal_data_summary_destroy(dense);
  assert_fails(shoal_data_convert(&(shoal_pipeline_options){.files = from}, &(shoal_convert_options){.path = to}, NULL),
               SHOAL_ERR_ARGUMENT, "already exists");
  assert_ok(shoal_data_convert(&(shoal_pipeline_options){.files = from},
                               &(shoal_convert_options){.path = to, .force = true}, NULL));
  test_remove(folder);
}

static bool stop_at_once(void *context, int64_t done, int64_t total) {
  *(int64_t *)context = done;
  return false;
}

static void test_what_is_generated_can_be_read(void **state) {
  const char *folder = test_folder(), *clicks = test_path(folder, "clicks"), *images = test_path(folder, "images");
  shoal_criteo_truth truth;
  shoal_criteo_options log = {.out = clicks, .rows = 500, .features = 1000, .files = 2};
  assert_ok(shoal_generate_criteo(&log, &truth));
  assert_int_equal(truth.test_rows, 250);
  shoal_data_summary *s;
  assert_ok(shoal_data_inspect(&(shoal_pipeline_options){.files = clicks}, 0, NULL, NULL, &s));
  assert_int_equal(s->rows, 500);
  assert_int_equal(s->file_count, 2);
  assert_true((double)s->class_rows[1] / 500 == truth.positive_share);
  shoal_data_summary_destroy(s);
  assert_ok(shoal_generate_images(&(shoal_images_options){
      .out = images, .form = SHOAL_IMAGES_NPY, .rows = 30, .classes = 3, .height = 8, .width = 9, .channels = 1}));
  assert_ok(shoal_data_inspect(&(shoal_pipeline_options){.files = images}, 0, NULL, NULL, &s));
  assert_int_equal(s->classes, 3);
  assert_int_equal(s->class_rows[2], 10);
  assert_int_equal(s->shape.dim[1], 9);
  shoal_data_summary_destroy(s);
  int64_t seen = 0;
  assert_fails(shoal_data_inspect(&(shoal_pipeline_options){.files = clicks}, 0, stop_at_once, &seen, &s),
               SHOAL_ERR_CANCELLED, "interrupted");
  assert_true(seen > 0);
  assert_fails(
      shoal_data_convert(
          &(shoal_pipeline_options){.files = clicks},
          &(shoal_convert_options){.path = test_path(folder, "c.libsvm"), .progress = stop_at_once, .context = &seen},
          NULL),
      SHOAL_ERR_CANCELLED, "nothing was written");
  FILE *none = fopen(test_path(folder, "c.libsvm"), "r");
  assert_null(none);
  test_remove(folder);
}

static void test_arrays(void **state) {
  const char *folder = test_folder(), *path = test_path(folder, "a.npy");
  float numbers[6] = {1, 2, 3, 4, 5, 300};
  shoal_tensor t = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 3), numbers), back;
  assert_ok(shoal_tensor_write_npy(path, &t));
  assert_ok(shoal_tensor_read_npy(path, SHOAL_I32, &back));
  assert_int_equal(back.shape.rank, 2);
  assert_int_equal(((int32_t *)back.data)[5], 300);
  shoal_tensor_fini(&back);
  assert_fails(shoal_tensor_read_npy(path, SHOAL_U8, &back), SHOAL_ERR_INPUT, "300 at place 5 cannot be u8");
  /* the same numbers with the first axis fastest, as NumPy writes a transposed array */
  char header[128];
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
  const char *words = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
  memcpy(header + 10, words, strlen(words));
  header[127] = '\n';
  const float by_columns[6] = {1, 4, 2, 5, 3, 300};
  FILE *f = fopen(path, "w");
  assert_int_equal(fwrite(header, 1, 128, f) + fwrite(by_columns, 4, 6, f), 134);
  fclose(f);
  assert_ok(shoal_tensor_read_npy(path, SHOAL_F32, &back));
  assert_memory_equal(back.data, numbers, sizeof numbers);
  shoal_tensor_fini(&back);
  test_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formats_and_sets_are_listed),
      cmocka_unit_test(test_a_table_is_inspected),
      cmocka_unit_test(test_sparse_rows_go_through_formats),
      cmocka_unit_test(test_what_is_generated_can_be_read),
      cmocka_unit_test(test_arrays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
