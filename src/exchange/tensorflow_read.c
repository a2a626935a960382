/* Frozen GraphDefs of TensorFlow as networks: placeholders are the inputs, and what no other node uses the outputs. Constants
 * become variables where they are weights. The bytes come from outside: whatever they hold, the result is a network or an
 * error. A GraphDef with Shoal's own operators (docs/graphs.md) is one, too. */
#include "base/mem.h"
#include "base/text.h"
#include "exchange/formats.h"
#include "exchange/graph_reader.h"
#include "graph/graphdef.h"
#include "graph/graphdef_fields.h"

#include <ctype.h>
#include <string.h>

enum { NODES_MAX = 1000000 };
#define SPREAD ((size_t)1 << 18) /* bytes that a few numbers of a constant may stand for */

/* A node of the file, and how far it has come. */
typedef struct {
  reader_node node;
  size_t cap_inputs, cap_attributes;
  bool used; /* by another one */
  enum { WAITING, UNDER_WAY, MADE } state;
  uint64_t hash;
} tf_node;

typedef struct {
  graph_reader *reader;
  tf_node *nodes;
  size_t n, cap;
  size_t *index; /* [n_index] by hash of the name: number of the node + 1; 0: free */
  size_t n_index;
} tf_file;

/* ---- messages */

static shoal_status read_list(proto_reader r, reader_attribute *a) {
  while (proto_next(&r)) {
    if (r.field != LIST_I) continue;
    proto_reader packed = proto_inside(&r);
    int64_t number = (int64_t)r.number;
    while (!r.bytes || proto_next_packed(&packed, &number)) {
      if (a->n_ints == (int)COUNT_OF(a->ints)) return reader_wrong("a list of more than %d numbers", a->n_ints);
      a->ints[a->n_ints++] = number;
      if (!r.bytes) break;
    }
    if (r.bytes && packed.wrong) return reader_wrong("malformed list");
  }
  a->list.rank = MIN_OF(a->n_ints, SHOAL_MAX_RANK);
  memcpy(a->list.dim, a->ints, (size_t)a->list.rank * sizeof *a->ints);
  return r.wrong ? reader_wrong("malformed list") : NULL;
}

/* A shape without a number of dimensions has n_ints -1. Types are kept as TensorFlow numbers them. */
static shoal_status read_value(proto_reader r, reader_attribute *a) {
  bool known;
  while (proto_next(&r)) {
    if (r.field == ATTR_F_FIELD) a->f = (double)proto_as_float(&r);
    if (r.field == ATTR_I_FIELD || r.field == ATTR_B_FIELD || r.field == ATTR_TYPE_FIELD) a->i = (int64_t)r.number;
    if (r.field == ATTR_S_FIELD) {
      free(a->s); /* may be any bytes: texts alone are of interest */
      a->s = proto_as_text(&r);
    }
    if (r.field == ATTR_LIST_FIELD) TRY(read_list(proto_inside(&r), a));
    if (r.field == ATTR_SHAPE_FIELD) {
      TRY(graphdef_read_shape(proto_inside(&r), &a->list, &known));
      if (!known) a->n_ints = -1;
    }
    if (r.field == ATTR_TENSOR_FIELD && !a->tensor.data)
      TRY(graphdef_read_tensor(proto_inside(&r), SPREAD, &a->tensor));
  }
  return r.wrong ? reader_wrong("malformed value") : NULL;
}

static shoal_status read_attribute(proto_reader r, reader_attribute *a) {
  proto_reader value = {0};
  while (proto_next(&r)) {
    if (r.field == ENTRY_KEY) TRY(reader_words(&r, &a->name));
    if (r.field == ENTRY_VALUE) value = proto_inside(&r);
  }
  if (r.wrong || !a->name) return reader_wrong("malformed attribute");
  /* What says nothing about the numbers: functions, classes, devices. */
  if (*a->name == '_') return NULL;
  return status_wrap(read_value(value, a), "attribute '%.100s'", a->name);
}

static shoal_status read_node(proto_reader r, tf_node *t) {
  reader_node *n = &t->node;
  while (proto_next(&r)) {
    if (r.field == NODE_NAME) TRY(reader_words(&r, &n->name));
    if (r.field == NODE_OP) TRY(reader_words(&r, &n->op));
    if (r.field == NODE_INPUT) TRY(reader_add_word(&r, &n->inputs, &n->n_inputs, &t->cap_inputs));
    if (r.field == NODE_ATTR) {
      TRY(mem_grow((void **)&n->attributes, &t->cap_attributes, n->n_attributes + 1, sizeof *n->attributes));
      n->attributes[n->n_attributes] = (reader_attribute){0};
      TRY(read_attribute(proto_inside(&r), &n->attributes[n->n_attributes++]));
    }
  }
  if (r.wrong || !n->name || !*n->name || !n->op) return reader_wrong("malformed node");
  return NULL;
}

/* ---- nodes by name */

static uint64_t hash_of(const char *name) {
  uint64_t h = 1469598103934665603u;
  for (; *name; name++) h = (h ^ (uint8_t)*name) * 1099511628211u;
  return h;
}

static tf_node *find_node(const tf_file *f, const char *name) {
  const uint64_t hash = hash_of(name);
  for (size_t at = (size_t)hash & (f->n_index - 1); f->index[at]; at = (at + 1) & (f->n_index - 1)) {
    tf_node *t = &f->nodes[f->index[at] - 1];
    if (t->hash == hash && !strcmp(t->node.name, name)) return t;
  }
  return NULL;
}

static shoal_status index_nodes(tf_file *f) {
  f->n_index = 16;
  while (f->n_index < 2 * f->n + 2) f->n_index *= 2;
  if (!(f->index = calloc(f->n_index, sizeof *f->index))) return status_no_memory();
  for (size_t i = 0; i < f->n; i++) {
    tf_node *t = &f->nodes[i];
    if (find_node(f, t->node.name)) return reader_wrong("two nodes are called '%.100s'", t->node.name);
    t->hash = hash_of(t->node.name);
    size_t at = (size_t)t->hash & (f->n_index - 1);
    while (f->index[at]) at = (at + 1) & (f->n_index - 1);
    f->index[at] = i + 1;
  }
  return NULL;
}

/* Inputs are "NAME", "NAME:OUTPUT" or "^NAME", which only waits; here each is the name of a value: "NAME" for output 0. */
static shoal_status resolve_inputs(tf_file *f, tf_node *t) {
  reader_node *n = &t->node;
  size_t kept = 0;
  for (size_t i = 0; i < n->n_inputs; i++) {
    char *name = n->inputs[i];
    if (*name == '^') {
      free(name);
      continue;
    }
    n->inputs[kept++] = name;
    char *colon = strrchr(name, ':');
    int64_t output = 0;
    if (colon && text_to_int(colon + 1, &output)) *colon = 0;
    tf_node *from = find_node(f, name);
    if (from) from->used = true;
    if (from && colon && output) *colon = ':';
    if (!from) {
      shoal_status status = reader_wrong("its input '%.100s' is no node of the graph", name);
      while (++i < n->n_inputs) n->inputs[kept++] = n->inputs[i];
      n->n_inputs = kept;
      return status;
    }
  }
  n->n_inputs = kept;
  return NULL;
}

/* ---- making them */

static shoal_status make_input(graph_reader *r, const reader_node *n) {
  const reader_attribute *shape = reader_attribute_of(n, "shape");
  shoal_dtype dtype;
  TRY(graphdef_read_dtype((uint64_t)reader_int_of(n, "dtype", 1), &dtype));
  if (!shape || shape->n_ints < 0 || !shape->list.rank)
    return reader_wrong("it has no shape: freeze the model with the shape of its inputs");
  shoal_shape s = shape->list;
  s.dim[0] = SHOAL_UNKNOWN; /* any number of rows */
  for (int i = 1; i < s.rank; i++)
    if (s.dim[i] < 1) return reader_wrong("axis %d has no fixed size", i);
  shoal_value *value = shoal_placeholder(r->graph, n->name, dtype, s);
  TRY(shoal_graph_status(r->graph));
  TRY(network_add(&r->network->inputs, n->name, value));
  return reader_keep(r, strdup(n->name), value, NULL, false);
}

static shoal_status make_constant(graph_reader *r, const reader_node *n) {
  reader_attribute *a = (reader_attribute *)reader_attribute_of(n, "value");
  if (!a || !a->tensor.data) return reader_wrong("a constant without a value");
  char *name = strdup(n->name);
  TRY(reader_keep(r, name, NULL, &a->tensor, true));
  a->tensor.data = NULL; /* it is the reader's now */
  return NULL;
}

/* A result's name: "NAME", "NAME:1" ... */
static shoal_status name_outputs(reader_node *n) {
  enum { OUTPUTS = OP_MAX_OUTPUTS };
  n->outputs = calloc(OUTPUTS, sizeof *n->outputs);
  if (!n->outputs) return status_no_memory();
  for (n->n_outputs = 0; n->n_outputs < OUTPUTS; n->n_outputs++) {
    char *name = NULL;
    if (asprintf(&name, n->n_outputs ? "%s:%zu" : "%s", n->name, n->n_outputs) < 0) return status_no_memory();
    n->outputs[n->n_outputs] = name;
  }
  return NULL;
}

static shoal_status make_node(graph_reader *r, tf_node *t) {
  reader_node *n = &t->node;
  shoal_status status;
  if (!strcmp(n->op, "Placeholder")) {
    status = make_input(r, n);
  } else if (!strcmp(n->op, "Const")) {
    status = make_constant(r, n);
  } else if (!strcmp(n->op, "NoOp")) {
    status = NULL;
  } else {
    status = name_outputs(n);
    if (!status) status = tensorflow_read_node(r, n);
  }
  if (!status) status = shoal_graph_status(r->graph);
  t->state = MADE;
  return status_wrap(status, "node '%.100s' (%.100s)", n->name, n->op);
}

/* A node after its inputs, wherever the file has them. stack [f->n]. */
static shoal_status make_from(tf_file *f, size_t first, size_t *stack) {
  size_t depth = 0;
  stack[depth++] = first;
  f->nodes[first].state = UNDER_WAY;
  while (depth) {
    tf_node *t = &f->nodes[stack[depth - 1]];
    tf_node *next = NULL;
    for (size_t i = 0; i < t->node.n_inputs && !next; i++) {
      char *colon = strrchr(t->node.inputs[i], ':');
      if (colon) *colon = 0;
      tf_node *from = find_node(f, t->node.inputs[i]);
      if (colon) *colon = ':';
      if (from && from->state == UNDER_WAY)
        return reader_wrong("node '%.100s' needs its own result: loops are not read", t->node.name);
      if (from && from->state == WAITING) next = from;
    }
    if (next) {
      next->state = UNDER_WAY;
      stack[depth++] = (size_t)(next - f->nodes);
      continue;
    }
    TRY(make_node(f->reader, t));
    depth--;
  }
  return NULL;
}

/* What nobody uses is an output; nodes with side effects alone, and constants, are none. */
static shoal_status take_outputs(tf_file *f) {
  shoal_network *network = f->reader->network;
  for (size_t i = 0; i < f->n; i++) {
    const tf_node *t = &f->nodes[i];
    const reader_value *v = t->used ? NULL : reader_find(f->reader, t->node.name);
    if (v && v->value && !strcmp(t->node.op, "Placeholder")) continue;
    if (v && v->value) TRY(network_add(&network->outputs, t->node.name, v->value));
  }
  if (!network->inputs.n || !network->outputs.n) return reader_wrong("it has no placeholders or no outputs");
  return NULL;
}

static shoal_status read_file(tf_file *f, proto_reader r) {
  while (proto_next(&r)) {
    if (r.field != GRAPH_NODE) continue;
    if (f->n == NODES_MAX) return reader_wrong("more than %d nodes", NODES_MAX);
    TRY(mem_grow((void **)&f->nodes, &f->cap, f->n + 1, sizeof *f->nodes));
    tf_node *t = &f->nodes[f->n++];
    *t = (tf_node){0};
    TRY(status_wrap(read_node(proto_inside(&r), t), "node '%.100s'", t->node.name ? t->node.name : "?"));
  }
  if (r.wrong || !f->n) return reader_wrong("not a GraphDef, or cut short");
  TRY(index_nodes(f));
  for (size_t i = 0; i < f->n; i++)
    TRY(status_wrap(resolve_inputs(f, &f->nodes[i]), "node '%.100s'", f->nodes[i].node.name));
  size_t *stack = calloc(f->n, sizeof *stack);
  shoal_status status = stack ? NULL : status_no_memory();
  for (size_t i = 0; i < f->n && !status; i++)
    if (f->nodes[i].state == WAITING) status = make_from(f, i, stack);
  free(stack);
  return status ? status : take_outputs(f);
}

/* ---- Shoal's own operators */

/* Those have small letters. */
static bool is_own(proto_reader r) {
  while (proto_next(&r)) {
    if (r.field != GRAPH_NODE) continue;
    proto_reader one = proto_inside(&r);
    while (proto_next(&one))
      if (one.field == NODE_OP && one.bytes && one.length) return islower(one.bytes[0]);
  }
  return false;
}

static shoal_status read_own(graph_reader *r, const uint8_t *bytes, size_t n) {
  TRY(graphdef_read(r->graph, bytes, n));
  for (int part = SHOAL_GRAPH_PLACEHOLDERS; part <= SHOAL_GRAPH_RESULTS; part++) {
    if (part == SHOAL_GRAPH_VARIABLES) continue;
    network_ports *ports = part == SHOAL_GRAPH_RESULTS ? &r->network->outputs : &r->network->inputs;
    for (shoal_value *v = NULL; (v = shoal_graph_next(r->graph, (shoal_graph_part)part, v));)
      TRY(network_add(ports, shoal_value_name(v), v));
  }
  if (!r->network->inputs.n || !r->network->outputs.n) return reader_wrong("it has no placeholders or no outputs");
  return NULL;
}

static shoal_status read_graph(graph_reader *r, const uint8_t *bytes, size_t n) {
  if (is_own(proto_read(bytes, n))) return read_own(r, bytes, n);
  tf_file f = {.reader = r};
  shoal_status status = read_file(&f, proto_read(bytes, n));
  for (size_t i = 0; i < f.n; i++) reader_node_fini(&f.nodes[i].node);
  free(f.nodes);
  free(f.index);
  return status;
}

shoal_status tensorflow_import(const char *path, shoal_network **out) { return reader_import(path, read_graph, out); }
