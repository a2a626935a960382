/* shoal doctor: what this machine offers, and whether the tasks of a described cluster reach each other. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/machine.h"
#include "shoal/probe.h"
#include "shoal/version.h"

#include <math.h>
#include <stdarg.h>

enum { FACTS_MAX = 16, VALUE_TEXT = 120 };

typedef struct {
  const char *cluster, *task, *keys;
  bool insecure, json;
  double seconds;
} doctor_flags;

#define AT(f) offsetof(doctor_flags, f)
static const flag_row doctor_table[] = {
    {"cluster", FLAG_TEXT, AT(cluster), "FILE", "also look at the cluster described there, as in TF_CONFIG",
     "TF_CONFIG, if that is set", .complete = COMPLETE_FILE},
    {"task", FLAG_TEXT, AT(task), "ROLE:INDEX", "which task of the cluster this is: chief:0, worker:1, ps:0 ...",
     .marks = 0},
    {"keys", FLAG_TEXT, AT(keys), "DIR", "keys of the cluster, made by shoal keygen DIR",
     .complete = COMPLETE_DIRECTORY},
    {"insecure", FLAG_BOOL, AT(insecure), NULL, "talk to other hosts without keys", .marks = 0},
    {"deadline", FLAG_NUMBER, AT(seconds), "SECONDS", "how long to wait for the other tasks", "30", .least = 0.1,
     .most = 1e6},
    {"json", FLAG_BOOL, AT(json), NULL, "print one JSON object", .marks = 0},
    {0},
};

/* What is said of the machine: "memory", "1.9 GB free of 3.8 GB". */
typedef struct {
  const char *name;
  char value[VALUE_TEXT];
} fact;

typedef struct {
  shoal_machine machine;
  fact facts[FACTS_MAX];
  int count;
  shoal_cluster *cluster; /* NULL: none is described */
  shoal_probe *probe;     /* NULL without a cluster */
} findings;

__attribute__((format(printf, 3, 4))) static void add(findings *d, const char *name, const char *format, ...) {
  fact *f = &d->facts[d->count++];
  va_list list;
  f->name = name;
  va_start(list, format);
  vsnprintf(f->value, sizeof f->value, format, list);
  va_end(list);
}

static void describe_machine(findings *d) {
  const shoal_machine *m = &d->machine;
  add(d, "system", "%s", m->system);
  add(d, "processor", "%s", *m->processor ? m->processor : "unknown");
  add(d, "cores", "%d, of which this process may use %d", m->cores, m->usable_cores);
  add(d, "instructions", "%s", *m->instructions ? m->instructions : "those of every such processor");
  add(d, "kernels", "%s", m->kernels);
  add(d, "multiply-adds", "%.0f GF/s on one thread", m->flops / 1e9);
  add(d, "memory", "%.1f GB free of %.1f GB", (double)m->memory_free_bytes / 1e9, (double)m->memory_bytes / 1e9);
  add(d, "memory copy", "%.1f GB/s read and written, one thread", m->copy_bytes_per_second / 1e9);
  add(d, "huge pages", "%s", *m->huge_pages ? m->huge_pages : "not known to this kernel");
  add(d, "open files", "at most %lld", (long long)m->open_files);
  add(d, "shared memory", "%s", m->shared_memory ? "yes" : "no");
  add(d, "ZeroMQ", "%s, %s", m->zeromq, m->curve ? "with keys (CURVE)" : "without keys");
  add(d, "libraries", "%s", m->libraries);
  add(d, "optional", "%s", m->optional_libraries);
}

/* Of the machine, then of the cluster; NULL past the last. */
static const char *problem_at(const findings *d, int i) {
  if (i < d->machine.n_problems) return d->machine.problems[i];
  i -= d->machine.n_problems;
  return d->probe && i < d->probe->n_problems ? d->probe->problems[i] : NULL;
}

/* ---- showing it */

static void print_pairs(const findings *d) {
  enum { FROM, TO, ADDRESS, ANSWERS, TRIP, RATE, CLOCK, VERSION, COLUMNS };
  int tasks = d->probe->tasks, rows = 0;
  table_column(*t)[COLUMNS] = calloc((size_t)(tasks * tasks), sizeof *t);
  if (!t) return;
  for (int i = 0; i < tasks * tasks; i++) {
    const shoal_probe_pair *p = &d->probe->pairs[i];
    int from = i / tasks, to = i % tasks;
    if (from == to || !p->known) continue;
    table_column *c = t[rows++];
    static const table_column heads[COLUMNS] = {
        {"from", true, ""},        {"to", true, ""},         {"address", true, ""}, {"answers", true, ""},
        {"round trip", false, ""}, {"bandwidth", false, ""}, {"clock", false, ""},  {"version", true, ""}};
    memcpy(c, heads, sizeof heads);
    char name[SHOAL_TASK_NAME];
    table_set_text(&c[FROM], shoal_cluster_task_name(d->cluster, from, name));
    table_set_text(&c[TO], shoal_cluster_task_name(d->cluster, to, name));
    table_set_text(&c[ADDRESS], shoal_cluster_task_address(d->cluster, to));
    table_set_text(&c[ANSWERS], p->answered ? "yes" : "NO");
    if (!p->answered) continue;
    snprintf(c[TRIP].cell, TABLE_CELL, "%.0f us", p->round_trip * 1e6);
    snprintf(c[RATE].cell, TABLE_CELL, "%.0f MB/s", p->bandwidth / 1e6);
    snprintf(c[CLOCK].cell, TABLE_CELL, "%+.2f ms", p->offset * 1e3);
    table_set_text(&c[VERSION], p->version);
  }
  if (rows) table_print(stdout, t[0], rows, COLUMNS, terminal_width(stdout));
  free(t);
}

static void print_words(const findings *d) {
  for (int i = 0; i < d->count; i++) say_indented(stdout, 15, "%-14s %s\n", d->facts[i].name, d->facts[i].value);
  if (d->probe) {
    putchar('\n');
    print_pairs(d);
  }
  putchar('\n');
  const char *problem;
  for (int i = 0; (problem = problem_at(d, i)); i++) say(stdout, "wrong: %s\n", problem);
  if (!problem_at(d, 0)) printf("Nothing is wrong%s.\n", d->probe ? "; all tasks reach each other" : "");
}

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *pairs_json(const findings *d) {
  json_t *pairs = json_array();
  int tasks = d->probe ? d->probe->tasks : 0;
  for (int i = 0; i < tasks * tasks; i++) {
    const shoal_probe_pair *p = &d->probe->pairs[i];
    if (!p->known) continue;
    char from[SHOAL_TASK_NAME], to[SHOAL_TASK_NAME];
    json_array_append_new(pairs, json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:s, s:s, s:s}", "from",
                                           shoal_cluster_task_name(d->cluster, i / tasks, from), "to",
                                           shoal_cluster_task_name(d->cluster, i % tasks, to), "address",
                                           shoal_cluster_task_address(d->cluster, i % tasks), "answered", p->answered,
                                           "round_trip_seconds", number(p->answered ? p->round_trip : NAN),
                                           "bytes_per_second", number(p->answered ? p->bandwidth : NAN),
                                           "clock_offset_seconds", number(p->answered ? p->offset : NAN), "version",
                                           p->version, "host", p->host, "error", p->error));
  }
  return pairs;
}

static void print_json(const findings *d) {
  json_t *machine = json_object(), *problems = json_array();
  for (int i = 0; i < d->count; i++) json_object_set_new(machine, d->facts[i].name, json_string(d->facts[i].value));
  const char *problem;
  for (int i = 0; (problem = problem_at(d, i)); i++) json_array_append_new(problems, json_string(problem));
  json_t *o = json_pack("{s:s, s:o, s:o, s:o}", "version", shoal_version(), "machine", machine, "pairs", pairs_json(d),
                        "problems", problems);
  json_dumpf(o, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(o);
}

/* ---- the whole */

static shoal_status probe(const doctor_flags *f, findings *d) {
  interrupt *signals;
  TRY(interrupt_create("Ending.", "Ended at once.", &signals));
  int own = shoal_cluster_task(d->cluster);
  if (!f->json && own >= 0) {
    char name[SHOAL_TASK_NAME];
    say(stdout, "%s at %s waits up to %g s for the other tasks: start %s doctor in each of them\n",
        shoal_cluster_task_name(d->cluster, own, name), shoal_cluster_task_address(d->cluster, own), f->seconds,
        called());
    fflush(stdout);
  }
  shoal_probe_options options = {
      .keys = f->keys, .insecure = f->insecure, .seconds = f->seconds, .stop = interrupt_flag(signals)};
  shoal_status status = shoal_cluster_probe(d->cluster, &options, &d->probe);
  interrupt_destroy(signals);
  return status;
}

static shoal_status doctor(const doctor_flags *f, bool *healthy) {
  findings d = {0};
  TRY(shoal_cluster_find(f->cluster, f->task, 0, &d.cluster));
  shoal_machine_inspect(&d.machine);
  describe_machine(&d);
  shoal_status status = d.cluster ? probe(f, &d) : NULL;
  if (!status) {
    if (f->json)
      print_json(&d);
    else
      print_words(&d);
    *healthy = !problem_at(&d, 0);
  }
  shoal_probe_destroy(d.probe);
  shoal_cluster_destroy(d.cluster);
  return status;
}

static int run_doctor(int argc, char **argv) {
  doctor_flags f = {.seconds = 30};
  flags_parsed parsed;
  shoal_status status;
  if (!command_parse(&command_doctor, argc, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status && parsed.count) status = status_make(SHOAL_ERR_ARGUMENT, "takes flags only, not '%s'", parsed.words[0]);
  bool healthy = false;
  if (!status) status = doctor(&f, &healthy);
  return status ? command_fail(&command_doctor, status) : healthy ? EXIT_GOOD : EXIT_JOB_FAILED;
}

const command command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "check this machine and, where one is described, the cluster",
    .details =
        "Says what this machine offers: cores, instructions, kernels chosen, memory,\n"
        "measured speed, limits, libraries. With TF_CONFIG or --cluster and --task it\n"
        "is one task of that cluster: started in every task, each listens at its own\n"
        "address and reaches for all others, and each prints who answers, round trips,\n"
        "bandwidths, clocks and versions of all pairs. Exit status 1 when something is\n"
        "wrong; what it is stands at the end, in words.\n"
        "\n"
        "Examples:\n"
        "  shoal doctor\n"
        "  shoal doctor --cluster cluster.json --task worker:1 --keys keys\n",
    .flags = doctor_table,
    .run = run_doctor,
};
