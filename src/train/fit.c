/* The training loop.
 *
 * 1. The state and the variables after step s depend on the settings and the data alone, not on when the run was
 *    stopped and resumed: the order of an epoch comes from the seed and the epoch's number, random operators from the
 *    seed and the step.
 * 2. A step allocates nothing and copies no example: a batch is a view of the data set through a piece of the order.
 *    A batch that a pipeline reads is fed from the pipeline's own memory.
 * 3. With several workers (fit_shared.c) worker 0 alone validates, saves and decides when to stop early.
 * 4. A checkpoint is taken between two steps, after all that belongs to the end of an epoch if one has ended. */
#include "base/clock.h"
#include "base/random.h"
#include "exec/session.h"
#include "train/fit_loop.h"

#include <math.h>
#include <string.h>

#define ORDER_STREAM 0x6f72646572ull /* names the random numbers that shuffle */
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
  return is_together(l) || l->strategy->workers == 1 ? train_seconds(l) : l->place_seconds;
}

/* ---- rows of a stream */

shoal_status fit_next_batch(fit_loop *l, bool *more) {
  TRY(status_wrap(shoal_pipeline_next(l->pipeline, &l->now), "step %lld", (long long)l->state.step));
  *more = l->now != NULL;
  const int32_t *labels = l->now ? l->now->labels.data : NULL; /* [count] */
  for (int64_t i = 0; l->now && i < l->now->count; i++)
    if (labels[i] < 0 || labels[i] >= l->model->classes)
      return status_make(SHOAL_ERR_INPUT, "step %lld: a label is %d, but the model has %lld classes, 0 to %lld",
                         (long long)l->state.step, labels[i], (long long)l->model->classes,
                         (long long)l->model->classes - 1);
  return NULL;
}

/* A batch of rows as the model takes them. */
static shoal_tensor stream_features(const fit_loop *l) {
  shoal_tensor t = l->now->features;
  t.shape.rank = l->model->input.rank + 1;
  memcpy(t.shape.dim + 1, l->model->input.dim, sizeof t.shape.dim - sizeof *t.shape.dim);
  return t;
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
  if (!status && l->data && (!l->strategy || trains_itself(l)) && !fits)
    status = status_make(SHOAL_ERR_INPUT, "resume: %s: step %lld cannot be %lld examples into epoch %lld", path,
                         (long long)s->step, (long long)s->position, (long long)s->epoch);
  if (!status && !l->data && s->step && !(l->strategy ? l->saved.stream != NULL : *s->input != 0))
    status = status_make(SHOAL_ERR_INPUT, "resume: %s: it does not say where the stream stood", path);
  if (!status) {
    text line = {0};
    text_add(&line, "resumed from step %lld (%s)", (long long)s->step, path);
    if (!line.failed) fit_note(l, line.data);
    text_fini(&line);
    *found = true;
    l->fresh = false;
    l->saved_step = s->step;
    if (l->strategy && l->strategy->kind->fetch) {
      free(l->strategy->checkpoint);
      l->strategy->checkpoint = path;
      path = NULL;
    }
  }
  free(path);
  return status;
}

/* ---- one step */

#define MOST_FEEDS 3

/* Returns how many. */
static int feed_batch(const fit_loop *l, int64_t first, int64_t n, float *rate, shoal_feed feeds[MOST_FEEDS]) {
  bool memory = l->data != NULL;
  int count = 0;
  feeds[count++] =
      (shoal_feed){l->tower->x, memory ? model_rows(&l->data->features, l->order, first, n) : stream_features(l)};
  feeds[count++] =
      (shoal_feed){l->tower->y, memory ? model_rows(&l->data->labels, l->order, first, n) : l->now->labels};
  feeds[count++] = (shoal_feed){l->model->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, rate)};
  return count;
}

static shoal_status make_fetches(fit_loop *l) {
  const tower *t = l->tower;
  shoal_value **trained;
  int n = 0;
  TRY(model_weights(l->model, true, &trained, &n));
  free(trained);
  l->fetches = calloc((size_t)n + 3, sizeof *l->fetches);
  l->got = calloc((size_t)n + 3, sizeof *l->got);
  if (!l->fetches || !l->got) return status_no_memory();
  l->fetches[l->n_fetches++] = t->loss;
  if (!l->model->options.no_train_accuracy) l->fetches[l->n_fetches++] = t->accuracy;
  if (!l->strategy) {
    l->fetches[l->n_fetches++] = t->update;
    return NULL;
  }
  if (t->side_updates)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: batch norm keeps averages that only a single process can keep; train "
                       "this model with the strategy single");
  for (int i = 0; i < n; i++) {
    if (!t->gradients[i].value || (t->gradients[i].indices && l->data))
      return status_make(SHOAL_ERR_ARGUMENT, "fit: the strategy %s takes models whose weights all have dense gradients",
                         l->strategy->kind->name);
    l->fetches[l->n_fetches++] = t->gradients[i].value;
  }
  return NULL;
}

/* Makes the plans for the whole and the short batch, so that no step has to. */
static shoal_status prepare(fit_loop *l) {
  if (l->strategy && l->strategy->kind->prepare) {
    const strategy_setup setup = {.model = l->model,
                                  .tower = l->tower,
                                  .fetches = l->fetches,
                                  .n_fetches = l->n_fetches,
                                  .first_gradient = l->model->options.no_train_accuracy ? 1 : 2,
                                  .data = l->data,
                                  .shuffled = l->order != NULL,
                                  .round = MIN_OF(l->round, l->usable),
                                  .last = l->usable > l->round ? l->usable % l->round : 0};
    return l->strategy->kind->prepare(l->strategy, &setup);
  }
  int64_t sizes[] = {MIN_OF(l->batch, l->usable), l->usable % l->batch};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    if (!sizes[i]) continue;
    float rate = 0;
    shoal_feed feeds[MOST_FEEDS];
    int n_feeds = feed_batch(l, 0, sizes[i], &rate, feeds);
    char *description;
    TRY(session_explain(l->model->session, feeds, n_feeds, l->fetches, l->n_fetches, &description));
    free(description);
  }
  return NULL;
}

shoal_status fit_explain_bad_loss(fit_loop *l, shoal_status status, const shoal_feed *feeds, int n_feeds,
                                  int64_t number, double rate) {
  char *bad = NULL;
  shoal_session_set_step(l->model->session, (uint64_t)number);
  shoal_status_free(session_find_bad(l->model->session, feeds, n_feeds, l->tower->loss, &bad));
  shoal_status out = status_make(
      SHOAL_ERR_NUMERIC, "step %lld: %s; first bad operator: %s; try a smaller learning rate (now %g), a warm-up, or "
      "look for numbers in the data that are not finite", (long long)l->state.step, shoal_status_message(status),
      bad ? bad : "none when run again without fused kernels", rate);
  free(bad);
  shoal_status_free(status);
  return out;
}

/* Apart, the steps of all workers are no measure: others may take the ones that are due. */
static bool is_inspected(const fit_loop *l) {
  int64_t step = l->strategy ? l->computed : l->state.step;
  return step % l->options->callbacks.inspect_every == 0;
}

static void on_ready(void *context, int fetch, const shoal_tensor *value) {
  fit_loop *l = context;
  const int which = fetch - (l->model->options.no_train_accuracy ? 1 : 2);
  if (which >= 0) l->strategy->kind->ready(l->strategy, which, value);
}

static void on_phase(void *context) {}

shoal_status fit_compute(fit_loop *l, int64_t first, int64_t n, int64_t number, double rate) {
  shoal_session *session = l->model->session;
  float rate32 = (float)rate;
  shoal_feed feeds[MOST_FEEDS];
  int n_feeds = feed_batch(l, first, n, &rate32, feeds);
  shoal_session_set_step(session, (uint64_t)number);
  if (__builtin_expect(l->inspect != NULL, 0) && is_inspected(l)) {
    TRY(status_wrap(fit_inspect_run(l, feeds, n_feeds), "step %lld", (long long)l->state.step));
    shoal_session_set_step(session, (uint64_t)number);
  }
  const bool watches = l->strategy && l->strategy->watches;
  if (watches) session_watch(session, &(session_watcher){l, on_ready, on_phase});
  shoal_status status = shoal_session_run(session, feeds, n_feeds, l->fetches, l->n_fetches, l->got);
  if (watches) session_watch(session, NULL);
  if (shoal_status_code(status) == SHOAL_ERR_NUMERIC)
    return fit_explain_bad_loss(l, status, feeds, n_feeds, number, rate);
  return status_wrap(status, "step %lld", (long long)l->state.step);
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

void fit_losses(const fit_loop *l, int64_t n, double *loss, double *hits) {
  bool measured = !l->model->options.no_train_accuracy;
  *loss = (double)*(const float *)l->got[GOT_LOSS].data * (double)n;
  *hits = measured ? (double)*(const float *)l->got[GOT_ACCURACY].data * (double)n : NAN;
}

/* n rows of the epoch are done. */
static void move_on(fit_loop *l, int64_t n, double rate) {
  fit_state *s = &l->state;
  s->step++;
  s->epoch_steps++;
  s->position += n;
  l->run_examples += n;
  l->worker_steps++;
  l->progress.rate = rate;
}

shoal_status fit_explain_rows(fit_loop *l, shoal_status status, const strategy_rows *rows) {
  if (shoal_status_code(status) != SHOAL_ERR_NUMERIC) return status_wrap(status, "step %lld", (long long)l->state.step);
  float rate = (float)rows->rate;
  shoal_feed feeds[MOST_FEEDS];
  int n_feeds = feed_batch(l, rows->first, rows->rows, &rate, feeds);
  return fit_explain_bad_loss(l, status, feeds, n_feeds, rows->step, rows->rate);
}

/* A step of all workers that the strategy takes by itself, on the next n examples of the epoch. */
static shoal_status step_together(fit_loop *l, int64_t n, bool *stop) {
  const fit_state *s = &l->state;
  const strategy_rows rows = {.order = l->order,
                              .first = s->position,
                              .rows = n,
                              .step = s->step,
                              .rate = shoal_schedule_at(&l->model->options.schedule, s->step)};
  strategy_outcome outcome;
  l->strategy->rows = n;
  TRY(fit_explain_rows(l, l->strategy->kind->train(l->strategy, &rows, &outcome), &rows));
  l->network_seconds += outcome.network_seconds;
  l->barrier_seconds += outcome.barrier_seconds;
  if ((*stop = outcome.stop)) return NULL;
  fit_count_losses(l, outcome.examples, outcome.loss, outcome.hits);
  l->worker_examples += outcome.own_examples;
  move_on(l, n, rows.rate);
  return NULL;
}

/* The last that all workers do together. */
static shoal_status part(fit_loop *l) {
  const fit_state *s = &l->state;
  bool lost = false;
  l->strategy->rows = MIN_OF(l->round, l->usable - s->position);
  if (s->step < l->steps) TRY(l->strategy->kind->stop(l->strategy));
  return l->strategy->kind->end(l->strategy, &l->place, &lost);
}

/* Trains on the next n examples of the epoch. */
static shoal_status step(fit_loop *l, int64_t n) {
  const fit_state *s = &l->state;
  double rate = shoal_schedule_at(&l->model->options.schedule, s->step), loss, hits;
  TRY(fit_compute(l, s->position, n, s->step, rate));
  fit_losses(l, n, &loss, &hits);
  fit_count_losses(l, n, loss, hits);
  l->worker_examples += n;
  move_on(l, n, rate);
  return NULL;
}

/* ---- between steps */

/* Steps of an epoch; 0: not known yet. */
static int64_t epoch_steps(const fit_loop *l) { return l->data ? l->steps_per_epoch : l->state.last_steps; }

static shoal_times times_of(const fit_loop *l, double seconds) {
  shoal_times t = {.network = l->network_seconds,
                   .barrier = l->barrier_seconds,
                   .server = l->server_seconds,
                   .input = l->data ? l->input_seconds : fit_input_seconds(l)};
  t.compute = MAX_OF(seconds - t.network - t.barrier - t.server - t.input, 0);
  return t;
}

void fit_set_progress(fit_loop *l) {
  shoal_progress *p = &l->progress;
  p->epoch = l->state.epoch;
  p->epochs = l->options->epochs;
  p->step = l->state.step;
  int64_t epochs = l->options->epochs; /* of a stream: as long as the last one was, presumably */
  p->steps = l->data || l->options->steps ? l->steps : epochs * epoch_steps(l);
  p->examples = l->run_examples;
  p->seconds = train_seconds(l);
  p->examples_seconds = examples_seconds(l);
  p->times = times_of(l, p->seconds);
  p->staleness = l->staleness_steps && !is_together(l) ? (double)l->staleness / (double)l->staleness_steps : NAN;
  l->staleness = l->staleness_steps = 0;
  p->validation_loss = p->validation_accuracy = NAN;
  p->test = (shoal_evaluation){.loss = NAN, .accuracy = NAN, .top_k = NAN, .auc = NAN};
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
    text_add(&line, "stopped early after epoch %lld: the validation loss of epoch %lld, %.4f, was not reached again in "
             "%lld epoch%s", (long long)s->epoch, (long long)s->best_epoch, s->best_loss, (long long)s->waited,
             s->waited == 1 ? "" : "s");
  else if (*restored)
    text_add(&line, "epoch %lld of %lld had the best validation loss, %.4f", (long long)s->best_epoch,
             (long long)s->epoch, s->best_loss);
  if (*restored) text_add(&line, "; the weights of epoch %lld are taken", (long long)s->best_epoch);
  if (line.data && !line.failed) fit_note(l, line.data);
  text_fini(&line);
  return NULL;
}

/* Returns in *stop whether the callback wants to stop. */
shoal_status fit_end_epoch(fit_loop *l, bool *stop) {
  fit_state *s = &l->state;
  const shoal_callbacks *c = &l->options->callbacks;
  const double rows = (double)s->epoch_seen;
  double loss = s->epoch_loss / rows, accuracy = s->epoch_hits / rows;
  const bool counted = l->strategy && l->data;
  s->epoch += counted ? s->position / l->usable : 1; /* meanwhile others may have finished another one */
  s->examples += s->position;
  s->last_steps = s->epoch_steps;
  s->epoch_steps = 0;
  s->position = counted ? s->position % l->usable : 0;
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

void fit_shuffle(fit_loop *l, int64_t epoch) {
  if (!l->order) return;
  double start = clock_seconds();
  random_stream stream =
      random_stream_make(l->model->options.seed, random_mix(ORDER_STREAM, (uint64_t)epoch));
  if (!l->options->keep_order) random_permutation(&stream, l->order, l->rows);
  else for (int64_t i = 0; i < l->rows; i++) l->order[i] = (int32_t)i;
  const int32_t *index = l->split ? l->split : l->data->features.rows; /* what the data calls its rows */
  for (int64_t i = 0; index && i < l->rows; i++) l->order[i] = index[l->order[i]];
  l->input_seconds += clock_seconds() - start;
}

bool fit_asked_to_stop(const fit_loop *l) {
  return l->options->stop && __atomic_load_n(l->options->stop, __ATOMIC_RELAXED);
}

shoal_status fit_between_steps(fit_loop *l, int64_t before, bool epoch_over, bool *stopped) {
  bool stop = report_step(l, before), stop_epoch = false;
  if (epoch_over) TRY(fit_end_epoch(l, &stop_epoch));
  int64_t every = l->options->checkpoint_every;
  if (l->options->checkpoint_dir && every && is_due(l, before, every)) fit_checkpoint(l, false);
  *stopped = stop || stop_epoch;
  return NULL;
}

static shoal_status run_stream(fit_loop *l, bool *stopped) {
  fit_state *s = &l->state;
  int64_t epochs = l->options->epochs;
  while (s->step < l->steps && (!epochs || s->epoch < epochs) && !s->ended && !*stopped) {
    if ((*stopped = fit_asked_to_stop(l))) break;
    bool more;
    int64_t before = s->step;
    events_begin_step(l->events, l->worker_steps);
    uint64_t begun = fit_trace_now(l);
    TRY(fit_next_batch(l, &more));
    fit_trace_add(l, FIT_INPUT, begun);
    if (!more) return status_make(SHOAL_ERR_INPUT, "epoch %lld has no rows", (long long)s->epoch);
    if (l->now->count) TRY(l->model->sparse ? fit_sparse_steps(l) : step(l, l->now->count));
    fit_trace_add(l, FIT_STEP, begun);
    TRY(fit_between_steps(l, before, l->now->last, stopped));
  }
  l->input_seconds = fit_input_seconds(l);
  return NULL;
}

static shoal_status run_memory(fit_loop *l, bool *stopped) {
  fit_state *s = &l->state;
  int64_t shuffled = -1; /* epoch that `order` is for */
  while (s->step < l->steps && !s->ended && !*stopped) {
    if ((*stopped = fit_asked_to_stop(l))) break;
    if (shuffled != s->epoch) {
      fit_shuffle(l, s->epoch);
      shuffled = s->epoch;
    }
    events_begin_step(l->events, l->worker_steps);
    uint64_t begun = fit_trace_now(l);
    const int64_t n = MIN_OF(l->round, l->usable - s->position);
    TRY(trains_itself(l) ? step_together(l, n, stopped) : step(l, n));
    fit_trace_add(l, FIT_STEP, begun);
    if (!*stopped) TRY(fit_between_steps(l, s->step - 1, s->position == l->usable, stopped));
  }
  return trains_itself(l) ? part(l) : NULL;
}

static shoal_status run(fit_loop *l, bool *stopped) {
  const fit_state *s = &l->state;
  const bool shared = l->strategy && !trains_itself(l);
  TRY(shared && !l->data ? fit_stream_run(l, stopped)
      : shared           ? fit_shared_run(l, stopped)
      : l->data          ? run_memory(l, stopped)
                         : run_stream(l, stopped));
  if (l->options->checkpoint_dir && l->saved_step != s->step) {
    fit_wait_for_writer(l); /* so that the last one is not left out */
    fit_checkpoint(l, false);
  }
  return NULL;
}

/* ---- the whole */

static shoal_status fit(fit_loop *l, shoal_fit_result *result) {
  const shoal_fit_options *o = l->options;
  shoal_model *m = l->model;
  TRY(model_ready(m));
  TRY(fit_check_options(o, l->data != NULL));
  if (o->stream && l->strategy && (!m->sparse || trains_itself(l)))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "fit: a stream of dense rows is trained on by one process; the strategy %s needs "
                       "the data in memory",
                       l->strategy->kind->name);
  if (l->data) TRY(model_check_data(m, l->data));
  if (l->data) TRY(model_adopt_class_names(m, l->data->class_names));
  if (l->data) TRY(model_adopt_preprocessing(m, l->data->preprocessing));
  if (o->validation) TRY(status_wrap(model_check_data(m, o->validation), "validation data"));
  if (o->test) TRY(status_wrap(model_check_data(m, o->test), "test data"));
  if (l->data)
    TRY(fit_cut(l));
  else
    fit_cut_stream(l);
  TRY(fit_write_settings(l));
  if (l->data) TRY(model_tower(m, l->data->features.dtype, l->data->labels.dtype, &l->tower));
  if (!l->data) TRY(fit_stream_tower(l));
  TRY(fit_saved_init(m, &l->state, &l->saved));
  size_t bytes = 0;
  for (int i = 0; i < l->saved.n; i++) bytes += shoal_tensor_bytes(&l->saved.entries[i].tensor);
  if (o->checkpoint_dir && bytes >= LARGE_CHECKPOINT) TRY(snapshot_create(&l->writer));
  if (l->data && (!o->keep_order || l->split)) {
    l->order = calloc((size_t)l->rows, sizeof *l->order);
    if (!l->order) return status_no_memory();
  }
  bool resumed = false;
  if (o->resume && is_chief(l)) {
    TRY(fit_resume(l, &resumed));
    if (!resumed) fit_note(l, "no checkpoint to resume from: starting from the beginning");
  }
  int64_t from = resumed ? l->state.step : -1;
  session_guard(m->session, l->tower->loss);
  TRY(make_fetches(l));
  if (m->sparse) {
    l->rates = calloc((size_t)(l->chunk / l->batch), sizeof *l->rates);
    if (!l->rates) return status_no_memory();
  }
  if (l->data)
    TRY(prepare(l));
  else if (l->strategy)
    TRY(fit_stream_begin(l));
  else
    TRY(fit_open_stream(l, l->state.step ? l->state.input : NULL, false, &l->pipeline));
  if (l->strategy && l->data) TRY(fit_shared_begin(l));

  bool stopped = false;
  TRY(fit_trace_label(l));
  if (o->callbacks.on_inspect && o->callbacks.inspect_every > 0) TRY(fit_inspect_create(l, &l->inspect));
  l->start = l->last_progress = clock_seconds();
  TRY(run(l, &stopped));
  bool restored;
  TRY(take_best(l, stopped, &restored));
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
      .input_wait_seconds = l->input_seconds,
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
  r.times = times_of(l, r.seconds);
  if (!l->data) r.examples = s->examples + s->position;
  if (l->pipeline) {
    shoal_pipeline_statistics n;
    shoal_pipeline_count(l->pipeline, &n);
    r.dropped_examples = n.dropped_rows / MAX_OF(s->epoch, 1);
    r.bad_rows = n.bad_rows;
  }
  int64_t an_epoch = l->data ? l->steps_per_epoch : MAX_OF(s->epoch_steps, s->last_steps);
  if (!is_together(l)) an_epoch /= l->strategy->workers; /* about as many are seen here */
  fit_state_recent(s, MAX_OF(an_epoch, 1), &r.final_loss, &r.train_accuracy);
  if (result) *result = r;
  return NULL;
}

shoal_status shoal_model_fit(shoal_model *m, const shoal_dataset *data, const shoal_fit_options *options,
                             shoal_fit_result *result) {
  static const shoal_fit_options standard = {.epochs = 1};
  fit_loop *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->model = m;
  l->data = data;
  l->options = options ? options : &standard;
  l->strategy = l->options->strategy;
  l->saved_step = -1;
  l->fresh = true;
  fit_state_init(&l->state);
  shoal_status status = fit(l, result);
  if (m->session) session_guard(m->session, NULL);
  shoal_pipeline_destroy(l->pipeline);
  fit_inspect_destroy(l->inspect);
  fit_wait_for_writer(l);
  snapshot_destroy(l->writer);
  fit_saved_fini(&l->saved);
  fit_best_fini(l);
  text_fini(&l->settings);
  free(l->order);
  free(l->split);
  free(l->fetches);
  free(l->got);
  free(l->rates);
  free(l->dense);
  sparse_set_fini(&l->spread);
  free(l);
  return status;
}
