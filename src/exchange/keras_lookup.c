/* Keras' layers that make whole numbers of words and of other numbers: StringLookup, IntegerLookup, Hashing. */
#include "exchange/keras.h"

#include <stdlib.h>
#include <string.h>

static const char *text_at(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static bool is_set(const json_t *v) { return v && !json_is_null(v) && !json_is_false(v); }

static shoal_status refuse(const char *layer, const char *class, const char *what, const char *instead) {
  return status_make(SHOAL_ERR_INPUT, "layer '%s' (%s): %s is not supported: %s", layer, class, what, instead);
}

/* What all of them have, and how they may not be set. */
static shoal_status check(const char *class, const char *layer, const json_t *config) {
  const char *mode = text_at(config, "output_mode");
  if (mode && strcmp(mode, "int"))
    return refuse(layer, class, "an output_mode other than 'int'", "put CategoryEncoding behind it");
  if (is_set(json_object_get(config, "invert"))) return refuse(layer, class, "invert=True", "leave it out");
  if (is_set(json_object_get(config, "sparse"))) return refuse(layer, class, "sparse=True", "use sparse=False");
  return NULL;
}

/* The same word, or the same number, which is text in the lines of a file. */
static bool same_word(const json_t *a, const json_t *b) {
  const char *line = json_string_value(a);
  char *end = NULL;
  if (!line || !json_is_integer(b)) return json_equal(a, b);
  return strtoll(line, &end, 10) == json_integer_value(b) && end != line && !*end;
}

/* The words without those that stand for a mask and for unknown ones, which Keras puts before them in its files. */
static shoal_status take_words(const char *class, const char *layer, const json_t *config, const json_t *lines,
                               json_t **out) {
  const json_t *given = json_object_get(config, "vocabulary"), *mask = json_object_get(config, "mask_token"),
               *unknown = json_object_get(config, "oov_token");
  const json_int_t times = json_integer_value(json_object_get(config, "num_oov_indices"));
  const json_t *all = json_is_array(given) ? given : lines;
  size_t at = 0;
  if (json_is_string(given))
    return refuse(layer, class, "a vocabulary in another file",
                  "give the list of words, or save the model after adapt()");
  if (!json_is_array(all))
    return status_make(SHOAL_ERR_INPUT, "layer '%s' (%s): it has no vocabulary: call adapt() before the model is saved",
                       layer, class);
  if (is_set(mask) && same_word(json_array_get(all, 0), mask)) at++;
  for (json_int_t i = 0; i < times && same_word(json_array_get(all, at), unknown); i++) at++;
  *out = json_array();
  for (; at < json_array_size(all); at++) json_array_append(*out, json_array_get(all, at));
  if (json_array_size(*out)) return NULL;
  json_decref(*out);
  return status_make(SHOAL_ERR_INPUT, "layer '%s' (%s): its vocabulary is empty", layer, class);
}

static void copy(const json_t *from, json_t *to, const char *key) {
  json_t *v = json_object_get(from, key);
  if (is_set(v)) json_object_set(to, key, v);
}

static shoal_status string_lookup(const char *class, const char *layer, const json_t *config, const json_t *lines,
                                  json_t **lookup) {
  json_t *words;
  TRY(take_words(class, layer, config, lines, &words));
  const json_t *unknown = json_object_get(config, "num_oov_indices");
  *lookup = json_pack("{s:o, s:I}", "vocabulary", words, "num_oov_indices", unknown ? json_integer_value(unknown) : 1);
  copy(config, *lookup, "mask_token");
  return *lookup ? NULL : status_no_memory();
}

static shoal_status integer_lookup(const char *class, const char *layer, const json_t *config, const json_t *lines,
                                   json_t **description) {
  json_t *words;
  const json_t *unknown = json_object_get(config, "num_oov_indices");
  if (is_set(json_object_get(config, "mask_token"))) return refuse(layer, class, "a mask_token", "leave it out");
  if (unknown && json_integer_value(unknown) != 1)
    return refuse(layer, class, "num_oov_indices other than 1", "use num_oov_indices=1");
  TRY(take_words(class, layer, config, lines, &words));
  for (size_t i = 0; i < json_array_size(words); i++) {
    const char *line = json_string_value(json_array_get(words, i)); /* of a file */
    if (line) json_array_set_new(words, i, json_integer(strtoll(line, NULL, 10)));
  }
  *description = json_pack("{s:s, s:o}", "type", "integer_lookup", "vocabulary", words);
  return *description ? NULL : status_no_memory();
}

shoal_status keras_lookup(const char *class, const char *layer, const json_t *config, const json_t *lines,
                          json_t **description, json_t **lookup) {
  const bool strings = !strcmp(class, "StringLookup"), integers = !strcmp(class, "IntegerLookup"),
             hash = !strcmp(class, "Hashing");
  *description = *lookup = NULL;
  if (!strings && !integers && !hash) return NULL;
  TRY(check(class, layer, config));
  if (integers) return integer_lookup(class, layer, config, lines, description);
  if (strings) TRY(string_lookup(class, layer, config, lines, lookup));
  if (hash) {
    *lookup = json_object();
    copy(config, *lookup, "num_bins");
    copy(config, *lookup, "salt");
    copy(config, *lookup, "mask_value");
    if (json_is_integer(json_object_get(*lookup, "mask_value"))) /* of numbers: as it is written */
      json_object_set_new(*lookup, "mask_value",
                          json_sprintf("%lld", (long long)json_integer_value(json_object_get(*lookup, "mask_value"))));
  }
  *description = json_pack("{s:s}", "type", "identity");
  if (*lookup && *description) return NULL;
  json_decref(*lookup);
  json_decref(*description);
  *description = *lookup = NULL;
  return status_no_memory();
}
