/* Operators that show the same elements in another shape: views, unless the executor wants a copy. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "tensor/limits.h"

#include <string.h>

/* ---- reshape(x; shape), reshape_like(x, like) */

static shoal_status copy_kernel(const kernel_call *call) {
  if (call->out[0].data != call->in[0].data)
    memmove(call->out[0].data, call->in[0].data, shoal_tensor_bytes(&call->out[0]));
  return NULL;
}

static shoal_status count_error(const shoal_shape *from, const shoal_shape *to) {
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "%s cannot become %s: the number of elements differs",
                     shoal_shape_text(from, a), shoal_shape_text(to, b));
}

static shoal_status reshape_shape(op_shapes *s) {
  const shoal_shape *x = &s->in[0];
  shoal_shape to = s->attr[0].list;
  int open = -1;
  int64_t rest = 1;
  for (int i = 0; i < to.rank; i++) {
    if (to.dim[i] < SHOAL_UNKNOWN || (to.dim[i] == SHOAL_UNKNOWN && open >= 0)) {
      char buffer[SHOAL_SHAPE_TEXT];
      return status_make(SHOAL_ERR_ARGUMENT, "at most one dimension of the new shape may be -1: %s",
                         shoal_shape_text(&to, buffer));
    }
    if (to.dim[i] == SHOAL_UNKNOWN)
      open = i;
    else
      rest = count_times(rest, to.dim[i]);
  }
  int64_t count = shoal_shape_count(x);
  if (count != SHOAL_UNKNOWN) {
    if (open >= 0 ? rest == 0 || count % rest : count != rest) return count_error(x, &to);
    if (open >= 0) to.dim[open] = count / rest;
  }
  s->out[0] = to;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static shoal_status reshape_like_shape(op_shapes *s) {
  int64_t from = shoal_shape_count(&s->in[0]), to = shoal_shape_count(&s->in[1]);
  if (!dims_fit(from, to)) return count_error(&s->in[0], &s->in[1]);
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* Rows stay rows when each has as many elements as before. */
static op_batch reshape_batch(const op_shapes *s) {
  const shoal_shape *x = &s->in[0], *y = &s->out[0];
  if (!shape_is_batched(x) || !shape_is_batched(y) || (s->ins > 1 && !shape_is_batched(&s->in[1]))) return BATCH_WHOLE;
  int64_t a = shape_span(x, 1, x->rank), b = shape_span(y, 1, y->rank);
  return a == b && a != SHOAL_UNKNOWN ? BATCH_MAP : BATCH_WHOLE;
}

static void reshape_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "reshape_like", c->dy[0], c->in[0]);
}

/* ---- expand_dims(x; axis): a new axis of size 1, which is `axis` of the output */

static shoal_status expand_dims_shape(op_shapes *s) {
  int axis = 0, rank = s->in[0].rank;
  if (rank == SHOAL_MAX_RANK)
    return status_make(SHOAL_ERR_ARGUMENT, "there cannot be more than %d dimensions", SHOAL_MAX_RANK);
  TRY(rule_axis(s->attr[0].i, rank + 1, &axis));
  s->out[0].rank = rank + 1;
  for (int i = 0; i <= rank; i++) s->out[0].dim[i] = i == axis ? 1 : s->in[0].dim[i - (i > axis)];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch expand_dims_batch(const op_shapes *s) {
  return s->attr[0].i == 0 || s->attr[0].i == -s->out[0].rank ? BATCH_WHOLE : batch_map(s);
}

/* ---- squeeze(x; axes): without those axes, which have size 1 */

static shoal_status squeeze_shape(op_shapes *s) {
  uint32_t gone = 0;
  shoal_shape to = {0};
  if (s->attr[0].list.rank) TRY(rule_axes(&s->attr[0].list, s->in[0].rank, &gone));
  for (int i = 0; i < s->in[0].rank; i++) {
    int64_t d = s->in[0].dim[i];
    if (!(gone >> i & 1))
      to.dim[to.rank++] = d;
    else if (d != 1 && d != SHOAL_UNKNOWN)
      return status_make(SHOAL_ERR_ARGUMENT, "axis %d has %lld elements, not 1", i, (long long)d);
  }
  s->out[0] = to;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch squeeze_batch(const op_shapes *s) {
  bool any = s->attr[0].list.rank > 0;
  return any && (axes_bits(&s->attr[0].list, s->in[0].rank) & 1) ? BATCH_WHOLE : batch_map(s);
}

const op_row ops_views[] = {
    {.name = "reshape",
     .attrs = {{"shape", ATTR_LIST, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_VIEW,
     .shape = reshape_shape,
     .batch = reshape_batch,
     .gradient = reshape_gradient,
     .kernel = copy_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3,4] shape=2,6", "[?5,2,3] shape=-1,6", "[?6,2] shape=3,-1", "[1]",
                                    "[2,2] shape=4", "u8[?4,2,2]<9 shape=-1,4", NULL}},
    {.name = "reshape_like",
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY | OP_VIEW,
     .shape_only = 2,
     .shape = reshape_like_shape,
     .batch = reshape_batch,
     .kernel = copy_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3,4] [2,6]", "[?5,6] [?5,2,3]", "[1] []", NULL}},
    {.name = "expand_dims",
     .attrs = {{"axis", ATTR_INT, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_VIEW,
     .shape = expand_dims_shape,
     .batch = expand_dims_batch,
     .gradient = reshape_gradient,
     .kernel = copy_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3,4]", "[?5,2] axis=1", "[?5,2] axis=-1", "[]", "i32[2]<9 axis=-2", NULL}},
    {.name = "squeeze",
     .attrs = {{"axes", ATTR_LIST, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_VIEW,
     .shape = squeeze_shape,
     .batch = squeeze_batch,
     .gradient = reshape_gradient,
     .kernel = copy_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[1,4] axes=0", "[?5,1,2,1] axes=1,-1", "[?5,1]", "[1] axes=0", NULL}},
    {0}};

shoal_value *shoal_reshape(shoal_graph *g, shoal_value *x, shoal_shape shape) {
  return GRAPH_UNARY(g, "reshape", x, ATTR_L(shape));
}

shoal_value *shoal_flatten(shoal_graph *g, shoal_value *x) {
  if (!x) return shoal_reshape(g, x, SHOAL_SCALAR);
  char buffer[VALUE_TEXT];
  int64_t rest = shape_span(&x->shape, x->shape.rank ? 1 : 0, x->shape.rank);
  if (rest == SHOAL_UNKNOWN || x->shape.rank == 0) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "flatten of %s: needs an axis to keep and known dimensions after it",
                              value_text(x, buffer)));
    return NULL;
  }
  return shoal_reshape(g, x, SHOAL_SHAPE(x->shape.dim[0], rest));
}

shoal_value *shoal_expand_dims(shoal_graph *g, shoal_value *x, int axis) {
  return GRAPH_UNARY(g, "expand_dims", x, ATTR_I(axis));
}

/* Which axes are left out is settled here: a batch that happens to have one row keeps its axis. */
shoal_value *shoal_squeeze(shoal_graph *g, shoal_value *x, shoal_shape axes) {
  if (x && axes.rank == 0)
    for (int i = 0; i < x->shape.rank; i++)
      if (x->shape.dim[i] == 1) axes.dim[axes.rank++] = i;
  return GRAPH_UNARY(g, "squeeze", x, ATTR_L(axes));
}
