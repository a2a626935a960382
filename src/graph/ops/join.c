/* concat and split: pieces side by side along one axis. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <stdlib.h>
#include <string.h>

/* Copies between a whole tensor and its pieces along `axis`, one run of bytes for each index of the axes before. */
static void copy_pieces(const shoal_tensor *whole, const shoal_tensor *pieces, int n, int axis, bool join) {
  int64_t before = shape_span(&whole->shape, 0, axis);
  size_t size = shoal_dtype_size(whole->dtype);
  char *at = whole->data;
  for (int64_t row = 0; row < before; row++)
    for (int i = 0; i < n; i++) {
      size_t run = (size_t)shape_span(&pieces[i].shape, axis, pieces[i].shape.rank) * size;
      char *piece = (char *)pieces[i].data + (size_t)row * run;
      if (join)
        memcpy(at, piece, run);
      else
        memcpy(piece, at, run);
      at += run;
    }
}

static int axis_of(const attr_value *attr, int rank) { return (int)(attr->i < 0 ? attr->i + rank : attr->i); }

/* ---- concat(x...; axis) */

/* The shape of the pieces in[first .. first + n) put together along `axis`. */
static shoal_status joined(const op_shapes *s, int first, int n, int axis, shoal_shape *out) {
  shoal_shape to = s->in[first];
  for (int i = first + 1; i < first + n; i++) {
    const shoal_shape *x = &s->in[i];
    bool good = x->rank == to.rank;
    for (int k = 0; good && k < to.rank; k++)
      if (k != axis) {
        good = dims_fit(to.dim[k], x->dim[k]);
        to.dim[k] = dims_known(to.dim[k], x->dim[k]);
      }
    if (!good) {
      char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
      return status_make(SHOAL_ERR_ARGUMENT, "%s and %s differ in more than axis %d",
                         shoal_shape_text(&s->in[first], a), shoal_shape_text(x, b), axis);
    }
    bool unknown = to.dim[axis] == SHOAL_UNKNOWN || x->dim[axis] == SHOAL_UNKNOWN;
    to.dim[axis] = unknown ? SHOAL_UNKNOWN : to.dim[axis] + x->dim[axis];
  }
  *out = to;
  return NULL;
}

static shoal_status concat_shape(op_shapes *s) {
  int axis = 0;
  TRY(rule_same_dtype(s));
  TRY(rule_axis(s->attr[0].i, s->in[0].rank, &axis));
  TRY(joined(s, 0, s->ins, axis, &s->out[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static bool all_batched(const op_shapes *s) {
  for (int i = 0; i < s->ins; i++)
    if (!shape_is_batched(&s->in[i])) return false;
  return true;
}

static op_batch concat_batch(const op_shapes *s) {
  return axis_of(&s->attr[0], s->in[0].rank) != 0 && all_batched(s) ? batch_map(s) : BATCH_WHOLE;
}

static shoal_status concat_kernel(const kernel_call *call) {
  copy_pieces(&call->out[0], call->in, call->ins, axis_of(&call->attr[0], call->out[0].shape.rank), true);
  return NULL;
}

/* Slices of dy; where only a feed says how large the pieces are, concat_grad looks at them while it runs. */
static void concat_gradient(op_grad_call *c) {
  int rank = c->in[0]->shape.rank, axis = axis_of(&c->attr[0], rank);
  if (c->out[0]->shape.dim[axis] == SHOAL_UNKNOWN) {
    shoal_value *in[OP_MAX_OUTPUTS + 1] = {c->dy[0]};
    if (c->ins > OP_MAX_OUTPUTS) {
      graph_fail(c->graph, status_make(SHOAL_ERR_ARGUMENT,
                                       "concat '%s': no gradient for more than %d pieces along an axis of unknown size",
                                       c->out[0]->maker->name, OP_MAX_OUTPUTS));
      return;
    }
    for (int i = 0; i < c->ins; i++) in[i + 1] = c->in[i];
    shoal_value *first =
        graph_op(c->graph, "concat_grad", in, c->ins + 1, (attr_value[OP_MAX_ATTRS]){ATTR_I(c->ins), ATTR_I(axis)});
    for (int i = 0; i < c->ins; i++) c->dx[i].value = shoal_value_output(first, i);
    return;
  }
  shoal_shape start = {.rank = rank}, size = {.rank = rank};
  for (int k = 0; k < rank; k++) size.dim[k] = -1;
  for (int i = 0; i < c->ins; i++) {
    size.dim[axis] = c->in[i]->shape.dim[axis];
    c->dx[i].value = shoal_slice(c->graph, c->dy[0], start, size);
    start.dim[axis] += size.dim[axis];
  }
}

/* ---- concat_grad(dy, like...; parts, axis): dy cut into pieces as large as those */

static shoal_status concat_grad_shape(op_shapes *s) {
  int axis = 0;
  shoal_shape whole;
  if (s->ins != s->outs + 1)
    return status_make(SHOAL_ERR_ARGUMENT, "%d pieces need %d inputs, not %d", s->outs, s->outs + 1, s->ins);
  TRY(rule_same_dtype(s));
  TRY(rule_axis(s->attr[1].i, s->in[0].rank, &axis));
  TRY(joined(s, 1, s->outs, axis, &whole));
  if (!shapes_fit(&whole, &s->in[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "the pieces make %s, not %s", shoal_shape_text(&whole, a),
                       shoal_shape_text(&s->in[0], b));
  }
  for (int i = 0; i < s->outs; i++) {
    s->out[i] = s->in[i + 1];
    s->out_dtype[i] = s->in_dtype[0];
  }
  return NULL;
}

static op_batch concat_grad_batch(const op_shapes *s) {
  return axis_of(&s->attr[1], s->in[0].rank) != 0 && all_batched(s) ? batch_map(s) : BATCH_WHOLE;
}

static shoal_status cut_kernel(const kernel_call *call) {
  copy_pieces(&call->in[0], call->out, call->outs, axis_of(&call->attr[1], call->in[0].shape.rank), false);
  return NULL;
}

/* ---- split(x; parts, axis) */

static shoal_status split_shape(op_shapes *s) {
  int axis = 0;
  TRY(rule_axis(s->attr[1].i, s->in[0].rank, &axis));
  shoal_shape piece = s->in[0];
  if (piece.dim[axis] != SHOAL_UNKNOWN) {
    if (piece.dim[axis] % s->outs)
      return status_make(SHOAL_ERR_ARGUMENT, "%lld along axis %d cannot be split into %d equal parts",
                         (long long)piece.dim[axis], axis, s->outs);
    piece.dim[axis] /= s->outs;
  }
  for (int i = 0; i < s->outs; i++) {
    s->out[i] = piece;
    s->out_dtype[i] = s->in_dtype[0];
  }
  return NULL;
}

static op_batch split_batch(const op_shapes *s) {
  return axis_of(&s->attr[1], s->in[0].rank) != 0 ? batch_map(s) : BATCH_WHOLE;
}

static void split_gradient(op_grad_call *c) {
  shoal_value *dy[OP_MAX_OUTPUTS];
  for (int i = 0; i < c->outs; i++) dy[i] = c->dy[i] ? c->dy[i] : shoal_fill_like(c->graph, c->out[i], 0);
  c->dx[0].value = shoal_concat(c->graph, dy, c->outs, axis_of(&c->attr[1], c->in[0]->shape.rank));
}

const op_row ops_join[] = {
    {.name = "concat",
     .attrs = {{"axis", ATTR_INT, 0}},
     .ins_min = 1,
     .ins_max = -1,
     .outs = 1,
     .shape = concat_shape,
     .batch = concat_batch,
     .gradient = concat_gradient,
     .kernel = concat_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[3,4] [2,4]", "[?5,2] [?5,3] [?5,1] axis=1", "[?5,2] [3,2]", "[2] axis=-1",
                                    "i64[3]<9 i64[0]<9 i64[1]<9", "[2,3,2] [2,1,2] axis=1", NULL}},
    {.name = "concat_grad",
     .attrs = {{"parts", ATTR_INT, 1}, {"axis", ATTR_INT, 0}},
     .ins_min = 2,
     .ins_max = OP_MAX_OUTPUTS + 1,
     .outs = -1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = ~1u,
     .shape = concat_grad_shape,
     .batch = concat_grad_batch,
     .kernel = cut_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[5,4] [3,4] [2,4] parts=2", "[?5,3] [?5,2] [?5,1] parts=2 axis=1", NULL}},
    {.name = "split",
     .attrs = {{"parts", ATTR_INT, 1}, {"axis", ATTR_INT, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = -1,
     .shape = split_shape,
     .batch = split_batch,
     .gradient = split_gradient,
     .kernel = cut_kernel,
     .cost = cost_zero,
     .cases = (const char *const[]){"[4,3] parts=2", "[?5,6] parts=3 axis=1", "[2,4] parts=2 axis=-1", "[3]", NULL}},
    {0}};

shoal_value *shoal_concat(shoal_graph *g, shoal_value *const *x, int n, int axis) {
  return graph_op(g, "concat", x, n, (attr_value[OP_MAX_ATTRS]){ATTR_I(axis)});
}

shoal_value *shoal_stack(shoal_graph *g, shoal_value *const *x, int n, int axis) {
  shoal_value **wider = calloc((size_t)n + 1, sizeof(shoal_value *));
  if (!wider) {
    graph_fail(g, status_no_memory());
    return NULL;
  }
  for (int i = 0; i < n; i++) wider[i] = shoal_expand_dims(g, x[i], axis);
  shoal_value *y = shoal_concat(g, wider, n, axis);
  free(wider);
  return y;
}

/* The part [from, to) of an axis. */
static shoal_value *part_of(shoal_graph *g, shoal_value *x, int axis, int64_t from, int64_t to) {
  if (!x) return NULL;
  int rank = x->shape.rank, place = 0;
  shoal_status status = rule_axis(axis, rank, &place);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  shoal_shape start = {.rank = rank}, stop = {.rank = rank}, step = {.rank = rank};
  for (int i = 0; i < rank; i++) {
    start.dim[i] = i == place ? from : 0;
    stop.dim[i] = i == place ? to : SHOAL_END;
    step.dim[i] = 1;
  }
  return shoal_strided_slice(g, x, start, stop, step);
}

void shoal_split_sizes(shoal_graph *g, shoal_value *x, const int64_t *sizes, int n, int axis, shoal_value **out) {
  int64_t from = 0;
  for (int i = 0; i < n; i++) {
    out[i] = part_of(g, x, axis, from, from + sizes[i]);
    int place = axis < 0 && x ? axis + x->shape.rank : axis;
    if (sizes[i] < 0 || (out[i] && out[i]->shape.dim[place] != SHOAL_UNKNOWN && out[i]->shape.dim[place] != sizes[i])) {
      graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "split: the sizes do not fit axis %d", axis));
      out[i] = NULL;
    }
    from += sizes[i];
  }
}

shoal_value *shoal_index(shoal_graph *g, shoal_value *x, int axis, int64_t index) {
  shoal_value *one = part_of(g, x, axis, index, index == -1 ? SHOAL_END : index + 1);
  return one ? shoal_squeeze(g, one, SHOAL_SHAPE(axis)) : NULL;
}

shoal_value *shoal_split(shoal_graph *g, shoal_value *x, int parts, int axis) {
  return GRAPH_UNARY(g, "split", x, ATTR_I(parts), ATTR_I(axis));
}
