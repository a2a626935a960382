/* What layers of all types share: weights, being added to a model and applied. */
#include "base/mem.h"
#include "base/text.h"
#include "train/layer.h"
#include "train/model_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* That of the layer's result; recurrent layers have theirs inside. */
const char *layer_activation(const layer *l) {
  for (const layer_attr *a = l->kind->attrs; a && a->name; a++)
    if (a->kind == LAYER_ACTIVATION) return layer_has(l, a->name) ? layer_text(l, a->name) : "";
  return "";
}

/* ---- weights */

static const weight *find_weight(const shoal_model *m, const char *name) {
  for (size_t i = 0; i < m->n_weights; i++)
    if (!strcmp(shoal_value_name(m->weights[i].variable), name)) return &m->weights[i];
  return NULL;
}

/* initializer NULL: glorot_uniform. fan_in 0: not known. */
static shoal_value *layer_weight(branch *b, layer *l, const char *name, shoal_shape shape, const json_t *initializer,
                                 double fan_in, double fan_out, weight_role role, bool decayed) {
  shoal_model *m = b->model;
  shoal_graph *g = m->graph;
  char full[512], initial_name[540];
  snprintf(full, sizeof full, "%s/%s", l->name, name);
  const weight *known = find_weight(m, full);
  if (known) return known->variable;
  /* scope_push would free what it replaces, so the name is put together here. */
  char none[1] = "", *scope = g->scope;
  g->scope = none;
  snprintf(initial_name, sizeof initial_name, "%s/initial", full);
  shoal_name_next(g, initial_name);
  shoal_value *v = shoal_variable(g, full, initializer_make(g, initializer, shape, fan_in, fan_out));
  g->scope = scope;
  if (!v) return NULL;
  shoal_status status = mem_grow((void **)&m->weights, &m->cap_weights, m->n_weights + 1, sizeof *m->weights);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  if (role == WEIGHT_TRAINED && l->frozen) role = WEIGHT_FROZEN;
  m->weights[m->n_weights++] =
      (weight){.variable = v, .owner = l, .role = role, .decayed = decayed && role == WEIGHT_TRAINED};
  return v;
}

shoal_value *layer_kernel(branch *b, layer *l, const char *name, const char *initializer, shoal_shape shape,
                          double fan_in, double fan_out) {
  return layer_weight(b, l, name, shape, json_object_get(l->config, initializer), fan_in, fan_out, WEIGHT_TRAINED,
                      true);
}

shoal_value *layer_table(branch *b, layer *l, const char *name, const char *initializer, shoal_shape shape) {
  const shoal_model *m = b->model;
  json_t *zero = json_real(0);
  const json_t *start = m->features ? zero : json_object_get(l->config, initializer);
  shoal_value *v = layer_weight(b, l, name, shape, start, 0, 0, WEIGHT_TRAINED, true);
  json_decref(zero);
  for (size_t i = 0; v && i < m->n_weights; i++)
    if (m->weights[i].variable == v) m->weights[i].table = true;
  return v;
}

static shoal_value *filled(branch *b, layer *l, const char *name, shoal_shape shape, double fill, weight_role role) {
  json_t *number = json_real(fill);
  shoal_value *v = layer_weight(b, l, name, shape, number, 0, 0, role, false);
  json_decref(number);
  return v;
}

shoal_value *layer_filled(branch *b, layer *l, const char *name, shoal_shape shape, double fill) {
  return filled(b, l, name, shape, fill, WEIGHT_TRAINED);
}

shoal_value *layer_state(branch *b, layer *l, const char *name, shoal_shape shape, double fill) {
  return filled(b, l, name, shape, fill, WEIGHT_STATE);
}

shoal_value *layer_bias_shaped(branch *b, layer *l, const char *name, shoal_shape shape, double fan) {
  return layer_weight(b, l, name, shape, json_object_get(l->config, "bias_initializer"), fan, fan, WEIGHT_TRAINED,
                      false);
}

shoal_value *layer_bias(branch *b, layer *l, const char *name, int64_t units) {
  return layer_bias_shaped(b, l, name, SHOAL_SHAPE(units), (double)units);
}

shoal_value *layer_add_bias(branch *b, layer *l, shoal_value *x, int64_t units) {
  if (!layer_flag(l, "use_bias")) return x;
  return shoal_bias_add(b->model->graph, x, layer_bias(b, l, "bias", units));
}

void layer_change(branch *b, shoal_value *state, shoal_value *change) {
  shoal_status status = mem_grow((void **)&b->changes, &b->cap_changes, b->n_changes + 1, sizeof *b->changes);
  if (status)
    graph_fail(b->model->graph, status);
  else
    b->changes[b->n_changes++] = (struct state_change){state, change};
}

/* ---- applying */

void *layer_refuse(branch *b, const layer *l, const char *format, ...) {
  char why[512];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  graph_fail(b->model->graph, status_make(SHOAL_ERR_ARGUMENT, "layer %s: %s", l->name, why));
  return NULL;
}

bool layer_takes(branch *b, const layer *l, const shoal_value *x, int least, int most, const char *expected) {
  if (x->shape.rank >= least && x->shape.rank <= most) return true;
  char have[SHOAL_SHAPE_TEXT];
  layer_refuse(b, l, "its input is %s; expected %s", shoal_shape_text(&x->shape, have), expected);
  return false;
}

layer *layer_inner(branch *b, layer *l, int i, const char *name, const json_t *description) {
  if (l->inner[i]) return l->inner[i];
  json_t *attributes = json_copy((json_t *)description);
  const char *type = json_string_value(json_object_get(attributes, "type"));
  const layer_kind *kind = type ? layer_kind_find(type) : NULL;
  layer *inner = calloc(1, sizeof *inner);
  if (!inner || !kind || asprintf(&inner->name, "%s/%s", l->name, name) < 0) {
    graph_fail(b->model->graph, status_no_memory());
    free(inner);
    json_decref(attributes);
    return NULL;
  }
  inner->kind = kind;
  inner->frozen = l->frozen;
  json_object_del(attributes, "type");
  json_object_del(attributes, "name");
  shoal_status status = layer_config_check(kind, attributes, &inner->config);
  json_decref(attributes);
  if (!status) return l->inner[i] = inner;
  graph_fail(b->model->graph, status_wrap(status, "layer %s", inner->name));
  layer_destroy(inner);
  return NULL;
}

shoal_value *layer_apply_inner(branch *b, layer *l, layer_io *io) {
  shoal_value *y = l->kind->apply(b, l, io);
  return activation_apply(b->model->graph, layer_activation(l), y);
}

/* Masks go on as long as there are steps. */
static shoal_value *fitting_mask(shoal_value *mask, const shoal_value *y) {
  return mask && y->shape.rank >= 3 && y->shape.dim[1] == mask->shape.dim[1] ? mask : NULL;
}

/* Takes the status that stuck while the layer's nodes were made, and says which layer it was and what it was given. */
static void blame(const shoal_output *c, shoal_graph *g) {
  char who[512] = "";
  size_t at = 0;
  for (int i = 0; i < c->n_inputs && at < sizeof who; i++) {
    const shoal_output *in = c->inputs[i];
    char shape[SHOAL_SHAPE_TEXT];
    at += (size_t)snprintf(who + at, sizeof who - at, "%s%s %s", i ? ", " : "",
                           in->layer ? in->layer->name : in->model->inputs[in->number].name,
                           shoal_shape_text(&in->shape, shape));
  }
  const char *message = shoal_status_message(g->error), *name = c->layer->name;
  const size_t length = strlen(name);
  if (!strncmp(message, "layer ", 6) && !strncmp(message + 6, name, length) && message[6 + length] == ':')
    message += 6 + length + 2; /* it says so itself */
  shoal_status whole = status_make(shoal_status_code(g->error), "layer %s, applied to %s: %s", name, who, message);
  shoal_status_free(g->error);
  g->error = whole;
}

/* The activation at the end of a layer: of its own, or all that it is. */
static bool ends_with(const layer *l, const char *name) {
  if (!strcmp(l->kind->name, "softmax")) return !strcmp(name, "softmax") && layer_int(l, "axis") == -1;
  return !strcmp(layer_activation(l), name);
}

void call_apply(branch *b, shoal_output *c, const loss_kind *loss) {
  shoal_graph *g = b->model->graph;
  layer *l = c->layer;
  shoal_value *x[LAYER_INPUTS_MAX], *masks[LAYER_INPUTS_MAX];
  layer_io io = {.x = x, .masks = masks, .n = c->n_inputs};
  const bool failed = g->error != NULL; /* before */
  c->value = c->mask = NULL;
  for (int i = 0; i < c->n_inputs; i++) {
    x[i] = c->inputs[i]->value;
    masks[i] = c->inputs[i]->mask;
    if (!x[i]) return;
    if (!io.mask) io.mask = masks[i];
  }
  c->first_node = (int)g->count;
  shoal_scope_push(g, l->name);
  /* A softmax at the end, or the sigmoid of one unit, is left to the loss and to the probabilities. */
  const bool logits = loss && loss->activation && ends_with(l, loss->activation);
  const bool alone = logits && !strcmp(l->kind->name, "softmax"); /* the layer is nothing else */
  shoal_value *y = alone ? x[0] : l->kind->apply(b, l, &io);
  if (!logits) y = activation_apply(g, layer_activation(l), y);
  shoal_scope_pop(g);
  if (!y) {
    if (g->error && !failed) blame(c, g);
    return;
  }
  c->value = y;
  c->end_node = (int)g->count;
  c->mask = fitting_mask(io.mask, y);
  c->shape = shoal_shape_make(y->shape.rank - 1, y->shape.dim + 1);
}

void layer_destroy(layer *l) {
  if (!l) return;
  layer_destroy(l->inner[0]);
  layer_destroy(l->inner[1]);
  graph_source_destroy(l->source);
  json_decref(l->config);
  free(l->name);
  free(l);
}

/* ---- adding */

void model_fail(shoal_model *m, shoal_status status) {
  if (m->error)
    shoal_status_free(status);
  else
    m->error = status;
}

static bool name_taken(const shoal_model *m, const char *name) {
  for (size_t i = 0; i < m->n_layers; i++)
    if (!strcmp(m->layers[i]->name, name)) return true;
  return false;
}

/* "dense", "dense_1", ... */
static char *free_name(const shoal_model *m, const char *stem) {
  char *name = strdup(stem);
  for (int i = 1; name && name_taken(m, name); i++) {
    free(name);
    if (asprintf(&name, "%s_%d", stem, i) < 0) return NULL;
  }
  return name;
}

shoal_status model_add_layer(shoal_model *m, const char *type, const char *name, const char *stem,
                             const json_t *attributes, layer **out) {
  const layer_kind *kind;
  const char *called = name ? name : stem;
  if (m->compiled)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: layers cannot be added once the model is compiled", called);
  TRY(status_wrap(layer_kind_lookup(type, &kind), "layer %s", called));
  if (name && name_taken(m, name))
    return status_make(SHOAL_ERR_ARGUMENT, "two layers are called %s; give one of them another name", name);
  TRY(mem_grow((void **)&m->layers, &m->cap_layers, m->n_layers + 1, sizeof *m->layers));
  layer *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->kind = kind;
  l->name = name ? strdup(name) : free_name(m, stem);
  shoal_status status = l->name ? NULL : status_no_memory();
  if (!status) status = status_wrap(layer_config_check(kind, attributes, &l->config), "layer %s", called);
  if (status) {
    layer_destroy(l);
    return status;
  }
  *out = m->layers[m->n_layers++] = l;
  return NULL;
}

static shoal_status add_call(shoal_model *m, shoal_output call, shoal_output **out) {
  TRY(mem_grow((void **)&m->calls, &m->cap_calls, m->n_calls + 1, sizeof *m->calls));
  shoal_output *c = malloc(sizeof *c);
  if (!c) return status_no_memory();
  *c = call;
  *out = m->calls[m->n_calls++] = c;
  return NULL;
}

shoal_status model_call(shoal_model *m, layer *l, shoal_output *const *inputs, int n, shoal_output **out) {
  const layer_kind *k = l->kind;
  if (n < k->inputs_min || n > k->inputs_max) {
    char most[32] = "";
    if (k->inputs_max > k->inputs_min)
      snprintf(most, sizeof most, k->inputs_max == LAYER_INPUTS_MAX ? " or more" : " to %d", k->inputs_max);
    return status_make(SHOAL_ERR_ARGUMENT, "layer %s: %s takes %d%s inputs, not %d", l->name, k->name, k->inputs_min,
                       most, n);
  }
  for (int i = 0; i < n; i++)
    if (!inputs[i] || inputs[i]->model != m)
      return status_make(SHOAL_ERR_ARGUMENT, "layer %s: input %d is not of this model", l->name, i);
  shoal_output call = {.model = m, .layer = l, .number = l->calls, .n_inputs = n};
  call.inputs = calloc((size_t)n + 1, sizeof(shoal_output *));
  if (!call.inputs) return status_no_memory();
  memcpy(call.inputs, inputs, (size_t)n * sizeof(shoal_output *));
  shoal_status status = add_call(m, call, out);
  if (status) {
    free(call.inputs);
    return status;
  }
  l->calls++;
  for (int i = 0; i < n; i++) inputs[i]->used = true;
  return NULL;
}

shoal_status model_set_input(shoal_model *m, int i, const char *name, shoal_shape shape, bool integers) {
  shoal_output *out;
  if ((size_t)i == m->n_inputs) TRY(model_add_input(m, name, shape, &out));
  char *copy = strdup(name);
  if (!copy) return status_no_memory();
  free(m->inputs[i].name);
  m->inputs[i] = (model_input){copy, shape, integers};
  m->calls[i]->shape = shape;
  return NULL;
}

static shoal_status copy_word(const char *word, char **out) {
  *out = word ? strdup(word) : NULL;
  return word && !*out ? status_no_memory() : NULL;
}

shoal_status model_add_result(shoal_model *m, shoal_output *from, const char *name, const char *loss, double share) {
  TRY(mem_grow((void **)&m->results, &m->cap_results, m->n_results + 1, sizeof *m->results));
  model_result *r = &m->results[m->n_results];
  *r = (model_result){.from = from, .weight = share};
  m->n_results++;
  TRY(copy_word(name, &r->name));
  return copy_word(loss, &r->loss_name);
}

shoal_status model_add_input(shoal_model *m, const char *name, shoal_shape shape, shoal_output **out) {
  TRY(mem_grow((void **)&m->inputs, &m->cap_inputs, m->n_inputs + 1, sizeof *m->inputs));
  char *copy = strdup(name);
  if (!copy) return status_no_memory();
  m->inputs[m->n_inputs] = (model_input){.name = copy, .shape = shape};
  shoal_status status = add_call(m, (shoal_output){.model = m, .number = (int)m->n_inputs, .shape = shape}, out);
  if (status)
    free(copy);
  else
    m->n_inputs++;
  return status;
}
