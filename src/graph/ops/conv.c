/* Two-dimensional convolution: images [n, height, width, in], filters [height, width, in, out]. Padding is explicit. */
#include "graph/ops/dot.h"
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "graph/ops/window.h"

enum { STRIDE_H, STRIDE_W, PAD_TOP, PAD_LEFT, PAD_BOTTOM, PAD_RIGHT };
#define CONV_ATTRS                                                                                                  \
  {                                                                                                                 \
    {"stride_h", ATTR_INT, 1}, {"stride_w", ATTR_INT, 1}, {"pad_top", ATTR_INT, 0}, {"pad_left", ATTR_INT, 0},      \
        {"pad_bottom", ATTR_INT, 0}, {"pad_right", ATTR_INT, 0},                                                    \
  }

/* x [n,h,w,in], filter [kh,kw,in,out] -> the shape of y [n,oh,ow,out]. */
static shoal_status convolved(const shoal_shape *x, const shoal_shape *w, const attr_value *attr, shoal_shape *y) {
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  if (!dims_fit(x->dim[3], w->dim[2]))
    return status_make(SHOAL_ERR_ARGUMENT, "x %s has %lld channels, filter %s takes %lld; they must be equal",
                       shoal_shape_text(x, a), (long long)x->dim[3], shoal_shape_text(w, b), (long long)w->dim[2]);
  int64_t h = 0, wd = 0;
  TRY(window_count(x->dim[1], w->dim[0], attr[STRIDE_H].i, attr[PAD_TOP].i, attr[PAD_BOTTOM].i, "height", &h));
  TRY(window_count(x->dim[2], w->dim[1], attr[STRIDE_W].i, attr[PAD_LEFT].i, attr[PAD_RIGHT].i, "width", &wd));
  *y = SHOAL_SHAPE(x->dim[0], h, wd, w->dim[3]);
  return NULL;
}

static shoal_status conv2d_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "x"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 0, 4, "x"));
  TRY(rule_rank(s, 1, 4, "filter"));
  TRY(convolved(&s->in[0], &s->in[1], s->attr, &s->out[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(conv2d_kernel, {
  const real *x = call->in[0].data;           /* [n, xs[1], xs[2], xs[3]] */
  const real *w = call->in[1].data;           /* [ws[0], ws[1], ws[2], ws[3]] */
  real *y = call->out[0].data;                /* [n, ys[1], ys[2], ys[3]] */
  const int64_t *xs = call->in[0].shape.dim;
  const int64_t *ws = call->in[1].shape.dim;
  const int64_t *ys = call->out[0].shape.dim;
  for (int64_t n = 0; n < ys[0]; n++)
    for (int64_t i = 0; i < ys[1]; i++)
      for (int64_t j = 0; j < ys[2]; j++) {
        real *restrict yp = y + ((n * ys[1] + i) * ys[2] + j) * ys[3];
        for (int64_t o = 0; o < ys[3]; o++) yp[o] = 0;
        int64_t top = i * call->attr[STRIDE_H].i - call->attr[PAD_TOP].i;
        int64_t left = j * call->attr[STRIDE_W].i - call->attr[PAD_LEFT].i;
        WINDOW_ON_IMAGE(top, ws[0], xs[1], p_from, p_to);
        WINDOW_ON_IMAGE(left, ws[1], xs[2], q_from, q_to);
        for (int64_t p = p_from; p < p_to; p++)
          for (int64_t q = q_from; q < q_to; q++) {
            const real *xp = x + ((n * xs[1] + top + p) * xs[2] + left + q) * xs[3];
            const real *wp = w + (p * ws[1] + q) * ws[2] * ws[3];
            for (int64_t c = 0; c < ws[2]; c++)
              for (int64_t o = 0; o < ws[3]; o++) yp[o] += xp[c] * wp[c * ws[3] + o];
          }
      }
  return NULL;
})

static void conv2d_gradient(op_grad_call *c) {
  shoal_value *x = c->in[0], *w = c->in[1], *dy = c->dy[0];
  c->dx[0].value = graph_op(c->graph, "conv2d_grad_x", (shoal_value *[]){dy, w, x}, 3, c->attr);
  c->dx[1].value = graph_op(c->graph, "conv2d_grad_w", (shoal_value *[]){x, dy, w}, 3, c->attr);
}

/* Two for each output element and each tap of the filter. */
static double conv_flops(const shoal_shape *y, const shoal_shape *w) {
  return 2.0 * (double)shoal_shape_count(y) * (double)(w->dim[0] * w->dim[1] * w->dim[2]);
}

static void conv2d_cost(const op_shapes *s, double *flops) { *flops = conv_flops(&s->out[0], &s->in[1]); }

shoal_value *shoal_conv2d(shoal_graph *g, shoal_value *x, shoal_value *filter, int stride, shoal_padding padding) {
  attr_value attr[OP_MAX_ATTRS] = {[STRIDE_H] = ATTR_I(stride), [STRIDE_W] = ATTR_I(stride)};
  if (x && filter && padding == SHOAL_SAME && x->shape.rank == 4 && filter->shape.rank == 4) {
    shoal_status status =
        window_same(x->shape.dim[1], filter->shape.dim[0], stride, &attr[PAD_TOP].i, &attr[PAD_BOTTOM].i);
    if (!status)
      status = window_same(x->shape.dim[2], filter->shape.dim[1], stride, &attr[PAD_LEFT].i, &attr[PAD_RIGHT].i);
    if (status) {
      graph_fail(g, status_wrap(status, "conv2d"));
      return NULL;
    }
  }
  return graph_op(g, "conv2d", (shoal_value *[]){x, filter}, 2, attr);
}

/* ---- gradients */

/* dy must have the shape that x and w would give. */
static shoal_status check_dy(const shoal_shape *x, const shoal_shape *w, const shoal_shape *dy,
                             const attr_value *attr) {
  shoal_shape y;
  TRY(convolved(x, w, attr, &y));
  if (shapes_fit(&y, dy)) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "dy %s must have the convolution's shape %s", shoal_shape_text(dy, a),
                     shoal_shape_text(&y, b));
}

static shoal_status conv2d_grad_x_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 0, 4, "dy"));
  TRY(rule_rank(s, 1, 4, "filter"));
  TRY(rule_rank(s, 2, 4, "x"));
  TRY(check_dy(&s->in[2], &s->in[1], &s->in[0], s->attr));
  s->out[0] = s->in[2];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(conv2d_grad_x_kernel, {
  const real *dy = call->in[0].data;           /* [n, ys[1], ys[2], ys[3]] */
  const real *w = call->in[1].data;            /* [ws[0], ws[1], ws[2], ws[3]] */
  real *dx = call->out[0].data;                /* [n, xs[1], xs[2], xs[3]] */
  const int64_t *ys = call->in[0].shape.dim;
  const int64_t *ws = call->in[1].shape.dim;
  const int64_t *xs = call->out[0].shape.dim;
  int64_t count = shoal_tensor_count(&call->out[0]);
  for (int64_t i = 0; i < count; i++) dx[i] = 0;
  for (int64_t n = 0; n < ys[0]; n++)
    for (int64_t i = 0; i < ys[1]; i++)
      for (int64_t j = 0; j < ys[2]; j++) {
        const real *dyp = dy + ((n * ys[1] + i) * ys[2] + j) * ys[3];
        int64_t top = i * call->attr[STRIDE_H].i - call->attr[PAD_TOP].i;
        int64_t left = j * call->attr[STRIDE_W].i - call->attr[PAD_LEFT].i;
        WINDOW_ON_IMAGE(top, ws[0], xs[1], p_from, p_to);
        WINDOW_ON_IMAGE(left, ws[1], xs[2], q_from, q_to);
        for (int64_t p = p_from; p < p_to; p++)
          for (int64_t q = q_from; q < q_to; q++) {
            real *dxp = dx + ((n * xs[1] + top + p) * xs[2] + left + q) * xs[3];
            const real *wp = w + (p * ws[1] + q) * ws[2] * ws[3];
            for (int64_t c = 0; c < ws[2]; c++) dxp[c] += DOT(dyp, wp + c * ws[3], ws[3]);
          }
      }
  return NULL;
})

static void conv2d_grad_x_cost(const op_shapes *s, double *flops) { *flops = conv_flops(&s->in[0], &s->in[1]); }

static shoal_status conv2d_grad_w_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "x"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 0, 4, "x"));
  TRY(rule_rank(s, 1, 4, "dy"));
  TRY(rule_rank(s, 2, 4, "filter"));
  TRY(check_dy(&s->in[0], &s->in[2], &s->in[1], s->attr));
  s->out[0] = s->in[2];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(conv2d_grad_w_kernel, {
  const real *x = call->in[0].data;            /* [n, xs[1], xs[2], xs[3]] */
  const real *dy = call->in[1].data;           /* [n, ys[1], ys[2], ys[3]] */
  real *dw = call->out[0].data;                /* [ws[0], ws[1], ws[2], ws[3]] */
  const int64_t *xs = call->in[0].shape.dim;
  const int64_t *ys = call->in[1].shape.dim;
  const int64_t *ws = call->out[0].shape.dim;
  int64_t count = shoal_tensor_count(&call->out[0]);
  if (!call->accumulate)
    for (int64_t i = 0; i < count; i++) dw[i] = 0;
  for (int64_t n = 0; n < ys[0]; n++)
    for (int64_t i = 0; i < ys[1]; i++)
      for (int64_t j = 0; j < ys[2]; j++) {
        const real *dyp = dy + ((n * ys[1] + i) * ys[2] + j) * ys[3];
        int64_t top = i * call->attr[STRIDE_H].i - call->attr[PAD_TOP].i;
        int64_t left = j * call->attr[STRIDE_W].i - call->attr[PAD_LEFT].i;
        WINDOW_ON_IMAGE(top, ws[0], xs[1], p_from, p_to);
        WINDOW_ON_IMAGE(left, ws[1], xs[2], q_from, q_to);
        for (int64_t p = p_from; p < p_to; p++)
          for (int64_t q = q_from; q < q_to; q++) {
            const real *xp = x + ((n * xs[1] + top + p) * xs[2] + left + q) * xs[3];
            real *restrict dwp = dw + (p * ws[1] + q) * ws[2] * ws[3];
            for (int64_t c = 0; c < ws[2]; c++)
              for (int64_t o = 0; o < ws[3]; o++) dwp[c * ws[3] + o] += xp[c] * dyp[o];
          }
      }
  return NULL;
})

static void conv2d_grad_w_cost(const op_shapes *s, double *flops) { *flops = conv_flops(&s->in[1], &s->in[2]); }

/* LeNet's two layers, strides, padding on one side only, a 1x1 filter, images that leave a remainder. */
static const char *const conv2d_cases[] = {
    "[?3,9,8,2] [3,3,2,4]",
    "[?2,12,12,1] [5,5,1,6] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2",
    "[?18,6,6,3] [5,5,3,16]",
    "[?2,8,7,3] [3,2,3,5] stride_h=2 stride_w=3 pad_bottom=1 pad_right=1",
    "[2,4,4,3] [1,1,3,2] stride_h=2 stride_w=2",
    "[?1,5,5,1] [5,5,1,1] pad_top=4 pad_left=4 pad_bottom=4 pad_right=4",
    "[?18,7,6,16] [3,3,16,20] pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    "[?3,9,5,17] [5,5,17,70] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2",
    "[?2,6,6,16] [2,2,16,16] pad_bottom=1",
    "[?2,9,9,18] [4,4,18,16]",
    "[?17,24,20,3] [11,11,3,17] stride_h=4 stride_w=4",
    NULL};
static const char *const conv2d_grad_x_cases[] = {
    "[?3,7,6,4] [3,3,2,4] [?3,9,8,2]",
    "[?2,12,12,6] [5,5,1,6] [?2,12,12,1] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2",
    "[?18,2,2,16] [5,5,3,16] [?18,6,6,3]",
    "[?2,4,3,5] [3,2,3,5] [?2,8,7,3] stride_h=2 stride_w=3 pad_bottom=1 pad_right=1",
    "[2,2,2,2] [1,1,3,2] [2,4,4,3] stride_h=2 stride_w=2",
    "[?18,7,6,20] [3,3,16,20] [?18,7,6,16] pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    "[?3,9,5,70] [5,5,17,70] [?3,9,5,17] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2",
    "[?2,6,5,16] [2,2,16,16] [?2,6,6,16] pad_bottom=1",
    "[?2,6,6,16] [4,4,18,16] [?2,9,9,18]",
    NULL};
static const char *const conv2d_grad_w_cases[] = {
    "[?3,9,8,2] [?3,7,6,4] [3,3,2,4]",
    "[?2,12,12,1] [?2,12,12,6] [5,5,1,6] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2",
    "[?18,6,6,3] [?18,2,2,16] [5,5,3,16]",
    "[?2,8,7,3] [?2,4,3,5] [3,2,3,5] stride_h=2 stride_w=3 pad_bottom=1 pad_right=1",
    "[2,4,4,3] [2,2,2,2] [1,1,3,2] stride_h=2 stride_w=2",
    "[?18,7,6,16] [?18,7,6,20] [3,3,16,20] pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    "[?3,9,5,17] [?3,9,5,70] [5,5,17,70] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2",
    "[?2,6,6,16] [?2,6,5,16] [2,2,16,16] pad_bottom=1",
    "[?2,9,9,18] [?2,6,6,16] [4,4,18,16]",
    "[?17,24,20,3] [?17,4,3,17] [11,11,3,17] stride_h=4 stride_w=4",
    NULL};

const op_row ops_conv[] = {
    {.name = "conv2d",
     .attrs = CONV_ATTRS,
     .ins_least = 2,
     .ins_most = 2,
     .outs = 1,
     .shape = conv2d_shape,
     .batch = batch_map,
     .gradient = conv2d_gradient,
     .kernel = conv2d_kernel,
     .variants = tuned_conv2d,
     .cost = conv2d_cost,
     .cases = conv2d_cases},
    {.name = "conv2d_grad_x",
     .attrs = CONV_ATTRS,
     .ins_least = 3,
     .ins_most = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 1u << 2,
     .shape = conv2d_grad_x_shape,
     .batch = batch_map,
     .kernel = conv2d_grad_x_kernel,
     .variants = tuned_conv2d_grad_x,
     .cost = conv2d_grad_x_cost,
     .cases = conv2d_grad_x_cases},
    {.name = "conv2d_grad_w",
     .attrs = CONV_ATTRS,
     .ins_least = 3,
     .ins_most = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 1u << 2,
     .shape = conv2d_grad_w_shape,
     .batch = batch_sum,
     .kernel = conv2d_grad_w_kernel,
     .variants = tuned_conv2d_grad_w,
     .cost = conv2d_grad_w_cost,
     .cases = conv2d_grad_w_cases},
    {0},
};
