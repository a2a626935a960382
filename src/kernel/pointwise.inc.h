/* Elementwise kernels on LANES, conversions from and to rows, and the loss. Included by the files lanes_*.c. */

#define POINTWISE_1(name, expression)                                                    \
  shoal_status ISA_NAME(name)(const kernel_call *call) {                                 \
    const float *in = call->in[0].data;                                                  \
    float *out = call->out[0].data;                                                      \
    const int64_t n = lanes_blocks(&call->in[0]) * lanes_features(&call->in[0]) * LANES; \
    for (int64_t i = 0; i < n; i += VW) {                                                \
      vf x = v_load(in + i);                                                             \
      v_store(out + i, expression);                                                      \
    }                                                                                    \
    return NULL;                                                                         \
  }

POINTWISE_1(lanes_relu, v_relu(x))
POINTWISE_1(lanes_tanh, v_tanh(x))
POINTWISE_1(lanes_sigmoid, v_sigmoid(x))

/* dy, y -> dx */
#define POINTWISE_2(name, expression)                                                    \
  shoal_status ISA_NAME(name)(const kernel_call *call) {                                 \
    const float *in = call->in[0].data, *other = call->in[1].data;                       \
    float *out = call->out[0].data;                                                      \
    const int64_t n = lanes_blocks(&call->in[0]) * lanes_features(&call->in[0]) * LANES; \
    for (int64_t i = 0; i < n; i += VW) {                                                \
      vf d = v_load(in + i), y = v_load(other + i);                                      \
      v_store(out + i, expression);                                                      \
    }                                                                                    \
    return NULL;                                                                         \
  }

POINTWISE_2(lanes_relu_grad, v_where_positive(d, y))
POINTWISE_2(lanes_tanh_grad, d *(v_set(1.0f) - y * y))
POINTWISE_2(lanes_sigmoid_grad, d *y *(v_set(1.0f) - y))

/* Rows of a shuffled batch lie anywhere, where no hardware prefetcher looks for them. */
#define ROWS_AHEAD 3
INLINE void prefetch_row(const void *row, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)row + i);
}

/* Up to 16 rows [f], scaled, to a panel [f][16]. */
static void rows_to_panel(const float *const *rows, int64_t live, int64_t f, float scale, float *panel) {
  int64_t i = 0;
  for (; i + 4 <= live; i += 4)
    for (int64_t k = 0; k + 4 <= f; k += 4) {
      v_four r[4];
      UNROLL for (int e = 0; e < 4; e++) r[e] = *(const v_four_any *)(rows[i + e] + k) * scale;
      v_turn_four(r);
      UNROLL for (int e = 0; e < 4; e++) * (v_four_any *)(panel + (k + e) * LANES + i) = r[e];
    }
  for (int64_t l = 0; l < live; l++)
    for (int64_t k = l < i ? f / 4 * 4 : 0; k < f; k++) panel[k * LANES + l] = rows[l][k] * scale;
}

/* Sixteen rows of f numbers to [f][16]; missing rows are zero. */
shoal_status ISA_NAME(lanes_pack)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  const int64_t n = x->shape.dim[0], f = lanes_features(&call->out[0]);
  const size_t row_bytes = (size_t)f * shoal_dtype_size(x->dtype);
  const float scale = call->attr[0].f != 0 ? (float)call->attr[0].f : 1.0f;
  for (int64_t b = 0; b * LANES < n; b++) {
    float *out = (float *)call->out[0].data + b * f * LANES;
    const int64_t live = MIN_OF(n - b * LANES, (int64_t)LANES);
    if (live < LANES) memset(out, 0, (size_t)(f * LANES) * sizeof *out);
    const void *rows[LANES];
    for (int64_t i = 0; i < live; i++) {
      rows[i] = tensor_row(x, b * LANES + i, row_bytes);
      prefetch_row(rows[i], (int64_t)row_bytes);
    }
    if (x->dtype == SHOAL_U8) {
      /* Bytes are gathered column by column in pieces that stay in the cache, then widened a vector at a time. */
      for (int64_t k0 = 0; k0 < f; k0 += 64) {
        uint8_t turned[64][LANES] = {{0}};
        const int64_t width = MIN_OF(f - k0, (int64_t)64);
        for (int64_t i = 0; i < live; i++) {
          const uint8_t *row = (const uint8_t *)rows[i] + k0;
          for (int64_t k = 0; k < width; k++) turned[k][i] = row[k];
        }
        for (int64_t k = 0; k < width; k++)
          for (int lane = 0; lane < LANES; lane += VW)
            v_store(out + (k0 + k) * LANES + lane, v_from_u8(turned[k] + lane) * v_set(scale));
      }
    } else {
      rows_to_panel((const float *const *)rows, live, f, scale, out);
    }
  }
  return NULL;
}

shoal_status ISA_NAME(lanes_unpack)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  const int64_t f = lanes_features(x);
  panels_to_rows(x->data, x->shape.dim[0], f, call->out[0].data, f);
  return NULL;
}

INLINE int64_t label_at(const shoal_tensor *t, int64_t i) {
  switch (t->dtype) {
    case SHOAL_U8: return ((const uint8_t *)t->data)[i];
    case SHOAL_I32: return ((const int32_t *)t->data)[i];
    default: return ((const int64_t *)t->data)[i];
  }
}

static shoal_status label_error(const kernel_call *call, int64_t row, int64_t label, int64_t classes) {
  return status_make(SHOAL_ERR_INPUT, "label %lld in row %lld is out of range: there are %lld classes",
                     (long long)label, (long long)(call->first_row + row), (long long)classes);
}

/* logits, labels, dloss -> loss, dlogits. Rows that pad the last block get no gradient. */
shoal_status ISA_NAME(lanes_xent)(const kernel_call *call) {
  const shoal_tensor *logits = &call->in[0], *labels = &call->in[1];
  const int64_t n = logits->shape.dim[0], classes = logits->shape.dim[1];
  const float *weight = call->in[2].data;
  float *loss = call->out[0].data;
  for (int64_t b = 0; b * LANES < n; b++) {
    const float *in = (const float *)logits->data + b * classes * LANES;
    float *out = (float *)call->out[1].data + b * classes * LANES;
    float total[LANES], most[LANES], share[LANES] = {0};
    const int64_t live = MIN_OF(n - b * LANES, (int64_t)LANES);
    for (int64_t i = 0; i < live; i++) share[i] = weight[b * LANES + i];
    for (int lane = 0; lane < LANES; lane += VW) {
      vf m = v_load(in + lane), s = V_ZERO;
      for (int64_t c = 1; c < classes; c++) m = v_max(m, v_load(in + c * LANES + lane));
      for (int64_t c = 0; c < classes; c++) {
        vf e = v_exp(v_load(in + c * LANES + lane) - m);
        v_store(out + c * LANES + lane, e);
        s += e;
      }
      vf r = v_load(share + lane) / s;
      for (int64_t c = 0; c < classes; c++) v_store(out + c * LANES + lane, v_load(out + c * LANES + lane) * r);
      v_store(total + lane, s);
      v_store(most + lane, m);
    }
    for (int64_t i = 0; i < live; i++) {
      int64_t label = label_at(labels, b * LANES + i);
      if (label < 0 || label >= classes) return label_error(call, b * LANES + i, label, classes);
      loss[b * LANES + i] = __builtin_logf(total[i]) + most[i] - in[label * LANES + i];
      out[label * LANES + i] -= share[i];
    }
  }
  return NULL;
}

/* logits, labels -> 1 where the label's logit is the first of the largest, and none is NaN. */
shoal_status ISA_NAME(lanes_top_1)(const kernel_call *call) {
  const shoal_tensor *logits = &call->in[0], *labels = &call->in[1];
  const int64_t n = logits->shape.dim[0], classes = logits->shape.dim[1];
  float *out = call->out[0].data;
  for (int64_t b = 0; b * LANES < n; b++) {
    const float *in = (const float *)logits->data + b * classes * LANES;
    int32_t first[LANES]; /* class of the first of the largest; below 0: a logit is NaN */
    for (int lane = 0; lane < LANES; lane += VW) {
      vf m = v_load(in + lane);
      vi at = {0}, nan = m != m;
      for (int64_t c = 1; c < classes; c++) {
        const vf x = v_load(in + c * LANES + lane);
        const vi larger = x > m;
        at = (larger & (int32_t)c) | (~larger & at);
        nan |= x != x;
        m = v_max(x, m);
      }
      at |= nan;
      memcpy(first + lane, &at, sizeof at);
    }
    for (int64_t i = 0; i < MIN_OF(n - b * LANES, (int64_t)LANES); i++) {
      int64_t label = label_at(labels, b * LANES + i);
      if (label < 0 || label >= classes) return label_error(call, b * LANES + i, label, classes);
      out[b * LANES + i] = first[i] == label ? 1.0f : 0.0f;
    }
  }
  return NULL;
}
