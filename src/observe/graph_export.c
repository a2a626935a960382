#include "observe/graph_export.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Field numbers of TensorFlow's graph.proto, node_def.proto, attr_value.proto and tensor_shape.proto. */
enum { GRAPH_NODE = 1, GRAPH_VERSIONS = 4, VERSIONS_PRODUCER = 1, PRODUCER = 1 };
enum { NODE_NAME = 1, NODE_OP, NODE_INPUT, NODE_DEVICE, NODE_ATTR };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { ATTR_LIST_FIELD = 1, ATTR_TYPE_FIELD = 6, LIST_SHAPE = 7 };
enum { SHAPE_DIM = 2, DIM_SIZE = 1 };

/* As in TensorFlow's types.proto. */
static const int tensorflow_types[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F32] = 1, [SHOAL_F64] = 2, [SHOAL_I32] = 3, [SHOAL_U8] = 4, [SHOAL_I64] = 9, [SHOAL_BOOL] = 10,
};

#define DEVICE_TEXT 64

static bool in_scope(const node *n, const char *scope) {
  size_t length = strlen(scope);
  for (const char *at = n->name; at; at = strchr(at, '/')) {
    if (*at == '/') at++;
    if (!strncmp(at, scope, length) && at[length] == '/') return true;
  }
  return false;
}

/* Which nodes to show, by id; the caller frees it. NULL: no memory. */
static bool *choose(const shoal_graph *g) {
  bool *shown = calloc(g->count ? g->count : 1, sizeof *shown);
  for (size_t i = g->count; shown && i-- > 0;) { /* inputs have smaller ids */
    const node *n = g->nodes[i];
    if ((n->op->flags & OP_STATEFUL) || n->op->updates || (in_scope(n, "train") && !n->initial)) shown[i] = true;
    for (int k = 0; shown[i] && k < n->ins; k++) shown[n->in[k]->maker->id] = true;
  }
  return shown;
}

static const char *device_of(const graph_export_options *o, const node *n, char buffer[DEVICE_TEXT]) {
  if (n->device) return n->device;
  /* A variable and what changes it are where its server is. */
  const node *variable = n->initial ? n : n->op->updates && n->ins ? n->in[0]->maker : NULL;
  int server = variable && o->server_of ? o->server_of(o->context, &variable->out[0]) : -1;
  if (server < 0) return o->device ? o->device : "";
  snprintf(buffer, DEVICE_TEXT, "/job:ps/task:%d", server);
  return buffer;
}

static const char *part_of(const node *n) {
  if (n->op->flags & OP_SOURCE) return "state";
  bool runs_updates = n->ins > 0 && n->in[0]->maker->op->updates; /* a group of them */
  if (n->op->updates || (n->op->flags & OP_STATEFUL) || runs_updates) return "update";
  return strncmp(n->name, "gradients/", 10) ? "forward" : "gradient";
}

/* "name" or "name:1"; the caller frees it. */
static char *input_name(const shoal_value *v) {
  char *words;
  if (!v->index) return strdup(v->maker->name);
  return asprintf(&words, "%s:%d", v->maker->name, v->index) < 0 ? NULL : words;
}

/* ---- GraphDef */

static void add_shape(proto *p, int field, const shoal_shape *shape) {
  size_t inside = proto_begin(p, field);
  for (int i = 0; i < shape->rank; i++) {
    size_t dim = proto_begin(p, SHAPE_DIM);
    proto_int(p, DIM_SIZE, shape->dim[i]);
    proto_end(p, dim);
  }
  proto_end(p, inside);
}

static void add_node(proto *p, const graph_export_options *o, const node *n) {
  char buffer[DEVICE_TEXT];
  size_t inside = proto_begin(p, GRAPH_NODE);
  proto_text(p, NODE_NAME, n->name);
  proto_text(p, NODE_OP, n->op->name);
  for (int i = 0; i < n->ins; i++) {
    char *name = input_name(n->in[i]);
    if (name)
      proto_text(p, NODE_INPUT, name);
    else
      p->failed = true;
    free(name);
  }
  proto_text(p, NODE_DEVICE, device_of(o, n, buffer));
  size_t entry = proto_begin(p, NODE_ATTR);
  proto_text(p, ENTRY_KEY, "_output_shapes");
  size_t value = proto_begin(p, ENTRY_VALUE), list = proto_begin(p, ATTR_LIST_FIELD);
  for (int i = 0; i < n->outs; i++) add_shape(p, LIST_SHAPE, &n->out[i].shape);
  proto_end(p, list);
  proto_end(p, value);
  proto_end(p, entry);
  entry = proto_begin(p, NODE_ATTR);
  proto_text(p, ENTRY_KEY, "T");
  value = proto_begin(p, ENTRY_VALUE);
  proto_int(p, ATTR_TYPE_FIELD, n->outs ? tensorflow_types[n->out[0].dtype] : 0);
  proto_end(p, value);
  proto_end(p, entry);
  proto_end(p, inside);
}

shoal_status graph_export_def(const shoal_graph *g, const graph_export_options *options, proto *out) {
  bool *shown = choose(g);
  if (!shown) return status_no_memory();
  for (size_t i = 0; i < g->count; i++)
    if (shown[i]) add_node(out, options, g->nodes[i]);
  free(shown);
  size_t versions = proto_begin(out, GRAPH_VERSIONS);
  proto_int(out, VERSIONS_PRODUCER, PRODUCER);
  proto_end(out, versions);
  return out->failed ? status_no_memory() : NULL;
}

/* ---- graph.json */

static json_t *output_json(const shoal_value *v) {
  json_t *shape = json_array();
  for (int i = 0; i < v->shape.rank; i++)
    json_array_append_new(shape, v->shape.dim[i] < 0 ? json_null() : json_integer(v->shape.dim[i]));
  return json_pack("[s, o]", shoal_dtype_name(v->dtype), shape);
}

static json_t *node_json(const graph_export_options *o, const node *n) {
  char buffer[DEVICE_TEXT];
  json_t *inputs = json_array(), *outputs = json_array();
  for (int i = 0; i < n->ins; i++) {
    char *name = input_name(n->in[i]);
    json_array_append_new(inputs, name ? json_string(name) : NULL);
    free(name);
  }
  for (int i = 0; i < n->outs; i++) json_array_append_new(outputs, output_json(&n->out[i]));
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "name", n->name, "op", n->op->name, "device",
                   device_of(o, n, buffer), "part", part_of(n), "inputs", inputs, "outputs", outputs);
}

shoal_status graph_export_json(const shoal_graph *g, const char *model, const graph_export_options *options,
                               json_t **out) {
  bool *shown = choose(g);
  json_t *nodes = json_array();
  bool good = shown && nodes;
  for (size_t i = 0; good && i < g->count; i++)
    if (shown[i]) good = !json_array_append_new(nodes, node_json(options, g->nodes[i]));
  free(shown);
  json_t *all = json_pack("{s:i, s:s, s:o}", "format", 1, "model", model, "nodes", nodes);
  if (!good || !all) {
    json_decref(all);
    return status_no_memory();
  }
  *out = all;
  return NULL;
}
