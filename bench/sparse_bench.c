/* Training speed of sparse logistic regression on rows that are decoded and in memory: 39 features a row out of
 * 33,762,578, few of them frequent, values 1, as bench/peer_sparse_lr.py has them.
 *
 *   sparse_bench OPTIMIZER BATCH THREADS [SECONDS] [generic|avx2|avx512]
 *
 * OPTIMIZER limit-1, limit-2 or limit-4 is what the machine allows: the same rows' places of a table of so many numbers a row
 * are read, added up, changed and written, a row of entries after the other, fetched ahead, with no other work; the best of
 * five ways of fetching.
 *
 * OPTIMIZER fma: billions of operations a second of one thread's multiply-adds.
 *
 * Several threads race (as `shoal train sparse-lr --mode async`). Prints the best and the median piece as one line:
 *   sparse-lr-OPTIMIZER BATCH THREADS best=ROWS_PER_SECOND median=ROWS_PER_SECOND loss=MEAN_OF_A_PASS rss_mb=PEAK */
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "exec/session.h"
#include "kernel/fma.h"
#include "train/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROWS = 1000000, ENTRIES = 39, FEATURES = 33762578, CHUNK = 1024, PIECE = 98 * CHUNK, PIECES_MAX = 10000 };

static void check(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "sparse_bench: %s\n", shoal_status_message(status));
  exit(1);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int by_number(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }

static void *column(shoal_dtype dtype, int64_t n) {
  shoal_tensor t;
  check(shoal_tensor_create(dtype, SHOAL_SHAPE(n), &t));
  return t.data;
}

static double number(uint64_t a, uint64_t b) { return (double)(random_mix(a, b) >> 11) * 0x1p-53; }

/* Labels by a hidden model, so that the loss says whether anything was learned. */
static shoal_batch make_rows(void) {
  int64_t *offsets = column(SHOAL_I64, ROWS + 1);
  int32_t *indices = column(SHOAL_I32, (int64_t)ROWS * ENTRIES), *labels = column(SHOAL_I32, ROWS);
  float *values = column(SHOAL_F32, (int64_t)ROWS * ENTRIES);
  for (int64_t r = 0; r < ROWS; r++) {
    int32_t *row = indices + r * ENTRIES;
    double z = 0;
    offsets[r + 1] = (r + 1) * ENTRIES;
    for (int k = 0; k < ENTRIES; k++) {
      double u = number(1, (uint64_t)(r * ENTRIES + k));
      row[k] = (int32_t)(FEATURES * u * u * u * u * u * u);
    }
    qsort(row, ENTRIES, sizeof *row, by_number);
    for (int k = 0; k < ENTRIES; k++) { /* ascending, each once */
      if (k && row[k] <= row[k - 1]) row[k] = row[k - 1] + 1;
      if (row[k] >= FEATURES) row[k] = FEATURES - ENTRIES + k;
      values[r * ENTRIES + k] = 1;
      z += number(2, (uint64_t)row[k]) - 0.5;
    }
    labels[r] = number(3, (uint64_t)r) < (z > 0);
    if (number(4, (uint64_t)r) < 0.2) labels[r] = !labels[r];
  }
  return (shoal_batch){.count = ROWS,
                       .labels = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(ROWS), labels),
                       .offsets = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(ROWS + 1), offsets),
                       .indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE((int64_t)ROWS * ENTRIES), indices),
                       .values = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE((int64_t)ROWS * ENTRIES), values)};
}

static shoal_batch part_of(const shoal_batch *all, int64_t first, int64_t count) {
  return (shoal_batch){
      .count = count,
      .labels = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(count), (int32_t *)all->labels.data + first),
      .offsets = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(count + 1), (int64_t *)all->offsets.data + first),
      .indices =
          shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(count * ENTRIES), (int32_t *)all->indices.data + first * ENTRIES),
      .values =
          shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(count * ENTRIES), (float *)all->values.data + first * ENTRIES)};
}

/* How far ahead entries are fetched, in rows, and into which cache: 0 for writing into the first, else by reading into
 * the second. */
typedef struct {
  int rows, second;
} fetching;

/* Two touches of each entry, as any update has them. */
static inline __attribute__((always_inline)) void touch(const int32_t *indices, float *table, int numbers, fetching f) {
  const int64_t ahead = (int64_t)f.rows * ENTRIES, entries = (int64_t)ROWS * ENTRIES;
  for (int64_t e = 0; e < entries; e += ENTRIES) {
    float sum = 0;
    for (int k = 0; k < ENTRIES; k++) {
      if (e + k + ahead < entries) {
        const float *next = table + (int64_t)indices[e + k + ahead] * numbers;
        if (f.second)
          __builtin_prefetch(next, 0, 2);
        else
          __builtin_prefetch(next, 1, 3);
      }
      sum += table[(int64_t)indices[e + k] * numbers];
    }
    const float change = 1e-6f * (1 - sum);
    for (int k = 0; k < ENTRIES; k++)
      for (int j = 0; j < numbers; j++) table[(int64_t)indices[e + k] * numbers + j] += change;
  }
}

static void touch_all(const int32_t *indices, float *table, int numbers, fetching f) {
  switch (2 * numbers + f.second) {
    case 2: touch(indices, table, 1, (fetching){f.rows, 0}); break;
    case 3: touch(indices, table, 1, (fetching){f.rows, 1}); break;
    case 4: touch(indices, table, 2, (fetching){f.rows, 0}); break;
    case 5: touch(indices, table, 2, (fetching){f.rows, 1}); break;
    case 8: touch(indices, table, 4, (fetching){f.rows, 0}); break;
    default: touch(indices, table, 4, (fetching){f.rows, 1});
  }
}

/* Rows a second of the best pass, whatever way of fetching it has. */
static double limit(const shoal_batch *all, int numbers, double seconds) {
  static const fetching ways[] = {{4, 1}, {8, 1}, {2, 1}, {2, 0}, {4, 0}};
  shoal_tensor table;
  double best = 0;
  int pass = 0;
  check(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE((int64_t)FEATURES * numbers), &table));
  memset(table.data, 0, (size_t)FEATURES * (size_t)numbers * sizeof(float)); /* pages are there */
  for (double start = clock_seconds(); pass < 2 * (int)COUNT_OF(ways) || clock_seconds() - start < seconds; pass++) {
    const double begun = clock_seconds();
    touch_all(all->indices.data, table.data, numbers, ways[pass % (int)COUNT_OF(ways)]);
    const double rate = ROWS / (clock_seconds() - begun);
    if (rate > best) best = rate;
  }
  shoal_tensor_fini(&table);
  return best;
}

int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: sparse_bench OPTIMIZER BATCH THREADS [SECONDS] [KERNELS]\n"), 2;
  const char *optimizer = argv[1], *kernels = argc > 5 ? argv[5] : NULL;
  int64_t batch = atoi(argv[2]);
  int threads = atoi(argv[3]), pieces = 0;
  double seconds = argc > 4 ? atof(argv[4]) : 3;
  if (batch < 1 || threads < 1) return 2;
  if (!strcmp(optimizer, "fma")) return printf("fma 1 1 best=%.1f\n", fma_gflops()), 0;
  shoal_batch all = make_rows();
  if (!strncmp(optimizer, "limit-", 6)) {
    printf("sparse-lr-%s 1 1 best=%.0f\n", optimizer, limit(&all, optimizer[6] - '0', seconds));
    return 0;
  }
  shoal_model *m;
  check(shoal_model_create_sparse(FEATURES, &m));
  shoal_model_sparse_dense(m, 1, false, "sigmoid");
  check(shoal_model_compile(
      m, &(shoal_compile_options){.optimizer = {.name = optimizer}, .threads = threads, .kernels = kernels}));
  session_race(m->session, threads > 1);
  tower *t;
  check(model_tower(m, SHOAL_F32, SHOAL_I32, false, &t));
  static double rate[PIECES_MAX];
  double start = clock_seconds(), loss = 0, pass_loss = 0;
  int64_t at = 0, rows_together = (CHUNK + batch - 1) / batch * batch;
  float lr = 0.01f;
  while (pieces < PIECES_MAX && (pieces < 25 || clock_seconds() - start < seconds)) {
    double begun = clock_seconds();
    int64_t done = 0;
    while (done < PIECE) {
      int64_t n = at + rows_together <= ROWS ? rows_together : ROWS - at;
      shoal_batch b = part_of(&all, at, n);
      shoal_feed feeds[TOWER_FEEDS_MAX + 1];
      double means[3];
      int n_feeds = tower_feed_sparse(t, &b, feeds);
      feeds[n_feeds++] = (shoal_feed){m->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &lr)};
      check(session_run_steps(m->session, feeds, n_feeds, (shoal_value *[]){t->loss, t->accuracy, t->update}, 3, batch,
                              means));
      loss += means[0] * (double)n;
      done += n;
      at += n;
      if (at < ROWS) continue;
      pass_loss = loss / ROWS;
      at = 0;
      loss = 0;
    }
    rate[pieces++] = (double)done / (clock_seconds() - begun);
  }
  qsort(rate, (size_t)pieces, sizeof *rate, by_size);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("sparse-lr-%s %d %d best=%.0f median=%.0f loss=%.4f rss_mb=%.1f\n", optimizer, (int)batch, threads,
         rate[pieces - 1], rate[pieces / 2], pass_loss, (double)usage.ru_maxrss / 1024);
  shoal_model_destroy(m);
  shoal_tensor *columns[] = {&all.labels, &all.offsets, &all.indices, &all.values};
  for (int i = 0; i < 4; i++) shoal_tensor_fini(columns[i]);
  return 0;
}
