/* Synchronous training of softmax regression as one graph over several tasks.
 *
 * The parameters stand on /job:ps/task:0, each worker computes the gradient of its own batch, the ps averages them and
 * updates: one session run a step. The servers are processes that this program starts; on several machines they would
 * be `shoal server --cluster FILE --task worker:0`, and the addresses theirs.
 *
 *   cc in_graph_softmax.c $(pkg-config --cflags --libs shoal)
 *   in_graph_softmax [WORKERS [EPOCHS [GRAPH-FILE]]]
 */
#include <shoal/shoal.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8, BATCH = 200, PIXELS = 784, CLASSES = 10 };
static const double RATE = 0.5;

typedef struct {
  shoal_graph *graph;
  shoal_value *x[MOST], *y[MOST]; /* each worker's batch */
  shoal_value *loss, *update;
  shoal_value *test_x, *predicted;
} training;

/* The model's logits for rows of pixels. */
static shoal_value *logits(shoal_graph *g, shoal_value *x, shoal_value *w, shoal_value *b) {
  shoal_value *scaled = shoal_scale(g, shoal_cast(g, x, SHOAL_F32), 1.0 / 255);
  return shoal_bias_add(g, shoal_matmul(g, scaled, w, false, false), b);
}

static shoal_value *sum_of(shoal_graph *g, shoal_value *const *x, int n) {
  shoal_value *sum = x[0];
  for (int i = 1; i < n; i++) sum = shoal_add(g, sum, x[i]);
  return sum;
}

static shoal_status build(int workers, training *t) {
  shoal_status s = shoal_graph_create(&t->graph);
  if (s) return s;
  shoal_graph *g = t->graph;
  shoal_value *dw[MOST], *db[MOST], *losses[MOST];
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *w = shoal_variable(g, "w", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(PIXELS, CLASSES), 0));
  shoal_value *b = shoal_variable(g, "b", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(CLASSES), 0));
  shoal_device_pop(g);
  for (int i = 0; i < workers; i++) {
    char name[32];
    snprintf(name, sizeof name, "/job:worker/task:%d", i);
    shoal_device_push(g, name);
    snprintf(name, sizeof name, "x%d", i);
    t->x[i] = shoal_placeholder(g, name, SHOAL_U8, SHOAL_SHAPE(SHOAL_UNKNOWN, PIXELS));
    snprintf(name, sizeof name, "y%d", i);
    t->y[i] = shoal_placeholder(g, name, SHOAL_U8, SHOAL_SHAPE(SHOAL_UNKNOWN));
    shoal_value *each = shoal_sparse_softmax_cross_entropy(g, logits(g, t->x[i], w, b), t->y[i]);
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

/* Batch `k` of the epoch: worker i takes the i-th of each round, so no row is seen twice. */
static shoal_status step(training *t, shoal_session *session, const shoal_dataset *data, int workers, int64_t k,
                         double *loss) {
  shoal_feed feeds[2 * MOST];
  for (int i = 0; i < workers; i++) {
    shoal_dataset batch;
    shoal_status s = shoal_dataset_view(data, (k * workers + i) * BATCH, BATCH, &batch);
    if (s) return s;
    feeds[2 * i] = (shoal_feed){t->x[i], batch.features};
    feeds[2 * i].tensor.shape = SHOAL_SHAPE(BATCH, PIXELS);
    feeds[2 * i + 1] = (shoal_feed){t->y[i], batch.labels};
  }
  shoal_value *fetches[] = {t->update, t->loss};
  shoal_tensor out[2];
  shoal_status s = shoal_session_run(session, feeds, 2 * workers, fetches, 2, out);
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

static shoal_status train(training *t, const shoal_task *tasks, int workers, int epochs) {
  shoal_dataset *rows = NULL, *test_rows = NULL;
  shoal_session *session = NULL;
  shoal_status s = shoal_dataset_load("mnist", "train", &rows);
  if (!s) s = shoal_dataset_load("mnist", "test", &test_rows);
  if (!s) {
    shoal_cluster_options o = {.tasks = tasks, .n_tasks = workers + 1, .job = (uint64_t)getpid(), .threads = 1};
    s = shoal_session_connect(t->graph, &o, &session);
  }
  int64_t steps = s ? 0 : shoal_dataset_rows(rows) / (BATCH * workers);
  shoal_cluster_stats before = {0}, after = {0};
  for (int e = 0; e < epochs && !s; e++) {
    double loss = 0, sum = 0, accuracy = 0;
    shoal_session_stats(session, &before);
    for (int64_t k = 0; k < steps && !s; k++) {
      s = step(t, session, rows, workers, k, &loss);
      sum += loss;
    }
    shoal_session_stats(session, &after);
    if (!s) s = test(t, session, test_rows, &accuracy);
    if (!s)
      printf("epoch %d: loss %.4f, test accuracy %.2f %%, %.0f messages and %.0f bytes between tasks a step\n", e + 1,
             sum / (double)steps, 100 * accuracy, (double)(after.messages - before.messages) / (double)steps,
             (double)(after.data_bytes - before.data_bytes) / (double)steps);
  }
  shoal_session_destroy(session);
  shoal_dataset_destroy(rows);
  shoal_dataset_destroy(test_rows);
  return s;
}

int main(int argc, char **argv) {
  int workers = argc > 1 ? atoi(argv[1]) : 2, epochs = argc > 2 ? atoi(argv[2]) : 3;
  if (workers < 1 || workers > MOST || epochs < 1) {
    fprintf(stderr, "expected 1 to %d workers and 1 epoch or more\n", MOST);
    return 2;
  }
  shoal_task tasks[MOST + 1];
  char names[MOST + 1][32], addresses[MOST + 1][64];
  pid_t servers[MOST + 1], parent = getpid();
  for (int i = 0; i <= workers; i++) {
    snprintf(names[i], sizeof names[i], i ? "/job:worker/task:%d" : "/job:ps/task:%d", i ? i - 1 : 0);
    snprintf(addresses[i], sizeof addresses[i], "shm:/in-graph-%d-%d", (int)parent, i);
    tasks[i] = (shoal_task){names[i], addresses[i]};
    servers[i] = fork();
    if (servers[i]) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    shoal_status s = shoal_server_run(&(shoal_server_options){.address = addresses[i], .job = (uint64_t)parent});
    if (s) fprintf(stderr, "%s: %s\n", names[i], shoal_status_message(s));
    _exit(1);
  }
  training t = {0};
  shoal_status s = build(workers, &t);
  if (!s && argc > 3) s = shoal_graph_save(t.graph, argv[3]);
  if (!s) s = train(&t, tasks, workers, epochs);
  shoal_graph_destroy(t.graph);
  for (int i = 0; i <= workers; i++) {
    kill(servers[i], SIGTERM);
    waitpid(servers[i], NULL, 0);
  }
  if (!s) return 0;
  fprintf(stderr, "%s\n", shoal_status_message(s));
  shoal_status_free(s);
  return 1;
}
