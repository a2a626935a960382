/* Recurrent layers over whole sequences: each operator is the loop over the steps, row by row.
 *
 * What the inputs contribute, x w + bias for all steps, is one product made outside. So is the gradient with respect to
 * the recurrent weights: the operators hand out the gradients of what enters each step, and those times the states
 * before make one product. All of it treats rows apart. Where a mask is false a step leaves the state as it is.
 *
 *   xw [n, steps, gates * units], u [units, gates * units], state [n, units], mask bool [n, steps] */
#include "graph/ops/dot.h"
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"

#include <string.h>
#include <tgmath.h>

#define LOGISTIC(v) (1 / (1 + exp(-(v))))

/* ---- shapes */

typedef struct {
  int64_t rows, steps, units;
} sequence;

static shoal_status check_matrix(const op_shapes *s, int i, int64_t rows, int64_t columns, const char *what) {
  TRY(rule_rank(s, i, 2, what));
  if (s->in_dtype[i] == s->in_dtype[0] && dims_fit(s->in[i].dim[0], rows) && dims_fit(s->in[i].dim[1], columns))
    return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  shoal_shape expected = SHOAL_SHAPE(rows, columns);
  return status_make(SHOAL_ERR_ARGUMENT, "%s is %s%s; expected %s%s", what, shoal_dtype_name(s->in_dtype[i]),
                     shoal_shape_text(&s->in[i], a), shoal_dtype_name(s->in_dtype[0]), shoal_shape_text(&expected, b));
}

static shoal_status check_steps(const op_shapes *s, int i, const sequence *q, int64_t width, const char *what) {
  shoal_shape expected = SHOAL_SHAPE(q->rows, q->steps, width);
  if (s->in_dtype[i] == s->in_dtype[0] && shapes_fit(&s->in[i], &expected)) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "%s is %s; expected %s", what, shoal_shape_text(&s->in[i], a),
                     shoal_shape_text(&expected, b));
}

static shoal_status check_mask(const op_shapes *s, int i, const sequence *q) {
  if (i >= s->ins) return NULL;
  TRY(rule_rank(s, i, 2, "the mask"));
  if (s->in_dtype[i] == SHOAL_BOOL && dims_fit(s->in[i].dim[0], q->rows) && dims_fit(s->in[i].dim[1], q->steps))
    return NULL;
  char a[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "the mask is %s%s; expected bool [rows, steps]",
                     shoal_dtype_name(s->in_dtype[i]), shoal_shape_text(&s->in[i], a));
}

/* xw and u of an operator with so many gates. */
static shoal_status check_inputs(const op_shapes *s, int gates, sequence *q) {
  TRY(rule_float(s, 0, "xw"));
  TRY(rule_rank(s, 0, 3, "xw"));
  TRY(rule_rank(s, 1, 2, "u"));
  *q = (sequence){s->in[0].dim[0], s->in[0].dim[1], s->in[1].dim[0]};
  if (q->units == SHOAL_UNKNOWN) return status_make(SHOAL_ERR_ARGUMENT, "the number of units must be known");
  if (q->steps == 0) return status_make(SHOAL_ERR_ARGUMENT, "the sequences have no steps");
  TRY(check_matrix(s, 1, q->units, gates * q->units, "u"));
  return check_steps(s, 0, q, gates * q->units, "xw");
}

static void set_out(op_shapes *s, int i, shoal_shape shape) {
  s->out[i] = shape;
  s->out_dtype[i] = s->in_dtype[0];
}

/* All operands but weights have the batch, or none is cut. */
static op_batch rows_apart(const op_shapes *s, uint32_t weights) {
  for (int i = 0; i < s->ins; i++)
    if (shape_is_batched(&s->in[i]) == (weights >> i & 1)) return BATCH_WHOLE;
  return batch_map(s);
}
static op_batch second_is_weight(const op_shapes *s) { return rows_apart(s, 2); }
static op_batch second_and_third_are_weights(const op_shapes *s) { return rows_apart(s, 6); }

/* ---- pieces of kernels */

/* to [columns] += from [units] u [units, columns] */
#define ADD_PRODUCT(to, from, u, units, columns)                         \
  for (int64_t k_ = 0; k_ < (units); k_++) {                             \
    real f_ = (from)[k_];                                                \
    const real *restrict row_ = (u) + k_ * (columns);                    \
    real *restrict to_ = (to);                                           \
    for (int64_t j_ = 0; j_ < (columns); j_++) to_[j_] += f_ * row_[j_]; \
  }
/* to [units] += from [columns] u^T */
#define ADD_BACK_PRODUCT(to, from, u, units, columns) \
  for (int64_t k_ = 0; k_ < (units); k_++)            \
  (to)[k_] += DOT((const real *)(from), (const real *)((u) + k_ * (columns)), columns)

/* Step s of `steps` in the order of the loop is step STEP_AT(s) of the sequence. */
#define STEP_AT(s) (reverse ? steps - 1 - (s) : (s))
/* The state before step s of row r, which `states` holds from the first step on. */
#define STATE_BEFORE(states, first, s) ((s) ? (states) + (r * steps + STEP_AT((s)-1)) * units : (first) + r * units)
#define SEQUENCE_SIZES(of)                  \
  const int64_t rows = (of)->shape.dim[0];  \
  const int64_t steps = (of)->shape.dim[1]; \
  const int64_t units = (of)->shape.dim[2]; \
  const bool reverse = call->attr[0].i;
#define MASK_INPUT(i) const uint8_t *mask = call->ins > (i) ? call->in[i].data : NULL /* [rows, steps] */
#define SKIPPED(at) (mask && !mask[at])

/* ---- rnn(xw, u, state, [mask]; reverse, relu): h = tanh(xw + h u) */

enum { REVERSE, RELU };

static shoal_status rnn_shape(op_shapes *s) {
  sequence q;
  TRY(check_inputs(s, 1, &q));
  TRY(check_matrix(s, 2, q.rows, q.units, "the state"));
  TRY(check_mask(s, 3, &q));
  set_out(s, 0, SHOAL_SHAPE(q.rows, q.steps, q.units));
  return NULL;
}

REAL_KERNEL(rnn_kernel, {
  const real *xw = call->in[0].data;    /* [rows, steps, units] */
  const real *u = call->in[1].data;     /* [units, units] */
  const real *first = call->in[2].data; /* [rows, units] */
  real *y = call->out[0].data;          /* [rows, steps, units] */
  SEQUENCE_SIZES(&call->out[0])
  MASK_INPUT(3);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t s = 0; s < steps; s++) {
      int64_t at = r * steps + STEP_AT(s);
      const real *before = STATE_BEFORE(y, first, s);
      real *h = y + at * units;
      if (SKIPPED(at)) {
        memcpy(h, before, (size_t)units * sizeof *h);
        continue;
      }
      memcpy(h, xw + at * units, (size_t)units * sizeof *h);
      ADD_PRODUCT(h, before, u, units, units)
      for (int64_t k = 0; k < units; k++) h[k] = call->attr[RELU].i ? (h[k] < 0 ? 0 : h[k]) : tanh(h[k]);
    }
  return NULL;
})

/* rnn_grad(dy, u, y, [mask]): gradients of what enters each step, and of the first state */
static shoal_status rnn_grad_shape(op_shapes *s) {
  sequence q;
  TRY(check_inputs(s, 1, &q));
  TRY(check_steps(s, 2, &q, q.units, "y"));
  TRY(check_mask(s, 3, &q));
  set_out(s, 0, s->in[0]);
  set_out(s, 1, SHOAL_SHAPE(q.rows, q.units));
  return NULL;
}

REAL_KERNEL(rnn_grad_kernel, {
  const real *dy = call->in[0].data; /* [rows, steps, units] */
  const real *u = call->in[1].data;  /* [units, units] */
  const real *y = call->in[2].data;  /* [rows, steps, units] */
  real *da = call->out[0].data;      /* [rows, steps, units] */
  SEQUENCE_SIZES(&call->in[2])
  MASK_INPUT(3);
  for (int64_t r = 0; r < rows; r++) {
    real *dh = (real *)call->out[1].data + r * units; /* [units]: of the state after the step under way */
    memset(dh, 0, (size_t)units * sizeof *dh);
    for (int64_t s = steps - 1; s >= 0; s--) {
      int64_t at = r * steps + STEP_AT(s);
      const real *h = y + at * units;
      real *d = da + at * units;
      for (int64_t k = 0; k < units; k++) {
        real flow = dh[k] + dy[at * units + k];
        d[k] = SKIPPED(at) ? 0 : flow * (call->attr[RELU].i ? (h[k] > 0 ? 1 : 0) : 1 - h[k] * h[k]);
        dh[k] = SKIPPED(at) ? flow : 0;
      }
      if (!SKIPPED(at)) ADD_BACK_PRODUCT(dh, d, u, units, units);
    }
  }
  return NULL;
})

/* ---- lstm(xw, u, state, cell, [mask]; reverse) -> y, cells, gates; gates: input, forget, candidate, output */

static shoal_status lstm_shape(op_shapes *s) {
  sequence q;
  TRY(check_inputs(s, 4, &q));
  TRY(check_matrix(s, 2, q.rows, q.units, "the state"));
  TRY(check_matrix(s, 3, q.rows, q.units, "the cell"));
  TRY(check_mask(s, 4, &q));
  set_out(s, 0, SHOAL_SHAPE(q.rows, q.steps, q.units));
  set_out(s, 1, s->out[0]);
  set_out(s, 2, SHOAL_SHAPE(q.rows, q.steps, 4 * q.units));
  return NULL;
}

REAL_KERNEL(lstm_kernel, {
  const real *xw = call->in[0].data;    /* [rows, steps, 4 units] */
  const real *u = call->in[1].data;     /* [units, 4 units] */
  const real *first = call->in[2].data; /* [rows, units] */
  const real *first_cell = call->in[3].data;
  real *y = call->out[0].data;     /* [rows, steps, units] */
  real *cells = call->out[1].data; /* [rows, steps, units] */
  real *gates = call->out[2].data; /* [rows, steps, 4 units] */
  SEQUENCE_SIZES(&call->out[0])
  MASK_INPUT(4);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t s = 0; s < steps; s++) {
      int64_t at = r * steps + STEP_AT(s);
      const real *before = STATE_BEFORE(y, first, s);
      const real *cell = STATE_BEFORE(cells, first_cell, s);
      real *h = y + at * units;
      real *c = cells + at * units;
      real *g = gates + at * 4 * units;
      memcpy(g, xw + at * 4 * units, (size_t)(4 * units) * sizeof *g);
      if (SKIPPED(at)) {
        memcpy(h, before, (size_t)units * sizeof *h);
        memcpy(c, cell, (size_t)units * sizeof *c);
        continue;
      }
      ADD_PRODUCT(g, before, u, units, 4 * units)
      for (int64_t k = 0; k < units; k++) {
        real in = g[k] = LOGISTIC(g[k]);
        real forget = g[units + k] = LOGISTIC(g[units + k]);
        real candidate = g[2 * units + k] = tanh(g[2 * units + k]);
        real out = g[3 * units + k] = LOGISTIC(g[3 * units + k]);
        c[k] = forget * cell[k] + in * candidate;
        h[k] = out * tanh(c[k]);
      }
    }
  return NULL;
})

/* lstm_grad(dy, u, dcells, cell, cells, gates, [mask]): gradients of what enters each step, of the first state and cell */
static shoal_status lstm_grad_shape(op_shapes *s) {
  sequence q;
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_rank(s, 0, 3, "dy"));
  TRY(rule_rank(s, 1, 2, "u"));
  q = (sequence){s->in[0].dim[0], s->in[0].dim[1], s->in[1].dim[0]};
  TRY(check_matrix(s, 1, q.units, q.units == SHOAL_UNKNOWN ? q.units : 4 * q.units, "u"));
  TRY(check_steps(s, 0, &q, q.units, "dy"));
  TRY(check_steps(s, 2, &q, q.units, "dcells"));
  TRY(check_matrix(s, 3, q.rows, q.units, "the cell"));
  TRY(check_steps(s, 4, &q, q.units, "cells"));
  TRY(check_steps(s, 5, &q, s->in[1].dim[1], "gates"));
  TRY(check_mask(s, 6, &q));
  set_out(s, 0, s->in[5]);
  set_out(s, 1, s->in[3]);
  set_out(s, 2, s->in[3]);
  return NULL;
}

REAL_KERNEL(lstm_grad_kernel, {
  const real *dy = call->in[0].data;         /* [rows, steps, units] */
  const real *u = call->in[1].data;          /* [units, 4 units] */
  const real *dcells = call->in[2].data;     /* [rows, steps, units] */
  const real *first_cell = call->in[3].data; /* [rows, units] */
  const real *cells = call->in[4].data;      /* [rows, steps, units] */
  const real *gates = call->in[5].data;      /* [rows, steps, 4 units] */
  real *da = call->out[0].data;              /* [rows, steps, 4 units] */
  SEQUENCE_SIZES(&call->in[0])
  MASK_INPUT(6);
  for (int64_t r = 0; r < rows; r++) {
    real *dh = (real *)call->out[1].data + r * units; /* [units]: of state and cell after the step under way */
    real *dc = (real *)call->out[2].data + r * units;
    memset(dh, 0, (size_t)units * sizeof *dh);
    memset(dc, 0, (size_t)units * sizeof *dc);
    for (int64_t s = steps - 1; s >= 0; s--) {
      int64_t at = r * steps + STEP_AT(s);
      const real *cell = STATE_BEFORE(cells, first_cell, s);
      const real *g = gates + at * 4 * units;
      real *d = da + at * 4 * units;
      for (int64_t k = 0; k < units; k++) {
        real in = g[k];
        real forget = g[units + k];
        real candidate = g[2 * units + k];
        real out = g[3 * units + k];
        real shown = tanh(cells[at * units + k]);
        dh[k] += dy[at * units + k];
        dc[k] += dcells[at * units + k];
        if (SKIPPED(at)) {
          d[k] = d[units + k] = d[2 * units + k] = d[3 * units + k] = 0;
          continue;
        }
        dc[k] += dh[k] * out * (1 - shown * shown);
        d[k] = dc[k] * candidate * in * (1 - in);
        d[units + k] = dc[k] * cell[k] * forget * (1 - forget);
        d[2 * units + k] = dc[k] * in * (1 - candidate * candidate);
        d[3 * units + k] = dh[k] * shown * out * (1 - out);
        dc[k] *= forget;
        dh[k] = 0;
      }
      if (!SKIPPED(at)) ADD_BACK_PRODUCT(dh, d, u, units, 4 * units);
    }
  }
  return NULL;
})

/* ---- gru(xw, u, bias, state, [mask]; reverse) -> y, gates, inner; gates: update, reset, candidate
 *
 * candidate = tanh(xw + reset * (h u + bias)), h = (1 - update) candidate + update h; `inner` is what reset multiplies. */

static shoal_status check_bias(const op_shapes *s, int i, const sequence *q) {
  TRY(rule_rank(s, i, 1, "the bias"));
  if (s->in_dtype[i] == s->in_dtype[0] && dims_fit(s->in[i].dim[0], 3 * q->units)) return NULL;
  char a[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "the bias is %s; expected 3 x %lld numbers", shoal_shape_text(&s->in[i], a),
                     (long long)q->units);
}

static shoal_status gru_shape(op_shapes *s) {
  sequence q;
  TRY(check_inputs(s, 3, &q));
  TRY(check_bias(s, 2, &q));
  TRY(check_matrix(s, 3, q.rows, q.units, "the state"));
  TRY(check_mask(s, 4, &q));
  set_out(s, 0, SHOAL_SHAPE(q.rows, q.steps, q.units));
  set_out(s, 1, SHOAL_SHAPE(q.rows, q.steps, 3 * q.units));
  set_out(s, 2, s->out[0]);
  return NULL;
}

REAL_KERNEL(gru_kernel, {
  const real *xw = call->in[0].data;    /* [rows, steps, 3 units] */
  const real *u = call->in[1].data;     /* [units, 3 units] */
  const real *bias = call->in[2].data;  /* [3 units] */
  const real *first = call->in[3].data; /* [rows, units] */
  real *y = call->out[0].data;          /* [rows, steps, units] */
  real *gates = call->out[1].data;      /* [rows, steps, 3 units] */
  real *inner = call->out[2].data;      /* [rows, steps, units] */
  SEQUENCE_SIZES(&call->out[0])
  MASK_INPUT(4);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t s = 0; s < steps; s++) {
      int64_t at = r * steps + STEP_AT(s);
      const real *before = STATE_BEFORE(y, first, s);
      const real *x = xw + at * 3 * units;
      real *h = y + at * units;
      real *g = gates + at * 3 * units;
      memcpy(g, bias, (size_t)(3 * units) * sizeof *g);
      ADD_PRODUCT(g, before, u, units, 3 * units)
      for (int64_t k = 0; k < units; k++) {
        real own = inner[at * units + k] = g[2 * units + k];
        real update = g[k] = LOGISTIC(x[k] + g[k]);
        real reset = g[units + k] = LOGISTIC(x[units + k] + g[units + k]);
        real candidate = g[2 * units + k] = tanh(x[2 * units + k] + reset * own);
        h[k] = SKIPPED(at) ? before[k] : (1 - update) * candidate + update * before[k];
      }
    }
  return NULL;
})

/* gru_grad(dy, u, state, y, gates, inner, [mask]): gradients of xw, of h u + bias, and of the first state */
static shoal_status gru_grad_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_rank(s, 0, 3, "dy"));
  TRY(rule_rank(s, 1, 2, "u"));
  sequence q = {s->in[0].dim[0], s->in[0].dim[1], s->in[1].dim[0]};
  TRY(check_matrix(s, 1, q.units, q.units == SHOAL_UNKNOWN ? q.units : 3 * q.units, "u"));
  TRY(check_steps(s, 0, &q, q.units, "dy"));
  TRY(check_matrix(s, 2, q.rows, q.units, "the state"));
  TRY(check_steps(s, 3, &q, q.units, "y"));
  TRY(check_steps(s, 4, &q, s->in[1].dim[1], "gates"));
  TRY(check_steps(s, 5, &q, q.units, "inner"));
  TRY(check_mask(s, 6, &q));
  set_out(s, 0, s->in[4]);
  set_out(s, 1, s->in[4]);
  set_out(s, 2, s->in[2]);
  return NULL;
}

REAL_KERNEL(gru_grad_kernel, {
  const real *dy = call->in[0].data;    /* [rows, steps, units] */
  const real *u = call->in[1].data;     /* [units, 3 units] */
  const real *first = call->in[2].data; /* [rows, units] */
  const real *y = call->in[3].data;     /* [rows, steps, units] */
  const real *gates = call->in[4].data; /* [rows, steps, 3 units] */
  const real *inner = call->in[5].data; /* [rows, steps, units] */
  real *da = call->out[0].data;         /* [rows, steps, 3 units] */
  real *db = call->out[1].data;         /* [rows, steps, 3 units] */
  SEQUENCE_SIZES(&call->in[0])
  MASK_INPUT(6);
  for (int64_t r = 0; r < rows; r++) {
    real *dh = (real *)call->out[2].data + r * units; /* [units]: of the state after the step under way */
    memset(dh, 0, (size_t)units * sizeof *dh);
    for (int64_t s = steps - 1; s >= 0; s--) {
      int64_t at = r * steps + STEP_AT(s);
      const real *before = STATE_BEFORE(y, first, s);
      const real *g = gates + at * 3 * units;
      real *d = da + at * 3 * units;
      real *e = db + at * 3 * units;
      for (int64_t k = 0; k < units; k++) {
        real update = g[k];
        real reset = g[units + k];
        real candidate = g[2 * units + k];
        real flow = dh[k] + dy[at * units + k];
        real used = SKIPPED(at) ? 0 : flow;
        d[2 * units + k] = used * (1 - update) * (1 - candidate * candidate);
        d[k] = e[k] = used * (before[k] - candidate) * update * (1 - update);
        d[units + k] = e[units + k] = d[2 * units + k] * inner[at * units + k] * reset * (1 - reset);
        e[2 * units + k] = d[2 * units + k] * reset;
        dh[k] = SKIPPED(at) ? flow : flow * update;
      }
      if (!SKIPPED(at)) ADD_BACK_PRODUCT(dh, e, u, units, 3 * units);
    }
  }
  return NULL;
})

/* ---- gradients */

/* The state before each step, [n, steps, units]: y moved by one step, behind (or before) the first state. */
static shoal_value *states_before(shoal_graph *g, shoal_value *y, shoal_value *first, bool reverse) {
  shoal_shape start = SHOAL_SHAPE(0, 0, 0), stop = SHOAL_SHAPE(SHOAL_END, SHOAL_END, SHOAL_END);
  if (reverse)
    start.dim[1] = 1;
  else
    stop.dim[1] = -1;
  shoal_value *rest = shoal_strided_slice(g, y, start, stop, SHOAL_SHAPE(1, 1, 1));
  shoal_value *one = shoal_expand_dims(g, first, 1);
  return shoal_concat(g, (shoal_value *[]){reverse ? rest : one, reverse ? one : rest}, 2, 1);
}

static shoal_value *weight_gradient(shoal_graph *g, shoal_value *before, shoal_value *da, shoal_value *u) {
  return graph_op(g, "batch_matmul_sum", (shoal_value *[]){before, da, u}, 3,
                  (attr_value[OP_MAX_ATTRS]){ATTR_I(true), ATTR_I(false)});
}

static shoal_value *flow_of(op_grad_call *c, int i) {
  return c->dy[i] ? c->dy[i] : shoal_fill_like(c->graph, c->out[i], 0);
}

/* The operator's gradient, its mask (input m, if it is there) handed on behind `in`. */
static shoal_value *with_mask(op_grad_call *c, const char *op, shoal_value **in, int n, int m) {
  if (c->ins > m) in[n++] = c->in[m];
  return graph_op(c->graph, op, in, n, c->attr);
}

static void rnn_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *in[4] = {flow_of(c, 0), c->in[1], c->out[0]};
  shoal_value *da = with_mask(c, "rnn_grad", in, 3, 3);
  c->dx[0].value = da;
  c->dx[1].value = weight_gradient(g, states_before(g, c->out[0], c->in[2], c->attr[REVERSE].i), da, c->in[1]);
  c->dx[2].value = shoal_value_output(da, 1);
}

static void lstm_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *in[7] = {flow_of(c, 0), c->in[1], flow_of(c, 1), c->in[3], c->out[1], c->out[2]};
  shoal_value *da = with_mask(c, "lstm_grad", in, 6, 4);
  c->dx[0].value = da;
  c->dx[1].value = weight_gradient(g, states_before(g, c->out[0], c->in[2], c->attr[REVERSE].i), da, c->in[1]);
  c->dx[2].value = shoal_value_output(da, 1);
  c->dx[3].value = shoal_value_output(da, 2);
}

static void gru_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *in[7] = {flow_of(c, 0), c->in[1], c->in[3], c->out[0], c->out[1], c->out[2]};
  shoal_value *da = with_mask(c, "gru_grad", in, 6, 4), *db = shoal_value_output(da, 1);
  c->dx[0].value = da;
  c->dx[1].value = weight_gradient(g, states_before(g, c->out[0], c->in[3], c->attr[REVERSE].i), db, c->in[1]);
  c->dx[2].value = GRAPH_UNARY(g, "bias_add_grad", db, {0});
  c->dx[3].value = shoal_value_output(da, 2);
}

/* Two for each weight, row and step, and the functions. */
static void recurrent_cost(const op_shapes *s, double *flops) {
  int64_t steps = s->in[0].dim[0] * s->in[0].dim[1];
  *flops = (double)steps * (2.0 * (double)shoal_shape_count(&s->in[1]) + 20.0 * (double)s->in[1].dim[1]);
}

static const char *const rnn_cases[] = {"[?3,4,2] [2,2] [?3,2]",
                                        "[2,3,5] [5,5] [2,5] reverse=1",
                                        "[?3,4,2] [2,2] [?3,2] relu=1",
                                        "[?3,4,2] [2,2] [?3,2] bool[?3,4]",
                                        "[?2,1,3] [3,3] [?2,3] bool[?2,1] reverse=1",
                                        NULL};
static const char *const rnn_grad_cases[] = {"[?3,4,2] [2,2] [?3,4,2]", "[2,3,5] [5,5] [2,3,5] reverse=1",
                                             "[?3,4,2] [2,2] [?3,4,2] bool[?3,4]", NULL};
static const char *const lstm_cases[] = {"[?3,4,8] [2,8] [?3,2] [?3,2]",
                                         "[2,3,12] [3,12] [2,3] [2,3] reverse=1",
                                         "[?3,4,8] [2,8] [?3,2] [?3,2] bool[?3,4]",
                                         "[?3,4,8] [2,8] [?3,2] [?3,2] bool[?3,4] reverse=1",
                                         "[?20,3,20] [5,20] [?20,5] [?20,5] bool[?20,3]",
                                         NULL};
static const char *const lstm_grad_cases[] = {"[?3,4,2] [2,8] [?3,4,2] [?3,2] [?3,4,2] [?3,4,8]",
                                              "[?3,4,2] [2,8] [?3,4,2] [?3,2] [?3,4,2] [?3,4,8] bool[?3,4] reverse=1",
                                              "[?20,3,5] [5,20] [?20,3,5] [?20,5] [?20,3,5] [?20,3,20] bool[?20,3]",
                                              NULL};
static const char *const gru_cases[] = {"[?3,4,6] [2,6] [6] [?3,2]", "[2,3,9] [3,9] [9] [2,3] reverse=1",
                                        "[?3,4,6] [2,6] [6] [?3,2] bool[?3,4]",
                                        "[?3,4,6] [2,6] [6] [?3,2] bool[?3,4] reverse=1", NULL};
static const char *const gru_grad_cases[] = {"[?3,4,2] [2,6] [?3,2] [?3,4,2] [?3,4,6] [?3,4,2]",
                                             "[?3,4,2] [2,6] [?3,2] [?3,4,2] [?3,4,6] [?3,4,2] bool[?3,4] reverse=1",
                                             NULL};

#define RECURRENT(op, inputs, outputs, saved_, rule, ...)                                                       \
  {                                                                                                             \
    .name = #op, .attrs = {{"reverse", ATTR_BOOL, 0}, __VA_ARGS__}, .ins_min = inputs, .ins_max = (inputs) + 1, \
    .outs = outputs, .saved = saved_, .shape = op##_shape, .batch = rule, .gradient = op##_gradient,            \
    .kernel = op##_kernel, .variants = tuned_##op, .cost = recurrent_cost, .cases = op##_cases                  \
  }
#define RECURRENT_GRAD(op, inputs, outputs, ...)                                                                  \
  {                                                                                                               \
    .name = #op "_grad", .attrs = {{"reverse", ATTR_BOOL, 0}, __VA_ARGS__}, .ins_min = inputs,                    \
    .ins_max = (inputs) + 1, .outs = outputs, .flags = OP_GRADIENT_ONLY, .shape = op##_grad_shape,                \
    .batch = second_is_weight, .kernel = op##_grad_kernel, .variants = tuned_##op##_grad, .cost = recurrent_cost, \
    .cases = op##_grad_cases                                                                                      \
  }
/* The LSTM has kernels that take all rows of a step at once (kernel/lstm.inc.h); the others go row by row only. */
#define tuned_rnn NULL
#define tuned_rnn_grad NULL
#define tuned_gru NULL
#define tuned_gru_grad NULL
#define RELU_ATTR \
  { "relu", ATTR_BOOL, 0 }

const op_row ops_recurrent[] = {RECURRENT(rnn, 3, 1, 0, second_is_weight, RELU_ATTR),
                                RECURRENT_GRAD(rnn, 3, 2, RELU_ATTR),
                                RECURRENT(lstm, 4, 3, 4, second_is_weight, {0}),
                                RECURRENT_GRAD(lstm, 6, 3, {0}),
                                RECURRENT(gru, 4, 3, 6, second_and_third_are_weights, {0}),
                                RECURRENT_GRAD(gru, 6, 3, {0}),
                                {0}};

/* ---- layers */

/* x w + bias, for all steps at once. */
static shoal_value *inputs_of(shoal_graph *g, shoal_value *x, shoal_value *w, shoal_value *bias) {
  shoal_value *xw = shoal_matmul(g, x, w, false, false);
  return bias ? shoal_bias_add(g, xw, bias) : xw;
}

/* The given state, or zeros. */
static shoal_value *state_or_zero(shoal_graph *g, shoal_value *state, shoal_value *xw, shoal_value *u) {
  if (state || !xw || !u || xw->shape.rank != 3) return state;
  shoal_shape stop = SHOAL_SHAPE(SHOAL_END, 1, u->shape.dim[0]);
  shoal_value *like = shoal_strided_slice(g, xw, SHOAL_SHAPE(0, 0, 0), stop, SHOAL_SHAPE(1, 1, 1));
  return shoal_fill_like(g, shoal_squeeze(g, like, SHOAL_SHAPE(1)), 0);
}

shoal_value *shoal_rnn(shoal_graph *g, shoal_value *x, const shoal_recurrent *r) {
  shoal_value *xw = inputs_of(g, x, r->w, r->bias);
  shoal_value *in[] = {xw, r->u, state_or_zero(g, r->state, xw, r->u), r->mask};
  return graph_op(g, "rnn", in, r->mask ? 4 : 3, (attr_value[OP_MAX_ATTRS]){ATTR_I(r->reverse), ATTR_I(r->relu)});
}

shoal_value *shoal_lstm(shoal_graph *g, shoal_value *x, const shoal_recurrent *r) {
  shoal_value *xw = inputs_of(g, x, r->w, r->bias);
  shoal_value *in[] = {xw, r->u, state_or_zero(g, r->state, xw, r->u), state_or_zero(g, r->cell, xw, r->u), r->mask};
  return graph_op(g, "lstm", in, r->mask ? 5 : 4, (attr_value[OP_MAX_ATTRS]){ATTR_I(r->reverse)});
}

shoal_value *shoal_gru(shoal_graph *g, shoal_value *x, const shoal_recurrent *r) {
  shoal_value *xw = inputs_of(g, x, r->w, r->bias);
  shoal_value *inner = r->inner_bias;
  if (!inner && r->u)
    inner = shoal_fill(g, r->u->dtype, SHOAL_SHAPE(r->u->shape.rank == 2 ? r->u->shape.dim[1] : 0), 0);
  shoal_value *in[] = {xw, r->u, inner, state_or_zero(g, r->state, xw, r->u), r->mask};
  return graph_op(g, "gru", in, r->mask ? 5 : 4, (attr_value[OP_MAX_ATTRS]){ATTR_I(r->reverse)});
}
