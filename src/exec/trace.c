/* What the operators of a plan are called in a timeline. */
#include "exec/plan.h"

#include <stdio.h>
#include <stdlib.h>

/* Of the whole operator: the numbers it reads and writes, each once. */
static double bytes_of(const plan *p, const plan_node *n) {
  double bytes = 0;
  for (int i = 0; i < n->ins + n->outs; i++) {
    const plan_value *v = &p->values[i < n->ins ? n->in[i] : n->out[i - n->ins]];
    if (i < n->ins && op_shape_only(n->op, i)) continue;
    bytes += (double)shoal_shape_count(&v->shape) * (double)shoal_dtype_size(v->dtype);
  }
  return bytes;
}

static double flops_of(const plan *p, const plan_node *n) {
  shoal_shape in[PLAN_INPUTS_MAX], out[OP_MAX_OUTPUTS];
  shoal_dtype in_dtype[PLAN_INPUTS_MAX], out_dtype[OP_MAX_OUTPUTS];
  op_shapes s;
  double flops = 0;
  if (n->ins > PLAN_INPUTS_MAX || n->outs > OP_MAX_OUTPUTS) return 0;
  plan_shapes(p, n, false, in, in_dtype, out, out_dtype, &s);
  if (n->op->cost) {
    n->op->cost(&s, &flops);
    return flops;
  }
  for (int i = 0; i < n->outs; i++) flops += (double)shoal_shape_count(&s.out[i]);
  return flops;
}

static shoal_status label_node(plan *p, events *e, int at) {
  const plan_node *n = &p->nodes[p->order[at]];
  char *name;
  if (asprintf(&name, "%s %s", n->op->name, n->origin ? n->origin->name : "") < 0) return status_no_memory();
  event_label label = {.kind = EVENT_OP,
                       .name = name,
                       .op = n->op->name,
                       .kernel = n->variant ? n->variant->name : "reference",
                       .phase = n->phase,
                       .flops = flops_of(p, n),
                       .bytes = bytes_of(p, n)};
  shoal_status status = events_label(e, &label, &p->labels[at]);
  free(name);
  return status;
}

shoal_status plan_label(plan *p) {
  events *e = p->session->events;
  if (!e || p->labels || !p->n_order) return NULL;
  p->labels = calloc((size_t)p->n_order, sizeof *p->labels);
  if (!p->labels) return status_no_memory();
  for (int at = 0; at < p->n_order; at++) TRY(label_node(p, e, at));
  return NULL;
}
