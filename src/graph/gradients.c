/* Gradients by adding nodes to the graph.
 *
 * 1. Nodes are visited from y's back to the first. Inputs have smaller ids, so when a node is visited all gradients
 *    with respect to its outputs have come together.
 * 2. A gradient is dense, or rows (indices and values). Rows meet rows by being put one after the other; rows that meet
 *    a dense gradient, or that have to go through an operator, become dense.
 * 3. The nodes made for node N are called gradients/N/... and stand on N's device. */
#include "base/mem.h"
#include "graph/graph.h"
#include "graph/ops/util.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  shoal_graph *graph;
  shoal_value *const *x; /* [n] */
  int n;
  int last;    /* id of y's node */
  bool *leads; /* [last + 1]: the node is computed from one of x */
  int *first;  /* [last + 2]: where the node's outputs start in grads */
  op_grad *grads;
} pass;

static bool is_asked(const pass *p, const shoal_value *v) {
  for (int i = 0; i < p->n; i++)
    if (p->x[i] == v) return true;
  return false;
}

/* Whether a gradient with respect to v is of use. */
static bool is_wanted(const pass *p, const shoal_value *v) { return p->leads[v->maker->id] || is_asked(p, v); }

static op_grad *grad_of(const pass *p, const shoal_value *v) { return &p->grads[p->first[v->maker->id] + v->index]; }

static shoal_status prepare(pass *p) {
  size_t nodes = (size_t)p->last + 1;
  p->leads = calloc(nodes, sizeof *p->leads);
  p->first = calloc(nodes + 1, sizeof *p->first);
  if (!p->leads || !p->first) return status_no_memory();
  for (size_t id = 0; id < nodes; id++) {
    const node *n = p->graph->nodes[id];
    p->first[id + 1] = p->first[id] + n->outs;
    for (int i = 0; i < n->ins && !p->leads[id]; i++) p->leads[id] = is_wanted(p, n->in[i]);
  }
  p->grads = calloc((size_t)p->first[nodes], sizeof *p->grads);
  return p->grads ? NULL : status_no_memory();
}

/* The gradient with respect to v as a dense value. */
static shoal_value *densify(shoal_graph *g, shoal_value *v, op_grad grad) {
  if (!grad.indices || !grad.value) return grad.value;
  return scatter_add_like(g, grad.indices, grad.value, v);
}

/* A rule that gives a gradient of another shape than its input's is a mistake in the rule. */
static bool fits(shoal_graph *g, const shoal_value *v, const op_grad *grad, const char *op) {
  shoal_shape rows = v->shape;
  if (grad->indices && rows.rank) rows.dim[0] = SHOAL_UNKNOWN;
  if (grad->value->dtype == v->dtype && shapes_fit(&rows, &grad->value->shape)) return true;
  char a[VALUE_TEXT], b[VALUE_TEXT];
  graph_fail(g, status_make(SHOAL_ERR_INTERNAL, "the gradient rule of %s gave %s for %s", op,
                            value_text(grad->value, a), value_text(v, b)));
  return false;
}

static void accumulate(shoal_graph *g, shoal_value *v, op_grad *sum, op_grad more) {
  if (!sum->value)
    *sum = more;
  else if (sum->indices && more.indices) {
    sum->indices = shoal_concat(g, (shoal_value *[]){sum->indices, more.indices}, 2, 0);
    sum->value = shoal_concat(g, (shoal_value *[]){sum->value, more.value}, 2, 0);
  } else
    *sum = (op_grad){.value = shoal_add(g, densify(g, v, *sum), densify(g, v, more))};
}

/* Hands the gradients of a node's outputs on to its inputs. */
static shoal_status visit(pass *p, node *n) {
  shoal_graph *g = p->graph;
  shoal_value *dy[OP_MAX_OUTPUTS] = {0}, *out[OP_MAX_OUTPUTS] = {0};
  bool any = false;
  for (int i = 0; i < n->outs; i++) any |= p->grads[p->first[n->id] + i].value != NULL;
  if (!any || !p->leads[n->id] || (n->op->flags & OP_NO_GRADIENT)) return NULL;
  if (!n->op->gradient)
    return status_make(SHOAL_ERR_ARGUMENT, "'%s', between y and x, has the operator %s, which has no gradient", n->name,
                       n->op->name);
  op_grad *dx = calloc((size_t)n->ins, sizeof *dx);
  if (!dx) return status_no_memory();
  for (int i = 0; i < n->outs; i++) {
    out[i] = &n->out[i];
    dy[i] = densify(g, out[i], *grad_of(p, out[i]));
    if (dy[i] && (n->op->saved >> i & 1)) {
      free(dx);
      return status_make(SHOAL_ERR_ARGUMENT, "no gradient flows through output %d of %s '%s'", i, n->op->name, n->name);
    }
  }
  op_grad_call call = {
      .graph = g, .in = n->in, .out = out, .dy = dy, .attr = n->attr, .ins = n->ins, .outs = n->outs, .dx = dx};
  if (!g->error) n->op->gradient(&call);
  for (int i = 0; i < n->ins && !g->error; i++)
    if (dx[i].value && is_wanted(p, n->in[i]) && fits(g, n->in[i], &dx[i], n->op->name))
      accumulate(g, n->in[i], grad_of(p, n->in[i]), dx[i]);
  free(dx);
  return shoal_graph_status(g);
}

/* Nodes made from here on belong to n: gradients/<its name>/, its device. */
static shoal_status enter(shoal_graph *g, const node *n) {
  char *scope = NULL;
  if (asprintf(&scope, "gradients/%s/", n->name) < 0) return status_no_memory();
  free(g->scope);
  g->scope = scope;
  shoal_device_set(g, n->device);
  return NULL;
}

static shoal_status run(pass *p, shoal_value *y) {
  shoal_graph *g = p->graph;
  TRY(prepare(p));
  if (!is_wanted(p, y)) return NULL;
  TRY(enter(g, y->maker));
  grad_of(p, y)->value = shoal_fill_like(g, y, 1);
  for (int id = p->last; id >= 0; id--) {
    TRY(enter(g, g->nodes[id]));
    TRY(visit(p, g->nodes[id]));
  }
  return shoal_graph_status(g);
}

static shoal_status check(const shoal_graph *g, const shoal_value *y, shoal_value *const *x, int n) {
  char buffer[VALUE_TEXT];
  TRY(shoal_graph_status(g));
  if (!y) return status_make(SHOAL_ERR_ARGUMENT, "y is NULL");
  if (!dtype_is_float(y->dtype))
    return status_make(SHOAL_ERR_ARGUMENT, "y must be f32 or f64: %s", value_text(y, buffer));
  for (int i = 0; i < n; i++)
    if (!x[i]) return status_make(SHOAL_ERR_ARGUMENT, "x[%d] is NULL", i);
  return NULL;
}

shoal_status shoal_gradients(shoal_graph *g, shoal_value *y, shoal_value *const *x, int n, shoal_gradient *out) {
  shoal_status status = check(g, y, x, n);
  if (status) return status_wrap(status, "gradients");
  pass p = {.graph = g, .x = x, .n = n, .last = y->maker->id};
  /* The caller's scope, device and next name come back afterwards. */
  char *scope = g->scope, *device = g->device, *next_name = g->next_name;
  g->scope = strdup("");
  g->device = NULL;
  g->next_name = NULL;
  status = g->scope ? run(&p, y) : status_no_memory();
  free(g->scope);
  free(g->device);
  free(g->next_name);
  g->scope = scope;
  g->device = device;
  g->next_name = next_name;
  if (!status)
    for (int i = 0; i < n; i++) {
      /* A value made after y does not count in it, and has no place in the pass. */
      op_grad grad = x[i]->maker->id <= p.last ? *grad_of(&p, x[i]) : (op_grad){0};
      out[i] = (shoal_gradient){grad.value, grad.indices};
    }
  free(p.leads);
  free(p.first);
  free(p.grads);
  return status_wrap(status, "gradients of %s", y->maker->name);
}
