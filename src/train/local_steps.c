#include "train/local_steps.h"

#include "base/mem.h"
#include "dist/low_rank.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/apply.h"
#include "train/shards.h"

#include <math.h>
#include <string.h>

typedef struct {
  shoal_strategy base;
  local_steps_options options;
  const strategy_setup *setup;
  shoal_model *model;
  apply apply;
  collective_place joined;    /* where the caller has not */
  collective *ranks, *second; /* PowerSGD has two exchanges */
  collective_head *heads;     /* [ranks] */
  low_rank *factors;          /* NULL: without */
  shoal_tensor *variables;    /* [apply.n] of the session */
  int n_trained;
  int64_t trained;                 /* numbers in those */
  float *vector;                   /* [elements] gradients, or distances */
  float *start;                    /* [elements] the parameters of the last exchange; NULL: H is 1 */
  float *momentum;                 /* [trained] */
  int64_t compared;                /* step of the last comparison */
  int64_t rows;                    /* of all ranks, of the batch computed last */
  bool last;                       /* of its epoch, in a stream */
  double rate;                     /* of the same */
  collective_head own;             /* the same */
  strategy_place place, exchanged; /* now; at the last exchange */
  bool stopped;
} local_steps;

/* ---- the parameters */

static void read_parameters(const local_steps *s, float *to) {
  for (int i = 0; i < s->apply.n; to += s->apply.counts[i++])
    memcpy(to, s->variables[i].data, (size_t)s->apply.counts[i] * sizeof *to);
}

static void write_parameters(const local_steps *s, const float *from) {
  for (int i = 0; i < s->apply.n; from += s->apply.counts[i++])
    memcpy(s->variables[i].data, from, (size_t)s->apply.counts[i] * sizeof *from);
}

/* How far this rank has come from the parameters of the last exchange, its share of the mean. */
static void read_distances(local_steps *s) {
  const float share = 1.0F / (float)s->base.workers;
  read_parameters(s, s->vector);
  for (int64_t i = 0; i < s->apply.elements; i++) s->vector[i] = (s->start[i] - s->vector[i]) * share;
}

/* One update of those parameters by the mean distance; moving averages become the mean of the ranks'. */
static void apply_distances(local_steps *s) {
  const float rate = (float)s->options.rate, momentum = (float)s->options.momentum;
  for (int64_t i = 0; i < s->trained; i++) {
    s->momentum[i] = momentum * s->momentum[i] + s->vector[i];
    s->start[i] -= rate * (s->vector[i] + momentum * s->momentum[i]);
  }
  for (int64_t i = s->trained; i < s->apply.elements; i++) s->start[i] -= s->vector[i];
  write_parameters(s, s->start);
}

/* ---- the exchange */

/* Sums a vector over the ranks: each has one leaf of the tree. */
static shoal_status add_up(const local_steps *s, collective *c, const collective_head *own) {
  TRY(collective_begin(c, s->base.workers));
  for (int i = 0; i < s->apply.n; i++) TRY(collective_ready(c, i));
  return collective_finish(c, own, s->heads);
}

/* s->vector becomes its sum over the ranks, unless one wants to stop: then *stop. */
static shoal_status sum_vector(local_steps *s, const collective_head *own, bool *stop) {
  float *first = collective_part(s->ranks, 0);
  const size_t bytes = (size_t)s->apply.elements * sizeof *first;
  if (s->factors)
    low_rank_first(s->factors, s->vector, first);
  else
    memcpy(first, s->vector, bytes);
  TRY(add_up(s, s->ranks, own));
  *stop = false;
  for (int r = 0; r < s->base.workers; r++) *stop |= s->heads[r].stop != 0;
  if (*stop) return NULL;
  if (!s->factors) {
    memcpy(s->vector, first, bytes);
    return NULL;
  }
  float *second = collective_part(s->second, 0);
  low_rank_second(s->factors, first, second);
  TRY(add_up(s, s->second, own));
  low_rank_finish(s->factors, first, second, s->vector);
  return NULL;
}

static shoal_status hash(const local_steps *s, uint64_t *out) {
  return s->start ? apply_hash_weights(&s->apply, out) : apply_hash(&s->apply, out);
}

static bool is_epochs_end(const local_steps *s) {
  const int64_t usable = s->setup->plan.batches.rows;
  return usable ? (s->place.rows + s->rows) % usable == 0 : s->last;
}

/* Whether the ranks meet after the step just computed. */
static bool meets(const local_steps *s) {
  const int64_t updates = s->place.updates + 1;
  return updates % s->options.every == 0 || is_epochs_end(s) || updates == s->setup->plan.end_step;
}

/* ---- the interface */

static shoal_status prepare(local_steps *s, const strategy_setup *setup);

static shoal_status follow_chief(shoal_strategy *base) {
  local_steps *s = (local_steps *)base;
  return allreduce_follow_chief(s->options.ranks.place, s->model);
}

static shoal_status begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  local_steps *s = (local_steps *)base;
  s->model = setup->compute->model;
  TRY(apply_create(s->model, &s->apply));
  TRY(prepare(s, setup));
  TRY(collective_broadcast(s->options.ranks.place, place, sizeof *place));
  TRY(follow_chief(base));
  if (s->start) read_parameters(s, s->start);
  s->compared = place->updates;
  s->place = s->exchanged = *place;
  return NULL;
}

/* The gradients of this rank's own rows, into the vector. */
static shoal_status compute_own(local_steps *s, const train_batch *own, double scale) {
  compute *c = s->setup->compute;
  TRY(compute_run(c, own, NULL, NULL));
  compute_losses(c, own->rows, &s->own.loss, &s->own.hits);
  if (!isfinite(s->own.loss))
    return compute_explain(c, own, status_make(SHOAL_ERR_NUMERIC, "the loss is %f", s->own.loss / (double)own->rows));
  const shoal_tensor *gradients = compute_gradients(c);
  float *to = s->vector;
  for (int w = 0; w < s->apply.n; to += s->apply.counts[w++]) {
    const float *from = gradients[w].data;
    for (int64_t i = 0; i < s->apply.counts[w]; i++) to[i] = from[i] * (float)scale;
  }
  const float *carried = s->options.ranks.carried;
  for (int64_t i = 0; carried && i < s->apply.elements; i++) s->vector[i] += carried[i];
  s->options.ranks.carried = NULL;
  return NULL;
}

static shoal_status compute_batch(shoal_strategy *base, const train_batch *b) {
  local_steps *s = (local_steps *)base;
  const shard_cut cut = shard_cut_rows(b->rows, base->workers, false);
  int64_t first, last;
  tree_share(cut.leaves, base->worker, base->workers, &first, &last);
  s->rows = b->rows;
  s->last = b->last;
  s->rate = b->rate;
  s->own = (collective_head){.examples = first < last ? MIN_OF(cut.size, b->rows - first * cut.size) : 0};
  if (!s->own.examples) {
    if (!s->start) memset(s->vector, 0, (size_t)s->apply.elements * sizeof *s->vector);
    return NULL;
  }
  train_batch own = *b;
  own.first += first * cut.size;
  own.rows = s->own.examples;
  own.number = b->number * base->workers + base->worker;
  TRY(compute_own(s, &own, s->start ? 1 : (double)own.rows / (double)b->rows));
  return s->start ? apply_run(&s->apply, s->vector, b->rate) : NULL;
}

/* Back to the parameters of the last exchange: all ranks end there. */
static void go_back(local_steps *s) {
  s->stopped = true;
  s->base.apart = false;
  if (s->start) write_parameters(s, s->start);
  s->place = s->exchanged;
}

static shoal_status take_sum(local_steps *s, bool *stop) {
  const bool compares = s->options.ranks.check_every && s->place.updates - s->compared >= s->options.ranks.check_every;
  if (compares && !s->start) TRY(hash(s, &s->own.hash));
  if (s->start) read_distances(s);
  TRY(sum_vector(s, &s->own, stop));
  if (*stop) return NULL;
  if (compares && !s->start) {
    TRY(allreduce_compare(s->ranks, s->heads, s->base.workers));
    s->compared = s->place.updates;
  }
  if (!s->start) return apply_run(&s->apply, s->vector, s->rate);
  apply_distances(s);
  return NULL;
}

static shoal_status exchange(shoal_strategy *base, const train_batch *next, strategy_outcome *out) {
  local_steps *s = (local_steps *)base;
  collective_stats before, after;
  const bool meet = meets(s);
  bool stop = false;
  collective_stats_read(s->ranks, &before);
  if (meet) TRY(take_sum(s, &stop));
  collective_stats_read(s->ranks, &after);
  if (stop) {
    go_back(s);
    *out = (strategy_outcome){.stop = true};
    return NULL;
  }
  s->place.updates++;
  s->place.rows += s->rows;
  base->apart = !meet;
  if (meet) s->exchanged = s->place;
  *out = (strategy_outcome){.examples = s->own.examples,
                            .loss = s->own.loss,
                            .hits = s->own.hits,
                            .rate = s->rate,
                            .place = s->place,
                            .own_examples = s->own.examples,
                            .own_steps = 1,
                            .network_seconds = after.sending_seconds - before.sending_seconds,
                            .barrier_seconds = after.blocked_seconds - before.blocked_seconds};
  return NULL;
}

static shoal_status gather(shoal_strategy *base) { return NULL; } /* rank 0 has everything when ranks are not apart */

static shoal_status end(shoal_strategy *base, bool early, strategy_outcome *out) {
  local_steps *s = (local_steps *)base;
  collective_head own = {.stop = 1};
  bool stop;
  if (early && !s->stopped) {
    memset(s->vector, 0, (size_t)s->apply.elements * sizeof *s->vector);
    TRY(sum_vector(s, &own, &stop));
    go_back(s);
  }
  own.stop = 0;
  TRY(hash(s, &own.hash));
  collective_part_ways(s->ranks);
  if (s->second) collective_part_ways(s->second);
  TRY(collective_meet(s->ranks, &own, s->heads));
  *out = (strategy_outcome){.place = s->place};
  return allreduce_compare(s->ranks, s->heads, base->workers);
}

/* ---- setting up */

static shoal_status prepare_factors(local_steps *s, int64_t *first, int64_t *second) {
  low_rank_shape *shapes = calloc((size_t)s->apply.n + 1, sizeof *shapes);
  if (!shapes) return status_no_memory();
  for (int i = 0; i < s->apply.n; i++) shapes[i] = low_rank_shape_of(&s->variables[i].shape);
  shoal_status status = low_rank_create(shapes, s->apply.n, s->options.rank, s->options.seed, &s->factors);
  free(shapes);
  TRY(status);
  for (int i = 0; i < s->apply.n; i++) {
    first[i] = low_rank_first_count(s->factors, i);
    second[i] = low_rank_second_count(s->factors, i);
  }
  return NULL;
}

static shoal_status prepare_ranks(local_steps *s) {
  const size_t n = (size_t)s->apply.n;
  int64_t *counts = calloc(2 * n + 1, sizeof *counts);
  if (!counts) return status_no_memory();
  memcpy(counts, s->apply.counts, n * sizeof *counts);
  collective_options options = {.counts = counts,
                                .tensors = s->apply.n,
                                .leaves = {s->base.workers},
                                .wire = s->options.ranks.wire,
                                .patience = s->options.ranks.patience,
                                .on_peer_exit = s->options.ranks.on_peer_exit,
                                .context = s->options.ranks.context};
  shoal_status status = s->options.rank ? prepare_factors(s, counts, counts + n) : NULL;
  if (!status) status = collective_create(s->options.ranks.place, &options, &s->ranks);
  s->base.ranks = s->ranks;
  options.counts = counts + n;
  if (!status && s->factors) status = collective_create(s->options.ranks.place, &options, &s->second);
  free(counts);
  return status;
}

static shoal_status find_variables(local_steps *s) {
  shoal_value **weights;
  int n;
  TRY(model_exchanged(s->model, &weights, &s->n_trained, &n));
  shoal_status status = NULL;
  for (int i = 0; i < n && !status; i++) {
    status = shoal_session_variable(s->model->session, weights[i], &s->variables[i]);
    if (i < s->n_trained) s->trained += s->apply.counts[i];
  }
  free(weights);
  return status;
}

static shoal_status prepare(local_steps *s, const strategy_setup *setup) {
  const size_t elements = (size_t)s->apply.elements;
  s->setup = setup;
  s->heads = calloc((size_t)s->base.workers, sizeof *s->heads);
  s->variables = calloc((size_t)s->apply.n + 1, sizeof *s->variables);
  s->vector = calloc(elements, sizeof *s->vector);
  if (!s->heads || !s->variables || !s->vector) return status_no_memory();
  TRY(find_variables(s));
  if (s->options.every > 1) {
    s->start = calloc(elements, sizeof *s->start);
    s->momentum = calloc(elements, sizeof *s->momentum);
    if (!s->start || !s->momentum) return status_no_memory();
  }
  return prepare_ranks(s);
}

static void destroy(shoal_strategy *base) {
  local_steps *s = (local_steps *)base;
  collective_destroy(s->second);
  collective_destroy(s->ranks);
  low_rank_destroy(s->factors);
  free(s->heads);
  free(s->variables);
  free(s->vector);
  free(s->start);
  free(s->momentum);
  apply_fini(&s->apply);
  shoal_status_free(collective_leave(&s->joined));
  free(s);
}

static const strategy_kind kind = {.name = "allreduce",
                                   .begin = begin,
                                   .compute = compute_batch,
                                   .exchange = exchange,
                                   .gather = gather,
                                   .end = end,
                                   .follow_chief = follow_chief,
                                   .destroy = destroy};

shoal_status local_steps_create(const local_steps_options *options, shoal_strategy **out) {
  local_steps *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  shoal_status status = allreduce_join(&kind, &s->options.ranks, &s->joined, &s->base);
  if (status)
    free(s);
  else
    *out = &s->base;
  return status;
}

shoal_status local_steps_take_left(const shoal_strategy *base, float **out) {
  const local_steps *s = (const local_steps *)base;
  *out = NULL;
  if (!s->factors) return NULL;
  *out = calloc((size_t)s->apply.elements, sizeof **out);
  if (!*out) return status_no_memory();
  low_rank_add_left(s->factors, *out);
  return NULL;
}
