#include "graph/infer.h"

#include "base/mem.h"
#include "tensor/limits.h"

#include <string.h>

static bool is_size(int64_t number) { return number >= -TENSOR_MAX_BYTES && number <= TENSOR_MAX_BYTES; }

static shoal_status check_attrs(const op_row *op, const attr_value *attr) {
  for (int i = 0; i < OP_MAX_ATTRS && op->attrs[i].name; i++) {
    const op_attr *a = &op->attrs[i];
    bool good = a->kind != ATTR_INT || (op->any_int >> i & 1) || is_size(attr[i].i);
    for (int k = 0; a->kind == ATTR_LIST && k < attr[i].list.rank; k++) good = good && is_size(attr[i].list.dim[k]);
    if (!good)
      return status_make(SHOAL_ERR_ARGUMENT, "%s: no number may be above %lld", a->name, (long long)TENSOR_MAX_BYTES);
  }
  return NULL;
}

shoal_status op_infer(const op_row *op, op_shapes *s) {
  TRY(check_attrs(op, s->attr));
  TRY(op->shape(s));
  for (int i = 0; i < s->outs; i++) TRY(tensor_check(s->out_dtype[i], &s->out[i]));
  return NULL;
}

static shoal_status infer_node(const node *n, shoal_shape *shapes) {
  const op_row *op = n->op;
  if (op->flags & OP_SOURCE) {
    if (!strcmp(op->name, "placeholder"))
      return status_make(SHOAL_ERR_ARGUMENT, "placeholder '%s' is needed but not fed", n->name);
    shapes[n->first_value] = n->out[0].shape;
    return NULL;
  }
  shoal_shape *in = calloc((size_t)n->ins + 1, sizeof *in), out[OP_MAX_OUTPUTS] = {0};
  shoal_dtype *in_dtype = calloc((size_t)n->ins + 1, sizeof *in_dtype), out_dtype[OP_MAX_OUTPUTS] = {0};
  shoal_status status = in && in_dtype ? NULL : status_no_memory();
  for (int i = 0; !status && i < n->ins; i++) {
    in[i] = shapes[value_id(n->in[i])];
    in_dtype[i] = n->in[i]->dtype;
  }
  op_shapes s = {n->ins, n->outs, in, in_dtype, n->attr, out, out_dtype};
  if (!status) status = status_wrap(op_infer(op, &s), "%s '%s'", op->name, n->name);
  for (int i = 0; !status && i < n->outs; i++)
    if (shapes[n->first_value + i].rank < 0) shapes[n->first_value + i] = out[i];
  free(in);
  free(in_dtype);
  return status;
}

shoal_status graph_infer(const shoal_graph *g, const bool *needed, shoal_shape *shapes) {
  for (size_t i = 0; i < g->count; i++)
    if (needed[i]) TRY(infer_node(g->nodes[i], shapes));
  return NULL;
}

shoal_status graph_mark(const shoal_graph *g, shoal_value *const *fetches, int n, const shoal_shape *shapes,
                        bool *needed) {
  for (int i = 0; i < n; i++) {
    if (!fetches[i]) return status_make(SHOAL_ERR_ARGUMENT, "fetch %d is NULL", i);
    if (shapes[value_id(fetches[i])].rank < 0) needed[fetches[i]->maker->id] = true;
  }
  /* Inputs and what must come before have smaller ids: one pass from the end sees all. */
  for (size_t id = g->count; id-- > 0;) {
    const node *m = g->nodes[id];
    if (!needed[id]) continue;
    for (int i = 0; i < m->ins; i++)
      if (shapes[value_id(m->in[i])].rank < 0) needed[m->in[i]->maker->id] = true;
    for (int i = 0; i < m->n_after; i++)
      if (shapes[m->after[i]->first_value].rank < 0 && !(m->after[i]->op->flags & OP_SOURCE))
        needed[m->after[i]->id] = true;
  }
  return NULL;
}
