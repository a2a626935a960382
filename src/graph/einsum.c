/* Einstein sums, put together from transpose, reshape, reduce_sum and batch_matmul.
 *
 * Two operands at a time. A label of both that is still needed afterwards is an axis of the stack of products, one that
 * is not is summed over by the product; labels of one operand alone are its rows or columns. Axes that "..." stands for
 * have digits as labels. */
#include "base/mem.h"
#include "graph/graph.h"
#include "graph/ops/util.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { OPERANDS_MAX = 8 };

/* A value and a letter for each of its axes. */
typedef struct {
  shoal_value *value;
  char labels[SHOAL_MAX_RANK + 1];
} labelled;

typedef struct {
  shoal_graph *graph;
  labelled in[OPERANDS_MAX];
  int n;
  int unnamed; /* axes that "..." stands for: labels '0', '1' ... from the last one on */
  char out[SHOAL_MAX_RANK + 1];
} einsum;

static bool has(const char *labels, char c) { return strchr(labels, c) != NULL; }

static void append(char *labels, char c) {
  size_t n = strlen(labels);
  labels[n] = c;
  labels[n + 1] = 0;
}

/* ---- reading the equation */

/* How many axes "..." stands for, if there are `rank` in all. */
static int unnamed_axes(const char *labels, const char *end, int rank) {
  for (; *labels && !strchr(end, *labels); labels++) rank -= isalpha((unsigned char)*labels) != 0;
  return MAX_OF(rank, 0);
}

/* Letters up to `end` into `labels`, each at most once; "..." as that many axes. */
static shoal_status read_labels(const char **at, const char *end, int unnamed, char labels[SHOAL_MAX_RANK + 1]) {
  labels[0] = 0;
  for (; **at && !strchr(end, **at); (*at)++) {
    if (**at == ' ') continue;
    if (!strncmp(*at, "...", 3) && !has(labels, '0') && strlen(labels) + (size_t)unnamed <= SHOAL_MAX_RANK) {
      for (int i = unnamed; i-- > 0;) append(labels, (char)('0' + i));
      *at += 2;
      continue;
    }
    if (!isalpha((unsigned char)**at))
      return status_make(SHOAL_ERR_ARGUMENT, "'%c' is not a label: expected letters, as in \"bij,bjk->bik\"", **at);
    if (has(labels, **at)) return status_make(SHOAL_ERR_ARGUMENT, "label '%c' occurs twice in one operand", **at);
    if (strlen(labels) == SHOAL_MAX_RANK)
      return status_make(SHOAL_ERR_ARGUMENT, "no operand has more than %d axes", SHOAL_MAX_RANK);
    append(labels, **at);
  }
  return NULL;
}

/* Without "->": the axes without names, then the labels that are there once, in alphabetical order. */
static shoal_status implied_output(einsum *e) {
  for (int i = e->unnamed; i-- > 0;) append(e->out, (char)('0' + i));
  for (int c = 'A'; c <= 'z'; c++) {
    int count = 0;
    for (int i = 0; i < e->n; i++) count += isalpha(c) && has(e->in[i].labels, (char)c);
    if (count != 1) continue;
    if (strlen(e->out) == SHOAL_MAX_RANK)
      return status_make(SHOAL_ERR_ARGUMENT, "the result would have more than %d axes", SHOAL_MAX_RANK);
    append(e->out, (char)c);
  }
  return NULL;
}

static shoal_status check_operand(const einsum *e, int i) {
  const labelled *x = &e->in[i];
  char buffer[VALUE_TEXT];
  if (!x->value) return status_make(SHOAL_ERR_ARGUMENT, "operand %d is NULL", i);
  if ((int)strlen(x->labels) == x->value->shape.rank) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "operand %d is %s, but has the labels \"%s\"", i, value_text(x->value, buffer),
                     x->labels);
}

static shoal_status read_equation(einsum *e, const char *equation) {
  const char *at = equation;
  for (int i = 0; i < e->n; i++) {
    const int unnamed = e->in[i].value ? unnamed_axes(at, ",-", e->in[i].value->shape.rank) : 0;
    TRY(read_labels(&at, ",-", unnamed, e->in[i].labels));
    if (has(e->in[i].labels, '0')) e->unnamed = MAX_OF(e->unnamed, unnamed);
    if (i + 1 < e->n && *at++ != ',')
      return status_make(SHOAL_ERR_ARGUMENT, "labels for %d operands, separated by commas, are expected", e->n);
    TRY(check_operand(e, i));
  }
  if (!*at) return implied_output(e);
  if (strncmp(at, "->", 2)) return status_make(SHOAL_ERR_ARGUMENT, "labels for %d operands are expected", e->n);
  at += 2;
  TRY(read_labels(&at, "", e->unnamed, e->out));
  for (const char *c = e->out; *c; c++) {
    bool known = false;
    for (int i = 0; i < e->n; i++) known |= has(e->in[i].labels, *c);
    if (!known) return status_make(SHOAL_ERR_ARGUMENT, "label '%c' of the result is not in any operand", *c);
  }
  return NULL;
}

/* ---- steps */

/* The axes in the order of `labels`, which are those of x in another order. */
static labelled in_order(shoal_graph *g, labelled x, const char *labels) {
  shoal_shape order = {.rank = (int)strlen(labels)};
  if (!strcmp(x.labels, labels) || !x.value) return x;
  for (int i = 0; i < order.rank; i++) order.dim[i] = strchr(x.labels, labels[i]) - x.labels;
  x.value = shoal_transpose(g, x.value, order);
  strcpy(x.labels, labels);
  return x;
}

/* Summed over the labels that are not in `needed`. */
static labelled only_needed(shoal_graph *g, labelled x, const char *needed) {
  shoal_shape axes = {0};
  char left[SHOAL_MAX_RANK + 1] = "";
  for (int i = 0; x.labels[i]; i++)
    if (has(needed, x.labels[i]))
      append(left, x.labels[i]);
    else
      axes.dim[axes.rank++] = i;
  if (axes.rank) x.value = shoal_reduce_sum(g, x.value, axes, false);
  strcpy(x.labels, left);
  return x;
}

/* The axes [first, first + count) as one. */
static shoal_value *fold(shoal_graph *g, shoal_value *x, int first, int count) {
  if (!x || count == 1) return x;
  if (count == 0) return shoal_expand_dims(g, x, first);
  shoal_shape to = {0};
  for (int i = 0; i < x->shape.rank; i++)
    if (i <= first || i >= first + count)
      to.dim[to.rank++] = i == first ? shape_span(&x->shape, first, first + count) : x->shape.dim[i];
  return shoal_reshape(g, x, to);
}

static int64_t size_of(const labelled *a, const labelled *b, char label) {
  const char *in_a = strchr(a->labels, label), *in_b = strchr(b->labels, label);
  int64_t of_a = in_a ? a->value->shape.dim[in_a - a->labels] : SHOAL_UNKNOWN;
  return dims_known(of_a, in_b ? b->value->shape.dim[in_b - b->labels] : SHOAL_UNKNOWN);
}

/* [stack..., rows, columns] back to an axis for each label. */
static shoal_value *unfold(shoal_graph *g, shoal_value *x, const labelled *a, const labelled *b, const char *labels) {
  shoal_shape to = {.rank = (int)strlen(labels)};
  for (int i = 0; i < to.rank; i++) to.dim[i] = size_of(a, b, labels[i]);
  if (!x || shoal_shape_equal(&x->shape, &to)) return x;
  return shoal_reshape(g, x, to);
}

/* The operand as a stack of matrices; *transposed: the matrices' rows and columns have changed places. */
static shoal_value *as_matrices(shoal_graph *g, labelled x, const char *stack, const char *rows, const char *columns,
                                bool *transposed) {
  char straight[2 * SHOAL_MAX_RANK + 1], turned[2 * SHOAL_MAX_RANK + 1];
  snprintf(straight, sizeof straight, "%s%s%s", stack, rows, columns);
  snprintf(turned, sizeof turned, "%s%s%s", stack, columns, rows);
  *transposed = !strcmp(x.labels, turned) && strcmp(x.labels, straight);
  x = in_order(g, x, *transposed ? turned : straight);
  const char *first = *transposed ? columns : rows, *second = *transposed ? rows : columns;
  int at = (int)strlen(stack);
  shoal_value *v = fold(g, x.value, at + (int)strlen(first), (int)strlen(second));
  return fold(g, v, at, (int)strlen(first));
}

/* The product of two operands, with the labels that are in `needed`. */
static labelled multiply(shoal_graph *g, labelled a, labelled b, const char *needed) {
  char both[128];
  snprintf(both, sizeof both, "%s%s", needed, b.labels);
  a = only_needed(g, a, both);
  snprintf(both, sizeof both, "%s%s", needed, a.labels);
  b = only_needed(g, b, both);
  char stack[SHOAL_MAX_RANK + 1] = "", inner[SHOAL_MAX_RANK + 1] = "", rows[SHOAL_MAX_RANK + 1] = "",
                              columns[SHOAL_MAX_RANK + 1] = "";
  for (const char *c = a.labels; *c; c++) append(!has(b.labels, *c) ? rows : has(needed, *c) ? stack : inner, *c);
  for (const char *c = b.labels; *c; c++)
    if (!has(a.labels, *c)) append(columns, *c);
  labelled y = {0};
  if (!a.value || !b.value) return y;
  if (strlen(stack) + strlen(rows) + strlen(columns) > SHOAL_MAX_RANK || strlen(stack) + 2 > SHOAL_MAX_RANK) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "einsum: a product would have more than %d axes", SHOAL_MAX_RANK));
    return y;
  }
  bool ta = false, tb = false;
  shoal_value *left = as_matrices(g, a, stack, rows, inner, &ta);
  shoal_value *right = as_matrices(g, b, stack, inner, columns, &tb);
  const char *const parts[] = {stack, rows, columns}; /* at most SHOAL_MAX_RANK in all, see above */
  for (int i = 0; i < 3; i++)
    for (const char *c = parts[i]; *c; c++) append(y.labels, *c);
  y.value = unfold(g, shoal_matmul(g, left, right, ta, tb), &a, &b, y.labels);
  return y;
}

/* What is used after operand i: by the operands behind it or by the result. */
static void needed_after(const einsum *e, int i, char needed[64]) {
  needed[0] = 0;
  strcat(needed, e->out);
  for (int k = i + 1; k < e->n; k++) strcat(needed, e->in[k].labels);
}

shoal_value *shoal_einsum(shoal_graph *g, const char *equation, shoal_value *const *x, int n) {
  einsum e = {.graph = g, .n = n};
  shoal_status status = NULL;
  if (n < 1 || n > OPERANDS_MAX)
    status = status_make(SHOAL_ERR_ARGUMENT, "there are %d operands; 1 to %d are possible", n, OPERANDS_MAX);
  for (int i = 0; i < n && !status; i++) e.in[i].value = x[i];
  if (!status) status = read_equation(&e, equation);
  if (status) {
    graph_fail(g, status_wrap(status, "einsum \"%s\"", equation));
    return NULL;
  }
  labelled y = e.in[0];
  char needed[64];
  for (int i = 1; i < n; i++) {
    needed_after(&e, i, needed);
    y = multiply(g, y, e.in[i], needed);
  }
  y = only_needed(g, y, e.out);
  return in_order(g, y, e.out).value;
}
