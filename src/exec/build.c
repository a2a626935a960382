/* The first passes of a plan: what is needed, with its shapes; views resolved; constants folded. */
#include "exec/plan.h"

#include "base/mem.h"
#include "graph/infer.h"
#include "tensor/limits.h"

#include <string.h>

shoal_status plan_add_value(plan *p, shoal_dtype dtype, shoal_shape shape, shoal_shape symbolic, int *out) {
  TRY(mem_grow((void **)&p->values, &p->cap_values, p->n_values + 1, sizeof *p->values));
  int id = (int)p->n_values++;
  p->values[id] = (plan_value){
      .dtype = dtype, .shape = shape, .symbolic = symbolic, .maker = -1, .root = id, .feed = -1, .ragged = -1};
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
  shoal_shape in[PLAN_INPUTS_MAX];
  shoal_dtype in_dtype[PLAN_INPUTS_MAX];
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < n->ins; i++) {
      const plan_value *v = &p->values[n->in[i]];
      in[i] = pass ? v->symbolic : v->shape;
      in_dtype[i] = v->dtype;
    }
    op_shapes s = {n->ins, n->outs, in, in_dtype, n->attr, pass ? symbolic : shape, dtype};
    shoal_status status = op_infer(n->op, &s);
    if (status) return status_wrap(status, "%s '%s'", n->op->name, n->origin ? n->origin->name : "made by the planner");
  }
  return NULL;
}

/* Which outputs are as long as a ragged input: the rule is asked about a run with one entry less, and what shrinks
 * along with an input follows it. */
static shoal_status follow_ragged(const plan *p, const plan_node *n, const shoal_shape *shape, int *ragged) {
  shoal_shape in[PLAN_INPUTS_MAX], less[OP_MAX_OUTPUTS] = {0};
  shoal_dtype in_dtype[PLAN_INPUTS_MAX], out_dtype[OP_MAX_OUTPUTS] = {0};
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
  TRY(op_infer(n->op, &s));
  for (int i = 0; i < n->outs; i++) {
    if (shoal_shape_equal(&less[i], &shape[i])) continue;
    shoal_shape grown = less[i];
    if (grown.rank) grown.dim[0]++;
    for (int k = 0; k < n->ins && ragged[i] < 0; k++)
      if (in[k].rank && in[k].dim[0] == less[i].dim[0]) ragged[i] = p->values[n->in[k]].ragged;
    if (ragged[i] < 0 || !shoal_shape_equal(&grown, &shape[i]))
      return status_make(SHOAL_ERR_ARGUMENT,
                         "its result is not as long as the ragged rows it is made from; feed them as "
                         "a placeholder that is not ragged");
  }
  return NULL;
}

shoal_status plan_add_node(plan *p, const op_row *op, const node *origin, const int *in, int ins,
                           const attr_value *attr, int *out) {
  if (ins > PLAN_INPUTS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "%s has %d inputs; at most %d are possible", op->name, ins, PLAN_INPUTS_MAX);
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

/* What is fed in place of v, or -1. */
static int feed_of(const plan_request *request, const shoal_value *v) {
  for (int i = 0; i < request->n_feeds; i++)
    if (request->feeds[i].value == v) return i;
  return -1;
}

static shoal_status add_feed(plan *p, const plan_request *request, int feed, int *out) {
  const shoal_value *v = request->feeds[feed].value;
  const shoal_tensor *t = &request->feeds[feed].tensor;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  bool fits = t->shape.rank == v->shape.rank;
  for (int i = 0; fits && i < v->shape.rank; i++)
    fits = v->shape.dim[i] == SHOAL_UNKNOWN ? t->shape.dim[i] >= 0 : t->shape.dim[i] == v->shape.dim[i];
  if (t->dtype != v->dtype || !fits)
    return status_make(SHOAL_ERR_ARGUMENT, "%s '%s' is %s%s, but %s%s is fed", v->maker->op->name, v->maker->name,
                       shoal_dtype_name(v->dtype), shoal_shape_text(&v->shape, a), shoal_dtype_name(t->dtype),
                       shoal_shape_text(&t->shape, b));
  TRY(status_wrap(tensor_check(v->dtype, &p->feed_shapes[feed]), "%s '%s' is fed", v->maker->op->name, v->maker->name));
  TRY(plan_add_value(p, v->dtype, p->feed_shapes[feed], v->shape, out));
  plan_value *value = &p->values[*out];
  value->store = STORE_FEED;
  value->feed = feed;
  value->source = v->maker;
  value->ragged = p->feed_offsets[feed];
  return NULL;
}

static shoal_status add_source(plan *p, const plan_request *request, const node *n, int *out) {
  const shoal_value *v = &n->out[0];
  if (!strcmp(n->op->name, "placeholder"))
    return status_make(SHOAL_ERR_ARGUMENT, "placeholder '%s' is needed but not fed", n->name);
  if (n->initial && !request->session->variables[n->id].data)
    return status_make(SHOAL_ERR_ARGUMENT, "variable '%s' is held by another task", n->name);
  TRY(plan_add_value(p, v->dtype, v->shape, v->shape, out));
  plan_value *value = &p->values[*out];
  value->store = n->initial ? STORE_VARIABLE : STORE_CONSTANT;
  if (!n->initial) value->data = n->attr[0].data;
  value->source = n;
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
        if (!op_shape_only(n->op, k)) uses[n->in[k]]++;
    }
    for (size_t i = 0; i < p->n_nodes; i++) {
      plan_node *n = &p->nodes[i];
      if (n->dead || n->keep || (n->op->flags & OP_STATEFUL)) continue;
      bool used = false;
      for (int k = 0; k < n->outs; k++) used |= uses[n->out[k]] > 0;
      if (!used) n->dead = again = true;
    }
  }
  free(uses);
  return NULL;
}

static shoal_status fold_node(plan *p, plan_node *n) {
  shoal_tensor in[PLAN_INPUTS_MAX], out[OP_MAX_OUTPUTS] = {0};
  for (int i = 0; i < n->ins; i++) {
    const plan_value *v = &p->values[n->in[i]];
    in[i] = v->store == STORE_CONSTANT ? v->data : shoal_tensor_view(v->dtype, v->shape, NULL);
    in[i].shape = v->shape; /* a view may have another shape than the constant it shows */
  }
  shoal_status status = NULL;
  for (int i = 0; i < n->outs && !status; i++) {
    const plan_value *v = &p->values[n->out[i]];
    shoal_tensor like = shoal_tensor_view(v->dtype, v->shape, NULL);
    status = plan_charge(p, shoal_tensor_bytes(&like), n->op->name);
    if (!status) status = shoal_tensor_create(v->dtype, v->shape, &out[i]);
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
    if (n->dead || n->keep || (n->op->flags & (OP_STATEFUL | OP_RANDOM | OP_NESTED))) continue;
    bool constant = true;
    for (int k = 0; k < n->ins && constant; k++)
      constant = op_shape_only(n->op, k) || p->values[p->values[n->in[k]].root].store == STORE_CONSTANT;
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
    if (n->dead || n->keep || !(n->op->flags & OP_VIEW)) continue;
    p->values[n->out[0]].maker = p->values[n->in[0]].maker;
    n->dead = true;
  }
}

typedef struct {
  plan *p;
  const plan_request *request;
  shoal_shape *fed; /* [values of the graph] of those that are fed; SHAPE_NOT_KNOWN: not fed */
  bool *needed;     /* [nodes of the graph] */
  bool *waited_for; /* [nodes of the graph] a needed one runs after it without using it */
  int *value_of;    /* [values of the graph] the plan's; -1: none yet */
  int *node_of;     /* [nodes of the graph] the plan's; -1: none */
} builder;

static shoal_status builder_init(builder *b, plan *p, const plan_request *request) {
  const shoal_graph *g = request->session->graph;
  size_t nodes = g->count + 1, values = (size_t)g->n_values + 1;
  *b = (builder){.p = p, .request = request};
  b->fed = calloc(values, sizeof *b->fed);
  b->needed = calloc(nodes, sizeof *b->needed);
  b->waited_for = calloc(nodes, sizeof *b->waited_for);
  b->value_of = malloc(values * sizeof *b->value_of);
  b->node_of = malloc(nodes * sizeof *b->node_of);
  if (!b->fed || !b->needed || !b->waited_for || !b->value_of || !b->node_of) return status_no_memory();
  for (size_t i = 0; i < values; i++) {
    b->fed[i] = SHAPE_NOT_KNOWN;
    b->value_of[i] = -1;
  }
  for (size_t i = 0; i < nodes; i++) b->node_of[i] = -1;
  for (int i = 0; i < request->n_feeds; i++) b->fed[value_id(request->feeds[i].value)] = request->feeds[i].tensor.shape;
  return NULL;
}

static void builder_fini(builder *b) {
  free(b->fed);
  free(b->needed);
  free(b->waited_for);
  free(b->value_of);
  free(b->node_of);
}

/* The plan's value for v: what is fed for it, if anything is, else what its maker made. */
static shoal_status value_for(builder *b, const shoal_value *v, int *out) {
  int *known = &b->value_of[value_id(v)];
  if (b->fed[value_id(v)].rank >= 0 && *known < 0) TRY(add_feed(b->p, b->request, feed_of(b->request, v), known));
  *out = *known;
  return NULL;
}

/* A node that waits for others, or that others wait for, must run at its time: its result is its own memory. */
static void keep_node(plan *p, int id) {
  plan_node *n = &p->nodes[id];
  n->keep = true;
  if (n->op->flags & OP_VIEW) p->values[n->out[0]].root = n->out[0];
}

static shoal_status add_controls(builder *b, const node *n, int made) {
  plan *p = b->p;
  for (int i = 0; i < n->n_after; i++) {
    int before = b->node_of[n->after[i]->id];
    if (before < 0) continue; /* a source, or fed */
    TRY(mem_grow((void **)&p->controls, &p->cap_controls, p->n_controls + 1, sizeof *p->controls));
    p->controls[p->n_controls++] = (struct plan_control){before, made};
  }
  return NULL;
}

static shoal_status add_graph_node(builder *b, const node *n) {
  plan *p = b->p;
  int in[PLAN_INPUTS_MAX], made;
  for (int k = 0; k < n->ins && k < PLAN_INPUTS_MAX; k++) {
    TRY(value_for(b, n->in[k], &in[k]));
    if (op_updates(n->op, k) && p->values[p->values[in[k]].root].store == STORE_FEED)
      return status_make(SHOAL_ERR_ARGUMENT, "'%s' would change '%s', which is fed", n->name, n->in[k]->maker->name);
  }
  TRY(plan_add_node(p, n->op, n, in, n->ins, n->attr, &made));
  b->node_of[n->id] = made;
  if (n->n_after || b->waited_for[n->id]) keep_node(p, made);
  TRY(add_controls(b, n, made));
  for (int k = 0; k < n->outs; k++)
    if (b->fed[n->first_value + k].rank < 0) b->value_of[n->first_value + k] = p->nodes[made].out[k];
  return NULL;
}

static shoal_status build_all(builder *b) {
  plan *p = b->p;
  const plan_request *request = b->request;
  const shoal_graph *g = request->session->graph;
  TRY(graph_mark(g, request->fetches, request->n_fetches, b->fed, b->needed));
  for (size_t i = 0; i < g->count; i++)
    for (int k = 0; k < g->nodes[i]->n_after && b->needed[i]; k++) b->waited_for[g->nodes[i]->after[k]->id] = true;
  for (size_t i = 0; i < g->count; i++) {
    const node *n = g->nodes[i];
    if (!b->needed[i]) continue;
    if (n->op->flags & OP_SOURCE)
      TRY(add_source(p, request, n, &b->value_of[n->first_value]));
    else
      TRY(add_graph_node(b, n));
  }
  for (int i = 0; i < request->n_fetches; i++) {
    TRY(value_for(b, request->fetches[i], &p->fetch_of[i]));
    p->values[p->fetch_of[i]].fetched = true;
  }
  const shoal_value *guard = request->session->guard;
  p->guard = guard && value_id(guard) < g->n_values ? b->value_of[value_id(guard)] : -1;
  TRY(drop_unused(p));
  TRY(fold_constants(p));
  TRY(drop_unused(p));
  drop_views(p);
  return NULL;
}

shoal_status plan_build(plan *p, const plan_request *request) {
  builder b;
  shoal_status status = builder_init(&b, p, request);
  if (!status) status = build_all(&b);
  builder_fini(&b);
  return status;
}
