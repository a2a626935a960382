/* Layers of sequences [batch, steps, features]: recurrent layers, attention, masks. */
#include "train/layer.h"

#include <math.h>
#include <stdio.h>

static bool takes_steps(branch *b, const layer *l, const shoal_value *x) {
  return layer_takes(b, l, x, 3, 3, "[batch, steps, features]");
}

/* ---- recurrent layers */

static shoal_recurrent weights_of(branch *b, layer *l, layer_io *io, int gates) {
  shoal_value *x = io->x[0];
  const int64_t in = x->shape.dim[2], units = layer_int(l, "units");
  const double fan_out = (double)(gates * units);
  shoal_recurrent r = {.mask = io->masks[0], .reverse = layer_flag(l, "go_backwards")};
  r.w = layer_kernel(b, l, "kernel", "kernel_initializer", SHOAL_SHAPE(in, gates * units), (double)in, fan_out);
  r.u = layer_kernel(b, l, "recurrent", "recurrent_initializer", SHOAL_SHAPE(units, gates * units), (double)units,
                     fan_out);
  if (layer_flag(l, "use_bias")) r.bias = layer_bias(b, l, "bias", gates * units);
  return r;
}

/* All states, in the order in which they were made, or the last of them. */
static shoal_value *states(branch *b, const layer *l, layer_io *io, shoal_value *y) {
  shoal_graph *g = b->model->graph;
  const bool reverse = layer_flag(l, "go_backwards");
  if (!layer_flag(l, "return_sequences")) {
    io->mask = NULL;
    return y ? shoal_index(g, y, 1, reverse ? 0 : -1) : NULL;
  }
  return y && reverse && layer_flag(l, "reverse_output") ? shoal_reverse(g, y, SHOAL_SHAPE(1)) : y;
}

static shoal_value *rnn_apply(branch *b, layer *l, layer_io *io) {
  if (!takes_steps(b, l, io->x[0])) return NULL;
  shoal_recurrent r = weights_of(b, l, io, 1);
  r.relu = layer_is(l, "activation", "relu");
  return states(b, l, io, shoal_rnn(b->model->graph, io->x[0], &r));
}

static shoal_value *lstm_apply(branch *b, layer *l, layer_io *io) {
  if (!takes_steps(b, l, io->x[0])) return NULL;
  shoal_recurrent r = weights_of(b, l, io, 4);
  return states(b, l, io, shoal_lstm(b->model->graph, io->x[0], &r));
}

static shoal_value *gru_apply(branch *b, layer *l, layer_io *io) {
  if (!takes_steps(b, l, io->x[0])) return NULL;
  shoal_recurrent r = weights_of(b, l, io, 3);
  if (r.bias) r.inner_bias = layer_filled(b, l, "recurrent_bias", SHOAL_SHAPE(3 * layer_int(l, "units")), 0);
  return states(b, l, io, shoal_gru(b->model->graph, io->x[0], &r));
}

/* Steps all of whose features are mask_value are not there. */
static shoal_value *masking_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  if (!takes_steps(b, l, x)) return NULL;
  shoal_value *other = shoal_not_equal(g, x, shoal_scalar(g, x->dtype, layer_number(l, "mask_value")));
  io->mask = shoal_reduce_any(g, other, SHOAL_SHAPE(2), false);
  return shoal_mul(g, x, shoal_expand_dims(g, shoal_cast(g, io->mask, x->dtype), 2));
}

/* ---- attention */

/* A dense layer of the attention: [in, out]. */
static shoal_value *project(branch *b, layer *l, const char *name, int64_t from, int64_t to, shoal_value **bias) {
  char bias_name[32];
  snprintf(bias_name, sizeof bias_name, "%s_bias", name);
  shoal_value *kernel = layer_kernel(b, l, name, "kernel_initializer", SHOAL_SHAPE(from, to), (double)from, (double)to);
  *bias = layer_flag(l, "use_bias") ? layer_bias(b, l, bias_name, to) : NULL;
  return kernel;
}

/* bool [batch, keys] as [batch, 1, 1, keys]. */
static shoal_value *key_mask(shoal_graph *g, shoal_value *mask) {
  return mask ? shoal_expand_dims(g, shoal_expand_dims(g, mask, 1), 2) : NULL;
}

/* Inputs: query, value and, if it is another one, key; one alone is all three. */
static shoal_value *multi_head_attention_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *q = io->x[0], *v = io->n > 1 ? io->x[1] : q, *k = io->n > 2 ? io->x[2] : v;
  shoal_value *mask = io->n > 2 && io->masks[2] ? io->masks[2] : io->n > 1 ? io->masks[1] : io->masks[0];
  if (!takes_steps(b, l, q) || !takes_steps(b, l, k) || !takes_steps(b, l, v)) return NULL;
  const int64_t heads = layer_int(l, "num_heads"), depth = layer_int(l, "key_dim");
  const int64_t width = layer_has(l, "value_dim") ? layer_int(l, "value_dim") : depth;
  const int64_t in = q->shape.dim[2], out = layer_has(l, "output_shape") ? layer_int(l, "output_shape") : in;
  shoal_attention_weights w = {0};
  w.q = project(b, l, "query", in, heads * depth, &w.q_bias);
  w.k = project(b, l, "key", k->shape.dim[2], heads * depth, &w.k_bias);
  w.v = project(b, l, "value", v->shape.dim[2], heads * width, &w.v_bias);
  w.out = project(b, l, "output", heads * width, out, &w.out_bias);
  return shoal_multi_head_attention(g, q, k, v, (int)heads, &w, key_mask(g, mask), layer_flag(l, "use_causal_mask"));
}

/* Inputs: query, value and, if it is another one, key. Without weights, but for a scale that may be learned. */
static shoal_value *attention_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *q = io->x[0], *v = io->x[1], *k = io->n > 2 ? io->x[2] : v;
  if (!takes_steps(b, l, q) || !takes_steps(b, l, k) || !takes_steps(b, l, v)) return NULL;
  /* shoal_attention divides by the root of the depth, which this one does not. */
  shoal_value *scaled = shoal_scale(g, q, sqrt((double)q->shape.dim[2]));
  if (layer_flag(l, "use_scale")) scaled = shoal_mul(g, scaled, layer_filled(b, l, "scale", SHOAL_SHAPE(1), 1));
  shoal_value *mask = io->masks[1] ? shoal_expand_dims(g, io->masks[1], 1) : NULL;
  io->mask = io->masks[0];
  return shoal_attention(g, scaled, k, v, mask, layer_flag(l, "use_causal_mask"));
}

/* ---- the rows */

#define RECURRENT_ATTRS                                                                                               \
  ATTR("return_sequences", BOOL, "false"), ATTR("go_backwards", BOOL, "false"), ATTR("reverse_output", BOOL, "true"), \
      ATTR("use_bias", BOOL, "true"), ATTR("kernel_initializer", INITIALIZER, "null"),                                \
      ATTR("recurrent_initializer", INITIALIZER, "null"), ATTR("bias_initializer", INITIALIZER, "0")

static const char *const rnn_activations[] = {"tanh", "relu", NULL}, *const tanh_only[] = {"tanh", NULL};
static const char *const sigmoid_only[] = {"sigmoid", NULL};
static const layer_attr rnn_attrs[] = {ATTR("units", INT, NULL, 1, 1e6),
                                       ATTR("activation", CHOICE, "\"tanh\"", .choices = rnn_activations),
                                       RECURRENT_ATTRS,
                                       {0}};
static const layer_attr gated_attrs[] = {ATTR("units", INT, NULL, 1, 1e6),
                                         ATTR("activation", CHOICE, "\"tanh\"", .choices = tanh_only),
                                         ATTR("recurrent_activation", CHOICE, "\"sigmoid\"", .choices = sigmoid_only),
                                         RECURRENT_ATTRS,
                                         {0}};
static const layer_attr masking_attrs[] = {ATTR("mask_value", NUMBER, "0"), {0}};
static const layer_attr heads_attrs[] = {ATTR("num_heads", INT, NULL, 1, 1e5),
                                         ATTR("key_dim", INT, NULL, 1, 1e6),
                                         ATTR("value_dim", INT, "null", 1, 1e6),
                                         ATTR("output_shape", INT, "null", 1, 1e6),
                                         ATTR("use_causal_mask", BOOL, "false"),
                                         LAYER_KERNEL_ATTRS,
                                         {0}};
static const layer_attr attention_attrs[] = {
    ATTR("use_scale", BOOL, "false"), ATTR("use_causal_mask", BOOL, "false"), {0}};

const layer_kind layers_sequence[] = {
    {"simple_rnn", "h = tanh(x w + h u + b)", rnn_attrs, 1, 1, rnn_apply},
    {"lstm", "long short-term memory", gated_attrs, 1, 1, lstm_apply},
    {"gru", "gated recurrent unit", gated_attrs, 1, 1, gru_apply},
    {"masking", "steps that are all mask_value are not there", masking_attrs, 1, 1, masking_apply},
    {"multi_head_attention", "each step looks at all steps: query, value, key", heads_attrs, 1, 3,
     multi_head_attention_apply},
    {"attention", "the same by one head, without weights", attention_attrs, 2, 3, attention_apply},
    {0},
};
