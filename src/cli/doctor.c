/* shoal doctor: what this machine offers, and whether the tasks of a described cluster reach each other. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/observe.h"

typedef struct {
  const char *cluster, *task, *keys;
  bool insecure, json;
  double seconds;
} doctor_flags;

#define AT(f) offsetof(doctor_flags, f)
static const flag_row doctor_table[] = {
    {"cluster", FLAG_TEXT, AT(cluster), "FILE", "also probe the cluster described in FILE, as in TF_CONFIG",
     "TF_CONFIG, if that is set", .complete = COMPLETE_FILE},
    {"task", FLAG_TEXT, AT(task), "ROLE:INDEX", "the task to run as: chief:0, worker:1, ps:0 ...", .marks = 0},
    {"keys", FLAG_TEXT, AT(keys), "DIR", "keys of the cluster, made by shoal keygen DIR",
     .complete = COMPLETE_DIRECTORY},
    {"insecure", FLAG_BOOL, AT(insecure), NULL, "connect to other hosts without encryption", .marks = 0},
    {"deadline", FLAG_NUMBER, AT(seconds), "SECONDS", "time to wait for the other tasks", "30", .least = 0.1,
     .most = 1e6},
    {"json", FLAG_BOOL, AT(json), NULL, "print one JSON object", .marks = 0},
    {0},
};

typedef struct {
  shoal_machine machine;
  shoal_cluster *cluster; /* NULL: none is described */
  shoal_probe *probe;     /* NULL without a cluster */
} findings;

/* ---- showing it */

static shoal_status print_words(const findings *d) {
  shoal_machine_fact facts[SHOAL_MACHINE_FACTS];
  const int count = shoal_machine_facts(&d->machine, facts);
  for (int i = 0; i < count; i++) say_indented(stdout, 15, "%-14s %s\n", facts[i].name, facts[i].value);
  if (d->probe) {
    shoal_result_table *t = NULL;
    putchar('\n');
    shoal_status status = shoal_probe_table(d->cluster, d->probe, &t);
    TRY(table_print(stdout, status, t, NULL));
  }
  putchar('\n');
  const char *problem;
  for (int i = 0; (problem = shoal_health_problem(&d->machine, d->probe, i)); i++)
    say(stdout, "problem: %s\n", problem);
  if (!shoal_health_problem(&d->machine, d->probe, 0))
    printf("No problems found%s.\n", d->probe ? "; all tasks can reach each other" : "");
  return NULL;
}

/* ---- the whole */

static shoal_status probe(const doctor_flags *f, const int *stop, findings *d) {
  int own = shoal_cluster_task(d->cluster);
  if (!f->json && own >= 0) {
    char name[SHOAL_TASK_NAME];
    say(stdout, "%s at %s waits up to %g s for the other tasks: run %s doctor in each of them\n",
        shoal_cluster_task_name(d->cluster, own, name), shoal_cluster_task_address(d->cluster, own), f->seconds,
        called());
    fflush(stdout);
  }
  shoal_probe_options options = {.keys = f->keys, .insecure = f->insecure, .seconds = f->seconds, .stop = stop};
  return shoal_cluster_probe(d->cluster, &options, &d->probe);
}

static shoal_status doctor(command_call *call) {
  const doctor_flags *f = call->flags;
  findings d = {0};
  TRY(shoal_cluster_find(f->cluster, f->task, 0, &d.cluster));
  shoal_machine_inspect(&d.machine);
  shoal_status status = d.cluster ? probe(f, call->stop, &d) : NULL;
  if (!status) {
    char *json = NULL;
    if (f->json) status = shoal_health_json(&d.machine, d.cluster, d.probe, &json);
    status = f->json ? json_print(status, json) : print_words(&d);
    if (shoal_health_problem(&d.machine, d.probe, 0)) call->exit_status = EXIT_JOB_FAILED;
  }
  shoal_probe_destroy(d.probe);
  shoal_cluster_destroy(d.cluster);
  return status;
}

const command command_doctor = {
    .name = "doctor",
    .summary = "check this machine and, if one is described, the cluster",
    .details =
        "Shows what this machine offers: cores, instructions, kernels chosen, memory,\n"
        "measured speed, limits, libraries. With TF_CONFIG or --cluster and --task it\n"
        "acts as one task of that cluster: run it in every task. Each listens at its own\n"
        "address, connects to all others, and prints for all pairs who answers, round\n"
        "trip, bandwidth, clock and version. Problems are listed at the end, and the\n"
        "exit status is then 1.\n"
        "\n"
        "Examples:\n"
        "  shoal doctor\n"
        "  shoal doctor --cluster cluster.json --task worker:1 --keys keys\n",
    .flags = doctor_table,
    .fields = sizeof(doctor_flags),
    .defaults = &(const doctor_flags){.seconds = 30},
    .stopping = "Stopping.",
    .killed = "Killed.",
    .action = doctor,
};
