/* The layers: one row each says how its nodes and variables are made. */
#include "base/mem.h"
#include "base/text.h"
#include "train/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH_NORM_EPSILON 1e-3
#define BATCH_NORM_MOMENTUM 0.99 /* of the moving averages */

struct activation {
  const char *name;
  shoal_value *(*apply)(shoal_graph *g, shoal_value *x); /* NULL: x itself */
};

static shoal_value *leaky_relu(shoal_graph *g, shoal_value *x) { return shoal_leaky_relu(g, x, 0.2); }
static shoal_value *elu(shoal_graph *g, shoal_value *x) { return shoal_elu(g, x, 1); }

static const activation activations[] = {
    {"linear", NULL},
    {"relu", shoal_relu},
    {"tanh", shoal_tanh},
    {"sigmoid", shoal_sigmoid},
    {"softmax", shoal_softmax},
    {"relu6", shoal_relu6},
    {"leaky_relu", leaky_relu},
    {"elu", elu},
    {"selu", shoal_selu},
    {"gelu", shoal_gelu},
    {"gelu_tanh", shoal_gelu_tanh},
    {"silu", shoal_silu},
    {"swish", shoal_silu},
    {"softplus", shoal_softplus},
    {"softsign", shoal_softsign},
    {"hard_sigmoid", shoal_hard_sigmoid},
    {"hard_swish", shoal_hard_swish},
    {"hard_tanh", shoal_hard_tanh},
    {"mish", shoal_mish},
    {"exponential", shoal_exp},
    {"log_softmax", shoal_log_softmax},
};

static shoal_status find_activation(const char *name, const activation **out) {
  const char *names[COUNT_OF(activations)];
  for (size_t i = 0; i < COUNT_OF(activations); i++) {
    names[i] = activations[i].name;
    if (!strcmp(names[i], name)) {
      *out = &activations[i];
      return NULL;
    }
  }
  const char *near = text_nearest(name, names, COUNT_OF(names));
  return status_make(SHOAL_ERR_ARGUMENT,
                     "no activation is called '%s'%s%s; relu, tanh, sigmoid, gelu, silu and others "
                     "are listed at shoal_model_dense",
                     name, near ? "; did you mean " : "", near ? near : "");
}

const char *layer_activation(const layer *l) { return l->act ? l->act->name : ""; }

/* ---- variables */

static shoal_value *layer_weight(branch *b, layer *l, int i, const char *name, shoal_shape shape, double fan_in,
                                 double fan_out, double fill, bool trained, bool decayed) {
  if (i < l->n_weights) return l->weights[i].variable;
  shoal_graph *g = b->model->graph;
  char none[1] = "", *scope = g->scope;
  g->scope = none;
  /* scope_push would free what it replaces, so the name is put together here. */
  char full[256], initial_name[280];
  snprintf(full, sizeof full, "%s/%s", l->name, name);
  snprintf(initial_name, sizeof initial_name, "%s/initial", full);
  shoal_name_next(g, initial_name);
  shoal_value *initial = fan_in <= 0        ? shoal_fill(g, SHOAL_F32, shape, fill)
                         : l->deviation > 0 ? shoal_random_normal(g, shape, 0, l->deviation)
                                            : initializer_make(g, l->start, shape, fan_in, fan_out);
  shoal_value *v = shoal_variable(g, full, initial);
  g->scope = scope;
  if (!v) return NULL;
  l->weights[l->n_weights++] = (weight){v, trained, decayed};
  return v;
}

shoal_value *layer_kernel(branch *b, layer *l, int i, const char *name, shoal_shape shape, double fan_in,
                          double fan_out) {
  return layer_weight(b, l, i, name, shape, fan_in, fan_out, 0, true, true);
}

shoal_value *layer_filled(branch *b, layer *l, int i, const char *name, shoal_shape shape, double fill) {
  return layer_weight(b, l, i, name, shape, 0, 0, fill, true, false);
}

shoal_value *layer_bias(branch *b, layer *l, int i, int64_t units) {
  return layer_filled(b, l, i, "bias", SHOAL_SHAPE(units), l->bias);
}

bool layer_takes(branch *b, const layer *l, const shoal_value *x, int least, int most, const char *expected) {
  if (x->shape.rank >= least && x->shape.rank <= most) return true;
  char have[SHOAL_SHAPE_TEXT];
  graph_fail(b->model->graph, status_make(SHOAL_ERR_ARGUMENT, "layer %s: its input is %s; %s is expected", l->name,
                                          shoal_shape_text(&x->shape, have), expected));
  return false;
}

/* ---- the layers */

static shoal_value *dense_apply(branch *b, layer *l, shoal_value *x) {
  shoal_graph *g = b->model->graph;
  shoal_shape s = shoal_value_shape(x);
  if (s.rank != 2 && s.rank != 3) { /* images are hardly meant to be treated pixel by pixel */
    char have[SHOAL_SHAPE_TEXT];
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT,
                              "layer %s: its input is %s; a dense layer takes [batch, features] or "
                              "[batch, steps, features]: add a flatten layer before it",
                              l->name, shoal_shape_text(&s, have)));
    return NULL;
  }
  int64_t in = s.dim[s.rank - 1];
  shoal_value *kernel = layer_kernel(b, l, 0, "kernel", SHOAL_SHAPE(in, l->units), (double)in, l->units);
  shoal_value *bias = layer_bias(b, l, 1, l->units);
  return shoal_bias_add(g, shoal_matmul(g, x, kernel, false, false), bias);
}

static bool is_image(branch *b, const layer *l, const shoal_value *x) {
  return layer_takes(b, l, x, 4, 4, "[batch, height, width, channels]");
}

static shoal_value *conv2d_apply(branch *b, layer *l, shoal_value *x) {
  if (!is_image(b, l, x)) return NULL;
  shoal_graph *g = b->model->graph;
  int64_t in = shoal_value_shape(x).dim[3];
  double area = (double)l->size * l->size;
  shoal_value *kernel =
      layer_kernel(b, l, 0, "kernel", SHOAL_SHAPE(l->size, l->size, in, l->units), area * (double)in, area * l->units);
  shoal_value *bias = layer_bias(b, l, 1, l->units);
  return shoal_bias_add(g, shoal_conv2d(g, x, kernel, l->stride, l->padding), bias);
}

static shoal_value *max_pool_apply(branch *b, layer *l, shoal_value *x) {
  return is_image(b, l, x) ? shoal_max_pool(b->model->graph, x, l->size, l->stride, l->padding) : NULL;
}

static shoal_value *avg_pool_apply(branch *b, layer *l, shoal_value *x) {
  return is_image(b, l, x) ? shoal_avg_pool(b->model->graph, x, l->size, l->stride, l->padding) : NULL;
}

/* The rows of the kernel that an example's indices name, times its values. Only those have a gradient. */
static shoal_value *sparse_dense_apply(branch *b, layer *l, shoal_value *x) {
  shoal_graph *g = b->model->graph;
  const tower *t = b->tower;
  if (x != t->x || !t->indices) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT,
                              "layer %s: it takes sparse rows, so it must be the first layer of a "
                              "model made by shoal_model_create_sparse",
                              l->name));
    return NULL;
  }
  int64_t features = b->model->input.dim[0];
  shoal_value *kernel = layer_weight(b, l, 0, "kernel", SHOAL_SHAPE(features, l->units), 0, 0, 0, true, true);
  shoal_value *y = shoal_sparse_matmul(g, x, t->indices, t->values, kernel);
  if (l->no_bias) return y;
  return shoal_bias_add(g, y, layer_weight(b, l, 1, "bias", SHOAL_SHAPE(l->units), 0, 0, 0, true, false));
}

static shoal_value *flatten_apply(branch *b, layer *l, shoal_value *x) { return shoal_flatten(b->model->graph, x); }

static shoal_value *activation_apply(branch *b, layer *l, shoal_value *x) { return x; }

static shoal_value *dropout_apply(branch *b, layer *l, shoal_value *x) {
  return b->training && l->rate > 0 ? shoal_dropout(b->model->graph, x, 1 - l->rate) : x;
}

/* A training step moves `average` a little towards `now`. */
static void follow(branch *b, shoal_value *average, shoal_value *now) {
  shoal_graph *g = b->model->graph;
  shoal_status status = mem_grow((void **)&b->changes, &b->cap_changes, b->n_changes + 1, sizeof *b->changes);
  if (status) {
    graph_fail(g, status);
    return;
  }
  b->changes[b->n_changes++] = shoal_scale(g, shoal_sub(g, now, average), 1 - BATCH_NORM_MOMENTUM);
}

static shoal_value *batch_norm_apply(branch *b, layer *l, shoal_value *x) {
  shoal_graph *g = b->model->graph;
  shoal_shape s = shoal_value_shape(x), channels = SHOAL_SHAPE(s.dim[s.rank - 1]);
  shoal_value *gamma = layer_weight(b, l, 0, "gamma", channels, 0, 0, 1, true, false);
  shoal_value *beta = layer_weight(b, l, 1, "beta", channels, 0, 0, 0, true, false);
  shoal_value *mean = layer_weight(b, l, 2, "moving_mean", channels, 0, 0, 0, false, false);
  shoal_value *variance = layer_weight(b, l, 3, "moving_variance", channels, 0, 0, 1, false, false);
  if (b->training) {
    shoal_value *y = shoal_batch_norm(g, x, gamma, beta, BATCH_NORM_EPSILON);
    if (!y) return NULL;
    follow(b, mean, shoal_value_output(y, 1));
    follow(b, variance, shoal_value_output(y, 2));
    return y;
  }
  /* gamma (x - mean) / sqrt(variance + epsilon) + beta, as one product and one sum for each element */
  shoal_value *deviation = shoal_sqrt(g, shoal_add(g, variance, shoal_scalar(g, SHOAL_F32, BATCH_NORM_EPSILON)));
  shoal_value *factor = shoal_div(g, gamma, deviation);
  shoal_value *shift = shoal_sub(g, beta, shoal_mul(g, mean, factor));
  return shoal_add(g, shoal_mul(g, x, factor), shift);
}

static const layer_kind dense_kind = {"dense", dense_apply};
static const layer_kind sparse_dense_kind = {"sparse_dense", sparse_dense_apply};
static const layer_kind conv2d_kind = {"conv2d", conv2d_apply};
static const layer_kind max_pool_kind = {"max_pool", max_pool_apply};
static const layer_kind avg_pool_kind = {"avg_pool", avg_pool_apply};
static const layer_kind flatten_kind = {"flatten", flatten_apply};
static const layer_kind activation_kind = {"activation", activation_apply};
static const layer_kind dropout_kind = {"dropout", dropout_apply};
static const layer_kind batch_norm_kind = {"batch_norm", batch_norm_apply};

shoal_value *layer_apply(branch *b, layer *l, shoal_value *x, bool last) {
  shoal_graph *g = b->model->graph;
  if (!x) return NULL;
  shoal_scope_push(g, l->name);
  x = l->kind->apply(b, l, x);
  /* A softmax at the end, or the sigmoid of one unit, is left to the loss and to the probabilities. */
  const char *left = b->model->loss->activation;
  bool logits = last && left && !strcmp(layer_activation(l), left);
  if (x && l->act && l->act->apply && !logits) x = l->act->apply(g, x);
  shoal_scope_pop(g);
  if (!x) return NULL;
  shoal_shape s = shoal_value_shape(x);
  l->output = shoal_shape_make(s.rank - 1, s.dim + 1);
  return x;
}

void layer_fini(layer *l) { free(l->name); }

/* ---- adding layers */

void model_fail(shoal_model *m, shoal_status status) {
  if (m->error)
    shoal_status_free(status);
  else
    m->error = status;
}

/* A copy of `l` at the end of the model, named after its kind: dense, dense_1, ... */
static shoal_status append(shoal_model *m, layer l, const char *act) {
  if (m->compiled)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: layers cannot be added once the model is compiled", l.kind->name);
  if (act) TRY(status_wrap(find_activation(act, &l.act), "layer %s", l.kind->name));
  TRY(mem_grow((void **)&m->layers, &m->cap_layers, m->n_layers + 1, sizeof *m->layers));
  int same = 0;
  for (size_t i = 0; i < m->n_layers; i++) same += m->layers[i].kind == l.kind;
  int n = same ? asprintf(&l.name, "%s_%d", l.kind->name, same) : asprintf(&l.name, "%s", l.kind->name);
  if (n < 0) return status_no_memory();
  l.start = m->start;
  l.deviation = m->deviation;
  l.bias = m->bias;
  m->layers[m->n_layers++] = l;
  return NULL;
}

void layer_add(shoal_model *m, layer l, const char *act) {
  if (!m->error) model_fail(m, append(m, l, act));
}

bool layer_positive(shoal_model *m, const char *kind, const char *what, int64_t value) {
  if (value >= 1) return true;
  model_fail(
      m, status_make(SHOAL_ERR_ARGUMENT, "layer %s: %s is %lld; at least 1 is expected", kind, what, (long long)value));
  return false;
}

void shoal_model_dense(shoal_model *m, int units, const char *act) {
  if (layer_positive(m, "dense", "units", units)) layer_add(m, (layer){.kind = &dense_kind, .units = units}, act);
}

void shoal_model_sparse_dense(shoal_model *m, int units, bool bias, const char *act) {
  if (layer_positive(m, "sparse_dense", "units", units))
    layer_add(m, (layer){.kind = &sparse_dense_kind, .units = units, .no_bias = !bias}, act);
}

void shoal_model_conv2d(shoal_model *m, int filters, int size, int stride, shoal_padding padding, const char *act) {
  if (layer_positive(m, "conv2d", "filters", filters) && layer_positive(m, "conv2d", "size", size) &&
      layer_positive(m, "conv2d", "stride", stride))
    layer_add(m, (layer){.kind = &conv2d_kind, .units = filters, .size = size, .stride = stride, .padding = padding},
              act);
}

static void add_pool(shoal_model *m, const layer_kind *kind, int size, int stride, shoal_padding padding) {
  if (layer_positive(m, kind->name, "size", size) && layer_positive(m, kind->name, "stride", stride))
    layer_add(m, (layer){.kind = kind, .size = size, .stride = stride, .padding = padding}, NULL);
}

void shoal_model_max_pool(shoal_model *m, int size, int stride, shoal_padding padding) {
  add_pool(m, &max_pool_kind, size, stride, padding);
}

void shoal_model_avg_pool(shoal_model *m, int size, int stride, shoal_padding padding) {
  add_pool(m, &avg_pool_kind, size, stride, padding);
}

void shoal_model_flatten(shoal_model *m) { layer_add(m, (layer){.kind = &flatten_kind}, NULL); }

void shoal_model_activation(shoal_model *m, const char *act) {
  layer_add(m, (layer){.kind = &activation_kind}, act ? act : "linear");
}

void shoal_model_dropout(shoal_model *m, double rate) {
  if (rate >= 0 && rate < 1)
    layer_add(m, (layer){.kind = &dropout_kind, .rate = rate}, NULL);
  else
    model_fail(
        m, status_make(SHOAL_ERR_ARGUMENT, "layer dropout: the rate is %g; at least 0 and below 1 is expected", rate));
}

void shoal_model_batch_norm(shoal_model *m) { layer_add(m, (layer){.kind = &batch_norm_kind}, NULL); }

void shoal_model_initializer(shoal_model *m, const char *name) {
  model_fail(m, initializer_find(name ? name : "glorot_uniform", &m->start));
  m->deviation = m->bias = 0;
}

void shoal_model_initial(shoal_model *m, double deviation, double bias) {
  if (!(deviation > 0) || !isfinite(deviation) || !isfinite(bias))
    model_fail(m, status_make(SHOAL_ERR_ARGUMENT,
                              "initial weights: a standard deviation above 0 and a finite bias are "
                              "expected, not %g and %g",
                              deviation, bias));
  m->deviation = deviation;
  m->bias = bias;
}
