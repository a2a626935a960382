/* What the rules that fuse operators share. A rule looks at one node and replaces the group that begins there, or
 * leaves it; plan_fuse calls each rule for each node. */
#ifndef SHOAL_EXEC_FUSE_H
#define SHOAL_EXEC_FUSE_H

#include "exec/plan.h"

#include <string.h>

static inline bool is(const plan_node *n, const char *op) { return !n->dead && !n->keep && !strcmp(n->op->name, op); }

/* The n-th node that reads this value itself, counting from 0; -1: none. Shape-only reads do not count. */
static inline int reader(const plan *p, int value, int nth) {
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    if (n->dead) continue;
    for (int k = 0; k < n->ins; k++)
      if (n->in[k] == value && !op_shape_only(n->op, k)) {
        if (nth-- == 0) return (int)i;
        break; /* one node counts once */
      }
  }
  return -1;
}

/* Fetched, the guard, or seen under another shape: must exist in memory. */
static inline bool needed_elsewhere(const plan *p, int value) {
  if (p->values[value].fetched || p->guard == value) return true;
  for (size_t i = 0; i < p->n_values; i++)
    if ((int)i != value && p->values[i].root == p->values[value].root &&
        (reader(p, (int)i, 0) >= 0 || p->values[i].fetched))
      return true;
  return false;
}

/* The one node that reads this value, if it is that operator; -1 otherwise. */
static inline int only_reader(const plan *p, int value, const char *op) {
  int r = reader(p, value, 0);
  if (r < 0 || reader(p, value, 1) >= 0 || needed_elsewhere(p, value) || !is(&p->nodes[r], op)) return -1;
  return r;
}

static inline bool f32(const plan *p, int value) { return p->values[value].dtype == SHOAL_F32; }

/* Adds a node that takes over the given output values from their makers. -1: that output is new. */
static inline shoal_status take_over(plan *p, const char *op, const node *origin, const int *in, int ins,
                                     const attr_value *attr, const int *outs, int *made) {
  TRY(plan_add_node(p, op_find(op), origin, in, ins, attr, made));
  plan_node *n = &p->nodes[*made];
  for (int k = 0; k < n->outs; k++) {
    if (outs[k] < 0) continue;
    int root = p->values[outs[k]].root;
    n->out[k] = outs[k];
    for (size_t i = 0; i < p->n_values; i++)
      if (p->values[i].root == root) p->values[i].maker = *made;
  }
  return NULL;
}

static inline void kill(plan *p, int id) {
  if (id >= 0) p->nodes[id].dead = true;
}

/* Rules in files of their own. */
SHOAL_CHECKED shoal_status fuse_sparse(plan *p, int id);
SHOAL_CHECKED shoal_status fuse_group(plan *p, int id);

#endif
