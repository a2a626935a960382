#include "cli/result.h"

#include "cli/flags.h"
#include "cli/say.h"
#include "cli/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double per_second(int64_t count, double seconds) {
  return seconds > 0 && count > 0 ? (double)count / seconds : NAN;
}

static bool has_servers(const shoal_run_report *r) { return !strcmp(r->job.strategy, "ps"); }

static bool is_regression(const shoal_run_report *r) { return r->job.loss != NULL; }

/* ---- tables */

static void print_own(const shoal_usage *use, FILE *to, int width) {
  enum { TASK, CPU, CPU_PEAK, MEMORY, READ, WRITTEN, COLUMNS };
  table_column t[COLUMNS] = {
      [TASK] = {"task", true, "worker/0"},   [CPU] = {"CPU", false, ""},
      [CPU_PEAK] = {"CPU\npeak", false, ""}, [MEMORY] = {"memory\npeak", false, ""},
      [READ] = {"disk\nread", false, ""},    [WRITTEN] = {"disk\nwritten", false, ""},
  };
  snprintf(t[CPU].cell, TABLE_CELL, "%.0f %%", use->cpu_percent_mean);
  snprintf(t[CPU_PEAK].cell, TABLE_CELL, "%.0f %%", use->cpu_percent_peak);
  table_set_bytes(&t[MEMORY], use->rss_peak_bytes);
  table_set_bytes(&t[READ], use->disk_read_bytes);
  table_set_bytes(&t[WRITTEN], use->disk_written_bytes);
  table_print(to, t, 1, COLUMNS, width);
}

static void set_task(table_column *c, const shoal_task_report *t, bool regression) {
  enum { TASK, STEPS, EXAMPLES, SCORE, CPU, MEMORY, SENT, RECEIVED, READ, WRITTEN };
  const bool tests = t->evaluations >= 0;
  snprintf(c[TASK].cell, TABLE_CELL, "%s", t->name);
  table_set_int(&c[STEPS], tests ? t->evaluations : t->steps >= 0 ? t->steps : t->updates);
  if (t->steps >= 0)
    table_set_int(&c[EXAMPLES], t->examples);
  else
    table_set_text(&c[EXAMPLES], "-");
  if (regression) {
    c[SCORE].head = "test\nRMSE";
    table_set_number(&c[SCORE], tests ? t->last_rmse : t->test_rmse, 4);
  } else {
    table_set_share(&c[SCORE], tests ? t->last_accuracy : t->test_accuracy);
  }
  snprintf(c[CPU].cell, TABLE_CELL, "%.0f %%", t->use.cpu_percent_mean);
  table_set_bytes(&c[MEMORY], t->use.rss_peak_bytes);
  table_set_bytes(&c[SENT], t->net_sent_bytes);
  table_set_bytes(&c[RECEIVED], t->net_received_bytes);
  table_set_bytes(&c[READ], t->use.disk_read_bytes);
  table_set_bytes(&c[WRITTEN], t->use.disk_written_bytes);
}

static void print_tasks(const shoal_run_report *r, FILE *to, int width) {
  static const table_column head[] = {
      {"task", true, ""},        {"steps or\nupdates", false, ""},
      {"examples", false, ""},   {"test\naccuracy", false, ""},
      {"CPU", false, ""},        {"memory\npeak", false, ""},
      {"net\nsent", false, ""},  {"net\nreceived", false, ""},
      {"disk\nread", false, ""}, {"disk\nwritten", false, ""},
  };
  enum { COLUMNS = sizeof head / sizeof *head };
  table_column(*rows)[COLUMNS] = calloc((size_t)r->n_tasks + 1, sizeof *rows);
  if (!rows) return;
  for (int i = 0; i < r->n_tasks; i++) {
    memcpy(rows[i], head, sizeof head);
    set_task(rows[i], &r->tasks[i], is_regression(r));
  }
  table_print(to, rows[0], r->n_tasks, COLUMNS, width);
  free(rows);
}

static void print_result(const shoal_run_report *r, FILE *to, int width) {
  const shoal_job *f = &r->job;
  const shoal_fit_result *fit = &r->fit;
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
    COLUMNS
  };
  const bool regression = is_regression(r), held_out = isfinite(fit->validation_loss);
  table_column c[COLUMNS] = {
      [MODEL] = {"model", true, ""},
      [STRATEGY] = {"strategy", true, ""},
      [WORKERS] = {"workers", false, ""},
      [BATCH] = {"batch", false, ""},
      [GLOBAL] = {"global\nbatch", false, ""},
      [EPOCHS] = {"epochs", false, ""},
      [UPDATES] = {"updates", false, ""},
      [RATE] = {"effective\nlr", true, ""},
      [SECONDS] = {"seconds", false, ""},
      [SPEED] = {"examples/s", false, ""},
      [LOSS] = {"final\nloss", false, ""},
      [ACCURACY] = {"test\naccuracy", false, ""},
      [RMSE] = {"test\nRMSE", false, ""},
      [R2] = {"test\nR2", false, ""},
      [HELD_LOSS] = {"validation\nloss", false, ""},
      [HELD_ACCURACY] = {"validation\naccuracy", false, ""},
  };
  table_set_text(&c[MODEL], f->model);
  snprintf(c[STRATEGY].cell, TABLE_CELL, "%s%s%s", f->strategy, has_servers(r) ? " " : "",
           has_servers(r) ? f->mode : "");
  table_set_int(&c[WORKERS], f->workers);
  if (r->final_workers < f->workers)
    snprintf(c[WORKERS].cell, TABLE_CELL, "%d of %lld", r->final_workers, (long long)f->workers);
  table_set_int(&c[BATCH], f->batch_size);
  table_set_int(&c[GLOBAL], r->global_batch);
  table_set_int(&c[EPOCHS], fit->epochs);
  table_set_int(&c[UPDATES], fit->updates);
  snprintf(c[RATE].cell, TABLE_CELL, "%.6g %s", r->effective_rate, f->schedule);
  table_set_number(&c[SECONDS], fit->examples_seconds, 2);
  double speed = per_second(fit->run_examples, fit->examples_seconds);
  if (speed < 100)
    table_set_number(&c[SPEED], speed, 1);
  else if (isfinite(speed))
    table_set_int(&c[SPEED], (int64_t)(speed + 0.5));
  else
    table_set_text(&c[SPEED], "-");
  table_set_number(&c[LOSS], fit->final_loss, 4);
  table_set_share(&c[ACCURACY], r->test.accuracy);
  table_set_number(&c[HELD_LOSS], fit->validation_loss, 4);
  table_set_share(&c[HELD_ACCURACY], fit->validation_accuracy);
  table_set_number(&c[RMSE], r->test.rmse, 4);
  table_set_number(&c[R2], r->test.r2, 4);
  const bool left_out[COLUMNS] = {[ACCURACY] = regression,
                                  [RMSE] = !regression,
                                  [R2] = !regression,
                                  [HELD_LOSS] = !held_out,
                                  [HELD_ACCURACY] = !held_out || regression};
  int shown = 0;
  for (int i = 0; i < COLUMNS; i++)
    if (!left_out[i]) c[shown++] = c[i];
  table_print(to, c, 1, shown, width);
}

/* ---- sentences */

static void print_verdict(const shoal_verdict *v, FILE *to) {
  say(to, "\n%s\n", v->text);
  if (*v->next_text) say(to, "%s\n", v->next_text);
  for (int i = 0; i < v->n_warnings; i++) say(to, "note: %s\n", v->warnings[i].text);
}

static void print_notes(const shoal_run_report *r, FILE *to) {
  text notes = {0};
  shoal_run_report_notes(r, &notes);
  char *words = notes.data ? flags_in_words(notes.data) : NULL, *rest = NULL;
  for (char *line = words ? strtok_r(words, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
    say(to, "\n%s\n", line);
  free(words);
  text_fini(&notes);
}

void result_print(const shoal_run_report *r, FILE *to) {
  const int width = terminal_width(to);
  fputc('\n', to);
  print_result(r, to, width);
  fputc('\n', to);
  if (has_servers(r) || !strcmp(r->job.strategy, "allreduce"))
    print_tasks(r, to, width);
  else if (r->n_tasks)
    print_own(&r->tasks[0].use, to, width);
  print_notes(r, to);
  if (!r->job.quiet) print_verdict(&r->verdict, to);
}

void result_print_task(const shoal_task_report *t, FILE *to) {
  char a[COUNTED_TEXT], b[COUNTED_TEXT], figures[SHOAL_EVALUATION_TEXT];
  const bool tests = t->evaluations >= 0;
  const shoal_evaluation test = {.accuracy = tests ? t->last_accuracy : t->test_accuracy,
                                 .rmse = tests ? t->last_rmse : t->test_rmse,
                                 .r2 = tests ? NAN : t->test_r2};
  if (tests)
    fprintf(to, "%s: %s tested, last %s\n", t->name, counted_text(t->evaluations, "checkpoint", a),
            shoal_evaluation_text(&test, figures));
  else if (t->updates >= 0)
    fprintf(to, "%s: %s applied\n", t->name, counted_text(t->updates, "update", a));
  else if (t->steps < 0)
    fprintf(to, "%s: ended as a backup\n", t->name);
  else
    fprintf(to, "%s: %s, %s, test %s\n", t->name, counted_text(t->steps, "step", a),
            counted_text(t->examples, "example", b), shoal_evaluation_text(&test, figures));
}
