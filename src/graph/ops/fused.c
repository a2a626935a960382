/* Operators that only the planner makes: conversions between layouts, and several operators in one. The kernels here
 * say what they compute; the fast ones are in src/kernel. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "kernel/lanes.h"
#include "kernel/skip.h"

#include <math.h>
#include <string.h>

/* ---- conversions */

static shoal_status same_kernel(const kernel_call *call) {
  memcpy(call->out[0].data, call->in[0].data, shoal_tensor_bytes(&call->in[0]));
  return NULL;
}

static shoal_status copy_rows_kernel(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  if (!x->shape.dim[0]) return NULL;
  size_t row = shoal_tensor_bytes(x) / (size_t)x->shape.dim[0];
  for (int64_t i = 0; i < x->shape.dim[0]; i++)
    memcpy((char *)call->out[0].data + (size_t)i * row, tensor_row(x, i, row), row);
  return NULL;
}

static shoal_status widen_shape(op_shapes *s) {
  if (s->in_dtype[0] != SHOAL_U8) return status_make(SHOAL_ERR_ARGUMENT, "expected u8");
  s->out[0] = s->in[0];
  s->out_dtype[0] = SHOAL_F32;
  return rule_rank_min(s, 0, 1, "input");
}

static shoal_status widen_kernel(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  const int64_t n = x->shape.dim[0], f = lanes_features(x);
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *row = tensor_row(x, i, (size_t)f);
    for (int64_t k = 0; k < f; k++) ((float *)call->out[0].data)[i * f + k] = (float)row[k] * (float)call->attr[0].f;
  }
  return NULL;
}

/* ---- activations, by one number */

static double activate(double x, int64_t act) {
  switch (act) {
    case ACT_RELU: return x < 0 ? 0 : x;
    case ACT_TANH: return tanh(x);
    case ACT_SIGMOID: return 1 / (1 + exp(-x));
    default: return x;
  }
}

/* From the activation's result. */
static double activation_slope(double y, int64_t act) {
  switch (act) {
    case ACT_RELU: return y > 0;
    case ACT_TANH: return 1 - y * y;
    case ACT_SIGMOID: return y * (1 - y);
    default: return 1;
  }
}

/* ---- convolution, bias, activation and 2 x 2 pooling in one */

typedef struct {
  int64_t n, h, w, c, kh, kw, o, oh, ow, ph, pw;
} block_dims;

static block_dims block_dims_of(const shoal_shape *x, const shoal_shape *w, const attr_value *a) {
  block_dims d = {x->dim[0], x->dim[1], x->dim[2], x->dim[3], w->dim[0], w->dim[1], w->dim[3], 0, 0, 0, 0};
  d.oh = (d.h + a[CONV_PAD_TOP].i + a[CONV_PAD_BOTTOM].i - d.kh) / a[CONV_STRIDE_H].i + 1;
  d.ow = (d.w + a[CONV_PAD_LEFT].i + a[CONV_PAD_RIGHT].i - d.kw) / a[CONV_STRIDE_W].i + 1;
  int64_t window = a[CONV_POOL].i == POOL_NONE ? 1 : 2;
  d.ph = d.oh / window;
  d.pw = d.ow / window;
  return d;
}

static shoal_status conv_block_shape(op_shapes *s) {
  TRY(rule_rank(s, 0, 4, "image"));
  TRY(rule_rank(s, 1, 4, "filter"));
  TRY(rule_rank(s, 2, 1, "bias"));
  block_dims d = block_dims_of(&s->in[0], &s->in[1], s->attr);
  s->out[0] = SHOAL_SHAPE(d.n, d.ph, d.pw, d.o);
  s->out_dtype[0] = SHOAL_F32;
  switch (s->attr[CONV_POOL].i) {
    case POOL_MAX:
      s->out[1] = s->out[0];
      s->out_dtype[1] = SHOAL_U8;
      break;
    case POOL_AVG:
      s->out[1] = SHOAL_SHAPE(d.n, d.oh, d.ow, d.o);
      s->out_dtype[1] = SHOAL_F32;
      break;
    default: s->out[1] = SHOAL_SHAPE(d.n, 1); s->out_dtype[1] = SHOAL_U8;
  }
  return NULL;
}

/* The sum at one position before bias and activation. */
static double window_sum(const block_dims *d, const attr_value *a, const float *x, const float *w, int64_t n, int64_t r,
                         int64_t q, int64_t m) {
  double sum = 0;
  for (int64_t ky = 0; ky < d->kh; ky++)
    for (int64_t kx = 0; kx < d->kw; kx++) {
      int64_t y = r * a[CONV_STRIDE_H].i + ky - a[CONV_PAD_TOP].i, z = q * a[CONV_STRIDE_W].i + kx - a[CONV_PAD_LEFT].i;
      if (y < 0 || y >= d->h || z < 0 || z >= d->w) continue;
      for (int64_t c = 0; c < d->c; c++)
        sum += (double)x[((n * d->h + y) * d->w + z) * d->c + c] * w[((ky * d->kw + kx) * d->c + c) * d->o + m];
    }
  return sum;
}

static shoal_status conv_block_kernel(const kernel_call *call) {
  const attr_value *a = call->attr;
  const block_dims d = block_dims_of(&call->in[0].shape, &call->in[1].shape, a);
  const float *bias = call->in[2].data;
  float *y = call->out[0].data;
  const int64_t act = a[CONV_ACT].i;
  for (int64_t n = 0; n < d.n; n++)
    for (int64_t r = 0; r < d.ph; r++)
      for (int64_t q = 0; q < d.pw; q++)
        for (int64_t m = 0; m < d.o; m++) {
          const int64_t at = ((n * d.ph + r) * d.pw + q) * d.o + m;
          if (a[CONV_POOL].i == POOL_NONE) {
            double sum = window_sum(&d, a, call->in[0].data, call->in[1].data, n, r, q, m);
            y[at] = (float)activate(sum + bias[m], act);
            continue;
          }
          double best = -INFINITY, total = 0;
          for (int j = 0; j < 4; j++) {
            const int64_t row = 2 * r + j / 2, column = 2 * q + j % 2;
            double sum = window_sum(&d, a, call->in[0].data, call->in[1].data, n, row, column, m) + bias[m];
            total += activate(sum, act);
            if (a[CONV_POOL].i == POOL_AVG) {
              ((float *)call->out[1].data)[((n * d.oh + row) * d.ow + column) * d.o + m] = (float)activate(sum, act);
            } else if (sum > best || j == 0) { /* activations never fall, so the winner is the same before them */
              best = sum;
              ((uint8_t *)call->out[1].data)[at] = (uint8_t)j;
            }
          }
          y[at] = (float)(a[CONV_POOL].i == POOL_MAX ? activate(best, act) : total / 4);
        }
  return NULL;
}

/* The gradient before activation and pooling, at one position. */
static double gradient_before(const block_dims *d, const attr_value *a, const shoal_tensor *dy, const shoal_tensor *y,
                              const shoal_tensor *aux, int64_t n, int64_t r, int64_t q, int64_t m) {
  const float *g = dy->data, *result = y->data;
  const int64_t act = a[CONV_ACT].i, full = ((n * d->oh + r) * d->ow + q) * d->o + m;
  if (a[CONV_POOL].i == POOL_NONE) return g[full] * activation_slope(result[full], act);
  if (r / 2 >= d->ph || q / 2 >= d->pw) return 0;
  const int64_t at = ((n * d->ph + r / 2) * d->pw + q / 2) * d->o + m;
  if (a[CONV_POOL].i == POOL_AVG) return g[at] / 4 * activation_slope(((const float *)aux->data)[full], act);
  if (((const uint8_t *)aux->data)[at] != r % 2 * 2 + q % 2) return 0;
  return g[at] * activation_slope(result[at], act);
}

/* Calls back for every product that the convolution is made of. */
#define FOR_EACH_PRODUCT(d, a, n, r, q, ky, kx, y, z)                               \
  for (int64_t n = 0; n < d.n; n++)                                                 \
    for (int64_t r = 0; r < d.oh; r++)                                              \
      for (int64_t q = 0; q < d.ow; q++)                                            \
        for (int64_t ky = 0; ky < d.kh; ky++)                                       \
          for (int64_t kx = 0, y = r * a[CONV_STRIDE_H].i + ky - a[CONV_PAD_TOP].i, \
                       z = q * a[CONV_STRIDE_W].i - a[CONV_PAD_LEFT].i;             \
               kx < d.kw; kx++, z++)                                                \
            if (y >= 0 && y < d.h && z >= 0 && z < d.w)

/* x, dy, y, aux -> dw, db */
static shoal_status conv_block_grad_w_kernel(const kernel_call *call) {
  const attr_value *a = call->attr;
  const block_dims d = block_dims_of(&call->in[0].shape, &call->out[0].shape, a);
  const float *x = call->in[0].data;
  float *dw = call->out[0].data, *db = call->out[1].data;
  if (!call->accumulate) {
    memset(dw, 0, shoal_tensor_bytes(&call->out[0]));
    memset(db, 0, shoal_tensor_bytes(&call->out[1]));
  }
  for (int64_t m = 0; m < d.o; m++) {
    for (int64_t n = 0; n < d.n; n++)
      for (int64_t r = 0; r < d.oh; r++)
        for (int64_t q = 0; q < d.ow; q++)
          db[m] += (float)gradient_before(&d, a, &call->in[1], &call->in[2], &call->in[3], n, r, q, m);
    FOR_EACH_PRODUCT(d, a, n, r, q, ky, kx, y, z) {
      double g = gradient_before(&d, a, &call->in[1], &call->in[2], &call->in[3], n, r, q, m);
      for (int64_t c = 0; c < d.c; c++)
        dw[((ky * d.kw + kx) * d.c + c) * d.o + m] += (float)(g * x[((n * d.h + y) * d.w + z) * d.c + c]);
    }
  }
  return NULL;
}

/* dy, w, (x's shape), y, aux -> dx */
static shoal_status conv_block_grad_x_kernel(const kernel_call *call) {
  const attr_value *a = call->attr;
  const block_dims d = block_dims_of(&call->in[2].shape, &call->in[1].shape, a);
  const float *w = call->in[1].data;
  float *dx = call->out[0].data;
  memset(dx, 0, shoal_tensor_bytes(&call->out[0]));
  FOR_EACH_PRODUCT(d, a, n, r, q, ky, kx, y, z)
  for (int64_t m = 0; m < d.o; m++) {
    double g = gradient_before(&d, a, &call->in[0], &call->in[3], &call->in[4], n, r, q, m);
    for (int64_t c = 0; c < d.c; c++)
      dx[((n * d.h + y) * d.w + z) * d.c + c] += (float)(g * w[((ky * d.kw + kx) * d.c + c) * d.o + m]);
  }
  return NULL;
}

/* Input 4: the filter, of which only the shape counts. */
static shoal_status conv_block_grad_w_shape(op_shapes *s) {
  s->out[0] = s->in[4];
  s->out[1] = SHOAL_SHAPE(s->in[4].dim[3]);
  s->out_dtype[0] = s->out_dtype[1] = SHOAL_F32;
  return NULL;
}

static shoal_status conv_block_grad_x_shape(op_shapes *s) {
  s->out[0] = s->in[2];
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

static void block_cost(const shoal_shape *x, const shoal_shape *w, const attr_value *attr, double *flops) {
  block_dims d = block_dims_of(x, w, attr);
  *flops = 2.0 * (double)(d.n * d.oh * d.ow) * (double)(d.kh * d.kw * d.c * d.o);
}
static void conv_block_cost(const op_shapes *s, double *flops) { block_cost(&s->in[0], &s->in[1], s->attr, flops); }
static void conv_block_grad_w_cost(const op_shapes *s, double *flops) {
  block_cost(&s->in[0], &s->in[4], s->attr, flops);
}
static void conv_block_grad_x_cost(const op_shapes *s, double *flops) {
  block_cost(&s->in[2], &s->in[1], s->attr, flops);
}

#define BLOCK_ATTRS                                                                                            \
  {                                                                                                            \
    {"stride_h", ATTR_INT, 1}, {"stride_w", ATTR_INT, 1}, {"pad_top", ATTR_INT, 0}, {"pad_left", ATTR_INT, 0}, \
        {"pad_bottom", ATTR_INT, 0}, {"pad_right", ATTR_INT, 0}, {"act", ATTR_INT, 0}, {"pool", ATTR_INT, 0},  \
  }

/* ---- x w + bias, and an activation */

static shoal_status dense_block_shape(op_shapes *s) {
  TRY(rule_rank_min(s, 0, 2, "x"));
  TRY(rule_rank(s, 1, 2, "weights"));
  const int last = s->in[0].rank - 1;
  if (!dims_fit(s->in[0].dim[last], s->in[1].dim[0]))
    return status_make(SHOAL_ERR_ARGUMENT, "inner dimensions differ: %lld and %lld", (long long)s->in[0].dim[last],
                       (long long)s->in[1].dim[0]);
  s->out[0] = s->in[0];
  s->out[0].dim[last] = s->in[1].dim[1];
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

static shoal_status dense_block_kernel(const kernel_call *call) {
  const float *x = call->in[0].data, *w = call->in[1].data, *bias = call->in[2].data;
  const int64_t f = call->in[1].shape.dim[0], k = call->in[1].shape.dim[1];
  const int64_t n = shape_span(&call->in[0].shape, 0, call->in[0].shape.rank - 1);
  for (int64_t i = 0; i < n; i++)
    for (int64_t m = 0; m < k; m++) {
      double sum = bias[m];
      for (int64_t j = 0; j < f; j++) sum += (double)x[i * f + j] * w[j * k + m];
      ((float *)call->out[0].data)[i * k + m] = (float)activate(sum, call->attr[0].i);
    }
  return NULL;
}

static void dense_block_cost(const op_shapes *s, double *flops) {
  *flops = 2.0 * (double)shoal_shape_count(&s->out[0]) * (double)s->in[1].dim[0];
}

/* ---- cross-entropy and its gradient: logits, labels, dloss -> loss, dlogits */

static shoal_status pair_shape(op_shapes *s) {
  TRY(rule_rank(s, 0, 2, "logits"));
  s->out[0] = SHOAL_SHAPE(s->in[0].dim[0]);
  s->out[1] = s->in[0];
  s->out_dtype[0] = s->out_dtype[1] = SHOAL_F32;
  return NULL;
}

static shoal_status pair_kernel(const kernel_call *call) {
  const int64_t n = call->in[0].shape.dim[0], k = call->in[0].shape.dim[1];
  const float *logits = call->in[0].data, *weight = call->in[2].data;
  for (int64_t i = 0; i < n; i++) {
    const float *x = logits + i * k;
    int64_t label = (int64_t)shoal_tensor_get(&call->in[1], i);
    if (label < 0 || label >= k)
      return status_make(SHOAL_ERR_INPUT, "label %lld in row %lld is out of range: there are %lld classes",
                         (long long)label, (long long)(call->first_row + i), (long long)k);
    double most = x[0], total = 0;
    for (int64_t m = 1; m < k; m++) most = x[m] > most ? x[m] : most;
    for (int64_t m = 0; m < k; m++) total += exp(x[m] - most);
    ((float *)call->out[0].data)[i] = (float)(log(total) + most - x[label]);
    for (int64_t m = 0; m < k; m++)
      ((float *)call->out[1].data)[i * k + m] = (float)((exp(x[m] - most) / total - (m == label)) * weight[i]);
  }
  return NULL;
}

/* ---- products that skip the zeros of images; see kernel/skip.h for the lists */

static shoal_status skip_compress_shape(op_shapes *s) {
  int64_t f = shape_span(&s->in[0], 1, s->in[0].rank);
  s->out[0] = SHOAL_SHAPE(s->in[0].dim[0], LIST_BYTES(f));
  s->out_dtype[0] = SHOAL_U8;
  return NULL;
}

static shoal_status skip_matmul_shape(op_shapes *s) {
  s->out[0] = SHOAL_SHAPE(s->in[0].dim[0], s->in[1].dim[1]);
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

/* Input 2: the weights, of which only the shape counts. */
static shoal_status skip_sum_shape(op_shapes *s) {
  s->out[0] = s->in[2];
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

/* As if nothing were zero: how much is, only the data knows. */
static void skip_matmul_cost(const op_shapes *s, double *flops) {
  *flops = 2.0 * (double)s->in[0].dim[0] * (double)shoal_shape_count(&s->in[1]);
}
static void skip_sum_cost(const op_shapes *s, double *flops) {
  *flops = 2.0 * (double)s->in[0].dim[0] * (double)shoal_shape_count(&s->in[2]);
}
static void skip_sgd_cost(const op_shapes *s, double *flops) {
  *flops = 2.0 * (double)s->in[1].dim[0] * (double)shoal_shape_count(&s->in[0]);
}

#define TAKES(i, o) .ins_min = (i), .ins_max = (i), .outs = (o)
#define CASES(...) \
  .cases = (const char *const[]) { __VA_ARGS__, NULL }
#define MADE_BY_PLANNER .flags = OP_INTERNAL | OP_NO_GRADIENT

const op_row ops_fused[] = {
    {.name = "pack_lanes",
     TAKES(1, 1),
     .flags = OP_INTERNAL | OP_NO_GRADIENT | OP_TAKES_ROWS,
     .attrs = {{"scale", ATTR_FLOAT, 0}},
     .shape = shape_as_input_float,
     .batch = batch_map,
     .kernel = copy_rows_kernel,
     .variants = tuned_pack,
     .cost = cost_zero,
     CASES("[?5,7]", "[?33,2,3]", "[?16]")},
    {.name = "unpack_lanes",
     TAKES(1, 1),
     MADE_BY_PLANNER,
     .shape = shape_as_input_float,
     .batch = batch_map,
     .kernel = same_kernel,
     .variants = tuned_unpack,
     .cost = cost_zero,
     CASES("[?5,7]", "[?33,2,3]", "[?16]")},
    {.name = "copy_rows",
     TAKES(1, 1),
     .flags = OP_INTERNAL | OP_NO_GRADIENT | OP_TAKES_ROWS,
     .shape = shape_as_input,
     .batch = batch_map,
     .kernel = copy_rows_kernel,
     .cost = cost_zero,
     CASES("[?5,7]", "u8[?3]", "i64[?4,2]<9")},
    {.name = "widen_u8",
     TAKES(1, 1),
     .flags = OP_INTERNAL | OP_NO_GRADIENT | OP_TAKES_ROWS,
     .attrs = {{"scale", ATTR_FLOAT, 1}},
     .shape = widen_shape,
     .batch = batch_map,
     .kernel = widen_kernel,
     .variants = tuned_widen,
     .cost = cost_zero,
     CASES("u8[?5,7] scale=0.5", "u8[?33,9,9,1] scale=0.00392", "u8[?16,130]")},
    {.name = "conv_block",
     TAKES(3, 2),
     MADE_BY_PLANNER,
     .attrs = BLOCK_ATTRS,
     .shape = conv_block_shape,
     .batch = batch_map,
     .kernel = conv_block_kernel,
     .variants = tuned_conv_block,
     .cost = conv_block_cost,
     CASES("[?5,8,8,3] [3,3,3,4] [4] act=1 pool=1",
           "[?17,9,7,2] [5,5,2,6] [6] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2 act=2 pool=2",
           "[?16,6,6,1] [5,5,1,16] [16] act=2 pool=1", "[?3,7,7,2] [3,3,2,7] [7] stride_h=2 stride_w=2 act=3",
           "[?20,6,11,5] [1,2,5,9] [9] pool=2",
           "[?18,6,7,16] [3,3,16,18] [18] pad_top=1 pad_left=1 pad_bottom=1 pad_right=1 act=1",
           "[?2,6,6,3] [6,6,3,1] [1] act=1")},
    {.name = "conv_block_grad_w",
     TAKES(5, 2),
     MADE_BY_PLANNER,
     .attrs = BLOCK_ATTRS,
     .shape_only = 1 << 4,
     .shape = conv_block_grad_w_shape,
     .batch = batch_sum,
     .kernel = conv_block_grad_w_kernel,
     .variants = tuned_conv_block_grad_w,
     .cost = conv_block_grad_w_cost,
     CASES("[?5,8,8,3] [?5,3,3,4] [?5,3,3,4] u8[?5,3,3,4]<4 [3,3,3,4] act=1 pool=1",
           "[?17,9,7,2] [?17,4,3,6] [?17,4,3,6] [?17,9,7,6] [5,5,2,6] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2 "
           "act=2 pool=2",
           "[?16,14,14,6] [?16,5,5,16] [?16,5,5,16] u8[?16,5,5,16]<4 [5,5,6,16] act=2 pool=1",
           "[?3,6,8,2] [?3,2,2,5] [?3,2,2,5] [?3,4,4,5] [3,5,2,5] act=1 pool=2")},
    {.name = "conv_block_grad_x",
     TAKES(5, 1),
     MADE_BY_PLANNER,
     .attrs = BLOCK_ATTRS,
     .shape_only = 1 << 2,
     .shape = conv_block_grad_x_shape,
     .batch = batch_map,
     .kernel = conv_block_grad_x_kernel,
     .variants = tuned_conv_block_grad_x,
     .cost = conv_block_grad_x_cost,
     CASES("[?5,3,3,4] [3,3,3,4] [?5,8,8,3] [?5,3,3,4] u8[?5,3,3,4]<4 act=1 pool=1",
           "[?17,4,3,6] [5,5,2,6] [?17,9,7,2] [?17,4,3,6] [?17,9,7,6] pad_top=2 pad_left=2 pad_bottom=2 pad_right=2 "
           "act=2 pool=2",
           "[?16,5,5,16] [5,5,6,16] [?16,14,14,6] [?16,5,5,16] u8[?16,5,5,16]<4 act=3 pool=1",
           "[?3,2,2,5] [3,5,8,5] [?3,6,8,8] [?3,2,2,5] [?3,4,4,5] pool=2")},
    {.name = "dense_block",
     TAKES(3, 1),
     MADE_BY_PLANNER,
     .attrs = {{"act", ATTR_INT, 0}},
     .shape = dense_block_shape,
     .batch = batch_map,
     .kernel = dense_block_kernel,
     .variants = tuned_dense_block,
     .cost = dense_block_cost,
     CASES("[?5,7] [7,3] [3]", "[?19,530] [530,500] [500] act=1", "[?64,20] [20,17] [17] act=1", "[?5,3,7] [7,3] [3]",
           "[?3,20,33] [33,40] [40]", "[?2,3,20,5] [5,17] [17] act=1", "[?40,3] [3,10] [10] act=2",
           "[?16,9] [9,1] [1] act=3")},
    {.name = "cross_entropy_pair",
     TAKES(3, 2),
     MADE_BY_PLANNER,
     .shape = pair_shape,
     .batch = batch_map,
     .kernel = pair_kernel,
     .variants = tuned_cross_entropy_pair,
     .cost = cost_input,
     CASES("[?5,7] i32[?5]<7 [?5]", "[?33,10] u8[?33]<10 [?33]", "[?16,40] i64[?16]<40 [?16]")},
    {.name = "skip_compress",
     TAKES(1, 1),
     .flags = OP_INTERNAL | OP_NO_GRADIENT | OP_TAKES_ROWS,
     .attrs = {{"scale", ATTR_FLOAT, 1}},
     .shape = skip_compress_shape,
     .batch = batch_map,
     .kernel = skip_compress_generic,
     .variants = tuned_skip_compress,
     .cost = cost_input,
     CASES("u8[?5,7]", "u8[?3,28,28,1]", "u8[?2,64]")},
    {.name = "skip_matmul",
     TAKES(3, 1),
     MADE_BY_PLANNER,
     .shape = skip_matmul_shape,
     .batch = batch_map,
     .kernel = skip_matmul_generic,
     .variants = tuned_skip_matmul,
     .cost = skip_matmul_cost,
     CASES("[]=skip_compress:u8[?5,7]<3 [7,3] [3]", "[]=skip_compress:u8[?33,100]<2 [100,10] [10]")},
    {.name = "skip_sum",
     TAKES(3, 1),
     MADE_BY_PLANNER,
     .shape_only = 1 << 2,
     .shape = skip_sum_shape,
     .batch = batch_sum,
     .kernel = skip_sum_generic,
     .variants = tuned_skip_sum,
     .cost = skip_sum_cost,
     CASES("[]=skip_compress:u8[?5,7]<3 [?5,3] [7,3]", "[]=skip_compress:u8[?33,100]<2 [?33,10] [100,10]")},
    {.name = "skip_sgd",
     TAKES(4, 1),
     .flags = OP_INTERNAL | OP_NO_GRADIENT | OP_STATEFUL,
     .updates = 1,
     .shape = shape_as_input_float,
     .kernel = skip_sgd_generic,
     .variants = tuned_skip_sgd,
     .cost = skip_sgd_cost,
     CASES("[7,3] []=skip_compress:u8[?5,7]<3 [?5,3] []>0", "[100,10] []=skip_compress:u8[?33,100]<2 [?33,10] []>0")},
    {0},
};
