/* Several runs from C: shoal/sweep.h. */
#include "public.h"

#include <math.h>
#include <sys/stat.h>

#define assert_near(value, wanted, within) assert_true(fabs((value) - (wanted)) <= (within))
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static shoal_status create(const char *const *words, int n, const char *folder, int64_t repeats, shoal_sweep **out) {
  return shoal_sweep_create(words, n, &SHOAL_OPTIONS(shoal_sweep_options, .run_dir = folder, .repeats = repeats), out);
}

/* The words of a run with blanks between them. */
static void join(const shoal_listed_run *r, char *out, size_t size) {
  *out = 0;
  for (int i = 0; i < r->n_words; i++)
    snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? " " : "", r->words[i]);
}

static void assert_run(shoal_sweep *s, size_t i, const char *name, const char *words) {
  char line[512];
  const shoal_listed_run r = shoal_run_list_at(shoal_sweep_runs(s), i);
  join(&r, line, sizeof line);
  assert_string_equal(r.name, name);
  assert_string_equal(line, words);
}

static void read_file(const char *path, char *out, size_t size) {
  FILE *f = fopen(path, "re");
  assert_non_null(f);
  out[fread(out, 1, size - 1, f)] = 0;
  fclose(f);
}

/* A run's folder as it is left by one that finished. */
static void leave_result(const char *folder, const char *name, double accuracy, double seconds) {
  char path[512], summary[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0777), 0);
  strcat(path, "/summary.json");
  snprintf(summary, sizeof summary,
           "{\"status\": \"finished\", \"updates\": 1500, \"seconds\": %g, \"test_accuracy\": %g, "
           "\"schedule\": \"constant\"}",
           seconds, accuracy);
  test_write(path, summary);
}

/* ---- the grid */

static void every_combination_has_a_name_and_words(void **state) {
  const char *const words[] = {"lenet", "--batch-size", "64,128", "--optimizer", "momentum", "--nesterov=yes,no"};
  shoal_sweep *s;
  assert_ok(create(words, COUNT(words), "never/made", 0, &s));
  assert_string_equal(shoal_sweep_model(s), "lenet");
  assert_int_equal(shoal_sweep_combinations(s), 4);
  assert_int_equal(shoal_run_list_count(shoal_sweep_runs(s)), 4);
  assert_string_equal(shoal_run_list_folder(shoal_sweep_runs(s)), "never/made");
  assert_run(s, 0, "batch-size=64,nesterov=yes", "train lenet --batch-size 64 --optimizer momentum --nesterov");
  assert_run(s, 3, "batch-size=128,nesterov=no", "train lenet --batch-size 128 --optimizer momentum");
  assert_string_equal(shoal_sweep_value(s, 2, "batch-size"), "128");
  assert_string_equal(shoal_sweep_value(s, 2, "nesterov"), "yes");
  assert_string_equal(shoal_sweep_value(s, 2, "optimizer"), "momentum");
  assert_null(shoal_sweep_value(s, 2, "lr"));
  shoal_sweep_destroy(s);
}

static void repeats_count_seeds_on(void **state) {
  const char *const words[] = {"softmax", "--seed", "7", "--columns", "a,b", "--columns", "c/d"};
  shoal_sweep *s;
  assert_ok(create(words, COUNT(words), "never/made", 2, &s));
  assert_int_equal(shoal_run_list_count(shoal_sweep_runs(s)), 4);
  assert_run(s, 1, "columns=a,b,repeat=2", "train softmax --seed 7 --columns a,b --seed 8");
  assert_run(s, 2, "columns=c_d,repeat=1", "train softmax --seed 7 --columns c/d --seed 7");
  shoal_sweep_destroy(s);
}

static void what_does_not_go_together_is_refused(void **state) {
  static const struct {
    const char *words[5];
    int64_t repeats;
    const char *why;
  } cases[] = {
      {{"--lr", "0.1"}, 0, "which model"},
      {{"softmax", "lenet"}, 0, "expected one model"},
      {{"sofmax"}, 0, "unknown model 'sofmax'"},
      {{"softmax", "--batch-sise", "1,2"}, 0, "did you mean `batch-size`"},
      {{"softmax", "--lr", "0.1,x"}, 0, "lr=x: `lr`: expected a number"},
      {{"softmax", "--lr", "0.1,0.1"}, 0, "`lr`: 0.1 is listed twice"},
      {{"softmax", "--lr"}, 0, "`lr` needs a value"},
      {{"softmax", "--nesterov=maybe"}, 0, "`nesterov` takes no value, or yes, no or yes,no"},
      {{"softmax", "--keys", "k"}, 0, "this machine only"},
      {{"softmax", "--seed", "1,2"}, 2, "leave the list of `seed` out"},
      {{"softmax", "--lr", "0.1,0.2"}, 4000, "8000 runs are more than 4096"},
      {{"softmax"}, -1, "`repeats` -1"},
  };
  shoal_sweep *s;
  for (int i = 0; i < COUNT(cases); i++) {
    int n = 0;
    while (cases[i].words[n]) n++;
    assert_fails(create(cases[i].words, n, "never/made", cases[i].repeats, &s), SHOAL_ERR_ARGUMENT, cases[i].why);
  }
}

/* ---- results */

static void means_and_spreads_of_what_is_finished(void **state) {
  const char *folder = test_folder(), *const words[] = {"softmax", "--lr", "0.1,0.5,0.9"};
  shoal_sweep *s;
  shoal_result_table *t;
  size_t finished;
  char file[4096];
  assert_ok(create(words, COUNT(words), folder, 2, &s));
  leave_result(folder, "lr=0.1,repeat=1", 0.90, 1);
  leave_result(folder, "lr=0.1,repeat=2", 0.92, 3);
  leave_result(folder, "lr=0.5,repeat=2", 0.80, 2000);
  assert_ok(shoal_run_list_read(shoal_sweep_runs(s), &finished));
  assert_int_equal(finished, 3);
  assert_near(shoal_sweep_figure(s, 0, "test_accuracy").mean, 0.91, 1e-9);
  assert_near(shoal_sweep_figure(s, 0, "seconds").spread, sqrt(2), 1e-9);
  assert_near(shoal_sweep_figure(s, 1, "seconds").mean, 2000, 0);
  assert_true(isnan(shoal_sweep_figure(s, 1, "seconds").spread));
  assert_true(isnan(shoal_sweep_figure(s, 2, "seconds").mean));
  assert_ok(shoal_sweep_finish(s, &t));
  assert_int_equal(t->n_rows, 3);
  assert_string_equal(t->columns[0].head, "lr");
  assert_string_equal(t->columns[t->n_columns - 1].head, "test\naccuracy"); /* no column of other kinds of models */
  const char *const *last = t->cells + t->n_columns - 1;
  assert_string_equal(last[0], "91.00 +- 1.41 %");
  assert_string_equal(last[t->n_columns], "80.00 %");
  assert_string_equal(last[2 * t->n_columns], "-");
  read_file(test_path(folder, "results.md"), file, sizeof file);
  assert_non_null(strstr(file, "| 0.1 | - | 1,500 | - | constant | 2.00 +- 1.41 |"));
  assert_non_null(strstr(file, "| 0.5 | - | 1,500 | - | constant | 2,000.00 |"));
  read_file(test_path(folder, "results.csv"), file, sizeof file);
  assert_non_null(strstr(file, "\n\"lr=0.5,repeat=2\",0.5,2,,1500,,constant,2000,"));
  shoal_result_table_destroy(t);
  shoal_sweep_destroy(s);
  test_remove(folder);
}

/* ---- running */

typedef struct {
  int started, ended, *stop;
} heard;

static void on_start(void *context, size_t i) { ((heard *)context)->started++; }

/* Stops after the first run where `stop` is there. */
static void on_end(void *context, size_t i) {
  heard *h = context;
  h->ended++;
  if (h->stop) *h->stop = 15;
}

static shoal_status run(shoal_sweep *s, heard *h, shoal_run_list_outcome *outcome) {
  return shoal_run_list_run(shoal_sweep_runs(s),
                            &SHOAL_OPTIONS(shoal_run_list_options, .program = getenv("SHOAL_BIN"), .stop = h->stop,
                                           .context = h, .on_start = on_start, .on_end = on_end),
                            outcome);
}

/* Two settings on real processes: stopped after the first run, taken up from the folder, two of four fail. */
static void a_sweep_is_stopped_and_goes_on(void **state) {
  const char *folder = test_folder();
  const char *const words[] = {"softmax",      "--data", "fake", "--steps", "4",    "--threads", "1",
                               "--batch-size", "8,16",   "--lr", "0.1",     "--lr", "1e38"};
  int stop = 0;
  heard first = {.stop = &stop}, second = {0};
  shoal_run_list_outcome outcome;
  shoal_sweep *s;
  shoal_result_table *t;
  assert_ok(create(words, COUNT(words), folder, 0, &s));
  assert_ok(shoal_sweep_begin(s));
  assert_ok(run(s, &first, &outcome));
  assert_true(outcome.stopped);
  assert_int_equal(first.started, 1);
  assert_true(shoal_run_list_at(shoal_sweep_runs(s), 0).finished);
  shoal_sweep_destroy(s);

  assert_fails(create(words, COUNT(words), folder, 0, &s), SHOAL_ERR_ARGUMENT, "already contains a sweep");
  assert_fails(shoal_sweep_create(words, 3, &(shoal_sweep_options){.run_dir = folder, .resume = true}, &s),
               SHOAL_ERR_ARGUMENT, "other settings");
  assert_ok(shoal_sweep_create(NULL, 0, &(shoal_sweep_options){.run_dir = folder, .resume = true}, &s));
  assert_ok(run(s, &second, &outcome));
  assert_false(outcome.stopped);
  assert_int_equal(outcome.failed, 2);
  assert_int_equal(second.started, 3);
  assert_int_equal(second.ended, 3);
  for (size_t i = 0; i < 4; i++) {
    const shoal_listed_run r = shoal_run_list_at(shoal_sweep_runs(s), i);
    assert_true(r.finished == !r.error);
    if (r.finished) assert_near(shoal_run_list_number(shoal_sweep_runs(s), i, "steps"), 4, 0);
  }
  assert_near(shoal_sweep_figure(s, 2, "batch_size").mean, 16, 0);
  assert_ok(shoal_sweep_finish(s, &t));
  assert_int_equal(t->n_rows, 4);
  shoal_result_table_destroy(t);
  shoal_sweep_destroy(s);
  test_remove(folder);
}

static void a_run_that_fails_says_why(void **state) {
  const char *folder = test_folder(), *const words[] = {"train", "softmax", "--data", "/nowhere"};
  shoal_run_list_outcome outcome;
  shoal_run_list *l;
  assert_ok(shoal_run_list_create(folder, &l));
  assert_fails(shoal_run_list_add(l, "wrong", (const char *const[]){"train", "softmax", "--epochs", "x"}, 4),
               SHOAL_ERR_ARGUMENT, "wrong: `epochs`");
  assert_ok(shoal_run_list_add(l, "one", words, COUNT(words)));
  assert_int_equal(shoal_run_list_count(l), 1);
  assert_ok(shoal_run_list_run(l, &(shoal_run_list_options){.program = getenv("SHOAL_BIN")}, &outcome));
  assert_int_equal(outcome.failed, 1);
  assert_false(outcome.stopped);
  assert_false(shoal_run_list_at(l, 0).finished);
  assert_non_null(strstr(shoal_run_list_at(l, 0).error, "/nowhere"));
  assert_true(isnan(shoal_run_list_number(l, 0, "seconds")));
  shoal_run_list_destroy(l);
  test_remove(folder);
}

/* ---- experiments */

static void every_experiment_has_runs_that_can_be_compared(void **state) {
  const char *folder = test_folder();
  const shoal_experiment *e;
  shoal_run_list *l;
  shoal_result_table *t;
  char file[4096];
  for (int i = 0; (e = shoal_experiment_at(i)); i++) {
    assert_ok(shoal_experiment_runs(e, folder, &l));
    assert_ok(shoal_experiment_compare(e, l, &t)); /* every figure is known */
    assert_int_equal(t->n_rows, shoal_run_list_count(l));
    assert_string_equal(t->cells[1], "-");
    shoal_result_table_destroy(t);
    shoal_run_list_destroy(l);
  }
  assert_fails(shoal_experiment_find("B11", &e), SHOAL_ERR_ARGUMENT, "did you mean B1?");
  assert_ok(shoal_experiment_find("a1", &e));
  leave_result(folder, "1-node", 0.925, 12.3);
  assert_ok(shoal_experiment_runs(e, folder, &l));
  assert_false(shoal_experiment_lacks_data(e, l));
  assert_ok(shoal_run_list_read(l, NULL));
  assert_ok(shoal_experiment_compare(e, l, &t));
  assert_string_equal(t->columns[2].head, "reported\ntest accuracy");
  read_file(test_path(folder, "comparison.md"), file, sizeof file);
  assert_non_null(strstr(file, "| 1 node | 92.50 % | 92.63 % | 12.3 s | 121 s | - |"));
  read_file(test_path(folder, "comparison.csv"), file, sizeof file);
  assert_non_null(strstr(file, "\n1 node,92.50 %,92.63 %,12.3 s,121 s,-,"));
  shoal_result_table_destroy(t);
  shoal_run_list_destroy(l);
  test_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_combination_has_a_name_and_words),
      cmocka_unit_test(repeats_count_seeds_on),
      cmocka_unit_test(what_does_not_go_together_is_refused),
      cmocka_unit_test(means_and_spreads_of_what_is_finished),
      cmocka_unit_test(a_sweep_is_stopped_and_goes_on),
      cmocka_unit_test(a_run_that_fails_says_why),
      cmocka_unit_test(every_experiment_has_runs_that_can_be_compared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
