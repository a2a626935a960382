/* Normalisation, resizing and recurrent layers once more, from their definitions. */
#include "op_naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double at(const shoal_tensor *t, int64_t i) { return shoal_tensor_get(t, i); }

/* ---- normalize: each element looks at all that agree with it on the other axes */

static bool same_group(const op_case *c, const shoal_shape *s, int64_t a, int64_t b) {
  const shoal_shape *axes = &c->attr[0].list;
  for (int d = s->rank - 1; d >= 0; d--) {
    bool in = axes->rank == 0;
    for (int k = 0; k < axes->rank; k++) in |= axes->dim[k] == d || axes->dim[k] == d - s->rank;
    if (!in && a % s->dim[d] != b % s->dim[d]) return false;
    a /= s->dim[d];
    b /= s->dim[d];
  }
  return true;
}

static void normalize(const op_case *c, const case_memory *m, double *expected) {
  const shoal_tensor *x = &m->in[0];
  int64_t n = shoal_tensor_count(x);
  for (int64_t e = 0; e < n; e++) {
    double sum = 0, squares = 0, count = 0;
    for (int64_t i = 0; i < n; i++)
      if (same_group(c, &x->shape, e, i)) {
        sum += at(x, i);
        squares += at(x, i) * at(x, i);
        count++;
      }
    double mean = c->attr[2].i ? sum / count : 0;
    expected[e] = (at(x, e) - mean) / sqrt(squares / count - mean * mean + c->attr[1].f);
  }
}

/* ---- resize: all pixels count, by how near they are */

static double nearness(int64_t i, int64_t k, int64_t from, int64_t to, bool align) {
  double place = align ? (to == 1 ? 0 : i * (from - 1.0) / (to - 1.0)) : (i + 0.5) * from / to - 0.5;
  if (place < 0) place = 0;
  if (place > from - 1) place = (double)(from - 1);
  return fmax(0, 1 - fabs(place - (double)k));
}

static void resize_bilinear(const op_case *c, const case_memory *m, double *expected) {
  const int64_t *x = m->in[0].shape.dim, *y = m->out[0].shape.dim;
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    int64_t ch = e % y[3], j = e / y[3] % y[2], i = e / y[3] / y[2] % y[1], n = e / y[3] / y[2] / y[1];
    expected[e] = 0;
    for (int64_t p = 0; p < x[1]; p++)
      for (int64_t q = 0; q < x[2]; q++)
        expected[e] += nearness(i, p, x[1], y[1], c->attr[2].i) * nearness(j, q, x[2], y[2], c->attr[2].i) *
                       at(&m->in[0], ((n * x[1] + p) * x[2] + q) * x[3] + ch);
  }
}

/* ---- recurrent layers: one row's state at one step, by what it was the step before */

static double sigmoid(double x) { return 0.5 * (1 + tanh(x / 2)); }

typedef struct {
  const op_case *c;
  const case_memory *m;
  int64_t row, steps, units, gates;
  int state, cell, mask; /* inputs; cell 0: none */
} sequence;

/* What the gate of unit k is given at step t, from inputs and from the state. */
static double given(const sequence *s, int64_t t, int64_t gate, int64_t k) {
  return at(&s->m->in[0], ((s->row * s->steps + t) * s->gates + gate) * s->units + k);
}

static double recurrent(const sequence *s, const double *h, int64_t gate, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < s->units; i++) sum += h[i] * at(&s->m->in[1], (i * s->gates + gate) * s->units + k);
  return sum;
}

static void step(const sequence *s, int64_t t, const double *h, double *cell, double *next) {
  const char *op = s->c->row->name;
  for (int64_t k = 0; k < s->units; k++) {
    double a[4];
    for (int64_t g = 0; g < s->gates; g++) a[g] = given(s, t, g, k) + recurrent(s, h, g, k);
    if (!strcmp(op, "rnn")) {
      next[k] = s->c->attr[1].i ? fmax(a[0], 0) : tanh(a[0]);
    } else if (!strcmp(op, "lstm")) {
      cell[k] = sigmoid(a[1]) * cell[k] + sigmoid(a[0]) * tanh(a[2]);
      next[k] = sigmoid(a[3]) * tanh(cell[k]);
    } else {
      const shoal_tensor *bias = &s->m->in[2];
      double z = sigmoid(a[0] + at(bias, k)), r = sigmoid(a[1] + at(bias, s->units + k));
      double own = recurrent(s, h, 2, k) + at(bias, 2 * s->units + k);
      next[k] = (1 - z) * tanh(given(s, t, 2, k) + r * own) + z * h[k];
    }
  }
}

static void run(sequence *s, double *expected) {
  double *h = calloc(3 * (size_t)s->units, sizeof *h), *cell = h + s->units, *next = cell + s->units;
  for (int64_t k = 0; k < s->units; k++) {
    h[k] = at(&s->m->in[s->state], s->row * s->units + k);
    if (s->cell) cell[k] = at(&s->m->in[s->cell], s->row * s->units + k);
  }
  for (int64_t i = 0; i < s->steps; i++) {
    int64_t t = s->c->attr[0].i ? s->steps - 1 - i : i;
    if (s->mask >= s->c->ins || at(&s->m->in[s->mask], s->row * s->steps + t) != 0) {
      step(s, t, h, cell, next);
      memcpy(h, next, (size_t)s->units * sizeof *h);
    }
    memcpy(expected + (s->row * s->steps + t) * s->units, h, (size_t)s->units * sizeof *h);
  }
  free(h);
}

static void recurrent_layer(const op_case *c, const case_memory *m, double *expected) {
  bool lstm = !strcmp(c->row->name, "lstm"), gru = !strcmp(c->row->name, "gru");
  const int64_t *y = m->out[0].shape.dim;
  sequence s = {.c = c,
                .m = m,
                .steps = y[1],
                .units = y[2],
                .gates = lstm  ? 4
                         : gru ? 3
                               : 1,
                .state = gru ? 3 : 2,
                .cell = lstm ? 3 : 0,
                .mask = lstm || gru ? 4 : 3};
  for (s.row = 0; s.row < y[0]; s.row++) run(&s, expected);
}

naive_fn naive_find_nn(const char *op) {
  static const struct {
    const char *name;
    naive_fn run;
  } table[] = {{"normalize", normalize},
               {"resize_bilinear", resize_bilinear},
               {"rnn", recurrent_layer},
               {"lstm", recurrent_layer},
               {"gru", recurrent_layer}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, op)) return table[i].run;
  return NULL;
}
