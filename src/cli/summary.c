#include "cli/summary.h"

#include "cli/table.h"

#include <math.h>
#include <unistd.h>

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static json_t *words(const char *s) { return s ? json_string(s) : json_null(); }

static int64_t steps_of_run(const run_report *r) {
  return r->fit.steps - (r->fit.resumed_from > 0 ? r->fit.resumed_from : 0);
}

static double per_second(int64_t count, double seconds) {
  return seconds > 0 && count > 0 ? (double)count / seconds : NAN;
}

/* A list of keys and values, in the order people read them. */
typedef struct {
  const char *key;
  json_t *value; /* taken */
} pair;

static json_t *object_of(const pair *pairs, size_t count) {
  json_t *o = json_object();
  bool good = o != NULL;
  for (size_t i = 0; i < count; i++)
    if (json_object_set_new(o, pairs[i].key, pairs[i].value)) good = false;
  if (good) return o;
  json_decref(o);
  return NULL;
}
#define OBJECT_OF(pairs) object_of(pairs, sizeof pairs / sizeof *pairs)

static json_t *task_json(const run_report *r) {
  const pair task[] = {
      {"role", json_string("worker")},
      {"index", json_integer(0)},
      {"pid", json_integer(getpid())},
      {"seconds", number(r->fit.seconds)},
      {"cpu_percent_mean", number(r->use.cpu_percent_mean)},
      {"cpu_percent_peak", number(r->use.cpu_percent_peak)},
      {"rss_peak_bytes", json_integer(r->use.rss_peak_bytes)},
      {"net_sent_bytes", json_integer(0)},
      {"net_received_bytes", json_integer(0)},
      {"disk_read_bytes", json_integer(r->use.disk_read_bytes)},
      {"disk_written_bytes", json_integer(r->use.disk_written_bytes)},
      {"steps", json_integer(r->fit.steps)},
      {"examples", json_integer(r->fit.examples)},
      {"test_accuracy", number(r->test.accuracy)},
  };
  return OBJECT_OF(task);
}

json_t *summary_json(const run_report *r) {
  const job_flags *f = r->flags;
  const shoal_fit_result *fit = &r->fit;
  char started[40];
  struct tm utc;
  gmtime_r(&r->started, &utc);
  strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  json_t *tasks = json_array();
  json_array_append_new(tasks, task_json(r));
  const pair all[] = {
      {"model", json_string(r->kind->name)},
      {"data", words(f->data)},
      {"status", json_string(r->status)},
      {"error", words(r->error)},
      {"strategy", json_string(f->strategy)},
      {"mode", json_string("sync")},
      {"workers", json_integer(1)},
      {"ps", json_integer(0)},
      {"threads", json_integer(r->threads)},
      {"batch_size", json_integer(f->batch_size)},
      {"global_batch", json_integer(f->batch_size)},
      {"optimizer", words(f->optimizer)},
      {"schedule", words(f->schedule)},
      {"learning_rate", number(f->lr)},
      {"effective_learning_rate", number(f->lr)},
      {"final_learning_rate", number(r->final_rate)},
      {"seed", json_integer(f->seed)},
      {"kernels", words(f->kernels)},
      {"epochs", json_integer(fit->epochs)},
      {"steps", json_integer(fit->steps)},
      {"updates", json_integer(fit->updates)},
      {"examples", json_integer(fit->examples)},
      {"run_examples", json_integer(fit->run_examples)},
      {"bad_rows", json_integer(fit->bad_rows)},
      {"dropped_examples", json_integer(fit->dropped_examples)},
      {"resumed_from", fit->resumed_from >= 0 ? json_integer(fit->resumed_from) : json_null()},
      {"seconds", number(fit->seconds)},
      {"startup_seconds", number(r->startup_seconds)},
      {"eval_seconds", number(r->test.seconds)},
      {"validation_seconds", number(fit->eval_seconds)},
      {"checkpoint_seconds", number(fit->checkpoint_seconds)},
      {"input_wait_seconds", number(fit->input_wait_seconds)},
      {"total_seconds", number(r->total_seconds)},
      {"examples_per_second", number(per_second(fit->run_examples, fit->seconds))},
      {"steps_per_second", number(per_second(steps_of_run(r), fit->seconds))},
      {"final_loss", number(fit->final_loss)},
      {"train_accuracy", number(fit->train_accuracy)},
      {"validation_loss", number(fit->validation_loss)},
      {"validation_accuracy", number(fit->validation_accuracy)},
      {"test_loss", number(r->test.loss)},
      {"test_accuracy", number(r->test.accuracy)},
      {"test_top_k", number(r->test.top_k)},
      {"parameters", json_integer(r->parameters)},
      {"started", json_string(started)},
      {"shoal_version", json_string(SHOAL_VERSION)},
      {"tasks", tasks},
  };
  return OBJECT_OF(all);
}

void summary_print(const run_report *r, FILE *to) {
  const job_flags *f = r->flags;
  const shoal_fit_result *fit = &r->fit;
  enum { MODEL, STRATEGY, WORKERS, BATCH, GLOBAL, EPOCHS, UPDATES, RATE, SECONDS, SPEED, LOSS, ACCURACY, COLUMNS };
  table_column c[COLUMNS] = {
      [MODEL] = {"model", true, ""},         [STRATEGY] = {"strategy", true, ""},
      [WORKERS] = {"workers", false, ""},    [BATCH] = {"batch", false, ""},
      [GLOBAL] = {"global\nbatch", false, ""}, [EPOCHS] = {"epochs", false, ""},
      [UPDATES] = {"updates", false, ""},    [RATE] = {"effective\nlr", false, ""},
      [SECONDS] = {"seconds", false, ""},    [SPEED] = {"examples/s", false, ""},
      [LOSS] = {"final\nloss", false, ""},   [ACCURACY] = {"test\naccuracy", false, ""},
  };
  table_set_text(&c[MODEL], r->kind->name);
  table_set_text(&c[STRATEGY], f->strategy);
  table_set_int(&c[WORKERS], 1);
  table_set_int(&c[BATCH], f->batch_size);
  table_set_int(&c[GLOBAL], f->batch_size);
  table_set_int(&c[EPOCHS], fit->epochs);
  table_set_int(&c[UPDATES], fit->updates);
  snprintf(c[RATE].cell, TABLE_CELL, "%.6g", f->lr);
  table_set_number(&c[SECONDS], fit->seconds, 2);
  double speed = per_second(fit->run_examples, fit->seconds);
  if (isfinite(speed))
    table_set_int(&c[SPEED], (int64_t)(speed + 0.5));
  else
    table_set_text(&c[SPEED], "-");
  table_set_number(&c[LOSS], fit->final_loss, 4);
  table_set_share(&c[ACCURACY], r->test.accuracy);

  enum { TASK, CPU, CPU_PEAK, MEMORY, READ, WRITTEN, TASK_COLUMNS };
  table_column t[TASK_COLUMNS] = {
      [TASK] = {"task", true, "worker/0"},     [CPU] = {"CPU", false, ""},
      [CPU_PEAK] = {"CPU\npeak", false, ""},   [MEMORY] = {"memory\npeak", false, ""},
      [READ] = {"disk\nread", false, ""}, [WRITTEN] = {"disk\nwritten", false, ""},
  };
  snprintf(t[CPU].cell, TABLE_CELL, "%.0f %%", r->use.cpu_percent_mean);
  snprintf(t[CPU_PEAK].cell, TABLE_CELL, "%.0f %%", r->use.cpu_percent_peak);
  table_set_bytes(&t[MEMORY], r->use.rss_peak_bytes);
  table_set_bytes(&t[READ], r->use.disk_read_bytes);
  table_set_bytes(&t[WRITTEN], r->use.disk_written_bytes);

  int width = terminal_width(to);
  fputc('\n', to);
  table_print(to, c, COLUMNS, width);
  fputc('\n', to);
  table_print(to, t, TASK_COLUMNS, width);
  if (isfinite(r->test.top_k))
    fprintf(to, "\nThe class is among the %lld likeliest in %.2f %% of the test rows.\n", (long long)f->top_k,
            100 * r->test.top_k);
  if (fit->bad_rows) fprintf(to, "\n%lld bad rows were skipped.\n", (long long)fit->bad_rows);
  if (fit->dropped_examples)
    fprintf(to, "\n%lld examples an epoch were left out: the last batch was not full.\n",
            (long long)fit->dropped_examples);
}
