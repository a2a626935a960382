#include "op_evaluate.h"

#include "op_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static shoal_tensor source(const node *n, const evaluate_feed *feeds, int count, const char *what) {
  const shoal_tensor *from = NULL;
  for (int i = 0; i < count; i++)
    if (feeds[i].value == &n->out[0]) from = &feeds[i].tensor;
  if (!strcmp(n->op->name, "constant")) from = &n->attr[0].data;
  if (!from) {
    fail_msg("%s: '%s' is not fed", what, n->name);
    return (shoal_tensor){0};
  }
  shoal_tensor copy = case_tensor(from->dtype, from->shape, false);
  memcpy(copy.data, from->data, shoal_tensor_bytes(from));
  return copy;
}

static void run(const evaluation *e, const node *n, shoal_tensor *out, const char *what) {
  shoal_tensor *in = calloc((size_t)n->ins + 1, sizeof *in);
  shoal_shape *shapes = calloc((size_t)n->ins + 1, sizeof *shapes), out_shapes[OP_MAX_OUTPUTS] = {0};
  shoal_dtype *dtypes = calloc((size_t)n->ins + 1, sizeof *dtypes), out_dtypes[OP_MAX_OUTPUTS] = {0};
  int64_t rows = 0; /* of the batch */
  assert_true(in && shapes && dtypes);
  for (int i = 0; i < n->ins; i++) {
    in[i] = *evaluation_of(e, n->in[i]);
    shapes[i] = in[i].shape;
    dtypes[i] = in[i].dtype;
    if (n->in[i]->shape.rank && n->in[i]->shape.dim[0] == SHOAL_UNKNOWN) rows = shapes[i].dim[0];
    if (op_shape_only(n->op, i)) in[i].data = NULL;
  }
  op_shapes s = {n->ins, n->outs, shapes, dtypes, n->attr, out_shapes, out_dtypes};
  shoal_status status = n->op->shape(&s);
  if (status) fail_msg("%s: shape of '%s': %s", what, n->name, shoal_status_message(status));
  for (int i = 0; i < n->outs; i++) out[i] = case_tensor(out_dtypes[i], out_shapes[i], true);
  kernel_call call = {.in = in,
                      .out = out,
                      .ins = n->ins,
                      .outs = n->outs,
                      .attr = n->attr,
                      .all_rows = rows,
                      .seed = 7,
                      .step = 3,
                      .stream = n->stream};
  status = n->op->kernel(&call);
  if (status) fail_msg("%s: '%s': %s", what, n->name, shoal_status_message(status));
  free(in);
  free(shapes);
  free(dtypes);
}

void evaluate(const shoal_graph *g, int last, const evaluate_feed *feeds, int n, const char *what, evaluation *out) {
  *out = (evaluation){g, last, calloc((size_t)last + 1, sizeof *out->value)};
  assert_non_null(out->value);
  for (int id = 0; id <= last; id++) {
    const node *made = g->nodes[id];
    out->value[id] = calloc((size_t)made->outs, sizeof **out->value);
    assert_non_null(out->value[id]);
    if (made->op->flags & OP_SOURCE)
      out->value[id][0] = source(made, feeds, n, what);
    else
      run(out, made, out->value[id], what);
  }
}

const shoal_tensor *evaluation_of(const evaluation *e, const shoal_value *v) {
  return &e->value[v->maker->id][v->index];
}

void evaluation_fini(evaluation *e) {
  for (int id = 0; id <= e->last; id++) {
    for (int i = 0; i < e->graph->nodes[id]->outs; i++) shoal_tensor_fini(&e->value[id][i]);
    free(e->value[id]);
  }
  free(e->value);
}
