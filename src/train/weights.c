/* Weights files: the layers' variables by name. */
#include "base/mem.h"
#include "train/checkpoint.h"
#include "train/model_ids.h"

shoal_status model_entries(shoal_model *m, checkpoint_entry **out, int *n) {
  shoal_value **list;
  TRY(model_weights(m, false, &list, n));
  checkpoint_entry *entries = calloc((size_t)*n + MODEL_IDS_ITEMS, sizeof *entries);
  shoal_status status = entries ? NULL : status_no_memory();
  int count = 0;
  for (int i = 0; i < *n && !status; i++)
    if (!model_grows_in(m, list[i])) status = model_entry(m, list[i], &entries[count++]);
  if (!status && m->ids) count += model_ids_weights(m->ids, entries + count);
  if (!status && m->grows && m->elsewhere) {
    int more = 0;
    status = m->elsewhere->items(m->elsewhere->context, MODEL_IDS_WEIGHTS, entries + count, &more);
    count += more;
  }
  *n = count;
  free(list);
  if (status) {
    free(entries);
    return status;
  }
  *out = entries;
  return NULL;
}

bool shoal_model_weight(shoal_model *m, int i, const char **name, shoal_tensor *out) {
  shoal_value **list;
  int n;
  shoal_status status = m->session ? model_weights(m, false, &list, &n) : status_no_memory();
  if (status) {
    shoal_status_free(status);
    return false;
  }
  shoal_value *variable = i >= 0 && i < n ? list[i] : NULL;
  free(list);
  status = variable ? shoal_session_variable(m->session, variable, out) : NULL;
  if (status) shoal_status_free(status);
  if (!variable || status) return false;
  *name = shoal_value_name(variable);
  return true;
}

shoal_status shoal_model_save(shoal_model *m, const char *path) {
  TRY(model_ready(m));
  json_t *metadata = json_object();
  if (!metadata) return status_no_memory();
  checkpoint_entry *entries = NULL;
  int n;
  shoal_status status = model_names_write(m->class_names, metadata);
  if (!status) status = model_preprocessing_write(m->preprocessing, metadata);
  if (!status) status = model_entries(m, &entries, &n);
  if (!status) status = checkpoint_write_path(path, entries, n, json_object_size(metadata) ? metadata : NULL);
  free(entries);
  json_decref(metadata);
  return status;
}

/* Fills the variables; *metadata: the file's, the caller's to release. */
static shoal_status read_weights(shoal_model *m, const char *path, json_t **metadata) {
  checkpoint_entry *entries;
  int n, here = 0;
  TRY(model_entries(m, &entries, &n));
  for (int i = 0; i < n; i++)
    if (!m->ids || !entries[i].read) entries[here++] = entries[i];
  shoal_status status = checkpoint_read_some(path, entries, here, metadata);
  free(entries);
  char *base = NULL;
  if (!status && m->ids) status = checkpoint_base(path, &base);
  if (!status && m->ids) status = model_ids_load(m->ids, base, path);
  free(base);
  return status;
}

shoal_status weights_load(shoal_model *m, const char *path) {
  json_t *metadata = NULL;
  shoal_status status = read_weights(m, path, &metadata);
  json_decref(metadata);
  return status;
}

shoal_status shoal_model_load(shoal_model *m, const char *path) {
  TRY(model_ready(m));
  json_t *metadata = NULL;
  const char *const *names = NULL;
  shoal_status status = read_weights(m, path, &metadata);
  if (!status) status = status_wrap(model_names_read(metadata, &names), "%s", path);
  if (!status && names) status = status_wrap(shoal_model_set_class_names(m, names), "%s", path);
  const char *learned = model_preprocessing_read(metadata);
  if (!status && learned) status = status_wrap(shoal_model_set_preprocessing(m, learned), "%s", path);
  free((void *)names);
  json_decref(metadata);
  return status;
}
