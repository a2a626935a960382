/* Sums of gradients that many runs, or many tasks in one run, add to. One is two variables: the sum, and what is
 * known about it: how many gradients it holds, the step they must belong to at least, and how many older ones were
 * dropped. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <string.h>

enum { HELD, STEP, DROPPED, CONTROL };
enum { TAKE_LEAST, TAKE_NAME };

static shoal_status check_state(op_shapes *s) {
  char a[SHOAL_SHAPE_TEXT];
  if (s->in_dtype[0] != SHOAL_I64 || s->in[0].rank != 1 || s->in[0].dim[0] != CONTROL)
    return status_make(SHOAL_ERR_ARGUMENT, "an accumulator's state is i64[%d], not %s%s", CONTROL,
                       shoal_dtype_name(s->in_dtype[0]), shoal_shape_text(&s->in[0], a));
  TRY(rule_float(s, 1, "the sum"));
  s->out[0] = s->in[0];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* ---- accumulate(control, sum, gradient, step) */

static shoal_status accumulate_shape(op_shapes *s) {
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  TRY(check_state(s));
  if (s->in_dtype[2] != s->in_dtype[1] || !shapes_fit(&s->in[1], &s->in[2]))
    return status_make(SHOAL_ERR_ARGUMENT, "the accumulator holds %s%s; a gradient of %s%s cannot be added",
                       shoal_dtype_name(s->in_dtype[1]), shoal_shape_text(&s->in[1], a),
                       shoal_dtype_name(s->in_dtype[2]), shoal_shape_text(&s->in[2], b));
  if (s->in_dtype[3] != SHOAL_I64 || s->in[3].rank)
    return status_make(SHOAL_ERR_ARGUMENT, "the step must be one i64, not %s%s", shoal_dtype_name(s->in_dtype[3]),
                       shoal_shape_text(&s->in[3], a));
  return NULL;
}

static shoal_status accumulate_kernel(const kernel_call *call) {
  int64_t *c = call->in[0].data, n = shoal_tensor_count(&call->in[1]);
  if (*(const int64_t *)call->in[3].data < c[STEP]) {
    c[DROPPED]++;
  } else {
    c[HELD]++;
    if (call->in[1].dtype == SHOAL_F32)
      for (int64_t i = 0; i < n; i++) ((float *)call->in[1].data)[i] += ((const float *)call->in[2].data)[i];
    else
      for (int64_t i = 0; i < n; i++) ((double *)call->in[1].data)[i] += ((const double *)call->in[2].data)[i];
  }
  show_updated(call);
  return NULL;
}

/* ---- accumulator_take(control, sum; least): control, mean */

static shoal_status take_shape(op_shapes *s) {
  TRY(check_state(s));
  if (s->attr[TAKE_LEAST].i < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "a mean is of 1 gradient at least, not of %lld",
                       (long long)s->attr[TAKE_LEAST].i);
  s->out[1] = s->in[1];
  s->out_dtype[1] = s->in_dtype[1];
  return NULL;
}

static shoal_status take_kernel(const kernel_call *call) {
  int64_t *c = call->in[0].data, n = shoal_tensor_count(&call->in[1]);
  if (c[HELD] < call->attr[TAKE_LEAST].i)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "accumulator '%s' holds %lld gradients of step %lld or later, %lld are "
                       "needed (%lld older ones were dropped)",
                       call->attr[TAKE_NAME].s ? call->attr[TAKE_NAME].s : "", (long long)c[HELD], (long long)c[STEP],
                       (long long)call->attr[TAKE_LEAST].i, (long long)c[DROPPED]);
  if (call->in[1].dtype == SHOAL_F32)
    for (int64_t i = 0; i < n; i++)
      ((float *)call->out[1].data)[i] = ((const float *)call->in[1].data)[i] / (float)c[HELD];
  else
    for (int64_t i = 0; i < n; i++)
      ((double *)call->out[1].data)[i] = ((const double *)call->in[1].data)[i] / (double)c[HELD];
  if (n) memset(call->in[1].data, 0, shoal_tensor_bytes(&call->in[1]));
  c[HELD] = 0;
  c[STEP]++;
  show_updated(call);
  return NULL;
}

const op_row ops_accumulator[] = {
    {.name = "accumulate",
     .ins_min = 4,
     .ins_max = 4,
     .outs = 1,
     .flags = OP_STATEFUL | OP_NO_GRADIENT,
     .updates = 3,
     .shape = accumulate_shape,
     .kernel = accumulate_kernel,
     .cases = (const char *const[]){"i64[3]<4 [3,2] [3,2] i64[]<9", "i64[3]>0 [] [] i64[]<9", NULL}},
    {.name = "accumulator_take",
     .attrs = {{"least", ATTR_INT, 1}, {"accumulator", ATTR_TEXT, 0}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 2,
     .flags = OP_STATEFUL | OP_NO_GRADIENT,
     .updates = 3,
     .shape = take_shape,
     .kernel = take_kernel,
     .cases = (const char *const[]){"i64[3]>0 [3,2] accumulator=g", "i64[3]>0 [5]", NULL}},
    {0}};

shoal_accumulator shoal_accumulator_make(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_shape shape) {
  shoal_accumulator a = {0};
  shoal_scope_push(g, name);
  a.control = shoal_variable(g, "control", shoal_fill(g, SHOAL_I64, SHOAL_SHAPE(CONTROL), 0));
  a.sum = shoal_variable(g, "sum", shoal_fill(g, dtype, shape, 0));
  shoal_scope_pop(g);
  return a;
}

shoal_value *shoal_accumulate(shoal_graph *g, const shoal_accumulator *a, shoal_value *gradient, shoal_value *step) {
  return graph_op(g, "accumulate", (shoal_value *[]){a->control, a->sum, gradient, step}, 4, NULL);
}

shoal_value *shoal_accumulator_take(shoal_graph *g, const shoal_accumulator *a, int64_t least) {
  char name[STATE_OWNER];
  attr_value attrs[OP_MAX_ATTRS] = {ATTR_I(least), {.s = state_owner(a->control, name)}};
  return shoal_value_output(graph_op(g, "accumulator_take", (shoal_value *[]){a->control, a->sum}, 2, attrs), 1);
}

shoal_value *shoal_accumulator_step(shoal_graph *g, const shoal_accumulator *a) {
  return shoal_reshape(g, shoal_slice(g, a->control, SHOAL_SHAPE(STEP), SHOAL_SHAPE(1)), SHOAL_SCALAR);
}
