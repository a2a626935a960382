/* Synchronous training of sparse logistic regression as one graph over several tasks.
 *
 * The table, one weight a feature, stands on /job:ps/task:0. The weights of the features that a worker's batch touches
 * are gathered there and travel, each once; the worker sends back their gradients; the ps adds up those of all workers
 * and updates the rows that were touched: one session run a step. The table never moves.
 *
 *   cc in_graph_sparse_lr.c $(pkg-config --cflags --libs shoal)
 *   in_graph_sparse_lr FILES TEST-FILES FEATURES [WORKERS [BATCH [OPTIMIZER [RATE]]]]
 *
 * It learns what `shoal train sparse-lr --data FILES --shuffle-rows 0 --batch-size WORKERS*BATCH` does. */
#include "local_tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_ENTRIES = 256 }; /* at most, on average over a batch */

/* A batch as it is fed: which features it touches, and each entry's place among them. */
typedef struct {
  shoal_tensor offsets; /* i64 [rows + 1] */
  shoal_tensor touched; /* i32 [n_touched] features, ascending */
  shoal_tensor places;  /* i32 [entries] in `touched` */
  shoal_tensor values;  /* f32 [entries] */
  shoal_tensor labels;  /* f32 [rows] 0 or 1 */
  int64_t entries, n_touched;
} batch;

typedef struct {
  shoal_graph *graph;
  struct {
    shoal_value *touched, *offsets, *places, *values, *labels;
  } fed[MOST_WORKERS];
  shoal_value *loss, *update;
  shoal_value *test_offsets, *test_indices, *test_values, *scores;
  int workers;
  int64_t rows; /* of a worker's batch */
  batch batches[MOST_WORKERS];
  /* What batches are padded to, the largest so far: a run is planned for the shapes that are fed, and with the same
   * ones the plan is used again. */
  int64_t entries, n_touched;
} training;

static shoal_status build(training *t, int64_t features, const char *optimizer, double rate) {
  shoal_status s = shoal_graph_create(&t->graph);
  if (s) return s;
  shoal_graph *g = t->graph;
  shoal_value *losses[MOST_WORKERS];
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *w = shoal_variable(g, "w", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(features, 1), 0));
  shoal_device_pop(g);
  for (int i = 0; i < t->workers; i++) {
    char name[32];
    shoal_shape any = SHOAL_SHAPE(SHOAL_UNKNOWN);
    /* Beside the table: what leaves it is [touched, 1]. */
    shoal_device_push(g, "/job:ps/task:0");
    t->fed[i].touched = shoal_placeholder(g, worker_name("touched", i, name), SHOAL_I32, any);
    shoal_value *weights = shoal_gather(g, w, t->fed[i].touched);
    shoal_device_pop(g);
    on_worker(g, i);
    /* The worker's copy: its gradient, one number a feature, is added up from the entries before it travels back. */
    weights = shoal_identity(g, weights);
    t->fed[i].offsets = shoal_placeholder(g, worker_name("offsets", i, name), SHOAL_I64, SHOAL_SHAPE(t->rows + 1));
    t->fed[i].places = shoal_placeholder(g, worker_name("places", i, name), SHOAL_I32, any);
    t->fed[i].values = shoal_placeholder(g, worker_name("values", i, name), SHOAL_F32, any);
    t->fed[i].labels = shoal_placeholder(g, worker_name("labels", i, name), SHOAL_F32, SHOAL_SHAPE(t->rows));
    shoal_value *scores = shoal_sparse_matmul(g, t->fed[i].offsets, t->fed[i].places, t->fed[i].values, weights);
    scores = shoal_reshape(g, scores, SHOAL_SHAPE(t->rows));
    losses[i] = shoal_reduce_mean(g, shoal_sigmoid_cross_entropy(g, scores, t->fed[i].labels), SHOAL_SCALAR, false);
    shoal_device_pop(g);
  }
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *loss = shoal_scale(g, sum_of(g, losses, t->workers), 1.0 / t->workers);
  shoal_name_next(g, "loss");
  t->loss = shoal_identity(g, loss);
  /* Gradients stand where what they belong to does: each worker's with it, the table's beside the table. */
  s = shoal_minimize(g, &(shoal_optimizer_options){.name = optimizer}, t->loss, &w, 1, shoal_scalar(g, SHOAL_F32, rate),
                     &t->update);
  /* To test, rows come to the table instead. */
  t->test_offsets = shoal_placeholder(g, "test_offsets", SHOAL_I64, SHOAL_SHAPE(t->rows + 1));
  t->test_indices = shoal_placeholder(g, "test_indices", SHOAL_I32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  t->test_values = shoal_placeholder(g, "test_values", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  t->scores = shoal_sparse_matmul(g, t->test_offsets, t->test_indices, t->test_values, w);
  shoal_device_pop(g);
  return s ? s : shoal_graph_status(g);
}

/* ---- batches */

static shoal_status batch_create(int64_t rows, batch *b) {
  shoal_shape entries = SHOAL_SHAPE(rows * ROW_ENTRIES);
  shoal_status s = shoal_tensor_create(SHOAL_I64, SHOAL_SHAPE(rows + 1), &b->offsets);
  if (!s) s = shoal_tensor_create(SHOAL_I32, entries, &b->touched);
  if (!s) s = shoal_tensor_create(SHOAL_I32, entries, &b->places);
  if (!s) s = shoal_tensor_create(SHOAL_F32, entries, &b->values);
  if (!s) s = shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(rows), &b->labels);
  return s;
}

static void batch_destroy(batch *b) {
  shoal_tensor_fini(&b->offsets);
  shoal_tensor_fini(&b->touched);
  shoal_tensor_fini(&b->places);
  shoal_tensor_fini(&b->values);
  shoal_tensor_fini(&b->labels);
}

/* Copies rows; those missing from a last batch become rows without entries. Entries behind the last row's count
 * nowhere: what is left there from a batch before may stay, as long as it is in range. */
static void take_rows(batch *b, const shoal_batch *from, int64_t rows) {
  const int64_t *begin = from->offsets.data;
  int64_t *offsets = b->offsets.data;
  b->entries = begin[from->count] - begin[0];
  if (b->entries > rows * ROW_ENTRIES) {
    fprintf(stderr, "a batch of %lld rows has %lld entries; this program has room for %d a row\n", (long long)rows,
            (long long)b->entries, ROW_ENTRIES);
    exit(1);
  }
  for (int64_t i = 0; i <= rows; i++) offsets[i] = begin[i < from->count ? i : from->count] - begin[0];
  for (int64_t i = 0; i < rows; i++)
    ((float *)b->labels.data)[i] = i < from->count ? (float)((const int32_t *)from->labels.data)[i] : 0;
  memcpy(b->values.data, from->values.data, (size_t)b->entries * sizeof(float));
  memcpy(b->places.data, from->indices.data, (size_t)b->entries * sizeof(int32_t));
}

static int ascending(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return x < y ? -1 : x > y;
}

/* Numbers the features that come: places become what they are called. */
static void number_features(batch *b) {
  int32_t *touched = b->touched.data, *places = b->places.data;
  int64_t n = 0;
  memcpy(touched, places, (size_t)b->entries * sizeof *touched);
  qsort(touched, (size_t)b->entries, sizeof *touched, ascending);
  for (int64_t i = 0; i < b->entries; i++)
    if (!n || touched[i] != touched[n - 1]) touched[n++] = touched[i];
  for (int64_t i = 0; i < b->entries; i++)
    places[i] = (int32_t)((int32_t *)bsearch(&places[i], touched, (size_t)n, sizeof *touched, ascending) - touched);
  b->n_touched = n;
}

static shoal_feed first_of(shoal_value *value, const shoal_tensor *t, int64_t n) {
  return (shoal_feed){value, shoal_tensor_view(t->dtype, SHOAL_SHAPE(n), t->data)};
}

/* ---- running */

/* One batch a worker, one run. `more` turns false at the end of the rows. */
static shoal_status step(training *t, shoal_session *session, shoal_pipeline *rows, double *loss, bool *more) {
  for (int i = 0; i < t->workers; i++) {
    const shoal_batch *next;
    batch *b = &t->batches[i];
    shoal_status s = shoal_pipeline_next(rows, &next);
    *more = next != NULL;
    if (s || !next) return s;
    take_rows(b, next, t->rows);
    number_features(b);
    t->entries = b->entries > t->entries ? b->entries : t->entries;
    t->n_touched = b->n_touched > t->n_touched ? b->n_touched : t->n_touched;
  }
  shoal_feed feeds[5 * MOST_WORKERS];
  int n = 0;
  for (int i = 0; i < t->workers; i++) {
    batch *b = &t->batches[i];
    /* The first feature once more, with no entry that belongs to it: its gradient there is 0. */
    int32_t *touched = b->touched.data;
    for (int64_t k = b->n_touched; k < t->n_touched; k++) touched[k] = touched[0];
    feeds[n++] = first_of(t->fed[i].touched, &b->touched, t->n_touched);
    feeds[n++] = first_of(t->fed[i].offsets, &b->offsets, t->rows + 1);
    feeds[n++] = first_of(t->fed[i].places, &b->places, t->entries);
    feeds[n++] = first_of(t->fed[i].values, &b->values, t->entries);
    feeds[n++] = first_of(t->fed[i].labels, &b->labels, t->rows);
  }
  shoal_value *fetches[] = {t->update, t->loss};
  shoal_tensor out[2];
  shoal_status s = shoal_session_run(session, feeds, n, fetches, 2, out);
  if (!s) *loss = shoal_tensor_get(&out[1], 0);
  return s;
}

static shoal_status train(training *t, shoal_session *session, const char *files, int64_t features) {
  shoal_pipeline *rows;
  shoal_status s = shoal_pipeline_create(
      &(shoal_pipeline_options){
          .files = files, .features = features, .epochs = 1, .batch_size = t->rows, .drop_short = true},
      &rows);
  if (s) return s;
  double loss = 0, sum = 0, touched = 0;
  int64_t steps = 0;
  bool more = true;
  while (!(s = step(t, session, rows, &loss, &more)) && more) {
    steps++;
    sum += loss;
    for (int i = 0; i < t->workers; i++) touched += (double)t->batches[i].n_touched;
  }
  shoal_pipeline_destroy(rows);
  shoal_cluster_stats stats;
  shoal_session_stats(session, &stats);
  if (!s && steps)
    printf("%lld steps: loss %.6f, %.0f messages and %.0f bytes between tasks a step for %.0f features touched\n",
           (long long)steps, sum / (double)steps, (double)stats.messages / (double)steps,
           (double)stats.wire_bytes / (double)steps, touched / (double)steps);
  return s;
}

static shoal_status test(training *t, shoal_session *session, const char *files, int64_t features) {
  shoal_pipeline *rows;
  shoal_status s = shoal_pipeline_create(
      &(shoal_pipeline_options){.files = files, .features = features, .epochs = 1, .batch_size = t->rows}, &rows);
  if (s) return s;
  batch *b = &t->batches[0];
  const shoal_batch *next = NULL;
  double loss = 0, wrong = 0, n = 0;
  while (!s && !(s = shoal_pipeline_next(rows, &next)) && next) {
    take_rows(b, next, t->rows);
    t->entries = b->entries > t->entries ? b->entries : t->entries;
    shoal_feed feeds[] = {first_of(t->test_offsets, &b->offsets, t->rows + 1),
                          first_of(t->test_indices, &b->places, t->entries),
                          first_of(t->test_values, &b->values, t->entries)};
    shoal_tensor scores;
    s = shoal_session_run(session, feeds, 3, &t->scores, 1, &scores);
    for (int64_t i = 0; i < next->count && !s; i++) {
      double score = shoal_tensor_get(&scores, i), label = shoal_tensor_get(&b->labels, i) > 0 ? 1 : -1;
      loss += log1p(exp(-label * score));
      wrong += (score > 0 ? 1 : -1) != label;
      n++;
    }
  }
  shoal_pipeline_destroy(rows);
  if (!s && n > 0) printf("test: log loss %.6f, %.2f %% wrong\n", loss / n, 100 * wrong / n);
  return s;
}

int main(int argc, char **argv) {
  int workers = argc > 4 ? atoi(argv[4]) : 2, rows = argc > 5 ? atoi(argv[5]) : 100;
  long long features = argc > 3 ? atoll(argv[3]) : 0;
  if (argc < 4 || workers < 1 || workers > MOST_WORKERS || rows < 1 || features < 1) {
    fprintf(stderr,
            "usage: in_graph_sparse_lr FILES TEST-FILES FEATURES [WORKERS [BATCH [OPTIMIZER [RATE]]]], with 1 "
            "to %d workers\n",
            MOST_WORKERS);
    return 2;
  }
  shoal_graph_servers *tasks = NULL;
  training t = {.workers = workers, .rows = rows};
  shoal_session *session = NULL;
  shoal_status s = start_tasks(workers, &tasks);
  if (!s) s = build(&t, features, argc > 6 ? argv[6] : "adagrad", argc > 7 ? atof(argv[7]) : 0.3);
  for (int i = 0; i < workers && !s; i++) s = batch_create(rows, &t.batches[i]);
  if (!s) s = connect_to(tasks, t.graph, &session);
  if (!s) s = train(&t, session, argv[1], features);
  if (!s) s = test(&t, session, argv[2], features);
  shoal_session_destroy(session);
  shoal_graph_destroy(t.graph);
  for (int i = 0; i < workers; i++) batch_destroy(&t.batches[i]);
  shoal_graph_servers_destroy(tasks);
  if (!s) return 0;
  fprintf(stderr, "%s\n", shoal_status_message(s));
  shoal_status_free(s);
  return 1;
}
