/* A model as a GraphDef that TensorFlow runs: the graph that predicts, with its weights as constants. */
#include "exchange/formats.h"
#include "exchange/tensorflow.h"
#include "graph/graphdef.h"
#include "graph/graphdef_fields.h"

#include <stdio.h>
#include <string.h>

enum {
  PRODUCER = 22
}; /* of GraphDefs: BatchMatMulV2, GatherV2 and ConcatV2 are known, and nothing newer is asked for */

/* Names of nodes are letters, digits and "._-/>" there, the first a letter, a digit or a dot. */
static void clean(char *name) {
  for (char *c = name; *c; c++) {
    const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '.';
    if (!plain && (c == name || !strchr("_-/>", *c))) *c = c == name ? '.' : '_';
  }
}

static void put_attr(graph_writer *w, const tf_attr *a) {
  proto *p = &w->graph;
  graphdef_attr open = graphdef_begin_attr(p, "", a->name);
  if (a->kind == TF_TYPE) proto_int(p, ATTR_TYPE_FIELD, graphdef_types[a->i]);
  if (a->kind == TF_INT) proto_int(p, ATTR_I_FIELD, a->i);
  if (a->kind == TF_FLOAT) proto_float(p, ATTR_F_FIELD, (float)a->f);
  if (a->kind == TF_BOOL) proto_int(p, ATTR_B_FIELD, a->i != 0);
  if (a->kind == TF_TEXT) proto_text(p, ATTR_S_FIELD, a->s);
  if (a->kind == TF_INTS) {
    size_t list = proto_begin(p, ATTR_LIST_FIELD);
    for (int64_t i = 0; i < a->i; i++) proto_int(p, LIST_I, a->list[i]);
    proto_end(p, list);
  }
  graphdef_end_attr(p, open);
}

static void put_node(graph_writer *w, const char *name, const char *op, const char *const *inputs, int ins,
                     const tf_attr *attrs, int n_attrs) {
  size_t begun = proto_begin(&w->graph, GRAPH_NODE);
  proto_text(&w->graph, NODE_NAME, name);
  proto_text(&w->graph, NODE_OP, op);
  for (int i = 0; i < ins; i++) proto_text(&w->graph, NODE_INPUT, inputs[i]);
  for (int i = 0; i < n_attrs; i++)
    if (attrs[i].name) put_attr(w, &attrs[i]);
  proto_end(&w->graph, begun);
}

const char *tf_emit(graph_writer *w, const char *op, const char *const *inputs, int ins, const tf_attr *attrs,
                    int n_attrs) {
  const char *name = writer_name(w);
  put_node(w, name, op, inputs, ins, attrs, n_attrs);
  return name;
}

const char *tf_output(graph_writer *w, const char *name, int i) {
  char *whole = NULL;
  if (asprintf(&whole, "%s:%d", name, i) < 0) whole = NULL;
  return i ? writer_keep(w, whole) : (free(whole), name);
}

const char *tf_i32s(graph_writer *w, const int64_t *list, int n) {
  int32_t narrow[2 * SHOAL_MAX_RANK];
  for (int i = 0; i < n; i++) narrow[i] = (int32_t)list[i];
  shoal_tensor t = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(n), narrow);
  return writer_tensor(w, &t);
}

const char *tf_shape(graph_writer *w, const shoal_shape *shape, const shoal_value *rows) {
  static const int64_t zero = 0, one = 1;
  const char *parts[SHOAL_MAX_RANK];
  bool known = true;
  for (int i = 0; i < shape->rank; i++) known = known && shape->dim[i] != SHOAL_UNKNOWN;
  if (known) return tf_i32s(w, shape->dim, shape->rank);
  const char *all = tf_1(w, "Shape", writer_of(w, rows), TF_ATTRS(T_T("T", rows->dtype), T_T("out_type", SHOAL_I32)));
  const char *in[] = {all, tf_i32s(w, &zero, 1), tf_i32s(w, &one, 1), tf_i32s(w, &one, 1)};
  const char *count = tf_emit(w, "StridedSlice", in, 4,
                              TF_ATTRS(T_T("T", SHOAL_I32), T_T("Index", SHOAL_I32), T_I("shrink_axis_mask", 1)));
  for (int i = 0; i < shape->rank; i++)
    parts[i] = shape->dim[i] == SHOAL_UNKNOWN ? count : writer_scalar(w, SHOAL_I32, (double)shape->dim[i]);
  return tf_emit(w, "Pack", parts, shape->rank, TF_ATTRS(T_I("N", shape->rank), T_T("T", SHOAL_I32), T_I("axis", 0)));
}

/* ---- what the format says */

static void put_tensor(graph_writer *w, const char *name, const shoal_tensor *t, bool fixed) {
  size_t begun = proto_begin(&w->graph, GRAPH_NODE);
  proto_text(&w->graph, NODE_NAME, name);
  proto_text(&w->graph, NODE_OP, "Const");
  put_attr(w, &T_T("dtype", t->dtype));
  graphdef_attr open = graphdef_begin_attr(&w->graph, "", "value");
  graphdef_put_tensor(&w->graph, t);
  graphdef_end_attr(&w->graph, open);
  proto_end(&w->graph, begun);
}

static void put_input(graph_writer *w, const writer_port *port) {
  size_t begun = proto_begin(&w->graph, GRAPH_NODE);
  proto_text(&w->graph, NODE_NAME, writer_of(w, port->value));
  proto_text(&w->graph, NODE_OP, "Placeholder");
  put_attr(w, &T_T("dtype", port->value->dtype));
  graphdef_attr open = graphdef_begin_attr(&w->graph, "", "shape");
  graphdef_put_shape(&w->graph, ATTR_SHAPE_FIELD, &port->value->shape);
  graphdef_end_attr(&w->graph, open);
  proto_end(&w->graph, begun);
}

static void put_output(graph_writer *w, const writer_port *port) {
  const char *from = writer_of(w, port->value);
  char *name = strdup(port->name);
  if (name) clean(name);
  put_node(w, writer_keep(w, name), "Identity", &from, 1, TF_ATTRS(T_T("T", port->value->dtype)));
}

static const graph_format format = {
    "TensorFlow", "export as .onnx or .keras", put_tensor, put_input, put_output, tf_write_node, clean};

static shoal_status tensorflow_write(const writer_model *m, proto *out) {
  graph_writer w = {.format = &format};
  shoal_status status = writer_run(&w, m);
  if (!status) {
    *out = w.graph;
    w.graph = (proto){0};
    size_t versions = proto_begin(out, GRAPH_VERSIONS);
    proto_int(out, VERSIONS_PRODUCER, PRODUCER);
    proto_end(out, versions);
    if (out->failed) status = status_no_memory();
  }
  writer_fini(&w);
  return status;
}

shoal_status tensorflow_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  return writer_export(n, path, options, tensorflow_write);
}
