#include "train/split.h"

#include "base/mem.h"
#include "base/random.h"

#define SPLIT_STREAM 0x73706c6974ull /* names the random numbers that draw the rows */

/* quotas [classes]: how many rows of each class are held out, so that the sum comes closest to the share. */
static void set_quotas(const int64_t *counts, int classes, double share, int64_t *quotas) {
  int64_t seen = 0, taken = 0;
  for (int c = 0; c < classes; c++) {
    seen += counts[c];
    int64_t due = (int64_t)((double)seen * share) - taken;
    quotas[c] = MAX_OF(MIN_OF(due, counts[c] - 1), 0);
    taken += quotas[c];
  }
}

static int64_t class_of(const shoal_dataset *data, int64_t row) {
  return data->labels.dtype == SHOAL_F32 ? 0 : (int64_t)shoal_tensor_get(&data->labels, row);
}

/* Marks the rows held out and returns how many. order, held: [n]; counts, quotas: [classes], zeroed. */
static int64_t draw(const shoal_dataset *data, int classes, double share, uint64_t seed, int32_t *order, bool *held,
                    int64_t *counts, int64_t *quotas) {
  int64_t n = shoal_dataset_rows(data), all = 0;
  random_stream stream = random_stream_make(seed, SPLIT_STREAM);
  random_permutation(&stream, order, n);
  for (int64_t i = 0; i < n; i++) counts[class_of(data, i)]++;
  set_quotas(counts, classes, share, quotas);
  for (int64_t i = 0; i < n; i++) {
    int64_t *left = &quotas[class_of(data, order[i])];
    held[order[i]] = *left > 0;
    all += *left > 0;
    *left -= *left > 0;
  }
  return all;
}

shoal_status split_rows(const shoal_dataset *data, int classes, double share, uint64_t seed, int32_t *rows,
                        int64_t *kept) {
  int64_t n = shoal_dataset_rows(data);
  if (!classes) classes = 1;
  bool *held = calloc((size_t)n, sizeof *held);
  int64_t *counts = calloc((size_t)classes, 2 * sizeof *counts);
  shoal_status status = held && counts ? NULL : status_no_memory();
  if (!status) {
    int64_t out = draw(data, classes, share, seed, rows, held, counts, counts + classes);
    *kept = n - out;
    for (int64_t i = 0, first = 0, second = *kept; i < n; i++) rows[held[i] ? second++ : first++] = (int32_t)i;
    if (!out || !*kept)
      status = status_make(SHOAL_ERR_ARGUMENT, "a validation split of %g of %lld examples leaves none on one side",
                           share, (long long)n);
  }
  free(held);
  free(counts);
  return status;
}
