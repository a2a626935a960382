/* Operators along one axis: running sums, sorting, the largest k, elements picked by their index. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <string.h>

/* The lines of a tensor along one axis: element e of line (b, a) is at (b * n + e) * after + a. */
typedef struct {
  int64_t before, n, after;
} lines;

static int axis_of(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

static lines lines_of(const shoal_shape *s, int64_t axis) {
  int k = axis_of(axis, s->rank);
  return (lines){shape_span(s, 0, k), s->dim[k], shape_span(s, k + 1, s->rank)};
}

#define FOR_LINES(l)                       \
  for (int64_t b = 0; b < (l).before; b++) \
    for (int64_t a = 0; a < (l).after; a++)

/* Rows stay apart unless the axis is that of the rows. */
static op_batch batch_beside(const op_shapes *s, int64_t axis) {
  for (int i = 0; i < s->ins; i++)
    if (!shape_is_batched(&s->in[i])) return BATCH_WHOLE;
  return axis_of(axis, s->in[0].rank) ? batch_map(s) : BATCH_WHOLE;
}

/* ---- cumsum(x; axis, exclusive, reverse) */

enum { CUMSUM_AXIS, EXCLUSIVE, REVERSE };

static shoal_status cumsum_shape(op_shapes *s) {
  int axis;
  TRY(rule_axis(s->attr[CUMSUM_AXIS].i, s->in[0].rank, &axis));
  return shape_as_input_number(s);
}

static op_batch cumsum_batch(const op_shapes *s) { return batch_beside(s, s->attr[CUMSUM_AXIS].i); }

NUMBER_KERNEL(cumsum_kernel, {
  lines l = lines_of(&call->in[0].shape, call->attr[CUMSUM_AXIS].i);
  bool exclusive = call->attr[EXCLUSIVE].i;
  bool reverse = call->attr[REVERSE].i;
  FOR_LINES(l) {
    const number *x = (const number *)call->in[0].data + b * l.n * l.after + a;
    number *y = (number *)call->out[0].data + b * l.n * l.after + a;
    wide sum = 0;
    for (int64_t k = 0; k < l.n; k++) {
      int64_t at = (reverse ? l.n - 1 - k : k) * l.after;
      wide before = sum;
      sum += (wide)x[at];
      y[at] = (number)(exclusive ? before : sum);
    }
  }
  return NULL;
})

static void cumsum_gradient(op_grad_call *c) {
  c->dx[0].value =
      GRAPH_UNARY(c->graph, "cumsum", c->dy[0], c->attr[CUMSUM_AXIS], c->attr[EXCLUSIVE], ATTR_I(!c->attr[REVERSE].i));
}

/* ---- top_k(x; k, axis, smallest), sort(x; axis, descending): values and their indices (i64), best first
 *
 * The indices chosen so far are a heap in the output, the worst on top; then the heap is sorted in place. Of equal
 * elements the one of the lower index comes first, and a NaN counts as larger than all numbers. */

enum { TOP_K, TOP_AXIS, TOP_SMALLEST };
enum { SORT_AXIS, SORT_DESCENDING };

static shoal_status values_and_indices(op_shapes *s, int64_t axis, int64_t k) {
  int place = 0;
  TRY(rule_number(s, 0, "the input"));
  TRY(rule_axis(axis, s->in[0].rank, &place));
  int64_t n = s->in[0].dim[place];
  if (k == SHOAL_UNKNOWN) k = n;
  if (k < 0 || (n != SHOAL_UNKNOWN && k > n))
    return status_make(SHOAL_ERR_ARGUMENT, "k is %lld, but there are %lld elements along axis %d", (long long)k,
                       (long long)n, place);
  s->out[0] = s->in[0];
  s->out[0].dim[place] = k;
  s->out[1] = s->out[0];
  s->out_dtype[0] = s->in_dtype[0];
  s->out_dtype[1] = SHOAL_I64;
  return NULL;
}

static shoal_status top_k_shape(op_shapes *s) {
  if (s->attr[TOP_K].i < 0) return status_make(SHOAL_ERR_ARGUMENT, "k is %lld", (long long)s->attr[TOP_K].i);
  return values_and_indices(s, s->attr[TOP_AXIS].i, s->attr[TOP_K].i);
}

static shoal_status sort_shape(op_shapes *s) { return values_and_indices(s, s->attr[SORT_AXIS].i, SHOAL_UNKNOWN); }

static op_batch top_k_batch(const op_shapes *s) { return batch_beside(s, s->attr[TOP_AXIS].i); }
static op_batch sort_batch(const op_shapes *s) { return batch_beside(s, s->attr[SORT_AXIS].i); }

/* Does element i of the line x come before element j? */
#define ABOVE(p, q) ((p) > (q) || ((p) != (p) && (q) == (q)))
#define COMES_FIRST(i, j)                                    \
  ({                                                         \
    number p_ = x[(i)*l.after];                              \
    number q_ = x[(j)*l.after];                              \
    bool ahead_ = smallest ? ABOVE(q_, p_) : ABOVE(p_, q_);  \
    bool behind_ = smallest ? ABOVE(p_, q_) : ABOVE(q_, p_); \
    ahead_ || (!behind_ && (i) < (j));                       \
  })
/* Moves what is at `from` down in the heap chosen[0 .. count): the last to come is on top. */
#define SIFT_DOWN(from, count)                                                                                   \
  for (int64_t at_ = (from), child_; (child_ = 2 * at_ + 1) < (count); at_ = child_) {                           \
    if (child_ + 1 < (count) && COMES_FIRST(chosen[child_ * l.after], chosen[(child_ + 1) * l.after])) child_++; \
    if (!COMES_FIRST(chosen[at_ * l.after], chosen[child_ * l.after])) break;                                    \
    int64_t kept_ = chosen[at_ * l.after];                                                                       \
    chosen[at_ * l.after] = chosen[child_ * l.after];                                                            \
    chosen[child_ * l.after] = kept_;                                                                            \
  }
/* The best k of each line, best first. */
#define CHOOSE_LINES(axis_, smallest_)                                                     \
  {                                                                                        \
    lines l = lines_of(&call->in[0].shape, axis_);                                         \
    int64_t k = lines_of(&call->out[0].shape, axis_).n;                                    \
    bool smallest = smallest_;                                                             \
    if (k) FOR_LINES(l) {                                                                  \
        const number *x = (const number *)call->in[0].data + b * l.n * l.after + a;        \
        number *y = (number *)call->out[0].data + b * k * l.after + a;                     \
        int64_t *chosen = (int64_t *)call->out[1].data + b * k * l.after + a;              \
        for (int64_t e = 0; e < k; e++) chosen[e * l.after] = e;                           \
        for (int64_t e = k / 2 - 1; e >= 0; e--) SIFT_DOWN(e, k)                           \
        for (int64_t e = k; e < l.n; e++)                                                  \
          if (COMES_FIRST(e, chosen[0])) {                                                 \
            chosen[0] = e;                                                                 \
            SIFT_DOWN(0, k)                                                                \
          }                                                                                \
        for (int64_t e = k - 1; e > 0; e--) {                                              \
          int64_t last = chosen[0];                                                        \
          chosen[0] = chosen[e * l.after];                                                 \
          chosen[e * l.after] = last;                                                      \
          SIFT_DOWN(0, e)                                                                  \
        }                                                                                  \
        for (int64_t e = 0; e < k; e++) y[e * l.after] = x[chosen[e * l.after] * l.after]; \
      }                                                                                    \
    return NULL;                                                                           \
  }
NUMBER_KERNEL(top_k_kernel, CHOOSE_LINES(call->attr[TOP_AXIS].i, call->attr[TOP_SMALLEST].i))
NUMBER_KERNEL(sort_kernel, CHOOSE_LINES(call->attr[SORT_AXIS].i, !call->attr[SORT_DESCENDING].i))

static void sort_cost(const op_shapes *s, double *flops) { *flops = 20.0 * (double)shoal_shape_count(&s->in[0]); }

static void chosen_gradient(op_grad_call *c, attr_value axis) {
  if (!c->dy[0]) return;
  shoal_value *in[] = {c->dy[0], c->out[1], c->in[0]};
  c->dx[0].value = graph_op(c->graph, "take_along_grad", in, 3, (attr_value[OP_MAX_ATTRS]){axis});
}

static void top_k_gradient(op_grad_call *c) { chosen_gradient(c, c->attr[TOP_AXIS]); }
static void sort_gradient(op_grad_call *c) { chosen_gradient(c, c->attr[SORT_AXIS]); }

/* ---- take_along(x, indices; axis): y[.., e, ..] = x[.., indices[.., e, ..], ..]; other dimensions are the same */

static shoal_status check_beside(const shoal_shape *x, const shoal_shape *indices, int64_t axis, int *place) {
  TRY(rule_axis(axis, x->rank, place));
  bool good = x->rank == indices->rank;
  for (int i = 0; good && i < x->rank; i++) good = i == *place || dims_fit(x->dim[i], indices->dim[i]);
  if (good) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "indices %s must be as x %s but for axis %d", shoal_shape_text(indices, a),
                     shoal_shape_text(x, b), *place);
}

static shoal_status take_along_shape(op_shapes *s) {
  int axis = 0;
  TRY(rule_index(s, 1, "indices"));
  TRY(check_beside(&s->in[0], &s->in[1], s->attr[0].i, &axis));
  s->out[0] = s->in[1];
  for (int i = 0; i < s->in[0].rank; i++)
    if (i != axis) s->out[0].dim[i] = dims_known(s->in[0].dim[i], s->in[1].dim[i]);
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch take_along_batch(const op_shapes *s) { return batch_beside(s, s->attr[0].i); }

static shoal_status no_such_index(int64_t index, int64_t n) {
  return status_make(SHOAL_ERR_INPUT, "index %lld: there are %lld elements along the axis", (long long)index,
                     (long long)n);
}

ALL_TYPES_KERNEL(take_along_kernel, {
  lines l = lines_of(&call->in[0].shape, call->attr[0].i);
  int64_t k = lines_of(&call->in[1].shape, call->attr[0].i).n;
  cell *y = call->out[0].data;
  FOR_LINES(l) {
    const cell *x = (const cell *)call->in[0].data + b * l.n * l.after + a;
    for (int64_t e = 0; e < k; e++) {
      int64_t at = (b * k + e) * l.after + a;
      int64_t index = index_get(&call->in[1], at);
      if (index < 0 || index >= l.n) return no_such_index(index, l.n);
      y[at] = x[index * l.after];
    }
  }
  return NULL;
})

static void take_along_gradient(op_grad_call *c) {
  shoal_value *in[] = {c->dy[0], c->in[1], c->in[0]};
  c->dx[0].value = graph_op(c->graph, "take_along_grad", in, 3, c->attr);
}

/* take_along_grad(dy, indices, like; axis): zeros like `like`, to which dy is added where it came from */

static shoal_status take_along_grad_shape(op_shapes *s) {
  int axis = 0;
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_index(s, 1, "indices"));
  TRY(rule_same_shape(s, 0, 1));
  TRY(check_beside(&s->in[2], &s->in[1], s->attr[0].i, &axis));
  s->out[0] = s->in[2];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(take_along_grad_kernel, {
  lines l = lines_of(&call->out[0].shape, call->attr[0].i);
  int64_t k = lines_of(&call->in[1].shape, call->attr[0].i).n;
  const real *dy = call->in[0].data;
  FOR_LINES(l) {
    real *dx = (real *)call->out[0].data + b * l.n * l.after + a;
    for (int64_t e = 0; e < l.n; e++) dx[e * l.after] = 0;
    for (int64_t e = 0; e < k; e++) {
      int64_t at = (b * k + e) * l.after + a;
      int64_t index = index_get(&call->in[1], at);
      if (index < 0 || index >= l.n) return no_such_index(index, l.n);
      dx[index * l.after] += dy[at];
    }
  }
  return NULL;
})

/* ---- take(x, indices; axis): the index along the axis is replaced by those of `indices`, of any shape */

static shoal_status taken_shape(const shoal_shape *x, const shoal_shape *indices, int64_t axis, shoal_shape *out) {
  int place = 0;
  TRY(rule_axis(axis, x->rank, &place));
  if (x->rank - 1 + indices->rank > SHOAL_MAX_RANK)
    return status_make(SHOAL_ERR_ARGUMENT, "there would be more than %d dimensions", SHOAL_MAX_RANK);
  *out = (shoal_shape){0};
  for (int i = 0; i < place; i++) out->dim[out->rank++] = x->dim[i];
  for (int i = 0; i < indices->rank; i++) out->dim[out->rank++] = indices->dim[i];
  for (int i = place + 1; i < x->rank; i++) out->dim[out->rank++] = x->dim[i];
  return NULL;
}

static shoal_status take_shape(op_shapes *s) {
  TRY(rule_index(s, 1, "indices"));
  TRY(taken_shape(&s->in[0], &s->in[1], s->attr[0].i, &s->out[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* The rows that are cut are x's, with the same indices for each; or, along axis 0, those of the indices. */
static op_batch take_batch(const op_shapes *s) {
  bool first = axis_of(s->attr[0].i, s->in[0].rank) == 0;
  return shape_is_batched(&s->in[0]) == first || shape_is_batched(&s->in[1]) == !first ? BATCH_WHOLE : batch_map(s);
}

ALL_TYPES_KERNEL(take_kernel, {
  lines l = lines_of(&call->in[0].shape, call->attr[0].i);
  int64_t k = shoal_tensor_count(&call->in[1]);
  const cell *x = call->in[0].data;
  cell *y = call->out[0].data;
  for (int64_t b = 0; b < l.before; b++)
    for (int64_t e = 0; e < k; e++) {
      int64_t index = index_get(&call->in[1], e);
      if (index < 0 || index >= l.n) return no_such_index(index, l.n);
      memcpy(y + (b * k + e) * l.after, x + (b * l.n + index) * l.after, (size_t)l.after * sizeof *y);
    }
  return NULL;
})

/* take_grad(dy, indices, like; axis) */

static shoal_status take_grad_shape(op_shapes *s) {
  shoal_shape y;
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_index(s, 1, "indices"));
  TRY(taken_shape(&s->in[2], &s->in[1], s->attr[0].i, &y));
  if (!shapes_fit(&y, &s->in[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "dy %s must be %s", shoal_shape_text(&s->in[0], a), shoal_shape_text(&y, b));
  }
  s->out[0] = s->in[2];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch take_grad_batch(const op_shapes *s) {
  bool rows = shape_is_batched(&s->in[0]) && shape_is_batched(&s->in[2]) && !shape_is_batched(&s->in[1]);
  return rows && axis_of(s->attr[0].i, s->in[2].rank) != 0 ? batch_map(s) : BATCH_WHOLE;
}

REAL_KERNEL(take_grad_kernel, {
  lines l = lines_of(&call->out[0].shape, call->attr[0].i);
  int64_t k = shoal_tensor_count(&call->in[1]);
  const real *dy = call->in[0].data;
  real *dx = call->out[0].data;
  memset(dx, 0, shoal_tensor_bytes(&call->out[0]));
  for (int64_t b = 0; b < l.before; b++)
    for (int64_t e = 0; e < k; e++) {
      int64_t index = index_get(&call->in[1], e);
      if (index < 0 || index >= l.n) return no_such_index(index, l.n);
      for (int64_t a = 0; a < l.after; a++) dx[(b * l.n + index) * l.after + a] += dy[(b * k + e) * l.after + a];
    }
  return NULL;
})

static void take_gradient(op_grad_call *c) {
  c->dx[0].value = graph_op(c->graph, "take_grad", (shoal_value *[]){c->dy[0], c->in[1], c->in[0]}, 3, c->attr);
}

const op_row ops_along[] = {
    {.name = "cumsum",
     .attrs = {{"axis", ATTR_INT, 0}, {"exclusive", ATTR_BOOL, 0}, {"reverse", ATTR_BOOL, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = cumsum_shape,
     .batch = cumsum_batch,
     .gradient = cumsum_gradient,
     .kernel = cumsum_kernel,
     .cases = (const char *const[]){"[5,3]", "[?5,4] axis=1", "[?5,4] axis=-1 exclusive=1", "[2,3,4] axis=1 reverse=1",
                                    "[6] exclusive=1 reverse=1", "i32[4]<9", NULL}},
    {.name = "top_k",
     .attrs = {{"k", ATTR_INT, 1}, {"axis", ATTR_INT, -1}, {"smallest", ATTR_BOOL, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 2,
     .shape = top_k_shape,
     .batch = top_k_batch,
     .gradient = top_k_gradient,
     .kernel = top_k_kernel,
     .cost = sort_cost,
     .cases = (const char *const[]){"[?5,7] k=3", "[4,6] k=2 axis=0 smallest=1", "[2,9,3] k=4 axis=1", "i32[12]<5 k=7",
                                    "[3,0] k=0", "[3]", NULL}},
    {.name = "sort",
     .attrs = {{"axis", ATTR_INT, -1}, {"descending", ATTR_BOOL, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 2,
     .shape = sort_shape,
     .batch = sort_batch,
     .gradient = sort_gradient,
     .kernel = sort_kernel,
     .cost = sort_cost,
     .cases = (const char *const[]){"[?5,17]", "[9,3] axis=0 descending=1", "i64[20]<6", "[2,5,2] axis=1", NULL}},
    {.name = "take_along",
     .attrs = {{"axis", ATTR_INT, -1}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = take_along_shape,
     .batch = take_along_batch,
     .gradient = take_along_gradient,
     .kernel = take_along_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[?5,4] i64[?5,6]<4", "[4,3] i32[2,3]<4 axis=0", "[2,3,2] i64[2,1,2]<3 axis=1",
                                    "u8[3]<9 i32[5]<3", NULL}},
    {.name = "take_along_grad",
     .attrs = {{"axis", ATTR_INT, -1}},
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 4,
     .shape = take_along_grad_shape,
     .batch = take_along_batch,
     .kernel = take_along_grad_kernel,
     .cases = (const char *const[]){"[?5,6] i64[?5,6]<4 [?5,4]", "[2,3] i32[2,3]<4 [4,3] axis=0", NULL}},
    {.name = "take",
     .attrs = {{"axis", ATTR_INT, 0}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = take_shape,
     .batch = take_batch,
     .gradient = take_gradient,
     .kernel = take_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[?5,4] i64[3]<4 axis=1", "[6,2] i32[?5]<6", "[2,3,4] i64[2,2]<3 axis=-2",
                                    "[2,3] i32[]<3 axis=1", "u8[4]<9 i64[6]<4", "[?5,4] i64[2]<5", NULL}},
    {.name = "take_grad",
     .attrs = {{"axis", ATTR_INT, 0}},
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 4,
     .shape = take_grad_shape,
     .batch = take_grad_batch,
     .kernel = take_grad_kernel,
     .cases = (const char *const[]){"[?5,3] i64[3]<4 [?5,4] axis=1", "[5,2] i32[5]<6 [6,2]", NULL}},
    {0}};

shoal_value *shoal_cumsum(shoal_graph *g, shoal_value *x, int axis, bool exclusive, bool reverse) {
  return GRAPH_UNARY(g, "cumsum", x, ATTR_I(axis), ATTR_I(exclusive), ATTR_I(reverse));
}

shoal_value *shoal_top_k(shoal_graph *g, shoal_value *x, int64_t k, int axis) {
  return GRAPH_UNARY(g, "top_k", x, ATTR_I(k), ATTR_I(axis));
}

shoal_value *shoal_sort(shoal_graph *g, shoal_value *x, int axis, bool descending) {
  return GRAPH_UNARY(g, "sort", x, ATTR_I(axis), ATTR_I(descending));
}

shoal_value *shoal_argsort(shoal_graph *g, shoal_value *x, int axis, bool descending) {
  return shoal_value_output(shoal_sort(g, x, axis, descending), 1);
}

shoal_value *shoal_take(shoal_graph *g, shoal_value *x, shoal_value *indices, int axis) {
  return GRAPH_BINARY(g, "take", x, indices, ATTR_I(axis));
}

shoal_value *shoal_take_along(shoal_graph *g, shoal_value *x, shoal_value *indices, int axis) {
  return GRAPH_BINARY(g, "take_along", x, indices, ATTR_I(axis));
}
