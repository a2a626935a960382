/* Layers of several inputs. */
#include "base/mem.h"
#include "train/layer.h"

/* All inputs one after the other by a function of two. */
static shoal_value *fold(branch *b, layer_io *io, shoal_value *(*two)(shoal_graph *, shoal_value *, shoal_value *)) {
  shoal_value *y = io->x[0];
  for (int i = 1; i < io->n; i++) y = two(b->model->graph, y, io->x[i]);
  return y;
}

static shoal_value *add_apply(branch *b, layer *l, layer_io *io) { return fold(b, io, shoal_add); }
static shoal_value *subtract_apply(branch *b, layer *l, layer_io *io) { return fold(b, io, shoal_sub); }
static shoal_value *multiply_apply(branch *b, layer *l, layer_io *io) { return fold(b, io, shoal_mul); }
static shoal_value *maximum_apply(branch *b, layer *l, layer_io *io) { return fold(b, io, shoal_maximum); }
static shoal_value *minimum_apply(branch *b, layer *l, layer_io *io) { return fold(b, io, shoal_minimum); }

static shoal_value *average_apply(branch *b, layer *l, layer_io *io) {
  return shoal_scale(b->model->graph, fold(b, io, shoal_add), 1.0 / io->n);
}

/* Axes count from the batch, which is 0. */
static shoal_value *concatenate_apply(branch *b, layer *l, layer_io *io) {
  const int rank = io->x[0]->shape.rank;
  int64_t axis = layer_int(l, "axis");
  if (axis < 0) axis += rank;
  if (axis < 1 || axis >= rank) return layer_refuse(b, l, "axis: expected 1 to %d, or -1 for the last", rank - 1);
  return shoal_concat(b->model->graph, io->x, io->n, (int)axis);
}

static shoal_value *stack_apply(branch *b, layer *l, layer_io *io) {
  const int rank = io->x[0]->shape.rank;
  int64_t axis = layer_int(l, "axis");
  if (axis < 0) axis += rank + 1;
  if (axis < 1 || axis > rank) return layer_refuse(b, l, "axis: expected 1 to %d, or -1 for the last", rank);
  return shoal_stack(b->model->graph, io->x, io->n, (int)axis);
}

static shoal_value *to_length_one(shoal_graph *g, shoal_value *x, int axis) {
  shoal_value *square = shoal_reduce_sum(g, shoal_square(g, x), SHOAL_SHAPE(axis), true);
  return shoal_mul(g, x, shoal_rsqrt(g, shoal_maximum(g, square, shoal_scalar(g, SHOAL_F32, 1e-12))));
}

/* Products summed over one axis of each: of [batch, n] and [batch, n] it is [batch, 1]; otherwise the axes that are left
 * of the first, then those of the second. */
static shoal_value *dot_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0], *y = io->x[1];
  shoal_shape axes = layer_shape(l, "axes");
  const int64_t first = axes.dim[0], second = axes.rank > 1 ? axes.dim[1] : first;
  const int ax = (int)(first < 0 ? first + x->shape.rank : first),
            ay = (int)(second < 0 ? second + y->shape.rank : second);
  if (ax < 1 || ay < 1 || ax >= x->shape.rank || ay >= y->shape.rank || x->shape.rank > 3 || y->shape.rank > 3)
    return layer_refuse(b, l, "axes: expected one axis from 1 on of each input, of at most 3 axes");
  if (layer_flag(l, "normalize")) {
    x = to_length_one(g, x, ax);
    y = to_length_one(g, y, ay);
  }
  if (x->shape.rank == 2 && y->shape.rank == 2) return shoal_reduce_sum(g, shoal_mul(g, x, y), SHOAL_SHAPE(1), true);
  const int rx = x->shape.rank, ry = y->shape.rank;
  shoal_value *xs = rx == 2 ? shoal_expand_dims(g, x, 1) : x, *ys = ry == 2 ? shoal_expand_dims(g, y, 2) : y;
  shoal_value *z = shoal_matmul(g, xs, ys, rx == 3 && ax == 1, ry == 3 && ay == 2);
  if (rx == 2) return shoal_squeeze(g, z, SHOAL_SHAPE(1));
  return ry == 2 ? shoal_squeeze(g, z, SHOAL_SHAPE(2)) : z;
}

static const layer_attr axis_attrs[] = {ATTR("axis", INT, "-1", -8, 8), {0}};
static const layer_attr dot_attrs[] = {ATTR("axes", AXES, "-1"), ATTR("normalize", BOOL, "false"), {0}};

/* An input, or, where there is a number in place of it, that. *next: the input that comes next. */
static shoal_value *input_or_number(branch *b, const layer *l, const layer_io *io, const char *attribute, int *next) {
  if (layer_has(l, attribute)) return shoal_scalar(b->model->graph, SHOAL_F32, layer_number(l, attribute));
  return *next < io->n ? io->x[(*next)++] : NULL;
}

/* The second input where the first is not 0, the third elsewhere; either may be a number. */
static shoal_value *where_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  int next = 1;
  shoal_value *condition = shoal_not_equal(g, io->x[0], shoal_scalar(g, io->x[0]->dtype, 0));
  shoal_value *then = input_or_number(b, l, io, "then", &next), *otherwise = input_or_number(b, l, io, "else", &next);
  if (!then || !otherwise || next != io->n)
    return layer_refuse(b, l, "expected three inputs, less one for each of \"then\" and \"else\" that is a number");
  return shoal_where(g, condition, then, otherwise);
}

/* 1 where it is true, 0 elsewhere. */
static shoal_value *compare_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  static const struct {
    const char *name;
    shoal_value *(*make)(shoal_graph *, shoal_value *, shoal_value *);
  } relations[] = {{"greater", shoal_greater}, {"greater_equal", shoal_greater_equal},
                   {"less", shoal_less},       {"less_equal", shoal_less_equal},
                   {"equal", shoal_equal},     {"not_equal", shoal_not_equal}};
  int next = 1;
  shoal_value *with = input_or_number(b, l, io, "value", &next), *x = shoal_cast(g, io->x[0], SHOAL_F32);
  if (!with || next != io->n) return layer_refuse(b, l, "expected two inputs, or one and a \"value\"");
  for (size_t i = 0; i < COUNT_OF(relations); i++)
    if (layer_is(l, "relation", relations[i].name))
      return shoal_cast(g, relations[i].make(g, x, shoal_cast(g, with, SHOAL_F32)), SHOAL_F32);
  return NULL;
}

static const char *const relation_names[] = {"greater", "greater_equal", "less", "less_equal",
                                             "equal",   "not_equal",     NULL};
static const layer_attr where_attrs[] = {ATTR("then", NUMBER, "null"), ATTR("else", NUMBER, "null"), {0}};
static const layer_attr compare_attrs[] = {
    ATTR("relation", CHOICE, NULL, .choices = relation_names), ATTR("value", NUMBER, "null"), {0}};

const layer_kind layers_merge[] = {
    {"add", "the sum of its inputs", NULL, 2, LAYER_INPUTS_MAX, add_apply},
    {"subtract", "the first less the second", NULL, 2, 2, subtract_apply},
    {"multiply", "the product of its inputs, element by element", NULL, 2, LAYER_INPUTS_MAX, multiply_apply},
    {"average", "the mean of its inputs", NULL, 2, LAYER_INPUTS_MAX, average_apply},
    {"maximum", "the largest of its inputs, element by element", NULL, 2, LAYER_INPUTS_MAX, maximum_apply},
    {"minimum", "the smallest of its inputs, element by element", NULL, 2, LAYER_INPUTS_MAX, minimum_apply},
    {"concatenate", "one after the other along an axis", axis_attrs, 1, LAYER_INPUTS_MAX, concatenate_apply},
    {"stack", "side by side along a new axis", axis_attrs, 1, LAYER_INPUTS_MAX, stack_apply},
    {"dot", "products of vectors, or of matrices", dot_attrs, 2, 2, dot_apply},
    {"where", "the second input where the first is not 0, else the third", where_attrs, 1, 3, where_apply},
    {"compare", "1 where its input is greater than another or a number, 0 elsewhere", compare_attrs, 1, 2,
     compare_apply},
    {0},
};
