/* What a trained model sees in pictures and rows. */
#include "data/format.h"
#include "data/image.h"
#include "data/transform.h"
#include "run/trained.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PICTURE_BYTES_MAX (256 << 20) /* of an encoded one */
#define BATCH 256                     /* rows at a time */

typedef struct {
  saved_model *saved;
  const shoal_trained_options *options;
  const char *split;
  shoal_prediction_taker take;
  void *context;
  int64_t seen; /* sparse rows so far */
} predicting;

/* One batch of one or more rows, called `name` (a single one) or by their numbers from `first` on, behind `file` unless
 * that is NULL. */
static shoal_status predict_rows(const predicting *p, const shoal_tensor *features, const char *name, const char *file,
                                 int64_t first, const shoal_tensor *labels) {
  const int64_t n = features->shape.dim[0];
  const int outputs = (int)shoal_model_outputs(p->saved->model), classes = p->saved->classes;
  shoal_tensor out;
  TRY(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(n, outputs), &out));
  shoal_status status = shoal_model_predict(p->saved->model, features, &out);
  for (int64_t i = 0; !status && i < n; i++) {
    char row[PATH_MAX + 32];
    snprintf(row, sizeof row, "%s%s%lld", file ? file : "", file ? ":" : "", (long long)(first + i));
    const shoal_prediction one = {
        .input = name ? name : row,
        .row = first + i,
        .label = labels && classes ? (int64_t)shoal_tensor_get(labels, i) : -1,
        .target = labels && !classes && labels->shape.rank == 1 ? shoal_tensor_get(labels, i) : NAN,
        .values = (const float *)out.data + i * outputs,
        .count = outputs};
    status = p->take(p->context, &one);
  }
  shoal_tensor_fini(&out);
  return status;
}

/* ---- pictures */

/* The file's bytes become the one row of `into`. */
static shoal_status read_bytes(const char *path, rows_block *into) {
  struct stat info;
  FILE *file = fopen(path, "rbe");
  if (!file) return status_errno(errno, "cannot open it");
  shoal_status status = NULL;
  if (fstat(fileno(file), &info) || !S_ISREG(info.st_mode) || info.st_size > PICTURE_BYTES_MAX)
    status = status_make(SHOAL_ERR_INPUT, "is not a file of at most %d bytes: give the path of a picture",
                         PICTURE_BYTES_MAX);
  if (!status) status = rows_reserve(into, 1, info.st_size);
  if (!status && fread(into->bytes, 1, (size_t)info.st_size, file) != (size_t)info.st_size)
    status = status_make(SHOAL_ERR_INPUT, "cannot read its %lld bytes", (long long)info.st_size);
  if (!status) {
    into->labels[0] = 0;
    into->offsets[0] = 0;
    into->offsets[1] = info.st_size;
    into->count = 1;
  }
  fclose(file);
  return status;
}

/* A picture, as rows of such pictures were made to fit when the model was trained. */
static shoal_status predict_colour(const predicting *p, const char *path) {
  const saved_model *s = p->saved;
  const shoal_shape input = job_input(&s->job, s->kind), *in = &input;
  const char *own = s->kind->transform ? s->kind->transform : "", *given = s->job.transform ? s->job.transform : own;
  char *steps = NULL;
  const bool sized = strstr(given, "resize=") || strstr(given, "fit="); /* else the rows had the size already */
  if (asprintf(&steps, "resize=%lldx%lld,colour%s%s", (long long)in->dim[0], (long long)in->dim[1], *given ? "," : "",
               given) < 0)
    return status_no_memory();
  rows_block file, picture = {0};
  rows_init(&file, &(rows_schema){.kind = ROWS_BYTES, .classes = s->classes});
  transform *t = NULL;
  shoal_status status = NULL;
  TRY_GOTO(status, read_bytes(path, &file), done);
  TRY_GOTO(status, transform_create(sized ? given : steps, &file.schema, 0, NULL, &t), done);
  rows_schema schema;
  transform_schema(t, &schema);
  rows_init(&picture, &schema);
  if (shoal_shape_count(&schema.shape) != shoal_shape_count(in))
    TRY_GOTO(status, status_make(SHOAL_ERR_INPUT, "`transform` %s does not make the model's input of it", given), done);
  TRY_GOTO(status, transform_row(t, &file, 0, 0, 0, &picture), done);
  shoal_tensor row =
      shoal_tensor_view(schema.dtype, SHOAL_SHAPE(1, in->dim[0], in->dim[1], in->dim[2]), picture.features);
  status = predict_rows(p, &row, path, NULL, 0, NULL);
done:
  transform_destroy(t);
  free(steps);
  rows_fini(&picture);
  rows_fini(&file);
  return status_wrap(status, "%s", path);
}

static shoal_status predict_file(const predicting *p, const char *path) {
  const saved_model *s = p->saved;
  const shoal_shape input = job_input(&s->job, s->kind), *in = &input;
  if (in->rank == 3 && in->dim[2] > 1) return predict_colour(p, path);
  if (in->rank != 3)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: the model takes rows of %lld numbers, no pictures; give a file of "
                       "rows, or `index`",
                       path, (long long)shoal_shape_count(in));
  shoal_tensor picture;
  TRY(image_read_gray(path, (int)in->dim[0], (int)in->dim[1], &picture));
  picture.shape.rank = in->rank + 1;
  for (int i = 0; i < in->rank; i++) picture.shape.dim[i + 1] = in->dim[i];
  shoal_status status = predict_rows(p, &picture, path, NULL, 0, NULL);
  shoal_tensor_fini(&picture);
  return status_wrap(status, "%s", path);
}

/* ---- rows */

/* Rows to predict, which need no labels. */
static shoal_status open_unlabelled(const predicting *p, const char *path, job_rows *out) {
  saved_model *s = p->saved;
  shoal_trained_options given = *p->options;
  if (path) {
    s->job.data = given.data = path;
    s->job.test_data = NULL;
    s->job.format = given.format;
  }
  const job_rows_options which = {.split = saved_split(s, &given, p->split),
                                  .known = job_learned_of(s->model),
                                  .scored = true,
                                  .labels_optional = true};
  return job_open_rows(&s->job, s->kind, &which, out);
}

static shoal_status take_scores(void *context, const float *scores, const int32_t *labels, int64_t n) {
  predicting *p = context;
  char row[32];
  for (int64_t i = 0; i < n; i++) {
    snprintf(row, sizeof row, "%lld", (long long)p->seen);
    const shoal_prediction one = {
        .input = row, .row = p->seen++, .label = labels[i], .target = NAN, .values = &scores[i], .count = 1};
    TRY(p->take(p->context, &one));
  }
  return NULL;
}

static shoal_status predict_sparse(predicting *p, const char *path, int64_t *unknown_entries) {
  job_rows rows;
  shoal_evaluation e;
  TRY(open_unlabelled(p, path, &rows));
  shoal_status status = shoal_model_evaluate_stream(p->saved->model, &rows.stream, take_scores, p, &e);
  job_close_rows(&rows);
  if (!status && unknown_entries) *unknown_entries = e.unknown_entries;
  return status;
}

static shoal_status predict_batches(const predicting *p, shoal_pipeline *rows, const char *file) {
  const saved_model *s = p->saved;
  const shoal_shape input = job_input(&s->job, s->kind), *in = &input;
  for (int64_t first = 0;;) {
    const shoal_batch *b;
    TRY(shoal_pipeline_next(rows, &b));
    if (!b) return NULL;
    if (!b->count) continue;
    shoal_tensor features = b->features; /* as many numbers as the model takes, in its shape */
    features.shape.rank = in->rank + 1;
    memcpy(features.shape.dim + 1, in->dim, (size_t)in->rank * sizeof *in->dim);
    if (shoal_tensor_count(&features) != shoal_tensor_count(&b->features)) features = b->features;
    TRY(predict_rows(p, &features, NULL, file, first, b->targets.data ? &b->targets : &b->labels));
    first += b->count;
  }
}

/* path: NULL: options->data, or the run's test rows. named: rows are to be told from those of other files. */
static shoal_status predict_data(const predicting *p, const char *path, bool named) {
  job_rows rows;
  TRY(open_unlabelled(p, path, &rows));
  shoal_pipeline_options o = rows.stream;
  o.epochs = 1;
  o.batch_size = BATCH;
  shoal_pipeline *pipeline;
  shoal_status status = shoal_pipeline_create(&o, &pipeline);
  if (!status) {
    status = predict_batches(p, pipeline, named ? path : NULL);
    shoal_pipeline_destroy(pipeline);
  }
  job_close_rows(&rows);
  return status;
}

/* Files of rows, rather than a picture? What is neither is taken for a picture, whose errors say so. */
static bool holds_rows(const saved_model *s, const char *path) {
  const shoal_shape in = job_input(&s->job, s->kind);
  struct stat info;
  uint8_t head[64];
  if (stat(path, &info)) return strpbrk(path, "*?[,") != NULL;
  FILE *file = S_ISREG(info.st_mode) ? fopen(path, "rbe") : NULL;
  size_t n = file ? fread(head, 1, sizeof head, file) : 0;
  if (file) fclose(file);
  if (image_is_known(head, n) || (file && info.st_size == shoal_shape_count(&in))) return false;
  const format *found;
  shoal_status status = format_detect(path, &found);
  bool rows = !status;
  shoal_status_free(status);
  return rows;
}

/* ---- all */

shoal_status shoal_trained_predict(shoal_trained *t, const char *const *files, int n, const char *split,
                                   shoal_prediction_taker take, void *context, int64_t *unknown_entries) {
  predicting p = {&t->saved, &t->options, split, take, context, 0};
  if (unknown_entries) *unknown_entries = 0;
  if (t->saved.kind->sparse && n > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "%s takes one file, folder or glob of rows, or `data`", t->saved.kind->name);
  if (t->saved.kind->sparse) return predict_sparse(&p, n ? files[0] : NULL, unknown_entries);
  if (!n) return predict_data(&p, NULL, false);
  for (int i = 0; i < n; i++)
    TRY(holds_rows(&t->saved, files[i]) ? predict_data(&p, files[i], n > 1) : predict_file(&p, files[i]));
  return NULL;
}

shoal_status shoal_trained_predict_range(shoal_trained *t, const char *split, int64_t first, int64_t last,
                                         shoal_prediction_taker take, void *context) {
  saved_model *s = &t->saved;
  const predicting p = {s, &t->options, split, take, context, 0};
  const job_rows_options which = {
      .split = saved_split(s, &t->options, split), .known = job_learned_of(s->model), .scored = true};
  job_rows loaded;
  if (s->kind->sparse)
    return status_make(SHOAL_ERR_ARGUMENT, "%s takes one file, folder or glob of rows, or `data`", s->kind->name);
  TRY(job_open_rows(&s->job, s->kind, &which, &loaded));
  shoal_status status = NULL;
  shoal_dataset rows;
  if (last >= shoal_dataset_rows(loaded.data))
    TRY_GOTO(status,
             status_make(SHOAL_ERR_ARGUMENT, "`index`: row %lld is past the last of %s, %lld", (long long)last,
                         s->job.data, (long long)shoal_dataset_rows(loaded.data) - 1),
             done);
  TRY_GOTO(status, shoal_dataset_view(loaded.data, first, last - first + 1, &rows), done);
  status = predict_rows(&p, &rows.features, NULL, NULL, first, &rows.labels);
done:
  job_close_rows(&loaded);
  return status;
}
