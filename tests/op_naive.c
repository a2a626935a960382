#include "op_naive.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static double at(const shoal_tensor *t, int64_t i) { return shoal_tensor_get(t, i); }

static double attr_float(const op_case *c, const char *name) {
  for (int i = 0; i < OP_MAX_ATTRS && c->row->attrs[i].name; i++)
    if (!strcmp(c->row->attrs[i].name, name)) return c->attr[i].f;
  return 0;
}

static int64_t attr_int(const op_case *c, const char *name) {
  for (int i = 0; i < OP_MAX_ATTRS && c->row->attrs[i].name; i++)
    if (!strcmp(c->row->attrs[i].name, name)) return c->attr[i].i;
  return 0;
}

static shoal_shape attr_list(const op_case *c, const char *name) {
  for (int i = 0; i < OP_MAX_ATTRS && c->row->attrs[i].name; i++)
    if (!strcmp(c->row->attrs[i].name, name)) return c->attr[i].list;
  return (shoal_shape){0};
}

static void matmul(const op_case *c, const case_memory *m, double *expected) {
  bool ta = attr_int(c, "transpose_a"), tb = attr_int(c, "transpose_b");
  const shoal_tensor *a = &m->in[0], *b = &m->in[1];
  int64_t rows = m->out[0].shape.dim[0], cols = m->out[0].shape.dim[1], inner = a->shape.dim[ta ? 0 : 1];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      double sum = 0;
      for (int64_t k = 0; k < inner; k++)
        sum += at(a, ta ? k * rows + i : i * inner + k) * at(b, tb ? j * inner + k : k * cols + j);
      expected[i * cols + j] = sum;
    }
}

static void bias_add(const op_case *c, const case_memory *m, double *expected) {
  int64_t n = shoal_tensor_count(&m->in[0]), channels = m->in[1].shape.dim[0];
  for (int64_t i = 0; i < n; i++) expected[i] = at(&m->in[0], i) + at(&m->in[1], i % channels);
}

static void bias_add_grad(const op_case *c, const case_memory *m, double *expected) {
  int64_t n = shoal_tensor_count(&m->in[0]), channels = m->out[0].shape.dim[0];
  memset(expected, 0, (size_t)channels * sizeof *expected);
  for (int64_t i = 0; i < n; i++) expected[i % channels] += at(&m->in[0], i);
}

/* Visits each pair of an output and an input pixel that a tap of the filter joins. */
typedef void (*tap_fn)(double *sum, int64_t in_x, int64_t in_w, int64_t in_y, const case_memory *m);

static void taps(const op_case *c, const int64_t *x, const int64_t *w, const int64_t *y, const case_memory *m,
                 tap_fn tap, double *sums) {
  int64_t sh = attr_int(c, "stride_h"), sw = attr_int(c, "stride_w"), groups = attr_int(c, "groups");
  int64_t dh = attr_int(c, "dilation_h"), dw = attr_int(c, "dilation_w");
  int64_t top = attr_int(c, "pad_top"), left = attr_int(c, "pad_left");
  for (int64_t n = 0; n < y[0]; n++)
    for (int64_t i = 0; i < y[1]; i++)
      for (int64_t j = 0; j < y[2]; j++)
        for (int64_t o = 0; o < y[3]; o++)
          for (int64_t p = 0; p < w[0]; p++)
            for (int64_t q = 0; q < w[1]; q++)
              for (int64_t k = 0; k < w[2]; k++) {
                int64_t r = i * sh + p * dh - top, s = j * sw + q * dw - left, ch = o / (y[3] / groups) * w[2] + k;
                if (r < 0 || r >= x[1] || s < 0 || s >= x[2]) continue;
                tap(sums, ((n * x[1] + r) * x[2] + s) * x[3] + ch, ((p * w[1] + q) * w[2] + k) * w[3] + o,
                    ((n * y[1] + i) * y[2] + j) * y[3] + o, m);
              }
}

static void tap_forward(double *y, int64_t in_x, int64_t in_w, int64_t in_y, const case_memory *m) {
  y[in_y] += at(&m->in[0], in_x) * at(&m->in[1], in_w);
}
static void tap_back(double *dx, int64_t in_x, int64_t in_w, int64_t in_y, const case_memory *m) {
  dx[in_x] += at(&m->in[0], in_y) * at(&m->in[1], in_w);
}
static void tap_weight(double *dw, int64_t in_x, int64_t in_w, int64_t in_y, const case_memory *m) {
  dw[in_w] += at(&m->in[0], in_x) * at(&m->in[1], in_y);
}

static void zero(const case_memory *m, double *expected) {
  memset(expected, 0, (size_t)shoal_tensor_count(&m->out[0]) * sizeof *expected);
}

static void conv2d(const op_case *c, const case_memory *m, double *expected) {
  zero(m, expected);
  taps(c, m->in[0].shape.dim, m->in[1].shape.dim, m->out[0].shape.dim, m, tap_forward, expected);
}

/* Of a convolution whose result is input 0. */
static void conv2d_grad_x(const op_case *c, const case_memory *m, double *expected) {
  zero(m, expected);
  taps(c, m->out[0].shape.dim, m->in[1].shape.dim, m->in[0].shape.dim, m, tap_back, expected);
}

static void conv2d_grad_w(const op_case *c, const case_memory *m, double *expected) {
  zero(m, expected);
  taps(c, m->in[0].shape.dim, m->out[0].shape.dim, m->in[1].shape.dim, m, tap_weight, expected);
}

static void pool2d(const op_case *c, const case_memory *m, double *expected, bool average) {
  const int64_t *x = m->in[0].shape.dim, *y = m->out[0].shape.dim;
  int64_t kh = attr_int(c, "size_h"), kw = attr_int(c, "size_w");
  int64_t sh = attr_int(c, "stride_h"), sw = attr_int(c, "stride_w");
  int64_t top = attr_int(c, "pad_top"), left = attr_int(c, "pad_left");
  for (int64_t n = 0; n < y[0]; n++)
    for (int64_t i = 0; i < y[1]; i++)
      for (int64_t j = 0; j < y[2]; j++)
        for (int64_t ch = 0; ch < y[3]; ch++) {
          double sum = 0, best = -INFINITY;
          int64_t real = 0;
          for (int64_t p = 0; p < kh; p++)
            for (int64_t q = 0; q < kw; q++) {
              int64_t r = i * sh + p - top, s = j * sw + q - left;
              if (r < 0 || r >= x[1] || s < 0 || s >= x[2]) continue;
              double v = at(&m->in[0], ((n * x[1] + r) * x[2] + s) * x[3] + ch);
              sum += v;
              best = fmax(best, v);
              real++;
            }
          expected[((n * y[1] + i) * y[2] + j) * y[3] + ch] = average ? sum / (double)real : best;
        }
}

static void max_pool(const op_case *c, const case_memory *m, double *expected) { pool2d(c, m, expected, false); }
static void avg_pool(const op_case *c, const case_memory *m, double *expected) { pool2d(c, m, expected, true); }

/* log(sum(exp(x))) of row i; the cases' values are small, so nothing overflows. */
static double log_sum(const shoal_tensor *x, int64_t i, int64_t classes) {
  double sum = 0;
  for (int64_t j = 0; j < classes; j++) sum += exp(at(x, i * classes + j));
  return log(sum);
}

static void log_softmax(const op_case *c, const case_memory *m, double *expected) {
  const shoal_shape *s = &m->in[0].shape;
  int64_t axis = c->attr[0].i < 0 ? c->attr[0].i + s->rank : c->attr[0].i, step = 1;
  for (int d = s->rank - 1; d > axis; d--) step *= s->dim[d];
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    int64_t first = i - i / step % s->dim[axis] * step;
    double sum = 0;
    for (int64_t j = 0; j < s->dim[axis]; j++) sum += exp(at(&m->in[0], first + j * step));
    expected[i] = at(&m->in[0], i) - log(sum);
  }
}

static void softmax(const op_case *c, const case_memory *m, double *expected) {
  log_softmax(c, m, expected);
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) expected[i] = exp(expected[i]);
}

static void sparse_softmax_cross_entropy(const op_case *c, const case_memory *m, double *expected) {
  int64_t classes = m->in[0].shape.dim[1];
  for (int64_t i = 0; i < m->in[0].shape.dim[0]; i++)
    expected[i] = log_sum(&m->in[0], i, classes) - at(&m->in[0], i * classes + (int64_t)at(&m->in[1], i));
}

static void softmax_cross_entropy(const op_case *c, const case_memory *m, double *expected) {
  int64_t classes = m->in[0].shape.dim[1];
  for (int64_t i = 0; i < m->in[0].shape.dim[0]; i++) {
    expected[i] = 0;
    for (int64_t j = i * classes; j < (i + 1) * classes; j++)
      expected[i] += at(&m->in[1], j) * (log_sum(&m->in[0], i, classes) - at(&m->in[0], j));
  }
}

static void sigmoid_cross_entropy(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double p = 1 / (1 + exp(-at(&m->in[0], i))), label = at(&m->in[1], i);
    expected[i] = -(label * log(p) + (1 - label) * log(1 - p));
  }
}

/* Sum, mean, maximum, minimum or product over the axes: each input element looks up its place in the output. */
static void reduce(const op_case *c, const case_memory *m, double *expected, int kind) {
  const shoal_shape *x = &m->in[0].shape;
  shoal_shape axes = attr_list(c, "axes");
  bool gone[SHOAL_MAX_RANK] = {false};
  for (int d = 0; d < x->rank; d++) gone[d] = axes.rank == 0;
  for (int a = 0; a < axes.rank; a++) gone[axes.dim[a] < 0 ? axes.dim[a] + x->rank : axes.dim[a]] = true;
  int64_t n = shoal_tensor_count(&m->in[0]), outs = shoal_tensor_count(&m->out[0]);
  static const double start[] = {0, 0, -INFINITY, INFINITY, 1};
  for (int64_t i = 0; i < outs; i++) expected[i] = start[kind];
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, place = 0, step = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
      if (!gone[d]) {
        place += rest % x->dim[d] * step;
        step *= x->dim[d];
      }
      rest /= x->dim[d];
    }
    double v = at(&m->in[0], i);
    if (kind == 2)
      expected[place] = fmax(expected[place], v);
    else if (kind == 3)
      expected[place] = fmin(expected[place], v);
    else if (kind == 4)
      expected[place] *= v;
    else
      expected[place] += kind ? v * (double)outs / (double)n : v;
  }
}

static void reduce_sum(const op_case *c, const case_memory *m, double *expected) { reduce(c, m, expected, 0); }
static void reduce_mean(const op_case *c, const case_memory *m, double *expected) { reduce(c, m, expected, 1); }
static void reduce_max(const op_case *c, const case_memory *m, double *expected) { reduce(c, m, expected, 2); }

static void reduce_min(const op_case *c, const case_memory *m, double *expected) { reduce(c, m, expected, 3); }
static void reduce_prod(const op_case *c, const case_memory *m, double *expected) { reduce(c, m, expected, 4); }

/* At least one is not 0. */
static void reduce_any(const op_case *c, const case_memory *m, double *expected) {
  reduce(c, m, expected, 0);
  for (int64_t i = 0; i < shoal_tensor_count(&m->out[0]); i++) expected[i] = expected[i] > 0;
}

static void local_response_norm(const op_case *c, const case_memory *m, double *expected) {
  int64_t channels = m->in[0].shape.dim[m->in[0].shape.rank - 1], n = shoal_tensor_count(&m->in[0]);
  int64_t radius = attr_int(c, "radius");
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t k = -radius; k <= radius; k++)
      if (i % channels + k >= 0 && i % channels + k < channels) sum += at(&m->in[0], i + k) * at(&m->in[0], i + k);
    expected[i] = at(&m->in[0], i) / pow(c->attr[1].f + c->attr[2].f * sum, c->attr[3].f);
  }
}

static void gather(const op_case *c, const case_memory *m, double *expected) {
  int64_t width = shoal_tensor_count(&m->in[0]) / m->in[0].shape.dim[0], n = shoal_tensor_count(&m->in[1]);
  for (int64_t i = 0; i < n * width; i++)
    expected[i] = at(&m->in[0], (int64_t)at(&m->in[1], i / width) * width + i % width);
}

static void sparse_matmul(const op_case *c, const case_memory *m, double *expected) {
  int64_t rows = m->in[0].shape.dim[0] - 1, cols = m->in[3].shape.dim[1];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      double sum = 0;
      for (int64_t e = (int64_t)at(&m->in[0], i); e < (int64_t)at(&m->in[0], i + 1); e++)
        sum += at(&m->in[2], e) * at(&m->in[3], (int64_t)at(&m->in[1], e) * cols + j);
      expected[i * cols + j] = sum;
    }
}

/* Each element of the result: the sum over all of a row's entries that belong to its pool. */
static void embedding_bag(const op_case *c, const case_memory *m, double *expected) {
  const int64_t rows = m->in[0].shape.dim[0] - 1, width = m->in[3].shape.dim[1], fields = c->ins > 4 ? c->attr[0].i : 1;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t f = 0; f < fields; f++)
      for (int64_t j = 0; j < width; j++) {
        double sum = 0, n = 0;
        for (int64_t e = (int64_t)at(&m->in[0], i); e < (int64_t)at(&m->in[0], i + 1); e++) {
          if (c->ins > 4 && (int64_t)at(&m->in[4], e) != f + c->attr[1].i) continue;
          sum += at(&m->in[2], e) * at(&m->in[3], (int64_t)at(&m->in[1], e) * width + j);
          n++;
        }
        expected[(i * fields + f) * width + j] = c->attr[2].i && n > 0 ? sum / n : sum;
      }
}

static void field_values(const op_case *c, const case_memory *m, double *expected) {
  const int64_t rows = m->in[0].shape.dim[0] - 1, fields = c->attr[0].i;
  for (int64_t i = 0; i < rows * fields; i++) {
    expected[i] = 0;
    for (int64_t e = (int64_t)at(&m->in[0], i / fields); e < (int64_t)at(&m->in[0], i / fields + 1); e++)
      if ((int64_t)at(&m->in[2], e) == i % fields) expected[i] += at(&m->in[1], e);
  }
}

/* All pairs, one by one. */
static void factorization_machine(const op_case *c, const case_memory *m, double *expected) {
  const int64_t rows = m->in[0].shape.dim[0] - 1, width = m->in[3].shape.dim[1];
  for (int64_t i = 0; i < rows; i++) {
    double y = 0;
    for (int64_t e = (int64_t)at(&m->in[0], i); e < (int64_t)at(&m->in[0], i + 1); e++) {
      const int64_t row = (int64_t)at(&m->in[1], e) * width;
      y += at(&m->in[2], e) * at(&m->in[3], row);
      for (int64_t d = (int64_t)at(&m->in[0], i); d < e; d++)
        for (int64_t j = 1; j < width; j++)
          y += at(&m->in[2], e) * at(&m->in[2], d) * at(&m->in[3], row + j) *
               at(&m->in[3], (int64_t)at(&m->in[1], d) * width + j);
    }
    expected[i] = y;
  }
}

/* Optimizer updates, from the papers' formulas: var, slots, gradient, learning rate. */
static double shrunk(const op_case *c, double variable, double rate) {
  return variable * (1 - rate * attr_float(c, "weight_decay"));
}

static void apply_sgd(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double rate = at(&m->in[2], 0), w = shrunk(c, at(&m->in[0], i), rate);
    expected[i] = w - rate * (at(&m->in[1], i) + c->attr[0].f * w);
  }
}

static void apply_momentum(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double g = at(&m->in[2], i) + c->attr[2].f * at(&m->in[0], i), v = c->attr[0].f * at(&m->in[1], i) + g;
    expected[i] = at(&m->in[0], i) - at(&m->in[3], 0) * (c->attr[1].i ? g + c->attr[0].f * v : v);
  }
}

static void apply_adagrad(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double rate = at(&m->in[3], 0), w = shrunk(c, at(&m->in[0], i), rate), g = at(&m->in[2], i) + c->attr[1].f * w;
    expected[i] = w - rate * g / (sqrt(at(&m->in[1], i) + g * g) + c->attr[0].f);
  }
}

static void rowwise_adagrad(const op_case *c, const case_memory *m, double *expected) {
  const int64_t count = shoal_tensor_count(&m->in[0]), width = count / m->in[0].shape.dim[0];
  const double rate = at(&m->in[4], 0);
  for (int64_t i = 0; i < count; i++) expected[i] = at(&m->in[0], i);
  for (int64_t r = 0; r < shoal_tensor_count(&m->in[2]); r++) {
    const int64_t row = (int64_t)at(&m->in[2], r), rows = m->in[0].shape.dim[0], plain = c->attr[3].i;
    const bool first = c->attr[4].i, own = first ? row < plain : row >= rows - plain;
    const int64_t before = first ? MIN_OF(row, plain) : MAX_OF(row - (rows - plain), 0); /* rows with their own sums */
    const int64_t slot = row - before + before * width;
    double mean = 0;
    for (int k = 0; k < 2; k++) /* the mean first, then the numbers */
      for (int64_t j = 0; j < width; j++) {
        double w = at(&m->in[0], row * width + j) * (1 - rate * c->attr[2].f);
        double g = at(&m->in[3], r * width + j) + c->attr[1].f * w;
        if (!k) mean += g * g / (double)width;
        const double sum = own ? at(&m->in[1], slot + j) + g * g : at(&m->in[1], slot) + mean;
        if (k) expected[row * width + j] = w - rate * g / (sqrt(sum) + c->attr[0].f);
      }
  }
}

static void apply_rmsprop(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double g = at(&m->in[3], i), mean = c->attr[0].f * at(&m->in[1], i) + (1 - c->attr[0].f) * g * g;
    expected[i] = at(&m->in[0], i) - c->attr[1].f * at(&m->in[2], i) - at(&m->in[4], 0) * g / sqrt(mean + c->attr[2].f);
  }
}

static void apply_adam(const op_case *c, const case_memory *m, double *expected) {
  double b1 = c->attr[0].f, b2 = c->attr[1].f, t = at(&m->in[5], 0);
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double g = at(&m->in[3], i);
    double first = (b1 * at(&m->in[1], i) + (1 - b1) * g) / (1 - pow(b1, t));
    double second = (b2 * at(&m->in[2], i) + (1 - b2) * g * g) / (1 - pow(b2, t));
    double w = shrunk(c, at(&m->in[0], i), at(&m->in[4], 0));
    expected[i] = w - at(&m->in[4], 0) * first / (sqrt(second) + c->attr[2].f);
  }
}

static void apply_lion(const op_case *c, const case_memory *m, double *expected) {
  double rate = at(&m->in[3], 0);
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double mean = c->attr[0].f * at(&m->in[1], i) + (1 - c->attr[0].f) * at(&m->in[2], i);
    expected[i] = shrunk(c, at(&m->in[0], i), rate) - rate * ((mean > 0) - (mean < 0));
  }
}

static void apply_nadam(const op_case *c, const case_memory *m, double *expected) {
  double b1 = c->attr[0].f, b2 = c->attr[1].f, t = at(&m->in[5], 0), product = 1, rate = at(&m->in[4], 0);
  for (double s = 1; s <= t; s++) product *= b1 * (1 - 0.5 * pow(0.96, s));
  double now = b1 * (1 - 0.5 * pow(0.96, t)), next = b1 * (1 - 0.5 * pow(0.96, t + 1));
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double g = at(&m->in[3], i), first = b1 * at(&m->in[1], i) + (1 - b1) * g;
    double second = (b2 * at(&m->in[2], i) + (1 - b2) * g * g) / (1 - pow(b2, t));
    double step = next * first / (1 - product * next) + (1 - now) * g / (1 - product);
    expected[i] = shrunk(c, at(&m->in[0], i), rate) - rate * step / (sqrt(second) + c->attr[2].f);
  }
}

static void apply_lamb(const op_case *c, const case_memory *m, double *expected) {
  double b1 = c->attr[0].f, b2 = c->attr[1].f, t = at(&m->in[5], 0), own = 0, steps = 0;
  const int64_t n = shoal_tensor_count(&m->in[0]);
  for (int64_t i = 0; i < n; i++) {
    double g = at(&m->in[3], i), w = at(&m->in[0], i);
    double first = (b1 * at(&m->in[1], i) + (1 - b1) * g) / (1 - pow(b1, t));
    double second = (b2 * at(&m->in[2], i) + (1 - b2) * g * g) / (1 - pow(b2, t));
    expected[i] = first / (sqrt(second) + c->attr[2].f) + c->attr[3].f * w;
    own += w * w;
    steps += expected[i] * expected[i];
  }
  for (int64_t i = 0; i < n; i++) expected[i] = at(&m->in[0], i) - at(&m->in[4], 0) * sqrt(own / steps) * expected[i];
}

static void apply_lars(const op_case *c, const case_memory *m, double *expected) {
  double rate = at(&m->in[3], 0), own = 0, steps = 0, decay = c->attr[2].f;
  const int64_t n = shoal_tensor_count(&m->in[0]);
  for (int64_t i = 0; i < n; i++) {
    own += at(&m->in[0], i) * at(&m->in[0], i);
    steps += at(&m->in[2], i) * at(&m->in[2], i);
  }
  if (m->in[0].shape.rank > 1)
    rate *= c->attr[1].f * sqrt(own) / (sqrt(steps) + decay * sqrt(own));
  else
    decay = 0;
  for (int64_t i = 0; i < n; i++)
    expected[i] =
        at(&m->in[0], i) - c->attr[0].f * at(&m->in[1], i) - rate * (at(&m->in[2], i) + decay * at(&m->in[0], i));
}

static void apply_average(const op_case *c, const case_memory *m, double *expected) {
  double kept = at(&m->in[2], 0) > 1 ? c->attr[0].f : 0;
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++)
    expected[i] = kept * at(&m->in[0], i) + (1 - kept) * at(&m->in[1], i);
}

static void clip_scale(const op_case *c, const case_memory *m, double *expected) {
  double squares = 0;
  for (int k = 0; k < c->ins; k++)
    for (int64_t i = 0; i < shoal_tensor_count(&m->in[k]); i++) squares += at(&m->in[k], i) * at(&m->in[k], i);
  expected[0] = sqrt(squares) > c->attr[0].f ? c->attr[0].f / sqrt(squares) : 1;
}

static void apply_ftrl(const op_case *c, const case_memory *m, double *expected) {
  double alpha = at(&m->in[4], 0), l1 = c->attr[0].f, l2 = c->attr[1].f, beta = c->attr[2].f, p = -c->attr[3].f;
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++) {
    double g = at(&m->in[3], i), n = at(&m->in[2], i), w = at(&m->in[0], i);
    double sigma = (pow(n + g * g, p) - pow(n, p)) / alpha, z = at(&m->in[1], i) + g - sigma * w;
    double sign = z < 0 ? -1 : 1;
    expected[i] = fabs(z) <= l1 ? 0 : -(z - sign * l1) / ((beta + pow(n + g * g, p)) / alpha + l2);
  }
}

/* The images that skip_compress made input i of. */
static shoal_tensor images_of(const op_case *c, int i) {
  op_case own;
  case_parse(c->in[i].of, c->in[i].of_own, &own);
  shoal_tensor x = case_fill(&own, 0, SHOAL_F32);
  case_fini(&own);
  return x;
}

static void skip_matmul(const op_case *c, const case_memory *m, double *expected) {
  shoal_tensor x = images_of(c, 0);
  int64_t features = m->in[1].shape.dim[0], classes = m->in[1].shape.dim[1];
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) {
    expected[e] = at(&m->in[2], e % classes);
    for (int64_t f = 0; f < features; f++)
      expected[e] += at(&x, e / classes * features + f) * at(&m->in[1], f * classes + e % classes);
  }
  shoal_tensor_fini(&x);
}

/* Element e of x^T d: x [n, features], d [n, classes]. */
static double transposed_product(const shoal_tensor *x, const shoal_tensor *d, int64_t e) {
  int64_t n = d->shape.dim[0], classes = d->shape.dim[1], features = shoal_tensor_count(x) / n;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += at(x, i * features + e / classes) * at(d, i * classes + e % classes);
  return sum;
}

static void skip_sum(const op_case *c, const case_memory *m, double *expected) {
  shoal_tensor x = images_of(c, 0);
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++) expected[e] = transposed_product(&x, &m->in[1], e);
  shoal_tensor_fini(&x);
}

static void skip_sgd(const op_case *c, const case_memory *m, double *expected) {
  shoal_tensor x = images_of(c, 1);
  for (int64_t e = 0; e < shoal_tensor_count(&m->out[0]); e++)
    expected[e] = at(&m->in[0], e) - at(&m->in[3], 0) * transposed_product(&x, &m->in[2], e);
  shoal_tensor_fini(&x);
}

naive_fn naive_find(const char *op) {
  static const struct {
    const char *name;
    naive_fn run;
  } table[] = {
      {"matmul", matmul},
      {"bias_add", bias_add},
      {"bias_add_grad", bias_add_grad},
      {"conv2d", conv2d},
      {"conv2d_grad_x", conv2d_grad_x},
      {"conv2d_grad_w", conv2d_grad_w},
      {"conv2d_transpose", conv2d_grad_x},
      {"max_pool", max_pool},
      {"avg_pool", avg_pool},
      {"softmax", softmax},
      {"log_softmax", log_softmax},
      {"sparse_softmax_cross_entropy", sparse_softmax_cross_entropy},
      {"softmax_cross_entropy", softmax_cross_entropy},
      {"sigmoid_cross_entropy", sigmoid_cross_entropy},
      {"reduce_sum", reduce_sum},
      {"reduce_mean", reduce_mean},
      {"reduce_max", reduce_max},
      {"reduce_min", reduce_min},
      {"reduce_prod", reduce_prod},
      {"reduce_any", reduce_any},
      {"reduce_all", reduce_prod},
      {"local_response_norm", local_response_norm},
      {"gather", gather},
      {"sparse_matmul", sparse_matmul},
      {"embedding_bag", embedding_bag},
      {"field_values", field_values},
      {"fm", factorization_machine},
      {"apply_sgd", apply_sgd},
      {"apply_momentum", apply_momentum},
      {"apply_adagrad", apply_adagrad},
      {"sparse_apply_rowwise_adagrad", rowwise_adagrad},
      {"apply_rmsprop", apply_rmsprop},
      {"apply_adam", apply_adam},
      {"apply_ftrl", apply_ftrl},
      {"apply_lion", apply_lion},
      {"apply_nadam", apply_nadam},
      {"apply_lamb", apply_lamb},
      {"apply_lars", apply_lars},
      {"apply_average", apply_average},
      {"clip_scale", clip_scale},
      {"skip_matmul", skip_matmul},
      {"skip_sum", skip_sum},
      {"skip_sgd", skip_sgd},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, op)) return table[i].run;
  naive_fn found = naive_find_unary(op);
  if (!found) found = naive_find_shapes(op);
  return found ? found : naive_find_nn(op);
}
