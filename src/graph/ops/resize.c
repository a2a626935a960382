/* Images at another size: bilinear interpolation of [n, height, width, channels]. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include "base/mem.h"

#include <math.h>

enum { HEIGHT, WIDTH, ALIGN };

static shoal_status check_sizes(const op_shapes *s) {
  if (s->attr[HEIGHT].i < 1 || s->attr[WIDTH].i < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "the new size must be at least 1 x 1, not %lld x %lld",
                       (long long)s->attr[HEIGHT].i, (long long)s->attr[WIDTH].i);
  return NULL;
}

static shoal_status check_image(const op_shapes *s, int i) {
  TRY(rule_rank(s, i, 4, "x"));
  if (s->in[i].dim[1] == 0 || s->in[i].dim[2] == 0) return status_make(SHOAL_ERR_ARGUMENT, "the image is empty");
  return check_sizes(s);
}

static shoal_status resize_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "x"));
  TRY(check_image(s, 0));
  s->out[0] = SHOAL_SHAPE(s->in[0].dim[0], s->attr[HEIGHT].i, s->attr[WIDTH].i, s->in[0].dim[3]);
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* (dy, like) */
static shoal_status resize_grad_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_same_dtype(s));
  TRY(check_image(s, 1));
  shoal_shape y = SHOAL_SHAPE(s->in[1].dim[0], s->attr[HEIGHT].i, s->attr[WIDTH].i, s->in[1].dim[3]);
  if (!shapes_fit(&y, &s->in[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "dy %s must be %s", shoal_shape_text(&s->in[0], a), shoal_shape_text(&y, b));
  }
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* Between which two elements of `from` element i of `to` lies, and how near to the second. */
typedef struct {
  int64_t low, high;
  double share;
} between;

static between place_of(int64_t i, int64_t from, int64_t to, bool align) {
  double at = align ? (to > 1 ? (double)i * (double)(from - 1) / (double)(to - 1) : 0)
                    : ((double)i + 0.5) * (double)from / (double)to - 0.5;
  at = fmin(fmax(at, 0), (double)(from - 1));
  int64_t low = (int64_t)at;
  return (between){low, MIN_OF(low + 1, from - 1), at - (double)low};
}

/* Runs the statement for each output pixel: its channels at `to`, those of the four around it in the image at `at`, with
 * the shares `part`. xs, ys: shapes of image and output. */
#define FOR_PIXELS(xs, ys, statement)                                                                         \
  for (int64_t n = 0; n < ys[0]; n++)                                                                         \
    for (int64_t i = 0; i < ys[1]; i++)                                                                       \
      for (int64_t j = 0; j < ys[2]; j++) {                                                                   \
        between p = place_of(i, xs[1], ys[1], call->attr[ALIGN].i);                                           \
        between q = place_of(j, xs[2], ys[2], call->attr[ALIGN].i);                                           \
        int64_t to = ((n * ys[1] + i) * ys[2] + j) * ys[3];                                                   \
        int64_t at[4] = {                                                                                     \
            ((n * xs[1] + p.low) * xs[2] + q.low) * xs[3], ((n * xs[1] + p.low) * xs[2] + q.high) * xs[3],    \
            ((n * xs[1] + p.high) * xs[2] + q.low) * xs[3], ((n * xs[1] + p.high) * xs[2] + q.high) * xs[3]}; \
        real part[4] = {(real)((1 - p.share) * (1 - q.share)), (real)((1 - p.share) * q.share),               \
                        (real)(p.share * (1 - q.share)), (real)(p.share * q.share)};                          \
        statement                                                                                             \
      }

REAL_KERNEL(resize_kernel, {
  const real *x = call->in[0].data; /* [n, xs[1], xs[2], xs[3]] */
  real *y = call->out[0].data;      /* [n, ys[1], ys[2], xs[3]] */
  const int64_t *xs = call->in[0].shape.dim;
  const int64_t *ys = call->out[0].shape.dim;
  FOR_PIXELS(xs, ys, {
    for (int64_t c = 0; c < xs[3]; c++)
      y[to + c] = part[0] * x[at[0] + c] + part[1] * x[at[1] + c] + part[2] * x[at[2] + c] + part[3] * x[at[3] + c];
  })
  return NULL;
})

REAL_KERNEL(resize_grad_kernel, {
  const real *dy = call->in[0].data; /* [n, ys[1], ys[2], xs[3]] */
  real *dx = call->out[0].data;      /* [n, xs[1], xs[2], xs[3]] */
  const int64_t *xs = call->out[0].shape.dim;
  const int64_t *ys = call->in[0].shape.dim;
  int64_t count = shoal_tensor_count(&call->out[0]);
  for (int64_t e = 0; e < count; e++) dx[e] = 0;
  FOR_PIXELS(xs, ys, {
    for (int k = 0; k < 4; k++)
      for (int64_t c = 0; c < xs[3]; c++) dx[at[k] + c] += part[k] * dy[to + c];
  })
  return NULL;
})

static void resize_gradient(op_grad_call *c) {
  c->dx[0].value = graph_op(c->graph, "resize_bilinear_grad", (shoal_value *[]){c->dy[0], c->in[0]}, 2, c->attr);
}

static void resize_cost(const op_shapes *s, double *flops) { *flops = 8.0 * (double)shoal_shape_count(&s->out[0]); }

#define RESIZE_ATTRS                                                                   \
  {                                                                                    \
    {"height", ATTR_INT, 1}, {"width", ATTR_INT, 1}, { "align_corners", ATTR_BOOL, 0 } \
  }

const op_row ops_resize[] = {
    {.name = "resize_bilinear",
     .attrs = RESIZE_ATTRS,
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = resize_shape,
     .batch = batch_map,
     .gradient = resize_gradient,
     .kernel = resize_kernel,
     .cost = resize_cost,
     .cases = (const char *const[]){"[?3,4,5,2] height=8 width=10", "[?3,7,6,1] height=3 width=4",
                                    "[2,3,3,2] height=5 width=1 align_corners=1", "[?2,1,1,3] height=2 width=2", NULL}},
    {.name = "resize_bilinear_grad",
     .attrs = RESIZE_ATTRS,
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 2,
     .shape = resize_grad_shape,
     .batch = batch_map,
     .kernel = resize_grad_kernel,
     .cost = cost_input,
     .cases = (const char *const[]){"[?3,8,10,2] [?3,4,5,2] height=8 width=10",
                                    "[2,5,1,2] [2,3,3,2] height=5 width=1 align_corners=1", NULL}},
    {0}};

shoal_value *shoal_resize_bilinear(shoal_graph *g, shoal_value *x, int64_t height, int64_t width, bool align_corners) {
  return GRAPH_UNARY(g, "resize_bilinear", x, ATTR_I(height), ATTR_I(width), ATTR_I(align_corners));
}
