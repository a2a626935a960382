#include "dist/tree.h"

#include "base/denormals.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256 }; /* numbers carried through the tree at a time: all stacked pieces stay in the first cache */

void tree_push(tree_node *stack, int *depth, tree_node node) {
  while (*depth > 0) {
    const tree_node *left = &stack[*depth - 1];
    bool halves = left->level == node.level && left->start + ((int64_t)1 << node.level) == node.start &&
                  (node.start >> node.level & 1);
    if (!halves) break;
    node = (tree_node){left->start, node.level + 1};
    (*depth)--;
  }
  stack[(*depth)++] = node;
}

int tree_nodes(int64_t first, int64_t last, tree_node out[TREE_NODES_MAX]) {
  int n = 0;
  for (int64_t i = first; i < last; i++) tree_push(out, &n, (tree_node){i, 0});
  return n;
}

/* The fewest leaves of which k nodes remain grow to the middle and shrink again: 1; 1 1; 1 2 1; 1 2 2 1; 1 2 4 2 1 ...
 */
int tree_nodes_max(int64_t count) {
  int nodes = 0;
  for (int64_t fewest = 0; nodes < TREE_NODES_MAX; nodes++) {
    fewest += (int64_t)1 << nodes / 2;
    if (fewest > count) break;
  }
  return nodes;
}

static void load(const tree_source *s, int64_t from, int64_t count, float *to) {
  if (s->halves) {
    tree_from_bf16(s->halves + from, to, count);
  } else if (s->scale == 1) {
    memcpy(to, s->data + from, (size_t)count * sizeof *to);
  } else {
    const float *data = s->data + from, scale = s->scale;
    for (int64_t e = 0; e < count; e++) to[e] = data[e] * scale;
  }
}

static void add(float *to, const float *right, int64_t count) {
  for (int64_t e = 0; e < count; e++) to[e] += right[e];
}

void tree_sum(const tree_source *sources, int n, bool whole, float *const *into, int64_t count) {
  tree_sum_part(sources, n, whole, into, 0, count);
}

void tree_sum_part(const tree_source *sources, int n, bool whole, float *const *into, int64_t first, int64_t last) {
  float pieces[TREE_NODES_MAX + 1][PIECE];
  unsigned mode = denormals_off();
  for (int64_t from = first; from < last; from += PIECE) {
    const int64_t m = MIN_OF(last - from, (int64_t)PIECE);
    tree_node stack[TREE_NODES_MAX + 1];
    int depth = 0;
    for (int i = 0; i < n; i++) {
      int before = depth, at = depth;
      load(&sources[i], from, m, pieces[at]);
      tree_push(stack, &depth, sources[i].node);
      for (; before >= depth; before--) { /* as often as two halves met */
        add(pieces[at - 1], pieces[at], m);
        at--;
      }
    }
    for (; whole && depth > 1; depth--) add(pieces[depth - 2], pieces[depth - 1], m);
    for (int k = 0; k < depth; k++) memcpy(into[k] + from, pieces[k], (size_t)m * sizeof **pieces);
  }
  denormals_restore(mode);
}

void tree_to_bf16(const float *from, uint16_t *to, int64_t count) {
  for (int64_t e = 0; e < count; e++) {
    uint32_t bits;
    memcpy(&bits, &from[e], sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    /* A NaN must not be rounded up to an infinity. */
    to[e] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded >> 16);
  }
}

void tree_from_bf16(const uint16_t *from, float *to, int64_t count) {
  for (int64_t e = 0; e < count; e++) {
    uint32_t bits = (uint32_t)from[e] << 16;
    memcpy(&to[e], &bits, sizeof bits);
  }
}
