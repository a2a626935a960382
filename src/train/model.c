#include "train/model.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/layer.h"
#include "train/model_graph.h"
#include "train/model_ids.h"
#include "train/optimizer.h"
#include "train/results.h"
#include "train/strategy.h"

#include <stdio.h>
#include <string.h>

shoal_status shoal_model_create(shoal_shape input, shoal_model **out) {
  char have[SHOAL_SHAPE_TEXT];
  bool fine = input.rank >= 1 && input.rank < SHOAL_MAX_RANK;
  for (int i = 0; fine && i < input.rank; i++) fine = input.dim[i] > 0;
  if (!fine)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the shape of one example cannot be %s; 1 to %d dimensions above 0 are "
                       "expected, e.g. [28,28,1]",
                       shoal_shape_text(&input, have), SHOAL_MAX_RANK - 1);
  shoal_model *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  m->input = input;
  shoal_output *first;
  shoal_status status = shoal_graph_create(&m->graph);
  if (!status) status = model_add_input(m, "input", input, &first);
  if (status) {
    shoal_model_destroy(m);
    return status;
  }
  *out = m;
  return NULL;
}

shoal_status shoal_model_create_sparse(int64_t features, shoal_model **out) {
  if (features < 1 || features > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "a feature space of %lld: 1 to %d features are possible",
                       (long long)features, INT32_MAX);
  TRY(shoal_model_create(SHOAL_SHAPE(features), out));
  (*out)->sparse = true;
  return NULL;
}

void model_grow_elsewhere(shoal_model *m) {
  m->grows = true;
  m->features = m->input.dim[0];
}

void model_shrink_table(shoal_model *m, int64_t rows) {
  if (rows >= m->input.dim[0]) rows = m->input.dim[0] + 1; /* one more than are ever touched: see ps_table.h */
  m->features = m->input.dim[0];
  m->input.dim[0] = rows;
}

shoal_status model_entry(shoal_model *m, shoal_value *variable, safetensors_item *out) {
  const char *name = shoal_value_name(variable);
  if (m->elsewhere && m->elsewhere->entry(m->elsewhere->context, name, out)) return NULL;
  safetensors_item item = {.name = name};
  TRY(session_variable_now(m->session, variable, &item.tensor));
  *out = item;
  return NULL;
}

void shoal_model_destroy(shoal_model *m) {
  if (!m) return;
  if (m->elsewhere) m->elsewhere->detach(m->elsewhere->context);
  model_ids_destroy(m->ids);
  shoal_session_destroy(m->session);
  for (size_t i = 0; i < m->n_towers; i++) {
    free(m->towers[i]->gradients);
    free(m->towers[i]);
  }
  free(m->towers);
  for (size_t i = 0; i < m->n_calls; i++) {
    free(m->calls[i]->inputs);
    free(m->calls[i]);
  }
  free(m->calls);
  for (size_t i = 0; i < m->n_layers; i++) layer_destroy(m->layers[i]);
  free(m->layers);
  for (size_t i = 0; i < m->n_inputs; i++) free(m->inputs[i].name);
  free(m->inputs);
  for (size_t i = 0; i < m->n_results; i++) {
    free(m->results[i].name);
    free(m->results[i].loss_name);
  }
  free(m->results);
  for (size_t i = 0; i < m->n_figures; i++) free(m->figures[i].name);
  free(m->figures);
  for (int i = 0; m->own_metrics && i < m->options.own_metric_count; i++) free((char *)m->own_metrics[i].name);
  free(m->own_metrics);
  graph_source_destroy(m->source);
  free(m->weights);
  json_decref(m->start);
  json_decref(m->bias);
  shoal_graph_destroy(m->graph);
  free((char *)m->options.optimizer.name);
  free((char *)m->options.schedule.name);
  free((char *)m->options.kernels);
  free((int64_t *)m->options.schedule.boundaries);
  free((double *)m->options.schedule.rates);
  free((double *)m->options.class_weights);
  free((void *)m->class_names);
  free(m->preprocessing);
  shoal_status_free(m->error);
  free(m);
}

/* ---- compiling */

#define TABLE_ROWS (1 << 20) /* that a batch of a model may touch whose table is on servers */

static shoal_status copy_text(const char **field) {
  if (!*field) return NULL;
  *field = strdup(*field);
  return *field ? NULL : status_no_memory();
}

/* What is left 0 is filled in. Fields that point somewhere are cleared before the first copy can fail, so that destroy
 * frees only copies. */
static shoal_status copy_options(shoal_compile_options *to, const shoal_compile_options *from) {
  *to = *from;
  if (from->schedule.rate == 0) to->schedule.rate = shoal_optimizer_rate(from->optimizer.name);
  to->optimizer.name = to->schedule.name = to->kernels = to->loss = NULL; /* the loss is m->loss */
  to->strategy = NULL;                                                    /* it was borrowed */
  to->schedule.boundaries = NULL;
  to->schedule.rates = NULL;
  to->class_weights = NULL;
  to->own_metrics = NULL; /* the model has them */
  if (from->class_weights) {
    const size_t bytes = (size_t)MAX_OF(from->class_weight_count, 1) * sizeof *from->class_weights;
    double *copy = malloc(bytes);
    if (!copy) return status_no_memory();
    to->class_weights = memcpy(copy, from->class_weights, bytes);
  }
  if (from->schedule.pieces > 0) {
    size_t n = (size_t)from->schedule.pieces;
    int64_t *boundaries = calloc(n, sizeof *boundaries);
    double *rates = calloc(n, sizeof *rates);
    to->schedule.boundaries = boundaries;
    to->schedule.rates = rates;
    if (!boundaries || !rates) return status_no_memory();
    memcpy(boundaries, from->schedule.boundaries, n * sizeof *boundaries);
    memcpy(rates, from->schedule.rates, n * sizeof *rates);
  }
  to->optimizer.name = from->optimizer.name;
  TRY(copy_text(&to->optimizer.name));
  to->schedule.name = from->schedule.name;
  TRY(copy_text(&to->schedule.name));
  to->kernels = from->kernels;
  return copy_text(&to->kernels);
}

/* Adds the weights of a role; returns how many there are then. */
static int add_weights(const shoal_model *m, weight_role role, shoal_value **list, int n) {
  for (size_t i = 0; i < m->n_weights; i++)
    if (m->weights[i].role == role) list[n++] = m->weights[i].variable;
  return n;
}

shoal_status model_exchanged(const shoal_model *m, shoal_value ***out, int *n_trained, int *n) {
  shoal_value **list = calloc(m->n_weights + 1, sizeof *list);
  if (!list) return status_no_memory();
  *n_trained = add_weights(m, WEIGHT_TRAINED, list, 0);
  *n = add_weights(m, WEIGHT_STATE, list, *n_trained);
  *out = list;
  return NULL;
}

shoal_status model_weights(const shoal_model *m, bool trained_only, shoal_value ***out, int *n) {
  shoal_value **list = calloc(m->n_weights + 1, sizeof *list);
  if (!list) return status_no_memory();
  *n = 0;
  for (size_t i = 0; i < m->n_weights; i++)
    if (m->weights[i].role == WEIGHT_TRAINED || !trained_only) list[(*n)++] = m->weights[i].variable;
  *out = list;
  return NULL;
}

/* All layers, each behind those it uses. x: the inputs. */
static void apply_layers(branch *b, shoal_value *const *x) {
  shoal_model *m = b->model;
  for (size_t i = 0; i < m->n_calls; i++) {
    shoal_output *c = m->calls[i];
    if (c->layer) {
      call_apply(b, c, results_loss_of(m, c));
    } else {
      c->value = x[c->number];
      c->mask = NULL;
    }
  }
}

/* cross-entropy + l2 * sum over the decayed weights of sum(w^2) / 2 */
static shoal_value *with_l2(shoal_model *m, shoal_value *loss) {
  shoal_graph *g = m->graph;
  shoal_value *sum = NULL;
  if (m->options.l2 == 0 || m->sparse) return loss; /* of sparse rows the update sees to it, for what it touches */
  for (size_t i = 0; i < m->n_weights; i++) {
    if (!m->weights[i].decayed) continue;
    shoal_value *one = shoal_l2_loss(g, m->weights[i].variable);
    sum = sum ? shoal_add(g, sum, one) : one;
  }
  return sum ? shoal_add(g, loss, shoal_scale(g, sum, m->options.l2)) : loss;
}

/* Gives biases a rate of their own. To sgd and momentum a gradient times k is a rate times k, and a gradient is what
 * every strategy hands on, whoever applies it. */
static void scale_bias_gradients(shoal_model *m, shoal_value *const *trained, int n, shoal_gradient *gradients) {
  if (m->options.bias_rate == 0 || m->options.bias_rate == 1) return;
  for (size_t i = 0; i < m->n_weights; i++)
    for (int j = 0; j < n; j++)
      if (trained[j] == m->weights[i].variable && !m->weights[i].decayed && gradients[j].value)
        gradients[j].value = shoal_scale(m->graph, gradients[j].value, m->options.bias_rate);
}

static shoal_value *mean(shoal_graph *g, const char *name, shoal_value *x) {
  shoal_name_next(g, name);
  return shoal_reduce_mean(g, x, SHOAL_SCALAR, false);
}

static shoal_value *sum(shoal_graph *g, const char *name, shoal_value *x) {
  shoal_name_next(g, name);
  return shoal_reduce_sum(g, x, SHOAL_SCALAR, false);
}

/* Each row times the weight of its class. */
static shoal_value *weigh_classes(const shoal_model *m, const tower *t, shoal_value *losses) {
  const shoal_compile_options *o = &m->options;
  shoal_graph *g = m->graph;
  if (!o->class_weights) return losses;
  shoal_tensor all = shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(o->class_weight_count), (void *)o->class_weights);
  shoal_value *weights = shoal_cast(g, shoal_constant(g, &all), SHOAL_F32);
  return shoal_mul(g, losses, shoal_gather(g, weights, shoal_cast(g, t->y, SHOAL_I32)));
}

/* Each row times its own weight. */
static shoal_value *weigh_rows(const shoal_model *m, const tower *t, shoal_value *losses) {
  return t->weights ? shoal_mul(m->graph, losses, t->weights) : losses;
}

/* The optimizer's update of the trained weights, and the changes of the averages. */
static shoal_status build_update(shoal_model *m, tower *t, shoal_value **exchanged, int n_trained, int n) {
  shoal_graph *g = m->graph;
  shoal_optimizer_options optimizer = m->options.optimizer;
  if (m->sparse) optimizer.l2 = m->options.l2;
  TRY(optimizer_apply(g, &optimizer, exchanged, t->gradients, n_trained, m->rate, &t->update));
  if (n == n_trained) return NULL;
  shoal_value **all = calloc((size_t)(n - n_trained) + 1, sizeof *all);
  if (!all) return status_no_memory();
  int count = 0;
  for (int i = n_trained; i < n; i++) all[count++] = shoal_assign_add(g, exchanged[i], t->gradients[i].value);
  all[count++] = t->update;
  t->update = shoal_group(g, all, count);
  free(all);
  return NULL;
}

/* What the step adds to a moving average: the sum over all calls of its layer. */
static shoal_value *change_of(const branch *b, const shoal_value *state) {
  shoal_value *sum = NULL;
  for (size_t i = 0; i < b->n_changes; i++)
    if (b->changes[i].state == state)
      sum = sum ? shoal_add(b->model->graph, sum, b->changes[i].change) : b->changes[i].change;
  return sum ? sum : shoal_fill(b->model->graph, SHOAL_F32, state->shape, 0);
}

static shoal_status build_training(shoal_model *m, tower *t, const branch *b) {
  shoal_graph *g = m->graph;
  shoal_status status = NULL;
  shoal_value **exchanged = NULL;
  int n_trained, n;
  shoal_value *right, *losses = weigh_rows(m, t, weigh_classes(m, t, results_losses(m, t, &right)));
  t->loss = with_l2(m, mean(g, m->loss->targets ? "error" : "cross_entropy", losses));
  if (right) t->accuracy = mean(g, "accuracy", right);
  TRY(shoal_graph_status(g));
  TRY(model_exchanged(m, &exchanged, &n_trained, &n));
  if (!n_trained)
    TRY_GOTO(status, status_make(SHOAL_ERR_ARGUMENT, "the model has no weights: add a dense or conv2d layer"), done);
  t->gradients = calloc((size_t)n, sizeof *t->gradients);
  if (!t->gradients) TRY_GOTO(status, status_no_memory(), done);
  TRY_GOTO(status, optimizer_gradients(g, t->loss, exchanged, n_trained, t->gradients), done);
  scale_bias_gradients(m, exchanged, n_trained, t->gradients);
  for (int i = n_trained; i < n; i++) t->gradients[i].value = change_of(b, exchanged[i]);
  TRY_GOTO(status, build_update(m, t, exchanged, n_trained, n), done);
  status = shoal_graph_status(g);
done:
  free(exchanged);
  return status;
}

static shoal_status build_inference(shoal_model *m, tower *t, shoal_value *const *x) {
  shoal_graph *g = m->graph;
  branch b = {.model = m, .tower = t, .number = ++m->n_branches};
  apply_layers(&b, x);
  shoal_value *outputs = m->results[0].from->value;
  t->predictions = results_predictions(m);
  if (model_is_binary(m)) {
    shoal_name_next(g, "scores");
    t->scores = shoal_reshape(g, outputs, SHOAL_SHAPE(SHOAL_UNKNOWN));
  }
  shoal_value *right, *losses = results_measure(m, t, &right);
  t->eval_loss = sum(g, "loss_sum", losses);
  if (right) t->hits = sum(g, "hits", right);
  if (m->options.top_k > 0 && !m->loss->targets && !m->loss->one_unit)
    t->top_hits = sum(g, "top_hits", shoal_in_top_k(g, outputs, t->y, m->options.top_k));
  return shoal_graph_status(g);
}

static shoal_value *make_placeholder(shoal_model *m, tower *t) {
  shoal_graph *g = m->graph;
  shoal_shape batch = {m->input.rank + 1, {SHOAL_UNKNOWN}};
  memcpy(batch.dim + 1, m->input.dim, (size_t)m->input.rank * sizeof *batch.dim);
  if (!m->sparse) return shoal_placeholder(g, "input", t->features, batch);
  shoal_value *offsets = shoal_placeholder(g, "offsets", SHOAL_I64, SHOAL_SHAPE(SHOAL_UNKNOWN));
  t->indices = shoal_placeholder_ragged(g, "indices", SHOAL_I32, offsets);
  t->values = shoal_placeholder_ragged(g, "values", SHOAL_F32, offsets);
  if (model_needs_fields(m)) t->fields = shoal_placeholder_ragged(g, "fields", SHOAL_I32, offsets);
  return offsets;
}

/* Pixels are from 0 to 1; numbers of words stay as they are. */
static shoal_value *make_numbers(shoal_model *m, const tower *t, const model_input *in, shoal_value *x) {
  if (t->features != SHOAL_U8) return x;
  shoal_value *numbers = shoal_cast(m->graph, x, SHOAL_F32);
  return in->integers ? numbers : shoal_scale(m->graph, numbers, 1 / 255.0);
}

/* The inputs as layers take them: several are side by side in one row. */
static void split_inputs(shoal_model *m, const tower *t, shoal_value **x) {
  shoal_graph *g = m->graph;
  int64_t at = 0;
  for (size_t i = 0; i < m->n_inputs; i++) {
    const model_input *in = &m->inputs[i];
    shoal_value *part = t->x;
    if (m->n_inputs > 1) {
      const int64_t own = shoal_shape_count(&in->shape);
      shoal_shape shape = {in->shape.rank + 1, {SHOAL_UNKNOWN}};
      memcpy(shape.dim + 1, in->shape.dim, (size_t)in->shape.rank * sizeof *shape.dim);
      part = shoal_reshape(g, shoal_slice(g, t->x, SHOAL_SHAPE(0, at), SHOAL_SHAPE(-1, own)), shape);
      at += own;
    }
    x[i] = make_numbers(m, t, in, part);
  }
}

/* Both branches. How wide labels are is known once the layers are there. */
static shoal_status build_both(shoal_model *m, tower *t, branch *training, shoal_value *const *x) {
  shoal_graph *g = m->graph;
  shoal_scope_push(g, "train");
  apply_layers(training, x);
  shoal_scope_pop(g);
  TRY(shoal_graph_status(g));
  TRY(results_take(m));
  t->y = shoal_placeholder(g, "labels", t->labels,
                           m->loss->targets ? SHOAL_SHAPE(SHOAL_UNKNOWN, m->targets) : SHOAL_SHAPE(SHOAL_UNKNOWN));
  if (t->weighted) t->weights = shoal_placeholder(g, "weights", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_scope_push(g, "train");
  shoal_status status = build_training(m, t, training);
  shoal_scope_pop(g);
  if (status) return status;
  shoal_scope_push(g, "infer");
  status = build_inference(m, t, x);
  shoal_scope_pop(g);
  return status;
}

static shoal_status build_branches(shoal_model *m, tower *t, branch *training) {
  t->x = make_placeholder(m, t);
  shoal_value **x = calloc(m->n_inputs, sizeof *x);
  if (!x) return status_no_memory();
  split_inputs(m, t, x);
  shoal_status status = build_both(m, t, training, x);
  free(x);
  return status;
}
static shoal_status build_tower(shoal_model *m, tower *t) {
  shoal_graph *g = m->graph;
  /* Names depend on the types alone, not on the order in which towers are made: random numbers hang on them. */
  bool named = t->weighted || (!m->sparse && (t->features != SHOAL_U8 || t->labels != SHOAL_U8));
  char scope[48];
  snprintf(scope, sizeof scope, "%s_%s%s", shoal_dtype_name(t->features), shoal_dtype_name(t->labels),
           t->weighted ? "_weighted" : "");
  if (named) shoal_scope_push(g, scope);
  branch training = {.model = m, .tower = t, .training = true, .number = ++m->n_branches};
  shoal_status status = build_branches(m, t, &training);
  free(training.changes);
  if (named) shoal_scope_pop(g);
  return status;
}

shoal_status model_tower(shoal_model *m, shoal_dtype features, shoal_dtype labels, bool weighted, tower **out) {
  for (size_t i = 0; i < m->n_towers; i++)
    if (m->towers[i]->features == features && m->towers[i]->labels == labels && m->towers[i]->weighted == weighted) {
      *out = m->towers[i];
      return NULL;
    }
  TRY(mem_grow((void **)&m->towers, &m->cap_towers, m->n_towers + 1, sizeof(tower *)));
  tower *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->features = features;
  t->labels = labels;
  t->weighted = weighted;
  shoal_status status = build_tower(m, t);
  if (status) {
    free(t->gradients);
    free(t);
    return status;
  }
  m->towers[m->n_towers++] = t;
  *out = t;
  return NULL;
}

shoal_status model_any_tower(shoal_model *m, shoal_dtype features, tower **out) {
  return model_tower(m, features, m->loss->targets ? SHOAL_F32 : m->sparse ? SHOAL_I32 : SHOAL_U8, false, out);
}

int model_fields_end(const shoal_model *m) {
  int64_t end = 0;
  for (size_t i = 0; m->sparse && i < m->n_layers; i++) {
    const json_t *config = m->layers[i]->config;
    const int64_t fields = json_integer_value(json_object_get(config, "fields"));
    if (fields > 0) end = MAX_OF(end, fields + json_integer_value(json_object_get(config, "first_field")));
  }
  return (int)end;
}

bool model_needs_fields(const shoal_model *m) { return model_fields_end(m) > 0; }

/* Labels come last: scores need none. */
int tower_feed_sparse(const tower *t, const shoal_batch *b, shoal_feed feeds[TOWER_FEEDS_MAX]) {
  int n = 0;
  feeds[n++] = (shoal_feed){t->x, b->offsets};
  feeds[n++] = (shoal_feed){t->indices, b->indices};
  feeds[n++] = (shoal_feed){t->values, b->values};
  if (t->fields) feeds[n++] = (shoal_feed){t->fields, b->fields};
  if (t->weights) feeds[n++] = (shoal_feed){t->weights, b->weights};
  feeds[n++] = (shoal_feed){t->y, b->labels};
  return n;
}

static shoal_status check_bias_rate(const shoal_compile_options *o) {
  if (!(o->bias_rate >= 0 && o->bias_rate < 1e30))
    return status_make(SHOAL_ERR_ARGUMENT, "bias_rate is %g: expected a multiple of the rate, at least 0",
                       o->bias_rate);
  const char *name = o->optimizer.name ? o->optimizer.name : "sgd";
  if (o->bias_rate == 0 || o->bias_rate == 1 || !strcmp(name, "sgd") || !strcmp(name, "momentum")) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT,
                     "bias_rate is %g: the optimizer %s has a single rate; use sgd or momentum, "
                     "or 1",
                     o->bias_rate, name);
}

/* An input that an embedding looks up is one of numbers of words. */
static void find_integers(shoal_model *m) {
  for (size_t i = 0; i < m->n_calls; i++) {
    const shoal_output *c = m->calls[i];
    if (!c->layer || strcmp(c->layer->kind->name, "embedding")) continue;
    if (!c->inputs[0]->layer) m->inputs[c->inputs[0]->number].integers = true;
  }
}

/* Rows of several inputs have all their numbers side by side. */
static void pack_inputs(shoal_model *m) {
  int64_t all = 0;
  for (size_t i = 0; i < m->n_inputs; i++) all += shoal_shape_count(&m->inputs[i].shape);
  if (m->n_inputs > 1) m->input = SHOAL_SHAPE(all);
}

static shoal_status copy_metrics(shoal_model *m, const shoal_compile_options *from) {
  const int n = from->own_metric_count;
  if (n < 0 || (n && !from->own_metrics)) return status_make(SHOAL_ERR_ARGUMENT, "own_metric_count is %d", n);
  if (!(m->own_metrics = calloc((size_t)n + 1, sizeof *m->own_metrics))) return status_no_memory();
  for (int i = 0; i < n; i++) {
    m->own_metrics[i] = from->own_metrics[i];
    m->own_metrics[i].name = NULL;
    if (!from->own_metrics[i].name || !from->own_metrics[i].rows)
      return status_make(SHOAL_ERR_ARGUMENT, "own_metrics[%d] needs a name and a function", i);
    if (!(m->own_metrics[i].name = strdup(from->own_metrics[i].name))) return status_no_memory();
  }
  return NULL;
}

static shoal_status compile(shoal_model *m, const shoal_compile_options *options) {
  TRY(shoal_schedule_check(&options->schedule));
  if (!(options->l2 >= 0 && options->l2 < 1e30))
    return status_make(SHOAL_ERR_ARGUMENT, "l2 is %g: expected a weight of at least 0", options->l2);
  if (!m->n_layers) return status_make(SHOAL_ERR_ARGUMENT, "the model has no layers");
  TRY(check_bias_rate(options));
  if (m->sparse && options->optimizer.average > 0)
    return status_make(SHOAL_ERR_ARGUMENT, "averages of the weights are for models of dense rows: leave out average");
  find_integers(m);
  pack_inputs(m);
  TRY(copy_options(&m->options, options));
  TRY(copy_metrics(m, options));
  m->rate = shoal_placeholder(m->graph, "rate", SHOAL_F32, SHOAL_SCALAR);
  TRY(results_find_losses(m, options));
  tower *t;
  TRY(model_any_tower(m, m->sparse ? SHOAL_F32 : SHOAL_U8, &t));
  shoal_session_options session = {
      .threads = options->threads, .seed = options->seed, .kernels = options->kernels, .no_fusion = options->no_fusion};
  TRY(shoal_session_create(m->graph, &session, &m->session));
  session_race(m->session, options->race);
  if (!options->growing_ids) return NULL;
  if (!m->sparse || options->race || options->strategy || options->optimizer.average > 0)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "growing ids are for a model of sparse rows in one process, without race and averages of weights");
  return model_ids_create(m);
}

shoal_status shoal_model_compile(shoal_model *m, const shoal_compile_options *options) {
  shoal_compile_options given;
  TRY(OPTIONS_TAKE(&given, options));
  if (m->compiled) return status_make(SHOAL_ERR_ARGUMENT, "the model is compiled already");
  m->compiled = true;
  if (given.strategy && given.strategy->table && m->sparse) model_shrink_table(m, TABLE_ROWS);
  graph_source_set_loss(m, &given);
  if (!m->error) m->error = compile(m, &given);
  return m->error ? model_ready(m) : NULL;
}

shoal_status model_ready(const shoal_model *m) {
  if (m->error) return status_make(shoal_status_code(m->error), "%s", shoal_status_message(m->error));
  if (!m->compiled) return status_make(SHOAL_ERR_ARGUMENT, "the model is not compiled: call shoal_model_compile first");
  return NULL;
}

/* ---- looking at it */

/* Of one layer, with those inside it; NULL: of all. */
int64_t model_count_parameters(const shoal_model *m, const layer *l) {
  int64_t n = 0;
  for (size_t i = 0; i < m->n_weights; i++) {
    const weight *w = &m->weights[i];
    const bool own = !l || w->owner == l || (w->owner && (w->owner == l->inner[0] || w->owner == l->inner[1]));
    if (own && w->role == WEIGHT_TRAINED) n += shoal_shape_count(&w->variable->shape);
  }
  return n;
}

int64_t shoal_model_parameters(const shoal_model *m) {
  int64_t n = model_count_parameters(m, NULL);
  for (size_t i = 0; m->features && !m->grows && i < m->n_weights; i++)
    if (m->weights[i].table) n += (m->features - m->input.dim[0]) * m->weights[i].variable->shape.dim[1];
  return n;
}

shoal_shape shoal_model_input(const shoal_model *m) { return m->input; }
bool shoal_model_is_sparse(const shoal_model *m) { return m->sparse; }
int shoal_model_threads(const shoal_model *m) { return m->session ? pool_threads(m->session->threads) : 0; }
shoal_graph *shoal_model_graph(shoal_model *m) { return m->graph; }
shoal_session *shoal_model_session(shoal_model *m) { return m->session; }

/* A batch of one example. */
static shoal_shape with_one(const shoal_value *v) {
  shoal_shape s = v->shape;
  for (int i = 0; i < s.rank; i++)
    if (s.dim[i] == SHOAL_UNKNOWN) s.dim[i] = 1;
  return s;
}

static double node_flops(const node *n) {
  enum { MOST = 64 };
  shoal_shape in[MOST], out[OP_MAX_OUTPUTS];
  shoal_dtype in_dtype[MOST], out_dtype[OP_MAX_OUTPUTS];
  double flops = 0;
  if (n->op->flags & (OP_SOURCE | OP_VIEW) || n->ins > MOST || n->outs > OP_MAX_OUTPUTS) return 0;
  for (int i = 0; i < n->ins; i++) {
    in[i] = with_one(n->in[i]);
    in_dtype[i] = n->in[i]->dtype;
  }
  for (int i = 0; i < n->outs; i++) {
    out[i] = with_one(&n->out[i]);
    out_dtype[i] = n->out[i].dtype;
  }
  const op_shapes s = {n->ins, n->outs, in, in_dtype, n->attr, out, out_dtype};
  if (!n->op->cost) return (double)shoal_shape_count(&out[0]);
  n->op->cost(&s, &flops);
  return flops;
}

/* What a layer computes for one example, where a call of it is applied. */
static double call_flops(const shoal_model *m, const shoal_output *c) {
  double sum = 0;
  for (int i = c->first_node; m->session && i < c->end_node; i++) sum += node_flops(m->graph->nodes[i]);
  return sum;
}

shoal_status shoal_model_describe_json(const shoal_model *m, char **out) {
  json_t *layers = json_array();
  char shape[SHOAL_SHAPE_TEXT];
  for (size_t i = 0; i < m->n_calls; i++) {
    const shoal_output *c = m->calls[i];
    if (!c->layer) continue;
    const int64_t parameters = c->number ? 0 : model_count_parameters(m, c->layer);
    json_array_append_new(
        layers, json_pack("{s:s, s:s, s:s, s:I, s:f}", "name", c->layer->name, "activation", layer_activation(c->layer),
                          "output", m->session ? shoal_shape_text(&c->shape, shape) : "?", "parameters",
                          (json_int_t)parameters, "flops", call_flops(m, c)));
  }
  return json_text(json_pack("{s:o, s:I}", "layers", layers, "parameters", (json_int_t)shoal_model_parameters(m)), 0,
                   out);
}

char *shoal_model_describe(const shoal_model *m) {
  text t = {0};
  char shape[SHOAL_SHAPE_TEXT];
  double all = 0;
  text_add(&t, "%-24s %-18s %12s %14s\n", "layer", "output", "parameters", "flops/example");
  text_add(&t, "%-24s %-18s %12s\n", "input", shoal_shape_text(&m->input, shape), "");
  for (size_t i = 0; i < m->n_calls; i++) {
    const shoal_output *c = m->calls[i];
    if (!c->layer) continue;
    char name[160];
    const char *act = layer_activation(c->layer);
    snprintf(name, sizeof name, "%s%s%s%s", c->layer->name, *act ? " (" : "", act, *act ? ")" : "");
    const double flops = call_flops(m, c);
    all += flops;
    text_add(&t, "%-24s %-18s %12lld %14.0f\n", name, m->session ? shoal_shape_text(&c->shape, shape) : "?",
             (long long)(c->number ? 0 : model_count_parameters(m, c->layer)), flops);
  }
  text_add(&t, "%-24s %-18s %12lld %14.0f\n", "total", "", (long long)shoal_model_parameters(m), all);
  if (!t.failed) return t.data;
  text_fini(&t);
  return NULL;
}
