/* The LSTM: a thread takes rows, a tile of them at a time, through all steps; u is packed into panels once. Gates and
 * cells are computed while the products are in the first-level cache. The same as the reference in graph/ops/recurrent.c,
 * which goes row by row. Included by the files lanes_*.c after gemm.inc.h and rows.inc.h. */

typedef struct {
  const kernel_call *call;
  int64_t rows, steps, units;
  bool reverse;
  const uint8_t *mask; /* [rows, steps]; NULL: none */
  gemm_panels u;       /* or its transpose */
  float *a;            /* [rows, 4 units]: h u, of as many rows as each thread works on */
} lstm_work;

/* `of`: [rows, steps, units]; mask: the input that holds it, if it is there. u: [units, 4 units]. */
static lstm_work lstm_begin(const kernel_call *call, const shoal_tensor *of, int mask, bool transposed) {
  const int64_t units = of->shape.dim[2];
  lstm_work w = {.call = call,
                 .rows = of->shape.dim[0],
                 .steps = of->shape.dim[1],
                 .units = units,
                 .reverse = call->attr[0].i,
                 .mask = call->ins > mask ? call->in[mask].data : NULL,
                 .u = transposed ? gemm_panels_of(call->scratch, 4 * units, units)
                                 : gemm_panels_of(call->scratch, units, 4 * units)};
  const float *u = call->in[1].data;
  w.a = w.u.data + w.u.depth * gemm_panels_wide(&w.u) * GEMM_COLUMNS;
  gemm_panels_pack(&w.u, transposed ? (gemm_operand){u, 4 * units, 1} : (gemm_operand){u, 1, 4 * units}, 0,
                   gemm_panels_count(&w.u));
  return w;
}

/* Step s in the order of the loop. */
static int64_t lstm_step(const lstm_work *w, int64_t s) { return w->reverse ? w->steps - 1 - s : s; }
static bool lstm_skips(const lstm_work *w, int64_t at) { return w->mask && !w->mask[at]; }

/* The state of row r before step s. */
static const float *lstm_before(const lstm_work *w, const float *states, const float *first, int64_t r, int64_t s) {
  return s ? states + (r * w->steps + lstm_step(w, s - 1)) * w->units : first + r * w->units;
}

/* c [rows, columns of u] (+)= rows of `depth` numbers times u. */
static void lstm_product(const lstm_work *w, const float *const *from, int64_t rows, float *c, bool add) {
  float a[GEMM_ROWS * GEMM_DEPTH] __attribute__((aligned(64)));
  for (int64_t k0 = 0; k0 < w->u.depth; k0 += w->u.level) {
    const float *at[GEMM_ROWS];
    for (int64_t i = 0; i < rows; i++) at[i] = from[i] + k0;
    gemm_pack_rows(at, rows, gemm_panels_depth(&w->u, k0), GEMM_ROWS, a);
    gemm_panels_multiply(&w->u, rows, a, k0, c, w->u.columns, add || k0 > 0);
  }
}

/* The tiles of a thread's rows: `rows` of them from *row on, in equal parts. */
static int64_t lstm_tile(int64_t first, int64_t last, int64_t tile, int64_t *row) {
  const int64_t tiles = (last - first + GEMM_ROWS - 1) / GEMM_ROWS;
  *row = first + (last - first) * tile / tiles;
  return first + (last - first) * (tile + 1) / tiles - *row;
}

/* ---- forward: xw [rows, steps, 4 units], u, state, cell, [mask] -> y, cells, gates */

/* One step of one row, `a` being h u. Input, forget, candidate, output. */
static void lstm_forward(const lstm_work *w, const float *a, const float *xw, const float *cell, float *y, float *cells,
                         float *gates) {
  const int64_t units = w->units;
  FOR_VECTORS(units, {
    const vf in = v_sigmoid(AT(a) + AT(xw)), forget = v_sigmoid(AT(a + units) + AT(xw + units));
    const vf candidate = v_tanh(AT(a + 2 * units) + AT(xw + 2 * units));
    const vf out = v_sigmoid(AT(a + 3 * units) + AT(xw + 3 * units)), c = forget * AT(cell) + in * candidate;
    PUT(gates, in)
    PUT(gates + units, forget)
    PUT(gates + 2 * units, candidate)
    PUT(gates + 3 * units, out)
    PUT(cells, c)
    PUT(y, out * v_tanh(c))
  })
}

static void lstm_share(void *context, int thread, int threads) {
  const lstm_work *w = context;
  const kernel_call *call = w->call;
  const float *xw = call->in[0].data, *state = call->in[2].data, *cell = call->in[3].data;
  float *y = call->out[0].data, *cells = call->out[1].data, *gates = call->out[2].data;
  const int64_t units = w->units;
  int64_t first, last, row;
  pool_share(w->rows, 1, thread, threads, &first, &last);
  for (int64_t tile = 0; tile * GEMM_ROWS < last - first; tile++) {
    const int64_t rows = lstm_tile(first, last, tile, &row);
    for (int64_t s = 0; s < w->steps; s++) {
      const float *h[GEMM_ROWS];
      for (int64_t i = 0; i < rows; i++) h[i] = lstm_before(w, y, state, row + i, s);
      lstm_product(w, h, rows, w->a + first * 4 * units, false);
      for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (row + i) * w->steps + lstm_step(w, s);
        const float *before = lstm_before(w, cells, cell, row + i, s), *x = xw + at * 4 * units;
        if (lstm_skips(w, at)) {
          memcpy(gates + at * 4 * units, x, (size_t)(4 * units) * sizeof *x);
          memcpy(cells + at * units, before, (size_t)units * sizeof *before);
          memcpy(y + at * units, h[i], (size_t)units * sizeof *y);
        } else {
          lstm_forward(w, w->a + (first + i) * 4 * units, x, before, y + at * units, cells + at * units,
                       gates + at * 4 * units);
        }
      }
    }
  }
}

shoal_status ISA_NAME(lstm_steps)(const kernel_call *call) {
  lstm_work w = lstm_begin(call, &call->out[0], 4, false);
  pool_run(call->threads, lstm_share, &w);
  return NULL;
}

/* ---- backward: dy, u, dcells, cell, cells, gates, [mask] -> da [rows, steps, 4 units], dstate, dcell */

/* The gradients of what enters a step in one row. dh and dc, of the state and the cell after it, become those before
 * it, but for what dh gets from the product. */
static void lstm_backward(const lstm_work *w, int64_t at, const float *cell, float *dh, float *dc, float *d) {
  const int64_t units = w->units;
  const float *dy = (const float *)w->call->in[0].data + at * units;
  const float *dcells = (const float *)w->call->in[2].data + at * units;
  const float *c = (const float *)w->call->in[4].data + at * units;
  const float *g = (const float *)w->call->in[5].data + at * 4 * units;
  const vf one = v_set(1);
  FOR_VECTORS(units, {
    const vf in = AT(g), forget = AT(g + units), candidate = AT(g + 2 * units), out = AT(g + 3 * units);
    const vf v = v_tanh(AT(c)), h = AT(dh) + AT(dy), dcell = AT(dc) + AT(dcells) + h * out * (one - v * v);
    PUT(d, dcell * candidate * in * (one - in))
    PUT(d + units, dcell * AT(cell) * forget * (one - forget))
    PUT(d + 2 * units, dcell * in * (one - candidate * candidate))
    PUT(d + 3 * units, h * v * out * (one - out))
    PUT(dc, dcell * forget)
    PUT(dh, V_ZERO)
  })
}

static void lstm_grad_share(void *context, int thread, int threads) {
  const lstm_work *w = context;
  const kernel_call *call = w->call;
  const float *dy = call->in[0].data, *dcells = call->in[2].data;
  float *da = call->out[0].data, *dh = call->out[1].data, *dc = call->out[2].data;
  const int64_t units = w->units;
  int64_t first, last, row;
  pool_share(w->rows, 1, thread, threads, &first, &last);
  memset(dh + first * units, 0, (size_t)((last - first) * units) * sizeof *dh);
  memset(dc + first * units, 0, (size_t)((last - first) * units) * sizeof *dc);
  for (int64_t tile = 0; tile * GEMM_ROWS < last - first; tile++) {
    const int64_t rows = lstm_tile(first, last, tile, &row);
    for (int64_t s = w->steps - 1; s >= 0; s--) {
      const float *d[GEMM_ROWS];
      for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (row + i) * w->steps + lstm_step(w, s);
        float *to = da + at * 4 * units, *h = dh + (row + i) * units, *c = dc + (row + i) * units;
        d[i] = to;
        if (lstm_skips(w, at)) {
          memset(to, 0, (size_t)(4 * units) * sizeof *to);
          for (int64_t k = 0; k < units; k++) {
            h[k] += dy[at * units + k];
            c[k] += dcells[at * units + k];
          }
        } else {
          lstm_backward(w, at, lstm_before(w, call->in[4].data, call->in[3].data, row + i, s), h, c, to);
        }
      }
      lstm_product(w, d, rows, dh + row * units, true);
    }
  }
}

shoal_status ISA_NAME(lstm_steps_grad)(const kernel_call *call) {
  lstm_work w = lstm_begin(call, &call->in[0], 6, true);
  pool_run(call->threads, lstm_grad_share, &w);
  return NULL;
}
