/* Whole jobs from C: shoal/run.h. */
#include "files.h"
#include "train_data.h"

#include "shoal/run.h"

#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) { return remove(path); }
static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* ---- settings */

static void settings_by_name(void **state) {
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  assert_ok(shoal_job_set(&job, "model", "softmax"));
  assert_ok(shoal_job_set(&job, "batch-size", "64"));
  assert_ok(shoal_job_set(&job, "eval_every", "10"));
  assert_ok(shoal_job_set(&job, "stream", "yes"));
  assert_int_equal(job.batch_size, 64);
  assert_int_equal(job.eval_every, 10);
  assert_true(job.stream);
  assert_fails(shoal_job_set(&job, "batch_sise", "64"), SHOAL_ERR_ARGUMENT, "did you mean `batch-size`");
  assert_fails(shoal_job_set(&job, "batch_size", "0"), SHOAL_ERR_ARGUMENT,
               "`batch-size`: expected a whole number from 1");
  assert_fails(shoal_job_set(&job, "optimizer", "sdg"), SHOAL_ERR_ARGUMENT, "did you mean sgd");
}

/* Every row can be set from what it says of itself, and two rows never share a field. */
static void every_setting_has_its_field(void **state) {
  const shoal_setting *table = shoal_job_settings();
  for (const shoal_setting *a = table; a->name; a++) {
    assert_non_null(a->help);
    assert_true(a->offset < sizeof(shoal_job));
    for (const shoal_setting *b = table; b < a; b++) {
      assert_string_not_equal(a->name, b->name);
      assert_int_not_equal(a->offset, b->offset);
    }
  }
}

static void defaults_are_filled_once(void **state) {
  shoal_job said, job;
  shoal_job_init(&said, sizeof said);
  said.model = "lenet";
  said.workers = 2;
  assert_ok(shoal_job_resolve(&said, &job));
  assert_string_equal(job.strategy, "ps");
  assert_int_equal(job.ps, 1);
  assert_string_equal(job.mode, "sync");
  assert_int_equal(job.seed, 1);
  assert_true(job.lr > 0 && job.epochs > 0 && job.batch_size > 0);
  assert_null(said.strategy); /* what was said stays as it was */
}

static void contradictions_name_settings(void **state) {
  shoal_job job, resolved;
  shoal_job_init(&job, sizeof job);
  assert_fails(shoal_job_resolve(&job, &resolved), SHOAL_ERR_ARGUMENT, "`model`");
  job.model = "softmaks";
  assert_fails(shoal_job_resolve(&job, &resolved), SHOAL_ERR_ARGUMENT, "did you mean softmax");
  job.model = "softmax";
  job.workers = 2;
  job.staleness = 3;
  assert_fails(shoal_job_resolve(&job, &resolved), SHOAL_ERR_ARGUMENT, "`staleness` does not apply to `mode` sync");
  job.mode = "async";
  assert_ok(shoal_job_resolve(&job, &resolved));
}

/* A program that was compiled when jobs had fewer settings. */
static void a_smaller_job_is_taken(void **state) {
  shoal_job job, resolved;
  memset(&job, 0x55, sizeof job);
  shoal_job_init(&job, offsetof(shoal_job, keep));
  job.model = "softmax";
  assert_ok(shoal_job_resolve(&job, &resolved));
  assert_int_equal(resolved.keep, 3);
  memset(&job, 0, sizeof job);
  job.model = "softmax";
  assert_fails(shoal_job_resolve(&job, &resolved), SHOAL_ERR_ARGUMENT, "shoal_job_init");
}

/* ---- a job with a model of its own, from a CSV file to a run folder and back */

static void build(shoal_model *m, const shoal_model_options *options) {
  shoal_model_dense(m, 8, "tanh");
  shoal_model_dense(m, 1, NULL);
}

static const shoal_model_kind own = {.name = "own",
                                     .batch_size = 10,
                                     .epochs = 40,
                                     .rate = 0.05,
                                     .input = {.rank = 1, .dim = {2}},
                                     .input_rule = SHOAL_INPUT_ANY,
                                     .loss = "mse",
                                     .build = build};

typedef struct {
  int ready, steps, epochs, notes;
} heard;

static void on_ready(void *context, const shoal_run_ready *r) {
  ((heard *)context)->ready++;
  assert_int_equal(r->rows, 200);
  assert_true(r->parameters > 0);
}
static void on_step(void *context, const shoal_progress *p) { ((heard *)context)->steps++; }
static void on_epoch(void *context, const shoal_progress *p) { ((heard *)context)->epochs++; }
static void on_note(void *context, const char *line) { ((heard *)context)->notes++; }

/* y = 2 a - b */
static void write_rows(const char *path, int n) {
  FILE *f = fopen(path, "we");
  assert_non_null(f);
  fputs("a,b,y\n", f);
  for (int i = 0; i < n; i++) {
    double a = sin(i), b = cos(3 * i);
    fprintf(f, "%.6f,%.6f,%.6f\n", a, b, 2 * a - b);
  }
  fclose(f);
}

static shoal_status count(void *context, const shoal_prediction *p) {
  int *n = context;
  assert_int_equal(p->row, *n);
  assert_int_equal(p->count, 1);
  assert_true(fabs(p->target - (double)*p->values) < 0.5);
  ++*n;
  return NULL;
}

static void own_model_to_a_folder_and_back(void **state) {
  char folder[FILES_PATH];
  files_make_folder(folder);
  char data[FILES_PATH + 16], run[FILES_PATH + 16], page[FILES_PATH + 64];
  snprintf(data, sizeof data, "%s/rows.csv", folder);
  snprintf(run, sizeof run, "%s/run", folder);
  write_rows(data, 200);
  heard h = {0};
  const shoal_run_options options = {
      .kind = &own,
      .listener = {&h, .on_ready = on_ready, .on_step = on_step, .on_epoch = on_epoch, .on_note = on_note}};
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.data = job.test_data = data;
  job.columns = "target=y";
  job.run_dir = run;
  job.threads = 1;
  shoal_run_report *r;
  assert_ok(shoal_run(&job, &options, &r));
  assert_string_equal(r->status, "finished");
  assert_true(r->trained && r->reports);
  assert_int_equal(r->fit.epochs, 40);
  assert_int_equal(r->n_tasks, 1);
  assert_string_equal(r->tasks[0].name, "worker/0");
  assert_true(r->test.r2 > 0.95);
  assert_int_equal(h.ready, 1);
  assert_int_equal(h.epochs, 40);
  const double rmse = r->test.rmse;
  shoal_run_report_destroy(r);

  /* A folder that holds a run is not written over. */
  assert_fails(shoal_run(&job, &options, &r), SHOAL_ERR_ARGUMENT, "add `resume`");
  shoal_run_report_destroy(r);
  job.resume = true;
  job.epochs = 41;
  assert_ok(shoal_run(&job, &options, &r));
  assert_int_equal(r->fit.epochs, 41);
  assert_true(r->fit.resumed_from > 0);
  shoal_run_report_destroy(r);

  shoal_trained *t;
  shoal_test_result result;
  assert_fails(shoal_trained_open(run, NULL, &t), SHOAL_ERR_ARGUMENT, "unknown model 'own'");
  assert_ok(shoal_trained_open(run, &(shoal_trained_options){.kind = &own, .threads = 1}, &t));
  assert_ok(shoal_trained_evaluate(t, NULL, false, &result));
  assert_int_equal(result.scores.examples, 200);
  assert_true(result.scores.rmse < rmse * 1.5);
  shoal_test_result_free(&result);
  int n = 0;
  const char *files[] = {data};
  assert_ok(shoal_trained_predict(t, files, 1, NULL, count, &n, NULL));
  assert_int_equal(n, 200);
  shoal_trained_close(t);

  snprintf(page, sizeof page, "%s/summary.json", run);
  json_t *summary = json_load_file(page, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(summary, "status")), "finished");
  assert_string_equal(json_string_value(json_object_get(summary, "model")), "own");
  json_decref(summary);
  remove_tree(folder);
}

/* A failure says so in the folder, and how far it came. */
static void a_failure_is_noted(void **state) {
  char folder[FILES_PATH];
  files_make_folder(folder);
  char data[FILES_PATH + 16], run[FILES_PATH + 16], path[FILES_PATH + 64];
  snprintf(data, sizeof data, "%s/rows.csv", folder);
  snprintf(run, sizeof run, "%s/run", folder);
  write_rows(data, 100);
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.data = data;
  job.columns = "target=y";
  job.run_dir = run;
  job.lr = 1e30;
  shoal_run_report *r;
  assert_fails(shoal_run(&job, &(shoal_run_options){.kind = &own}, &r), SHOAL_ERR_NUMERIC, "`lr`");
  assert_string_equal(r->status, "failed");
  assert_non_null(strstr(r->error, "`lr`"));
  shoal_run_report_destroy(r);
  snprintf(path, sizeof path, "%s/summary.json", run);
  json_t *summary = json_load_file(path, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(summary, "status")), "failed");
  json_decref(summary);
  remove_tree(folder);
}

/* A stop leaves a checkpoint, from which the run goes on. */
static void a_stop_is_clean(void **state) {
  char folder[FILES_PATH];
  files_make_folder(folder);
  char data[FILES_PATH + 16], run[FILES_PATH + 16];
  snprintf(data, sizeof data, "%s/rows.csv", folder);
  snprintf(run, sizeof run, "%s/run", folder);
  write_rows(data, 100);
  int stop = 1;
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.data = data;
  job.columns = "target=y";
  job.run_dir = run;
  shoal_run_report *r;
  assert_ok(shoal_run(&job, &(shoal_run_options){.kind = &own, .stop = &stop}, &r));
  assert_string_equal(r->status, "interrupted");
  shoal_run_report_destroy(r);
  job.resume = true;
  assert_ok(shoal_run(&job, &(shoal_run_options){.kind = &own}, &r));
  assert_string_equal(r->status, "finished");
  shoal_run_report_destroy(r);
  remove_tree(folder);
}

/* Rows that are streamed cannot be split, but validated on others. */
static void streams_stop_early(void **state) {
  char folder[FILES_PATH], data[FILES_PATH + 16], held[FILES_PATH + 16], run[FILES_PATH + 16];
  files_make_folder(folder);
  snprintf(data, sizeof data, "%s/rows.csv", folder);
  snprintf(held, sizeof held, "%s/held.csv", folder);
  snprintf(run, sizeof run, "%s/run", folder);
  write_rows(data, 100);
  write_rows(held, 30);
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.data = data;
  job.columns = "target=y";
  job.run_dir = run;
  job.stream = true;
  job.patience = 2;
  job.epochs = 2000;
  job.lr = 0.2;
  shoal_run_report *r;
  assert_fails(shoal_run(&job, &(shoal_run_options){.kind = &own}, &r), SHOAL_ERR_ARGUMENT, "`validation_data`");
  shoal_run_report_destroy(r);
  job.validation_data = held;
  assert_ok(shoal_run(&job, &(shoal_run_options){.kind = &own}, &r));
  assert_string_equal(r->status, "stopped early");
  assert_true(r->fit.epochs < 2000 && r->fit.best_epoch > 0 && r->fit.validation_loss < 0.1);
  shoal_run_report_destroy(r);
  remove_tree(folder);
}

/* Two at once would delete each other's files. */
static void one_run_a_folder(void **state) {
  char folder[FILES_PATH], data[FILES_PATH + 16], run[FILES_PATH + 16], expected[64];
  files_make_folder(folder);
  snprintf(data, sizeof data, "%s/rows.csv", folder);
  snprintf(run, sizeof run, "%s/run", folder);
  snprintf(expected, sizeof expected, "using this folder (process %d on", getpid());
  write_rows(data, 100);
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.data = data;
  job.columns = "target=y";
  job.run_dir = run;
  shoal_run_report *first, *second;
  assert_ok(
      shoal_run(&job, &(shoal_run_options){.kind = &own}, &first)); /* it holds the folder until it is destroyed */
  for (int turn = 0; turn < 2; turn++) {
    job.resume = turn;
    assert_fails(shoal_run(&job, &(shoal_run_options){.kind = &own}, &second), SHOAL_ERR_ARGUMENT, expected);
    shoal_run_report_destroy(second);
  }
  shoal_run_report_destroy(first);
  assert_ok(shoal_run(&job, &(shoal_run_options){.kind = &own}, &second));
  shoal_run_report_destroy(second);
  remove_tree(folder);
}

/* ---- processes */

static void a_process_has_a_log_and_an_end(void **state) {
  char folder[FILES_PATH];
  files_make_folder(folder);
  char log[FILES_PATH + 16], line[64] = "";
  int status = 0;
  snprintf(log, sizeof log, "%s/log", folder);
  const char *const argv[] = {"sh", "-c", "echo said; exit 3", NULL};
  assert_ok(shoal_process_run(&(shoal_process){.program = "sh", .argv = argv, .name = "one", .log = log}, &status));
  assert_int_equal(status >> 8, 3);
  FILE *f = fopen(log, "re");
  assert_non_null(fgets(line, sizeof line, f));
  fclose(f);
  assert_string_equal(line, "said\n");
  int stop = 1;
  const char *const sleeper[] = {"sleep", "60", NULL};
  assert_ok(shoal_process_run(
      &(shoal_process){.program = "sleep", .argv = sleeper, .name = "two", .log = log, .stop = &stop}, &status));
  assert_int_equal(status & 0x7f, 15);
  remove_tree(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings_by_name),
      cmocka_unit_test(every_setting_has_its_field),
      cmocka_unit_test(defaults_are_filled_once),
      cmocka_unit_test(contradictions_name_settings),
      cmocka_unit_test(a_smaller_job_is_taken),
      cmocka_unit_test(own_model_to_a_folder_and_back),
      cmocka_unit_test(a_failure_is_noted),
      cmocka_unit_test(a_stop_is_clean),
      cmocka_unit_test(streams_stop_early),
      cmocka_unit_test(one_run_a_folder),
      cmocka_unit_test(a_process_has_a_log_and_an_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
