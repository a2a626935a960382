/* Kernels on sparse rows; see kernel/sparse.h. Where a row's weights lie is known long before they are needed, and each
 * is a cache miss, so they are fetched some rows ahead: into the second cache, since the first has few places for lines
 * that are on their way, and a fetch that finds none holds up all loads behind it. */

enum { SPARSE_AHEAD = 6, SPARSE_TOGETHER = 64, SPARSE_CACHED = 1 << 13 }; /* rows; entries; entries */
enum { SPARSE_FETCHED = VW / 2 }; /* entries that are fetched while VW others are read, and while they are written */

/* Each form is compiled by itself, and what a form does not change is compiled once: inlined everywhere, these kernels
 * would take the compiler longer than all others. */
#define OUT_OF_LINE static __attribute__((noinline))

/* What a call does, known where a kernel is compiled. */
typedef struct {
  sparse_kind kind;
  int slots;
} sparse_form;

INLINE void sparse_fetch_entry(sparse_form f, const sparse_job *j, int32_t index) {
  if (j->stride > 1 || !f.slots)
    __builtin_prefetch(j->w[0] + index * j->stride, 0, 2);
  else
    for (int k = 0; k <= f.slots; k++) __builtin_prefetch(j->w[k] + index, 0, 2);
}

INLINE void sparse_fetch(sparse_form f, const sparse_job *j, int64_t row) {
  if (row >= j->rows) return;
  const int64_t from = j->offsets[row] - j->offsets[0], to = j->offsets[row + 1] - j->offsets[0];
  for (int64_t e = from; e < to; e++) sparse_fetch_entry(f, j, j->indices[e]);
}

/* Indices of a row that comes later, and how many of them have been fetched. */
typedef struct {
  const int32_t *at;
  int64_t n, done;
} sparse_later;

INLINE sparse_later sparse_later_row(const sparse_job *j, int64_t row) {
  if (row >= j->rows) return (sparse_later){0};
  return (sparse_later){.at = j->indices + (j->offsets[row] - j->offsets[0]),
                        .n = j->offsets[row + 1] - j->offsets[row]};
}

/* Some more of them: all at once they would fill the queue of lines on their way, and the row at hand would wait; one by
 * one, while it is worked on, they come for nothing. */
INLINE void sparse_fetch_some(sparse_form f, const sparse_job *j, sparse_later *later) {
  if (later->done + SPARSE_FETCHED > later->n) return;
  UNROLL for (int i = 0; i < SPARSE_FETCHED; i++) sparse_fetch_entry(f, j, later->at[later->done + i]);
  later->done += SPARSE_FETCHED;
}

INLINE void sparse_fetch_rest(sparse_form f, const sparse_job *j, sparse_later *later) {
  for (; later->done < later->n; later->done++) sparse_fetch_entry(f, j, later->at[later->done]);
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

/* log(1 + e) of many rows is one logarithm of a product, of factors up to 2. */
INLINE void sparse_count_log(sparse_outcome *sum, float e) {
  sum->product *= 1 + (double)e;
  if (sum->product < 0x1p1000) return;
  sum->loss += log(sum->product);
  sum->product = 1;
}

INLINE float sparse_score(const sparse_job *j, int64_t row) {
  const int64_t from = j->offsets[row] - j->offsets[0], n = j->offsets[row + 1] - j->offsets[row];
  const float sum = sparse_dot(j->indices + from, j->values + from, j->w[0], j->stride, n);
  return j->bias[0] ? sum + *j->bias[0] : sum;
}

/* Counts a row with this score; returns the gradient of its loss with respect to the score. */
INLINE float sparse_judge(const sparse_job *j, int64_t row, float z, sparse_outcome *sum) {
  const float y = (float)j->labels[row], e = expf(-fabsf(z));
  sum->loss += (double)((z > 0 ? z : 0) - z * y);
  sparse_count_log(sum, e);
  sum->hits += z == z && (z > 0) == (j->labels[row] != 0);
  return (z >= 0 ? 1 : e) / (1 + e) - y;
}

/* square: powers are square roots, which makes the loop one of vectors. */
INLINE void sparse_update_ftrl(bool square, const attr_value *attr, float *restrict var, float *restrict a,
                               float *restrict b, const float *restrict grad, int64_t n, float lr) {
  typedef float real;
  FTRL_CONSTANTS;
  if (half != square) __builtin_unreachable();
  for (int64_t i = 0; i < n; i++) {
    const float g = grad[i];
    FTRL_ELEMENT;
  }
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
    case SPARSE_FTRL:
      if (attr[3].f == -0.5)
        sparse_update_ftrl(true, attr, var, a, b, grad, n, lr);
      else
        sparse_update_ftrl(false, attr, var, a, b, grad, n, lr);
  }
}

/* Packed, a number and its slots are moved as one, of two or of four floats: as few loads and stores as there are
 * entries. A vector is put together in registers, since one that is read from where its parts were just written waits
 * for all of them. */
typedef double sparse_pair __attribute__((aligned(4), may_alias));
typedef double sparse_pairs __attribute__((vector_size(VW * 4)));
typedef float sparse_kept[1 + SPARSE_SLOTS_MAX][SPARSE_TOGETHER];
#define KEPT_FROM(kept, i) ((float(*)[SPARSE_TOGETHER])((float *)(kept) + (i)))

/* SPARSE_FOURS(X): X of where each four of a vector begins. */
#if VW == 16
#define SPARSE_HALF(X, at) X(at), X(at + 1), X(at + 2), X(at + 3), X(at + 4), X(at + 5), X(at + 6), X(at + 7)
#define SPARSE_EVERY_OTHER(o)                                                                                        \
  o + 0, o + 2, o + 4, o + 6, o + 8, o + 10, o + 12, o + 14, o + 16, o + 18, o + 20, o + 22, o + 24, o + 26, o + 28, \
      o + 30
#define SPARSE_BESIDE(o) \
  o + 0, o + 16, o + 1, o + 17, o + 2, o + 18, o + 3, o + 19, o + 4, o + 20, o + 5, o + 21, o + 6, o + 22, o + 7, o + 23
#define SPARSE_FOURS(X) X(0), X(4), X(8), X(12)
#elif VW == 8
#define SPARSE_HALF(X, at) X(at), X(at + 1), X(at + 2), X(at + 3)
#define SPARSE_EVERY_OTHER(o) o + 0, o + 2, o + 4, o + 6, o + 8, o + 10, o + 12, o + 14
#define SPARSE_BESIDE(o) o + 0, o + 8, o + 1, o + 9, o + 2, o + 10, o + 3, o + 11
#define SPARSE_FOURS(X) X(0), X(4)
#else
#define SPARSE_HALF(X, at) X(at), X(at + 1)
#define SPARSE_EVERY_OTHER(o) o + 0, o + 2, o + 4, o + 6
#define SPARSE_BESIDE(o) o + 0, o + 4, o + 1, o + 5
#define SPARSE_FOURS(X) X(0)
#endif

/* ---- rows of two */

INLINE void sparse_take_pairs(const float *w, const int32_t *at, float kept[][SPARSE_TOGETHER]) {
#define SPARSE_LOAD_PAIR(i) *(const sparse_pair *)(w + (int64_t)at[i] * 2)
  const vf low = (vf)(sparse_pairs){SPARSE_HALF(SPARSE_LOAD_PAIR, 0)};
  const vf high = (vf)(sparse_pairs){SPARSE_HALF(SPARSE_LOAD_PAIR, VW / 2)};
  v_store(kept[0], __builtin_shufflevector(low, high, SPARSE_EVERY_OTHER(0)));
  v_store(kept[1], __builtin_shufflevector(low, high, SPARSE_EVERY_OTHER(1)));
}

INLINE void sparse_put_pairs(float *w, const int32_t *at, int64_t n, float kept[][SPARSE_TOGETHER]) {
  const vf var = v_load(kept[0]), a = v_load(kept[1]);
  const sparse_pairs low = (sparse_pairs)__builtin_shufflevector(var, a, SPARSE_BESIDE(0));
  const sparse_pairs high = (sparse_pairs)__builtin_shufflevector(var, a, SPARSE_BESIDE(VW / 2));
  if (n >= VW) {
    UNROLL for (int i = 0; i < VW / 2; i++) * (sparse_pair *)(w + (int64_t)at[i] * 2) = low[i];
    UNROLL for (int i = 0; i < VW / 2; i++) * (sparse_pair *)(w + (int64_t)at[VW / 2 + i] * 2) = high[i];
    return;
  }
  double pairs[VW];
  memcpy(pairs, &low, sizeof low);
  memcpy(pairs + VW / 2, &high, sizeof high);
  for (int64_t i = 0; i < n; i++) *(sparse_pair *)(w + (int64_t)at[i] * 2) = pairs[i];
}

/* ---- rows of four */

/* The fours of four vectors as columns: number k of four i of x[j] becomes number j of four i of x[k]. */
INLINE void sparse_turn_fours(vf x[4]) {
#define SPARSE_LOW(l) l, VW + l, l + 1, VW + l + 1
#define SPARSE_HIGH(l) l + 2, VW + l + 2, l + 3, VW + l + 3
#define SPARSE_FIRST(l) l, l + 1, VW + l, VW + l + 1
#define SPARSE_LAST(l) l + 2, l + 3, VW + l + 2, VW + l + 3
  const vf a = __builtin_shufflevector(x[0], x[1], SPARSE_FOURS(SPARSE_LOW));
  const vf b = __builtin_shufflevector(x[2], x[3], SPARSE_FOURS(SPARSE_LOW));
  const vf c = __builtin_shufflevector(x[0], x[1], SPARSE_FOURS(SPARSE_HIGH));
  const vf d = __builtin_shufflevector(x[2], x[3], SPARSE_FOURS(SPARSE_HIGH));
  x[0] = __builtin_shufflevector(a, b, SPARSE_FOURS(SPARSE_FIRST));
  x[1] = __builtin_shufflevector(a, b, SPARSE_FOURS(SPARSE_LAST));
  x[2] = __builtin_shufflevector(c, d, SPARSE_FOURS(SPARSE_FIRST));
  x[3] = __builtin_shufflevector(c, d, SPARSE_FOURS(SPARSE_LAST));
}

/* Rows at[0], at[4], ... side by side. */
INLINE vf sparse_load_fours(const float *w, const int32_t *at) {
#define SPARSE_ROW(i) *(const sparse_four_any *)(w + (int64_t)at[i] * 4)
#if VW == 16
  typedef float eight __attribute__((vector_size(32)));
  const eight low = __builtin_shufflevector(SPARSE_ROW(0), SPARSE_ROW(4), 0, 1, 2, 3, 4, 5, 6, 7);
  const eight high = __builtin_shufflevector(SPARSE_ROW(8), SPARSE_ROW(12), 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif VW == 8
  return __builtin_shufflevector(SPARSE_ROW(0), SPARSE_ROW(4), 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return SPARSE_ROW(0);
#endif
}

INLINE void sparse_take_fours(const float *w, const int32_t *at, float kept[][SPARSE_TOGETHER]) {
  vf x[4];
  UNROLL for (int i = 0; i < 4; i++) x[i] = sparse_load_fours(w, at + i);
  sparse_turn_fours(x);
  UNROLL for (int k = 0; k < 3; k++) v_store(kept[k], x[k]);
}

INLINE void sparse_put_fours(float *w, const int32_t *at, int64_t n, float kept[][SPARSE_TOGETHER]) {
  vf x[4] = {v_load(kept[0]), v_load(kept[1]), v_load(kept[2]), V_ZERO};
  sparse_turn_fours(x);
  union {
    vf all[4];
    sparse_four four[4][VW / 4];
  } rows;
  UNROLL for (int i = 0; i < 4; i++) rows.all[i] = x[i];
  if (n >= VW) {
    UNROLL for (int i = 0; i < VW; i++) * (sparse_four_any *)(w + (int64_t)at[i] * 4) = rows.four[i % 4][i / 4];
    return;
  }
  for (int64_t i = 0; i < n; i++) *(sparse_four_any *)(w + (int64_t)at[i] * 4) = rows.four[i % 4][i / 4];
}

/* The numbers at n different indices, and their slots, to where they are worked on, and back. Where n is no multiple of
 * VW, what lies behind in `kept` is any row's, or 1. readable: of the indices, n or more. */
INLINE void sparse_take(sparse_form f, const sparse_job *j, bool packed, const int32_t *at, int64_t n, int64_t readable,
                        sparse_kept kept, sparse_later *later) {
  int64_t i = 0;
  for (; packed && i < n && i + VW <= readable; i += VW) {
    if (f.slots > 1)
      sparse_take_fours(j->w[0], at + i, KEPT_FROM(kept, i));
    else
      sparse_take_pairs(j->w[0], at + i, KEPT_FROM(kept, i));
    sparse_fetch_some(f, j, later);
  }
  const int64_t stride = !packed ? 1 : f.slots > 1 ? 4 : 2, whole = (n + VW - 1) / VW * VW;
  for (; i < n; i++)
    for (int k = 0; k <= f.slots; k++) kept[k][i] = j->w[k][at[i] * stride];
  for (; i < whole; i++) kept[0][i] = kept[1][i] = kept[2][i] = 1;
}

INLINE void sparse_put(sparse_form f, const sparse_job *j, bool packed, const int32_t *at, int64_t n, sparse_kept kept,
                       sparse_later *later) {
  for (int64_t i = 0; packed && i < n; i += VW) {
    if (f.slots > 1)
      sparse_put_fours(j->w[0], at + i, n - i, KEPT_FROM(kept, i));
    else
      sparse_put_pairs(j->w[0], at + i, n - i, KEPT_FROM(kept, i));
    sparse_fetch_some(f, j, later);
  }
  for (int64_t i = 0; !packed && i < n; i++)
    for (int k = 0; k <= f.slots; k++) j->w[k][at[i]] = kept[k][i];
}

/* Up to SPARSE_TOGETHER that were taken, whose gradients are times * values. */
INLINE void sparse_change(sparse_form f, const attr_value *attr, sparse_kept kept, const float *values, float times,
                          int64_t n, float lr) {
  float grads[SPARSE_TOGETHER];
  const int64_t whole = (n + VW - 1) / VW * VW;
  for (int64_t i = 0; i < n; i++) grads[i] = values[i] * times;
  for (int64_t i = n; i < whole; i++) grads[i] = 1;
  sparse_update(f.kind, attr, kept[0], kept[1], kept[2], grads, whole, lr);
}

/* Each of n different indices, whose gradient is times * values. They are collected first, so that roots and quotients are taken
 * of a vector at a time. */
INLINE void sparse_touch_slots(sparse_form f, const attr_value *attr, const sparse_job *j, bool packed,
                               const int32_t *indices, const float *values, float times, int64_t n, float lr) {
  sparse_kept kept;
  sparse_later none = {0};
  for (int64_t first = 0; first < n; first += SPARSE_TOGETHER) {
    const int64_t count = MIN_OF(n - first, (int64_t)SPARSE_TOGETHER);
    for (int64_t e = first + SPARSE_TOGETHER; e < MIN_OF(first + SPARSE_TOGETHER + count, n); e++)
      sparse_fetch_entry(f, j, indices[e]);
    sparse_take(f, j, packed, indices + first, count, n - first, kept, &none);
    sparse_change(f, attr, kept, values + first, times, count, lr);
    sparse_put(f, j, packed, indices + first, count, kept, &none);
  }
}

INLINE void sparse_touch_sgd(const attr_value *attr, const sparse_job *j, const int32_t *indices, const float *values,
                             float times, int64_t n, float lr) {
  typedef float real;
  SGD_CONSTANTS;
  for (int64_t e = 0; e < n; e++) {
    float *var = j->w[0] + indices[e], g = values[e] * times;
    const int i = 0;
    SGD_ELEMENT;
  }
}

INLINE void sparse_touch_bias(sparse_form f, const attr_value *attr, const sparse_job *j, float dz, float lr) {
  if (j->bias[0]) sparse_update(f.kind, attr, j->bias[0], j->bias[1], j->bias[2], &dz, 1, lr);
}

/* SPARSE_DOT of numbers side by side. */
INLINE float sparse_dot_beside(const float *values, const float *numbers, int64_t n) {
  sparse_four part = {0};
  int64_t e = 0;
  for (; e + 4 <= n; e += 4) part += *(const sparse_four_any *)(values + e) * *(const sparse_four_any *)(numbers + e);
  float first = part[0];
  for (; e < n; e++) first += values[e] * numbers[e];
  return (first + part[1]) + (part[2] + part[3]);
}

/* A row whose indices are all different, scored and updated; its numbers are read once. false: its score is no number. */
INLINE bool sparse_row_slots(sparse_form f, const attr_value *attr, const sparse_job *j, bool packed, int64_t row,
                             float lr, sparse_outcome *sum) {
  const int64_t from = j->offsets[row] - j->offsets[0], n = j->offsets[row + 1] - j->offsets[row];
  const int32_t *indices = j->indices + from;
  const float *values = j->values + from;
  const bool together = n <= SPARSE_TOGETHER;
  sparse_later later = sparse_later_row(j, row + SPARSE_AHEAD);
  sparse_kept kept;
  float z;
  if (together) {
    sparse_take(f, j, packed, indices, n, j->entries - from, kept, &later);
    z = sparse_dot_beside(values, kept[0], n);
    if (j->bias[0]) z += *j->bias[0];
  } else {
    z = sparse_score(j, row);
  }
  if (__builtin_expect(!isfinite(z), 0)) return false;
  const float dz = sparse_judge(j, row, z, sum);
  if (together) {
    sparse_change(f, attr, kept, values, dz, n, lr);
    sparse_put(f, j, packed, indices, n, kept, &later);
  } else {
    sparse_touch_slots(f, attr, j, packed, indices, values, dz, n, lr);
  }
  sparse_touch_bias(f, attr, j, dz, lr);
  sparse_fetch_rest(f, j, &later);
  return true;
}

#define SPARSE_WITH_SLOTS(name, kind, slots)                                                                \
  OUT_OF_LINE void sparse_touch_##name(const attr_value *attr, const sparse_job *j, const int32_t *indices, \
                                       const float *values, int64_t n, float lr) {                          \
    if (j->stride > 1)                                                                                      \
      sparse_touch_slots((sparse_form){kind, slots}, attr, j, true, indices, values, 1, n, lr);             \
    else                                                                                                    \
      sparse_touch_slots((sparse_form){kind, slots}, attr, j, false, indices, values, 1, n, lr);            \
  }                                                                                                         \
  OUT_OF_LINE bool sparse_row_##name(const attr_value *attr, const sparse_job *j, int64_t row, float lr,    \
                                     sparse_outcome *sum) {                                                 \
    return j->stride > 1 ? sparse_row_slots((sparse_form){kind, slots}, attr, j, true, row, lr, sum)        \
                         : sparse_row_slots((sparse_form){kind, slots}, attr, j, false, row, lr, sum);      \
  }

SPARSE_WITH_SLOTS(adagrad, SPARSE_ADAGRAD, 1)
SPARSE_WITH_SLOTS(ftrl, SPARSE_FTRL, 2)

/* Each of n different indices by its gradient. */
INLINE void sparse_touch(sparse_form f, const attr_value *attr, const sparse_job *j, const int32_t *indices,
                         const float *grads, int64_t n, float lr) {
  switch (f.kind) {
    case SPARSE_SGD: sparse_touch_sgd(attr, j, indices, grads, 1, n, lr); break;
    case SPARSE_ADAGRAD: sparse_touch_adagrad(attr, j, indices, grads, n, lr); break;
    case SPARSE_FTRL: sparse_touch_ftrl(attr, j, indices, grads, n, lr); break;
  }
}

/* ---- indices that stand several times in a step: their gradients are added up first */

/* Where an index is in the lists of a step. */
typedef struct {
  int32_t index;
  uint32_t place; /* 1 + position; 0: free */
} sparse_seen;

typedef struct {
  float *dz;          /* [rows] */
  sparse_seen *table; /* [1 << bits], bits as a step needs them */
  int32_t *unique;    /* [entries] */
  float *sums;        /* [entries] */
} sparse_room;

INLINE sparse_room sparse_room_in(void *scratch, int64_t entries) {
  sparse_room r;
  r.table = scratch;
  r.unique = (int32_t *)(r.table + ((size_t)1 << sparse_table_bits(entries)));
  r.sums = (float *)(r.unique + entries);
  r.dz = r.sums + entries;
  return r;
}

/* Whether an index has come before is a coin's toss for a branch, so there is none: the same is written either way. */
INLINE void sparse_touch_unique(sparse_form f, const attr_value *attr, const sparse_job *j, sparse_room *r,
                                int64_t first, int64_t last, float lr) {
  const int bits = sparse_table_bits(j->offsets[last] - j->offsets[first]);
  const uint32_t mask = (1u << bits) - 1;
  uint32_t n = 0;
  memset(r->table, 0, ((size_t)1 << bits) * sizeof *r->table);
  memset(r->sums, 0, (size_t)(j->offsets[last] - j->offsets[first]) * sizeof *r->sums);
  for (int64_t row = first; row < last; row++) {
    const int64_t from = j->offsets[row] - j->offsets[0], to = j->offsets[row + 1] - j->offsets[0];
    const float dz = r->dz[row - first];
    for (int64_t e = from; e < to; e++) {
      const int32_t index = j->indices[e];
      uint32_t at = (uint32_t)index * 2654435769u >> (32 - bits);
      while (__builtin_expect((r->table[at].place != 0) & (r->table[at].index != index), 0)) at = (at + 1) & mask;
      const uint32_t place = r->table[at].place, fresh = 0 - (uint32_t)(place == 0);
      const uint32_t its = ((place - 1) & ~fresh) | (n & fresh);
      r->table[at] = (sparse_seen){index, its + 1};
      r->unique[its] = index;
      r->sums[its] += j->values[e] * dz;
      n -= fresh;
    }
  }
  sparse_touch(f, attr, j, r->unique, r->sums, n, lr);
}

/* ---- steps */

INLINE float sparse_rate(const sparse_job *j, int64_t step) { return j->rates[j->many_rates ? step : 0]; }

INLINE void sparse_touch_row(const attr_value *attr, const sparse_job *j, int64_t row, float dz, float lr) {
  const int64_t from = j->offsets[row] - j->offsets[0], n = j->offsets[row + 1] - j->offsets[row];
  sparse_touch_sgd(attr, j, j->indices + from, j->values + from, dz, n, lr);
}

INLINE bool sparse_row_sgd(const attr_value *attr, const sparse_job *j, int64_t row, float lr, sparse_outcome *sum) {
  const float z = sparse_score(j, row);
  if (__builtin_expect(!isfinite(z), 0)) return false;
  const float dz = sparse_judge(j, row, z, sum);
  sparse_touch_row(attr, j, row, dz, lr);
  sparse_touch_bias((sparse_form){SPARSE_SGD, 0}, attr, j, dz, lr);
  return true;
}

/* Rows [first, last), each an update of its own. */
INLINE void sparse_rows(sparse_form f, const attr_value *attr, const sparse_job *j, int64_t first, int64_t last,
                        sparse_outcome *sum) {
  for (int64_t row = first; row < MIN_OF(first + SPARSE_AHEAD, last); row++) sparse_fetch(f, j, row);
  for (int64_t row = first; row < last; row++) {
    const float lr = sparse_rate(j, row);
    bool good = false;
    if (f.kind == SPARSE_SGD) sparse_fetch(f, j, row + SPARSE_AHEAD);
    switch (f.kind) {
      case SPARSE_SGD: good = sparse_row_sgd(attr, j, row, lr, sum); break;
      case SPARSE_ADAGRAD: good = sparse_row_adagrad(attr, j, row, lr, sum); break;
      case SPARSE_FTRL: good = sparse_row_ftrl(attr, j, row, lr, sum); break;
    }
    if (__builtin_expect(good, 1)) continue;
    sum->bad_row = row;
    return;
  }
}

/* One update out of rows [first, last). */
INLINE void sparse_step(sparse_form f, const attr_value *attr, const sparse_job *j, bool repeats, int64_t first,
                        int64_t last, float lr, sparse_room *r, sparse_outcome *sum) {
  const float share = 1.0f / (float)(last - first);
  const bool again = j->offsets[last] - j->offsets[first] > SPARSE_CACHED; /* lines have left the cache meanwhile */
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
    for (int64_t row = first; row < last; row++) {
      if (again && row + SPARSE_AHEAD < last) sparse_fetch(f, j, row + SPARSE_AHEAD);
      sparse_touch_row(attr, j, row, r->dz[row - first], lr);
    }
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
  *sum = (sparse_outcome){.bad_row = -1, .product = 1};
  const bool repeats = f.kind == SPARSE_SGD && attr[0].f == 0; /* plain SGD: gradients may be applied one by one */
  if (j->step_rows == 1 && (repeats || w->once)) {
    sparse_rows(f, attr, j, first, last, sum);
    return;
  }
  sparse_room r = sparse_room_in((char *)sum + mem_round_up(sizeof *sum, MEM_ALIGN), j->step_entries);
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
    all.loss += one->loss + log(one->product);
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
