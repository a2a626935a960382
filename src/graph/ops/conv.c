/* Two-dimensional convolution: images [n, height, width, in], filters [height, width, in, out]. Padding is explicit. */
#include "graph/ops/dot.h"
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "graph/ops/window.h"

#include <string.h>

/* Filter taps may be a few pixels apart (dilation), and channels may be in groups that do not see each other: then a
 * filter is [height, width, in / groups, out]. The tuned kernels are for neither. */
enum { STRIDE_H, STRIDE_W, PAD_TOP, PAD_LEFT, PAD_BOTTOM, PAD_RIGHT, DILATION_H, DILATION_W, GROUPS, OUTPUT };
#define CONV_ATTRS                                                                                           \
  {"stride_h", ATTR_INT, 1}, {"stride_w", ATTR_INT, 1}, {"pad_top", ATTR_INT, 0}, {"pad_left", ATTR_INT, 0}, \
      {"pad_bottom", ATTR_INT, 0}, {"pad_right", ATTR_INT, 0}, {"dilation_h", ATTR_INT, 1},                  \
      {"dilation_w", ATTR_INT, 1}, {                                                                         \
    "groups", ATTR_INT, 1                                                                                    \
  }

static shoal_status check_channels(const shoal_shape *x, const shoal_shape *w, int64_t groups) {
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  if (groups < 1 || (w->dim[3] != SHOAL_UNKNOWN && w->dim[3] % groups))
    return status_make(SHOAL_ERR_ARGUMENT, "the outputs of filter %s cannot be cut into %lld equal groups",
                       shoal_shape_text(w, a), (long long)groups);
  if (x->dim[3] == SHOAL_UNKNOWN || w->dim[2] == SHOAL_UNKNOWN || x->dim[3] == count_times(w->dim[2], groups))
    return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "x %s has %lld channels, filter %s takes %lld%s; they must be equal",
                     shoal_shape_text(x, a), (long long)x->dim[3], shoal_shape_text(w, b), (long long)w->dim[2],
                     groups > 1 ? " of each group" : "");
}

/* x [n,h,w,in], filter [kh,kw,in/groups,out] -> the shape of y [n,oh,ow,out]. */
static shoal_status convolved(const shoal_shape *x, const shoal_shape *w, const attr_value *attr, shoal_shape *y) {
  int64_t h = 0, wd = 0, reach_h = 0, reach_w = 0;
  TRY(check_channels(x, w, attr[GROUPS].i));
  TRY(window_reach(w->dim[0], attr[DILATION_H].i, "height", &reach_h));
  TRY(window_reach(w->dim[1], attr[DILATION_W].i, "width", &reach_w));
  TRY(window_count(x->dim[1], reach_h, attr[STRIDE_H].i, attr[PAD_TOP].i, attr[PAD_BOTTOM].i, "height", &h));
  TRY(window_count(x->dim[2], reach_w, attr[STRIDE_W].i, attr[PAD_LEFT].i, attr[PAD_RIGHT].i, "width", &wd));
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

/* Runs the statement for every tap that lies on the image, with the offsets of its channels in image, filter and output:
 * in_x, in_w, in_y. xs, ws, ys: shapes. */
#define FOR_TAPS(xs, ws, ys, statement)                                                         \
  for (int64_t n = 0; n < ys[0]; n++)                                                           \
    for (int64_t i = 0; i < ys[1]; i++)                                                         \
      for (int64_t j = 0; j < ys[2]; j++) {                                                     \
        const int64_t in_y = ((n * ys[1] + i) * ys[2] + j) * ys[3];                             \
        const int64_t dh = call->attr[DILATION_H].i, dw_ = call->attr[DILATION_W].i;            \
        const int64_t top = i * call->attr[STRIDE_H].i - call->attr[PAD_TOP].i;                 \
        const int64_t left = j * call->attr[STRIDE_W].i - call->attr[PAD_LEFT].i;               \
        TAPS_ON_IMAGE(top, ws[0], dh, xs[1], p_from, p_to);                                     \
        TAPS_ON_IMAGE(left, ws[1], dw_, xs[2], q_from, q_to);                                   \
        for (int64_t p = p_from; p < p_to; p++)                                                 \
          for (int64_t q = q_from; q < q_to; q++) {                                             \
            const int64_t in_x = ((n * xs[1] + top + p * dh) * xs[2] + left + q * dw_) * xs[3]; \
            const int64_t in_w = (p * ws[1] + q) * ws[2] * ws[3];                               \
            statement                                                                           \
          }                                                                                     \
      }
/* Runs the statement for each input channel: c among those of the image, k among those of its group, and the group's
 * outputs [o_from, o_to). */
#define FOR_CHANNELS(ws, statement)                      \
  for (int64_t c = 0; c < groups * ws[2]; c++) {         \
    const int64_t k = c % ws[2];                         \
    const int64_t o_from = c / ws[2] * (ws[3] / groups); \
    const int64_t o_to = o_from + ws[3] / groups;        \
    statement                                            \
  }
/* Each channel by itself: then the loops are over channels. */
#define DEPTHWISE(ws) (ws[2] == 1 && ws[3] == groups)

REAL_KERNEL(conv2d_kernel, {
  const real *x = call->in[0].data;     /* [n, xs[1], xs[2], xs[3]] */
  const real *w = call->in[1].data;     /* [ws[0], ws[1], ws[2], ws[3]] */
  real *restrict y = call->out[0].data; /* [n, ys[1], ys[2], ys[3]] */
  const int64_t *xs = call->in[0].shape.dim;
  const int64_t *ws = call->in[1].shape.dim;
  const int64_t *ys = call->out[0].shape.dim;
  const int64_t groups = call->attr[GROUPS].i;
  memset(y, 0, shoal_tensor_bytes(&call->out[0]));
  if (DEPTHWISE(ws)) {
    FOR_TAPS(xs, ws, ys, {
      for (int64_t c = 0; c < groups; c++) y[in_y + c] += x[in_x + c] * w[in_w + c];
    })
    return NULL;
  }
  FOR_TAPS(xs, ws, ys, {FOR_CHANNELS(ws, {
             const real v = x[in_x + c];
             for (int64_t o = o_from; o < o_to; o++) y[in_y + o] += v * w[in_w + k * ws[3] + o];
           })})
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

/* Also the forward kernel of conv2d_transpose: what a convolution takes from x it puts there. */
REAL_KERNEL(conv2d_grad_x_kernel, {
  const real *dy = call->in[0].data;     /* [n, ys[1], ys[2], ys[3]] */
  const real *w = call->in[1].data;      /* [ws[0], ws[1], ws[2], ws[3]] */
  real *restrict dx = call->out[0].data; /* [n, xs[1], xs[2], xs[3]] */
  const int64_t *ys = call->in[0].shape.dim;
  const int64_t *ws = call->in[1].shape.dim;
  const int64_t *xs = call->out[0].shape.dim;
  const int64_t groups = call->attr[GROUPS].i;
  memset(dx, 0, shoal_tensor_bytes(&call->out[0]));
  if (DEPTHWISE(ws)) {
    FOR_TAPS(xs, ws, ys, {
      for (int64_t c = 0; c < groups; c++) dx[in_x + c] += dy[in_y + c] * w[in_w + c];
    })
    return NULL;
  }
  FOR_TAPS(
      xs, ws, ys,
      {FOR_CHANNELS(ws, { dx[in_x + c] += DOT(dy + in_y + o_from, w + in_w + k * ws[3] + o_from, o_to - o_from); })})
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
  const real *x = call->in[0].data;      /* [n, xs[1], xs[2], xs[3]] */
  const real *dy = call->in[1].data;     /* [n, ys[1], ys[2], ys[3]] */
  real *restrict dw = call->out[0].data; /* [ws[0], ws[1], ws[2], ws[3]] */
  const int64_t *xs = call->in[0].shape.dim;
  const int64_t *ys = call->in[1].shape.dim;
  const int64_t *ws = call->out[0].shape.dim;
  const int64_t groups = call->attr[GROUPS].i;
  if (!call->accumulate) memset(dw, 0, shoal_tensor_bytes(&call->out[0]));
  if (DEPTHWISE(ws)) {
    FOR_TAPS(xs, ws, ys, {
      for (int64_t c = 0; c < groups; c++) dw[in_w + c] += x[in_x + c] * dy[in_y + c];
    })
    return NULL;
  }
  FOR_TAPS(xs, ws, ys, {FOR_CHANNELS(ws, {
             const real v = x[in_x + c];
             for (int64_t o = o_from; o < o_to; o++) dw[in_w + k * ws[3] + o] += v * dy[in_y + o];
           })})
  return NULL;
})

static void conv2d_grad_w_cost(const op_shapes *s, double *flops) { *flops = conv_flops(&s->in[1], &s->in[2]); }

/* ---- conv2d_transpose: the shape of x is that of a convolution of the result; filter [kh, kw, out / groups, in] */

/* The smallest extent whose convolution has `count` places, or the one asked for, if its convolution has as many. */
static shoal_status spread(int64_t count, int64_t size, const attr_value *attr, int axis, int64_t *out) {
  static const char *const names[] = {"height", "width"};
  int64_t stride = attr[STRIDE_H + axis].i, before = attr[PAD_TOP + axis].i, after = attr[PAD_BOTTOM + axis].i;
  int64_t reach = 0, asked = attr[OUTPUT].list.rank ? attr[OUTPUT].list.dim[axis] : 0, places = 0;
  TRY(window_reach(size, attr[DILATION_H + axis].i, names[axis], &reach));
  TRY(window_count(SHOAL_UNKNOWN, reach, stride, before, after, names[axis], &places)); /* checks them */
  if (count == SHOAL_UNKNOWN) {
    *out = SHOAL_UNKNOWN;
    return NULL;
  }
  int64_t steps = MIN_OF(count_times(count - 1, stride), TENSOR_MAX_BYTES);
  int64_t extent = asked > 0 ? asked : steps + reach - before - after;
  if (count < 1) return status_make(SHOAL_ERR_ARGUMENT, "the image's %s is 0", names[axis]);
  TRY(window_count(extent, reach, stride, before, after, names[axis], &places));
  if (places != count)
    return status_make(SHOAL_ERR_ARGUMENT, "a convolution of %s %lld has %lld places, not %lld", names[axis],
                       (long long)extent, (long long)places, (long long)count);
  *out = extent;
  return NULL;
}

static shoal_status conv2d_transpose_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "x"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 0, 4, "x"));
  TRY(rule_rank(s, 1, 4, "filter"));
  const shoal_shape *x = &s->in[0], *w = &s->in[1];
  if (s->attr[OUTPUT].list.rank != 0 && s->attr[OUTPUT].list.rank != 2)
    return status_make(SHOAL_ERR_ARGUMENT, "output must be height and width");
  int64_t groups = s->attr[GROUPS].i, h = 0, wd = 0, out = SHOAL_UNKNOWN;
  if (groups < 1 || !dims_fit(x->dim[3], w->dim[3]) || (w->dim[3] != SHOAL_UNKNOWN && w->dim[3] % groups)) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "x %s has %lld channels, filter %s takes %lld in %lld equal groups",
                       shoal_shape_text(x, a), (long long)x->dim[3], shoal_shape_text(w, b), (long long)w->dim[3],
                       (long long)groups);
  }
  TRY(spread(x->dim[1], w->dim[0], s->attr, 0, &h));
  TRY(spread(x->dim[2], w->dim[1], s->attr, 1, &wd));
  if (w->dim[2] != SHOAL_UNKNOWN) out = count_times(w->dim[2], groups);
  s->out[0] = SHOAL_SHAPE(x->dim[0], h, wd, out);
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static void conv2d_transpose_gradient(op_grad_call *c) {
  shoal_value *x = c->in[0], *w = c->in[1], *dy = c->dy[0];
  c->dx[0].value = graph_op(c->graph, "conv2d", (shoal_value *[]){dy, w}, 2, c->attr);
  c->dx[1].value = graph_op(c->graph, "conv2d_grad_w", (shoal_value *[]){dy, x, w}, 3, c->attr);
}

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
    "[?5,7,6,40] [3,3,40,33] stride_h=2 stride_w=2 pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    "[?3,7,6,16] [3,2,16,17] dilation_h=2 dilation_w=3 stride_w=2 pad_top=1 pad_right=2",
    "[?9,4,4,64] [1,1,64,20] stride_h=2 stride_w=2",
    "[?2,9,8,2] [3,2,2,3] dilation_h=2 dilation_w=3 pad_top=2 pad_right=1",
    "[?2,2,3,2] [2,2,2,3] dilation_h=4 dilation_w=1 pad_top=3 pad_bottom=4", /* some windows see nothing */
    "[?2,6,5,6] [3,3,2,9] groups=3 stride_w=2 pad_left=1",
    "[?2,7,6,5] [3,3,1,5] groups=5 dilation_h=2",
    "[?2,7,6,3] [3,3,1,6] groups=3 stride_h=2",
    NULL};
static const char *const conv2d_transpose_cases[] = {
    "[?2,3,4,5] [3,2,2,5]",
    "[?2,3,4,5] [3,3,2,5] stride_h=2 stride_w=3 pad_top=1 pad_left=1 pad_bottom=1",
    "[?2,3,2,4] [3,3,2,4] stride_h=2 stride_w=2 pad_top=1 pad_left=1 pad_bottom=1 pad_right=1 output=6,4",
    "[2,2,3,4] [2,2,3,4] groups=2 dilation_w=2",
    "[?2,3,3,4] [2,2,1,4] groups=4 stride_h=2 stride_w=2",
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
    "[?5,4,3,33] [3,3,40,33] [?5,7,6,40] stride_h=2 stride_w=2 pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    "[?3,4,3,17] [3,2,16,17] [?3,7,6,16] dilation_h=2 dilation_w=3 stride_w=2 pad_top=1 pad_right=2",
    "[?9,2,2,20] [1,1,64,20] [?9,4,4,64] stride_h=2 stride_w=2",
    "[?2,7,6,3] [3,2,2,3] [?2,9,8,2] dilation_h=2 dilation_w=3 pad_top=2 pad_right=1",
    "[?2,4,3,9] [3,3,2,9] [?2,6,5,6] groups=3 stride_w=2 pad_left=1 pad_right=1",
    "[?2,3,4,5] [3,3,1,5] [?2,7,6,5] groups=5 dilation_h=2",
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
    "[?5,7,6,40] [?5,4,3,33] [3,3,40,33] stride_h=2 stride_w=2 pad_top=1 pad_left=1 pad_bottom=1 pad_right=1",
    "[?3,7,6,16] [?3,4,3,17] [3,2,16,17] dilation_h=2 dilation_w=3 stride_w=2 pad_top=1 pad_right=2",
    "[?9,4,4,64] [?9,2,2,20] [1,1,64,20] stride_h=2 stride_w=2",
    "[?2,9,8,2] [?2,7,6,3] [3,2,2,3] dilation_h=2 dilation_w=3 pad_top=2 pad_right=1",
    "[?2,6,5,6] [?2,4,3,9] [3,3,2,9] groups=3 stride_w=2 pad_left=1 pad_right=1",
    "[?2,7,6,5] [?2,3,4,5] [3,3,1,5] groups=5 dilation_h=2",
    NULL};

const op_row ops_conv[] = {
    {.name = "conv2d",
     .attrs = {CONV_ATTRS},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = conv2d_shape,
     .batch = batch_map,
     .gradient = conv2d_gradient,
     .kernel = conv2d_kernel,
     .variants = tuned_conv2d,
     .cost = conv2d_cost,
     .cases = conv2d_cases},
    {.name = "conv2d_grad_x",
     .attrs = {CONV_ATTRS},
     .ins_min = 3,
     .ins_max = 3,
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
     .attrs = {CONV_ATTRS},
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 1u << 2,
     .shape = conv2d_grad_w_shape,
     .batch = batch_sum,
     .kernel = conv2d_grad_w_kernel,
     .variants = tuned_conv2d_grad_w,
     .cost = conv2d_grad_w_cost,
     .cases = conv2d_grad_w_cases},
    {.name = "conv2d_transpose",
     .attrs = {CONV_ATTRS, {"output", ATTR_LIST, 0}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = conv2d_transpose_shape,
     .batch = batch_map,
     .gradient = conv2d_transpose_gradient,
     .kernel = conv2d_grad_x_kernel,
     .cost = conv2d_grad_x_cost,
     .cases = conv2d_transpose_cases},
    {0},
};
