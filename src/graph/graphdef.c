#include "graph/graphdef.h"

#include "base/mem.h"
#include "graph/graphdef_fields.h"

#include <stdio.h>
#include <string.h>

/* ---- writing */

/* "NAME" or "NAME:OUTPUT" */
static void put_value_name(proto *p, int field, const shoal_value *v) {
  char *words = NULL;
  if (!v->index) {
    proto_text(p, field, v->maker->name);
  } else if (asprintf(&words, "%s:%d", v->maker->name, v->index) >= 0) {
    proto_text(p, field, words);
    free(words);
  } else {
    p->failed = true;
  }
}

void graphdef_put_shape(proto *p, int field, const shoal_shape *shape) {
  size_t inside = proto_begin(p, field);
  for (int i = 0; i < shape->rank; i++) {
    size_t dim = proto_begin(p, SHAPE_DIM);
    proto_int(p, DIM_SIZE, shape->dim[i]);
    proto_end(p, dim);
  }
  proto_end(p, inside);
}

void graphdef_put_tensor(proto *p, const shoal_tensor *t) {
  size_t inside = proto_begin(p, ATTR_TENSOR_FIELD);
  proto_int(p, TENSOR_DTYPE, graphdef_types[t->dtype]);
  graphdef_put_shape(p, TENSOR_SHAPE, &t->shape);
  proto_bytes(p, TENSOR_CONTENT, t->data, shoal_tensor_bytes(t));
  proto_end(p, inside);
}

graphdef_attr graphdef_begin_attr(proto *p, const char *prefix, const char *name) {
  char key[96];
  snprintf(key, sizeof key, "%s%s", prefix, name);
  graphdef_attr a = {.entry = proto_begin(p, NODE_ATTR)};
  proto_text(p, ENTRY_KEY, key);
  a.value = proto_begin(p, ENTRY_VALUE);
  return a;
}

void graphdef_end_attr(proto *p, graphdef_attr a) {
  proto_end(p, a.value);
  proto_end(p, a.entry);
}

static shoal_status put_sub_graph(proto *p, const shoal_graph *sub) {
  proto inside = {0};
  shoal_status status = graphdef_write(sub, 0, &inside);
  for (int pass = 0; pass < 2 && !status; pass++) {
    size_t n = proto_begin(&inside, GRAPH_NODE);
    proto_text(&inside, NODE_NAME, pass ? GRAPHDEF_RESULTS : GRAPHDEF_PARAMS);
    proto_text(&inside, NODE_OP, pass ? GRAPHDEF_RESULTS : GRAPHDEF_PARAMS);
    for (int i = 0; i < (pass ? sub->n_results : sub->n_params); i++)
      put_value_name(&inside, NODE_INPUT, pass ? sub->results[i] : sub->params[i]);
    proto_end(&inside, n);
  }
  if (!status && inside.failed) status = status_no_memory();
  if (!status) proto_bytes(p, ATTR_S_FIELD, inside.bytes, inside.length);
  proto_fini(&inside);
  return status;
}

static shoal_status put_attr(proto *p, const op_attr *declared, const attr_value *value) {
  graphdef_attr a = graphdef_begin_attr(p, "", declared->name);
  shoal_status status = NULL;
  switch (declared->kind) {
    case ATTR_INT: proto_int(p, ATTR_I_FIELD, value->i); break;
    case ATTR_BOOL: proto_int(p, ATTR_B_FIELD, value->i != 0); break;
    case ATTR_FLOAT: proto_float(p, ATTR_F_FIELD, (float)value->f); break;
    case ATTR_DTYPE: proto_int(p, ATTR_TYPE_FIELD, graphdef_types[value->i]); break;
    case ATTR_TEXT: proto_text(p, ATTR_S_FIELD, value->s ? value->s : ""); break;
    case ATTR_DATA: graphdef_put_tensor(p, &value->data); break;
    case ATTR_GRAPH: status = put_sub_graph(p, value->graph); break;
    case ATTR_LIST: {
      size_t list = proto_begin(p, ATTR_LIST_FIELD);
      for (int i = 0; i < value->list.rank; i++) proto_int(p, LIST_I, value->list.dim[i]);
      proto_end(p, list);
    }
  }
  graphdef_end_attr(p, a);
  if (declared->kind == ATTR_FLOAT && (double)(float)value->f != value->f) {
    a = graphdef_begin_attr(p, GRAPHDEF_F64, declared->name);
    proto_bytes(p, ATTR_S_FIELD, &value->f, sizeof value->f);
    graphdef_end_attr(p, a);
  }
  return status;
}

static shoal_status put_node(proto *p, const node *n) {
  size_t inside = proto_begin(p, GRAPH_NODE);
  proto_text(p, NODE_NAME, n->name);
  proto_text(p, NODE_OP, n->op->name);
  for (int i = 0; i < n->ins; i++) put_value_name(p, NODE_INPUT, n->in[i]);
  for (int i = 0; i < n->n_after; i++) {
    char *words;
    if (asprintf(&words, "^%s", n->after[i]->name) < 0) return status_no_memory();
    proto_text(p, NODE_INPUT, words);
    free(words);
  }
  if (n->device) proto_text(p, NODE_DEVICE, n->device);
  for (int i = 0; i < OP_MAX_ATTRS && n->op->attrs[i].name; i++) TRY(put_attr(p, &n->op->attrs[i], &n->attr[i]));
  for (int i = 0; i < 2; i++) {
    const shoal_value *named = i ? n->offsets : n->initial;
    if (!named) continue;
    graphdef_attr a = graphdef_begin_attr(p, "", i ? GRAPHDEF_OFFSETS : GRAPHDEF_INITIAL);
    put_value_name(p, ATTR_S_FIELD, named);
    graphdef_end_attr(p, a);
  }
  graphdef_attr a = graphdef_begin_attr(p, "", "_output_shapes"); /* for TensorBoard */
  size_t list = proto_begin(p, ATTR_LIST_FIELD);
  for (int i = 0; i < n->outs; i++) graphdef_put_shape(p, LIST_SHAPE, &n->out[i].shape);
  proto_end(p, list);
  graphdef_end_attr(p, a);
  proto_end(p, inside);
  return NULL;
}

shoal_status graphdef_write(const shoal_graph *g, size_t first, proto *out) {
  TRY(shoal_graph_status(g));
  for (size_t i = first; i < g->count; i++) TRY(put_node(out, g->nodes[i]));
  size_t versions = proto_begin(out, GRAPH_VERSIONS);
  proto_int(out, VERSIONS_PRODUCER, GRAPHDEF_PRODUCER);
  proto_end(out, versions);
  return out->failed ? status_no_memory() : NULL;
}
