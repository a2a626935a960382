/* Attention, put together from products of stacks of matrices and a softmax. */
#include "graph/graph.h"
#include "graph/ops/util.h"

#include <math.h>

/* ---- one head, or a stack of them */

/* bool [queries, keys]: true up to the diagonal, which ends in the last corner. */
static shoal_value *causal_mask(shoal_graph *g, int64_t queries, int64_t keys) {
  shoal_tensor t;
  shoal_status status = shoal_tensor_create(SHOAL_BOOL, SHOAL_SHAPE(queries, keys), &t);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  bool *allowed = t.data;
  for (int64_t i = 0; i < queries; i++)
    for (int64_t k = 0; k < keys; k++) allowed[i * keys + k] = k - (keys - queries) <= i;
  shoal_value *mask = shoal_constant(g, &t);
  shoal_tensor_fini(&t);
  return mask;
}

/* What is not allowed becomes so small that the softmax makes nothing of it. */
static shoal_value *masked(shoal_graph *g, shoal_value *scores, shoal_value *mask) {
  return scores && mask ? shoal_where(g, mask, scores, shoal_scalar(g, scores->dtype, -1e30)) : NULL;
}

shoal_value *shoal_attention(shoal_graph *g, shoal_value *q, shoal_value *k, shoal_value *v, shoal_value *mask,
                             bool causal) {
  shoal_value *scores = shoal_matmul(g, q, k, false, true);
  if (!scores) return NULL;
  int64_t depth = q->shape.dim[q->shape.rank - 1];
  int64_t queries = scores->shape.dim[scores->shape.rank - 2], keys = scores->shape.dim[scores->shape.rank - 1];
  if (depth < 1 || (causal && (queries == SHOAL_UNKNOWN || keys == SHOAL_UNKNOWN))) {
    char buffer[VALUE_TEXT];
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT,
                              "attention of %s: the depth must be known and, if it is causal, the "
                              "numbers of queries and keys",
                              value_text(q, buffer)));
    return NULL;
  }
  scores = shoal_scale(g, scores, 1 / sqrt((double)depth));
  if (causal) scores = masked(g, scores, causal_mask(g, queries, keys));
  if (mask) scores = masked(g, scores, mask);
  return shoal_matmul(g, shoal_softmax(g, scores), v, false, false);
}

/* ---- several heads */

/* x w + bias, [batch, steps, heads x width], as [batch, heads, steps, width]. */
static shoal_value *heads_of(shoal_graph *g, shoal_value *x, shoal_value *w, shoal_value *bias, int heads) {
  shoal_value *y = shoal_matmul(g, x, w, false, false);
  if (bias) y = shoal_bias_add(g, y, bias);
  if (!y) return NULL;
  const shoal_shape *s = &y->shape;
  if (s->rank != 3 || heads < 1 || s->dim[1] == SHOAL_UNKNOWN || s->dim[2] == SHOAL_UNKNOWN || s->dim[2] % heads) {
    char buffer[VALUE_TEXT];
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT,
                              "%d heads of %s: [batch, steps, features] with known steps and "
                              "features that make equal parts are expected",
                              heads, value_text(y, buffer)));
    return NULL;
  }
  y = shoal_reshape(g, y, SHOAL_SHAPE(s->dim[0], s->dim[1], heads, s->dim[2] / heads));
  return shoal_transpose(g, y, SHOAL_SHAPE(0, 2, 1, 3));
}

shoal_value *shoal_multi_head_attention(shoal_graph *g, shoal_value *queries, shoal_value *keys, shoal_value *values,
                                        int heads, const shoal_attention_weights *w, shoal_value *mask, bool causal) {
  shoal_value *q = heads_of(g, queries, w->q, w->q_bias, heads), *k = heads_of(g, keys, w->k, w->k_bias, heads);
  shoal_value *v = heads_of(g, values, w->v, w->v_bias, heads);
  shoal_value *y = q && k && v ? shoal_attention(g, q, k, v, mask, causal) : NULL;
  if (!y) return NULL;
  y = shoal_transpose(g, y, SHOAL_SHAPE(0, 2, 1, 3)); /* [batch, steps, heads, width] */
  const shoal_shape *s = &y->shape;
  y = shoal_reshape(g, y, SHOAL_SHAPE(s->dim[0], s->dim[1], s->dim[2] * s->dim[3]));
  y = shoal_matmul(g, y, w->out, false, false);
  return w->out_bias ? shoal_bias_add(g, y, w->out_bias) : y;
}
