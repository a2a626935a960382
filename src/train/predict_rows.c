/* Predictions for rows that a program has in memory, dense or sparse. */
#include "train/model_ids.h"

#include <string.h>

/* Rows of a program may be wrong in every way: the kernels rely on what is checked here. */
static shoal_status check_sparse(const shoal_model *m, const shoal_batch *b) {
  const int64_t *offsets = b->offsets.data;
  const int32_t *indices = b->indices.data;
  const int64_t features = model_features(m), entries = shoal_tensor_count(&b->values);
  if (!offsets || b->offsets.dtype != SHOAL_I64 || shoal_tensor_count(&b->offsets) != b->count + 1)
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the offsets must be i64 [%lld]: one more than rows",
                       (long long)b->count + 1);
  const bool narrow = !m->ids;
  if (m->ids && entries && (b->ids.dtype != SHOAL_I64 || !b->ids.data || shoal_tensor_count(&b->ids) != entries))
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the model goes by ids, which must be i64, one for each entry");
  if ((narrow && b->indices.dtype != SHOAL_I32) || b->values.dtype != SHOAL_F32 ||
      (narrow && shoal_tensor_count(&b->indices) != entries))
    return status_make(SHOAL_ERR_ARGUMENT, "predict: indices must be i32 and values f32, one for each entry");
  for (int64_t i = 0; i < b->count; i++)
    if (offsets[i + 1] < offsets[i])
      return status_make(SHOAL_ERR_ARGUMENT, "predict: row %lld ends before it begins", (long long)i);
  if (offsets[0] != 0 || offsets[b->count] != entries)
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the offsets must go from 0 to the number of entries, %lld",
                       (long long)entries);
  if (model_needs_fields(m) && entries &&
      (!b->fields.data || b->fields.dtype != SHOAL_I32 || shoal_tensor_count(&b->fields) != entries))
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the model goes by fields, which must be i32, one for each entry");
  for (int64_t i = 0; narrow && i < entries; i++)
    if (indices[i] < 0 || indices[i] >= features)
      return status_make(SHOAL_ERR_INPUT, "predict: expected indices from 0 to %lld, found %d", (long long)features - 1,
                         indices[i]);
  return NULL;
}

static shoal_status predict_sparse(shoal_model *m, const shoal_batch *b, float *out) {
  TRY(check_sparse(m, b));
  tower *t;
  TRY(model_any_tower(m, SHOAL_F32, &t));
  shoal_feed feeds[TOWER_FEEDS_MAX];
  shoal_tensor got;
  int n = tower_feed_sparse(t, b, feeds) - 1; /* without labels, which come last */
  if (m->ids) TRY(m->elsewhere->fetch(m->elsewhere->context, b, &feeds[1].tensor));
  TRY(shoal_session_run(m->session, feeds, n, &t->predictions, 1, &got));
  memcpy(out, got.data, (size_t)(b->count * m->outputs) * sizeof(float));
  return NULL;
}

shoal_status shoal_model_predict_rows(shoal_model *m, const shoal_batch *rows, shoal_tensor *out) {
  TRY(model_ready(m));
  if (!m->sparse) {
    shoal_tensor features = rows->features;
    return shoal_model_predict(m, &features, out);
  }
  const shoal_shape expected = SHOAL_SHAPE(rows->count, m->outputs);
  if (out->dtype != SHOAL_F32 || out->rows || !shoal_shape_equal(&out->shape, &expected)) {
    char want[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the output must be f32%s", shoal_shape_text(&expected, want));
  }
  if (m->elsewhere && !m->ids)
    return status_make(SHOAL_ERR_ARGUMENT, "predict: the model's table is on parameter servers while it is trained");
  return rows->count ? status_wrap(predict_sparse(m, rows, out->data), "predict") : NULL;
}
