#include "graph/graph.h"

#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "graph/device.h"
#include "graph/infer.h"

#include <stdio.h>
#include <string.h>

shoal_status shoal_graph_create(shoal_graph **out) {
  shoal_graph *g = calloc(1, sizeof *g);
  if (!g) return status_no_memory();
  g->scope = strdup("");
  if (!g->scope) {
    free(g);
    return status_no_memory();
  }
  *out = g;
  return NULL;
}

static void node_destroy(node *n) {
  if (!n) return;
  if (n->op)
    for (int i = 0; i < OP_MAX_ATTRS && n->op->attrs[i].name; i++) {
      free((char *)n->attr[i].s);
      free(n->attr[i].data.data);
      shoal_graph_destroy(n->attr[i].graph);
    }
  free(n->after);
  free(n->name);
  free(n->device);
  free(n->in);
  free(n->out);
  free(n);
}

void shoal_graph_destroy(shoal_graph *g) {
  if (!g || g->refs-- > 0) return;
  for (size_t i = 0; i < g->count; i++) node_destroy(g->nodes[i]);
  for (size_t i = 0; i < g->n_devices; i++) free(g->devices[i]);
  free(g->devices);
  free(g->after);
  free(g->after_of);
  free(g->index);
  free(g->params);
  free(g->results);
  free(g->nodes);
  free(g->scope);
  free(g->next_name);
  free(g->device);
  shoal_status_free(g->error);
  free(g);
}

shoal_graph *graph_ref(shoal_graph *g) {
  g->refs++;
  return g;
}

shoal_status shoal_graph_status(const shoal_graph *g) {
  if (!g->error) return NULL;
  return status_make(shoal_status_code(g->error), "%s", shoal_status_message(g->error));
}

shoal_status shoal_graph_take_status(shoal_graph *g) {
  shoal_status error = g->error;
  g->error = NULL;
  return error;
}

void graph_fail(shoal_graph *g, shoal_status status) {
  if (g->error)
    shoal_status_free(status);
  else
    g->error = status;
}

void shoal_scope_push(shoal_graph *g, const char *name) {
  char *scope;
  if (asprintf(&scope, "%s%s/", g->scope, name) < 0) {
    graph_fail(g, status_no_memory());
    return;
  }
  free(g->scope);
  g->scope = scope;
}

void shoal_scope_pop(shoal_graph *g) {
  size_t length = strlen(g->scope);
  if (!length) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "shoal_scope_pop without shoal_scope_push"));
    return;
  }
  g->scope[length - 1] = 0;
  char *slash = strrchr(g->scope, '/');
  if (slash)
    slash[1] = 0;
  else
    g->scope[0] = 0;
}

static void set_text(shoal_graph *g, char **field, const char *value) {
  char *copy = value ? strdup(value) : NULL;
  if (value && !copy) {
    graph_fail(g, status_no_memory());
    return;
  }
  free(*field);
  *field = copy;
}

void shoal_name_next(shoal_graph *g, const char *name) { set_text(g, &g->next_name, name); }

void shoal_device_set(shoal_graph *g, const char *words) {
  device parsed;
  shoal_status status = device_parse(words, &parsed);
  if (status)
    graph_fail(g, status);
  else
    set_text(g, &g->device, words);
}

void shoal_device_push(shoal_graph *g, const char *words) {
  device outer, inner;
  char buffer[DEVICE_TEXT], *saved = g->device ? strdup(g->device) : NULL;
  shoal_status status = g->device && !saved ? status_no_memory() : device_parse(words, &inner);
  if (!status) status = device_parse(g->device, &outer);
  if (!status) status = mem_grow((void **)&g->devices, &g->cap_devices, g->n_devices + 1, sizeof *g->devices);
  if (status) {
    free(saved);
    graph_fail(g, status);
    return;
  }
  g->devices[g->n_devices++] = saved;
  device both = device_inside(&outer, &inner);
  device_text(&both, buffer);
  set_text(g, &g->device, *buffer ? buffer : NULL);
}

void shoal_device_pop(shoal_graph *g) {
  if (!g->n_devices) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "shoal_device_pop without shoal_device_push"));
    return;
  }
  free(g->device);
  g->device = g->devices[--g->n_devices];
}

void shoal_control_push(shoal_graph *g, shoal_value *const *x, int n) {
  shoal_status status = mem_grow((void **)&g->after_of, &g->cap_controls, g->n_controls + 1, sizeof *g->after_of);
  if (!status) status = mem_grow((void **)&g->after, &g->cap_after, g->n_after + (size_t)n, sizeof *g->after);
  for (int i = 0; i < n && !status && !g->error; i++)
    if (!x[i]) status = status_make(SHOAL_ERR_ARGUMENT, "control scope: value %d is NULL", i);
  if (status) {
    graph_fail(g, status);
    return;
  }
  g->after_of[g->n_controls++] = g->n_after;
  for (int i = 0; i < n && x[i]; i++) g->after[g->n_after++] = x[i]->maker;
}

void shoal_control_pop(shoal_graph *g) {
  if (!g->n_controls) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "shoal_control_pop without shoal_control_push"));
    return;
  }
  g->n_after = g->after_of[--g->n_controls];
}

const char *shoal_value_name(const shoal_value *v) { return v ? v->maker->name : NULL; }
const char *shoal_value_device(const shoal_value *v) { return v ? v->maker->device : NULL; }
const char *shoal_value_operator(const shoal_value *v) { return v ? v->maker->op->name : NULL; }
shoal_shape shoal_value_shape(const shoal_value *v) { return v ? v->shape : SHOAL_SCALAR; }
shoal_dtype shoal_value_dtype(const shoal_value *v) { return v ? v->dtype : SHOAL_F32; }

shoal_value *shoal_value_output(shoal_value *v, int i) {
  if (!v || i < 0 || i >= v->maker->outs) return NULL;
  return &v->maker->out[i];
}

static uint64_t hash_name(const char *name) {
  uint64_t h = 0;
  for (; *name; name++) h = random_mix(h, (unsigned char)*name);
  return h;
}

/* Where the node of that name stands in the index, or would. */
static node **index_place(node **index, size_t size, const char *name) {
  size_t at = (size_t)hash_name(name) & (size - 1);
  while (index[at] && strcmp(index[at]->name, name)) at = (at + 1) & (size - 1);
  return &index[at];
}

/* Room for one more name: at most half of the places are taken. */
static shoal_status index_grow(shoal_graph *g) {
  if (2 * (g->count + 1) <= g->index_size) return NULL;
  size_t size = MAX_OF(2 * g->index_size, (size_t)64);
  node **index = calloc(size, sizeof(node *));
  if (!index) return status_no_memory();
  for (size_t i = 0; i < g->count; i++) *index_place(index, size, g->nodes[i]->name) = g->nodes[i];
  free(g->index);
  g->index = index;
  g->index_size = size;
  return NULL;
}

static node *find_node(const shoal_graph *g, const char *name) {
  return g->index_size ? *index_place(g->index, g->index_size, name) : NULL;
}

shoal_value *shoal_graph_find(const shoal_graph *g, const char *name) {
  node *n = find_node(g, name);
  return n ? &n->out[0] : NULL;
}

const char *value_text(const shoal_value *v, char buffer[VALUE_TEXT]) {
  char shape[SHOAL_SHAPE_TEXT];
  snprintf(buffer, VALUE_TEXT, "'%.100s' %s%s", v->maker->name, shoal_dtype_name(v->dtype),
           shoal_shape_text(&v->shape, shape));
  return buffer;
}

/* scope + asked-for or operator's name, with _1, _2 ... until it is free. */
static char *make_name(shoal_graph *g, const op_row *op) {
  const char *base = g->next_name ? g->next_name : op->name;
  char *name = NULL;
  for (int k = 0;; k++) {
    int n = k ? asprintf(&name, "%s%s_%d", g->scope, base, k) : asprintf(&name, "%s%s", g->scope, base);
    if (n < 0) return NULL;
    if (!find_node(g, name)) break;
    free(name);
  }
  free(g->next_name);
  g->next_name = NULL;
  return name;
}

static shoal_status copy_attrs(node *n, const attr_value *attrs) {
  for (int i = 0; i < OP_MAX_ATTRS && n->op->attrs[i].name; i++) {
    n->attr[i] = attrs[i];
    n->attr[i].s = NULL;
    n->attr[i].data.data = NULL;
    n->attr[i].graph = attrs[i].graph ? graph_ref(attrs[i].graph) : NULL;
    if (n->op->attrs[i].kind == ATTR_TEXT && !(n->attr[i].s = strdup(attrs[i].s ? attrs[i].s : "")))
      return status_no_memory();
    if (n->op->attrs[i].kind == ATTR_DATA && attrs[i].data.data) {
      TRY(shoal_tensor_create(attrs[i].data.dtype, attrs[i].data.shape, &n->attr[i].data));
      memcpy(n->attr[i].data.data, attrs[i].data.data, shoal_tensor_bytes(&attrs[i].data));
    }
  }
  return NULL;
}

/* "matmul of 'x' f32[64,784] and 'w' f32[100,10]" */
static shoal_status with_inputs(shoal_status status, const node *n) {
  text t = {0};
  text_add(&t, "%s '%s'", n->op->name, n->name);
  for (int i = 0; i < n->ins && i < 4; i++) {
    char buffer[VALUE_TEXT];
    text_add(&t, "%s %s", i ? " and" : " of", value_text(n->in[i], buffer));
  }
  status = status_wrap(status, "%s", t.failed ? n->op->name : t.data);
  text_fini(&t);
  return status;
}

static shoal_status infer(node *n) {
  const op_row *op = n->op;
  shoal_shape *in = calloc((size_t)n->ins + 1, sizeof *in);
  shoal_dtype *in_dtype = calloc((size_t)n->ins + 1, sizeof *in_dtype);
  shoal_shape out[OP_MAX_OUTPUTS] = {0};
  shoal_dtype out_dtype[OP_MAX_OUTPUTS] = {0};
  shoal_status status = NULL;
  if (!in || !in_dtype) {
    status = status_no_memory();
    goto done;
  }
  for (int i = 0; i < n->ins; i++) {
    in[i] = n->in[i]->shape;
    in_dtype[i] = n->in[i]->dtype;
  }
  op_shapes s = {n->ins, n->outs, in, in_dtype, n->attr, out, out_dtype};
  status = op_infer(op, &s);
  if (status) {
    status = with_inputs(status, n);
    goto done;
  }
  for (int i = 0; i < n->outs; i++) n->out[i] = (shoal_value){n, i, out_dtype[i], out[i]};
done:
  free(in);
  free(in_dtype);
  return status;
}

static shoal_status add(shoal_graph *g, const op_row *op, shoal_value *const *in, int ins, const attr_value *attrs,
                        node **out) {
  if (ins < op->ins_min || (op->ins_max >= 0 && ins > op->ins_max))
    return status_make(SHOAL_ERR_ARGUMENT, "%s takes %d to %d inputs, not %d", op->name, op->ins_min, op->ins_max, ins);
  const int64_t outputs = op->outs >= 0 ? op->outs : attrs[0].i;
  if (outputs < 1 || outputs > OP_MAX_OUTPUTS)
    return status_make(SHOAL_ERR_ARGUMENT, "%s would have %lld outputs; between 1 and %d are possible", op->name,
                       (long long)outputs, OP_MAX_OUTPUTS);
  const int outs = (int)outputs;
  TRY(mem_grow((void **)&g->nodes, &g->capacity, g->count + 1, sizeof *g->nodes));
  TRY(index_grow(g));
  node *n = calloc(1, sizeof *n);
  if (!n) return status_no_memory();
  shoal_status status = NULL;
  n->op = op;
  n->ins = ins;
  n->outs = outs;
  n->in = calloc((size_t)ins + 1, sizeof *n->in);
  n->out = calloc((size_t)outs, sizeof *n->out);
  n->name = make_name(g, op);
  n->device = g->device ? strdup(g->device) : NULL;
  n->after = calloc(g->n_after + 1, sizeof *n->after);
  if (!n->in || !n->out || !n->name || !n->after || (g->device && !n->device)) {
    status = status_no_memory();
    goto fail;
  }
  n->n_after = (int)g->n_after;
  if (g->n_after) memcpy(n->after, g->after, g->n_after * sizeof *n->after);
  if (ins) memcpy(n->in, in, (size_t)ins * sizeof *in);
  for (int i = 0; i < ins && i < 32; i++)
    if (op_updates(op, i) && strcmp(in[i]->maker->op->name, "variable")) {
      char buffer[VALUE_TEXT];
      status = status_make(SHOAL_ERR_ARGUMENT,
                           "%s '%s' would change %s, which is made by %s: only a variable can be "
                           "changed",
                           op->name, n->name, value_text(in[i], buffer), in[i]->maker->op->name);
      goto fail;
    }
  n->stream = hash_name(n->name);
  TRY_GOTO(status, copy_attrs(n, attrs), fail);
  TRY_GOTO(status, infer(n), fail);
  n->id = (int)g->count;
  n->first_value = g->n_values;
  g->n_values += outs;
  *index_place(g->index, g->index_size, n->name) = n;
  g->nodes[g->count++] = n;
  *out = n;
  return NULL;
fail:
  node_destroy(n);
  return status;
}

shoal_value *graph_add(shoal_graph *g, const op_row *op, shoal_value *const *in, int ins, const attr_value *attrs) {
  if (g->error) return NULL;
  for (int i = 0; i < ins; i++)
    if (!in[i]) {
      graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "%s: input %d is NULL", op->name, i));
      return NULL;
    }
  static const attr_value none[OP_MAX_ATTRS];
  node *n = NULL;
  shoal_status status = add(g, op, in, ins, attrs ? attrs : none, &n);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  return &n->out[0];
}

shoal_value *graph_op(shoal_graph *g, const char *op, shoal_value *const *in, int ins, const attr_value *attrs) {
  const op_row *row = op_find(op);
  if (!row) {
    const char *near = op_nearest(op);
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "unknown operator '%s'%s%s", op, near ? "; did you mean " : "",
                              near ? near : ""));
    return NULL;
  }
  return graph_add(g, row, in, ins, attrs);
}
