/* Logistic regression on sparse rows in one operator, made by the planner. The kernels here say what it computes; the
 * fast ones are in src/kernel. */
#include "base/mem.h"
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "kernel/sparse.h"
#include "kernel/update.h"

#include <tgmath.h>

static shoal_status logistic_shape(op_shapes *s, int slots) {
  TRY(rule_float(s, 0, "the weights"));
  for (int i = 1; i <= slots; i++) TRY(rule_same_shape(s, 0, i));
  TRY(rule_rank(s, slots + SPARSE_OFFSETS, 1, "offsets"));
  TRY(rule_rank(s, slots + SPARSE_INDICES, 1, "indices"));
  s->out[0] = s->in[0];
  s->out[1] = s->out[2] = SHOAL_SCALAR;
  s->out_dtype[0] = s->out_dtype[1] = s->out_dtype[2] = SHOAL_F32;
  return NULL;
}

enum { REFERENCE_ROWS = 256 }; /* of a step, at most: more than any test case has */

typedef void (*touch)(const attr_value *attr, float *const *arrays, int64_t i, float g, float lr);

/* One update out of rows [first, last): the gradient of each index, added up over the step, once. */
static void reference_step(const sparse_job *j, const attr_value *attr, touch change, int64_t first, int64_t last,
                           float lr, sparse_outcome *sum) {
  const int64_t start = j->offsets[0], from = j->offsets[first] - start, to = j->offsets[last] - start;
  double total = 0;
  float dz[REFERENCE_ROWS];
  for (int64_t row = first; row < last; row++) {
    double z = j->bias[0] ? (double)*j->bias[0] : 0;
    for (int64_t e = j->offsets[row] - start; e < j->offsets[row + 1] - start; e++)
      z += (double)j->values[e] * (double)j->w[0][j->indices[e]];
    sum->loss += log1p(exp(-fabs(z))) + (z > 0 ? z : 0) - z * j->labels[row];
    sum->hits += z == z && (z > 0) == (j->labels[row] != 0);
    total += dz[row - first] = (float)((1 / (1 + exp(-z)) - j->labels[row]) / (double)(last - first));
  }
  for (int64_t e = from, row = first; e < to; e++) {
    while (e >= j->offsets[row + 1] - start) row++;
    bool earlier = false;
    for (int64_t k = from; k < e && !earlier; k++) earlier = j->indices[k] == j->indices[e];
    if (earlier) continue;
    double g = 0;
    for (int64_t k = e, r = row; k < to; k++) {
      while (k >= j->offsets[r + 1] - start) r++;
      if (j->indices[k] == j->indices[e]) g += (double)(j->values[k] * dz[r - first]);
    }
    change(attr, j->w, j->indices[e], (float)g, lr);
  }
  if (j->bias[0]) change(attr, j->bias, 0, (float)total, lr);
}

static shoal_status reference(const kernel_call *call, int slots, touch change) {
  sparse_job j;
  bool once;
  sparse_outcome sum = {.bad_row = -1};
  sparse_job_of(call, slots, &j);
  TRY(sparse_check(&j, &once));
  if (j.step_rows > REFERENCE_ROWS)
    return status_make(SHOAL_ERR_INTERNAL, "the reference kernel takes steps of at most %d rows", REFERENCE_ROWS);
  for (int64_t row = 0, s = 0; row < j.rows; row += j.step_rows, s++)
    reference_step(&j, call->attr, change, row, MIN_OF(row + j.step_rows, j.rows), j.rates[j.many_rates ? s : 0], &sum);
  return sparse_finish(call, &j, &sum);
}

#define LOGISTIC(op, slots, constants, element)                                                             \
  static void op##_touch(const attr_value *attr, float *const *arrays, int64_t i, float g, float lr) {      \
    typedef float real;                                                                                     \
    float *var = arrays[0], *a __attribute__((unused)) = arrays[1], *b __attribute__((unused)) = arrays[2]; \
    constants;                                                                                              \
    element;                                                                                                \
  }                                                                                                         \
  static shoal_status op##_shape(op_shapes *s) { return logistic_shape(s, slots); }                         \
  static shoal_status op##_kernel(const kernel_call *call) { return reference(call, slots, op##_touch); }

LOGISTIC(sgd, 0, SGD_CONSTANTS, SGD_ELEMENT)
LOGISTIC(adagrad, 1, ADAGRAD_CONSTANTS, ADAGRAD_ELEMENT)
LOGISTIC(ftrl, 2, FTRL_CONSTANTS, FTRL_ELEMENT)

/* A product forward and one backward for each entry, and the update of what it names. */
static void logistic_cost(const op_shapes *s, double *flops) {
  *flops = 0;
  for (int i = SPARSE_INDICES; i < s->ins; i++) /* the longest input after the weights is as long as the entries */
    if (s->in[i].rank == 1) *flops = MAX_OF(*flops, 8.0 * (double)s->in[i].dim[0]);
}

/* Weights and slots, then, behind what is fed, the bias and its slots. */
#define UPDATES(slots) ((1u << ((slots) + 1)) - 1) * (1u + (1u << ((slots) + SPARSE_BIAS)))
#define LOGISTIC_ROW(op, slots, rows_cases, ...)                                                                    \
  {                                                                                                                 \
    .name = "sparse_logistic_" #op, .attrs = {__VA_ARGS__}, .ins_min = (slots) + SPARSE_BIAS,                       \
    .ins_max = 2 * (slots) + SPARSE_BIAS + 1, .outs = 3,                                                            \
    .flags = OP_INTERNAL | OP_NO_GRADIENT | OP_STATEFUL | OP_STEPS, .updates = UPDATES(slots), .shape = op##_shape, \
    .kernel = op##_kernel, .variants = tuned_sparse_logistic_##op, .cost = logistic_cost, .cases = rows_cases       \
  }

static const char *const sgd_cases[] = {"[50,1] asc[9]<40 i32[40]<50 [40] i32[8]<2 []>0",
                                        "[50,1] asc[9]<40 i32[40]<50 [40] i32[8]<2 []>0 [1]",
                                        "[50,1] asc[6]<30 i32[30]<50 [30] i32[5]<2 []>0 l2=0.3", NULL};
static const char *const adagrad_cases[] = {"[50,1] [50,1]>0 asc[9]<40 i32[40]<50 [40] i32[8]<2 []>0",
                                            "[9,1] [9,1]>0 asc[9]<40 i32[40]<9 [40] i32[8]<2 []>0 l2=0.2", NULL};
static const char *const ftrl_cases[] = {"[50,1] [50,1] [50,1]>0 asc[9]<40 i32[40]<50 [40] i32[8]<2 []>0",
                                         "[9,1] [9,1] [9,1]>0 asc[9]<40 i32[40]<9 [40] i32[8]<2 []>0 l1=0.1 l2=0.2",
                                         NULL};

const op_row ops_sparse_fused[] = {
    LOGISTIC_ROW(sgd, 0, sgd_cases, {"l2", ATTR_FLOAT, 0}),
    LOGISTIC_ROW(adagrad, 1, adagrad_cases, {"epsilon", ATTR_FLOAT, 1e-7}, {"l2", ATTR_FLOAT, 0}),
    LOGISTIC_ROW(ftrl, 2, ftrl_cases, {"l1", ATTR_FLOAT, 0}, {"l2", ATTR_FLOAT, 0}, {"beta", ATTR_FLOAT, 1},
                 {"power", ATTR_FLOAT, -0.5}),
    {0},
};
