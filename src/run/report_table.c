/* A run's result, its tasks and tests of a trained model as tables for people. */
#include "base/table.h"
#include "shoal/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has_servers(const shoal_run_report *r) { return !strcmp(r->job.strategy, "ps"); }

static bool is_regression(const shoal_run_report *r) { return r->job.loss != NULL; }

static double per_second(int64_t count, double seconds) {
  return seconds > 0 && count > 0 ? (double)count / seconds : NAN;
}

static void set_speed(shoal_result_table *t, int column, double speed) {
  if (speed < 100 || !isfinite(speed))
    table_set_number(t, 0, column, speed, 1);
  else
    table_set_int(t, 0, column, (int64_t)(speed + 0.5));
}

/* ---- the result */

enum {
  MODEL,
  STRATEGY,
  WORKERS,
  BATCH,
  GLOBAL,
  EPOCHS,
  UPDATES,
  RATE,
  SECONDS,
  SPEED,
  LOSS,
  ACCURACY,
  RMSE,
  R2,
  HELD_LOSS,
  HELD_ACCURACY,
  RESULT_COLUMNS
};

static const shoal_result_column result_columns[RESULT_COLUMNS] = {
    [MODEL] = {.head = "model", .left = true},
    [STRATEGY] = {.head = "strategy", .left = true},
    [WORKERS] = {.head = "workers"},
    [BATCH] = {.head = "batch"},
    [GLOBAL] = {.head = "global\nbatch"},
    [EPOCHS] = {.head = "epochs"},
    [UPDATES] = {.head = "updates"},
    [RATE] = {.head = "effective\nlr", .left = true},
    [SECONDS] = {.head = "seconds"},
    [SPEED] = {.head = "examples/s"},
    [LOSS] = {.head = "final\nloss"},
    [ACCURACY] = {.head = "test\naccuracy"},
    [RMSE] = {.head = "test\nRMSE"},
    [R2] = {.head = "test\nR2"},
    [HELD_LOSS] = {.head = "validation\nloss"},
    [HELD_ACCURACY] = {.head = "validation\naccuracy"},
};

/* Columns that say nothing of this run. */
static void drop_unused(const shoal_run_report *r, shoal_result_table *t) {
  const bool regression = is_regression(r), held_out = isfinite(r->fit.validation_loss);
  const bool unused[RESULT_COLUMNS] = {[ACCURACY] = regression,
                                       [RMSE] = !regression,
                                       [R2] = !regression,
                                       [HELD_LOSS] = !held_out,
                                       [HELD_ACCURACY] = !held_out || regression};
  for (int c = RESULT_COLUMNS - 1; c >= 0; c--)
    if (unused[c]) table_drop_column(t, c);
}

shoal_status shoal_run_report_table(const shoal_run_report *r, shoal_result_table **out) {
  const shoal_job *f = &r->job;
  const shoal_fit_result *fit = &r->fit;
  shoal_result_table *t;
  TRY(table_create(1, result_columns, RESULT_COLUMNS, &t));
  table_set(t, 0, MODEL, "%s", f->model);
  table_set(t, 0, STRATEGY, "%s%s%s", f->strategy, has_servers(r) ? " " : "", has_servers(r) ? f->mode : "");
  table_set_int(t, 0, WORKERS, f->workers);
  if (r->final_workers < f->workers) table_set(t, 0, WORKERS, "%d of %lld", r->final_workers, (long long)f->workers);
  table_set_int(t, 0, BATCH, f->batch_size);
  table_set_int(t, 0, GLOBAL, r->global_batch);
  table_set_int(t, 0, EPOCHS, fit->epochs);
  table_set_int(t, 0, UPDATES, fit->updates);
  table_set(t, 0, RATE, "%.6g %s", r->effective_rate, f->schedule);
  table_set_number(t, 0, SECONDS, fit->examples_seconds, 2);
  set_speed(t, SPEED, per_second(fit->run_examples, fit->examples_seconds));
  table_set_number(t, 0, LOSS, fit->final_loss, 4);
  table_set_share(t, 0, ACCURACY, r->test.accuracy);
  table_set_number(t, 0, RMSE, r->test.rmse, 4);
  table_set_number(t, 0, R2, r->test.r2, 4);
  table_set_number(t, 0, HELD_LOSS, fit->validation_loss, 4);
  table_set_share(t, 0, HELD_ACCURACY, fit->validation_accuracy);
  drop_unused(r, t);
  return table_done(t, NULL, out);
}

/* ---- its tasks */

/* A process alone. */
static shoal_status own_table(const shoal_run_report *r, shoal_result_table **out) {
  static const shoal_result_column columns[] = {{.head = "task", .left = true}, {.head = "CPU"},
                                                {.head = "CPU\npeak"},          {.head = "memory\npeak"},
                                                {.head = "disk\nread"},         {.head = "disk\nwritten"}};
  enum { TASK, CPU, CPU_PEAK, MEMORY, READ, WRITTEN, COLUMNS };
  shoal_result_table *t;
  TRY(table_create(r->n_tasks, columns, COLUMNS, &t));
  for (int i = 0; i < r->n_tasks; i++) {
    const shoal_usage *use = &r->tasks[i].use;
    table_set(t, i, TASK, "%s", r->tasks[i].name);
    table_set(t, i, CPU, "%.0f %%", use->cpu_percent_mean);
    table_set(t, i, CPU_PEAK, "%.0f %%", use->cpu_percent_peak);
    table_set_bytes(t, i, MEMORY, use->rss_peak_bytes);
    table_set_bytes(t, i, READ, use->disk_read_bytes);
    table_set_bytes(t, i, WRITTEN, use->disk_written_bytes);
  }
  return table_done(t, NULL, out);
}

enum { TASK, STEPS, EXAMPLES, SCORE, CPU, MEMORY, SENT, RECEIVED, READ, WRITTEN, TASK_COLUMNS };

/* Below 0: not known. */
static void set_count(shoal_result_table *t, int row, int column, int64_t count) {
  if (count >= 0)
    table_set_int(t, row, column, count);
  else
    table_set(t, row, column, "-");
}

static void set_task(shoal_result_table *t, int row, const shoal_task_report *task, bool regression) {
  const bool tests = task->evaluations >= 0;
  table_set(t, row, TASK, "%s", task->name);
  set_count(t, row, STEPS, tests ? task->evaluations : task->steps >= 0 ? task->steps : task->updates);
  set_count(t, row, EXAMPLES, task->steps >= 0 ? task->examples : -1);
  if (regression)
    table_set_number(t, row, SCORE, tests ? task->last_rmse : task->test_rmse, 4);
  else
    table_set_share(t, row, SCORE, tests ? task->last_accuracy : task->test_accuracy);
  table_set(t, row, CPU, "%.0f %%", task->use.cpu_percent_mean);
  table_set_bytes(t, row, MEMORY, task->use.rss_peak_bytes);
  table_set_bytes(t, row, SENT, task->net_sent_bytes);
  table_set_bytes(t, row, RECEIVED, task->net_received_bytes);
  table_set_bytes(t, row, READ, task->use.disk_read_bytes);
  table_set_bytes(t, row, WRITTEN, task->use.disk_written_bytes);
}

shoal_status shoal_run_report_task_table(const shoal_run_report *r, shoal_result_table **out) {
  if (!has_servers(r) && strcmp(r->job.strategy, "allreduce")) return own_table(r, out);
  const bool regression = is_regression(r);
  const shoal_result_column columns[TASK_COLUMNS] = {[TASK] = {.head = "task", .left = true},
                                                     [STEPS] = {.head = "steps or\nupdates"},
                                                     [EXAMPLES] = {.head = "examples"},
                                                     [SCORE] = {.head = regression ? "test\nRMSE" : "test\naccuracy"},
                                                     [CPU] = {.head = "CPU"},
                                                     [MEMORY] = {.head = "memory\npeak"},
                                                     [SENT] = {.head = "net\nsent"},
                                                     [RECEIVED] = {.head = "net\nreceived"},
                                                     [READ] = {.head = "disk\nread"},
                                                     [WRITTEN] = {.head = "disk\nwritten"}};
  shoal_result_table *t;
  TRY(table_create(r->n_tasks, columns, TASK_COLUMNS, &t));
  for (int i = 0; i < r->n_tasks; i++) set_task(t, i, &r->tasks[i], regression);
  return table_done(t, NULL, out);
}

/* ---- tests of trained models */

/* Head of a figure's column. */
static void set_figure(shoal_result_table *t, int column, const shoal_metric *m, const shoal_job *job, double figure) {
  char top_k[32];
  snprintf(top_k, sizeof top_k, "top %lld", (long long)job->top_k);
  table_set_column(t, column, (shoal_result_column){.head = strcmp(m->name, "top_k") ? m->head : top_k});
  if (m->share)
    table_set_share(t, 0, column, figure);
  else
    table_set_number(t, 0, column, figure, 4);
}

shoal_status shoal_test_result_table(shoal_trained *trained, const shoal_test_result *r, shoal_result_table **out) {
  enum { MODEL_NAME, DATA, ROWS, TEST_LOSS, FIGURES };
  static const shoal_result_column columns[FIGURES] = {
      {.head = "model", .left = true}, {.head = "data", .left = true}, {.head = "examples"}, {.head = "loss"}};
  const shoal_evaluation *e = &r->scores;
  const shoal_job *job = shoal_trained_job(trained);
  const char *data = !strcmp(r->split, "test") && job->test_data ? job->test_data : job->data;
  int n = FIGURES;
  for (const shoal_metric *m = shoal_metrics() + 1; m->name; m++) n += isfinite(shoal_evaluation_get(e, m)) != 0;
  shoal_result_table *t;
  TRY(table_create(1, NULL, n, &t));
  for (int c = 0; c < FIGURES; c++) table_set_column(t, c, columns[c]);
  table_set(t, 0, MODEL_NAME, "%s", job->model);
  table_set(t, 0, DATA, "%.40s, %s", data, r->split);
  table_set_int(t, 0, ROWS, e->examples);
  table_set_number(t, 0, TEST_LOSS, e->loss, 4);
  n = FIGURES;
  for (const shoal_metric *m = shoal_metrics() + 1; m->name; m++)
    if (isfinite(shoal_evaluation_get(e, m))) set_figure(t, n++, m, job, shoal_evaluation_get(e, m));
  return table_done(t, NULL, out);
}

shoal_status shoal_confusion_table(const shoal_confusion *c, const char *const *names, shoal_result_table **out) {
  const int columns = c->classes + 2; /* the class, what it was taken for, the share that was right */
  char name[SHOAL_CLASS_NAME_TEXT];
  shoal_result_table *t;
  TRY(table_create(c->classes, NULL, columns, &t));
  table_set_column(t, 0, (shoal_result_column){.head = "class", .left = true});
  table_set_column(t, columns - 1, (shoal_result_column){.head = "right"});
  for (int i = 0; i < c->classes; i++) {
    const int64_t *counts = c->counts + (int64_t)i * c->classes;
    int64_t all = 0;
    table_set(t, i, 0, "%s", shoal_class_name(names, i, name));
    table_set_column(t, i + 1, (shoal_result_column){.head = shoal_class_name(names, i, name)});
    for (int k = 0; k < c->classes; k++) {
      table_set_int(t, i, k + 1, counts[k]);
      all += counts[k];
    }
    table_set_share(t, i, columns - 1, all ? (double)counts[i] / (double)all : NAN);
  }
  return table_done(t, NULL, out);
}
