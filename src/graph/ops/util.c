#include "graph/ops/util.h"

#include "tensor/limits.h"

#include <stdio.h>
#include <string.h>

shoal_status kernel_wrong_dtype(const kernel_call *call) {
  return status_make(SHOAL_ERR_INTERNAL, "no kernel for type %s", shoal_dtype_name(kernel_dtype(call)));
}

bool shapes_fit(const shoal_shape *a, const shoal_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (!dims_fit(a->dim[i], b->dim[i])) return false;
  return true;
}

int64_t shape_span(const shoal_shape *s, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) {
    if (s->dim[i] == SHOAL_UNKNOWN) return SHOAL_UNKNOWN;
    n = count_times(n, s->dim[i]);
  }
  return n;
}

void shape_strides(const shoal_shape *s, int64_t strides[SHOAL_MAX_RANK]) {
  int64_t n = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    strides[i] = n;
    n *= s->dim[i];
  }
}

shoal_status rule_same_dtype(const op_shapes *s) {
  for (int i = 1; i < s->ins; i++)
    if (s->in_dtype[i] != s->in_dtype[0])
      return status_make(SHOAL_ERR_ARGUMENT, "types differ: %s and %s; add a cast", shoal_dtype_name(s->in_dtype[0]),
                         shoal_dtype_name(s->in_dtype[i]));
  return NULL;
}

shoal_status rule_float(const op_shapes *s, int i, const char *what) {
  if (dtype_is_float(s->in_dtype[i])) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s must be f32 or f64, not %s; add a cast", what,
                     shoal_dtype_name(s->in_dtype[i]));
}

shoal_status rule_number(const op_shapes *s, int i, const char *what) {
  if (dtype_is_float(s->in_dtype[i]) || dtype_is_index(s->in_dtype[i])) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s must be f32, f64, i32 or i64, not %s; add a cast", what,
                     shoal_dtype_name(s->in_dtype[i]));
}

shoal_status rule_index(const op_shapes *s, int i, const char *what) {
  if (dtype_is_index(s->in_dtype[i])) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s must be i32 or i64, not %s; add a cast", what,
                     shoal_dtype_name(s->in_dtype[i]));
}

shoal_status rule_rank(const op_shapes *s, int i, int rank, const char *what) {
  if (s->in[i].rank == rank) return NULL;
  char buffer[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "%s must have %d dimension%s, not %s", what, rank, rank == 1 ? "" : "s",
                     shoal_shape_text(&s->in[i], buffer));
}

shoal_status rule_rank_min(const op_shapes *s, int i, int rank, const char *what) {
  if (s->in[i].rank >= rank) return NULL;
  char buffer[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "%s must have at least %d dimension%s, not %s", what, rank,
                     rank == 1 ? "" : "s", shoal_shape_text(&s->in[i], buffer));
}

shoal_status rule_same_shape(const op_shapes *s, int i, int j) {
  if (shapes_fit(&s->in[i], &s->in[j])) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "shapes must be the same: %s and %s", shoal_shape_text(&s->in[i], a),
                     shoal_shape_text(&s->in[j], b));
}

shoal_status rule_axis(int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank)
    return status_make(SHOAL_ERR_ARGUMENT, "axis %lld does not exist: there are %d dimensions", (long long)axis, rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}

uint32_t axes_bits(const shoal_shape *axes, int rank) {
  if (!axes->rank) return (1u << rank) - 1;
  uint32_t bits = 0;
  for (int i = 0; i < axes->rank; i++) bits |= 1u << (axes->dim[i] < 0 ? axes->dim[i] + rank : axes->dim[i]);
  return bits;
}

shoal_status rule_axes(const shoal_shape *axes, int rank, uint32_t *out) {
  uint32_t seen = 0;
  for (int i = 0; i < axes->rank; i++) {
    int axis = 0;
    TRY(rule_axis(axes->dim[i], rank, &axis));
    if (seen >> axis & 1) return status_make(SHOAL_ERR_ARGUMENT, "axis %d is named twice", axis);
    seen |= 1u << axis;
  }
  *out = axes_bits(axes, rank);
  return NULL;
}

shoal_status rule_broadcast(const shoal_shape *a, const shoal_shape *b, shoal_shape *out) {
  shoal_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 0; i < result.rank; i++) {
    int ia = i - (result.rank - a->rank), ib = i - (result.rank - b->rank);
    int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
    if (da == 1)
      result.dim[i] = db;
    else if (db == 1 || da == db)
      result.dim[i] = da;
    else if (dims_fit(da, db))
      result.dim[i] = dims_known(da, db);
    else {
      char ta[SHOAL_SHAPE_TEXT], tb[SHOAL_SHAPE_TEXT];
      return status_make(SHOAL_ERR_ARGUMENT,
                         "%s and %s do not broadcast: counted from the end, dimensions must be equal or 1",
                         shoal_shape_text(a, ta), shoal_shape_text(b, tb));
    }
  }
  *out = result;
  return NULL;
}

shoal_status shape_as_input(op_shapes *s) {
  for (int i = 0; i < s->outs; i++) {
    s->out[i] = s->in[0];
    s->out_dtype[i] = s->in_dtype[0];
  }
  return NULL;
}

shoal_status shape_as_input_float(op_shapes *s) {
  TRY(rule_float(s, 0, "the input"));
  return shape_as_input(s);
}

shoal_status shape_as_input_number(op_shapes *s) {
  TRY(rule_number(s, 0, "the input"));
  return shape_as_input(s);
}

shoal_status shape_all_alike_float(op_shapes *s) {
  TRY(rule_float(s, 0, "the input"));
  TRY(rule_same_dtype(s));
  shoal_shape shape = s->in[0];
  for (int i = 1; i < s->ins; i++) {
    TRY(rule_same_shape(s, 0, i));
    for (int k = 0; k < shape.rank; k++) shape.dim[k] = dims_known(shape.dim[k], s->in[i].dim[k]);
  }
  for (int i = 0; i < s->outs; i++) {
    s->out[i] = shape;
    s->out_dtype[i] = s->in_dtype[0];
  }
  return NULL;
}

static bool any_input_batched(const op_shapes *s) {
  for (int i = 0; i < s->ins; i++)
    if (shape_is_batched(&s->in[i])) return true;
  return false;
}

static int outputs_batched(const op_shapes *s) {
  int n = 0;
  for (int i = 0; i < s->outs; i++) n += shape_is_batched(&s->out[i]);
  return n;
}

op_batch batch_map(const op_shapes *s) {
  return any_input_batched(s) && outputs_batched(s) == s->outs ? BATCH_MAP : BATCH_WHOLE;
}

op_batch batch_map_broadcast(const op_shapes *s) {
  if (batch_map(s) != BATCH_MAP) return BATCH_WHOLE;
  for (int i = 0; i < s->ins; i++) {
    bool batched = shape_is_batched(&s->in[i]), full = s->in[i].rank == s->out[0].rank;
    /* A batched operand of lower rank would be cut along the wrong axis; a full one without the batch must repeat. */
    if (batched ? !full : full && s->in[i].rank > 0 && s->in[i].dim[0] != 1) return BATCH_WHOLE;
  }
  return BATCH_MAP;
}

op_batch batch_sum(const op_shapes *s) {
  return any_input_batched(s) && outputs_batched(s) == 0 ? BATCH_SUM : BATCH_WHOLE;
}

shoal_value *grad_sum_to(shoal_graph *g, shoal_value *dy, shoal_value *like) {
  if (!dy || !like || shoal_shape_equal(&dy->shape, &like->shape)) return dy;
  return GRAPH_BINARY(g, "sum_to_like", dy, like);
}

shoal_value *grad_scalar(shoal_graph *g, shoal_value *like, double value) {
  return like ? shoal_scalar(g, like->dtype, value) : NULL;
}

void cost_zero(const op_shapes *s, double *flops) { *flops = 0; }

void cost_input(const op_shapes *s, double *flops) { *flops = (double)shoal_shape_count(&s->in[0]); }

void show_updated(const kernel_call *call) {
  if (call->out[0].data != call->in[0].data)
    memcpy(call->out[0].data, call->in[0].data, shoal_tensor_bytes(&call->in[0]));
}

const char *state_owner(const shoal_value *part, char buffer[STATE_OWNER]) {
  snprintf(buffer, STATE_OWNER, "%s", part ? part->maker->name : "");
  char *slash = strrchr(buffer, '/');
  if (slash) *slash = 0;
  return buffer;
}
