/* Maximum and average of windows of images [n, height, width, channels]. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "graph/ops/window.h"

enum { SIZE_H, SIZE_W, STRIDE_H, STRIDE_W, PAD_TOP, PAD_LEFT, PAD_BOTTOM, PAD_RIGHT };
#define POOL_ATTRS                                                                                                    \
  {                                                                                                                   \
    {"size_h", ATTR_INT, 2}, {"size_w", ATTR_INT, 2}, {"stride_h", ATTR_INT, 2}, {"stride_w", ATTR_INT, 2},           \
        {"pad_top", ATTR_INT, 0}, {"pad_left", ATTR_INT, 0}, {"pad_bottom", ATTR_INT, 0}, {"pad_right", ATTR_INT, 0}, \
  }

static shoal_status pooled(const shoal_shape *x, const attr_value *attr, shoal_shape *y) {
  int64_t h = 0, w = 0;
  TRY(window_count(x->dim[1], attr[SIZE_H].i, attr[STRIDE_H].i, attr[PAD_TOP].i, attr[PAD_BOTTOM].i, "height", &h));
  TRY(window_count(x->dim[2], attr[SIZE_W].i, attr[STRIDE_W].i, attr[PAD_LEFT].i, attr[PAD_RIGHT].i, "width", &w));
  *y = SHOAL_SHAPE(x->dim[0], h, w, x->dim[3]);
  return NULL;
}

static shoal_status pool_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "x"));
  TRY(rule_rank(s, 0, 4, "x"));
  TRY(pooled(&s->in[0], s->attr, &s->out[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* (dy, x) or (dy, x, y): dy and y have the shape that pooling x gives. */
static shoal_status pool_grad_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 1, 4, "x"));
  shoal_shape y;
  TRY(pooled(&s->in[1], s->attr, &y));
  for (int i = 0; i < s->ins; i += 2)
    if (!shapes_fit(&s->in[i], &y)) {
      char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
      return status_make(SHOAL_ERR_ARGUMENT, "%s %s must have the pool's shape %s", i ? "y" : "dy",
                         shoal_shape_text(&s->in[i], a), shoal_shape_text(&y, b));
    }
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* One for each element of each window. */
static void pool_cost(const op_shapes *s, double *flops) {
  *flops = (double)shoal_shape_count(&s->out[0]) * (double)s->attr[SIZE_H].i * (double)s->attr[SIZE_W].i;
}
static void pool_grad_cost(const op_shapes *s, double *flops) {
  *flops = (double)shoal_shape_count(&s->in[0]) * (double)s->attr[SIZE_H].i * (double)s->attr[SIZE_W].i;
}

/* Runs the statement for every window: image n, output place (i, j); the window starts at (top, left) of the image,
 * and its rows [p0, p1) and columns [q0, q1) lie on it. xs, ys: shapes of image and output. */
#define FOR_WINDOWS(xs, ys, statement)                                      \
  for (int64_t n = 0; n < ys[0]; n++)                                       \
    for (int64_t i = 0; i < ys[1]; i++)                                     \
      for (int64_t j = 0; j < ys[2]; j++) {                                 \
        int64_t top = i * call->attr[STRIDE_H].i - call->attr[PAD_TOP].i;   \
        int64_t left = j * call->attr[STRIDE_W].i - call->attr[PAD_LEFT].i; \
        WINDOW_ON_IMAGE(top, call->attr[SIZE_H].i, xs[1], p0, p1);          \
        WINDOW_ON_IMAGE(left, call->attr[SIZE_W].i, xs[2], q0, q1);         \
        statement                                                           \
      }
/* Offset of the channels at place (p, q) of the window, and of the window's output. */
#define IMAGE_AT(p, q) (((n * xs[1] + top + (p)) * xs[2] + left + (q)) * xs[3])
#define OUTPUT_AT (((n * ys[1] + i) * ys[2] + j) * ys[3])

REAL_KERNEL(max_pool_kernel, {
  const real *x = call->in[0].data; /* [n, xs[1], xs[2], xs[3]] */
  real *y = call->out[0].data;      /* [n, ys[1], ys[2], xs[3]] */
  const int64_t *xs = call->in[0].shape.dim;
  const int64_t *ys = call->out[0].shape.dim;
  FOR_WINDOWS(xs, ys, {
    real *restrict best = y + OUTPUT_AT;
    const real *first = x + IMAGE_AT(p0, q0);
    for (int64_t c = 0; c < xs[3]; c++) best[c] = first[c];
    for (int64_t p = p0; p < p1; p++)
      for (int64_t q = q0; q < q1; q++) {
        const real *v = x + IMAGE_AT(p, q);
        for (int64_t c = 0; c < xs[3]; c++) best[c] = v[c] > best[c] ? v[c] : best[c];
      }
  })
  return NULL;
})

/* The gradient goes to the first maximum of the window, row by row. */
REAL_KERNEL(max_pool_grad_kernel, {
  const real *dy = call->in[0].data; /* [n, ys[1], ys[2], xs[3]] */
  const real *x = call->in[1].data;  /* [n, xs[1], xs[2], xs[3]] */
  const real *y = call->in[2].data;  /* as dy */
  real *dx = call->out[0].data;      /* as x */
  const int64_t *ys = call->in[0].shape.dim;
  const int64_t *xs = call->in[1].shape.dim;
  int64_t count = shoal_tensor_count(&call->out[0]);
  for (int64_t e = 0; e < count; e++) dx[e] = 0;
  FOR_WINDOWS(xs, ys, {
    for (int64_t c = 0; c < xs[3]; c++) {
      bool found = false;
      for (int64_t p = p0; p < p1 && !found; p++)
        for (int64_t q = q0; q < q1 && !found; q++)
          if (x[IMAGE_AT(p, q) + c] == y[OUTPUT_AT + c]) {
            dx[IMAGE_AT(p, q) + c] += dy[OUTPUT_AT + c];
            found = true;
          }
    }
  })
  return NULL;
})

REAL_KERNEL(avg_pool_kernel, {
  const real *x = call->in[0].data; /* [n, xs[1], xs[2], xs[3]] */
  real *y = call->out[0].data;      /* [n, ys[1], ys[2], xs[3]] */
  const int64_t *xs = call->in[0].shape.dim;
  const int64_t *ys = call->out[0].shape.dim;
  FOR_WINDOWS(xs, ys, {
    real *restrict sum = y + OUTPUT_AT;
    for (int64_t c = 0; c < xs[3]; c++) sum[c] = 0;
    for (int64_t p = p0; p < p1; p++)
      for (int64_t q = q0; q < q1; q++) {
        const real *v = x + IMAGE_AT(p, q);
        for (int64_t c = 0; c < xs[3]; c++) sum[c] += v[c];
      }
    real share = 1 / (real)((p1 - p0) * (q1 - q0));
    for (int64_t c = 0; c < xs[3]; c++) sum[c] *= share;
  })
  return NULL;
})

REAL_KERNEL(avg_pool_grad_kernel, {
  const real *dy = call->in[0].data; /* [n, ys[1], ys[2], xs[3]] */
  real *dx = call->out[0].data;      /* [n, xs[1], xs[2], xs[3]] */
  const int64_t *ys = call->in[0].shape.dim;
  const int64_t *xs = call->out[0].shape.dim;
  int64_t count = shoal_tensor_count(&call->out[0]);
  for (int64_t e = 0; e < count; e++) dx[e] = 0;
  FOR_WINDOWS(xs, ys, {
    real share = 1 / (real)((p1 - p0) * (q1 - q0));
    const real *g = dy + OUTPUT_AT;
    for (int64_t p = p0; p < p1; p++)
      for (int64_t q = q0; q < q1; q++) {
        real *restrict v = dx + IMAGE_AT(p, q);
        for (int64_t c = 0; c < xs[3]; c++) v[c] += g[c] * share;
      }
  })
  return NULL;
})

static void max_pool_gradient(op_grad_call *c) {
  shoal_value *in[] = {c->dy[0], c->in[0], c->out[0]};
  c->dx[0].value = graph_op(c->graph, "max_pool_grad", in, 3, c->attr);
}

static void avg_pool_gradient(op_grad_call *c) {
  shoal_value *in[] = {c->dy[0], c->in[0]};
  c->dx[0].value = graph_op(c->graph, "avg_pool_grad", in, 2, c->attr);
}

/* LeNet's, overlapping windows, padding, rows and columns that no window reaches. */
static const char *const pool_cases[] = {
    "[?3,6,8,4]",
    "[?18,4,4,3]",
    "[?2,7,6,3] size_h=3 size_w=2 stride_h=2 stride_w=1",
    "[?2,5,5,2] size_h=3 size_w=3 stride_h=2 stride_w=2 pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    "[2,5,5,1] size_h=1 size_w=1 stride_h=3 stride_w=3",
    NULL};
static const char *const max_pool_grad_cases[] = {
    "[?3,3,4,4] [?3,6,8,4] [?3,3,4,4]=max_pool:1", "[?18,2,2,3] [?18,4,4,3] [?18,2,2,3]=max_pool:1",
    "[?2,3,5,3] [?2,7,6,3] [?2,3,5,3]=max_pool:1 size_h=3 size_w=2 stride_h=2 stride_w=1",
    "[?2,3,3,2] [?2,5,5,2] [?2,3,3,2]=max_pool:1 size_h=3 size_w=3 stride_h=2 stride_w=2 pad_top=1 pad_left=1 "
    "pad_bottom=1 pad_right=1",
    NULL};
static const char *const avg_pool_grad_cases[] = {
    "[?3,3,4,4] [?3,6,8,4]", "[?18,2,2,3] [?18,4,4,3]", "[?2,3,5,3] [?2,7,6,3] size_h=3 size_w=2 stride_h=2 stride_w=1",
    "[?2,3,3,2] [?2,5,5,2] size_h=3 size_w=3 stride_h=2 stride_w=2 pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    NULL};

const op_row ops_pool[] = {
    {.name = "max_pool",
     .attrs = POOL_ATTRS,
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = pool_shape,
     .batch = batch_map,
     .gradient = max_pool_gradient,
     .kernel = max_pool_kernel,
     .variants = tuned_max_pool,
     .cost = pool_cost,
     .cases = pool_cases},
    {.name = "max_pool_grad",
     .attrs = POOL_ATTRS,
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = pool_grad_shape,
     .batch = batch_map,
     .kernel = max_pool_grad_kernel,
     .variants = tuned_max_pool_grad,
     .cost = pool_grad_cost,
     .cases = max_pool_grad_cases},
    {.name = "avg_pool",
     .attrs = POOL_ATTRS,
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = pool_shape,
     .batch = batch_map,
     .gradient = avg_pool_gradient,
     .kernel = avg_pool_kernel,
     .cost = pool_cost,
     .cases = pool_cases},
    {.name = "avg_pool_grad",
     .attrs = POOL_ATTRS,
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 1u << 1,
     .shape = pool_grad_shape,
     .batch = batch_map,
     .kernel = avg_pool_grad_kernel,
     .cost = pool_grad_cost,
     .cases = avg_pool_grad_cases},
    {0},
};
