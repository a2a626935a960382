/* Steps on sparse rows: so short that a chunk of the stream, many batches, is trained on in one go. What comes out is
 * the same as if each batch were a run of its own. */
#include "exec/session.h"
#include "train/fit_loop.h"

#include <math.h>

#define MOST_FEEDS (TOWER_MOST_FEEDS + 1)
#define MOST_MEANS 3 /* fetches of a step that makes its own update */

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

shoal_status fit_sparse_steps(fit_loop *l) {
  fit_state *s = &l->state;
  const shoal_schedule *schedule = &l->model->options.schedule;
  const int64_t rows = l->now->count, steps = (rows + l->batch - 1) / l->batch;
  for (int64_t i = 0; i < steps; i++) l->rates[i] = (float)shoal_schedule_at(schedule, s->step + i);
  shoal_feed feeds[MOST_FEEDS];
  double means[MOST_MEANS];
  int n_feeds = tower_feed_sparse(l->tower, l->now, feeds);
  feeds[n_feeds++] = (shoal_feed){l->model->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(steps), l->rates)};
  shoal_session_set_step(l->model->session, (uint64_t)s->step);
  shoal_status status =
      session_run_steps(l->model->session, feeds, n_feeds, l->fetches, l->n_fetches, l->batch, means);
  if (shoal_status_code(status) == SHOAL_ERR_NUMERIC) {
    feeds[n_feeds - 1].tensor.shape = SHOAL_SCALAR;
    return fit_explain_bad_loss(l, status, feeds, n_feeds, s->step, (double)l->rates[0]);
  }
  TRY(status_wrap(status, "step %lld", (long long)s->step));
  bool measured = !l->model->options.no_train_accuracy;
  fit_count_losses(l, rows, means[GOT_LOSS] * (double)rows, measured ? means[GOT_ACCURACY] * (double)rows : NAN);
  s->step += steps;
  s->epoch_steps += steps;
  s->position += rows;
  l->run_examples += rows;
  l->worker_examples += rows;
  l->worker_steps += steps;
  l->progress.rate = (double)l->rates[steps - 1];
  return fit_test_if_due(l, rows);
}
