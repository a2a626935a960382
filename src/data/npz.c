#include "data/npz.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/npy_names.h"
#include "data/zip.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The split that a path ends with, "train" or "test", and the length of the file's name before it; NULL: none. */
static const char *split_of(const char *path, size_t *length) {
  static const char *const splits[] = {"train", "test"};
  const char *colon = strrchr(path, ':');
  *length = strlen(path);
  for (size_t i = 0; colon && i < COUNT_OF(splits); i++)
    if (!strcmp(colon + 1, splits[i]) && colon - path > 4 && !strncmp(colon - 4, ".npz", 4)) {
      *length = (size_t)(colon - path);
      return splits[i];
    }
  return NULL;
}

bool npz_is_split_name(const char *path) {
  size_t length;
  if (!split_of(path, &length)) return false;
  char *file = strndup(path, length);
  bool there = file && !access(file, F_OK);
  free(file);
  return there;
}

/* The member's name without .npy; false: it is none of NumPy's. */
static bool array_name(const zip_member *m, char out[NPY_NAME]) {
  size_t n = strlen(m->name);
  if (n < 5 || n - 4 >= NPY_NAME || strcmp(m->name + n - 4, ".npy")) return false;
  memcpy(out, m->name, n - 4);
  out[n - 4] = 0;
  return true;
}

static const zip_member *find_array(const zip_archive *z, const char *name) {
  char found[NPY_NAME];
  for (size_t i = 0; i < z->count; i++)
    if (array_name(&z->members[i], found) && !strcmp(found, name)) return &z->members[i];
  return NULL;
}

static bool is_there(void *context, const char *name) { return find_array(context, name) != NULL; }

/* The labels of the rows `name`, NULL: none. What numpy.savez was given without names: rows, then labels. */
static const zip_member *labels_of(const zip_archive *z, const char *name) {
  char labels[NPY_NAME];
  if (npy_labels_of(name, is_there, (void *)z, labels)) return find_array(z, labels);
  return !strcmp(name, "arr_0") && z->count == 2 ? find_array(z, "arr_1") : NULL;
}

/* Pairs of rows and labels of a split (NULL: of any); *rows and *labels are the last of them. */
static int find_pairs(const zip_archive *z, const char *split, const zip_member **rows, const zip_member **labels) {
  int count = 0;
  for (size_t i = 0; i < z->count; i++) {
    char name[NPY_NAME];
    if (!array_name(&z->members[i], name) || npy_is_labels(name)) continue;
    if (split && !npy_in_split(name, split)) continue;
    const zip_member *found = labels_of(z, name);
    if (!found) continue;
    *rows = &z->members[i];
    *labels = found;
    count++;
  }
  return count;
}

bool npz_has_split(const char *path, const char *split) {
  zip_archive z;
  size_t length;
  const char *ending = strrchr(path, '.');
  if (split_of(path, &length) || !ending || strcmp(ending, ".npz")) return false;
  shoal_status status = zip_open(path, &z);
  if (status) {
    shoal_status_free(status);
    return false;
  }
  const zip_member *rows, *labels;
  int test = find_pairs(&z, "test", &rows, &labels), train = find_pairs(&z, "train", &rows, &labels);
  zip_close(&z);
  return test && train && (!strcmp(split, "test") || !strcmp(split, "train"));
}

static shoal_status no_pair(const zip_archive *z, const char *path, int count) {
  text names = {0};
  for (size_t i = 0; i < z->count && names.length < 300; i++)
    text_add(&names, "%s%s", i ? ", " : "", z->members[i].name);
  shoal_status status = status_make(SHOAL_ERR_INPUT,
                                    "%s: expected one array of rows and one of labels, such as X and "
                                    "y, x_train and y_train or data and labels, found %s in %s: save "
                                    "numpy.savez(file, X=rows, y=labels)",
                                    path, count ? "several" : "none", names.data ? names.data : "an empty archive");
  text_fini(&names);
  return status;
}

/* What the rows of a split count: sample_weight, or sample_weight_train. */
static shoal_status find_weights(const zip_archive *z, const char *split, npz_pair *p) {
  char name[NPY_NAME];
  snprintf(name, sizeof name, "sample_weight_%s", split ? split : "train");
  const zip_member *found = find_array(z, name);
  if (!found) found = find_array(z, "sample_weight");
  if (!found) return NULL;
  p->weights_part = found->part;
  if (asprintf(&p->weights, "%s:%s", p->file, found->name) >= 0) return NULL;
  p->weights = NULL;
  return status_no_memory();
}

static shoal_status fill_pair(const zip_member *rows, const zip_member *labels, npz_pair *p) {
  p->rows_part = rows->part;
  p->labels_part = labels->part;
  if (asprintf(&p->rows, "%s:%s", p->file, rows->name) < 0) p->rows = NULL;
  if (asprintf(&p->labels, "%s:%s", p->file, labels->name) < 0) p->labels = NULL;
  return p->rows && p->labels ? NULL : status_no_memory();
}

shoal_status npz_find_pair(const char *path, npz_pair *out) {
  size_t length;
  const char *split = split_of(path, &length);
  npz_pair p = {.file = strndup(path, length)};
  if (!p.file) return status_no_memory();
  zip_archive z = {0};
  const zip_member *rows = NULL, *labels = NULL;
  shoal_status status = zip_open(p.file, &z);
  if (!status) {
    int count = find_pairs(&z, split, &rows, &labels);
    if (!split && count > 1) count = find_pairs(&z, "train", &rows, &labels);
    status = count == 1 ? fill_pair(rows, labels, &p) : no_pair(&z, path, count);
    if (!status && (!split || strcmp(split, "test"))) status = find_weights(&z, split, &p);
  }
  zip_close(&z);
  if (status)
    npz_pair_fini(&p);
  else
    *out = p;
  return status;
}

void npz_pair_fini(npz_pair *p) {
  free(p->file);
  free(p->rows);
  free(p->labels);
  free(p->weights);
  *p = (npz_pair){0};
}
