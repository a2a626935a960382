/* Layers of sequences [batch, steps, features]: embedding, recurrent layers, attention. */
#include "train/layer.h"

static bool takes_steps(branch *b, const layer *l, const shoal_value *x) {
  return layer_takes(b, l, x, 3, 3, "[batch, steps, features]");
}

/* Numbers of words as they are fed: bytes have not been scaled yet. */
static shoal_value *embedding_apply(branch *b, layer *l, shoal_value *x) {
  shoal_graph *g = b->model->graph;
  if (l != b->model->layers) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "layer %s: it takes numbers of words, so it must be the first layer",
                              l->name));
    return NULL;
  }
  if (!layer_takes(b, l, x, 2, 3, "[batch, steps]")) return NULL;
  shoal_value *table = layer_kernel(b, l, 0, "embeddings", SHOAL_SHAPE(l->size, l->units), l->size, l->units);
  return shoal_take(g, table, shoal_cast(g, b->tower->x, SHOAL_I32), 0);
}

/* All states, or the last one in the order of the steps. */
static shoal_value *states(branch *b, const layer *l, shoal_value *y) {
  return l->sequences || !y ? y : shoal_index(b->model->graph, y, 1, l->reverse ? 0 : -1);
}

static shoal_recurrent weights_of(branch *b, layer *l, shoal_value *x, int gates) {
  int64_t in = x->shape.dim[2], units = l->units;
  double fan_out = (double)(gates * units);
  return (shoal_recurrent){
      .w = layer_kernel(b, l, 0, "kernel", SHOAL_SHAPE(in, gates * units), (double)in, fan_out),
      .u = layer_kernel(b, l, 1, "recurrent", SHOAL_SHAPE(units, gates * units), (double)units, fan_out),
      .bias = layer_bias(b, l, 2, gates * units),
      .reverse = l->reverse};
}

static shoal_value *rnn_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_steps(b, l, x)) return NULL;
  shoal_recurrent r = weights_of(b, l, x, 1);
  return states(b, l, shoal_rnn(b->model->graph, x, &r));
}

static shoal_value *lstm_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_steps(b, l, x)) return NULL;
  shoal_recurrent r = weights_of(b, l, x, 4);
  return states(b, l, shoal_lstm(b->model->graph, x, &r));
}

static shoal_value *gru_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_steps(b, l, x)) return NULL;
  shoal_recurrent r = weights_of(b, l, x, 3);
  r.inner_bias = layer_filled(b, l, 3, "recurrent_bias", SHOAL_SHAPE(3 * l->units), 0);
  return states(b, l, shoal_gru(b->model->graph, x, &r));
}

/* Each step looks at all steps, or at those up to itself. */
static shoal_value *attention_apply(branch *b, layer *l, shoal_value *x) {
  static const char *const names[] = {"query", "key", "value", "output"};
  static const char *const biases[] = {"query_bias", "key_bias", "value_bias", "output_bias"};
  if (!takes_steps(b, l, x)) return NULL;
  int64_t in = x->shape.dim[2], inner = (int64_t)l->units * l->size; /* heads times depth */
  shoal_value *kernel[4], *bias[4];
  for (int i = 0; i < 4; i++) {
    int64_t from = i < 3 ? in : inner, to = i < 3 ? inner : in;
    kernel[i] = layer_kernel(b, l, 2 * i, names[i], SHOAL_SHAPE(from, to), (double)from, (double)to);
    bias[i] = layer_filled(b, l, 2 * i + 1, biases[i], SHOAL_SHAPE(to), 0);
  }
  shoal_attention_weights w = {.q = kernel[0],
                               .k = kernel[1],
                               .v = kernel[2],
                               .out = kernel[3],
                               .q_bias = bias[0],
                               .k_bias = bias[1],
                               .v_bias = bias[2],
                               .out_bias = bias[3]};
  return shoal_multi_head_attention(b->model->graph, x, x, x, l->size, &w, NULL, l->causal);
}

static shoal_value *reshape_apply(branch *b, layer *l, shoal_value *x) {
  shoal_shape to = {.rank = l->shape.rank + 1, .dim = {x->shape.dim[0]}};
  for (int i = 0; i < l->shape.rank; i++) to.dim[i + 1] = l->shape.dim[i];
  return shoal_reshape(b->model->graph, x, to);
}

static const layer_kind embedding_kind = {"embedding", embedding_apply};
static const layer_kind rnn_kind = {"rnn", rnn_apply};
static const layer_kind lstm_kind = {"lstm", lstm_apply};
static const layer_kind gru_kind = {"gru", gru_apply};
static const layer_kind attention_kind = {"attention", attention_apply};
static const layer_kind reshape_kind = {"reshape", reshape_apply};

/* ---- adding layers */

void shoal_model_embedding(shoal_model *m, int words, int width) {
  if (layer_positive(m, "embedding", "words", words) && layer_positive(m, "embedding", "width", width))
    layer_add(m, (layer){.kind = &embedding_kind, .size = words, .units = width}, NULL);
}

static void add_recurrent(shoal_model *m, const layer_kind *kind, int units, bool sequences, bool reverse) {
  if (layer_positive(m, kind->name, "units", units))
    layer_add(m, (layer){.kind = kind, .units = units, .sequences = sequences, .reverse = reverse}, NULL);
}

void shoal_model_rnn(shoal_model *m, int units, bool sequences, bool reverse) {
  add_recurrent(m, &rnn_kind, units, sequences, reverse);
}

void shoal_model_lstm(shoal_model *m, int units, bool sequences, bool reverse) {
  add_recurrent(m, &lstm_kind, units, sequences, reverse);
}

void shoal_model_gru(shoal_model *m, int units, bool sequences, bool reverse) {
  add_recurrent(m, &gru_kind, units, sequences, reverse);
}

void shoal_model_attention(shoal_model *m, int heads, int depth, bool causal) {
  if (layer_positive(m, "attention", "heads", heads) && layer_positive(m, "attention", "depth", depth))
    layer_add(m, (layer){.kind = &attention_kind, .size = heads, .units = depth, .causal = causal}, NULL);
}

void shoal_model_reshape(shoal_model *m, shoal_shape shape) {
  if (shape.rank < SHOAL_MAX_RANK)
    layer_add(m, (layer){.kind = &reshape_kind, .shape = shape}, NULL);
  else
    model_fail(
        m, status_make(SHOAL_ERR_ARGUMENT, "layer reshape: an example has at most %d dimensions", SHOAL_MAX_RANK - 1));
}
