/* The optimizer's state in model.weights.h5: datasets optimizer/vars/0, 1, 2 ... in the order in which Keras' optimizers make
 * their variables: the updates so far, the learning rate unless it is a schedule, averages of the weights, what accumulates
 * gradients, the slots of the trained weights, in the order of the layers; of Nadam the product of its momentums, which older
 * versions have before the slots. */
#include "exchange/keras_optimizer.h"

#include "base/mem.h"
#include "graph/graph.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"

#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define VARIABLE "optimizer/vars/%zu"
#define VARIABLE_TEXT 64
enum { SLOTS_MAX = 2 };

/* Of ftrl and lars Keras has others, or none. */
static const struct kind {
  const char *name, *class;
  const char *slots[SLOTS_MAX]; /* ours, in Keras' order */
  bool apart;                   /* one slot of all weights, then the other */
  bool product;                 /* a number more: Nadam's */
  bool signed_rate;             /* Keras' slot is ours times minus the rate */
} kinds[] = {
    {.name = "sgd", .class = "SGD"},
    {.name = "momentum", .class = "SGD", .slots = {"velocity"}, .signed_rate = true},
    {.name = "adam", .class = "Adam", .slots = {"m", "v"}},
    {.name = "adamw", .class = "AdamW", .slots = {"m", "v"}},
    {.name = "nadam", .class = "Nadam", .slots = {"m", "v"}, .product = true},
    {.name = "lion", .class = "Lion", .slots = {"m"}},
    {.name = "lamb", .class = "Lamb", .slots = {"m", "v"}},
    {.name = "rmsprop", .class = "RMSprop", .slots = {"mean_square", "momentum"}, .apart = true},
    {.name = "adagrad", .class = "Adagrad", .slots = {"accumulator"}},
};

static const struct kind *kind_of(const char *name) {
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (!strcmp(kinds[i].name, name ? name : "sgd")) return &kinds[i];
  return NULL;
}

/* RMSprop without momentum has no slot for it. */
static size_t count_slots(const struct kind *k, double momentum) {
  size_t n = 0;
  while (n < SLOTS_MAX && k->slots[n]) n++;
  return k->apart && momentum == 0 ? 1 : n;
}

/* The datasets of a state. */
typedef struct {
  size_t weights, slots; /* trained weights; slots of each */
  size_t average;        /* the first one; 0: there are none */
  size_t stride;         /* from one weight's average to the next one's */
  size_t product;        /* 0: there is none */
  size_t first, end;     /* of the slots; of all */
  bool apart;
} state_places;

static state_places lay_out(const struct kind *k, size_t weights, size_t slots, bool rate, bool average,
                            bool accumulates) {
  state_places l = {.weights = weights, .slots = slots, .apart = k->apart};
  size_t at = 1 + rate;
  l.stride = (size_t)average + accumulates;
  if (average) l.average = at;
  at += l.stride * weights;
  l.first = at;
  l.end = at + slots * weights;
  if (k->product) l.product = l.end++;
  return l;
}

static size_t place_of(const state_places *l, size_t which, size_t slot) {
  return l->first + (l->apart ? slot * l->weights + which : which * l->slots + slot);
}

/* ---- reading */

typedef struct {
  const hdf5_file *file;
  shoal_model *model;
  const keras_weight **trained; /* [n] the first row of each of Keras' weights */
  size_t n;
} slot_reader;

static const weight *weight_of(const shoal_model *m, const char *name) {
  for (size_t i = 0; i < m->n_weights; i++)
    if (!strcmp(shoal_value_name(m->weights[i].variable), name)) return &m->weights[i];
  return NULL;
}

static shoal_status read_dataset(const hdf5_file *f, size_t i, shoal_tensor *out) {
  char path[VARIABLE_TEXT];
  snprintf(path, sizeof path, VARIABLE, i);
  const hdf5_dataset *d = hdf5_find(f, path);
  if (!d) return status_make(SHOAL_ERR_INPUT, "%s of the optimizer's state is missing", path);
  return hdf5_read(f, d, out);
}

/* The slot of one weight, of which `part` may be a row of Keras' own; scale: what it is multiplied by. */
static shoal_status take_slot(const slot_reader *r, const keras_weight *part, const char *slot,
                              const shoal_tensor *from, double scale) {
  char *name = NULL;
  shoal_tensor to;
  if (asprintf(&name, "%s/%s", part->name, slot) < 0) return status_no_memory();
  const shoal_value *variable = shoal_graph_find(r->model->graph, name);
  shoal_status status = variable ? shoal_session_variable(r->model->session, variable, &to)
                                 : status_make(SHOAL_ERR_INTERNAL, "the optimizer has no slot '%s'", name);
  const int64_t count = status ? 0 : shoal_tensor_count(&to), all = shoal_tensor_count(from);
  const bool rows = part->row >= 0 && from->shape.rank == 2 && from->shape.dim[0] == 2;
  if (!status && all != (rows ? 2 * count : count))
    status = status_make(SHOAL_ERR_INPUT, "the optimizer's state of '%s' has %lld numbers, but the weight has %lld",
                         name, (long long)(rows ? all / 2 : all), (long long)count);
  for (int64_t i = 0; i < count && !status; i++)
    shoal_tensor_set(&to, i, scale * shoal_tensor_get(from, i + (rows ? part->row * count : 0)));
  free(name);
  return status;
}

/* A dataset into the slot of a weight of Keras, which may be two of ours. */
static shoal_status take_dataset(const slot_reader *r, size_t which, const char *slot, size_t place, double scale) {
  const keras_weight *first = r->trained[which];
  shoal_tensor from;
  TRY(read_dataset(r->file, place, &from));
  shoal_status status = take_slot(r, first, slot, &from, scale);
  if (!status && first->row == 0) status = take_slot(r, first + 1, slot, &from, scale);
  shoal_tensor_fini(&from);
  return status;
}

static shoal_status take_counter(const slot_reader *r, int64_t steps_an_update) {
  char name[OPTIMIZER_COUNTER];
  const char *counter = optimizer_counter(&r->model->options.optimizer, name);
  shoal_tensor made, to;
  TRY(read_dataset(r->file, 0, &made));
  const double updates =
      shoal_tensor_count(&made) == 1 ? floor(shoal_tensor_get(&made, 0) / (double)steps_an_update) : -1;
  shoal_tensor_fini(&made);
  if (!(updates >= 0 && updates < 9e15))
    return status_make(SHOAL_ERR_INPUT, "the optimizer's number of updates is not one");
  if (!counter) return NULL;
  TRY(shoal_session_variable(r->model->session, shoal_graph_find(r->model->graph, counter), &to));
  shoal_tensor_set(&to, 0, updates + 1);
  return NULL;
}

static bool is_true_or_number(const json_t *v) {
  return json_is_true(v) || (json_is_number(v) && json_number_value(v) != 0);
}

/* Whether a dataset is one number. */
static bool is_number(const hdf5_file *f, size_t i) {
  char path[VARIABLE_TEXT];
  snprintf(path, sizeof path, VARIABLE, i);
  const hdf5_dataset *d = hdf5_find(f, path);
  return d && d->shape.rank == 0;
}

static shoal_status read_state(const slot_reader *r, const struct kind *k, const json_t *config) {
  const shoal_optimizer_options *o = &r->model->options.optimizer;
  const json_t *accumulated = json_object_get(config, "gradient_accumulation_steps");
  const bool accumulates = is_true_or_number(accumulated),
             average = is_true_or_number(json_object_get(config, "use_ema"));
  const double momentum = json_number_value(json_object_get(config, "momentum"));
  const size_t slots = count_slots(k, momentum);
  state_places l =
      lay_out(k, r->n, slots, json_is_number(json_object_get(config, "learning_rate")), average, accumulates);
  const double rate = shoal_schedule_at(&r->model->options.schedule, 0);
  const double scale = k->signed_rate ? (rate > 0 ? -1 / rate : 0) : 1;
  if (l.product && is_number(r->file, l.first) && !is_number(r->file, l.first + slots)) l.first++;
  TRY(take_counter(r, accumulates ? (int64_t)json_number_value(accumulated) : 1));
  for (size_t i = 0; i < r->n; i++) {
    if (average && o->average > 0) TRY(take_dataset(r, i, OPTIMIZER_AVERAGE, l.average + i * l.stride, 1));
    for (size_t s = 0; s < slots; s++) TRY(take_dataset(r, i, k->slots[s], place_of(&l, i, s), scale));
  }
  return NULL;
}

/* The place of a weight's layer in the config of the model. */
static size_t layer_place(const json_t *config, const keras_weight *w) {
  const json_t *layers = json_object_get(json_object_get(config, "config"), "layers");
  const size_t n = strcspn(w->name, "/");
  size_t i = 0;
  for (; i < json_array_size(layers); i++) {
    const char *name = json_string_value(json_object_get(json_object_get(json_array_get(layers, i), "config"), "name"));
    if (name && strlen(name) == n && !strncmp(name, w->name, n)) break;
  }
  return i;
}

/* Keras' trained weights in their order, as those of ours that they are: layers in the order of the config, which is not always
 * that in which they were met. */
static shoal_status find_trained(slot_reader *r, const json_t *config, const keras_weights *weights) {
  r->trained = calloc(weights->n + 1, sizeof *r->trained);
  if (!r->trained) return status_no_memory();
  for (size_t i = 0; i < weights->n; i++) {
    const weight *w = weight_of(r->model, weights->list[i].name);
    if (!w || w->role != WEIGHT_TRAINED || weights->list[i].row > 0) continue;
    const size_t place = layer_place(config, &weights->list[i]);
    size_t at = r->n++;
    for (; at && layer_place(config, r->trained[at - 1]) > place; at--) r->trained[at] = r->trained[at - 1];
    r->trained[at] = &weights->list[i];
  }
  return NULL;
}

shoal_status keras_load_state(const json_t *config, const hdf5_file *file, const keras_weights *weights,
                              shoal_model *m) {
  const json_t *optimizer = json_object_get(json_object_get(config, "compile_config"), "optimizer"),
               *settings = json_object_get(optimizer, "config");
  const char *class = json_string_value(json_object_get(optimizer, "class_name"));
  const struct kind *k = kind_of(m->options.optimizer.name);
  const bool momentum = json_number_value(json_object_get(settings, "momentum")) > 0;
  if (!class || !k || strcmp(k->class, class) || !hdf5_find(file, "optimizer/vars/0")) return NULL;
  if (!strcmp(class, "SGD") && momentum != (k->slots[0] != NULL)) return NULL;
  if (is_true_or_number(json_object_get(settings, "amsgrad")) ||
      is_true_or_number(json_object_get(settings, "centered")))
    return NULL; /* more slots than ours */
  slot_reader r = {.file = file, .model = m};
  shoal_status status = find_trained(&r, config, weights);
  char last[VARIABLE_TEXT];
  snprintf(last, sizeof last, VARIABLE, (size_t)2);
  const bool built = k->slots[0] == NULL || hdf5_find(file, last); /* otherwise it was compiled, but never trained */
  if (!status && built) status = read_state(&r, k, settings);
  free(r.trained);
  return status;
}

/* ---- writing */

/* Has it slots, or, of an optimizer without, is it a checkpoint at all? */
static bool has_state(const safetensors *file, const char *sample) {
  return sample ? safetensors_find(file, sample) != NULL : json_object_get(safetensors_metadata(file), "step") != NULL;
}

static shoal_status open_state(const char *path, const char *sample, safetensors **out) {
  char *copy = strdup(path), *folder = NULL, *latest = NULL;
  *out = NULL;
  if (!copy) return status_no_memory();
  shoal_status status = safetensors_open(path, out);
  if (!status && has_state(*out, sample)) {
    free(copy);
    return NULL;
  }
  safetensors_close(*out);
  *out = NULL;
  if (!status && asprintf(&folder, "%s/checkpoints", dirname(copy)) < 0) {
    folder = NULL;
    status = status_no_memory();
  }
  if (!status) status = checkpoint_latest(folder, &latest, NULL);
  if (!status && latest) status = safetensors_open(latest, out);
  free(copy);
  free(folder);
  free(latest);
  return status;
}

/* Whether the file's weights are those that are written. */
static shoal_status same_weights(const keras_state *s, safetensors *file, bool *same) {
  *same = true;
  for (size_t i = 0; i < s->n && *same; i++)
    for (int k = 0; k < 2 && s->list[i].names[k] && *same; k++) {
      shoal_tensor now, there;
      const shoal_value *v = shoal_graph_find(s->graph, s->list[i].names[k]);
      TRY(shoal_session_variable(s->session, v, &now));
      const safetensors_entry *e = safetensors_find(file, s->list[i].names[k]);
      *same = e && e->dtype == now.dtype && shoal_shape_equal(&e->shape, &now.shape);
      if (!*same) break;
      TRY(shoal_tensor_create(now.dtype, now.shape, &there));
      shoal_status status = safetensors_read(file, s->list[i].names[k], &there);
      *same = !status && !memcmp(there.data, now.data, shoal_tensor_bytes(&now));
      shoal_tensor_fini(&there);
      TRY(status);
    }
  return NULL;
}

static shoal_status add(keras_state *s, size_t place, shoal_tensor t) {
  char *path = NULL;
  if (asprintf(&path, VARIABLE, place) < 0) {
    shoal_tensor_fini(&t);
    return status_no_memory();
  }
  return s->add(s->context, path, t);
}

static shoal_status add_number(keras_state *s, size_t place, shoal_dtype dtype, double value) {
  shoal_tensor t;
  TRY(shoal_tensor_create(dtype, SHOAL_SCALAR, &t));
  shoal_tensor_set(&t, 0, value);
  return add(s, place, t);
}

static shoal_status read_slot(const keras_variable *v, int part, const char *slot, safetensors *file,
                              const shoal_shape *shape, void *into) {
  char *name = NULL;
  if (asprintf(&name, "%s/%s", v->names[part], slot) < 0) return status_no_memory();
  shoal_tensor t = shoal_tensor_view(SHOAL_F32, *shape, into);
  shoal_status status = safetensors_read(file, name, &t);
  free(name);
  return status;
}

/* One slot of one of Keras' weights. */
static shoal_status add_slot(keras_state *s, size_t place, const keras_variable *v, const char *slot, safetensors *file,
                             double scale) {
  shoal_tensor t;
  TRY(shoal_tensor_create(SHOAL_F32, v->shape, &t));
  const shoal_value *own = shoal_graph_find(s->graph, v->names[0]);
  const shoal_shape shape = shoal_value_shape(own);
  shoal_status status = read_slot(v, 0, slot, file, &shape, t.data);
  if (!status && v->names[1]) status = read_slot(v, 1, slot, file, &shape, (float *)t.data + shoal_shape_count(&shape));
  for (int64_t i = 0; i < shoal_tensor_count(&t) && !status; i++) ((float *)t.data)[i] *= (float)scale;
  if (status) {
    shoal_tensor_fini(&t);
    return status;
  }
  return add(s, place, t);
}

static double nadam_product(double beta1, int64_t updates) {
  double product = 1;
  for (int64_t i = 1; i <= updates && product > 1e-30; i++) product *= beta1 * (1 - 0.5 * pow(0.96, (double)i));
  return product;
}

static shoal_status write_state(keras_state *s, const struct kind *k, const shoal_compile_options *o,
                                safetensors *file) {
  const json_t *metadata = safetensors_metadata(file);
  const char *step = json_string_value(json_object_get(metadata, "step"));
  const int64_t updates = step ? strtoll(step, NULL, 10) : 0;
  const size_t slots = count_slots(k, o->optimizer.momentum);
  const state_places l = lay_out(k, s->n, slots, true, false, false);
  TRY(add_number(s, 0, SHOAL_I64, (double)updates));
  TRY(add_number(s, 1, SHOAL_F32, o->schedule.rate));
  const double beta1 = o->optimizer.beta1 > 0 ? o->optimizer.beta1 : 0.9;
  if (l.product) TRY(add_number(s, l.product, SHOAL_F32, nadam_product(beta1, updates)));
  for (size_t i = 0; i < s->n; i++) {
    for (size_t n = 0; n < slots; n++)
      TRY(add_slot(s, place_of(&l, i, n), &s->list[i], k->slots[n], file, k->signed_rate ? -o->schedule.rate : 1));
  }
  return NULL;
}

shoal_status keras_save_state(keras_state *s, const shoal_compile_options *options, const char *path) {
  const struct kind *k = kind_of(options->optimizer.name);
  safetensors *file = NULL;
  bool same = false;
  char *sample = NULL;
  if (!k || !s->n || !path) return NULL;
  if (k->slots[0] && asprintf(&sample, "%s/%s", s->list[0].names[0], k->slots[0]) < 0) return status_no_memory();
  shoal_status status = open_state(path, sample, &file);
  const bool there = file && has_state(file, sample);
  free(sample);
  if (!status && there) status = same_weights(s, file, &same);
  if (!status && same) status = write_state(s, k, options, file);
  safetensors_close(file);
  return status;
}
