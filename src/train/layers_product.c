/* Layers that are sums of products by labels of axes: of tensors, and of a tensor and a kernel. */
#include "base/mem.h"
#include "train/layer.h"

#include <ctype.h>
#include <string.h>

enum { OPERANDS_MAX = 8 };

static shoal_value *einsum_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *y = shoal_einsum(b->model->graph, layer_text(l, "equation"), io->x, io->n);
  if (y && (y->shape.rank < 1 || y->shape.dim[0] != io->x[0]->shape.dim[0]))
    return layer_refuse(b, l, "the first axis of the result has to be that of the inputs, the batch");
  return y;
}

/* ---- with a kernel */

/* The labels of one side of an equation without "...", and whether that comes before or behind them. */
typedef struct {
  char labels[SHOAL_MAX_RANK + 1];
  bool before, behind;
} axis_labels;

/* What stands at *at up to one of `end`, or up to the end. False: it is no list of labels. */
static bool read_side(const char **at, const char *end, axis_labels *out) {
  *out = (axis_labels){0};
  size_t n = 0;
  for (; **at && !strchr(end, **at); (*at)++) {
    if (**at == ' ') continue;
    if (!strncmp(*at, "...", 3) && !out->before && !out->behind) {
      *(n ? &out->behind : &out->before) = true;
      *at += 2;
    } else if (!isalpha((unsigned char)**at) || out->behind || n == SHOAL_MAX_RANK || strchr(out->labels, **at)) {
      return false;
    } else {
      out->labels[n++] = **at;
    }
  }
  return n > 0;
}

/* "abc,cd->abd" as its three sides. */
static bool read_sides(const char *equation, axis_labels *in, axis_labels *kernel, axis_labels *out) {
  const char *at = equation;
  if (!read_side(&at, ",", in) || *at++ != ',') return false;
  if (!read_side(&at, "-", kernel) || strncmp(at, "->", 2)) return false;
  at += 2;
  return read_side(&at, "", out) && !kernel->before && !kernel->behind && in->before == out->before &&
         in->behind == out->behind;
}

/* The size of a label by the labels' places among the last (or, before "...", the first) axes. 0: it is not there. */
static int64_t size_at(const axis_labels *side, char label, const shoal_shape *s, bool from_last) {
  const char *place = strchr(side->labels, label);
  if (!place) return 0;
  const int i = (int)(place - side->labels) + (from_last ? s->rank - (int)strlen(side->labels) : 0);
  return i >= 0 && i < s->rank ? s->dim[i] : 0;
}

/* As the result has it, or, where output_shape leaves it open, the input. */
static int64_t size_of(const axis_labels *in, const axis_labels *out, char label, const shoal_shape *x,
                       const shoal_shape *result) {
  const int64_t size = size_at(out, label, result, true);
  return size > 0 ? size : size_at(in, label, x, in->before);
}

static shoal_value *with_bias(branch *b, layer *l, shoal_value *y, const axis_labels *in, const axis_labels *out,
                              const shoal_shape *x, const shoal_shape *result) {
  const char *axes = layer_text(l, "bias_axes");
  shoal_shape shape = {0};
  if (!axes || !*axes) return y;
  if (strspn(axes, out->labels) < strlen(axes))
    return layer_refuse(b, l, "bias_axes \"%s\": expected labels of the result, \"%s\"", axes, out->labels);
  for (const char *c = out->labels + strcspn(out->labels, axes); *c; c++)
    shape.dim[shape.rank++] = strchr(axes, *c) ? size_of(in, out, *c, x, result) : 1;
  while (in->behind && shape.rank < y->shape.rank - (int)strcspn(out->labels, axes)) shape.dim[shape.rank++] = 1;
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] < 1) return layer_refuse(b, l, "bias_axes \"%s\": the batch can have no bias", axes);
  const double count = (double)shoal_shape_count(&shape);
  return shoal_add(b->model->graph, y, layer_bias_shaped(b, l, "bias", shape, count));
}

/* A dense layer between any axes: the kernel's sizes are those of its labels in the input and in the result. */
static shoal_value *einsum_dense_apply(branch *b, layer *l, layer_io *io) {
  const char *equation = layer_text(l, "equation");
  shoal_value *x = io->x[0];
  axis_labels in, kernel, out;
  if (!read_sides(equation, &in, &kernel, &out))
    return layer_refuse(
        b, l, "equation \"%s\": expected labels of the input, the kernel and the result, \"abc,cd->abd\"", equation);
  if (in.before || in.behind ? (int)strlen(in.labels) > x->shape.rank : (int)strlen(in.labels) != x->shape.rank)
    return layer_refuse(b, l, "equation \"%s\": the input has %d axes", equation, x->shape.rank);
  const shoal_shape result = layer_shape(l, "output_shape");
  shoal_shape shape = {.rank = (int)strlen(kernel.labels)};
  double fans[2] = {1, 1}; /* in, out */
  for (int i = 0; i < shape.rank; i++) {
    shape.dim[i] = size_of(&in, &out, kernel.labels[i], &x->shape, &result);
    if (shape.dim[i] < 1)
      return layer_refuse(b, l, "equation \"%s\": the size of '%c' is not known from the input or output_shape",
                          equation, kernel.labels[i]);
    fans[strchr(out.labels, kernel.labels[i]) != NULL] *= (double)shape.dim[i];
  }
  shoal_value *weights = layer_kernel(b, l, "kernel", "kernel_initializer", shape, fans[0], fans[1]);
  shoal_value *y = shoal_einsum(b->model->graph, equation, (shoal_value *[]){x, weights}, 2);
  if (y && y->shape.dim[0] != x->shape.dim[0])
    return layer_refuse(b, l, "equation \"%s\": the first axis of the result has to be the batch", equation);
  return y ? with_bias(b, l, y, &in, &out, &x->shape, &result) : NULL;
}

static const layer_attr einsum_attrs[] = {ATTR("equation", TEXT, NULL), {0}};
static const layer_attr dense_attrs[] = {ATTR("equation", TEXT, NULL),
                                         ATTR("output_shape", SHAPE, NULL),
                                         ATTR("activation", ACTIVATION, "null"),
                                         ATTR("bias_axes", TEXT, "null"),
                                         ATTR("kernel_initializer", INITIALIZER, "null"),
                                         ATTR("bias_initializer", INITIALIZER, "0"),
                                         {0}};

const layer_kind layers_product[] = {
    {"einsum", "a sum of products of its inputs by labels of axes", einsum_attrs, 1, OPERANDS_MAX, einsum_apply},
    {"einsum_dense", "the same of its input and a kernel, with a bias", dense_attrs, 1, 1, einsum_dense_apply},
    {0},
};
