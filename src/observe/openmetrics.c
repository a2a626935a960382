#include "observe/openmetrics.h"

#include "base/build_info.h"
#include "base/mem.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef enum { GAUGE, COUNTER } metric_kind;

/* One line of the answer; rows of the same name are one family and stand together. */
typedef struct {
  const char *name; /* without _total */
  metric_kind kind;
  const char *unit; /* that its name ends with; NULL: none */
  const char *help;
  size_t offset;
  const char *cause; /* the second label; NULL: there is none */
} metric_row;

#define AT(field) offsetof(openmetrics_values, field)
#define WAIT "shoal_wait_seconds", COUNTER, "seconds", "Time in training that this task waited, by what for."
static const metric_row rows[] = {
    {"shoal_steps", COUNTER, NULL, "Steps of the training, those before a resume included.", AT(step), NULL},
    {"shoal_examples", COUNTER, NULL, "Training rows used since this process began.", AT(examples), NULL},
    {"shoal_epoch", GAUGE, NULL, "Whole passes over the training rows.", AT(epoch), NULL},
    {"shoal_loss", GAUGE, NULL, "Mean loss of the steps since the last report.", AT(loss), NULL},
    {"shoal_accuracy_ratio", GAUGE, NULL, "Share of training rows told right since the last report.", AT(accuracy),
     NULL},
    {"shoal_learning_rate", GAUGE, NULL, "Learning rate of the last step.", AT(rate), NULL},
    {"shoal_examples_per_second", GAUGE, NULL, "Training rows a second since the last report.", AT(examples_per_second),
     NULL},
    {"shoal_staleness_updates", GAUGE, NULL,
     "Updates between the parameters a gradient was computed from and its use, mean since the last report.",
     AT(staleness), NULL},
    {"shoal_test_loss", GAUGE, NULL, "Loss on the test rows, when last measured.", AT(test_loss), NULL},
    {"shoal_test_accuracy_ratio", GAUGE, NULL, "Share of test rows told right, when last measured.", AT(test_accuracy),
     NULL},
    {"shoal_compute_seconds", COUNTER, "seconds", "Time in training that this task computed.", AT(compute), NULL},
    {WAIT, AT(network), "network"},
    {WAIT, AT(barrier), "barrier"},
    {WAIT, AT(server), "server"},
    {WAIT, AT(input), "input"},
    {"shoal_network_sent_bytes", COUNTER, "bytes", "Sent to other tasks.", AT(sent), NULL},
    {"shoal_network_received_bytes", COUNTER, "bytes", "Received from other tasks.", AT(received), NULL},
    {"shoal_updates", COUNTER, NULL, "Updates that this parameter server has applied.", AT(updates), NULL},
    {"shoal_gradients", COUNTER, NULL, "Gradients that this parameter server has used.", AT(gradients), NULL},
    {"shoal_handed_on_rows", COUNTER, NULL, "Rows of lost workers that were given to others.", AT(handed_on), NULL},
    {"shoal_refused_messages", COUNTER, NULL, "Messages that this parameter server has refused.", AT(refused), NULL},
    {"shoal_busy_seconds", COUNTER, "seconds", "Time that this parameter server was at work on messages.", AT(busy),
     NULL},
    {"shoal_evaluations", COUNTER, NULL, "Checkpoints that this evaluator has tested.", AT(evaluations), NULL},
    {"process_resident_memory_bytes", GAUGE, "bytes", "Memory of this process.", AT(memory), NULL},
    {"process_cpu_seconds", COUNTER, "seconds", "Processor time of this process.", AT(cpu_seconds), NULL},
};

openmetrics_values openmetrics_none(void) {
  openmetrics_values v = {.has_staleness = false};
  for (size_t i = 0; i < COUNT_OF(rows); i++) *(double *)((char *)&v + rows[i].offset) = NAN;
  return v;
}

/* The older format has the suffix of counters in the family's name, too, and no units. */
static void add_family(const char *name, const char *suffix, const char *kind, const char *unit, const char *help,
                       openmetrics_format format, text *out) {
  const char *in_name = format == PROMETHEUS_0_0_4 ? suffix : "";
  text_add(out, "# TYPE %s%s %s\n", name, in_name, kind);
  if (unit && format == OPENMETRICS_1_0) text_add(out, "# UNIT %s %s\n", name, unit);
  text_add(out, "# HELP %s%s %s\n", name, in_name, help);
}

static void add_row(const metric_row *row, bool first, double value, const char *task, openmetrics_format format,
                    text *out) {
  const char *suffix = row->kind == COUNTER ? "_total" : "";
  if (first)
    add_family(row->name, suffix, row->kind == COUNTER ? "counter" : "gauge", row->unit, row->help, format, out);
  text_add(out, "%s%s{task=\"%s\"", row->name, suffix, task);
  if (row->cause) text_add(out, ",cause=\"%s\"", row->cause);
  text_add(out, "} %.17g\n", value);
}

/* Buckets at powers of two; the last place of by_staleness holds all from there on. */
static void add_staleness(const openmetrics_values *v, const char *task, openmetrics_format format, text *out) {
  static const char name[] = "shoal_gradient_staleness_updates";
  add_family(name, "", "histogram", NULL,
             "Gradients by updates between the parameters they were computed from and their use.", format, out);
  int64_t sum = 0;
  for (int k = 0, next = 0; k < PS_STALENESS_MAX; k++) {
    sum += v->by_staleness[k];
    if (k != next || k == PS_STALENESS_MAX - 1) continue;
    text_add(out, "%s_bucket{task=\"%s\",le=\"%d.0\"} %lld\n", name, task, k, (long long)sum);
    next = next ? 2 * next : 1;
  }
  text_add(out, "%s_bucket{task=\"%s\",le=\"+Inf\"} %lld\n", name, task, (long long)sum);
  text_add(out, "%s_sum{task=\"%s\"} %.17g\n%s_count{task=\"%s\"} %lld\n", name, task, v->staleness_sum, name, task,
           (long long)sum);
}

void openmetrics_write(const openmetrics_values *v, const char *task, openmetrics_format format, text *out) {
  const bool old = format == PROMETHEUS_0_0_4;
  add_family(old ? "shoal_build_info" : "shoal_build", "", old ? "gauge" : "info", NULL, "The version that runs.",
             format, out);
  text_add(out, "shoal_build_info{version=\"%s\"} 1\n", shoal_version());
  const char *family = "";
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    const double value = *(const double *)((const char *)v + rows[i].offset);
    if (isnan(value)) continue;
    add_row(&rows[i], strcmp(family, rows[i].name) != 0, value, task, format, out);
    family = rows[i].name;
  }
  if (v->has_staleness) add_staleness(v, task, format, out);
  if (!old) text_add(out, "# EOF\n");
}
