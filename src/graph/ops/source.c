/* Where values come from: feeds, constants, variables, fills. */
#include "base/mem.h"
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <string.h>

enum { DTYPE, SHAPE, VALUE };

/* Every dimension at least 0, or unknown where `unknown` allows it. */
static shoal_status check_dims(const shoal_shape *shape, bool unknown) {
  char buffer[SHOAL_SHAPE_TEXT];
  if (shape->rank < 0 || shape->rank > SHOAL_MAX_RANK)
    return status_make(SHOAL_ERR_ARGUMENT, "a shape has 0 to %d dimensions, not %d", SHOAL_MAX_RANK, shape->rank);
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] < (unknown ? SHOAL_UNKNOWN : 0))
      return status_make(SHOAL_ERR_ARGUMENT, "dimension %d of %s must be %s", i, shoal_shape_text(shape, buffer),
                         unknown ? "0 or more, or SHOAL_UNKNOWN" : "known");
  return NULL;
}

static shoal_status check_dtype(int64_t dtype) {
  if (dtype >= 0 && dtype < SHOAL_DTYPE_COUNT) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "unknown dtype %lld", (long long)dtype);
}

static shoal_status typed_shape(op_shapes *s, bool unknown) {
  TRY(check_dtype(s->attr[DTYPE].i));
  TRY(check_dims(&s->attr[SHAPE].list, unknown));
  s->out[0] = s->attr[SHAPE].list;
  s->out_dtype[0] = (shoal_dtype)s->attr[DTYPE].i;
  return NULL;
}

static shoal_status placeholder_shape(op_shapes *s) { return typed_shape(s, true); }
static shoal_status variable_shape(op_shapes *s) { return typed_shape(s, false); }
static shoal_status fill_shape(op_shapes *s) { return typed_shape(s, false); }

static shoal_status constant_shape(op_shapes *s) {
  const shoal_tensor *data = &s->attr[0].data;
  if (!data->data) return status_make(SHOAL_ERR_ARGUMENT, "a constant needs data");
  TRY(check_dims(&data->shape, false));
  s->out[0] = data->shape;
  s->out_dtype[0] = data->dtype;
  return NULL;
}

static void fill(shoal_tensor *t, double value) {
  int64_t n = shoal_tensor_count(t);
  if (!n) return;
  if (value == 0) { /* zero is all bits zero in every type */
    memset(t->data, 0, shoal_tensor_bytes(t));
    return;
  }
  shoal_tensor_set(t, 0, value);
  size_t size = shoal_dtype_size(t->dtype), bytes = (size_t)n * size;
  /* Doubling copies: each one as large as what is there already. */
  for (size_t done = size; done < bytes;) {
    size_t more = MIN_OF(done, bytes - done);
    memcpy((char *)t->data + done, t->data, more);
    done += more;
  }
}

static shoal_status fill_kernel(const kernel_call *call) {
  fill(&call->out[0], call->attr[VALUE].f);
  return NULL;
}

static shoal_status fill_like_kernel(const kernel_call *call) {
  fill(&call->out[0], call->attr[0].f);
  return NULL;
}

const op_row ops_source[] = {
    {.name = "placeholder",
     .attrs = {{"dtype", ATTR_DTYPE, SHOAL_F32}, {"shape", ATTR_LIST, 0}},
     .outs = 1,
     .flags = OP_SOURCE | OP_NO_GRADIENT,
     .shape = placeholder_shape},
    {.name = "constant",
     .attrs = {{"data", ATTR_DATA, 0}},
     .outs = 1,
     .flags = OP_SOURCE | OP_NO_GRADIENT,
     .shape = constant_shape},
    {.name = "variable",
     .attrs = {{"dtype", ATTR_DTYPE, SHOAL_F32}, {"shape", ATTR_LIST, 0}},
     .outs = 1,
     .flags = OP_SOURCE | OP_NO_GRADIENT,
     .shape = variable_shape},
    {.name = "fill",
     .attrs = {{"dtype", ATTR_DTYPE, SHOAL_F32}, {"shape", ATTR_LIST, 0}, {"value", ATTR_FLOAT, 0}},
     .outs = 1,
     .flags = OP_NO_GRADIENT,
     .shape = fill_shape,
     .kernel = fill_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"shape=3,4 value=2.5", "value=1", "dtype=i32 shape=5 value=-3",
                                    "dtype=u8 shape=0,2 value=1", "dtype=bool shape=3 value=1", NULL}},
    {.name = "fill_like",
     .attrs = {{"value", ATTR_FLOAT, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_NO_GRADIENT,
     .shape_only = 1,
     .shape = shape_as_input,
     .batch = batch_map,
     .kernel = fill_like_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3,4] value=1", "[?5,2] value=-0.5", "i64[7] value=2", "[]", NULL}},
    {0}};

shoal_value *shoal_placeholder(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_shape shape) {
  if (name) shoal_name_next(g, name);
  return graph_op(g, "placeholder", NULL, 0, (attr_value[OP_MAX_ATTRS]){ATTR_I(dtype), ATTR_L(shape)});
}

shoal_value *placeholder_ragged_rows(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_value *offsets,
                                     int64_t width) {
  if (!offsets) return NULL;
  char have[VALUE_TEXT];
  const node *n = offsets->maker;
  if (strcmp(n->op->name, "placeholder") || n->offsets || offsets->dtype != SHOAL_I64 || offsets->shape.rank != 1) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT,
                              "placeholder '%s': its rows are cut by %s, but a placeholder of i64 "
                              "[rows + 1] is expected",
                              name ? name : "placeholder", value_text(offsets, have)));
    return NULL;
  }
  shoal_value *v =
      shoal_placeholder(g, name, dtype, width > 1 ? SHOAL_SHAPE(SHOAL_UNKNOWN, width) : SHOAL_SHAPE(SHOAL_UNKNOWN));
  if (v) v->maker->offsets = offsets;
  return v;
}

shoal_value *shoal_placeholder_ragged(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_value *offsets) {
  return placeholder_ragged_rows(g, name, dtype, offsets, 1);
}

shoal_value *shoal_constant(shoal_graph *g, const shoal_tensor *data) {
  if (!data || !data->data || data->rows) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "constant: needs a tensor with data and without a row index"));
    return NULL;
  }
  return graph_op(g, "constant", NULL, 0, (attr_value[OP_MAX_ATTRS]){{.data = *data}});
}

shoal_value *shoal_scalar(shoal_graph *g, shoal_dtype dtype, double value) {
  double room; /* as large as any element */
  shoal_tensor t = shoal_tensor_view(dtype, SHOAL_SCALAR, &room);
  shoal_status status = check_dtype(dtype);
  if (status) {
    graph_fail(g, status_wrap(status, "scalar"));
    return NULL;
  }
  shoal_tensor_set(&t, 0, value);
  return shoal_constant(g, &t);
}

/* Sets *found to a placeholder that v is computed from, or to NULL. */
static shoal_status find_placeholder(const shoal_graph *g, const shoal_value *v, const node **found) {
  bool *needed = calloc((size_t)v->maker->id + 1, sizeof *needed);
  if (!needed) return status_no_memory();
  const node *result = NULL;
  needed[v->maker->id] = true;
  for (int id = v->maker->id; id >= 0 && !result; id--) {
    const node *n = g->nodes[id];
    if (!needed[id]) continue;
    if (!strcmp(n->op->name, "placeholder")) result = n;
    for (int i = 0; i < n->ins; i++) needed[n->in[i]->maker->id] = true;
  }
  free(needed);
  *found = result;
  return NULL;
}

static shoal_status check_initial(const shoal_graph *g, const char *name, const shoal_value *initial) {
  const node *fed = NULL;
  TRY(find_placeholder(g, initial, &fed));
  if (!fed) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT,
                     "variable '%s': its initial value '%s' depends on the placeholder '%s', but nothing is fed when a "
                     "session is made; start from a constant, a fill or random numbers",
                     name ? name : "variable", initial->maker->name, fed->name);
}

shoal_value *shoal_variable(shoal_graph *g, const char *name, shoal_value *initial) {
  if (g->error) return NULL;
  shoal_status status =
      initial ? check_initial(g, name, initial)
              : status_make(SHOAL_ERR_ARGUMENT, "variable '%s': its initial value is NULL", name ? name : "variable");
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  if (name) shoal_name_next(g, name);
  attr_value attrs[OP_MAX_ATTRS] = {ATTR_I(initial->dtype), ATTR_L(initial->shape)};
  shoal_value *v = graph_op(g, "variable", NULL, 0, attrs);
  if (v) v->maker->initial = initial;
  return v;
}

shoal_value *shoal_fill(shoal_graph *g, shoal_dtype dtype, shoal_shape shape, double value) {
  return graph_op(g, "fill", NULL, 0, (attr_value[OP_MAX_ATTRS]){ATTR_I(dtype), ATTR_L(shape), ATTR_F(value)});
}

shoal_value *shoal_fill_like(shoal_graph *g, shoal_value *like, double value) {
  return GRAPH_UNARY(g, "fill_like", like, ATTR_F(value));
}
