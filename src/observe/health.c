/* What there is to say about a machine and the cluster around it. */
#include "base/json_text.h"
#include "base/table.h"
#include "shoal/observe.h"
#include "shoal/version.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct {
  shoal_machine_fact *facts;
  int count;
} fact_list;

__attribute__((format(printf, 3, 4))) static void add(fact_list *l, const char *name, const char *format, ...) {
  shoal_machine_fact *f = &l->facts[l->count++];
  va_list list;
  f->name = name;
  va_start(list, format);
  vsnprintf(f->value, sizeof f->value, format, list);
  va_end(list);
}

int shoal_machine_facts(const shoal_machine *m, shoal_machine_fact out[SHOAL_MACHINE_FACTS]) {
  fact_list l = {out, 0};
  add(&l, "system", "%s", m->system);
  add(&l, "processor", "%s", *m->processor ? m->processor : "unknown");
  add(&l, "cores", "%d, of which this process may use %d", m->cores, m->usable_cores);
  add(&l, "instructions", "%s", *m->instructions ? m->instructions : "the basic set only");
  add(&l, "kernels", "%s", m->kernels);
  add(&l, "multiply-adds", "%.0f GF/s on one thread", m->flops / 1e9);
  add(&l, "memory", "%.1f GB free of %.1f GB", (double)m->memory_free_bytes / 1e9, (double)m->memory_bytes / 1e9);
  add(&l, "memory copy", "%.1f GB/s read and written, one thread", m->copy_bytes_per_second / 1e9);
  add(&l, "huge pages", "%s", *m->huge_pages ? m->huge_pages : "not supported by this kernel");
  add(&l, "open files", "at most %lld", (long long)m->open_files);
  add(&l, "shared memory", "%s", m->shared_memory ? "yes" : "no");
  add(&l, "ZeroMQ", "%s, %s", m->zeromq, m->curve ? "with keys (CURVE)" : "without keys");
  add(&l, "libraries", "%s", m->libraries);
  add(&l, "optional", "%s", m->optional_libraries);
  return l.count;
}

static json_t *pairs_json(const shoal_cluster *c, const shoal_probe *probe) {
  json_t *pairs = json_array();
  const int tasks = probe ? probe->tasks : 0;
  for (int i = 0; i < tasks * tasks; i++) {
    const shoal_probe_pair *p = &probe->pairs[i];
    if (!p->known) continue;
    char from[SHOAL_TASK_NAME], to[SHOAL_TASK_NAME];
    json_array_append_new(
        pairs, json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:s, s:s, s:s}", "from",
                         shoal_cluster_task_name(c, i / tasks, from), "to", shoal_cluster_task_name(c, i % tasks, to),
                         "address", shoal_cluster_task_address(c, i % tasks), "answered", p->answered,
                         "round_trip_seconds", json_finite(p->answered ? p->round_trip : NAN), "bytes_per_second",
                         json_finite(p->answered ? p->bandwidth : NAN), "clock_offset_seconds",
                         json_finite(p->answered ? p->offset : NAN), "version", p->version, "host", p->host, "error",
                         p->error));
  }
  return pairs;
}

const char *shoal_health_problem(const shoal_machine *m, const shoal_probe *probe, int i) {
  if (i < m->n_problems) return m->problems[i];
  i -= m->n_problems;
  return probe && i < probe->n_problems ? probe->problems[i] : NULL;
}

shoal_status shoal_health_json(const shoal_machine *m, const shoal_cluster *c, const shoal_probe *probe, char **out) {
  shoal_machine_fact facts[SHOAL_MACHINE_FACTS];
  json_t *machine = json_object(), *problems = json_array();
  const int count = shoal_machine_facts(m, facts);
  for (int i = 0; i < count; i++) json_object_set_new(machine, facts[i].name, json_string(facts[i].value));
  const char *problem;
  for (int i = 0; (problem = shoal_health_problem(m, probe, i)); i++)
    json_array_append_new(problems, json_string(problem));
  return json_text(json_pack("{s:s, s:o, s:o, s:o}", "version", shoal_version(), "machine", machine, "pairs",
                             pairs_json(c, probe), "problems", problems),
                   0, out);
}

shoal_status shoal_probe_table(const shoal_cluster *c, const shoal_probe *probe, shoal_result_table **out) {
  enum { FROM, TO, ADDRESS, ANSWERS, TRIP, RATE, CLOCK, VERSION, COLUMNS };
  static const shoal_result_column columns[COLUMNS] = {{.head = "from", .left = true},
                                                       {.head = "to", .left = true},
                                                       {.head = "address", .left = true},
                                                       {.head = "answers", .left = true},
                                                       {.head = "round trip"},
                                                       {.head = "bandwidth"},
                                                       {.head = "clock"},
                                                       {.head = "version", .left = true}};
  const int tasks = probe->tasks;
  int rows = 0;
  for (int i = 0; i < tasks * tasks; i++) rows += i / tasks != i % tasks && probe->pairs[i].known;
  shoal_result_table *t;
  TRY(table_create(rows, columns, COLUMNS, &t));
  for (int i = 0, row = 0; i < tasks * tasks; i++) {
    const shoal_probe_pair *p = &probe->pairs[i];
    char name[SHOAL_TASK_NAME];
    if (i / tasks == i % tasks || !p->known) continue;
    table_set(t, row, FROM, "%s", shoal_cluster_task_name(c, i / tasks, name));
    table_set(t, row, TO, "%s", shoal_cluster_task_name(c, i % tasks, name));
    table_set(t, row, ADDRESS, "%s", shoal_cluster_task_address(c, i % tasks));
    table_set(t, row, ANSWERS, p->answered ? "yes" : "NO");
    if (p->answered) {
      table_set(t, row, TRIP, "%.0f us", p->round_trip * 1e6);
      table_set(t, row, RATE, "%.0f MB/s", p->bandwidth / 1e6);
      table_set(t, row, CLOCK, "%+.2f ms", p->offset * 1e3);
      table_set(t, row, VERSION, "%s", p->version);
    }
    row++;
  }
  return table_done(t, NULL, out);
}
