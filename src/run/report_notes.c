/* What is worth saying about a run besides its tables: a sentence a line. */
#include "base/text.h"
#include "shoal/run.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static bool has_servers(const shoal_run_report *r) { return !strcmp(r->job.strategy, "ps"); }

static const char *digits(int64_t n, char buffer[SHOAL_DIGITS_TEXT]) { return shoal_group_digits(n, buffer); }

/* 12288, "row" to "12,288 rows". */
static void add_count(shoal_text *t, int64_t n, const char *noun) {
  char number[SHOAL_DIGITS_TEXT];
  shoal_text_add(t, "%s %s%s", digits(n, number), noun, n == 1 ? "" : "s");
}

/* ---- who took part */

/* How often that worker came back. */
static int rejoined(const shoal_run_report *r, const char *name) {
  int n = 0;
  for (int i = 0; i < r->n_membership; i++)
    n += !strcmp(r->membership[i].task, name) && !strcmp(r->membership[i].event, "rejoined");
  return n;
}

static void add_worker(const shoal_run_report *r, int worker, shoal_text *t) {
  char n[SHOAL_DIGITS_TEXT], name[SHOAL_TASK_NAME];
  shoal_run_report_worker_name(r, worker, name);
  if (!shoal_run_report_task(r, "worker", worker))
    shoal_text_add(t, "%s was lost; %s of its gradients were used.\n", name,
                   digits(shoal_run_report_gradients(r, worker), n));
  else if (!shoal_run_report_gradients(r, worker) && r->fit.updates)
    shoal_text_add(t, "%s joined too late to contribute.\n", name);
  if (rejoined(r, name)) {
    shoal_text_add(t, "%s left and rejoined ", name);
    add_count(t, rejoined(r, name), "time");
    shoal_text_add(t, ".\n");
  }
}

static void add_counted(shoal_text *t, const char *before, int64_t n, const char *noun, const char *after) {
  if (n <= 0) return;
  shoal_text_add(t, "%s", before);
  add_count(t, n, noun);
  shoal_text_add(t, "%s.\n", after);
}

static void add_membership(const shoal_run_report *r, shoal_text *t) {
  if (!has_servers(r)) return;
  const shoal_task_report *leader = shoal_run_report_task(r, "ps", 0);
  int64_t uneven = 0;
  for (int i = 0; i < r->n_tasks; i++)
    if (r->tasks[i].uneven_updates > uneven) uneven = r->tasks[i].uneven_updates;
  for (int w = 0; w < (int)r->job.workers; w++) add_worker(r, w, t);
  add_counted(t, "Tasks were restarted ", r->restarts, "time", "");
  add_counted(t, "Lost with a parameter server and computed again: ", r->fit.lost_steps, "step", "");
  add_counted(t, "Dropped because they arrived too late for their step: ",
              shoal_run_report_count(r, offsetof(shoal_worker_counts, late)), "gradient", "");
  add_counted(t, "`deterministic` could not be kept: a worker was lost, and ", uneven, "update",
              " used other rows than planned. The weights are sound, but another run will not give the same bits");
  add_counted(t, "Reassigned to another worker: ", leader ? leader->handed_on_rows : 0, "row", "");
}

/* ---- measured */

/* The loss is -log(probability of the right class). */
static bool is_log_loss(const shoal_job *job) {
  return (!job->loss || strstr(job->loss, "cross_entropy")) && job->label_smoothing == 0;
}

static void add_scores(const shoal_run_report *r, shoal_text *t) {
  const shoal_evaluation *e = &r->test;
  if (isfinite(e->top_k))
    shoal_text_add(t, "Top-%lld accuracy on the test rows: %.2f %%.\n", (long long)r->job.top_k, 100 * e->top_k);
  if (isfinite(e->auc))
    shoal_text_add(
        t, "On the test rows: %s %.5f, error rate %.3f %%, AUC %.5f, precision %.2f %%, recall %.2f %%, F1 %.4f.\n",
        is_log_loss(&r->job) ? "log loss" : "loss", e->loss, 100 * (1 - e->accuracy), e->auc, 100 * e->precision,
        100 * e->recall, e->f1);
  if (isfinite(e->rmse))
    shoal_text_add(t, "On the test rows: loss (%s) %.5g, mean absolute error %.5g, RMSE %.5g", r->job.loss, e->loss,
                   e->mae, e->rmse);
  if (isfinite(e->rmse)) /* R2: unless a target is always the same */
    shoal_text_add(t, isfinite(e->r2) ? ", R2 %.4f.\n" : ".\n", e->r2);
}

static void add_exchange(const shoal_run_report *r, shoal_text *t) {
  shoal_exchange e;
  if (!shoal_run_report_exchange(r, &e)) return;
  char features[SHOAL_DIGITS_TEXT], all[SHOAL_DIGITS_TEXT], ratio[SHOAL_DIGITS_TEXT];
  const double least = 2 * sizeof(float) * e.touched_features;
  const bool wide = r->parameters > r->job.features + 1; /* rows of several weights, and others that every step moves */
  if (r->job.growing_ids) {
    shoal_text_add(t, "A step of a worker touches %s ids and moves %.1f kB, their rows and all other weights.\n",
                   digits((int64_t)e.touched_features, features), e.step_bytes / 1e3);
    return;
  }
  shoal_text_add(t, "A step of a worker touches %s of %s features and moves %.1f kB, ",
                 digits((int64_t)e.touched_features, features), digits(wide ? r->job.features : r->parameters, all),
                 e.step_bytes / 1e3);
  if (wide)
    shoal_text_add(t, "their rows and all other weights. Everything each way would be %.1f MB.\n",
                   e.whole_step_bytes / 1e6);
  else if (e.step_bytes > e.whole_step_bytes / 2)
    shoal_text_add(t, "%s times the %.1f kB of their weights and gradients.\n",
                   digits((int64_t)(e.step_bytes / least), ratio), least / 1e3);
  else
    shoal_text_add(
        t, "%.2f times their weights and gradients. All weights each way would be %.1f MB, %s times as much.\n",
        e.step_bytes / least, e.whole_step_bytes / 1e6, digits((int64_t)(e.whole_step_bytes / e.step_bytes), ratio));
}

/* Whether the load is spread, and what a cache of few rows could save. */
static void add_hot_rows(const shoal_run_report *r, shoal_text *t) {
  double asked = 0, hot = 0, most = 0;
  int servers = 0;
  for (int i = 0; i < r->n_tasks; i++) {
    const double own = (double)r->tasks[i].asked_rows;
    asked += own;
    hot += own * r->tasks[i].hot_share;
    most = own > most ? own : most;
    servers += own > 0;
  }
  if (asked <= 0) return;
  shoal_text_add(t, "Of the rows asked for, %.1f %% are the 256 hottest of %s", 100 * hot / asked,
                 servers > 1 ? "each server" : "the server");
  if (servers > 1) shoal_text_add(t, "; the busiest of %d servers answered %.1f %%", servers, 100 * most / asked);
  shoal_text_add(t, ".\n");
}

static void add_ids(const shoal_run_report *r, shoal_text *t) {
  char ids[SHOAL_DIGITS_TEXT], admitted[SHOAL_DIGITS_TEXT], evicted[SHOAL_DIGITS_TEXT];
  if (!r->job.growing_ids) return;
  shoal_text_add(t, "Ids with a row: %s (%s admitted, %s evicted); the table takes %.1f MB.\n", digits(r->fit.ids, ids),
                 digits(r->fit.ids_admitted, admitted), digits(r->fit.ids_evicted, evicted),
                 (double)r->fit.ids_bytes / 1e6);
}

void shoal_run_report_notes(const shoal_run_report *r, shoal_text *out) {
  add_membership(r, out);
  add_scores(r, out);
  add_exchange(r, out);
  add_hot_rows(r, out);
  add_ids(r, out);
  add_counted(out, "Skipped: ", r->fit.bad_rows, "bad row", "");
  add_counted(out, "Left out of each epoch because the last batch was not full: ", r->fit.dropped_examples, "example",
              "");
}
