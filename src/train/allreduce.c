#include "train/allreduce.h"

#include "base/mem.h"
#include "base/text.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/apply.h"
#include "train/shards.h"

#include <math.h>
#include <string.h>

typedef struct {
  shoal_strategy base;
  allreduce_options options;
  const strategy_setup *setup;
  shoal_model *model;
  apply apply;
  collective_place joined; /* where the caller has not */
  collective *ranks;
  collective_head *heads; /* [ranks] */
  shards *shards;         /* deterministic only */
  float **vectors;        /* for them: the collective's parts, then others */
  int n_vectors;
  int64_t *offsets; /* [weights + 1] in the vector */
  /* of the step under way, for the watcher */
  float scale;            /* this rank's share of the rows */
  shoal_status error;     /* first one that the watcher met */
  int64_t compared;       /* step of the last comparison */
  double sending_seconds; /* so far */
  bool compares;          /* parameters are compared in the step under way */
  collective_head own;    /* of the batch computed last */
  int64_t rows;           /* of all ranks, the same */
  double rate;            /* the same */
  strategy_place place;
  bool stopped;
} allreduce;

/* ---- while backward runs */

static void keep_error(allreduce *s, shoal_status status) {
  if (s->error)
    shoal_status_free(status);
  else
    s->error = status;
}

/* A gradient is there: it goes to its place in the vector, and a bucket that is full goes out. */
static void on_ready(void *context, int fetch, const shoal_tensor *value) {
  allreduce *s = context;
  const int w = fetch - s->setup->compute->first_gradient;
  if (w < 0 || s->error) return;
  const float *from = value->data, scale = s->scale;
  float *to = collective_part(s->ranks, 0) + s->offsets[w];
  const int64_t count = s->offsets[w + 1] - s->offsets[w];
  for (int64_t i = 0; i < count; i++) to[i] = from[i] * scale;
  keep_error(s, collective_ready(s->ranks, w));
}

static void on_phase(void *context) {
  allreduce *s = context;
  if (!s->error) keep_error(s, collective_move(s->ranks));
}

static shoal_status take_error(allreduce *s) {
  shoal_status status = s->error;
  s->error = NULL;
  return status;
}

/* ---- computing */

static shoal_status all_ready(allreduce *s) {
  for (int w = 0; w < s->apply.n; w++) TRY(collective_ready(s->ranks, w));
  return NULL;
}

/* By the model's own session, with all its threads; gradients leave while it runs. */
static shoal_status compute_whole(allreduce *s, const train_batch *b, shards_sum *out) {
  compute *c = s->setup->compute;
  const shard_cut cut = shard_cut_rows(b->rows, s->base.workers, false);
  int64_t first, last;
  tree_share(cut.leaves, s->base.worker, s->base.workers, &first, &last);
  *out = (shards_sum){.examples = first < last ? MIN_OF(cut.size, b->rows - first * cut.size) : 0};
  if (!out->examples) return all_ready(s); /* there is nothing to send, but to receive */
  train_batch own = *b;
  own.first += first * cut.size;
  own.rows = out->examples;
  own.number = b->number * s->base.workers + s->base.worker;
  s->scale = (float)((double)own.rows / (double)b->rows);
  shoal_status status = compute_run(c, &own, NULL, &(session_watcher){s, on_ready, on_phase});
  shoal_status moved = take_error(s);
  if (status) shoal_status_free(moved);
  TRY(status ? status : moved);
  compute_losses(c, own.rows, &out->loss, &out->hits);
  if (isfinite(out->loss)) return NULL;
  return compute_explain(c, &own, status_make(SHOAL_ERR_NUMERIC, "the loss is %f", out->loss / (double)own.rows));
}

static int64_t leaves_of(const allreduce *s, int64_t rows) {
  return shard_cut_rows(rows, s->base.workers, s->options.deterministic).leaves;
}

/* ---- the ranks agree */

shoal_status allreduce_compare(const collective *c, const collective_head *heads, int n) {
  const peers_rank *ranks = collective_ranks(c);
  int best = 0, votes = 0;
  for (int i = 0; i < n; i++) {
    int same = 0;
    for (int k = 0; k < n; k++) same += heads[k].hash == heads[i].hash;
    if (same > votes) {
      votes = same;
      best = i;
    }
  }
  if (votes == n) return NULL;
  text names = {0};
  for (int i = 0; i < n; i++)
    if (heads[i].hash != heads[best].hash)
      text_add(&names, "%srank %d (pid %d on %s)", names.length ? ", " : "", i, ranks[i].pid, ranks[i].host);
  shoal_status status = status_make(SHOAL_ERR_PEER,
                                    "the parameters of %s are not those of rank %d%s: a fault of memory "
                                    "or of the network; resume from the last checkpoint",
                                    names.data ? names.data : "?", best, votes > 1 ? " and the others" : "");
  text_fini(&names);
  return status;
}

static shoal_status prepare(allreduce *s, const strategy_setup *setup);

shoal_status allreduce_follow_chief(collective_place *place, shoal_model *m) {
  const shoal_graph *g = m->graph;
  for (size_t i = 0; i < g->count; i++) {
    if (!g->nodes[i]->initial) continue;
    shoal_tensor t;
    TRY(shoal_session_variable(m->session, &g->nodes[i]->out[0], &t));
    TRY(collective_broadcast(place, t.data, (int64_t)shoal_tensor_bytes(&t)));
  }
  return NULL;
}

static shoal_status follow_chief(shoal_strategy *base) {
  allreduce *s = (allreduce *)base;
  return allreduce_follow_chief(s->options.place, s->model);
}

static shoal_status begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  allreduce *s = (allreduce *)base;
  s->model = setup->compute->model;
  TRY(apply_create(s->model, &s->apply));
  TRY(prepare(s, setup));
  TRY(collective_broadcast(s->options.place, place, sizeof *place));
  TRY(follow_chief(base));
  s->compared = place->updates;
  s->place = *place;
  return NULL;
}

static shoal_status compute_batch(shoal_strategy *base, const train_batch *b) {
  allreduce *s = (allreduce *)base;
  shards_sum sum = {0};
  s->own = (collective_head){0};
  s->rows = b->rows;
  s->rate = b->rate;
  s->compares = s->options.check_every && b->step - s->compared >= s->options.check_every;
  if (s->compares) TRY(apply_hash(&s->apply, &s->own.hash));
  TRY(collective_begin(s->ranks, leaves_of(s, b->rows)));
  if (s->shards) {
    TRY(compute_explain(s->setup->compute, b, shards_run(s->shards, b, false, s->vectors, &sum)));
    TRY(all_ready(s));
  } else {
    TRY(compute_whole(s, b, &sum));
  }
  s->own.examples = sum.examples;
  s->own.loss = sum.loss;
  s->own.hits = sum.hits;
  return NULL;
}

static shoal_status exchange(shoal_strategy *base, const train_batch *next, strategy_outcome *out) {
  allreduce *s = (allreduce *)base;
  collective_stats before, after;
  collective_stats_read(s->ranks, &before);
  TRY(collective_finish(s->ranks, &s->own, s->heads));
  collective_stats_read(s->ranks, &after);
  *out = (strategy_outcome){.own_examples = s->own.examples,
                            .own_steps = 1,
                            .rate = s->rate,
                            .network_seconds = after.sending_seconds - s->sending_seconds,
                            .barrier_seconds = after.blocked_seconds - before.blocked_seconds};
  s->sending_seconds = after.sending_seconds;
  for (int r = 0; r < base->workers; r++) {
    out->examples += s->heads[r].examples;
    out->loss += s->heads[r].loss;
    out->hits += s->heads[r].hits;
    out->stop |= s->heads[r].stop != 0;
  }
  if (out->stop) { /* the step counts for nobody */
    *out = (strategy_outcome){.stop = s->stopped = true};
    return NULL;
  }
  if (s->compares) {
    TRY(allreduce_compare(s->ranks, s->heads, base->workers));
    s->compared = s->place.updates;
  }
  TRY(apply_run(&s->apply, collective_part(s->ranks, 0), s->rate));
  s->place.updates++;
  s->place.rows += s->rows;
  out->place = s->place;
  return NULL;
}

static shoal_status gather(shoal_strategy *base) { return NULL; } /* every rank has everything */

/* Takes part in a step that does not count: the others may be in the middle of it. */
static shoal_status stop(allreduce *s) {
  if (s->stopped) return NULL;
  s->stopped = true;
  const int64_t usable = s->setup->plan.batches.rows, left = usable ? usable - s->place.rows % usable : INT64_MAX;
  TRY(collective_begin(s->ranks, leaves_of(s, MIN_OF(s->setup->round, left))));
  TRY(all_ready(s));
  return collective_finish(s->ranks, &(collective_head){.stop = 1}, s->heads);
}

static shoal_status end(shoal_strategy *base, bool early, strategy_outcome *out) {
  allreduce *s = (allreduce *)base;
  collective_head own = {0};
  if (early) TRY(stop(s));
  TRY(apply_hash(&s->apply, &own.hash));
  collective_part_ways(s->ranks);
  TRY(collective_meet(s->ranks, &own, s->heads));
  *out = (strategy_outcome){.place = s->place};
  return allreduce_compare(s->ranks, s->heads, base->workers);
}

/* ---- setting up */

static shoal_status prepare(allreduce *s, const strategy_setup *setup) {
  const shoal_strategy *base = &s->base;
  s->setup = setup;
  s->heads = calloc((size_t)base->workers, sizeof *s->heads);
  s->offsets = calloc((size_t)s->apply.n + 1, sizeof *s->offsets);
  if (!s->heads || !s->offsets) return status_no_memory();
  for (int w = 0; w < s->apply.n; w++) s->offsets[w + 1] = s->offsets[w] + s->apply.counts[w];
  collective_options options = {.counts = s->apply.counts,
                                .tensors = s->apply.n,
                                .leaves = {leaves_of(s, setup->round), setup->last ? leaves_of(s, setup->last) : 0},
                                .any_leaves = !setup->plan.batches.rows,
                                .wire = s->options.wire,
                                .patience = s->options.patience,
                                .on_peer_exit = s->options.on_peer_exit,
                                .context = s->options.context};
  TRY(collective_create(s->options.place, &options, &s->ranks));
  s->base.ranks = s->ranks;
  if (!s->options.deterministic) return NULL;
  TRY(shards_create(setup, base->worker, base->workers, base->workers, true, &s->shards));
  s->n_vectors = MAX_OF(shards_vectors(s->shards), collective_parts(s->ranks));
  s->vectors = calloc((size_t)s->n_vectors, sizeof *s->vectors);
  if (!s->vectors) return status_no_memory();
  for (int k = 0; k < s->n_vectors; k++) {
    if (k < collective_parts(s->ranks))
      s->vectors[k] = collective_part(s->ranks, k);
    else
      TRY(mem_aligned((size_t)s->apply.elements * sizeof **s->vectors, (void **)&s->vectors[k]));
  }
  return NULL;
}

static void destroy(shoal_strategy *base) {
  allreduce *s = (allreduce *)base;
  shards_destroy(s->shards);
  for (int k = s->ranks ? collective_parts(s->ranks) : 0; s->vectors && k < s->n_vectors; k++) free(s->vectors[k]);
  free(s->vectors);
  collective_destroy(s->ranks);
  shoal_status_free(s->error);
  free(s->heads);
  free(s->offsets);
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

shoal_status allreduce_join(allreduce_options *o, collective_place *joined) {
  if (o->place) return NULL;
  TRY(o->start ? collective_join_own(&o->start->mesh, joined) : collective_join("mpi", joined));
  o->place = joined;
  return NULL;
}

shoal_status allreduce_create(const allreduce_options *options, shoal_strategy **out) {
  allreduce *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  shoal_status status = allreduce_join(&s->options, &s->joined);
  if (status) {
    free(s);
    return status;
  }
  s->base = (shoal_strategy){.kind = &kind,
                             .worker = s->options.place->rank,
                             .workers = s->options.place->ranks,
                             .sync = true,
                             .rounds = true,
                             .copies = true};
  *out = &s->base;
  return NULL;
}
