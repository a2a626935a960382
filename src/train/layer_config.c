/* Descriptions of layers: checked against the table's row, and read. */
#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "train/layer.h"

#include <math.h>
#include <string.h>

#define ATTRS_MAX 32

static shoal_status expected(const layer_attr *a, const json_t *value, const char *what) {
  char *have = json_words(value, JSON_COMPACT | JSON_ENCODE_ANY);
  shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "%s is %.200s; expected %s", a->name, have ? have : "?", what);
  free(have);
  return status;
}

static shoal_status check_range(const layer_attr *a, const json_t *value, double number) {
  if ((a->least == 0 && a->most == 0) || (number >= a->least && number <= a->most)) return NULL;
  char what[96];
  snprintf(what, sizeof what, number < a->least ? "at least %.10g" : "at most %.10g",
           number < a->least ? a->least : a->most);
  return expected(a, value, what);
}

static bool is_whole(const json_t *v, double least) {
  return json_is_integer(v) && (double)json_integer_value(v) >= least && json_integer_value(v) < INT32_MAX;
}

/* A number, or a list of at most `most` of them. */
static bool is_list_of(const json_t *v, double least, size_t most, bool null) {
  size_t i;
  json_t *item;
  if (!json_is_array(v) || json_array_size(v) > most) return false;
  json_array_foreach ((json_t *)v, i, item)
    if (!is_whole(item, least) && !(null && json_is_null(item))) return false;
  return true;
}

static bool is_sizes(const json_t *v) {
  return is_whole(v, 1) || (is_list_of(v, 1, 2, false) && json_array_size(v) > 0);
}

static bool is_margins(const json_t *v) {
  if (is_whole(v, 0)) return true;
  if (!json_is_array(v) || json_array_size(v) < 1 || json_array_size(v) > 2) return false;
  for (size_t i = 0; i < json_array_size(v); i++) {
    const json_t *one = json_array_get(v, i);
    if (!is_whole(one, 0) && !(is_list_of(one, 0, 2, false) && json_array_size(one) == 2)) return false;
  }
  return true;
}

static bool are_numbers(const json_t *v, int depth) {
  size_t i;
  json_t *item;
  if (json_is_number(v)) return isfinite(json_number_value(v));
  if (!json_is_array(v) || depth > 8) return false;
  json_array_foreach ((json_t *)v, i, item)
    if (!are_numbers(item, depth + 1)) return false;
  return true;
}

static shoal_status check_choice(const layer_attr *a, const json_t *value) {
  size_t n = 0;
  while (a->choices[n]) n++;
  const char *word = json_string_value(value);
  for (size_t i = 0; word && i < n; i++)
    if (!strcmp(word, a->choices[i])) return NULL;
  if (word) return status_unknown(a->name, word, a->choices, n);
  text what = {0};
  text_add(&what, "one of");
  for (size_t i = 0; i < n; i++) text_add(&what, "%s \"%s\"", i ? "," : "", a->choices[i]);
  shoal_status status = expected(a, value, what.data ? what.data : "a text");
  text_fini(&what);
  return status;
}

static shoal_status check_layer(const layer_attr *a, const json_t *value) {
  const char *type = json_string_value(json_object_get(value, "type"));
  const layer_kind *kind;
  if (!type) return expected(a, value, "the description of a layer, {\"type\": ..., ...},");
  TRY(status_wrap(layer_kind_lookup(type, &kind), "%s", a->name));
  return NULL;
}

static shoal_status check_value(const layer_attr *a, const json_t *v) {
  if (json_is_null(v) && a->standard && !strcmp(a->standard, "null")) return NULL;
  switch (a->kind) {
    case LAYER_INT:
      if (!json_is_integer(v)) return expected(a, v, "a whole number");
      return check_range(a, v, (double)json_integer_value(v));
    case LAYER_NUMBER:
      if (!json_is_number(v) || !isfinite(json_number_value(v))) return expected(a, v, "a number");
      return check_range(a, v, json_number_value(v));
    case LAYER_BOOL: return json_is_boolean(v) ? NULL : expected(a, v, "true or false");
    case LAYER_CHOICE: return check_choice(a, v);
    case LAYER_SIZES:
      return is_sizes(v) ? NULL : expected(a, v, "a number above 0, or one for each axis, like [3, 5],");
    case LAYER_SHAPE:
      return is_list_of(v, -1, SHOAL_MAX_RANK - 1, true) ? NULL : expected(a, v, "a list of sizes, like [28, 28, 1],");
    case LAYER_AXES:
      return is_whole(v, -SHOAL_MAX_RANK) || is_list_of(v, -SHOAL_MAX_RANK, SHOAL_MAX_RANK, false)
                 ? NULL
                 : expected(a, v, "an axis, or a list of axes,");
    case LAYER_MARGINS: return is_margins(v) ? NULL : expected(a, v, "1, [1, 2] by axis, or [[1, 1], [0, 2]]");
    case LAYER_PADDING:
      if (json_is_string(v)) {
        static const char *const names[] = {"valid", "same", "causal", NULL};
        return check_choice(&(layer_attr){.name = a->name, .choices = names}, v);
      }
      return is_margins(v) ? NULL : expected(a, v, "\"valid\", \"same\", or zeros by axis and edge, [[1, 1], [1, 1]],");
    case LAYER_ACTIVATION:
      return json_is_string(v) ? activation_check(json_string_value(v)) : expected(a, v, "the name of an activation");
    case LAYER_INITIALIZER: return status_wrap(initializer_check(v), "%s", a->name);
    case LAYER_NUMBERS: return are_numbers(v, 0) ? NULL : expected(a, v, "a number, or a list of numbers,");
    case LAYER_TEXT: return json_is_string(v) ? NULL : expected(a, v, "a text");
    case LAYER_LAYER: return check_layer(a, v);
  }
  return status_make(SHOAL_ERR_INTERNAL, "attribute %s is of an unknown kind", a->name);
}

static const layer_attr *find_attr(const layer_kind *kind, const char *name) {
  for (const layer_attr *a = kind->attrs; a && a->name; a++)
    if (!strcmp(a->name, name)) return a;
  return NULL;
}

static shoal_status unknown_attribute(const layer_kind *kind, const char *name) {
  const char *names[ATTRS_MAX + 1] = {0};
  size_t n = 0;
  for (const layer_attr *a = kind->attrs; a && a->name && n < ATTRS_MAX; a++) names[n++] = a->name;
  if (!n) return status_make(SHOAL_ERR_ARGUMENT, "%s has no attributes, but '%s' is given", kind->name, name);
  return status_unknown("attribute", name, names, n);
}

static shoal_status fill(const layer_kind *kind, json_t *config) {
  for (const layer_attr *a = kind->attrs; a && a->name; a++) {
    if (json_object_get(config, a->name)) continue;
    if (!a->standard)
      return status_make(SHOAL_ERR_ARGUMENT, "%s must be given, like {\"type\": \"%s\", \"%s\": ...}", a->name,
                         kind->name, a->name);
    if (json_object_set_new(config, a->name, json_read_words(a->standard, JSON_DECODE_ANY, NULL)))
      return status_no_memory();
  }
  return NULL;
}

shoal_status layer_config_check(const layer_kind *kind, const json_t *given, json_t **out) {
  json_t *config = given ? json_deep_copy(given) : json_object();
  if (!config) return status_no_memory();
  const char *name;
  json_t *value;
  shoal_status status = NULL;
  json_object_foreach (config, name, value) {
    const layer_attr *a = find_attr(kind, name);
    status = a ? check_value(a, value) : unknown_attribute(kind, name);
    if (status) break;
  }
  if (!status) status = fill(kind, config);
  if (status)
    json_decref(config);
  else
    *out = config;
  return status;
}

/* ---- reading */

static const json_t *attribute(const layer *l, const char *name) { return json_object_get(l->config, name); }

int64_t layer_int(const layer *l, const char *name) { return json_integer_value(attribute(l, name)); }
double layer_number(const layer *l, const char *name) { return json_number_value(attribute(l, name)); }
bool layer_flag(const layer *l, const char *name) { return json_is_true(attribute(l, name)); }
const char *layer_text(const layer *l, const char *name) { return json_string_value(attribute(l, name)); }
bool layer_has(const layer *l, const char *name) { return attribute(l, name) && !json_is_null(attribute(l, name)); }

bool layer_is(const layer *l, const char *name, const char *word) {
  const char *have = layer_text(l, name);
  return have && !strcmp(have, word);
}

void layer_sizes(const layer *l, const char *name, int64_t standard, int64_t out[2]) {
  const json_t *v = attribute(l, name);
  out[0] = out[1] = json_is_integer(v) ? json_integer_value(v) : standard;
  if (!json_is_array(v)) return;
  out[0] = out[1] = json_integer_value(json_array_get(v, 0));
  if (json_array_size(v) > 1) out[1] = json_integer_value(json_array_get(v, 1));
}

shoal_shape layer_shape(const layer *l, const char *name) {
  const json_t *v = attribute(l, name);
  if (json_is_integer(v)) return SHOAL_SHAPE(json_integer_value(v));
  shoal_shape s = {.rank = (int)json_array_size(v)};
  for (int i = 0; i < s.rank; i++) {
    const json_t *one = json_array_get(v, (size_t)i);
    s.dim[i] = json_is_null(one) ? -1 : json_integer_value(one);
  }
  return s;
}

void layer_margins(const json_t *v, int64_t before[2], int64_t after[2]) {
  for (size_t i = 0; i < 2; i++) {
    const json_t *one = json_is_array(v) ? json_array_get(v, json_array_size(v) > i ? i : 0) : v;
    before[i] = json_integer_value(json_is_array(one) ? json_array_get(one, 0) : one);
    after[i] = json_integer_value(json_is_array(one) ? json_array_get(one, 1) : one);
  }
}

size_t layer_numbers(const json_t *list, float *out, size_t room) {
  if (!json_is_array(list)) {
    if (room) *out = (float)json_number_value(list);
    return 1;
  }
  size_t n = 0;
  for (size_t i = 0; i < json_array_size(list); i++)
    n += layer_numbers(json_array_get(list, i), out ? out + MIN_OF(n, room) : NULL, room > n ? room - n : 0);
  return n;
}
