/* ONNX files as networks: a node becomes the operators that do the same. Weights become variables, so that they can be
 * trained; what is only a list of numbers for a shape stays a constant. The bytes come from outside: whatever they hold,
 * the result is a network or an error. */
#include "base/mem.h"
#include "base/text.h"
#include "exchange/formats.h"
#include "exchange/network.h"
#include "exchange/onnx_reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MAX ((size_t)8 << 30) /* of a file */
enum { OPSET_LEAST = 7 };

shoal_status onnx_wrong(const char *format, ...) {
  va_list args;
  va_start(args, format);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, format, args);
  va_end(args);
  return status;
}

/* ---- values by name */

static shoal_status keep(onnx_reader *r, char *name, shoal_value *value, const shoal_tensor *known) {
  shoal_status status =
      name ? mem_grow((void **)&r->values, &r->cap_values, r->n_values + 1, sizeof *r->values) : status_no_memory();
  if (status) {
    free(name);
    return status;
  }
  r->values[r->n_values++] = (onnx_value){name, value, known ? *known : (shoal_tensor){0}, false};
  return NULL;
}

onnx_value *onnx_find(const onnx_reader *r, const char *name) {
  for (size_t i = r->n_values; i-- > 0;)
    if (!strcmp(r->values[i].name, name)) return &r->values[i];
  return NULL;
}

shoal_status onnx_give(onnx_reader *r, const onnx_node *n, size_t i, shoal_value *value) {
  if (i >= n->n_outputs || !*n->outputs[i]) return NULL;
  TRY(shoal_graph_status(r->graph));
  return keep(r, strdup(n->outputs[i]), value, NULL);
}

shoal_status onnx_give_constant(onnx_reader *r, const onnx_node *n, shoal_tensor *t) {
  shoal_status status = keep(r, strdup(n->outputs[0]), NULL, t);
  if (status) shoal_tensor_fini(t);
  return status;
}

/* The value of an input; constants become part of the graph when somebody asks for them. */
shoal_status onnx_input(onnx_reader *r, const onnx_node *n, size_t i, shoal_value **out) {
  if (i >= n->n_inputs || !*n->inputs[i]) return onnx_wrong("input %zu is missing", i);
  onnx_value *v = onnx_find(r, n->inputs[i]);
  if (!v) return onnx_wrong("input '%s' is not the output of an earlier node", n->inputs[i]);
  if (!v->value) {
    const shoal_tensor *t = &v->known;
    v->value = shoal_constant(r->graph, t);
    const bool trained = t->dtype == SHOAL_F32 && t->shape.rank > 0 && shoal_tensor_count(t) > 1;
    if (trained) v->value = shoal_variable(r->graph, v->name, v->value);
    TRY(shoal_graph_status(r->graph));
  }
  *out = v->value;
  return NULL;
}

bool onnx_has(const onnx_node *n, size_t i) { return i < n->n_inputs && *n->inputs[i]; }

/* Numbers that must be known when the graph is made. */
shoal_status onnx_numbers(const onnx_reader *r, const onnx_node *n, size_t i, const shoal_tensor **out) {
  const onnx_value *v = onnx_has(n, i) ? onnx_find(r, n->inputs[i]) : NULL;
  if (!v || !v->known.data)
    return onnx_wrong("input %zu must be a constant: simplify the model first (onnx.utils, onnxsim)", i);
  *out = &v->known;
  return NULL;
}

/* Not by way of a double, in which the largest whole number, ONNX's word for the end, is beyond all of 64 bits. */
static int64_t whole_number(const shoal_tensor *t, int64_t i) {
  if (t->dtype == SHOAL_I64) return ((const int64_t *)t->data)[i];
  const double value = shoal_tensor_get(t, i);
  return value >= 0x1p62 ? INT64_MAX : value <= -0x1p62 ? INT64_MIN : (int64_t)value;
}

shoal_status onnx_list(const onnx_reader *r, const onnx_node *n, size_t i, shoal_shape *out) {
  const shoal_tensor *t;
  TRY(onnx_numbers(r, n, i, &t));
  const int64_t count = shoal_tensor_count(t);
  if (count > SHOAL_MAX_RANK)
    return onnx_wrong("input %zu has %lld numbers, more than a shape has", i, (long long)count);
  out->rank = (int)count;
  for (int k = 0; k < out->rank; k++) out->dim[k] = whole_number(t, k);
  return NULL;
}

/* ---- attributes */

static const onnx_attribute *attribute(const onnx_node *n, const char *name) {
  for (size_t i = 0; i < n->n_attributes; i++)
    if (!strcmp(n->attributes[i].name, name)) return &n->attributes[i];
  return NULL;
}

int64_t onnx_int_of(const onnx_node *n, const char *name, int64_t standard) {
  const onnx_attribute *a = attribute(n, name);
  return a ? a->i : standard;
}
double onnx_float_of(const onnx_node *n, const char *name, double standard) {
  const onnx_attribute *a = attribute(n, name);
  return a ? a->f : standard;
}
const char *onnx_text_of(const onnx_node *n, const char *name) {
  const onnx_attribute *a = attribute(n, name);
  return a ? a->s : NULL;
}
bool onnx_list_of(const onnx_node *n, const char *name, shoal_shape *out) {
  const onnx_attribute *a = attribute(n, name);
  if (a) *out = a->list;
  return a != NULL;
}
const shoal_tensor *onnx_tensor_of(const onnx_node *n, const char *name) {
  const onnx_attribute *a = attribute(n, name);
  return a && a->tensor.data ? &a->tensor : NULL;
}

/* ---- messages */

static shoal_status read_words(const proto_reader *r, char **out) {
  char *words = proto_as_text(r);
  if (!words) return onnx_wrong("a name is not valid text");
  free(*out);
  *out = words;
  return NULL;
}

static shoal_status add_number(shoal_shape *list, int64_t number) {
  if (list->rank == SHOAL_MAX_RANK) return onnx_wrong("a list of more than %d numbers", SHOAL_MAX_RANK);
  list->dim[list->rank++] = number;
  return NULL;
}

/* A number, or several that are packed. */
static shoal_status add_numbers(const proto_reader *r, shoal_shape *list) {
  if (!r->bytes) return add_number(list, (int64_t)r->number);
  proto_reader packed = proto_inside(r);
  int64_t number;
  while (proto_next_packed(&packed, &number)) TRY(add_number(list, number));
  return packed.wrong ? onnx_wrong("malformed list") : NULL;
}

/* Element i of numbers that are not raw: floats and doubles as they lie, integers packed. */
static shoal_status fill_packed(proto_reader r, int field, shoal_tensor *t) {
  const int64_t count = shoal_tensor_count(t);
  int64_t at = 0;
  while (proto_next(&r)) {
    if (r.field != field) continue;
    if (field == ONNX_TENSOR_FLOATS || field == ONNX_TENSOR_DOUBLES) {
      const size_t size = field == ONNX_TENSOR_FLOATS ? 4 : 8;
      if (!r.bytes && at < count)
        shoal_tensor_set(t, at++, size == 4 ? (double)proto_as_float(&r) : proto_as_double(&r));
      for (size_t k = 0; r.bytes && k + size <= r.length && at < count; k += size) {
        float single = 0;
        double wide = 0;
        memcpy(size == 4 ? (void *)&single : (void *)&wide, r.bytes + k, size);
        shoal_tensor_set(t, at++, size == 4 ? (double)single : wide);
      }
      continue;
    }
    int64_t number;
    proto_reader packed = proto_inside(&r);
    if (!r.bytes && at < count) shoal_tensor_set(t, at++, (double)(int64_t)r.number);
    while (r.bytes && at < count && proto_next_packed(&packed, &number)) shoal_tensor_set(t, at++, (double)number);
  }
  return at == count ? NULL : onnx_wrong("a tensor of %lld numbers has %lld", (long long)count, (long long)at);
}

/* A TensorProto; *name may stay NULL. */
static shoal_status read_tensor(proto_reader r, char **name, shoal_tensor *out) {
  const proto_reader whole = r;
  shoal_shape shape = SHOAL_SCALAR;
  uint64_t type = 0;
  const uint8_t *raw = NULL;
  size_t length = 0;
  int field = 0;
  while (proto_next(&r)) {
    if (r.field == ONNX_TENSOR_DIMS) TRY(add_numbers(&r, &shape));
    if (r.field == ONNX_TENSOR_TYPE) type = r.number;
    if (r.field == ONNX_TENSOR_NAME) TRY(read_words(&r, name));
    if (r.field == ONNX_TENSOR_LOCATION && r.number)
      return onnx_wrong("weights in files beside it are not read: save the model as one file");
    if (r.field == ONNX_TENSOR_RAW) raw = r.bytes, length = r.length;
    if (r.field == ONNX_TENSOR_FLOATS || r.field == ONNX_TENSOR_INT32S || r.field == ONNX_TENSOR_INT64S ||
        r.field == ONNX_TENSOR_DOUBLES)
      field = r.field;
  }
  if (r.wrong) return onnx_wrong("malformed tensor");
  int dtype = 0;
  while (dtype < SHOAL_DTYPE_COUNT && (uint64_t)onnx_types[dtype] != type) dtype++;
  if (dtype == SHOAL_DTYPE_COUNT)
    return onnx_wrong("a tensor of the type %llu, which is not read", (unsigned long long)type);
  size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] < 0 || __builtin_mul_overflow(bytes, (size_t)shape.dim[i], &bytes))
      return onnx_wrong("a tensor of an impossible shape");
  const size_t there = (size_t)(whole.end - whole.at);
  if (raw ? bytes != length : bytes > mem_times(there, 8) + 8)
    return onnx_wrong("a tensor of %zu bytes has %zu", bytes, raw ? length : there);
  TRY(shoal_tensor_create((shoal_dtype)dtype, shape, out));
  shoal_status status = NULL;
  if (raw && bytes) memcpy(out->data, raw, bytes);
  if (!raw && bytes) status = fill_packed(whole, field, out);
  if (status) shoal_tensor_fini(out);
  return status;
}

static shoal_status read_attribute(proto_reader r, onnx_attribute *a) {
  char *ignored = NULL;
  shoal_status status = NULL;
  while (!status && proto_next(&r)) {
    if (r.field == ONNX_ATTR_NAME) status = read_words(&r, &a->name);
    if (r.field == ONNX_ATTR_F) a->f = (double)proto_as_float(&r);
    if (r.field == ONNX_ATTR_I) a->i = (int64_t)r.number;
    if (r.field == ONNX_ATTR_S || r.field == ONNX_ATTR_STRINGS) status = read_words(&r, &a->s);
    if (r.field == ONNX_ATTR_INTS) status = add_numbers(&r, &a->list);
    if (r.field == ONNX_ATTR_T && !a->tensor.data) status = read_tensor(proto_inside(&r), &ignored, &a->tensor);
  }
  free(ignored);
  if (!status && (r.wrong || !a->name)) status = onnx_wrong("malformed attribute");
  return status;
}

static void node_fini(onnx_node *n) {
  for (size_t i = 0; i < n->n_inputs; i++) free(n->inputs[i]);
  for (size_t i = 0; i < n->n_outputs; i++) free(n->outputs[i]);
  for (size_t i = 0; i < n->n_attributes; i++) {
    free(n->attributes[i].name);
    free(n->attributes[i].s);
    if (n->attributes[i].tensor.data) shoal_tensor_fini(&n->attributes[i].tensor);
  }
  free(n->inputs);
  free(n->outputs);
  free(n->attributes);
  free(n->op);
  free(n->name);
  free(n->domain);
}

static shoal_status add_word(const proto_reader *r, char ***list, size_t *n, size_t *cap) {
  TRY(mem_grow((void **)list, cap, *n + 1, sizeof **list));
  (*list)[*n] = proto_as_text(r);
  if (!(*list)[*n]) return onnx_wrong("a name is not valid text");
  ++*n;
  return NULL;
}

static shoal_status read_node(proto_reader r, onnx_node *n) {
  size_t cap_inputs = 0, cap_outputs = 0, cap_attributes = 0;
  while (proto_next(&r)) {
    if (r.field == ONNX_NODE_INPUT) TRY(add_word(&r, &n->inputs, &n->n_inputs, &cap_inputs));
    if (r.field == ONNX_NODE_OUTPUT) TRY(add_word(&r, &n->outputs, &n->n_outputs, &cap_outputs));
    if (r.field == ONNX_NODE_OP) TRY(read_words(&r, &n->op));
    if (r.field == ONNX_NODE_NAME) TRY(read_words(&r, &n->name));
    if (r.field == ONNX_NODE_DOMAIN) TRY(read_words(&r, &n->domain));
    if (r.field == ONNX_NODE_ATTRIBUTE) {
      TRY(mem_grow((void **)&n->attributes, &cap_attributes, n->n_attributes + 1, sizeof *n->attributes));
      TRY(read_attribute(proto_inside(&r), &n->attributes[n->n_attributes++]));
    }
  }
  if (r.wrong || !n->op || !n->n_outputs) return onnx_wrong("malformed node");
  return NULL;
}

/* ---- the graph */

static shoal_status make_node(onnx_reader *r, proto_reader message) {
  onnx_node n = {0};
  shoal_status status = read_node(message, &n);
  if (!status && n.domain && *n.domain && strcmp(n.domain, "ai.onnx"))
    status = onnx_wrong("operators of %s are not supported", n.domain);
  if (!status) status = onnx_read_node(r, &n);
  if (!status) status = shoal_graph_status(r->graph);
  status = status_wrap(status, "node '%.100s' (%.100s)",
                       n.name        ? n.name
                       : n.n_outputs ? n.outputs[0]
                                     : "?",
                       n.op ? n.op : "?");
  node_fini(&n);
  return status;
}

static shoal_status read_dims(proto_reader r, shoal_shape *out) {
  while (proto_next(&r)) {
    if (r.field != ONNX_SHAPE_DIM) continue;
    proto_reader dim = proto_inside(&r);
    int64_t size = SHOAL_UNKNOWN;
    while (proto_next(&dim))
      if (dim.field == ONNX_DIM_VALUE) size = (int64_t)dim.number;
    if (dim.wrong || size < SHOAL_UNKNOWN) return onnx_wrong("malformed dimension");
    TRY(add_number(out, size));
  }
  return r.wrong ? onnx_wrong("malformed shape") : NULL;
}

/* A ValueInfoProto: *name is the caller's. */
static shoal_status read_port(proto_reader r, char **name, uint64_t *type, shoal_shape *shape) {
  while (proto_next(&r)) {
    if (r.field == ONNX_VALUE_NAME) TRY(read_words(&r, name));
    if (r.field != ONNX_VALUE_TYPE) continue;
    proto_reader kind = proto_inside(&r);
    while (proto_next(&kind)) {
      if (kind.field != ONNX_TYPE_TENSOR) continue;
      proto_reader tensor = proto_inside(&kind);
      while (proto_next(&tensor)) {
        if (tensor.field == ONNX_TENSOR_TYPE_ELEMENT) *type = tensor.number;
        if (tensor.field == ONNX_TENSOR_TYPE_SHAPE) TRY(read_dims(proto_inside(&tensor), shape));
      }
    }
  }
  return r.wrong || !*name ? onnx_wrong("malformed input or output") : NULL;
}

static shoal_status make_input(onnx_reader *r, proto_reader message) {
  char *name = NULL;
  shoal_shape shape = SHOAL_SCALAR;
  uint64_t type = 0;
  shoal_status status = read_port(message, &name, &type, &shape);
  if (!status && onnx_find(r, name)) { /* older files list weights among the inputs */
    free(name);
    return NULL;
  }
  int dtype = 0;
  while (dtype < SHOAL_DTYPE_COUNT && (uint64_t)onnx_types[dtype] != type) dtype++;
  if (!status && dtype == SHOAL_DTYPE_COUNT) status = onnx_wrong("input '%s' is of a type that is not read", name);
  if (!status && shape.rank == 0) status = onnx_wrong("input '%s' has no shape", name);
  if (!status && shape.dim[0] >= 0) shape.dim[0] = SHOAL_UNKNOWN; /* any number of rows */
  for (int i = 1; i < shape.rank && !status; i++)
    if (shape.dim[i] == SHOAL_UNKNOWN) status = onnx_wrong("input '%s': axis %d has no fixed size", name, i);
  shoal_value *value = !status ? shoal_placeholder(r->graph, name, (shoal_dtype)dtype, shape) : NULL;
  if (!status) status = shoal_graph_status(r->graph);
  if (!status) status = network_add(&r->network->inputs, name, value);
  if (status) {
    free(name);
    return status;
  }
  return keep(r, name, value, NULL);
}

static shoal_status make_output(onnx_reader *r, proto_reader message) {
  char *name = NULL;
  shoal_shape shape = SHOAL_SCALAR;
  uint64_t type = 0;
  shoal_status status = read_port(message, &name, &type, &shape);
  const onnx_value *v = !status ? onnx_find(r, name) : NULL;
  if (!status && (!v || !v->value)) status = onnx_wrong("the output '%s' is not computed", name);
  if (!status) status = network_add(&r->network->outputs, name, v->value);
  free(name);
  return status;
}

static shoal_status make_initializer(onnx_reader *r, proto_reader message) {
  char *name = NULL;
  shoal_tensor t;
  shoal_status status = read_tensor(message, &name, &t);
  if (!status && name) return keep(r, name, NULL, &t);
  if (!status) {
    shoal_tensor_fini(&t);
    status = onnx_wrong("a tensor without a name");
  }
  free(name);
  return status;
}

/* Weights first, then inputs, nodes, outputs, wherever they stand. */
static shoal_status read_graph(onnx_reader *r, proto_reader graph) {
  static const struct {
    int field;
    shoal_status (*make)(onnx_reader *r, proto_reader message);
  } parts[] = {{ONNX_GRAPH_INITIALIZER, make_initializer},
               {ONNX_GRAPH_INPUT, make_input},
               {ONNX_GRAPH_NODE, make_node},
               {ONNX_GRAPH_OUTPUT, make_output}};
  for (size_t i = 0; i < COUNT_OF(parts); i++) {
    proto_reader again = graph;
    while (proto_next(&again))
      if (again.field == parts[i].field) TRY(parts[i].make(r, proto_inside(&again)));
    if (again.wrong) return onnx_wrong("the graph is cut short or damaged");
  }
  if (!r->network->inputs.n || !r->network->outputs.n) return onnx_wrong("it has no inputs or no outputs");
  return NULL;
}

static shoal_status read_model(onnx_reader *r, const uint8_t *bytes, size_t n) {
  proto_reader m = proto_read(bytes, n), graph = {0};
  bool found = false;
  while (proto_next(&m)) {
    if (m.field == ONNX_GRAPH) {
      graph = proto_inside(&m);
      found = true;
    }
    if (m.field != ONNX_OPSET) continue;
    proto_reader opset = proto_inside(&m);
    bool own = true;
    int64_t version = 0;
    while (proto_next(&opset)) {
      if (opset.field == ONNX_OPSET_DOMAIN) own = !opset.length;
      if (opset.field == ONNX_OPSET_VERSION) version = (int64_t)opset.number;
    }
    if (own) r->opset = version;
  }
  if (m.wrong || !found) return onnx_wrong("is not an ONNX file, or is cut short");
  if (r->opset < OPSET_LEAST)
    return onnx_wrong("opset %lld is too old: convert it to %d or newer", (long long)r->opset, OPSET_LEAST);
  return read_graph(r, graph);
}

static shoal_status read_bytes(const char *path, uint8_t **bytes, size_t *n) {
  FILE *f = fopen(path, "rbe");
  if (!f) return onnx_wrong("cannot open it: %s", strerror(errno));
  size_t capacity = 0, length = 0, got = 1;
  shoal_status status = NULL;
  while (!status && got && length < BYTES_MAX) {
    status = mem_grow((void **)bytes, &capacity, length + (1 << 20), 1);
    if (!status) length += got = fread(*bytes + length, 1, 1 << 20, f);
  }
  if (!status && ferror(f)) status = onnx_wrong("cannot read it");
  fclose(f);
  *n = length;
  return status;
}

static shoal_status make_network(const uint8_t *bytes, size_t n, shoal_network *network) {
  onnx_reader r = {.network = network};
  shoal_status status = shoal_graph_create(&network->graph);
  r.graph = network->graph;
  if (!status) status = read_model(&r, bytes, n);
  if (!status) status = network_start(network);
  for (size_t i = 0; i < r.n_values; i++) {
    free(r.values[i].name);
    if (r.values[i].known.data) shoal_tensor_fini(&r.values[i].known);
  }
  free(r.values);
  return status;
}

shoal_status onnx_import(const char *path, shoal_network **out) {
  uint8_t *bytes = NULL;
  size_t n = 0;
  shoal_network *network = NULL;
  shoal_status status = read_bytes(path, &bytes, &n);
  if (!status) status = network_create(&network);
  if (!status) status = make_network(bytes, n, network);
  free(bytes);
  if (!status) {
    *out = network;
    return NULL;
  }
  shoal_network_destroy(network);
  /* The shape rules say ARGUMENT, as for a program; here it is the file. */
  shoal_status input = shoal_status_code(status) == SHOAL_ERR_ARGUMENT
                           ? status_make(SHOAL_ERR_INPUT, "%s: %s", path, shoal_status_message(status))
                           : NULL;
  if (!input) return status_wrap(status, "%s", path);
  shoal_status_free(status);
  return input;
}
