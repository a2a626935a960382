/* ONNX files as networks: a node becomes the operators that do the same. Weights become variables, so that they can be
 * trained; what is only a list of numbers for a shape stays a constant. The bytes come from outside: whatever they hold,
 * the result is a network or an error. */
#include "base/mem.h"
#include "exchange/formats.h"
#include "exchange/graph_reader.h"
#include "exchange/network.h"
#include "exchange/onnx.h"

#include <string.h>

enum { OPSET_LEAST = 7 };

/* ---- messages */

/* A number, or several that are packed. */
static shoal_status add_numbers(const proto_reader *r, shoal_shape *list) {
  if (!r->bytes) return reader_add_number(list, (int64_t)r->number);
  proto_reader packed = proto_inside(r);
  int64_t number;
  while (proto_next_packed(&packed, &number)) TRY(reader_add_number(list, number));
  return packed.wrong ? reader_wrong("malformed list") : NULL;
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
  return at == count ? NULL : reader_wrong("a tensor of %lld numbers has %lld", (long long)count, (long long)at);
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
    if (r.field == ONNX_TENSOR_NAME) TRY(reader_words(&r, name));
    if (r.field == ONNX_TENSOR_LOCATION && r.number)
      return reader_wrong("weights in files beside it are not read: save the model as one file");
    if (r.field == ONNX_TENSOR_RAW) raw = r.bytes, length = r.length;
    if (r.field == ONNX_TENSOR_FLOATS || r.field == ONNX_TENSOR_INT32S || r.field == ONNX_TENSOR_INT64S ||
        r.field == ONNX_TENSOR_DOUBLES)
      field = r.field;
  }
  if (r.wrong) return reader_wrong("malformed tensor");
  int dtype = 0;
  while (dtype < SHOAL_DTYPE_COUNT && (uint64_t)onnx_types[dtype] != type) dtype++;
  if (dtype == SHOAL_DTYPE_COUNT)
    return reader_wrong("a tensor of the type %llu, which is not read", (unsigned long long)type);
  size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] < 0 || __builtin_mul_overflow(bytes, (size_t)shape.dim[i], &bytes))
      return reader_wrong("a tensor of an impossible shape");
  const size_t there = (size_t)(whole.end - whole.at);
  if (raw ? bytes != length : bytes > mem_times(there, 8) + 8)
    return reader_wrong("a tensor of %zu bytes has %zu", bytes, raw ? length : there);
  TRY(shoal_tensor_create((shoal_dtype)dtype, shape, out));
  shoal_status status = NULL;
  if (raw && bytes) memcpy(out->data, raw, bytes);
  if (!raw && bytes) status = fill_packed(whole, field, out);
  if (status) shoal_tensor_fini(out);
  return status;
}

static shoal_status read_attribute(proto_reader r, reader_attribute *a) {
  char *ignored = NULL;
  shoal_status status = NULL;
  while (!status && proto_next(&r)) {
    if (r.field == ONNX_ATTR_NAME) status = reader_words(&r, &a->name);
    if (r.field == ONNX_ATTR_F) a->f = (double)proto_as_float(&r);
    if (r.field == ONNX_ATTR_I) a->i = (int64_t)r.number;
    if (r.field == ONNX_ATTR_S || r.field == ONNX_ATTR_STRINGS) status = reader_words(&r, &a->s);
    if (r.field == ONNX_ATTR_INTS) status = add_numbers(&r, &a->list);
    if (r.field == ONNX_ATTR_T && !a->tensor.data) status = read_tensor(proto_inside(&r), &ignored, &a->tensor);
  }
  free(ignored);
  if (!status && (r.wrong || !a->name)) status = reader_wrong("malformed attribute");
  return status;
}

static shoal_status read_node(proto_reader r, reader_node *n) {
  size_t cap_inputs = 0, cap_outputs = 0, cap_attributes = 0;
  while (proto_next(&r)) {
    if (r.field == ONNX_NODE_INPUT) TRY(reader_add_word(&r, &n->inputs, &n->n_inputs, &cap_inputs));
    if (r.field == ONNX_NODE_OUTPUT) TRY(reader_add_word(&r, &n->outputs, &n->n_outputs, &cap_outputs));
    if (r.field == ONNX_NODE_OP) TRY(reader_words(&r, &n->op));
    if (r.field == ONNX_NODE_NAME) TRY(reader_words(&r, &n->name));
    if (r.field == ONNX_NODE_DOMAIN) TRY(reader_words(&r, &n->domain));
    if (r.field == ONNX_NODE_ATTRIBUTE) {
      TRY(mem_grow((void **)&n->attributes, &cap_attributes, n->n_attributes + 1, sizeof *n->attributes));
      TRY(read_attribute(proto_inside(&r), &n->attributes[n->n_attributes++]));
    }
  }
  if (r.wrong || !n->op || !n->n_outputs) return reader_wrong("malformed node");
  return NULL;
}

/* ---- the graph */

static shoal_status make_node(graph_reader *r, proto_reader message) {
  reader_node n = {0};
  shoal_status status = read_node(message, &n);
  if (!status && n.domain && *n.domain && strcmp(n.domain, "ai.onnx"))
    status = reader_wrong("operators of %s are not supported", n.domain);
  if (!status) status = onnx_read_node(r, &n);
  if (!status) status = shoal_graph_status(r->graph);
  status = status_wrap(status, "node '%.100s' (%.100s)",
                       n.name        ? n.name
                       : n.n_outputs ? n.outputs[0]
                                     : "?",
                       n.op ? n.op : "?");
  reader_node_fini(&n);
  return status;
}

static shoal_status read_dims(proto_reader r, shoal_shape *out) {
  while (proto_next(&r)) {
    if (r.field != ONNX_SHAPE_DIM) continue;
    proto_reader dim = proto_inside(&r);
    int64_t size = SHOAL_UNKNOWN;
    while (proto_next(&dim))
      if (dim.field == ONNX_DIM_VALUE) size = (int64_t)dim.number;
    if (dim.wrong || size < SHOAL_UNKNOWN) return reader_wrong("malformed dimension");
    TRY(reader_add_number(out, size));
  }
  return r.wrong ? reader_wrong("malformed shape") : NULL;
}

/* A ValueInfoProto: *name is the caller's. */
static shoal_status read_port(proto_reader r, char **name, uint64_t *type, shoal_shape *shape) {
  while (proto_next(&r)) {
    if (r.field == ONNX_VALUE_NAME) TRY(reader_words(&r, name));
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
  return r.wrong || !*name ? reader_wrong("malformed input or output") : NULL;
}

static shoal_status make_input(graph_reader *r, proto_reader message) {
  char *name = NULL;
  shoal_shape shape = SHOAL_SCALAR;
  uint64_t type = 0;
  shoal_status status = read_port(message, &name, &type, &shape);
  if (!status && reader_find(r, name)) { /* older files list weights among the inputs */
    free(name);
    return NULL;
  }
  int dtype = 0;
  while (dtype < SHOAL_DTYPE_COUNT && (uint64_t)onnx_types[dtype] != type) dtype++;
  if (!status && dtype == SHOAL_DTYPE_COUNT) status = reader_wrong("input '%s' is of a type that is not read", name);
  if (!status && shape.rank == 0) status = reader_wrong("input '%s' has no shape", name);
  if (!status && shape.dim[0] >= 0) shape.dim[0] = SHOAL_UNKNOWN; /* any number of rows */
  for (int i = 1; i < shape.rank && !status; i++)
    if (shape.dim[i] == SHOAL_UNKNOWN) status = reader_wrong("input '%s': axis %d has no fixed size", name, i);
  shoal_value *value = !status ? shoal_placeholder(r->graph, name, (shoal_dtype)dtype, shape) : NULL;
  if (!status) status = shoal_graph_status(r->graph);
  if (!status) status = network_add(&r->network->inputs, name, value);
  if (status) {
    free(name);
    return status;
  }
  return reader_keep(r, name, value, NULL, false);
}

static shoal_status make_output(graph_reader *r, proto_reader message) {
  char *name = NULL;
  shoal_shape shape = SHOAL_SCALAR;
  uint64_t type = 0;
  shoal_status status = read_port(message, &name, &type, &shape);
  const reader_value *v = !status ? reader_find(r, name) : NULL;
  if (!status && (!v || !v->value)) status = reader_wrong("the output '%s' is not computed", name);
  if (!status) status = network_add(&r->network->outputs, name, v->value);
  free(name);
  return status;
}

static shoal_status make_initializer(graph_reader *r, proto_reader message) {
  char *name = NULL;
  shoal_tensor t;
  shoal_status status = read_tensor(message, &name, &t);
  if (!status && name) return reader_keep(r, name, NULL, &t, true);
  if (!status) {
    shoal_tensor_fini(&t);
    status = reader_wrong("a tensor without a name");
  }
  free(name);
  return status;
}

/* Weights first, then inputs, nodes, outputs, wherever they stand. */
static shoal_status read_graph(graph_reader *r, proto_reader graph) {
  static const struct {
    int field;
    shoal_status (*make)(graph_reader *r, proto_reader message);
  } parts[] = {{ONNX_GRAPH_INITIALIZER, make_initializer},
               {ONNX_GRAPH_INPUT, make_input},
               {ONNX_GRAPH_NODE, make_node},
               {ONNX_GRAPH_OUTPUT, make_output}};
  for (size_t i = 0; i < COUNT_OF(parts); i++) {
    proto_reader again = graph;
    while (proto_next(&again))
      if (again.field == parts[i].field) TRY(parts[i].make(r, proto_inside(&again)));
    if (again.wrong) return reader_wrong("the graph is cut short or damaged");
  }
  if (!r->network->inputs.n || !r->network->outputs.n) return reader_wrong("it has no inputs or no outputs");
  return NULL;
}

static shoal_status read_model(graph_reader *r, const uint8_t *bytes, size_t n) {
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
  if (m.wrong || !found) return reader_wrong("is not an ONNX file, or is cut short");
  if (r->opset < OPSET_LEAST)
    return reader_wrong("opset %lld is too old: convert it to %d or newer", (long long)r->opset, OPSET_LEAST);
  return read_graph(r, graph);
}

shoal_status onnx_import(const char *path, shoal_network **out) { return reader_import(path, read_model, out); }
