/* Matrices too large for one machine: blocks of a random one made in place, and the trace of a product without the
 * product. */
#include "base/mem.h"
#include "base/random.h"
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "kernel/philox.h"

#include <string.h>

/* ---- random_block: rows row .., columns col .. of a matrix of `columns` columns, uniform in [0, 1). An element
 * depends on the session's seed and its own place in the whole matrix alone: not on the block, the node or the step. */

enum { SHAPE, COLUMNS, ROW, COL };

static shoal_status random_block_shape(op_shapes *s) {
  const shoal_shape *shape = &s->attr[SHAPE].list;
  char buffer[SHOAL_SHAPE_TEXT];
  if (shape->rank != 2 || shape->dim[0] < 0 || shape->dim[1] < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "a block has two known dimensions, not %s", shoal_shape_text(shape, buffer));
  if (s->attr[ROW].i < 0 || s->attr[COL].i < 0 || s->attr[COL].i + shape->dim[1] > s->attr[COLUMNS].i)
    return status_make(SHOAL_ERR_ARGUMENT, "block %s at %lld, %lld does not lie in %lld columns",
                       shoal_shape_text(shape, buffer), (long long)s->attr[ROW].i, (long long)s->attr[COL].i,
                       (long long)s->attr[COLUMNS].i);
  s->out[0] = *shape;
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

#define MATRIX_STREAM 0x6d61747269780000u

static shoal_status random_block_kernel(const kernel_call *call) {
  random_stream stream = random_stream_make(call->seed, MATRIX_STREAM);
  float *y = call->out[0].data; /* [rows, cols] */
  int64_t rows = call->out[0].shape.dim[0], cols = call->out[0].shape.dim[1];
  for (int64_t r = 0; r < rows; r++) {
    uint64_t first = (uint64_t)(call->attr[ROW].i + r) * (uint64_t)call->attr[COLUMNS].i + (uint64_t)call->attr[COL].i;
    for (int64_t c = 0; c < cols; c++) y[r * cols + c] = (float)random_uniform_at(&stream, first + (uint64_t)c);
  }
  return NULL;
}

typedef struct {
  const kernel_call *call;
  void (*fill)(const random_stream *s, uint64_t first, int64_t n, float *out);
} block_work;

static void block_share(void *context, int thread, int threads) {
  const block_work *w = context;
  const kernel_call *call = w->call;
  random_stream stream = random_stream_make(call->seed, MATRIX_STREAM);
  int64_t rows = call->out[0].shape.dim[0], cols = call->out[0].shape.dim[1], from, to;
  pool_share(rows, 1, thread, threads, &from, &to);
  for (int64_t r = from; r < to; r++)
    w->fill(&stream, (uint64_t)(call->attr[ROW].i + r) * (uint64_t)call->attr[COLUMNS].i + (uint64_t)call->attr[COL].i,
            cols, (float *)call->out[0].data + r * cols);
}

#define RANDOM_BLOCK(isa)                                                            \
  static shoal_status random_block_##isa(const kernel_call *call) {                  \
    pool_run(call->threads, block_share, &(block_work){call, philox_uniform_##isa}); \
    return NULL;                                                                     \
  }
EACH_ISA(RANDOM_BLOCK)

static const op_variant tuned_random_block[] = {
    VARIANTS("rows", random_block, .scratch = NULL),
    {.name = NULL},
};

/* ---- trace_matmul(a [m, k], b [k, m]): the trace of a b, which is the sum of a(i, j) b(j, i): k m products instead of
 * k m^2. f64, since it may add up billions of numbers. */

static shoal_status trace_matmul_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "a"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 0, 2, "a"));
  TRY(rule_rank(s, 1, 2, "b"));
  if (!dims_fit(s->in[0].dim[0], s->in[1].dim[1]) || !dims_fit(s->in[0].dim[1], s->in[1].dim[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "a %s times b %s is not a square matrix", shoal_shape_text(&s->in[0], a),
                       shoal_shape_text(&s->in[1], b));
  }
  s->out[0] = SHOAL_SCALAR;
  s->out_dtype[0] = SHOAL_F64;
  return NULL;
}

enum { TILE = 64, TRACE_THREADS = 256 };

typedef struct {
  const kernel_call *call;
  double sums[TRACE_THREADS];
} trace_work;

/* The sum over a tile, element by element: a's rows are k apart, b's are m. */
static double trace_tile_double(const double *a, int64_t k, const double *b, int64_t m, int64_t rows, int64_t cols) {
  double sum = 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) sum += a[i * k + j] * b[j * m + i];
  return sum;
}

typedef float four __attribute__((vector_size(16)));
typedef float four_any __attribute__((vector_size(16), aligned(4), may_alias)); /* at any address */

static inline four load_four(const float *p) { return *(const four_any *)p; }

/* Four by four at a time: those of b are turned in registers. What follows in the same rows of a and columns of b, the
 * next tile, is fetched meanwhile. Sums of up to TILE / 4 products are in f32. */
static double trace_tile_float(const float *a, int64_t k, const float *b, int64_t m, int64_t rows, int64_t cols) {
  enum { LINE = 16 };
  const int64_t high = rows / 4 * 4, wide = cols / 4 * 4;
  double sum = 0;
  for (int64_t i = 0; i < high; i += 4) {
    four s[4] = {{0}, {0}, {0}, {0}};
    for (int64_t e = 0; e < 4; e++)
      for (int64_t l = 0; l < TILE; l += LINE) {
        __builtin_prefetch(a + (i + e) * k + TILE + l);
        __builtin_prefetch(b + (TILE + i + e) * m + l);
      }
    for (int64_t j = 0; j < wide; j += 4) {
      four r0 = load_four(b + j * m + i), r1 = load_four(b + (j + 1) * m + i);
      four r2 = load_four(b + (j + 2) * m + i), r3 = load_four(b + (j + 3) * m + i);
      four t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
      four t2 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
      s[0] += load_four(a + i * k + j) * __builtin_shufflevector(t0, t1, 0, 1, 4, 5);
      s[1] += load_four(a + (i + 1) * k + j) * __builtin_shufflevector(t0, t1, 2, 3, 6, 7);
      s[2] += load_four(a + (i + 2) * k + j) * __builtin_shufflevector(t2, t3, 0, 1, 4, 5);
      s[3] += load_four(a + (i + 3) * k + j) * __builtin_shufflevector(t2, t3, 2, 3, 6, 7);
    }
    for (int e = 0; e < 4; e++)
      for (int l = 0; l < 4; l++) sum += (double)s[e][l];
  }
  for (int64_t i = 0; i < rows; i++) /* what is left at the right and below */
    for (int64_t j = i < high ? wide : 0; j < cols; j++) sum += (double)(a[i * k + j] * b[j * m + i]);
  return sum;
}

#define TRACE_SHARE(real)                                                                           \
  static void trace_share_##real(void *context, int thread, int threads) {                          \
    trace_work *w = context;                                                                        \
    const real *a = w->call->in[0].data, *b = w->call->in[1].data; /* [m, k], [k, m] */             \
    const int64_t m = w->call->in[0].shape.dim[0], k = w->call->in[0].shape.dim[1];                 \
    int64_t from, to;                                                                               \
    double sum = 0;                                                                                 \
    pool_share(m, TILE, thread, threads, &from, &to);                                               \
    for (int64_t i = from; i < to; i += TILE)                                                       \
      for (int64_t j = 0; j < k; j += TILE)                                                         \
        sum += trace_tile_##real(a + i * k + j, k, b + j * m + i, m, MIN_OF((int64_t)TILE, to - i), \
                                 MIN_OF((int64_t)TILE, k - j));                                     \
    w->sums[thread] = sum;                                                                          \
  }
TRACE_SHARE(float)
TRACE_SHARE(double)

static shoal_status trace_matmul_kernel(const kernel_call *call) {
  trace_work w = {.call = call};
  pool_work share = call->in[0].dtype == SHOAL_F32 ? trace_share_float : trace_share_double;
  if (pool_threads(call->threads) <= TRACE_THREADS)
    pool_run(call->threads, share, &w);
  else
    share(&w, 0, 1);
  double sum = 0;
  for (int t = 0; t < TRACE_THREADS; t++) sum += w.sums[t];
  *(double *)call->out[0].data = sum;
  return NULL;
}

static void trace_matmul_gradient(op_grad_call *c) {
  for (int i = 0; i < 2; i++) {
    shoal_value *turned = shoal_transpose(c->graph, c->in[1 - i], SHOAL_SHAPE(1, 0));
    c->dx[i].value = shoal_mul(c->graph, turned, shoal_cast(c->graph, c->dy[0], c->in[i]->dtype));
  }
}

static void trace_matmul_cost(const op_shapes *s, double *flops) { *flops = 2 * (double)shoal_shape_count(&s->in[0]); }

const op_row ops_blocks[] = {
    {.name = "random_block",
     .attrs = {{"shape", ATTR_LIST, 0}, {"columns", ATTR_INT, 0}, {"row", ATTR_INT, 0}, {"col", ATTR_INT, 0}},
     .outs = 1,
     .flags = OP_RANDOM | OP_NO_GRADIENT,
     .shape = random_block_shape,
     .kernel = random_block_kernel,
     .variants = tuned_random_block,
     .cases = (const char *const[]){"shape=3,4 columns=4", "shape=5,70 columns=203 row=7 col=33",
                                    "shape=2,256 columns=256", "shape=0,3 columns=9 row=1", NULL}},
    {.name = "trace_matmul",
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = trace_matmul_shape,
     .gradient = trace_matmul_gradient,
     .kernel = trace_matmul_kernel,
     .cost = trace_matmul_cost,
     .cases = (const char *const[]){"[3,4] [4,3]", "[1,1] [1,1]", "[70,130] [130,70]", "[65,66] [66,65]",
                                    "[3,129] [129,3]", "[0,3] [3,0]", NULL}},
    {0}};

shoal_value *shoal_random_block(shoal_graph *g, shoal_shape shape, int64_t columns, int64_t row, int64_t col) {
  return graph_op(g, "random_block", NULL, 0,
                  (attr_value[OP_MAX_ATTRS]){ATTR_L(shape), ATTR_I(columns), ATTR_I(row), ATTR_I(col)});
}

shoal_value *shoal_trace_matmul(shoal_graph *g, shoal_value *a, shoal_value *b) {
  return GRAPH_BINARY(g, "trace_matmul", a, b, {0});
}
