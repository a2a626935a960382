#include "train/ps_local.h"

#include "base/mem.h"
#include "train/apply.h"

#include <math.h>
#include <string.h>

struct ps_local {
  apply apply;
  float *const *values; /* [apply.n] */
  int n_trained;
  float *vector;   /* [elements] a step's gradients; then distances */
  float *start;    /* [elements] the servers' parameters */
  float *momentum; /* [elements] room for the servers' */
};

void ps_local_terms(const ps_options *o, ps_terms *terms) {
  terms->optimizer = (shoal_optimizer_options){.name = o->outer_momentum > 0 ? "momentum" : "sgd",
                                               .momentum = o->outer_momentum,
                                               .nesterov = o->outer_momentum > 0};
  terms->schedule = (shoal_schedule){.name = "constant", .rate = o->outer_rate};
  terms->in_flight = 1;
}

shoal_status ps_local_create(shoal_model *m, float *const *values, int n_trained, float **gradients, float **slots,
                             ps_local **out) {
  ps_local *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->values = values;
  l->n_trained = n_trained;
  shoal_status status = apply_create(m, &l->apply);
  const size_t elements = (size_t)l->apply.elements;
  if (!status) {
    l->vector = calloc(elements, sizeof *l->vector);
    l->start = calloc(elements, sizeof *l->start);
    l->momentum = calloc(elements, sizeof *l->momentum);
    if (!l->vector || !l->start || !l->momentum) status = status_no_memory();
  }
  if (status) {
    ps_local_destroy(l);
    return status;
  }
  int64_t at = 0;
  for (int i = 0; i < l->apply.n; at += l->apply.counts[i++]) {
    gradients[i] = l->vector + at;
    slots[i] = l->momentum + at;
  }
  *out = l;
  return NULL;
}

void ps_local_destroy(ps_local *l) {
  if (!l) return;
  apply_fini(&l->apply);
  free(l->vector);
  free(l->start);
  free(l->momentum);
  free(l);
}

/* One step of this worker's own. */
static shoal_status make_step(ps_local *l, compute *c, const train_batch *b, double rate, ps_head *sum) {
  double loss, hits;
  TRY(compute_run(c, b, NULL, NULL));
  compute_losses(c, b->rows, &loss, &hits);
  if (!isfinite(loss))
    return compute_explain(c, b, status_make(SHOAL_ERR_NUMERIC, "the loss is %f", loss / (double)b->rows));
  sum->loss += loss;
  sum->hits += hits;
  const shoal_tensor *gradients = compute_gradients(c);
  float *to = l->vector;
  for (int i = 0; i < l->apply.n; to += l->apply.counts[i++])
    memcpy(to, gradients[i].data, (size_t)l->apply.counts[i] * sizeof *to);
  return apply_run(&l->apply, l->vector, rate);
}

static void read_start(const ps_local *l) {
  float *to = l->start;
  for (int i = 0; i < l->apply.n; to += l->apply.counts[i++])
    memcpy(to, l->values[i], (size_t)l->apply.counts[i] * sizeof *to);
}

/* How far the steps have come, against the direction of an update; of moving averages, what has changed. Back to the
 * parameters that they began with. */
static void take_distances(const ps_local *l) {
  const float *start = l->start;
  float *vector = l->vector;
  for (int i = 0; i < l->apply.n; start += l->apply.counts[i], vector += l->apply.counts[i], i++) {
    const float sign = i < l->n_trained ? 1 : -1;
    for (int64_t k = 0; k < l->apply.counts[i]; k++) vector[k] = sign * (start[k] - l->values[i][k]);
    memcpy(l->values[i], start, (size_t)l->apply.counts[i] * sizeof *start);
  }
}

shoal_status ps_local_compute(ps_local *l, compute *c, const train_batch *b, const ps_local_plan *plan, ps_head *out,
                              double *rate) {
  const shoal_schedule *schedule = &c->model->options.schedule;
  int64_t step = 0;
  read_start(l);
  for (int64_t at = 0; at < b->rows; at += plan->batch, step++) {
    train_batch one = *b;
    one.first += at;
    one.rows = MIN_OF(plan->batch, b->rows - at);
    one.number = b->number * plan->steps + step; /* no two draw the same random numbers */
    *rate = shoal_schedule_at(schedule, plan->done + step);
    TRY(make_step(l, c, &one, *rate, out));
  }
  take_distances(l);
  return NULL;
}
