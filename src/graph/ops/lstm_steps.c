/* The LSTM a step at a time, f32: one product for all rows of a step, and functions of whole vectors. The same as the
 * reference in recurrent.c, which goes row by row. */
#include "graph/ops/tuned.h"

#include "base/mem.h"
#include "kernel/gemm.h"
#include "kernel/lanes.h"

#include <string.h>

typedef struct {
  const kernel_call *call;
  kernel_fn product, sigmoid, tanh; /* of one instruction set */
  int64_t rows, steps, units;
  bool reverse;
  const uint8_t *mask; /* [rows, steps]; NULL: none */
  float *a;            /* [rows, 4 units]: what enters the gates, or its gradient */
  float *v;            /* [rows, units] */
  float *h;            /* [rows, units] */
  void *panels;        /* of the product */
} lstm_work;

/* Floats of an array of n, so that the next one begins at a whole vector. */
static int64_t room(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

static size_t steps_scratch(int64_t rows, int64_t units) {
  size_t floats = (size_t)(room(4 * rows * units) + 2 * room(rows * units));
  return floats * sizeof(float) + gemm_scratch(rows, 4 * units, 4 * units);
}
static size_t lstm_scratch(const op_shapes *s) { return steps_scratch(s->in[0].dim[0], s->in[1].dim[0]); }

/* `of`: [rows, steps, units]; mask: the input that holds it, if it is there. */
static lstm_work begin(const kernel_call *call, const shoal_tensor *of, int mask) {
  lstm_work w = {.call = call,
                 .rows = of->shape.dim[0],
                 .steps = of->shape.dim[1],
                 .units = of->shape.dim[2],
                 .reverse = call->attr[0].i,
                 .mask = call->ins > mask ? call->in[mask].data : NULL};
  w.a = call->scratch;
  w.v = w.a + room(4 * w.rows * w.units);
  w.h = w.v + room(w.rows * w.units);
  w.panels = w.h + room(w.rows * w.units);
  return w;
}

/* Step s in the order of the loop. */
static int64_t step_at(const lstm_work *w, int64_t s) { return w->reverse ? w->steps - 1 - s : s; }
static bool skipped(const lstm_work *w, int64_t at) { return w->mask && !w->mask[at]; }

/* The state of row r before step s. */
static const float *before(const lstm_work *w, const float *states, const float *first, int64_t r, int64_t s) {
  return s ? states + (r * w->steps + step_at(w, s - 1)) * w->units : first + r * w->units;
}

/* y [rows, n] (+)= x [rows, k] times u, or its transpose. */
static shoal_status multiply(const lstm_work *w, float *x, int64_t k, bool transposed, float *y, int64_t n, bool add) {
  attr_value attr[2] = {{.i = false}, {.i = transposed}};
  shoal_tensor in[] = {shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(w->rows, k), x), w->call->in[1]};
  shoal_tensor out = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(w->rows, n), y);
  return w->product(&(kernel_call){.in = in,
                                   .out = &out,
                                   .ins = 2,
                                   .outs = 1,
                                   .attr = attr,
                                   .scratch = w->panels,
                                   .threads = w->call->threads,
                                   .accumulate = add});
}

/* A function of each of n numbers, in place; up to the next whole vector. */
static shoal_status map(kernel_fn f, float *x, int64_t n) {
  shoal_tensor t = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(LANES, room(n) / LANES), x);
  return f(&(kernel_call){.in = &t, .out = &t, .ins = 1, .outs = 1});
}

/* ---- forward */

/* What enters the gates of step t: a = h u + xw; v: of the candidates once more. */
static shoal_status enter_step(lstm_work *w, int64_t t) {
  const float *xw = w->call->in[0].data; /* [rows, steps, 4 units] */
  const int64_t units = w->units;
  TRY(multiply(w, w->h, units, false, w->a, 4 * units, false));
  for (int64_t r = 0; r < w->rows; r++) {
    const float *x = xw + (r * w->steps + t) * 4 * units;
    float *a = w->a + r * 4 * units;
    for (int64_t k = 0; k < 4 * units; k++) a[k] += x[k];
    memcpy(w->v + r * units, a + 2 * units, (size_t)units * sizeof *a);
  }
  TRY(map(w->sigmoid, w->a, 4 * w->rows * units));
  return map(w->tanh, w->v, w->rows * units);
}

/* Gates and cells of step t, which is s in the loop; v becomes the cells. */
static void update_cells(lstm_work *w, int64_t s, int64_t t) {
  const float *xw = w->call->in[0].data, *first = w->call->in[3].data;
  float *cells = w->call->out[1].data; /* [rows, steps, units] */
  float *gates = w->call->out[2].data; /* [rows, steps, 4 units] */
  const int64_t units = w->units;
  for (int64_t r = 0; r < w->rows; r++) {
    int64_t at = r * w->steps + t;
    const float *cell = before(w, cells, first, r, s), *a = w->a + r * 4 * units;
    float *c = cells + at * units, *g = gates + at * 4 * units, *v = w->v + r * units;
    memcpy(g, skipped(w, at) ? xw + at * 4 * units : a, (size_t)(4 * units) * sizeof *g);
    if (skipped(w, at))
      memcpy(c, cell, (size_t)units * sizeof *c);
    else
      for (int64_t k = 0; k < units; k++) {
        g[2 * units + k] = v[k];
        c[k] = a[units + k] * cell[k] + a[k] * v[k];
      }
    memcpy(v, c, (size_t)units * sizeof *c);
  }
}

static shoal_status run_lstm(const kernel_call *call, kernel_fn product, kernel_fn sigmoid, kernel_fn tanh) {
  lstm_work w = begin(call, &call->out[0], 4);
  w.product = product, w.sigmoid = sigmoid, w.tanh = tanh;
  const float *first = call->in[2].data; /* [rows, units] */
  float *y = call->out[0].data;          /* [rows, steps, units] */
  const int64_t units = w.units;
  for (int64_t s = 0; s < w.steps; s++) {
    int64_t t = step_at(&w, s);
    for (int64_t r = 0; r < w.rows; r++) memcpy(w.h + r * units, before(&w, y, first, r, s), (size_t)units * sizeof *y);
    TRY(enter_step(&w, t));
    update_cells(&w, s, t);
    TRY(map(w.tanh, w.v, w.rows * units));
    for (int64_t r = 0; r < w.rows; r++) {
      int64_t at = r * w.steps + t;
      const float *out = w.a + r * 4 * units + 3 * units;
      for (int64_t k = 0; k < units; k++)
        y[at * units + k] = skipped(&w, at) ? w.h[r * units + k] : out[k] * w.v[r * units + k];
    }
  }
  return NULL;
}

/* ---- backward: inputs dy, u, dcells, cell, cells, gates, [mask] */

/* The gradients of what enters step t in row r: d [4 units]; v [units]: tanh of the cell. dh is used up. */
static void step_back(const lstm_work *w, int64_t r, int64_t s, int64_t t, float *dh, float *dc) {
  const float *dy = w->call->in[0].data, *dcells = w->call->in[2].data, *cells = w->call->in[4].data;
  const int64_t at = r * w->steps + t, units = w->units;
  const float *cell = before(w, cells, w->call->in[3].data, r, s);
  const float *g = (const float *)w->call->in[5].data + at * 4 * units, *v = w->v + r * units;
  float *d = w->a + r * 4 * units;
  for (int64_t k = 0; k < units; k++) {
    dh[k] += dy[at * units + k];
    dc[k] += dcells[at * units + k];
  }
  if (skipped(w, at)) {
    memset(d, 0, (size_t)(4 * units) * sizeof *d);
    return;
  }
  for (int64_t k = 0; k < units; k++) {
    float in = g[k], forget = g[units + k], candidate = g[2 * units + k], out = g[3 * units + k];
    dc[k] += dh[k] * out * (1 - v[k] * v[k]);
    d[k] = dc[k] * candidate * in * (1 - in);
    d[units + k] = dc[k] * cell[k] * forget * (1 - forget);
    d[2 * units + k] = dc[k] * in * (1 - candidate * candidate);
    d[3 * units + k] = dh[k] * v[k] * out * (1 - out);
    dc[k] *= forget;
    dh[k] = 0;
  }
}

static shoal_status run_lstm_grad(const kernel_call *call, kernel_fn product, kernel_fn tanh) {
  lstm_work w = begin(call, &call->in[0], 6);
  w.product = product, w.tanh = tanh;
  const float *cells = call->in[4].data; /* [rows, steps, units] */
  float *da = call->out[0].data;         /* [rows, steps, 4 units] */
  float *dh = call->out[1].data;         /* [rows, units]: of state and cell after the step under way */
  float *dc = call->out[2].data;
  const int64_t units = w.units;
  memset(dh, 0, shoal_tensor_bytes(&call->out[1]));
  memset(dc, 0, shoal_tensor_bytes(&call->out[2]));
  for (int64_t s = w.steps - 1; s >= 0; s--) {
    int64_t t = step_at(&w, s);
    for (int64_t r = 0; r < w.rows; r++)
      memcpy(w.v + r * units, cells + (r * w.steps + t) * units, (size_t)units * sizeof *cells);
    TRY(map(w.tanh, w.v, w.rows * units));
    for (int64_t r = 0; r < w.rows; r++) {
      step_back(&w, r, s, t, dh + r * units, dc + r * units);
      memcpy(da + (r * w.steps + t) * 4 * units, w.a + r * 4 * units, (size_t)(4 * units) * sizeof *da);
    }
    TRY(multiply(&w, w.a, 4 * units, true, dh, units, true));
  }
  return NULL;
}

#define LSTM_KERNELS(isa)                                                            \
  static shoal_status lstm_##isa(const kernel_call *call) {                          \
    return run_lstm(call, rows_matmul_##isa, lanes_sigmoid_##isa, lanes_tanh_##isa); \
  }                                                                                  \
  static shoal_status lstm_grad_##isa(const kernel_call *call) {                     \
    return run_lstm_grad(call, rows_matmul_##isa, lanes_tanh_##isa);                 \
  }
LSTM_KERNELS(generic)
LSTM_KERNELS(avx2)
LSTM_KERNELS(avx512)

#define BY_STEPS(function)                                                                                   \
  {.name = "steps avx512", .needs = CPU_AVX512, .run = function##_avx512, .scratch = lstm_scratch},          \
      {.name = "steps avx2", .needs = CPU_AVX2, .run = function##_avx2, .scratch = lstm_scratch},            \
      {.name = "steps generic", .needs = CPU_GENERIC, .run = function##_generic, .scratch = lstm_scratch}, { \
    .name = NULL                                                                                             \
  }
const op_variant tuned_lstm[] = {BY_STEPS(lstm)};
const op_variant tuned_lstm_grad[] = {BY_STEPS(lstm_grad)};
