/* The trace of a large product, computed over graph servers, and what there is to say about it. */
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "shoal/models.h"

#include <stdlib.h>
#include <string.h>

#define SAFE_SHARE 0.9    /* of the memory that is available */
#define BASELINE_MAX 2500 /* rows: larger ones are not faster */
#define BASELINE_SECONDS 0.4

static double total_bytes(const shoal_square_trace_options *o) {
  return shoal_square_trace_predict(o).worker_bytes * o->workers;
}

shoal_status shoal_square_trace_check_memory(const shoal_square_trace_options *o) {
  const double have = (double)shoal_machine_memory_free(), need = total_bytes(o);
  if (have <= 0 || need <= SAFE_SHARE * have) return NULL;
  shoal_square_trace_options smaller = *o;
  while (smaller.blocks < smaller.n && total_bytes(&smaller) > SAFE_SHARE * have) smaller.blocks++;
  const long long side = (o->n + o->blocks - 1) / o->blocks;
  return status_make(SHOAL_ERR_SYSTEM,
                     "%d workers with %d blocks of %lld x %lld at a time need %.2f GB each, %.2f GB in all, "
                     "but %.2f GB are available here; `blocks` %lld (or more) fits, with %.2f GB in all",
                     o->workers, (o->blocks > 1 ? 2 : 1) + o->full_product, side, side, need / 1e9 / o->workers,
                     need / 1e9, have / 1e9, (long long)smaller.blocks, total_bytes(&smaller) / 1e9);
}

static shoal_status run_session(shoal_graph *g, shoal_value *trace, const shoal_cluster_options *cluster,
                                shoal_square_trace_result *r) {
  const double begun = clock_seconds();
  shoal_session *s;
  shoal_tensor out;
  TRY(shoal_session_connect(g, cluster, &s));
  r->start_seconds = clock_seconds() - begun;
  const double start = clock_seconds();
  shoal_status status = shoal_session_run(s, NULL, 0, &trace, 1, &out);
  r->seconds = clock_seconds() - start;
  if (!status) {
    r->trace = shoal_tensor_get(&out, 0);
    shoal_session_stats(s, &r->stats);
  }
  shoal_session_destroy(s);
  return status;
}

shoal_status shoal_square_trace_run(const shoal_square_trace_options *options, const shoal_cluster_options *cluster,
                                    shoal_square_trace_result *out) {
  shoal_square_trace_options o;
  TRY(OPTIONS_TAKE(&o, options));
  shoal_square_trace_result r = {.cost = shoal_square_trace_predict(&o)};
  shoal_graph *g;
  shoal_value *trace;
  TRY(shoal_graph_create(&g));
  shoal_status status = shoal_square_trace_build(g, &o, &trace);
  if (!status) status = run_session(g, trace, cluster, &r);
  shoal_graph_destroy(g);
  TRY(status);
  if (o.full_product)
    TRY(shoal_gemm_baseline_measure(MIN_OF(o.n / o.blocks, (int64_t)BASELINE_MAX), MIN_OF(r.seconds, BASELINE_SECONDS),
                                    &r.baseline));
  *out = r;
  return NULL;
}

double shoal_square_trace_share(const shoal_square_trace_result *r) {
  return r->cost.flops / r->seconds / MAX_OF(r->baseline.own, r->baseline.blas);
}

shoal_status shoal_square_trace_json(const shoal_square_trace_options *o, const shoal_square_trace_result *r,
                                     char **out) {
  json_t *all = json_pack("{s:s, s:s, s:I, s:I, s:i, s:b, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "model", "matmul",
                          "status", "finished", "n", (json_int_t)o->n, "blocks", (json_int_t)o->blocks, "workers",
                          o->workers, "full_product", o->full_product, "trace", r->trace, "seconds", r->seconds,
                          "start_seconds", r->start_seconds, "flops", r->cost.flops, "worker_bytes",
                          r->cost.worker_bytes, "pairs", (json_int_t)r->cost.pairs, "messages",
                          (json_int_t)r->stats.messages, "data_bytes", (json_int_t)r->stats.data_bytes);
  if (all && o->full_product) {
    const shoal_gemm_baseline *b = &r->baseline;
    json_object_set_new(all, "machine_product_flops", json_finite(MAX_OF(b->own, b->blas)));
    json_object_set_new(all, "own_product_flops", json_finite(b->own));
    json_object_set_new(all, "blas_product_flops", b->name ? json_finite(b->blas) : json_null());
    json_object_set_new(all, "share_of_machine", json_finite(shoal_square_trace_share(r)));
  }
  return json_text(all, 0, out);
}

shoal_status shoal_square_trace_write(const shoal_square_trace_options *o, const shoal_square_trace_result *r,
                                      const char *path) {
  char *words;
  TRY(shoal_square_trace_json(o, r, &words));
  text t = {.data = words, .length = strlen(words)};
  shoal_status status = shoal_text_write(&t, path);
  free(words);
  return status;
}
