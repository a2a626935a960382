/* The functions of shoal/train.h that add layers: each is its type of the table with the attributes that it is given. */
#include "base/mem.h"
#include "train/layer.h"

#include <math.h>
#include <string.h>

/* A layer on the last one, called after `stem`; takes `attributes`. Errors stick. */
static void append(shoal_model *m, const char *type, const char *stem, json_t *attributes) {
  shoal_output *last = model_last(m), *out;
  layer *l;
  shoal_status status = m->error ? NULL : attributes ? NULL : status_no_memory();
  if (!m->error && !status) status = model_add_layer(m, type, NULL, stem, attributes, &l);
  if (!m->error && !status) status = model_call(m, l, &last, 1, &out);
  json_decref(attributes);
  if (status) model_fail(m, status);
}

/* With the initializers that were set for layers to come. */
static json_t *with_initial(const shoal_model *m, json_t *attributes, const char *first, const char *second) {
  if (m->start) json_object_set(attributes, first, m->start);
  if (m->start && second) json_object_set(attributes, second, m->start);
  if (m->bias) json_object_set(attributes, "bias_initializer", m->bias);
  return attributes;
}

static json_t *text_or_null(const char *word) { return word ? json_string(word) : json_null(); }

void shoal_model_dense(shoal_model *m, int units, const char *act) {
  append(m, "dense", "dense",
         with_initial(m, json_pack("{s:i, s:o}", "units", units, "activation", text_or_null(act)), "kernel_initializer",
                      NULL));
}

void shoal_model_sparse_dense(shoal_model *m, int units, bool bias, const char *act) {
  append(m, "sparse_dense", "sparse_dense",
         json_pack("{s:i, s:b, s:o}", "units", units, "use_bias", bias, "activation", text_or_null(act)));
}

static const char *padding_name(shoal_padding p) { return p == SHOAL_SAME ? "same" : "valid"; }

void shoal_model_conv2d(shoal_model *m, int filters, int size, int stride, shoal_padding padding, const char *act) {
  append(m, "conv2d", "conv2d",
         with_initial(m,
                      json_pack("{s:i, s:i, s:i, s:s, s:o}", "filters", filters, "kernel_size", size, "strides", stride,
                                "padding", padding_name(padding), "activation", text_or_null(act)),
                      "kernel_initializer", NULL));
}

static json_t *square_pool(int size, int stride, shoal_padding padding) {
  return json_pack("{s:i, s:i, s:s}", "pool_size", size, "strides", stride, "padding", padding_name(padding));
}

void shoal_model_max_pool(shoal_model *m, int size, int stride, shoal_padding padding) {
  append(m, "max_pooling2d", "max_pool", square_pool(size, stride, padding));
}

void shoal_model_avg_pool(shoal_model *m, int size, int stride, shoal_padding padding) {
  append(m, "average_pooling2d", "avg_pool", square_pool(size, stride, padding));
}

void shoal_model_flatten(shoal_model *m) { append(m, "flatten", "flatten", json_object()); }

void shoal_model_activation(shoal_model *m, const char *act) {
  append(m, "activation", "activation", json_pack("{s:s}", "activation", act ? act : "linear"));
}

void shoal_model_dropout(shoal_model *m, double rate) {
  append(m, "dropout", "dropout", json_pack("{s:f}", "rate", rate));
}

/* ---- norms */

/* 0: the usual one */
static json_t *with_epsilon(json_t *attributes, double epsilon) {
  if (attributes) json_object_set_new(attributes, "epsilon", json_real(epsilon == 0 ? 1e-3 : epsilon));
  return attributes;
}

void shoal_model_batch_norm(shoal_model *m) { append(m, "batch_normalization", "batch_norm", json_object()); }

void shoal_model_layer_norm(shoal_model *m, double epsilon) {
  append(m, "layer_normalization", "layer_norm", with_epsilon(json_object(), epsilon));
}

void shoal_model_rms_norm(shoal_model *m, double epsilon) {
  append(m, "rms_normalization", "rms_norm", with_epsilon(json_object(), epsilon));
}

void shoal_model_group_norm(shoal_model *m, int groups, double epsilon) {
  append(m, "group_normalization", "group_norm", with_epsilon(json_pack("{s:i}", "groups", groups), epsilon));
}

/* ---- windows */

static json_t *pair(const int64_t n[2], int64_t standard) {
  const json_int_t first = n[0] ? n[0] : standard, second = n[1] ? n[1] : first;
  return json_pack("[I, I]", first, second);
}

static json_t *margins(const shoal_window *o) {
  return json_pack("[[I, I], [I, I]]", (json_int_t)o->before[0], (json_int_t)o->after[0], (json_int_t)o->before[1],
                   (json_int_t)o->after[1]);
}

/* size: what its attribute is called. */
static json_t *window(const shoal_window *o, const char *size, int64_t stride) {
  json_t *padding = o->padding == SHOAL_SAME ? json_string("same") : margins(o);
  return json_pack("{s:o, s:o, s:o}", size, pair(o->size, 0), "strides",
                   o->stride[0] || stride ? pair(o->stride, stride) : json_null(), "padding", padding);
}

static json_t *filters(int count, const char *counted, const shoal_window *o, const char *act) {
  json_t *w = window(o, "kernel_size", 1);
  if (!w) return NULL;
  json_object_set_new(w, counted, json_integer(count));
  json_object_set_new(w, "dilation_rate", pair(o->dilation, 1));
  json_object_set_new(w, "activation", text_or_null(act));
  return w;
}

static json_t *with_groups(json_t *attributes, const shoal_window *o) {
  if (attributes) json_object_set_new(attributes, "groups", json_integer(o->groups ? o->groups : 1));
  return attributes;
}

void shoal_model_conv(shoal_model *m, int count, const shoal_window *o, const char *act) {
  append(m, "conv", "conv",
         with_initial(m, with_groups(filters(count, "filters", o, act), o), "kernel_initializer", NULL));
}

void shoal_model_depthwise_conv(shoal_model *m, int times, const shoal_window *o, const char *act) {
  append(m, "depthwise_conv", "depthwise_conv",
         with_initial(m, filters(times, "depth_multiplier", o, act), "depthwise_initializer", NULL));
}

void shoal_model_separable_conv(shoal_model *m, int count, const shoal_window *o, const char *act) {
  append(m, "separable_conv", "separable_conv",
         with_initial(m, filters(count, "filters", o, act), "depthwise_initializer", "pointwise_initializer"));
}

void shoal_model_transposed_conv(shoal_model *m, int count, const shoal_window *o, const char *act) {
  json_t *attributes = with_groups(filters(count, "filters", o, act), o);
  if (attributes && o->output[0]) json_object_set_new(attributes, "output_size", pair(o->output, 0));
  append(m, "transposed_conv", "transposed_conv", with_initial(m, attributes, "kernel_initializer", NULL));
}

static const char *mode_name(shoal_pooling kind) { return kind == SHOAL_POOL_MAX ? "max" : "avg"; }

void shoal_model_pool(shoal_model *m, shoal_pooling kind, const shoal_window *o) {
  json_t *attributes = window(o, "pool_size", 0);
  if (attributes) json_object_set_new(attributes, "mode", json_string(mode_name(kind)));
  append(m, "pool", "pool", attributes);
}

void shoal_model_global_pool(shoal_model *m, shoal_pooling kind) {
  append(m, "global_pool", "global_pool", json_pack("{s:s}", "mode", mode_name(kind)));
}

void shoal_model_upsample(shoal_model *m, int times_high, int times_wide, bool bilinear) {
  append(
      m, "up_sampling2d", "upsample",
      json_pack("{s:[i, i], s:s}", "size", times_high, times_wide, "interpolation", bilinear ? "bilinear" : "nearest"));
}

void shoal_model_pad(shoal_model *m, const shoal_window *o) {
  append(m, "zero_padding", "pad", json_pack("{s:o}", "padding", margins(o)));
}

void shoal_model_crop(shoal_model *m, const shoal_window *o) {
  append(m, "cropping", "crop", json_pack("{s:o}", "cropping", margins(o)));
}

void shoal_model_reshape(shoal_model *m, shoal_shape shape) {
  json_t *list = json_array();
  for (int i = 0; i < shape.rank; i++)
    json_array_append_new(list, json_integer(shape.dim[i] == SHOAL_UNKNOWN ? -1 : shape.dim[i]));
  append(m, "reshape", "reshape", json_pack("{s:o}", "target_shape", list));
}

/* ---- sequences */

void shoal_model_embedding(shoal_model *m, int words, int width) {
  json_t *attributes =
      json_pack("{s:i, s:i, s:s}", "input_dim", words, "output_dim", width, "embeddings_initializer", "glorot_uniform");
  if (attributes && m->start) json_object_set(attributes, "embeddings_initializer", m->start);
  append(m, "embedding", "embedding", attributes);
}

static void add_recurrent(shoal_model *m, const char *type, const char *stem, int units, bool sequences, bool reverse) {
  append(m, type, stem,
         with_initial(m,
                      json_pack("{s:i, s:b, s:b, s:b}", "units", units, "return_sequences", sequences, "go_backwards",
                                reverse, "reverse_output", false),
                      "kernel_initializer", "recurrent_initializer"));
}

void shoal_model_rnn(shoal_model *m, int units, bool sequences, bool reverse) {
  add_recurrent(m, "simple_rnn", "rnn", units, sequences, reverse);
}

void shoal_model_lstm(shoal_model *m, int units, bool sequences, bool reverse) {
  add_recurrent(m, "lstm", "lstm", units, sequences, reverse);
}

void shoal_model_gru(shoal_model *m, int units, bool sequences, bool reverse) {
  add_recurrent(m, "gru", "gru", units, sequences, reverse);
}

void shoal_model_attention(shoal_model *m, int heads, int depth, bool causal) {
  append(m, "multi_head_attention", "attention",
         with_initial(m, json_pack("{s:i, s:i, s:b}", "num_heads", heads, "key_dim", depth, "use_causal_mask", causal),
                      "kernel_initializer", NULL));
}

/* ---- how weights start */

void shoal_model_initializer(shoal_model *m, const char *name) {
  json_t *start = name ? json_string(name) : json_null();
  shoal_status status = initializer_check(start);
  if (status) model_fail(m, status);
  json_decref(m->start);
  json_decref(m->bias);
  m->start = status ? NULL : start;
  m->bias = NULL;
  if (status) json_decref(start);
}

void shoal_model_initial(shoal_model *m, double deviation, double bias) {
  if (!(deviation > 0) || !isfinite(deviation) || !isfinite(bias)) {
    model_fail(m, status_make(SHOAL_ERR_ARGUMENT,
                              "initial weights: a standard deviation above 0 and a finite bias are "
                              "expected, not %g and %g",
                              deviation, bias));
    return;
  }
  json_decref(m->start);
  json_decref(m->bias);
  m->start = json_pack("{s:s, s:f}", "type", "random_normal", "stddev", deviation);
  m->bias = json_real(bias);
}
