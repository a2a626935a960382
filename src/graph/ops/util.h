/* What the operators' files share: kernels written once for several types, shape rules, batch rules, gradient helpers.
 *
 * Each file of operators exports one array of rows, listed in ops.h. */
#ifndef SHOAL_GRAPH_OPS_UTIL_H
#define SHOAL_GRAPH_OPS_UTIL_H

#include "graph/graph.h"

/* ---- one kernel body for several types
 *
 * REAL_KERNEL(relu_kernel, {
 *   const real *x = call->in[0].data;
 *   ...
 *   return NULL;
 * })
 * makes relu_kernel_f32, relu_kernel_f64 (real is float or double) and relu_kernel, which picks one by the type of
 * output 0, or of input 0 when the output is not a float. Include <tgmath.h> for exp, sqrt ... of `real`. */
#define REAL_KERNEL(name, ...)                              \
  static shoal_status name##_f32(const kernel_call *call) { \
    typedef float real __attribute__((unused));             \
    __VA_ARGS__                                             \
  }                                                         \
  static shoal_status name##_f64(const kernel_call *call) { \
    typedef double real __attribute__((unused));            \
    __VA_ARGS__                                             \
  }                                                         \
  static shoal_status name(const kernel_call *call) {       \
    switch (kernel_real_dtype(call)) {                      \
      case SHOAL_F32: return name##_f32(call);              \
      case SHOAL_F64: return name##_f64(call);              \
      default: return kernel_wrong_dtype(call);             \
    }                                                       \
  }

/* As REAL_KERNEL for f32, f64, i32 and i64, by the type of input 0 (output 0 if there is none): `number` is the type,
 * `wide` one in which sums and products are defined whatever they come to (uint64_t for integers: they wrap). */
#define NUMBER_KERNEL(name, ...)                               \
  NUMBER_KERNEL_OF(name##_f32, float, float, __VA_ARGS__)      \
  NUMBER_KERNEL_OF(name##_f64, double, double, __VA_ARGS__)    \
  NUMBER_KERNEL_OF(name##_i32, int32_t, uint64_t, __VA_ARGS__) \
  NUMBER_KERNEL_OF(name##_i64, int64_t, uint64_t, __VA_ARGS__) \
  static shoal_status name(const kernel_call *call) {          \
    switch (kernel_dtype(call)) {                              \
      case SHOAL_F32: return name##_f32(call);                 \
      case SHOAL_F64: return name##_f64(call);                 \
      case SHOAL_I32: return name##_i32(call);                 \
      case SHOAL_I64: return name##_i64(call);                 \
      default: return kernel_wrong_dtype(call);                \
    }                                                          \
  }
#define NUMBER_KERNEL_OF(name, number_type, wide_type, ...) \
  static shoal_status name(const kernel_call *call) {       \
    typedef number_type number __attribute__((unused));     \
    typedef wide_type wide __attribute__((unused));         \
    __VA_ARGS__                                             \
  }

/* For moving data of any type: `cell` is an unsigned integer as large as an element of input 0 (output 0 if there is
 * none). */
#define ALL_TYPES_KERNEL(name, ...)                       \
  static shoal_status name##_1(const kernel_call *call) { \
    typedef uint8_t cell __attribute__((unused));         \
    __VA_ARGS__                                           \
  }                                                       \
  static shoal_status name##_4(const kernel_call *call) { \
    typedef uint32_t cell __attribute__((unused));        \
    __VA_ARGS__                                           \
  }                                                       \
  static shoal_status name##_8(const kernel_call *call) { \
    typedef uint64_t cell __attribute__((unused));        \
    __VA_ARGS__                                           \
  }                                                       \
  static shoal_status name(const kernel_call *call) {     \
    switch (shoal_dtype_size(kernel_dtype(call))) {       \
      case 1: return name##_1(call);                      \
      case 4: return name##_4(call);                      \
      case 8: return name##_8(call);                      \
      default: return kernel_wrong_dtype(call);           \
    }                                                     \
  }

static inline shoal_dtype kernel_dtype(const kernel_call *call) {
  return call->ins ? call->in[0].dtype : call->out[0].dtype;
}
static inline shoal_dtype kernel_real_dtype(const kernel_call *call) {
  shoal_dtype t = call->out[0].dtype;
  return (t == SHOAL_F32 || t == SHOAL_F64 || !call->ins) ? t : call->in[0].dtype;
}
/* Rows of the whole batch, of which `shape` may be a part; its own where the operator is not batched. */
static inline int64_t kernel_all_rows(const kernel_call *call, const shoal_shape *shape) {
  return call->all_rows > 0 ? call->all_rows : shape->dim[0];
}
/* An internal error: the shape rule should have refused this type. */
shoal_status kernel_wrong_dtype(const kernel_call *call);

/* ---- shapes */

static inline bool dtype_is_float(shoal_dtype t) { return t == SHOAL_F32 || t == SHOAL_F64; }
static inline bool dtype_is_index(shoal_dtype t) { return t == SHOAL_I32 || t == SHOAL_I64; }
/* Element i of a tensor of i32 or i64. */
static inline int64_t index_get(const shoal_tensor *t, int64_t i) {
  return t->dtype == SHOAL_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}
/* Axis 0 is the batch. */
static inline bool shape_is_batched(const shoal_shape *s) { return s->rank > 0 && s->dim[0] == SHOAL_UNKNOWN; }
/* Equal, or one of them unknown. */
static inline bool dims_fit(int64_t a, int64_t b) { return a == b || a == SHOAL_UNKNOWN || b == SHOAL_UNKNOWN; }
/* The one that is known, of two that fit. */
static inline int64_t dims_known(int64_t a, int64_t b) { return a == SHOAL_UNKNOWN ? b : a; }
/* Same rank, and each pair of dimensions fits. */
bool shapes_fit(const shoal_shape *a, const shoal_shape *b);
/* Product of dim[from .. to), SHOAL_UNKNOWN when one is unknown. */
int64_t shape_span(const shoal_shape *s, int from, int to);
/* Elements from one index to the next, for each axis of a row-major tensor. */
void shape_strides(const shoal_shape *s, int64_t strides[SHOAL_MAX_RANK]);

/* The bits of rule_axes, for axes that it found good. */
uint32_t axes_bits(const shoal_shape *axes, int rank);

/* ---- pieces of shape rules: NULL, or an error that says what was expected (the graph adds the nodes' names) */

/* All inputs have one type. */
SHOAL_CHECKED shoal_status rule_same_dtype(const op_shapes *s);
/* Input i is f32 or f64; f32, f64, i32 or i64; i32 or i64. `what` names it: "logits". */
SHOAL_CHECKED shoal_status rule_float(const op_shapes *s, int i, const char *what);
SHOAL_CHECKED shoal_status rule_number(const op_shapes *s, int i, const char *what);
SHOAL_CHECKED shoal_status rule_index(const op_shapes *s, int i, const char *what);
SHOAL_CHECKED shoal_status rule_rank(const op_shapes *s, int i, int rank, const char *what);
SHOAL_CHECKED shoal_status rule_rank_min(const op_shapes *s, int i, int rank, const char *what);
/* Inputs i and j have shapes that fit. */
SHOAL_CHECKED shoal_status rule_same_shape(const op_shapes *s, int i, int j);
/* -rank <= axis < rank; *out in [0, rank). */
SHOAL_CHECKED shoal_status rule_axis(int64_t axis, int rank, int *out);
/* The axes in `axes` (negative ones count from the end), or all when the list is empty, as a set of bits. */
SHOAL_CHECKED shoal_status rule_axes(const shoal_shape *axes, int rank, uint32_t *out);
/* As NumPy broadcasts. Unknown with unknown or 1 is unknown, with another number that number. */
SHOAL_CHECKED shoal_status rule_broadcast(const shoal_shape *a, const shoal_shape *b, shoal_shape *out);

/* Whole rules: every output is as input 0. */
SHOAL_CHECKED shoal_status shape_as_input(op_shapes *s);       /* any type */
SHOAL_CHECKED shoal_status shape_as_input_float(op_shapes *s); /* f32 or f64 */
SHOAL_CHECKED shoal_status shape_as_input_number(op_shapes *s);
/* All inputs have one float type and one shape; every output is like them, batch unknown only if it is in all. */
SHOAL_CHECKED shoal_status shape_all_alike_float(op_shapes *s);

/* ---- batch rules, see op_batch */

/* MAP when at least one input and every output is batched. Inputs without a batch axis are used whole by each row. */
op_batch batch_map(const op_shapes *s);
/* For operands that broadcast: MAP when no input would have to be cut along another axis than 0. */
op_batch batch_map_broadcast(const op_shapes *s);
/* SUM when at least one input is batched and no output is. */
op_batch batch_sum(const op_shapes *s);

/* ---- for operators that change variables */

/* Output 0 shows input 0 as it is now: normally both are the variable's memory. */
void show_updated(const kernel_call *call);
/* "tokens", of a state that consists of several variables, one of which is called "tokens/control"; returns buffer. */
#define STATE_OWNER 64
const char *state_owner(const shoal_value *part, char buffer[STATE_OWNER]);

/* ---- for gradient rules */

/* dy summed to the shape of `like`, which was broadcast to dy's; dy itself when the shapes are the same. */
shoal_value *grad_sum_to(shoal_graph *g, shoal_value *dy, shoal_value *like);
/* What a table [rows, width] begins with: see ops/embedding.c. */
shoal_value *random_table(shoal_graph *g, shoal_shape shape, int64_t zeros, double limit);
/* x [n, fields, width] -> [n, 1]: the first columns added up, of the others all pairs of vectors multiplied. */
shoal_value *field_pairs(shoal_graph *g, shoal_value *x, int64_t linear);
/* Rows of a row-sparse gradient with respect to `like` as a dense one. */
shoal_value *scatter_add_like(shoal_graph *g, shoal_value *indices, shoal_value *values, shoal_value *like);
/* A scalar of the type of `like`. */
shoal_value *grad_scalar(shoal_graph *g, shoal_value *like, double value);

/* ---- costs */
void cost_zero(const op_shapes *s, double *flops);  /* moves data only */
void cost_input(const op_shapes *s, double *flops); /* one for each element of input 0 */

#endif
