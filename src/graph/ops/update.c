/* Optimizer updates, each one pass over variable, slots and gradient.
 *
 * apply_X (var, slots..., grad, lr, ...) changes var and slots in place; sparse_apply_X (var, slots..., indices, rows,
 * lr, ...) only the rows that are named. Numbered facts that callers rely on:
 *  1. An index of -1 in sparse_apply_X is skipped; any other that names no row fails before anything is changed.
 *  2. sparse_apply_sgd without l2 takes an index several times. The others need each index once, since g^2 of a sum is
 * not a sum of g^2: put unique_rows before them, which adds up duplicates and fills the end with -1.
 *  3. Rows that are not named do not move: momentum and decay count the steps in which a row was touched. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "kernel/table.h"
#include "kernel/update.h"

#include <string.h>
#include <tgmath.h>

/* Slots are as the variable. */
static shoal_status slots_shape(op_shapes *s, int slots) {
  TRY(rule_float(s, 0, "the variable"));
  for (int i = 1; i <= slots; i++) {
    TRY(rule_same_shape(s, 0, i));
    if (s->in_dtype[i] != s->in_dtype[0])
      return status_make(SHOAL_ERR_ARGUMENT, "the variable is %s, slot %d is %s; they must be the same",
                         shoal_dtype_name(s->in_dtype[0]), i, shoal_dtype_name(s->in_dtype[i]));
  }
  return NULL;
}

/* What stands behind the variable and its slots: [indices,] gradient, lr, [t]. */
static shoal_status gradient_shape(op_shapes *s, int slots, bool sparse, bool counts) {
  int grad = 1 + slots + sparse, lr = grad + 1;
  if (s->in_dtype[grad] != s->in_dtype[0])
    return status_make(SHOAL_ERR_ARGUMENT, "the variable is %s, its gradient %s; add a cast",
                       shoal_dtype_name(s->in_dtype[0]), shoal_dtype_name(s->in_dtype[grad]));
  if (sparse) {
    TRY(rule_rank_min(s, 0, 1, "the variable"));
    TRY(rule_rank(s, grad - 1, 1, "indices"));
    TRY(rule_index(s, grad - 1, "indices"));
    shoal_shape rows = s->in[0];
    rows.dim[0] = s->in[grad - 1].dim[0];
    if (!shapes_fit(&rows, &s->in[grad])) {
      char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
      return status_make(SHOAL_ERR_ARGUMENT, "the gradient's rows are %s; the variable and indices ask for %s",
                         shoal_shape_text(&s->in[grad], a), shoal_shape_text(&rows, b));
    }
  } else {
    TRY(rule_same_shape(s, 0, grad));
  }
  TRY(rule_float(s, lr, "the learning rate"));
  TRY(rule_rank(s, lr, 0, "the learning rate"));
  if (counts) {
    TRY(rule_number(s, lr + 1, "the step count"));
    TRY(rule_rank(s, lr + 1, 0, "the step count"));
  }
  s->out[0] = s->in[0];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static shoal_status update_shape(op_shapes *s, int slots, bool sparse, bool counts) {
  TRY(slots_shape(s, slots));
  return gradient_shape(s, slots, sparse, counts);
}

/* Fact 1: all indices are looked at before the first row changes. */
static shoal_status check_indices(const shoal_tensor *indices, int64_t rows) {
  for (int64_t i = 0; i < indices->shape.dim[0]; i++) {
    int64_t index = index_get(indices, i);
    if (index < -1 || index >= rows)
      return status_make(SHOAL_ERR_INPUT, "index %lld at position %lld is out of range: there are %lld rows",
                         (long long)index, (long long)i, (long long)rows);
  }
  return NULL;
}

/* Runs `element` for each element i of the variable and its gradient g; a and b are the slots' arrays (or unused).
 * decays: the number of the attribute weight_decay, by which the variable shrinks first, times the rate. */
#define UPDATE_BODY(slots, sparse, decays, prepare, element)                          \
  {                                                                                   \
    enum { GRAD = 1 + (slots) + (sparse), RATE = GRAD + 1 };                          \
    const attr_value *attr __attribute__((unused)) = call->attr;                      \
    real *restrict var = call->in[0].data;                                            \
    real *restrict a __attribute__((unused)) = (slots) > 0 ? call->in[1].data : NULL; \
    real *restrict b __attribute__((unused)) = (slots) > 1 ? call->in[2].data : NULL; \
    const real *restrict grad = call->in[GRAD].data;                                  \
    const real lr = (real)shoal_tensor_get(&call->in[RATE], 0);                       \
    const real shrink = (real)(1 - (double)lr * attr[decays].f);                      \
    prepare;                                                                          \
    if (!(sparse)) {                                                                  \
      int64_t n = shoal_tensor_count(&call->in[0]);                                   \
      for (int64_t i = 0; i < n; i++) {                                               \
        real g = grad[i];                                                             \
        var[i] *= shrink;                                                             \
        element;                                                                      \
      }                                                                               \
      return NULL;                                                                    \
    }                                                                                 \
    int64_t width = shape_span(&call->in[0].shape, 1, call->in[0].shape.rank);        \
    TRY(check_indices(&call->in[GRAD - 1], call->in[0].shape.dim[0]));                \
    for (int64_t r = 0; r < call->in[GRAD - 1].shape.dim[0]; r++) {                   \
      int64_t index = index_get(&call->in[GRAD - 1], r);                              \
      if (index < 0) continue;                                                        \
      for (int64_t k = 0; k < width; k++) {                                           \
        int64_t i = index * width + k;                                                \
        real g = grad[r * width + k];                                                 \
        var[i] *= shrink;                                                             \
        element;                                                                      \
      }                                                                               \
    }                                                                                 \
    return NULL;                                                                      \
  }
/* The four functions of one optimizer: shape rules and kernels, dense and sparse. */
#define UPDATE(name, slots, counts, decays, prepare, element)                                              \
  static shoal_status name##_shape(op_shapes *s) { return update_shape(s, slots, false, counts); }         \
  static shoal_status sparse_##name##_shape(op_shapes *s) { return update_shape(s, slots, true, counts); } \
  REAL_KERNEL(name##_kernel, UPDATE_BODY(slots, 0, decays, prepare, element))                              \
  REAL_KERNEL(sparse_##name##_kernel, UPDATE_BODY(slots, 1, decays, prepare, element))
/* Joins statements that hold commas into one macro argument. */
#define DO(...) __VA_ARGS__

UPDATE(sgd, 0, false, 1, DO(SGD_CONSTANTS), DO(SGD_ELEMENT))

/* a: velocity */
UPDATE(momentum, 1, false, 3,
       DO(const real momentum = (real)attr[0].f; const bool nesterov = attr[1].i; const real l2 = (real)attr[2].f), DO({
         UPDATE_WITH_L2;
         a[i] = momentum * a[i] + g;
         var[i] -= lr * (nesterov ? g + momentum * a[i] : a[i]);
       }))

UPDATE(adagrad, 1, false, 2, DO(ADAGRAD_CONSTANTS), DO(ADAGRAD_ELEMENT))

/* Adagrad with one sum for each row: of the means of the squares of a row's numbers, as Gupta et al. 2014 have it for
 * embeddings. Inputs as of sparse_apply_adagrad, but the slot is [rows]. Rows of one number: the same bits. `plain` rows, the last
 * ones or with `plain_first` the first, are updated as Adagrad does: each of their numbers has its own sum (rowwise_slots). */
static shoal_status sparse_rowwise_adagrad_shape(op_shapes *s) {
  TRY(slots_shape(s, 0));
  TRY(rule_rank_min(s, 0, 1, "the variable"));
  TRY(rule_rank(s, 1, 1, "the slot"));
  const int64_t plain = s->attr[3].i, width = shape_span(&s->in[0], 1, s->in[0].rank);
  if (plain < 0 || (s->in[0].dim[0] >= 0 && plain > s->in[0].dim[0]))
    return status_make(SHOAL_ERR_ARGUMENT, "%lld rows with slots of their own, of %lld", (long long)plain,
                       (long long)s->in[0].dim[0]);
  const int64_t slots = s->in[0].dim[0] < 0 ? SHOAL_UNKNOWN : s->in[0].dim[0] + plain * (width - 1);
  if (!dims_fit(s->in[1].dim[0], slots) || s->in_dtype[1] != s->in_dtype[0])
    return status_make(SHOAL_ERR_ARGUMENT, "the slot is %s of %lld numbers; the variable's rows ask for %s of %lld",
                       shoal_dtype_name(s->in_dtype[1]), (long long)s->in[1].dim[0], shoal_dtype_name(s->in_dtype[0]),
                       (long long)slots);
  return gradient_shape(s, 1, true, false);
}

REAL_KERNEL(sparse_rowwise_adagrad_kernel, {
  const attr_value *attr = call->attr;
  ADAGRAD_CONSTANTS;
  const real *restrict grads = call->in[3].data;
  const real lr = (real)shoal_tensor_get(&call->in[4], 0);
  const real shrink = (real)(1 - (double)lr * attr[2].f);
  const rowwise_slots slots = rowwise_slots_of(&call->in[0].shape, attr);
  const int64_t width = slots.width;
  TRY(check_indices(&call->in[2], call->in[0].shape.dim[0]));
  for (int64_t r = 0; r < call->in[2].shape.dim[0]; r++) {
    const int64_t index = index_get(&call->in[2], r);
    if (index < 0) continue;
    real *restrict var = (real *)call->in[0].data + index * width;
    real *restrict a = (real *)call->in[1].data + rowwise_slots_place(&slots, index);
    if (rowwise_slots_single(&slots, index)) ROWWISE_ADAGRAD_ROW(var, *a, grads + r * width);
    for (int64_t i = 0; !rowwise_slots_single(&slots, index) && i < width; i++) {
      real g = grads[r * width + i];
      var[i] *= shrink;
      ADAGRAD_ELEMENT;
    }
  }
  return NULL;
})

/* a: running mean of squares, b: momentum */
UPDATE(rmsprop, 2, false, 3,
       DO(const real decay = (real)attr[0].f; const real momentum = (real)attr[1].f;
          const real epsilon = (real)attr[2].f),
       DO({
         a[i] = decay * a[i] + (1 - decay) * g * g;
         b[i] = momentum * b[i] + lr * g / sqrt(a[i] + epsilon);
         var[i] -= b[i];
       }))

UPDATE(adam, 2, true, 3, DO(const double t = shoal_tensor_get(&call->in[RATE + 1], 0); ADAM_CONSTANTS),
       DO(ADAM_ELEMENT))

UPDATE(ftrl, 2, false, 4, DO(FTRL_CONSTANTS), DO(FTRL_ELEMENT))

/* a: momentum. Chen et al. 2023: the sign of a mean is the direction. */
UPDATE(lion, 1, false, 2, DO(const real beta1 = (real)attr[0].f; const real beta2 = (real)attr[1].f), DO({
         const real mean = beta1 * a[i] + (1 - beta1) * g;
         var[i] -= mean > 0 ? lr : mean < 0 ? -lr : 0;
         a[i] = beta2 * a[i] + (1 - beta2) * g;
       }))

/* Nadam's momentum of step t, which rises from beta1 / 2, and the product of all up to there. */
static double nadam_momentum(double beta1, double t) { return beta1 * (1 - 0.5 * pow(0.96, t)); }
static double nadam_product(double beta1, double t) {
  double product = 1;
  for (double i = 1; i <= t && product > 1e-30; i++) product *= nadam_momentum(beta1, i);
  return product;
}

/* a: first moment, b: second moment. Dozat 2016: Adam that looks a step ahead. */
UPDATE(nadam, 2, true, 3,
       DO(const double t = shoal_tensor_get(&call->in[RATE + 1], 0); const double now = nadam_momentum(attr[0].f, t);
          const double next = nadam_momentum(attr[0].f, t + 1); const double product = nadam_product(attr[0].f, t);
          const real beta1 = (real)attr[0].f; const real beta2 = (real)attr[1].f; const real epsilon = (real)attr[2].f;
          const real ahead = (real)(next / (1 - product * next)); const real own = (real)((1 - now) / (1 - product));
          const real whole = (real)(1 / sqrt(1 - pow(attr[1].f, t)))),
       DO({
         a[i] = beta1 * a[i] + (1 - beta1) * g;
         b[i] = beta2 * b[i] + (1 - beta2) * g * g;
         var[i] -= lr * (ahead * a[i] + own * g) / (sqrt(b[i]) * whole + epsilon);
       }))

/* ---- updates by the norm of the whole variable */

static shoal_status lamb_shape(op_shapes *s) { return update_shape(s, 2, false, true); }
static shoal_status lars_shape(op_shapes *s) { return update_shape(s, 1, false, false); }

/* How much the step is stretched: the norm of the variable over that of the step; 1 where one of them is 0. */
static double trust_ratio(double variable, double step) { return variable > 0 && step > 0 ? sqrt(variable / step) : 1; }

/* You et al. 2020: Adam's step and the decay, with the norm of the variable. Inputs as of apply_adam. */
REAL_KERNEL(lamb_kernel, {
  const attr_value *attr = call->attr;
  real *restrict var = call->in[0].data;
  real *restrict a = call->in[1].data; /* first moment */
  real *restrict b = call->in[2].data; /* second moment */
  const real *restrict grad = call->in[3].data;
  const double t = shoal_tensor_get(&call->in[5], 0);
  const real beta1 = (real)attr[0].f;
  const real beta2 = (real)attr[1].f;
  const real epsilon = (real)attr[2].f;
  const real decay = (real)attr[3].f;
  const real first = (real)(1 / (1 - pow(attr[0].f, t)));
  const real whole = (real)(1 / sqrt(1 - pow(attr[1].f, t)));
  const int64_t n = shoal_tensor_count(&call->in[0]);
  double variable = 0;
  double step = 0;
  for (int64_t i = 0; i < n; i++) {
    a[i] = beta1 * a[i] + (1 - beta1) * grad[i];
    b[i] = beta2 * b[i] + (1 - beta2) * grad[i] * grad[i];
    const real r = first * a[i] / (sqrt(b[i]) * whole + epsilon) + decay * var[i];
    variable += (double)var[i] * (double)var[i];
    step += (double)r * (double)r;
  }
  const real rate = (real)(shoal_tensor_get(&call->in[4], 0) * trust_ratio(variable, step));
  for (int64_t i = 0; i < n; i++) var[i] -= rate * (first * a[i] / (sqrt(b[i]) * whole + epsilon) + decay * var[i]);
  return NULL;
})

/* You et al. 2017: momentum, each variable at a rate by the norms of itself and its gradient. Biases and scales, which
 * have one axis, take the rate as it is and do not shrink. Inputs as of apply_momentum. */
REAL_KERNEL(lars_kernel, {
  const attr_value *attr = call->attr;
  real *restrict var = call->in[0].data;
  real *restrict a = call->in[1].data; /* velocity */
  const real *restrict grad = call->in[2].data;
  const real momentum = (real)attr[0].f;
  const int64_t n = shoal_tensor_count(&call->in[0]);
  double decay = 0;
  double rate = shoal_tensor_get(&call->in[3], 0);
  if (call->in[0].shape.rank > 1) {
    double variable = 0;
    double gradient = 0;
    decay = attr[2].f;
    for (int64_t i = 0; i < n; i++) {
      variable += (double)var[i] * (double)var[i];
      gradient += (double)grad[i] * (double)grad[i];
    }
    variable = sqrt(variable);
    if (variable > 0 && gradient > 0) rate *= attr[1].f * variable / (sqrt(gradient) + decay * variable);
  }
  for (int64_t i = 0; i < n; i++) {
    a[i] = momentum * a[i] + (real)rate * (grad[i] + (real)decay * var[i]);
    var[i] -= a[i];
  }
  return NULL;
})

/* ---- apply_average: (average, variable, t) changes the average: momentum of it, the rest of the variable; of step 1
 * the variable itself. */

static shoal_status average_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "the average"));
  TRY(rule_same_shape(s, 0, 1));
  if (s->in_dtype[0] != s->in_dtype[1])
    return status_make(SHOAL_ERR_ARGUMENT, "the average is %s, the variable %s; they must be the same",
                       shoal_dtype_name(s->in_dtype[0]), shoal_dtype_name(s->in_dtype[1]));
  TRY(rule_number(s, 2, "the step count"));
  TRY(rule_rank(s, 2, 0, "the step count"));
  s->out[0] = s->in[0];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(average_kernel, {
  real *restrict average = call->in[0].data;
  const real *restrict variable = call->in[1].data;
  const real kept = shoal_tensor_get(&call->in[2], 0) > 1 ? (real)call->attr[0].f : 0;
  const int64_t n = shoal_tensor_count(&call->in[0]);
  for (int64_t i = 0; i < n; i++) average[i] = kept * average[i] + (1 - kept) * variable[i];
  return NULL;
})

/* ---- clip_scale: (tensors...) -> what to multiply all of them by, so that the root of the sum of all squares is at most
 * `norm`; at most 1. The sum is the same whatever the number of threads. */

static shoal_status clip_scale_shape(op_shapes *s) {
  for (int i = 0; i < s->ins; i++) TRY(rule_float(s, i, "a gradient"));
  s->out[0] = SHOAL_SCALAR;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

enum { CLIP_SUMS = 16 }; /* beside each other, so that a processor need not wait for the last addition */

static double sum_of_squares(const shoal_tensor *t) {
  const int64_t n = shoal_tensor_count(t), even = n - n % CLIP_SUMS;
  double sums[CLIP_SUMS] = {0}, total = 0;
  const float *x = t->data;
  for (int64_t i = 0; t->dtype == SHOAL_F32 && i < even; i += CLIP_SUMS)
    for (int k = 0; k < CLIP_SUMS; k++) sums[k] += (double)x[i + k] * (double)x[i + k];
  for (int64_t i = t->dtype == SHOAL_F32 ? even : 0; i < n; i++) {
    const double one = shoal_tensor_get(t, i);
    total += one * one;
  }
  for (int k = 0; k < CLIP_SUMS; k++) total += sums[k];
  return total;
}

static shoal_status clip_scale_kernel(const kernel_call *call) {
  double squares = 0;
  for (int i = 0; i < call->ins; i++) squares += sum_of_squares(&call->in[i]);
  const double norm = sqrt(squares), scale = norm > call->attr[0].f ? call->attr[0].f / norm : 1;
  if (call->out[0].dtype == SHOAL_F32)
    *(float *)call->out[0].data = (float)scale;
  else
    *(double *)call->out[0].data = scale;
  return NULL;
}

/* ---- unique_rows: (indices [n], rows [n, ...]) -> the same shapes; each index once, ascending, its rows summed in
 * the order they stood in; the rest is index -1 and zero rows. Negative indices are dropped. */

static shoal_status unique_rows_shape(op_shapes *s) {
  TRY(rule_rank(s, 0, 1, "indices"));
  TRY(rule_float(s, 1, "rows"));
  TRY(rule_rank_min(s, 1, 1, "rows"));
  TRY(rule_index(s, 0, "indices"));
  if (!dims_fit(s->in[0].dim[0], s->in[1].dim[0]))
    return status_make(SHOAL_ERR_ARGUMENT, "there are %lld indices for %lld rows", (long long)s->in[0].dim[0],
                       (long long)s->in[1].dim[0]);
  if (shape_span(&s->in[1], 1, s->in[1].rank) == 0) {
    char a[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "rows %s have no elements", shoal_shape_text(&s->in[1], a));
  }
  if (s->in[0].dim[0] > UINT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "%lld rows are too many to be sorted", (long long)s->in[0].dim[0]);
  for (int i = 0; i < 2; i++) {
    s->out[i] = s->in[i];
    s->out_dtype[i] = s->in_dtype[i];
  }
  return NULL;
}

typedef uint32_t place __attribute__((may_alias)); /* lives in the output's memory until a row is put there */

static inline bool stands_before(const shoal_tensor *index, place a, place b) {
  int64_t x = index_get(index, a), y = index_get(index, b);
  return x < y || (x == y && a < b);
}

static void sift_down(place *heap, int64_t root, int64_t n, const shoal_tensor *index) {
  place moved = heap[root];
  for (int64_t child; (child = 2 * root + 1) < n; root = child) {
    if (child + 1 < n && stands_before(index, heap[child], heap[child + 1])) child++;
    if (!stands_before(index, moved, heap[child])) break;
    heap[root] = heap[child];
  }
  heap[root] = moved;
}

/* order[0..n) becomes the places of index[0..n) by (index, place). */
static void sort_places(place *order, int64_t n, const shoal_tensor *index) {
  for (int64_t i = 0; i < n; i++) order[i] = (place)i;
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(order, i, n, index);
  for (int64_t i = n - 1; i > 0; i--) {
    place last = order[i];
    order[i] = order[0];
    order[0] = last;
    sift_down(order, 0, i, index);
  }
}

static void add_row(void *to, const void *from, int64_t width, shoal_dtype dtype) {
  if (dtype == SHOAL_F32)
    for (int64_t k = 0; k < width; k++) ((float *)to)[k] += ((const float *)from)[k];
  else
    for (int64_t k = 0; k < width; k++) ((double *)to)[k] += ((const double *)from)[k];
}

static void index_set(shoal_tensor *t, int64_t i, int64_t value) {
  if (t->dtype == SHOAL_I32)
    ((int32_t *)t->data)[i] = (int32_t)value;
  else
    ((int64_t *)t->data)[i] = value;
}

static shoal_status unique_rows_kernel(const kernel_call *call) {
  const shoal_tensor *index = &call->in[0]; /* [n] */
  const char *rows = call->in[1].data;      /* [n, width] */
  shoal_tensor *unique = &call->out[0];     /* [n] */
  char *sums = call->out[1].data;           /* [n, width] */
  int64_t n = call->in[0].shape.dim[0], width = shape_span(&call->in[1].shape, 1, call->in[1].shape.rank);
  shoal_dtype dtype = call->in[1].dtype;
  size_t row = (size_t)width * shoal_dtype_size(dtype);
  /* The sorted places stand in the last 4 n bytes of `sums`. Row k is written when places up to e >= k have been read,
   * and ends at (k + 1) row <= n row - 4 n + 4 (e + 1): it covers no place that is still to be read. */
  place *order = (place *)(sums + (size_t)n * row - (size_t)n * sizeof *order);
  sort_places(order, n, index);
  int64_t k = 0;
  for (int64_t e = 0; e < n;) {
    int64_t now = index_get(index, order[e]);
    if (now < 0) {
      e++;
      continue;
    }
    memcpy(sums + (size_t)k * row, rows + order[e] * row, row);
    for (e++; e < n && index_get(index, order[e]) == now; e++)
      add_row(sums + (size_t)k * row, rows + order[e] * row, width, dtype);
    index_set(unique, k++, now);
  }
  memset(sums + (size_t)k * row, 0, (size_t)(n - k) * row);
  for (; k < n; k++) index_set(unique, k, -1);
  return NULL;
}

/* ---- the rows */

static void update_cost(const op_shapes *s, double *flops) {
  *flops = 0; /* per element of the gradient, which stands before the scalars */
  for (int i = 1; i < s->ins; i++)
    if (s->in[i].rank) *flops = 4.0 * (double)shoal_shape_count(&s->in[i]);
}

static const char *const sgd_cases[] = {"[5,7] [5,7] []>0", "[] [] []", "[9] [9] []>0 l2=0.3 weight_decay=0.2",
                                        "[300] [300] []>0", NULL};
static const char *const sparse_sgd_cases[] = {"[9,3] i64[6]<9 [6,3] []>0", "[9] uniq[?5]<9 [?5] []>0",
                                               "[9] uniq[5]<9 [5] []>0 l2=0.5", NULL};
static const char *const momentum_cases[] = {"[5,7] [5,7] [5,7] []>0", "[8] [8] [8] []>0 momentum=0.5 nesterov=1",
                                             "[9] [9] [9] []>0 l2=0.3", NULL};
static const char *const sparse_momentum_cases[] = {"[9,3] [9,3] uniq[6]<9 [6,3] []>0",
                                                    "[9] [9] uniq[?5]<9 [?5] []>0 nesterov=1", NULL};
static const char *const adagrad_cases[] = {"[5,7] [5,7]>0 [5,7] []>0", "[9] [9]>0 [9] []>0 l2=0.4",
                                            "[37,17] [37,17]>0 [37,17] []>0 weight_decay=0.1", NULL};
static const char *const sparse_adagrad_cases[] = {"[9,3] [9,3]>0 uniq[6]<9 [6,3] []>0", NULL};
static const char *const sparse_rowwise_adagrad_cases[] = {
    "[9,3] [9]>0 uniq[6]<9 [6,3] []>0",
    "[9,33] [9]>0 uniq[?5]<9 [?5,33] []>0 l2=0.4",
    "[9] [9]>0 uniq[5]<9 [5] []>0 weight_decay=0.2",
    "[9,3] [15]>0 uniq[8]<9 [8,3] []>0 plain=3",
    "[9,17] [41]>0 uniq[?8]<9 [?8,17] []>0 plain=2 plain_first=1",
    NULL};
static const char *const rmsprop_cases[] = {"[5,7] [5,7]>0 [5,7] [5,7] []>0",
                                            "[8] [8]>0 [8] [8] []>0 decay=0.5 momentum=0.9", NULL};
static const char *const sparse_rmsprop_cases[] = {"[9,3] [9,3]>0 [9,3] uniq[6]<9 [6,3] []>0", NULL};
static const char *const adam_cases[] = {"[5,7] [5,7] [5,7]>0 [5,7] []>0 []>0",
                                         "[8] [8] [8]>0 [8] []>0 i64[]>0 beta1=0.5 epsilon=0.1 weight_decay=0.2",
                                         "[523] [523] [523]>0 [523] []>0 i64[]>0", NULL};
static const char *const sparse_adam_cases[] = {"[9,3] [9,3] [9,3]>0 uniq[6]<9 [6,3] []>0 i64[]>0", NULL};
static const char *const ftrl_cases[] = {"[5,7] [5,7] [5,7]>0 [5,7] []>0", "[30] [30] [30]>0 [30] []>0 l1=0.5 l2=0.2",
                                         "[8] [8] [8]>0 [8] []>0 beta=0.3 power=-0.7", NULL};
static const char *const sparse_ftrl_cases[] = {"[9,3] [9,3] [9,3]>0 uniq[6]<9 [6,3] []>0 l1=0.1", NULL};
static const char *const lion_cases[] = {"[5,7] [5,7] [5,7] []>0", "[8] [8] [8] []>0 beta1=0.5 weight_decay=0.3", NULL};
static const char *const sparse_lion_cases[] = {"[9,3] [9,3] uniq[6]<9 [6,3] []>0 weight_decay=0.1", NULL};
static const char *const nadam_cases[] = {"[5,7] [5,7] [5,7]>0 [5,7] []>0 i64[]>0",
                                          "[8] [8] [8]>0 [8] []>0 i64[]>0 beta1=0.5 epsilon=0.1", NULL};
static const char *const sparse_nadam_cases[] = {"[9,3] [9,3] [9,3]>0 uniq[6]<9 [6,3] []>0 i64[]>0", NULL};
static const char *const lamb_cases[] = {"[5,7] [5,7] [5,7]>0 [5,7] []>0 i64[]>0",
                                         "[8] [8] [8]>0 [8] []>0 i64[]>0 beta1=0.5 epsilon=0.1 weight_decay=0.2", NULL};
static const char *const lars_cases[] = {"[5,7] [5,7] [5,7] []>0", "[5,7] [5,7] [5,7] []>0 weight_decay=0.2 trust=0.5",
                                         "[8] [8] [8] []>0 weight_decay=0.2", NULL};
static const char *const average_cases[] = {"[5,7] [5,7] i64[]>0", "[8] [8] []>0 momentum=0.5", NULL};
static const char *const clip_scale_cases[] = {"[5,7]", "[40] [3,3] [] norm=0.5", "[50] norm=1000", NULL};
static const char *const unique_rows_cases[] = {"i64[9]<4 [9,3]",     "i64[?20]<6 [?20]", "uniq[5]<9 [5,2]",
                                                "i64[40]<2 [40,2,2]", "i32[30]<7 [30,1]", NULL};

#define DECAY \
  { "weight_decay", ATTR_FLOAT, 0 }
#define DENSE_ROW(op, ins, mask, more, ...)                                                                        \
  {                                                                                                                \
    .name = "apply_" #op, .attrs = {__VA_ARGS__}, .ins_min = (ins), .ins_max = (ins), .outs = 1,                   \
    .flags = OP_STATEFUL | OP_NO_GRADIENT | (more), .updates = (mask), .shape = op##_shape, .kernel = op##_kernel, \
    .variants = VARIANTS_##op, .cost = update_cost, .cases = op##_cases                                            \
  }
#define UPDATE_ROW(op, ins, mask, ...) DENSE_ROW(op, ins, mask, OP_ELEMENTS, __VA_ARGS__)
/* Of an update that has to see the whole variable. */
#define WHOLE_UPDATE_ROW(op, ins, mask, ...) DENSE_ROW(op, ins, mask, 0, __VA_ARGS__)
#define SPARSE_UPDATE_ROW(op, ins, mask, ...)                                                           \
  {                                                                                                     \
    .name = "sparse_apply_" #op, .attrs = {__VA_ARGS__}, .ins_min = (ins), .ins_max = (ins), .outs = 1, \
    .flags = OP_STATEFUL | OP_NO_GRADIENT, .updates = (mask), .shape = sparse_##op##_shape,             \
    .kernel = sparse_##op##_kernel, .variants = SPARSE_VARIANTS_##op, .cost = update_cost,              \
    .cases = sparse_##op##_cases                                                                        \
  }
/* Those with kernels of their own. */
#define VARIANTS_sgd tuned_apply_sgd
#define VARIANTS_adagrad tuned_apply_adagrad
#define VARIANTS_adam tuned_apply_adam
#define VARIANTS_momentum NULL
#define VARIANTS_rmsprop NULL
#define VARIANTS_nadam NULL
#define VARIANTS_lion NULL
#define VARIANTS_ftrl NULL
#define VARIANTS_lamb NULL
#define VARIANTS_lars NULL
#define VARIANTS_average NULL
#define SPARSE_VARIANTS_sgd tuned_sparse_apply_sgd
#define SPARSE_VARIANTS_adagrad tuned_sparse_apply_adagrad
#define SPARSE_VARIANTS_rowwise_adagrad tuned_sparse_apply_rowwise_adagrad
#define SPARSE_VARIANTS_adam tuned_sparse_apply_adam
#define SPARSE_VARIANTS_ftrl tuned_sparse_apply_ftrl
#define SPARSE_VARIANTS_momentum NULL
#define SPARSE_VARIANTS_rmsprop NULL
#define SPARSE_VARIANTS_nadam NULL
#define SPARSE_VARIANTS_lion NULL
/* A dense row and a sparse one, which has the indices besides. */
#define UPDATE_ROWS(op, ins, mask, ...) \
  UPDATE_ROW(op, ins, mask, __VA_ARGS__), SPARSE_UPDATE_ROW(op, (ins) + 1, mask, __VA_ARGS__)

const op_row ops_update[] = {
    UPDATE_ROWS(sgd, 3, 1, {"l2", ATTR_FLOAT, 0}, DECAY),
    UPDATE_ROWS(momentum, 4, 3, {"momentum", ATTR_FLOAT, 0.9}, {"nesterov", ATTR_BOOL, 0}, {"l2", ATTR_FLOAT, 0},
                DECAY),
    UPDATE_ROWS(adagrad, 4, 3, {"epsilon", ATTR_FLOAT, 1e-7}, {"l2", ATTR_FLOAT, 0}, DECAY),
    SPARSE_UPDATE_ROW(rowwise_adagrad, 5, 3, {"epsilon", ATTR_FLOAT, 1e-7}, {"l2", ATTR_FLOAT, 0}, DECAY,
                      {"plain", ATTR_INT, 0}, {"plain_first", ATTR_BOOL, 0}),
    UPDATE_ROWS(rmsprop, 5, 7, {"decay", ATTR_FLOAT, 0.9}, {"momentum", ATTR_FLOAT, 0}, {"epsilon", ATTR_FLOAT, 1e-7},
                DECAY),
    UPDATE_ROWS(adam, 6, 7, {"beta1", ATTR_FLOAT, 0.9}, {"beta2", ATTR_FLOAT, 0.999}, {"epsilon", ATTR_FLOAT, 1e-8},
                DECAY),
    UPDATE_ROWS(nadam, 6, 7, {"beta1", ATTR_FLOAT, 0.9}, {"beta2", ATTR_FLOAT, 0.999}, {"epsilon", ATTR_FLOAT, 1e-7},
                DECAY),
    UPDATE_ROWS(lion, 4, 3, {"beta1", ATTR_FLOAT, 0.9}, {"beta2", ATTR_FLOAT, 0.99}, DECAY),
    WHOLE_UPDATE_ROW(lamb, 6, 7, {"beta1", ATTR_FLOAT, 0.9}, {"beta2", ATTR_FLOAT, 0.999},
                     {"epsilon", ATTR_FLOAT, 1e-7}, DECAY),
    WHOLE_UPDATE_ROW(lars, 4, 3, {"momentum", ATTR_FLOAT, 0.9}, {"trust", ATTR_FLOAT, 0.001}, DECAY),
    UPDATE_ROW(average, 3, 1, {"momentum", ATTR_FLOAT, 0.99}),
    {.name = "clip_scale",
     .attrs = {{"norm", ATTR_FLOAT, 1}},
     .ins_min = 1,
     .ins_max = -1,
     .outs = 1,
     .flags = OP_NO_GRADIENT,
     .shape = clip_scale_shape,
     .kernel = clip_scale_kernel,
     .cost = cost_input,
     .cases = clip_scale_cases},
    UPDATE_ROWS(ftrl, 5, 7, {"l1", ATTR_FLOAT, 0}, {"l2", ATTR_FLOAT, 0}, {"beta", ATTR_FLOAT, 1},
                {"power", ATTR_FLOAT, -0.5}, DECAY),
    {.name = "unique_rows",
     .ins_min = 2,
     .ins_max = 2,
     .outs = 2,
     .flags = OP_NO_GRADIENT,
     .shape = unique_rows_shape,
     .kernel = unique_rows_kernel,
     .variants = tuned_unique_rows,
     .cost = cost_input,
     .cases = unique_rows_cases},
    {0},
};
