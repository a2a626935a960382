/* Synchronous training of softmax regression as one graph over several tasks.
 *
 * The parameters stand on /job:ps/task:0. Each worker holds its share of the rows, which are sent once, and computes
 * the gradient of its own batch; the ps averages the gradients and updates: one session run a step.
 *
 *   cc in_graph_softmax.c $(pkg-config --cflags --libs shoal)
 *   in_graph_softmax [WORKERS [EPOCHS [GRAPH-FILE]]] */
#include "local_tasks.h"

#include <stdlib.h>

enum { BATCH = 200, PIXELS = 784, CLASSES = 10 };
static const double RATE = 0.5;

typedef struct {
  shoal_graph *graph;
  shoal_value *rows[MOST_WORKERS], *labels[MOST_WORKERS]; /* placeholders: a worker's share ... */
  shoal_value *load[MOST_WORKERS];                        /* ... and what puts it there */
  shoal_value *batch[MOST_WORKERS];                       /* which of those rows a step takes */
  shoal_value *loss, *update;
  shoal_value *test_x, *predicted;
} training;

/* The model's logits for rows of pixels. */
static shoal_value *logits(shoal_graph *g, shoal_value *x, shoal_value *w, shoal_value *b) {
  shoal_value *scaled = shoal_scale(g, shoal_cast(g, x, SHOAL_F32), 1.0 / 255);
  return shoal_bias_add(g, shoal_matmul(g, scaled, w, false, false), b);
}

/* A worker's share of the rows: memory that stays there, and how it is filled. */
static shoal_value *hold(shoal_graph *g, const char *what, int worker, shoal_shape shape, shoal_value **fed,
                         shoal_value **load) {
  char name[32], fed_name[40];
  shoal_value *held = shoal_variable(g, worker_name(what, worker, name), shoal_fill(g, SHOAL_U8, shape, 0));
  snprintf(fed_name, sizeof fed_name, "all_%s", name);
  *fed = shoal_placeholder(g, fed_name, SHOAL_U8, shape);
  *load = shoal_assign(g, held, *fed);
  return held;
}

static shoal_status build(int workers, int64_t share, training *t) {
  shoal_status s = shoal_graph_create(&t->graph);
  if (s) return s;
  shoal_graph *g = t->graph;
  shoal_value *dw[MOST_WORKERS], *db[MOST_WORKERS], *losses[MOST_WORKERS], *loads[2];
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *w = shoal_variable(g, "w", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(PIXELS, CLASSES), 0));
  shoal_value *b = shoal_variable(g, "b", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(CLASSES), 0));
  shoal_device_pop(g);
  for (int i = 0; i < workers; i++) {
    char name[32];
    on_worker(g, i);
    shoal_value *rows = hold(g, "rows", i, SHOAL_SHAPE(share, PIXELS), &t->rows[i], &loads[0]);
    shoal_value *labels = hold(g, "labels", i, SHOAL_SHAPE(share), &t->labels[i], &loads[1]);
    t->load[i] = shoal_group(g, loads, 2);
    t->batch[i] = shoal_placeholder(g, worker_name("batch", i, name), SHOAL_I32, SHOAL_SHAPE(SHOAL_UNKNOWN));
    shoal_name_next(g, worker_name("x", i, name));
    shoal_value *x = shoal_gather(g, rows, t->batch[i]);
    shoal_name_next(g, worker_name("y", i, name));
    shoal_value *y = shoal_gather(g, labels, t->batch[i]);
    shoal_value *each = shoal_sparse_softmax_cross_entropy(g, logits(g, x, w, b), y);
    losses[i] = shoal_reduce_mean(g, each, SHOAL_SCALAR, false);
    shoal_gradient d[2];
    s = shoal_gradients(g, losses[i], (shoal_value *[]){w, b}, 2, d);
    if (s) return s;
    dw[i] = d[0].value;
    db[i] = d[1].value;
    shoal_device_pop(g);
  }
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *updates[] = {shoal_assign_add(g, w, shoal_scale(g, sum_of(g, dw, workers), -RATE / workers)),
                            shoal_assign_add(g, b, shoal_scale(g, sum_of(g, db, workers), -RATE / workers))};
  shoal_name_next(g, "update");
  t->update = shoal_group(g, updates, 2);
  shoal_value *loss = sum_of(g, losses, workers);
  shoal_name_next(g, "loss");
  t->loss = shoal_scale(g, loss, 1.0 / workers);
  t->test_x = shoal_placeholder(g, "test_x", SHOAL_U8, SHOAL_SHAPE(SHOAL_UNKNOWN, PIXELS));
  shoal_value *scores = logits(g, t->test_x, w, b);
  shoal_name_next(g, "predicted");
  t->predicted = shoal_argmax(g, scores, 1);
  shoal_device_pop(g);
  return shoal_graph_status(g);
}

/* Each worker's share of the rows goes to it. */
static shoal_status load(training *t, shoal_session *session, const shoal_dataset *data, int workers, int64_t share) {
  shoal_status s = NULL;
  for (int i = 0; i < workers && !s; i++) {
    shoal_dataset part;
    s = shoal_dataset_view(data, i * share, share, &part);
    if (s) break;
    part.features.shape = SHOAL_SHAPE(share, PIXELS);
    shoal_feed feeds[] = {{t->rows[i], part.features}, {t->labels[i], part.labels}};
    s = shoal_session_run(session, feeds, 2, &t->load[i], 1, NULL);
  }
  return s;
}

/* Batch `k` of the epoch: of each share the same rows, so no row is seen twice. */
static shoal_status step(training *t, shoal_session *session, int workers, int64_t k, double *loss) {
  int32_t which[BATCH];
  shoal_feed feeds[MOST_WORKERS];
  for (int i = 0; i < BATCH; i++) which[i] = (int32_t)(k * BATCH + i);
  for (int i = 0; i < workers; i++)
    feeds[i] = (shoal_feed){t->batch[i], shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(BATCH), which)};
  shoal_value *fetches[] = {t->update, t->loss};
  shoal_tensor out[2];
  shoal_status s = shoal_session_run(session, feeds, workers, fetches, 2, out);
  if (!s) *loss = shoal_tensor_get(&out[1], 0);
  return s;
}

static shoal_status test(training *t, shoal_session *session, const shoal_dataset *data, double *accuracy) {
  int64_t rows = shoal_dataset_rows(data), right = 0;
  shoal_feed feed = {t->test_x, data->features};
  feed.tensor.shape = SHOAL_SHAPE(rows, PIXELS);
  shoal_tensor out;
  shoal_status s = shoal_session_run(session, &feed, 1, &t->predicted, 1, &out);
  for (int64_t i = 0; i < rows && !s; i++) right += shoal_tensor_get(&out, i) == shoal_tensor_get(&data->labels, i);
  *accuracy = (double)right / (double)rows;
  return s;
}

/* Bytes that all processes have sent so far: tasks to each other, and this one to the tasks and back. */
static double traffic(const shoal_session *session) {
  shoal_cluster_stats s;
  shoal_session_stats(session, &s);
  return (double)(s.wire_bytes + s.sent_bytes + s.received_bytes);
}

static shoal_status train(training *t, shoal_session *session, const shoal_dataset *test_rows, int workers,
                          int64_t steps, int epochs) {
  shoal_status s = NULL;
  for (int e = 0; e < epochs && !s; e++) {
    double loss = 0, sum = 0, accuracy = 0;
    shoal_cluster_stats before, after;
    shoal_session_stats(session, &before);
    double bytes = traffic(session);
    for (int64_t k = 0; k < steps && !s; k++) {
      s = step(t, session, workers, k, &loss);
      sum += loss;
    }
    bytes = traffic(session) - bytes;
    shoal_session_stats(session, &after);
    if (!s) s = test(t, session, test_rows, &accuracy);
    if (!s)
      printf(
          "epoch %d: loss %.4f, test accuracy %.2f %%; a step: %.0f messages and %.0f bytes between tasks, "
          "%.0f bytes in all\n",
          e + 1, sum / (double)steps, 100 * accuracy, (double)(after.messages - before.messages) / (double)steps,
          (double)(after.wire_bytes - before.wire_bytes) / (double)steps, bytes / (double)steps);
  }
  return s;
}

int main(int argc, char **argv) {
  int workers = argc > 1 ? atoi(argv[1]) : 2, epochs = argc > 2 ? atoi(argv[2]) : 3;
  if (workers < 1 || workers > MOST_WORKERS || epochs < 1) {
    fprintf(stderr, "expected 1 to %d workers and 1 epoch or more\n", MOST_WORKERS);
    return 2;
  }
  shoal_graph_servers *tasks = NULL;
  training t = {0};
  shoal_session *session = NULL;
  shoal_dataset *rows = NULL, *test_rows = NULL;
  shoal_status s = start_tasks(workers, &tasks);
  if (!s) s = shoal_dataset_load("mnist", "train", &rows);
  if (!s) s = shoal_dataset_load("mnist", "test", &test_rows);
  int64_t share = s ? 0 : shoal_dataset_rows(rows) / workers;
  if (!s) s = build(workers, share, &t);
  if (!s && argc > 3) s = shoal_graph_save(t.graph, argv[3]);
  if (!s) s = connect_to(tasks, t.graph, &session);
  if (!s) s = load(&t, session, rows, workers, share);
  if (!s) s = train(&t, session, test_rows, workers, share / BATCH, epochs);
  shoal_session_destroy(session);
  shoal_graph_destroy(t.graph);
  shoal_dataset_destroy(rows);
  shoal_dataset_destroy(test_rows);
  shoal_graph_servers_destroy(tasks);
  if (!s) return 0;
  fprintf(stderr, "%s\n", shoal_status_message(s));
  shoal_status_free(s);
  return 1;
}
