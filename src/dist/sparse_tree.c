#include "dist/sparse_tree.h"

#include "base/denormals.h"
#include "base/mem.h"

#include <string.h>

enum { STRIP = 64 }; /* numbers of a row carried through the tree at a time */

/* Parts of several rounds, or of less than one, make no tree: each vector is a leaf, weighted by what there is of rows. */
static void begin(sparse_part *parts, int n, bool whole) {
  double examples = 0;
  int64_t leaf = 0;
  for (int g = 0; g < n; g++) examples += (double)parts[g].gradient->examples;
  for (int g = 0; g < n; g++) {
    sparse_part *p = &parts[g];
    p->at = 0;
    p->n_nodes = tree_nodes(p->gradient->first_leaf, p->gradient->last_leaf, p->nodes);
    p->scale = whole ? 1 : (float)((double)p->gradient->round_rows / examples);
    for (int i = 0; i < p->n_nodes && !whole; i++) p->nodes[i] = (tree_node){leaf++, 0};
  }
}

static bool has(const sparse_part *p, int32_t key) { return p->at < p->n && p->keys[p->at] == key; }

/* The least key that is left; false: none is. */
static bool next_key(const sparse_part *parts, int n, int32_t *out) {
  bool found = false;
  for (int g = 0; g < n; g++) {
    const sparse_part *p = &parts[g];
    if (p->at == p->n || (found && p->keys[p->at] >= *out)) continue;
    *out = p->keys[p->at];
    found = true;
  }
  return found;
}

static const float *vector_of(const sparse_part *p, int node, int64_t width) {
  return p->gradient->values + ((int64_t)node * p->n + p->at) * width;
}

/* Of one node. */
static void take_row(const sparse_part *p, int64_t width, float *out) {
  const float *from = vector_of(p, 0, width);
  for (int64_t c = 0; c < width; c++) out[c] = from[c] * p->scale + 0.0f;
}

typedef struct {
  tree_node stack[TREE_NODES_MAX + 1];
  int depth;
  bool there[TREE_NODES_MAX + 1];
  float numbers[TREE_NODES_MAX + 1][STRIP];
} summing;

/* The right one of two neighbours joins the left one. */
static void join(summing *s, int left, int64_t count) {
  const int right = left + 1;
  if (!s->there[right]) return;
  if (s->there[left])
    for (int64_t c = 0; c < count; c++) s->numbers[left][c] += s->numbers[right][c];
  else
    memcpy(s->numbers[left], s->numbers[right], (size_t)count * sizeof **s->numbers);
  s->there[left] = true;
}

/* from NULL: the row is not among the node's. */
static void push(summing *s, tree_node node, const float *from, float scale, int64_t count) {
  int before = s->depth, at = s->depth;
  s->there[at] = from != NULL;
  for (int64_t c = 0; from && c < count; c++) s->numbers[at][c] = from[c] * scale;
  tree_push(s->stack, &s->depth, node);
  for (; before >= s->depth; before--) join(s, --at, count); /* as often as two halves met */
}

static void sum_row(const sparse_part *parts, int n, int64_t width, int32_t key, float *out) {
  summing s;
  for (int64_t first = 0; first < width; first += STRIP) {
    const int64_t count = MIN_OF((int64_t)STRIP, width - first);
    s.depth = 0;
    for (int g = 0; g < n; g++) {
      const sparse_part *p = &parts[g];
      const bool there = has(p, key);
      for (int i = 0; i < p->n_nodes; i++)
        push(&s, p->nodes[i], there ? vector_of(p, i, width) + first : NULL, p->scale, count);
    }
    for (; s.depth > 1; s.depth--) join(&s, s.depth - 2, count);
    for (int64_t c = 0; c < count; c++) out[first + c] = s.numbers[0][c] + 0.0f; /* no negative zero */
  }
}

/* The only part that has the row, if it is a single node, too: there is nothing to add. */
static const sparse_part *only_one(const sparse_part *parts, int n, int32_t key) {
  const sparse_part *one = NULL;
  for (int g = 0; g < n; g++) {
    if (!has(&parts[g], key)) continue;
    if (one || parts[g].n_nodes > 1) return NULL;
    one = &parts[g];
  }
  return one;
}

int64_t sparse_tree_sum(sparse_part *parts, int n, int64_t width, int32_t *keys, float *sums, bool *uneven) {
  const unsigned mode = denormals_off();
  int64_t rows = 0;
  *uneven = !ps_gradients_make_round(n ? parts[0].gradient : NULL, n);
  begin(parts, n, !*uneven);
  for (int32_t key = 0; next_key(parts, n, &key); rows++) {
    const sparse_part *one = only_one(parts, n, key);
    keys[rows] = key;
    if (one)
      take_row(one, width, sums + rows * width);
    else
      sum_row(parts, n, width, key, sums + rows * width);
    for (int g = 0; g < n; g++) parts[g].at += has(&parts[g], key);
  }
  denormals_restore(mode);
  return rows;
}
