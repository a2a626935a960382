#include "run/rows.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "data/class_names.h"
#include "data/dataset.h"
#include "data/pipeline.h"

#include <stdlib.h>
#include <string.h>

#define LOAD_BATCH 64
#define SCAN_BATCH 1024
#define LARGE_SPACE (1 << 20) /* TFRecord files with indices from here on have the model's own number of features */

void job_close_rows(job_rows *rows) {
  shoal_dataset_destroy(rows->data);
  free(rows->files);
  free(rows->transform);
  free(rows->lookups);
  free((void *)rows->class_names);
  free(rows->preprocessing);
  *rows = (job_rows){0};
}

static const char *data_of(const shoal_job *f, const char *split) {
  if (!strcmp(split, "validation")) return f->validation_data;
  return !strcmp(split, "test") && f->test_data ? f->test_data : f->data;
}

/* Rows to test on that have a place of their own are all of what is there. */
static const char *split_of(const shoal_job *f, const char *split) {
  return f->test_data || !strcmp(split, "validation") ? "train" : split;
}

/* "fake" alone is fake data that suits the model. */
static bool is_fake(const char *path) { return !strcmp(path, "fake") || !strncmp(path, "fake:", 5); }

/* All rows are the same, so a few of them are test enough. */
static shoal_status load_fake(const shoal_job *f, const shoal_model_kind *kind, const char *split, job_rows *rows) {
  enum { TRAIN_ROWS = 12288, TEST_ROWS = 128 };
  const char *path = data_of(f, split);
  char whole[128];
  const shoal_shape *in = &rows->input;
  if (!strcmp(path, "fake")) {
    const long long classes = f->classes ? f->classes : kind->classes, width = in->rank > 1 ? in->dim[1] : 1;
    snprintf(whole, sizeof whole, "fake:%lldx%lldx%lld:%lld:%d", (long long)in->dim[0], width,
             (long long)(in->rank > 2 ? in->dim[2] : 1), classes, !strcmp(split, "test") ? TEST_ROWS : TRAIN_ROWS);
    path = whole;
  }
  TRY(dataset_fake(path, &rows->data));
  rows->classes = rows->data->classes;
  return NULL;
}

bool job_has_split(const shoal_job *f, const char *split) {
  if (is_fake(data_of(f, split))) return true;
  if (dataset_loadable(data_of(f, split)) || f->test_data) return true;
  text files = {0};
  shoal_status status = dataset_files(data_of(f, split), split, &files);
  bool has = !status;
  shoal_status_free(status);
  text_fini(&files);
  return has;
}

/* Where the model's input follows its training rows, and its layers can take rows of this shape as they are, it becomes
 * that; an image has channels. */
static void follow(job_rows *rows, const shoal_model_kind *kind, const shoal_shape *row) {
  const int64_t side_min = kind->input_min;
  shoal_shape s = *row;
  if (s.rank == 2) s.dim[s.rank++] = 1;
  if (!rows->follows || kind->input_rule == SHOAL_INPUT_FIXED || s.rank < 1 || s.rank > 3) return;
  if (shoal_shape_count(&s) == shoal_shape_count(&kind->input)) return; /* rows of the model's own, or close to it */
  if (kind->input_rule == SHOAL_INPUT_IMAGE && (s.rank != 3 || s.dim[0] < side_min || s.dim[1] < side_min)) return;
  rows->input = s;
}

/* What makes such rows fit the model's input; *out stays NULL when they do as they are. */
static shoal_status fitting_transform(const rows_schema *s, const shoal_shape *input, const shoal_model_kind *kind,
                                      const char *path, char **out) {
  const bool fits = s->kind == ROWS_DENSE && shoal_shape_count(&s->shape) == shoal_shape_count(input);
  const bool image = s->kind == ROWS_BYTES || (s->kind == ROWS_DENSE && s->dtype == SHOAL_U8 && s->shape.rank >= 2);
  const bool numbers = s->kind == ROWS_DENSE && s->dtype == SHOAL_F32;
  const bool own = kind->transform && (kind->input_rule == SHOAL_INPUT_ANY ? numbers : image);
  if (fits && !own) return NULL;
  if (fits && numbers) {
    *out = strdup(kind->transform);
    return *out ? NULL : status_no_memory();
  }
  if (image && input->rank == 3 && (input->dim[2] == 1 || input->dim[2] == 3)) {
    const char *more = own ? kind->transform : "";
    int written = fits ? asprintf(out, "%s", more)
                       : asprintf(out, "resize=%lldx%lld,%s%s%s", (long long)input->dim[0], (long long)input->dim[1],
                                  input->dim[2] == 1 ? "gray" : "colour", *more ? "," : "", more);
    if (written >= 0) return NULL;
    *out = NULL;
    return status_no_memory();
  }
  char have[SHOAL_SHAPE_TEXT], want[SHOAL_SHAPE_TEXT];
  shoal_shape_text(input, want);
  if (s->kind == ROWS_SPARSE)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: the rows are sparse, but the model %s takes dense ones: 'shoal data convert' "
                       "makes .csv or .npy of them",
                       path, kind->name);
  return status_make(SHOAL_ERR_INPUT, "%s: the rows are %s, but the model takes examples of %s", path,
                     s->kind == ROWS_BYTES ? "encoded images" : shoal_shape_text(&s->shape, have), want);
}

job_learned job_learned_of(const shoal_model *m) {
  return (job_learned){shoal_model_class_names(m), shoal_model_preprocessing(m)};
}

/* Looks at the head of the first file, and learns what is not known yet. */
static shoal_status probe(job_rows *rows, rows_schema *out) {
  shoal_pipeline_options small = rows->stream;
  small.batch_size = small.prefetch = small.threads = 1;
  small.shuffle_rows = 0;
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&small, &p));
  pipeline_schema(p, out);
  const char *learned = shoal_pipeline_preprocessing(p);
  free((void *)rows->class_names);
  free(rows->preprocessing);
  rows->class_names = NULL;
  rows->preprocessing = NULL;
  shoal_status status = class_names_copy(shoal_pipeline_class_names(p), &rows->class_names);
  if (!status && learned && !(rows->preprocessing = strdup(learned))) status = status_no_memory();
  shoal_pipeline_destroy(p);
  return status;
}

/* The inputs of the model that are columns of words, as a pipeline takes them. */
static shoal_status find_lookups(const shoal_model_kind *kind, char **out) {
  const model_file *file = model_file_of(kind);
  const json_t *inputs = file ? json_object_get(file->file, "inputs") : NULL;
  json_t *found = json_object();
  for (size_t i = 0; i < json_array_size(inputs); i++) {
    const json_t *in = json_array_get(inputs, i), *name = json_object_get(in, "name");
    json_t *lookup = json_object_get(in, "lookup");
    if (lookup) json_object_set(found, name ? json_string_value(name) : "input", lookup);
  }
  *out = json_object_size(found) ? json_words(found, JSON_COMPACT) : NULL;
  const bool failed = !found || (json_object_size(found) && !*out);
  json_decref(found);
  return failed ? status_no_memory() : NULL;
}

static shoal_status find_files(const shoal_job *f, const shoal_model_kind *kind, const job_rows_options *o,
                               job_rows *rows) {
  text files = {0};
  TRY(dataset_files(data_of(f, o->split), split_of(f, o->split), &files));
  rows->files = files.data;
  TRY(find_lookups(kind, &rows->lookups));
  rows->stream = (shoal_pipeline_options){.files = rows->files,
                                          .format = f->format,
                                          .classes = (int)f->classes,
                                          .features = f->features,
                                          .class_names = o->known.class_names,
                                          .preprocessing = o->known.preprocessing,
                                          .labels_optional = o->labels_optional,
                                          .real_labels = job_is_regression(kind),
                                          .row_size = o->labels_optional ? shoal_shape_count(&rows->input) : 0,
                                          .ignore_unknown = o->scored,
                                          .growing_ids = f->growing_ids && kind->sparse,
                                          .columns = f->columns,
                                          .lookups = rows->lookups,
                                          .fields = f->fields,
                                          .transform = f->transform,
                                          .batch_size = LOAD_BATCH,
                                          .threads = (int)MIN_OF(f->threads, 64),
                                          .skip_bad_rows = f->on_bad_row && !strcmp(f->on_bad_row, "skip")};
  rows_schema schema;
  TRY(probe(rows, &schema));
  if (kind->sparse && schema.kind == ROWS_SPARSE && !schema.real_labels) { /* whatever their numbers in the files */
    rows->stream.classes = 2;
    TRY(probe(rows, &schema));
  }
  if (kind->sparse && schema.kind != ROWS_SPARSE)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: the model takes sparse rows (tfrecord, libsvm, libffm, criteo), but these are %s",
                       rows->files, schema.kind == ROWS_DENSE ? "dense" : "encoded images");
  if (schema.kind == ROWS_DENSE) follow(rows, kind, &schema.shape);
  if (!f->transform && !kind->sparse) {
    TRY(fitting_transform(&schema, &rows->input, kind, rows->files, &rows->transform));
    rows->stream.transform = rows->transform;
    if (rows->transform && schema.kind == ROWS_DENSE && schema.dtype == SHOAL_F32) TRY(probe(rows, &schema));
  }
  rows->stream.class_names = rows->class_names;
  rows->stream.preprocessing = rows->preprocessing;
  rows->targets = schema.real_labels;
  rows->classes = f->classes ? (int)f->classes : schema.classes;
  return NULL;
}

static shoal_shape row_shape(const shoal_dataset *d) {
  const shoal_shape *s = &d->features.shape;
  shoal_shape one = {.rank = s->rank - 1};
  memcpy(one.dim, s->dim + 1, (size_t)one.rank * sizeof *one.dim);
  return one;
}

/* Rows of as many numbers as the model takes become its shape. */
static shoal_status shape_rows(job_rows *rows, const char *path) {
  shoal_shape *s = &rows->data->features.shape, one = row_shape(rows->data);
  const shoal_shape *input = &rows->input;
  if (shoal_shape_count(&one) != shoal_shape_count(input)) {
    char have[SHOAL_SHAPE_TEXT], want[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_INPUT, "%s: the rows are %s, but the model takes examples of %s", path,
                       shoal_shape_text(&one, have), shoal_shape_text(input, want));
  }
  s->rank = input->rank + 1;
  memcpy(s->dim + 1, input->dim, (size_t)input->rank * sizeof *s->dim);
  return NULL;
}

/* How many the model's file says it tells apart; 0: it takes as many as there are. */
static int classes_in_file(const shoal_model_kind *kind) {
  const model_file *file = model_file_of(kind);
  const json_t *parameters = file ? json_object_get(file->file, "parameters") : NULL;
  return json_object_get(parameters, "classes") ? kind->classes : 0;
}

static shoal_status stream_rows(const shoal_job *f, const shoal_model_kind *kind, job_rows *rows) {
  if (!rows->classes && !rows->targets) rows->classes = classes_in_file(kind);
  if (!rows->classes && !rows->targets)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: how many classes there are is not known before all rows are read: add "
                       "`classes` N",
                       rows->files);
  rows->stream.shuffle_rows = f->shuffle_rows;
  rows->stream.batch_size = 0;
  return NULL;
}

static shoal_status open_rows(const shoal_job *f, const shoal_model_kind *kind, const job_rows_options *o,
                              job_rows *rows) {
  const char *path = data_of(f, o->split);
  bool stream = (o->may_stream && f->stream) || kind->sparse || o->labels_optional; /* sparse rows always are */
  if (is_fake(path) && !stream && !f->format && !f->transform) {
    TRY(load_fake(f, kind, o->split, rows));
    const shoal_shape row = row_shape(rows->data);
    follow(rows, kind, &row);
    return shape_rows(rows, path);
  }
  if (!stream && !f->format && !f->transform && dataset_loadable(path)) { /* the quickest way for what it knows */
    TRY(shoal_dataset_load(path, o->split, &rows->data));
    const shoal_shape row = row_shape(rows->data);
    rows->classes = rows->data->classes;
    follow(rows, kind, &row);
    if (shoal_shape_count(&row) == shoal_shape_count(&rows->input)) return shape_rows(rows, path);
    shoal_dataset_destroy(rows->data); /* images that must be made to fit */
    rows->data = NULL;
  }
  TRY(find_files(f, kind, o, rows));
  if (kind->sparse) rows->classes = 2;
  if (o->labels_optional) return NULL;
  if (stream) return stream_rows(f, kind, rows);
  TRY(shoal_dataset_read(&rows->stream, f->memory_limit << 20, &rows->data));
  if (!rows->data && o->may_stream) return stream_rows(f, kind, rows);
  if (!rows->data)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: the rows take more than %lld MB; raise `memory_limit`", rows->files,
                       (long long)f->memory_limit);
  rows->classes = rows->data->classes;
  return shape_rows(rows, rows->files);
}

/* Raises *most to the largest index in the files; reads no further than one from `enough` on. */
static shoal_status largest_index(const shoal_pipeline_options *o, int64_t enough, int32_t *most) {
  shoal_pipeline_options all = *o;
  all.batch_size = SCAN_BATCH;
  all.epochs = 1;
  all.shuffle_rows = 0;
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&all, &p));
  const shoal_batch *b = NULL;
  shoal_status status = shoal_pipeline_next(p, &b);
  while (!status && b && *most < enough) {
    const int32_t *index = b->indices.data;
    for (int64_t i = 0; i < b->indices.shape.dim[0]; i++) *most = MAX_OF(*most, index[i]);
    status = shoal_pipeline_next(p, &b);
  }
  shoal_pipeline_destroy(p);
  return status;
}

shoal_status job_find_features(const shoal_model_kind *kind, const job_rows *train, const job_rows *test,
                               int64_t *out) {
  shoal_pipeline_options head = train->stream;
  head.batch_size = head.prefetch = 1;
  head.shuffle_rows = 0;
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&head, &p));
  const char *written = pipeline_format(p)->name;
  shoal_pipeline_destroy(p);
  /* The click log's indices are hashes over all features; as TFRecord it shows by the size of its indices. */
  int64_t enough = !strcmp(written, "libsvm") || !strcmp(written, "libffm") ? INT64_MAX
                   : !strcmp(written, "tfrecord")                           ? LARGE_SPACE
                                                                            : 0;
  int32_t most = 0;
  if (enough) TRY(largest_index(&train->stream, enough, &most));
  if (enough && test->files) TRY(largest_index(&test->stream, enough, &most));
  *out = most < enough ? (int64_t)most + 1 : kind->input.dim[0];
  return NULL;
}

static shoal_status count_scores(void *context, const float *scores, const int32_t *labels, int64_t n) {
  for (int64_t i = 0; i < n; i++) confusion_add(context, labels[i], scores[i] > 0.5f);
  return NULL;
}

shoal_status job_evaluate(shoal_model *m, const job_rows *rows, shoal_confusion *counts, shoal_evaluation *out) {
  const bool counted = counts && counts->counts;
  if (!rows->data) return shoal_model_evaluate_stream(m, &rows->stream, counted ? count_scores : NULL, counts, out);
  TRY(shoal_model_evaluate(m, rows->data, out));
  return counted ? confusion_add_rows(counts, m, rows->data) : NULL;
}

/* Classes for a model that tells them apart, numbers for one that predicts them. */
static shoal_status check_labels(const job_rows *rows, const shoal_model_kind *kind, const char *path) {
  if (rows->targets == job_is_regression(kind)) return NULL;
  if (rows->targets)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: the labels are regression targets, but %s is a classifier: use the model linear, or name "
                       "the column of classes: `columns` label=COLUMN",
                       path, kind->name);
  return status_make(SHOAL_ERR_ARGUMENT,
                     "%s: the labels are classes, but %s is a regression model: name the column of targets, `columns` "
                     "target=COLUMN (NumPy: save them as floats), or use the model softmax",
                     path, kind->name);
}

shoal_status job_open_rows(const shoal_job *f, const shoal_model_kind *kind, const job_rows_options *options,
                           job_rows *out) {
  job_rows rows = {.input = job_input(f, kind), .follows = options->follows && !f->input};
  shoal_status status = open_rows(f, kind, options, &rows);
  if (!status && !options->labels_optional) status = check_labels(&rows, kind, data_of(f, options->split));
  if (status)
    job_close_rows(&rows);
  else
    *out = rows;
  return status;
}
