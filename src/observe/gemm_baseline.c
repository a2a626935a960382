#include "shoal/machine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kernel/cpu.h"
#include "shoal/session.h"

#include <dlfcn.h>
#include <unistd.h>

enum { TIMES_MIN = 3 };

static shoal_status measure_own(int64_t side, double seconds, double *out) {
  shoal_graph *g;
  shoal_session *s = NULL;
  TRY(shoal_graph_create(&g));
  shoal_value *a = shoal_variable(g, "a", shoal_random_block(g, SHOAL_SHAPE(side, side), side, 0, 0));
  shoal_value *b = shoal_variable(g, "b", shoal_random_block(g, SHOAL_SHAPE(side, side), side, side, 0));
  shoal_value *y = shoal_matmul(g, a, b, false, false);
  shoal_status status = shoal_session_create(g, NULL, &s);
  double best = 1e9, begun = clock_seconds();
  for (int i = 0; !status && (i < TIMES_MIN || clock_seconds() - begun < seconds); i++) {
    double start = clock_seconds();
    status = shoal_session_run(s, NULL, 0, &y, 1, NULL);
    best = MIN_OF(best, clock_seconds() - start);
  }
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
  *out = best;
  return status;
}

/* As Fortran names it, which every BLAS has. Columns instead of rows make no difference to the speed. */
typedef void (*sgemm_fn)(const char *ta, const char *tb, const int *m, const int *n, const int *k, const float *alpha,
                         const float *a, const int *lda, const float *b, const int *ldb, const float *beta, float *c,
                         const int *ldc);

static void *open_blas(const char **name) {
  static const char *const files[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3"};
#if defined(__x86_64__)
  /* OpenBLAS takes its slowest kernels for a processor that is newer than itself: tell it what this one can do. */
  static const char *const core[CPU_LEVELS] = {[CPU_AVX2] = "Haswell", [CPU_AVX512] = "SkylakeX"};
  if (core[cpu_best()]) setenv("OPENBLAS_CORETYPE", core[cpu_best()], 0);
#endif
  for (size_t i = 0; i < COUNT_OF(files); i++) {
    void *library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (library && dlsym(library, "sgemm_")) {
      *name = files[i];
      return library;
    }
    if (library) dlclose(library);
  }
  return NULL;
}

/* The library stays open: its threads outlive the call. */
static shoal_status measure_blas(int64_t side, void *library, double seconds, double *out) {
  sgemm_fn sgemm;
  void (*set_threads)(int);
  *(void **)&sgemm = dlsym(library, "sgemm_");
  *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
  if (set_threads) set_threads((int)sysconf(_SC_NPROCESSORS_ONLN));
  const int n = (int)side;
  const float one = 1, zero = 0;
  float *data;
  TRY(mem_aligned((size_t)(3 * side * side) * sizeof *data, (void **)&data));
  float *b = data + side * side, *c = b + side * side;
  for (int64_t i = 0; i < 2 * side * side; i++) data[i] = (float)(i % 97) / 97;
  double best = 1e9, begun = clock_seconds();
  for (int i = 0; i < TIMES_MIN || clock_seconds() - begun < seconds; i++) {
    double start = clock_seconds();
    sgemm("N", "N", &n, &n, &n, &one, data, &n, b, &n, &zero, c, &n);
    best = MIN_OF(best, clock_seconds() - start);
  }
  free(data);
  *out = best;
  return NULL;
}

shoal_status shoal_gemm_baseline_measure(int64_t side, double seconds, shoal_gemm_baseline *out) {
  shoal_gemm_baseline y = {0};
  double best;
  if (side < 1) return status_make(SHOAL_ERR_ARGUMENT, "a product of matrices of %lld rows", (long long)side);
  const double flops = 2.0 * (double)side * (double)side * (double)side;
  TRY(measure_own(side, seconds, &best));
  y.own = flops / best;
  void *library = open_blas(&y.name);
  if (library) {
    TRY(measure_blas(side, library, seconds, &best));
    y.blas = flops / best;
  }
  *out = y;
  return NULL;
}
