/* Weights alone, as safetensors: by the names and shapes that they have here, or as PyTorch's modules have them.
 *
 * PyTorch's layout: a layer "block/conv2d" is the module block.conv2d; kernels are turned round (docs/exchange.md lists them). */
#include "base/mem.h"
#include "data/safetensors.h"
#include "exchange/formats.h"
#include "exchange/network.h"
#include "train/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  safetensors_item *items; /* names are owned */
  size_t n, cap;
  shoal_tensor *owned;
  size_t n_owned, cap_owned;
} weight_list;

static void list_fini(weight_list *l) {
  for (size_t i = 0; i < l->n; i++) free((char *)l->items[i].name);
  for (size_t i = 0; i < l->n_owned; i++) shoal_tensor_fini(&l->owned[i]);
  free(l->items);
  free(l->owned);
}

/* Takes `name`. */
static shoal_status add(weight_list *l, char *name, shoal_tensor t) {
  shoal_status status = name ? mem_grow((void **)&l->items, &l->cap, l->n + 1, sizeof *l->items) : status_no_memory();
  if (status) {
    free(name);
    return status;
  }
  l->items[l->n++] = (safetensors_item){.name = name, .tensor = t};
  return NULL;
}

static shoal_status own(weight_list *l, shoal_dtype dtype, shoal_shape shape, shoal_tensor *out) {
  TRY(mem_grow((void **)&l->owned, &l->cap_owned, l->n_owned + 1, sizeof *l->owned));
  TRY(shoal_tensor_create(dtype, shape, out));
  l->owned[l->n_owned++] = *out;
  return NULL;
}

/* ---- PyTorch's names and shapes */

/* A weight of a type of layer: what it is called, and its axes there, in the order of digits; then "=": as [a x b, 1, ...]. */
typedef struct {
  const char *types; /* between blanks */
  const char *name, *to, *axes;
} torch_weight;
#define NORMS " batch_normalization layer_normalization group_normalization rms_normalization "
static const torch_weight rows[] = {
    {" dense sparse_dense ", "kernel", "weight", "10"},
    {" conv2d conv conv2d_transpose transposed_conv ", "kernel", "weight", "3201"},
    {" conv1d conv conv1d_transpose transposed_conv ", "kernel", "weight", "210"},
    {" depthwise_conv2d depthwise_conv ", "kernel", "weight", "2301="},
    {" depthwise_conv1d depthwise_conv ", "kernel", "weight", "120="},
    {" separable_conv2d separable_conv ", "depthwise", "depthwise.weight", "2301="},
    {" separable_conv1d separable_conv ", "depthwise", "depthwise.weight", "120="},
    {" separable_conv2d separable_conv ", "pointwise", "pointwise.weight", "3201"},
    {" separable_conv1d separable_conv ", "pointwise", "pointwise.weight", "210"},
    {" separable_conv1d separable_conv2d separable_conv ", "bias", "pointwise.bias", NULL},
    {NORMS, "gamma", "weight", NULL},
    {NORMS, "beta", "bias", NULL},
    {NORMS, "moving_mean", "running_mean", NULL},
    {NORMS, "moving_variance", "running_var", NULL},
    {" embedding position_embedding ", "embeddings", "weight", NULL},
    {" prelu ", "alpha", "weight", NULL},
    {" simple_rnn lstm gru ", "kernel", "weight_ih_l0", "10"},
    {" simple_rnn lstm gru ", "recurrent", "weight_hh_l0", "10"},
    {" simple_rnn lstm gru ", "bias", "bias_ih_l0", NULL},
    {" gru ", "recurrent_bias", "bias_hh_l0", NULL},
    {" multi_head_attention ", "query", "q_proj_weight", "10"},
    {" multi_head_attention ", "key", "k_proj_weight", "10"},
    {" multi_head_attention ", "value", "v_proj_weight", "10"},
    {" multi_head_attention ", "output", "out_proj.weight", "10"},
    {" multi_head_attention ", "output_bias", "out_proj.bias", NULL},
};

static const torch_weight *find_row(const char *type, const char *name, int rank) {
  char padded[64];
  snprintf(padded, sizeof padded, " %s ", type);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    const torch_weight *r = &rows[i];
    const int axes = r->axes ? (int)strspn(r->axes, "0123") : rank;
    if (strstr(r->types, padded) && !strcmp(r->name, name) && axes == rank) return r;
  }
  return NULL;
}

/* "block/conv2d" and "weight" as "block.conv2d.weight"; what is inside of a bidirectional layer has its name and an ending. */
static char *torch_name(const layer *l, const char *to) {
  const char *name = l->name, *ending = "", *last = strrchr(name, '/');
  int length = (int)strlen(name);
  if (last && (!strcmp(last, "/forward") || !strcmp(last, "/backward"))) {
    length = (int)(last - name);
    if (!strcmp(last, "/backward")) ending = "_reverse";
  }
  char *full = NULL;
  if (asprintf(&full, "%.*s.%s%s", length, name, to, ending) < 0) return NULL;
  for (int i = 0; i < length; i++)
    if (full[i] == '/') full[i] = '.';
  return full;
}

/* out[i0, i1 ...] = t[...], where axis k of `out` is axis axes[k] of t. */
static void permute(const shoal_tensor *t, const char *axes, shoal_tensor *out) {
  const int rank = t->shape.rank;
  int64_t stride[SHOAL_MAX_RANK], index[SHOAL_MAX_RANK] = {0}, step = 1;
  for (int i = rank; i-- > 0; step *= t->shape.dim[i]) stride[i] = step;
  const int64_t count = shoal_tensor_count(t);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0;
    for (int k = 0; k < rank; k++) at += index[k] * stride[axes[k] - '0'];
    ((float *)out->data)[i] = ((const float *)t->data)[at];
    for (int k = rank; k-- > 0 && ++index[k] == out->shape.dim[k];) index[k] = 0;
  }
}

static shoal_status turn(weight_list *l, const torch_weight *r, shoal_tensor *t) {
  shoal_shape s = {.rank = t->shape.rank};
  shoal_tensor out;
  if (!r->axes) return NULL;
  for (int k = 0; k < s.rank; k++) s.dim[k] = t->shape.dim[r->axes[k] - '0'];
  TRY(own(l, SHOAL_F32, s, &out));
  permute(t, r->axes, &out);
  if (strchr(r->axes, '=')) { /* filters of a channel are outputs of a group of its own */
    out.shape.dim[0] = s.dim[0] * s.dim[1];
    out.shape.dim[1] = 1;
  }
  *t = out;
  return NULL;
}

/* The gates z, r, h of a GRU as r, z, n: blocks of the first axis. */
static shoal_status swap_gates(weight_list *l, shoal_tensor *t) {
  const size_t block = shoal_tensor_bytes(t) / 3;
  shoal_tensor out;
  TRY(own(l, SHOAL_F32, t->shape, &out));
  memcpy(out.data, (const char *)t->data + block, block);
  memcpy((char *)out.data + block, t->data, block);
  memcpy((char *)out.data + 2 * block, (const char *)t->data + 2 * block, block);
  *t = out;
  return NULL;
}

/* What PyTorch has beside it: a second bias of zeros, a count of batches. */
static shoal_status add_companions(weight_list *l, const layer *owner, const char *to, const shoal_tensor *t) {
  shoal_tensor zeros;
  const char *type = owner->kind->name;
  const bool hidden = !strcmp(to, "bias_ih_l0") && strcmp(type, "gru");
  const bool count = !strcmp(to, "running_var");
  if (!hidden && !count) return NULL;
  TRY(own(l, hidden ? SHOAL_F32 : SHOAL_I64, hidden ? t->shape : SHOAL_SCALAR, &zeros));
  memset(zeros.data, 0, shoal_tensor_bytes(&zeros));
  return add(l, torch_name(owner, hidden ? "bias_hh_l0" : "num_batches_tracked"), zeros);
}

static shoal_status read_weight(const shoal_network *n, const layer *l, const char *name, shoal_tensor *out) {
  char full[512];
  snprintf(full, sizeof full, "%s/%s", l->name, name);
  const shoal_value *variable = shoal_graph_find(n->graph, full);
  if (!variable) return status_make(SHOAL_ERR_INTERNAL, "the model has no weight '%s'", full);
  return shoal_session_variable(n->session, variable, out);
}

/* Query, key and value in one, where they have one shape; their biases in any case. */
static shoal_status add_projections(weight_list *l, const shoal_network *n, const layer *owner, bool biases) {
  static const char *const kernels[] = {"query", "key", "value"}, *const bias_names[] = {"query_bias", "key_bias",
                                                                                         "value_bias"};
  const torch_weight turned = {.axes = "10"};
  shoal_tensor parts[3], all;
  for (int i = 0; i < 3; i++) TRY(read_weight(n, owner, (biases ? bias_names : kernels)[i], &parts[i]));
  for (int i = 0; i < 3 && !biases; i++) TRY(turn(l, &turned, &parts[i]));
  shoal_shape s = parts[0].shape;
  s.dim[0] = parts[0].shape.dim[0] + parts[1].shape.dim[0] + parts[2].shape.dim[0];
  TRY(own(l, SHOAL_F32, s, &all));
  char *at = all.data;
  for (int i = 0; i < 3; i++) at = mempcpy(at, parts[i].data, shoal_tensor_bytes(&parts[i]));
  return add(l, torch_name(owner, biases ? "in_proj_bias" : "in_proj_weight"), all);
}

static shoal_status has_one_shape(const shoal_network *n, const layer *l, bool *out) {
  shoal_tensor q, k, v;
  TRY(read_weight(n, l, "query", &q));
  TRY(read_weight(n, l, "key", &k));
  TRY(read_weight(n, l, "value", &v));
  *out = shoal_shape_equal(&q.shape, &k.shape) && shoal_shape_equal(&q.shape, &v.shape);
  return NULL;
}

/* *done: it goes into what all projections have together. */
static shoal_status add_attention(weight_list *l, const shoal_network *n, const layer *owner, const char *name,
                                  bool *done) {
  bool one;
  TRY(has_one_shape(n, owner, &one));
  const bool bias = strlen(name) > 5 && !strcmp(name + strlen(name) - 5, "_bias") && strcmp(name, "output_bias");
  *done = bias || (one && strcmp(name, "output") && strcmp(name, "output_bias"));
  if (bias && !strcmp(name, "query_bias")) return add_projections(l, n, owner, true);
  if (*done && !bias && !strcmp(name, "query")) return add_projections(l, n, owner, false);
  return NULL;
}

static shoal_status add_torch(weight_list *l, const shoal_network *n, const weight *w, shoal_tensor t) {
  const char *last = strrchr(shoal_value_name(w->variable), '/'), *name = last ? last + 1 : "weight";
  const char *type = w->owner->kind->name;
  bool done = false;
  if (!strcmp(type, "multi_head_attention")) TRY(add_attention(l, n, w->owner, name, &done));
  if (done) return NULL;
  const torch_weight *r = find_row(type, name, t.shape.rank);
  const torch_weight as_it_is = {.to = name};
  if (!r) r = &as_it_is;
  TRY(turn(l, r, &t));
  if (!strcmp(type, "gru")) TRY(swap_gates(l, &t));
  TRY(add(l, torch_name(w->owner, r->to), t));
  return add_companions(l, w->owner, r->to, &t);
}

/* ---- the file */

static shoal_status collect(const shoal_network *n, bool torch, weight_list *l) {
  const shoal_model *m = n->model;
  for (size_t i = 0; i < m->n_weights; i++) {
    shoal_tensor t;
    TRY(shoal_session_variable(n->session, m->weights[i].variable, &t));
    if (torch && m->weights[i].owner)
      TRY(add_torch(l, n, &m->weights[i], t));
    else
      TRY(add(l, strdup(shoal_value_name(m->weights[i].variable)), t));
  }
  return NULL;
}

static shoal_status write_file(const char *path, const weight_list *l) {
  char *temporary = NULL;
  if (asprintf(&temporary, "%s.%d.tmp", path, (int)getpid()) < 0) return status_no_memory();
  const int fd = open(temporary, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666);
  shoal_status status = fd < 0 ? status_errno(errno, "cannot write %s", temporary)
                               : safetensors_write(fd, temporary, l->items, (int)l->n, NULL);
  if (fd >= 0 && close(fd) && !status) status = status_errno(errno, "cannot write %s", temporary);
  if (!status && rename(temporary, path)) status = status_errno(errno, "cannot write %s", path);
  if (status && fd >= 0) unlink(temporary);
  free(temporary);
  return status;
}

shoal_status safetensors_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  static const char *const layouts[] = {"shoal", "torch"};
  const char *word = options->layout ? options->layout : layouts[0];
  const bool torch = !strcmp(word, layouts[1]);
  if (!torch && strcmp(word, layouts[0])) return status_unknown("layout", word, layouts, COUNT_OF(layouts));
  if (!n->model)
    return status_make(SHOAL_ERR_ARGUMENT, "the model is a graph of operators, not of layers: export it as .onnx");
  weight_list l = {0};
  shoal_status status = collect(n, torch, &l);
  if (!status) status = write_file(path, &l);
  list_fini(&l);
  return status;
}
