#include "train/mirrored.h"

#include "base/mem.h"
#include "train/apply.h"
#include "train/shards.h"

typedef struct {
  shoal_strategy base;
  bool deterministic;
  apply apply;
  shards *shards;
  float **vectors; /* [n][elements] */
  int n;
  const compute *compute;
  strategy_place place;
  shards_sum sum; /* of the batch computed last */
  double rate;    /* the same */
} mirrored;

static shoal_status begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  mirrored *s = (mirrored *)base;
  s->place = *place;
  s->compute = setup->compute;
  TRY(apply_create(s->compute->model, &s->apply));
  const int parts = base->workers * (int)setup->accumulate;
  TRY(shards_create(setup, 0, 1, parts, s->deterministic, &s->shards));
  s->n = shards_vectors(s->shards);
  s->vectors = calloc((size_t)s->n, sizeof *s->vectors);
  if (!s->vectors) return status_no_memory();
  for (int k = 0; k < s->n; k++)
    TRY(mem_aligned((size_t)s->apply.elements * sizeof **s->vectors, (void **)&s->vectors[k]));
  return NULL;
}

static shoal_status compute_batch(shoal_strategy *base, const train_batch *b) {
  mirrored *s = (mirrored *)base;
  s->rate = b->rate;
  return compute_explain(s->compute, b, shards_run(s->shards, b, true, s->vectors, &s->sum));
}

static shoal_status exchange(shoal_strategy *base, const train_batch *next, strategy_outcome *out) {
  mirrored *s = (mirrored *)base;
  TRY(apply_run(&s->apply, s->vectors[0], s->rate));
  s->place.updates++;
  s->place.rows += s->sum.examples;
  *out = (strategy_outcome){.examples = s->sum.examples,
                            .loss = s->sum.loss,
                            .hits = s->sum.hits,
                            .rate = s->rate,
                            .own_examples = s->sum.examples,
                            .own_steps = 1,
                            .place = s->place};
  return NULL;
}

static shoal_status gather(shoal_strategy *base) { return NULL; }

static shoal_status end(shoal_strategy *base, bool early, strategy_outcome *out) {
  *out = (strategy_outcome){.place = ((mirrored *)base)->place};
  return NULL;
}

static void destroy(shoal_strategy *base) {
  mirrored *s = (mirrored *)base;
  shards_destroy(s->shards);
  for (int k = 0; s->vectors && k < s->n; k++) free(s->vectors[k]);
  free(s->vectors);
  apply_fini(&s->apply);
  free(s);
}

static const strategy_kind kind = {.name = "mirrored",
                                   .begin = begin,
                                   .compute = compute_batch,
                                   .exchange = exchange,
                                   .gather = gather,
                                   .end = end,
                                   .follow_chief = strategy_no_copies,
                                   .destroy = destroy};

shoal_status mirrored_create(const mirrored_options *options, shoal_strategy **out) {
  mirrored *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base = (shoal_strategy){.kind = &kind, .workers = options->workers, .sync = true, .rounds = true};
  s->deterministic = options->deterministic;
  *out = &s->base;
  return NULL;
}
