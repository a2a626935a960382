#include "kernel/table.h"

#include "base/mem.h"
#include "kernel/philox.h"
#include "kernel/sparse.h"

#define TABLE_STREAM 0x7461626c65 /* its numbers are not those of any operator */

void table_initial(const table_start *start, int64_t first, int64_t n, float *out) {
  static void (*const fill[CPU_LEVELS])(const random_stream *, uint64_t, int64_t, float *) = BY_LEVEL(philox_uniform);
  const random_stream stream = random_stream_make(start->seed, TABLE_STREAM);
  if (n <= 0) return;
  fill[cpu_best()](&stream, (uint64_t)first, n, out);
  for (int64_t i = 0; i < n; i++) out[i] = (2 * out[i] - 1) * start->limit;
  for (int64_t row = first / start->width; row * start->width < first + n; row++)
    for (int64_t k = 0; k < start->zeros && k < start->width; k++) {
      const int64_t at = row * start->width + k - first;
      if (at >= 0 && at < n) out[at] = 0;
    }
}

shoal_status table_check(const table_rows *r) {
  const int64_t start = r->offsets[0];
  for (int64_t i = 0; i < r->rows; i++) {
    /* They come from outside and may be anything. */
    const int64_t from = (int64_t)((uint64_t)r->offsets[i] - (uint64_t)start);
    const int64_t to = (int64_t)((uint64_t)r->offsets[i + 1] - (uint64_t)start);
    if (from < 0 || from > to || to > r->entries)
      return status_make(SHOAL_ERR_INPUT, "row %lld has entries %lld to %lld: offsets must ascend within 0 .. %lld",
                         (long long)i, (long long)from, (long long)to, (long long)r->entries);
  }
  const int64_t end = r->first_field + r->n_fields, used = r->offsets[r->rows] - start;
  uint32_t most = 0, most_field = 0;
  for (int64_t e = 0; r->indices && e < used; e++) most = MAX_OF(most, (uint32_t)r->indices[e]);
  for (int64_t e = 0; r->fields && e < used; e++) most_field = MAX_OF(most_field, (uint32_t)r->fields[e]);
  for (int64_t e = 0; r->indices && most >= r->table_rows && e < used; e++)
    if (r->indices[e] < 0 || r->indices[e] >= r->table_rows)
      return status_make(SHOAL_ERR_INPUT, "index %d at position %lld is out of range: there are %lld rows",
                         r->indices[e], (long long)e, (long long)r->table_rows);
  for (int64_t e = 0; r->fields && most_field >= end && e < used; e++)
    if (r->fields[e] < 0 || r->fields[e] >= end)
      return status_make(SHOAL_ERR_INPUT, "field %d at position %lld is out of range: there are %lld fields",
                         r->fields[e], (long long)e, (long long)end);
  return NULL;
}

size_t table_scratch(int64_t fields) { return mem_round_up((size_t)MAX_OF(fields, 1) * sizeof(int32_t), MEM_ALIGN); }

size_t table_unique_scratch(int64_t n) {
  const size_t pairs = 2 * (size_t)n * sizeof(uint64_t), words = 3 * (size_t)n + ((size_t)1 << sparse_table_bits(n));
  return mem_round_up(pairs + words * sizeof(uint32_t), MEM_ALIGN);
}
