/* Dropout. The mask is never stored: it is a stretch of the node's number stream, and the gradient draws it again. Noise as
 * large as a batch, whatever its size. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include "base/random.h"

enum { KEEP, STREAM };

static shoal_status dropout_shape(op_shapes *s) {
  double keep = s->attr[KEEP].f;
  if (!(keep > 0 && keep <= 1))
    return status_make(SHOAL_ERR_ARGUMENT, "keep is %g: it is the share of elements kept, above 0 and at most 1", keep);
  return shape_as_input_float(s);
}

/* Elements are numbered by their place in the whole batch, so a batch cut in parts draws the same mask. */
#define DROPOUT_BODY(stream_name)                                                               \
  const real *x = call->in[0].data;                                                             \
  real *y = call->out[0].data;                                                                  \
  int64_t n = shoal_tensor_count(&call->in[0]);                                                 \
  int64_t rows = call->in[0].shape.rank ? call->in[0].shape.dim[0] : 1;                         \
  uint64_t first = rows ? (uint64_t)(call->first_row * (n / rows)) : 0;                         \
  random_stream stream = random_stream_make(call->seed, random_mix((stream_name), call->step)); \
  float keep = (float)call->attr[KEEP].f;                                                       \
  real factor = 1 / (real)call->attr[KEEP].f;                                                   \
  uint32_t word[4];                                                                             \
  for (int64_t i = 0; i < n; i++) {                                                             \
    uint64_t place = first + (uint64_t)i;                                                       \
    if (i == 0 || place % 4 == 0) random_block(&stream, place / 4, word);                       \
    y[i] = random_to_float(word[place % 4]) < keep ? x[i] * factor : 0;                         \
  }                                                                                             \
  return NULL;

REAL_KERNEL(dropout_kernel, {DROPOUT_BODY(call->stream)})
REAL_KERNEL(dropout_grad_kernel, {DROPOUT_BODY((uint64_t)call->attr[STREAM].i)})

static void dropout_gradient(op_grad_call *c) {
  /* The stream's name travels as an attribute: the gradient's node has a name of its own. */
  attr_value attr[OP_MAX_ATTRS] = {[KEEP] = c->attr[KEEP], [STREAM] = ATTR_I((int64_t)c->out[0]->maker->stream)};
  c->dx[0].value = graph_op(c->graph, "dropout_grad", c->dy, 1, attr);
}

/* ---- noise: only the input's shape counts */

enum { MEAN, DEVIATION };

/* Numbered as the mask above. */
REAL_KERNEL(normal_like_kernel, {
  real *y = call->out[0].data;
  int64_t n = shoal_tensor_count(&call->out[0]);
  int64_t rows = call->out[0].shape.rank ? call->out[0].shape.dim[0] : 1;
  uint64_t first = rows ? (uint64_t)(call->first_row * (n / rows)) : 0;
  random_stream stream = random_stream_make(call->seed, random_mix(call->stream, call->step));
  for (int64_t i = 0; i < n; i++)
    y[i] = (real)(call->attr[MEAN].f + call->attr[DEVIATION].f * random_normal_at(&stream, first + (uint64_t)i));
  return NULL;
})

shoal_value *shoal_normal_like(shoal_graph *g, shoal_value *like, double mean, double stddev) {
  return GRAPH_UNARY(g, "normal_like", like, ATTR_F(mean), ATTR_F(stddev));
}

static const char *const noise_cases[] = {"[?5,7] stddev=0.5", "[?18,3] mean=1", "[9]", "[]", NULL};

static void dropout_cost(const op_shapes *s, double *flops) { *flops = 25.0 * (double)shoal_shape_count(&s->out[0]); }

shoal_value *shoal_dropout(shoal_graph *g, shoal_value *x, double keep) {
  return GRAPH_UNARY(g, "dropout", x, ATTR_F(keep));
}

static const char *const dropout_cases[] = {"[?5,7] keep=0.5", "[?18,3,3,2] keep=0.8", "[9] keep=1", "[]", NULL};

const op_row ops_dropout[] = {
    {.name = "dropout",
     .attrs = {{"keep", ATTR_FLOAT, 0.5}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_RANDOM,
     .shape = dropout_shape,
     .batch = batch_map,
     .gradient = dropout_gradient,
     .kernel = dropout_kernel,
     .cost = dropout_cost,
     .cases = dropout_cases},
    {.name = "dropout_grad",
     .attrs = {{"keep", ATTR_FLOAT, 0.5}, {"stream", ATTR_INT, 0}},
     .any_int = 1u << STREAM,
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_RANDOM | OP_GRADIENT_ONLY,
     .shape = dropout_shape,
     .batch = batch_map,
     .kernel = dropout_grad_kernel,
     .cost = dropout_cost,
     .cases = dropout_cases},
    {.name = "normal_like",
     .attrs = {{"mean", ATTR_FLOAT, 0}, {"stddev", ATTR_FLOAT, 1}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_RANDOM | OP_NO_GRADIENT,
     .shape_only = 1,
     .shape = shape_as_input_float,
     .batch = batch_map,
     .kernel = normal_like_kernel,
     .cost = dropout_cost,
     .cases = noise_cases},
    {0},
};
