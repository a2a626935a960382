/* Tables of embeddings on sparse rows: rows of a table pooled by example, or by field of an example; factorization
 * machines. Gradients with respect to a table are row-sparse: one row for each entry.
 *
 * Where entries have fields (numbers from 0 on), those from `first` to `first` + `fields` are meant; fields below `first`
 * are passed over, larger ones are refused. */
#include "graph/ops/ops.h"
#include "graph/ops/sparse.h"
#include "graph/ops/tuned.h"
#include "kernel/table.h"

#include <string.h>

/* An operator's attributes. */
enum { FIELDS, FIRST, MEAN };
#define BAG_ATTRS \
  {"fields", ATTR_INT, 0}, {"first", ATTR_INT, 0}, { "mean", ATTR_BOOL, 0 }

/* Fields that there are, 1 where entries have none. */
static int64_t fields_of(const attr_value *attr) { return attr[FIELDS].i > 0 ? attr[FIELDS].i : 1; }

/* Entries, with a value and, if input `at` is there, a field each. */
static shoal_status check_entries(const op_shapes *s, int values, int at) {
  TRY(check_offsets_shape(s));
  TRY(rule_float(s, values, "values"));
  TRY(rule_rank(s, values, 1, "values"));
  const bool has = s->ins > at;
  if (s->attr[FIELDS].i < 0 || s->attr[FIRST].i < 0 || has != (s->attr[FIELDS].i > 0))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%lld fields from %lld on: entries with fields need at least one, others none",
                       (long long)s->attr[FIELDS].i, (long long)s->attr[FIRST].i);
  if (!has) return NULL;
  TRY(check_indices_shape(s, at));
  if (!dims_fit(s->in[at].dim[0], s->in[values].dim[0]))
    return status_make(SHOAL_ERR_ARGUMENT, "there are %lld fields and %lld values; each entry has one of both",
                       (long long)s->in[at].dim[0], (long long)s->in[values].dim[0]);
  return NULL;
}

static shoal_status check_table(const op_shapes *s, int indices, int values, int table) {
  TRY(check_indices_shape(s, indices));
  TRY(rule_float(s, table, "the table"));
  TRY(rule_rank(s, table, 2, "the table"));
  if (s->in_dtype[values] != s->in_dtype[table])
    return status_make(SHOAL_ERR_ARGUMENT, "values are %s, the table is %s; add a cast",
                       shoal_dtype_name(s->in_dtype[values]), shoal_dtype_name(s->in_dtype[table]));
  if (!dims_fit(s->in[indices].dim[0], s->in[values].dim[0]))
    return status_make(SHOAL_ERR_ARGUMENT, "there are %lld indices and %lld values; each entry has one of both",
                       (long long)s->in[indices].dim[0], (long long)s->in[values].dim[0]);
  return NULL;
}

/* [rows, width], or by fields [rows, fields, width]. */
static shoal_shape bag_of(const op_shapes *s, int64_t width) {
  const int64_t rows = rows_of_offsets(&s->in[0]);
  return s->attr[FIELDS].i ? SHOAL_SHAPE(rows, s->attr[FIELDS].i, width) : SHOAL_SHAPE(rows, width);
}

static shoal_status check_bag_gradient(const op_shapes *s, int dy, int64_t width) {
  const shoal_shape expected = bag_of(s, width);
  if (shapes_fit(&s->in[dy], &expected)) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "dy is %s; %s is expected", shoal_shape_text(&s->in[dy], a),
                     shoal_shape_text(&expected, b));
}

/* The place of entry e's field, from 0 on; -1: it does not count. */
static shoal_status place_of(const kernel_call *call, int at, int64_t e, int64_t *out) {
  *out = 0;
  if (call->ins <= at) return NULL;
  const int64_t field = index_get(&call->in[at], e), first = call->attr[FIRST].i, end = first + call->attr[FIELDS].i;
  if (field < 0 || field >= end)
    return status_make(SHOAL_ERR_INPUT, "field %lld at position %lld is out of range: there are %lld fields",
                       (long long)field, (long long)e, (long long)end);
  *out = field < first ? -1 : field - first;
  return NULL;
}

/* What entry e of a row counts in its pool: 1, or one of as many as have its field. */
static shoal_status share_of(const kernel_call *call, int at, int64_t e, int64_t from, int64_t to, double *out) {
  int64_t place = 0, others = 0, n = 0;
  *out = 1;
  if (!call->attr[MEAN].i) return NULL;
  TRY(place_of(call, at, e, &place));
  for (int64_t k = from; k < to; k++) {
    TRY(place_of(call, at, k, &others));
    n += others == place;
  }
  *out = 1 / (double)n;
  return NULL;
}

/* ---- embedding_bag: (offsets [n + 1], indices [entries], values [entries], table [rows, width], fields [entries]) ->
 * [n, width], or by fields [n, fields, width]: the sum of the rows that an example's entries name, times their values;
 * with `mean` divided by their number */

static shoal_status bag_shape(op_shapes *s) {
  TRY(check_entries(s, 2, 4));
  TRY(check_table(s, 1, 2, 3));
  s->out[0] = bag_of(s, s->in[3].dim[1]);
  s->out_dtype[0] = s->in_dtype[3];
  return NULL;
}

REAL_KERNEL(bag_kernel, {
  const real *values = call->in[2].data; /* [entries] */
  const real *table = call->in[3].data;  /* [rows, width] */
  real *y = call->out[0].data;           /* [n, fields, width] */
  const int64_t width = call->in[3].shape.dim[1];
  const int64_t fields = fields_of(call->attr);
  memset(y, 0, (size_t)shoal_tensor_count(&call->out[0]) * sizeof *y);
  for (int64_t i = 0; i < call->out[0].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, call->in[2].shape.dim[0], &from, &to));
    for (int64_t e = from; e < to; e++) {
      int64_t index = 0;
      int64_t place = 0;
      double share = 1;
      TRY(index_at(&call->in[1], e, call->in[3].shape.dim[0], 0, &index));
      TRY(place_of(call, 4, e, &place));
      if (place < 0) continue;
      TRY(share_of(call, 4, e, from, to, &share));
      const real times = values[e] * (real)share;
      real *restrict to_row = y + (i * fields + place) * width;
      for (int64_t j = 0; j < width; j++) to_row[j] += times * table[index * width + j];
    }
  }
  return NULL;
})

static void bag_gradient(op_grad_call *c) {
  shoal_value *offsets = c->in[0], *indices = c->in[1], *values = c->in[2], *table = c->in[3], *dy = c->dy[0];
  shoal_value *fields = c->ins > 4 ? c->in[4] : NULL;
  shoal_value *for_rows[] = {offsets, values, dy, fields}, *for_values[] = {offsets, indices, table, dy, fields};
  c->dx[3] = (op_grad){graph_op(c->graph, "embedding_bag_grad_rows", for_rows, 3 + (fields != NULL), c->attr), indices};
  c->dx[2].value = graph_op(c->graph, "embedding_bag_grad_values", for_values, 4 + (fields != NULL), c->attr);
}

static void bag_cost(const op_shapes *s, double *flops) {
  *flops = 2.0 * (double)s->in[2].dim[0] * (double)s->in[3].dim[1];
}

shoal_value *shoal_embedding_bag(shoal_graph *g, shoal_value *offsets, shoal_value *indices, shoal_value *values,
                                 shoal_value *table, bool average) {
  return graph_op(g, "embedding_bag", (shoal_value *[]){offsets, indices, values, table}, 4,
                  (attr_value[OP_MAX_ATTRS]){[MEAN] = {.i = average}});
}

shoal_value *shoal_embedding_bag_fields(shoal_graph *g, shoal_value *offsets, shoal_value *indices, shoal_value *values,
                                        shoal_value *table, shoal_value *entry_fields, int64_t fields,
                                        int64_t first_field, bool average) {
  return graph_op(
      g, "embedding_bag", (shoal_value *[]){offsets, indices, values, table, entry_fields}, 5,
      (attr_value[OP_MAX_ATTRS]){[FIELDS] = {.i = fields}, [FIRST] = {.i = first_field}, [MEAN] = {.i = average}});
}

/* (offsets, values, dy, fields) -> row e is values[e] * dy of its pool; zero for entries that belong to none. */
static shoal_status bag_grad_rows_shape(op_shapes *s) {
  TRY(check_entries(s, 1, 3));
  TRY(rule_rank_min(s, 2, 2, "dy"));
  const int64_t width = s->in[2].dim[s->in[2].rank - 1];
  TRY(check_bag_gradient(s, 2, width));
  s->out[0] = SHOAL_SHAPE(s->in[1].dim[0], width);
  s->out_dtype[0] = s->in_dtype[2];
  return NULL;
}

REAL_KERNEL(bag_grad_rows_kernel, {
  const real *values = call->in[1].data; /* [entries] */
  const real *dy = call->in[2].data;     /* [n, fields, width] */
  real *rows = call->out[0].data;        /* [entries, width] */
  const int64_t entries = call->in[1].shape.dim[0];
  const int64_t width = call->out[0].shape.dim[1];
  const int64_t fields = fields_of(call->attr);
  memset(rows, 0, (size_t)(entries * width) * sizeof *rows);
  for (int64_t i = 0; i < call->in[2].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    for (int64_t e = from; e < to; e++) {
      int64_t place = 0;
      double share = 1;
      TRY(place_of(call, 3, e, &place));
      if (place < 0) continue;
      TRY(share_of(call, 3, e, from, to, &share));
      const real times = values[e] * (real)share;
      for (int64_t j = 0; j < width; j++) rows[e * width + j] = times * dy[(i * fields + place) * width + j];
    }
  }
  return NULL;
})

/* (offsets, indices, table, dy, fields) -> element e is table[indices[e], :] . dy of its pool; zero as above. */
static shoal_status bag_grad_values_shape(op_shapes *s) {
  TRY(check_indices_shape(s, 1));
  TRY(rule_float(s, 2, "the table"));
  TRY(rule_rank(s, 2, 2, "the table"));
  TRY(check_offsets_shape(s));
  if (s->ins > 4) TRY(check_indices_shape(s, 4));
  TRY(check_bag_gradient(s, 3, s->in[2].dim[1]));
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[2];
  return NULL;
}

REAL_KERNEL(bag_grad_values_kernel, {
  const real *table = call->in[2].data; /* [rows, width] */
  const real *dy = call->in[3].data;    /* [n, fields, width] */
  real *dvalues = call->out[0].data;    /* [entries] */
  const int64_t entries = call->in[1].shape.dim[0];
  const int64_t width = call->in[2].shape.dim[1];
  const int64_t fields = fields_of(call->attr);
  memset(dvalues, 0, (size_t)entries * sizeof *dvalues);
  for (int64_t i = 0; i < call->in[3].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    for (int64_t e = from; e < to; e++) {
      int64_t index = 0;
      int64_t place = 0;
      double share = 1;
      TRY(index_at(&call->in[1], e, call->in[2].shape.dim[0], 0, &index));
      TRY(place_of(call, 4, e, &place));
      if (place < 0) continue;
      TRY(share_of(call, 4, e, from, to, &share));
      real sum = 0;
      for (int64_t j = 0; j < width; j++) sum += table[index * width + j] * dy[(i * fields + place) * width + j];
      dvalues[e] = sum * (real)share;
    }
  }
  return NULL;
})

/* ---- field_values: (offsets, values [entries], fields [entries]) -> [n, fields]: the sum of an example's values in each
 * of the first fields; entries of other fields do not count */

static shoal_status field_values_shape(op_shapes *s) {
  TRY(check_offsets_shape(s));
  TRY(rule_float(s, 1, "values"));
  TRY(rule_rank(s, 1, 1, "values"));
  TRY(check_indices_shape(s, 2));
  if (s->attr[FIELDS].i < 1) return status_make(SHOAL_ERR_ARGUMENT, "at least one field is expected");
  s->out[0] = SHOAL_SHAPE(rows_of_offsets(&s->in[0]), s->attr[FIELDS].i);
  s->out_dtype[0] = s->in_dtype[1];
  return NULL;
}

REAL_KERNEL(field_values_kernel, {
  const real *values = call->in[1].data; /* [entries] */
  real *y = call->out[0].data;           /* [n, fields] */
  const int64_t fields = call->attr[FIELDS].i;
  memset(y, 0, (size_t)shoal_tensor_count(&call->out[0]) * sizeof *y);
  for (int64_t i = 0; i < call->out[0].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, call->in[1].shape.dim[0], &from, &to));
    for (int64_t e = from; e < to; e++) {
      const int64_t field = index_get(&call->in[2], e);
      if (field >= 0 && field < fields) y[i * fields + field] += values[e];
    }
  }
  return NULL;
})

static void field_values_gradient(op_grad_call *c) {
  c->dx[1].value = graph_op(c->graph, "field_values_grad", (shoal_value *[]){c->in[0], c->in[2], c->dy[0]}, 3, c->attr);
}

shoal_value *shoal_field_values(shoal_graph *g, shoal_value *offsets, shoal_value *values, shoal_value *entry_fields,
                                int64_t fields) {
  return graph_op(g, "field_values", (shoal_value *[]){offsets, values, entry_fields}, 3,
                  (attr_value[OP_MAX_ATTRS]){{.i = fields}});
}

/* (offsets, fields, dy) -> element e is dy of its field; zero for entries that do not count. */
static shoal_status field_values_grad_shape(op_shapes *s) {
  TRY(check_offsets_shape(s));
  TRY(check_indices_shape(s, 1));
  TRY(check_dy_shape(s, 2, s->attr[FIELDS].i));
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[2];
  return NULL;
}

REAL_KERNEL(field_values_grad_kernel, {
  const real *dy = call->in[2].data; /* [n, fields] */
  real *dvalues = call->out[0].data; /* [entries] */
  const int64_t fields = call->attr[FIELDS].i;
  const int64_t entries = call->in[1].shape.dim[0];
  memset(dvalues, 0, (size_t)entries * sizeof *dvalues);
  for (int64_t i = 0; i < call->in[2].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    for (int64_t e = from; e < to; e++) {
      const int64_t field = index_get(&call->in[1], e);
      if (field >= 0 && field < fields) dvalues[e] = dy[i * fields + field];
    }
  }
  return NULL;
})

/* ---- fm: (offsets, indices, values, table [rows, 1 + k]) -> [n, 1] and, for the gradient, [n, 1 + k]. A factorization
 * machine (Rendle 2010): column 0 of the table is the linear weight w, the others a vector v:
 *   y = sum_e w_e x_e + sum_(d < e) (v_d . v_e) x_d x_e,   the second by ((sum v x)^2 - sum (v x)^2) / 2 */

static shoal_status fm_shape(op_shapes *s) {
  TRY(check_offsets_shape(s));
  TRY(rule_float(s, 2, "values"));
  TRY(rule_rank(s, 2, 1, "values"));
  TRY(check_table(s, 1, 2, 3));
  const int64_t rows = rows_of_offsets(&s->in[0]);
  s->out[0] = SHOAL_SHAPE(rows, 1);
  s->out[1] = SHOAL_SHAPE(rows, s->in[3].dim[1]);
  s->out_dtype[0] = s->out_dtype[1] = s->in_dtype[3];
  return NULL;
}

REAL_KERNEL(fm_kernel, {
  const real *values = call->in[2].data; /* [entries] */
  const real *table = call->in[3].data;  /* [rows, width] */
  real *y = call->out[0].data;           /* [n, 1] */
  real *sums = call->out[1].data;        /* [n, width] */
  const int64_t width = call->in[3].shape.dim[1];
  for (int64_t i = 0; i < call->out[0].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    int64_t index = 0;
    real pairs = 0;
    TRY(entries_of(&call->in[0], i, call->in[2].shape.dim[0], &from, &to));
    for (int64_t e = from; e < to; e++) TRY(index_at(&call->in[1], e, call->in[3].shape.dim[0], 0, &index));
    for (int64_t j = 0; j < width; j++) {
      real sum = 0;
      real squares = 0;
      for (int64_t e = from; e < to; e++) {
        const real x = values[e] * table[index_get(&call->in[1], e) * width + j];
        sum += x;
        squares += x * x;
      }
      sums[i * width + j] = sum;
      if (j) pairs += sum * sum - squares;
    }
    y[i] = (width ? sums[i * width] : 0) + pairs / 2;
  }
  return NULL;
})

static void fm_gradient(op_grad_call *c) {
  shoal_value *in[] = {c->in[0], c->in[1], c->in[2], c->in[3], c->out[1], c->dy[0]};
  c->dx[3] = (op_grad){graph_op(c->graph, "fm_grad_rows", in, 6, NULL), c->in[1]};
  c->dx[2].value = graph_op(c->graph, "fm_grad_values", in, 6, NULL);
}

static void fm_cost(const op_shapes *s, double *flops) {
  *flops = 5.0 * (double)s->in[2].dim[0] * (double)s->in[3].dim[1];
}

shoal_value *shoal_factorization_machine(shoal_graph *g, shoal_value *offsets, shoal_value *indices,
                                         shoal_value *values, shoal_value *table) {
  return graph_op(g, "fm", (shoal_value *[]){offsets, indices, values, table}, 4, NULL);
}

/* (offsets, indices, values, table, sums, dy [n, 1]) */
static shoal_status fm_grad_shape(op_shapes *s) {
  op_shapes forward = *s;
  shoal_shape out[2];
  shoal_dtype dtypes[2];
  forward.out = out;
  forward.out_dtype = dtypes;
  TRY(fm_shape(&forward));
  TRY(check_dy_shape(s, 4, s->in[3].dim[1]));
  TRY(check_dy_shape(s, 5, 1));
  s->out_dtype[0] = s->in_dtype[3];
  return NULL;
}

/* Row e: the derivatives of its example's y with respect to its row of the table, times dy. */
static shoal_status fm_grad_rows_shape(op_shapes *s) {
  TRY(fm_grad_shape(s));
  s->out[0] = SHOAL_SHAPE(s->in[2].dim[0], s->in[3].dim[1]);
  return NULL;
}

static shoal_status fm_grad_values_shape(op_shapes *s) {
  TRY(fm_grad_shape(s));
  s->out[0] = s->in[2];
  return NULL;
}

REAL_KERNEL(fm_grad_rows_kernel, {
  const real *values = call->in[2].data; /* [entries] */
  const real *table = call->in[3].data;  /* [rows, width] */
  const real *sums = call->in[4].data;   /* [n, width] */
  const real *dy = call->in[5].data;     /* [n] */
  real *rows = call->out[0].data;        /* [entries, width] */
  const int64_t entries = call->in[2].shape.dim[0];
  const int64_t width = call->in[3].shape.dim[1];
  memset(rows, 0, (size_t)(entries * width) * sizeof *rows);
  for (int64_t i = 0; i < call->in[5].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    for (int64_t e = from; e < to; e++) {
      int64_t index = 0;
      TRY(index_at(&call->in[1], e, call->in[3].shape.dim[0], 0, &index));
      const real x = values[e];
      for (int64_t j = 0; j < width; j++)
        rows[e * width + j] = dy[i] * x * (j ? sums[i * width + j] - x * table[index * width + j] : 1);
    }
  }
  return NULL;
})

REAL_KERNEL(fm_grad_values_kernel, {
  const real *values = call->in[2].data; /* [entries] */
  const real *table = call->in[3].data;  /* [rows, width] */
  const real *sums = call->in[4].data;   /* [n, width] */
  const real *dy = call->in[5].data;     /* [n] */
  real *dvalues = call->out[0].data;     /* [entries] */
  const int64_t entries = call->in[2].shape.dim[0];
  const int64_t width = call->in[3].shape.dim[1];
  memset(dvalues, 0, (size_t)entries * sizeof *dvalues);
  for (int64_t i = 0; i < call->in[5].shape.dim[0]; i++) {
    int64_t from = 0;
    int64_t to = 0;
    TRY(entries_of(&call->in[0], i, entries, &from, &to));
    for (int64_t e = from; e < to; e++) {
      int64_t index = 0;
      TRY(index_at(&call->in[1], e, call->in[3].shape.dim[0], 0, &index));
      const real *row = table + index * width;
      real sum = width ? row[0] : 0;
      for (int64_t j = 1; j < width; j++) sum += row[j] * (sums[i * width + j] - values[e] * row[j]);
      dvalues[e] = dy[i] * sum;
    }
  }
  return NULL;
})

/* ---- random_table: what a table [rows, width] begins with: its first `zeros` columns 0, the others even in
 * (-limit, limit); numbers hang on the seed and their place alone, wherever the table is kept (kernel/table.h) */

enum { TABLE_SHAPE, TABLE_ZEROS, TABLE_LIMIT };

static shoal_status random_table_shape(op_shapes *s) {
  const shoal_shape *shape = &s->attr[TABLE_SHAPE].list;
  char a[SHOAL_SHAPE_TEXT];
  if (shape->rank != 2 || shape->dim[0] < 0 || shape->dim[1] < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "a table is [rows, width], not %s", shoal_shape_text(shape, a));
  s->out[0] = *shape;
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

typedef struct {
  const kernel_call *call;
  table_start start;
} random_table_work;

static void random_table_part(void *context, int thread, int threads) {
  const random_table_work *w = context;
  int64_t first, last;
  pool_share(shoal_tensor_count(&w->call->out[0]), 4096, thread, threads, &first, &last);
  table_initial(&w->start, first, last - first, (float *)w->call->out[0].data + first);
}

static shoal_status random_table_kernel(const kernel_call *call) {
  random_table_work w = {.call = call,
                         .start = {.seed = call->seed,
                                   .width = call->out[0].shape.dim[1],
                                   .zeros = call->attr[TABLE_ZEROS].i,
                                   .limit = (float)call->attr[TABLE_LIMIT].f}};
  pool_run(call->threads, random_table_part, &w);
  return NULL;
}

shoal_value *random_table(shoal_graph *g, shoal_shape shape, int64_t zeros, double limit) {
  return graph_op(g, "random_table", NULL, 0, (attr_value[OP_MAX_ATTRS]){{.list = shape}, {.i = zeros}, {.f = limit}});
}

static const char *const bag_cases[] = {"asc[5]<9 i64[9]<6 [9] [6,4]",
                                        "asc[4]<30 i32[30]<20 [30] [20,17] mean=1",
                                        "asc[5]<12 i32[12]<9 [12] [9,20] i32[12]<3 fields=3",
                                        "asc[5]<12 i32[12]<9 [12] [9,5] i32[12]<5 fields=3 first=2 mean=1",
                                        "asc[?6]<40 i32[?40]<30 [?40] [30,33] i32[?40]<4 fields=4",
                                        NULL};
static const char *const bag_rows_cases[] = {"asc[5]<9 [9] [4,3]", "asc[5]<12 [14] [4,3,17] i32[14]<3 fields=3",
                                             "asc[5]<12 [12] [4,2,33] i32[12]<4 fields=2 first=2 mean=1",
                                             "asc[4]<12 [12] [3,16] mean=1", NULL};
static const char *const bag_values_cases[] = {
    "asc[5]<9 i64[9]<6 [6,3] [4,3]", "asc[5]<12 i32[12]<6 [6,3] [4,3,3] i32[12]<4 fields=3 first=1 mean=1", NULL};
static const char *const field_values_cases[] = {"asc[5]<12 [12] i32[12]<6 fields=4", NULL};
static const char *const field_values_grad_cases[] = {"asc[5]<12 i32[12]<6 [4,4] fields=4", NULL};
static const char *const fm_cases[] = {"asc[5]<9 i64[9]<6 [9] [6,4]", "asc[4]<40 i32[40]<20 [40] [20,17]",
                                       "asc[3]<8 i32[8]<9 [8] [9,1]", "asc[?5]<60 i32[?60]<30 [?60] [30,40]", NULL};
static const char *const fm_grad_cases[] = {"asc[5]<9 i64[9]<6 [9] [6,4] [4,4] [4,1]",
                                            "asc[4]<40 i32[42]<20 [42] [20,17] [3,17] [3,1]",
                                            "asc[4]<40 i32[40]<20 [40] [20,35] [3,35] [3,1]", NULL};
static const char *const random_table_cases[] = {"shape=40,17 zeros=1 limit=0.1", "shape=3,1 zeros=1", "shape=0,4",
                                                 NULL};

const op_row ops_embedding[] = {
    {.name = "embedding_bag",
     .attrs = {BAG_ATTRS},
     .ins_min = 4,
     .ins_max = 5,
     .outs = 1,
     .shape = bag_shape,
     .gradient = bag_gradient,
     .kernel = bag_kernel,
     .variants = tuned_embedding_bag,
     .cost = bag_cost,
     .cases = bag_cases},
    {.name = "embedding_bag_grad_rows",
     .attrs = {BAG_ATTRS},
     .ins_min = 3,
     .ins_max = 4,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = bag_grad_rows_shape,
     .kernel = bag_grad_rows_kernel,
     .variants = tuned_embedding_bag_grad_rows,
     .cases = bag_rows_cases},
    {.name = "embedding_bag_grad_values",
     .attrs = {BAG_ATTRS},
     .ins_min = 4,
     .ins_max = 5,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = bag_grad_values_shape,
     .kernel = bag_grad_values_kernel,
     .cases = bag_values_cases},
    {.name = "field_values",
     .attrs = {{"fields", ATTR_INT, 1}},
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .shape = field_values_shape,
     .gradient = field_values_gradient,
     .kernel = field_values_kernel,
     .cases = field_values_cases},
    {.name = "field_values_grad",
     .attrs = {{"fields", ATTR_INT, 1}},
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = field_values_grad_shape,
     .kernel = field_values_grad_kernel,
     .cases = field_values_grad_cases},
    {.name = "fm",
     .ins_min = 4,
     .ins_max = 4,
     .outs = 2,
     .saved = 1u << 1,
     .shape = fm_shape,
     .gradient = fm_gradient,
     .kernel = fm_kernel,
     .variants = tuned_fm,
     .cost = fm_cost,
     .cases = fm_cases},
    {.name = "fm_grad_rows",
     .ins_min = 6,
     .ins_max = 6,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = fm_grad_rows_shape,
     .kernel = fm_grad_rows_kernel,
     .variants = tuned_fm_grad_rows,
     .cost = fm_cost,
     .cases = fm_grad_cases},
    {.name = "fm_grad_values",
     .ins_min = 6,
     .ins_max = 6,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = fm_grad_values_shape,
     .kernel = fm_grad_values_kernel,
     .cost = fm_cost,
     .cases = fm_grad_cases},
    {.name = "random_table",
     .attrs = {{"shape", ATTR_LIST, 0}, {"zeros", ATTR_INT, 0}, {"limit", ATTR_FLOAT, 0.05}},
     .outs = 1,
     .flags = OP_RANDOM | OP_NO_GRADIENT,
     .shape = random_table_shape,
     .kernel = random_table_kernel,
     .cases = random_table_cases},
    {0},
};
