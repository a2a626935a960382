/* Predicts a number with a network of two hidden layers, from a CSV file that is read while it trains:
 *
 *   ./csv_regression train.csv held.csv test.csv target=price runs/houses
 *
 * It stops early, when the error on the held-out rows no longer falls, and takes the best weights. It leaves a folder,
 * which predict_run.c uses, with a page of curves in it. */
#include "network.h"

#include <stdio.h>

static void on_epoch(void *context, const shoal_progress *p) {
  (void)context;
  printf("epoch %lld: loss %.4g, validation loss %.4g\n", (long long)p->epoch + 1, p->loss, p->validation_loss);
}

static shoal_status write_page(const char *folder) {
  const char *runs[] = {folder};
  shoal_text path = {0};
  shoal_text_add(&path, "%s/report.html", folder);
  shoal_status s = shoal_report_write(
      &SHOAL_OPTIONS(shoal_report_options, .folders = runs, .n_folders = 1, .path = path.data), NULL);
  shoal_text_fini(&path);
  return s;
}

int main(int argc, char **argv) {
  if (argc != 6) return fprintf(stderr, "usage: csv_regression TRAIN.csv HELD.csv TEST.csv COLUMNS RUN_DIR\n"), 2;
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.data = argv[1];
  job.validation_data = argv[2];
  job.test_data = argv[3];
  job.columns = argv[4];
  job.run_dir = argv[5];
  job.stream = true;
  job.patience = 5;
  shoal_run_report *report;
  shoal_status s =
      shoal_run(&job, &SHOAL_OPTIONS(shoal_run_options, .kind = &network, .listener = {.on_epoch = on_epoch}), &report);
  if (!s) s = write_page(report->run_dir);
  if (s)
    fprintf(stderr, "%s\n", shoal_status_message(s));
  else
    printf("%s after %lld epochs: test RMSE %.4g, R2 %.3f\n%s\n", report->status, (long long)report->fit.epochs,
           report->test.rmse, report->test.r2, report->verdict.text);
  shoal_run_report_destroy(report);
  return s != NULL;
}
