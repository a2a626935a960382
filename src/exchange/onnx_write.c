#include "base/mem.h"
#include "exchange/onnx_writer.h"
#include "shoal/version.h"

#include <stdio.h>
#include <string.h>

const int onnx_types[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F32] = 1, [SHOAL_F64] = 11, [SHOAL_I32] = 6, [SHOAL_I64] = 7, [SHOAL_U8] = 2, [SHOAL_BOOL] = 9};

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

void onnx_emit_several(graph_writer *w, const char *op, const char *const *inputs, int ins, const char **outputs,
                       int outs, const onnx_attr *attrs, int n_attrs) {
  proto *p = &w->graph;
  size_t begun = proto_begin(p, ONNX_GRAPH_NODE);
  for (int i = 0; i < ins; i++) proto_text(p, ONNX_NODE_INPUT, inputs[i]);
  for (int i = 0; i < outs; i++) proto_text(p, ONNX_NODE_OUTPUT, outputs[i] ? outputs[i] : "");
  proto_text(p, ONNX_NODE_NAME, outputs[0] && *outputs[0] ? outputs[0] : writer_name(w));
  proto_text(p, ONNX_NODE_OP, op);
  for (int i = 0; i < n_attrs; i++)
    if (attrs[i].name) put_attribute(p, &attrs[i]);
  proto_end(p, begun);
}

const char *onnx_emit(graph_writer *w, const char *op, const char *const *inputs, int ins, const onnx_attr *attrs,
                      int n_attrs) {
  const char *name = writer_name(w);
  onnx_emit_several(w, op, inputs, ins, &name, 1, attrs, n_attrs);
  return name;
}

/* ---- constants */

static void put_numbers(proto *p, int field, const char *name, const shoal_tensor *t) {
  size_t begun = proto_begin(p, field);
  put_ints(p, ONNX_TENSOR_DIMS, &t->shape);
  proto_int(p, ONNX_TENSOR_TYPE, onnx_types[t->dtype]);
  proto_text(p, ONNX_TENSOR_NAME, name);
  proto_bytes(p, ONNX_TENSOR_RAW, t->data, shoal_tensor_bytes(t));
  proto_end(p, begun);
}

/* What training may change is an initializer; what it must leave alone is the value of a node. */
static void put_tensor(graph_writer *w, const char *name, const shoal_tensor *t, bool fixed) {
  proto *p = &w->graph;
  if (!fixed || t->dtype != SHOAL_F32 || !t->shape.rank) {
    put_numbers(p, ONNX_GRAPH_INITIALIZER, name, t);
    return;
  }
  size_t begun = proto_begin(p, ONNX_GRAPH_NODE);
  proto_text(p, ONNX_NODE_OUTPUT, name);
  proto_text(p, ONNX_NODE_NAME, name);
  proto_text(p, ONNX_NODE_OP, "Constant");
  size_t attribute = proto_begin(p, ONNX_NODE_ATTRIBUTE);
  proto_text(p, ONNX_ATTR_NAME, "value");
  put_numbers(p, ONNX_ATTR_T, "value", t);
  proto_int(p, ONNX_ATTR_TYPE, ONNX_ATTR_IS_TENSOR);
  proto_end(p, attribute);
  proto_end(p, begun);
}

const char *onnx_transpose(graph_writer *w, const char *x, shoal_shape order) {
  return onnx_1(w, "Transpose", x, ONNX_ATTRS(A_L("perm", order)));
}

const char *onnx_transposed(graph_writer *w, const shoal_value *v, shoal_shape order) {
  const char *known = writer_transposed(w, v, order);
  return known ? known : onnx_transpose(w, writer_of(w, v), order);
}

/* ---- the graph */

static void put_port(proto *p, int field, const writer_port *port) {
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

/* Of one value: what the network calls it. */
static void put_output(graph_writer *w, const writer_port *port) {
  const char *from = writer_of(w, port->value), *to = port->name;
  onnx_emit_several(w, "Identity", &from, 1, &to, 1, ONNX_NONE);
  put_port(&w->graph, ONNX_GRAPH_OUTPUT, port);
}
static void put_input(graph_writer *w, const writer_port *port) { put_port(&w->graph, ONNX_GRAPH_INPUT, port); }

static const graph_format format = {"ONNX",     "export as .keras or .pb", put_tensor, put_input,
                                    put_output, onnx_write_node,           NULL};

static shoal_status onnx_write(const writer_model *m, proto *out) {
  graph_writer w = {.format = &format};
  proto_text(&w.graph, ONNX_GRAPH_NAME, m->name);
  shoal_status status = writer_run(&w, m);
  if (!status) {
    proto_int(out, ONNX_IR_VERSION, ONNX_WRITTEN_IR);
    proto_text(out, ONNX_PRODUCER, "shoal");
    proto_text(out, ONNX_PRODUCER_VERSION, shoal_version());
    proto_bytes(out, ONNX_GRAPH, w.graph.bytes, w.graph.length);
    size_t opset = proto_begin(out, ONNX_OPSET);
    proto_text(out, ONNX_OPSET_DOMAIN, "");
    proto_int(out, ONNX_OPSET_VERSION, ONNX_WRITTEN_OPSET);
    proto_end(out, opset);
    if (out->failed) status = status_no_memory();
  }
  writer_fini(&w);
  return status;
}

shoal_status onnx_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  return writer_export(n, path, options, onnx_write);
}
