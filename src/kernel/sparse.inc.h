/* Kernels on sparse rows; see kernel/sparse.h. Where a row's weights lie is known long before they are needed, and each
 * is a cache miss, so they are fetched some rows ahead. */

enum { SPARSE_AHEAD = 4, SPARSE_TOGETHER = 64 }; /* rows; entries */

/* Each form is compiled by itself, and what a form does not change is compiled once: inlined everywhere, these kernels
 * would take the compiler longer than all others. */
#define OUT_OF_LINE static __attribute__((noinline))

/* What a call does, known where a kernel is compiled. */
typedef struct {
  sparse_kind kind;
  int slots;
} sparse_form;

INLINE void sparse_fetch(sparse_form f, const sparse_job *j, int64_t row) {
  if (row >= j->rows) return;
  const int64_t from = j->offsets[row] - j->offsets[0], to = j->offsets[row + 1] - j->offsets[0];
  const int64_t stride = j->stride;
  if (stride > 1 || !f.slots)
    for (int64_t e = from; e < to; e++) {
      __builtin_prefetch(j->w[0] + j->indices[e] * stride, 1, 3);
      if (f.slots > 1) __builtin_prefetch(j->w[f.slots] + j->indices[e] * stride, 1, 3); /* may be in the next line */
    }
  else
    for (int64_t e = from; e < to; e++)
      for (int k = 0; k <= f.slots; k++) __builtin_prefetch(j->w[k] + j->indices[e], 1, 3);
}

typedef float sparse_four __attribute__((vector_size(16)));
typedef float sparse_four_any __attribute__((vector_size(16), aligned(4), may_alias));

/* SPARSE_DOT, with its four sums in one vector. */
OUT_OF_LINE float sparse_dot(const int32_t *indices, const float *values, const float *w, int64_t stride, int64_t n) {
  sparse_four part = {0};
  int64_t e = 0;
  for (; e + 4 <= n; e += 4) {
    const int32_t *at = indices + e;
    const sparse_four weights = {w[at[0] * stride], w[at[1] * stride], w[at[2] * stride], w[at[3] * stride]};
    part += *(const sparse_four_any *)(values + e) * weights;
  }
  float first = part[0];
  for (; e < n; e++) first += values[e] * w[indices[e] * stride];
  return (first + part[1]) + (part[2] + part[3]);
}

INLINE float sparse_score(const sparse_job *j, int64_t row) {
  const int64_t from = j->offsets[row] - j->offsets[0], n = j->offsets[row + 1] - j->offsets[row];
  const float sum = sparse_dot(j->indices + from, j->values + from, j->w[0], j->stride, n);
  return j->bias[0] ? sum + *j->bias[0] : sum;
}

/* Counts a row with this score; returns the gradient of its loss with respect to the score. */
INLINE float sparse_judge(const sparse_job *j, int64_t row, float z, sparse_outcome *sum) {
  const float y = (float)j->labels[row], e = expf(-fabsf(z));
  sum->loss += (double)((z > 0 ? z : 0) - z * y + log1pf(e));
  sum->hits += z == z && (z > 0) == (j->labels[row] != 0);
  return (z >= 0 ? 1 : e) / (1 + e) - y;
}

/* Changes n numbers and their slots, side by side, by their gradients. */
INLINE void sparse_update(sparse_kind kind, const attr_value *attr, float *restrict var, float *restrict a,
                          float *restrict b, const float *restrict grad, int64_t n, float lr) {
  typedef float real;
  switch (kind) {
    case SPARSE_SGD: {
      SGD_CONSTANTS;
      for (int64_t i = 0; i < n; i++) {
        float g = grad[i];
        SGD_ELEMENT;
      }
      break;
    }
    case SPARSE_ADAGRAD: {
      ADAGRAD_CONSTANTS;
      for (int64_t i = 0; i < n; i++) {
        float g = grad[i];
        ADAGRAD_ELEMENT;
      }
      break;
    }
    case SPARSE_FTRL: {
      FTRL_CONSTANTS;
      for (int64_t i = 0; i < n; i++) {
        const float g = grad[i];
        FTRL_ELEMENT;
      }
    }
  }
}

/* Each of n different indices, whose gradient is times * values. Those with slots are collected first, so that roots and
 * quotients are taken of a vector at a time. */
INLINE void sparse_touch_form(sparse_form f, const attr_value *attr, const sparse_job *j, const int32_t *indices,
                              const float *values, float times, int64_t n, float lr) {
  typedef float real;
  if (f.kind == SPARSE_SGD) {
    SGD_CONSTANTS;
    for (int64_t e = 0; e < n; e++) {
      float *var = j->w[0] + indices[e], g = values[e] * times;
      const int i = 0;
      SGD_ELEMENT;
    }
    return;
  }
  const int64_t stride = j->stride;
  float kept[1 + SPARSE_SLOTS_MAX][SPARSE_TOGETHER], grads[SPARSE_TOGETHER];
  for (int64_t first = 0; first < n; first += SPARSE_TOGETHER) {
    const int64_t count = MIN_OF(n - first, (int64_t)SPARSE_TOGETHER), whole = (count + VW - 1) / VW * VW;
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = indices[first + i] * stride;
      for (int k = 0; k <= f.slots; k++) kept[k][i] = j->w[k][at];
      grads[i] = values[first + i] * times;
    }
    for (int64_t i = count; i < whole; i++) kept[0][i] = kept[1][i] = kept[2][i] = grads[i] = 1;
    sparse_update(f.kind, attr, kept[0], kept[1], kept[2], grads, whole, lr);
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = indices[first + i] * stride;
      for (int k = 0; k <= f.slots; k++) j->w[k][at] = kept[k][i];
    }
  }
}

OUT_OF_LINE void sparse_touch_adagrad(const attr_value *attr, const sparse_job *j, const int32_t *indices,
                                      const float *values, float times, int64_t n, float lr) {
  sparse_touch_form((sparse_form){SPARSE_ADAGRAD, 1}, attr, j, indices, values, times, n, lr);
}

OUT_OF_LINE void sparse_touch_ftrl(const attr_value *attr, const sparse_job *j, const int32_t *indices,
                                   const float *values, float times, int64_t n, float lr) {
  sparse_touch_form((sparse_form){SPARSE_FTRL, 2}, attr, j, indices, values, times, n, lr);
}

INLINE void sparse_touch(sparse_form f, const attr_value *attr, const sparse_job *j, const int32_t *indices,
                         const float *values, float times, int64_t n, float lr) {
  if (f.kind == SPARSE_SGD)
    sparse_touch_form(f, attr, j, indices, values, times, n, lr);
  else
    (f.kind == SPARSE_ADAGRAD ? sparse_touch_adagrad : sparse_touch_ftrl)(attr, j, indices, values, times, n, lr);
}

INLINE void sparse_touch_row(sparse_form f, const attr_value *attr, const sparse_job *j, int64_t row, float dz,
                             float lr) {
  const int64_t from = j->offsets[row] - j->offsets[0];
  sparse_touch(f, attr, j, j->indices + from, j->values + from, dz, j->offsets[row + 1] - j->offsets[row], lr);
}

INLINE void sparse_touch_bias(sparse_form f, const attr_value *attr, const sparse_job *j, float dz, float lr) {
  if (j->bias[0]) sparse_update(f.kind, attr, j->bias[0], j->bias[1], j->bias[2], &dz, 1, lr);
}

/* ---- indices that stand several times in a step: their gradients are added up first */

typedef struct {
  float *dz;       /* [rows] */
  int32_t *unique; /* [entries] */
  float *sums;     /* [entries] */
  uint32_t *at;    /* [entries] place in the table */
  uint32_t *table; /* [1 << bits] 1 + position in `unique`; 0: free. All free between steps. */
  int bits;
} sparse_room;

INLINE sparse_room sparse_room_in(void *scratch, int64_t rows, int64_t entries) {
  sparse_room r = {.bits = sparse_table_bits(entries)};
  r.dz = scratch;
  r.unique = (int32_t *)(r.dz + rows);
  r.sums = (float *)(r.unique + entries);
  r.at = (uint32_t *)(r.sums + entries);
  r.table = r.at + entries;
  memset(r.table, 0, ((size_t)1 << r.bits) * sizeof *r.table);
  return r;
}

INLINE void sparse_touch_unique(sparse_form f, const attr_value *attr, const sparse_job *j, sparse_room *r,
                                int64_t first, int64_t last, float lr) {
  const uint32_t mask = (1u << r->bits) - 1;
  uint32_t n = 0;
  for (int64_t row = first; row < last; row++) {
    const int64_t from = j->offsets[row] - j->offsets[0], to = j->offsets[row + 1] - j->offsets[0];
    for (int64_t e = from; e < to; e++) {
      const int32_t index = j->indices[e];
      const float g = j->values[e] * r->dz[row - first];
      uint32_t at = (uint32_t)index * 2654435769u >> (32 - r->bits);
      while (r->table[at] && r->unique[r->table[at] - 1] != index) at = (at + 1) & mask;
      if (r->table[at]) {
        r->sums[r->table[at] - 1] += g;
        continue;
      }
      r->unique[n] = index;
      r->sums[n] = g;
      r->at[n] = at;
      r->table[at] = ++n;
    }
  }
  sparse_touch(f, attr, j, r->unique, r->sums, 1, n, lr);
  for (uint32_t k = 0; k < n; k++) r->table[r->at[k]] = 0;
}

/* ---- steps */

INLINE float sparse_rate(const sparse_job *j, int64_t step) { return j->rates[j->many_rates ? step : 0]; }

/* Rows [first, last), each an update of its own. */
INLINE void sparse_rows(sparse_form f, const attr_value *attr, const sparse_job *j, int64_t first, int64_t last,
                        sparse_outcome *sum) {
  for (int64_t row = first; row < MIN_OF(first + SPARSE_AHEAD, last); row++) sparse_fetch(f, j, row);
  for (int64_t row = first; row < last; row++) {
    sparse_fetch(f, j, row + SPARSE_AHEAD);
    const float z = sparse_score(j, row), lr = sparse_rate(j, row);
    if (__builtin_expect(!isfinite(z), 0)) {
      sum->bad_row = row;
      return;
    }
    const float dz = sparse_judge(j, row, z, sum);
    sparse_touch_row(f, attr, j, row, dz, lr);
    sparse_touch_bias(f, attr, j, dz, lr);
  }
}

/* One update out of rows [first, last). */
INLINE void sparse_step(sparse_form f, const attr_value *attr, const sparse_job *j, bool repeats, int64_t first,
                        int64_t last, float lr, sparse_room *r, sparse_outcome *sum) {
  const float share = 1.0f / (float)(last - first);
  float total = 0;
  for (int64_t row = first; row < last; row++) {
    sparse_fetch(f, j, row + SPARSE_AHEAD);
    const float z = sparse_score(j, row);
    if (__builtin_expect(!isfinite(z), 0)) {
      sum->bad_row = row;
      return;
    }
    total += r->dz[row - first] = sparse_judge(j, row, z, sum) * share;
  }
  if (repeats)
    for (int64_t row = first; row < last; row++) sparse_touch_row(f, attr, j, row, r->dz[row - first], lr);
  else
    sparse_touch_unique(f, attr, j, r, first, last, lr);
  sparse_touch_bias(f, attr, j, total, lr);
}

/* What the threads share; each takes a part of the steps. */
typedef struct {
  const kernel_call *call;
  sparse_job job;
  sparse_kind kind;
  bool once;
} sparse_work;

/* A thread's part of the scratch memory begins with what it has seen. */
INLINE sparse_outcome *sparse_outcome_of(const sparse_work *w, int thread) {
  return (sparse_outcome *)((char *)w->call->scratch +
                            (size_t)thread * sparse_scratch(w->job.step_rows, w->job.step_entries));
}

INLINE void sparse_part(const sparse_work *w, sparse_form f, int thread, int threads) {
  const sparse_job *j = &w->job;
  const attr_value *attr = w->call->attr;
  const int64_t steps = (j->rows + j->step_rows - 1) / j->step_rows;
  const int64_t first = steps * thread / threads, last = steps * (thread + 1) / threads;
  sparse_outcome *sum = sparse_outcome_of(w, thread);
  *sum = (sparse_outcome){.bad_row = -1};
  const bool repeats = f.kind == SPARSE_SGD && attr[0].f == 0; /* plain SGD: gradients may be applied one by one */
  if (j->step_rows == 1 && (repeats || w->once)) {
    sparse_rows(f, attr, j, first, last, sum);
    return;
  }
  sparse_room r = sparse_room_in((char *)sum + mem_round_up(sizeof *sum, MEM_ALIGN), j->step_rows, j->step_entries);
  const int64_t start = first * j->step_rows;
  for (int64_t row = start; row < start + SPARSE_AHEAD; row++) sparse_fetch(f, j, row);
  for (int64_t s = first; s < last && sum->bad_row < 0; s++)
    sparse_step(f, attr, j, repeats, s * j->step_rows, MIN_OF((s + 1) * j->step_rows, j->rows), sparse_rate(j, s), &r,
                sum);
}

static void sparse_share(void *context, int thread, int threads) {
  const sparse_work *w = context;
  switch (w->kind) {
    case SPARSE_SGD: sparse_part(w, (sparse_form){SPARSE_SGD, 0}, thread, threads); break;
    case SPARSE_ADAGRAD: sparse_part(w, (sparse_form){SPARSE_ADAGRAD, 1}, thread, threads); break;
    case SPARSE_FTRL: sparse_part(w, (sparse_form){SPARSE_FTRL, 2}, thread, threads); break;
  }
}

static shoal_status sparse_logistic(const kernel_call *call, sparse_kind kind, int slots) {
  sparse_work w = {.call = call, .kind = kind};
  sparse_job_of(call, slots, &w.job);
  TRY(sparse_check(&w.job, &w.once));
  const int threads = call->racing ? pool_threads(call->threads) : 1;
  if (threads > 1)
    pool_run(call->threads, sparse_share, &w);
  else
    sparse_share(&w, 0, 1);
  sparse_outcome all = {.bad_row = -1};
  for (int t = threads - 1; t >= 0; t--) {
    const sparse_outcome *one = sparse_outcome_of(&w, t);
    all.loss += one->loss;
    all.hits += one->hits;
    if (one->bad_row >= 0) all.bad_row = one->bad_row;
  }
  return sparse_finish(call, &w.job, &all);
}

shoal_status ISA_NAME(sparse_logistic_sgd)(const kernel_call *call) { return sparse_logistic(call, SPARSE_SGD, 0); }
shoal_status ISA_NAME(sparse_logistic_adagrad)(const kernel_call *call) {
  return sparse_logistic(call, SPARSE_ADAGRAD, 1);
}
shoal_status ISA_NAME(sparse_logistic_ftrl)(const kernel_call *call) { return sparse_logistic(call, SPARSE_FTRL, 2); }

/* offsets, indices i32, values, w [features, 1] -> [rows, 1] */
shoal_status ISA_NAME(sparse_product)(const kernel_call *call) {
  sparse_job j = {.w = {call->packed ? call->packed : call->in[3].data},
                  .stride = call->packed ? call->packed_row : 1,
                  .offsets = call->in[0].data,
                  .indices = call->in[1].data,
                  .values = call->in[2].data,
                  .rows = call->in[0].shape.dim[0] - 1,
                  .entries = call->in[1].shape.dim[0],
                  .features = call->in[3].shape.dim[0],
                  .step_rows = 1};
  const sparse_form f = {.slots = 0};
  bool once;
  TRY(sparse_check(&j, &once));
  for (int64_t row = 0; row < MIN_OF((int64_t)SPARSE_AHEAD, j.rows); row++) sparse_fetch(f, &j, row);
  for (int64_t row = 0; row < j.rows; row++) {
    sparse_fetch(f, &j, row + SPARSE_AHEAD);
    ((float *)call->out[0].data)[row] = sparse_score(&j, row);
  }
  return NULL;
}
