#include "data/dataset.h"

#include "base/build_info.h"
#include "base/mem.h"
#include "base/text.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Formats, tried in this order. */
static const dataset_reader *const readers[] = {&dataset_reader_idx};

/* Data sets known by name: the name (also of its folder), classes, where a package of the system puts it or NULL. */
#define KNOWN_SETS(ROW)  \
  ROW("mnist", 10, NULL) \
  ROW("fashion-mnist", 10, "/usr/share/datasets/fashion-mnist")

static const struct known {
  const char *name;
  int classes;
  const char *installed;
} known_sets[] = {
#define ROW(name, classes, installed) {name, classes, installed},
    KNOWN_SETS(ROW)
#undef ROW
};

static const char *const known_names[] = {
#define ROW(name, classes, installed) name,
    KNOWN_SETS(ROW)
#undef ROW
        NULL};

const char *const *shoal_dataset_names(void) { return known_names; }

shoal_status dataset_label_range(const shoal_tensor *labels, const char *where, int64_t *largest) {
  int64_t n = shoal_tensor_count(labels), most = -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = labels->rows ? labels->rows[i] : i;
    int64_t label = labels->dtype == SHOAL_U8    ? ((const uint8_t *)labels->data)[at]
                    : labels->dtype == SHOAL_I32 ? ((const int32_t *)labels->data)[at]
                                                 : ((const int64_t *)labels->data)[at];
    if (label < 0)
      return status_make(SHOAL_ERR_INPUT, "%s: row %lld: label %lld is negative; classes count from 0", where,
                         (long long)i, (long long)label);
    most = MAX_OF(most, label);
  }
  *largest = most;
  return NULL;
}

static const dataset_reader *reader_for(const char *path) {
  for (size_t i = 0; i < COUNT_OF(readers); i++)
    if (readers[i]->detect(path)) return readers[i];
  return NULL;
}

static shoal_status load_path(const char *path, const char *split, int classes, shoal_dataset *out) {
  const dataset_reader *reader = reader_for(path);
  if (reader) return reader->load(path, split, classes, out);
  text formats = {0};
  for (size_t i = 0; i < COUNT_OF(readers); i++)
    text_add(&formats, "%s%s (%s)", i ? "; " : "", readers[i]->layout, readers[i]->name);
  shoal_status status = status_make(SHOAL_ERR_INPUT, "%s: no data in a known format found; expected %s", path,
                                    formats.failed ? "IDX files" : formats.data);
  text_fini(&formats);
  return status;
}

/* The folder of the running binary, links resolved; false when the system does not say. */
static bool binary_folder(char folder[PATH_MAX]) {
  ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
  if (n <= 0) return false;
  folder[n] = 0;
  char *slash = strrchr(folder, '/');
  if (!slash) return false;
  *slash = 0;
  return true;
}

/* Place number i to look for a known set; *out stays empty where it does not exist here. False past the last. */
static bool place(const struct known *set, int i, text *out) {
  char folder[PATH_MAX];
  const char *given;
  switch (i) {
    case 0:
      given = getenv("SHOAL_DATA");
      if (given && *given) text_add(out, "%s/%s", given, set->name);
      return true;
    case 1: text_add(out, "data/%s", set->name); return true;
    case 2:
      if (binary_folder(folder)) text_add(out, "%s/../data/%s", folder, set->name);
      return true;
    case 3: text_add(out, "%s/%s", build_data_dir(), set->name); return true;
    case 4:
      if (set->installed) text_add(out, "%s", set->installed);
      return true;
    default: return false;
  }
}

/* The folder with the files of a known set. */
static shoal_status find_known(const struct known *set, text *out) {
  text looked = {0}, path = {0};
  shoal_status status = NULL;
  bool found = false;
  for (int i = 0; !found && place(set, i, &path); i++) {
    if (path.failed) break;
    if (path.length) {
      found = reader_for(path.data) != NULL;
      text_add(&looked, "%s%s", looked.length ? ", " : "", path.data);
    }
    if (!found) text_fini(&path);
  }
  if (found)
    *out = path;
  else
    status = path.failed || looked.failed
                 ? status_no_memory()
                 : status_make(SHOAL_ERR_INPUT,
                               "data set '%s' was not found; looked in %s: set SHOAL_DATA to the "
                               "folder that holds %s/, or give the path of its files",
                               set->name, looked.data, set->name);
  if (!found) text_fini(&path);
  text_fini(&looked);
  return status;
}

static const struct known *known_set(const char *name) {
  for (size_t i = 0; i < COUNT_OF(known_sets); i++)
    if (!strcmp(known_sets[i].name, name)) return &known_sets[i];
  return NULL;
}

static shoal_status load_known(const struct known *set, const char *split, shoal_dataset *out) {
  text path = {0};
  TRY(find_known(set, &path));
  shoal_status status = load_path(path.data, split, set->classes, out);
  text_fini(&path);
  return status;
}

static shoal_status unknown(const char *name) {
  const char *nearest = text_nearest(name, known_names, COUNT_OF(known_names) - 1);
  text names = {0};
  for (size_t i = 0; known_names[i]; i++) text_add(&names, "%s%s", i ? ", " : "", known_names[i]);
  shoal_status status =
      names.failed
          ? status_no_memory()
          : status_make(SHOAL_ERR_ARGUMENT, "no data set '%s': it is neither a name (%s) nor a path%s%s%s", name,
                        names.data, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
  text_fini(&names);
  return status;
}

shoal_status dataset_path(const char *name, text *out) {
  const struct known *set = known_set(name);
  return set ? find_known(set, out) : unknown(name);
}

shoal_status shoal_dataset_find(const char *name, char **out) {
  text path = {0};
  TRY(dataset_path(name, &path));
  *out = path.data;
  return NULL;
}

bool dataset_loadable(const char *name_or_path) { return known_set(name_or_path) || reader_for(name_or_path); }

static shoal_status load_any(const char *name_or_path, const char *split, shoal_dataset *out) {
  const struct known *set = known_set(name_or_path);
  if (set) return load_known(set, split, out);
  struct stat info;
  if (!stat(name_or_path, &info)) return load_path(name_or_path, split, 0, out);
  if (strchr(name_or_path, '/'))
    return status_make(SHOAL_ERR_INPUT, "%s: no such file or folder: give the path of the data", name_or_path);
  return unknown(name_or_path);
}

shoal_status shoal_dataset_load(const char *name_or_path, const char *split, shoal_dataset **out) {
  if (strcmp(split, "train") && strcmp(split, "test"))
    return status_make(SHOAL_ERR_ARGUMENT, "unknown split '%s': expected 'train' or 'test'", split);
  shoal_dataset *data = calloc(1, sizeof *data);
  if (!data) return status_no_memory();
  shoal_status status = load_any(name_or_path, split, data);
  if (status)
    free(data);
  else
    *out = data;
  return status;
}

void shoal_dataset_destroy(shoal_dataset *data) {
  if (!data) return;
  free(data->index);
  free((void *)data->preprocessing);
  free((void *)data->class_names);
  shoal_tensor_fini(&data->features);
  shoal_tensor_fini(&data->labels);
  shoal_tensor_fini(&data->weights);
  free(data);
}

int64_t shoal_dataset_rows(const shoal_dataset *data) { return data->features.shape.dim[0]; }

static shoal_tensor rows_of(const shoal_tensor *t, int64_t first, int64_t count) {
  shoal_tensor view = *t;
  if (t->rows) {
    view.rows += first;
  } else if (t->shape.dim[0] > 0) {
    view.data = (char *)t->data + (size_t)first * (shoal_tensor_bytes(t) / (size_t)t->shape.dim[0]);
  }
  view.shape.dim[0] = count;
  return view;
}

shoal_status shoal_dataset_view(const shoal_dataset *data, int64_t first, int64_t count, shoal_dataset *out) {
  int64_t rows = shoal_dataset_rows(data);
  if (first < 0 || count < 0 || first > rows || count > rows - first)
    return status_make(SHOAL_ERR_ARGUMENT, "%lld rows from row %lld on were requested, but the data set has %lld",
                       (long long)count, (long long)first, (long long)rows);
  shoal_dataset view = *data;
  view.features = rows_of(&data->features, first, count);
  view.labels = rows_of(&data->labels, first, count);
  if (data->weights.data) view.weights = rows_of(&data->weights, first, count);
  *out = view;
  return NULL;
}
