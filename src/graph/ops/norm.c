/* Local response normalisation and batch normalisation; channels are the last axis. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"

#include "base/mem.h"

#include <tgmath.h>

/* ---- local_response_norm: y_i = x_i s_i^-beta, s_i = bias + alpha * sum of x_j^2 over the window around i */

enum { RADIUS, BIAS, ALPHA, BETA };
#define LRN_ATTRS                                                                                           \
  {                                                                                                         \
    {"radius", ATTR_INT, 5}, {"bias", ATTR_FLOAT, 1}, {"alpha", ATTR_FLOAT, 1}, { "beta", ATTR_FLOAT, 0.5 } \
  }

#define LRN_RING 64 /* more than twice the largest radius, a power of two: the gradient keeps a window on the stack */
#define LRN_RADIUS_MAX 31

static shoal_status lrn_shape(op_shapes *s) {
  TRY(rule_rank_min(s, 0, 1, "x"));
  if (s->attr[RADIUS].i < 0 || s->attr[RADIUS].i > LRN_RADIUS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "radius %lld must be between 0 and %d", (long long)s->attr[RADIUS].i,
                       LRN_RADIUS_MAX);
  return shape_all_alike_float(s);
}

static op_batch lrn_batch(const op_shapes *s) { return s->in[0].rank < 2 ? BATCH_WHOLE : batch_map(s); }

/* s_i of the channels x[0..channels). */
#define LRN_SCALE(x, i)                                                                        \
  ({                                                                                           \
    real squares_ = 0;                                                                         \
    int64_t last_ = MIN_OF((i) + radius, channels - 1);                                        \
    for (int64_t k_ = MAX_OF((i)-radius, 0); k_ <= last_; k_++) squares_ += (x)[k_] * (x)[k_]; \
    (real) call->attr[BIAS].f + (real)call->attr[ALPHA].f *squares_;                           \
  })

#define LRN_SIZES                                                             \
  const shoal_shape *shape = &call->out[0].shape;                             \
  int64_t channels = shape->dim[shape->rank - 1];                             \
  int64_t rows = channels ? shoal_tensor_count(&call->out[0]) / channels : 0; \
  int64_t radius = call->attr[RADIUS].i;                                      \
  real beta = (real)call->attr[BETA].f;

REAL_KERNEL(lrn_kernel, {
  const real *x = call->in[0].data; /* [rows, channels] */
  real *y = call->out[0].data;      /* [rows, channels] */
  LRN_SIZES
  for (int64_t r = 0; r < rows; r++, x += channels, y += channels)
    for (int64_t i = 0; i < channels; i++) y[i] = x[i] * pow(LRN_SCALE(x, i), -beta);
  return NULL;
})

/* dx_i = dy_i s_i^-beta - 2 alpha beta x_i * sum over the window of dy_j x_j s_j^(-beta-1). Each s_j is made once: two
 * rings hold what the window needs of it. */
REAL_KERNEL(lrn_grad_kernel, {
  const real *dy = call->in[0].data; /* [rows, channels] */
  const real *x = call->in[1].data;  /* [rows, channels] */
  real *dx = call->out[0].data;      /* [rows, channels] */
  LRN_SIZES
  real factor = 2 * (real)call->attr[ALPHA].f * beta;
  for (int64_t r = 0; r < rows; r++, x += channels, dy += channels, dx += channels) {
    real power[LRN_RING]; /* s_j^-beta at j % LRN_RING */
    real term[LRN_RING];  /* dy_j x_j s_j^(-beta-1) */
    int64_t next = 0;
    for (int64_t i = 0; i < channels; i++) {
      int64_t last = MIN_OF(i + radius, channels - 1);
      for (; next <= last; next++) {
        real s = LRN_SCALE(x, next);
        power[next % LRN_RING] = pow(s, -beta);
        term[next % LRN_RING] = dy[next] * x[next] * power[next % LRN_RING] / s;
      }
      real sum = 0;
      for (int64_t j = MAX_OF(i - radius, 0); j <= last; j++) sum += term[j % LRN_RING];
      dx[i] = dy[i] * power[i % LRN_RING] - factor * x[i] * sum;
    }
  }
  return NULL;
})

static void lrn_gradient(op_grad_call *c) {
  shoal_value *in[] = {c->dy[0], c->in[0]};
  c->dx[0].value = graph_op(c->graph, "local_response_norm_grad", in, 2, c->attr);
}

static void lrn_cost(const op_shapes *s, double *flops) {
  *flops = (double)shoal_shape_count(&s->out[0]) * (double)(4 * s->attr[RADIUS].i + 32); /* a power counts as 30 */
}

shoal_value *shoal_local_response_norm(shoal_graph *g, shoal_value *x, int radius, double bias, double alpha,
                                       double beta) {
  return GRAPH_UNARY(g, "local_response_norm", x, ATTR_I(radius), ATTR_F(bias), ATTR_F(alpha), ATTR_F(beta));
}

/* ---- batch_norm: y = (x - mean) / sqrt(variance + epsilon) * scale + offset, over all axes but the last */

/* Input i is [channels of input 0]. */
static shoal_status per_channel(const op_shapes *s, int i, const shoal_shape *x, const char *what) {
  TRY(rule_rank(s, i, 1, what));
  int64_t channels = x->dim[x->rank - 1];
  if (dims_fit(s->in[i].dim[0], channels)) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "x %s has %lld channels, %s %s has %lld; they must be equal",
                     shoal_shape_text(x, a), (long long)channels, what, shoal_shape_text(&s->in[i], b),
                     (long long)s->in[i].dim[0]);
}

static shoal_status batch_norm_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "x"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank_min(s, 0, 2, "x"));
  TRY(per_channel(s, 1, &s->in[0], "scale"));
  TRY(per_channel(s, 2, &s->in[0], "offset"));
  s->out[0] = s->in[0];
  s->out[1] = s->out[2] = s->in[1];
  for (int i = 0; i < 3; i++) s->out_dtype[i] = s->in_dtype[0];
  return NULL;
}

#define CHUNK 16 /* channels summed side by side, in double: batches are large and f32 sums drift */

REAL_KERNEL(batch_norm_kernel, {
  const real *x = call->in[0].data;      /* [rows, channels] */
  const real *scale = call->in[1].data;  /* [channels] */
  const real *offset = call->in[2].data; /* [channels] */
  real *y = call->out[0].data;           /* [rows, channels] */
  real *mean = call->out[1].data;        /* [channels] */
  real *variance = call->out[2].data;    /* [channels], of the batch: divided by rows */
  int64_t channels = call->in[1].shape.dim[0];
  int64_t rows = channels ? shoal_tensor_count(&call->in[0]) / channels : 0;
  for (int64_t c0 = 0; c0 < channels; c0 += CHUNK) {
    int64_t n = MIN_OF(channels - c0, CHUNK);
    double sum[CHUNK] = {0};
    double squares[CHUNK] = {0};
    real gain[CHUNK];
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < n; c++) sum[c] += (double)x[r * channels + c0 + c];
    for (int64_t c = 0; c < n; c++) sum[c] /= (double)rows;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < n; c++) {
        double d = (double)x[r * channels + c0 + c] - sum[c];
        squares[c] += d * d;
      }
    for (int64_t c = 0; c < n; c++) {
      mean[c0 + c] = (real)sum[c];
      variance[c0 + c] = (real)(squares[c] / (double)rows);
      gain[c] = scale[c0 + c] / sqrt(variance[c0 + c] + (real)call->attr[0].f);
    }
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < n; c++)
        y[r * channels + c0 + c] = (x[r * channels + c0 + c] - mean[c0 + c]) * gain[c] + offset[c0 + c];
  }
  return NULL;
})

/* (dy, x, scale, mean, variance) and, where they are used, the gradients of mean and variance. */
static shoal_status batch_norm_grad_shape(op_shapes *s) {
  static const char *const names[] = {"dy", "x", "scale", "mean", "variance", "dmean", "dvariance"};
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank_min(s, 1, 2, "x"));
  TRY(rule_same_shape(s, 0, 1));
  for (int i = 2; i < s->ins; i++) TRY(per_channel(s, i, &s->in[1], names[i]));
  if (s->ins == 6) return status_make(SHOAL_ERR_ARGUMENT, "dmean needs dvariance with it");
  s->out[0] = s->in[1];
  s->out[1] = s->out[2] = s->in[2];
  for (int i = 0; i < 3; i++) s->out_dtype[i] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(batch_norm_grad_kernel, {
  const real *dy = call->in[0].data;    /* [rows, channels] */
  const real *x = call->in[1].data;     /* [rows, channels] */
  const real *scale = call->in[2].data; /* [channels], as all that follow */
  const real *mean = call->in[3].data;
  const real *variance = call->in[4].data;
  const real *dmean = call->ins > 5 ? call->in[5].data : NULL;
  const real *dvariance = call->ins > 5 ? call->in[6].data : NULL;
  real *dx = call->out[0].data; /* [rows, channels] */
  real *dscale = call->out[1].data;
  real *doffset = call->out[2].data;
  int64_t channels = call->in[2].shape.dim[0];
  int64_t rows = channels ? shoal_tensor_count(&call->in[0]) / channels : 0;
  for (int64_t c0 = 0; c0 < channels; c0 += CHUNK) {
    int64_t n = MIN_OF(channels - c0, CHUNK);
    double sum[CHUNK] = {0};   /* of dy */
    double along[CHUNK] = {0}; /* of dy * (x - mean) */
    real gain[CHUNK];
    real shift[CHUNK]; /* dx = gain dy + slope (x - mean) + shift */
    real slope[CHUNK];
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < n; c++) {
        int64_t e = r * channels + c0 + c;
        sum[c] += (double)dy[e];
        along[c] += (double)dy[e] * (double)(x[e] - mean[c0 + c]);
      }
    for (int64_t c = 0; c < n; c++) {
      real inverse = 1 / sqrt(variance[c0 + c] + (real)call->attr[0].f);
      gain[c] = scale[c0 + c] * inverse;
      dscale[c0 + c] = (real)along[c] * inverse;
      doffset[c0 + c] = (real)sum[c];
      shift[c] = -gain[c] * (real)(sum[c] / (double)rows);
      slope[c] = -gain[c] * inverse * inverse * (real)(along[c] / (double)rows);
      if (dmean) {
        shift[c] += dmean[c0 + c] / (real)rows;
        slope[c] += 2 * dvariance[c0 + c] / (real)rows;
      }
    }
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < n; c++) {
        int64_t e = r * channels + c0 + c;
        dx[e] = gain[c] * dy[e] + slope[c] * (x[e] - mean[c0 + c]) + shift[c];
      }
  }
  return NULL;
})

static void batch_norm_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *in[7] = {c->dy[0], c->in[0], c->in[1], c->out[1], c->out[2], c->dy[1], c->dy[2]};
  bool statistics = in[5] || in[6]; /* somebody differentiates through mean or variance */
  if (!in[0]) in[0] = shoal_fill_like(g, c->in[0], 0);
  if (statistics && !in[5]) in[5] = shoal_fill_like(g, c->out[1], 0);
  if (statistics && !in[6]) in[6] = shoal_fill_like(g, c->out[2], 0);
  shoal_value *dx = graph_op(g, "batch_norm_grad", in, statistics ? 7 : 5, c->attr);
  for (int i = 0; i < 3; i++) c->dx[i].value = shoal_value_output(dx, i);
}

static void batch_norm_cost(const op_shapes *s, double *flops) { *flops = 8.0 * (double)shoal_shape_count(&s->out[0]); }

shoal_value *shoal_batch_norm(shoal_graph *g, shoal_value *x, shoal_value *scale, shoal_value *offset, double epsilon) {
  shoal_value *in[] = {x, scale, offset};
  return graph_op(g, "batch_norm", in, 3, (attr_value[OP_MAX_ATTRS]){ATTR_F(epsilon)});
}

static const char *const lrn_cases[] = {"[?3,2,2,9] radius=2 bias=2 alpha=0.1 beta=0.75", "[?17,3]", "[70] radius=31",
                                        "[2,1] radius=0", NULL};
static const char *const lrn_grad_cases[] = {"[?3,2,2,9] [?3,2,2,9] radius=2 bias=2 alpha=0.1 beta=0.75",
                                             "[?17,3] [?17,3]", "[70] [70] radius=31", NULL};
static const char *const batch_norm_cases[] = {"[?6,2,3,5] [5] [5]", "[?17,20] [20] [20] epsilon=0.1",
                                               "[?35,3,2,33] [33] [33]", NULL};
static const char *const batch_norm_grad_cases[] = {"[?6,2,3,5] [?6,2,3,5] [5] [5] [5]>0",
                                                    "[?17,20] [?17,20] [20] [20] [20]>0 [20] [20] epsilon=0.1",
                                                    "[?35,3,2,33] [?35,3,2,33] [33] [33] [33]>0", NULL};

const op_row ops_norm[] = {
    {.name = "local_response_norm",
     .attrs = LRN_ATTRS,
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = lrn_shape,
     .batch = lrn_batch,
     .gradient = lrn_gradient,
     .kernel = lrn_kernel,
     .cost = lrn_cost,
     .cases = lrn_cases},
    {.name = "local_response_norm_grad",
     .attrs = LRN_ATTRS,
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = lrn_shape,
     .batch = lrn_batch,
     .kernel = lrn_grad_kernel,
     .cost = lrn_cost,
     .cases = lrn_grad_cases},
    {.name = "batch_norm",
     .attrs = {{"epsilon", ATTR_FLOAT, 1e-3}},
     .ins_min = 3,
     .ins_max = 3,
     .outs = 3,
     .shape = batch_norm_shape,
     .gradient = batch_norm_gradient,
     .kernel = batch_norm_kernel,
     .variants = tuned_batch_norm,
     .cost = batch_norm_cost,
     .cases = batch_norm_cases},
    {.name = "batch_norm_grad",
     .attrs = {{"epsilon", ATTR_FLOAT, 1e-3}},
     .ins_min = 5,
     .ins_max = 7,
     .outs = 3,
     .flags = OP_GRADIENT_ONLY,
     .shape = batch_norm_grad_shape,
     .kernel = batch_norm_grad_kernel,
     .variants = tuned_batch_norm_grad,
     .cost = batch_norm_cost,
     .cases = batch_norm_grad_cases},
    {0},
};
