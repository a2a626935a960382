/* Evaluates a run of csv_regression.c and predicts new rows, which need no label:
 *
 *   ./predict_run runs/houses new.csv
 *
 * The run's folder has all it takes: weights, how text became numbers, means and scales, and where the test rows are. For a
 * run of `shoal train` leave `kind` out. */
#include "network.h"

#include <stdio.h>

/* values: the number predicted; of classes, the probability of each. */
static shoal_status print_row(void *context, const shoal_prediction *p) {
  FILE *out = context;
  fprintf(out, "%s:", p->input);
  for (int i = 0; i < p->count; i++) fprintf(out, " %.4g", (double)p->values[i]);
  fputc('\n', out);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: predict_run RUN_DIR FILE...\n"), 2;
  const shoal_trained_options options = SHOAL_OPTIONS(shoal_trained_options, .kind = &network);
  shoal_trained *t = NULL;
  shoal_test_result r = {0};
  shoal_status s = shoal_trained_open(argv[1], &options, &t);
  if (!s) s = shoal_trained_evaluate(t, NULL, false, &r);
  if (!s)
    printf("%lld %s rows: RMSE %.4g, R2 %.3f\n", (long long)r.scores.examples, r.split, r.scores.rmse, r.scores.r2);
  shoal_test_result_free(&r);
  if (!s) s = shoal_trained_predict(t, (const char *const *)argv + 2, argc - 2, NULL, print_row, stdout, NULL);
  if (s) fprintf(stderr, "%s\n", shoal_status_message(s));
  shoal_trained_close(t);
  return s != NULL;
}
