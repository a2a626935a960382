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
                         "single process can train");
    c->fetches[c->n_fetches++] = t->gradients[i].value;
  }
  return NULL;
}

void compute_fini(compute *c) {
  free(c->fetches);
  free(c->got);
  *c = (compute){0};
}

void compute_feed(const compute *c, const train_batch *b, int64_t first, int64_t n, float *rate,
                  shoal_feed feeds[DENSE_FEEDS]) {
  feeds[FEED_FEATURES] = (shoal_feed){c->tower->x, batch_features(b, first, n)};
  feeds[FEED_LABELS] = (shoal_feed){c->tower->y, tower_labels(c->tower, batch_labels(b, first, n))};
  feeds[FEED_RATE] = (shoal_feed){c->model->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, rate)};
}

shoal_status compute_plan(const compute *c, shoal_session *session, const train_batch *example, int64_t n) {
  float rate = 0;
  shoal_feed feeds[DENSE_FEEDS];
  char *description;
  if (!n) return NULL;
  compute_feed(c, example, 0, n, &rate, feeds);
  TRY(session_explain(session, feeds, DENSE_FEEDS, c->fetches, c->n_fetches, &description));
  free(description);
  return NULL;
}

/* Returns how many. */
static int feed_batch(const compute *c, const train_batch *b, const shoal_tensor *indices, float *rate,
                      shoal_feed feeds[COMPUTE_FEEDS_MAX]) {
  if (!b->sparse) {
    compute_feed(c, b, 0, b->rows, rate, feeds);
    return DENSE_FEEDS;
  }
  int n = tower_feed_sparse(c->tower, b->sparse, feeds);
  if (indices) feeds[1].tensor = *indices;
  return n;
}

shoal_status compute_run(compute *c, const train_batch *b, const shoal_tensor *indices,
                         const session_watcher *watcher) {
  shoal_session *session = c->model->session;
  float rate = (float)b->rate;
  shoal_feed feeds[COMPUTE_FEEDS_MAX];
  int n = feed_batch(c, b, indices, &rate, feeds);
  if (__builtin_expect(c->inspect != NULL, 0)) {
    shoal_session_set_step(session, (uint64_t)b->number);
    TRY(status_wrap(c->inspect(c->inspector, b, feeds, n), "step %lld", (long long)b->step));
  }
  shoal_session_set_step(session, (uint64_t)b->number);
  if (watcher) session_watch(session, watcher);
  shoal_status status = shoal_session_run(session, feeds, n, c->fetches, c->n_fetches, c->got);
  if (watcher) session_watch(session, NULL);
  c->runs++;
  return compute_explain_feeds(c, b, status, feeds, n);
}

void compute_losses(const compute *c, int64_t rows, double *loss, double *hits) {
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
