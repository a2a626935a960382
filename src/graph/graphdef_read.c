/* Reads a GraphDef. The bytes come from outside: whatever they hold, the result is a graph or an error. */
#include "graph/graphdef.h"

#include "base/mem.h"
#include "base/text.h"
#include "graph/function.h"
#include "graph/graphdef_fields.h"

#include <stdio.h>
#include <string.h>

/* A node as it was read; everything is owned. */
typedef struct {
  char *name, *op, *device, *initial, *offsets;
  char **inputs;
  size_t n_inputs, cap_inputs;
  attr_value attr[OP_MAX_ATTRS];
} loaded;

static void loaded_fini(loaded *l) {
  free(l->name);
  free(l->op);
  free(l->device);
  free(l->initial);
  free(l->offsets);
  for (size_t i = 0; i < l->n_inputs; i++) free(l->inputs[i]);
  free(l->inputs);
  for (int i = 0; i < OP_MAX_ATTRS; i++) {
    free((char *)l->attr[i].s);
    free(l->attr[i].data.data);
    shoal_graph_destroy(l->attr[i].graph);
  }
}

static shoal_status wrong(const char *what) { return status_make(SHOAL_ERR_INPUT, "%s", what); }

static shoal_status take_text(const proto_reader *r, char **out) {
  char *words = proto_as_text(r);
  if (!words) return wrong("a name is not valid text");
  free(*out);
  *out = words;
  return NULL;
}

shoal_status graphdef_read_dtype(uint64_t number, shoal_dtype *out) {
  for (int t = 0; t < SHOAL_DTYPE_COUNT; t++)
    if ((uint64_t)graphdef_types[t] == number) {
      *out = (shoal_dtype)t;
      return NULL;
    }
  return status_make(SHOAL_ERR_INPUT, "unsupported dtype %llu", (unsigned long long)number);
}

static shoal_status add_dim(shoal_shape *shape, int64_t size) {
  if (shape->rank == SHOAL_MAX_RANK)
    return status_make(SHOAL_ERR_INPUT, "more than %d numbers in a shape or list", SHOAL_MAX_RANK);
  shape->dim[shape->rank++] = size;
  return NULL;
}

shoal_status graphdef_read_shape(proto_reader r, shoal_shape *out, bool *known) {
  shoal_shape shape = SHOAL_SCALAR;
  *known = true;
  while (proto_next(&r)) {
    if (r.field == SHAPE_UNKNOWN_RANK) *known = !r.number;
    if (r.field != SHAPE_DIM) continue;
    proto_reader dim = proto_inside(&r);
    int64_t size = 0;
    while (proto_next(&dim))
      if (dim.field == DIM_SIZE) size = (int64_t)dim.number;
    if (dim.wrong) return wrong("malformed dimension");
    TRY(add_dim(&shape, size));
  }
  if (r.wrong) return wrong("malformed shape");
  *out = shape;
  return NULL;
}

static shoal_status read_shape(proto_reader r, shoal_shape *out) {
  bool known;
  return graphdef_read_shape(r, out, &known);
}

/* Numbers one by one, of a field with `size` bytes each, or varints (0): returns how many there are, of which those that
 * fit are set. */
static int64_t read_numbers(proto_reader r, int field, size_t size, shoal_tensor *out) {
  const int64_t count = shoal_tensor_count(out);
  int64_t at = 0;
  while (proto_next(&r)) {
    if (r.field != field) continue;
    if (!r.bytes && at < count)
      shoal_tensor_set(out, at++,
                       size == 4   ? (double)proto_as_float(&r)
                       : size == 8 ? proto_as_double(&r)
                                   : (double)(int64_t)r.number);
    for (size_t k = 0; r.bytes && size && k + size <= r.length && at < count; k += size) {
      float single = 0;
      double wide = 0;
      memcpy(size == 4 ? (void *)&single : (void *)&wide, r.bytes + k, size);
      shoal_tensor_set(out, at++, size == 4 ? (double)single : wide);
    }
    int64_t number;
    proto_reader packed = proto_inside(&r);
    while (r.bytes && !size && at < count && proto_next_packed(&packed, &number))
      shoal_tensor_set(out, at++, (double)number);
  }
  return at;
}

/* Without tensor_content: numbers one by one, the last of which stands for all that are missing; none are zeros. */
static void fill_numbers(proto_reader r, shoal_tensor *out) {
  static const struct {
    int field;
    size_t size;
  } kinds[SHOAL_DTYPE_COUNT] = {
      [SHOAL_F32] = {TENSOR_FLOATS, 4}, [SHOAL_F64] = {TENSOR_DOUBLES, 8}, [SHOAL_I32] = {TENSOR_INTS, 0},
      [SHOAL_I64] = {TENSOR_INT64S, 0}, [SHOAL_U8] = {TENSOR_INTS, 0},     [SHOAL_BOOL] = {TENSOR_BOOLS, 0}};
  const int64_t count = shoal_tensor_count(out);
  const int64_t given = read_numbers(r, kinds[out->dtype].field, kinds[out->dtype].size, out);
  for (int64_t i = given; i < count; i++) shoal_tensor_set(out, i, given ? shoal_tensor_get(out, given - 1) : 0);
}

shoal_status graphdef_read_tensor(proto_reader r, size_t spread, shoal_tensor *out) {
  const proto_reader whole = r;
  shoal_dtype dtype = SHOAL_F32;
  shoal_shape shape = SHOAL_SCALAR;
  const uint8_t *content = NULL;
  size_t length = 0;
  while (proto_next(&r)) {
    if (r.field == TENSOR_DTYPE) TRY(graphdef_read_dtype(r.number, &dtype));
    if (r.field == TENSOR_SHAPE) TRY(read_shape(proto_inside(&r), &shape));
    if (r.field == TENSOR_CONTENT) {
      content = r.bytes;
      length = r.length;
    }
  }
  if (r.wrong) return wrong("malformed tensor");
  size_t bytes = shoal_dtype_size(dtype);
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] < 0 || __builtin_mul_overflow(bytes, (size_t)shape.dim[i], &bytes))
      return wrong("a tensor of impossible shape");
  if (length ? bytes != length : bytes > spread + mem_times((size_t)(whole.end - whole.at), 8))
    return status_make(SHOAL_ERR_INPUT, "a tensor of %zu bytes has %zu in its content", bytes, length);
  TRY(shoal_tensor_create(dtype, shape, out));
  if (length) {
    memcpy(out->data, content, length);
    return NULL;
  }
  fill_numbers(whole, out);
  return NULL;
}

static shoal_status read_list(proto_reader r, shoal_shape *out) {
  shoal_shape list = SHOAL_SCALAR;
  while (proto_next(&r)) {
    if (r.field != LIST_I) continue;
    if (!r.bytes) {
      TRY(add_dim(&list, (int64_t)r.number));
      continue;
    }
    proto_reader packed = proto_inside(&r);
    int64_t value;
    while (proto_next_packed(&packed, &value)) TRY(add_dim(&list, value));
    if (packed.wrong) return wrong("malformed list");
  }
  if (r.wrong) return wrong("malformed list");
  *out = list;
  return NULL;
}

static shoal_status find_value(const shoal_graph *g, char *words, shoal_value **out) {
  shoal_value *v = shoal_graph_find(g, words);
  char *colon = strrchr(words, ':');
  int64_t output = 0;
  if (!v && colon && text_to_int(colon + 1, &output)) {
    *colon = 0;
    v = shoal_graph_find(g, words);
    if (v) v = output >= 0 && output < v->maker->outs ? &v->maker->out[output] : NULL;
    *colon = ':';
  }
  if (!v)
    return status_make(SHOAL_ERR_INPUT,
                       "input '%s' is not the output of an earlier node: nodes must come after "
                       "their inputs",
                       words);
  *out = v;
  return NULL;
}

static shoal_status read_nodes(shoal_graph *g, proto_reader r, bool function, int depth);

static shoal_status read_sub_graph(const proto_reader *r, int depth, shoal_graph **out) {
  shoal_graph *sub;
  TRY(shoal_graph_create(&sub));
  shoal_status status = read_nodes(sub, proto_inside(r), true, depth + 1);
  if (!status) status = function_check(sub);
  if (status) {
    shoal_graph_destroy(sub);
    return status_wrap(status, "in a sub-graph");
  }
  shoal_graph_destroy(*out);
  *out = sub;
  return NULL;
}

static shoal_status read_attr_value(proto_reader r, attr_kind kind, int depth, attr_value *out) {
  while (proto_next(&r)) {
    switch (r.field) {
      case ATTR_S_FIELD:
        if (kind == ATTR_GRAPH) TRY(read_sub_graph(&r, depth, &out->graph));
        if (kind == ATTR_TEXT) TRY(take_text(&r, (char **)&out->s));
        break;
      case ATTR_I_FIELD: out->i = (int64_t)r.number; break;
      case ATTR_B_FIELD: out->i = r.number != 0; break;
      case ATTR_F_FIELD: out->f = (double)proto_as_float(&r); break;
      case ATTR_LIST_FIELD: TRY(read_list(proto_inside(&r), &out->list)); break;
      case ATTR_SHAPE_FIELD: TRY(read_shape(proto_inside(&r), &out->list)); break;
      case ATTR_TYPE_FIELD: {
        shoal_dtype dtype;
        TRY(graphdef_read_dtype(r.number, &dtype));
        out->i = dtype;
        break;
      }
      case ATTR_TENSOR_FIELD:
        if (kind != ATTR_DATA) break;
        free(out->data.data);
        out->data = (shoal_tensor){0};
        TRY(graphdef_read_tensor(proto_inside(&r), 0, &out->data));
        break;
      default: break;
    }
  }
  return r.wrong ? wrong("malformed value") : NULL;
}

static const op_attr *find_attr(const op_row *op, const char *name, int *at) {
  for (*at = 0; *at < OP_MAX_ATTRS && op->attrs[*at].name; (*at)++)
    if (!strcmp(op->attrs[*at].name, name)) return &op->attrs[*at];
  return NULL;
}

/* The eight bytes of a number, or the name of a value. */
static shoal_status read_own_attr(loaded *l, const op_row *op, const char *key, proto_reader r) {
  int at = 0;
  char **name = !strcmp(key, GRAPHDEF_INITIAL) ? &l->initial : !strcmp(key, GRAPHDEF_OFFSETS) ? &l->offsets : NULL;
  bool exact = !strncmp(key, GRAPHDEF_F64, strlen(GRAPHDEF_F64)) && find_attr(op, key + strlen(GRAPHDEF_F64), &at);
  while (proto_next(&r)) {
    if (r.field != ATTR_S_FIELD) continue;
    if (name) TRY(take_text(&r, name));
    if (!exact) continue;
    if (!r.bytes || r.length != sizeof(double)) return wrong("a number of other than eight bytes");
    memcpy(&l->attr[at].f, r.bytes, sizeof(double));
  }
  return r.wrong ? wrong("malformed value") : NULL;
}

/* own: only those with a name of Shoal's, which come after the others since they correct them. */
static shoal_status read_attr(loaded *l, const op_row *op, proto_reader r, int depth, bool own) {
  char *key = NULL;
  proto_reader value = {0};
  shoal_status status = NULL;
  while (!status && proto_next(&r)) {
    if (r.field == ENTRY_KEY) status = take_text(&r, &key);
    if (r.field == ENTRY_VALUE) value = proto_inside(&r);
  }
  if (!status && (r.wrong || !key)) status = wrong("malformed attribute");
  int at;
  const op_attr *declared = !status ? find_attr(op, key, &at) : NULL;
  if (declared && !own) status = read_attr_value(value, declared->kind, depth, &l->attr[at]);
  if (!status && !declared && own) status = read_own_attr(l, op, key, value);
  status = status_wrap(status, "attribute '%s'", key ? key : "?");
  free(key);
  return status;
}

static shoal_status read_head(loaded *l, proto_reader r) {
  while (proto_next(&r)) {
    if (r.field == NODE_NAME) TRY(take_text(&r, &l->name));
    if (r.field == NODE_OP) TRY(take_text(&r, &l->op));
    if (r.field == NODE_DEVICE) TRY(take_text(&r, &l->device));
    if (r.field == NODE_INPUT) {
      TRY(mem_grow((void **)&l->inputs, &l->cap_inputs, l->n_inputs + 1, sizeof *l->inputs));
      l->inputs[l->n_inputs++] = NULL;
      TRY(take_text(&r, &l->inputs[l->n_inputs - 1]));
    }
  }
  if (r.wrong) return wrong("malformed node");
  if (!l->name || !*l->name || !l->op) return wrong("a node without name or operator");
  return NULL;
}

static shoal_status make_node(shoal_graph *g, const op_row *op, loaded *l) {
  shoal_value **in = calloc(l->n_inputs + 1, sizeof(shoal_value *)), **after = calloc(l->n_inputs + 1, sizeof *after);
  shoal_value *made = NULL, *initial = NULL, *offsets = NULL;
  int ins = 0, n_after = 0;
  shoal_status status = in && after ? NULL : status_no_memory();
  for (size_t i = 0; i < l->n_inputs && !status; i++) {
    if (l->inputs[i][0] == '^')
      status = find_value(g, l->inputs[i] + 1, &after[n_after++]);
    else
      status = find_value(g, l->inputs[i], &in[ins++]);
  }
  if (!status && !strcmp(op->name, "variable")) {
    status =
        l->initial ? find_value(g, l->initial, &initial) : wrong("a variable needs the attribute " GRAPHDEF_INITIAL);
    if (!status &&
        (initial->dtype != (shoal_dtype)l->attr[0].i || !shoal_shape_equal(&initial->shape, &l->attr[1].list)))
      status = wrong("a variable whose initial value has another type or shape");
  }
  if (!status && l->offsets) {
    status = find_value(g, l->offsets, &offsets);
    if (!status && (strcmp(op->name, "placeholder") || strcmp(offsets->maker->op->name, "placeholder") ||
                    offsets->dtype != SHOAL_I64 || offsets->shape.rank != 1 || l->attr[1].list.rank != 1))
      status = wrong("offsets must be a placeholder of i64 [rows + 1], for a placeholder of entries");
  }
  if (!status && shoal_graph_find(g, l->name)) status = wrong("two nodes have this name");
  if (!status) {
    shoal_name_next(g, l->name);
    shoal_device_set(g, l->device && *l->device ? l->device : NULL);
    shoal_control_push(g, after, n_after);
    made = graph_add(g, op, in, ins, l->attr);
    shoal_control_pop(g);
    shoal_device_set(g, NULL);
    status = shoal_graph_status(g);
  }
  if (!status) {
    made->maker->initial = initial;
    made->maker->offsets = offsets;
  }
  free(in);
  free(after);
  return status;
}

static shoal_status read_attrs(loaded *l, const op_row *op, proto_reader r, int depth) {
  for (int i = 0; i < OP_MAX_ATTRS && op->attrs[i].name; i++) {
    l->attr[i].f = op->attrs[i].standard;
    l->attr[i].i = (int64_t)op->attrs[i].standard;
  }
  for (int own = 0; own < 2; own++) {
    proto_reader again = r;
    while (proto_next(&again))
      if (again.field == NODE_ATTR) TRY(read_attr(l, op, proto_inside(&again), depth, own));
  }
  for (int i = 0; i < OP_MAX_ATTRS && op->attrs[i].name; i++)
    if (op->attrs[i].kind == ATTR_GRAPH && !l->attr[i].graph)
      return status_make(SHOAL_ERR_INPUT, "the sub-graph '%s' is missing", op->attrs[i].name);
  return NULL;
}

/* _params and _results: which values a function is given and gives. */
static shoal_status read_signature(shoal_graph *g, loaded *l) {
  bool results = !strcmp(l->name, GRAPHDEF_RESULTS);
  shoal_value **list = calloc(l->n_inputs + 1, sizeof(shoal_value *));
  shoal_status status = list ? NULL : status_no_memory();
  for (size_t i = 0; i < l->n_inputs && !status; i++) {
    status = find_value(g, l->inputs[i], &list[i]);
    if (!status && !results && strcmp(list[i]->maker->op->name, "placeholder"))
      status = wrong("a parameter is not a placeholder");
    for (size_t k = 0; !status && !results && k < i; k++)
      if (list[k] == list[i]) status = wrong("a parameter that is named twice");
  }
  if (status || (results ? g->results : g->params)) {
    free(list);
    return status ? status : wrong("parameters or results given twice");
  }
  *(results ? &g->results : &g->params) = list;
  *(results ? &g->n_results : &g->n_params) = (int)l->n_inputs;
  return NULL;
}

static shoal_status read_node(shoal_graph *g, proto_reader r, bool function, int depth) {
  loaded l = {0};
  shoal_status status = read_head(&l, r);
  if (!status && function && (!strcmp(l.op, GRAPHDEF_PARAMS) || !strcmp(l.op, GRAPHDEF_RESULTS))) {
    status = read_signature(g, &l);
  } else if (!status) {
    const op_row *op = op_find(l.op);
    const char *near = op ? NULL : op_nearest(l.op);
    if (!op || (op->flags & OP_INTERNAL))
      status = status_make(SHOAL_ERR_INPUT, "unknown operator '%s'%s%s", l.op, near ? "; did you mean " : "",
                           near ? near : "");
    if (!status) status = read_attrs(&l, op, r, depth);
    if (!status) status = make_node(g, op, &l);
  }
  status = status_wrap(status, "node '%.200s'", l.name ? l.name : "?");
  loaded_fini(&l);
  return status;
}

enum { DEEPEST = 16 }; /* sub-graphs inside sub-graphs */

static shoal_status read_nodes(shoal_graph *g, proto_reader r, bool function, int depth) {
  if (depth > DEEPEST) return wrong("sub-graphs are nested too deeply");
  while (proto_next(&r))
    if (r.field == GRAPH_NODE) TRY(read_node(g, proto_inside(&r), function, depth));
  if (r.wrong) return wrong("not a GraphDef file");
  return NULL;
}

shoal_status graphdef_read(shoal_graph *g, const void *bytes, size_t n) {
  TRY(shoal_graph_status(g));
  shoal_status status = read_nodes(g, proto_read(bytes, n), false, 0);
  /* The shape rules say ARGUMENT, as for a program; here it is the file. */
  if (shoal_status_code(status) == SHOAL_ERR_ARGUMENT) {
    shoal_status input = status_make(SHOAL_ERR_INPUT, "%s", shoal_status_message(status));
    shoal_status_free(status);
    return input;
  }
  return status;
}
