/* What Keras' compile() is told of a model that was trained here. */
#include "base/mem.h"
#include "exchange/keras.h"
#include "train/layer.h"
#include "train/results.h"

#include <string.h>

static const char *const optimizer_classes[][2] = {
    {"sgd", "SGD"},   {"momentum", "SGD"}, {"adam", "Adam"},       {"adamw", "AdamW"},     {"nadam", "Nadam"},
    {"lion", "Lion"}, {"lamb", "Lamb"},    {"rmsprop", "RMSprop"}, {"adagrad", "Adagrad"}, {"ftrl", "Ftrl"}};

static const char *class_of(const char *optimizer) {
  for (size_t i = 0; i < COUNT_OF(optimizer_classes); i++)
    if (!strcmp(optimizer_classes[i][0], optimizer)) return optimizer_classes[i][1];
  return NULL;
}

static void set_unless_usual(json_t *config, const char *name, double value) {
  if (value > 0) json_object_set_new(config, name, json_real(value));
}

static json_t *optimizer_json(const shoal_compile_options *o) {
  const shoal_optimizer_options *p = &o->optimizer;
  const char *name = p->name ? p->name : "sgd", *class = class_of(name);
  if (!class) return NULL;
  json_t *config = json_pack("{s:f}", "learning_rate", o->schedule.rate);
  const bool betas = strstr(" adam adamw nadam lion lamb ", name) != NULL;
  if (!strcmp(name, "momentum")) {
    json_object_set_new(config, "momentum", json_real(p->momentum > 0 ? p->momentum : 0.9));
    json_object_set_new(config, "nesterov", json_boolean(p->nesterov));
  }
  if (betas) set_unless_usual(config, "beta_1", p->beta1);
  if (betas) set_unless_usual(config, "beta_2", p->beta2);
  if (strcmp(class, "SGD") && strcmp(class, "Lion") && strcmp(class, "Ftrl"))
    set_unless_usual(config, "epsilon", p->epsilon);
  if (!strcmp(name, "adagrad")) set_unless_usual(config, "initial_accumulator_value", p->accumulator);
  if (!strcmp(name, "rmsprop")) set_unless_usual(config, "rho", p->decay);
  if (!strcmp(name, "rmsprop")) set_unless_usual(config, "momentum", p->momentum);
  set_unless_usual(config, "weight_decay", p->weight_decay);
  set_unless_usual(config, "clipvalue", p->clip_value);
  set_unless_usual(config, "clipnorm", p->clip_norm);
  set_unless_usual(config, "global_clipnorm", p->clip_global_norm);
  return json_pack("{s:s, s:s, s:o, s:n}", "module", "keras.optimizers", "class_name", class, "config", config,
                   "registered_name");
}

/* The loss of an output, where Keras has it: a name or, if it takes what goes into the activation, a class. */
static json_t *loss_json(const model_result *r, double smoothing) {
  static const char *const classes[][3] = {
      {"softmax_cross_entropy", "sparse_categorical_crossentropy", "SparseCategoricalCrossentropy"},
      {"categorical_cross_entropy", "categorical_crossentropy", "CategoricalCrossentropy"},
      {"sigmoid_cross_entropy", "binary_crossentropy", "BinaryCrossentropy"},
      {"binary_cross_entropy", "binary_crossentropy", "BinaryCrossentropy"},
      {"mse", "mean_squared_error", NULL},
      {"mae", "mean_absolute_error", NULL},
      {"huber", "huber", NULL},
      {"poisson", "poisson", NULL},
      {"kl_divergence", "kl_divergence", NULL},
      {"cosine_similarity", "cosine_similarity", NULL},
      {"hinge", "hinge", NULL},
  };
  const char *name = loss_name(r->loss), *last = r->from->layer ? layer_activation(r->from->layer) : "";
  const bool softmax = r->from->layer && !strcmp(r->from->layer->kind->name, "softmax");
  for (size_t i = 0; i < COUNT_OF(classes); i++) {
    if (strcmp(classes[i][0], name)) continue;
    const bool inside = r->loss->activation && strcmp(last, r->loss->activation) && !softmax;
    if (!classes[i][2] || (!inside && smoothing == 0)) return json_string(classes[i][1]);
    json_t *config = json_pack("{s:b}", "from_logits", inside);
    if (smoothing > 0 && i) json_object_set_new(config, "label_smoothing", json_real(smoothing));
    return json_pack("{s:s, s:s, s:o, s:n}", "module", "keras.losses", "class_name", classes[i][2], "config", config,
                     "registered_name");
  }
  return NULL;
}

json_t *keras_compile_json(const shoal_model *m, const shoal_compile_options *o) {
  json_t *optimizer = optimizer_json(o), *losses = json_array(), *weights = json_array();
  bool good = optimizer && m->n_results;
  for (size_t i = 0; i < m->n_results && good; i++) {
    json_t *loss = loss_json(&m->results[i], o->label_smoothing);
    good = loss && !json_array_append_new(losses, loss) &&
           !json_array_append_new(weights, json_real(m->results[i].weight));
  }
  if (!good) {
    json_decref(optimizer);
    json_decref(losses);
    json_decref(weights);
    return NULL;
  }
  json_t *only = json_array_size(losses) == 1 ? json_incref(json_array_get(losses, 0)) : json_incref(losses);
  json_t *share = json_array_size(losses) == 1 ? json_null() : json_incref(weights);
  json_decref(losses);
  json_decref(weights);
  return json_pack("{s:o, s:o, s:o, s:n, s:n, s:b, s:i, s:b}", "optimizer", optimizer, "loss", only, "loss_weights",
                   share, "metrics", "weighted_metrics", "run_eagerly", 0, "steps_per_execution", 1, "jit_compile", 0);
}
