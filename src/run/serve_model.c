#include "run/serve_model.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "data/transform.h"
#include "run/run_dir.h"
#include "run/trained.h"
#include "train/checkpoint.h"
#include "train/model.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define WARM_ENTRIES 64 /* of a sparse row, for which plans have room from the start */

/* What tells one file from another that took its name. */
typedef struct {
  dev_t device;
  ino_t inode;
  off_t bytes;
  struct timespec changed;
} file_stamp;

/* One set of weights. */
typedef struct {
  shoal_trained *trained;
  preprocessing learned;
  transform *prepare; /* NULL: rows are taken as they are */
  rows_block prepared;
  rows_schema schema;
  file_stamp stamp;
  int64_t step;
} weights_in_use;

/* What changes when there are newer weights: the file itself, or of a run its final weights and the folder of checkpoints,
 * whose files come by renaming. Looking at them is cheap; finding the newest whole checkpoint reads it. */
typedef struct {
  file_stamp stamps[3];
} outside_look;

struct serve_model {
  char *target, *name;
  outside_look seen; /* when `current` was loaded, or a refresh failed */
  shoal_trained_options options;
  int64_t batch_max;
  pthread_mutex_t lock; /* of `current` */
  weights_in_use *current;
  rows_schema schema; /* as that of `current`, for its life */
  int outputs;
};

static bool read_stamp(const char *path, file_stamp *out) {
  struct stat info;
  if (stat(path, &info)) return false;
  *out = (file_stamp){info.st_dev, info.st_ino, info.st_size, info.st_mtim};
  return true;
}

static bool same_file(const file_stamp *a, const file_stamp *b) {
  return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
         a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static outside_look look_at(const char *target) {
  static const char *const names[] = {"", "/model.safetensors", "/checkpoints"};
  outside_look look;
  memset(&look, 0, sizeof look);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char path[SERVE_WEIGHTS_TEXT];
    struct stat info;
    snprintf(path, sizeof path, "%s%s", target, names[i]);
    if (!stat(path, &info) && (*names[i] || S_ISREG(info.st_mode)))
      look.stamps[i] = (file_stamp){info.st_dev, info.st_ino, info.st_size, info.st_mtim};
  }
  return look;
}

static bool same_look(const outside_look *a, const outside_look *b) {
  for (size_t i = 0; i < COUNT_OF(a->stamps); i++)
    if (!same_file(&a->stamps[i], &b->stamps[i])) return false;
  return true;
}

static void release(weights_in_use *w) {
  if (!w) return;
  transform_destroy(w->prepare);
  preprocessing_fini(&w->learned);
  rows_fini(&w->prepared);
  shoal_trained_close(w->trained);
  free(w);
}

/* What rows look like, and what is done to them as it was done to the training rows. */
static shoal_status find_schema(weights_in_use *w) {
  const saved_model *s = &w->trained->saved;
  shoal_model *m = s->model;
  if (s->kind->sparse) {
    w->schema = (rows_schema){.kind = ROWS_SPARSE,
                              .scale = 1,
                              .features = model_features(m),
                              .classes = s->classes,
                              .fields = model_needs_fields(m),
                              .ids = s->job.growing_ids,
                              .fields_end = model_fields_end(m)};
    return NULL;
  }
  w->schema = (rows_schema){
      .kind = ROWS_DENSE, .dtype = SHOAL_F32, .shape = job_input(&s->job, s->kind), .scale = 1, .classes = s->classes};
  TRY(preprocessing_parse(shoal_model_preprocessing(m), &w->learned));
  if (csv_fit_matters(&w->learned.table))
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "%s was trained on columns of text or with missing values, which cannot be served over HTTP yet: "
        "use shoal predict on files",
        s->weights);
  const char *given = s->job.transform ? s->job.transform : s->kind->transform;
  if (!given || !*given) return NULL;
  const bool known = w->learned.features.step != NULL;
  TRY(status_wrap(transform_create(given, &w->schema, 0, known ? &w->learned.features : NULL, &w->prepare),
                  "`transform` %s, on rows of numbers as they are served", given));
  rows_schema after;
  transform_schema(w->prepare, &after);
  rows_init(&w->prepared, &after);
  return NULL;
}

/* Of a checkpoint as it says itself; of a run's final weights as its summary says; -1: not known. */
static int64_t step_of(const char *target, const char *weights) {
  json_t *metadata;
  shoal_status status = checkpoint_metadata(weights, &metadata);
  const char *word = status ? NULL : json_string_value(json_object_get(metadata, "step"));
  int64_t step = word ? atoll(word) : -1;
  if (!status) json_decref(metadata);
  shoal_status_free(status);
  if (step >= 0) return step;
  char path[SERVE_WEIGHTS_TEXT];
  snprintf(path, sizeof path, "%s/summary.json", target);
  json_t *summary = json_read_file(path, 0, NULL);
  const json_t *steps = json_object_get(summary, "steps");
  if (json_is_integer(steps)) step = json_integer_value(steps);
  json_decref(summary);
  return step;
}

static shoal_status fill_up(rows_block *rows, int64_t to) {
  TRY(rows_reserve(rows, to - rows->count, 0));
  if (rows->schema.kind == ROWS_DENSE) {
    const size_t row = rows_dense_bytes(&rows->schema);
    memset((char *)rows->features + (size_t)rows->count * row, 0, (size_t)(to - rows->count) * row);
  }
  for (; rows->count < to; rows->count++) {
    rows->labels[rows->count] = -1;
    if (rows->offsets) rows->offsets[rows->count + 1] = rows->offsets[rows->count];
  }
  return NULL;
}

static int64_t power_of_two(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

static shoal_batch batch_of(const weights_in_use *w, const rows_block *rows) {
  shoal_batch b = {.count = rows->count, .scale = rows->schema.scale};
  if (rows->schema.kind == ROWS_SPARSE) {
    const int64_t entries = rows->offsets[rows->count];
    b.offsets = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(rows->count + 1), rows->offsets);
    b.indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(entries), rows->indices);
    b.values = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(entries), rows->values);
    if (rows->ids) b.ids = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(entries), rows->ids);
    if (rows->fields) b.fields = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(entries), rows->fields);
    return b;
  }
  shoal_shape shape = {.rank = w->schema.shape.rank + 1, .dim = {rows->count}};
  memcpy(shape.dim + 1, w->schema.shape.dim, (size_t)w->schema.shape.rank * sizeof *shape.dim);
  b.features = shoal_tensor_view(rows->schema.dtype, shape, rows->features);
  return b;
}

/* rows: a power of two of them. */
static shoal_status score(weights_in_use *w, rows_block *rows, float *out) {
  const rows_block *ready = rows;
  if (w->prepare) {
    rows_clear(&w->prepared);
    for (int64_t i = 0; i < rows->count; i++) TRY(transform_row(w->prepare, rows, i, 0, (uint64_t)i, &w->prepared));
    ready = &w->prepared;
  }
  shoal_model *m = shoal_trained_model(w->trained);
  const shoal_batch batch = batch_of(w, ready);
  shoal_tensor to = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(ready->count, shoal_model_outputs(m)), out);
  return shoal_model_predict_rows(m, &batch, &to);
}

/* A plan for each size of a batch. */
static shoal_status warm_up(weights_in_use *w, int64_t batch_max) {
  rows_block rows;
  rows_init(&rows, &w->schema);
  const int64_t outputs = shoal_model_outputs(shoal_trained_model(w->trained));
  float *out = calloc((size_t)batch_max, (size_t)outputs * sizeof *out);
  shoal_status status = out ? NULL : status_no_memory();
  for (int64_t n = 1; !status && n <= batch_max; n *= 2) {
    rows_clear(&rows);
    const int64_t entries = MIN_OF(WARM_ENTRIES, w->schema.features);
    status = rows_reserve(&rows, n, n * entries);
    for (int64_t i = 0; !status && rows.offsets && i < n; i++) {
      for (int64_t k = 0; k < entries; k++) {
        rows.indices[i * entries + k] = (int32_t)k;
        rows.values[i * entries + k] = 0;
        if (rows.ids) rows.ids[i * entries + k] = k;
        if (rows.fields) rows.fields[i * entries + k] = 0;
      }
      rows.labels[i] = -1;
      rows.offsets[i + 1] = (i + 1) * entries;
      rows.count++;
    }
    if (!status) status = fill_up(&rows, n);
    if (!status) status = score(w, &rows, out);
  }
  free(out);
  rows_fini(&rows);
  return status;
}

static shoal_status load(const serve_model *m, weights_in_use **out) {
  weights_in_use *w = calloc(1, sizeof *w);
  if (!w) return status_no_memory();
  shoal_status status = shoal_trained_open(m->target, &m->options, &w->trained);
  if (!status) status = find_schema(w);
  if (!status && !read_stamp(shoal_trained_weights(w->trained), &w->stamp))
    status = status_make(SHOAL_ERR_INPUT, "%s: it is gone", shoal_trained_weights(w->trained));
  if (!status) status = warm_up(w, m->batch_max);
  if (!status) w->step = step_of(m->target, shoal_trained_weights(w->trained));
  if (status)
    release(w);
  else
    *out = w;
  return status;
}

shoal_status serve_model_create(const char *target, const shoal_trained_options *options, int64_t batch_max,
                                serve_model **out) {
  serve_model *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  pthread_mutex_init(&m->lock, NULL);
  m->options = *options;
  m->batch_max = batch_max;
  m->target = strdup(target);
  m->seen = look_at(target);
  shoal_status status = m->target ? load(m, &m->current) : status_no_memory();
  if (status) {
    serve_model_destroy(m);
    return status;
  }
  if (!(m->name = strdup(m->current->trained->saved.kind->name))) {
    serve_model_destroy(m);
    return status_no_memory();
  }
  m->schema = m->current->schema;
  m->outputs = (int)shoal_model_outputs(shoal_trained_model(m->current->trained));
  *out = m;
  return NULL;
}

void serve_model_destroy(serve_model *m) {
  if (!m) return;
  release(m->current);
  pthread_mutex_destroy(&m->lock);
  free(m->target);
  free(m->name);
  free(m);
}

const char *serve_model_name(const serve_model *m) { return m->name; }
const rows_schema *serve_model_schema(const serve_model *m) { return &m->schema; }
int serve_model_outputs(const serve_model *m) { return m->outputs; }
/* Two classes told apart by one unit: the probability of the first follows from that of the second. */
int serve_model_first(const serve_model *m) { return m->schema.kind == ROWS_SPARSE && m->outputs == 2; }

shoal_status serve_model_score(serve_model *m, rows_block *rows, float *out) {
  TRY(fill_up(rows, power_of_two(rows->count)));
  pthread_mutex_lock(&m->lock);
  shoal_status status = score(m->current, rows, out);
  pthread_mutex_unlock(&m->lock);
  return status;
}

static shoal_status check_same(const serve_model *m, const weights_in_use *w) {
  const rows_schema *a = &m->schema, *b = &w->schema;
  const bool same = a->kind == b->kind && a->features == b->features && shoal_shape_equal(&a->shape, &b->shape) &&
                    shoal_model_outputs(shoal_trained_model(w->trained)) == m->outputs;
  return same ? NULL
              : status_make(SHOAL_ERR_INPUT, "%s: another model than the one being served: start anew to serve it",
                            shoal_trained_weights(w->trained));
}

shoal_status serve_model_refresh(serve_model *m, bool *changed) {
  char *path;
  json_t *settings;
  file_stamp stamp;
  *changed = false;
  const outside_look look = look_at(m->target);
  if (same_look(&look, &m->seen)) return NULL;
  m->seen = look;
  TRY(run_dir_resolve(m->target, &path, &settings));
  json_decref(settings);
  const bool there = read_stamp(path, &stamp);
  free(path);
  if (!there || same_file(&stamp, &m->current->stamp)) return NULL;
  weights_in_use *newer;
  TRY(load(m, &newer));
  shoal_status status = check_same(m, newer);
  if (status) {
    release(newer);
    return status;
  }
  pthread_mutex_lock(&m->lock);
  weights_in_use *old = m->current;
  m->current = newer;
  pthread_mutex_unlock(&m->lock);
  release(old);
  *changed = true;
  return NULL;
}

int64_t serve_model_weights(serve_model *m, char *path) {
  pthread_mutex_lock(&m->lock);
  snprintf(path, SERVE_WEIGHTS_TEXT, "%s", shoal_trained_weights(m->current->trained));
  const int64_t step = m->current->step;
  pthread_mutex_unlock(&m->lock);
  return step;
}
