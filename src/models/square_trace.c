#include "shoal/models.h"

#include "base/mem.h"
#include "base/options.h"
#include "base/status.h"
#include "kernel/gemm.h"

#include <stdio.h>

/* Where block k begins. */
static int64_t edge(const shoal_square_trace_options *o, int64_t k) { return o->n * k / o->blocks; }

static shoal_value *block(shoal_graph *g, const shoal_square_trace_options *o, int64_t i, int64_t j) {
  shoal_shape shape = SHOAL_SHAPE(edge(o, i + 1) - edge(o, i), edge(o, j + 1) - edge(o, j));
  return shoal_random_block(g, shape, o->n, edge(o, i), edge(o, j));
}

/* tr(A_ij A_ji), once or, for both orders, twice. */
static shoal_value *pair_trace(shoal_graph *g, const shoal_square_trace_options *o, int64_t i, int64_t j) {
  shoal_value *a = block(g, o, i, j), *b = i == j ? a : block(g, o, j, i);
  shoal_value *trace = o->full_product ? shoal_cast(g, shoal_trace(g, shoal_matmul(g, a, b, false, false)), SHOAL_F64)
                                       : shoal_trace_matmul(g, a, b);
  return i == j ? trace : shoal_scale(g, trace, 2);
}

static void on_worker(shoal_graph *g, int w) {
  char device[48];
  snprintf(device, sizeof device, "/job:worker/task:%d", w);
  shoal_device_set(g, device);
}

shoal_status shoal_square_trace_build(shoal_graph *g, const shoal_square_trace_options *options, shoal_value **trace) {
  shoal_square_trace_options own;
  const shoal_square_trace_options *o = &own;
  TRY(OPTIONS_TAKE(&own, options));
  if (o->n < 1 || o->blocks < 1 || o->blocks > o->n || o->workers < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "a matrix of %lld rows cannot be cut into %lld x %lld blocks for %d workers",
                       (long long)o->n, (long long)o->blocks, (long long)o->blocks, o->workers);
  shoal_value **sums = calloc((size_t)o->workers, sizeof(shoal_value *));
  if (!sums) return status_no_memory();
  int next = 0;
  for (int64_t i = 0; i < o->blocks; i++)
    for (int64_t j = i; j < o->blocks; j++, next = (next + 1) % o->workers) {
      on_worker(g, next);
      shoal_value *part = pair_trace(g, o, i, j);
      sums[next] = sums[next] ? shoal_add(g, sums[next], part) : part;
    }
  on_worker(g, 0);
  shoal_value *sum = sums[0];
  for (int w = 1; w < o->workers; w++)
    if (sums[w]) sum = shoal_add(g, sum, sums[w]);
  shoal_device_set(g, NULL);
  free(sums);
  TRY(shoal_graph_status(g));
  *trace = sum;
  return NULL;
}

shoal_square_trace_cost shoal_square_trace_predict(const shoal_square_trace_options *o) {
  const int64_t rows = (o->n + o->blocks - 1) / o->blocks; /* of a block */
  double side = (double)rows, d = (double)o->blocks, n = (double)o->n;
  shoal_square_trace_cost c = {.pairs = o->blocks * (o->blocks + 1) / 2, .made_bytes = 4 * n * n};
  int held = (o->blocks > 1 ? 2 : 1) + o->full_product;
  c.worker_bytes = held * 4 * side * side;
  if (o->full_product) c.worker_bytes += (double)gemm_scratch((int64_t)side, (int64_t)side, (int64_t)side);
  double products = (double)c.pairs * (n / d) * (n / d); /* of the mean block */
  c.flops = 2 * products * (o->full_product ? n / d : 1);
  return c;
}
