/** @file
 * A dataflow graph: values made by operators from other values.
 *
 * Errors stick: a call that fails returns NULL and the graph remembers why (the first time); calls that are given NULL
 * return NULL. So a model can be written down line by line and checked once, with shoal_graph_status.
 * A graph is not thread-safe while it is built; afterwards any number of sessions may use it. */
#ifndef SHOAL_GRAPH_H
#define SHOAL_GRAPH_H

#include "shoal/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Nodes and the values between them. */
typedef struct shoal_graph shoal_graph;
typedef struct shoal_value shoal_value; /**< one output of one node; owned by its graph */

/** An empty graph. *out: destroy it with shoal_graph_destroy. Fails for lack of memory only. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_create(shoal_graph **out);
/** Destroys the graph and all its values, after the sessions that use it. NULL is fine. */
SHOAL_API void shoal_graph_destroy(shoal_graph *g);
/** NULL, or the first error, as a new status that the caller owns. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_status(const shoal_graph *g);

/** The same, and the graph forgets it: whoever built the node that failed can go on without it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_take_status(shoal_graph *g);

/** Writes a file in TensorFlow's GraphDef format with Shoal's operators (docs/graphs.md): structure and constants, not
 * what the variables of a session hold. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_save(const shoal_graph *g, const char *path);
/** Reads such a file. Bad input is SHOAL_ERR_INPUT and names the node. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_load(const char *path, shoal_graph **out);

/** Names. Nodes made between push and pop are called scope/name. A name already taken gets _1, _2, ... */
SHOAL_API void shoal_scope_push(shoal_graph *g, const char *name);
/** Ends the innermost scope. */
SHOAL_API void shoal_scope_pop(shoal_graph *g);
/** The name for the next node made; without it, the operator's. */
SHOAL_API void shoal_name_next(shoal_graph *g, const char *name);
/** Device of the nodes made from here on, e.g. "/job:worker/task:1"; NULL for none. Partial ones ("/job:ps", "/task:1")
 * leave the rest to the placer of a session over a cluster (shoal/placed.h); a session of one process ignores all. */
SHOAL_API void shoal_device_set(shoal_graph *g, const char *device);
/** The same until the matching pop; what an inner scope does not say, the outer one decides. */
SHOAL_API void shoal_device_push(shoal_graph *g, const char *device);
/** Ends the innermost shoal_device_push. */
SHOAL_API void shoal_device_pop(shoal_graph *g);
/** Nodes made between push and pop run after all of x, whether they use them or not. Scopes add up. */
SHOAL_API void shoal_control_push(shoal_graph *g, shoal_value *const *x, int n);
/** Ends the innermost shoal_control_push. */
SHOAL_API void shoal_control_pop(shoal_graph *g);

/** Its name; belongs to the graph. Of NULL, which a call that failed returns, this and the next are NULL, a scalar's
 * shape and f32. */
SHOAL_API const char *shoal_value_name(const shoal_value *v);
/** Its device, outer scopes included; NULL for none. */
SHOAL_API const char *shoal_value_device(const shoal_value *v);
/** The operator that makes it, e.g. "matmul". */
SHOAL_API const char *shoal_value_operator(const shoal_value *v);
/** SHOAL_UNKNOWN for dimensions that are known only when fed. */
SHOAL_API shoal_shape shoal_value_shape(const shoal_value *v);
/** The type of its elements. */
SHOAL_API shoal_dtype shoal_value_dtype(const shoal_value *v);
/** Output i of the node that made v; NULL if it has no such output. */
SHOAL_API shoal_value *shoal_value_output(shoal_value *v, int i);
/** The value called `name` (output 0), or NULL. */
SHOAL_API shoal_value *shoal_graph_find(const shoal_graph *g, const char *name);
/** The same, also for "NAME:OUTPUT"; an unknown name is SHOAL_ERR_ARGUMENT and says which is near. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_lookup(const shoal_graph *g, const char *name, shoal_value **out);

/** Nodes of a graph that a user of it asks for. */
typedef enum {
  SHOAL_GRAPH_PLACEHOLDERS, /**< to be fed */
  SHOAL_GRAPH_VARIABLES,    /**< what a session keeps */
  SHOAL_GRAPH_RESULTS       /**< computed, and used by nothing else in the graph */
} shoal_graph_part;

/** The first output of the first such node, or of the next one after the node that made `after`; NULL: no more. */
SHOAL_API shoal_value *shoal_graph_next(const shoal_graph *g, shoal_graph_part part, const shoal_value *after);

/* ---- sources */
/** What a run is fed with. Dimensions may be SHOAL_UNKNOWN: the batch, which may differ from run to run. */
SHOAL_API shoal_value *shoal_placeholder(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_shape shape);
/** One element for each entry of rows of different lengths: [entries], where `offsets`, a placeholder of i64 [rows +
 * 1], says that row i has entries offsets[i] - offsets[0] .. offsets[i + 1] - offsets[0]. Unlike other shapes the
 * number of entries may differ from run to run without a new plan. */
SHOAL_API shoal_value *shoal_placeholder_ragged(shoal_graph *g, const char *name, shoal_dtype dtype,
                                                shoal_value *offsets);
/** A constant; copies the data. */
SHOAL_API shoal_value *shoal_constant(shoal_graph *g, const shoal_tensor *data);
/** A constant of one number. */
SHOAL_API shoal_value *shoal_scalar(shoal_graph *g, shoal_dtype dtype, double value);
/** State that stays from run to run. Starts as `initial` (any value that needs no feed) when a session is made. */
SHOAL_API shoal_value *shoal_variable(shoal_graph *g, const char *name, shoal_value *initial);
/** A constant, all elements the same. */
SHOAL_API shoal_value *shoal_fill(shoal_graph *g, shoal_dtype dtype, shoal_shape shape, double value);
/** As large as `like`, its batch included. */
SHOAL_API shoal_value *shoal_fill_like(shoal_graph *g, shoal_value *like, double value);
/** f32 in [low, high). New numbers each step, from the session's seed; so for the next two. */
SHOAL_API shoal_value *shoal_random_uniform(shoal_graph *g, shoal_shape shape, double low, double high);
/** f32, normally distributed. */
SHOAL_API shoal_value *shoal_random_normal(shoal_graph *g, shoal_shape shape, double mean, double stddev);
/** f32, normal, but drawn again beyond two standard deviations. */
SHOAL_API shoal_value *shoal_random_truncated(shoal_graph *g, shoal_shape shape, double mean, double stddev);

/** The block that begins at (row, col) of a random matrix with so many columns, uniform in [0, 1): its elements depend
 * on the session's seed and their place in the matrix alone, so that any task can make any block of the same matrix. */
SHOAL_API shoal_value *shoal_random_block(shoal_graph *g, shoal_shape shape, int64_t columns, int64_t row, int64_t col);

/* ---- arithmetic; two operands broadcast as in NumPy */
SHOAL_API shoal_value *shoal_add(shoal_graph *g, shoal_value *a, shoal_value *b); /**< a + b */
SHOAL_API shoal_value *shoal_sub(shoal_graph *g, shoal_value *a, shoal_value *b); /**< a - b */
SHOAL_API shoal_value *shoal_mul(shoal_graph *g, shoal_value *a, shoal_value *b); /**< a b, elementwise */
/** a / b, of floats */
SHOAL_API shoal_value *shoal_div(shoal_graph *g, shoal_value *a, shoal_value *b);
SHOAL_API shoal_value *shoal_maximum(shoal_graph *g, shoal_value *a, shoal_value *b); /**< the larger */
SHOAL_API shoal_value *shoal_minimum(shoal_graph *g, shoal_value *a, shoal_value *b); /**< the smaller */
SHOAL_API shoal_value *shoal_pow(shoal_graph *g, shoal_value *a, shoal_value *b);     /**< a to the power of b */
SHOAL_API shoal_value *shoal_scale(shoal_graph *g, shoal_value *x, double factor);    /**< x times a number */
SHOAL_API shoal_value *shoal_neg(shoal_graph *g, shoal_value *x);                     /**< -x */
SHOAL_API shoal_value *shoal_exp(shoal_graph *g, shoal_value *x);                     /**< e to the power of x */
SHOAL_API shoal_value *shoal_log(shoal_graph *g, shoal_value *x);                     /**< natural logarithm */
SHOAL_API shoal_value *shoal_sqrt(shoal_graph *g, shoal_value *x);                    /**< square root */
SHOAL_API shoal_value *shoal_square(shoal_graph *g, shoal_value *x);                  /**< x x */
SHOAL_API shoal_value *shoal_abs(shoal_graph *g, shoal_value *x);                     /**< |x| */
SHOAL_API shoal_value *shoal_sign(shoal_graph *g, shoal_value *x);                    /**< -1, 0 or 1 */
/** x, but not below low nor above high */
SHOAL_API shoal_value *shoal_clip(shoal_graph *g, shoal_value *x, double low, double high);
SHOAL_API shoal_value *shoal_relu(shoal_graph *g, shoal_value *x);    /**< max(x, 0) */
SHOAL_API shoal_value *shoal_tanh(shoal_graph *g, shoal_value *x);    /**< hyperbolic tangent */
SHOAL_API shoal_value *shoal_sigmoid(shoal_graph *g, shoal_value *x); /**< 1 / (1 + e^-x) */

/* ---- more functions of each element */
SHOAL_API shoal_value *shoal_relu6(shoal_graph *g, shoal_value *x); /**< x, but not below 0 nor above 6 */
/** x, or alpha x where x is below 0. */
SHOAL_API shoal_value *shoal_leaky_relu(shoal_graph *g, shoal_value *x, double alpha);
/** x, or alpha x where x is below 0; alpha is learned: any shape that broadcasts to x's. */
SHOAL_API shoal_value *shoal_prelu(shoal_graph *g, shoal_value *x, shoal_value *alpha);
/** x, or alpha (e^x - 1) where x is below 0. */
SHOAL_API shoal_value *shoal_elu(shoal_graph *g, shoal_value *x, double alpha);
/** The self-normalising ELU: 1.0507 elu(x, 1.6733), both to more digits. */
SHOAL_API shoal_value *shoal_selu(shoal_graph *g, shoal_value *x);
/** x P(N < x) for a standard normal N, exact (by the error function). */
SHOAL_API shoal_value *shoal_gelu(shoal_graph *g, shoal_value *x);
/** The same, approximated by a tanh. */
SHOAL_API shoal_value *shoal_gelu_tanh(shoal_graph *g, shoal_value *x);
SHOAL_API shoal_value *shoal_silu(shoal_graph *g, shoal_value *x);     /**< x sigmoid(x); also called swish */
SHOAL_API shoal_value *shoal_softplus(shoal_graph *g, shoal_value *x); /**< log(1 + e^x) */
SHOAL_API shoal_value *shoal_softsign(shoal_graph *g, shoal_value *x); /**< x / (1 + |x|) */
/** x / 6 + 1/2, but not below 0 nor above 1. */
SHOAL_API shoal_value *shoal_hard_sigmoid(shoal_graph *g, shoal_value *x);
SHOAL_API shoal_value *shoal_hard_swish(shoal_graph *g, shoal_value *x);  /**< x hard_sigmoid(x) */
SHOAL_API shoal_value *shoal_hard_tanh(shoal_graph *g, shoal_value *x);   /**< x, but not below -1 nor above 1 */
SHOAL_API shoal_value *shoal_mish(shoal_graph *g, shoal_value *x);        /**< x tanh(softplus(x)) */
SHOAL_API shoal_value *shoal_log_sigmoid(shoal_graph *g, shoal_value *x); /**< log(sigmoid(x)) */
SHOAL_API shoal_value *shoal_erf(shoal_graph *g, shoal_value *x);         /**< the error function */
SHOAL_API shoal_value *shoal_sin(shoal_graph *g, shoal_value *x);         /**< sine */
SHOAL_API shoal_value *shoal_cos(shoal_graph *g, shoal_value *x);         /**< cosine */
SHOAL_API shoal_value *shoal_tan(shoal_graph *g, shoal_value *x);         /**< tangent */
SHOAL_API shoal_value *shoal_atan(shoal_graph *g, shoal_value *x);        /**< the angle whose tangent is x */
SHOAL_API shoal_value *shoal_expm1(shoal_graph *g, shoal_value *x);       /**< e^x - 1, exact near 0 */
SHOAL_API shoal_value *shoal_log1p(shoal_graph *g, shoal_value *x);       /**< log(1 + x), exact near 0 */
SHOAL_API shoal_value *shoal_reciprocal(shoal_graph *g, shoal_value *x);  /**< 1 / x */
SHOAL_API shoal_value *shoal_rsqrt(shoal_graph *g, shoal_value *x);       /**< 1 / sqrt(x) */
SHOAL_API shoal_value *shoal_floor(shoal_graph *g, shoal_value *x); /**< the next whole number below; no gradient */
SHOAL_API shoal_value *shoal_ceil(shoal_graph *g, shoal_value *x);  /**< the next whole number above; no gradient */
SHOAL_API shoal_value *shoal_round(shoal_graph *g, shoal_value *x); /**< halves to even numbers; no gradient */

/* ---- comparisons, types and the graph itself */
/** Bool, elementwise. */
SHOAL_API shoal_value *shoal_equal(shoal_graph *g, shoal_value *a, shoal_value *b);
SHOAL_API shoal_value *shoal_not_equal(shoal_graph *g, shoal_value *a, shoal_value *b);  /**< bool, elementwise */
SHOAL_API shoal_value *shoal_less(shoal_graph *g, shoal_value *a, shoal_value *b);       /**< a < b, bool */
SHOAL_API shoal_value *shoal_less_equal(shoal_graph *g, shoal_value *a, shoal_value *b); /**< a <= b, bool */
SHOAL_API shoal_value *shoal_greater(shoal_graph *g, shoal_value *a, shoal_value *b);    /**< a > b, bool */
/** a >= b, bool */
SHOAL_API shoal_value *shoal_greater_equal(shoal_graph *g, shoal_value *a, shoal_value *b);
SHOAL_API shoal_value *shoal_logical_and(shoal_graph *g, shoal_value *a, shoal_value *b); /**< both; of bools */
SHOAL_API shoal_value *shoal_logical_or(shoal_graph *g, shoal_value *a, shoal_value *b);  /**< one or both; of bools */
SHOAL_API shoal_value *shoal_logical_not(shoal_graph *g, shoal_value *x);                 /**< of bools */
/** a where `condition`, a bool, holds, and b elsewhere; all three broadcast. */
SHOAL_API shoal_value *shoal_where(shoal_graph *g, shoal_value *condition, shoal_value *a, shoal_value *b);
/** x as another type; to integers, towards zero */
SHOAL_API shoal_value *shoal_cast(shoal_graph *g, shoal_value *x, shoal_dtype dtype);
SHOAL_API shoal_value *shoal_identity(shoal_graph *g, shoal_value *x); /**< x itself, as a node of its own */
/** x, but no gradient flows through. */
SHOAL_API shoal_value *shoal_stop_gradient(shoal_graph *g, shoal_value *x);

/* ---- matrices and rows */
/** The product of two matrices, each transposed first if asked for. With more than two axes the last two are those of
 * matrices, and the others broadcast: x [batch, steps, in] times w [in, out] is a dense layer on every step. */
SHOAL_API shoal_value *shoal_matmul(shoal_graph *g, shoal_value *a, shoal_value *b, bool transpose_a, bool transpose_b);
/** A sum of products by labels of axes, "bhqd,bhkd->bhqk": labels that are not in the result are summed over. One to
 * eight operands, a letter for each axis and no letter twice in one operand; "..." stands for all axes without a letter,
 * which are the same in all operands that have it; without "->" the result has them and the labels that are there once, in
 * alphabetical order. Made of transpose, reshape, reduce_sum and products of matrices. */
SHOAL_API shoal_value *shoal_einsum(shoal_graph *g, const char *equation, shoal_value *const *x, int n);
/** x [..., c] + bias [c] */
SHOAL_API shoal_value *shoal_bias_add(shoal_graph *g, shoal_value *x, shoal_value *bias);
/** Sum of the diagonal of a square matrix. */
SHOAL_API shoal_value *shoal_trace(shoal_graph *g, shoal_value *x);
/** Sum of the diagonal of a b, without the product being made; f64. */
SHOAL_API shoal_value *shoal_trace_matmul(shoal_graph *g, shoal_value *a, shoal_value *b);
/** Rows `indices` (i32 or i64, any shape) of params [rows, ...]. Its gradient is row-sparse. */
SHOAL_API shoal_value *shoal_gather(shoal_graph *g, shoal_value *params, shoal_value *indices);
/** [rows, values.dim[1..]], zero but for values[i] added to row indices[i]. */
SHOAL_API shoal_value *shoal_scatter_add(shoal_graph *g, shoal_value *indices, shoal_value *values, int64_t rows);
/** A sparse matrix [n, rows of w] times w [rows, k]: row i has entries offsets[i] .. offsets[i+1] of (indices, values)
 * (counted from offsets[0]). offsets [n+1] i64, indices [entries] i32 or i64, values [entries]. The gradient with
 * respect to w is row-sparse. */
SHOAL_API shoal_value *shoal_sparse_matmul(shoal_graph *g, shoal_value *offsets, shoal_value *indices,
                                           shoal_value *values, shoal_value *w);
/** Rows of a table [rows, width], times their values, summed up for each example (as in shoal_sparse_matmul): [n, width].
 * average: divided by the number of entries. The gradient with respect to the table is row-sparse. */
SHOAL_API shoal_value *shoal_embedding_bag(shoal_graph *g, shoal_value *offsets, shoal_value *indices,
                                           shoal_value *values, shoal_value *table, bool average);
/** The same by fields, [n, fields, width]: entry_fields, i32 or i64 [entries], has the field of each. Entries of fields
 * below first_field do not count; first_field is the first of the result. */
SHOAL_API shoal_value *shoal_embedding_bag_fields(shoal_graph *g, shoal_value *offsets, shoal_value *indices,
                                                  shoal_value *values, shoal_value *table, shoal_value *entry_fields,
                                                  int64_t fields, int64_t first_field, bool average);
/** The sum of an example's values in each of the first `fields` fields: [n, fields]. */
SHOAL_API shoal_value *shoal_field_values(shoal_graph *g, shoal_value *offsets, shoal_value *values,
                                          shoal_value *entry_fields, int64_t fields);
/** A factorization machine on sparse rows: [n, 1]. Column 0 of the table [rows, 1 + k] is a feature's weight, the others
 * are its vector; the products of all pairs of an example's vectors count, times both values. The gradient with respect
 * to the table is row-sparse. */
SHOAL_API shoal_value *shoal_factorization_machine(shoal_graph *g, shoal_value *offsets, shoal_value *indices,
                                                   shoal_value *values, shoal_value *table);

/* ---- shapes */
/** One dimension may be SHOAL_UNKNOWN: it takes what is left. */
SHOAL_API shoal_value *shoal_reshape(shoal_graph *g, shoal_value *x, shoal_shape shape);
/** [n, ...] to [n, product of the rest] */
SHOAL_API shoal_value *shoal_flatten(shoal_graph *g, shoal_value *x);
/** Axis i of the result is axis order.dim[i] of x. */
SHOAL_API shoal_value *shoal_transpose(shoal_graph *g, shoal_value *x, shoal_shape order);
/** n values one after the other along `axis`; their other dimensions are equal. */
SHOAL_API shoal_value *shoal_concat(shoal_graph *g, shoal_value *const *x, int n, int axis);
/** size -1: to the end. */
SHOAL_API shoal_value *shoal_slice(shoal_graph *g, shoal_value *x, shoal_shape start, shoal_shape size);
/** `parts` equal pieces along axis; the others by shoal_value_output. */
SHOAL_API shoal_value *shoal_split(shoal_graph *g, shoal_value *x, int parts, int axis);
/** Pieces of the given sizes, one after the other along `axis`. out: [n]. */
SHOAL_API void shoal_split_sizes(shoal_graph *g, shoal_value *x, const int64_t *sizes, int n, int axis,
                                 shoal_value **out);
/** n values of one shape side by side along a new axis. */
SHOAL_API shoal_value *shoal_stack(shoal_graph *g, shoal_value *const *x, int n, int axis);
/** The part at `index` of an axis, which goes; -1 is the last. */
SHOAL_API shoal_value *shoal_index(shoal_graph *g, shoal_value *x, int axis, int64_t index);
/** A new axis of size 1, which is `axis` of the result. */
SHOAL_API shoal_value *shoal_expand_dims(shoal_graph *g, shoal_value *x, int axis);
/** Without these axes, of size 1; rank 0: without all that are known to have size 1. */
SHOAL_API shoal_value *shoal_squeeze(shoal_graph *g, shoal_value *x, shoal_shape axes);
/** x repeated as operands of arithmetic are; -1 stands for x's own size. */
SHOAL_API shoal_value *shoal_broadcast_to(shoal_graph *g, shoal_value *x, shoal_shape shape);
/** As far as there are elements: a stop of shoal_strided_slice. */
#define SHOAL_END ((int64_t)1 << 46)
/** As start:stop:step of Python on each axis; negative starts and stops count from the end, SHOAL_END stops behind the
 * last element and, with a negative step, -SHOAL_END before the first. */
SHOAL_API shoal_value *shoal_strided_slice(shoal_graph *g, shoal_value *x, shoal_shape start, shoal_shape stop,
                                           shoal_shape step);
/** The other way round along these axes; rank 0: along all. */
SHOAL_API shoal_value *shoal_reverse(shoal_graph *g, shoal_value *x, shoal_shape axes);
/** What stands around: a number; the elements from the edge on, mirrored, without the edge or with it; the edge. */
typedef enum { SHOAL_PAD_CONSTANT, SHOAL_PAD_REFLECT, SHOAL_PAD_SYMMETRIC, SHOAL_PAD_EDGE } shoal_pad_mode;
/** Larger by before.dim[i] + after.dim[i] along axis i; `value` counts for SHOAL_PAD_CONSTANT. */
SHOAL_API shoal_value *shoal_pad(shoal_graph *g, shoal_value *x, shoal_shape before, shoal_shape after,
                                 shoal_pad_mode mode, double value);
/** x one after the other, times.dim[i] times along axis i. */
SHOAL_API shoal_value *shoal_tile(shoal_graph *g, shoal_value *x, shoal_shape times);
/** Each element times.dim[i] times along axis i: of images, nearest-neighbour up-sampling. */
SHOAL_API shoal_value *shoal_repeat(shoal_graph *g, shoal_value *x, shoal_shape times);
/** Each axis turned, so that element 0 comes to shift.dim[i]. */
SHOAL_API shoal_value *shoal_roll(shoal_graph *g, shoal_value *x, shoal_shape shift);
/** Sums from the first element of the axis on (`reverse`: from the last), each with its own element or not. */
SHOAL_API shoal_value *shoal_cumsum(shoal_graph *g, shoal_value *x, int axis, bool exclusive, bool reverse);
/** The k largest along an axis, largest first; output 1: their indices, i64. Of equal ones the first comes first, and a
 * NaN is larger than all numbers; so for the next two. */
SHOAL_API shoal_value *shoal_top_k(shoal_graph *g, shoal_value *x, int64_t k, int axis);
/** Sorted along an axis; output 1: where each element was, i64. */
SHOAL_API shoal_value *shoal_sort(shoal_graph *g, shoal_value *x, int axis, bool descending);
/** The indices that would sort it, i64. */
SHOAL_API shoal_value *shoal_argsort(shoal_graph *g, shoal_value *x, int axis, bool descending);
/** x with its index along `axis` replaced by those of `indices` (i32 or i64, any shape). Along axis 0 of large tables
 * shoal_gather is better: its gradient is row-sparse. */
SHOAL_API shoal_value *shoal_take(shoal_graph *g, shoal_value *x, shoal_value *indices, int axis);
/** The elements of x that `indices`, of x's shape but for `axis`, name along it. */
SHOAL_API shoal_value *shoal_take_along(shoal_graph *g, shoal_value *x, shoal_value *indices, int axis);
/** [indices..., depth]: `on` where the last index is the one given (i32, i64 or u8), `off` elsewhere. */
SHOAL_API shoal_value *shoal_one_hot(shoal_graph *g, shoal_value *indices, int64_t depth, double on, double off,
                                     shoal_dtype dtype);

/* ---- reductions; `axes` as a shape-like list, rank 0: all axes */
/** sums; `keep`: summed axes stay, with size 1 */
SHOAL_API shoal_value *shoal_reduce_sum(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep);
SHOAL_API shoal_value *shoal_reduce_mean(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep); /**< means */
SHOAL_API shoal_value *shoal_reduce_max(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep);  /**< maxima */
SHOAL_API shoal_value *shoal_reduce_min(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep);  /**< minima */
SHOAL_API shoal_value *shoal_reduce_prod(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep); /**< products */
/** Whether one of the bools holds. */
SHOAL_API shoal_value *shoal_reduce_any(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep);
/** Whether all of the bools hold. */
SHOAL_API shoal_value *shoal_reduce_all(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep);
/** log(sum(e^x)), without overflow. */
SHOAL_API shoal_value *shoal_reduce_log_sum_exp(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep);
/** i64; the first of several, as for the next. */
SHOAL_API shoal_value *shoal_argmin(shoal_graph *g, shoal_value *x, int axis);
/** i64 */
SHOAL_API shoal_value *shoal_argmax(shoal_graph *g, shoal_value *x, int axis);
/** sum(x^2) / 2 */
SHOAL_API shoal_value *shoal_l2_loss(shoal_graph *g, shoal_value *x);

/* ---- neural networks; images are [batch, height, width, channels] */
/** Windows that lie wholly inside the image (or inside what shoal_window pads it to), or as many as there are pixels
 * (divided by the stride), zeros around. */
typedef enum { SHOAL_VALID, SHOAL_SAME } shoal_padding;
/** filter [height, width, in, out] */
SHOAL_API shoal_value *shoal_conv2d(shoal_graph *g, shoal_value *x, shoal_value *filter, int stride,
                                    shoal_padding padding);
/** The largest of each window of size x size. */
SHOAL_API shoal_value *shoal_max_pool(shoal_graph *g, shoal_value *x, int size, int stride, shoal_padding padding);
/** The mean of each window of size x size, zeros around not counted. */
SHOAL_API shoal_value *shoal_avg_pool(shoal_graph *g, shoal_value *x, int size, int stride, shoal_padding padding);

/** How windows slide over images [batch, height, width, channels] or, by the first number of each pair, over sequences
 * [batch, length, channels]. */
typedef struct {
  int64_t size[2];       /**< pools: of the window */
  int64_t stride[2];     /**< 0: 1; of pools, as the size */
  int64_t dilation[2];   /**< convolutions: how far the taps of a filter are apart; 0: 1 */
  int64_t groups;        /**< convolutions: channels in so many groups that do not see each other; 0: 1 */
  shoal_padding padding; /**< SHOAL_SAME: the paddings below do not count */
  int64_t before[2];     /**< zeros above and left; less than the window's reach */
  int64_t after[2];      /**< zeros below and right */
  int64_t output[2];     /**< transposed convolutions: the size of the result; 0: the smallest, or by SHOAL_SAME */
  uint64_t reserved[4];  /**< 0: for fields to come */
} shoal_window;
/** filter [height, width, in / groups, out], or [length, in / groups, out] for sequences. */
SHOAL_API shoal_value *shoal_convolution(shoal_graph *g, shoal_value *x, shoal_value *filter, const shoal_window *o);
/** Each channel by itself: filter [height, width, in, times], or [length, in, times]; the result has in x times channels.
 */
SHOAL_API shoal_value *shoal_depthwise_convolution(shoal_graph *g, shoal_value *x, shoal_value *filter,
                                                   const shoal_window *o);
/** A depthwise convolution, then one of size 1 over all channels: pointwise [1, 1, in x times, out], or [1, ...]. */
SHOAL_API shoal_value *shoal_separable_convolution(shoal_graph *g, shoal_value *x, shoal_value *depthwise,
                                                   shoal_value *pointwise, const shoal_window *o);
/** The transpose of a convolution whose result has x's size: filter [height, width, out / groups, in], or
 * [length, ...]. */
SHOAL_API shoal_value *shoal_transposed_convolution(shoal_graph *g, shoal_value *x, shoal_value *filter,
                                                    const shoal_window *o);
/** The largest of each window, or its mean, zeros around not counted. */
typedef enum { SHOAL_POOL_MAX, SHOAL_POOL_AVG } shoal_pooling;
/** Pools of images or sequences, with sizes and strides by axis. */
SHOAL_API shoal_value *shoal_pool(shoal_graph *g, shoal_value *x, shoal_pooling kind, const shoal_window *o);
/** Over all places: [batch, channels]; `keep`: they stay, with size 1. */
SHOAL_API shoal_value *shoal_global_pool(shoal_graph *g, shoal_value *x, shoal_pooling kind, bool keep);
/** Images so many times as large: each pixel repeated, or interpolated. */
SHOAL_API shoal_value *shoal_upsample(shoal_graph *g, shoal_value *x, int64_t times_high, int64_t times_wide,
                                      bool bilinear);
/** Images or sequences without o->before and o->after at their edges. */
SHOAL_API shoal_value *shoal_crop(shoal_graph *g, shoal_value *x, const shoal_window *o);
/** Over the last axis. */
SHOAL_API shoal_value *shoal_softmax(shoal_graph *g, shoal_value *x);
SHOAL_API shoal_value *shoal_log_softmax(shoal_graph *g, shoal_value *x); /**< its logarithm, without loss of digits */
/** Over any axis; so for the next. */
SHOAL_API shoal_value *shoal_softmax_along(shoal_graph *g, shoal_value *x, int axis);
/** Its logarithm. */
SHOAL_API shoal_value *shoal_log_softmax_along(shoal_graph *g, shoal_value *x, int axis);
/** softmax(q k^T / sqrt(depth)) v: q [..., queries, depth], k [..., keys, depth], v [..., keys, width], the axes before
 * those broadcast. mask: bool, broadcast to [..., queries, keys], false where a query may not look; may be NULL. causal:
 * query i looks at keys up to i, counted from the last if there are more keys; both must be known. A query that may look
 * nowhere looks everywhere. */
SHOAL_API shoal_value *shoal_attention(shoal_graph *g, shoal_value *q, shoal_value *k, shoal_value *v,
                                       shoal_value *mask, bool causal);
/** Weights of shoal_multi_head_attention; biases may be NULL. */
typedef struct {
  shoal_value *q;        /**< [features, heads x depth] */
  shoal_value *k;        /**< [features, heads x depth] */
  shoal_value *v;        /**< [features, heads x width] */
  shoal_value *out;      /**< [heads x width, outputs] */
  shoal_value *q_bias;   /**< [heads x depth] */
  shoal_value *k_bias;   /**< [heads x depth] */
  shoal_value *v_bias;   /**< [heads x width] */
  shoal_value *out_bias; /**< [outputs] */
  uint64_t reserved[4];  /**< 0: for fields to come */
} shoal_attention_weights;
/** Attention by several heads at once: queries [batch, steps, features] look at keys and values
 * [batch, steps, features]. mask: bool, broadcast to [batch, heads, queries, keys]; may be NULL. */
SHOAL_API shoal_value *shoal_multi_head_attention(shoal_graph *g, shoal_value *queries, shoal_value *keys,
                                                  shoal_value *values, int heads, const shoal_attention_weights *w,
                                                  shoal_value *mask, bool causal);
/** logits [n, classes]; labels [n, classes] of the same type, or [n] of i32, i64 or u8. Loss of each row: [n]. */
SHOAL_API shoal_value *shoal_softmax_cross_entropy(shoal_graph *g, shoal_value *logits, shoal_value *labels);
/** The same for labels that are class numbers only. */
SHOAL_API shoal_value *shoal_sparse_softmax_cross_entropy(shoal_graph *g, shoal_value *logits, shoal_value *labels);
/** Elementwise: -(label log p + (1 - label) log(1 - p)), p = sigmoid(logit). */
SHOAL_API shoal_value *shoal_sigmoid_cross_entropy(shoal_graph *g, shoal_value *logits, shoal_value *labels);
/** Normally distributed numbers, new ones each step, in the shape of x, whose numbers do not count. */
SHOAL_API shoal_value *shoal_normal_like(shoal_graph *g, shoal_value *x, double mean, double stddev);
/** Keeps each element with probability `keep` and divides it by `keep`; otherwise zero. New numbers each step. */
SHOAL_API shoal_value *shoal_dropout(shoal_graph *g, shoal_value *x, double keep);
/** x / (bias + alpha * sum of squares over `radius` channels on both sides) ^ beta */
SHOAL_API shoal_value *shoal_local_response_norm(shoal_graph *g, shoal_value *x, int radius, double bias, double alpha,
                                                 double beta);
/** Over all axes but the last; statistics of the batch. Outputs: y, mean, variance. */
SHOAL_API shoal_value *shoal_batch_norm(shoal_graph *g, shoal_value *x, shoal_value *scale, shoal_value *offset,
                                        double epsilon);
/** (x - mean) / sqrt(variance + epsilon) of the elements along these axes; without `center` the mean counts as 0. */
SHOAL_API shoal_value *shoal_normalize(shoal_graph *g, shoal_value *x, shoal_shape axes, double epsilon, bool center);
/** Normalised over the last `axes` axes, times scale, plus offset; both broadcast, and may be NULL. */
SHOAL_API shoal_value *shoal_layer_norm(shoal_graph *g, shoal_value *x, int axes, shoal_value *scale,
                                        shoal_value *offset, double epsilon);
/** x / sqrt(mean(x^2) + epsilon) over the last axis, times scale, which may be NULL. */
SHOAL_API shoal_value *shoal_rms_norm(shoal_graph *g, shoal_value *x, shoal_value *scale, double epsilon);
/** [batch, ..., channels] normalised over each example's groups of neighbouring channels and all places; as many groups as
 * channels: instance norm. scale and offset, [channels], may be NULL. */
SHOAL_API shoal_value *shoal_group_norm(shoal_graph *g, shoal_value *x, int64_t groups, shoal_value *scale,
                                        shoal_value *offset, double epsilon);
/** Bilinear interpolation to another size; pixels are areas, or, with align_corners, points whose corners coincide. */
SHOAL_API shoal_value *shoal_resize_bilinear(shoal_graph *g, shoal_value *x, int64_t height, int64_t width,
                                             bool align_corners);
/** 1 where labels[i] is among the k largest of logits[i], else 0; f32 [n]. Of equal logits the one of the lower class
 * is the larger, as in NumPy's argmax; where a logit is NaN, 0. */
SHOAL_API shoal_value *shoal_in_top_k(shoal_graph *g, shoal_value *logits, shoal_value *labels, int k);

/* ---- recurrent layers over sequences [batch, steps, features] */
/** Weights and options; what may be NULL counts as zero. Gates are side by side: of an LSTM input, forget, candidate,
 * output; of a GRU update, reset, candidate. */
typedef struct {
  shoal_value *w;          /**< [features, gates x units] */
  shoal_value *u;          /**< [units, gates x units] */
  shoal_value *bias;       /**< [gates x units]; may be NULL */
  shoal_value *inner_bias; /**< GRU: added to h u, before the reset gate; may be NULL */
  shoal_value *state;      /**< [batch, units] before the first step; may be NULL */
  shoal_value *cell;       /**< LSTM: the same of the cell; may be NULL */
  shoal_value *mask;       /**< bool [batch, steps]: where false, the step leaves all as it was; may be NULL */
  bool reverse;            /**< from the last step to the first */
  bool relu;               /**< shoal_rnn: not tanh */
  uint64_t reserved[4];    /**< 0: for fields to come */
} shoal_recurrent;
/** h = tanh(x w + h u + bias); all states, [batch, steps, units]. */
SHOAL_API shoal_value *shoal_rnn(shoal_graph *g, shoal_value *x, const shoal_recurrent *r);
/** All states, [batch, steps, units]; output 1: all cells. */
SHOAL_API shoal_value *shoal_lstm(shoal_graph *g, shoal_value *x, const shoal_recurrent *r);
/** All states, [batch, steps, units]. The reset gate multiplies h u, as in cuDNN. */
SHOAL_API shoal_value *shoal_gru(shoal_graph *g, shoal_value *x, const shoal_recurrent *r);

/* ---- state and control */
/** Sets a variable; what reads it in the same run sees the value before. Its own value: the new one. */
SHOAL_API shoal_value *shoal_assign(shoal_graph *g, shoal_value *variable, shoal_value *value);
/** The same, `value` added. */
SHOAL_API shoal_value *shoal_assign_add(shoal_graph *g, shoal_value *variable, shoal_value *value);
/** Accumulators and queues are state, as variables are: each stands on one task, together with all that is done to it.
 * What is done to one in a run is done in the order in which it was built, wherever its operands are computed: a
 * dequeue waits for the enqueues built before it, and for the tasks that make their items, as long as a run may take.
 * What then cannot be done fails the run at once and says why: nobody else could make it possible. What was done before
 * stays. */
typedef struct {
  shoal_value *control; /**< NULL: making it failed */
  shoal_value *sum;     /**< NULL: making it failed */
} shoal_accumulator;
/** An accumulator of gradients of one type and shape, empty, at step 0. */
SHOAL_API shoal_accumulator shoal_accumulator_make(shoal_graph *g, const char *name, shoal_dtype dtype,
                                                   shoal_shape shape);
/** Adds a gradient that was computed with the parameters of `step`, an i64; one of an earlier step than the
 * accumulator's is counted and dropped. Its value: i64 [3], gradients held, the accumulator's step, gradients dropped
 * so far. */
SHOAL_API shoal_value *shoal_accumulate(shoal_graph *g, const shoal_accumulator *a, shoal_value *gradient,
                                        shoal_value *step);
/** The mean of what it holds, which must be `least` gradients or more. It then holds none, and its step is one more. */
SHOAL_API shoal_value *shoal_accumulator_take(shoal_graph *g, const shoal_accumulator *a, int64_t least);
/** Its step before the run, i64. */
SHOAL_API shoal_value *shoal_accumulator_step(shoal_graph *g, const shoal_accumulator *a);

/** A queue of a graph. */
typedef struct {
  shoal_value *control; /**< NULL: making it failed */
  shoal_value *items;   /**< NULL: making it failed */
} shoal_queue;
/** First in, first out; room for `capacity` items of one type and shape. */
SHOAL_API shoal_queue shoal_queue_make(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_shape item,
                                       int64_t capacity);
/** Fails when the queue is full or closed. */
SHOAL_API shoal_value *shoal_enqueue(shoal_graph *g, const shoal_queue *q, shoal_value *item);
/** The oldest item; fails when there is none. */
SHOAL_API shoal_value *shoal_dequeue(shoal_graph *g, const shoal_queue *q);
/** Nothing can be put into it any more; what is there can be taken. */
SHOAL_API shoal_value *shoal_queue_close(shoal_graph *g, const shoal_queue *q);
/** Items in it before the run, i64. */
SHOAL_API shoal_value *shoal_queue_size(shoal_graph *g, const shoal_queue *q);

/** Running it runs all of them; its value is the scalar 0. */
SHOAL_API shoal_value *shoal_group(shoal_graph *g, shoal_value *const *x, int n);
/** What a branch or a loop does: adds nodes to g, a graph of its own, and sets out [n_out]. `in` stands for the values
 * handed to the operator, in their order; values of the graph around have to be handed in. Variables are read by
 * handing them in, and cannot be changed inside. Such an operator runs on one task; devices given inside are the whole
 * operator's. */
typedef void (*shoal_function)(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out,
                               void *context);
/** One of two branches; both give n_out values of the same types and shapes. The others by shoal_value_output. */
SHOAL_API shoal_value *shoal_cond(shoal_graph *g, shoal_value *which, shoal_value *const *in, int n_in,
                                  shoal_function yes, shoal_function no, int n_out, void *context);
/** As long as `condition` (one bool) says so, the loop variables become what `body` makes of them. Both are handed the
 * variables, then what is fixed. Results: the variables in the end. After `most` rounds the run fails. The gradient
 * runs the loop a second time and keeps the variables of all rounds. */
SHOAL_API shoal_value *shoal_while(shoal_graph *g, shoal_value *const *vars, int n_vars, shoal_value *const *fixed,
                                   int n_fixed, shoal_function condition, shoal_function body, int64_t most,
                                   void *context);
/** x; fails the step with `message` when x holds a NaN or an infinity. */
SHOAL_API shoal_value *shoal_check_numerics(shoal_graph *g, shoal_value *x, const char *message);
/** x; its first elements go to the session's print sink (standard error unless set). */
SHOAL_API shoal_value *shoal_print(shoal_graph *g, shoal_value *x, const char *message);

/* ---- gradients */
/** The gradient with respect to one value. */
typedef struct {
  shoal_value *value;   /**< NULL: y does not depend on it */
  shoal_value *indices; /**< set: row-sparse, value[i] belongs to row indices[i] */
} shoal_gradient;
/** d sum(y) / d x[i] for each of n values, by adding nodes to the graph. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_gradients(shoal_graph *g, shoal_value *y, shoal_value *const *x, int n,
                                                     shoal_gradient *out);

#ifdef __cplusplus
}
#endif
#endif
