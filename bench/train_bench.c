/* Training speed of one model through the public interface: the first 6,000 images of MNIST over and over, the whole
 * loop. As many as the peers have, and in order, as they take theirs; with "shuffled" at the end they are drawn from
 * all 60,000 in random order, which costs the trips to memory besides.
 *
 *   train_bench MODEL BATCH THREADS [SECONDS] [shuffled] [generic|avx2|avx512]
 *
 * Runs pieces of training one after another for about SECONDS and prints the best piece and the median as one line:
 *   MODEL BATCH THREADS best=EXAMPLES_PER_SECOND median=EXAMPLES_PER_SECOND rss_mb=PEAK
 * MODEL: softmax, lenet (as `shoal train lenet`), lenet5 (relu, max pool), alexnet (as `shoal train alexnet`, with
 * dropout, momentum and the L2 term, on fake images; a piece is one step). "fma" instead of a model measures the
 * machine's fused multiply-add rate on THREADS threads: fma BATCH THREADS gflops=... */
#include "base/clock.h"
#include "base/pool.h"
#include "kernel/fma.h"
#include "data/dataset.h"
#include "exec/session.h"
#include "shoal/shoal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { EXAMPLES = 6000, PIECES_MAX = 4000, LEAST_PIECES = 5, LEAST_STEPS = 8 };
#define PIECE_SECONDS 0.04

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

static shoal_model *build(const char *name, int threads, const char *kernels) {
  bool modern = !strcmp(name, "lenet5");
  const shoal_model_kind *kind = shoal_model_kind_find(modern ? "lenet" : name);
  if (!kind) {
    fprintf(stderr, "train_bench: no model '%s': softmax, lenet, lenet5, alexnet, fma\n", name);
    exit(2);
  }
  shoal_model *m;
  check(shoal_model_create(kind->input, &m));
  kind->build(m, &(shoal_model_options){.activation = modern ? "relu" : NULL, .pool = modern ? "max" : NULL});
  check(shoal_model_compile(m, &(shoal_compile_options){.optimizer = {.name = kind->optimizer},
                                                        .schedule = {.rate = fmin(kind->rate, 0.05)},
                                                        .l2 = kind->l2,
                                                        .bias_rate = kind->bias_rate,
                                                        .threads = threads,
                                                        .kernels = kernels,
                                                        .no_train_accuracy = true}));
  return m;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: train_bench MODEL BATCH THREADS [SECONDS] [shuffled] [generic|avx2|avx512]\n");
    return 2;
  }
  int batch = atoi(argv[2]), threads = atoi(argv[3]);
  double seconds = argc > 4 ? atof(argv[4]) : 3;
  bool shuffled = false;
  const char *kernels = NULL;
  for (int i = 5; i < argc; i++)
    if (!strcmp(argv[i], "shuffled"))
      shuffled = true;
    else
      kernels = argv[i];
  if (threads < 1 || threads > 64) return 2;
  if (!strcmp(argv[1], "fma")) {
    print_fma(threads);
    return 0;
  }
  shoal_dataset *data;
  shoal_dataset part;
  bool large = !strcmp(argv[1], "alexnet");
  if (large)
    check(dataset_fake("fake:256x256x3:1000:12288", &data));
  else
    check(shoal_dataset_load("mnist", "train", &data));
  check(shoal_dataset_view(data, 0, shuffled ? shoal_dataset_rows(data) : EXAMPLES, &part));
  shoal_model *m = build(argv[1], threads, kernels);
  const int64_t least_steps = large ? 1 : LEAST_STEPS;
  int64_t steps = large ? 1 : 12000 / batch + 1;
  static double rate[PIECES_MAX];
  int pieces = 0;
  double start = clock_seconds();
  while (pieces < PIECES_MAX && (pieces < LEAST_PIECES || clock_seconds() - start < seconds)) {
    shoal_fit_result r;
    check(shoal_model_fit(m, &part, &(shoal_fit_options){.steps = steps, .batch_size = batch, .keep_order = !shuffled},
                          &r));
    rate[pieces++] = (double)r.run_examples / (r.seconds - r.input_wait_seconds);
    /* Pieces long enough that starting one does not count, short enough that a quiet moment of the machine holds one.
     */
    steps = (int64_t)(rate[pieces - 1] * PIECE_SECONDS / batch);
    if (steps < least_steps) steps = least_steps;
  }
  qsort(rate, (size_t)pieces, sizeof *rate, by_size);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%s %d %d best=%.1f median=%.1f rss_mb=%.1f\n", argv[1], batch, threads, rate[pieces - 1], rate[pieces / 2],
         (double)usage.ru_maxrss / 1024);
  shoal_model_destroy(m);
  shoal_dataset_destroy(data);
  return 0;
}
