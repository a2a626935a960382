#include "cli/summary.h"

#include "cli/judge.h"
#include "cli/exchange.h"
#include "cli/membership.h"
#include "cli/say.h"
#include "cli/table.h"
#include "data/class_names.h"
#include "shoal/version.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
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

/* What the machine was used for meanwhile, by whomever. */
static json_t *host_json(const sampler_use *use, const char *name) {
  const pair all[] = {
      {"host", json_string(name)},
      {"cores", json_integer(use->host.cores)},
      {"memory_bytes", json_integer(use->host.memory_bytes)},
      {"cpu_percent_mean", number(use->host.cpu_percent_mean)},
      {"cpu_percent_peak", number(use->host.cpu_percent_peak)},
      {"memory_used_mean_bytes", json_integer(use->host.memory_used_mean_bytes)},
      {"memory_used_peak_bytes", json_integer(use->host.memory_used_peak_bytes)},
      {"net_sent_bytes", json_integer(use->host.net_sent_bytes)},
      {"net_received_bytes", json_integer(use->host.net_received_bytes)},
      {"disk_read_bytes", json_integer(use->host.disk_read_bytes)},
      {"disk_written_bytes", json_integer(use->host.disk_written_bytes)},
  };
  return OBJECT_OF(all);
}

static json_t *times_json(const shoal_times *t) {
  double sum = t->compute + t->network + t->barrier + t->server + t->input;
  const pair shares[] = {
      {"compute", number(t->compute / sum)}, {"network", number(t->network / sum)},
      {"barrier", number(t->barrier / sum)}, {"server", number(t->server / sum)},
      {"input", number(t->input / sum)},
  };
  const pair all[] = {
      {"compute_seconds", number(t->compute)}, {"network_seconds", number(t->network)},
      {"barrier_seconds", number(t->barrier)}, {"server_seconds", number(t->server)},
      {"input_seconds", number(t->input)},     {"shares", OBJECT_OF(shares)},
  };
  return OBJECT_OF(all);
}

/* Takes the machines' use out of the tasks' reports: one a machine. */
static json_t *take_hosts(json_t *tasks) {
  json_t *hosts = json_array(), *task, *seen;
  size_t i, k;
  json_array_foreach(tasks, i, task) {
    json_t *use = json_object_get(task, "host_use");
    bool known = !use;
    json_array_foreach(hosts, k, seen)
      if (use && json_equal(json_object_get(seen, "host"), json_object_get(use, "host"))) known = true;
    if (!known) json_array_append(hosts, use);
    json_object_del(task, "host_use");
  }
  return hosts;
}

json_t *task_json(const task_report *t) {
  const pair all[] = {
      {"role", json_string(t->role)},
      {"index", json_integer(t->index)},
      {"pid", json_integer(t->pid)},
      {"seconds", number(t->seconds)},
      {"cpu_percent_mean", number(t->use.cpu_percent_mean)},
      {"cpu_percent_peak", number(t->use.cpu_percent_peak)},
      {"rss_peak_bytes", json_integer(t->use.rss_peak_bytes)},
      {"net_sent_bytes", json_integer(t->net_sent_bytes)},
      {"net_received_bytes", json_integer(t->net_received_bytes)},
      {"disk_read_bytes", json_integer(t->use.disk_read_bytes)},
      {"disk_written_bytes", json_integer(t->use.disk_written_bytes)},
  };
  json_t *o = OBJECT_OF(all);
  if (!o) return o;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  json_object_set_new(o, "name", t->name ? json_string(t->name) : json_sprintf("%s/%d", t->role, t->index));
  json_object_set_new(o, "host", json_string(host));
  json_object_set_new(o, "cpu_user_seconds", number(t->use.cpu_user_seconds));
  json_object_set_new(o, "cpu_system_seconds", number(t->use.cpu_system_seconds));
  json_object_set_new(o, "rss_mean_bytes", json_integer(t->use.rss_mean_bytes));
  json_object_set_new(o, "samples", json_integer(t->use.samples));
  if (t->use.host.known) json_object_set_new(o, "host_use", host_json(&t->use, host));
  if (t->steps < 0) return o;
  json_object_set_new(o, "time", times_json(&t->times));
  if (t->threads) json_object_set_new(o, "threads", json_integer(t->threads));
  json_object_set_new(o, "steps", json_integer(t->steps));
  json_object_set_new(o, "examples", json_integer(t->examples));
  json_object_set_new(o, "test_accuracy", number(t->test.accuracy));
  if (isfinite(t->test.rmse)) {
    json_object_set_new(o, "test_rmse", number(t->test.rmse));
    json_object_set_new(o, "test_r2", number(t->test.r2));
  }
  if (!t->touched_rows) return o;
  json_object_set_new(o, "touched_rows", json_integer(t->touched_rows));
  json_object_set_new(o, "exchanged_bytes", json_integer(t->exchanged_bytes));
  return o;
}

const char *summary_task_name(const json_t *task) {
  const char *name = json_string_value(json_object_get(task, "name"));
  return name ? name : "?";
}

int64_t summary_gradients(const json_t *tasks, int worker) {
  size_t i;
  json_t *task;
  int64_t least = -1;
  json_array_foreach(tasks, i, task) {
    const json_t *list = json_object_get(task, "gradients");
    if (!list) continue;
    int64_t n = json_integer_value(json_array_get(list, (size_t)worker));
    if (least < 0 || n < least) least = n;
  }
  return least < 0 ? 0 : least;
}

void summary_add_trace(run_report *r, json_t *part) {
  if (!part) return;
  if (!r->traces) r->traces = json_array();
  json_array_append_new(r->traces, part);
}

/* This process, when it is the only one. */
static json_t *own_task(const run_report *r) {
  return task_json(&(task_report){.role = "worker",
                                  .pid = getpid(),
                                  .seconds = r->fit.seconds,
                                  .use = r->use,
                                  .threads = r->threads,
                                  .steps = r->fit.steps,
                                  .examples = r->fit.examples,
                                  .times = r->fit.times,
                                  .test = r->test});
}

/* Used from each worker: as many as reached every server; without servers a step uses one of each. */
static json_t *gradients_json(const run_report *r) {
  const bool servers = job_is_cluster(r->flags);
  json_t *list = json_array();
  for (int w = 0; w < (int)r->flags->workers; w++) {
    const json_t *steps = json_object_get(json_array_get(r->tasks, (size_t)w), "steps");
    json_array_append_new(list, json_integer(servers ? summary_gradients(r->tasks, w)
                                             : steps ? json_integer_value(steps)
                                                     : r->fit.updates));
  }
  return list;
}

json_t *summary_json(run_report *r) {
  const job_flags *f = r->flags;
  const shoal_fit_result *fit = &r->fit;
  char started[40];
  struct tm utc;
  gmtime_r(&r->started, &utc);
  strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  json_t *tasks = r->tasks ? json_incref(r->tasks) : json_array();
  if (!r->tasks) json_array_append_new(tasks, own_task(r));
  json_t *hosts = take_hosts(tasks);
  judge(r, tasks, hosts, &r->verdict);
  const pair all[] = {
      {"model", json_string(r->kind->name)},
      {"data", words(f->data)},
      {"status", json_string(r->status)},
      {"error", words(r->error)},
      {"strategy", json_string(f->strategy)},
      {"mode", json_string(f->mode)},
      {"staleness", f->staleness < 0 ? json_null() : json_integer(f->staleness)},
      {"workers", json_integer(f->workers)},
      {"ps", json_integer(f->ps)},
      {"threads", json_integer(r->threads)},
      {"batch_size", json_integer(f->batch_size)},
      {"global_batch", json_integer(job_global_batch(f))},
      {"optimizer", words(f->optimizer)},
      {"schedule", words(f->schedule)},
      {"learning_rate", number(f->lr)},
      {"effective_learning_rate", number(f->lr * job_rate_scale(f))},
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
      {"examples_seconds", number(fit->examples_seconds)},
      {"startup_seconds", number(r->startup_seconds)},
      {"eval_seconds", number(r->test.seconds)},
      {"validation_seconds", number(fit->eval_seconds)},
      {"checkpoint_seconds", number(fit->checkpoint_seconds)},
      {"input_wait_seconds", number(fit->input_wait_seconds)},
      {"total_seconds", number(r->total_seconds)},
      {"examples_per_second", number(per_second(fit->run_examples, fit->examples_seconds))},
      {"steps_per_second", number(per_second(steps_of_run(r), fit->examples_seconds))},
      {"final_loss", number(fit->final_loss)},
      {"train_accuracy", number(fit->train_accuracy)},
      {"validation_loss", number(fit->validation_loss)},
      {"validation_accuracy", number(fit->validation_accuracy)},
      {"best_epoch", fit->best_epoch ? json_integer(fit->best_epoch) : json_null()},
      {"test_loss", number(r->test.loss)},
      {"test_accuracy", number(r->test.accuracy)},
      {"test_error_rate", number(1 - r->test.accuracy)},
      {"test_top_k", number(r->test.top_k)},
      {"test_auc", number(r->test.auc)},
      {"loss", words(f->loss)},
      {"test_mae", number(r->test.mae)},
      {"test_rmse", number(r->test.rmse)},
      {"test_r2", number(r->test.r2)},
      {"class_names", class_names_to_json(r->class_names)},
      {"test_confusion", r->confusion ? json_incref(r->confusion) : json_null()},
      {"parameters", json_integer(r->parameters)},
      {"started", json_string(started)},
      {"shoal_version", json_string(shoal_version())},
      {"gradients", gradients_json(r)},
      {"tasks", tasks},
      {"hosts", hosts},
      {"verdict", judge_json(r)},
  };
  json_t *summary = OBJECT_OF(all);
  if (!summary || (membership_add(r, summary) && exchange_add(r, summary))) return summary;
  json_decref(summary);
  return NULL;
}

static void print_own(const sampler_use *use, FILE *to, int width) {
  enum { TASK, CPU, CPU_PEAK, MEMORY, READ, WRITTEN, COLUMNS };
  table_column t[COLUMNS] = {
      [TASK] = {"task", true, "worker/0"},     [CPU] = {"CPU", false, ""},
      [CPU_PEAK] = {"CPU\npeak", false, ""},   [MEMORY] = {"memory\npeak", false, ""},
      [READ] = {"disk\nread", false, ""}, [WRITTEN] = {"disk\nwritten", false, ""},
  };
  snprintf(t[CPU].cell, TABLE_CELL, "%.0f %%", use->cpu_percent_mean);
  snprintf(t[CPU_PEAK].cell, TABLE_CELL, "%.0f %%", use->cpu_percent_peak);
  table_set_bytes(&t[MEMORY], use->rss_peak_bytes);
  table_set_bytes(&t[READ], use->disk_read_bytes);
  table_set_bytes(&t[WRITTEN], use->disk_written_bytes);
  table_print(to, t, 1, COLUMNS, width);
}

/* A row a task, as in summary.json. */
static void print_tasks(const json_t *tasks, bool regression, FILE *to, int width) {
  enum { TASK, STEPS, EXAMPLES, SCORE, CPU, MEMORY, SENT, RECEIVED, READ, WRITTEN, COLUMNS };
  static const table_column head[COLUMNS] = {
      [TASK] = {"task", true, ""},           [STEPS] = {"steps or\nupdates", false, ""},
      [EXAMPLES] = {"examples", false, ""},  [SCORE] = {"test\naccuracy", false, ""},
      [CPU] = {"CPU", false, ""},            [MEMORY] = {"memory\npeak", false, ""},
      [SENT] = {"net\nsent", false, ""},     [RECEIVED] = {"net\nreceived", false, ""},
      [READ] = {"disk\nread", false, ""},    [WRITTEN] = {"disk\nwritten", false, ""},
  };
  static const struct {
    int column;
    const char *key;
  } sizes[] = {{MEMORY, "rss_peak_bytes"},  {SENT, "net_sent_bytes"},        {RECEIVED, "net_received_bytes"},
               {READ, "disk_read_bytes"},   {WRITTEN, "disk_written_bytes"}};
  size_t n = json_array_size(tasks), i;
  table_column(*rows)[COLUMNS] = calloc(n ? n : 1, sizeof *rows);
  json_t *task;
  if (!rows) return;
  json_array_foreach(tasks, i, task) {
    table_column *c = rows[i];
    memcpy(c, head, sizeof head);
    const json_t *steps = json_object_get(task, "steps"), *examples = json_object_get(task, "examples");
    const json_t *score = json_object_get(task, regression ? "test_rmse" : "test_accuracy");
    const json_t *tests = json_object_get(task, "evaluations"); /* an evaluator's */
    if (tests) {
      steps = json_object_get(tests, "count");
      score = json_object_get(tests, regression ? "last_rmse" : "last_accuracy");
    }
    snprintf(c[TASK].cell, TABLE_CELL, "%s", summary_task_name(task));
    table_set_int(&c[STEPS], json_integer_value(steps ? steps : json_object_get(task, "updates")));
    if (examples)
      table_set_int(&c[EXAMPLES], json_integer_value(examples));
    else
      table_set_text(&c[EXAMPLES], "-");
    const double value = json_is_number(score) ? json_number_value(score) : NAN;
    if (regression) {
      c[SCORE].head = "test\nRMSE";
      table_set_number(&c[SCORE], value, 4);
    } else {
      table_set_share(&c[SCORE], value);
    }
    snprintf(c[CPU].cell, TABLE_CELL, "%.0f %%", json_number_value(json_object_get(task, "cpu_percent_mean")));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
      table_set_bytes(&c[sizes[k].column], json_integer_value(json_object_get(task, sizes[k].key)));
  }
  table_print(to, rows[0], (int)n, COLUMNS, width);
  free(rows);
}

void summary_print(const run_report *r, FILE *to) {
  const job_flags *f = r->flags;
  const shoal_fit_result *fit = &r->fit;
  enum { MODEL, STRATEGY, WORKERS, BATCH, GLOBAL, EPOCHS, UPDATES, RATE, SECONDS, SPEED, LOSS, ACCURACY, RMSE, R2,
         HELD_LOSS, HELD_ACCURACY, COLUMNS };
  const bool regression = job_is_regression(r->kind), held_out = isfinite(fit->validation_loss);
  table_column c[COLUMNS] = {
      [MODEL] = {"model", true, ""},         [STRATEGY] = {"strategy", true, ""},
      [WORKERS] = {"workers", false, ""},    [BATCH] = {"batch", false, ""},
      [GLOBAL] = {"global\nbatch", false, ""}, [EPOCHS] = {"epochs", false, ""},
      [UPDATES] = {"updates", false, ""},    [RATE] = {"effective\nlr", true, ""},
      [SECONDS] = {"seconds", false, ""},    [SPEED] = {"examples/s", false, ""},
      [LOSS] = {"final\nloss", false, ""},   [ACCURACY] = {"test\naccuracy", false, ""},
      [RMSE] = {"test\nRMSE", false, ""},    [R2] = {"test\nR2", false, ""},
      [HELD_LOSS] = {"validation\nloss", false, ""}, [HELD_ACCURACY] = {"validation\naccuracy", false, ""},
  };
  table_set_text(&c[MODEL], r->kind->name);
  snprintf(c[STRATEGY].cell, TABLE_CELL, "%s%s%s", f->strategy, job_is_cluster(f) ? " " : "",
           job_is_cluster(f) ? f->mode : "");
  table_set_int(&c[WORKERS], f->workers);
  int there = membership_final_workers(r);
  if (there < f->workers) snprintf(c[WORKERS].cell, TABLE_CELL, "%d of %lld", there, (long long)f->workers);
  table_set_int(&c[BATCH], f->batch_size);
  table_set_int(&c[GLOBAL], job_global_batch(f));
  table_set_int(&c[EPOCHS], fit->epochs);
  table_set_int(&c[UPDATES], fit->updates);
  snprintf(c[RATE].cell, TABLE_CELL, "%.6g %s", f->lr * job_rate_scale(f), f->schedule);
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
  const bool left_out[COLUMNS] = {[ACCURACY] = regression,  [RMSE] = !regression,
                                  [R2] = !regression,       [HELD_LOSS] = !held_out,
                                  [HELD_ACCURACY] = !held_out || regression};
  int shown = 0;
  for (int i = 0; i < COLUMNS; i++)
    if (!left_out[i]) c[shown++] = c[i];
  int width = terminal_width(to);
  fputc('\n', to);
  table_print(to, c, 1, shown, width);
  fputc('\n', to);
  if (r->tasks)
    print_tasks(r->tasks, regression, to, width);
  else
    print_own(&r->use, to, width);
  membership_print(r, to);
  if (isfinite(r->test.top_k))
    say(to, "\nThe class is among the %lld likeliest in %.2f %% of the test rows.\n", (long long)f->top_k,
        100 * r->test.top_k);
  if (isfinite(r->test.auc))
    say(to, "\nOn the test rows: log loss %.5f, error rate %.3f %%, AUC %.5f.\n", r->test.loss,
        100 * (1 - r->test.accuracy), r->test.auc);
  if (isfinite(r->test.rmse))
    say(to, "\nOn the test rows: loss (%s) %.5g, mean absolute error %.5g, RMSE %.5g, R2 %.4f.\n", f->loss, r->test.loss,
        r->test.mae, r->test.rmse, r->test.r2);
  exchange_print(r, to);
  char count[COUNTED_TEXT];
  if (fit->bad_rows) say(to, "\nSkipped: %s.\n", counted_text(fit->bad_rows, "bad row", count));
  if (fit->dropped_examples)
    say(to, "\nLeft out of each epoch, since the last batch was not full: %s.\n",
        counted_text(fit->dropped_examples, "example", count));
  if (!f->quiet) judge_print(&r->verdict, to);
}
