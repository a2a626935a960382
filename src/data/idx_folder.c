/* A folder in MNIST's layout: images and labels of two splits, four IDX files. */
#include "data/dataset.h"

#include "base/mem.h"
#include "data/idx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CLASSES_MAX (1 << 20)

static const struct split {
  const char *name, *images, *labels;
} splits[] = {{"train", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
              {"test", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};

/* The path of `file`, plain or gzipped, whichever is there: the caller frees it. NULL: neither, or no memory. */
static char *find(const char *folder, const char *file) {
  static const char *const endings[] = {"", ".gz"};
  for (size_t i = 0; i < COUNT_OF(endings); i++) {
    char *path;
    if (asprintf(&path, "%s/%s%s", folder, file, endings[i]) < 0) return NULL;
    if (!access(path, F_OK)) return path;
    free(path);
  }
  return NULL;
}

static bool detect(const char *path) {
  bool found = false;
  for (size_t i = 0; i < COUNT_OF(splits) && !found; i++) {
    char *file = find(path, splits[i].images);
    found = file != NULL;
    free(file);
  }
  return found;
}

static shoal_status read_part(const char *folder, const char *file, shoal_tensor *out) {
  char *path = find(folder, file);
  if (!path)
    return status_make(SHOAL_ERR_INPUT, "%s: neither %s nor %s.gz exists: put the missing file beside the others",
                       folder, file, file);
  shoal_status status = idx_read(path, out);
  free(path);
  return status;
}

/* Checks labels [n] and adds them to what is known of the classes. */
static shoal_status scan_labels(const char *where, const shoal_tensor *labels, int64_t *classes) {
  char shape[SHOAL_SHAPE_TEXT];
  if (labels->shape.rank != 1 || (labels->dtype != SHOAL_U8 && labels->dtype != SHOAL_I32))
    return status_make(SHOAL_ERR_INPUT, "%s: expected labels, u8 or i32 [n], found %s %s", where,
                       shoal_dtype_name(labels->dtype), shoal_shape_text(&labels->shape, shape));
  int64_t largest = -1;
  TRY(dataset_label_range(labels, where, &largest));
  if (largest >= CLASSES_MAX)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: label %lld is found, at most %d classes are supported: is this a file of "
                       "labels?",
                       where, (long long)largest, CLASSES_MAX);
  *classes = MAX_OF(*classes, largest + 1);
  return NULL;
}

/* A split may lack the last classes, so the other one's labels count too, where they are there. */
static shoal_status count_classes(const char *folder, const struct split *own, const shoal_tensor *labels,
                                  int64_t *classes) {
  TRY(status_wrap(scan_labels(own->labels, labels, classes), "%s", folder));
  for (size_t i = 0; i < COUNT_OF(splits); i++) {
    char *path = &splits[i] == own ? NULL : find(folder, splits[i].labels);
    if (!path) continue;
    shoal_tensor other;
    shoal_status status = idx_read(path, &other);
    if (!status) {
      status = scan_labels(path, &other, classes);
      shoal_tensor_fini(&other);
    }
    free(path);
    TRY(status);
  }
  return NULL;
}

static shoal_status check_parts(const char *folder, const struct split *s, const shoal_tensor *images,
                                const shoal_tensor *labels) {
  char shape[SHOAL_SHAPE_TEXT];
  if (images->dtype != SHOAL_U8 && images->dtype != SHOAL_F32)
    return status_make(SHOAL_ERR_INPUT, "%s/%s: expected u8 or f32, found %s", folder, s->images,
                       shoal_dtype_name(images->dtype));
  if (images->shape.rank < 2 || images->shape.rank > 4 || !shoal_tensor_count(images))
    return status_make(SHOAL_ERR_INPUT, "%s/%s: expected images [n,height,width], found %s", folder, s->images,
                       shoal_shape_text(&images->shape, shape));
  if (images->shape.dim[0] != labels->shape.dim[0])
    return status_make(SHOAL_ERR_INPUT,
                       "%s: %lld images in %s, but %lld labels in %s: the files do not belong "
                       "together, download both again",
                       folder, (long long)images->shape.dim[0], s->images, (long long)labels->shape.dim[0], s->labels);
  return NULL;
}

static shoal_status load(const char *path, const char *split, int classes, shoal_dataset *out) {
  const struct split *s = NULL;
  for (size_t i = 0; i < COUNT_OF(splits); i++)
    if (!strcmp(splits[i].name, split)) s = &splits[i];
  if (!s) return status_make(SHOAL_ERR_ARGUMENT, "unknown split '%s': expected 'train' or 'test'", split);
  shoal_dataset d = {.scale = 1};
  shoal_status status;
  int64_t found = 0;
  TRY_GOTO(status, read_part(path, s->labels, &d.labels), failed);
  if (classes)
    TRY_GOTO(status, status_wrap(scan_labels(s->labels, &d.labels, &found), "%s", path), failed);
  else
    TRY_GOTO(status, count_classes(path, s, &d.labels, &found), failed);
  TRY_GOTO(status, read_part(path, s->images, &d.features), failed);
  TRY_GOTO(status, check_parts(path, s, &d.features, &d.labels), failed);
  if (d.features.shape.rank == 3) d.features.shape.dim[d.features.shape.rank++] = 1; /* one channel */
  if (d.features.dtype == SHOAL_U8) d.scale = 1.0f / 255;
  d.classes = classes ? classes : (int)found;
  if (found > d.classes) {
    status = status_make(SHOAL_ERR_INPUT,
                         "%s/%s: label %lld is found, but there are %d classes, 0 to %d: the file is "
                         "corrupted or another data set's",
                         path, s->labels, (long long)found - 1, d.classes, d.classes - 1);
    goto failed;
  }
  *out = d;
  return NULL;
failed:
  shoal_tensor_fini(&d.features);
  shoal_tensor_fini(&d.labels);
  return status;
}

const dataset_reader dataset_reader_idx = {
    "idx",
    "a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte, each plain or .gz",
    detect, load};
