#include "train/allreduce_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/session.h"
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#define LATER ((int64_t)1 << 52) /* beyond the numbers of all steps */

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
  const float *carried = s->options.carried ? s->options.carried + s->offsets[w] : NULL;
  for (int64_t i = 0; carried && i < count; i++) to[i] += carried[i];
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

/* No two ranks draw the same random numbers in any step, those included that came later. */
static int64_t draws(const allreduce *s, int64_t number) {
  const int64_t described = s->base.workers;
  return s->rank < described ? number * described + s->rank : LATER + number * MESH_RANKS_MAX + s->rank;
}

/* By the model's own session, with all its threads; gradients leave while it runs. */
static shoal_status compute_whole(allreduce *s, const train_batch *b, shards_sum *out) {
  compute *c = s->setup->compute;
  const shard_cut cut = shard_cut_rows(b->rows, s->live, false);
  int64_t first, last;
  tree_share(cut.leaves, s->rank, s->live, &first, &last);
  *out = (shards_sum){.examples = first < last ? MIN_OF(cut.size, b->rows - first * cut.size) : 0};
  if (!out->examples) return all_ready(s); /* there is nothing to send, but to receive */
  train_batch own = *b;
  own.first += first * cut.size;
  own.rows = out->examples;
  own.number = draws(s, b->number);
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
  return shard_cut_rows(rows, s->live, s->options.deterministic).leaves;
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
      text_add(&names, "%srank %d (pid %d on %s)", names.length ? ", " : "", ranks[i].id, ranks[i].pid, ranks[i].host);
  shoal_status status = status_make(SHOAL_ERR_PEER,
                                    "the parameters of %s are not those of rank %d%s: a fault of memory "
                                    "or of the network; resume from the last checkpoint",
                                    names.data ? names.data : "?", ranks[best].id, votes > 1 ? " and the others" : "");
  text_fini(&names);
  return status;
}

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
  if (s->left) return NULL;
  return s->options.elastic ? allreduce_follow(s) : allreduce_follow_chief(s->options.place, s->model);
}

/* Takes the place among those that train already, or are about to. */
static shoal_status begin_elastic(allreduce *s, strategy_place *place) {
  if (!s->whole) {
    s->place = *place;
    TRY(allreduce_regroup(s));
  }
  s->adopted = s->interrupted = false;
  *place = s->place;
  return NULL;
}

static shoal_status begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  allreduce *s = (allreduce *)base;
  s->model = setup->compute->model;
  s->setup = setup;
  if (!s->apply.n) TRY(apply_create(s->model, &s->apply));
  if (s->options.elastic) return begin_elastic(s, place);
  TRY(allreduce_prepare(s));
  TRY(collective_broadcast(s->options.place, place, sizeof *place));
  TRY(follow_chief(base));
  s->place = *place;
  return NULL;
}

static shoal_status compute_step(allreduce *s, const train_batch *b) {
  shards_sum sum = {0};
  s->own = (collective_head){0};
  s->rows = b->rows;
  s->rate = b->rate;
  s->compares = s->options.check_every && b->step && b->step % s->options.check_every == 0;
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
  s->own.change = s->options.elastic && elastic_wanted(s->options.elastic);
  return NULL;
}

/* The step is to be made again with others where that is why it failed. */
static shoal_status note_cut(allreduce *s, shoal_status status) {
  if (!status || !allreduce_is_cut(s)) return status;
  s->interrupted = true;
  shoal_status_free(status);
  return NULL;
}

static shoal_status compute_batch(shoal_strategy *base, const train_batch *b) {
  allreduce *s = (allreduce *)base;
  s->batch = *b;
  s->interrupted = s->change_due;
  return s->interrupted ? NULL : note_cut(s, compute_step(s, b));
}

/* Each row of a step is computed by one rank: their shares are cut by the same rule. */
static shoal_status check_rows(const allreduce *s, int64_t examples) {
  if (examples == s->rows) return NULL;
  return status_make(SHOAL_ERR_INTERNAL, "the ranks have computed %lld rows of the step's %lld", (long long)examples,
                     (long long)s->rows);
}

static shoal_status finish_step(allreduce *s, strategy_outcome *out) {
  collective_stats before, after;
  double pause = 0;
  collective_stats_read(s->ranks, &before);
  s->own.pause = s->stood > 0 ? clock_seconds() - s->stood : 0;
  TRY(collective_finish(s->ranks, &s->own, s->heads));
  collective_stats_read(s->ranks, &after);
  *out = (strategy_outcome){.own_examples = s->own.examples,
                            .own_steps = 1,
                            .rate = s->rate,
                            .network_seconds = after.sending_seconds - s->sending_seconds,
                            .barrier_seconds = after.blocked_seconds - before.blocked_seconds};
  s->sending_seconds = after.sending_seconds;
  for (int r = 0; r < s->live; r++) {
    out->examples += s->heads[r].examples;
    out->loss += s->heads[r].loss;
    out->hits += s->heads[r].hits;
    out->stop |= s->heads[r].stop != 0;
    s->change_due |= s->heads[r].change != 0;
    pause = MAX_OF(pause, s->heads[r].pause);
  }
  if (out->stop) { /* the step counts for nobody */
    *out = (strategy_outcome){.stop = s->stopped = true};
    return NULL;
  }
  TRY(check_rows(s, out->examples));
  if (s->compares) TRY(allreduce_compare(s->ranks, s->heads, s->live));
  TRY(apply_run(&s->apply, collective_part(s->ranks, 0), s->rate));
  if (s->own.examples) s->options.carried = NULL; /* it has gone out */
  s->place.updates++;
  s->place.rows += s->rows;
  s->last_rows = out->examples;
  s->last_loss = out->loss;
  s->last_hits = out->hits;
  out->place = s->place;
  allreduce_goes_on(s, pause);
  return NULL;
}

/* What the others have finished without this rank. */
static strategy_outcome others_outcome(const allreduce *s) {
  if (s->adopted) return (strategy_outcome){.lost = true};
  return (strategy_outcome){.examples = s->last_rows, .loss = s->last_loss, .hits = s->last_hits, .place = s->place};
}

static shoal_status exchange(shoal_strategy *base, const train_batch *next, strategy_outcome *out) {
  allreduce *s = (allreduce *)base;
  for (;;) {
    if (!s->interrupted) {
      const int64_t before = s->place.updates;
      TRY(note_cut(s, finish_step(s, out)));
      if (!s->interrupted || s->place.updates != before) return NULL;
    }
    const int64_t at = s->place.updates;
    TRY(allreduce_regroup(s));
    s->interrupted = false;
    if (s->adopted || s->place.updates != at) {
      *out = others_outcome(s);
      return NULL;
    }
    TRY(note_cut(s, compute_step(s, &s->batch)));
  }
}

static shoal_status gather(shoal_strategy *base) { return NULL; } /* every rank has everything */

shoal_status allreduce_stop_step(allreduce *s) {
  const int64_t usable = s->setup->plan.batches.rows, left = usable ? usable - s->place.rows % usable : INT64_MAX;
  TRY(collective_begin(s->ranks, leaves_of(s, MIN_OF(s->setup->round, left))));
  TRY(all_ready(s));
  return collective_finish(s->ranks, &(collective_head){.stop = 1}, s->heads);
}

static shoal_status meet(allreduce *s) {
  collective_head own = {0};
  TRY(apply_hash(&s->apply, &own.hash));
  return collective_meet(s->ranks, &own, s->heads);
}

/* Whoever has to end tells the others, who may be in the middle of a step, again after ranks have come or gone. */
shoal_status allreduce_meet(allreduce *s) {
  for (bool tells = false;; tells = s->stopped) {
    s->interrupted = false;
    TRY(note_cut(s, tells ? allreduce_stop_step(s) : NULL));
    if (!s->interrupted) TRY(note_cut(s, meet(s)));
    if (!s->interrupted) return allreduce_compare(s->ranks, s->heads, s->live);
    TRY(allreduce_regroup(s));
    if (s->adopted) return NULL;
  }
}

/* Takes part in a step that does not count: the others may be in the middle of it. */
static shoal_status stop(allreduce *s) {
  if (s->stopped) return NULL;
  s->stopped = true;
  do {
    s->interrupted = false;
    TRY(note_cut(s, allreduce_stop_step(s)));
    if (s->interrupted) TRY(allreduce_regroup(s));
  } while (s->interrupted && !s->adopted);
  return NULL;
}

/* The others go on. */
static void leave(allreduce *s) {
  elastic_leave(s->options.elastic);
  allreduce_forget(s);
  s->left = true;
}

static shoal_status end(shoal_strategy *base, bool early, strategy_outcome *out) {
  allreduce *s = (allreduce *)base;
  if (early && s->options.elastic && base->worker && !s->stopped) {
    *out = (strategy_outcome){.place = s->place};
    leave(s);
    return NULL;
  }
  if (early) TRY(stop(s));
  if (s->ranks) collective_part_ways(s->ranks);
  if (!s->adopted) TRY(allreduce_meet(s));
  *out = s->adopted ? (strategy_outcome){.lost = true} : (strategy_outcome){.place = s->place};
  return NULL;
}

/* ---- setting up */

shoal_status allreduce_prepare(allreduce *s) {
  const strategy_setup *setup = s->setup;
  s->heads = calloc((size_t)s->live, sizeof *s->heads);
  if (!s->offsets) s->offsets = calloc((size_t)s->apply.n + 1, sizeof *s->offsets);
  if (!s->heads || !s->offsets) return status_no_memory();
  for (int w = 0; w < s->apply.n; w++) s->offsets[w + 1] = s->offsets[w] + s->apply.counts[w];
  collective_options options = {.counts = s->apply.counts,
                                .tensors = s->apply.n,
                                .leaves = {leaves_of(s, setup->round), setup->last ? leaves_of(s, setup->last) : 0},
                                .any_leaves = !setup->plan.batches.rows,
                                .wire = s->options.wire,
                                .patience = s->options.patience,
                                .on_peer_exit = s->options.on_peer_exit,
                                .context = s->options.context,
                                .interrupted = s->options.elastic ? elastic_broken : NULL,
                                .interrupter = s->options.elastic};
  TRY(collective_create(s->options.place, &options, &s->ranks));
  s->base.ranks = s->ranks;
  if (!s->options.deterministic) return NULL;
  TRY(shards_create(setup, s->rank, s->live, s->live, true, &s->shards));
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
  allreduce_forget(s);
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

shoal_status allreduce_join(const strategy_kind *k, allreduce_options *o, collective_place *joined,
                            shoal_strategy *base) {
  if (!o->place && !o->elastic)
    TRY(o->start ? collective_join_own(&o->start->mesh, joined) : collective_join("mpi", joined));
  if (!o->place) o->place = joined;
  *base = (shoal_strategy){.kind = k,
                           .worker = o->elastic ? o->id : o->place->rank,
                           .workers = o->elastic ? o->described : o->place->ranks,
                           .sync = true,
                           .rounds = true,
                           .copies = true};
  return NULL;
}

shoal_status allreduce_create(const allreduce_options *options, shoal_strategy **out) {
  allreduce *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  shoal_status status = allreduce_join(&kind, &s->options, &s->joined, &s->base);
  if (status) {
    free(s);
    return status;
  }
  s->rank = s->options.place->rank;
  s->live = s->options.place->ranks;
  *out = &s->base;
  return NULL;
}

shoal_status allreduce_take_left(const shoal_strategy *base, float **out) {
  const allreduce *s = (const allreduce *)base;
  *out = NULL;
  if (!s->ranks) return NULL;
  *out = calloc((size_t)s->apply.elements, sizeof **out);
  if (!*out) return status_no_memory();
  collective_add_left(s->ranks, *out);
  return NULL;
}

void allreduce_stats(shoal_strategy *base, collective_stats *out) {
  const allreduce *s = (const allreduce *)base;
  *out = (collective_stats){0};
  if (s->ranks) collective_stats_read(s->ranks, out);
  out->sent_bytes += s->counted.sent_bytes;
  out->received_bytes += s->counted.received_bytes;
}
