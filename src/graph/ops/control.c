/* Conditions and loops: operators that run sub-graphs. Their kernels are the executor's (exec/control.c). */
#include "base/mem.h"
#include "graph/function.h"
#include "graph/ops/control.h"
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <string.h>

static shoal_status check_results(const shoal_graph *f, int n, const char *what) {
  if (f->n_results == n && n <= OP_MAX_OUTPUTS) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s gives %d values, %d are expected (at most %d)", what, f->n_results, n,
                     OP_MAX_OUTPUTS);
}

static shoal_status check_bool(shoal_dtype dtype, const shoal_shape *shape, const char *what) {
  char buffer[SHOAL_SHAPE_TEXT];
  if (dtype == SHOAL_BOOL && shape->rank == 0) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s must be one bool, not %s%s", what, shoal_dtype_name(dtype),
                     shoal_shape_text(shape, buffer));
}

/* ---- cond(which, in...): then(in...) or else(in...) */

static shoal_status cond_shape(op_shapes *s) {
  const shoal_graph *yes = s->attr[COND_THEN].graph, *no = s->attr[COND_ELSE].graph;
  shoal_shape other[OP_MAX_OUTPUTS];
  TRY(check_bool(s->in_dtype[0], &s->in[0], "the condition"));
  TRY(check_results(yes, s->outs, "the first branch"));
  TRY(check_results(no, s->outs, "the second branch"));
  TRY(status_wrap(function_shapes(yes, s->in + 1, s->in_dtype + 1, s->ins - 1, s->out), "the first branch"));
  TRY(status_wrap(function_shapes(no, s->in + 1, s->in_dtype + 1, s->ins - 1, other), "the second branch"));
  for (int i = 0; i < s->outs; i++) {
    s->out_dtype[i] = yes->results[i]->dtype;
    if (shapes_fit(&s->out[i], &other[i]) && s->out_dtype[i] == no->results[i]->dtype) continue;
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "result %d is %s%s in the first branch and %s%s in the second", i,
                       shoal_dtype_name(s->out_dtype[i]), shoal_shape_text(&s->out[i], a),
                       shoal_dtype_name(no->results[i]->dtype), shoal_shape_text(&other[i], b));
  }
  return NULL;
}

/* in, then a gradient for each float output: what the derivative of a function is given. *n: how many. NULL: no
 * memory. */
static shoal_value **with_flows(op_grad_call *c, int first, int *n) {
  shoal_value **list = calloc((size_t)(c->ins + c->outs) + 1, sizeof(shoal_value *));
  if (!list) {
    graph_fail(c->graph, status_no_memory());
    return NULL;
  }
  *n = 0;
  for (int i = first; i < c->ins; i++) list[(*n)++] = c->in[i];
  for (int i = 0; i < c->outs; i++)
    if (dtype_is_float(c->out[i]->dtype)) list[(*n)++] = c->dy[i] ? c->dy[i] : shoal_fill_like(c->graph, c->out[i], 0);
  return list;
}

/* The outputs of `made`, in order, are the gradients of the float inputs from `first` on. */
static void hand_out(op_grad_call *c, shoal_value *made, int first) {
  int k = 0;
  for (int i = first; i < c->ins && made; i++)
    if (dtype_is_float(c->in[i]->dtype)) c->dx[i].value = &made->maker->out[k++];
}

static void cond_gradient(op_grad_call *c) {
  shoal_graph *branches[2] = {NULL, NULL};
  shoal_status status = function_gradient(c->attr[COND_THEN].graph, &branches[0]);
  if (!status) status = function_gradient(c->attr[COND_ELSE].graph, &branches[1]);
  int n = 0;
  if (status) {
    graph_fail(c->graph, status);
  } else if (branches[0]->n_results) {
    shoal_value **in = with_flows(c, 0, &n);
    attr_value attrs[OP_MAX_ATTRS] = {ATTR_I(branches[0]->n_results), {.graph = branches[0]}, {.graph = branches[1]}};
    if (in) hand_out(c, graph_op(c->graph, "cond", in, n, attrs), 1);
    free(in);
  }
  shoal_graph_destroy(branches[0]);
  shoal_graph_destroy(branches[1]);
}

/* ---- while(vars..., fixed...): vars = body(vars..., fixed...) as long as condition(vars..., fixed...) */

static shoal_status loop_shapes(op_shapes *s, int vars, int given) {
  const shoal_graph *condition = s->attr[WHILE_CONDITION].graph, *body = s->attr[WHILE_BODY].graph;
  shoal_shape shape[OP_MAX_OUTPUTS];
  TRY(check_results(condition, 1, "the condition"));
  TRY(function_shapes(condition, s->in, s->in_dtype, given, shape));
  TRY(check_bool(condition->results[0]->dtype, &shape[0], "the condition"));
  TRY(check_results(body, vars, "the body"));
  TRY(function_shapes(body, s->in, s->in_dtype, given, shape));
  for (int i = 0; i < vars; i++) {
    if (shapes_fit(&shape[i], &s->in[i]) && s->in_dtype[i] == body->results[i]->dtype) continue;
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "loop variable %d starts as %s%s and becomes %s%s; they must be the same", i,
                       shoal_dtype_name(s->in_dtype[i]), shoal_shape_text(&s->in[i], a),
                       shoal_dtype_name(body->results[i]->dtype), shoal_shape_text(&shape[i], b));
  }
  return NULL;
}

static shoal_status while_shape(op_shapes *s) {
  if (s->outs > s->ins) return status_make(SHOAL_ERR_ARGUMENT, "%d loop variables, but %d inputs", s->outs, s->ins);
  TRY(loop_shapes(s, s->outs, s->ins));
  for (int i = 0; i < s->outs; i++) {
    s->out[i] = s->in[i];
    s->out_dtype[i] = s->in_dtype[i];
  }
  return NULL;
}

static shoal_status check_like(const op_shapes *s, int i, const shoal_shape *shape, shoal_dtype dtype,
                               const char *what) {
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  if (shapes_fit(&s->in[i], shape) && s->in_dtype[i] == dtype) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s of a loop's input %d, %s%s, is %s%s; they must be the same", what, i,
                     shoal_dtype_name(s->in_dtype[i]), shoal_shape_text(&s->in[i], a), shoal_dtype_name(dtype),
                     shoal_shape_text(shape, b));
}

/* What flows back into the loop is like its float variables; what the derivative gives, like its float inputs. */
static shoal_status check_flows(const op_shapes *s, int vars, int given) {
  const shoal_graph *derivative = s->attr[WHILE_DERIVATIVE].graph;
  shoal_shape shape[OP_MAX_OUTPUTS];
  TRY(check_results(derivative, s->outs, "the derivative"));
  TRY(function_shapes(derivative, s->in, s->in_dtype, s->ins, shape));
  for (int i = 0, flow = given, out = 0; i < given; i++) {
    if (!dtype_is_float(s->in_dtype[i])) continue;
    TRY(check_like(s, i, &shape[out], derivative->results[out]->dtype, "the derivative"));
    if (i < vars) TRY(check_like(s, i, &s->in[flow], s->in_dtype[flow], "the gradient"));
    flow += i < vars;
    out++;
  }
  return NULL;
}

/* Inputs as of while, then the gradients of its float outputs. Outputs: gradients of the float inputs. */
static shoal_status while_grad_shape(op_shapes *s) {
  const int64_t vars = s->attr[WHILE_VARS].i;
  int flows = 0, out = 0;
  const shoal_graph *body = s->attr[WHILE_BODY].graph;
  for (int i = 0; i < body->n_results; i++) flows += dtype_is_float(body->results[i]->dtype);
  int given = s->ins - flows;
  if (vars < 1 || vars > given) return status_make(SHOAL_ERR_ARGUMENT, "the inputs of a loop's gradient do not fit");
  TRY(loop_shapes(s, (int)vars, given));
  for (int i = 0; i < given; i++) {
    if (!dtype_is_float(s->in_dtype[i])) continue;
    if (out == s->outs) return status_make(SHOAL_ERR_ARGUMENT, "a loop's gradient has too few outputs");
    s->out[out] = s->in[i];
    s->out_dtype[out++] = s->in_dtype[i];
  }
  if (out != s->outs) return status_make(SHOAL_ERR_ARGUMENT, "a loop's gradient has too many outputs");
  return check_flows(s, (int)vars, given);
}

static void while_gradient(op_grad_call *c) {
  shoal_graph *derivative = NULL;
  shoal_status status = function_gradient(c->attr[WHILE_BODY].graph, &derivative);
  int n = 0;
  if (status) {
    graph_fail(c->graph, status);
  } else if (derivative->n_results) {
    shoal_value **in = with_flows(c, 0, &n);
    attr_value attrs[OP_MAX_ATTRS] = {ATTR_I(derivative->n_results),
                                      {.graph = c->attr[WHILE_CONDITION].graph},
                                      {.graph = c->attr[WHILE_BODY].graph},
                                      ATTR_I(c->attr[WHILE_MAX].i),
                                      ATTR_I(c->outs),
                                      {.graph = derivative}};
    if (in) hand_out(c, graph_op(c->graph, "while_grad", in, n, attrs), 0);
    free(in);
  }
  shoal_graph_destroy(derivative);
}

const op_row ops_control[] = {
    {.name = "cond",
     .attrs = {{"outputs", ATTR_INT, 0}, {"then", ATTR_GRAPH, 0}, {"else", ATTR_GRAPH, 0}},
     .ins_min = 1,
     .ins_max = -1,
     .outs = -1,
     .flags = OP_NESTED,
     .shape = cond_shape,
     .gradient = cond_gradient},
    {.name = "while",
     .attrs = {{"outputs", ATTR_INT, 0}, {"condition", ATTR_GRAPH, 0}, {"body", ATTR_GRAPH, 0}, {"most", ATTR_INT, 0}},
     .ins_min = 1,
     .ins_max = -1,
     .outs = -1,
     .flags = OP_NESTED,
     .shape = while_shape,
     .gradient = while_gradient},
    {.name = "while_grad",
     .attrs = {{"outputs", ATTR_INT, 0},
               {"condition", ATTR_GRAPH, 0},
               {"body", ATTR_GRAPH, 0},
               {"most", ATTR_INT, 0},
               {"vars", ATTR_INT, 0},
               {"derivative", ATTR_GRAPH, 0}},
     .ins_min = 1,
     .ins_max = -1,
     .outs = -1,
     .flags = OP_NESTED | OP_GRADIENT_ONLY,
     .shape = while_grad_shape},
    {0}};

static bool all_there(shoal_graph *g, const char *op, shoal_value *const *in, int n) {
  for (int i = 0; i < n && !g->error; i++)
    if (!in[i]) graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "%s: input %d is NULL", op, i));
  return !g->error;
}

shoal_value *shoal_cond(shoal_graph *g, shoal_value *which, shoal_value *const *in, int n_in, shoal_function yes,
                        shoal_function no, int n_out, void *context) {
  shoal_graph *branches[2] = {NULL, NULL};
  shoal_value *made = NULL, **all = calloc((size_t)n_in + 1, sizeof(shoal_value *));
  shoal_status status = all ? NULL : status_no_memory();
  if (!status && all_there(g, "cond", in, n_in)) {
    status =
        status_wrap(function_make(g->device, in, n_in, n_out, yes, context, &branches[0]), "cond: the first branch");
    if (!status)
      status =
          status_wrap(function_make(g->device, in, n_in, n_out, no, context, &branches[1]), "cond: the second branch");
    if (!status) {
      all[0] = which;
      if (n_in) memcpy(all + 1, in, (size_t)n_in * sizeof(shoal_value *));
      attr_value attrs[OP_MAX_ATTRS] = {ATTR_I(n_out), {.graph = branches[0]}, {.graph = branches[1]}};
      made = graph_op(g, "cond", all, n_in + 1, attrs);
    }
  }
  if (status) graph_fail(g, status);
  shoal_graph_destroy(branches[0]);
  shoal_graph_destroy(branches[1]);
  free(all);
  return made;
}

shoal_value *shoal_while(shoal_graph *g, shoal_value *const *vars, int n_vars, shoal_value *const *fixed, int n_fixed,
                         shoal_function condition, shoal_function body, int64_t most, void *context) {
  shoal_graph *parts[2] = {NULL, NULL};
  int n = n_vars + n_fixed;
  shoal_value *made = NULL, **all = calloc((size_t)n + 1, sizeof(shoal_value *));
  shoal_status status = all ? NULL : status_no_memory();
  if (!status && most < 1)
    status = status_make(SHOAL_ERR_ARGUMENT,
                         "while: the maximum of iterations must be at "
                         "least 1");
  if (!status) {
    if (n_vars) memcpy(all, vars, (size_t)n_vars * sizeof(shoal_value *));
    if (n_fixed) memcpy(all + n_vars, fixed, (size_t)n_fixed * sizeof(shoal_value *));
  }
  if (!status && all_there(g, "while", all, n)) {
    status = status_wrap(function_make(g->device, all, n, 1, condition, context, &parts[0]), "while: the condition");
    if (!status)
      status = status_wrap(function_make(g->device, all, n, n_vars, body, context, &parts[1]), "while: the body");
    attr_value attrs[OP_MAX_ATTRS] = {ATTR_I(n_vars), {.graph = parts[0]}, {.graph = parts[1]}, ATTR_I(most)};
    if (!status) made = graph_op(g, "while", all, n, attrs);
  }
  if (status) graph_fail(g, status);
  shoal_graph_destroy(parts[0]);
  shoal_graph_destroy(parts[1]);
  free(all);
  return made;
}
