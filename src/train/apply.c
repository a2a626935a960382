#include "train/apply.h"

#include "base/mem.h"
#include "graph/graph.h"
#include "train/optimizer.h"

#include <string.h>

static shoal_status build(apply *a, shoal_value **weights, int n_trained) {
  shoal_graph *g = a->model->graph;
  shoal_gradient *gradients = calloc((size_t)a->n, sizeof *gradients);
  shoal_value **all = calloc((size_t)a->n, sizeof *all);
  if (!gradients || !all) {
    free(gradients);
    free(all);
    return status_no_memory();
  }
  shoal_scope_push(g, "apply");
  for (int i = 0; i < a->n; i++) {
    shoal_value *v = shoal_placeholder(g, "gradient", SHOAL_F32, weights[i]->shape);
    gradients[i].value = v;
    a->counts[i] = shoal_shape_count(&weights[i]->shape);
    a->elements += a->counts[i];
    a->feeds[i] = (shoal_feed){v, shoal_tensor_view(SHOAL_F32, weights[i]->shape, NULL)};
  }
  shoal_status status =
      optimizer_apply(g, &a->model->options.optimizer, weights, gradients, n_trained, a->model->rate, &a->update);
  int count = 0;
  for (int i = n_trained; i < a->n && !status; i++) all[count++] = shoal_assign_add(g, weights[i], gradients[i].value);
  if (!status && count) {
    all[count++] = a->update;
    a->update = shoal_group(g, all, count);
    status = shoal_graph_status(g);
  }
  shoal_scope_pop(g);
  free(gradients);
  free(all);
  return status;
}

shoal_status apply_create(shoal_model *m, apply *out) {
  apply a = {.model = m};
  shoal_value **weights;
  int n_trained;
  TRY(model_exchanged(m, &weights, &n_trained, &a.n));
  a.feeds = calloc((size_t)a.n + 1, sizeof *a.feeds);
  a.counts = calloc((size_t)a.n + 1, sizeof *a.counts);
  shoal_status status = a.feeds && a.counts ? NULL : status_no_memory();
  for (int i = 0; i < a.n && !status; i++)
    if (weights[i]->dtype != SHOAL_F32)
      status = status_make(SHOAL_ERR_ARGUMENT, "'%s' is %s; gradients of f32 can be added up over workers",
                           shoal_value_name(weights[i]), shoal_dtype_name(weights[i]->dtype));
  if (!status) status = build(&a, weights, n_trained);
  free(weights);
  if (status)
    apply_fini(&a);
  else
    *out = a;
  return status;
}

void apply_fini(apply *a) {
  free(a->feeds);
  free(a->counts);
  *a = (apply){0};
}

shoal_status apply_run(apply *a, float *vector, double rate) {
  float rate32 = (float)rate;
  for (int i = 0; i < a->n; i++) {
    a->feeds[i].tensor.data = vector;
    vector += a->counts[i];
  }
  a->feeds[a->n] = (shoal_feed){a->model->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &rate32)};
  return shoal_session_run(a->model->session, a->feeds, a->n + 1, &a->update, 1, NULL);
}

/* Four lanes, so that it runs at the speed of memory. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t n) {
  const uint64_t prime = 0x9e3779b97f4a7c15ull;
  uint64_t lanes[4] = {hash, hash + 1, hash + 2, hash + 3};
  size_t at = 0;
  for (; at + 32 <= n; at += 32) {
    uint64_t words[4];
    memcpy(words, (const char *)bytes + at, sizeof words);
    for (int k = 0; k < 4; k++) {
      lanes[k] = (lanes[k] ^ words[k]) * prime;
      lanes[k] ^= lanes[k] >> 29;
    }
  }
  for (; at < n; at++) lanes[0] = (lanes[0] ^ ((const uint8_t *)bytes)[at]) * prime;
  for (int k = 1; k < 4; k++) lanes[0] = (lanes[0] ^ lanes[k]) * prime ^ lanes[0] >> 31;
  return lanes[0];
}

shoal_status apply_hash(const apply *a, uint64_t *out) {
  const shoal_graph *g = a->model->graph;
  uint64_t hash = 1;
  for (size_t i = 0; i < g->count; i++) {
    if (!g->nodes[i]->initial) continue;
    shoal_tensor t;
    TRY(shoal_session_variable(a->model->session, &g->nodes[i]->out[0], &t));
    hash = mix(hash, t.data, shoal_tensor_bytes(&t));
  }
  *out = hash ? hash : 1;
  return NULL;
}

shoal_status apply_hash_weights(const apply *a, uint64_t *out) {
  shoal_value **weights;
  int n_trained, n;
  TRY(model_exchanged(a->model, &weights, &n_trained, &n));
  shoal_status status = NULL;
  uint64_t hash = 1;
  for (int i = 0; i < n && !status; i++) {
    shoal_tensor t;
    status = shoal_session_variable(a->model->session, weights[i], &t);
    if (!status) hash = mix(hash, t.data, shoal_tensor_bytes(&t));
  }
  free(weights);
  *out = hash ? hash : 1;
  return status;
}
