/* The first passes of a plan: what is needed, with its shapes; views resolved; constants folded. */
#include "exec/plan.h"

#include "base/mem.h"

#include <string.h>

shoal_status plan_add_value(plan *p, shoal_dtype dtype, shoal_shape shape, shoal_shape symbolic, int *out) {
  TRY(mem_grow((void **)&p->values, &p->cap_values, p->n_values + 1, sizeof *p->values));
  int id = (int)p->n_values++;
  p->values[id] = (plan_value){.dtype = dtype, .shape = shape, .symbolic = symbolic, .maker = -1, .root = id, .feed = -1,
                               .ragged = -1};
  *out = id;
  return NULL;
}

void plan_shapes(const plan *p, const plan_node *n, bool symbolic, shoal_shape *in, shoal_dtype *in_dtype,
                 shoal_shape *out, shoal_dtype *out_dtype, op_shapes *s) {
  for (int i = 0; i < n->ins; i++) {
    const plan_value *v = &p->values[n->in[i]];
    in[i] = symbolic ? v->symbolic : v->shape;
    in_dtype[i] = v->dtype;
  }
  for (int i = 0; i < n->outs; i++) {
    const plan_value *v = &p->values[n->out[i]];
    out[i] = symbolic ? v->symbolic : v->shape;
    out_dtype[i] = v->dtype;
  }
  *s = (op_shapes){n->ins, n->outs, in, in_dtype, n->attr, out, out_dtype};
}

/* Concrete and symbolic output shapes by the operator's own rule. */
static shoal_status infer(plan *p, plan_node *n, shoal_shape *shape, shoal_shape *symbolic, shoal_dtype *dtype) {
  shoal_shape in[PLAN_MOST_INPUTS];
  shoal_dtype in_dtype[PLAN_MOST_INPUTS];
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < n->ins; i++) {
      const plan_value *v = &p->values[n->in[i]];
      in[i] = pass ? v->symbolic : v->shape;
      in_dtype[i] = v->dtype;
    }
    op_shapes s = {n->ins, n->outs, in, in_dtype, n->attr, pass ? symbolic : shape, dtype};
    shoal_status status = n->op->shape(&s);
    if (status)
      return status_wrap(status, "%s '%s'", n->op->name, n->origin ? n->origin->name : "made by the planner");
  }
  return NULL;
}

/* Which outputs are as long as a ragged input: the rule is asked about a run with one entry less, and what shrinks along
 * with an input follows it. */
static shoal_status follow_ragged(const plan *p, const plan_node *n, const shoal_shape *shape, int *ragged) {
  shoal_shape in[PLAN_MOST_INPUTS], less[OP_MAX_OUTPUTS] = {0};
  shoal_dtype in_dtype[PLAN_MOST_INPUTS], out_dtype[OP_MAX_OUTPUTS] = {0};
  bool any = false;
  for (int i = 0; i < n->outs; i++) ragged[i] = -1;
  for (int i = 0; i < n->ins; i++) {
    const plan_value *v = &p->values[n->in[i]];
    in[i] = v->shape;
    in_dtype[i] = v->dtype;
    if (v->ragged >= 0) in[i].dim[0]--;
    any |= v->ragged >= 0;
  }
  if (!any) return NULL;
  op_shapes s = {n->ins, n->outs, in, in_dtype, n->attr, less, out_dtype};
  TRY(n->op->shape(&s));
  for (int i = 0; i < n->outs; i++) {
    if (shoal_shape_equal(&less[i], &shape[i])) continue;
    shoal_shape grown = less[i];
    if (grown.rank) grown.dim[0]++;
    for (int k = 0; k < n->ins && ragged[i] < 0; k++)
      if (in[k].rank && in[k].dim[0] == less[i].dim[0]) ragged[i] = p->values[n->in[k]].ragged;
    if (ragged[i] < 0 || !shoal_shape_equal(&grown, &shape[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "its result is not as long as the ragged rows it is made from; feed them as "
                         "a placeholder that is not ragged");
  }
  return NULL;
}

shoal_status plan_add_node(plan *p, const op_row *op, const node *origin, const int *in, int ins,
                           const attr_value *attr, int *out) {
  if (ins > PLAN_MOST_INPUTS)
    return status_make(SHOAL_ERR_ARGUMENT, "%s has %d inputs; at most %d are possible", op->name, ins,
                       PLAN_MOST_INPUTS);
  TRY(mem_grow((void **)&p->nodes, &p->cap_nodes, p->n_nodes + 1, sizeof *p->nodes));
  int id = (int)p->n_nodes;
  plan_node *n = &p->nodes[id];
  *n = (plan_node){.op = op, .origin = origin, .ins = ins, .outs = op->outs >= 0 ? op->outs : (int)attr[0].i};
  n->in = calloc((size_t)ins + 1, sizeof *n->in);
  n->out = calloc((size_t)n->outs, sizeof *n->out);
  p->n_nodes++; /* from here on plan_destroy frees it */
  if (!n->in || !n->out) return status_no_memory();
  if (ins) memcpy(n->in, in, (size_t)ins * sizeof *in);
  if (attr) memcpy(n->attr, attr, sizeof n->attr);
  shoal_shape shape[OP_MAX_OUTPUTS] = {0}, symbolic[OP_MAX_OUTPUTS] = {0};
  shoal_dtype dtype[OP_MAX_OUTPUTS] = {0};
  int ragged[OP_MAX_OUTPUTS];
  TRY(infer(p, n, shape, symbolic, dtype));
  TRY(status_wrap(follow_ragged(p, n, shape, ragged), "%s '%s'", op->name, origin ? origin->name : ""));
  for (int i = 0; i < n->outs; i++) {
    int value;
    TRY(plan_add_value(p, dtype[i], shape[i], symbolic[i], &value));
    p->nodes[id].out[i] = value;
    p->values[value].maker = id;
    p->values[value].ragged = ragged[i];
    if (i == 0 && (op->flags & OP_VIEW)) p->values[value].root = p->values[in[0]].root;
    /* An update's output is the variable afterwards: the same memory. */
    if (i == 0 && (op->updates & 1)) p->values[value].root = p->values[in[0]].root;
  }
  *out = id;
  return NULL;
}

void plan_replace(plan *p, int old, int now) {
  for (size_t i = 0; i < p->n_nodes; i++)
    if (!p->nodes[i].dead)
      for (int k = 0; k < p->nodes[i].ins; k++)
        if (p->nodes[i].in[k] == old) p->nodes[i].in[k] = now;
  for (int i = 0; i < p->n_fetches; i++)
    if (p->fetch_of[i] == old) {
      p->fetch_of[i] = now;
      p->values[now].fetched = true;
    }
  if (p->guard == old) p->guard = now;
}

/* Which graph nodes are needed: reached from the fetches. An input of which only the shape counts is needed for its
 * shape, so it is part of the plan, and dies in plan_drop_unused if nothing else wants it. */
static void mark(const node *n, bool *needed) {
  if (needed[n->id]) return;
  needed[n->id] = true;
  for (int i = 0; i < n->ins; i++) mark(n->in[i]->maker, needed);
}

static shoal_status add_source(plan *p, const plan_request *request, const node *n, int *out) {
  const shoal_value *v = &n->out[0];
  shoal_shape shape = v->shape;
  plan_value filled = {0};
  int ragged = -1;
  if (!strcmp(n->op->name, "placeholder")) {
    int feed = 0;
    while (feed < request->n_feeds && request->feeds[feed].value != v) feed++;
    if (feed == request->n_feeds)
      return status_make(SHOAL_ERR_ARGUMENT, "placeholder '%s' is needed but not fed", n->name);
    const shoal_tensor *t = &request->feeds[feed].tensor;
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    bool fits = t->shape.rank == shape.rank;
    for (int i = 0; fits && i < shape.rank; i++)
      fits = shape.dim[i] == SHOAL_UNKNOWN ? t->shape.dim[i] >= 0 : t->shape.dim[i] == shape.dim[i];
    if (t->dtype != v->dtype || !fits)
      return status_make(SHOAL_ERR_ARGUMENT, "placeholder '%s' is %s%s, but %s%s is fed", n->name,
                         shoal_dtype_name(v->dtype), shoal_shape_text(&shape, a), shoal_dtype_name(t->dtype),
                         shoal_shape_text(&t->shape, b));
    shape = p->feed_shapes[feed];
    filled.store = STORE_FEED;
    filled.feed = feed;
    ragged = p->feed_offsets[feed];
  } else if (n->initial) {
    filled.store = STORE_VARIABLE;
  } else {
    filled.store = STORE_CONSTANT;
    filled.data = n->attr[0].data;
  }
  TRY(plan_add_value(p, v->dtype, shape, v->shape, out));
  plan_value *value = &p->values[*out];
  value->store = filled.store;
  value->feed = filled.store == STORE_FEED ? filled.feed : -1;
  value->data = filled.data;
  value->source = n;
  value->ragged = ragged;
  return NULL;
}

/* Removes nodes whose results nobody reads (and nobody fetches), those with effects excepted. An input of which only
 * the shape counts does not keep its maker alive. */
static shoal_status drop_unused(plan *p) {
  int *uses = calloc(p->n_values + 1, sizeof *uses);
  if (!uses) return status_no_memory();
  for (bool again = true; again;) {
    again = false;
    memset(uses, 0, p->n_values * sizeof *uses);
    for (int i = 0; i < p->n_fetches; i++) uses[p->fetch_of[i]]++;
    if (p->guard >= 0) uses[p->guard]++;
    for (size_t i = 0; i < p->n_nodes; i++) {
      const plan_node *n = &p->nodes[i];
      if (n->dead) continue;
      for (int k = 0; k < n->ins; k++)
        if (!(n->op->shape_only >> k & 1)) uses[n->in[k]]++;
    }
    for (size_t i = 0; i < p->n_nodes; i++) {
      plan_node *n = &p->nodes[i];
      if (n->dead || (n->op->flags & OP_STATEFUL)) continue;
      bool used = false;
      for (int k = 0; k < n->outs; k++) used |= uses[n->out[k]] > 0;
      if (!used) n->dead = again = true;
    }
  }
  free(uses);
  return NULL;
}

static shoal_status fold_node(plan *p, plan_node *n) {
  shoal_tensor in[PLAN_MOST_INPUTS], out[OP_MAX_OUTPUTS] = {0};
  for (int i = 0; i < n->ins; i++) {
    const plan_value *v = &p->values[n->in[i]];
    in[i] = v->store == STORE_CONSTANT ? v->data : shoal_tensor_view(v->dtype, v->shape, NULL);
    in[i].shape = v->shape; /* a view may have another shape than the constant it shows */
  }
  shoal_status status = NULL;
  for (int i = 0; i < n->outs && !status; i++) {
    const plan_value *v = &p->values[n->out[i]];
    status = shoal_tensor_create(v->dtype, v->shape, &out[i]);
  }
  if (!status) {
    kernel_call call = {.in = in, .out = out, .ins = n->ins, .outs = n->outs, .attr = n->attr};
    status = n->op->kernel(&call);
  }
  if (status) {
    for (int i = 0; i < n->outs; i++) shoal_tensor_fini(&out[i]);
    return status_wrap(status, "%s '%s'", n->op->name, n->origin ? n->origin->name : "");
  }
  for (int i = 0; i < n->outs; i++) {
    plan_value *v = &p->values[n->out[i]];
    v->store = STORE_CONSTANT;
    v->data = out[i];
    v->owned = true;
    v->maker = -1;
  }
  n->dead = true;
  return NULL;
}

/* Computes now what depends on constants and shapes alone. */
static shoal_status fold_constants(plan *p) {
  for (size_t i = 0; i < p->n_nodes; i++) {
    plan_node *n = &p->nodes[i];
    if (n->dead || (n->op->flags & (OP_STATEFUL | OP_RANDOM))) continue;
    bool constant = true;
    for (int k = 0; k < n->ins && constant; k++)
      constant = (n->op->shape_only >> k & 1) || p->values[p->values[n->in[k]].root].store == STORE_CONSTANT;
    if (!constant) continue;
    if (n->op->flags & OP_VIEW) {
      const plan_value *root = &p->values[p->values[n->out[0]].root];
      plan_value *v = &p->values[n->out[0]];
      if (root->store != STORE_CONSTANT) continue;
      v->store = STORE_CONSTANT;
      v->data = shoal_tensor_view(v->dtype, v->shape, root->data.data);
      v->maker = -1;
      n->dead = true;
      continue;
    }
    TRY(fold_node(p, n));
  }
  return NULL;
}

/* Views have the memory of what they show: nothing to run. */
static void drop_views(plan *p) {
  for (size_t i = 0; i < p->n_nodes; i++) {
    plan_node *n = &p->nodes[i];
    if (n->dead || !(n->op->flags & OP_VIEW)) continue;
    p->values[n->out[0]].maker = p->values[n->in[0]].maker;
    n->dead = true;
  }
}

shoal_status plan_build(plan *p, const plan_request *request) {
  const shoal_graph *g = request->session->graph;
  bool *needed = calloc(g->count + 1, sizeof *needed);
  int **value_of = calloc(g->count + 1, sizeof *value_of); /* by node id: plan values of its outputs */
  shoal_status status = NULL;
  if (!needed || !value_of) {
    status = status_no_memory();
    goto done;
  }
  for (int i = 0; i < request->n_fetches; i++) mark(request->fetches[i]->maker, needed);
  for (size_t i = 0; i < g->count; i++) {
    const node *n = g->nodes[i];
    if (!needed[i]) continue;
    value_of[i] = calloc((size_t)n->outs, sizeof **value_of);
    if (!value_of[i]) {
      status = status_no_memory();
      goto done;
    }
    if (n->op->flags & OP_SOURCE) {
      TRY_GOTO(status, add_source(p, request, n, &value_of[i][0]), done);
      continue;
    }
    int in[PLAN_MOST_INPUTS], made;
    for (int k = 0; k < n->ins && k < PLAN_MOST_INPUTS; k++) in[k] = value_of[n->in[k]->maker->id][n->in[k]->index];
    TRY_GOTO(status, plan_add_node(p, n->op, n, in, n->ins, n->attr, &made), done);
    for (int k = 0; k < n->outs; k++) value_of[i][k] = p->nodes[made].out[k];
  }
  for (int i = 0; i < request->n_fetches; i++) {
    const shoal_value *f = request->fetches[i];
    p->fetch_of[i] = value_of[f->maker->id][f->index];
    p->values[p->fetch_of[i]].fetched = true;
  }
  const shoal_value *guard = request->session->guard;
  p->guard = guard && (size_t)guard->maker->id < g->count && needed[guard->maker->id]
                 ? value_of[guard->maker->id][guard->index]
                 : -1;
  TRY_GOTO(status, drop_unused(p), done);
  TRY_GOTO(status, fold_constants(p), done);
  TRY_GOTO(status, drop_unused(p), done);
  drop_views(p);
done:
  if (value_of)
    for (size_t i = 0; i < g->count; i++) free(value_of[i]);
  free(value_of);
  free(needed);
  return status;
}
