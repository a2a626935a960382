#include "train/initializer.h"

#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

typedef enum { ZEROS, UNIFORM, NORMAL } distribution;
typedef enum { FAN_IN, FAN_MEAN } fan; /* what the variance is divided by */

/* Variance of the weights: scale / fan. */
struct initializer {
  const char *name;
  distribution shape;
  double scale;
  fan by;
};

static const initializer initializers[] = {
    {"glorot_uniform", UNIFORM, 1, FAN_MEAN}, /* Glorot and Bengio, 2010 */
    {"glorot_normal", NORMAL, 1, FAN_MEAN},
    {"he_uniform", UNIFORM, 2, FAN_IN}, /* He et al., 2015 */
    {"he_normal", NORMAL, 2, FAN_IN},
    {"lecun_normal", NORMAL, 1, FAN_IN}, /* LeCun et al., 1998 */
    {"zeros", ZEROS, 0, FAN_IN},
};

shoal_status initializer_find(const char *name, const initializer **out) {
  const char *names[COUNT_OF(initializers)];
  for (size_t i = 0; i < COUNT_OF(initializers); i++) {
    names[i] = initializers[i].name;
    if (!strcmp(names[i], name)) {
      *out = &initializers[i];
      return NULL;
    }
  }
  return status_unknown("initializer", name, names, COUNT_OF(names));
}

/* Standard deviation of a standard normal redrawn outside two deviations. */
#define TRUNCATED_DEVIATION 0.87962566103423978

shoal_value *initializer_make(shoal_graph *g, const initializer *how, shoal_shape shape, double fan_in,
                              double fan_out) {
  double by = how->by == FAN_IN ? fan_in : (fan_in + fan_out) / 2;
  double deviation = sqrt(how->scale / by);
  switch (how->shape) {
    case UNIFORM: return shoal_random_uniform(g, shape, -sqrt(3) * deviation, sqrt(3) * deviation);
    case NORMAL: return shoal_random_truncated(g, shape, 0, deviation / TRUNCATED_DEVIATION);
    case ZEROS: break;
  }
  return shoal_fill(g, SHOAL_F32, shape, 0);
}
