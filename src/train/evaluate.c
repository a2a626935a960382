/* Running a model without training it. */
#include "base/clock.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "train/model.h"
#include "train/tally.h"

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
    return status_make(SHOAL_ERR_ARGUMENT, "the features are %s; u8 or f32 is expected",
                       shoal_dtype_name(features->dtype));
  if (!features->data && s->dim[0] > 0) return status_make(SHOAL_ERR_ARGUMENT, "the features have no data");
  return NULL;
}

static shoal_status check_labels(const shoal_model *m, const shoal_tensor *labels, int64_t n) {
  if (labels->shape.rank != 1 || labels->shape.dim[0] != n) {
    char have[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "the labels are %s; one for each of the %lld examples is expected",
                       shoal_shape_text(&labels->shape, have), (long long)n);
  }
  if (labels->dtype != SHOAL_U8 && labels->dtype != SHOAL_I32 && labels->dtype != SHOAL_I64)
    return status_make(SHOAL_ERR_ARGUMENT, "the labels are %s; u8, i32 or i64 is expected",
                       shoal_dtype_name(labels->dtype));
  if (!labels->data && n > 0) return status_make(SHOAL_ERR_ARGUMENT, "the labels have no data");
  int64_t largest;
  TRY(dataset_label_range(labels, "labels", &largest));
  if (largest >= m->classes)
    return status_make(SHOAL_ERR_INPUT, "a label is %lld, but the model has %lld classes (0 to %lld): give its last "
                       "layer more units", (long long)largest, (long long)m->classes, (long long)m->classes - 1);
  return NULL;
}

shoal_status model_check_data(const shoal_model *m, const shoal_dataset *data) {
  TRY(model_check_features(m, &data->features));
  TRY(check_labels(m, &data->labels, data->features.shape.dim[0]));
  TRY(model_check_class_names(m, data->class_names));
  float scale = data->features.dtype == SHOAL_U8 ? 1 / 255.0f : 1;
  if (data->scale != 0 && fabsf(data->scale - scale) > 1e-6f)
    return status_make(SHOAL_ERR_ARGUMENT, "the data set asks for features times %g; u8 is taken times 1/255 and f32 "
                       "as it is: give it scaled, as f32", (double)data->scale);
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

shoal_status model_evaluate_rows(shoal_model *m, const shoal_tensor *features, const shoal_tensor *labels,
                                 int64_t first, int64_t n, shoal_evaluation *out) {
  double start = clock_seconds(), loss = 0, hits = 0, top_hits = 0;
  tower *t;
  TRY(model_tower(m, features->dtype, labels->dtype, &t));
  shoal_value *fetches[] = {t->eval_loss, t->hits, t->top_hits};
  int n_fetches = t->top_hits ? 3 : 2;
  for (int64_t i = first; i < first + n;) {
    int64_t rows = MIN_OF(first + n - i, batch_rows(m));
    shoal_feed feeds[] = {{t->x, model_rows(features, NULL, i, rows)}, {t->y, model_rows(labels, NULL, i, rows)}};
    shoal_tensor got[3];
    TRY(shoal_session_run(m->session, feeds, 2, fetches, n_fetches, got));
    loss += *(const float *)got[0].data;
    hits += *(const float *)got[1].data;
    if (t->top_hits) top_hits += *(const float *)got[2].data;
    i += rows;
  }
  *out = (shoal_evaluation){.examples = n,
                            .loss = loss / (double)n,
                            .accuracy = hits / (double)n,
                            .top_k = t->top_hits ? top_hits / (double)n : NAN,
                            .auc = NAN,
                            .seconds = clock_seconds() - start};
  return NULL;
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
static shoal_status add_batches(shoal_model *m, shoal_pipeline *p, shoal_evaluation *sum) {
  for (;;) {
    const shoal_batch *b;
    shoal_evaluation e;
    TRY(shoal_pipeline_next(p, &b));
    if (!b) return NULL;
    if (!b->count) continue;
    if (!b->labels.data || !b->features.data)
      return status_make(SHOAL_ERR_INPUT, "rows with dense features and classes as labels are expected");
    shoal_dataset rows = {.features = b->features, .labels = b->labels, .classes = (int)m->classes, .scale = b->scale};
    if (shoal_shape_count(&b->features.shape) == b->count * shoal_shape_count(&m->input)) {
      rows.features.shape = m->input; /* [count, numbers] as [count, input] */
      memmove(rows.features.shape.dim + 1, rows.features.shape.dim, (size_t)m->input.rank * sizeof *m->input.dim);
      rows.features.shape.dim[0] = b->count;
      rows.features.shape.rank++;
    }
    TRY(model_check_data(m, &rows));
    TRY(model_evaluate_rows(m, &rows.features, &rows.labels, 0, b->count, &e));
    sum->examples += b->count;
    sum->loss += e.loss * (double)b->count;
    sum->accuracy += e.accuracy * (double)b->count;
    sum->top_k += e.top_k * (double)b->count;
  }
}

static shoal_status evaluate_dense(shoal_model *m, const shoal_pipeline_options *rows, shoal_evaluation *out) {
  const double start = clock_seconds();
  const shoal_pipeline_options o = one_pass(m, rows, batch_rows(m));
  shoal_evaluation sum = {.auc = NAN};
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&o, &p));
  shoal_status status = add_batches(m, p, &sum);
  shoal_pipeline_destroy(p);
  if (!status && !sum.examples) status = status_make(SHOAL_ERR_INPUT, "%s: there are no rows", rows->files);
  if (status) return status;
  sum.loss /= (double)sum.examples;
  sum.accuracy /= (double)sum.examples;
  sum.top_k /= (double)sum.examples;
  sum.seconds = clock_seconds() - start;
  *out = sum;
  return NULL;
}

static shoal_status take_probabilities(const float *scores, const int32_t *labels, int64_t n, shoal_score_taker take,
                                       void *context) {
  float probabilities[EVALUATION_BATCH];
  for (int64_t i = 0; i < n; i++) probabilities[i] = 1 / (1 + expf(-scores[i]));
  return take(context, probabilities, labels, n);
}

/* A row without a label, -1, counts for nothing. */
static shoal_status add_labelled(tally *sum, const float *scores, const int32_t *labels, int64_t n) {
  for (int64_t i = 0, end; i < n; i = end) {
    for (end = i; end < n && labels[end] >= 0;) end++;
    TRY(tally_add(sum, scores + i, labels + i, end - i));
    while (end < n && labels[end] < 0) end++;
  }
  return NULL;
}

static shoal_status score_rows(shoal_model *m, const tower *t, shoal_pipeline *p, shoal_score_taker take, void *context,
                               tally *sum, int64_t *rows) {
  for (;;) {
    const shoal_batch *b;
    TRY(shoal_pipeline_next(p, &b));
    if (!b) return NULL;
    if (!b->count) continue;
    shoal_feed feeds[TOWER_MOST_FEEDS];
    shoal_tensor got;
    int n = tower_feed_sparse(t, b, feeds) - 1; /* scores need no labels */
    if (m->elsewhere) TRY(m->elsewhere->fetch(m->elsewhere->context, b, &feeds[1].tensor));
    TRY(shoal_session_run(m->session, feeds, n, (shoal_value *[]){t->scores}, 1, &got));
    const int32_t *labels = b->labels.data;
    *rows += b->count;
    for (int64_t i = 0; i < b->count; i++)
      if (labels[i] > 1)
        return status_make(SHOAL_ERR_INPUT, "a label is %d; the model tells 0 (or -1) and 1 apart", labels[i]);
    TRY(add_labelled(sum, got.data, labels, b->count));
    if (take) TRY(take_probabilities(got.data, labels, b->count, take, context));
  }
}

shoal_status shoal_model_evaluate_stream(shoal_model *m, const shoal_pipeline_options *rows, shoal_score_taker take,
                                         void *context, shoal_evaluation *out) {
  TRY(model_ready(m));
  if ((m->sparse || take) && (!m->sparse || !m->binary))
    return status_make(SHOAL_ERR_ARGUMENT, "evaluate: %s needs a model of sparse rows with one unit and a sigmoid at the "
                       "end", take ? "the score of each row" : "a stream of sparse rows");
  if (!m->sparse) return status_wrap(evaluate_dense(m, rows, out), "evaluate");
  double start = clock_seconds();
  const shoal_pipeline_options o = one_pass(m, rows, m->elsewhere ? ELSEWHERE_BATCH : EVALUATION_BATCH);
  tower *t;
  TRY(model_tower(m, SHOAL_F32, SHOAL_I32, &t));
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&o, &p));
  tally sum = {0};
  double auc = NAN;
  int64_t scored = 0;
  shoal_pipeline_statistics count = {0};
  shoal_status status = score_rows(m, t, p, take, context, &sum, &scored);
  if (!status) shoal_pipeline_count(p, &count);
  if (!status && !scored) status = status_make(SHOAL_ERR_INPUT, "%s: there are no rows", rows->files);
  if (!status) status = tally_auc(&sum, &auc);
  shoal_pipeline_destroy(p);
  if (!status)
    *out = (shoal_evaluation){.examples = sum.rows,
                              .loss = sum.loss / (double)sum.rows,
                              .accuracy = (double)sum.hits / (double)sum.rows,
                              .top_k = NAN,
                              .auc = auc,
                              .seconds = clock_seconds() - start,
                              .unknown_entries = count.unknown_entries};
  tally_fini(&sum);
  return status_wrap(status, "evaluate");
}

shoal_status shoal_model_predict(shoal_model *m, const shoal_tensor *features, shoal_tensor *out) {
  TRY(model_ready(m));
  TRY(model_check_features(m, features));
  int64_t n = features->shape.dim[0];
  shoal_shape expected = SHOAL_SHAPE(n, m->classes);
  if (out->dtype != SHOAL_F32 || out->rows || !shoal_shape_equal(&out->shape, &expected)) {
    char have[SHOAL_SHAPE_TEXT], want[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the output is %s%s; f32%s is expected",
                       shoal_dtype_name(out->dtype), shoal_shape_text(&out->shape, have),
                       shoal_shape_text(&expected, want));
  }
  tower *t;
  TRY(model_tower(m, features->dtype, SHOAL_U8, &t));
  for (int64_t i = 0; i < n;) {
    int64_t rows = MIN_OF(n - i, batch_rows(m));
    shoal_feed feed = {t->x, model_rows(features, NULL, i, rows)};
    shoal_tensor got;
    TRY(status_wrap(shoal_session_run(m->session, &feed, 1, &t->probabilities, 1, &got), "predict"));
    memcpy((float *)out->data + i * m->classes, got.data, (size_t)(rows * m->classes) * sizeof(float));
    i += rows;
  }
  return NULL;
}
