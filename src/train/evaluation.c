#include "train/evaluation.h"

#include <math.h>
#include <stdio.h>

shoal_evaluation evaluation_none(void) {
  return (shoal_evaluation){
      .loss = NAN, .accuracy = NAN, .top_k = NAN, .auc = NAN, .seconds = NAN, .mae = NAN, .rmse = NAN, .r2 = NAN};
}

const char *shoal_evaluation_text(const shoal_evaluation *e, char out[SHOAL_EVALUATION_TEXT]) {
  if (!isfinite(e->rmse))
    snprintf(out, SHOAL_EVALUATION_TEXT, "accuracy %.2f %%", 100 * e->accuracy);
  else if (!isfinite(e->r2))
    snprintf(out, SHOAL_EVALUATION_TEXT, "RMSE %.5g", e->rmse);
  else
    snprintf(out, SHOAL_EVALUATION_TEXT, "RMSE %.5g, R2 %.4f", e->rmse, e->r2);
  return out;
}
