#include "cli/judge.h"

#include "cli/say.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number_of(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static int64_t count_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static int host_index(const json_t *hosts, const json_t *task) {
  size_t i;
  json_t *host;
  json_array_foreach((json_t *)hosts, i, host)
    if (json_equal(json_object_get(host, "host"), json_object_get(task, "host"))) return (int)i;
  return -1;
}

static void read_task(const run_report *r, const json_t *o, verdict_task *t) {
  const char *role = json_string_value(json_object_get(o, "role"));
  const json_t *time = json_object_get(o, "time");
  int index = (int)count_of(o, "index");
  size_t i;
  json_t *used;
  *t = (verdict_task){.server = role && !strcmp(role, "ps"),
                      .seconds = number_of(o, "seconds"),
                      .cpu_percent = number_of(o, "cpu_percent_mean"),
                      .threads = (int)count_of(o, "threads"),
                      .times = {.compute = number_of(time, "compute_seconds"),
                                .network = number_of(time, "network_seconds"),
                                .barrier = number_of(time, "barrier_seconds"),
                                .server = number_of(time, "server_seconds"),
                                .input = number_of(time, "input_seconds")},
                      .steps = count_of(o, "steps"),
                      .busy_seconds = number_of(o, "busy_seconds")};
  snprintf(t->name, sizeof t->name, "%.31s", summary_task_name(o));
  t->gradients = r->tasks && r->flags->ps ? summary_gradients(r->tasks, index) : -1;
  json_array_foreach(json_object_get(o, "gradients"), i, used) t->served += json_integer_value(used);
}

/* Fills both lists, which have room. Returns the tasks that count: workers and servers. */
static int read_tasks(const run_report *r, const json_t *tasks, const json_t *hosts, verdict_task *out,
                      verdict_host *machines) {
  int n = 0;
  size_t i;
  json_t *o;
  json_array_foreach((json_t *)hosts, i, o) machines[i] =
      (verdict_host){.name = json_string_value(json_object_get(o, "host")), .cores = (int)count_of(o, "cores")};
  json_array_foreach((json_t *)tasks, i, o) {
    const char *role = json_string_value(json_object_get(o, "role"));
    int host = host_index(hosts, o);
    if (host >= 0) machines[host].own += number_of(o, "cpu_percent_mean") / 100;
    if (!role || (strcmp(role, "worker") && strcmp(role, "ps"))) continue;
    read_task(r, o, &out[n]);
    out[n++].host = host;
  }
  json_array_foreach((json_t *)hosts, i, o) {
    double busy = number_of(o, "cpu_percent_mean") / 100 * machines[i].cores;
    machines[i].others = fmax(busy - machines[i].own, 0);
  }
  return n;
}

void judge(const run_report *r, const json_t *tasks, const json_t *hosts, verdict *out) {
  const job_flags *f = r->flags;
  verdict_task *all = calloc(json_array_size(tasks) + 1, sizeof *all);
  verdict_host *machines = calloc(json_array_size(hosts) + 1, sizeof *machines);
  *out = (verdict){0};
  if (all && machines) {
    int n = read_tasks(r, tasks, hosts, all, machines);
    double made = r->fit.examples_seconds;
    verdict_facts facts = {.tasks = all,
                           .n_tasks = n,
                           .hosts = machines,
                           .n_hosts = (int)json_array_size(hosts),
                           .workers = (int)f->workers,
                           .servers = (int)f->ps,
                           .together = job_is_together(f),
                           .next_threads = r->next_threads ? r->next_threads : r->threads,
                           .batch = f->batch_size,
                           .seconds = r->fit.seconds,
                           .examples_per_second = made > 0 ? (double)r->fit.run_examples / made : 0,
                           .rate = f->lr * job_rate_scale(f),
                           .usual_rate = r->kind->rate};
    verdict_make(&facts, out);
  }
  free(all);
  free(machines);
}

json_t *judge_json(const run_report *r) {
  const verdict *v = &r->verdict;
  json_t *warnings = json_array();
  for (int i = 0; i < v->n_warnings; i++) {
    const verdict_warning *w = &v->warnings[i];
    json_array_append_new(warnings, json_pack("{s:s, s:s?, s:s}", "kind", w->kind, "task", *w->task ? w->task : NULL,
                                              "text", w->text));
  }
  json_t *next = json_null();
  if (v->has_next)
    next = json_pack("{s:I, s:f, s:f, s:s}", "workers", (json_int_t)r->flags->workers + 1, "examples_per_second",
                     v->next_examples_per_second, "speedup", v->speedup, "text", v->next_text);
  json_t *shares = json_pack("{s:f, s:f, s:f, s:f, s:f}", "compute", v->compute, "network", v->network, "barrier",
                             v->barrier, "server", v->server, "input", v->input);
  return json_pack("{s:s, s:s, s:o, s:o, s:s?, s:o}", "bottleneck", verdict_cause_names[v->cause], "text", v->text, "shares",
                   shares, "next_worker", next, "no_forecast", !v->has_next && *v->next_text ? v->next_text : NULL,
                   "warnings", warnings);
}

void judge_print(const verdict *v, FILE *to) {
  say(to, "\n%s\n", v->text);
  if (*v->next_text) say(to, "%s\n", v->next_text);
  for (int i = 0; i < v->n_warnings; i++) say(to, "note: %s\n", v->warnings[i].text);
}
