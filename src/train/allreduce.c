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
  strategy_setup setup;
  shoal_model *model;
  apply apply;
  collective *ranks;
  collective_head *heads; /* [ranks] */
  shards *shards;         /* deterministic only */
  float **vectors;        /* for them: the collective's parts, then others */
  int n_vectors;
  shoal_tensor *got; /* [n_fetches] */
  int64_t *offsets;  /* [weights + 1] in the vector */
  /* of the step under way, for the watcher */
  float scale;         /* this rank's share of the rows */
  shoal_status error;  /* first one that the watcher met */
  int64_t compared;    /* step of the last comparison */
  double sending_seconds; /* so far */
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
  const int w = fetch - s->setup.first_gradient;
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
static shoal_status compute_whole(allreduce *s, const strategy_rows *rows, shards_sum *out) {
  const strategy_setup *setup = &s->setup;
  shoal_session *session = s->model->session;
  const shard_cut cut = shard_cut_rows(rows->rows, s->base.workers, false);
  int64_t first, last;
  tree_share(cut.leaves, s->base.worker, s->base.workers, &first, &last);
  *out = (shards_sum){.examples = first < last ? MIN_OF(cut.size, rows->rows - first * cut.size) : 0};
  if (!out->examples) return all_ready(s); /* there is nothing to send, but to receive */
  float rate = 0;
  const int64_t at = rows->first + first * cut.size;
  shoal_feed feeds[] = {
      {setup->tower->x, model_rows(&setup->data->features, rows->order, at, out->examples)},
      {setup->tower->y, model_rows(&setup->data->labels, rows->order, at, out->examples)},
      {s->model->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &rate)}};
  s->scale = (float)((double)out->examples / (double)rows->rows);
  shoal_session_set_step(session, (uint64_t)(rows->step * s->base.workers + s->base.worker));
  session_watch(session, &(session_watcher){s, on_ready, on_phase});
  shoal_status status = shoal_session_run(session, feeds, COUNT_OF(feeds), setup->fetches, setup->n_fetches, s->got);
  session_watch(session, NULL);
  shoal_status moved = take_error(s);
  if (status) shoal_status_free(moved);
  TRY(status ? status : moved);
  double loss = *(const float *)s->got[0].data, n = (double)out->examples;
  if (!isfinite(loss)) return status_make(SHOAL_ERR_NUMERIC, "the loss is %f", loss);
  out->loss = loss * n;
  out->hits = setup->first_gradient > 1 ? *(const float *)s->got[1].data * n : NAN;
  return NULL;
}

static int64_t leaves_of(const allreduce *s, int64_t rows) {
  return shard_cut_rows(rows, s->base.workers, s->options.deterministic).leaves;
}

/* ---- the ranks agree */

/* Who has other parameters than most; ranks say so by their heads. */
static shoal_status compare(const allreduce *s) {
  const int n = s->base.workers;
  const peers_rank *ranks = collective_ranks(s->ranks);
  int best = 0, votes = 0;
  for (int i = 0; i < n; i++) {
    int same = 0;
    for (int k = 0; k < n; k++) same += s->heads[k].hash == s->heads[i].hash;
    if (same > votes) {
      votes = same;
      best = i;
    }
  }
  if (votes == n) return NULL;
  text names = {0};
  for (int i = 0; i < n; i++)
    if (s->heads[i].hash != s->heads[best].hash)
      text_add(&names, "%srank %d (pid %d on %s)", names.length ? ", " : "", i, ranks[i].pid, ranks[i].host);
  shoal_status status = status_make(SHOAL_ERR_PEER,
                                    "the parameters of %s are not those of rank %d%s: a fault of memory "
                                    "or of the network; resume from the last checkpoint",
                                    names.data ? names.data : "?", best, votes > 1 ? " and the others" : "");
  text_fini(&names);
  return status;
}

static shoal_status begin(shoal_strategy *base, shoal_model *m, const strategy_plan *plan, bool under_way,
                          strategy_place *place, bool *lost) {
  allreduce *s = (allreduce *)base;
  const shoal_graph *g = m->graph;
  TRY(collective_broadcast(s->options.place, place, sizeof *place));
  for (size_t i = 0; i < g->count; i++) {
    if (!g->nodes[i]->initial) continue;
    shoal_tensor t;
    TRY(shoal_session_variable(m->session, &g->nodes[i]->out[0], &t));
    TRY(collective_broadcast(s->options.place, t.data, (int64_t)shoal_tensor_bytes(&t)));
  }
  s->compared = place->updates;
  return NULL;
}

static shoal_status train(shoal_strategy *base, const strategy_rows *rows, strategy_outcome *out) {
  allreduce *s = (allreduce *)base;
  shards_sum sum = {0};
  collective_head own = {0};
  const bool compares = s->options.check_every && rows->step - s->compared >= s->options.check_every;
  if (compares) TRY(apply_hash(&s->apply, &own.hash));
  TRY(collective_begin(s->ranks, leaves_of(s, rows->rows)));
  if (s->shards) {
    TRY(shards_run(s->shards, rows, false, s->vectors, &sum));
    TRY(all_ready(s));
  } else {
    TRY(compute_whole(s, rows, &sum));
  }
  own.examples = sum.examples;
  own.loss = sum.loss;
  own.hits = sum.hits;
  collective_stats before, after;
  collective_stats_read(s->ranks, &before);
  TRY(collective_finish(s->ranks, &own, s->heads));
  collective_stats_read(s->ranks, &after);
  *out = (strategy_outcome){.own_examples = sum.examples,
                            .network_seconds = after.sending_seconds - s->sending_seconds,
                            .barrier_seconds = after.blocked_seconds - before.blocked_seconds};
  s->sending_seconds = after.sending_seconds;
  for (int r = 0; r < base->workers; r++) {
    out->examples += s->heads[r].examples;
    out->loss += s->heads[r].loss;
    out->hits += s->heads[r].hits;
    out->stop |= s->heads[r].stop != 0;
  }
  if ((s->stopped = out->stop)) return NULL;
  if (compares) {
    TRY(compare(s));
    s->compared = rows->step;
  }
  return apply_run(&s->apply, collective_part(s->ranks, 0), rows->rate);
}

/* Takes part in a step that does not count: the others may be in the middle of it. */
static shoal_status stop(shoal_strategy *base) {
  allreduce *s = (allreduce *)base;
  if (s->stopped) return NULL;
  s->stopped = true;
  TRY(collective_begin(s->ranks, leaves_of(s, base->rows)));
  TRY(all_ready(s));
  return collective_finish(s->ranks, &(collective_head){.stop = 1}, s->heads);
}

static shoal_status gather(shoal_strategy *base) { return NULL; } /* every rank has everything */

static shoal_status end(shoal_strategy *base, strategy_place *place, bool *lost) {
  allreduce *s = (allreduce *)base;
  collective_head own = {0};
  TRY(apply_hash(&s->apply, &own.hash));
  collective_part_ways(s->ranks);
  TRY(collective_meet(s->ranks, &own, s->heads));
  return compare(s);
}

/* ---- setting up */

static shoal_status prepare(shoal_strategy *base, const strategy_setup *setup) {
  allreduce *s = (allreduce *)base;
  s->setup = *setup;
  s->heads = calloc((size_t)base->workers, sizeof *s->heads);
  s->got = calloc((size_t)setup->n_fetches, sizeof *s->got);
  s->offsets = calloc((size_t)s->apply.n + 1, sizeof *s->offsets);
  if (!s->heads || !s->got || !s->offsets) return status_no_memory();
  for (int w = 0; w < s->apply.n; w++) s->offsets[w + 1] = s->offsets[w] + s->apply.counts[w];
  collective_options options = {.counts = s->apply.counts,
                                .tensors = s->apply.n,
                                .leaves = {leaves_of(s, setup->round), setup->last ? leaves_of(s, setup->last) : 0},
                                .bf16 = s->options.bf16,
                                .patience = s->options.patience,
                                .not_seen = s->options.not_seen,
                                .context = s->options.context};
  TRY(collective_create(s->options.place, &options, &s->ranks));
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

static const strategy_kind kind = {.name = "allreduce",
                                   .begin = begin,
                                   .prepare = prepare,
                                   .train = train,
                                   .stop = stop,
                                   .gather = gather,
                                   .end = end};

shoal_status allreduce_create(const allreduce_options *options, shoal_model *m, shoal_strategy **out) {
  TRY(model_ready(m));
  allreduce *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base = (shoal_strategy){.kind = &kind,
                             .worker = options->place->rank,
                             .workers = options->place->ranks,
                             .together = true,
                             .rounds = true};
  s->options = *options;
  s->model = m;
  shoal_status status = apply_create(m, &s->apply);
  if (status)
    allreduce_destroy(&s->base);
  else
    *out = &s->base;
  return status;
}

void allreduce_destroy(shoal_strategy *base) {
  allreduce *s = (allreduce *)base;
  if (!s) return;
  shards_destroy(s->shards);
  for (int k = s->ranks ? collective_parts(s->ranks) : 0; s->vectors && k < s->n_vectors; k++) free(s->vectors[k]);
  free(s->vectors);
  collective_destroy(s->ranks);
  shoal_status_free(s->error);
  free(s->heads);
  free(s->got);
  free(s->offsets);
  apply_fini(&s->apply);
  free(s);
}

collective *allreduce_collective(shoal_strategy *base) { return ((allreduce *)base)->ranks; }
