/* Predicts a number with a network of two hidden layers, from a CSV file that is read while it trains:
 *
 *   ./csv_regression train.csv test.csv target=price runs/houses
 *
 * It stops early, and leaves a folder: `shoal report runs/houses` shows it, predict_run.c uses it. */
#include "network.h"

#include <math.h>
#include <stdio.h>

enum { PATIENCE = 5 };

/* Training stops when the error on the test rows has not become 1 % smaller for PATIENCE epochs. */
typedef struct {
  double best; /* the smallest error so far */
  int since;   /* epochs since then */
  int stop;    /* what shoal_run looks at */
} early_stop;

static void on_epoch(void *context, const shoal_progress *p) {
  early_stop *s = context;
  printf("epoch %lld: loss %.4g, test RMSE %.4g\n", (long long)p->epoch + 1, p->loss, p->test.rmse);
  s->since++;
  if (p->test.rmse < 0.99 * s->best) {
    s->best = p->test.rmse;
    s->since = 0;
  }
  s->stop = s->since >= PATIENCE;
}

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "usage: csv_regression TRAIN.csv TEST.csv COLUMNS RUN_DIR\n"), 2;
  early_stop early = {.best = INFINITY};
  shoal_run_options options = SHOAL_OPTIONS(shoal_run_options, .kind = &network, .stop = &early.stop,
                                            .listener = {.context = &early, .on_epoch = on_epoch});
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.model = network.name;
  job.data = argv[1];
  job.test_data = argv[2];
  job.columns = argv[3];
  job.run_dir = argv[4];
  job.stream = true;
  shoal_run_report *report = NULL;
  shoal_status s = shoal_run(&job, &options, &report);
  if (s)
    fprintf(stderr, "%s\n", shoal_status_message(s));
  else
    printf("%s after %lld epochs, %.0f rows/s: test RMSE %.4g, R2 %.3f\n%s\n", report->status,
           (long long)report->fit.epochs, (double)report->fit.examples / report->fit.seconds, report->test.rmse,
           report->test.r2, report->verdict.text);
  shoal_run_report_destroy(report);
  return s != NULL;
}
