/* The training loop of a worker among others when rows come from files that are read meanwhile.
 *
 * 1. The files are cut into shards. The strategy says which shard to read and which batch of it comes next, after each
 *    step; as long as that is what this worker would do anyway, nothing else happens. Otherwise it opens that shard
 *    there: at the last mark of whoever read it before, or at its beginning, passing over the batches in between.
 * 2. The batch after the one under way is read before the latter's gradients are handed on, so that what it needs can
 *    come back with the answer, and so that it is known whether the shard ends an epoch.
 * 3. A worker without a shard asks for one by steps without rows, until there is none any more.
 * 4. An epoch is over when all shards have ended it. Some may be in the next one by then. */
#include "base/clock.h"
#include "train/fit_loop.h"

#include <string.h>

#define MARK_BATCHES 64 /* after so many, and at the end of an epoch, it is told where the shard stands */

static bool has_table(const fit_loop *l) { return l->strategy->kind->fetch != NULL; }

/* The next batch with rows; l->now NULL: there is none. */
static shoal_status read_on(fit_loop *l) {
  bool more = true;
  do {
    TRY(fit_next_batch(l, &more));
  } while (more && !l->now->count);
  return NULL;
}

/* ---- shards */

/* Begins reading with batch `index` of a shard. */
static shoal_status open_shard(fit_loop *l, int64_t shard, int64_t index) {
  char position[SHOAL_POSITION_TEXT] = "";
  int64_t at = 0;
  TRY(l->strategy->kind->find(l->strategy, shard, &at, position));
  fit_close_stream(l);
  l->shard = shard;
  l->index = index;
  TRY(fit_open_stream(l, at ? position : NULL, false, &l->pipeline));
  TRY(read_on(l));
  for (; at < index && l->now; at++) TRY(read_on(l));
  if (at < index)
    return status_make(SHOAL_ERR_INPUT, "shard %lld of the stream ends after %lld batches, but %lld were trained on: "
                       "the files have changed since", (long long)shard, (long long)at, (long long)index);
  return NULL;
}

/* Asks for the rows of a table that the batch needs. */
static shoal_status fetch(fit_loop *l) {
  if (!has_table(l) || !l->now) return NULL;
  return status_wrap(l->strategy->kind->fetch(l->strategy, l->now), "step %lld", (long long)l->state.step);
}

static void move_to(fit_loop *l, int64_t updates, int64_t rows) {
  fit_state *s = &l->state;
  s->epoch_steps += updates - s->step;
  s->step = updates;
  s->position = rows - s->examples;
}

shoal_status fit_stream_saved(fit_loop *l) {
  const shoal_strategy *s = l->strategy;
  if (s->stream) move_to(l, s->stream_updates, s->stream_rows);
  return fit_saved_stream(&l->saved, s->stream);
}

/* Takes over where the training stands, and goes on with the batch it says. again: what was asked for is forgotten. */
static shoal_status follow(fit_loop *l, const strategy_place *place, bool again) {
  fit_set_place(l, place);
  move_to(l, place->updates, place->rows);
  if (place->next < 0) {
    l->shard = STRATEGY_NOTHING;
    l->now = NULL;
    return NULL;
  }
  if (place->next != l->shard || place->index != l->index)
    TRY(open_shard(l, place->next, place->index));
  else if (!again)
    return NULL;
  return fetch(l);
}

/* Finds the others and where they stand. */
static shoal_status join(fit_loop *l, strategy_place *place) {
  const fit_state *s = &l->state;
  const strategy_kind *kind = l->strategy->kind;
  bool under_way = false, lost = false;
  *place = (strategy_place){.updates = s->step, .rows = s->examples + s->position};
  l->plan.stream = l->saved.stream;
  TRY(kind->meet(l->strategy, &under_way));
  TRY(kind->begin(l->strategy, l->model, &l->plan, under_way, place, &lost));
  return lost ? status_make(SHOAL_ERR_PEER, "a parameter server was lost while the training began") : NULL;
}

shoal_status fit_stream_begin(fit_loop *l) {
  fit_state *s = &l->state;
  strategy_place place;
  if (!has_table(l)) {
    l->dense = calloc((size_t)model_features(l->model), sizeof *l->dense);
    if (!l->dense) return status_no_memory();
  }
  const bool fresh = !s->step;
  TRY(join(l, &place));
  l->first_rows = place.rows;
  l->shard = STRATEGY_NOTHING;
  TRY(follow(l, &place, true));
  if (fresh) s->epoch = place.epochs; /* otherwise the end of an epoch may be yet to be dealt with */
  l->progress.rate = shoal_schedule_at(&l->model->options.schedule, s->step);
  return NULL;
}

/* ---- steps */

/* Computes loss and gradients of the batch. */
static shoal_status compute(fit_loop *l) {
  shoal_session *session = l->model->session;
  shoal_feed feeds[TOWER_MOST_FEEDS];
  int n = tower_feed_sparse(l->tower, l->now, feeds);
  if (has_table(l)) feeds[1].tensor = l->strategy->indices;
  shoal_session_set_step(session, (uint64_t)l->state.step);
  shoal_status status = shoal_session_run(session, feeds, n, l->fetches, l->n_fetches, l->got);
  if (shoal_status_code(status) == SHOAL_ERR_NUMERIC)
    return fit_explain_bad_loss(l, status, feeds, n, l->state.step, l->progress.rate);
  return status_wrap(status, "step %lld", (long long)l->state.step);
}

/* The gradient of the touched rows as one of all. */
static shoal_status spread(fit_loop *l, shoal_tensor *gradient) {
  const float *rows = gradient->data;          /* [entries, 1] */
  const int32_t *index = l->now->indices.data; /* [entries] */
  const int64_t entries = gradient->shape.dim[0], features = model_features(l->model);
  memset(l->dense, 0, (size_t)features * sizeof *l->dense);
  for (int64_t e = 0; e < entries; e++) l->dense[index[e]] += rows[e];
  *gradient = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(features, 1), l->dense);
  TRY(sparse_set_make(&l->spread, index, entries));
  l->touched += l->spread.n;
  return NULL;
}

/* Whether who takes the shard over is to find the batch after this one. */
static bool is_marked(const fit_loop *l) { return l->now && (l->now->last || l->index % MARK_BATCHES == 0); }

static shoal_status take_step(fit_loop *l, bool *stop) {
  char position[SHOAL_POSITION_TEXT];
  strategy_part part = {.examples = l->now ? l->now->count : 0, .shard = l->shard, .index = l->index};
  shoal_tensor *gradients = l->got + (l->model->options.no_train_accuracy ? 1 : 2);
  if (part.examples) {
    TRY(compute(l));
    fit_losses(l, part.examples, &part.loss, &part.hits);
    part.gradients = gradients;
    if (l->dense) TRY(spread(l, &gradients[0]));
  }
  if (is_marked(l)) part.position = shoal_pipeline_position(l->pipeline, position);
  uint64_t waited = fit_trace_now(l);
  if (l->now) {
    TRY(read_on(l));
    l->index++;
  }
  fit_trace_add(l, FIT_INPUT, waited);
  part.next = l->now;
  part.epochs = l->now ? l->now->epoch : l->options->epochs;
  strategy_outcome outcome;
  double begun = clock_seconds();
  uint64_t traced = fit_trace_now(l);
  TRY(status_wrap(l->strategy->kind->step(l->strategy, &part, &outcome), "step %lld", (long long)l->state.step));
  if (outcome.lost) { /* it was silent for too long: the others may have gone on without these gradients */
    TRY(join(l, &outcome.place));
    return follow(l, &outcome.place, true);
  }
  fit_count_outcome(l, &outcome, begun, traced);
  *stop = outcome.stop;
  return *stop ? NULL : follow(l, &outcome.place, false);
}

/* Worker 0: tests what is learned, if that is due; `rows`: done since the last look. */
static shoal_status test(fit_loop *l, int64_t rows) {
  if (!is_chief(l) || !l->options->eval_every) return NULL;
  double before = l->eval_seconds;
  TRY(fit_test_if_due(l, rows));
  return l->eval_seconds > before ? fetch(l) : NULL; /* what the test has put into the table is not the batch's */
}

/* Whether all shards have ended another epoch. */
static bool epoch_is_over(fit_loop *l) {
  if (l->place.epochs <= l->state.epoch) return false;
  l->state.epoch = l->place.epochs - 1; /* nobody was here to see those before */
  return true;
}

shoal_status fit_stream_run(fit_loop *l, bool *stopped) {
  const fit_state *s = &l->state;
  strategy_place place;
  bool lost = false, ignored = false;
  while (l->place.next != STRATEGY_END && !*stopped) {
    int64_t before = s->step, rows = l->place.rows;
    if ((*stopped = fit_asked_to_stop(l))) break;
    events_begin_step(l->events, l->worker_steps);
    uint64_t begun = fit_trace_now(l);
    TRY(take_step(l, stopped));
    fit_trace_add(l, FIT_STEP, begun);
    if (*stopped) break;
    TRY(test(l, l->place.rows - rows));
    TRY(fit_between_steps(l, before, epoch_is_over(l), stopped));
  }
  if (*stopped && l->place.next != STRATEGY_END) TRY(l->strategy->kind->stop(l->strategy));
  TRY(l->strategy->kind->end(l->strategy, &place, &lost));
  if (lost) return status_make(SHOAL_ERR_PEER, "a parameter server was lost at the end");
  TRY(follow(l, &place, false));
  l->input_seconds = fit_input_seconds(l);
  if (epoch_is_over(l)) TRY(fit_end_epoch(l, &ignored));
  return NULL;
}
