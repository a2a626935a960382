#include "train/compute.h"

#include "base/mem.h"

#include <math.h>

shoal_status compute_init(compute *c, shoal_model *m, tower *t, bool gradients) {
  shoal_value **exchanged;
  int n_trained, n;
  *c = (compute){.model = m, .tower = t};
  TRY(model_exchanged(m, &exchanged, &n_trained, &n));
  free(exchanged);
  c->fetches = calloc((size_t)n + 3, sizeof *c->fetches);
  c->got = calloc((size_t)n + 3, sizeof *c->got);
  if (!c->fetches || !c->got) return status_no_memory();
  c->fetches[c->n_fetches++] = t->loss;
  if (!m->options.no_train_accuracy && t->accuracy) c->fetches[c->n_fetches++] = t->accuracy;
  c->first_gradient = c->n_fetches;
  if (!gradients) c->fetches[c->n_fetches++] = t->update;
  for (int i = 0; i < n && gradients; i++) {
    if (!t->gradients[i].value)
      return status_make(SHOAL_ERR_ARGUMENT,
                         "fit: the loss does not depend on every trained weight, which only a "
                         "single process, without gradient accumulation, can train");
    c->fetches[c->n_fetches++] = t->gradients[i].value;
  }
  return NULL;
}

shoal_status compute_accumulate(compute *c, int64_t at_once, int64_t parts) {
  const int n = c->n_fetches - c->first_gradient;
  c->offsets = calloc((size_t)n + 1, sizeof *c->offsets);
  if (!c->offsets) return status_no_memory();
  for (int i = 0; i < n; i++) {
    const shoal_shape shape = shoal_value_shape(c->fetches[c->first_gradient + i]);
    c->offsets[i + 1] = c->offsets[i] + shoal_shape_count(&shape);
  }
  TRY(mem_aligned((size_t)c->offsets[n] * sizeof *c->sum, (void **)&c->sum));
  c->at_once = at_once;
  c->parts = parts;
  return NULL;
}

void compute_fini(compute *c) {
  free(c->sum);
  free(c->offsets);
  free(c->fetches);
  free(c->got);
  *c = (compute){0};
}

int compute_feed(const compute *c, const train_batch *b, int64_t first, int64_t n, float *rate,
                 shoal_feed feeds[DENSE_FEEDS]) {
  int count = 0;
  feeds[count++] = (shoal_feed){c->tower->x, batch_features(b, first, n)};
  feeds[count++] = (shoal_feed){c->tower->y, tower_labels(c->tower, batch_labels(b, first, n))};
  feeds[count++] = (shoal_feed){c->model->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, rate)};
  if (c->tower->weights) feeds[count++] = (shoal_feed){c->tower->weights, batch_weights(b, first, n)};
  return count;
}

shoal_status compute_plan(const compute *c, shoal_session *session, const train_batch *example, int64_t n) {
  float rate = 0;
  shoal_feed feeds[DENSE_FEEDS];
  char *description;
  if (!n) return NULL;
  const int n_feeds = compute_feed(c, example, 0, n, &rate, feeds);
  TRY(session_explain(session, feeds, n_feeds, c->fetches, c->n_fetches, &description));
  free(description);
  return NULL;
}

shoal_status compute_plan_batch(const compute *c, const train_batch *example, int64_t n) {
  if (!c->at_once || n <= c->at_once) return compute_plan(c, c->model->session, example, n);
  TRY(compute_plan(c, c->model->session, example, c->at_once));
  return compute_plan(c, c->model->session, example, n % c->at_once);
}

/* Returns how many. */
static int feed_batch(const compute *c, const train_batch *b, const shoal_tensor *indices, float *rate,
                      shoal_feed feeds[COMPUTE_FEEDS_MAX]) {
  if (!b->sparse) {
    return compute_feed(c, b, 0, b->rows, rate, feeds);
  }
  int n = tower_feed_sparse(c->tower, b->sparse, feeds);
  if (indices) feeds[1].tensor = *indices;
  return n;
}

static shoal_status run(compute *c, const train_batch *b, const shoal_tensor *indices, const session_watcher *watcher) {
  shoal_session *session = c->model->session;
  float rate = (float)b->rate;
  shoal_feed feeds[COMPUTE_FEEDS_MAX];
  int n = feed_batch(c, b, indices, &rate, feeds);
  if (__builtin_expect(c->inspect != NULL, 0) && (c->first || !c->at_once)) {
    shoal_session_set_step(session, (uint64_t)b->number);
    TRY(status_wrap(c->inspect(c->inspector, b, feeds, n), "step %lld", (long long)b->step));
  }
  shoal_session_set_step(session, (uint64_t)b->number);
  if (watcher) session_watch(session, watcher);
  shoal_status status = shoal_session_run(session, feeds, n, c->fetches, c->n_fetches, c->got);
  if (watcher) session_watch(session, NULL);
  return compute_explain_feeds(c, b, status, feeds, n);
}

/* ---- in parts */

/* Adds a gradient of the part under way. */
static void add_gradient(compute *c, int which, shoal_tensor *gradient) {
  const float *from = gradient->data;
  float *to = c->sum + c->offsets[which];
  const int64_t n = c->offsets[which + 1] - c->offsets[which];
  if (c->first)
    for (int64_t i = 0; i < n; i++) to[i] = from[i] * c->share;
  else
    for (int64_t i = 0; i < n; i++) to[i] += from[i] * c->share;
  gradient->data = to;
}

typedef struct {
  compute *compute;
  const session_watcher *told; /* of whole batches */
} last_part;

static void on_ready(void *context, int fetch, const shoal_tensor *value) {
  const last_part *l = context;
  shoal_tensor whole = *value;
  if (fetch >= l->compute->first_gradient) add_gradient(l->compute, fetch - l->compute->first_gradient, &whole);
  l->told->ready(l->told->context, fetch, &whole);
}

static void on_phase(void *context) {
  const last_part *l = context;
  l->told->phase(l->told->context);
}

static shoal_status run_parts(compute *c, const train_batch *b, const session_watcher *watcher) {
  last_part last = {c, watcher};
  const session_watcher own = {&last, on_ready, on_phase};
  c->loss = c->hits = 0;
  for (int64_t at = 0; at < b->rows; at += c->at_once) {
    train_batch part = *b;
    part.first += at;
    part.rows = MIN_OF(c->at_once, b->rows - at);
    part.number = b->number * c->parts + at / c->at_once; /* no two parts draw the same random numbers */
    c->share = (float)((double)part.rows / (double)b->rows);
    c->first = !at;
    const bool watched = watcher && at + part.rows == b->rows;
    TRY(run(c, &part, NULL, watched ? &own : NULL));
    shoal_tensor *got = compute_gradients(c);
    for (int i = 0; i < c->n_fetches - c->first_gradient; i++)
      if (!watched)
        add_gradient(c, i, &got[i]);
      else
        got[i].data = c->sum + c->offsets[i];
    c->loss += (double)*(const float *)c->got[GOT_LOSS].data * (double)part.rows;
    c->hits +=
        c->first_gradient > GOT_ACCURACY ? (double)*(const float *)c->got[GOT_ACCURACY].data * (double)part.rows : NAN;
  }
  return NULL;
}

shoal_status compute_run(compute *c, const train_batch *b, const shoal_tensor *indices,
                         const session_watcher *watcher) {
  shoal_status status = c->at_once ? run_parts(c, b, watcher) : run(c, b, indices, watcher);
  c->runs++;
  return status;
}

void compute_losses(const compute *c, int64_t rows, double *loss, double *hits) {
  if (c->at_once) {
    *loss = c->loss;
    *hits = c->hits;
    return;
  }
  *loss = (double)*(const float *)c->got[GOT_LOSS].data * (double)rows;
  *hits = c->first_gradient > GOT_ACCURACY ? (double)*(const float *)c->got[GOT_ACCURACY].data * (double)rows : NAN;
}

shoal_status compute_explain_feeds(const compute *c, const train_batch *b, shoal_status status, const shoal_feed *feeds,
                                   int n) {
  if (shoal_status_code(status) != SHOAL_ERR_NUMERIC) return status_wrap(status, "step %lld", (long long)b->step);
  char *bad = NULL;
  shoal_session_set_step(c->model->session, (uint64_t)b->number);
  shoal_status_free(session_find_bad(c->model->session, feeds, n, c->tower->loss, &bad));
  shoal_status out =
      status_make(SHOAL_ERR_NUMERIC,
                  "step %lld: %s; first bad operator: %s; try a smaller learning rate (now %g), a warm-up, or "
                  "look for numbers in the data that are not finite",
                  (long long)b->step, shoal_status_message(status),
                  bad ? bad : "none when run again without fused kernels", b->rate);
  free(bad);
  shoal_status_free(status);
  return out;
}

shoal_status compute_explain(const compute *c, const train_batch *b, shoal_status status) {
  if (!status) return NULL;
  float rate = (float)b->rate;
  shoal_feed feeds[COMPUTE_FEEDS_MAX];
  return compute_explain_feeds(c, b, status, feeds, feed_batch(c, b, NULL, &rate, feeds));
}
