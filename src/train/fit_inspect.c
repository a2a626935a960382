/* A look at weights and gradients between two steps: the gradients are fetched by a run of their own, on the rows of
 * the step to come and with its random numbers, so that the step itself is the same with and without. */
#include "train/fit_loop.h"

#include "graph/graph.h"

struct fit_inspect {
  const fit_loop *loop;
  int n, n_fetches;
  const char **names;      /* [n] */
  shoal_tensor *weights;   /* [n] views of the variables */
  shoal_tensor *gradients; /* [n] */
  shoal_value **fetches;   /* [n_fetches] the dense gradients */
  shoal_tensor *got;       /* [n_fetches] */
  int *weight_of;          /* [n_fetches] */
};

/* Async, the steps of all workers are no measure: others may take the ones that are due. */
static bool is_due(const fit_loop *l, const train_batch *b) {
  const int64_t step = l->strategy->updates ? b->step : l->compute.runs;
  return step % l->options->callbacks.inspect_every == 0;
}

static shoal_status look(void *inspector, const train_batch *b, const shoal_feed *feeds, int n_feeds) {
  fit_inspect *i = inspector;
  const fit_loop *l = i->loop;
  const shoal_callbacks *c = &l->options->callbacks;
  if (!is_due(l, b)) return NULL;
  if (i->n_fetches) TRY(shoal_session_run(l->model->session, feeds, n_feeds, i->fetches, i->n_fetches, i->got));
  for (int k = 0; k < i->n_fetches; k++) i->gradients[i->weight_of[k]] = i->got[k];
  shoal_inspection seen = {
      .step = b->step, .count = i->n, .names = i->names, .weights = i->weights, .gradients = i->gradients};
  c->on_inspect(c->context, &seen);
  return NULL;
}

shoal_status fit_inspect_create(fit_loop *l, fit_inspect **out) {
  shoal_value **weights;
  int n;
  TRY(model_weights(l->model, true, &weights, &n));
  size_t count = (size_t)n;
  fit_inspect *i = calloc(1, sizeof *i);
  shoal_status status = i ? NULL : status_no_memory();
  if (!status) {
    i->n = n;
    i->loop = l;
    i->names = calloc(count, sizeof *i->names);
    i->weights = calloc(count, sizeof *i->weights);
    i->gradients = calloc(count, sizeof *i->gradients);
    i->fetches = calloc(count, sizeof *i->fetches);
    i->got = calloc(count, sizeof *i->got);
    i->weight_of = calloc(count, sizeof *i->weight_of);
    if (!i->names || !i->weights || !i->gradients || !i->fetches || !i->got || !i->weight_of)
      status = status_no_memory();
  }
  for (int k = 0; k < n && !status; k++) {
    i->names[k] = shoal_value_name(weights[k]);
    status = shoal_session_variable(l->model->session, weights[k], &i->weights[k]);
    const shoal_gradient *g = &l->tower->gradients[k];
    if (!g->value || g->indices) continue;
    i->weight_of[i->n_fetches] = k;
    i->fetches[i->n_fetches++] = g->value;
  }
  free(weights);
  if (status) fit_inspect_destroy(i);
  if (status) return status;
  l->compute.inspector = i;
  l->compute.inspect = look;
  *out = i;
  return NULL;
}

void fit_inspect_destroy(fit_inspect *i) {
  if (!i) return;
  free(i->names);
  free(i->weights);
  free(i->gradients);
  free(i->fetches);
  free(i->got);
  free(i->weight_of);
  free(i);
}
