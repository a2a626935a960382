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
} mirrored;

static shoal_status prepare(shoal_strategy *base, const strategy_setup *setup) {
  mirrored *s = (mirrored *)base;
  TRY(shards_create(setup, 0, 1, base->workers, s->deterministic, &s->shards));
  s->n = shards_vectors(s->shards);
  s->vectors = calloc((size_t)s->n, sizeof *s->vectors);
  if (!s->vectors) return status_no_memory();
  for (int k = 0; k < s->n; k++)
    TRY(mem_aligned((size_t)s->apply.elements * sizeof **s->vectors, (void **)&s->vectors[k]));
  return NULL;
}

static shoal_status train(shoal_strategy *base, const strategy_rows *rows, strategy_outcome *out) {
  mirrored *s = (mirrored *)base;
  shards_sum sum;
  TRY(shards_run(s->shards, rows, true, s->vectors, &sum));
  TRY(apply_run(&s->apply, s->vectors[0], rows->rate));
  *out = (strategy_outcome){
      .examples = sum.examples, .loss = sum.loss, .hits = sum.hits, .own_examples = sum.examples};
  return NULL;
}

/* Nobody else has to be told anything. */
static shoal_status begin(shoal_strategy *base, shoal_model *m, const strategy_plan *plan, bool under_way,
                          strategy_place *place, bool *lost) {
  return NULL;
}
static shoal_status stop(shoal_strategy *base) { return NULL; }
static shoal_status gather(shoal_strategy *base) { return NULL; }
static shoal_status end(shoal_strategy *base, strategy_place *place, bool *lost) { return NULL; }

static const strategy_kind kind = {.name = "mirrored",
                                   .begin = begin,
                                   .prepare = prepare,
                                   .train = train,
                                   .stop = stop,
                                   .gather = gather,
                                   .end = end};

shoal_status mirrored_create(const mirrored_options *options, shoal_model *m, shoal_strategy **out) {
  TRY(model_ready(m));
  mirrored *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base = (shoal_strategy){.kind = &kind, .workers = options->workers, .together = true, .rounds = true};
  s->deterministic = options->deterministic;
  shoal_status status = apply_create(m, &s->apply);
  if (status)
    mirrored_destroy(&s->base);
  else
    *out = &s->base;
  return status;
}

void mirrored_destroy(shoal_strategy *base) {
  mirrored *s = (mirrored *)base;
  if (!s) return;
  shards_destroy(s->shards);
  for (int k = 0; s->vectors && k < s->n; k++) free(s->vectors[k]);
  free(s->vectors);
  apply_fini(&s->apply);
  free(s);
}
