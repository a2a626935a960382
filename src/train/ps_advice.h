/* Whether another format than f32 pays between a worker and its servers (`--compress auto`), from what steps take.
 *
 * 1. The first steps are measured as they are. What a step takes with each format is predicted: what it waits for messages,
 *    its own and those of the workers that it waits for, shrinks with their bytes; encoding and decoding, which are timed
 *    here, come on top. That is the best that can be: others may be slow for another reason.
 * 2. If none is predicted to take less than GAIN_MIN of f32's step, nothing changes, and it says so.
 * 3. The best is then measured, too; if it does not keep its promise, f32 is used again, and it says so. */
#ifndef SHOAL_TRAIN_PS_ADVICE_H
#define SHOAL_TRAIN_PS_ADVICE_H

#include "base/text.h"
#include "dist/wire_format.h"

typedef struct ps_advice ps_advice;

typedef struct {
  int64_t examples; /* 0: it does not count */
  double seconds;   /* that it took */
  double waiting;   /* of them, for messages and for others */
} ps_advice_step;

/* elements: of a gradient; gradients: that a server decodes for an update. */
SHOAL_CHECKED shoal_status ps_advice_create(int64_t elements, int gradients, ps_advice **out);
void ps_advice_destroy(ps_advice *a);
/* A step has ended. Returns the format to go on with, NULL: f32. say: a line for the user when it is decided. */
const wire_format *ps_advice_take(ps_advice *a, const ps_advice_step *step, text *say);

#endif
