/* How fast rows are read on one thread, the file being in the page cache: generated click logs as TFRecord and LIBSVM.
 *
 * data_bench [ROWS [LIBSVM_ROWS]]     the rows and seconds of every pass are printed as one line of JSON each */
#include "base/clock.h"
#include "shoal/data.h"
#include "data/sparse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSES = 5, BLOCK = 1024 };

static void stop_on(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "data_bench: %s\n", shoal_status_message(status));
  exit(1);
}

static double read_all(const format *f, const char *path, const format_options *options, int64_t *rows,
                       int64_t *entries) {
  file_reader *r;
  rows_schema schema;
  rows_block block;
  int64_t got;
  double start = clock_seconds();
  stop_on(f->open(path, options, &r));
  f->schema(r, &schema);
  rows_init(&block, &schema);
  *rows = *entries = 0;
  do {
    rows_clear(&block);
    stop_on(f->read(r, BLOCK, &block, &got));
    *rows += got;
    if (got) *entries += block.offsets[got];
  } while (got);
  rows_fini(&block);
  f->close(r);
  return clock_seconds() - start;
}

static void measure(const char *folder, const char *file, const format *f, shoal_criteo_form form, int64_t rows) {
  char path[4096], truth[4096];
  shoal_criteo_options settings = {.out = folder, .rows = rows, .files = 1, .form = form, .seed = 1};
  format_options options = {.features = CRITEO_FEATURES};
  struct stat info;
  struct rusage usage;
  double start = clock_seconds(), best = 1e9;
  int64_t found = 0, entries = 0;
  snprintf(path, sizeof path, "%s/%s", folder, file);
  snprintf(truth, sizeof truth, "%s/truth.json", folder);
  stop_on(shoal_generate_criteo(&settings, NULL));
  double made = clock_seconds() - start;
  if (stat(path, &info)) perror(path), exit(1);
  for (int pass = 0; pass < PASSES; pass++) {
    double seconds = read_all(f, path, &options, &found, &entries);
    if (seconds < best) best = seconds;
  }
  getrusage(RUSAGE_SELF, &usage);
  unlink(path);
  unlink(truth);
  if (found != rows) fprintf(stderr, "data_bench: %lld rows of %lld\n", (long long)found, (long long)rows), exit(1);
  printf(
      "{\"format\": \"%s\", \"rows\": %lld, \"entries\": %lld, \"megabytes\": %.1f, \"seconds\": %.4f, "
      "\"rows_per_second\": %.0f, \"megabytes_per_second\": %.1f, \"generated_rows_per_second\": %.0f, "
      "\"peak_rss_megabytes\": %.1f}\n",
      f->name, (long long)found, (long long)entries, (double)info.st_size / 1e6, best, (double)found / best,
      (double)info.st_size / 1e6 / best, (double)rows / made, (double)usage.ru_maxrss / 1024);
  fflush(stdout);
}

int main(int argc, char **argv) {
  const char *base = getenv("TMPDIR");
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/shoal-data-bench-XXXXXX", base && *base ? base : "/tmp");
  int64_t rows = argc > 1 ? atoll(argv[1]) : 1000000, libsvm_rows = argc > 2 ? atoll(argv[2]) : 300000;
  if (rows < 1 || libsvm_rows < 1) return fprintf(stderr, "usage: data_bench [ROWS [LIBSVM_ROWS]]\n"), 2;
  if (!mkdtemp(folder)) return perror(folder), 1;
  measure(folder, "tfrecords00", &format_tfrecord, SHOAL_CRITEO_TFRECORD, rows);
  measure(folder, "clicks00.libsvm", &format_libsvm, SHOAL_CRITEO_LIBSVM, libsvm_rows);
  measure(folder, "clicks00.tsv", &format_criteo, SHOAL_CRITEO_TSV, libsvm_rows);
  rmdir(folder);
  return 0;
}
