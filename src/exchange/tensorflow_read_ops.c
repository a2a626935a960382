/* The table of TensorFlow's operators, by what does the same here. */
#include "base/mem.h"
#include "exchange/graph_reader.h"
#include "graph/graphdef.h"

#include <math.h>
#include <string.h>

static shoal_status one(graph_reader *r, const reader_node *n, shoal_value **x) { return reader_input(r, n, 0, x); }
static shoal_status give(graph_reader *r, const reader_node *n, shoal_value *value) {
  return reader_give(r, n, 0, value);
}

static shoal_status check_axis(int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank) return reader_wrong("axis %lld of %d axes", (long long)axis, rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}
/* An axis that is an input. */
static shoal_status axis_at(const graph_reader *r, const reader_node *n, size_t i, int rank, int *out) {
  shoal_shape list;
  TRY(reader_list(r, n, i, &list));
  if (list.rank != 1) return reader_wrong("one axis is expected");
  return check_axis(list.dim[0], rank, out);
}
static shoal_status axes_at(const graph_reader *r, const reader_node *n, size_t i, int rank, shoal_shape *out) {
  TRY(reader_list(r, n, i, out));
  for (int k = 0; k < out->rank; k++) {
    int axis;
    TRY(check_axis(out->dim[k], rank, &axis));
    out->dim[k] = axis;
  }
  return NULL;
}
static shoal_status type_of(const reader_node *n, const char *name, int64_t standard, shoal_dtype *out) {
  return graphdef_read_dtype((uint64_t)reader_int_of(n, name, standard), out);
}

/* ---- numbers that are known while the graph is made: shapes, and what is computed from them */

static const reader_value *known_at(const graph_reader *r, const reader_node *n, size_t i) {
  const reader_value *v = reader_has(n, i) ? reader_find(r, n->inputs[i]) : NULL;
  return v && v->known.data && !v->value ? v : NULL;
}

/* Takes the tensor. */
static shoal_status give_known(graph_reader *r, const reader_node *n, shoal_tensor *t, bool open, bool trained) {
  TRY(reader_give_constant(r, n, t));
  reader_value *v = reader_find(r, n->outputs[0]);
  v->open = open;
  v->weight = trained;
  return NULL;
}

static shoal_status identity(graph_reader *r, const reader_node *n) {
  const reader_value *known = known_at(r, n, 0);
  shoal_value *x;
  if (known) {
    shoal_tensor copy;
    const bool open = known->open, trained = known->weight;
    TRY(shoal_tensor_create(known->known.dtype, known->known.shape, &copy));
    memcpy(copy.data, known->known.data, shoal_tensor_bytes(&copy));
    return give_known(r, n, &copy, open, trained);
  }
  TRY(one(r, n, &x));
  return give(r, n, shoal_identity(r->graph, x));
}

static shoal_status identities(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  if (n->n_inputs > n->n_outputs) return reader_wrong("at most %zu inputs are expected", n->n_outputs);
  for (size_t i = 0; i < n->n_inputs; i++) {
    TRY(reader_input(r, n, i, &x));
    TRY(reader_give(r, n, i, shoal_identity(r->graph, x)));
  }
  return NULL;
}

static shoal_status shape(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_tensor t;
  bool open = false;
  TRY(one(r, n, &x));
  TRY(shoal_tensor_create(SHOAL_I64, SHOAL_SHAPE(x->shape.rank), &t));
  for (int i = 0; i < x->shape.rank; i++) {
    shoal_tensor_set(&t, i, (double)x->shape.dim[i]);
    open = open || x->shape.dim[i] == SHOAL_UNKNOWN;
  }
  return give_known(r, n, &t, open, false);
}

static shoal_status cast(graph_reader *r, const reader_node *n) {
  shoal_dtype to;
  TRY(type_of(n, "DstT", 1, &to));
  const reader_value *known = known_at(r, n, 0);
  shoal_value *x;
  if (known) {
    shoal_tensor t;
    const bool open = known->open;
    TRY(shoal_tensor_create(to, known->known.shape, &t));
    for (int64_t i = 0; i < shoal_tensor_count(&t); i++) shoal_tensor_set(&t, i, shoal_tensor_get(&known->known, i));
    return give_known(r, n, &t, open, false);
  }
  TRY(one(r, n, &x));
  return give(r, n, shoal_cast(r->graph, x, to));
}

/* Short lists of whole numbers one after the other: `n_parts` inputs from the first on. scalars: as a list of them. */
static shoal_status join_known(graph_reader *r, const reader_node *n, size_t n_parts, bool scalars, bool *done) {
  shoal_shape all = {0}, part;
  bool open = false;
  *done = false;
  for (size_t i = 0; i < n_parts; i++) {
    const reader_value *v = known_at(r, n, i);
    const bool fits = v && (v->known.dtype == SHOAL_I32 || v->known.dtype == SHOAL_I64) &&
                      v->known.shape.rank == (scalars ? 0 : 1) && shoal_tensor_count(&v->known) <= SHOAL_MAX_RANK;
    if (!fits) return NULL;
    TRY(reader_list(r, n, i, &part));
    if (all.rank + part.rank > SHOAL_MAX_RANK) return NULL;
    memcpy(all.dim + all.rank, part.dim, (size_t)part.rank * sizeof *part.dim);
    all.rank += part.rank;
    open = open || v->open;
  }
  shoal_tensor t;
  TRY(shoal_tensor_create(SHOAL_I64, SHOAL_SHAPE(all.rank), &t));
  for (int i = 0; i < all.rank; i++) shoal_tensor_set(&t, i, (double)all.dim[i]);
  *done = true;
  return give_known(r, n, &t, open, false);
}

static bool is_list(const reader_value *v) {
  return v && (v->known.dtype == SHOAL_I32 || v->known.dtype == SHOAL_I64) && v->known.shape.rank <= 1 &&
         shoal_tensor_count(&v->known) <= SHOAL_MAX_RANK;
}

/* The same numbers in another shape: a list, or one number. */
static shoal_status reshape_known(graph_reader *r, const reader_node *n, bool list) {
  const reader_value *v = known_at(r, n, 0);
  const bool open = v->open;
  const int64_t count = shoal_tensor_count(&v->known);
  shoal_tensor t;
  TRY(shoal_tensor_create(v->known.dtype, list ? SHOAL_SHAPE(count) : SHOAL_SCALAR, &t));
  for (int64_t i = 0; i < shoal_tensor_count(&t); i++) shoal_tensor_set(&t, i, shoal_tensor_get(&v->known, i));
  return give_known(r, n, &t, open, false);
}

static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* Arithmetic with whole numbers that are known: sizes. */
static shoal_status compute_known(graph_reader *r, const reader_node *n, bool *done) {
  const reader_value *a = known_at(r, n, 0), *b = known_at(r, n, 1);
  *done = is_list(a) && is_list(b) && !a->open && !b->open;
  if (!*done) return NULL;
  const int64_t na = shoal_tensor_count(&a->known), nb = shoal_tensor_count(&b->known);
  const reader_value *longer = na >= nb ? a : b;
  shoal_tensor t;
  *done = na == nb || na == 1 || nb == 1;
  if (!*done) return NULL;
  TRY(shoal_tensor_create(SHOAL_I64, longer->known.shape, &t));
  for (int64_t i = 0; i < shoal_tensor_count(&t); i++) {
    const double x = shoal_tensor_get(&a->known, na == 1 ? 0 : i), y = shoal_tensor_get(&b->known, nb == 1 ? 0 : i);
    const bool divides = !strcmp(n->op, "FloorDiv");
    if (fabs(x) > 0x1p30 || fabs(y) > 0x1p30 || (divides && y == 0)) {
      shoal_tensor_fini(&t);
      return reader_wrong("a size of %g and %g", x, y);
    }
    shoal_tensor_set(&t, i,
                     divides                     ? (double)floor_quotient((int64_t)x, (int64_t)y)
                     : !strcmp(n->op, "Mul")     ? x * y
                     : !strcmp(n->op, "Sub")     ? x - y
                     : !strcmp(n->op, "Maximum") ? fmax(x, y)
                     : !strcmp(n->op, "Minimum") ? fmin(x, y)
                                                 : x + y);
  }
  return give_known(r, n, &t, false, false);
}

static shoal_status floor_div(graph_reader *r, const reader_node *n) {
  shoal_value *a, *b;
  bool done;
  TRY(compute_known(r, n, &done));
  if (done) return NULL;
  TRY(one(r, n, &a));
  TRY(reader_input(r, n, 1, &b));
  return give(r, n, shoal_floor(r->graph, shoal_div(r->graph, a, b)));
}

static shoal_status erfc_(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  return give(r, n, shoal_sub(r->graph, shoal_scalar(r->graph, x->dtype, 1), shoal_erf(r->graph, x)));
}

/* ---- images */

static shoal_status read_window(const reader_node *n, shoal_window *out) {
  shoal_window o = {.padding = SHOAL_VALID, .groups = 1};
  const char *format = reader_text_of(n, "data_format"), *padding = reader_text_of(n, "padding");
  const struct {
    const char *name;
    int64_t *to;
  } lists[] = {{"strides", o.stride}, {"dilations", o.dilation}, {"ksize", o.size}};
  if (format && strcmp(format, "NHWC")) return reader_wrong("data_format %s: NHWC, channels last, is expected", format);
  for (size_t i = 0; i < COUNT_OF(lists); i++) {
    const reader_attribute *a = reader_attribute_of(n, lists[i].name);
    if (!a) continue;
    if (a->n_ints != 4 || a->ints[0] != 1 || a->ints[3] != 1)
      return reader_wrong("%s: four numbers are expected, 1 of them for the batch and for channels", lists[i].name);
    memcpy(lists[i].to, a->ints + 1, 2 * sizeof(int64_t));
  }
  for (int a = 0; a < 2; a++)
    if (!o.stride[a]) o.stride[a] = 1;
  if (padding && !strcmp(padding, "SAME")) {
    o.padding = SHOAL_SAME;
  } else if (padding && !strcmp(padding, "EXPLICIT")) {
    const reader_attribute *a = reader_attribute_of(n, "explicit_paddings");
    if (!a || a->n_ints != 8) return reader_wrong("explicit_paddings: eight numbers are expected");
    for (int k = 0; k < 2; k++) {
      o.before[k] = a->ints[2 + 2 * k];
      o.after[k] = a->ints[3 + 2 * k];
    }
  } else if (padding && strcmp(padding, "VALID")) {
    return reader_wrong("unknown padding %s", padding);
  }
  *out = o;
  return NULL;
}

static shoal_status convolution(graph_reader *r, const reader_node *n) {
  shoal_value *x, *f;
  shoal_window o;
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &f));
  TRY(read_window(n, &o));
  if (x->shape.rank != 4 || f->shape.rank != 4) return reader_wrong("images and filters of four axes are expected");
  if (!strcmp(n->op, "DepthwiseConv2dNative")) return give(r, n, shoal_depthwise_convolution(r->graph, x, f, &o));
  if (f->shape.dim[2] > 0 && x->shape.dim[3] % f->shape.dim[2] == 0) o.groups = x->shape.dim[3] / f->shape.dim[2];
  return give(r, n, shoal_convolution(r->graph, x, f, &o));
}

static shoal_status transposed(graph_reader *r, const reader_node *n) {
  shoal_value *f, *x;
  shoal_window o;
  shoal_shape size;
  TRY(reader_list(r, n, 0, &size));
  TRY(reader_input(r, n, 1, &f));
  TRY(reader_input(r, n, 2, &x));
  TRY(read_window(n, &o));
  if (size.rank != 4) return reader_wrong("a size of four axes is expected");
  memcpy(o.output, size.dim + 1, sizeof o.output);
  return give(r, n, shoal_transposed_convolution(r->graph, x, f, &o));
}

static shoal_status pooling(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_window o;
  TRY(one(r, n, &x));
  TRY(read_window(n, &o));
  if (x->shape.rank != 4) return reader_wrong("images of four axes are expected");
  return give(r, n, shoal_pool(r->graph, x, !strcmp(n->op, "MaxPool") ? SHOAL_POOL_MAX : SHOAL_POOL_AVG, &o));
}

/* gamma (x - mean) / sqrt(variance + epsilon) + beta, as one product and one sum for each element */
static shoal_status batch_norm(graph_reader *r, const reader_node *n) {
  shoal_graph *g = r->graph;
  shoal_value *x, *gamma, *beta, *mean, *variance;
  const char *format = reader_text_of(n, "data_format");
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &gamma));
  TRY(reader_input(r, n, 2, &beta));
  if (reader_int_of(n, "is_training", 1) || (format && strcmp(format, "NHWC")))
    return reader_wrong("is_training must be false, data_format NHWC: freeze the model for inference");
  TRY(reader_fixed_input(r, n, 3, &mean));
  TRY(reader_fixed_input(r, n, 4, &variance));
  const double epsilon = reader_float_of(n, "epsilon", 1e-4);
  shoal_value *factor = shoal_div(g, gamma, shoal_sqrt(g, shoal_add(g, variance, shoal_scalar(g, SHOAL_F32, epsilon))));
  shoal_value *shift = shoal_sub(g, beta, shoal_mul(g, mean, factor));
  return give(r, n, shoal_add(g, shoal_mul(g, x, factor), shift));
}

static shoal_status lrn(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  const int64_t radius = reader_int_of(n, "depth_radius", 5);
  TRY(one(r, n, &x));
  if (radius < 0 || radius > 1 << 20) return reader_wrong("depth_radius is %lld", (long long)radius);
  return give(r, n,
              shoal_local_response_norm(r->graph, x, (int)radius, reader_float_of(n, "bias", 1),
                                        reader_float_of(n, "alpha", 1), reader_float_of(n, "beta", 0.5)));
}

static shoal_status resize(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape size;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &size));
  const bool corners = reader_int_of(n, "align_corners", 0), halves = reader_int_of(n, "half_pixel_centers", 0);
  if (x->shape.rank != 4 || size.rank != 2 || size.dim[0] < 1 || size.dim[1] < 1)
    return reader_wrong("images and two sizes are expected");
  if (!strcmp(n->op, "ResizeBilinear")) {
    if (!corners && !halves) return reader_wrong("half_pixel_centers or align_corners is expected");
    return give(r, n, shoal_resize_bilinear(r->graph, x, size.dim[0], size.dim[1], corners));
  }
  const int64_t high = x->shape.dim[1], wide = x->shape.dim[2];
  if (corners || high < 1 || wide < 1 || size.dim[0] % high || size.dim[1] % wide)
    return reader_wrong("images become a whole number of times as large, not more");
  return give(r, n, shoal_repeat(r->graph, x, SHOAL_SHAPE(1, size.dim[0] / high, size.dim[1] / wide, 1)));
}

/* ---- element by element */

static shoal_status leaky_relu(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  return give(r, n, shoal_leaky_relu(r->graph, x, reader_float_of(n, "alpha", 0.2)));
}
static shoal_status elu(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  return give(r, n, shoal_elu(r->graph, x, 1));
}
static shoal_status clip(graph_reader *r, const reader_node *n) {
  shoal_value *x, *low, *high;
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &low));
  TRY(reader_input(r, n, 2, &high));
  return give(r, n, shoal_minimum(r->graph, shoal_maximum(r->graph, x, low), high));
}
static shoal_status add_n(graph_reader *r, const reader_node *n) {
  shoal_value *y, *next;
  TRY(one(r, n, &y));
  for (size_t i = 1; i < n->n_inputs; i++) {
    TRY(reader_input(r, n, i, &next));
    y = shoal_add(r->graph, y, next);
  }
  return give(r, n, y);
}
static shoal_status squared_difference(graph_reader *r, const reader_node *n) {
  shoal_value *a, *b;
  TRY(one(r, n, &a));
  TRY(reader_input(r, n, 1, &b));
  return give(r, n, shoal_square(r->graph, shoal_sub(r->graph, a, b)));
}
static shoal_status select_(graph_reader *r, const reader_node *n) {
  shoal_value *c, *a, *b;
  TRY(one(r, n, &c));
  TRY(reader_input(r, n, 1, &a));
  TRY(reader_input(r, n, 2, &b));
  if (!strcmp(n->op, "Select") && c->shape.rank != a->shape.rank)
    return reader_wrong("a condition of another number of axes is not supported");
  return give(r, n, shoal_where(r->graph, c, a, b));
}
static shoal_status filled_like(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  return give(r, n, shoal_fill_like(r->graph, x, !strcmp(n->op, "OnesLike")));
}

/* ---- products */

static shoal_status matmul(graph_reader *r, const reader_node *n) {
  shoal_value *a, *b;
  const bool batched = *n->op == 'B';
  TRY(one(r, n, &a));
  TRY(reader_input(r, n, 1, &b));
  return give(r, n,
              shoal_matmul(r->graph, a, b, reader_int_of(n, batched ? "adj_x" : "transpose_a", 0) != 0,
                           reader_int_of(n, batched ? "adj_y" : "transpose_b", 0) != 0));
}
static shoal_status bias_add(graph_reader *r, const reader_node *n) {
  shoal_value *x, *bias;
  const char *format = reader_text_of(n, "data_format");
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &bias));
  if (format && strcmp(format, "NHWC")) return reader_wrong("data_format %s: NHWC is expected", format);
  return give(r, n, shoal_bias_add(r->graph, x, bias));
}
static shoal_status einsum(graph_reader *r, const reader_node *n) {
  shoal_value *x[8];
  const char *equation = reader_text_of(n, "equation");
  if (!equation || n->n_inputs < 1 || n->n_inputs > COUNT_OF(x) || strchr(equation, '.'))
    return reader_wrong("an equation of letters and one to eight inputs are expected");
  for (size_t i = 0; i < n->n_inputs; i++) TRY(reader_input(r, n, i, &x[i]));
  return give(r, n, shoal_einsum(r->graph, equation, x, (int)n->n_inputs));
}

/* ---- rows by index, shapes */

static shoal_status gather(graph_reader *r, const reader_node *n) {
  shoal_value *x, *at;
  int axis = 0;
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &at));
  if (reader_has(n, 2)) TRY(axis_at(r, n, 2, x->shape.rank, &axis));
  if (reader_int_of(n, "batch_dims", 0)) return reader_wrong("batch_dims must be 0");
  const reader_value *known = reader_find(r, n->inputs[1]);
  if (known->known.data && known->known.shape.rank == 0)
    return give(r, n, shoal_index(r->graph, x, axis, (int64_t)shoal_tensor_get(&known->known, 0)));
  return give(r, n, axis ? shoal_take(r->graph, x, at, axis) : shoal_gather(r->graph, x, at));
}
static shoal_status one_hot(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape depth;
  const shoal_tensor *on, *off;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &depth));
  TRY(reader_numbers(r, n, 2, &on));
  TRY(reader_numbers(r, n, 3, &off));
  if (reader_int_of(n, "axis", -1) != -1 || depth.rank != 1 || shoal_tensor_count(on) != 1 ||
      shoal_tensor_count(off) != 1)
    return reader_wrong("only the last axis is supported");
  return give(r, n,
              shoal_one_hot(r->graph, x, depth.dim[0], shoal_tensor_get(on, 0), shoal_tensor_get(off, 0), on->dtype));
}
static shoal_status reshape(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape to;
  TRY(reader_list(r, n, 1, &to));
  if (is_list(known_at(r, n, 0)) && to.rank <= 1) return reshape_known(r, n, to.rank == 1);
  TRY(one(r, n, &x));
  bool open = false;
  for (int i = 0; i < to.rank; i++) open = open || to.dim[i] == -1;
  /* A batch of one that was written down is a batch of any size. */
  if (!open && to.rank && x->shape.rank && x->shape.dim[0] == SHOAL_UNKNOWN) to.dim[0] = SHOAL_UNKNOWN;
  return give(r, n, shoal_reshape(r->graph, x, to));
}
static shoal_status expand_dims(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  int axis;
  const reader_value *known = known_at(r, n, 0);
  if (is_list(known) && !known->known.shape.rank) return reshape_known(r, n, true);
  TRY(one(r, n, &x));
  TRY(axis_at(r, n, 1, x->shape.rank + 1, &axis));
  return give(r, n, shoal_expand_dims(r->graph, x, axis));
}
static shoal_status squeeze(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape axes = SHOAL_SCALAR;
  TRY(one(r, n, &x));
  if (!reader_list_of(n, "squeeze_dims", &axes)) reader_list_of(n, "axis", &axes);
  for (int i = 0; i < axes.rank; i++) {
    int axis;
    TRY(check_axis(axes.dim[i], x->shape.rank, &axis));
    axes.dim[i] = axis;
  }
  return give(r, n, shoal_squeeze(r->graph, x, axes));
}
static shoal_status transpose(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape order;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &order));
  return give(r, n, shoal_transpose(r->graph, x, order));
}
static shoal_status concat(graph_reader *r, const reader_node *n) {
  if (n->n_inputs < 2) return reader_wrong("it has no inputs");
  const size_t parts = n->n_inputs - 1;
  bool done;
  TRY(join_known(r, n, parts, false, &done));
  if (done) return NULL;
  shoal_value **all = calloc(parts, sizeof *all);
  shoal_status status = all ? NULL : status_no_memory();
  int axis;
  for (size_t i = 0; i < parts && !status; i++) status = reader_input(r, n, i, &all[i]);
  if (!status) status = axis_at(r, n, parts, all[0]->shape.rank, &axis);
  if (!status) status = give(r, n, shoal_concat(r->graph, all, (int)parts, axis));
  free(all);
  return status;
}
static shoal_status pack(graph_reader *r, const reader_node *n) {
  if (n->n_inputs < 1) return reader_wrong("it has no inputs");
  bool done;
  TRY(join_known(r, n, n->n_inputs, true, &done));
  if (done) return NULL;
  shoal_value **all = calloc(n->n_inputs, sizeof *all);
  shoal_status status = all ? NULL : status_no_memory();
  int axis;
  for (size_t i = 0; i < n->n_inputs && !status; i++) status = reader_input(r, n, i, &all[i]);
  if (!status) status = check_axis(reader_int_of(n, "axis", 0), all[0]->shape.rank + 1, &axis);
  if (!status) status = give(r, n, shoal_stack(r->graph, all, (int)n->n_inputs, axis));
  free(all);
  return status;
}
static shoal_status unpack(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  int axis;
  const int64_t parts = reader_int_of(n, "num", 0);
  TRY(one(r, n, &x));
  TRY(check_axis(reader_int_of(n, "axis", 0), x->shape.rank, &axis));
  if (parts < 1 || parts > (int64_t)n->n_outputs) return reader_wrong("1 to %zu parts are expected", n->n_outputs);
  for (int64_t i = 0; i < parts; i++) TRY(reader_give(r, n, (size_t)i, shoal_index(r->graph, x, axis, i)));
  return NULL;
}
static shoal_status split(graph_reader *r, const reader_node *n) {
  const bool sizes = !strcmp(n->op, "SplitV");
  shoal_value *x, *out[OP_MAX_OUTPUTS];
  shoal_shape list = {0};
  int axis;
  TRY(reader_input(r, n, sizes ? 0 : 1, &x));
  TRY(axis_at(r, n, sizes ? 2 : 0, x->shape.rank, &axis));
  if (sizes) TRY(reader_list(r, n, 1, &list));
  const int64_t parts = sizes ? list.rank : reader_int_of(n, "num_split", 0);
  if (parts < 1 || parts > OP_MAX_OUTPUTS) return reader_wrong("1 to %d parts are expected", OP_MAX_OUTPUTS);
  if (sizes) {
    shoal_split_sizes(r->graph, x, list.dim, list.rank, axis, out);
  } else {
    shoal_value *first = shoal_split(r->graph, x, (int)parts, axis);
    for (int64_t i = 0; i < parts; i++) out[i] = first ? shoal_value_output(first, (int)i) : NULL;
  }
  TRY(shoal_graph_status(r->graph));
  for (int64_t i = 0; i < parts; i++) TRY(reader_give(r, n, (size_t)i, out[i]));
  return NULL;
}
static shoal_status slice(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape start, size;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &start));
  TRY(reader_list(r, n, 2, &size));
  return give(r, n, shoal_slice(r->graph, x, start, size));
}

static int64_t limited(int64_t at) { return at > SHOAL_END ? SHOAL_END : at < -SHOAL_END ? -SHOAL_END : at; }

/* Of a list that is known: numbers of it, or one. */
static shoal_status slice_known(graph_reader *r, const reader_node *n, const reader_value *v, int64_t from, int64_t to,
                                int64_t step, bool shrink) {
  const int64_t count = shoal_tensor_count(&v->known);
  int64_t numbers[SHOAL_MAX_RANK], got = 0;
  bool open = false;
  if (v->known.shape.rank != 1 || count > SHOAL_MAX_RANK || step < 1)
    return reader_wrong("of a list at most %d numbers, forwards, are expected", SHOAL_MAX_RANK);
  from = from < 0 ? MAX_OF(from + count, 0) : MIN_OF(from, count);
  to = shrink ? from + 1 : to < 0 ? to + count : MIN_OF(to, count);
  if (shrink && from >= count) return reader_wrong("number %lld of %lld", (long long)from, (long long)count);
  for (int64_t i = from; i < to; i += step) {
    numbers[got++] = (int64_t)shoal_tensor_get(&v->known, i);
    open = open || (v->open && numbers[got - 1] == -1);
  }
  shoal_tensor t;
  TRY(shoal_tensor_create(SHOAL_I64, shrink ? SHOAL_SCALAR : SHOAL_SHAPE(got), &t));
  for (int64_t i = 0; i < got; i++) shoal_tensor_set(&t, i, (double)numbers[i]);
  return give_known(r, n, &t, open, false);
}

static shoal_status strided_slice(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape start, stop, step;
  const reader_value *known = known_at(r, n, 0);
  const int64_t first = reader_int_of(n, "begin_mask", 0), last = reader_int_of(n, "end_mask", 0),
                shrink = reader_int_of(n, "shrink_axis_mask", 0);
  TRY(reader_list(r, n, 1, &start));
  TRY(reader_list(r, n, 2, &stop));
  TRY(reader_list(r, n, 3, &step));
  if (reader_int_of(n, "ellipsis_mask", 0) || reader_int_of(n, "new_axis_mask", 0))
    return reader_wrong("ellipsis_mask and new_axis_mask are not supported");
  if (start.rank != stop.rank || start.rank != step.rank)
    return reader_wrong("begins, ends and strides of different lengths");
  for (int i = 0; i < start.rank; i++) {
    if (!step.dim[i]) return reader_wrong("a stride of 0");
    const bool forwards = step.dim[i] > 0;
    start.dim[i] = limited(first >> i & 1 ? (forwards ? 0 : SHOAL_END) : start.dim[i]);
    stop.dim[i] = limited(last >> i & 1 ? (forwards ? SHOAL_END : -SHOAL_END) : stop.dim[i]);
    if (shrink >> i & 1) stop.dim[i] = start.dim[i] == -1 ? SHOAL_END : start.dim[i] + 1;
  }
  if (known && known->known.dtype != SHOAL_F32 && start.rank == 1)
    return slice_known(r, n, known, start.dim[0], stop.dim[0], step.dim[0], shrink & 1);
  TRY(one(r, n, &x));
  if (start.rank > x->shape.rank) return reader_wrong("more axes than the %d of its input", x->shape.rank);
  shoal_shape gone = {0};
  for (int i = 0; i < x->shape.rank; i++) {
    if (i >= start.rank) {
      start.dim[i] = 0;
      stop.dim[i] = SHOAL_END;
      step.dim[i] = 1;
    }
    if (i < start.rank && shrink >> i & 1) gone.dim[gone.rank++] = i;
  }
  start.rank = stop.rank = step.rank = x->shape.rank;
  shoal_value *y = shoal_strided_slice(r->graph, x, start, stop, step);
  return give(r, n, gone.rank ? shoal_squeeze(r->graph, y, gone) : y);
}

static shoal_status pad(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  const shoal_tensor *t, *number;
  const char *mode = reader_text_of(n, "mode");
  double value = 0;
  TRY(one(r, n, &x));
  TRY(reader_numbers(r, n, 1, &t));
  shoal_shape before = {.rank = x->shape.rank}, after = before;
  if (shoal_tensor_count(t) != 2 * before.rank) return reader_wrong("paddings for each axis are expected");
  for (int i = 0; i < before.rank; i++) {
    before.dim[i] = (int64_t)shoal_tensor_get(t, 2 * i);
    after.dim[i] = (int64_t)shoal_tensor_get(t, 2 * i + 1);
  }
  if (reader_has(n, 2)) {
    TRY(reader_numbers(r, n, 2, &number));
    value = shoal_tensor_count(number) ? shoal_tensor_get(number, 0) : 0;
  }
  const shoal_pad_mode how = strcmp(n->op, "MirrorPad")           ? SHOAL_PAD_CONSTANT
                             : mode && !strcmp(mode, "SYMMETRIC") ? SHOAL_PAD_SYMMETRIC
                                                                  : SHOAL_PAD_REFLECT;
  return give(r, n, shoal_pad(r->graph, x, before, after, how, value));
}
static shoal_status tile(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape times;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &times));
  return give(r, n, shoal_tile(r->graph, x, times));
}
static shoal_status broadcast_to(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape to;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &to));
  return give(r, n, shoal_broadcast_to(r->graph, x, to));
}
static shoal_status fill(graph_reader *r, const reader_node *n) {
  shoal_shape to;
  const shoal_tensor *value;
  TRY(reader_list(r, n, 0, &to));
  TRY(reader_numbers(r, n, 1, &value));
  if (shoal_tensor_count(value) != 1) return reader_wrong("one number is expected");
  const double number = shoal_tensor_get(value, 0);
  if (!to.rank || to.dim[0] != SHOAL_UNKNOWN) return give(r, n, shoal_fill(r->graph, value->dtype, to, number));
  /* A row for each row of the first input: its rows, as zeros, and one row of the numbers. */
  shoal_value *rows_of = r->network->inputs.n ? r->network->inputs.list[0].value : NULL;
  shoal_shape all = {0}, column = to;
  if (!rows_of) return reader_wrong("as many rows as the inputs have are expected, but there are none");
  for (int i = 1; i < rows_of->shape.rank; i++) all.dim[all.rank++] = i;
  for (int i = 1; i < column.rank; i++) column.dim[i] = 1;
  shoal_value *zeros = shoal_cast(r->graph, rows_of, value->dtype);
  if (all.rank) zeros = shoal_reduce_sum(r->graph, zeros, all, false);
  zeros = shoal_reshape(r->graph, shoal_fill_like(r->graph, zeros, 0), column);
  to.dim[0] = 1;
  return give(r, n, shoal_add(r->graph, zeros, shoal_fill(r->graph, value->dtype, to, number)));
}

/* ---- along axes */

static shoal_status reduce(graph_reader *r, const reader_node *n) {
  static const struct {
    const char *op;
    shoal_value *(*make)(shoal_graph *, shoal_value *, shoal_shape, bool);
  } kinds[] = {{"Sum", shoal_reduce_sum}, {"Mean", shoal_reduce_mean}, {"Max", shoal_reduce_max},
               {"Min", shoal_reduce_min}, {"Prod", shoal_reduce_prod}, {"Any", shoal_reduce_any},
               {"All", shoal_reduce_all}};
  shoal_value *x;
  shoal_shape axes;
  TRY(one(r, n, &x));
  TRY(axes_at(r, n, 1, x->shape.rank, &axes));
  if (!axes.rank) return give(r, n, shoal_identity(r->graph, x)); /* none, not all */
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (!strcmp(kinds[i].op, n->op))
      return give(r, n, kinds[i].make(r->graph, x, axes, reader_int_of(n, "keep_dims", 0) != 0));
  return reader_wrong("it is not supported");
}
static shoal_status arg_max(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_dtype to;
  int axis;
  TRY(one(r, n, &x));
  TRY(axis_at(r, n, 1, x->shape.rank, &axis));
  TRY(type_of(n, "output_type", 9, &to));
  shoal_value *y = shoal_argmax(r->graph, x, axis);
  return give(r, n, y && y->dtype != to ? shoal_cast(r->graph, y, to) : y);
}
static shoal_status cumsum(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  int axis;
  TRY(one(r, n, &x));
  TRY(axis_at(r, n, 1, x->shape.rank, &axis));
  return give(
      r, n,
      shoal_cumsum(r->graph, x, axis, reader_int_of(n, "exclusive", 0) != 0, reader_int_of(n, "reverse", 0) != 0));
}
static shoal_status top_k(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape k;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &k));
  if (k.rank != 1) return reader_wrong("one number is expected");
  shoal_value *y = shoal_top_k(r->graph, x, k.dim[0], x->shape.rank - 1);
  TRY(give(r, n, y));
  return reader_give(r, n, 1, y ? shoal_cast(r->graph, shoal_value_output(y, 1), SHOAL_I32) : NULL);
}

/* ---- the table */

static const struct {
  const char *op;
  shoal_value *(*unary)(shoal_graph *, shoal_value *);
  shoal_value *(*binary)(shoal_graph *, shoal_value *, shoal_value *);
  shoal_status (*read)(graph_reader *r, const reader_node *n);
} rows[] = {
    {"Add", NULL, shoal_add, NULL},
    {"AddV2", NULL, shoal_add, NULL},
    {"Sub", NULL, shoal_sub, NULL},
    {"Mul", NULL, shoal_mul, NULL},
    {"RealDiv", NULL, shoal_div, NULL},
    {"Div", NULL, shoal_div, NULL},
    {"Pow", NULL, shoal_pow, NULL},
    {"Maximum", NULL, shoal_maximum, NULL},
    {"Minimum", NULL, shoal_minimum, NULL},
    {"Equal", NULL, shoal_equal, NULL},
    {"NotEqual", NULL, shoal_not_equal, NULL},
    {"Less", NULL, shoal_less, NULL},
    {"LessEqual", NULL, shoal_less_equal, NULL},
    {"Greater", NULL, shoal_greater, NULL},
    {"GreaterEqual", NULL, shoal_greater_equal, NULL},
    {"LogicalAnd", NULL, shoal_logical_and, NULL},
    {"LogicalOr", NULL, shoal_logical_or, NULL},
    {"LogicalNot", shoal_logical_not, NULL, NULL},
    {"Neg", shoal_neg, NULL, NULL},
    {"Exp", shoal_exp, NULL, NULL},
    {"Expm1", shoal_expm1, NULL, NULL},
    {"Log", shoal_log, NULL, NULL},
    {"Log1p", shoal_log1p, NULL, NULL},
    {"Sqrt", shoal_sqrt, NULL, NULL},
    {"Rsqrt", shoal_rsqrt, NULL, NULL},
    {"Square", shoal_square, NULL, NULL},
    {"Abs", shoal_abs, NULL, NULL},
    {"Sign", shoal_sign, NULL, NULL},
    {"Relu", shoal_relu, NULL, NULL},
    {"Relu6", shoal_relu6, NULL, NULL},
    {"Tanh", shoal_tanh, NULL, NULL},
    {"Sigmoid", shoal_sigmoid, NULL, NULL},
    {"Erf", shoal_erf, NULL, NULL},
    {"Sin", shoal_sin, NULL, NULL},
    {"Cos", shoal_cos, NULL, NULL},
    {"Tan", shoal_tan, NULL, NULL},
    {"Atan", shoal_atan, NULL, NULL},
    {"Reciprocal", shoal_reciprocal, NULL, NULL},
    {"Inv", shoal_reciprocal, NULL, NULL},
    {"Floor", shoal_floor, NULL, NULL},
    {"Ceil", shoal_ceil, NULL, NULL},
    {"Round", shoal_round, NULL, NULL},
    {"Rint", shoal_round, NULL, NULL},
    {"Selu", shoal_selu, NULL, NULL},
    {"Softplus", shoal_softplus, NULL, NULL},
    {"Softsign", shoal_softsign, NULL, NULL},
    {"Softmax", shoal_softmax, NULL, NULL},
    {"LogSoftmax", shoal_log_softmax, NULL, NULL},
    {"Identity", NULL, NULL, identity},
    {"IdentityN", NULL, NULL, identities},
    {"StopGradient", NULL, NULL, identity},
    {"PreventGradient", NULL, NULL, identity},
    {"CheckNumerics", NULL, NULL, identity},
    {"Snapshot", NULL, NULL, identity},
    {"EnsureShape", NULL, NULL, identity},
    {"PlaceholderWithDefault", NULL, NULL, identity},
    {"Shape", NULL, NULL, shape},
    {"Cast", NULL, NULL, cast},
    {"Erfc", NULL, NULL, erfc_},
    {"FloorDiv", NULL, NULL, floor_div},
    {"Elu", NULL, NULL, elu},
    {"LeakyRelu", NULL, NULL, leaky_relu},
    {"ClipByValue", NULL, NULL, clip},
    {"AddN", NULL, NULL, add_n},
    {"SquaredDifference", NULL, NULL, squared_difference},
    {"Select", NULL, NULL, select_},
    {"SelectV2", NULL, NULL, select_},
    {"ZerosLike", NULL, NULL, filled_like},
    {"OnesLike", NULL, NULL, filled_like},
    {"MatMul", NULL, NULL, matmul},
    {"BatchMatMul", NULL, NULL, matmul},
    {"BatchMatMulV2", NULL, NULL, matmul},
    {"BatchMatMulV3", NULL, NULL, matmul},
    {"BiasAdd", NULL, NULL, bias_add},
    {"Einsum", NULL, NULL, einsum},
    {"GatherV2", NULL, NULL, gather},
    {"Gather", NULL, NULL, gather},
    {"OneHot", NULL, NULL, one_hot},
    {"Reshape", NULL, NULL, reshape},
    {"ExpandDims", NULL, NULL, expand_dims},
    {"Squeeze", NULL, NULL, squeeze},
    {"Transpose", NULL, NULL, transpose},
    {"ConcatV2", NULL, NULL, concat},
    {"Pack", NULL, NULL, pack},
    {"Unpack", NULL, NULL, unpack},
    {"Split", NULL, NULL, split},
    {"SplitV", NULL, NULL, split},
    {"Slice", NULL, NULL, slice},
    {"StridedSlice", NULL, NULL, strided_slice},
    {"Pad", NULL, NULL, pad},
    {"PadV2", NULL, NULL, pad},
    {"MirrorPad", NULL, NULL, pad},
    {"Tile", NULL, NULL, tile},
    {"BroadcastTo", NULL, NULL, broadcast_to},
    {"Fill", NULL, NULL, fill},
    {"Sum", NULL, NULL, reduce},
    {"Mean", NULL, NULL, reduce},
    {"Max", NULL, NULL, reduce},
    {"Min", NULL, NULL, reduce},
    {"Prod", NULL, NULL, reduce},
    {"Any", NULL, NULL, reduce},
    {"All", NULL, NULL, reduce},
    {"ArgMax", NULL, NULL, arg_max},
    {"Cumsum", NULL, NULL, cumsum},
    {"TopKV2", NULL, NULL, top_k},
    {"Conv2D", NULL, NULL, convolution},
    {"DepthwiseConv2dNative", NULL, NULL, convolution},
    {"Conv2DBackpropInput", NULL, NULL, transposed},
    {"MaxPool", NULL, NULL, pooling},
    {"AvgPool", NULL, NULL, pooling},
    {"FusedBatchNorm", NULL, NULL, batch_norm},
    {"FusedBatchNormV2", NULL, NULL, batch_norm},
    {"FusedBatchNormV3", NULL, NULL, batch_norm},
    {"LRN", NULL, NULL, lrn},
    {"ResizeBilinear", NULL, NULL, resize},
    {"ResizeNearestNeighbor", NULL, NULL, resize},
};

/* Operators that sizes are computed with. */
static bool sizes_alone(const char *op) {
  static const char *const names[] = {"Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum"};
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (!strcmp(op, names[i])) return true;
  return false;
}

/* What to do about operators that are met often and are not read. */
static const char *advice(const char *op) {
  static const char *const variables[] = {"VarHandleOp", "ReadVariableOp", "VariableV2", "Variable"};
  static const char *const calls[] = {"PartitionedCall", "StatefulPartitionedCall", "If",    "While",
                                      "StatelessIf",     "StatelessWhile",          "Enter", "Switch"};
  for (size_t i = 0; i < COUNT_OF(variables); i++)
    if (!strcmp(op, variables[i]))
      return "the graph has variables: freeze it first (convert_variables_to_constants_v2)";
  for (size_t i = 0; i < COUNT_OF(calls); i++)
    if (!strcmp(op, calls[i]))
      return "functions, branches and loops are not read: freeze the model with functions inlined, recurrent layers "
             "unrolled, or save it as .keras or .onnx";
  return "the operator is not supported; docs/exchange.md lists those that are. Save the model as .keras or .onnx, or "
         "leave the node out when freezing it";
}

shoal_status tensorflow_read_node(graph_reader *r, const reader_node *n) {
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (strcmp(rows[i].op, n->op)) continue;
    if (rows[i].read) return rows[i].read(r, n);
    bool done = false;
    if (sizes_alone(n->op)) TRY(compute_known(r, n, &done));
    if (done) return NULL;
    shoal_value *a, *b;
    TRY(one(r, n, &a));
    if (rows[i].unary) return give(r, n, rows[i].unary(r->graph, a));
    TRY(reader_input(r, n, 1, &b));
    return give(r, n, rows[i].binary(r->graph, a, b));
  }
  return reader_wrong("%s", advice(n->op));
}
