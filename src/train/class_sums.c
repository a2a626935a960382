#include "train/class_sums.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

shoal_status class_sums_init(class_sums *s, int64_t classes) {
  int64_t *block = calloc((size_t)classes, 3 * sizeof *block);
  if (!block) return status_no_memory();
  *s = (class_sums){.classes = classes, .labelled = block, .predicted = block + classes, .right = block + 2 * classes};
  return NULL;
}

void class_sums_fini(class_sums *s) {
  free(s->labelled);
  binary_metrics_fini(&s->pairs);
  *s = (class_sums){0};
}

void class_sums_count(class_sums *s, int64_t label, int64_t predicted) {
  s->labelled[label]++;
  s->predicted[predicted]++;
  s->right[label] += label == predicted;
}

shoal_status class_sums_add(class_sums *s, const shoal_tensor *labels, const float *probabilities) {
  const int64_t classes = s->classes;
  for (int64_t i = 0; i < labels->shape.dim[0]; i++) {
    const float *p = probabilities + i * classes; /* [classes] */
    const int64_t label = (int64_t)shoal_tensor_get(labels, i);
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++)
      if (p[k] > p[best]) best = k;
    class_sums_count(s, label, best);
    if (classes == 2) TRY(binary_metrics_rank(&s->pairs, &p[1], &(int32_t){(int32_t)label}, 1));
  }
  return NULL;
}

/* NaN: there is nothing to divide by. */
static double share(int64_t part, int64_t of) { return of ? (double)part / (double)of : NAN; }

static double or_zero(double x) { return isnan(x) ? 0 : x; }

shoal_status class_sums_read(class_sums *s, shoal_evaluation *out) {
  const bool two = s->classes == 2;
  double precision = 0, recall = 0, f1 = 0, n = 0;
  for (int64_t k = two ? 1 : 0; k < s->classes; k++) {
    if (!s->labelled[k] && !s->predicted[k]) continue;
    precision += or_zero(share(s->right[k], s->predicted[k]));
    recall += or_zero(share(s->right[k], s->labelled[k]));
    f1 += share(2 * s->right[k], s->predicted[k] + s->labelled[k]);
    n++;
  }
  out->precision = precision / n; /* of two classes where class 1 never occurs: 0 / 0 */
  out->recall = recall / n;
  out->f1 = f1 / n;
  return two && s->pairs.rows ? binary_metrics_auc(&s->pairs, &out->auc) : NULL;
}
