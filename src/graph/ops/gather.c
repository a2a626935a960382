/* Rows picked out of a tensor and added back into one; a sparse matrix times a dense one. */
#include "graph/ops/dot.h"
#include "graph/ops/ops.h"
#include "graph/ops/sparse.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "kernel/sparse.h"

#include <string.h>

/* Elements of one row of [rows, ...]. */
static int64_t width_of(const shoal_shape *s) { return shape_span(s, 1, s->rank); }

/* ---- gather: params [rows, ...], indices [...] -> [indices..., ...] */

static shoal_status gather_shape(op_shapes *s) {
  TRY(rule_rank_min(s, 0, 1, "params"));
  TRY(rule_index(s, 1, "indices"));
  const shoal_shape *params = &s->in[0], *indices = &s->in[1];
  if (indices->rank + params->rank - 1 > SHOAL_MAX_RANK) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "rows of params %s for indices %s would have more than %d dimensions",
                       shoal_shape_text(params, a), shoal_shape_text(indices, b), SHOAL_MAX_RANK);
  }
  s->out[0] = *indices;
  for (int i = 1; i < params->rank; i++) s->out[0].dim[s->out[0].rank++] = params->dim[i];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch gather_batch(const op_shapes *s) { return shape_is_batched(&s->in[0]) ? BATCH_WHOLE : batch_map(s); }

static shoal_status gather_kernel(const kernel_call *call) {
  const shoal_tensor *params = &call->in[0], *indices = &call->in[1];
  int64_t n = shoal_tensor_count(indices), rows = params->shape.dim[0];
  size_t row = (size_t)width_of(&params->shape) * shoal_dtype_size(params->dtype);
  int64_t before = indices->shape.rank ? call->first_row * width_of(&indices->shape) : 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t index = 0;
    TRY(index_at(indices, i, rows, before, &index));
    memcpy((char *)call->out[0].data + (size_t)i * row, (const char *)params->data + (size_t)index * row, row);
  }
  return NULL;
}

static void gather_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *params = c->in[0], *indices = c->in[1], *dy = c->dy[0];
  if (c->in[1]->shape.rank != 1) {
    shoal_shape rows = params->shape; /* [n, the rest of params] */
    rows.dim[0] = shoal_shape_count(&c->in[1]->shape);
    indices = shoal_reshape(g, indices, SHOAL_SHAPE(rows.dim[0]));
    dy = shoal_reshape(g, dy, rows);
  }
  c->dx[0] = (op_grad){dy, indices};
}

shoal_value *shoal_gather(shoal_graph *g, shoal_value *params, shoal_value *indices) {
  return GRAPH_BINARY(g, "gather", params, indices, {0});
}

/* ---- scatter_add: indices [n], values [n, ...] -> [rows, ...]; as many rows as a third input has, or as the attribute
 * says */

static shoal_status scatter_add_shape(op_shapes *s) {
  TRY(rule_index(s, 0, "indices"));
  TRY(rule_float(s, 1, "values"));
  TRY(rule_rank(s, 0, 1, "indices"));
  TRY(rule_rank_min(s, 1, 1, "values"));
  if (!dims_fit(s->in[0].dim[0], s->in[1].dim[0])) {
    char a[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "there are %lld indices for the %lld rows of values %s",
                       (long long)s->in[0].dim[0], (long long)s->in[1].dim[0], shoal_shape_text(&s->in[1], a));
  }
  if (s->ins > 2) TRY(rule_rank_min(s, 2, 1, "what is added to"));
  int64_t rows = s->ins > 2 ? s->in[2].dim[0] : s->attr[0].i;
  if (s->ins == 2 && rows < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "rows must be at least 0, not %lld", (long long)rows);
  s->out[0] = s->in[1];
  s->out[0].dim[0] = rows;
  s->out_dtype[0] = s->in_dtype[1];
  return NULL;
}

/* Both or neither are cut. */
static op_batch scatter_add_batch(const op_shapes *s) {
  if (shape_is_batched(&s->out[0])) return BATCH_WHOLE;
  return shape_is_batched(&s->in[0]) && shape_is_batched(&s->in[1]) ? BATCH_SUM : BATCH_WHOLE;
}

REAL_KERNEL(scatter_add_kernel, {
  const real *values = call->in[1].data; /* [n, width] */
  real *y = call->out[0].data;           /* [rows, width] */
  int64_t n = call->in[0].shape.dim[0];
  int64_t rows = call->out[0].shape.dim[0];
  int64_t width = width_of(&call->out[0].shape);
  if (!call->accumulate) memset(y, 0, (size_t)(rows * width) * sizeof *y);
  for (int64_t i = 0; i < n; i++) {
    int64_t index = 0;
    TRY(index_at(&call->in[0], i, rows, call->first_row, &index));
    real *restrict row = y + index * width;
    for (int64_t j = 0; j < width; j++) row[j] += values[i * width + j];
  }
  return NULL;
})

static void scatter_add_gradient(op_grad_call *c) { c->dx[1].value = shoal_gather(c->graph, c->dy[0], c->in[0]); }

shoal_value *shoal_scatter_add(shoal_graph *g, shoal_value *indices, shoal_value *values, int64_t rows) {
  return GRAPH_BINARY(g, "scatter_add", indices, values, ATTR_I(rows));
}

shoal_value *scatter_add_like(shoal_graph *g, shoal_value *indices, shoal_value *values, shoal_value *like) {
  return graph_op(g, "scatter_add", (shoal_value *[]){indices, values, like}, 3, NULL);
}

/* ---- sparse_matmul: offsets [n+1], indices [entries], values [entries], w [rows, k] -> [n, k]
 *
 * Entries are counted from offsets[0], so a piece of the rows is offsets + first with the piece's entries, not copied.
 */

static shoal_status sparse_matmul_shape(op_shapes *s) {
  TRY(check_offsets_shape(s));
  TRY(check_indices_shape(s, 1));
  TRY(rule_float(s, 2, "values"));
  TRY(rule_rank(s, 2, 1, "values"));
  TRY(rule_rank(s, 3, 2, "w"));
  if (s->in_dtype[2] != s->in_dtype[3])
    return status_make(SHOAL_ERR_ARGUMENT, "values are %s, w is %s; add a cast", shoal_dtype_name(s->in_dtype[2]),
                       shoal_dtype_name(s->in_dtype[3]));
  if (!dims_fit(s->in[1].dim[0], s->in[2].dim[0]))
    return status_make(SHOAL_ERR_ARGUMENT, "there are %lld indices and %lld values; each entry has one of both",
                       (long long)s->in[1].dim[0], (long long)s->in[2].dim[0]);
  s->out[0] = SHOAL_SHAPE(rows_of_offsets(&s->in[0]), s->in[3].dim[1]);
  s->out_dtype[0] = s->in_dtype[3];
  return NULL;
}

REAL_KERNEL(sparse_matmul_kernel, {
  const real *values = call->in[2].data; /* [entries] */
  const real *w = call->in[3].data;      /* [rows, k] */
  real *y = call->out[0].data;           /* [n, k] */
  int64_t n = call->out[0].shape.dim[0];
  int64_t k = call->out[0].shape.dim[1];
  int64_t entries = call->in[2].shape.dim[0];
  for (int64_t i = 0; i < n; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    real *restrict yi = y + i * k;
    int64_t index = 0;
    for (int64_t e = from; e < to; e++) TRY(index_at(&call->in[1], e, call->in[3].shape.dim[0], 0, &index));
    if (k == 1) { /* in the order in which the kernels for one column add */
      if (call->in[1].dtype == SHOAL_I32)
        SPARSE_DOT(real, *yi, (const int32_t *)call->in[1].data + from, values + from, w, 1, to - from);
      else
        SPARSE_DOT(real, *yi, (const int64_t *)call->in[1].data + from, values + from, w, 1, to - from);
      continue;
    }
    for (int64_t j = 0; j < k; j++) yi[j] = 0;
    for (int64_t e = from; e < to; e++) {
      index = index_get(&call->in[1], e);
      for (int64_t j = 0; j < k; j++) yi[j] += values[e] * w[index * k + j];
    }
  }
  return NULL;
})

static void sparse_matmul_gradient(op_grad_call *c) {
  shoal_value *offsets = c->in[0], *indices = c->in[1], *values = c->in[2], *w = c->in[3], *dy = c->dy[0];
  shoal_value *for_rows[] = {offsets, values, dy}, *for_values[] = {offsets, indices, w, dy};
  c->dx[3] = (op_grad){graph_op(c->graph, "sparse_matmul_grad_rows", for_rows, 3, NULL), indices};
  c->dx[2].value = graph_op(c->graph, "sparse_matmul_grad_values", for_values, 4, NULL);
}

static void sparse_matmul_cost(const op_shapes *s, double *flops) {
  *flops = 2.0 * (double)s->in[2].dim[0] * (double)s->out[0].dim[1];
}

shoal_value *shoal_sparse_matmul(shoal_graph *g, shoal_value *offsets, shoal_value *indices, shoal_value *values,
                                 shoal_value *w) {
  return graph_op(g, "sparse_matmul", (shoal_value *[]){offsets, indices, values, w}, 4, NULL);
}

/* (offsets, values, dy) -> row e is values[e] * dy[row of e, :]; zero for entries that belong to no row. */
static shoal_status grad_rows_shape(op_shapes *s) {
  TRY(check_offsets_shape(s));
  TRY(rule_float(s, 1, "values"));
  TRY(rule_rank(s, 1, 1, "values"));
  TRY(check_dy_shape(s, 2, SHOAL_UNKNOWN));
  s->out[0] = SHOAL_SHAPE(s->in[1].dim[0], s->in[2].dim[1]);
  s->out_dtype[0] = s->in_dtype[2];
  return NULL;
}

REAL_KERNEL(grad_rows_kernel, {
  const real *values = call->in[1].data; /* [entries] */
  const real *dy = call->in[2].data;     /* [n, k] */
  real *rows = call->out[0].data;        /* [entries, k] */
  int64_t n = call->in[2].shape.dim[0];
  int64_t k = call->in[2].shape.dim[1];
  int64_t entries = call->in[1].shape.dim[0];
  memset(rows, 0, (size_t)(entries * k) * sizeof *rows);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    for (int64_t e = from; e < to; e++)
      for (int64_t j = 0; j < k; j++) rows[e * k + j] = values[e] * dy[i * k + j];
  }
  return NULL;
})

/* (offsets, indices, w, dy) -> element e is w[indices[e], :] . dy[row of e, :]; zero as above. */
static shoal_status grad_values_shape(op_shapes *s) {
  TRY(check_offsets_shape(s));
  TRY(check_indices_shape(s, 1));
  TRY(rule_float(s, 2, "w"));
  TRY(rule_rank(s, 2, 2, "w"));
  TRY(check_dy_shape(s, 3, s->in[2].dim[1]));
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[2];
  return NULL;
}

REAL_KERNEL(grad_values_kernel, {
  const real *w = call->in[2].data;  /* [rows, k] */
  const real *dy = call->in[3].data; /* [n, k] */
  real *dvalues = call->out[0].data; /* [entries] */
  int64_t n = call->in[3].shape.dim[0];
  int64_t k = call->in[3].shape.dim[1];
  int64_t entries = call->in[1].shape.dim[0];
  memset(dvalues, 0, (size_t)entries * sizeof *dvalues);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    for (int64_t e = from; e < to; e++) {
      int64_t index = 0;
      TRY(index_at(&call->in[1], e, call->in[2].shape.dim[0], 0, &index));
      dvalues[e] = DOT(w + index * k, dy + i * k, k);
    }
  }
  return NULL;
})

static const char *const gather_cases[] = {"[6,3] i32[?5]<6", "[6,3,2] i64[?4,3]<6", "[7] i64[]<7",
                                           "[?6,3] i64[4]<6", "[5,1] i32[18]<5",     NULL};
static const char *const scatter_add_cases[] = {"i64[?5]<4 [?5,3] rows=4", "i32[6]<9 [6,2,2] rows=9",
                                                "i64[?20]<3 [?20] rows=3", "i64[?5]<4 [?5,3] [?4,3]",
                                                "i32[6]<7 [6] i32[7]<3",   NULL};
static const char *const sparse_matmul_cases[] = {"asc[5]<9 i64[9]<6 [9] [6,4]", "asc[2]<3 i64[3]<50 [3] [50,1]",
                                                  "asc[?18]<40 i64[?40]<30 [?40] [30,3]",
                                                  "asc[4]<60 i32[60]<90 [60] [90,1]", NULL};
static const char *const grad_rows_cases[] = {"asc[5]<9 [9] [4,3]", "asc[2]<3 [4] [1,1]", NULL};
static const char *const grad_values_cases[] = {"asc[5]<9 i64[9]<6 [6,3] [4,3]", "asc[2]<3 i32[4]<5 [5,20] [1,20]",
                                                NULL};

const op_row ops_gather[] = {
    {.name = "gather",
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = gather_shape,
     .batch = gather_batch,
     .gradient = gather_gradient,
     .kernel = gather_kernel,
     .cost = cost_zero,
     .cases = gather_cases},
    {.name = "scatter_add",
     .attrs = {{"rows", ATTR_INT, 1}},
     .ins_min = 2,
     .ins_max = 3,
     .outs = 1,
     .shape_only = 1u << 2,
     .shape = scatter_add_shape,
     .batch = scatter_add_batch,
     .gradient = scatter_add_gradient,
     .kernel = scatter_add_kernel,
     .cases = scatter_add_cases},
    {.name = "sparse_matmul",
     .ins_min = 4,
     .ins_max = 4,
     .outs = 1,
     .shape = sparse_matmul_shape,
     .gradient = sparse_matmul_gradient,
     .kernel = sparse_matmul_kernel,
     .variants = tuned_sparse_matmul,
     .cost = sparse_matmul_cost,
     .cases = sparse_matmul_cases},
    {.name = "sparse_matmul_grad_rows",
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = grad_rows_shape,
     .kernel = grad_rows_kernel,
     .cases = grad_rows_cases},
    {.name = "sparse_matmul_grad_values",
     .ins_min = 4,
     .ins_max = 4,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = grad_values_shape,
     .kernel = grad_values_kernel,
     .cases = grad_values_cases},
    {0},
};
