/* `class_weight`: what rows count in the loss, by their class. */
#ifndef SHOAL_RUN_CLASS_WEIGHTS_H
#define SHOAL_RUN_CLASS_WEIGHTS_H

#include "base/status.h"
#include "shoal/data.h"

/* words: "balanced", a class counting the more the fewer rows of `data` it has, all classes the same together; or a
 * number for each class, "1,2.5". data: NULL where rows are read while training. *out: [classes], the caller's to free. */
SHOAL_CHECKED shoal_status class_weights_make(const char *words, const shoal_dataset *data, int classes, double **out);

#endif
