/* Chooses a kernel for each node and with it the layout of each value, and adds the conversions between layouts. */
#include "exec/plan.h"

#include "exec/control.h"

#include "base/mem.h"

#include <string.h>

typedef struct {
  plan *p;
  int *twin;   /* by root value: the same in the other layout, or -1 */
  bool *rigid; /* by root value: must stay ROWS, because something looks at it other than row by row */
  size_t n;
} chooser;

static bool all_f32(const op_shapes *s) {
  for (int i = 0; i < s->ins; i++)
    if (s->in_dtype[i] == SHOAL_F64) return false;
  for (int i = 0; i < s->outs; i++)
    if (s->out_dtype[i] == SHOAL_F64) return false;
  return true;
}

typedef struct {
  shoal_shape in[PLAN_INPUTS_MAX], out[OP_MAX_OUTPUTS];
  shoal_dtype in_dtype[PLAN_INPUTS_MAX], out_dtype[OP_MAX_OUTPUTS];
  op_shapes s;
} node_shapes;

/* The best variant whose processor and shape fit, lanes or not. `lanes`: whether LANES is on the table. */
static const op_variant *best_variant(const chooser *c, const plan_node *n, const op_shapes *s, bool lanes) {
  if (!n->op->variants || !all_f32(s)) return NULL;
  for (const op_variant *v = n->op->variants; v->name; v++) {
    if (v->needs > c->p->session->level) continue;
    if ((v->lanes_in | v->lanes_out) && !lanes) continue;
    if (v->fits && !v->fits(s)) continue;
    return v;
  }
  return NULL;
}

static bool wants_lanes(const op_variant *v, uint32_t mask, int k, const plan_value *value) {
  return v && (mask >> k & 1) && plan_batched(value);
}

/* LANES is possible for a node when no operand that would be in it is rigid. */
static bool lanes_possible(const chooser *c, const plan_node *n, const op_variant *v) {
  for (int k = 0; k < n->ins; k++)
    if (wants_lanes(v, v->lanes_in, k, &c->p->values[n->in[k]]) && c->rigid[c->p->values[n->in[k]].root]) return false;
  for (int k = 0; k < n->outs; k++)
    if (wants_lanes(v, v->lanes_out, k, &c->p->values[n->out[k]]) && c->rigid[c->p->values[n->out[k]].root])
      return false;
  return true;
}

static const op_variant *variant_of(const chooser *c, const plan_node *n, const op_shapes *s, op_batch batch);

/* Does anything that reads this value want it in LANES for its own sake? */
static bool reader_wants_lanes(const chooser *c, int root) {
  const plan *p = c->p;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    if (n->dead) continue;
    for (int k = 0; k < n->ins; k++) {
      if (p->values[n->in[k]].root != root || op_shape_only(n->op, k)) continue;
      node_shapes shapes;
      plan_shapes(p, n, false, shapes.in, shapes.in_dtype, shapes.out, shapes.out_dtype, &shapes.s);
      const op_variant *v = best_variant(c, n, &shapes.s, true);
      if (v && v->anchor && wants_lanes(v, v->lanes_in, k, &p->values[n->in[k]])) return true;
    }
  }
  return false;
}

static const op_variant *variant_of(const chooser *c, const plan_node *n, const op_shapes *s, op_batch batch) {
  const plan *p = c->p;
  const op_variant *v = best_variant(c, n, s, batch != BATCH_WHOLE);
  if (!v || !(v->lanes_in | v->lanes_out)) return v;
  bool worth = v->anchor;
  for (int k = 0; k < n->ins && !worth; k++)
    worth = wants_lanes(v, v->lanes_in, k, &p->values[n->in[k]]) &&
            p->values[p->values[n->in[k]].root].order == LAYOUT_LANES;
  if (!worth && !v->lanes_in) worth = reader_wants_lanes(c, p->values[n->out[0]].root);
  if (worth && lanes_possible(c, n, v)) return v;
  return best_variant(c, n, s, false);
}

/* A value of the same memory as `from`, with the shape of `like`. */
static shoal_status add_view(plan *p, int from, int like, int *out) {
  TRY(plan_add_value(p, p->values[like].dtype, p->values[like].shape, p->values[like].symbolic, out));
  p->values[*out].root = p->values[from].root;
  p->values[*out].maker = p->values[from].maker;
  return NULL;
}

/* `value` as it looks in the other layout: a conversion of its root, made once, seen with the value's own shape. */
static shoal_status converted(chooser *c, int value, const char *op, layout wanted, const node *origin, int *out) {
  plan *p = c->p;
  int root = p->values[value].root;
  if (c->twin[root] < 0) {
    int made;
    TRY(plan_add_node(p, op_find(op), origin, &root, 1, NULL, &made));
    c->twin[root] = p->nodes[made].out[0];
    p->values[c->twin[root]].order = wanted;
    plan_node *n = &p->nodes[made];
    n->batch = BATCH_MAP;
    node_shapes shapes;
    plan_shapes(p, n, false, shapes.in, shapes.in_dtype, shapes.out, shapes.out_dtype, &shapes.s);
    n->variant = best_variant(c, n, &shapes.s, true);
    n->run = n->variant ? n->variant->run : n->op->kernel;
  }
  int twin = c->twin[root];
  if (shoal_shape_equal(&p->values[twin].shape, &p->values[value].shape)) {
    *out = twin;
    return NULL;
  }
  return add_view(p, twin, value, out);
}

/* A view whose rows are not those of its root: a row index is of the root's. */
static bool other_rows(const plan *p, int value) {
  const plan_value *v = &p->values[value], *root = &p->values[v->root];
  return !plan_batched(v) || v->shape.dim[0] != root->shape.dim[0];
}

static bool follows_rows(const plan *p, const plan_node *n, int k) {
  return k == 0 && (n->op->flags & OP_TAKES_ROWS) && !other_rows(p, n->in[k]);
}

/* The caller's rows copied one after another, for all readers of this value that cannot follow a row index. */
static shoal_status plain_rows(chooser *c, int value, const node *origin) {
  plan *p = c->p;
  int made, now, from = other_rows(p, value) ? p->values[value].root : value;
  TRY(plan_add_node(p, op_find("copy_rows"), origin, &from, 1, NULL, &made));
  p->nodes[made].batch = BATCH_MAP;
  p->nodes[made].run = p->nodes[made].op->kernel;
  now = p->nodes[made].out[0];
  c->rigid[now] = from != value;
  if (from != value) TRY(add_view(p, now, value, &now));
  for (size_t i = 0; i < p->n_nodes; i++)
    for (int k = 0; k < p->nodes[i].ins; k++)
      if (p->nodes[i].in[k] == value && !follows_rows(p, &p->nodes[i], k) && (int)i != made) p->nodes[i].in[k] = now;
  return NULL;
}

static bool indexed_feed(const plan *p, int value) {
  const plan_value *root = &p->values[p->values[value].root];
  return root->store == STORE_FEED && p->feed_indexed[root->feed];
}

static shoal_status adapt_inputs(chooser *c, int id) {
  plan *p = c->p;
  for (int k = 0; k < p->nodes[id].ins; k++) {
    plan_node *n = &p->nodes[id];
    int value = n->in[k];
    if (op_shape_only(n->op, k)) continue;
    layout have = p->values[p->values[value].root].order;
    layout wanted =
        n->variant && wants_lanes(n->variant, n->variant->lanes_in, k, &p->values[value]) ? LAYOUT_LANES : LAYOUT_ROWS;
    if (have == wanted) {
      if (indexed_feed(p, value) && !follows_rows(p, n, k)) TRY(plain_rows(c, value, n->origin));
      continue;
    }
    int other;
    TRY(converted(c, value, wanted == LAYOUT_LANES ? "pack_lanes" : "unpack_lanes", wanted, n->origin, &other));
    p->nodes[id].in[k] = other;
  }
  return NULL;
}

/* A root is rigid when one of the values that share its memory is not the same rows seen one by one. */
static void find_rigid(chooser *c) {
  const plan *p = c->p;
  for (size_t i = 0; i < p->n_values; i++) {
    const plan_value *v = &p->values[i], *root = &p->values[v->root];
    if (!plan_batched(v) || !plan_batched(root) || v->shape.dim[0] != root->shape.dim[0]) c->rigid[v->root] = true;
  }
}

static shoal_status grow(chooser *c) {
  size_t before = c->n, now = c->p->n_values + 1024; /* conversions add values while we look */
  if (c->p->n_values + 8 < before) return NULL;
  int *twin = realloc(c->twin, now * sizeof *twin);
  if (twin) c->twin = twin;
  bool *rigid = realloc(c->rigid, now * sizeof *rigid);
  if (rigid) c->rigid = rigid;
  if (!twin || !rigid) return status_no_memory();
  for (size_t i = before; i < now; i++) {
    twin[i] = -1;
    rigid[i] = false;
  }
  c->n = now;
  return NULL;
}

static bool touches_ragged(const plan *p, const plan_node *n) {
  for (int k = 0; k < n->ins; k++)
    if (p->values[n->in[k]].ragged >= 0) return true;
  for (int k = 0; k < n->outs; k++)
    if (p->values[n->out[k]].ragged >= 0) return true;
  return false;
}

static shoal_status choose_node(chooser *c, int id, bool reference) {
  plan *p = c->p;
  TRY(grow(c));
  plan_node *n = &p->nodes[id];
  node_shapes shapes;
  plan_shapes(p, n, true, shapes.in, shapes.in_dtype, shapes.out, shapes.out_dtype, &shapes.s);
  n->batch = n->op->batch && !reference && !touches_ragged(p, n) ? n->op->batch(&shapes.s) : BATCH_WHOLE;
  if (n->batch == BATCH_SUM)
    for (int k = 0; k < n->outs; k++)
      if (shapes.out_dtype[k] != SHOAL_F32 && shapes.out_dtype[k] != SHOAL_F64) n->batch = BATCH_WHOLE;
  plan_shapes(p, n, false, shapes.in, shapes.in_dtype, shapes.out, shapes.out_dtype, &shapes.s);
  n->variant = reference ? NULL : variant_of(c, n, &shapes.s, n->batch);
  if (n->variant && n->variant->whole) n->batch = BATCH_WHOLE;
  n->run = n->variant ? n->variant->run : n->op->kernel;
  if (n->op->flags & OP_NESTED) TRY(control_prepare(p, n));
  n->scratch = n->variant && n->variant->scratch ? n->variant->scratch(&shapes.s) : 0;
  if ((n->op->flags & OP_STEPS) && p->session->racing)
    n->scratch = mem_times(n->scratch, (size_t)pool_threads(p->session->threads));
  for (int k = 0; k < n->outs; k++)
    if (n->variant && wants_lanes(n->variant, n->variant->lanes_out, k, &p->values[n->out[k]]))
      p->values[p->values[n->out[k]].root].order = LAYOUT_LANES;
  return adapt_inputs(c, id);
}

/* Is the layout of everything this node reads settled? */
static bool inputs_settled(const plan *p, const plan_node *n, const bool *settled, size_t original) {
  for (int k = 0; k < n->ins; k++) {
    int maker = p->values[n->in[k]].maker;
    if (maker >= 0 && (size_t)maker < original && !settled[maker]) return false;
  }
  return true;
}

/* A node comes after those whose results it reads, which in a plan with fused nodes is not the order of their ids. */
static shoal_status choose_all(chooser *c, bool reference) {
  plan *p = c->p;
  size_t original = p->n_nodes; /* conversions are added behind */
  bool *settled = calloc(original + 1, sizeof *settled);
  if (!settled) return status_no_memory();
  shoal_status status = NULL;
  for (size_t i = 0; i < original; i++) settled[i] = p->nodes[i].dead;
  for (bool moved = true; moved && !status;) {
    moved = false;
    for (size_t i = 0; i < original && !status; i++) {
      if (settled[i] || !inputs_settled(p, &p->nodes[i], settled, original)) continue;
      status = choose_node(c, (int)i, reference);
      settled[i] = moved = true;
    }
  }
  for (size_t i = 0; i < original && !status; i++)
    if (!settled[i]) status = status_make(SHOAL_ERR_INTERNAL, "the plan has a cycle at %s", p->nodes[i].op->name);
  free(settled);
  return status;
}

static shoal_status choose(chooser *c, bool reference) {
  plan *p = c->p;
  TRY(grow(c));
  find_rigid(c);
  TRY(choose_all(c, reference));
  /* What leaves the plan leaves it row by row. */
  for (int i = 0; i < p->n_fetches; i++) {
    int value = p->fetch_of[i];
    TRY(grow(c));
    if (p->values[p->values[value].root].order != LAYOUT_LANES) continue;
    int maker = p->values[value].maker;
    TRY(converted(c, value, "unpack_lanes", LAYOUT_ROWS, maker >= 0 ? p->nodes[maker].origin : NULL, &p->fetch_of[i]));
    p->values[p->fetch_of[i]].fetched = true;
  }
  return NULL;
}

shoal_status plan_choose(plan *p, bool reference) {
  chooser c = {.p = p};
  shoal_status status = choose(&c, reference);
  free(c.twin);
  free(c.rigid);
  return status;
}
