/* Layers applied to each other from C: the functions of shoal/train.h that take and give shoal_output. */
#include "base/json_read.h"
#include "base/mem.h"
#include "base/text.h"
#include "train/layer.h"

#include <string.h>

/* Errors stick to the model; NULL is what they give. */
static shoal_output *settle(shoal_model *m, shoal_status status, shoal_output *const *out) {
  if (!status) return out ? *out : NULL;
  model_fail(m, status);
  return NULL;
}

shoal_output *shoal_model_input_at(shoal_model *m, int i) {
  return i >= 0 && (size_t)i < m->n_inputs ? m->calls[i] : NULL;
}

static shoal_status add_input(shoal_model *m, const char *name, shoal_shape shape, shoal_output **out) {
  if (m->sparse) return status_make(SHOAL_ERR_ARGUMENT, "input %s: sparse rows are a model's only input", name);
  if (m->n_calls > m->n_inputs)
    return status_make(SHOAL_ERR_ARGUMENT, "input %s: add all inputs before the first layer", name);
  for (size_t i = 0; i < m->n_inputs; i++)
    if (!strcmp(m->inputs[i].name, name)) return status_make(SHOAL_ERR_ARGUMENT, "two inputs are called %s", name);
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] < 1) return status_make(SHOAL_ERR_ARGUMENT, "input %s: expected sizes above 0", name);
  return model_add_input(m, name, shape, out);
}

shoal_output *shoal_model_add_input(shoal_model *m, const char *name, shoal_shape shape) {
  shoal_output *out = NULL;
  return m->error ? NULL : settle(m, add_input(m, name, shape, &out), &out);
}

/* Takes `attributes`, in which "name" and "trainable" are of the layer. */
static shoal_status apply(shoal_model *m, const char *type, json_t *attributes, shoal_output *const *inputs, int n,
                          shoal_output **out) {
  const json_t *trainable = json_object_get(attributes, "trainable");
  const bool frozen = json_is_false(trainable);
  json_t *name = json_incref(json_object_get(attributes, "name"));
  json_object_del(attributes, "trainable");
  json_object_del(attributes, "name");
  layer *l;
  shoal_status status = model_add_layer(m, type, json_string_value(name), type, attributes, &l);
  if (!status) {
    l->frozen = frozen;
    status = model_call(m, l, inputs, n, out);
  }
  json_decref(name);
  json_decref(attributes);
  return status;
}

shoal_output *shoal_layer(shoal_model *m, const char *type, const char *attributes, shoal_output *const *inputs,
                          int n) {
  json_error_t error;
  shoal_output *out = NULL;
  if (m->error) return NULL;
  json_t *object = attributes ? json_read_words(attributes, JSON_REJECT_DUPLICATES, &error) : json_object();
  if (!json_is_object(object)) {
    json_decref(object);
    return settle(
        m,
        status_make(SHOAL_ERR_ARGUMENT, "layer %s: attributes are a JSON object, like {\"units\": 64}, not '%s'", type,
                    attributes ? attributes : ""),
        NULL);
  }
  return settle(m, apply(m, type, object, inputs, n, &out), &out);
}

shoal_output *shoal_layer_again(shoal_output *first, shoal_output *const *inputs, int n) {
  shoal_output *out = NULL;
  if (!first || !first->layer || first->model->error) return NULL;
  return settle(first->model, model_call(first->model, first->layer, inputs, n, &out), &out);
}

static json_t *text_or_null(const char *word) { return word ? json_string(word) : json_null(); }

shoal_output *shoal_layer_dense(shoal_output *x, int units, const char *activation) {
  shoal_output *out = NULL;
  if (!x || x->model->error) return NULL;
  json_t *attributes = json_pack("{s:i, s:o}", "units", units, "activation", text_or_null(activation));
  return settle(x->model, apply(x->model, "dense", attributes, &x, 1, &out), &out);
}

shoal_output *shoal_layer_conv2d(shoal_output *x, int filters, int size, int stride, shoal_padding padding,
                                 const char *activation) {
  shoal_output *out = NULL;
  if (!x || x->model->error) return NULL;
  json_t *attributes =
      json_pack("{s:i, s:i, s:i, s:s, s:o}", "filters", filters, "kernel_size", size, "strides", stride, "padding",
                padding == SHOAL_SAME ? "same" : "valid", "activation", text_or_null(activation));
  return settle(x->model, apply(x->model, "conv2d", attributes, &x, 1, &out), &out);
}

void shoal_model_set_output(shoal_model *m, shoal_output *from) {
  if (m->error || !from) return;
  if (from->model != m || !from->layer)
    model_fail(m, status_make(SHOAL_ERR_ARGUMENT, "the output of a model is one of its layers"));
  else if (m->n_results)
    model_fail(m, status_make(SHOAL_ERR_ARGUMENT, "the model has an output already"));
  else
    settle(m, model_add_result(m, from, NULL, NULL, 1), NULL);
}

shoal_status shoal_inputs_pack(const shoal_tensor *inputs, int n, shoal_tensor *out) {
  int64_t rows = n > 0 && inputs[0].shape.rank ? inputs[0].shape.dim[0] : 0, width = 0, at = 0;
  if (n < 1) return status_make(SHOAL_ERR_ARGUMENT, "no inputs are given");
  for (int i = 0; i < n; i++) {
    if (inputs[i].dtype != SHOAL_F32 || inputs[i].shape.rank < 1 || inputs[i].shape.dim[0] != rows || inputs[i].rows)
      return status_make(SHOAL_ERR_ARGUMENT, "input %d: f32 with %lld rows, one after the other, is expected", i,
                         (long long)rows);
    width += rows ? shoal_shape_count(&inputs[i].shape) / rows : 0;
  }
  shoal_tensor t;
  TRY(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(rows, width), &t));
  for (int i = 0; i < n && rows; i++) {
    const int64_t own = shoal_shape_count(&inputs[i].shape) / rows;
    for (int64_t r = 0; r < rows; r++)
      memcpy((float *)t.data + r * width + at, (const float *)inputs[i].data + r * own, (size_t)own * sizeof(float));
    at += own;
  }
  *out = t;
  return NULL;
}

/* ---- looking at the types */

const char *shoal_layer_type_at(int i) {
  const layer_kind *kind = layer_kind_at(i);
  return kind ? kind->name : NULL;
}

shoal_status shoal_layer_type_describe(const char *type, char **out) {
  const layer_kind *kind;
  TRY(layer_kind_lookup(type, &kind));
  text t = {0};
  text_add(&t, "%s: %s\n", kind->name, kind->summary);
  for (const layer_attr *a = kind->attrs; a && a->name; a++)
    text_add(&t, "  %-24s %s\n", a->name, a->standard ? a->standard : "must be given");
  if (t.failed) {
    text_fini(&t);
    return status_no_memory();
  }
  *out = t.data;
  return NULL;
}
