/* Kernels on tables of rows; see kernel/table.h. */

enum { TABLE_AHEAD = 16, TABLE_APPLY_AHEAD = 8, TABLE_SPLIT = 1 << 14, TABLE_LINE = 16 }; /* entries; rows; numbers */

/* What threads share. */
typedef struct {
  table_rows r;
  const kernel_call *call;
  const float *values, *table;
  int64_t width, apart; /* numbers of a row, and from one to the next */
} table_work;

/* Work of so many numbers, cut among the threads if that is worth it. */
INLINE void table_run(const kernel_call *call, pool_work part, void *work, int64_t numbers) {
  if (numbers < TABLE_SPLIT)
    part(work, 0, 1);
  else
    pool_run(call->threads, part, work);
}

INLINE void table_fetch(const float *row, int64_t width) {
  for (int64_t j = 0; j < width; j += TABLE_LINE) __builtin_prefetch(row + j, 1, 3);
  __builtin_prefetch(row + width - 1, 1, 3);
}

INLINE const float *table_at(const table_work *w, int64_t index) { return w->table + index * w->apart; }

INLINE int64_t table_from(const table_rows *r, int64_t row) { return r->offsets[row] - r->offsets[0]; }

/* to[0 .. n) += times * from */
INLINE void table_add(float *restrict to, const float *restrict from, float times, int64_t n) {
  int64_t j = 0;
  for (; j + VW <= n; j += VW) v_store(to + j, v_load(to + j) + v_set(times) * v_load(from + j));
  for (; j < n; j++) to[j] += times * from[j];
}

/* to[0 .. n) = times * from */
INLINE void table_scale(float *restrict to, const float *restrict from, float times, int64_t n) {
  int64_t j = 0;
  for (; j + VW <= n; j += VW) v_store(to + j, v_set(times) * v_load(from + j));
  for (; j < n; j++) to[j] = times * from[j];
}

/* ---- pools */

/* The pool of entry e in its row; -1: it does not count. */
INLINE int64_t table_place(const table_rows *r, int64_t e) {
  return r->fields ? r->fields[e] < r->first_field ? -1 : r->fields[e] - r->first_field : 0;
}

/* How many entries each of a row's pools has. */
INLINE void table_count(const table_rows *r, int64_t from, int64_t to, int32_t *counts) {
  memset(counts, 0, (size_t)r->n_fields * sizeof *counts);
  for (int64_t e = from; e < to; e++) {
    const int64_t place = table_place(r, e);
    if (place >= 0) counts[place]++;
  }
}

static void table_bag_part(void *context, int thread, int threads) {
  const table_work *w = context;
  const table_rows *r = &w->r;
  const int64_t width = w->width;
  int32_t *counts = w->call->attr[2].i ? w->call->scratch : NULL; /* then there is one thread */
  int64_t first, last;
  pool_share(r->rows, 1, thread, threads, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const int64_t from = table_from(r, i), to = table_from(r, i + 1);
    float *out = (float *)w->call->out[0].data + i * r->n_fields * width; /* [fields, width] */
    memset(out, 0, (size_t)(r->n_fields * width) * sizeof *out);
    if (counts) table_count(r, from, to, counts);
    for (int64_t e = from; e < to; e++) {
      const int64_t place = table_place(r, e);
      if (e + TABLE_AHEAD < r->entries) table_fetch(table_at(w, r->indices[e + TABLE_AHEAD]), width);
      if (place < 0) continue;
      const float times = counts ? w->values[e] / (float)counts[place] : w->values[e];
      table_add(out + place * width, table_at(w, r->indices[e]), times, width);
    }
  }
}

/* Inputs and attributes as of embedding_bag. */
shoal_status ISA_NAME(table_bag)(const kernel_call *call) {
  const shoal_tensor *in = call->in;
  const bool fields = call->ins > 4;
  table_work w = {.r = {.offsets = in[0].data,
                        .indices = in[1].data,
                        .fields = fields ? in[4].data : NULL,
                        .rows = in[0].shape.dim[0] - 1,
                        .entries = in[2].shape.dim[0],
                        .table_rows = in[3].shape.dim[0],
                        .first_field = call->attr[1].i,
                        .n_fields = fields ? call->attr[0].i : 1},
                  .call = call,
                  .values = in[2].data,
                  .table = call->packed ? call->packed : in[3].data,
                  .width = in[3].shape.dim[1],
                  .apart = call->packed ? call->packed_row : in[3].shape.dim[1]};
  TRY(table_check(&w.r));
  table_run(call, table_bag_part, &w, call->attr[2].i ? 0 : w.r.entries * w.width);
  return NULL;
}

static void table_bag_grad_part(void *context, int thread, int threads) {
  const table_work *w = context;
  const table_rows *r = &w->r;
  const int64_t width = w->width;
  const float *dy = w->call->in[2].data; /* [rows, fields, width] */
  float *out = w->call->out[0].data;     /* [entries, width] */
  int32_t *counts = w->call->attr[2].i ? w->call->scratch : NULL;
  int64_t first, last;
  pool_share(r->rows, 1, thread, threads, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const int64_t from = table_from(r, i), to = table_from(r, i + 1);
    if (counts) table_count(r, from, to, counts);
    for (int64_t e = from; e < to; e++) {
      const int64_t place = table_place(r, e);
      const float times = place < 0 ? 0 : counts ? w->values[e] / (float)counts[place] : w->values[e];
      table_scale(out + e * width, dy + (i * r->n_fields + MAX_OF(place, 0)) * width, times, width);
    }
  }
}

/* Inputs and attributes as of embedding_bag_grad_rows. */
shoal_status ISA_NAME(table_bag_grad)(const kernel_call *call) {
  const shoal_tensor *in = call->in;
  const bool fields = call->ins > 3;
  table_work w = {.r = {.offsets = in[0].data,
                        .fields = fields ? in[3].data : NULL,
                        .rows = in[0].shape.dim[0] - 1,
                        .entries = in[1].shape.dim[0],
                        .first_field = call->attr[1].i,
                        .n_fields = fields ? call->attr[0].i : 1},
                  .call = call,
                  .values = in[1].data,
                  .width = call->out[0].shape.dim[1]};
  TRY(table_check(&w.r));
  const int64_t used = table_from(&w.r, w.r.rows);
  memset((float *)call->out[0].data + used * w.width, 0, (size_t)((w.r.entries - used) * w.width) * sizeof(float));
  table_run(call, table_bag_grad_part, &w, call->attr[2].i ? 0 : w.r.entries * w.width);
  return NULL;
}

/* ---- factorization machines */

INLINE table_work table_fm_work(const kernel_call *call) {
  const shoal_tensor *in = call->in;
  return (table_work){.r = {.offsets = in[0].data,
                            .indices = in[1].data,
                            .rows = in[0].shape.dim[0] - 1,
                            .entries = in[2].shape.dim[0],
                            .table_rows = in[3].shape.dim[0],
                            .n_fields = 1},
                      .call = call,
                      .values = in[2].data,
                      .table = call->packed ? call->packed : in[3].data,
                      .width = in[3].shape.dim[1],
                      .apart = call->packed ? call->packed_row : in[3].shape.dim[1]};
}

/* Fills sums [width] of one example; returns its score. */
INLINE float table_fm_row(const table_work *w, int64_t from, int64_t to, float *sums) {
  const int64_t width = w->width;
  const int32_t *indices = w->r.indices;
  float linear = 0, pairs = 0;
  for (int64_t e = from; e < to; e++) {
    if (e + TABLE_AHEAD < w->r.entries) table_fetch(table_at(w, indices[e + TABLE_AHEAD]), width);
    linear += w->values[e] * *table_at(w, indices[e]);
  }
  sums[0] = linear;
  int64_t j = 1;
  for (; j + VW <= width; j += VW) {
    vf sum = V_ZERO, squares = V_ZERO;
    for (int64_t e = from; e < to; e++) {
      const vf x = v_set(w->values[e]) * v_load(table_at(w, indices[e]) + j);
      sum += x;
      squares += x * x;
    }
    v_store(sums + j, sum);
    pairs += v_sum(sum * sum - squares);
  }
  for (; j < width; j++) {
    float sum = 0, squares = 0;
    for (int64_t e = from; e < to; e++) {
      const float x = w->values[e] * table_at(w, indices[e])[j];
      sum += x;
      squares += x * x;
    }
    sums[j] = sum;
    pairs += sum * sum - squares;
  }
  return linear + 0.5f * pairs;
}

static void table_fm_part(void *context, int thread, int threads) {
  const table_work *w = context;
  int64_t first, last;
  pool_share(w->r.rows, 1, thread, threads, &first, &last);
  for (int64_t i = first; i < last; i++)
    ((float *)w->call->out[0].data)[i] =
        table_fm_row(w, table_from(&w->r, i), table_from(&w->r, i + 1), (float *)w->call->out[1].data + i * w->width);
}

/* Inputs and outputs as of fm. */
shoal_status ISA_NAME(table_fm)(const kernel_call *call) {
  table_work w = table_fm_work(call);
  TRY(table_check(&w.r));
  table_run(call, table_fm_part, &w, w.r.entries * w.width);
  return NULL;
}

static void table_fm_grad_part(void *context, int thread, int threads) {
  const table_work *w = context;
  const table_rows *r = &w->r;
  const int64_t width = w->width;
  const float *dy = w->call->in[5].data; /* [rows] */
  int64_t first, last;
  pool_share(r->rows, 1, thread, threads, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const float *sums = (const float *)w->call->in[4].data + i * width;
    for (int64_t e = table_from(r, i); e < table_from(r, i + 1); e++) {
      const float *row = table_at(w, r->indices[e]), x = w->values[e], times = dy[i] * x;
      float *out = (float *)w->call->out[0].data + e * width;
      int64_t j = 1;
      out[0] = times;
      for (; j + VW <= width; j += VW) v_store(out + j, v_set(times) * (v_load(sums + j) - v_set(x) * v_load(row + j)));
      for (; j < width; j++) out[j] = times * (sums[j] - x * row[j]);
    }
  }
}

/* Inputs as of fm_grad_rows. */
shoal_status ISA_NAME(table_fm_grad)(const kernel_call *call) {
  table_work w = table_fm_work(call);
  TRY(table_check(&w.r));
  const int64_t used = table_from(&w.r, w.r.rows);
  memset((float *)call->out[0].data + used * w.width, 0, (size_t)((w.r.entries - used) * w.width) * sizeof(float));
  table_run(call, table_fm_grad_part, &w, w.r.entries * w.width);
  return NULL;
}

/* ---- pairs of vectors that were looked up; rows of a batch, by the caller's threads */

/* Fills sums [width] of an example x [fields, width]; returns its score. */
INLINE float table_pairs_row(const float *x, int64_t fields, int64_t width, int64_t linear, float *sums) {
  float y = 0, pairs = 0;
  int64_t j = 0;
  for (; j < linear; j++) {
    float sum = 0;
    for (int64_t f = 0; f < fields; f++) sum += x[f * width + j];
    y += sums[j] = sum;
  }
  for (; j + VW <= width; j += VW) {
    vf sum = V_ZERO, squares = V_ZERO;
    for (int64_t f = 0; f < fields; f++) {
      const vf v = v_load(x + f * width + j);
      sum += v;
      squares += v * v;
    }
    v_store(sums + j, sum);
    pairs += v_sum(sum * sum - squares);
  }
  for (; j < width; j++) {
    float sum = 0, squares = 0;
    for (int64_t f = 0; f < fields; f++) {
      const float v = x[f * width + j];
      sum += v;
      squares += v * v;
    }
    sums[j] = sum;
    pairs += sum * sum - squares;
  }
  return y + 0.5f * pairs;
}

/* Inputs and outputs as of field_pairs. */
shoal_status ISA_NAME(table_pairs)(const kernel_call *call) {
  const int64_t fields = call->in[0].shape.dim[1], width = call->in[0].shape.dim[2];
  for (int64_t i = 0; i < call->in[0].shape.dim[0]; i++)
    ((float *)call->out[0].data)[i] = table_pairs_row((const float *)call->in[0].data + i * fields * width, fields,
                                                      width, call->attr[0].i, (float *)call->out[1].data + i * width);
  return NULL;
}

/* Inputs as of field_pairs_grad. */
shoal_status ISA_NAME(table_pairs_grad)(const kernel_call *call) {
  const int64_t fields = call->in[0].shape.dim[1], width = call->in[0].shape.dim[2], linear = call->attr[0].i;
  const float *x = call->in[0].data, *sums = call->in[1].data; /* [n, fields, width], [n, width] */
  const float *dy = call->in[2].data;                          /* [n] */
  float *dx = call->out[0].data;
  for (int64_t i = 0; i < call->in[0].shape.dim[0]; i++, sums += width)
    for (int64_t f = 0; f < fields; f++, x += width, dx += width) {
      int64_t j = 0;
      for (; j < linear; j++) dx[j] = dy[i];
      for (; j + VW <= width; j += VW) v_store(dx + j, v_set(dy[i]) * (v_load(sums + j) - v_load(x + j)));
      for (; j < width; j++) dx[j] = dy[i] * (sums[j] - x[j]);
    }
  return NULL;
}

/* ---- each row once */

typedef struct {
  const kernel_call *call;
  const uint32_t *places; /* [n] of each entry among the indices, ascending; TABLE_DROPPED: it has none */
  int64_t n, unique, width;
} table_sums;

#define TABLE_DROPPED UINT32_MAX

/* A thread adds up those rows that are its own. */
static void table_sum_part(void *context, int thread, int threads) {
  const table_sums *t = context;
  const float *rows = t->call->in[1].data; /* [n, width] */
  float *sums = t->call->out[1].data;      /* [n, width] */
  int64_t first, last;
  pool_share(t->unique, 1, thread, threads, &first, &last);
  const int64_t end = thread == threads - 1 ? t->n : last; /* what is left over is zero */
  memset(sums + first * t->width, 0, (size_t)((end - first) * t->width) * sizeof *sums);
  for (int64_t e = 0; e < t->n; e++) {
    const int64_t place = t->places[e];
    if (place < first || place >= last) continue;
    table_add(sums + place * t->width, rows + e * t->width, 1, t->width);
  }
}

/* pairs [n] by their upper halves; room [n]. Where they are in the end. */
INLINE uint64_t *table_sort(uint64_t *pairs, uint64_t *room, int64_t n, uint32_t most) {
  enum { DIGIT = 11, DIGITS = 1 << DIGIT };
  for (int shift = 32; shift < 64 && most >> (shift - 32); shift += DIGIT) {
    uint32_t ends[DIGITS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) ends[pairs[i] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
      const uint32_t count = ends[d];
      ends[d] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) room[ends[pairs[i] >> shift & (DIGITS - 1)]++] = pairs[i];
    uint64_t *swap = pairs;
    pairs = room;
    room = swap;
  }
  return pairs;
}

/* Inputs and outputs as of unique_rows. */
shoal_status ISA_NAME(table_unique)(const kernel_call *call) {
  const int64_t n = call->in[0].shape.dim[0];
  const int32_t *indices = call->in[0].data; /* [n] */
  int32_t *unique = call->out[0].data;       /* [n] */
  const int bits = sparse_table_bits(n);
  const uint32_t mask = (1u << bits) - 1;
  uint64_t *pairs = call->scratch;                /* [2 n] index and number */
  uint32_t *places = (uint32_t *)(pairs + 2 * n); /* [n] */
  uint32_t *place_of = places + n;                /* [n] of the index with a number */
  uint32_t *numbers = place_of + n;               /* [n] hash's; index as it was met */
  uint32_t *hashed = numbers + n;                 /* [1 << bits] 1 + number of an index; 0: free */
  uint32_t count = 0, most = 0;
  memset(hashed, 0, ((size_t)1 << bits) * sizeof *hashed);
  for (int64_t e = 0; e < n; e++) {
    const uint32_t index = (uint32_t)indices[e];
    places[e] = TABLE_DROPPED;
    if (indices[e] < 0) continue;
    uint32_t at = index * 2654435769u >> (32 - bits);
    while (hashed[at] && numbers[hashed[at] - 1] != index) at = (at + 1) & mask;
    if (!hashed[at]) {
      most = MAX_OF(most, index);
      numbers[count] = index;
      pairs[count] = (uint64_t)index << 32 | count;
      hashed[at] = ++count;
    }
    places[e] = hashed[at] - 1;
  }
  const uint64_t *sorted = table_sort(pairs, pairs + n, count, most);
  for (uint32_t i = 0; i < count; i++) {
    unique[i] = (int32_t)(sorted[i] >> 32);
    place_of[(uint32_t)sorted[i]] = i;
  }
  for (int64_t i = count; i < n; i++) unique[i] = -1;
  for (int64_t e = 0; e < n; e++)
    if (places[e] != TABLE_DROPPED) places[e] = place_of[places[e]];
  int64_t width = 1;
  for (int i = 1; i < call->in[1].shape.rank; i++) width *= call->in[1].shape.dim[i];
  table_sums t = {.call = call, .places = places, .n = n, .unique = count, .width = width};
  table_run(call, table_sum_part, &t, n * width);
  return NULL;
}

/* ---- updates of rows that are named once */

typedef struct {
  const kernel_call *call;
  int slots;
  int64_t n, width;
} table_update;

/* Row `index` of the table (array 0) or of a slot. */
INLINE float *table_row(const table_update *u, int array, int64_t index) {
  const kernel_call *call = u->call;
  return call->packed ? call->packed + index * call->packed_row + array * u->width
                      : (float *)call->in[array].data + index * u->width;
}

/* Which attribute is weight_decay, by the number of slots and attributes of the four optimizers. */
INLINE double table_decay(const kernel_call *call, int slots) {
  return call->attr[slots == 0 ? 1 : slots == 1 ? 2 : call->ins > slots + 4 ? 3 : 4].f;
}

/* width: the table's, known to the compiler where it is 1. */
#define TABLE_APPLY(name, n_slots, constants, element)                                                            \
  INLINE void table_##name##_rows(const table_update *u, const int64_t width, int64_t first, int64_t last) {      \
    typedef float real;                                                                                           \
    const shoal_tensor *in = u->call->in;                                                                         \
    const attr_value *attr = u->call->attr;                                                                       \
    const int32_t *indices = in[(n_slots) + 1].data; /* [n] */                                                    \
    const float *grads = in[(n_slots) + 2].data;     /* [n, width] */                                             \
    const float lr = *(const float *)in[(n_slots) + 3].data;                                                      \
    const double t __attribute__((unused)) =                                                                      \
        u->call->ins > (n_slots) + 4 ? shoal_tensor_get(&in[(n_slots) + 4], 0) : 1;                               \
    const float shrink = (float)(1 - (double)lr * table_decay(u->call, n_slots));                                 \
    constants;                                                                                                    \
    for (int64_t r = first; r < last; r++) {                                                                      \
      if (r + TABLE_APPLY_AHEAD < last && indices[r + TABLE_APPLY_AHEAD] >= 0)                                    \
        for (int k = 0; k <= (n_slots); k++) table_fetch(table_row(u, k, indices[r + TABLE_APPLY_AHEAD]), width); \
      if (indices[r] < 0) continue;                                                                               \
      float *restrict var = table_row(u, 0, indices[r]);                                                          \
      float *restrict a __attribute__((unused)) = (n_slots) > 0 ? table_row(u, 1, indices[r]) : NULL;             \
      float *restrict b __attribute__((unused)) = (n_slots) > 1 ? table_row(u, 2, indices[r]) : NULL;             \
      const float *restrict grad = grads + r * width;                                                             \
      for (int64_t i = 0; i < width; i++) {                                                                       \
        float g = grad[i];                                                                                        \
        var[i] *= shrink;                                                                                         \
        element;                                                                                                  \
      }                                                                                                           \
    }                                                                                                             \
  }                                                                                                               \
  static void table_##name##_part(void *context, int thread, int threads) {                                       \
    const table_update *u = context;                                                                              \
    int64_t first, last;                                                                                          \
    pool_share(u->n, 1, thread, threads, &first, &last);                                                          \
    if (u->width == 1)                                                                                            \
      table_##name##_rows(u, 1, first, last);                                                                     \
    else                                                                                                          \
      table_##name##_rows(u, u->width, first, last);                                                              \
  }                                                                                                               \
  shoal_status ISA_NAME(table_apply_##name)(const kernel_call *call) {                                            \
    return table_apply(call, n_slots, table_##name##_part);                                                       \
  }

static shoal_status table_apply(const kernel_call *call, int slots, pool_work part) {
  const shoal_tensor *in = call->in, *indices = &in[slots + 1];
  table_update u = {.call = call, .slots = slots, .n = indices->shape.dim[0], .width = 1};
  for (int i = 1; i < in[0].shape.rank; i++) u.width *= in[0].shape.dim[i];
  for (int64_t r = 0; r < u.n; r++) {
    const int32_t index = ((const int32_t *)indices->data)[r];
    if (index >= in[0].shape.dim[0] || index < -1)
      return status_make(SHOAL_ERR_INPUT, "index %d at position %lld is out of range: there are %lld rows", index,
                         (long long)r, (long long)in[0].shape.dim[0]);
  }
  table_run(call, part, &u, slots ? u.n * u.width : 0); /* plain SGD takes an index several times */
  return NULL;
}

TABLE_APPLY(sgd, 0, SGD_CONSTANTS, SGD_ELEMENT)
TABLE_APPLY(adagrad, 1, ADAGRAD_CONSTANTS, ADAGRAD_ELEMENT)
TABLE_APPLY(adam, 2, ADAM_CONSTANTS, ADAM_ELEMENT)
TABLE_APPLY(ftrl, 2, FTRL_CONSTANTS, FTRL_ELEMENT)

static void table_rowwise_part(void *context, int thread, int threads) {
  typedef float real;
  const table_update *u = context;
  const shoal_tensor *in = u->call->in;
  const attr_value *attr = u->call->attr;
  const int32_t *indices = in[2].data; /* [n] */
  float *sums = in[1].data;            /* as rowwise_slots has them */
  const rowwise_slots slots = rowwise_slots_of(&in[0].shape, attr);
  const float lr = *(const float *)in[4].data, shrink = (float)(1 - (double)lr * attr[2].f);
  const int64_t width = u->width;
  int64_t first, last;
  ADAGRAD_CONSTANTS;
  pool_share(u->n, 1, thread, threads, &first, &last);
  for (int64_t r = first; r < last; r++) {
    if (r + TABLE_APPLY_AHEAD < last && indices[r + TABLE_APPLY_AHEAD] >= 0) {
      table_fetch(table_row(u, 0, indices[r + TABLE_APPLY_AHEAD]), width);
      __builtin_prefetch(sums + rowwise_slots_place(&slots, indices[r + TABLE_APPLY_AHEAD]), 1, 3);
    }
    if (indices[r] < 0) continue;
    const float *gradient = (const float *)in[3].data + r * width;
    float *restrict var = table_row(u, 0, indices[r]);
    float *restrict a = sums + rowwise_slots_place(&slots, indices[r]);
    int64_t i = 0;
    if (!rowwise_slots_single(&slots, indices[r])) {
      for (; i < width; i++) {
        float g = gradient[i];
        var[i] *= shrink;
        ADAGRAD_ELEMENT;
      }
      continue;
    }
    vf squares = V_ZERO;
    for (; i + VW <= width; i += VW) {
      const vf w = v_load(var + i) * v_set(shrink), g = v_load(gradient + i) + v_set(l2) * w;
      v_store(var + i, w);
      squares += g * g;
    }
    float sum = v_sum(squares);
    for (; i < width; i++) {
      var[i] *= shrink;
      const float g = gradient[i] + l2 * var[i];
      sum += g * g;
    }
    *a += sum / (float)width;
    const float step = sqrtf(*a) + epsilon;
    for (i = 0; i + VW <= width; i += VW) {
      const vf w = v_load(var + i), g = v_load(gradient + i) + v_set(l2) * w;
      v_store(var + i, w - v_set(lr) * g / v_set(step));
    }
    for (; i < width; i++) var[i] -= lr * (gradient[i] + l2 * var[i]) / step;
  }
}

/* Inputs as of sparse_apply_rowwise_adagrad. */
shoal_status ISA_NAME(table_apply_rowwise)(const kernel_call *call) { return table_apply(call, 1, table_rowwise_part); }
