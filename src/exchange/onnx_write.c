#include "base/mem.h"
#include "exchange/onnx_writer.h"
#include "shoal/version.h"

#include <stdio.h>
#include <string.h>

const int onnx_types[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F32] = 1, [SHOAL_F64] = 11, [SHOAL_I32] = 6, [SHOAL_I64] = 7, [SHOAL_U8] = 2, [SHOAL_BOOL] = 9};

void onnx_fail(onnx_writer *w, shoal_status status) {
  if (!w->error)
    w->error = status;
  else
    shoal_status_free(status);
}

/* Takes the name. */
static const char *keep_name(onnx_writer *w, char *name) {
  shoal_status status =
      name ? mem_grow((void **)&w->names, &w->cap_names, w->n_names + 1, sizeof *w->names) : status_no_memory();
  if (status) {
    free(name);
    onnx_fail(w, status);
    return "";
  }
  return w->names[w->n_names++] = name;
}

const char *onnx_name(onnx_writer *w) {
  char *name = NULL;
  if (asprintf(&name, "%s.%d", w->node ? w->node->name : "model", w->made++) < 0) name = NULL;
  return keep_name(w, name);
}

void onnx_bind(onnx_writer *w, const shoal_value *v, const char *name) { w->values[value_id(v)] = name; }

/* ---- messages */

static void put_ints(proto *p, int field, const shoal_shape *list) {
  for (int i = 0; i < list->rank; i++) proto_int(p, field, list->dim[i]);
}

static void put_attribute(proto *p, const onnx_attr *a) {
  size_t begun = proto_begin(p, ONNX_NODE_ATTRIBUTE);
  proto_text(p, ONNX_ATTR_NAME, a->name);
  if (a->kind == ONNX_FLOAT) proto_float(p, ONNX_ATTR_F, (float)a->f);
  if (a->kind == ONNX_INT) proto_int(p, ONNX_ATTR_I, a->i);
  if (a->kind == ONNX_TEXTS) proto_text(p, ONNX_ATTR_STRINGS, a->s); /* a list of one */
  if (a->kind == ONNX_TEXT) proto_text(p, ONNX_ATTR_S, a->s);
  if (a->kind == ONNX_INTS) put_ints(p, ONNX_ATTR_INTS, &a->list);
  proto_int(p, ONNX_ATTR_TYPE, (int64_t)a->kind);
  proto_end(p, begun);
}

void onnx_emit_several(onnx_writer *w, const char *op, const char *const *inputs, int ins, const char **outputs,
                       int outs, const onnx_attr *attrs, int n_attrs) {
  proto *p = &w->graph;
  size_t begun = proto_begin(p, ONNX_GRAPH_NODE);
  for (int i = 0; i < ins; i++) proto_text(p, ONNX_NODE_INPUT, inputs[i]);
  for (int i = 0; i < outs; i++) proto_text(p, ONNX_NODE_OUTPUT, outputs[i] ? outputs[i] : "");
  proto_text(p, ONNX_NODE_NAME, outputs[0] && *outputs[0] ? outputs[0] : onnx_name(w));
  proto_text(p, ONNX_NODE_OP, op);
  for (int i = 0; i < n_attrs; i++)
    if (attrs[i].name) put_attribute(p, &attrs[i]);
  proto_end(p, begun);
}

const char *onnx_emit(onnx_writer *w, const char *op, const char *const *inputs, int ins, const onnx_attr *attrs,
                      int n_attrs) {
  const char *name = onnx_name(w);
  onnx_emit_several(w, op, inputs, ins, &name, 1, attrs, n_attrs);
  return name;
}

/* ---- constants */

static void put_tensor(proto *p, const char *name, const shoal_tensor *t) {
  size_t begun = proto_begin(p, ONNX_GRAPH_INITIALIZER);
  put_ints(p, ONNX_TENSOR_DIMS, &t->shape);
  proto_int(p, ONNX_TENSOR_TYPE, onnx_types[t->dtype]);
  proto_text(p, ONNX_TENSOR_NAME, name);
  proto_bytes(p, ONNX_TENSOR_RAW, t->data, shoal_tensor_bytes(t));
  proto_end(p, begun);
}

const char *onnx_tensor(onnx_writer *w, const shoal_tensor *t) {
  const char *name = onnx_name(w);
  put_tensor(&w->graph, name, t);
  return name;
}

const char *onnx_scalar(onnx_writer *w, shoal_dtype dtype, double value) {
  uint64_t memory[1] = {0};
  shoal_tensor t = shoal_tensor_view(dtype, SHOAL_SCALAR, memory);
  shoal_tensor_set(&t, 0, value);
  return onnx_tensor(w, &t);
}

const char *onnx_ints(onnx_writer *w, const shoal_shape *list) {
  shoal_tensor t = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(list->rank), (void *)list->dim);
  return onnx_tensor(w, &t);
}

const char *onnx_int(onnx_writer *w, int64_t value) {
  shoal_tensor t = shoal_tensor_view(SHOAL_I64, SHOAL_SCALAR, &value);
  return onnx_tensor(w, &t);
}

bool onnx_known(const onnx_writer *w, const shoal_value *v, shoal_tensor *out) {
  if (!strcmp(v->maker->op->name, "constant")) {
    *out = v->maker->attr[0].data;
    return true;
  }
  if (strcmp(v->maker->op->name, "variable")) return false;
  shoal_status status = shoal_session_variable(w->session, v, out);
  bool known = !status;
  shoal_status_free(status);
  return known;
}

/* Constants are written when they are first asked for: of some only a transposed copy is. */
const char *onnx_of(onnx_writer *w, const shoal_value *v) {
  const char **name = &w->values[value_id(v)];
  shoal_tensor known;
  if (!*name && onnx_known(w, v, &known)) {
    *name = keep_name(w, strdup(v->maker->name));
    put_tensor(&w->graph, *name, &known);
  }
  return *name ? *name : "";
}

/* ---- transposes */

const char *onnx_transpose(onnx_writer *w, const char *x, shoal_shape order) {
  return onnx_1(w, "Transpose", x, ONNX_ATTRS(A_L("perm", order)));
}

const char *onnx_transposed(onnx_writer *w, const shoal_value *v, shoal_shape order) {
  shoal_tensor known, turned;
  if (!onnx_known(w, v, &known)) return onnx_transpose(w, onnx_of(w, v), order);
  shoal_shape shape = {.rank = order.rank};
  int64_t stride[SHOAL_MAX_RANK], step = 1, place[SHOAL_MAX_RANK] = {0};
  for (int i = known.shape.rank - 1; i >= 0; i--) {
    stride[i] = step;
    step *= known.shape.dim[i];
  }
  for (int i = 0; i < order.rank; i++) shape.dim[i] = known.shape.dim[order.dim[i]];
  shoal_status status = shoal_tensor_create(known.dtype, shape, &turned);
  if (status) {
    onnx_fail(w, status);
    return "";
  }
  const size_t size = shoal_dtype_size(known.dtype);
  const int64_t count = shoal_tensor_count(&turned);
  for (int64_t i = 0; i < count; i++) {
    int64_t from = 0;
    for (int k = 0; k < order.rank; k++) from += place[k] * stride[order.dim[k]];
    memcpy((char *)turned.data + (size_t)i * size, (const char *)known.data + (size_t)from * size, size);
    for (int k = order.rank - 1; k >= 0 && ++place[k] == shape.dim[k]; k--) place[k] = 0;
  }
  const char *name = onnx_tensor(w, &turned);
  shoal_tensor_fini(&turned);
  return name;
}

/* ---- the graph */

static void put_port(proto *p, int field, const onnx_port *port) {
  const shoal_shape shape = port->value->shape;
  size_t begun = proto_begin(p, field);
  proto_text(p, ONNX_VALUE_NAME, port->name);
  size_t type = proto_begin(p, ONNX_VALUE_TYPE), tensor = proto_begin(p, ONNX_TYPE_TENSOR);
  proto_int(p, ONNX_TENSOR_TYPE_ELEMENT, onnx_types[port->value->dtype]);
  size_t dims = proto_begin(p, ONNX_TENSOR_TYPE_SHAPE);
  for (int i = 0; i < shape.rank; i++) {
    size_t dim = proto_begin(p, ONNX_SHAPE_DIM);
    if (shape.dim[i] != SHOAL_UNKNOWN)
      proto_int(p, ONNX_DIM_VALUE, shape.dim[i]);
    else if (i == 0)
      proto_text(p, ONNX_DIM_PARAM, "batch");
    proto_end(p, dim);
  }
  proto_end(p, dims);
  proto_end(p, tensor);
  proto_end(p, type);
  proto_end(p, begun);
}

/* Marks what the value needs. Nodes come after their inputs, so one pass from the end is enough. */
static void mark_needed(const shoal_graph *g, bool *needed) {
  for (size_t i = g->count; i-- > 0;) {
    const node *n = g->nodes[i];
    for (int k = 0; needed[i] && k < n->ins; k++) needed[n->in[k]->maker->id] = true;
  }
}

static shoal_status write_nodes(onnx_writer *w, const shoal_graph *g, const bool *needed) {
  for (size_t i = 0; i < g->count && !w->error; i++) {
    const node *n = g->nodes[i];
    if (!needed[i] || w->values[n->first_value]) continue;
    shoal_tensor known;
    w->node = n;
    w->made = 0;
    if (onnx_known(w, &n->out[0], &known)) continue;
    if (!strcmp(n->op->name, "placeholder"))
      onnx_fail(w, status_make(SHOAL_ERR_INTERNAL, "'%s' is fed but is not an input of the model", n->name));
    else if (!onnx_write_node(w, n) && !w->error)
      onnx_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': ONNX has no operator for %s: export as .keras or .pb",
                               n->name, n->op->name));
  }
  w->node = NULL;
  return w->error;
}

static shoal_status write_graph(onnx_writer *w, const onnx_model *m, const shoal_graph *g) {
  bool *needed = calloc(g->count + 1, sizeof *needed);
  w->values = calloc((size_t)g->n_values + 1, sizeof *w->values);
  if (!needed || !w->values) {
    free(needed);
    return status_no_memory();
  }
  w->graph_nodes = g;
  w->needed = needed;
  proto_text(&w->graph, ONNX_GRAPH_NAME, m->name);
  for (int i = 0; i < m->n_inputs; i++) {
    onnx_bind(w, m->inputs[i].value, m->inputs[i].name);
    put_port(&w->graph, ONNX_GRAPH_INPUT, &m->inputs[i]);
  }
  for (int i = 0; i < m->n_outputs; i++) needed[m->outputs[i].value->maker->id] = true;
  mark_needed(g, needed);
  shoal_status status = write_nodes(w, g, needed);
  free(needed);
  w->error = NULL;
  for (int i = 0; i < m->n_outputs && !status; i++) {
    const char *from = onnx_of(w, m->outputs[i].value), *to = m->outputs[i].name;
    onnx_emit_several(w, "Identity", &from, 1, &to, 1, ONNX_NONE);
    put_port(&w->graph, ONNX_GRAPH_OUTPUT, &m->outputs[i]);
  }
  return status;
}

shoal_status onnx_write(const onnx_model *m, proto *out) {
  onnx_writer w = {.session = m->session};
  shoal_status status = write_graph(&w, m, m->graph);
  if (!status) {
    proto_int(out, ONNX_IR_VERSION, ONNX_WRITTEN_IR);
    proto_text(out, ONNX_PRODUCER, "shoal");
    proto_text(out, ONNX_PRODUCER_VERSION, shoal_version());
    proto_bytes(out, ONNX_GRAPH, w.graph.bytes, w.graph.length);
    size_t opset = proto_begin(out, ONNX_OPSET);
    proto_text(out, ONNX_OPSET_DOMAIN, "");
    proto_int(out, ONNX_OPSET_VERSION, ONNX_WRITTEN_OPSET);
    proto_end(out, opset);
    if (out->failed || w.graph.failed) status = status_no_memory();
  }
  proto_fini(&w.graph);
  for (size_t i = 0; i < w.n_names; i++) free(w.names[i]);
  free(w.names);
  free((void *)w.values);
  return status;
}
