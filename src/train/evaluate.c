/* Running a model without training it. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/options.h"
#include "data/dataset.h"
#include "data/rows.h"
#include "train/model_ids.h"
#include "train/binary_metrics.h"
#include "train/class_sums.h"
#include "train/results.h"
#include "train/target_sums.h"

#include <math.h>
#include <string.h>

#define EVALUATION_BATCH 1000
#define ELSEWHERE_BATCH 100 /* of rows whose weights have to be fetched: a batch must fit into the session's table */

/* Rows at a time: enough to fill the threads; fewer of large examples, whose layers take much memory. */
static int64_t batch_rows(const shoal_model *m) {
  enum { LEAST = 64, NUMBERS = 16 << 20 };
  return MIN_OF(MAX_OF(NUMBERS / shoal_shape_count(&m->input), LEAST), EVALUATION_BATCH);
}

shoal_status model_check_features(const shoal_model *m, const shoal_tensor *features) {
  const shoal_shape *s = &features->shape;
  if (m->sparse)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the model takes sparse rows, which come from a pipeline, not from a tensor");
  bool fits = s->rank == m->input.rank + 1;
  for (int i = 0; fits && i < m->input.rank; i++) fits = s->dim[i + 1] == m->input.dim[i];
  if (!fits) {
    char have[SHOAL_SHAPE_TEXT], one[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "the features are %s, but the model takes examples of %s",
                       shoal_shape_text(s, have), shoal_shape_text(&m->input, one));
  }
  if (features->dtype != SHOAL_U8 && features->dtype != SHOAL_F32)
    return status_make(SHOAL_ERR_ARGUMENT, "the features are %s; expected u8 or f32",
                       shoal_dtype_name(features->dtype));
  if (!features->data && s->dim[0] > 0) return status_make(SHOAL_ERR_ARGUMENT, "the features have no data");
  return NULL;
}

static shoal_status check_classes(const shoal_model *m, const shoal_tensor *labels) {
  if (labels->dtype == SHOAL_F32)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the labels are regression targets (f32), but the model is a classifier (loss %s): compile it "
                       "with the loss mse, or give classes as u8, i32 or i64",
                       loss_name(m->loss));
  if (labels->dtype != SHOAL_U8 && labels->dtype != SHOAL_I32 && labels->dtype != SHOAL_I64)
    return status_make(SHOAL_ERR_ARGUMENT, "the labels are %s; expected u8, i32 or i64",
                       shoal_dtype_name(labels->dtype));
  int64_t largest;
  TRY(dataset_label_range(labels, "labels", &largest));
  if (largest >= m->classes)
    return status_make(SHOAL_ERR_INPUT,
                       "a label is %lld, but the model has %lld classes (0 to %lld): give its last "
                       "layer more units",
                       (long long)largest, (long long)m->classes, (long long)m->classes - 1);
  return NULL;
}

static shoal_status check_targets(const shoal_model *m, const shoal_tensor *labels) {
  if (labels->dtype != SHOAL_F32)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the labels are classes (%s), but the model is a regression (loss %s): give them as f32, or "
                       "compile the model with the loss softmax_cross_entropy",
                       shoal_dtype_name(labels->dtype), loss_name(m->loss));
  const float *y = labels->data; /* [.., targets] */
  for (int64_t i = 0; i < labels->shape.dim[0]; i++) {
    const int64_t row = labels->rows ? labels->rows[i] : i;
    TRY(status_wrap(results_check_targets(m, y + row * m->targets), "row %lld", (long long)i));
  }
  return NULL;
}

static shoal_status check_labels(const shoal_model *m, const shoal_tensor *labels, int64_t n) {
  const shoal_shape *s = &labels->shape;
  const bool one = s->rank == 1 && (!m->loss->targets || m->targets == 1);
  const bool several = s->rank == 2 && m->loss->targets && s->dim[1] == m->targets;
  if ((!one && !several) || s->dim[0] != n) {
    char have[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "the labels are %s; %lld for each of the %lld examples %s expected",
                       shoal_shape_text(s, have), (long long)(m->loss->targets ? m->targets : 1), (long long)n,
                       m->loss->targets && m->targets > 1 ? "are" : "is");
  }
  if (!labels->data && n > 0) return status_make(SHOAL_ERR_ARGUMENT, "the labels have no data");
  return m->loss->targets ? check_targets(m, labels) : check_classes(m, labels);
}

static shoal_status check_weights(const shoal_tensor *weights, int64_t n) {
  char have[SHOAL_SHAPE_TEXT];
  if (!weights->data) return NULL;
  if (weights->dtype != SHOAL_F32 || weights->shape.rank != 1 || weights->shape.dim[0] != n)
    return status_make(SHOAL_ERR_ARGUMENT, "the weights of rows are %s %s; expected f32 [%lld], one for each row",
                       shoal_dtype_name(weights->dtype), shoal_shape_text(&weights->shape, have), (long long)n);
  for (int64_t i = 0; i < n; i++) {
    const float w = ((const float *)weights->data)[weights->rows ? weights->rows[i] : i];
    if (!(w >= 0 && w < WEIGHT_END))
      return status_make(SHOAL_ERR_INPUT, "row %lld has the weight %g: expected at least 0", (long long)i, (double)w);
  }
  return NULL;
}

shoal_status model_check_data(const shoal_model *m, const shoal_dataset *data) {
  TRY(model_check_features(m, &data->features));
  TRY(check_labels(m, &data->labels, data->features.shape.dim[0]));
  TRY(check_weights(&data->weights, data->features.shape.dim[0]));
  TRY(model_check_class_names(m, data->class_names));
  float scale = data->features.dtype == SHOAL_U8 ? 1 / 255.0f : 1;
  if (data->scale != 0 && fabsf(data->scale - scale) > 1e-6f)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the data set asks for features times %g; u8 is taken times 1/255 and f32 "
                       "as it is: give it scaled, as f32",
                       (double)data->scale);
  if (!data->features.shape.dim[0]) return status_make(SHOAL_ERR_INPUT, "the data set has no examples");
  return NULL;
}

shoal_tensor model_rows(const shoal_tensor *t, const int32_t *order, int64_t first, int64_t n) {
  shoal_tensor part = *t;
  part.shape.dim[0] = n;
  if (order) {
    part.rows = order + first;
  } else if (t->rows) {
    part.rows = t->rows + first;
  } else {
    size_t row = shoal_dtype_size(t->dtype);
    for (int i = 1; i < t->shape.rank; i++) row *= (size_t)t->shape.dim[i];
    part.data = (char *)t->data + (size_t)first * row;
  }
  return part;
}

/* What rows have come to so far. */
typedef struct {
  int64_t rows;
  double start; /* clock */
  double loss, hits, top_hits;
  target_sums targets; /* of a regression */
  class_sums classes;  /* of classes */
  double *figures;     /* [n_figures] */
} row_sums;

/* Whether predictions and labels are the same numbers, so that they can be compared one by one. */
static bool has_errors(const shoal_model *m) {
  return m->loss->targets && m->n_results == 1 && m->targets == m->outputs;
}

static shoal_status begin(const shoal_model *m, row_sums *s) {
  *s = (row_sums){.start = clock_seconds()};
  if (!(s->figures = calloc(m->n_figures + 1, sizeof *s->figures))) return status_no_memory();
  shoal_status status = NULL;
  if (has_errors(m))
    status = target_sums_init(&s->targets, m->outputs);
  else if (!m->loss->targets)
    status = class_sums_init(&s->classes, m->classes);
  if (status) free(s->figures);
  return status;
}

static shoal_status add_rows(shoal_model *m, const shoal_tensor *features, const shoal_tensor *labels, int64_t first,
                             int64_t n, row_sums *sums) {
  tower *t;
  TRY(model_tower(m, features->dtype, labels->dtype, false, &t));
  enum { LOSS, PREDICTIONS, MOST = 5 };
  shoal_value *fetches[MOST] = {t->eval_loss, t->predictions};
  int n_fetches = PREDICTIONS + 1, hits = 0, top_hits = 0, figures = 0;
  if (t->hits) fetches[hits = n_fetches++] = t->hits;
  if (t->top_hits) fetches[top_hits = n_fetches++] = t->top_hits;
  if (t->figures) fetches[figures = n_fetches++] = t->figures;
  for (int64_t i = first; i < first + n;) {
    int64_t rows = MIN_OF(first + n - i, batch_rows(m));
    const shoal_tensor y = model_rows(labels, NULL, i, rows);
    shoal_feed feeds[] = {{t->x, model_rows(features, NULL, i, rows)}, {t->y, tower_labels(t, y)}};
    shoal_tensor got[MOST];
    TRY(shoal_session_run(m->session, feeds, 2, fetches, n_fetches, got));
    sums->loss += *(const float *)got[LOSS].data;
    if (has_errors(m))
      target_sums_add(&sums->targets, &y, got[PREDICTIONS].data);
    else if (!m->loss->targets)
      TRY(class_sums_add(&sums->classes, &y, got[PREDICTIONS].data));
    sums->hits += hits ? *(const float *)got[hits].data : NAN;
    sums->top_hits += top_hits ? *(const float *)got[top_hits].data : NAN;
    for (size_t k = 0; figures && k < m->n_figures; k++) sums->figures[k] += ((const float *)got[figures].data)[k];
    sums->rows += rows;
    i += rows;
  }
  return NULL;
}

/* *out is set unless `status`, which it returns; frees what `s` has. */
static shoal_status end(shoal_model *m, row_sums *s, shoal_status status, shoal_evaluation *out) {
  const double n = (double)s->rows;
  shoal_evaluation e = evaluation_none();
  e.examples = s->rows;
  e.loss = s->loss / n;
  e.accuracy = s->hits / n;
  e.top_k = s->top_hits / n;
  e.seconds = clock_seconds() - s->start;
  if (!status && has_errors(m)) target_sums_read(&s->targets, &e);
  if (!status && !m->loss->targets) status = class_sums_read(&s->classes, &e);
  if (!status) *out = e;
  for (size_t k = 0; !status && k < m->n_figures; k++) m->figures[k].value = s->figures[k] / n;
  free(s->figures);
  target_sums_fini(&s->targets);
  class_sums_fini(&s->classes);
  return status;
}

shoal_status model_evaluate_rows(shoal_model *m, const shoal_tensor *features, const shoal_tensor *labels,
                                 int64_t first, int64_t n, shoal_evaluation *out) {
  row_sums sums;
  TRY(begin(m, &sums));
  return end(m, &sums, add_rows(m, features, labels, first, n, &sums), out);
}

shoal_status shoal_model_evaluate(shoal_model *m, const shoal_dataset *data, shoal_evaluation *out) {
  TRY(model_ready(m));
  TRY(model_check_data(m, data));
  int64_t n = data->features.shape.dim[0];
  return status_wrap(model_evaluate_rows(m, &data->features, &data->labels, 0, n, out), "evaluate");
}

/* ---- rows from a pipeline */

static shoal_pipeline_options one_pass(const shoal_model *m, const shoal_pipeline_options *rows, int64_t batch) {
  shoal_pipeline_options o = *rows;
  o.batch_size = batch;
  o.epochs = 1;
  o.shuffle_rows = 0;
  o.position = NULL;
  if (m->sparse) o.features = model_features(m);
  if (m->class_names) o.class_names = m->class_names;
  if (m->preprocessing) o.preprocessing = m->preprocessing;
  return o;
}

/* Adds up what the batches of dense rows come to. */
static shoal_status add_batches(shoal_model *m, shoal_pipeline *p, row_sums *sums) {
  for (;;) {
    const shoal_batch *b;
    TRY(shoal_pipeline_next(p, &b));
    if (!b) return NULL;
    if (!b->count) continue;
    if (!b->labels.data || !b->features.data)
      return status_make(SHOAL_ERR_INPUT, "expected rows with dense features and labels");
    shoal_dataset rows = {.features = b->features,
                          .labels = b->targets.data ? b->targets : b->labels,
                          .classes = (int)m->classes,
                          .scale = b->scale};
    if (shoal_shape_count(&b->features.shape) == b->count * shoal_shape_count(&m->input)) {
      rows.features.shape = m->input; /* [count, numbers] as [count, input] */
      memmove(rows.features.shape.dim + 1, rows.features.shape.dim, (size_t)m->input.rank * sizeof *m->input.dim);
      rows.features.shape.dim[0] = b->count;
      rows.features.shape.rank++;
    }
    TRY(model_check_data(m, &rows));
    TRY(add_rows(m, &rows.features, &rows.labels, 0, b->count, sums));
  }
}

static shoal_status evaluate_dense(shoal_model *m, const shoal_pipeline_options *rows, shoal_evaluation *out) {
  const shoal_pipeline_options o = one_pass(m, rows, batch_rows(m));
  row_sums sums;
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&o, &p));
  shoal_status status = begin(m, &sums);
  if (!status) status = add_batches(m, p, &sums);
  shoal_pipeline_destroy(p);
  if (!status && !sums.rows) status = status_make(SHOAL_ERR_INPUT, "%s: there are no rows", rows->files);
  return end(m, &sums, status, out);
}

static shoal_status take_probabilities(const float *scores, const int32_t *labels, int64_t n, shoal_score_taker take,
                                       void *context) {
  float probabilities[EVALUATION_BATCH];
  for (int64_t i = 0; i < n; i++) probabilities[i] = 1 / (1 + expf(-scores[i]));
  return take(context, probabilities, labels, n);
}

/* What sparse rows have come to so far. */
typedef struct {
  int64_t rows; /* looked at */
  binary_metrics binary;
  class_sums classes;
} sparse_sums;

/* A row without a label, -1, counts for nothing. */
static shoal_status add_labelled(sparse_sums *sum, const float *scores, const int32_t *labels, int64_t n) {
  for (int64_t i = 0, end; i < n; i = end) {
    for (end = i; end < n && labels[end] >= 0; end++) class_sums_count(&sum->classes, labels[end], scores[end] > 0);
    TRY(binary_metrics_add(&sum->binary, scores + i, labels + i, end - i));
    while (end < n && labels[end] < 0) end++;
  }
  return NULL;
}

static shoal_status score_rows(shoal_model *m, const tower *t, shoal_pipeline *p, shoal_score_taker take, void *context,
                               sparse_sums *sum) {
  for (;;) {
    const shoal_batch *b;
    TRY(shoal_pipeline_next(p, &b));
    if (!b) return NULL;
    if (!b->count) continue;
    shoal_feed feeds[TOWER_FEEDS_MAX];
    shoal_tensor got;
    if (t->fields && !b->fields.data) return status_make(SHOAL_ERR_INPUT, MODEL_NO_FIELDS);
    int n = tower_feed_sparse(t, b, feeds) - 1; /* scores need no labels */
    if (m->elsewhere) TRY(m->elsewhere->fetch(m->elsewhere->context, b, &feeds[1].tensor));
    TRY(shoal_session_run(m->session, feeds, n, (shoal_value *[]){t->scores}, 1, &got));
    const int32_t *labels = b->labels.data;
    sum->rows += b->count;
    for (int64_t i = 0; i < b->count; i++)
      if (labels[i] > 1)
        return status_make(SHOAL_ERR_INPUT, "a label is %d; the model expects 0 (or -1) and 1", labels[i]);
    TRY(add_labelled(sum, got.data, labels, b->count));
    if (take) TRY(take_probabilities(got.data, labels, b->count, take, context));
  }
}

shoal_status shoal_model_evaluate_stream(shoal_model *m, const shoal_pipeline_options *options, shoal_score_taker take,
                                         void *context, shoal_evaluation *out) {
  shoal_pipeline_options given;
  const shoal_pipeline_options *rows = &given;
  TRY(OPTIONS_TAKE(&given, options));
  TRY(model_ready(m));
  if ((m->sparse || take) && (!m->sparse || !model_is_binary(m)))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "evaluate: %s needs a model of sparse rows with one unit and a sigmoid at the "
                       "end",
                       take ? "the score of each row" : "a stream of sparse rows");
  if (!m->sparse) return status_wrap(evaluate_dense(m, rows, out), "evaluate");
  double start = clock_seconds();
  const shoal_pipeline_options o = one_pass(m, rows, m->elsewhere ? ELSEWHERE_BATCH : EVALUATION_BATCH);
  tower *t;
  TRY(model_tower(m, SHOAL_F32, SHOAL_I32, false, &t));
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&o, &p));
  sparse_sums sum = {0};
  const binary_metrics *binary = &sum.binary;
  shoal_evaluation e = evaluation_none();
  shoal_pipeline_statistics count = {0};
  shoal_status status = class_sums_init(&sum.classes, 2);
  if (!status) status = score_rows(m, t, p, take, context, &sum);
  if (!status) shoal_pipeline_count(p, &count);
  if (!status && !sum.rows) status = status_make(SHOAL_ERR_INPUT, "%s: there are no rows", rows->files);
  if (!status) status = class_sums_read(&sum.classes, &e);
  if (!status) status = binary_metrics_auc(&sum.binary, &e.auc);
  shoal_pipeline_destroy(p);
  if (!status) {
    e.examples = binary->rows;
    e.loss = binary->loss / (double)binary->rows;
    e.accuracy = (double)binary->hits / (double)binary->rows;
    e.seconds = clock_seconds() - start;
    e.unknown_entries = count.unknown_entries + (m->ids ? model_ids_unknown(m->ids) : 0);
    *out = e;
  }
  binary_metrics_fini(&sum.binary);
  class_sums_fini(&sum.classes);
  return status_wrap(status, "evaluate");
}

shoal_status shoal_model_predict(shoal_model *m, const shoal_tensor *features, shoal_tensor *out) {
  TRY(model_ready(m));
  TRY(model_check_features(m, features));
  int64_t n = features->shape.dim[0];
  shoal_shape expected = SHOAL_SHAPE(n, m->outputs);
  if (out->dtype != SHOAL_F32 || out->rows || !shoal_shape_equal(&out->shape, &expected)) {
    char have[SHOAL_SHAPE_TEXT], want[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the output is %s%s; expected f32%s", shoal_dtype_name(out->dtype),
                       shoal_shape_text(&out->shape, have), shoal_shape_text(&expected, want));
  }
  tower *t;
  TRY(model_any_tower(m, features->dtype, &t));
  for (int64_t i = 0; i < n;) {
    int64_t rows = MIN_OF(n - i, batch_rows(m));
    shoal_feed feed = {t->x, model_rows(features, NULL, i, rows)};
    shoal_tensor got;
    TRY(status_wrap(shoal_session_run(m->session, &feed, 1, &t->predictions, 1, &got), "predict"));
    memcpy((float *)out->data + i * m->outputs, got.data, (size_t)(rows * m->outputs) * sizeof(float));
    i += rows;
  }
  return NULL;
}
