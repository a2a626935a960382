/* The names of a model's classes, and how they are kept in files of weights. */
#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "data/class_names.h"
#include "train/model.h"

#define METADATA_KEY "class_names" /* a JSON array of texts, as a text */

shoal_status shoal_model_set_class_names(shoal_model *m, const char *const *names) {
  class_names checked = {0};
  shoal_status status = class_names_add_all(&checked, names); /* none twice */
  class_names_fini(&checked);
  TRY(status);
  if (m->compiled && class_names_count(names) > m->classes)
    return status_make(SHOAL_ERR_ARGUMENT, "%d names of classes are given, but the model has %lld classes",
                       class_names_count(names), (long long)m->classes);
  const char *const *copy;
  TRY(class_names_copy(names, &copy));
  free((void *)m->class_names);
  m->class_names = copy;
  return NULL;
}

int64_t shoal_model_classes(const shoal_model *m) { return m->classes; }
int64_t shoal_model_outputs(const shoal_model *m) { return m->outputs; }

const char *const *shoal_model_class_names(const shoal_model *m) { return m->class_names; }

shoal_status model_check_class_names(const shoal_model *m, const char *const *names) {
  if (!names || !m->class_names || class_names_equal(names, m->class_names)) return NULL;
  char theirs[CLASS_NAMES_TEXT], ours[CLASS_NAMES_TEXT];
  return status_make(SHOAL_ERR_INPUT,
                     "the classes of the data are %s, those of the model %s: read the data with the "
                     "model's class names",
                     class_names_describe(names, theirs), class_names_describe(m->class_names, ours));
}

shoal_status model_adopt_class_names(shoal_model *m, const char *const *names) {
  return m->class_names || !names ? model_check_class_names(m, names) : shoal_model_set_class_names(m, names);
}

shoal_status model_names_write(const char *const *names, json_t *metadata) {
  if (!names) return NULL;
  json_t *array = class_names_to_json(names);
  char *words = array ? json_words(array, JSON_COMPACT) : NULL;
  bool good = words && !json_object_set_new(metadata, METADATA_KEY, json_string(words));
  free(words);
  json_decref(array);
  return good ? NULL : status_no_memory();
}

shoal_status model_names_read(const json_t *metadata, const char *const **out) {
  const char *words = json_string_value(json_object_get(metadata, METADATA_KEY));
  *out = NULL;
  if (!words) return NULL;
  json_t *array = json_read_words(words, 0, NULL);
  shoal_status status = array ? class_names_from_json(array, out)
                              : status_make(SHOAL_ERR_INPUT, "'" METADATA_KEY "' in its metadata is not valid JSON");
  json_decref(array);
  return status;
}
