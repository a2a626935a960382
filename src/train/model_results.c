/* What a model gives: its outputs, the loss of each, and figures beside those that every model has. */
#include "base/mem.h"
#include "base/text.h"
#include "train/layer.h"
#include "train/results.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX \
  16777216.0 /* classes beside numbers to be predicted are floats: above it not all whole ones are there */

/* ---- which losses */

/* One unit with a sigmoid; of sparse rows the last layer has to be one. */
static bool ends_binary(const shoal_output *from) {
  const layer *l = from->layer;
  const bool one = l && (from->model->sparse || json_integer_value(json_object_get(l->config, "units")) == 1);
  return one && !strcmp(layer_activation(l), "sigmoid");
}

static shoal_status check_loss(const shoal_model *m, const loss_kind *loss) {
  const double smoothing = m->options.label_smoothing;
  if (m->sparse && loss->targets)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the loss %s is for regression, but models of sparse rows are classifiers: make the rows dense",
                       loss_name(loss));
  if (m->sparse && !loss->smoothed)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the loss %s is for dense rows; models of sparse rows take sigmoid_cross_entropy",
                       loss_name(loss));
  if (smoothing > 0 && !loss->smoothed && m->n_results == 1)
    return status_make(SHOAL_ERR_ARGUMENT, "label_smoothing is %g: it is for cross-entropies, not for the loss %s",
                       smoothing, loss_name(loss));
  return NULL;
}

shoal_status results_find_losses(shoal_model *m, const shoal_compile_options *o) {
  if (!(o->label_smoothing >= 0 && o->label_smoothing < 1))
    return status_make(SHOAL_ERR_ARGUMENT, "label_smoothing is %g: expected a share from 0 to below 1",
                       o->label_smoothing);
  if (!m->n_results) TRY(model_add_result(m, model_last(m), NULL, NULL, 1));
  if (m->n_results > 1 && (o->loss || o->own_loss))
    return status_make(SHOAL_ERR_ARGUMENT, "the model has %zu outputs, each with a loss of its own: leave out `loss`",
                       m->n_results);
  for (size_t i = 0; i < m->n_results; i++) {
    model_result *r = &m->results[i];
    const char *name = o->loss ? o->loss : r->loss_name;
    r->loss = ends_binary(r->from) ? &loss_sigmoid_cross_entropy : &loss_softmax_cross_entropy;
    if (o->own_loss)
      r->loss = o->own_targets ? &loss_own_targets : &loss_own_classes;
    else if (name)
      TRY(loss_find(name, &r->loss));
    TRY(check_loss(m, r->loss));
  }
  m->loss = m->n_results > 1 ? &loss_several : m->results[0].loss;
  return NULL;
}

const loss_kind *results_loss_of(const shoal_model *m, const shoal_output *c) {
  for (size_t i = 0; i < m->n_results; i++)
    if (m->results[i].from == c) return c->used ? NULL : m->results[i].loss;
  return NULL;
}

/* ---- what the numbers mean */

static shoal_status check_shape(const model_result *r, const shoal_shape *s) {
  char have[SHOAL_SHAPE_TEXT];
  const bool any = r->loss->targets && !r->loss->activation; /* each number by itself: their shape does not matter */
  if (s->rank != 2 && (s->rank < 2 || !any))
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "the last layer gives %s; expected [batch, %s]: add a flatten layer before a dense one, and end with "
        "a dense layer with %s",
        shoal_shape_text(s, have), r->loss->targets ? "targets" : "classes",
        r->loss->targets ? "one unit per target" : "one unit per class and activation softmax");
  if (r->loss->one_unit && s->dim[1] != 1)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "the loss %s is for two classes and one unit, but the last layer has %lld: use softmax_cross_entropy",
        loss_name(r->loss), (long long)s->dim[1]);
  return NULL;
}

static shoal_status check_class_weights(const shoal_model *m) {
  const shoal_compile_options *o = &m->options;
  if (!o->class_weights) return NULL;
  if (m->loss->targets)
    return status_make(SHOAL_ERR_ARGUMENT, "class_weights: the loss %s is for regression, which has no classes",
                       loss_name(m->loss));
  if (o->class_weight_count != m->classes)
    return status_make(SHOAL_ERR_ARGUMENT, "there are %d class_weights for %lld classes", o->class_weight_count,
                       (long long)m->classes);
  for (int i = 0; i < o->class_weight_count; i++)
    if (!(o->class_weights[i] >= 0 && o->class_weights[i] < 1e30))
      return status_make(SHOAL_ERR_ARGUMENT, "class_weights[%d] is %g: expected at least 0", i, o->class_weights[i]);
  return NULL;
}

const char *result_name(const model_result *r) {
  return r->name ? r->name : r->from->layer ? r->from->layer->name : "output";
}

static shoal_status add_figure(shoal_model *m, const char *of, const char *what) {
  TRY(mem_grow((void **)&m->figures, &m->cap_figures, m->n_figures + 1, sizeof *m->figures));
  model_figure f = {.value = NAN};
  if (asprintf(&f.name, "%s%s%s", of, *what ? "_" : "", what) < 0) return status_no_memory();
  m->figures[m->n_figures++] = f;
  return NULL;
}

/* Of each of several outputs the loss, and how often it is right or how far it is off; metrics of one's own. */
static shoal_status name_figures(shoal_model *m) {
  if (m->n_figures) return NULL; /* of the tower before */
  for (size_t i = 0; i < m->n_results && m->n_results > 1; i++) {
    const model_result *r = &m->results[i];
    TRY(add_figure(m, result_name(r), "loss"));
    TRY(add_figure(m, result_name(r), loss_tells_right(r->loss) ? "accuracy" : "mae"));
  }
  for (int i = 0; i < m->options.own_metric_count; i++) TRY(add_figure(m, m->own_metrics[i].name, ""));
  return NULL;
}

shoal_status results_take(shoal_model *m) {
  m->outputs = m->targets = 0;
  for (size_t i = 0; i < m->n_results; i++) {
    model_result *r = &m->results[i];
    const shoal_shape s = shoal_value_shape(r->from->value);
    shoal_status status = check_shape(r, &s);
    if (status && m->n_results > 1) return status_wrap(status, "output %s", result_name(r));
    TRY(status);
    const shoal_shape one = shoal_shape_make(s.rank - 1, s.dim + 1);
    r->units = shoal_shape_count(&one);
    r->labels = r->loss->targets ? r->units : 1;
    if (r->loss == &loss_own_targets && m->options.own_labels > 0) r->labels = m->options.own_labels;
    m->outputs += r->units;
    m->targets += r->labels;
  }
  if (m->n_results == 1 && model_is_binary(m)) m->outputs = 2;
  m->classes = m->loss->targets ? 0 : m->outputs;
  TRY(name_figures(m));
  return check_class_weights(m);
}

shoal_status results_check_targets(const shoal_model *m, const float *row) {
  const float *y = row;
  for (size_t i = 0; i < m->n_results; i++) {
    const model_result *r = &m->results[i];
    const double classes = r->loss->one_unit ? 2 : (double)r->units;
    for (int64_t k = 0; k < r->labels; k++, y++) {
      if (!isfinite(*y)) return status_make(SHOAL_ERR_INPUT, "the target is %g; remove such rows", (double)*y);
      if (!r->loss->targets && !(*y >= 0 && (double)*y < fmin(classes, LABEL_MAX) && floorf(*y) == *y))
        return status_make(
            SHOAL_ERR_INPUT,
            "number %lld is %g, but it is the class of output %s, which are 0 to %.0f: labels stand side "
            "by side in the order of the outputs",
            (long long)(y - row), (double)*y, result_name(r), classes - 1);
    }
  }
  return NULL;
}

/* ---- nodes */

/* What a result's layer gives, as [batch, numbers]. */
static shoal_value *flat(shoal_graph *g, const model_result *r) {
  shoal_value *v = r->from->value;
  return v && v->shape.rank != 2 ? shoal_reshape(g, v, SHOAL_SHAPE(SHOAL_UNKNOWN, r->units)) : v;
}

static shoal_value *row_losses(const shoal_model *m, const model_result *r, shoal_value *labels, shoal_value **right) {
  const shoal_compile_options *o = &m->options;
  shoal_graph *g = m->graph;
  if (o->own_loss) {
    *right = NULL;
    shoal_value *rows = o->own_loss(o->own_context, g, r->from->value, labels);
    if (rows && rows->shape.rank != 1) {
      char have[SHOAL_SHAPE_TEXT];
      graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "own_loss gives %s; expected a number for each row, [batch]",
                                shoal_shape_text(&rows->shape, have)));
      return NULL;
    }
    if (r->loss == &loss_own_classes) *right = shoal_in_top_k(g, flat(g, r), labels, 1);
    return rows;
  }
  return loss_rows(r->loss, g, flat(g, r), labels, r->loss->smoothed ? o->label_smoothing : 0, right);
}

/* A number for each row: the mean distance from its targets. */
static shoal_value *row_errors(shoal_graph *g, const model_result *r, shoal_value *labels) {
  return shoal_reduce_mean(g, shoal_abs(g, shoal_sub(g, flat(g, r), labels)), SHOAL_SHAPE(1), false);
}

/* The labels of one of several results. */
static shoal_value *labels_of(shoal_graph *g, const model_result *r, shoal_value *all, int64_t at) {
  shoal_value *own = shoal_slice(g, all, SHOAL_SHAPE(0, at), SHOAL_SHAPE(-1, r->labels));
  if (r->loss->targets) return own;
  return shoal_cast(g, shoal_reshape(g, own, SHOAL_SHAPE(SHOAL_UNKNOWN)), SHOAL_I32);
}

typedef struct {
  shoal_value **list; /* [n] sums over the batch, [1] each */
  int n;
} figure_list;

static void add_sum(shoal_graph *g, figure_list *f, shoal_value *rows) {
  f->list[f->n++] = shoal_reshape(g, shoal_reduce_sum(g, rows, SHOAL_SCALAR, false), SHOAL_SHAPE(1));
}

static shoal_value *several_losses(const shoal_model *m, const tower *t, figure_list *f) {
  shoal_graph *g = m->graph;
  shoal_value *sum = NULL;
  int64_t at = 0;
  for (size_t i = 0; i < m->n_results; i++) {
    const model_result *r = &m->results[i];
    shoal_value *labels = labels_of(g, r, t->y, at), *right = NULL, *rows = row_losses(m, r, labels, &right);
    at += r->labels;
    if (f) {
      add_sum(g, f, rows);
      add_sum(g, f, right ? right : row_errors(g, r, labels));
    }
    if (r->weight != 1) rows = shoal_scale(g, rows, r->weight);
    sum = sum ? shoal_add(g, sum, rows) : rows;
  }
  return sum;
}

shoal_value *results_losses(const shoal_model *m, const tower *t, shoal_value **right) {
  *right = NULL;
  if (m->n_results > 1) return several_losses(m, t, NULL);
  return row_losses(m, &m->results[0], t->y, right);
}

shoal_value *results_measure(shoal_model *m, tower *t, shoal_value **right) {
  shoal_graph *g = m->graph;
  figure_list f = {calloc(m->n_figures + 1, sizeof(shoal_value *)), 0};
  shoal_value *rows = NULL;
  *right = NULL;
  if (!f.list) {
    graph_fail(g, status_no_memory());
    return NULL;
  }
  if (m->n_results > 1)
    rows = several_losses(m, t, &f);
  else
    rows = row_losses(m, &m->results[0], t->y, right);
  for (int i = 0; i < m->options.own_metric_count; i++) {
    const shoal_own_metric *own = &m->own_metrics[i];
    add_sum(g, &f, own->rows(own->context, g, m->results[0].from->value, t->y));
  }
  if (f.n) {
    shoal_name_next(g, "figures");
    t->figures = f.n > 1 ? shoal_concat(g, f.list, f.n, 0) : f.list[0];
  }
  free(f.list);
  return rows;
}

/* What an output predicts: probabilities, where its loss takes what goes into them. */
static shoal_value *predictions_of(const shoal_model *m, const model_result *r) {
  shoal_graph *g = m->graph;
  const bool inside = r->loss->activation && results_loss_of(m, r->from); /* the activation was left to the loss */
  if (m->n_results > 1 && r->loss->one_unit) return inside ? shoal_sigmoid(g, flat(g, r)) : flat(g, r);
  return r->loss->probabilities ? r->loss->probabilities(g, flat(g, r)) : flat(g, r);
}

shoal_value *results_predictions(const shoal_model *m) {
  shoal_graph *g = m->graph;
  if (m->n_results == 1) return predictions_of(m, &m->results[0]);
  shoal_value **all = calloc(m->n_results, sizeof *all);
  if (!all) {
    graph_fail(g, status_no_memory());
    return NULL;
  }
  for (size_t i = 0; i < m->n_results; i++) all[i] = predictions_of(m, &m->results[i]);
  shoal_name_next(g, "predictions");
  shoal_value *side_by_side = shoal_concat(g, all, (int)m->n_results, 1);
  free(all);
  return side_by_side;
}

/* ---- figures */

bool shoal_model_figure(const shoal_model *m, int i, const char **name, double *value) {
  if (i < 0 || (size_t)i >= m->n_figures) return false;
  *name = m->figures[i].name;
  *value = m->figures[i].value;
  return true;
}
