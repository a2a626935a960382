/* What is in files of rows, as JSON. */
#include "base/json_read.h"
#include "base/json_text.h"
#include "data/class_names.h"
#include "shoal/data.h"

#include <string.h>

static json_t *spread_json(const shoal_spread *s) {
  return s->count ? json_pack("{s:o, s:o, s:o}", "min", json_finite(s->min), "mean", json_finite(s->mean), "max",
                              json_finite(s->max))
                  : json_null();
}

static json_t *row_json(const shoal_data_summary *s, const shoal_data_row *r) {
  json_t *o = json_object(), *list = json_array();
  json_object_set_new(o, "label", s->real_labels ? json_finite((double)r->target) : json_integer(r->label));
  for (int64_t k = 0; k < r->n_values; k++)
    json_array_append_new(
        list, r->indices ? json_pack("[i, o]", r->indices[k], json_finite(r->values[k])) : json_finite(r->values[k]));
  if (s->kind == SHOAL_ROWS_ENCODED)
    json_object_set_new(o, "bytes", json_integer(r->size));
  else
    json_object_set(o, s->kind == SHOAL_ROWS_SPARSE ? "entries" : "values", list);
  json_decref(list);
  return o;
}

static json_t *labels_json(const shoal_data_summary *s) {
  json_t *labels = json_object();
  for (int i = 0; i < s->n_class_rows; i++) {
    char name[SHOAL_CLASS_NAME_TEXT];
    if (s->class_rows[i])
      json_object_set_new(labels, shoal_class_name(s->class_names, i, name), json_integer(s->class_rows[i]));
  }
  return labels;
}

static void add_features(json_t *o, const shoal_data_summary *s) {
  const bool dense = s->kind == SHOAL_ROWS_DENSE, sparse = s->kind == SHOAL_ROWS_SPARSE;
  const bool encoded = s->kind == SHOAL_ROWS_ENCODED;
  json_t *shape = dense ? json_array() : json_null();
  for (int i = 0; dense && i < s->shape.rank; i++) json_array_append_new(shape, json_integer(s->shape.dim[i]));
  json_object_set_new(o, "dtype", dense ? json_string(shoal_dtype_name(s->dtype)) : json_null());
  json_object_set_new(o, "shape", shape);
  json_object_set_new(o, "features", sparse ? json_integer(s->features) : json_null());
  json_object_set_new(o, "nonzeros", sparse ? json_integer((json_int_t)s->values.count) : json_null());
  json_object_set_new(o, "nonzeros_per_row", sparse ? spread_json(&s->sizes) : json_null());
  json_object_set_new(o, "nonzeros_a_row", sparse ? spread_json(&s->sizes) : json_null()); /* the former name */
  json_object_set_new(o, "bytes_per_row", encoded ? spread_json(&s->sizes) : json_null());
  json_object_set_new(o, "bytes_a_row", encoded ? spread_json(&s->sizes) : json_null()); /* the former name */
  json_object_set_new(o, "index",
                      s->index_max >= 0
                          ? json_pack("{s:I, s:I}", "min", (json_int_t)s->index_min, "max", (json_int_t)s->index_max)
                          : json_null());
  json_object_set_new(o, "values", spread_json(&s->values));
}

shoal_status shoal_data_summary_json(const shoal_data_summary *s, const char *path, char **out) {
  static const char *const kinds[] = {"dense", "sparse", "encoded"}; /* in the order of shoal_row_kind */
  json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "path", path, "format", s->format, "files",
                        (json_int_t)s->file_count, "bytes", (json_int_t)s->file_bytes, "rows", (json_int_t)s->rows,
                        "bad_rows", (json_int_t)s->bad_rows, "kind", kinds[s->kind]);
  if (!o) return status_no_memory();
  json_object_set_new(o, "read_from", json_string(s->files));
  json_object_set_new(o, "classes", s->real_labels ? json_null() : json_integer(s->classes));
  json_object_set_new(o, "class_names", class_names_to_json(s->class_names));
  json_object_set_new(o, "labels", s->real_labels ? json_null() : labels_json(s));
  json_object_set_new(o, "targets", spread_json(&s->targets));
  add_features(o, s);
  json_object_set_new(o, "preprocessing", s->preprocessing ? json_read_words(s->preprocessing, 0, NULL) : json_null());
  json_t *first = json_array();
  for (int64_t i = 0; i < s->n_first; i++) json_array_append_new(first, row_json(s, &s->first[i]));
  json_object_set_new(o, "first_rows", first);
  json_object_set_new(o, "seconds", json_finite(s->seconds));
  json_object_set_new(o, "rows_per_second", json_finite((double)s->rows / s->seconds));
  json_object_set_new(o, "bytes_per_second", json_finite((double)s->file_bytes / s->seconds));
  return json_text(o, JSON_FLOAT_DIGITS, out);
}
