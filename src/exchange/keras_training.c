/* What model.compile() was told, as settings of a model file: losses of the outputs, the optimizer and its rate. */
#include "base/mem.h"
#include "exchange/keras.h"
#include "train/loss.h"

#include <stdio.h>
#include <string.h>

static const char *text_at(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

/* ---- losses */

typedef struct {
  const char *names; /* in snake_case, between blanks: functions, and classes as such */
  const char *loss;  /* of ours; of one unit: */
  const char *of_one_unit;
} keras_loss;
static const keras_loss losses[] = {
    {" sparse_categorical_crossentropy categorical_crossentropy ", "softmax_cross_entropy", NULL},
    {" binary_crossentropy ", "binary_cross_entropy", "sigmoid_cross_entropy"},
    {" mse mean_squared_error ", "mse", NULL},
    {" mae mean_absolute_error ", "mae", NULL},
    {" huber ", "huber", NULL},
    {" poisson ", "poisson", NULL},
    {" kld kl_divergence kullback_leibler_divergence ", "kl_divergence", NULL},
    {" cosine_similarity ", "cosine_similarity", NULL},
    {" hinge ", NULL, "hinge"},
    {" categorical_hinge ", "categorical_hinge", NULL},
};

/* The name of a loss that is given by name, as a function, or as an object of a class. *options: its settings or NULL. */
static const char *loss_word(const json_t *loss, char room[KERAS_NAME], const json_t **options) {
  const char *class = text_at(loss, "class_name");
  *options = NULL;
  if (json_is_string(loss)) return json_string_value(loss);
  if (!class) return NULL;
  if (!strcmp(class, "function")) return text_at(loss, "config");
  *options = json_object_get(loss, "config");
  return keras_snake_case(class, room);
}

static const json_t *layer_called(const json_t *description, const char *name) {
  size_t i;
  json_t *layer;
  json_array_foreach (json_object_get(description, "layers"), i, layer)
    if (!strcmp(text_at(layer, "name"), name)) return layer;
  return NULL;
}

static bool has_number(const json_t *options, const char *name, double usual) {
  const json_t *v = json_object_get(options, name);
  return json_is_number(v) && json_number_value(v) != usual;
}

static shoal_status take_loss(const json_t *given, json_t *description, json_t *output, json_t *training, text *notes) {
  char room[KERAS_NAME], padded[KERAS_NAME + 2];
  const char *of = text_at(output, "layer"), *found = NULL;
  const json_t *options, *layer = layer_called(description, of);
  const char *word = loss_word(given, room, &options), *last = layer ? text_at(layer, "activation") : NULL;
  if (!given || json_is_null(given)) return NULL;
  const bool one = json_integer_value(json_object_get(layer, "units")) == 1;
  snprintf(padded, sizeof padded, " %.*s ", KERAS_NAME - 1, word ? word : "?");
  for (size_t i = 0; i < COUNT_OF(losses) && !found; i++)
    if (strstr(losses[i].names, padded)) found = one && losses[i].of_one_unit ? losses[i].of_one_unit : losses[i].loss;
  if (!found) {
    text_add(notes, "output '%s': the loss %s is left out: name one of ours to train it\n", of, word ? word : "?");
    return NULL;
  }
  const loss_kind *kind;
  TRY(loss_find(found, &kind));
  const bool softmax = layer && !strcmp(text_at(layer, "type"), "softmax");
  const bool logits = json_is_true(json_object_get(options, "from_logits"));
  const bool ends = kind->activation && ((last && !strcmp(last, kind->activation)) || (softmax && !one));
  if (kind->activation && logits == ends)
    text_add(notes, "output '%s': the loss %s takes what goes into a %s, which is not the model's last layer%s\n", of,
             word, kind->activation, logits ? " with from_logits=True" : "");
  if (has_number(options, "label_smoothing", 0))
    json_object_set(training, "label_smoothing", json_object_get(options, "label_smoothing"));
  if (has_number(options, "delta", 1)) text_add(notes, "output '%s': delta of the loss huber is 1 here\n", of);
  const char *reduction = text_at(options, "reduction");
  if (reduction && strcmp(reduction, "sum_over_batch_size") && strcmp(reduction, "mean"))
    text_add(notes, "output '%s': reduction '%s' of the loss is left out: the mean over rows is taken\n", of,
             reduction);
  const json_t *units = json_object_get(layer, "units");
  if (!kind->targets && json_array_size(json_object_get(description, "outputs")) == 1 && json_is_integer(units) &&
      json_object_set_new(description, "parameters",
                          json_pack("{s:I}", "classes", one ? (json_int_t)2 : json_integer_value(units))))
    return status_no_memory();
  return json_object_set_new(output, "loss", json_string(found)) ? status_no_memory() : NULL;
}

/* One for all outputs, or a list or an object with one for each. */
static const json_t *part_of(const json_t *all, size_t i, const char *name) {
  if (json_is_array(all)) return json_array_get(all, i);
  if (json_is_object(all) && !json_object_get(all, "class_name")) return json_object_get(all, name);
  return all;
}

static shoal_status take_losses(const json_t *compile, json_t *description, json_t *training, text *notes) {
  const json_t *given = json_object_get(compile, "loss"), *weights = json_object_get(compile, "loss_weights");
  size_t i;
  json_t *output;
  json_array_foreach (json_object_get(description, "outputs"), i, output) {
    const char *name = text_at(output, "layer");
    TRY(take_loss(part_of(given, i, name), description, output, training, notes));
    const json_t *weight = part_of(weights, i, name);
    if (json_is_number(weight) && json_object_set(output, "weight", (json_t *)weight)) return status_no_memory();
  }
  return NULL;
}

/* ---- the optimizer */

/* Attributes of all optimizers and of some: those of Keras and ours. */
static const char *const renamed[][2] = {
    {"weight_decay", "weight_decay"},
    {"clipnorm", "clip_norm"},
    {"global_clipnorm", "clip_global_norm"},
    {"clipvalue", "clip_value"},
    {"momentum", "momentum"},
    {"nesterov", "nesterov"},
    {"beta_1", "beta1"},
    {"beta_2", "beta2"},
    {"epsilon", "epsilon"},
    {"rho", "rho"},
    {"gradient_accumulation_steps", "accumulate"},
    {"initial_accumulator_value", "accumulator"},
};
/* What would make it learn otherwise. */
static const char *const others[] = {"amsgrad", "centered", "loss_scale_factor"};

static const char *optimizer_of(const char *class, const json_t *config) {
  static const char *const names[][2] = {{"SGD", "sgd"},         {"Adam", "adam"},       {"AdamW", "adamw"},
                                         {"Nadam", "nadam"},     {"Lion", "lion"},       {"Lamb", "lamb"},
                                         {"RMSprop", "rmsprop"}, {"Adagrad", "adagrad"}, {"Ftrl", "ftrl"}};
  for (size_t i = 0; class && i < COUNT_OF(names); i++)
    if (!strcmp(class, names[i][0]))
      return i == 0 && json_number_value(json_object_get(config, "momentum")) > 0 ? "momentum" : names[i][1];
  return NULL;
}

/* A number, or one of the schedules that we have, too. */
static void take_rate(const json_t *rate, json_t *training, text *notes) {
  const char *class = text_at(rate, "class_name");
  const json_t *config = json_object_get(rate, "config");
  if (json_is_number(rate)) {
    json_object_set(training, "lr", (json_t *)rate);
    return;
  }
  const json_t *start = json_object_get(config, "initial_learning_rate"),
               *steps = json_object_get(config, "decay_steps");
  if (json_is_number(start)) json_object_set(training, "lr", (json_t *)start);
  if (class && json_is_number(steps) && !strcmp(class, "ExponentialDecay")) {
    const bool stairs = json_is_true(json_object_get(config, "staircase"));
    json_object_set_new(training, "schedule", json_string(stairs ? "staircase" : "exponential"));
    json_object_set(training, "decay_factor", json_object_get(config, "decay_rate"));
    json_object_set_new(training, "decay_every", json_integer((json_int_t)json_number_value(steps)));
  } else if (class && json_is_number(steps) && !strcmp(class, "CosineDecay")) {
    json_object_set_new(training, "schedule", json_string("cosine"));
    json_object_set(training, "final_share", json_object_get(config, "alpha"));
    json_object_set_new(training, "decay_every", json_integer((json_int_t)json_number_value(steps)));
  } else {
    text_add(notes, "the learning rate's schedule %s is left out: say `schedule`\n", class ? class : "");
  }
}

static void take_optimizer(const json_t *given, json_t *training, text *notes) {
  const char *class = text_at(given, "class_name");
  const json_t *config = json_object_get(given, "config");
  if (json_is_string(given)) class = json_string_value(given);
  const char *name = optimizer_of(class, config);
  if (!name) {
    text_add(notes, "the optimizer %s is left out: adam trains the model unless `optimizer` says otherwise\n",
             class ? class : "");
    return;
  }
  json_object_set_new(training, "optimizer", json_string(name));
  take_rate(json_object_get(config, "learning_rate"), training, notes);
  for (size_t i = 0; i < COUNT_OF(renamed); i++) {
    json_t *v = json_object_get(config, renamed[i][0]);
    const bool off = !v || json_is_null(v) || json_is_false(v) || (json_is_number(v) && json_number_value(v) == 0);
    if (!off && (json_is_number(v) || json_is_true(v))) json_object_set(training, renamed[i][1], v);
  }
  if (json_is_true(json_object_get(config, "use_ema")))
    json_object_set(training, "average_weights", json_object_get(config, "ema_momentum"));
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    const json_t *v = json_object_get(config, others[i]);
    if (v && !json_is_null(v) && !json_is_false(v)) text_add(notes, "the optimizer's %s is left out\n", others[i]);
  }
}

shoal_status keras_training(const json_t *config, json_t *description, text *notes) {
  const json_t *compile = json_object_get(config, "compile_config");
  json_t *training = json_object();
  if (!training || json_object_set_new(description, "training", training)) return status_no_memory();
  if (!json_is_object(compile)) return NULL;
  TRY(take_losses(compile, description, training, notes));
  const json_t *optimizer = json_object_get(compile, "optimizer");
  if (optimizer && !json_is_null(optimizer)) take_optimizer(optimizer, training, notes);
  return NULL;
}
