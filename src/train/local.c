#include "train/local.h"

#include "base/mem.h"
#include "train/apply.h"
#include "train/model_ids.h"

#include <math.h>

#define FETCHES_MAX 3 /* of a step that makes its own update */

typedef struct {
  shoal_strategy base;
  const strategy_setup *setup;
  strategy_place place;
  strategy_outcome done; /* of the batch computed last */
  float *rates;          /* [of a chunk's steps]; NULL: rows are dense */
  apply apply;           /* of gradients that were accumulated */
} local;

static shoal_status begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  local *s = (local *)base;
  const compute *c = setup->compute;
  s->setup = setup;
  s->place = *place;
  if (c->model->sparse) {
    s->rates = calloc((size_t)(setup->chunk / setup->batch), sizeof *s->rates);
    return s->rates ? NULL : status_no_memory();
  }
  if (setup->accumulate > 1) TRY(apply_create(c->model, &s->apply));
  TRY(compute_plan_batch(c, &setup->example, setup->round));
  return compute_plan_batch(c, &setup->example, setup->last);
}

/* Sparse rows: as many steps as the chunk has batches, with the same result as if each were a run of its own. */
static shoal_status run_chunk(local *s, const train_batch *b, int64_t steps) {
  compute *c = s->setup->compute;
  const shoal_schedule *schedule = &c->model->options.schedule;
  for (int64_t i = 0; i < steps; i++) s->rates[i] = (float)shoal_schedule_at(schedule, b->step + i);
  shoal_feed feeds[COMPUTE_FEEDS_MAX];
  double means[FETCHES_MAX];
  int n = tower_feed_sparse(c->tower, b->sparse, feeds);
  feeds[n++] = (shoal_feed){c->model->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(steps), s->rates)};
  model_ids *ids = c->model->ids;
  if (ids) TRY(model_ids_take(ids, b->sparse, b->step + 1, &feeds[1].tensor));
  shoal_session_set_step(c->model->session, (uint64_t)b->number);
  shoal_status status =
      session_run_steps(c->model->session, feeds, n, c->fetches, c->n_fetches, s->setup->batch, means);
  feeds[n - 1].tensor.shape = SHOAL_SCALAR;
  TRY(compute_explain_feeds(c, b, status, feeds, n));
  if (ids) model_ids_put_back(ids);
  s->done.loss = means[GOT_LOSS] * (double)b->rows;
  s->done.hits = c->first_gradient > GOT_ACCURACY ? means[GOT_ACCURACY] * (double)b->rows : NAN;
  s->done.rate = (double)s->rates[steps - 1];
  return NULL;
}

static shoal_status compute_batch(shoal_strategy *base, const train_batch *b) {
  local *s = (local *)base;
  compute *c = s->setup->compute;
  s->done = (strategy_outcome){.examples = b->rows, .own_examples = b->rows, .rate = b->rate};
  if (!b->rows) return NULL;
  s->done.own_steps = b->sparse ? (b->rows + s->setup->batch - 1) / s->setup->batch : 1;
  if (b->sparse) return run_chunk(s, b, s->done.own_steps);
  TRY(compute_run(c, b, NULL, NULL));
  compute_losses(c, b->rows, &s->done.loss, &s->done.hits);
  return c->at_once ? apply_run(&s->apply, c->sum, b->rate) : NULL;
}

static shoal_status exchange(shoal_strategy *base, const train_batch *next, strategy_outcome *out) {
  local *s = (local *)base;
  s->place.updates += s->done.own_steps;
  s->place.rows += s->done.examples;
  *out = s->done;
  out->place = s->place;
  return NULL;
}

static shoal_status gather(shoal_strategy *base) { return NULL; }

static shoal_status end(shoal_strategy *base, bool early, strategy_outcome *out) {
  *out = (strategy_outcome){.place = ((local *)base)->place};
  return NULL;
}

static void destroy(shoal_strategy *base) {
  free(((local *)base)->rates);
  apply_fini(&((local *)base)->apply);
  free(base);
}

shoal_status local_create(shoal_strategy **out) {
  static const strategy_kind kind = {.name = "single",
                                     .begin = begin,
                                     .compute = compute_batch,
                                     .exchange = exchange,
                                     .gather = gather,
                                     .end = end,
                                     .follow_chief = strategy_no_copies,
                                     .destroy = destroy};
  local *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base = (shoal_strategy){.kind = &kind, .workers = 1, .sync = true, .updates = true};
  *out = &s->base;
  return NULL;
}
