/* shoal doctor: what this machine offers, and whether the tasks of a described cluster reach each other. */
#include "cli/command.h"
#include "run/cluster_member.h"
#include "cli/interrupt.h"
#include "net/key_ring.h"
#include "cli/machine.h"
#include "cli/say.h"
#include "cli/table.h"
#include "cluster/probe.h"
#include "shoal/version.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define FAR_CLOCK 1.0       /* seconds of difference from which on traces and logs no longer fit together */
#define SLOW_TRIP 0.01      /* seconds */
#define SLOW_BANDWIDTH 10e6 /* bytes/s */
#define NAME 32

typedef struct {
  const char *cluster, *task, *keys;
  bool insecure, json;
  double seconds;
} doctor_flags;

#define AT(f) offsetof(doctor_flags, f)
static const flag_row doctor_table[] = {
    {.name = "cluster", .kind = FLAG_TEXT, .offset = AT(cluster), .value = "FILE",
     .help = "also look at the cluster described there, as in TF_CONFIG", .standard = "TF_CONFIG, if that is set",
     .complete = COMPLETE_FILE},
    {.name = "task", .kind = FLAG_TEXT, .offset = AT(task), .value = "ROLE:INDEX",
     .help = "which task of the cluster this is: chief:0, worker:1, ps:0 ..."},
    {.name = "keys", .kind = FLAG_TEXT, .offset = AT(keys), .value = "DIR",
     .help = "keys of the cluster, made by shoal keygen DIR", .complete = COMPLETE_DIRECTORY},
    {.name = "insecure", .kind = FLAG_BOOL, .offset = AT(insecure), .help = "talk to other hosts without keys"},
    {.name = "deadline", .kind = FLAG_NUMBER, .offset = AT(seconds), .value = "SECONDS",
     .help = "how long to wait for the other tasks", .standard = "30", .least = 0.1, .most = 1e6},
    {.name = "json", .kind = FLAG_BOOL, .offset = AT(json), .help = "print one JSON object"},
    {0},
};

typedef struct {
  machine_fact facts[MACHINE_FACTS];
  int count;
  bool described;
  cluster place;
  probe_pair *pairs; /* [tasks][tasks], NULL without a cluster */
  json_t *problems;  /* texts */
} findings;

/* ---- keys: a parameter server listens with server.key, the others with client.key */

typedef struct {
  key_ring ring;
  const char **pins; /* [tasks] the public key each task listens with */
} doctor_keys;

static bool is_server(const cluster *c, int task) {
  int index;
  return probe_role(c, task, &index) == SHOAL_PS;
}

static shoal_status read_keys(const doctor_flags *f, const cluster *c, doctor_keys *k, net_options *net) {
  int tasks = probe_tasks(c);
  bool server = c->role == SHOAL_PS;
  TRY(key_ring_read_both(f->keys, server, &k->ring, net));
  k->pins = calloc((size_t)tasks, sizeof *k->pins);
  if (!k->pins) return status_no_memory();
  for (int i = 0; i < tasks; i++) k->pins[i] = is_server(c, i) == server ? k->ring.own.public_key : k->ring.other;
  return NULL;
}

/* ---- what is wrong */

__attribute__((format(printf, 2, 3))) static void complain(findings *d, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *words;
  if (vasprintf(&words, format, list) >= 0) {
    json_array_append_new(d->problems, json_string(words));
    free(words);
  }
  va_end(list);
}

static const char *name_of(const cluster *c, int task, char out[NAME]) {
  int index;
  cluster_role role = probe_role(c, task, &index);
  snprintf(out, NAME, "%s:%d", cluster_role_name(role), index);
  return out;
}

static void judge_pair(findings *d, int from, int to, const probe_pair *p) {
  char a[NAME], b[NAME];
  name_of(&d->place, from, a);
  name_of(&d->place, to, b);
  const char *address = probe_address(&d->place, to);
  if (!p->known) return;
  if (!p->answered) {
    complain(d, "%s does not reach %s at %s: %s", a, b, address, p->why);
    return;
  }
  if (strcmp(p->version, shoal_version()) && from == probe_self(&d->place))
    complain(d, "%s runs Shoal %s, this task %s: install the same version on all hosts", b, p->version, shoal_version());
  if (fabs(p->offset) > FAR_CLOCK)
    complain(d, "the clock of %s is %+.1f s from that of %s: let both keep time by NTP", b, p->offset, a);
  if (p->round_trip > SLOW_TRIP)
    complain(d, "%s to %s takes %.0f ms there and back: synchronous steps cannot be faster", a, b, p->round_trip * 1e3);
  if (p->bandwidth < SLOW_BANDWIDTH)
    complain(d, "%s to %s carries only %.1f MB/s: each step moves the whole model", a, b, p->bandwidth / 1e6);
}

static void judge(findings *d) {
  for (int i = 0; i < d->count; i++)
    if (*d->facts[i].wrong) complain(d, "%s", d->facts[i].wrong);
  if (!d->pairs) return;
  int tasks = probe_tasks(&d->place), own = probe_self(&d->place);
  for (int from = 0; from < tasks; from++) {
    bool silent = true;
    for (int to = 0; to < tasks; to++) {
      if (from == to) continue;
      silent = silent && !d->pairs[from * tasks + to].known;
      judge_pair(d, from, to, &d->pairs[from * tasks + to]);
    }
    char name[NAME];
    if (silent && tasks > 1 && d->pairs[own * tasks + from].answered)
      complain(d, "%s answers, but did not tell in time what it found", name_of(&d->place, from, name));
  }
}

/* ---- showing it */

static void print_pairs(const findings *d) {
  enum { FROM, TO, ADDRESS, ANSWERS, TRIP, RATE, CLOCK, VERSION, COLUMNS };
  int tasks = probe_tasks(&d->place), rows = 0;
  table_column(*t)[COLUMNS] = calloc((size_t)(tasks * tasks), sizeof *t);
  if (!t) return;
  for (int i = 0; i < tasks * tasks; i++) {
    const probe_pair *p = &d->pairs[i];
    int from = i / tasks, to = i % tasks;
    if (from == to || !p->known) continue;
    table_column *c = t[rows++];
    static const table_column heads[COLUMNS] = {
        {"from", true, ""}, {"to", true, ""}, {"address", true, ""}, {"answers", true, ""},
        {"round trip", false, ""}, {"bandwidth", false, ""}, {"clock", false, ""}, {"version", true, ""}};
    memcpy(c, heads, sizeof heads);
    char name[NAME];
    table_set_text(&c[FROM], name_of(&d->place, from, name));
    table_set_text(&c[TO], name_of(&d->place, to, name));
    table_set_text(&c[ADDRESS], probe_address(&d->place, to));
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
  if (d->pairs) {
    putchar('\n');
    print_pairs(d);
  }
  size_t k;
  json_t *problem;
  putchar('\n');
  json_array_foreach(d->problems, k, problem) say(stdout, "wrong: %s\n", json_string_value(problem));
  if (!json_array_size(d->problems))
    printf("Nothing is wrong%s.\n", d->pairs ? "; all tasks reach each other" : "");
}

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static void print_json(const findings *d) {
  json_t *machine = json_object(), *pairs = json_array();
  for (int i = 0; i < d->count; i++) json_object_set_new(machine, d->facts[i].name, json_string(d->facts[i].value));
  int tasks = d->pairs ? probe_tasks(&d->place) : 0;
  for (int i = 0; i < tasks * tasks; i++) {
    const probe_pair *p = &d->pairs[i];
    if (!p->known) continue;
    char from[NAME], to[NAME];
    json_array_append_new(
        pairs, json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:s, s:s, s:s}", "from",
                         name_of(&d->place, i / tasks, from), "to", name_of(&d->place, i % tasks, to), "address",
                         probe_address(&d->place, i % tasks), "answered", p->answered, "round_trip_seconds",
                         number(p->answered ? p->round_trip : NAN), "bytes_per_second",
                         number(p->answered ? p->bandwidth : NAN), "clock_offset_seconds",
                         number(p->answered ? p->offset : NAN), "version", p->version, "host", p->host, "error",
                         p->why));
  }
  json_t *o = json_pack("{s:s, s:o, s:o, s:O}", "version", shoal_version(), "machine", machine, "pairs", pairs,
                        "problems", d->problems);
  json_dumpf(o, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(o);
}

/* ---- the whole */

static shoal_status look_at_cluster(const doctor_flags *f, findings *d) {
  doctor_keys keys = {0};
  interrupt *signals = NULL;
  probe_options options = {.place = &d->place, .version = shoal_version(), .seconds = f->seconds};
  options.net.insecure = f->insecure;
  shoal_status status = f->keys ? read_keys(f, &d->place, &keys, &options.net) : NULL;
  if (!status) status = interrupt_create("Ending.", "Ended at once.", &signals);
  if (!status) {
    char name[NAME];
    int own = probe_self(&d->place);
    options.server_keys = keys.pins;
    options.stop = interrupt_flag(signals);
    if (!f->json && own >= 0) {
      say(stdout, "%s at %s waits up to %g s for the other tasks: start %s doctor in each of them\n",
          name_of(&d->place, own, name), probe_address(&d->place, own), f->seconds, called());
      fflush(stdout);
    }
    status = probe_run(&options, &d->pairs);
  }
  interrupt_destroy(signals);
  free(keys.pins);
  key_ring_fini(&keys.ring);
  return status;
}

static shoal_status doctor(const doctor_flags *f, bool *healthy) {
  findings d = {.problems = json_array()};
  shoal_status status = cluster_member_read(f->cluster, f->task, 0, &d.described, &d.place);
  if (!status) d.count = machine_look(d.facts);
  if (!status && d.described) status = look_at_cluster(f, &d);
  if (!status) {
    judge(&d);
    if (f->json)
      print_json(&d);
    else
      print_words(&d);
    *healthy = !json_array_size(d.problems);
  }
  json_decref(d.problems);
  free(d.pairs);
  cluster_fini(&d.place);
  return status;
}

static int run_doctor(int argc, char **argv) {
  doctor_flags f = {.seconds = 30};
  flags_parsed parsed;
  shoal_status status = flags_parse(doctor_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_doctor, stdout);
    return EXIT_GOOD;
  }
  if (!status && parsed.count) status = status_make(SHOAL_ERR_ARGUMENT, "takes flags only, not '%s'", parsed.words[0]);
  bool healthy = false;
  if (!status) status = doctor(&f, &healthy);
  return status ? command_fail(&command_doctor, status) : healthy ? EXIT_GOOD : EXIT_JOB_FAILED;
}

const command command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "check this machine and, where one is described, the cluster",
    .details = "Says what this machine offers: cores, instructions, kernels chosen, memory,\n"
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
