/* CSV files as people have them: other separators, missing values, text, columns to be scaled; what is learned from
 * training rows is done to all others. */
#include "files.h"

#include "base/mem.h"
#include "data/csv_fit.h"
#include "data/pipeline.h"
#include "shoal/train.h"

#include <math.h>

#undef skip

static char dir[FILES_PATH];

static int setup(void **state) {
  files_make_folder(dir);
  return 0;
}

static int teardown(void **state) {
  files_remove_folder(dir);
  return 0;
}

typedef struct {
  int64_t rows, width;
  float x[512];
  int32_t labels[128];
  float targets[128];
  char *learned; /* or NULL */
} table;

static const char *write_csv(const char *name, const char *content) {
  static char path[FILES_PATH + 64];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  files_write(path, content, strlen(content));
  return path;
}

/* All rows of a file; the caller frees `learned`. */
static shoal_status read_with(const shoal_pipeline_options *options, table *out) {
  shoal_pipeline_options o = *options;
  o.epochs = 1;
  shoal_pipeline *p;
  *out = (table){0};
  shoal_status status = shoal_pipeline_create(&o, &p);
  if (status) return status;
  const rows_block *b;
  while (!(status = pipeline_next(p, &b, NULL, NULL)) && b) {
    out->width = shoal_shape_count(&b->schema.shape);
    assert_true((out->rows + b->count) * out->width <= 512 && out->rows + b->count <= 128);
    memcpy(out->x + out->rows * out->width, b->features, (size_t)(b->count * out->width) * sizeof *out->x);
    memcpy(out->labels + out->rows, b->labels, (size_t)b->count * sizeof *out->labels);
    if (b->targets) memcpy(out->targets + out->rows, b->targets, (size_t)b->count * sizeof *out->targets);
    out->rows += b->count;
  }
  const char *learned = shoal_pipeline_preprocessing(p);
  if (!status && learned) out->learned = strdup(learned);
  shoal_pipeline_destroy(p);
  return status;
}

static shoal_status read_text(const char *content, const char *columns, table *out) {
  return read_with(&(shoal_pipeline_options){.files = write_csv("a.csv", content), .columns = columns}, out);
}

static void assert_row(const table *t, int64_t row, int64_t n, const float *expected) {
  assert_int_equal(t->width, n);
  for (int64_t i = 0; i < n; i++)
    if (fabsf(t->x[row * n + i] - expected[i]) > 1e-5f)
      fail_msg("row %lld: number %lld is %g, not %g", (long long)row, (long long)i, (double)t->x[row * n + i],
               (double)expected[i]);
}

#define ASSERT_ROW(t, row, ...) \
  assert_row(t, row, (int64_t)COUNT_OF(((const float[]){__VA_ARGS__})), (const float[]){__VA_ARGS__})

static void separators(void **state) {
  static const char *const same[] = {"a,b,y\n1.5,-2,0\n3,4e1,1\n",       "a;b;y\n1.5;-2;0\n3;4e1;1\n",
                                     "a;b;y\n1,5;-2;0\n3;4e1;1\n",       "a\tb\ty\n1.5\t-2\t0\n3\t4e1\t1\n",
                                     "a|b|y\n1.5|-2|0\n3|4e1|1\n",       "a  b   y\n1.5 -2 0 \n  3 4e1  1\n",
                                     "\"a;1\",b,y\n1.5,-2,0\n3,4e1,1\n", "a,b,y\r\n1.5,-2,0\r\n3,4e1,1"};
  for (size_t i = 0; i < COUNT_OF(same); i++) {
    table t;
    assert_ok(read_text(same[i], NULL, &t));
    assert_int_equal(t.rows, 2);
    ASSERT_ROW(&t, 0, 1.5f, -2);
    ASSERT_ROW(&t, 1, 3, 40);
    assert_int_equal(t.labels[1], 1);
    assert_null(t.learned);
  }
  /* Said rather than found: a semicolon in each line of a file with commas. */
  table t;
  assert_ok(read_text("1,2;x,0\n3,4;y,1\n", "separator=comma,skip=1", &t));
  ASSERT_ROW(&t, 1, 3);
  assert_fails(read_text("1,2,0\n", "separator=:", &t), SHOAL_ERR_ARGUMENT, "tab, semicolon, pipe, comma or blank");
  /* Lines that differ: by the first one, and the bad one is named. */
  assert_fails(read_text("a,b,y\n1,2,0\n1,2\n", NULL, &t), SHOAL_ERR_INPUT,
               "a.csv: record 1 at byte 12: line 3: "
               "expected 3 fields");
}

static void missing_values(void **state) {
  static const char *const words[] = {"", "NA", "na", "N/A", "nan", "NaN", "null", "NULL", "None", "?", " ", "\"\""};
  for (size_t i = 0; i < COUNT_OF(words); i++) {
    char content[256];
    table t;
    snprintf(content, sizeof content, "age,fare,y\n10,1,0\n%s,2,1\n30,4,1\n", words[i]);
    assert_fails(read_text(content, NULL, &t), SHOAL_ERR_INPUT,
                 "a.csv: record 1 at byte 18: line 3: column 0 ('age'): the value is missing");
    assert_fails(read_text(content, "missing=error", &t), SHOAL_ERR_INPUT, "missing=mean (of the training rows)");
    assert_ok(read_text(content, "missing=-1", &t));
    ASSERT_ROW(&t, 1, -1, 2);
    assert_null(t.learned);
    assert_ok(read_text(content, "missing=mean", &t));
    ASSERT_ROW(&t, 1, 20, 2);
    ASSERT_ROW(&t, 2, 30, 4);
    assert_non_null(t.learned);
    free(t.learned);
  }
  table t;
  assert_fails(read_text("1,2,0\n", "missing=often", &t), SHOAL_ERR_ARGUMENT, "error, mean or a number");
}

static void text_columns(void **state) {
  table t;
  assert_ok(read_text("sex,age,port,y\nmale,22,S,0\nfemale,38,C,1\nfemale,26,,1\nmale,35,S,0\n", "missing=mean", &t));
  assert_int_equal(t.rows, 4);
  ASSERT_ROW(&t, 0, 0, 1, 22, 0, 1); /* female, male, age, C, S */
  ASSERT_ROW(&t, 1, 1, 0, 38, 1, 0);
  ASSERT_ROW(&t, 2, 1, 0, 26, 0, 0); /* no port: none of them */
  free(t.learned);
  /* Numbers that are names, words that are many, and both as asked for. */
  assert_ok(read_text("rank,x,y\n3,1,0\n1,2,1\n3,3,1\n", "categories=rank", &t));
  ASSERT_ROW(&t, 0, 0, 1, 1);
  ASSERT_ROW(&t, 1, 1, 0, 2);
  free(t.learned);
  assert_ok(read_text("name,x,y\nann,1,0\nbob,2,1\nann,3,1\n", "hash=name:5", &t));
  assert_int_equal(t.width, 6);
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < 5; i++) assert_true(t.x[r * 6 + i] == (i == csv_bucket(r == 1 ? "bob" : "ann", 5)));
  free(t.learned);
  /* Letters only, and no header: what a header holds differs. */
  assert_ok(read_text("p,x,s,x\ne,x,y,x\n", "label=0", &t));
  assert_int_equal(t.rows, 2);
  ASSERT_ROW(&t, 0, 1, 1, 0, 1);
  free(t.learned);
  /* Most of the column is numbers: a word in it is a mistake. */
  assert_fails(read_text("a,y\n1,0\n2,0\nx3,1\n", NULL, &t), SHOAL_ERR_INPUT,
               "a.csv: record 2 at byte 12: line 4: column 0 ('a'): expected a number, found 'x3': correct it, or say");
  assert_ok(read_text("a,y\n1,0\n2,0\nx3,1\n", "categories=a", &t));
  assert_int_equal(t.width, 3);
  free(t.learned);
  assert_fails(read_text("a,y\nb,0\nc,1\n", "numbers=a", &t), SHOAL_ERR_INPUT, "expected a number, found 'b'");
  assert_fails(read_text("a,y\n1,0\n", "hash=a:0", &t), SHOAL_ERR_ARGUMENT, "a width of 1 to 65536");
  assert_fails(read_text("a,y\n1,0\n", "categories=b", &t), SHOAL_ERR_ARGUMENT, "unknown column 'b'");
}

/* Up to 64 different words each have a number; of more the column is hashed. */
static void few_words_and_many(void **state) {
  for (int words = 64; words <= 65; words++) {
    char content[4096] = "word,y\n";
    for (int i = 0; i < words; i++) snprintf(content + strlen(content), 32, "w%02d,%d\n", i, i % 2);
    shoal_pipeline *p;
    rows_schema s;
    assert_ok(shoal_pipeline_create(&(shoal_pipeline_options){.files = write_csv("a.csv", content), .epochs = 1}, &p));
    pipeline_schema(p, &s);
    assert_int_equal(shoal_shape_count(&s.shape), 64);
    assert_non_null(strstr(shoal_pipeline_preprocessing(p), words == 64 ? "\"categories\"" : "\"hash\""));
    shoal_pipeline_destroy(p);
  }
}

/* Latin-1 words are kept as text, and found again. */
static void latin_words(void **state) {
  table t, again;
  assert_ok(
      read_text("stra\xdf"
                "e,y\nM\xfchle,0\nBahn,1\n",
                "label=y", &t));
  ASSERT_ROW(&t, 0, 0, 1);
  assert_non_null(strstr(t.learned, "M\xc3\xbchle"));
  assert_ok(read_with(&(shoal_pipeline_options){.files = write_csv("b.csv",
                                                                   "stra\xc3\x9f"
                                                                   "e,y\nM\xc3\xbchle,1\n"),
                                                .columns = "label=y",
                                                .preprocessing = t.learned},
                      &again));
  ASSERT_ROW(&again, 0, 0, 1);
  free(t.learned);
  free(again.learned);
}

/* Test rows: columns in another order, a word that was never seen, a value to be filled with the mean of the others. */
static void learned_once(void **state) {
  static const char train[] = "sex,age,port,y\nmale,20,S,0\nfemale,40,C,1\nfemale,NA,Q,1\n";
  static const char test[] = "y,port,age,sex\n1,X,?,male\n0,C,7,female\n";
  table a, b;
  assert_ok(read_with(
      &(shoal_pipeline_options){.files = write_csv("train.csv", train), .columns = "missing=mean,label=y"}, &a));
  assert_ok(read_with(
      &(shoal_pipeline_options){
          .files = write_csv("test.csv", test), .columns = "missing=mean,label=y", .preprocessing = a.learned},
      &b));
  ASSERT_ROW(&a, 2, 1, 0, 30, 0, 1, 0);
  ASSERT_ROW(&b, 0, 0, 1, 30, 0, 0, 0);
  ASSERT_ROW(&b, 1, 1, 0, 7, 1, 0, 0);
  assert_int_equal(b.labels[0], 1);
  assert_string_equal(a.learned, b.learned);
  /* By itself it would be something else. */
  table alone;
  assert_ok(read_with(
      &(shoal_pipeline_options){.files = write_csv("test.csv", test), .columns = "missing=mean,label=y"}, &alone));
  assert_int_equal(alone.width, 5);
  free(alone.learned);
  free(b.learned);
  shoal_pipeline_options o = {.columns = "missing=mean,label=y", .preprocessing = a.learned};
  o.files = write_csv("test.csv", "y,port,age\n1,X,3\n");
  assert_fails(read_with(&o, &b), SHOAL_ERR_INPUT, "test.csv: expected a column 'sex', as in the training rows");
  o.files = write_csv("test.csv", "y,port,age,sex,extra\n1,X,3,male,5\n");
  assert_fails(read_with(&o, &b), SHOAL_ERR_INPUT, "column 4 ('extra') is none of the 4 columns");
  free(a.learned);
}

/* Words and means of all files, in whatever order a worker reads them. */
static void learned_from_all_files(void **state) {
  char files[FILES_PATH * 2 + 64];
  write_csv("1.csv", "k,v,y\nb,1,0\nc,NA,1\n");
  write_csv("2.csv", "k,v,y\na,5,0\nb,9,1\n");
  snprintf(files, sizeof files, "%s/1.csv,%s/2.csv", dir, dir);
  for (int shard = 0; shard < 2; shard++) {
    table t;
    assert_ok(read_with(
        &(shoal_pipeline_options){.files = files, .columns = "missing=mean", .shard = shard, .shards = 2}, &t));
    assert_int_equal(t.rows, 2);
    if (shard)
      ASSERT_ROW(&t, 0, 1, 0, 0, 5);
    else
      ASSERT_ROW(&t, 1, 0, 0, 1, 5);
    free(t.learned);
  }
}

static void scaled_columns(void **state) {
  static const char train[] = "a,b,c,y\n1,10,7,0\n2,30,7,1\n3,20,7,0\n", test[] = "a,b,c,y\n4,50,8,1\n";
  const float d = 0.81649658f; /* of 1, 2, 3 */
  table t, u;
  shoal_pipeline_options o = {.files = write_csv("train.csv", train), .transform = "standardise"};
  assert_ok(read_with(&o, &t));
  ASSERT_ROW(&t, 0, -1 / d, -1 / d, 0);
  ASSERT_ROW(&t, 1, 0, 1 / d, 0);
  o.files = write_csv("test.csv", test);
  o.preprocessing = t.learned;
  o.transform = "standardize";
  assert_ok(read_with(&o, &u));
  ASSERT_ROW(&u, 0, 2 / d, 3 / d, 1);
  free(u.learned);
  o.transform = "minmax";
  assert_fails(read_with(&o, &u), SHOAL_ERR_INPUT,
               "minmax of 3 numbers needs statistics of the training rows, but those "
               "that are kept are of standardise");
  free(t.learned);
  o = (shoal_pipeline_options){.files = write_csv("train.csv", train), .transform = "minmax"};
  assert_ok(read_with(&o, &t));
  ASSERT_ROW(&t, 1, 0.5f, 1, 0);
  o.files = write_csv("test.csv", test);
  o.preprocessing = t.learned;
  assert_ok(read_with(&o, &u));
  ASSERT_ROW(&u, 0, 1.5f, 2, 1);
  free(u.learned);
  free(t.learned);
  o = (shoal_pipeline_options){.files = write_csv("train.csv", train), .transform = "scale=1/10"};
  assert_ok(read_with(&o, &t));
  ASSERT_ROW(&t, 0, 0.1f, 1, 0.7f);
  assert_null(t.learned);
  static const struct {
    const char *transform, *words;
  } wrong[] = {{"scale=0", "scale=1/255"},   {"scale=", "scale=1/255"},         {"scale=1/0", "scale=1/255"},
               {"resize=3x3", "not resize"}, {"scale=2,minmax", "not several"}, {"minmux", "did you mean 'minmax'"}};
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    o.transform = wrong[i].transform;
    assert_fails(read_with(&o, &t), SHOAL_ERR_ARGUMENT, wrong[i].words);
  }
}

/* Statistics are those of all rows, whatever part of them a worker reads. */
static void scaled_shards(void **state) {
  for (int shard = 0; shard < 2; shard++) {
    table t;
    assert_ok(read_with(&(shoal_pipeline_options){.files = write_csv("a.csv", "a,y\n0,0\n4,1\n8,0\n16,1\n"),
                                                  .transform = "minmax",
                                                  .shard = shard,
                                                  .shards = 2},
                        &t));
    assert_int_equal(t.rows, 2);
    assert_true(t.x[1] == (shard ? 1 : 0.5f));
    free(t.learned);
  }
}

/* The same by the public headers alone: trained, saved, loaded, and test rows read as the training rows were. */
static void through_the_library(void **state) {
  char *files, path[FILES_PATH + 64], rows[4096] = "size;kind;y\n";
  for (int i = 0; i < 60; i++)
    snprintf(rows + strlen(rows), 64, "%d;%s;%s\n", 1000 + i % 7, i % 3 ? "fish" : "bird", i % 3 ? "wet" : "dry");
  write_csv("train.csv", rows);
  write_csv("test.csv", "y;kind;size\ndry;bird;1003\nwet;fish;1001\nwet;fish;NA\n");
  shoal_pipeline_options o = {.columns = "missing=mean", .transform = "minmax"};
  shoal_dataset *train, *test;
  shoal_model *m;
  shoal_evaluation e;
  assert_ok(shoal_dataset_files(dir, "train", &files));
  o.files = files;
  assert_ok(shoal_dataset_read(&o, 0, &train));
  free(files);
  assert_int_equal(train->features.shape.dim[1], 3);
  snprintf(path, sizeof path, "%s/model", dir);
  for (int life = 0; life < 2; life++) {
    assert_ok(shoal_model_create(SHOAL_SHAPE(3), &m));
    shoal_model_dense(m, 2, "softmax");
    assert_ok(shoal_model_compile(m, &(shoal_compile_options){.schedule = {.rate = 1}, .threads = 1}));
    if (!life) {
      assert_ok(shoal_model_fit(m, train, &(shoal_fit_options){.epochs = 40, .batch_size = 60}, NULL));
      assert_ok(shoal_model_save(m, path));
      shoal_model_destroy(m);
      shoal_dataset_destroy(train);
    }
  }
  assert_null(shoal_model_preprocessing(m));
  assert_ok(shoal_model_load(m, path));
  assert_ok(shoal_dataset_files(dir, "test", &files));
  o = (shoal_pipeline_options){.files = files,
                               .columns = o.columns,
                               .transform = o.transform,
                               .class_names = shoal_model_class_names(m),
                               .preprocessing = shoal_model_preprocessing(m)};
  assert_ok(shoal_dataset_read(&o, 0, &test));
  const float *x = test->features.data;
  assert_true(x[0] == 0.5f && x[1] == 1 && x[2] == 0 && fabsf(x[6] - 0.48f) < 0.01f);
  assert_ok(shoal_model_evaluate(m, test, &e));
  assert_true(e.accuracy == 1);
  assert_fails(shoal_model_set_preprocessing(m, "{"), SHOAL_ERR_INPUT, "expected a JSON object");
  free(files);
  shoal_dataset_destroy(test);
  shoal_model_destroy(m);
}

static void wrong_preprocessing(void **state) {
  static const struct {
    const char *words, *expected;
  } cases[] = {
      {"", "expected a JSON object"},
      {"[1]", "found something else"},
      {"{\"columns\": [{}]}", "\"role\""},
      {"{\"columns\": [{\"role\": \"feature\"}]}", "\"kind\""},
      {"{\"columns\": [{\"role\": \"label\"}]}", "a feature"},
      {"{\"columns\": [{\"role\": \"label\"}, {\"role\": \"label\"}]}", "one column that is the label"},
      {"{\"columns\": [{\"role\": \"feature\", \"kind\": \"hash\", \"width\": 0}]}", "\"width\" of 1"},
      {"{\"columns\": [{\"role\": \"feature\", \"kind\": \"categories\", \"words\": [\"a\", \"a\"]}]}", "twice"},
      {"{\"features\": {\"step\": \"minmax\", \"shift\": [1], \"scale\": []}}", "\"scale\""},
      {"{\"features\": {\"shift\": [1], \"scale\": [1]}}", "a step"},
  };
  const char *path = write_csv("a.csv", "a,y\n1,0\n");
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    shoal_pipeline *p;
    shoal_status status =
        shoal_pipeline_create(&(shoal_pipeline_options){.files = path, .preprocessing = cases[i].words}, &p);
    if (!status || !strstr(shoal_status_message(status), cases[i].expected))
      fail_msg("%s: %s", cases[i].words, status ? shoal_status_message(status) : "no error");
    shoal_status_free(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(separators),
                                     cmocka_unit_test(missing_values),
                                     cmocka_unit_test(text_columns),
                                     cmocka_unit_test(few_words_and_many),
                                     cmocka_unit_test(latin_words),
                                     cmocka_unit_test(learned_once),
                                     cmocka_unit_test(learned_from_all_files),
                                     cmocka_unit_test(scaled_columns),
                                     cmocka_unit_test(scaled_shards),
                                     cmocka_unit_test(wrong_preprocessing),
                                     cmocka_unit_test(through_the_library)};
  return cmocka_run_group_tests_name("csv", tests, setup, teardown);
}
