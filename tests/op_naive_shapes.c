/* Operators that move elements once more: each output element looks up where it comes from by its index. */
#include "op_naive.h"

#include <math.h>
#include <string.h>

static double at(const shoal_tensor *t, int64_t i) { return shoal_tensor_get(t, i); }

/* The index of element e of a row-major tensor. */
static void index_of(const shoal_shape *s, int64_t e, int64_t index[SHOAL_MAX_RANK]) {
  for (int d = s->rank - 1; d >= 0; d--) {
    index[d] = e % s->dim[d];
    e /= s->dim[d];
  }
}

static int64_t element_at(const shoal_shape *s, const int64_t *index) {
  int64_t e = 0;
  for (int d = 0; d < s->rank; d++) e = e * s->dim[d] + index[d];
  return e;
}

/* Element e of `to` in a tensor that is broadcast to it. */
static double broadcast(const shoal_tensor *t, const shoal_shape *to, int64_t e) {
  int64_t index[SHOAL_MAX_RANK], own[SHOAL_MAX_RANK];
  index_of(to, e, index);
  int more = to->rank - t->shape.rank;
  for (int d = 0; d < t->shape.rank; d++) own[d] = t->shape.dim[d] == 1 ? 0 : index[d + more];
  return at(t, element_at(&t->shape, own));
}

static int axis_of(const op_case *c, int attr, int rank) {
  int64_t axis = c->attr[attr].i;
  return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- index by index */

/* Where index i of axis d comes from; -1: a constant. */
typedef int64_t (*source)(const op_case *c, int d, int64_t extent, int64_t i);

static void by_source(const op_case *c, const case_memory *m, double *expected, source from, double constant) {
  const shoal_shape *x = &m->in[0].shape, *y = &m->out[0].shape;
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    int64_t index[SHOAL_MAX_RANK];
    bool inside = true;
    index_of(y, e, index);
    for (int d = 0; d < x->rank; d++) inside &= (index[d] = from(c, d, x->dim[d], index[d])) >= 0;
    expected[e] = inside ? at(&m->in[0], element_at(x, index)) : constant;
  }
}

static int64_t slice_from(const op_case *c, int d, int64_t extent, int64_t i) {
  int64_t start = c->attr[0].list.dim[d], step = c->attr[2].list.dim[d];
  return (start < 0 ? extent + start : start) + step * i; /* cases start inside */
}

static int64_t pad_from(const op_case *c, int d, int64_t extent, int64_t i) {
  i -= c->attr[0].list.dim[d];
  if (c->attr[2].i == SHOAL_PAD_CONSTANT) return i < extent ? i : -1;
  if (c->attr[2].i == SHOAL_PAD_EDGE) return i < 0 ? 0 : i >= extent ? extent - 1 : i;
  /* A mirror: one whole turn is there and back. */
  bool twice = c->attr[2].i == SHOAL_PAD_SYMMETRIC;
  int64_t turn = twice ? 2 * extent : 2 * extent - 2;
  i = (i % turn + turn) % turn;
  return i < extent ? i : turn - i - twice;
}

static int64_t tile_from(const op_case *c, int d, int64_t extent, int64_t i) {
  while (i >= extent) i -= extent;
  return i;
}

static int64_t repeat_from(const op_case *c, int d, int64_t extent, int64_t i) {
  int64_t from = 0;
  while ((from + 1) * c->attr[0].list.dim[d] <= i) from++;
  return from;
}

static int64_t roll_from(const op_case *c, int d, int64_t extent, int64_t i) {
  int64_t shift = c->attr[0].list.dim[d];
  return (i - shift % extent + 2 * extent) % extent;
}

static void strided_slice(const op_case *c, const case_memory *m, double *y) { by_source(c, m, y, slice_from, 0); }
static void pad(const op_case *c, const case_memory *m, double *y) { by_source(c, m, y, pad_from, c->attr[3].f); }
static void tile(const op_case *c, const case_memory *m, double *y) { by_source(c, m, y, tile_from, 0); }
static void repeat(const op_case *c, const case_memory *m, double *y) { by_source(c, m, y, repeat_from, 0); }
static void roll(const op_case *c, const case_memory *m, double *y) { by_source(c, m, y, roll_from, 0); }

static void as_it_is(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) expected[e] = at(&m->in[0], e);
}

static void broadcast_to(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) expected[e] = broadcast(&m->in[0], &m->out[0].shape, e);
}

static void where(const op_case *c, const case_memory *m, double *expected) {
  const shoal_shape *y = &m->out[0].shape;
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++)
    expected[e] = broadcast(&m->in[0], y, e) != 0 ? broadcast(&m->in[1], y, e) : broadcast(&m->in[2], y, e);
}

static void one_hot(const op_case *c, const case_memory *m, double *expected) {
  int64_t depth = c->attr[0].i;
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++)
    expected[e] = c->attr[(double)(e % depth) == at(&m->in[0], e / depth) ? 1 : 2].f;
}

/* ---- pairs */

static void pairs(const op_case *c, const case_memory *m, double *expected) {
  const char *op = c->row->name;
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    double a = broadcast(&m->in[0], &m->out[0].shape, e), b = broadcast(&m->in[1], &m->out[0].shape, e);
    expected[e] = !strcmp(op, "equal")         ? a == b
                  : !strcmp(op, "not_equal")   ? a != b
                  : !strcmp(op, "less")        ? a < b
                  : !strcmp(op, "less_equal")  ? a <= b
                  : !strcmp(op, "logical_and") ? a != 0 && b != 0
                  : !strcmp(op, "logical_or")  ? a != 0 || b != 0
                  : !strcmp(op, "maximum")     ? fmax(a, b)
                                               : fmin(a, b);
  }
}

/* ---- along an axis */

static void cumsum(const op_case *c, const case_memory *m, double *expected) {
  const shoal_shape *s = &m->in[0].shape;
  int axis = axis_of(c, 0, s->rank);
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    int64_t index[SHOAL_MAX_RANK];
    index_of(s, e, index);
    int64_t own = index[axis];
    expected[e] = 0;
    for (int64_t i = 0; i < s->dim[axis]; i++) {
      index[axis] = i;
      bool counts = c->attr[2].i ? i > own : i < own;
      if (counts || (i == own && !c->attr[1].i)) expected[e] += at(&m->in[0], element_at(s, index));
    }
  }
}

/* The element that comes at place `rank` of its line: as many come before it. */
static double ranked(const shoal_tensor *x, int64_t *index, int axis, int64_t rank, bool descending) {
  int64_t n = x->shape.dim[axis];
  for (int64_t i = 0; i < n; i++) {
    index[axis] = i;
    double v = at(x, element_at(&x->shape, index));
    int64_t before = 0;
    for (int64_t k = 0; k < n; k++) {
      index[axis] = k;
      double w = at(x, element_at(&x->shape, index));
      before += (descending ? w > v : w < v) || (w == v && k < i);
    }
    if (before == rank) return v;
  }
  return NAN;
}

static void order(const op_case *c, const case_memory *m, double *expected, int axis, bool descending) {
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    int64_t index[SHOAL_MAX_RANK];
    index_of(&m->out[0].shape, e, index);
    expected[e] = ranked(&m->in[0], index, axis, index[axis], descending);
  }
}

static void top_k(const op_case *c, const case_memory *m, double *expected) {
  order(c, m, expected, axis_of(c, 1, m->in[0].shape.rank), !c->attr[2].i);
}

static void sort(const op_case *c, const case_memory *m, double *expected) {
  order(c, m, expected, axis_of(c, 0, m->in[0].shape.rank), c->attr[1].i);
}

static void take_along(const op_case *c, const case_memory *m, double *expected) {
  int axis = axis_of(c, 0, m->in[0].shape.rank);
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    int64_t index[SHOAL_MAX_RANK];
    index_of(&m->out[0].shape, e, index);
    index[axis] = (int64_t)at(&m->in[1], e);
    expected[e] = at(&m->in[0], element_at(&m->in[0].shape, index));
  }
}

static void take(const op_case *c, const case_memory *m, double *expected) {
  const shoal_shape *x = &m->in[0].shape, *indices = &m->in[1].shape;
  int axis = axis_of(c, 0, x->rank);
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    int64_t index[SHOAL_MAX_RANK], from[SHOAL_MAX_RANK];
    index_of(&m->out[0].shape, e, index);
    for (int d = 0; d < x->rank; d++)
      from[d] = d < axis    ? index[d]
                : d == axis ? (int64_t)at(&m->in[1], element_at(indices, index + axis))
                            : index[d + indices->rank - 1];
    expected[e] = at(&m->in[0], element_at(x, from));
  }
}

/* ---- products */

static void batch_matmul(const op_case *c, const case_memory *m, double *expected) {
  bool ta = c->attr[0].i, tb = c->attr[1].i;
  const shoal_tensor *a = &m->in[0], *b = &m->in[1];
  const shoal_shape *y = &m->out[0].shape;
  int r = y->rank;
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    int64_t index[SHOAL_MAX_RANK], inner = a->shape.dim[a->shape.rank - (ta ? 2 : 1)];
    index_of(y, e, index);
    expected[e] = 0;
    for (int64_t k = 0; k < inner; k++) {
      int64_t of_a[SHOAL_MAX_RANK] = {0}, of_b[SHOAL_MAX_RANK] = {0};
      for (int d = 0; d < r - 2; d++) {
        int da = d - (r - a->shape.rank), db = d - (r - b->shape.rank);
        if (da >= 0) of_a[da] = a->shape.dim[da] == 1 ? 0 : index[d];
        if (db >= 0) of_b[db] = b->shape.dim[db] == 1 ? 0 : index[d];
      }
      of_a[a->shape.rank - 2] = ta ? k : index[r - 2];
      of_a[a->shape.rank - 1] = ta ? index[r - 2] : k;
      of_b[b->shape.rank - 2] = tb ? index[r - 1] : k;
      of_b[b->shape.rank - 1] = tb ? k : index[r - 1];
      expected[e] += at(a, element_at(&a->shape, of_a)) * at(b, element_at(&b->shape, of_b));
    }
  }
}

naive_fn naive_find_shapes(const char *op) {
  static const struct {
    const char *name;
    naive_fn run;
  } table[] = {
      {"strided_slice", strided_slice},
      {"pad", pad},
      {"tile", tile},
      {"repeat", repeat},
      {"roll", roll},
      {"expand_dims", as_it_is},
      {"squeeze", as_it_is},
      {"reshape", as_it_is},
      {"broadcast_to", broadcast_to},
      {"where", where},
      {"one_hot", one_hot},
      {"equal", pairs},
      {"not_equal", pairs},
      {"less", pairs},
      {"less_equal", pairs},
      {"logical_and", pairs},
      {"logical_or", pairs},
      {"maximum", pairs},
      {"minimum", pairs},
      {"cumsum", cumsum},
      {"top_k", top_k},
      {"sort", sort},
      {"take", take},
      {"take_along", take_along},
      {"batch_matmul", batch_matmul},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, op)) return table[i].run;
  return NULL;
}
