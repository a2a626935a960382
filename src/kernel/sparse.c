#include "kernel/sparse.h"

#include "base/mem.h"

#include <math.h>

void sparse_job_of(const kernel_call *call, int slots, sparse_job *out) {
  const shoal_tensor *in = call->in;
  const shoal_tensor *rest = in + slots; /* the inputs after the slots */
  sparse_job j = {.offsets = rest[SPARSE_OFFSETS].data,
                  .indices = rest[SPARSE_INDICES].data,
                  .values = rest[SPARSE_VALUES].data,
                  .labels = rest[SPARSE_LABELS].data,
                  .rates = rest[SPARSE_RATE].data,
                  .many_rates = rest[SPARSE_RATE].shape.rank > 0,
                  .rows = rest[SPARSE_OFFSETS].shape.dim[0] - 1,
                  .entries = rest[SPARSE_INDICES].shape.dim[0],
                  .features = in[0].shape.dim[0],
                  .stride = call->packed ? call->packed_row : 1};
  for (int i = 0; i <= slots; i++) {
    j.w[i] = call->packed ? call->packed + i : in[i].data;
    if (call->ins > slots + SPARSE_BIAS) j.bias[i] = rest[SPARSE_BIAS + i].data;
  }
  j.step_rows = call->step_rows > 0 ? call->step_rows : MAX_OF(j.rows, 1);
  *out = j;
}

int sparse_table_bits(int64_t entries) {
  int bits = 4;
  while ((int64_t)1 << bits < 2 * entries) bits++;
  return bits;
}

size_t sparse_scratch(int64_t rows, int64_t entries) {
  size_t words = (size_t)rows + 2 * (size_t)entries + ((size_t)2 << sparse_table_bits(entries));
  return mem_round_up(sizeof(sparse_outcome), MEM_ALIGN) + mem_round_up(4 * words, MEM_ALIGN);
}

/* Entries that do not ascend, of all; *most: the largest index, -1 as the largest of all. */
static int64_t descents(const sparse_job *j, uint32_t *most) {
  const int32_t *indices = j->indices;
  uint32_t largest = j->entries ? (uint32_t)indices[0] : 0, n = 0;
  for (int64_t e = 1; e < j->entries; e++) {
    largest = MAX_OF(largest, (uint32_t)indices[e]);
    n += indices[e] <= indices[e - 1];
  }
  *most = largest;
  return n;
}

shoal_status sparse_check(sparse_job *j, bool *once) {
  const int64_t start = j->offsets[0];
  uint32_t most;
  int64_t within = descents(j, &most); /* rows, after those between two rows are taken off */
  for (int64_t i = 0; i < j->rows; i++) {
    const int64_t from = (int64_t)((uint64_t)j->offsets[i] - (uint64_t)start);
    const int64_t to = (int64_t)((uint64_t)j->offsets[i + 1] - (uint64_t)start);
    if (from < 0 || from > to || to > j->entries)
      return status_make(SHOAL_ERR_INPUT, "row %lld has entries %lld to %lld: offsets must ascend within 0 .. %lld",
                         (long long)i, (long long)from, (long long)to, (long long)j->entries);
    if (from && from < to) within -= j->indices[from] <= j->indices[from - 1];
  }
  for (int64_t e = 0; most >= j->features && e < j->entries; e++)
    if (j->indices[e] < 0 || j->indices[e] >= j->features)
      return status_make(SHOAL_ERR_INPUT, "index %d at position %lld is out of range: there are %lld rows",
                         j->indices[e], (long long)e, (long long)j->features);
  for (int64_t i = 0; i < j->rows; i += j->step_rows)
    j->step_entries = MAX_OF(j->step_entries, j->offsets[MIN_OF(i + j->step_rows, j->rows)] - j->offsets[i]);
  *once = !within;
  return NULL;
}

shoal_status sparse_finish(const kernel_call *call, const sparse_job *j, const sparse_outcome *sum) {
  if (sum->bad_row >= 0)
    return status_make(SHOAL_ERR_NUMERIC, "the score of row %lld is not finite", (long long)sum->bad_row);
  const double rows = (double)j->rows;
  *(float *)call->out[1].data = (float)(sum->loss / rows);
  *(float *)call->out[2].data = (float)((double)sum->hits / rows);
  return NULL;
}
