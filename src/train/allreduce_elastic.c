/* Ranks that come and go (dist/elastic.h): ending a generation and beginning the next one. */
#include "train/allreduce_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "graph/graph.h"

#include <poll.h>
#include <string.h>

#define FORMATIONS_MAX 16 /* that fail one after the other */
#define NAP_MS 5          /* between two of them */

bool allreduce_is_cut(const allreduce *s) {
  return s->options.elastic && s->joined.cut && !collective_told(&s->joined);
}

void allreduce_forget(allreduce *s) {
  shards_destroy(s->shards);
  s->shards = NULL;
  for (int k = s->ranks ? collective_parts(s->ranks) : 0; s->vectors && k < s->n_vectors; k++) free(s->vectors[k]);
  free(s->vectors);
  s->vectors = NULL;
  if (s->ranks) {
    collective_stats stats;
    collective_stats_read(s->ranks, &stats);
    s->counted.sent_bytes += stats.sent_bytes;
    s->counted.received_bytes += stats.received_bytes;
    s->sending_seconds = 0;
  }
  collective_destroy(s->ranks);
  s->ranks = s->base.ranks = NULL;
  free(s->heads);
  s->heads = NULL;
  shoal_status_free(s->error);
  s->error = NULL;
  if (s->options.elastic) collective_drop(&s->joined);
}

/* ---- what those that come are given */

/* Beside variables, what the loop shares, and the history. */
typedef struct {
  int64_t updates, rows;
  int64_t last_rows;
  double last_loss, last_hits;
} progress;

typedef struct {
  collective_handover how;
  bool gives;
  uint8_t *kept; /* what has come, until all of it has */
  size_t bytes, at;
} handover;

/* Gives what lies there, or keeps what comes. */
static shoal_status hand(allreduce *s, handover *h, void *bytes, size_t count) {
  void *at = h->gives ? bytes : h->kept + h->at;
  h->at += mem_round_up(count, MEM_ALIGN);
  return collective_hand_over(&s->joined, &h->how, at, (int64_t)count);
}

typedef struct {
  void *data;
  size_t bytes;
} block;

/* All variables, the optimizer's included. *out is the caller's to free. */
static shoal_status list_variables(const allreduce *s, block **out, size_t *n) {
  const shoal_graph *g = s->model->graph;
  block *all = calloc(g->count + 1, sizeof *all);
  *n = 0;
  if (!all) return status_no_memory();
  for (size_t i = 0; i < g->count; i++) {
    if (!g->nodes[i]->initial) continue;
    shoal_tensor t;
    shoal_status status = shoal_session_variable(s->model->session, &g->nodes[i]->out[0], &t);
    if (status) {
      free(all);
      return status;
    }
    all[(*n)++] = (block){t.data, shoal_tensor_bytes(&t)};
  }
  *out = all;
  return NULL;
}

/* How many bytes all blocks take where they are kept. */
static size_t room_for(const block *all, size_t n) {
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) bytes += mem_round_up(all[i].bytes, MEM_ALIGN);
  return bytes;
}

/* From one rank to others, all blocks; those that get them have them all or as they were. */
static shoal_status hand_blocks(allreduce *s, const collective_handover *how, const block *all, size_t n) {
  handover h = {.how = *how, .gives = s->rank == how->from, .bytes = room_for(all, n)};
  if (!h.gives) TRY(mem_aligned(h.bytes, (void **)&h.kept));
  shoal_status status = NULL;
  for (size_t i = 0; i < n && !status; i++) status = hand(s, &h, all[i].data, all[i].bytes);
  size_t at = 0;
  for (size_t i = 0; i < n && !status && !h.gives; i++) {
    memcpy(all[i].data, h.kept + at, all[i].bytes);
    at += mem_round_up(all[i].bytes, MEM_ALIGN);
  }
  free(h.kept);
  return status;
}

static collective_handover handover_from(const allreduce *s, int from, const bool *to) {
  return (collective_handover){.from = from,
                               .to = to,
                               .patience = s->options.patience,
                               .interrupted = elastic_broken,
                               .context = s->options.elastic};
}

/* To those that have not what the generation begins with. */
static shoal_status hand_over(allreduce *s, const elastic_view *v) {
  bool to[ELASTIC_RANKS], any = false;
  for (int i = 0; i < v->n; i++) any |= to[i] = !v->ranks[i].has;
  const bool gives = v->own == v->from, takes = to[v->own];
  if (!any || (!gives && !takes)) return NULL;
  const strategy_setup *setup = s->setup;
  if (gives) setup->describe(setup->context);
  /* One that was there, and lacks the last step alone, has all else. */
  const bool all = !(v->kept && s->whole && v->step == s->place.updates + 1);
  progress p = {s->place.updates, s->place.rows, s->last_rows, s->last_loss, s->last_hits};
  size_t n;
  block *blocks;
  TRY(list_variables(s, &blocks, &n));
  block *more = realloc(blocks, (n + 3) * sizeof *more);
  if (!more) {
    free(blocks);
    return status_no_memory();
  }
  /* What is not needed goes elsewhere. */
  void *scrap = takes && !all ? malloc(MAX_OF(setup->shared_bytes, sizeof(elastic_history))) : NULL;
  shoal_status status = takes && !all && !scrap ? status_no_memory() : NULL;
  more[n++] = (block){&p, sizeof p};
  more[n++] = (block){scrap ? scrap : setup->shared, setup->shared_bytes};
  more[n++] = (block){scrap ? scrap : elastic_changes(s->options.elastic), sizeof(elastic_history)};
  const collective_handover how = handover_from(s, v->from, to);
  if (!status) status = hand_blocks(s, &how, more, n);
  free(more);
  free(scrap);
  if (status || !takes) return status;
  s->place = (strategy_place){.updates = p.updates, .rows = p.rows};
  s->last_rows = p.last_rows;
  s->last_loss = p.last_loss;
  s->last_hits = p.last_hits;
  s->whole = true;
  s->adopted |= all;
  return NULL;
}

/* ---- generations */

static shoal_status join(allreduce *s, const elastic_view *v) {
  mesh_options o;
  elastic_mesh(s->options.elastic, &o);
  TRY(collective_join_own(&o, &s->joined));
  s->joined.id = v->ranks[v->own].id;
  s->rank = v->own;
  s->live = v->n;
  return NULL;
}

static shoal_status form(allreduce *s, const elastic_view *v) {
  shoal_status status = join(s, v);
  if (status) {
    s->joined.cut = true; /* somebody does not come: the next generation is without it */
    return status;
  }
  TRY(allreduce_prepare(s));
  return hand_over(s, v);
}

shoal_status allreduce_regroup(allreduce *s) {
  elastic *e = s->options.elastic;
  const elastic_view *v;
  if (s->stood == 0) s->stood = s->begun;
  s->change_due = false;
  for (int tries = 0;; tries++) {
    allreduce_forget(s);
    TRY(elastic_regroup(e, s->whole ? s->place.updates : -1, &v));
    if (v->step < 0 && elastic_is_chief(e)) s->whole = true;
    if (!v->kept) s->stood = 0;
    shoal_status status = form(s, v);
    if (!status) return NULL;
    if (!allreduce_is_cut(s) || tries == FORMATIONS_MAX) return status;
    shoal_status_free(status);
    poll(NULL, 0, NAP_MS);
  }
}

void allreduce_goes_on(allreduce *s, double pause) {
  if (!s->options.elastic) return;
  s->stood = 0;
  s->begun = clock_seconds();
  elastic_resumed(s->options.elastic, pause);
  if (s->options.on_change) s->options.on_change(s->options.context);
}

shoal_status allreduce_follow(allreduce *s) {
  bool to[ELASTIC_RANKS];
  size_t n;
  block *blocks;
  for (;;) {
    const int chief = s->live - 1;
    for (int i = 0; i < s->live; i++) to[i] = i != chief;
    TRY(list_variables(s, &blocks, &n));
    const collective_handover how = handover_from(s, chief, to);
    shoal_status status = hand_blocks(s, &how, blocks, n);
    free(blocks);
    if (!status || !allreduce_is_cut(s)) return status;
    shoal_status_free(status);
    TRY(allreduce_regroup(s));
  }
}

shoal_status allreduce_await_end(shoal_strategy *base, const char *words) {
  allreduce *s = (allreduce *)base;
  for (bool lost = true; lost;) {
    shoal_status status = elastic_report(s->options.elastic, words);
    if (!status) status = elastic_await_end(s->options.elastic, &lost);
    if (status && shoal_status_code(status) != SHOAL_ERR_PEER) return status;
    shoal_status_free(status);
    if (lost) TRY(allreduce_regroup(s)); /* rank 0 has died before it was done, and comes back */
    if (lost) TRY(allreduce_meet(s));
  }
  return NULL;
}

void allreduce_abort(shoal_strategy *base) {
  allreduce *s = (allreduce *)base;
  if (s->options.elastic && s->joined.link && !collective_told(&s->joined)) collective_abort(&s->joined, 1);
}

bool allreduce_told(shoal_strategy *base) { return collective_told(&((allreduce *)base)->joined); }
bool allreduce_has_left(shoal_strategy *base) { return ((allreduce *)base)->left; }
