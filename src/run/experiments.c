#include "run/experiments.h"

#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- figures */

static double number_of(const json_t *o, const char *key) {
  const json_t *value = json_object_get(o, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static void show_number(double value, const char *format, char out[FIGURE_TEXT]) {
  if (isfinite(value))
    snprintf(out, FIGURE_TEXT, format, value);
  else
    snprintf(out, FIGURE_TEXT, "-");
}

/* The greatest of a key over the tasks of a role, or their mean. */
static double of_tasks(const json_t *summary, const char *role, const char *key, bool mean) {
  double sum = 0, most = NAN;
  size_t i, n = 0;
  json_t *task;
  json_array_foreach (json_object_get(summary, "tasks"), i, task) {
    const char *its = json_string_value(json_object_get(task, "role"));
    double value = number_of(task, key);
    if (!its || strcmp(its, role) || !isfinite(value)) continue;
    sum += value;
    n++;
    if (!(most >= value)) most = value;
  }
  return !n ? NAN : mean ? sum / (double)n : most;
}

static void show_accuracy(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(100 * number_of(s, "test_accuracy"), "%.2f %%", out);
}
static void show_error(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(100 * (1 - number_of(s, "test_accuracy")), "%.2f %%", out);
}
static void show_seconds(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(number_of(s, "seconds"), "%.1f s", out);
}
static void show_rate(const json_t *s, char out[FIGURE_TEXT]) {
  const char *schedule = json_string_value(json_object_get(s, "schedule"));
  show_number(number_of(s, "effective_learning_rate"), "%.4g", out);
  size_t n = strlen(out);
  if (schedule) snprintf(out + n, FIGURE_TEXT - n, " %s", schedule);
}
static void show_whole(double value, char out[FIGURE_TEXT]) {
  char digits[SHOAL_DIGITS_TEXT];
  if (isfinite(value))
    snprintf(out, FIGURE_TEXT, "%s", shoal_group_digits((int64_t)(value + 0.5), digits));
  else
    snprintf(out, FIGURE_TEXT, "-");
}
static void show_updates(const json_t *s, char out[FIGURE_TEXT]) { show_whole(number_of(s, "updates"), out); }
static void show_batch(const json_t *s, char out[FIGURE_TEXT]) { show_whole(number_of(s, "global_batch"), out); }
static void show_speed(const json_t *s, char out[FIGURE_TEXT]) { show_whole(number_of(s, "examples_per_second"), out); }
static void show_steps(const json_t *s, char out[FIGURE_TEXT]) {
  show_whole(number_of(s, "updates") / number_of(s, "seconds"), out);
}
static void show_iteration(const json_t *s, char out[FIGURE_TEXT]) {
  double each = number_of(s, "seconds") / number_of(s, "steps");
  show_number(each < 1 ? 1e3 * each : each, each < 1 ? "%.3f ms" : "%.2f s", out);
}
static void show_loss(const json_t *s, char out[FIGURE_TEXT]) { show_number(number_of(s, "final_loss"), "%.4f", out); }
static void show_cpu(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(of_tasks(s, "worker", "cpu_percent_mean", true), "%.0f %%", out);
}
static void show_ps_cpu(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(of_tasks(s, "ps", "cpu_percent_mean", true), "%.0f %%", out);
}
static void show_memory(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(of_tasks(s, "worker", "rss_peak_bytes", false) / 1e6, "%.0f MB", out);
}
static void show_sent(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(of_tasks(s, "worker", "net_sent_bytes", true) / number_of(s, "seconds") / 1e6, "%.1f MB/s", out);
}
static void show_received(const json_t *s, char out[FIGURE_TEXT]) {
  show_number(of_tasks(s, "worker", "net_received_bytes", true) / number_of(s, "seconds") / 1e6, "%.1f MB/s", out);
}

static const experiment_figure figures[] = {
    {"accuracy", "test accuracy", show_accuracy},
    {"error", "test error", show_error},
    {"seconds", "time", show_seconds},
    {"rate", "effective lr", show_rate},
    {"updates", "updates", show_updates},
    {"batch", "global batch", show_batch},
    {"speed", "examples/s", show_speed},
    {"steps", "updates/s", show_steps},
    {"iteration", "a step", show_iteration},
    {"loss", "final loss", show_loss},
    {"cpu", "worker CPU", show_cpu},
    {"ps cpu", "ps CPU", show_ps_cpu},
    {"memory", "worker memory", show_memory},
    {"sent", "sent by a worker", show_sent},
    {"received", "received by a worker", show_received},
};

const experiment_figure *experiment_figure_find(const char *name) {
  for (size_t i = 0; i < COUNT_OF(figures); i++)
    if (!strcmp(figures[i].name, name)) return &figures[i];
  return NULL;
}

/* ---- experiments */

#define SOFTMAX "train softmax"
#define A5_ROW(mode, size)                                                                                   \
  {                                                                                                          \
    mode ", batch " #size,                                                                                   \
        SOFTMAX " --workers 3 --mode " mode " --epochs 20 --lr 0.2 --schedule cosine --batch-size " #size, { \
      "92.1-92.5 %"                                                                                          \
    }                                                                                                        \
  }
#define LENET "train lenet --epochs 6 --batch-size "
#define B_FIGURES \
  { "accuracy", "seconds", "batch", "updates", "rate" }
#define B_ROWS(size, a1, t1, a2, t2, a3, t3)                                              \
  {                                                                                       \
    {"1 node", LENET #size, {a1, t1}}, {"2 nodes", LENET #size " --workers 2", {a2, t2}}, \
        {"3 nodes", LENET #size " --workers 3", {a3, t3}},                                \
        {"2 nodes, rate scaled", LENET #size " --workers 2 --scale-lr", {NULL}}, {        \
      "3 nodes, rate scaled", LENET #size " --workers 3 --scale-lr", { NULL }             \
    }                                                                                     \
  }
#define B_NOTE                                                                                             \
  "The reported accuracy falls because the global batch grows with the nodes while rate and epochs stay: " \
  "fewer updates. The scaled rows multiply the rate by the nodes, after a warm-up."
/* Without checkpoints: of these 16 runs of 8 to 96 steps on one random image each would leave 467 MB that nobody wants. */
#define ALEXNET "train alexnet --data fake --no-checkpoints "
/* A step of four processes with 256 images each takes longer than a minute where processors are few or busy. */
#define ALEXNET_NODES(n) "--workers " #n " --deadline 600"
#define C2_ROW(nodes, size, flags)                                                                              \
  {                                                                                                             \
    nodes " nodes, batch " #size, ALEXNET flags " --steps 8 --batch-size " #size, { "19-82 %", "2800-5800 MB" } \
  }
#define CLICKS                                                                        \
  "train sparse-lr --data {folder}/data/tfrecords[01]*,{folder}/data/tfrecords2[01] " \
  "--test-data {folder}/data/tfrecords22 --workers 5 --ps 1 "
#define CLICKS_DATA(rows) "data generate criteo --rows " rows " --out {folder}/data --quiet"

static const shoal_experiment experiments[] = {
    {"A1",
     "Softmax regression on MNIST, one node",
     {"accuracy", "seconds", "cpu", "memory"},
     {{"1 node", SOFTMAX " --lr 0.5 --batch-size 200 --epochs 50", {"92.63 %", "121 s", "23-24 %", "500-600 MB"}}},
     NULL,
     NULL},
    {"A2",
     "Softmax regression, synchronous, 1 ps and 3 workers",
     {"accuracy", "seconds", "ps cpu", "cpu", "memory"},
     {{"sync",
       SOFTMAX " --lr 0.5 --batch-size 200 --epochs 50 --workers 3 --ps 1 --mode sync",
       {"92.02 %", "103-104 s", "26-28 %", "25 %", "560-690 MB"}}},
     NULL,
     NULL},
    {"A3",
     "Softmax regression, asynchronous, 1 ps and 3 workers",
     {"accuracy", "seconds", "rate"},
     {{"async",
       SOFTMAX " --lr 0.5 --schedule cosine --final-lr 0.025 --batch-size 200 --epochs 50 --workers 3 --ps 1 "
               "--mode async",
       {"92.02, 91.78, 92.27 %", "48-51 s"}}},
     NULL,
     "The reported run shows no traffic and another accuracy on each worker: its workers very likely trained alone. "
     "Here gradients do come late; so the rate falls along a cosine, while A2 keeps the 0.5 that was reported of "
     "both."},
    {"A4",
     "Softmax regression, sync against async, batch 10",
     {"steps", "accuracy", "loss", "rate"},
     {{"sync", SOFTMAX " --lr 0.1 --batch-size 10 --epochs 20 --workers 2 --ps 1 --mode sync", {"a third of async"}},
      {"async", SOFTMAX " --lr 0.1 --batch-size 10 --epochs 20 --workers 2 --ps 1 --mode async", {"850-1300"}}},
     NULL,
     "The rate was not reported; a constant 0.1 is taken for both. All workers are there from the start."},
    {"A5",
     "Softmax regression, batch sizes, sync and async, 3 workers",
     {"accuracy", "seconds", "cpu", "sent", "received", "memory", "loss"},
     {A5_ROW("sync", 5), A5_ROW("sync", 10), A5_ROW("sync", 20), A5_ROW("sync", 30), A5_ROW("sync", 40),
      A5_ROW("async", 5), A5_ROW("async", 10), A5_ROW("async", 20), A5_ROW("async", 30), A5_ROW("async", 40)},
     NULL,
     "Rate and epochs were not reported; 0.2, falling along a cosine, and 20 are taken."},
    {"B1", "LeNet on MNIST, base batch 64", B_FIGURES,
     B_ROWS(64, "98.00 %", "178.8 s", "97.21 %", "162.3 s", "96.78 %", "169.7 s"), NULL, B_NOTE},
    {"B2", "LeNet on MNIST, base batch 128", B_FIGURES,
     B_ROWS(128, "97.63 %", "162.0 s", "94.83 %", "175.6 s", "92.37 %", "171.4 s"), NULL, B_NOTE},
    {"B3", "LeNet on MNIST, base batch 256", B_FIGURES,
     B_ROWS(256, "95.74 %", "192.2 s", "93.39 %", "191.6 s", "91.15 %", "181.4 s"), NULL, B_NOTE},
    {"B4", "LeNet on MNIST, base batch 512", B_FIGURES,
     B_ROWS(512, "92.68 %", "196.0 s", "87.35 %", "191.6 s", "84.01 %", "212.1 s"), NULL, B_NOTE},
    {"C1",
     "AlexNet, 12,288 examples, one random image repeated",
     {"speed", "seconds", "cpu", "memory"},
     {{"1 node", ALEXNET "--batch-size 128 --steps 96", {"42.7"}},
      {"2 nodes", ALEXNET "--batch-size 128 --steps 48 " ALEXNET_NODES(2), {"82.7"}},
      {"3 nodes", ALEXNET "--batch-size 128 --steps 32 " ALEXNET_NODES(3), {"1.5 times 2 nodes"}},
      {"4 nodes", ALEXNET "--batch-size 128 --steps 24 " ALEXNET_NODES(4), {NULL}}},
     NULL,
     "Nodes are processes of this machine and share its processors."},
    {"C2",
     "AlexNet, batch sizes and nodes",
     {"cpu", "memory", "speed", "sent", "received"},
     {C2_ROW("1", 32, ""), C2_ROW("1", 64, ""), C2_ROW("1", 128, ""), C2_ROW("1", 256, ""),
      C2_ROW("2", 32, ALEXNET_NODES(2)), C2_ROW("2", 64, ALEXNET_NODES(2)), C2_ROW("2", 128, ALEXNET_NODES(2)),
      C2_ROW("2", 256, ALEXNET_NODES(2)), C2_ROW("4", 32, ALEXNET_NODES(4)), C2_ROW("4", 64, ALEXNET_NODES(4)),
      C2_ROW("4", 128, ALEXNET_NODES(4)), C2_ROW("4", 256, ALEXNET_NODES(4))},
     NULL,
     "Reported over all: 127-160 MB received, 139-555 MB sent in all. Nodes are processes of this machine."},
    {"D1",
     "Sparse logistic regression, synchronous, dense transfers",
     {"iteration", "error", "sent"},
     {{"sync", CLICKS "--mode sync --batch-size 100 --transfer dense --steps 20", {"7-8 s"}}},
     CLICKS_DATA("50000"),
     "Twenty steps. D2 is the same without --transfer dense."},
    {"D2",
     "Sparse logistic regression, synchronous, touched rows only",
     {"iteration", "error", "sent"},
     {{"sync", CLICKS "--mode sync --batch-size 100 --epochs 1", {"3-4 s"}}},
     CLICKS_DATA("50000"),
     NULL},
    {"D3",
     "Sparse logistic regression, asynchronous",
     {"iteration", "steps", "error", "sent"},
     {{"async", CLICKS "--mode async --batch-size 100 --epochs 1", {"1-3.5 s", "1.5"}}},
     CLICKS_DATA("50000"),
     NULL},
    {"D4",
     "Sparse logistic regression, both modes, batch 100 and 20, 200,000 examples",
     {"seconds", "iteration", "error", "cpu", "sent", "memory"},
     {{"sync, batch 100", CLICKS "--mode sync --batch-size 100 --epochs 1", {"100 minutes"}},
      {"sync, batch 20", CLICKS "--mode sync --batch-size 20 --epochs 1", {"100 minutes", "7.1 s"}},
      {"async, batch 100", CLICKS "--mode async --batch-size 100 --epochs 1", {"100 minutes"}},
      {"async, batch 20", CLICKS "--mode async --batch-size 20 --epochs 1", {"100 minutes"}}},
     CLICKS_DATA("209000"),
     NULL},
    {"D5",
     "Sparse logistic regression, test error against examples seen",
     {"error", "seconds"},
     {{"sync", CLICKS "--mode sync --batch-size 100 --epochs 5 --eval-every 100000", {"a curve"}},
      {"async", CLICKS "--mode async --batch-size 100 --epochs 5 --eval-every 100000", {"a curve"}}},
     CLICKS_DATA("209000"),
     "The curves are on the page."},
    {"E",
     "Trace of A.A, A of 100,000 x 100,000",
     {"seconds"},
     {{"5 nodes", "matmul --n 100000 --blocks 10 --workers 5", {"145 s"}}},
     NULL,
     NULL},
};

const shoal_experiment *shoal_experiment_at(int i) {
  return i >= 0 && i < (int)COUNT_OF(experiments) ? &experiments[i] : NULL;
}

int experiment_rows(const shoal_experiment *e) {
  int n = 0;
  while (n < EXPERIMENT_ROWS_MAX && e->rows[n].name) n++;
  return n;
}

shoal_status shoal_experiment_find(const char *id, const shoal_experiment **out) {
  const char *names[COUNT_OF(experiments)];
  for (size_t i = 0; i < COUNT_OF(experiments); i++) {
    names[i] = experiments[i].id;
    if (strcasecmp(experiments[i].id, id)) continue;
    *out = &experiments[i];
    return NULL;
  }
  const char *near = text_nearest(id, names, COUNT_OF(experiments));
  return status_make(SHOAL_ERR_ARGUMENT, "unknown experiment '%s'%s%s%s", id, near ? "; did you mean " : "",
                     near ? near : "", near ? "?" : "");
}

const char *shoal_experiment_id(const shoal_experiment *e) { return e->id; }
const char *shoal_experiment_title(const shoal_experiment *e) { return e->title; }
const char *shoal_experiment_note(const shoal_experiment *e) { return e->note; }
