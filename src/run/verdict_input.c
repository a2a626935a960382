#include "run/verdict_input.h"

#include "base/mem.h"
#include "observe/verdict.h"
#include "run/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The place of that host in the list; -1: it is not there. */
static int find_host(const verdict_host *hosts, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (!strcmp(hosts[i].name, name)) return i;
  return -1;
}

/* The machines that were sampled, and how busy they were with the run and with other programs. */
static int read_hosts(const shoal_run_report *r, verdict_host *out) {
  int n = 0;
  for (int i = 0; i < r->n_tasks; i++) {
    const shoal_task_report *t = &r->tasks[i];
    if (!t->use.host.known || find_host(out, n, t->host) >= 0) continue;
    const shoal_host_usage *use = &t->use.host;
    out[n++] = (verdict_host){.name = t->host, .cores = use->cores, .others = use->cpu_percent_mean / 100 * use->cores};
  }
  for (int i = 0; i < r->n_tasks; i++) {
    const int host = find_host(out, n, r->tasks[i].host);
    if (host >= 0) out[host].own += r->tasks[i].use.cpu_percent_mean / 100;
  }
  for (int i = 0; i < n; i++) out[i].others = fmax(out[i].others - out[i].own, 0);
  return n;
}

static void read_task(const shoal_run_report *r, const shoal_task_report *t, verdict_task *out) {
  *out = (verdict_task){.server = t->updates >= 0,
                        .seconds = t->seconds,
                        .cpu_percent = t->use.cpu_percent_mean,
                        .threads = t->threads,
                        .times = t->times,
                        .steps = t->steps > 0 ? t->steps : 0,
                        .gradients = job_is_cluster(&r->job) ? shoal_run_report_gradients(r, t->index) : -1,
                        .busy_seconds = t->busy_seconds};
  snprintf(out->name, sizeof out->name, "%.31s", t->name);
  for (int w = 0; w < t->counted; w++) out->served += t->counts[w].gradients;
}

void verdict_on_run(const shoal_run_report *r, double usual_rate, int next_threads, shoal_verdict *out) {
  const shoal_job *f = &r->job;
  verdict_task *tasks = calloc((size_t)r->n_tasks + 1, sizeof *tasks);
  verdict_host *hosts = calloc((size_t)r->n_tasks + 1, sizeof *hosts);
  *out = (shoal_verdict){0};
  if (tasks && hosts) {
    const int n_hosts = read_hosts(r, hosts);
    int n = 0;
    for (int i = 0; i < r->n_tasks; i++) {
      const shoal_task_report *t = &r->tasks[i];
      if (t->steps < 0 && t->updates < 0) continue; /* an evaluator */
      read_task(r, t, &tasks[n]);
      tasks[n++].host = find_host(hosts, n_hosts, t->host);
    }
    const double made = r->fit.examples_seconds;
    const verdict_facts facts = {.tasks = tasks,
                                 .n_tasks = n,
                                 .hosts = hosts,
                                 .n_hosts = n_hosts,
                                 .workers = (int)f->workers,
                                 .servers = (int)f->ps,
                                 .sync = job_is_sync(f),
                                 .next_threads = next_threads ? next_threads : r->threads,
                                 .batch = f->batch_size * MAX_OF(f->accumulate, 1),
                                 .seconds = r->fit.seconds,
                                 .examples_per_second = made > 0 ? (double)r->fit.run_examples / made : 0,
                                 .rate = r->effective_rate,
                                 .usual_rate = usual_rate};
    verdict_make(&facts, out);
  }
  free(tasks);
  free(hosts);
}

const char *shoal_verdict_cause_name(int cause) {
  return cause >= 0 && cause < VERDICT_CAUSES ? verdict_cause_names[cause] : "none";
}

json_t *verdict_to_json(const shoal_run_report *r) {
  const shoal_verdict *v = &r->verdict;
  json_t *warnings = json_array();
  for (int i = 0; i < v->n_warnings; i++) {
    const shoal_verdict_warning *w = &v->warnings[i];
    json_array_append_new(
        warnings, json_pack("{s:s, s:s?, s:s}", "kind", w->kind, "task", *w->task ? w->task : NULL, "text", w->text));
  }
  json_t *next = json_null();
  if (v->has_next)
    next = json_pack("{s:I, s:f, s:f, s:s}", "workers", (json_int_t)r->job.workers + 1, "examples_per_second",
                     v->next_examples_per_second, "speedup", v->speedup, "text", v->next_text);
  json_t *shares = json_pack("{s:f, s:f, s:f, s:f, s:f}", "compute", v->compute, "network", v->network, "barrier",
                             v->barrier, "server", v->server, "input", v->input);
  return json_pack("{s:s, s:s, s:o, s:o, s:s?, s:o}", "bottleneck", shoal_verdict_cause_name(v->cause), "text", v->text,
                   "shares", shares, "next_worker", next, "no_forecast",
                   !v->has_next && *v->next_text ? v->next_text : NULL, "warnings", warnings);
}
