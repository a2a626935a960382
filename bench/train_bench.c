/* Training speed of one model through the public interface: real MNIST, the whole loop. Batches are taken in order, as
 * the peers take theirs; shuffled ones cost the trips to memory besides, and are measured with "shuffled" at the end.
 *
 *   train_bench MODEL BATCH THREADS [SECONDS] [shuffled]
 *
 * Runs pieces of training one after another for about SECONDS and prints the best piece and the median as one line:
 *   MODEL BATCH THREADS best=EXAMPLES_PER_SECOND median=EXAMPLES_PER_SECOND rss_mb=PEAK
 * MODEL: softmax, lenet (as `shoal train lenet`), lenet5 (relu, max pool). "fma" instead of a model measures the
 * machine's fused multiply-add rate on THREADS threads: fma BATCH THREADS gflops=... */
#include "base/clock.h"
#include "base/pool.h"
#include "bench/fma.h"
#include "exec/session.h"
#include "shoal/shoal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_PIECES = 4000 };

static void check(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "train_bench: %s\n", shoal_status_message(status));
  exit(1);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void fma_share(void *context, int thread, int threads) {
  (void)threads;
  ((double *)context)[thread] = fma_gflops();
}

/* The threads measure at the same time; the sum of their rates is the machine's. */
static void print_fma(int threads) {
  pool *p;
  check(pool_create(threads, &p));
  double best = 0, rates[64] = {0};
  for (int i = 0; i < 5; i++) {
    pool_run(p, fma_share, rates);
    double sum = 0;
    for (int t = 0; t < threads; t++) sum += rates[t];
    if (sum > best) best = sum;
  }
  pool_destroy(p);
  printf("fma 0 %d gflops=%.1f\n", threads, best);
}

static shoal_model *build(const char *name, int threads) {
  bool modern = !strcmp(name, "lenet5");
  const shoal_model_kind *kind = shoal_model_kind_find(modern ? "lenet" : name);
  if (!kind) {
    fprintf(stderr, "train_bench: no model '%s': softmax, lenet, lenet5, fma\n", name);
    exit(2);
  }
  shoal_model *m;
  check(shoal_model_create(kind->input, &m));
  kind->build(m, &(shoal_model_options){.activation = modern ? "relu" : NULL, .pool = modern ? "max" : NULL});
  check(shoal_model_compile(m, &(shoal_compile_options){.optimizer = {.name = "sgd"},
                                                        .schedule = {.rate = 0.05},
                                                        .threads = threads,
                                                        .no_train_accuracy = true}));
  return m;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: train_bench MODEL BATCH THREADS [SECONDS] [shuffled]\n");
    return 2;
  }
  int batch = atoi(argv[2]), threads = atoi(argv[3]);
  double seconds = argc > 4 ? atof(argv[4]) : 3;
  bool shuffled = argc > 5 && !strcmp(argv[5], "shuffled");
  if (threads < 1 || threads > 64) return 2;
  if (!strcmp(argv[1], "fma")) {
    print_fma(threads);
    return 0;
  }
  shoal_dataset *data;
  check(shoal_dataset_load("mnist", "train", &data));
  shoal_model *m = build(argv[1], threads);
  /* A piece is long enough for the clock and short enough that a quiet moment of the machine holds one. */
  int64_t steps = 12000 / batch + 1;
  static double rate[MOST_PIECES];
  int pieces = 0;
  double start = clock_seconds();
  while (pieces < MOST_PIECES && (pieces < 5 || clock_seconds() - start < seconds)) {
    shoal_fit_result r;
    check(shoal_model_fit(
        m, data, &(shoal_fit_options){.steps = steps, .batch_size = batch, .keep_order = !shuffled}, &r));
    rate[pieces++] = (double)r.run_examples / (r.seconds - r.input_wait_seconds);
  }
  qsort(rate, (size_t)pieces, sizeof *rate, by_size);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%s %d %d best=%.0f median=%.0f rss_mb=%.1f\n", argv[1], batch, threads, rate[pieces - 1], rate[pieces / 2],
         (double)usage.ru_maxrss / 1024);
  shoal_model_destroy(m);
  shoal_dataset_destroy(data);
  return 0;
}
