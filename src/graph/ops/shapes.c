/* Operators that move elements and compute nothing: transpose, slice, broadcast_to, and their gradients. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "graph/ops/walk.h"

#include <string.h>

/* ---- transpose(x; order): axis i of the output is axis order[i] of x; an empty order reverses the axes */

static int order_at(const shoal_shape *order, int rank, int i) {
  return order->rank ? (int)order->dim[i] : rank - 1 - i;
}

static shoal_status transpose_shape(op_shapes *s) {
  const shoal_shape *order = &s->attr[0].list;
  int rank = s->in[0].rank;
  uint32_t seen = 0;
  if (order->rank == 0 || order->rank == rank)
    for (int i = 0; i < rank; i++) {
      int64_t k = order->rank ? order->dim[i] : rank - 1 - i;
      if (k >= 0 && k < rank) seen |= 1u << k;
    }
  if (seen != (1u << rank) - 1) {
    char buffer[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "order %s must name each of the axes 0 to %d once",
                       shoal_shape_text(order, buffer), rank - 1);
  }
  s->out[0].rank = rank;
  for (int i = 0; i < rank; i++) s->out[0].dim[i] = s->in[0].dim[order_at(order, rank, i)];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch transpose_batch(const op_shapes *s) {
  bool first = s->in[0].rank > 0 && order_at(&s->attr[0].list, s->in[0].rank, 0) == 0;
  return first ? batch_map(s) : BATCH_WHOLE;
}

ALL_TYPES_KERNEL(transpose_kernel, {
  const shoal_shape *to = &call->out[0].shape;
  int64_t strides[SHOAL_MAX_RANK], turned[SHOAL_MAX_RANK];
  shape_strides(&call->in[0].shape, strides);
  for (int i = 0; i < to->rank; i++) turned[i] = strides[order_at(&call->attr[0].list, to->rank, i)];
  walk w;
  walk_init(&w, to, turned, NULL);
  cell *y = call->out[0].data;
  for (; w.left > 0; walk_next(&w), y += w.n) {
    const cell *x = (const cell *)call->in[0].data + w.a;
    if (w.step_a == 1)
      memcpy(y, x, (size_t)w.n * sizeof *y);
    else
      for (int64_t i = 0; i < w.n; i++) y[i] = x[i * w.step_a];
  }
  return NULL;
})

static void transpose_gradient(op_grad_call *c) {
  int rank = c->in[0]->shape.rank;
  shoal_shape back = {.rank = rank};
  for (int i = 0; i < rank; i++) back.dim[order_at(&c->attr[0].list, rank, i)] = i;
  c->dx[0].value = shoal_transpose(c->graph, c->dy[0], back);
}

/* ---- slice(x; start, size), and its gradient slice_grad(dy, like; start): zeros like `like` but for dy at start */

static shoal_status slice_shape(op_shapes *s) {
  const shoal_shape *x = &s->in[0], *start = &s->attr[0].list, *size = &s->attr[1].list;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT], c[SHOAL_SHAPE_TEXT];
  shoal_shape to = {.rank = x->rank};
  bool good = start->rank == x->rank && size->rank == x->rank;
  for (int i = 0; good && i < x->rank; i++) {
    int64_t d = x->dim[i], from = start->dim[i], n = size->dim[i];
    if (d == SHOAL_UNKNOWN) {
      good = from >= 0 && n >= -1;
      to.dim[i] = n; /* -1 stays unknown */
    } else {
      if (n == -1) n = d - from;
      good = from >= 0 && n >= 0 && from <= d && n <= d - from;
      to.dim[i] = n;
    }
  }
  if (!good)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "start %s and size %s must name a part of %s, one number for each axis, size -1 for the rest",
                       shoal_shape_text(start, a), shoal_shape_text(size, b), shoal_shape_text(x, c));
  s->out[0] = to;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch slice_batch(const op_shapes *s) {
  return s->attr[0].list.rank > 0 && s->attr[0].list.dim[0] == 0 ? batch_map(s) : BATCH_WHOLE;
}

static shoal_status slice_grad_shape(op_shapes *s) {
  const shoal_shape *dy = &s->in[0], *like = &s->in[1], *start = &s->attr[0].list;
  TRY(rule_same_dtype(s));
  bool good = dy->rank == like->rank && start->rank == like->rank;
  for (int i = 0; good && i < dy->rank; i++)
    good = start->dim[i] >= 0 &&
           (dy->dim[i] == SHOAL_UNKNOWN || like->dim[i] == SHOAL_UNKNOWN || start->dim[i] + dy->dim[i] <= like->dim[i]);
  if (!good) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT], c[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "%s at %s does not lie inside %s", shoal_shape_text(dy, a),
                       shoal_shape_text(start, b), shoal_shape_text(like, c));
  }
  s->out[0] = *like;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch slice_grad_batch(const op_shapes *s) {
  return shape_is_batched(&s->in[0]) && shape_is_batched(&s->in[1]) ? slice_batch(s) : BATCH_WHOLE;
}

/* Elements before the slice, in a tensor of the given strides. When the batch is split the start along it is 0. */
static int64_t slice_offset(const shoal_shape *start, const int64_t *strides) {
  int64_t offset = 0;
  for (int i = 0; i < start->rank; i++) offset += start->dim[i] * strides[i];
  return offset;
}

ALL_TYPES_KERNEL(slice_kernel, {
  int64_t strides[SHOAL_MAX_RANK] = {0};
  shape_strides(&call->in[0].shape, strides);
  const cell *x = (const cell *)call->in[0].data + slice_offset(&call->attr[0].list, strides);
  cell *y = call->out[0].data;
  walk w;
  walk_init(&w, &call->out[0].shape, strides, NULL);
  for (; w.left > 0; walk_next(&w), y += w.n) {
    if (w.step_a == 1)
      memcpy(y, x + w.a, (size_t)w.n * sizeof *y);
    else
      for (int64_t i = 0; i < w.n; i++) y[i] = x[w.a + i * w.step_a];
  }
  return NULL;
})

ALL_TYPES_KERNEL(slice_grad_kernel, {
  int64_t strides[SHOAL_MAX_RANK] = {0};
  shape_strides(&call->out[0].shape, strides);
  memset(call->out[0].data, 0, shoal_tensor_bytes(&call->out[0]));
  cell *dx = (cell *)call->out[0].data + slice_offset(&call->attr[0].list, strides);
  const cell *dy = call->in[0].data;
  walk w;
  walk_init(&w, &call->in[0].shape, strides, NULL);
  for (; w.left > 0; walk_next(&w), dy += w.n) {
    if (w.step_a == 1)
      memcpy(dx + w.a, dy, (size_t)w.n * sizeof *dy);
    else
      for (int64_t i = 0; i < w.n; i++) dx[w.a + i * w.step_a] = dy[i];
  }
  return NULL;
})

static void slice_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "slice_grad", c->dy[0], c->in[0], c->attr[0]);
}

/* ---- broadcast_to(x; shape): x repeated as NumPy broadcasts; -1 stands for x's own size */

static shoal_status broadcast_to_shape(op_shapes *s) {
  shoal_shape to = s->attr[0].list;
  int more = to.rank - s->in[0].rank;
  bool good = more >= 0;
  for (int i = 0; i < to.rank && good; i++) {
    if (to.dim[i] != SHOAL_UNKNOWN)
      good = to.dim[i] >= 0;
    else if ((good = i >= more))
      to.dim[i] = s->in[0].dim[i - more];
  }
  shoal_shape both;
  if (good) TRY(rule_broadcast(&s->in[0], &to, &both));
  if (!good || !shapes_fit(&both, &to)) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "%s does not broadcast to %s", shoal_shape_text(&s->in[0], a),
                       shoal_shape_text(&s->attr[0].list, b));
  }
  s->out[0] = to;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

ALL_TYPES_KERNEL(broadcast_to_kernel, {
  int64_t strides[SHOAL_MAX_RANK];
  walk_broadcast(&call->in[0].shape, &call->out[0].shape, strides);
  cell *y = call->out[0].data;
  walk w;
  walk_init(&w, &call->out[0].shape, strides, NULL);
  for (; w.left > 0; walk_next(&w), y += w.n) {
    const cell *x = (const cell *)call->in[0].data + w.a;
    for (int64_t i = 0; i < w.n; i++) y[i] = x[i * w.step_a];
  }
  return NULL;
})

static void broadcast_to_gradient(op_grad_call *c) { c->dx[0].value = grad_sum_to(c->graph, c->dy[0], c->in[0]); }

const op_row ops_shapes[] = {
    {.name = "transpose",
     .attrs = {{"order", ATTR_LIST, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = transpose_shape,
     .batch = transpose_batch,
     .gradient = transpose_gradient,
     .kernel = transpose_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3,4] order=1,0", "[?5,2,3] order=0,2,1", "[?5,3] order=1,0",
                                    "[2,3,4] order=2,0,1", "[2,3]", "u8[2,3]<9 order=1,0", "[3] order=0", NULL}},
    {.name = "slice",
     .attrs = {{"start", ATTR_LIST, 0}, {"size", ATTR_LIST, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = slice_shape,
     .batch = slice_batch,
     .gradient = slice_gradient,
     .kernel = slice_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3,4] start=1,0 size=2,3", "[?5,4] start=0,1 size=-1,2",
                                    "[?5,2] start=2,0 size=2,-1", "[6] start=2 size=-1",
                                    "[2,3,4] start=0,1,1 size=-1,2,2", "i64[4]<9 start=1 size=2", NULL}},
    {.name = "slice_grad",
     .attrs = {{"start", ATTR_LIST, 0}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 2,
     .shape = slice_grad_shape,
     .batch = slice_grad_batch,
     .kernel = slice_grad_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[2,3] [3,4] start=1,0", "[?5,2] [?5,4] start=0,1", "[1] [3] start=2", NULL}},
    {.name = "broadcast_to",
     .attrs = {{"shape", ATTR_LIST, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = broadcast_to_shape,
     .batch = batch_map_broadcast,
     .gradient = broadcast_to_gradient,
     .kernel = broadcast_to_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3] shape=2,3", "[?5,1,2] shape=-1,4,2", "[] shape=3", "[2,1] shape=3,2,5",
                                    "u8[1]<9 shape=4", "[?5,2] shape=3,-1,2", NULL}},
    {0}};

shoal_value *shoal_transpose(shoal_graph *g, shoal_value *x, shoal_shape order) {
  return GRAPH_UNARY(g, "transpose", x, ATTR_L(order));
}

shoal_value *shoal_slice(shoal_graph *g, shoal_value *x, shoal_shape start, shoal_shape size) {
  return GRAPH_UNARY(g, "slice", x, ATTR_L(start), ATTR_L(size));
}

shoal_value *shoal_broadcast_to(shoal_graph *g, shoal_value *x, shoal_shape shape) {
  return GRAPH_UNARY(g, "broadcast_to", x, ATTR_L(shape));
}
