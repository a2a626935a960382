#include "run/class_weights.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* rows / (classes * rows of the class); of a class without rows 0. */
static shoal_status balance(const shoal_dataset *data, int classes, double *out) {
  if (!data)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`class_weight` balanced counts the rows of each class, so they must be in memory; give a "
                       "number for each class, or raise `memory_limit`");
  const int64_t n = shoal_dataset_rows(data);
  for (int64_t i = 0; i < n; i++) {
    const int64_t label = (int64_t)shoal_tensor_get(&data->labels, i);
    if (label >= 0 && label < classes) out[label]++;
  }
  for (int c = 0; c < classes; c++)
    if (out[c] > 0) out[c] = (double)n / ((double)classes * out[c]);
  return NULL;
}

static shoal_status read_numbers(const char *words, int classes, double *out) {
  char *copy = strdup(words), *rest = copy, *item;
  if (!copy) return status_no_memory();
  int n = 0;
  bool good = true;
  for (; good && (item = strsep(&rest, ",")); n++) {
    double weight = 0;
    good = text_to_double(item, &weight) && weight >= 0 && isfinite(weight);
    if (n < classes) out[n] = weight;
  }
  free(copy);
  if (!good)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`class_weight`: expected balanced, or a number of at least 0 for each class, like 1,2.5, not "
                       "'%s'",
                       words);
  if (n != classes)
    return status_make(SHOAL_ERR_ARGUMENT, "`class_weight` %s: there %s %d number%s for %d classes", words,
                       n == 1 ? "is" : "are", n, n == 1 ? "" : "s", classes);
  return NULL;
}

shoal_status class_weights_make(const char *words, const shoal_dataset *data, int classes, double **out) {
  double *weights = calloc((size_t)classes, sizeof *weights);
  if (!weights) return status_no_memory();
  shoal_status status =
      !strcmp(words, "balanced") ? balance(data, classes, weights) : read_numbers(words, classes, weights);
  if (status)
    free(weights);
  else
    *out = weights;
  return status;
}
