#include "cli/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number_of(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static int64_t count_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static void read_task(const run_report *r, const json_t *o, verdict_task *t) {
  const char *role = json_string_value(json_object_get(o, "role"));
  const json_t *time = json_object_get(o, "time");
  int index = (int)count_of(o, "index");
  size_t i;
  json_t *used;
  *t = (verdict_task){.server = role && !strcmp(role, "ps"),
                      .seconds = number_of(o, "seconds"),
                      .cpu_percent = number_of(o, "cpu_percent_mean"),
                      .times = {.compute = number_of(time, "compute_seconds"),
                                .network = number_of(time, "network_seconds"),
                                .barrier = number_of(time, "barrier_seconds"),
                                .server = number_of(time, "server_seconds"),
                                .input = number_of(time, "input_seconds")},
                      .steps = count_of(o, "steps"),
                      .busy_seconds = number_of(o, "busy_seconds")};
  snprintf(t->name, sizeof t->name, "%.20s/%d", role ? role : "?", index);
  t->gradients = r->tasks && r->flags->ps ? summary_gradients(r->tasks, index) : -1;
  json_array_foreach(json_object_get(o, "gradients"), i, used) t->served += json_integer_value(used);
}

void judge(const run_report *r, const json_t *tasks, const json_t *hosts, verdict *out) {
  const job_flags *f = r->flags;
  size_t n = json_array_size(tasks), i;
  verdict_task *all = calloc(n + 1, sizeof *all);
  int used = 0;
  json_t *task;
  bool one_host = true;
  *out = (verdict){0};
  if (!all) return;
  json_array_foreach((json_t *)tasks, i, task) {
    const char *role = json_string_value(json_object_get(task, "role"));
    if (role && (!strcmp(role, "worker") || !strcmp(role, "ps"))) read_task(r, task, &all[used++]);
    if (!json_equal(json_object_get(task, "host"), json_object_get(json_array_get(tasks, 0), "host"))) one_host = false;
  }
  const json_t *host = json_array_get(hosts, 0);
  verdict_facts facts = {.tasks = all,
                         .n_tasks = used,
                         .workers = (int)f->workers,
                         .servers = (int)f->ps,
                         .together = job_is_together(f),
                         .threads = r->threads,
                         .batch = f->batch_size,
                         .seconds = r->fit.seconds,
                         .examples_per_second = r->fit.seconds > 0 ? (double)r->fit.run_examples / r->fit.seconds : 0,
                         .rate = f->lr * job_rate_scale(f),
                         .usual_rate = r->kind->rate,
                         .one_host = one_host,
                         .cores = (int)count_of(host, "cores"),
                         .host_cpu_percent = number_of(host, "cpu_percent_mean")};
  verdict_make(&facts, out);
  free(all);
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
  return json_pack("{s:s, s:s, s:o, s:o, s:o}", "bottleneck", verdict_cause_names[v->cause], "text", v->text, "shares",
                   shares, "next_worker", next, "warnings", warnings);
}

void judge_print(const verdict *v, FILE *to) {
  fprintf(to, "\n%s\n", v->text);
  if (v->has_next) fprintf(to, "%s\n", v->next_text);
  for (int i = 0; i < v->n_warnings; i++) fprintf(to, "note: %s\n", v->warnings[i].text);
}
