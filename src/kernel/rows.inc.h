/* Kernels on ROWS, a vector along the last axis at a time; what is left of a row is a part of a vector. Included by the
 * files lanes_*.c. */

/* The first n < VW of a vector; the others are zero, or not written. */
#if VW == 16
INLINE vf v_load_part(const float *p, int64_t n) { return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
INLINE void v_store_part(float *p, vf x, int64_t n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x); }
#else
INLINE vf v_load_part(const float *p, int64_t n) {
  float part[VW] = {0};
  for (int64_t i = 0; i < n; i++) part[i] = p[i];
  return v_load(part);
}
INLINE void v_store_part(float *p, vf x, int64_t n) {
  float part[VW];
  v_store(part, x);
  for (int64_t i = 0; i < n; i++) p[i] = part[i];
}
#endif

/* Runs the statement for i = 0, VW ... with WHOLE 1, then for what is left with WHOLE 0; AT(p) and PUT(p, x) read and
 * write element i and its neighbours. */
#define FOR_VECTORS(n, ...)          \
  {                                  \
    int64_t i = 0;                   \
    for (; i + VW <= (n); i += VW) { \
      enum { WHOLE = 1, left = VW }; \
      __VA_ARGS__                    \
    }                                \
    if (i < (n)) {                   \
      enum { WHOLE = 0 };            \
      const int64_t left = (n)-i;    \
      __VA_ARGS__                    \
    }                                \
  }
#define AT(p) (WHOLE ? v_load((p) + i) : v_load_part((p) + i, left))
#define PUT(p, x)                     \
  {                                   \
    if (WHOLE)                        \
      v_store((p) + i, x);            \
    else                              \
      v_store_part((p) + i, x, left); \
  }

INLINE vf v_pick(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }

/* The standard normal distribution below v, by Abramowitz and Stegun's 7.1.26 for the tail: to 1e-7. *bell is
 * exp(-v^2 / 2). */
INLINE vf v_normal_cdf(vf v, vf *bell) {
  const vf z = v_min(v_set(1e9f), (vf)((vi)v & 0x7fffffff) * v_set(0.70710678f)), e = v_exp(v * v * v_set(-0.5f));
  const vf t = v_reciprocal(v_set(1.0f) + v_set(0.3275911f) * z);
  vf p = v_set(1.061405429f);
  p = p * t + v_set(-1.453152027f);
  p = p * t + v_set(1.421413741f);
  p = p * t + v_set(-0.284496736f);
  p = p * t + v_set(0.254829592f);
  const vf tail = v_set(0.5f) * p * t * e;
  *bell = e;
  return v_pick(v < V_ZERO, tail, v_set(1.0f) - tail);
}

INLINE vf v_gelu(vf v) {
  vf bell;
  return v * v_normal_cdf(v, &bell);
}

INLINE vf v_gelu_slope(vf v) {
  vf bell;
  const vf below = v_normal_cdf(v, &bell);
  return below + v * v_set(0.39894228f) * bell;
}

#define ROWS_1(name, expression)                         \
  shoal_status ISA_NAME(name)(const kernel_call *call) { \
    const float *in = call->in[0].data;                  \
    float *out = call->out[0].data;                      \
    const int64_t n = shoal_tensor_count(&call->out[0]); \
    FOR_VECTORS(n, {                                     \
      const vf x = AT(in);                               \
      PUT(out, expression)                               \
    })                                                   \
    return NULL;                                         \
  }
#define ROWS_2(name, expression)                                   \
  shoal_status ISA_NAME(name)(const kernel_call *call) {           \
    const float *in = call->in[0].data, *other = call->in[1].data; \
    float *out = call->out[0].data;                                \
    const int64_t n = shoal_tensor_count(&call->out[0]);           \
    FOR_VECTORS(n, {                                               \
      const vf x = AT(in), y = AT(other);                          \
      PUT(out, expression)                                         \
    })                                                             \
    return NULL;                                                   \
  }
ROWS_1(rows_relu, v_relu(x))
ROWS_1(rows_gelu, v_gelu(x))
ROWS_1(rows_scale, x *v_set((float)call->attr[0].f))
ROWS_2(rows_relu_grad, v_where_positive(x, y))
ROWS_2(rows_gelu_grad, x *v_gelu_slope(y))
ROWS_2(rows_add, x + y)
ROWS_2(rows_mul, x *y)

/* ---- the last axis: rows of `width` */

INLINE int64_t rows_width(const shoal_tensor *t) { return t->shape.dim[t->shape.rank - 1]; }
INLINE int64_t rows_count(const shoal_tensor *t) {
  const int64_t width = rows_width(t);
  return width ? shoal_tensor_count(t) / width : 0;
}

shoal_status ISA_NAME(rows_bias_add)(const kernel_call *call) {
  const int64_t width = rows_width(&call->in[0]), rows = rows_count(&call->in[0]);
  const float *x = call->in[0].data, *bias = call->in[1].data;
  float *y = call->out[0].data;
  for (int64_t r = 0; r < rows; r++, x += width, y += width) FOR_VECTORS(width, PUT(y, AT(x) + AT(bias)))
  return NULL;
}

#define ROWS_SUMS 4   /* vectors of columns that are summed side by side */
#define ROWS_BLOCK 64 /* rows of a partial sum: long sums of floats would drift */

/* sum[i] of VT vectors = the sum of `rows` rows, `ld` apart. */
INLINE void rows_sum_tile(const int VT, const float *x, int64_t ld, int64_t rows, vf *sum) {
  UNROLL for (int j = 0; j < VT; j++) sum[j] = V_ZERO;
  for (int64_t r = 0; r < rows; r++) {
    UNROLL for (int j = 0; j < VT; j++) sum[j] += v_load(x + r * ld + j * VW);
  }
}

/* The sum over all rows. Partial sums of ROWS_BLOCK rows are added up. */
shoal_status ISA_NAME(rows_bias_sum)(const kernel_call *call) {
  const int64_t width = rows_width(&call->in[0]), rows = rows_count(&call->in[0]);
  const float *x = call->in[0].data;
  float *out = call->out[0].data;
  if (!call->accumulate) memset(out, 0, (size_t)width * sizeof *out);
  for (int64_t r = 0; r < rows; r += ROWS_BLOCK) {
    const int64_t n = MIN_OF((int64_t)ROWS_BLOCK, rows - r);
    const float *from = x + r * width;
    int64_t c = 0;
    for (; c + ROWS_SUMS * VW <= width; c += ROWS_SUMS * VW) {
      vf s[ROWS_SUMS];
      rows_sum_tile(ROWS_SUMS, from + c, width, n, s);
      UNROLL for (int j = 0; j < ROWS_SUMS; j++) v_store(out + c + j * VW, v_load(out + c + j * VW) + s[j]);
    }
    for (; c + VW <= width; c += VW) {
      vf s[1];
      rows_sum_tile(1, from + c, width, n, s);
      v_store(out + c, v_load(out + c) + s[0]);
    }
    for (; c < width; c++) {
      float s = 0;
      for (int64_t i = 0; i < n; i++) s += from[i * width + c];
      out[c] += s;
    }
  }
  return NULL;
}

shoal_status ISA_NAME(rows_softmax)(const kernel_call *call) {
  const int64_t width = rows_width(&call->in[0]), rows = rows_count(&call->in[0]);
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  for (int64_t r = 0; r < rows; r++, x += width, y += width) {
    vf most = v_set(x[0]), sum = V_ZERO;
    int64_t k = 0;
    for (; k + VW <= width; k += VW) most = v_max(most, v_load(x + k));
    float top = v_most(most);
    for (; k < width; k++) top = x[k] > top ? x[k] : top;
    const vf shift = v_set(top);
    FOR_VECTORS(width, {
      const vf e = v_exp(AT(x) - shift);
      PUT(y, e)
      if (WHOLE) sum += e;
    })
    float rest = 0;
    for (k = width / VW * VW; k < width; k++) rest += y[k];
    const vf scale = v_set(1 / (v_sum(sum) + rest));
    FOR_VECTORS(width, PUT(y, AT(y) * scale))
  }
  return NULL;
}

shoal_status ISA_NAME(rows_softmax_grad)(const kernel_call *call) {
  const int64_t width = rows_width(&call->in[0]), rows = rows_count(&call->in[0]);
  const float *dy = call->in[0].data, *y = call->in[1].data;
  float *dx = call->out[0].data;
  for (int64_t r = 0; r < rows; r++, dy += width, y += width, dx += width) {
    vf sum = V_ZERO;
    FOR_VECTORS(width, sum += AT(dy) * AT(y);)
    const vf shift = v_set(v_sum(sum));
    FOR_VECTORS(width, PUT(dx, AT(y) * (AT(dy) - shift)))
  }
  return NULL;
}

/* Attributes of normalize. */
enum { NORMALIZE_EPSILON = 1, NORMALIZE_CENTER };

/* Of one row: its mean (0 unless it is to be centered) and 1 / sqrt(variance + epsilon). */
INLINE void rows_moments(const kernel_call *call, const float *x, int64_t width, float *mean, float *inverse) {
  vf sum = V_ZERO, squares = V_ZERO;
  float rest = 0;
  if (call->attr[NORMALIZE_CENTER].i) FOR_VECTORS(width, sum += AT(x);)
  *mean = v_sum(sum) / (float)width;
  const vf m = v_set(*mean);
  FOR_VECTORS(width, {
    const vf d = AT(x) - m;
    if (WHOLE)
      squares += d * d;
    else
      for (int64_t k = i; k < width; k++) rest += (x[k] - *mean) * (x[k] - *mean);
  })
  *inverse = 1 / __builtin_sqrtf((v_sum(squares) + rest) / (float)width + (float)call->attr[NORMALIZE_EPSILON].f);
}

shoal_status ISA_NAME(rows_normalize)(const kernel_call *call) {
  const int64_t width = rows_width(&call->in[0]), rows = rows_count(&call->in[0]);
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  for (int64_t r = 0; r < rows; r++, x += width, y += width) {
    float mean, inverse;
    rows_moments(call, x, width, &mean, &inverse);
    FOR_VECTORS(width, PUT(y, (AT(x) - v_set(mean)) * v_set(inverse)))
  }
  return NULL;
}

/* As the operator's own kernel, formula for formula. */
shoal_status ISA_NAME(rows_normalize_grad)(const kernel_call *call) {
  const int64_t width = rows_width(&call->in[0]), rows = rows_count(&call->in[0]);
  const float *dy = call->in[0].data, *x = call->in[1].data;
  float *dx = call->out[0].data;
  for (int64_t r = 0; r < rows; r++, x += width, dy += width, dx += width) {
    float mean, inverse;
    rows_moments(call, x, width, &mean, &inverse);
    vf sum = V_ZERO, along = V_ZERO;
    FOR_VECTORS(width, {
      const vf d = AT(dy); /* zero beyond the row's end */
      sum += d;
      along += d * (AT(x) - v_set(mean));
    })
    const vf shift = v_set(call->attr[NORMALIZE_CENTER].i ? v_sum(sum) / (float)width : 0);
    const vf slope = v_set(v_sum(along) / (float)width * inverse * inverse);
    FOR_VECTORS(width, PUT(dx, v_set(inverse) * (AT(dy) - shift - (AT(x) - v_set(mean)) * slope)))
  }
  return NULL;
}

/* ---- batch normalisation: threads take channels, so that each channel's sums are the same on any number of them */

typedef struct {
  const kernel_call *call;
  int64_t rows, channels;
  double *first, *second; /* [channels]: sums under way */
  float *gain, *slope, *shift;
} norm_work;

/* As norm_scratch has room for. */
static norm_work norm_begin(const kernel_call *call, const shoal_tensor *x) {
  const int64_t channels = rows_width(x);
  double *sums = call->scratch;
  float *factors = (float *)(sums + 2 * channels);
  memset(sums, 0, (size_t)(2 * channels) * sizeof *sums);
  return (norm_work){
      call, rows_count(x), channels, sums, sums + channels, factors, factors + channels, factors + 2 * channels};
}

/* The mean and the squares around it of n rows, in the cache, joined with those of the `before` rows before them. */
INLINE void norm_join(const norm_work *w, const float *x, int64_t c, int64_t width, int64_t before, int64_t n) {
  vf sum = V_ZERO, squares = V_ZERO;
  float m[VW], q[VW];
#define NORM_AT(p, i) (width == VW ? v_load((p) + (i)*w->channels) : v_load_part((p) + (i)*w->channels, width))
  for (int64_t i = 0; i < n; i++) sum += NORM_AT(x, i);
  const vf middle = sum * v_set(1 / (float)n);
  for (int64_t i = 0; i < n; i++) {
    const vf d = NORM_AT(x, i) - middle;
    squares += d * d;
  }
  v_store(m, middle);
  v_store(q, squares);
  const double part = (double)n / (double)(before + n);
  for (int64_t k = 0; k < width; k++) {
    const double apart = (double)m[k] - w->first[c + k];
    w->first[c + k] += apart * part;
    w->second[c + k] += (double)q[k] + apart * apart * (double)before * part;
  }
}

static void norm_share(void *context, int thread, int threads) {
  const norm_work *w = context;
  const kernel_call *call = w->call;
  const float *x = call->in[0].data, *scale = call->in[1].data, *offset = call->in[2].data;
  float *y = call->out[0].data, *mean = call->out[1].data, *variance = call->out[2].data;
  int64_t first, last;
  pool_share(w->channels, LANES, thread, threads, &first, &last);
  for (int64_t r = 0; r < w->rows; r += ROWS_BLOCK) {
    const int64_t n = MIN_OF((int64_t)ROWS_BLOCK, w->rows - r);
    int64_t c = first;
    for (; c + VW <= last; c += VW) norm_join(w, x + r * w->channels + c, c, VW, r, n);
    if (c < last) norm_join(w, x + r * w->channels + c, c, last - c, r, n);
  }
  for (int64_t c = first; c < last; c++) {
    mean[c] = (float)w->first[c];
    variance[c] = (float)(w->second[c] / (double)w->rows);
    w->gain[c] = scale[c] / __builtin_sqrtf(variance[c] + (float)call->attr[0].f);
  }
  for (int64_t r = 0; r < w->rows; r++) {
    const float *from = x + r * w->channels + first;
    float *to = y + r * w->channels + first;
    FOR_VECTORS(last - first, PUT(to, (AT(from) - AT(mean + first)) * AT(w->gain + first) + AT(offset + first)))
  }
}

/* x, scale, offset -> y, mean, variance. */
shoal_status ISA_NAME(rows_batch_norm)(const kernel_call *call) {
  norm_work w = norm_begin(call, &call->in[0]);
  pool_run(call->threads, norm_share, &w);
  return NULL;
}

/* Adds the sums of dy and of dy (x - mean) over n rows. */
INLINE void norm_grad_join(const norm_work *w, const float *dy, const float *x, const float *mean, int64_t c,
                           int64_t width, int64_t n) {
  vf sum = V_ZERO, along = V_ZERO;
  const vf m = width == VW ? v_load(mean) : v_load_part(mean, width);
  float s[VW], a[VW];
  for (int64_t i = 0; i < n; i++) {
    const vf d = NORM_AT(dy, i);
    sum += d;
    along += d * (NORM_AT(x, i) - m);
  }
#undef NORM_AT
  v_store(s, sum);
  v_store(a, along);
  for (int64_t k = 0; k < width; k++) {
    w->first[c + k] += (double)s[k];
    w->second[c + k] += (double)a[k];
  }
}

/* As the operator's own kernel, formula for formula. */
static void norm_grad_share(void *context, int thread, int threads) {
  const norm_work *w = context;
  const kernel_call *call = w->call;
  const float *dy = call->in[0].data, *x = call->in[1].data, *scale = call->in[2].data;
  const float *mean = call->in[3].data, *variance = call->in[4].data;
  float *dx = call->out[0].data, *dscale = call->out[1].data, *doffset = call->out[2].data;
  const float rows = (float)w->rows;
  int64_t first, last;
  pool_share(w->channels, LANES, thread, threads, &first, &last);
  for (int64_t r = 0; r < w->rows; r += ROWS_BLOCK) {
    const int64_t n = MIN_OF((int64_t)ROWS_BLOCK, w->rows - r);
    int64_t c = first;
    for (; c < last; c += VW) {
      const int64_t at = r * w->channels + c;
      if (c + VW <= last)
        norm_grad_join(w, dy + at, x + at, mean + c, c, VW, n);
      else
        norm_grad_join(w, dy + at, x + at, mean + c, c, last - c, n);
    }
  }
  for (int64_t c = first; c < last; c++) {
    const float inverse = 1 / __builtin_sqrtf(variance[c] + (float)call->attr[0].f);
    w->gain[c] = scale[c] * inverse;
    dscale[c] = (float)w->second[c] * inverse;
    doffset[c] = (float)w->first[c];
    w->shift[c] = -w->gain[c] * (float)(w->first[c] / (double)w->rows);
    w->slope[c] = -w->gain[c] * inverse * inverse * (float)(w->second[c] / (double)w->rows);
    if (call->ins > 5) { /* somebody differentiates through mean and variance */
      w->shift[c] += ((const float *)call->in[5].data)[c] / rows;
      w->slope[c] += 2 * ((const float *)call->in[6].data)[c] / rows;
    }
  }
  for (int64_t r = 0; r < w->rows; r++) {
    const int64_t at = r * w->channels + first;
    FOR_VECTORS(last - first,
                PUT(dx + at, AT(w->gain + first) * AT(dy + at) +
                                 AT(w->slope + first) * (AT(x + at) - AT(mean + first)) + AT(w->shift + first)))
  }
}

/* dy, x, scale, mean, variance, and perhaps dmean, dvariance -> dx, dscale, doffset. */
shoal_status ISA_NAME(rows_batch_norm_grad)(const kernel_call *call) {
  norm_work w = norm_begin(call, &call->in[1]);
  pool_run(call->threads, norm_grad_share, &w);
  return NULL;
}
