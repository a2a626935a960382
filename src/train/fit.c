/* A training from its options to its result: what happens before the first step, between steps and after the last one.
 * The loop itself is fit_run.c.
 *
 * 1. The state and the variables after step s depend on the settings and the data alone, not on when the run was
 *    stopped and resumed: the order of an epoch comes from the seed and the epoch's number, random operators from the
 *    seed and the step.
 * 2. A step allocates nothing and copies no example: a batch is a view of the data set through a piece of the order.
 *    A batch that a pipeline reads is fed from the pipeline's own memory.
 * 3. With several workers worker 0 alone validates, saves and decides when to stop early.
 * 4. A checkpoint is taken between two steps, after all that belongs to the end of an epoch if one has ended. */
#include "base/clock.h"
#include "base/options.h"
#include "exec/session.h"
#include "train/fit_loop.h"
#include "train/local.h"
#include "train/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROGRESS_SECONDS 0.25
#define LARGE_CHECKPOINT (16 << 20) /* bytes from which on it is written while training goes on */

void fit_note(const fit_loop *l, const char *line) {
  const shoal_callbacks *c = &l->options->callbacks;
  if (c->on_note) c->on_note(c->context, line);
}

static double train_seconds(const fit_loop *l) {
  return clock_seconds() - l->start - l->eval_seconds - l->checkpoint_seconds;
}

/* Asynchronous workers go on while this one evaluates or saves: when they were how far is then told by the strategy. */
static double examples_seconds(const fit_loop *l) {
  return l->strategy->sync || l->strategy->workers == 1 ? train_seconds(l) : l->place_seconds;
}

shoal_status fit_resume(fit_loop *l, bool *found) {
  char *path = NULL, *passed_over = NULL;
  fit_wait_for_writer(l);
  TRY(checkpoint_latest(l->options->checkpoint_dir, &path, &passed_over));
  if (passed_over) fit_note(l, passed_over);
  free(passed_over);
  if (!path) {
    *found = false;
    return NULL;
  }
  shoal_status status = status_wrap(fit_restore(&l->saved, path, l->settings.data), "resume");
  const fit_state *s = &l->state;
  bool fits = s->position < l->usable && s->step == s->epoch * l->steps_per_epoch + s->position / l->round;
  if (!status && fit_counted(l) && !l->strategy->leases && !fits)
    status = status_make(SHOAL_ERR_INPUT, "resume: %s: step %lld cannot be %lld examples into epoch %lld", path,
                         (long long)s->step, (long long)s->position, (long long)s->epoch);
  if (!status && !fit_counted(l) && s->step && !(l->strategy->leases ? l->saved.stream != NULL : *s->input != 0))
    status = status_make(SHOAL_ERR_INPUT, "resume: %s: it has no position of the stream", path);
  if (!status) {
    text line = {0};
    text_add(&line, "resumed from step %lld (%s)", (long long)s->step, path);
    if (!line.failed) fit_note(l, line.data);
    text_fini(&line);
    *found = true;
    l->fresh = false;
    l->saved_step = s->step;
    free(l->strategy->checkpoint);
    l->strategy->checkpoint = path;
    path = NULL;
  }
  free(path);
  return status;
}

void fit_count_losses(fit_loop *l, int64_t examples, double loss, double hits) {
  fit_state *s = &l->state;
  if (!examples) return;
  double *recent = s->recent[s->seen++ % FIT_RECENT];
  recent[0] = loss;
  recent[1] = hits;
  recent[2] = (double)examples;
  s->epoch_loss += loss;
  s->epoch_hits += hits;
  s->epoch_seen += examples;
  l->since_loss += loss;
  l->since_hits += hits;
  l->since_examples += examples;
}

/* ---- between steps */

/* Steps of an epoch; 0: not known yet. */
static int64_t epoch_steps(const fit_loop *l) { return fit_counted(l) ? l->steps_per_epoch : l->state.last_steps; }

static shoal_times times_of(const fit_loop *l, double seconds) {
  shoal_times t = {.network = l->network_seconds,
                   .barrier = l->barrier_seconds,
                   .server = l->server_seconds,
                   .input = l->source->wait_seconds};
  t.compute = MAX_OF(seconds - t.network - t.barrier - t.server - t.input, 0);
  return t;
}

void fit_set_progress(fit_loop *l) {
  shoal_progress *p = &l->progress;
  p->epoch = l->state.epoch;
  p->epochs = l->options->epochs;
  p->step = l->state.step;
  int64_t epochs = l->options->epochs; /* of a stream: as long as the last one was, presumably */
  p->steps = fit_counted(l) || l->options->steps ? l->steps : epochs * epoch_steps(l);
  p->examples = l->run_examples;
  p->seconds = train_seconds(l);
  p->examples_seconds = examples_seconds(l);
  p->times = times_of(l, p->seconds);
  p->staleness = l->staleness_steps && !l->strategy->sync ? (double)l->staleness / (double)l->staleness_steps : NAN;
  l->staleness = l->staleness_steps = 0;
  p->validation_loss = p->validation_accuracy = NAN;
  p->test = evaluation_none();
  if (!l->since_examples) return;
  p->loss = l->since_loss / (double)l->since_examples;
  p->accuracy = l->since_hits / (double)l->since_examples;
}

/* Whether something that is to be done every `every` steps is due after those from `before` on. */
static bool is_due(const fit_loop *l, int64_t before, int64_t every) { return l->state.step / every != before / every; }

static bool report_step(fit_loop *l, int64_t before) {
  const shoal_callbacks *c = &l->options->callbacks;
  if (!c->on_step) return false;
  if (c->every_steps) {
    if (!is_due(l, before, c->every_steps)) return false;
  } else {
    double now = clock_seconds();
    if (now - l->last_progress < PROGRESS_SECONDS) return false;
    l->last_progress = now;
  }
  fit_set_progress(l);
  l->since_loss = l->since_hits = 0;
  l->since_examples = 0;
  return c->on_step(c->context, &l->progress);
}

static shoal_status validate(fit_loop *l) {
  fit_state *s = &l->state;
  shoal_evaluation e;
  const shoal_dataset *v = l->validation;
  uint64_t begun = fit_trace_now(l);
  TRY(status_wrap(model_evaluate_rows(l->model, &v->features, &v->labels, 0, v->features.shape.dim[0], &e),
                  "validation after step %lld", (long long)s->step));
  fit_trace_add(l, FIT_TEST, begun);
  l->eval_seconds += e.seconds;
  s->validation_loss = e.loss;
  s->validation_accuracy = e.accuracy;
  if (!(e.loss >= s->best_loss)) { /* also the first time, when the best is NaN */
    s->best_loss = e.loss;
    s->best_accuracy = e.accuracy;
    s->best_epoch = s->epoch;
    s->waited = 0;
    if (l->options->restore_best) TRY(fit_best_keep(l));
    if (l->options->keep_best) fit_checkpoint(l, true);
  } else {
    s->waited++;
  }
  if (l->options->patience > 0 && s->waited >= l->options->patience) s->ended = true;
  return NULL;
}

static shoal_status test(fit_loop *l, shoal_evaluation *out) {
  const shoal_dataset *t = l->options->test;
  uint64_t begun = fit_trace_now(l);
  TRY(status_wrap(model_evaluate_rows(l->model, &t->features, &t->labels, 0, t->features.shape.dim[0], out),
                  "test after step %lld", (long long)l->state.step));
  fit_trace_add(l, FIT_TEST, begun);
  l->eval_seconds += out->seconds;
  return NULL;
}

/* Says why a run with validation ended, and takes the best weights. */
static shoal_status take_best(fit_loop *l, bool stopped, bool *restored) {
  const fit_state *s = &l->state;
  text line = {0};
  *restored = false;
  if (!l->validation || !is_chief(l) || stopped || !s->best_epoch) return NULL;
  const double begun = clock_seconds();
  if (l->options->restore_best && s->best_epoch < s->epoch) TRY(fit_best_restore(l, restored));
  l->checkpoint_seconds += clock_seconds() - begun;
  if (s->ended)
    text_add(&line,
             "stopped early after epoch %lld: the validation loss of epoch %lld, %.4f, was not reached again in "
             "%lld epoch%s",
             (long long)s->epoch, (long long)s->best_epoch, s->best_loss, (long long)s->waited,
             s->waited == 1 ? "" : "s");
  else if (*restored)
    text_add(&line, "epoch %lld of %lld had the best validation loss, %.4f", (long long)s->best_epoch,
             (long long)s->epoch, s->best_loss);
  if (*restored) text_add(&line, "; the weights of epoch %lld are taken", (long long)s->best_epoch);
  if (line.data && !line.failed) fit_note(l, line.data);
  text_fini(&line);
  return NULL;
}

shoal_status fit_test_if_due(fit_loop *l, int64_t rows) {
  const shoal_fit_options *o = l->options;
  const fit_state *s = &l->state;
  const int64_t done = s->examples + s->position;
  if (!o->test_stream || !o->eval_every || done / o->eval_every == (done - rows) / o->eval_every) return NULL;
  shoal_evaluation e;
  uint64_t begun = fit_trace_now(l);
  TRY(status_wrap(shoal_model_evaluate_stream(l->model, o->test_stream, NULL, NULL, &e), "step %lld",
                  (long long)s->step));
  fit_trace_add(l, FIT_TEST, begun);
  l->eval_seconds += e.seconds;
  if (!o->callbacks.on_eval) return NULL;
  fit_set_progress(l);
  shoal_progress p = l->progress;
  p.loss = s->epoch_loss / (double)s->epoch_seen;
  p.accuracy = s->epoch_hits / (double)s->epoch_seen;
  o->callbacks.on_eval(o->callbacks.context, done, &p, &e);
  return NULL;
}

/* Returns in *stop whether the callback wants to stop. */
shoal_status fit_end_epoch(fit_loop *l, bool *stop) {
  fit_state *s = &l->state;
  const shoal_callbacks *c = &l->options->callbacks;
  const double rows = (double)s->epoch_seen;
  double loss = s->epoch_loss / rows, accuracy = s->epoch_hits / rows;
  s->epoch += fit_counted(l) ? s->position / l->usable : 1; /* meanwhile others may have finished another one */
  s->examples += s->position;
  s->last_steps = s->epoch_steps;
  s->epoch_steps = 0;
  s->position = fit_counted(l) ? s->position % l->usable : 0;
  s->epoch_loss = s->epoch_hits = 0;
  s->epoch_seen = 0;
  if (l->validation && is_chief(l)) TRY(validate(l));
  if (l->options->checkpoint_dir && !l->options->checkpoint_every) fit_checkpoint(l, false);
  if (!c->on_epoch) return NULL;
  shoal_evaluation tested = {0};
  if (l->options->test && is_chief(l)) TRY(test(l, &tested));
  fit_set_progress(l);
  shoal_progress p = l->progress;
  if (tested.examples) p.test = tested;
  p.epoch = s->epoch - 1;
  p.loss = loss;
  p.accuracy = accuracy;
  p.validation_loss = s->validation_loss;
  p.validation_accuracy = s->validation_accuracy;
  *stop = c->on_epoch(c->context, &p);
  return NULL;
}

bool fit_asked_to_stop(const fit_loop *l) {
  return l->options->stop && __atomic_load_n(l->options->stop, __ATOMIC_RELAXED);
}

shoal_status fit_between_steps(fit_loop *l, int64_t before, bool epoch_over, bool *stopped) {
  bool stop = report_step(l, before), stop_epoch = false;
  if (epoch_over) TRY(fit_end_epoch(l, &stop_epoch));
  int64_t every = l->options->checkpoint_every;
  if (l->options->checkpoint_dir && every && is_due(l, before, every)) l->save_due = true;
  if (l->save_due && !l->strategy->apart) {
    l->save_due = false;
    fit_checkpoint(l, false);
  }
  *stopped = stop || stop_epoch;
  return NULL;
}

/* ---- the whole */

/* What the steps need, in the order in which each part needs the one before. */
static shoal_status set_up(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  shoal_model *m = l->model;
  TRY(model_ready(m));
  TRY(fit_check_options(o, l->data != NULL));
  if (o->restore_best && m->options.optimizer.average > 0)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the weights of the best epoch, or averages of all: leave out restore_best, or the optimizer's "
                       "average");
  if (!l->strategy) {
    TRY(local_create(&l->own_strategy));
    l->strategy = l->own_strategy;
  }
  if (l->data) TRY(model_check_data(m, l->data));
  if (l->data) TRY(model_adopt_class_names(m, l->data->class_names));
  if (l->data) TRY(model_adopt_preprocessing(m, l->data->preprocessing));
  if (o->validation) TRY(status_wrap(model_check_data(m, o->validation), "validation data"));
  if (o->test) TRY(status_wrap(model_check_data(m, o->test), "test data"));
  TRY(l->data ? fit_cut(l) : fit_cut_stream(l));
  TRY(fit_write_settings(l));
  TRY(l->data ? model_tower(m, l->data->features.dtype, l->data->labels.dtype, l->data->weights.data, &l->tower)
              : fit_stream_tower(l));
  TRY(fit_saved_init(m, &l->state, &l->saved));
  size_t bytes = 0;
  for (int i = 0; i < l->saved.n; i++) bytes += shoal_tensor_bytes(&l->saved.entries[i].tensor);
  if (o->checkpoint_dir && (bytes >= LARGE_CHECKPOINT || model_has_ids(m))) TRY(snapshot_create(&l->writer));
  TRY(compute_init(&l->compute, m, l->tower, !l->strategy->updates || o->accumulate > 1));
  return o->accumulate > 1 ? compute_accumulate(&l->compute, l->batch / o->accumulate, o->accumulate) : NULL;
}

/* Where the run begins; *from: step, or -1. */
static shoal_status find_start(fit_loop *l, int64_t *from) {
  bool resumed = false;
  if (l->options->resume && is_chief(l)) {
    TRY(fit_resume(l, &resumed));
    if (!resumed) fit_note(l, "no checkpoint to resume from: starting from the beginning");
  }
  *from = resumed ? l->state.step : -1;
  return NULL;
}

/* The averages of the weights become the weights; the last checkpoint has both. */
static shoal_status take_averages(fit_loop *l) {
  shoal_model *m = l->model;
  shoal_value **weights;
  int n;
  shoal_status status = NULL;
  const bool there = is_chief(l) || l->strategy->copies;
  if (m->options.optimizer.average == 0 || !there) return NULL;
  fit_wait_for_writer(l);
  TRY(model_weights(m, true, &weights, &n));
  for (int i = 0; i < n && !status; i++) {
    shoal_tensor to, from;
    char *name = NULL;
    if (asprintf(&name, "%s/" OPTIMIZER_AVERAGE, shoal_value_name(weights[i])) < 0) status = status_no_memory();
    shoal_value *average = status ? NULL : shoal_graph_find(m->graph, name);
    if (!status) free(name);
    if (!average) continue; /* the loss does not depend on it */
    status = shoal_session_variable(m->session, weights[i], &to);
    if (!status) status = shoal_session_variable(m->session, average, &from);
    if (!status) memcpy(to.data, from.data, shoal_tensor_bytes(&from));
  }
  free(weights);
  return status;
}

static shoal_status fit(fit_loop *l, shoal_fit_result *result) {
  const shoal_fit_options *o = l->options;
  shoal_model *m = l->model;
  int64_t from;
  bool stopped = false;
  TRY(set_up(l));
  TRY(find_start(l, &from));
  TRY(fit_make_source(l));
  session_guard(m->session, l->tower->loss);
  TRY(fit_trace_label(l));
  if (o->callbacks.on_inspect && o->callbacks.inspect_every > 0) TRY(fit_inspect_create(l, &l->inspect));
  TRY(fit_run(l, &stopped));
  if (o->checkpoint_dir && l->saved_step != l->state.step) {
    fit_wait_for_writer(l); /* so that the last one is not left out */
    fit_checkpoint(l, false);
  }
  bool restored;
  TRY(take_best(l, stopped, &restored));
  TRY(take_averages(l));
  if (o->restore_best) TRY(l->strategy->kind->follow_chief(l->strategy));
  const fit_state *s = &l->state;
  shoal_fit_result r = {
      .epochs = s->epoch,
      .steps = s->step,
      .updates = s->step,
      .examples = s->epoch * l->usable + s->position,
      .run_examples = l->run_examples,
      .worker_steps = l->worker_steps,
      .worker_examples = l->worker_examples,
      .dropped_examples = l->rows - l->usable,
      .seconds = train_seconds(l),
      .examples_seconds = examples_seconds(l),
      .eval_seconds = l->eval_seconds,
      .checkpoint_seconds = l->checkpoint_seconds,
      .input_wait_seconds = l->source->wait_seconds,
      .validation_accuracy = restored ? s->best_accuracy : s->validation_accuracy,
      .validation_loss = restored ? s->best_loss : s->validation_loss,
      .best_epoch = s->best_epoch,
      .restored = restored,
      .stopped = stopped,
      .stopped_early = s->ended,
      .resumed_from = from,
      .lost_steps = l->lost_steps,
      .touched_rows = l->touched,
      .exchanged_bytes = l->exchanged,
  };
  if (l->model->ids || (l->model->grows && is_chief(l))) {
    id_table_counts c;
    const model_elsewhere *e = l->model->elsewhere;
    if (l->model->ids)
      model_ids_count(l->model->ids, &c);
    else
      TRY(e->count(e->context, &c));
    r.ids = c.ids;
    r.ids_admitted = c.admitted;
    r.ids_evicted = c.evicted;
    r.ids_bytes = c.bytes;
  }
  r.times = times_of(l, r.seconds);
  if (!fit_counted(l)) r.examples = fit_rows_done(l);
  if (l->source->pipeline) {
    shoal_pipeline_statistics n;
    shoal_pipeline_count(l->source->pipeline, &n);
    r.dropped_examples = n.dropped_rows / MAX_OF(s->epoch, 1);
    r.bad_rows = n.bad_rows;
  }
  int64_t an_epoch = fit_counted(l) ? l->steps_per_epoch : MAX_OF(s->epoch_steps, s->last_steps);
  if (!l->strategy->sync) an_epoch /= l->strategy->workers; /* about as many are seen here */
  fit_state_recent(s, MAX_OF(an_epoch, 1), &r.final_loss, &r.train_accuracy);
  if (result) *result = r;
  return NULL;
}

/* The program's options, in structs of this library. */
static shoal_status take_options(fit_loop *l, const shoal_fit_options *options) {
  TRY(OPTIONS_TAKE(&l->given, options));
  if (!options) l->given.epochs = 1;
  TRY(OPTIONS_TAKE(&l->stream, l->given.stream));
  TRY(OPTIONS_TAKE(&l->test_stream, l->given.test_stream));
  if (l->given.stream) l->given.stream = &l->stream;
  if (l->given.test_stream) l->given.test_stream = &l->test_stream;
  l->options = &l->given;
  return NULL;
}

shoal_status shoal_model_fit(shoal_model *m, const shoal_dataset *data, const shoal_fit_options *options,
                             shoal_fit_result *result) {
  fit_loop *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->model = m;
  l->data = data;
  shoal_status status = take_options(l, options);
  l->strategy = l->given.strategy;
  l->saved_step = l->first_rows = -1;
  l->fresh = true;
  fit_state_init(&l->state);
  if (!status) status = fit(l, result);
  if (l->strategy && l->strategy->copy) forked_end(l->strategy->copy, status);
  if (m->session) session_guard(m->session, NULL);
  if (l->source) l->source->kind->destroy(l->source);
  fit_inspect_destroy(l->inspect);
  fit_wait_for_writer(l);
  snapshot_destroy(l->writer);
  fit_saved_fini(&l->saved);
  fit_best_fini(l);
  text_fini(&l->settings);
  free(l->split);
  compute_fini(&l->compute);
  strategy_destroy(l->own_strategy);
  free(l);
  return status;
}
