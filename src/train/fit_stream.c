/* The training loop of a worker among others when each reads its own share of the files.
 *
 * 1. Nobody knows beforehand how long a share is. Together, a worker whose share is at its end goes on with empty
 *    gradients until all are there; apart, it says that it is done.
 * 2. The batch after the one under way is read before the latter's gradients are handed on, so that what it needs can
 *    come back with the answer.
 * 3. A worker that was left out since it was silent goes on with its next batch.
 * 4. A worker that begins in the middle, since the run is resumed or it was started again, passes over as many batches
 *    as it has had: together one a step; apart, where nobody has counted, its even share of all steps. */
#include "base/clock.h"
#include "train/fit_loop.h"

#include <string.h>

static bool has_table(const fit_loop *l) { return l->strategy->kind->fetch != NULL; }

/* The next batch with rows; l->now NULL: there is none. *last: the epoch ends before it. */
static shoal_status read_on(fit_loop *l, bool *last) {
  bool more = true;
  *last = l->now && l->now->last;
  do {
    TRY(fit_next_batch(l, &more));
    if (more && !l->now->count) *last = *last || l->now->last;
  } while (more && !l->now->count);
  return NULL;
}

static void take_place(fit_loop *l, const strategy_place *place) {
  fit_set_place(l, place);
  l->state.epoch_steps += place->updates - l->state.step;
  l->state.step = place->updates;
  l->state.position = place->rows - l->state.examples;
}

static shoal_status pass_over(fit_loop *l) {
  fit_state *s = &l->state;
  bool last;
  int64_t had = is_together(l) ? s->step : s->step / l->strategy->workers;
  s->epoch = 0;
  TRY(read_on(l, &last));
  for (; had > 0 && l->now; had--) {
    TRY(read_on(l, &last));
    s->epoch += last;
  }
  return NULL;
}

/* Finds the others and where they stand. */
static shoal_status join(fit_loop *l) {
  const fit_state *s = &l->state;
  const strategy_kind *kind = l->strategy->kind;
  bool under_way = false, lost = false;
  strategy_place place = {.updates = s->step, .rows = s->examples + s->position};
  TRY(kind->meet(l->strategy, &under_way));
  TRY(kind->begin(l->strategy, l->model, &l->plan, under_way, &place, &lost));
  if (lost) return status_make(SHOAL_ERR_PEER, "a parameter server was lost while the training began");
  l->place = place;
  return NULL;
}

shoal_status fit_stream_begin(fit_loop *l) {
  fit_state *s = &l->state;
  if (!has_table(l)) {
    l->dense = calloc((size_t)model_features(l->model), sizeof *l->dense);
    if (!l->dense) return status_no_memory();
  }
  TRY(join(l));
  l->first_rows = l->place.rows;
  take_place(l, &l->place);
  l->progress.rate = shoal_schedule_at(&l->model->options.schedule, s->step);
  TRY(fit_open_stream(l, NULL, false, &l->pipeline));
  return pass_over(l);
}

static shoal_status fetch(fit_loop *l) {
  if (!has_table(l) || !l->now) return NULL;
  return status_wrap(l->strategy->kind->fetch(l->strategy, l->now), "step %lld", (long long)l->state.step);
}

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

/* *last: an epoch of this worker has ended with it. */
static shoal_status take_step(fit_loop *l, bool *last, bool *stop) {
  strategy_part part = {.examples = l->now ? l->now->count : 0};
  shoal_tensor *gradients = l->got + (l->model->options.no_train_accuracy ? 1 : 2);
  if (part.examples) {
    TRY(compute(l));
    fit_losses(l, part.examples, &part.loss, &part.hits);
    part.gradients = gradients;
    if (l->dense) TRY(spread(l, &gradients[0]));
  }
  uint64_t waited = fit_trace_now(l);
  if (l->now) TRY(read_on(l, last));
  fit_trace_add(l, FIT_INPUT, waited);
  part.next = l->now;
  strategy_outcome outcome;
  double begun = clock_seconds();
  uint64_t traced = fit_trace_now(l);
  TRY(status_wrap(l->strategy->kind->step(l->strategy, &part, &outcome), "step %lld", (long long)l->state.step));
  if (outcome.lost) { /* it was silent for too long: the others have gone on without these gradients */
    TRY(join(l));
    take_place(l, &l->place);
    return fetch(l);
  }
  fit_count_outcome(l, &outcome, begun, traced);
  if ((*stop = outcome.stop)) return NULL;
  take_place(l, &outcome.place);
  return NULL;
}

static bool goes_on(const fit_loop *l) {
  return l->place.next != STRATEGY_END && (l->now || is_together(l));
}

/* Worker 0: tests what is learned, if that is due; `rows`: done since the last look. */
static shoal_status test(fit_loop *l, int64_t rows) {
  if (!is_chief(l) || !l->options->eval_every) return NULL;
  double before = l->eval_seconds;
  TRY(fit_test_if_due(l, rows));
  return l->eval_seconds > before ? fetch(l) : NULL; /* what the test has put into the table is not the batch's */
}

shoal_status fit_stream_run(fit_loop *l, bool *stopped) {
  fit_state *s = &l->state;
  bool lost = false, ignored = false;
  TRY(fetch(l));
  while (goes_on(l) && !*stopped) {
    int64_t before = s->step, rows = l->place.rows;
    bool last = false;
    if ((*stopped = fit_asked_to_stop(l))) break;
    events_begin_step(l->events, l->worker_steps);
    uint64_t begun = fit_trace_now(l);
    TRY(take_step(l, &last, stopped));
    fit_trace_add(l, FIT_STEP, begun);
    if (*stopped) break;
    TRY(test(l, l->place.rows - rows));
    TRY(fit_between_steps(l, before, last && l->now, stopped));
  }
  if (*stopped && goes_on(l)) TRY(l->strategy->kind->stop(l->strategy));
  strategy_place place = l->place;
  TRY(l->strategy->kind->end(l->strategy, &place, &lost));
  if (lost) return status_make(SHOAL_ERR_PEER, "a parameter server was lost at the end");
  take_place(l, &place);
  l->input_seconds = pipeline_wait_seconds(l->pipeline);
  if (!*stopped && !l->now) TRY(fit_end_epoch(l, &ignored));
  return NULL;
}
