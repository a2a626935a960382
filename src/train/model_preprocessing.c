/* What a model's training rows taught about its input, and how it is kept in files of weights. */
#include "data/preprocessing.h"
#include "train/model.h"

#include <stdlib.h>
#include <string.h>

#define METADATA_KEY "preprocessing" /* a JSON object, as a text */

shoal_status shoal_model_set_preprocessing(shoal_model *m, const char *learned) {
  preprocessing checked;
  TRY(preprocessing_parse(learned, &checked));
  preprocessing_fini(&checked);
  char *copy = learned ? strdup(learned) : NULL;
  if (learned && !copy) return status_no_memory();
  free(m->preprocessing);
  m->preprocessing = copy;
  return NULL;
}

const char *shoal_model_preprocessing(const shoal_model *m) { return m->preprocessing; }

shoal_status model_adopt_preprocessing(shoal_model *m, const char *learned) {
  return m->preprocessing || !learned ? NULL : shoal_model_set_preprocessing(m, learned);
}

shoal_status model_preprocessing_write(const char *learned, json_t *metadata) {
  if (!learned) return NULL;
  return json_object_set_new(metadata, METADATA_KEY, json_string(learned)) ? status_no_memory() : NULL;
}

const char *model_preprocessing_read(const json_t *metadata) {
  return json_string_value(json_object_get(metadata, METADATA_KEY));
}
