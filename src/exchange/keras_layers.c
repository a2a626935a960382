/* The table of Keras' classes, and their attributes. */
#include "base/json_text.h"
#include "base/mem.h"
#include "exchange/keras.h"
#include "train/layer.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DENSE "kernel bias?use_bias"
#define SEPARABLE "depthwise pointwise bias?use_bias"
#define NORM "gamma?scale beta?center"
#define HEADS                                                                                                      \
  "query_dense/query query_dense/query_bias?use_bias key_dense/key key_dense/key_bias?use_bias value_dense/value " \
  "value_dense/value_bias?use_bias output_dense/output output_dense/output_bias?use_bias"

static const keras_class classes[] = {
    {"dense", "Dense", DENSE, NULL},
    {"einsum_dense", "EinsumDense", "kernel bias?bias_axes", NULL},
    {"activation", "Activation", NULL, NULL},
    {"identity", "Identity", NULL, NULL},
    {"relu", "ReLU", NULL, NULL},
    {"leaky_relu", "LeakyReLU", NULL, NULL},
    {"elu", "ELU", NULL, NULL},
    {"prelu", "PReLU", "alpha", NULL},
    {"softmax", "Softmax", NULL, NULL},
    {"embedding", "Embedding", "embeddings", NULL},
    {"category_encoding", "CategoryEncoding", NULL, NULL},
    {"conv1d", "Conv1D", DENSE, NULL},
    {"conv2d", "Conv2D", DENSE, NULL},
    {"depthwise_conv1d", "DepthwiseConv1D", DENSE, NULL},
    {"depthwise_conv2d", "DepthwiseConv2D", DENSE, NULL},
    {"separable_conv1d", "SeparableConv1D", SEPARABLE, NULL},
    {"separable_conv2d", "SeparableConv2D", SEPARABLE, NULL},
    {"conv1d_transpose", "Conv1DTranspose", DENSE, " output_size groups "},
    {"conv2d_transpose", "Conv2DTranspose", DENSE, " output_size groups "},
    {"max_pooling1d", "MaxPooling1D", NULL, NULL},
    {"max_pooling2d", "MaxPooling2D", NULL, NULL},
    {"average_pooling1d", "AveragePooling1D", NULL, NULL},
    {"average_pooling2d", "AveragePooling2D", NULL, NULL},
    {"global_max_pooling1d", "GlobalMaxPooling1D", NULL, NULL},
    {"global_max_pooling2d", "GlobalMaxPooling2D", NULL, NULL},
    {"global_average_pooling1d", "GlobalAveragePooling1D", NULL, NULL},
    {"global_average_pooling2d", "GlobalAveragePooling2D", NULL, NULL},
    {"batch_normalization", "BatchNormalization", NORM " moving_mean moving_variance", NULL},
    {"layer_normalization", "LayerNormalization", NORM, NULL},
    {"rms_normalization", "RMSNormalization", "gamma", NULL},
    {"group_normalization", "GroupNormalization", NORM, NULL},
    {"unit_normalization", "UnitNormalization", NULL, NULL},
    {"rescaling", "Rescaling", NULL, NULL},
    {"normalization", "Normalization", NULL, NULL},
    {"simple_rnn", "SimpleRNN", "cell/kernel cell/recurrent cell/bias?use_bias", " reverse_output "},
    {"lstm", "LSTM", "cell/kernel cell/recurrent cell/bias?use_bias", " reverse_output "},
    {"gru", "GRU", "cell/kernel cell/recurrent cell/bias+recurrent_bias?use_bias", " reverse_output "},
    {"masking", "Masking", NULL, NULL},
    {"multi_head_attention", "MultiHeadAttention", HEADS, " use_causal_mask "},
    {"attention", "Attention", "scale?use_scale", " use_causal_mask "},
    {"flatten", "Flatten", NULL, NULL},
    {"reshape", "Reshape", NULL, NULL},
    {"permute", "Permute", NULL, NULL},
    {"repeat_vector", "RepeatVector", NULL, NULL},
    {"zero_padding1d", "ZeroPadding1D", NULL, NULL},
    {"zero_padding2d", "ZeroPadding2D", NULL, NULL},
    {"cropping1d", "Cropping1D", NULL, NULL},
    {"cropping2d", "Cropping2D", NULL, NULL},
    {"up_sampling1d", "UpSampling1D", NULL, NULL},
    {"up_sampling2d", "UpSampling2D", NULL, NULL},
    {"add", "Add", NULL, NULL},
    {"subtract", "Subtract", NULL, NULL},
    {"multiply", "Multiply", NULL, NULL},
    {"average", "Average", NULL, NULL},
    {"maximum", "Maximum", NULL, NULL},
    {"minimum", "Minimum", NULL, NULL},
    {"concatenate", "Concatenate", NULL, NULL},
    {"dot", "Dot", NULL, NULL},
    {"dropout", "Dropout", NULL, NULL},
    {"spatial_dropout1d", "SpatialDropout1D", NULL, NULL},
    {"spatial_dropout2d", "SpatialDropout2D", NULL, NULL},
    {"gaussian_noise", "GaussianNoise", NULL, NULL},
    {"gaussian_dropout", "GaussianDropout", NULL, NULL},
    {"alpha_dropout", "AlphaDropout", NULL, NULL},
    {"bidirectional", "Bidirectional", NULL, NULL},
    {"time_distributed", "TimeDistributed", NULL, NULL},
    {"identity", "ActivityRegularization", NULL, NULL},
};

const keras_class *keras_class_of(const char *name) {
  for (size_t i = 0; i < COUNT_OF(classes); i++)
    if (!strcmp(classes[i].name, name)) return &classes[i];
  return NULL;
}

/* Types that stand for images and sequences at once are those of images. */
const keras_class *keras_class_of_type(const char *type) {
  for (size_t i = 0; i < COUNT_OF(classes); i++)
    if (!strcmp(classes[i].type, type)) return &classes[i];
  return NULL;
}

const char *keras_snake_case(const char *name, char out[KERAS_NAME]) {
  size_t n = 0;
  for (const char *p = name; *p && n + 2 < KERAS_NAME; p++) {
    const bool upper = isupper((unsigned char)*p), word = upper && islower((unsigned char)p[1]);
    if (p > name && upper && (word || islower((unsigned char)p[-1])) && out[n - 1] != '_') out[n++] = '_';
    out[n++] = (char)tolower((unsigned char)*p);
  }
  out[n] = 0;
  return out;
}

/* ---- attributes */

static bool ends_with(const char *text_, const char *end) {
  size_t n = strlen(text_), k = strlen(end);
  return n >= k && !strcmp(text_ + n - k, end);
}

static const layer_attr *find_attr(const layer_kind *kind, const char *name) {
  for (const layer_attr *a = kind->attrs; a && a->name; a++)
    if (!strcmp(a->name, name)) return a;
  return NULL;
}

static shoal_status refuse(const char *owner, const keras_class *c, const char *name, const json_t *value,
                           const char *instead) {
  char *words = json_words(value, JSON_COMPACT | JSON_ENCODE_ANY);
  shoal_status status = status_make(SHOAL_ERR_INPUT, "layer '%s' (%s): %s=%.100s is not supported: %s", owner, c->name,
                                    name, words ? words : "?", instead);
  free(words);
  return status;
}

/* What must have a certain value, or none, where our layers do not have it. */
typedef struct {
  const char *name;
  const char *values; /* JSON texts between blanks */
  const char *instead;
} fixed_value;
static const fixed_value fixed[] = {
    {"data_format", " null \"channels_last\" ", "save the model with data_format='channels_last'"},
    {"return_state", " false ", "use return_state=False"},
    {"stateful", " false ", "use stateful=False"},
    {"reset_after", " true ", "use reset_after=True, which is Keras' default"},
    {"use_gate", " null false ", "use use_gate=False"},
    {"sliding_window", " null ", "leave it out"},
    {"flash_attention", " null false ", "leave it out"},
    {"score_mode", " \"dot\" ", "use score_mode='dot'"},
    {"sparse", " null false ", "use sparse=False"},
    {"ragged", " null false ", "use ragged=False"},
    {"noise_shape", " null ", "leave it out"},
    {"renorm", " null false ", "use renorm=False"},
    {"synchronized", " null false ", "use synchronized=False"},
    {"rms_scaling", " null false ", "use RMSNormalization"},
    {"keepdims", " null false ", "use keepdims=False"},
    {"groups", " null 1 ", "use groups=1"},
    {"output_padding", " null ", "leave it out"},
    {"lora_rank", " null ", "merge the weights first"},
    {"quantization_config", " null ", "save the model before it is quantized"},
    {"mask", " null ", "leave it out"},
    {"zero_output_for_mask", " null false true ", ""},
    {"attention_axes", " null [1] ", "leave it out"},
    {"axis", " null -1 [-1] ", "use the last axis"},
};
/* What training alone looks at. */
static const char *const only_training[] = {"dropout", "recurrent_dropout", "rate", "stddev", "l1", "l2"};

static shoal_status check_other(const keras_class *c, const char *owner, const char *name, const json_t *value,
                                text *notes) {
  for (size_t i = 0; i < COUNT_OF(fixed); i++) {
    if (strcmp(fixed[i].name, name)) continue;
    char *words = json_words(value, JSON_COMPACT | JSON_ENCODE_ANY), padded[64];
    snprintf(padded, sizeof padded, " %.60s ", words ? words : "?");
    free(words);
    return strstr(fixed[i].values, padded) ? NULL : refuse(owner, c, name, value, fixed[i].instead);
  }
  for (size_t i = 0; i < COUNT_OF(only_training); i++)
    if (!strcmp(only_training[i], name) && json_is_number(value) && json_number_value(value) != 0)
      text_add(notes, "layer '%s' (%s): %s is left out; it counts for training alone\n", owner, c->name, name);
  if ((ends_with(name, "_regularizer") || ends_with(name, "_constraint")) && !json_is_null(value))
    text_add(notes, "layer '%s' (%s): %s is left out; it counts for training alone\n", owner, c->name, name);
  return NULL;
}

static json_t *null_unless(json_t *value) { return value ? value : json_null(); }

/* A name, or null; functions are told by their name, and those of our own by another. */
static shoal_status take_activation(const keras_class *c, const char *owner, const json_t *value, json_t **out) {
  static const char *const others[][2] = {{"hard_silu", "hard_swish"}, {"linear", NULL}};
  const char *name = json_string_value(value);
  if (json_is_object(value)) name = json_string_value(json_object_get(value, "config"));
  if (json_is_null(value)) {
    *out = json_null();
    return NULL;
  }
  for (size_t i = 0; name && i < COUNT_OF(others); i++)
    if (!strcmp(name, others[i][0])) {
      *out = others[i][1]                     ? json_string(others[i][1])
             : !strcmp(c->type, "activation") ? json_string("linear")
                                              : json_null();
      return NULL;
    }
  if (name && !strcmp(name, "sparsemax"))
    return refuse(owner, c, "activation", value,
                  "Keras' own adds up cumulative sums, so that its results do not sum up to 1: use softmax");
  shoal_status status = name ? activation_check(name) : NULL;
  const bool known = name && !status;
  shoal_status_free(status);
  if (!known)
    return refuse(owner, c, "activation", value,
                  "use one of Keras' activations by name, or a layer of its own such as LeakyReLU");
  *out = null_unless(json_string(name));
  return NULL;
}

/* How weights begin matters for models without any: what is not known begins as usual. */
static json_t *take_initializer(const json_t *value) {
  char name[KERAS_NAME];
  const char *class = json_string_value(json_object_get(value, "class_name"));
  if (!class) return NULL;
  json_t *word = json_string(keras_snake_case(class, name));
  shoal_status status = initializer_check(word);
  if (!status) return word;
  shoal_status_free(status);
  json_decref(word);
  return NULL;
}

static shoal_status take_inner(const keras_class *c, const char *owner, const json_t *value, text *notes,
                               json_t **out) {
  const char *class = json_string_value(json_object_get(value, "class_name"));
  const keras_class *inner = class ? keras_class_of(class) : NULL;
  if (json_is_null(value)) {
    *out = json_null();
    return NULL;
  }
  if (!inner)
    return status_make(SHOAL_ERR_INPUT, "layer '%s' (%s): a layer of class '%s' inside it is not supported", owner,
                       c->name, class ? class : "?");
  TRY(keras_attributes(inner, owner, json_object_get(value, "config"), notes, out));
  return json_object_set_new(*out, "type", json_string(inner->type)) ? status_no_memory() : NULL;
}

static shoal_status take_value(const keras_class *c, const layer_attr *a, const char *owner, const json_t *value,
                               text *notes, json_t **out) {
  *out = NULL;
  if (a->kind == LAYER_ACTIVATION) return take_activation(c, owner, value, out);
  if (a->kind == LAYER_INITIALIZER) {
    *out = take_initializer(value);
    return NULL;
  }
  if (!strcmp(a->name, "backward_layer")) return NULL; /* ours is the same layer, backwards */
  if (a->kind == LAYER_LAYER) return take_inner(c, owner, value, notes, out);
  if (json_is_null(value) && (!a->standard || strcmp(a->standard, "null"))) return NULL; /* ours is the default */
  if (a->kind == LAYER_SHAPE && json_is_integer(value)) {
    *out = json_pack("[O]", value);
    return *out ? NULL : status_no_memory();
  }
  if (!strcmp(a->name, "output_shape") && a->kind == LAYER_INT &&
      json_is_array(value)) { /* of attention: a list of one */
    if (json_array_size(value) != 1) return refuse(owner, c, a->name, value, "use one number");
    *out = json_incref(json_array_get(value, 0));
    return NULL;
  }
  if (a->kind == LAYER_CHOICE && json_is_object(value)) {
    *out = json_incref(json_object_get(value, "config"));
    return NULL;
  }
  *out = json_incref((json_t *)value);
  return NULL;
}

shoal_status keras_attributes(const keras_class *c, const char *owner, const json_t *config, text *notes,
                              json_t **out) {
  const layer_kind *kind = layer_kind_find(c->type);
  if (!kind) return status_make(SHOAL_ERR_INTERNAL, "layer '%s': there is no type %s", owner, c->type);
  json_t *attributes = json_object(), *value;
  const char *name;
  shoal_status status = attributes ? NULL : status_no_memory();
  json_object_foreach ((json_t *)config, name, value) {
    const layer_attr *a = find_attr(kind, name);
    json_t *taken = NULL;
    if (status) break;
    if (!a)
      status = check_other(c, owner, name, value, notes);
    else
      status = take_value(c, a, owner, value, notes, &taken);
    if (!status && taken && json_object_set_new(attributes, name, taken)) status = status_no_memory();
  }
  if (status)
    json_decref(attributes);
  else
    *out = attributes;
  return status;
}

/* ---- weights */

void keras_weights_fini(keras_weights *w) {
  for (size_t i = 0; i < w->n; i++) {
    free(w->list[i].name);
    free(w->list[i].path);
  }
  free(w->list);
  *w = (keras_weights){0};
}

shoal_status keras_weight_add(keras_weights *w, char *name, char *path, int row) {
  shoal_status status =
      name && path ? mem_grow((void **)&w->list, &w->cap, w->n + 1, sizeof *w->list) : status_no_memory();
  if (status) {
    free(name);
    free(path);
    return status;
  }
  w->list[w->n++] = (keras_weight){name, path, row};
  return NULL;
}

/* "a/b", which the caller frees. */
static char *joined(const char *a, const char *b) {
  char *both = NULL;
  return asprintf(&both, "%s/%s", a, b) < 0 ? NULL : both;
}

static shoal_status inner_weights(const json_t *attributes, const char *attribute, const char *name, const char *at,
                                  const char *path, const char *folder, keras_weights *out) {
  const json_t *inner = json_object_get(attributes, attribute);
  const char *type = json_string_value(json_object_get(inner, "type"));
  const keras_class *c = type ? keras_class_of_type(type) : NULL;
  char *full = joined(name, at), *place = joined(path, folder);
  shoal_status status = !full || !place ? status_no_memory()
                        : c             ? keras_layer_weights(c, inner, full, place, out)
                                        : NULL;
  free(full);
  free(place);
  return status;
}

/* One word of keras_class.weights: "PATH/NAME?IF". *next counts the datasets in PATH, the last one seen. */
static shoal_status add_word(const char *word, size_t length, const json_t *attributes, const char *name,
                             const char *path, char last[KERAS_NAME], int *next, keras_weights *out) {
  char copy[KERAS_NAME];
  snprintf(copy, sizeof copy, "%.*s", (int)length, word);
  char *condition = strchr(copy, '?'), *slash = strchr(copy, '/'), *what = slash ? slash + 1 : copy;
  if (condition) *condition++ = 0;
  if (slash) *slash = 0;
  if (strcmp(last, slash ? copy : "")) {
    snprintf(last, KERAS_NAME, "%s", slash ? copy : "");
    *next = 0;
  }
  const json_t *whether = condition ? json_object_get(attributes, condition) : NULL;
  if (json_is_false(whether) || json_is_null(whether)) return NULL;
  /* Attributes that were left out have their defaults: only these are false or null then. */
  if (condition && !whether && (!strcmp(condition, "use_scale") || !strcmp(condition, "bias_axes"))) return NULL;
  char *second = strchr(what, '+');
  if (second) *second++ = 0;
  for (int row = 0; row < (second ? 2 : 1); row++) {
    char *place = NULL;
    if (asprintf(&place, "%s%s%s/vars/%d", path, slash ? "/" : "", slash ? copy : "", *next) < 0) place = NULL;
    TRY(keras_weight_add(out, joined(name, row ? second : what), place, second ? row : -1));
  }
  ++*next;
  return NULL;
}

shoal_status keras_layer_weights(const keras_class *c, const json_t *attributes, const char *name, const char *path,
                                 keras_weights *out) {
  if (!strcmp(c->type, "bidirectional")) {
    TRY(inner_weights(attributes, "layer", name, "forward", path, "forward_layer", out));
    return inner_weights(attributes, "layer", name, "backward", path, "backward_layer", out);
  }
  if (!strcmp(c->type, "time_distributed"))
    return inner_weights(attributes, "layer", name, "layer", path, "layer", out);
  char last[KERAS_NAME] = "";
  int next = 0;
  for (const char *p = c->weights; p && *p;) {
    size_t n = strcspn(p, " ");
    TRY(add_word(p, n, attributes, name, path, last, &next, out));
    p += n + (p[n] == ' ');
  }
  return NULL;
}
