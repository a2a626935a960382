/* The gradient of a worker's batch: in whatever form goes to the servers. */
#include "train/ps_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "exec/session.h"

#include <string.h>

static shoal_status make_local(ps *s) {
  float **slots = s->n_values > 1 ? s->values[1] : calloc((size_t)s->n_weights, sizeof *slots);
  if (!slots) return status_no_memory();
  shoal_status status = ps_local_create(s->model, s->values[0], s->n_trained, s->gradients, slots, &s->local);
  if (s->n_values == 1) free(slots);
  return status;
}
/* Vectors for the parts of a round. */
static shoal_status prepare_rounds(ps *s) {
  TRY(shards_create(s->setup, -1, s->base.workers, s->base.workers, true, &s->shards));
  int n = shards_vectors(s->shards);
  free(s->gradients);
  s->gradients = calloc((size_t)(n * s->n_weights), sizeof *s->gradients);
  s->vectors = calloc((size_t)n, sizeof *s->vectors);
  if (!s->gradients || !s->vectors) return status_no_memory();
  for (int k = 0; k < n; k++) {
    TRY(mem_aligned((size_t)s->elements * sizeof **s->vectors, (void **)&s->vectors[k]));
    s->n_vectors = k + 1;
    float *at = s->vectors[k];
    for (int i = 0; i < s->n_weights; at += s->counts[i++]) s->gradients[k * s->n_weights + i] = at;
  }
  return NULL;
}

shoal_status ps_prepare(ps *s) {
  const compute *c = s->setup->compute;
  if (s->table)
    return ps_leaves_create(s->setup, s->table, s->base.rounds ? s->setup->round : 0, s->base.workers, &s->leaves);
  if (s->base.rounds) return prepare_rounds(s);
  if (s->options.terms.local_steps) TRY(make_local(s));
  if (c->model->sparse) {
    ps_table_shape table;
    TRY(ps_table_find(c->model, s->options.terms.servers, &table));
    if (table.width != 1 || !ps_table_first(c->model))
      return status_make(SHOAL_ERR_ARGUMENT, "`transfer` dense is for tables of one weight a feature");
    s->dense = calloc((size_t)model_features(c->model), sizeof *s->dense);
    return s->dense ? NULL : status_no_memory();
  }
  const int64_t rows = s->setup->plan.batches.rows, batch = s->setup->batch / MAX_OF(s->base.local_steps, 1);
  TRY(compute_plan_batch(c, &s->setup->example, rows ? MIN_OF(batch, rows) : batch));
  return compute_plan_batch(c, &s->setup->example, rows % s->setup->batch % batch);
}

/* A gradient is there before the others are: what is large enough goes out now. */
static void on_ready(void *context, int fetch, const shoal_tensor *gradient) {
  ps *s = context;
  const int which = fetch - s->setup->compute->first_gradient;
  if (which < 0 || s->error) return;
  double begun = clock_seconds();
  int64_t before = ps_bytes_moved(s);
  s->gradients[which] = gradient->data;
  s->error = ps_client_ready(s->client, s->gradients, which);
  s->since.bytes += ps_bytes_moved(s) - before;
  s->since.network_seconds += clock_seconds() - begun;
}

static void on_phase(void *context) {}

/* This worker's part of a round, whose rows all workers cut among them. */
static shoal_status compute_part(ps *s, const train_batch *b) {
  shards_sum sum;
  train_batch round = *b;
  round.first = b->span.round;
  round.rows = b->span.round_rows;
  shards_take(s->shards, b->span.part);
  TRY(compute_explain(s->setup->compute, &round, shards_run(s->shards, &round, false, s->vectors, &sum)));
  s->part = (ps_head){.loss = sum.loss, .hits = sum.hits, .examples = sum.examples};
  s->span = b->span;
  return NULL;
}

/* The gradient of the touched rows as one of all. */
static shoal_status spread(ps *s, const train_batch *b) {
  const shoal_tensor *gradient = compute_gradients(s->setup->compute);
  const float *rows = gradient->data;             /* [entries, 1] */
  const int32_t *index = b->sparse->indices.data; /* [entries] */
  const int64_t entries = gradient->shape.dim[0];
  memset(s->dense, 0, (size_t)model_features(s->model) * sizeof *s->dense);
  for (int64_t e = 0; e < entries; e++) s->dense[index[e]] += rows[e];
  s->gradients[0] = s->dense;
  TRY(sparse_set_make(&s->spread, index, entries));
  s->since.touched += s->spread.n;
  return NULL;
}

/* The rows of a table that the batch needs, unless they came with the last answer. */
static shoal_status fetch_rows(ps *s, const train_batch *b) {
  if (ps_table_kept(s->table) && b->shard == s->rows_shard && b->index == s->rows_index) return NULL;
  return ps_table_fetch(s->table, b->sparse, true, &s->indices);
}

static shoal_status compute_local(ps *s, const train_batch *b) {
  const int64_t steps = s->base.local_steps;
  const ps_local_plan plan = {.steps = steps, .batch = s->setup->batch / steps, .done = s->since.place.updates * steps};
  return ps_local_compute(s->local, s->setup->compute, b, &plan, &s->part, &s->local_rate);
}

shoal_status ps_compute(shoal_strategy *base, const train_batch *b) {
  ps *s = (ps *)base;
  compute *c = s->setup->compute;
  s->part = (ps_head){.examples = b->rows};
  s->span = s->table ? b->span : (lease_span){0};
  s->shard = b->shard;
  s->index = b->index;
  s->mark = b->mark;
  s->begun = s->advice ? clock_seconds() : 0;
  if (!b->rows) return NULL;
  if (s->shards) return compute_part(s, b);
  if (s->local) return compute_local(s, b);
  if (s->table && (s->error = fetch_rows(s, b))) return NULL; /* `exchange` tells, and whether all is to begin again */
  if (s->table) return ps_leaves_run(s->leaves, b, &s->indices, &s->part);
  const bool early = s->watches && !s->dense; /* rows that were touched are spread over the whole table first */
  TRY(compute_run(c, b, NULL, early ? &(session_watcher){s, on_ready, on_phase} : NULL));
  compute_losses(c, b->rows, &s->part.loss, &s->part.hits);
  for (int i = 0; i < s->n_weights; i++) s->gradients[i] = compute_gradients(c)[i].data;
  return s->dense ? spread(s, b) : NULL;
}
