/* The training loop of a worker among others. The strategy says which batch comes next; where the training stands comes
 * from there, too, since others move it on.
 *
 * An epoch is over when all its rows are done, whoever did them. Only worker 0 has something to do then. */
#include "base/clock.h"
#include "train/fit_loop.h"

void fit_set_place(fit_loop *l, const strategy_place *place) {
  if (l->place.clock > 0 && place->clock > l->place.clock) l->place_seconds += place->clock - l->place.clock;
  l->place = *place;
  l->run_examples = place->rows - l->first_rows;
}

static void take_place(fit_loop *l, const strategy_place *place) {
  fit_state *s = &l->state;
  fit_set_place(l, place);
  s->step = place->updates;
  s->position = place->rows - s->epoch * l->usable; /* may be beyond the epoch's end until that is dealt with */
}

/* What others have done meanwhile is not looked at: a worker that comes late begins in the epoch under way. */
static void skip_epochs(fit_loop *l) {
  fit_state *s = &l->state;
  int64_t epoch = l->place.rows / l->usable;
  if (epoch > s->epoch) {
    s->epoch_loss = s->epoch_hits = 0;
    s->epoch_seen = 0;
  }
  s->epoch = epoch;
  s->position = l->place.rows % l->usable;
}

/* Worker 0 takes up from the last checkpoint a training that the servers have lost. */
static shoal_status go_back(fit_loop *l) {
  int64_t before = l->state.step;
  bool found = false;
  if (l->options->checkpoint_dir) TRY(fit_resume(l, &found));
  if (!found)
    return status_make(SHOAL_ERR_PEER, "parameters were lost with a server after step %lld, and there is no checkpoint",
                       (long long)before);
  int64_t lost = MAX_OF(before - l->state.step, 0);
  l->lost_steps += lost;
  text line = {0};
  text_add(&line, "a parameter server was lost: %lld step%s made once more, from step %lld on", (long long)lost,
           lost == 1 ? " is" : "s are", (long long)l->state.step);
  if (!line.failed) fit_note(l, line.data);
  text_fini(&line);
  return NULL;
}

static shoal_status begin(fit_loop *l, bool again) {
  fit_state *s = &l->state;
  const strategy_kind *kind = l->strategy->kind;
  for (bool lost = true; lost; again = true) {
    bool under_way = false;
    lost = false;
    if (kind->meet) TRY(kind->meet(l->strategy, &under_way));
    if (again && !under_way && is_chief(l)) TRY(go_back(l));
    strategy_place place = {.updates = s->step, .rows = s->epoch * l->usable + s->position};
    TRY(kind->begin(l->strategy, l->model, &l->plan, under_way, &place, &lost));
    if (lost) continue;
    if (!again) l->first_rows = place.rows;
    l->place.clock = 0; /* a server that was lost is another one now */
    take_place(l, &place);
    skip_epochs(l);
    l->progress.rate = shoal_schedule_at(&l->model->options.schedule, s->step);
  }
  return NULL;
}

shoal_status fit_shared_begin(fit_loop *l) { return begin(l, false); }

void fit_count_outcome(fit_loop *l, const strategy_outcome *o, double begun, uint64_t traced) {
  fit_trace_add(l, FIT_EXCHANGE, traced);
  double others = o->barrier_seconds + o->server_seconds;
  l->network_seconds += MAX_OF(clock_seconds() - begun - others, 0) + o->network_seconds;
  l->barrier_seconds += o->barrier_seconds;
  l->server_seconds += o->server_seconds;
  l->staleness += o->staleness;
  l->staleness_steps += o->own_steps;
  l->touched += o->touched;
  l->exchanged += o->bytes;
  fit_count_losses(l, o->examples, o->loss, o->hits);
  l->worker_examples += o->own_examples;
  l->worker_steps += o->own_steps;
  if (o->own_steps) l->progress.rate = o->rate;
}

/* By the model's own session. No two batches draw the same random numbers. */
static shoal_status compute_batch(fit_loop *l, int64_t batch, strategy_part *part) {
  TRY(fit_compute(l, part->span.first, part->span.rows, batch, l->progress.rate));
  part->examples = part->span.rows;
  fit_losses(l, part->examples, &part->loss, &part->hits);
  part->gradients = l->got + (l->model->options.no_train_accuracy ? 1 : 2);
  return NULL;
}

/* By the strategy. */
static shoal_status compute_part(fit_loop *l, strategy_part *part) {
  const lease_span *span = &part->span;
  const strategy_rows rows = {.order = l->order,
                              .first = span->round,
                              .rows = span->round_rows,
                              .step = span->number,
                              .rate = l->progress.rate};
  shoal_status status = span->rows ? l->strategy->kind->compute(l->strategy, &rows, part) : NULL;
  return fit_explain_rows(l, status, &rows);
}

/* Computes the batch that was given to this worker; *stop: all end here. */
static shoal_status take_step(fit_loop *l, int64_t *ordered, bool *stop) {
  int64_t batch = l->place.next;
  strategy_part part = {0};
  if (batch >= 0) {
    const lease_plan *plan = &l->plan.batches;
    int64_t epoch = lease_plan_epoch(plan, batch);
    if (*ordered != epoch) fit_shuffle(l, epoch);
    *ordered = epoch;
    part.span = lease_plan_span(plan, batch);
    TRY(l->strategy->kind->compute ? compute_part(l, &part) : compute_batch(l, batch, &part));
    l->computed++;
  }
  strategy_outcome outcome;
  double begun = clock_seconds();
  uint64_t traced = fit_trace_now(l);
  TRY(status_wrap(l->strategy->kind->step(l->strategy, &part, &outcome), "step %lld", (long long)l->state.step));
  if (outcome.lost) return begin(l, true);
  fit_count_outcome(l, &outcome, begun, traced);
  if ((*stop = outcome.stop)) return NULL;
  take_place(l, &outcome.place);
  return NULL;
}

/* All end before their next step; what this worker had sent before may still count. */
static shoal_status stop(fit_loop *l) {
  const strategy_kind *kind = l->strategy->kind;
  strategy_outcome outcome;
  double begun = clock_seconds();
  TRY(kind->stop(l->strategy));
  if (!kind->settle) return NULL;
  kind->settle(l->strategy, &outcome);
  fit_count_outcome(l, &outcome, begun, 0);
  return NULL;
}

static bool epoch_is_over(const fit_loop *l) { return l->state.position >= l->usable; }

/* Worker 0 waits for the others, and does what belongs to the end of an epoch that they have finished meanwhile. */
static shoal_status end(fit_loop *l) {
  bool lost = false, ignored = false;
  strategy_place place = l->place;
  TRY(l->strategy->kind->end(l->strategy, &place, &lost));
  if (lost) return begin(l, true);
  take_place(l, &place);
  if (epoch_is_over(l)) TRY(fit_end_epoch(l, &ignored));
  return NULL;
}

shoal_status fit_shared_run(fit_loop *l, bool *stopped) {
  fit_state *s = &l->state;
  int64_t ordered = -1; /* epoch that `order` is for */
  /* So that there is something to go back to. */
  if (l->strategy->recovers && l->options->checkpoint_dir && l->saved_step != s->step) fit_checkpoint(l, false);
  do {
    while (l->place.next != STRATEGY_END && !s->ended && !*stopped) {
      int64_t before = s->step;
      if ((*stopped = fit_asked_to_stop(l))) break;
      events_begin_step(l->events, l->computed);
      uint64_t begun = fit_trace_now(l);
      TRY(take_step(l, &ordered, stopped));
      fit_trace_add(l, FIT_STEP, begun);
      if (!*stopped) TRY(fit_between_steps(l, before, epoch_is_over(l), stopped));
    }
    if (l->place.next != STRATEGY_END) TRY(stop(l));
    l->place.next = STRATEGY_END;
    TRY(end(l));
  } while (l->place.next != STRATEGY_END); /* a server was lost at the very end */
  return NULL;
}
