/* Variables changed, values passed on, values looked at. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- assign(variable, value), assign_add(variable, value) */

static shoal_status assign_shape(op_shapes *s) {
  TRY(rule_same_dtype(s));
  TRY(rule_same_shape(s, 0, 1));
  return shape_as_input(s);
}

static shoal_status assign_add_shape(op_shapes *s) {
  TRY(rule_number(s, 0, "the variable"));
  return assign_shape(s);
}

static shoal_status assign_kernel(const kernel_call *call) {
  memmove(call->in[0].data, call->in[1].data, shoal_tensor_bytes(&call->in[0]));
  show_updated(call);
  return NULL;
}

NUMBER_KERNEL(assign_add_kernel, {
  number *variable = call->in[0].data;
  const number *x = call->in[1].data;
  int64_t n = shoal_tensor_count(&call->in[0]);
  for (int64_t i = 0; i < n; i++) variable[i] = (number)((wide)variable[i] + (wide)x[i]);
  show_updated(call);
  return NULL;
})

/* ---- group(x...) */

static shoal_status group_shape(op_shapes *s) {
  s->out[0] = SHOAL_SCALAR;
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

static shoal_status group_kernel(const kernel_call *call) {
  *(float *)call->out[0].data = 0;
  return NULL;
}

/* ---- identity, stop_gradient */

static shoal_status pass_kernel(const kernel_call *call) {
  if (call->out[0].data != call->in[0].data)
    memmove(call->out[0].data, call->in[0].data, shoal_tensor_bytes(&call->out[0]));
  return NULL;
}

static void pass_gradient(op_grad_call *c) { c->dx[0].value = c->dy[0]; }

/* ---- check_numerics(x; message) */

REAL_KERNEL(check_numerics_kernel, {
  const real *x = call->in[0].data;
  int64_t n = shoal_tensor_count(&call->in[0]), bad = 0, first = 0;
  for (int64_t i = 0; i < n; i++) bad += !isfinite(x[i]);
  if (!bad) return pass_kernel(call);
  while (isfinite(x[first])) first++;
  int64_t row = call->in[0].shape.rank ? shape_span(&call->in[0].shape, 1, call->in[0].shape.rank) : 1;
  return status_make(SHOAL_ERR_NUMERIC, "%s: %lld of %lld elements are not finite, the first (%g) at index %lld",
                     call->attr[0].s && *call->attr[0].s ? call->attr[0].s : "check_numerics", (long long)bad,
                     (long long)n, (double)x[first], (long long)(call->first_row * row + first));
})

/* ---- print(x; message) */

enum { PRINT_ELEMENTS = 8 };

/* A graph may be somebody else's: what would steer a terminal is not passed on. */
static void drop_controls(char *line) {
  for (unsigned char *c = (unsigned char *)line; *c; c++)
    if (*c < ' ' || *c == 0x7f || (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)) *c = '?';
}

static shoal_status print_kernel(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  if (call->print) {
    char line[512], shape[SHOAL_SHAPE_TEXT];
    const char *message = call->attr[0].s ? call->attr[0].s : "";
    int64_t n = shoal_tensor_count(x);
    int at = snprintf(line, sizeof line, "%.200s%s%s%s", message, *message ? ": " : "", shoal_dtype_name(x->dtype),
                      shoal_shape_text(&x->shape, shape));
    for (int64_t i = 0; i < n && i < PRINT_ELEMENTS; i++)
      at += snprintf(line + at, sizeof line - (size_t)at, " %.7g", shoal_tensor_get(x, i));
    if (n > PRINT_ELEMENTS) snprintf(line + at, sizeof line - (size_t)at, " ...");
    drop_controls(line);
    call->print(call->print_sink, line);
  }
  return pass_kernel(call);
}

/* ---- rows */

const op_row ops_state[] = {{.name = "assign",
                             .ins_min = 2,
                             .ins_max = 2,
                             .outs = 1,
                             .flags = OP_STATEFUL | OP_NO_GRADIENT,
                             .updates = 1,
                             .shape = assign_shape,
                             .kernel = assign_kernel,
                             .cost = cost_zero,
                             .cases = (const char *const[]){"[3,4] [3,4]", "i64[2]<9 i64[2]<9", "[] []", NULL}},
                            {.name = "assign_add",
                             .ins_min = 2,
                             .ins_max = 2,
                             .outs = 1,
                             .flags = OP_STATEFUL | OP_NO_GRADIENT,
                             .updates = 1,
                             .shape = assign_add_shape,
                             .kernel = assign_add_kernel,
                             .cases = (const char *const[]){"[3,4] [3,4]", "i64[2]<9 i64[2]<9", "[] []", NULL}},
                            {.name = "group",
                             .ins_min = 0,
                             .ins_max = -1,
                             .outs = 1,
                             .flags = OP_NO_GRADIENT | OP_WAITS,
                             .shape = group_shape,
                             .kernel = group_kernel,
                             .cost = cost_zero,
                             .cases = (const char *const[]){"[3,4] i32[2]<3", "[?5]", "", NULL}},
                            {.name = "identity",
                             .ins_min = 1,
                             .ins_max = 1,
                             .outs = 1,
                             .flags = OP_VIEW,
                             .shape = shape_as_input,
                             .batch = batch_map,
                             .gradient = pass_gradient,
                             .kernel = pass_kernel,
                             .cost = cost_zero,
                             .cases = (const char *const[]){"[3,4]", "[?5,2]", "u8[3]<9", "[]", NULL}},
                            {.name = "stop_gradient",
                             .ins_min = 1,
                             .ins_max = 1,
                             .outs = 1,
                             .flags = OP_VIEW | OP_NO_GRADIENT,
                             .shape = shape_as_input,
                             .batch = batch_map,
                             .kernel = pass_kernel,
                             .cost = cost_zero,
                             .cases = (const char *const[]){"[3,4]", "[?5,2]", "[1]", NULL}},
                            {.name = "check_numerics",
                             .attrs = {{"message", ATTR_TEXT, 0}},
                             .ins_min = 1,
                             .ins_max = 1,
                             .outs = 1,
                             .shape = shape_as_input_float,
                             .batch = batch_map,
                             .gradient = pass_gradient,
                             .kernel = check_numerics_kernel,
                             .cases = (const char *const[]){"[3,4] message=loss", "[?5,2]", "[]", NULL}},
                            {.name = "print",
                             .attrs = {{"message", ATTR_TEXT, 0}},
                             .ins_min = 1,
                             .ins_max = 1,
                             .outs = 1,
                             .flags = OP_STATEFUL,
                             .shape = shape_as_input,
                             .gradient = pass_gradient,
                             .kernel = print_kernel,
                             .cost = cost_zero,
                             .cases = (const char *const[]){"[3,4] message=x", "[?5,2]", "i64[2]<9", NULL}},
                            {0}};

shoal_value *shoal_assign(shoal_graph *g, shoal_value *variable, shoal_value *value) {
  return GRAPH_BINARY(g, "assign", variable, value);
}

shoal_value *shoal_assign_add(shoal_graph *g, shoal_value *variable, shoal_value *value) {
  return GRAPH_BINARY(g, "assign_add", variable, value);
}

shoal_value *shoal_group(shoal_graph *g, shoal_value *const *x, int n) { return graph_op(g, "group", x, n, NULL); }
shoal_value *shoal_identity(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "identity", x); }
shoal_value *shoal_stop_gradient(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "stop_gradient", x); }

shoal_value *shoal_check_numerics(shoal_graph *g, shoal_value *x, const char *message) {
  return GRAPH_UNARY(g, "check_numerics", x, {.s = message});
}

shoal_value *shoal_print(shoal_graph *g, shoal_value *x, const char *message) {
  return GRAPH_UNARY(g, "print", x, {.s = message});
}
