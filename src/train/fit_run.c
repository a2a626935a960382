/* The training loop: a batch source times a gradient exchange.
 *
 * Where the training stands comes from the exchange, since other workers move it on. An epoch is over when all its rows
 * are done, whoever did them; only worker 0 has something to do then. */
#include "base/clock.h"
#include "train/fit_loop.h"

static void move_to(fit_loop *l, int64_t updates, int64_t rows) {
  fit_state *s = &l->state;
  s->epoch_steps += updates - s->step;
  s->step = updates;
  s->position = rows - fit_rows_before(l); /* may be beyond the epoch's end until that is dealt with */
}

/* Takes over where the training stands. */
static void take_place(fit_loop *l, const strategy_place *place) {
  if (l->place.clock > 0 && place->clock > l->place.clock) l->place_seconds += place->clock - l->place.clock;
  l->place = *place;
  l->run_examples = place->rows - l->first_rows;
  move_to(l, place->updates, place->rows);
}

shoal_status fit_take_gathered(fit_loop *l) {
  const shoal_strategy *s = l->strategy;
  if (s->stream) move_to(l, s->stream_updates, s->stream_rows);
  return fit_saved_stream(&l->saved, s->stream);
}

/* What others have done meanwhile is not looked at: a worker that comes late begins in the epoch under way. */
static void skip_epochs(fit_loop *l) {
  fit_state *s = &l->state;
  if (!fit_counted(l) || s->position < l->usable) return;
  s->epoch += s->position / l->usable;
  s->position %= l->usable;
  s->epoch_loss = s->epoch_hits = 0;
  s->epoch_seen = 0;
}

/* Whether the epoch under way is over: of leased shards, when all have ended it; some are in the next one by then. */
static bool epoch_is_over(fit_loop *l) {
  fit_state *s = &l->state;
  if (fit_counted(l)) return s->position >= l->usable;
  if (!l->strategy->leases) return l->batch_now.last;
  if (l->place.epochs <= s->epoch) return false;
  s->epoch = l->place.epochs - 1; /* nobody was here to see those before */
  return true;
}

void fit_describe(void *context) {
  fit_loop *l = context;
  batch_source_start(l->source, l->state.step, l->state.input);
}

/* again: what was read meanwhile counts for nothing. */
static shoal_status begin(fit_loop *l, bool again) {
  const bool first = l->first_rows < 0, fresh = !l->state.step;
  const int64_t before = l->state.step;
  strategy_place place = {.updates = l->state.step, .rows = fit_rows_done(l)};
  TRY(l->strategy->kind->begin(l->strategy, &l->setup, &place));
  if (first) l->first_rows = place.rows;
  l->place.clock = 0; /* a server that was lost is another one now */
  take_place(l, &place);
  skip_epochs(l);
  if (l->source->walked && (again || place.updates != before))
    TRY(batch_source_go_to(l->source, l->state.input, l->state.epoch));
  if (!fit_counted(l) && fresh && l->strategy->leases)
    l->state.epoch = place.epochs; /* otherwise an epoch's end may be yet to be dealt with */
  l->progress.rate = shoal_schedule_at(&l->model->options.schedule, l->state.step);
  return NULL;
}

/* So that there is something to go back to. */
static void save_start(fit_loop *l) {
  if (!l->strategy->recovers || !l->options->checkpoint_dir || l->saved_step == l->state.step) return;
  if (!l->strategy->restarts || l->state.step) fit_checkpoint(l, false);
}

static shoal_status begin_again(fit_loop *l) {
  TRY(begin(l, true));
  save_start(l);
  return NULL;
}

static shoal_status go_to_start(fit_loop *l) {
  fit_state_init(&l->state);
  free(l->strategy->checkpoint);
  l->strategy->checkpoint = NULL;
  return fit_saved_stream(&l->saved, NULL);
}

/* Worker 0 takes up from the last checkpoint a training that the servers have lost. */
shoal_status fit_go_back(void *context, strategy_place *place) {
  fit_loop *l = context;
  int64_t before = l->state.step;
  bool found = false;
  if (l->options->checkpoint_dir && !l->fresh)
    TRY(fit_resume(l, &found)); /* otherwise those there are of another run */
  if (!found && l->strategy->restarts)
    TRY(go_to_start(l));
  else if (!found)
    return status_make(SHOAL_ERR_PEER, "parameters were lost with a server after step %lld, and there is no checkpoint",
                       (long long)before);
  int64_t lost = MAX_OF(before - l->state.step, 0);
  l->lost_steps += lost;
  text line = {0};
  text_add(&line, "a parameter server was lost: %lld step%s made once more, from step %lld on", (long long)lost,
           lost == 1 ? " is" : "s are", (long long)l->state.step);
  if (!line.failed) fit_note(l, line.data);
  text_fini(&line);
  *place = (strategy_place){.updates = l->state.step, .rows = fit_rows_done(l)};
  return NULL;
}

static void count_outcome(fit_loop *l, const strategy_outcome *o) {
  l->network_seconds += o->network_seconds;
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

/* The batch for a training that stands there. */
static shoal_status next_batch(fit_loop *l, const strategy_place *place, train_batch *out, bool *more) {
  uint64_t begun = l->data ? 0 : fit_trace_now(l);
  TRY(l->source->kind->next(l->source, place, out, more));
  fit_trace_add(l, FIT_INPUT, begun);
  out->step = l->state.step;
  out->rate = l->strategy->leases ? l->progress.rate : shoal_schedule_at(&l->model->options.schedule, l->state.step);
  return NULL;
}

/* Of a stream that is leased the batch that follows: what it needs can come back with the answer. Of a shard it tells
 * whether that ends an epoch; of a round, the same part of the next one is what this worker will be given, as long as all
 * workers stay. */
static shoal_status read_ahead(fit_loop *l, const train_batch *b, train_batch *ahead, const train_batch **out) {
  bool ignored;
  *out = NULL;
  if (l->data || !l->strategy->leases) return NULL;
  strategy_place place = l->place;
  place.index++;
  *out = ahead;
  *ahead = (train_batch){.epoch = l->options->epochs};
  if (fit_counted(l)) place.next += l->plan.batches.parts;
  if (fit_counted(l) && (l->place.next < 0 || place.next >= l->plan.batches.end)) return NULL;
  return b->rows || fit_counted(l) ? next_batch(l, &place, ahead, &ignored) : NULL;
}

/* Computes a batch and exchanges its gradients; *stop: all end here. */
static shoal_status take_step(fit_loop *l, const train_batch *b, bool *stop) {
  shoal_strategy *s = l->strategy;
  strategy_outcome outcome;
  train_batch ahead;
  const train_batch *next;
  TRY(s->kind->compute(s, b));
  TRY(read_ahead(l, b, &ahead, &next));
  uint64_t traced = s->updates ? 0 : fit_trace_now(l);
  TRY(status_wrap(s->kind->exchange(s, next, &outcome), "step %lld", (long long)l->state.step));
  fit_trace_add(l, FIT_EXCHANGE, traced);
  if (outcome.lost) return begin_again(l);
  count_outcome(l, &outcome);
  if ((*stop = outcome.stop)) return NULL;
  l->drained = l->drained || outcome.drain;
  take_place(l, &outcome.place);
  return NULL;
}

/* No more steps from here. Worker 0 waits for the others, and does what belongs to the end of an epoch that they have
 * finished meanwhile. */
static shoal_status end(fit_loop *l, bool early, bool *again) {
  strategy_outcome outcome;
  bool ignored = false;
  TRY(l->strategy->kind->end(l->strategy, early, &outcome));
  *again = outcome.lost;
  if (outcome.lost) return begin_again(l);
  count_outcome(l, &outcome);
  take_place(l, &outcome.place);
  return l->strategy->leases && epoch_is_over(l) ? fit_end_epoch(l, &ignored) : NULL;
}

static shoal_status steps(fit_loop *l, bool *more, bool *stopped) {
  fit_state *s = &l->state;
  while (!s->ended && !*stopped) {
    const int64_t before = s->step, rows = l->place.rows;
    if ((*stopped = l->drained || fit_asked_to_stop(l))) break;
    events_begin_step(l->events, l->batches++);
    uint64_t begun = fit_trace_now(l);
    TRY(next_batch(l, &l->place, &l->batch_now, more));
    if (!*more) break;
    TRY(take_step(l, &l->batch_now, stopped));
    fit_trace_add(l, FIT_STEP, begun);
    if (*stopped) break;
    if (l->options->eval_every && is_chief(l)) TRY(fit_test_if_due(l, l->place.rows - rows));
    TRY(fit_between_steps(l, before, epoch_is_over(l), stopped));
  }
  return NULL;
}

/* A copy of the process that called fit works for it, and has nothing to tell. */
static void be_quiet(fit_loop *l) {
  l->given.callbacks = (shoal_callbacks){0};
  l->given.stop = NULL; /* all are stopped by worker 0 */
  l->given.checkpoint_dir = NULL;
}

shoal_status fit_run(fit_loop *l, bool *stopped) {
  bool again = false;
  TRY(begin(l, false));
  if (l->strategy->copy) be_quiet(l);
  l->start = l->last_progress = clock_seconds();
  save_start(l);
  do {
    bool more = true;
    TRY(steps(l, &more, stopped));
    TRY(end(l, more, &again));
  } while (again && !*stopped); /* a server was lost at the very end */
  return NULL;
}
