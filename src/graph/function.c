#include "graph/function.h"

#include "base/mem.h"
#include "graph/infer.h"
#include "graph/ops/util.h"

#include <stdio.h>
#include <string.h>

static shoal_status make_lists(shoal_graph *f, int n_params, int n_results) {
  f->params = calloc((size_t)n_params + 1, sizeof(shoal_value *));
  f->results = calloc((size_t)n_results + 1, sizeof(shoal_value *));
  if (!f->params || !f->results) return status_no_memory();
  f->n_params = n_params;
  f->n_results = n_results;
  return NULL;
}

shoal_status function_check(const shoal_graph *f) {
  TRY(shoal_graph_status(f));
  for (int i = 0; i < f->n_results; i++)
    if (!f->results[i]) return status_make(SHOAL_ERR_ARGUMENT, "result %d is NULL", i);
  for (size_t i = 0; i < f->count; i++)
    if (f->nodes[i]->initial || f->nodes[i]->op->updates)
      return status_make(SHOAL_ERR_ARGUMENT, "'%s': variables cannot be made or changed inside; hand their values in",
                         f->nodes[i]->name);
  return NULL;
}

static shoal_value *param_like(shoal_graph *f, const char *kind, int i, const shoal_value *like) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", kind, i);
  return shoal_placeholder(f, name, like->dtype, like->shape);
}

shoal_status function_make(const char *device, shoal_value *const *in, int n_in, int n_out, shoal_function body,
                           void *context, shoal_graph **out) {
  shoal_graph *f;
  TRY(shoal_graph_create(&f));
  shoal_status status = make_lists(f, n_in, n_out);
  for (int i = 0; i < n_in && !status; i++) f->params[i] = param_like(f, "in", i, in[i]);
  shoal_device_set(f, device);
  if (!status) status = shoal_graph_status(f);
  if (!status) {
    body(f, f->params, n_in, f->results, n_out, context);
    status = function_check(f);
  }
  if (status) {
    shoal_graph_destroy(f);
    return status;
  }
  *out = f;
  return NULL;
}

/* The same nodes under the same names, so that random ones draw the same numbers. made: [values of f]. */
static shoal_status copy_nodes(const shoal_graph *f, shoal_graph *to, shoal_value **made) {
  for (size_t i = 0; i < f->count; i++) {
    const node *n = f->nodes[i];
    shoal_value **in = calloc((size_t)n->ins + 1, sizeof(shoal_value *));
    if (!in) return status_no_memory();
    for (int k = 0; k < n->ins; k++) in[k] = made[value_id(n->in[k])];
    shoal_name_next(to, n->name);
    shoal_device_set(to, n->device);
    shoal_value *v = graph_add(to, n->op, in, n->ins, n->attr);
    free(in);
    for (int k = 0; v && k < n->outs; k++) made[n->first_value + k] = &v->maker->out[k];
    TRY(shoal_graph_status(to));
  }
  return NULL;
}

static shoal_status add_gradient(const shoal_graph *f, shoal_graph *d, shoal_value **made) {
  int floats = 0, flows = 0;
  for (int i = 0; i < f->n_params; i++) floats += dtype_is_float(f->params[i]->dtype);
  for (int i = 0; i < f->n_results; i++) flows += dtype_is_float(f->results[i]->dtype);
  TRY(make_lists(d, f->n_params + flows, floats));
  TRY(copy_nodes(f, d, made));
  shoal_device_set(d, NULL);
  shoal_value *target = NULL, *wanted[OP_MAX_OUTPUTS];
  shoal_gradient grads[OP_MAX_OUTPUTS] = {0};
  if (floats > OP_MAX_OUTPUTS)
    return status_make(SHOAL_ERR_ARGUMENT, "more than %d values to differentiate by", OP_MAX_OUTPUTS);
  floats = flows = 0;
  for (int i = 0; i < f->n_params; i++) {
    d->params[i] = made[value_id(f->params[i])];
    if (dtype_is_float(d->params[i]->dtype)) wanted[floats++] = d->params[i];
  }
  for (int i = 0; i < f->n_results; i++) {
    shoal_value *y = made[value_id(f->results[i])];
    if (!dtype_is_float(y->dtype)) continue;
    shoal_value *flow = d->params[f->n_params + flows++] = param_like(d, "gradient", i, y);
    /* f64 adds up any of them exactly enough */
    shoal_value *part = shoal_cast(d, shoal_reduce_sum(d, shoal_mul(d, y, flow), SHOAL_SCALAR, false), SHOAL_F64);
    target = target ? shoal_add(d, target, part) : part;
  }
  TRY(shoal_graph_status(d));
  if (target && floats) TRY(shoal_gradients(d, target, wanted, floats, grads));
  for (int i = 0; i < floats; i++) {
    shoal_value *g = grads[i].value;
    if (g && grads[i].indices) g = scatter_add_like(d, grads[i].indices, g, wanted[i]);
    d->results[i] = g ? g : shoal_fill_like(d, wanted[i], 0);
  }
  return function_check(d);
}

shoal_status function_gradient(const shoal_graph *f, shoal_graph **out) {
  shoal_graph *d;
  TRY(shoal_graph_create(&d));
  shoal_value **made = calloc((size_t)f->n_values + 1, sizeof(shoal_value *));
  shoal_status status = made ? add_gradient(f, d, made) : status_no_memory();
  free(made);
  if (status) {
    shoal_graph_destroy(d);
    return status;
  }
  *out = d;
  return NULL;
}

shoal_status function_shapes(const shoal_graph *f, const shoal_shape *in, const shoal_dtype *in_dtype, int n_in,
                             shoal_shape *out) {
  if (n_in != f->n_params)
    return status_make(SHOAL_ERR_ARGUMENT, "%d values are handed to a sub-graph that takes %d", n_in, f->n_params);
  bool *needed = calloc(f->count + 1, sizeof *needed);
  shoal_shape *shapes = malloc(((size_t)f->n_values + 1) * sizeof *shapes);
  shoal_status status = needed && shapes ? NULL : status_no_memory();
  for (int i = 0; i < f->n_values && !status; i++) shapes[i] = SHAPE_NOT_KNOWN;
  for (int i = 0; i < n_in && !status; i++) {
    if (in_dtype[i] != f->params[i]->dtype || !shapes_fit(&in[i], &f->params[i]->shape)) {
      char a[VALUE_TEXT], b[SHOAL_SHAPE_TEXT];
      status = status_make(SHOAL_ERR_ARGUMENT, "%s%s is handed to the sub-graph's %s", shoal_dtype_name(in_dtype[i]),
                           shoal_shape_text(&in[i], b), value_text(f->params[i], a));
    } else {
      shapes[value_id(f->params[i])] = in[i];
    }
  }
  if (!status) status = graph_mark(f, f->results, f->n_results, shapes, needed);
  if (!status) status = graph_infer(f, needed, shapes);
  for (int i = 0; i < f->n_results && !status; i++) out[i] = shapes[value_id(f->results[i])];
  free(needed);
  free(shapes);
  return status;
}
