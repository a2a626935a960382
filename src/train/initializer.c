#include "train/initializer.h"

#include "base/mem.h"
#include "base/text.h"
#include "graph/ops/util.h"

#include <math.h>
#include <string.h>

typedef enum { FILL, UNIFORM, NORMAL, TRUNCATED, SCALED_UNIFORM, SCALED_NORMAL, ORTHOGONAL, TABLE } distribution;
typedef enum { FAN_IN, FAN_MEAN } fan; /* what the variance is divided by */

typedef struct {
  const char *name;
  distribution how;
  double scale; /* SCALED: variance of the weights times the fan; FILL: the number */
  fan by;
  const char *numbers[2]; /* that it can be given, with usual values */
  double standard[2];
} initializer;

static const initializer initializers[] = {
    {"glorot_uniform", SCALED_UNIFORM, 1, FAN_MEAN, {0}, {0}}, /* Glorot and Bengio, 2010 */
    {"glorot_normal", SCALED_NORMAL, 1, FAN_MEAN, {0}, {0}},
    {"he_uniform", SCALED_UNIFORM, 2, FAN_IN, {0}, {0}}, /* He et al., 2015 */
    {"he_normal", SCALED_NORMAL, 2, FAN_IN, {0}, {0}},
    {"lecun_normal", SCALED_NORMAL, 1, FAN_IN, {0}, {0}}, /* LeCun et al., 1998 */
    {"lecun_uniform", SCALED_UNIFORM, 1, FAN_IN, {0}, {0}},
    {"zeros", FILL, 0, FAN_IN, {0}, {0}},
    {"ones", FILL, 1, FAN_IN, {0}, {0}},
    {"constant", FILL, 0, FAN_IN, {"value"}, {0}},
    {"uniform", UNIFORM, 0, FAN_IN, {"minval", "maxval"}, {-0.05, 0.05}},
    {"random_uniform", UNIFORM, 0, FAN_IN, {"minval", "maxval"}, {-0.05, 0.05}},
    {"normal", NORMAL, 0, FAN_IN, {"mean", "stddev"}, {0, 0.05}},
    {"random_normal", NORMAL, 0, FAN_IN, {"mean", "stddev"}, {0, 0.05}},
    {"truncated_normal", TRUNCATED, 0, FAN_IN, {"mean", "stddev"}, {0, 0.05}},
    {"table", TABLE, 0, FAN_IN, {"limit", "zeros"}, {0.01, 0}}, /* of a row for each feature: by its place alone */
    {"orthogonal", ORTHOGONAL, 0, FAN_IN, {"gain"}, {1}},
};

static const initializer *find(const char *name) {
  for (size_t i = 0; i < COUNT_OF(initializers); i++)
    if (!strcmp(initializers[i].name, name)) return &initializers[i];
  return NULL;
}

static const char *type_of(const json_t *d) {
  return json_is_object(d) ? json_string_value(json_object_get(d, "type")) : json_string_value(d);
}

static shoal_status check_numbers(const initializer *i, const json_t *d) {
  const char *name;
  json_t *value;
  json_object_foreach ((json_t *)d, name, value) {
    if (!strcmp(name, "type")) continue;
    const size_t n = !i->numbers[0] ? 0 : !i->numbers[1] ? 1 : 2;
    if (!n) return status_make(SHOAL_ERR_ARGUMENT, "%s takes no numbers, but '%s' is given", i->name, name);
    if (strcmp(name, i->numbers[0]) && (n < 2 || strcmp(name, i->numbers[1])))
      return status_unknown("number of an initializer", name, i->numbers, n);
    if (!json_is_number(value) || !isfinite(json_number_value(value)))
      return status_make(SHOAL_ERR_ARGUMENT, "%s of %s: expected a number", name, i->name);
  }
  return NULL;
}

shoal_status initializer_check(const json_t *d) {
  if (!d || json_is_null(d)) return NULL;
  if (json_is_number(d) && isfinite(json_number_value(d))) return NULL;
  const char *name = type_of(d), *names[COUNT_OF(initializers)];
  if (!name) return status_make(SHOAL_ERR_ARGUMENT, "expected a name, a number, or {\"type\": NAME, ...}");
  const initializer *i = find(name);
  if (i) return check_numbers(i, json_is_object(d) ? d : NULL);
  for (size_t k = 0; k < COUNT_OF(initializers); k++) names[k] = initializers[k].name;
  return status_unknown("initializer", name, names, COUNT_OF(names));
}

/* Standard deviation of a standard normal redrawn outside two deviations. */
#define TRUNCATED_DEVIATION 0.87962566103423978

/* The orthogonal matrix that is nearest to a random one: its polar factor, by Newton's iteration x <- (3 x - x x' x) / 2,
 * which converges once no singular value is above the root of 3. All axes but the last count as one. */
static shoal_value *orthogonal(shoal_graph *g, shoal_shape shape, double gain) {
  enum { ROUNDS = 40 };
  int64_t columns = shape.rank ? shape.dim[shape.rank - 1] : 1, rows = shoal_shape_count(&shape) / MAX_OF(columns, 1);
  shoal_value *x = shoal_random_normal(g, SHOAL_SHAPE(rows, columns), 0, 1);
  shoal_value *norm = shoal_sqrt(g, shoal_reduce_sum(g, shoal_square(g, x), SHOAL_SCALAR, false));
  x = shoal_div(g, x, norm); /* singular values up to 1 */
  const bool wide = columns > rows;
  for (int i = 0; i < ROUNDS; i++) {
    shoal_value *gram = shoal_matmul(g, x, x, !wide, wide); /* of the shorter side */
    shoal_value *cube = wide ? shoal_matmul(g, gram, x, false, false) : shoal_matmul(g, x, gram, false, false);
    x = shoal_sub(g, shoal_scale(g, x, 1.5), shoal_scale(g, cube, 0.5));
  }
  return shoal_reshape(g, shoal_scale(g, x, gain), shape);
}

shoal_value *initializer_make(shoal_graph *g, const json_t *d, shoal_shape shape, double fan_in, double fan_out) {
  if (json_is_number(d)) return shoal_fill(g, SHOAL_F32, shape, json_number_value(d));
  const char *name = type_of(d);
  const initializer *how = find(name ? name : "glorot_uniform");
  double given[2];
  for (int i = 0; i < 2; i++) {
    const json_t *v = json_is_object(d) && how->numbers[i] ? json_object_get(d, how->numbers[i]) : NULL;
    given[i] = v ? json_number_value(v) : how->standard[i];
  }
  const double by = how->by == FAN_IN ? fan_in : (fan_in + fan_out) / 2;
  const double deviation = by > 0 ? sqrt(how->scale / by) : 1;
  switch (how->how) {
    case SCALED_UNIFORM: return shoal_random_uniform(g, shape, -sqrt(3) * deviation, sqrt(3) * deviation);
    case SCALED_NORMAL: return shoal_random_truncated(g, shape, 0, deviation / TRUNCATED_DEVIATION);
    case UNIFORM: return shoal_random_uniform(g, shape, given[0], given[1]);
    case NORMAL: return shoal_random_normal(g, shape, given[0], given[1]);
    case TRUNCATED: return shoal_random_truncated(g, shape, given[0], given[1]);
    case TABLE: return random_table(g, shape, (int64_t)given[1], given[0]);
    case ORTHOGONAL: return orthogonal(g, shape, given[0]);
    case FILL: break;
  }
  return shoal_fill(g, SHOAL_F32, shape, how->numbers[0] ? given[0] : how->scale);
}

bool initializer_of_table(const json_t *d, int64_t *zeros, double *limit) {
  const char *name = type_of(d);
  const initializer *how = name ? find(name) : NULL;
  *zeros = 0;
  *limit = 0;
  if (!how) return json_is_number(d) && json_number_value(d) == 0;
  if (how->how != TABLE) return how->how == FILL && how->scale == 0 && !how->numbers[0];
  const json_t *given[2] = {json_is_object(d) ? json_object_get(d, how->numbers[0]) : NULL,
                            json_is_object(d) ? json_object_get(d, how->numbers[1]) : NULL};
  *limit = given[0] ? json_number_value(given[0]) : how->standard[0];
  *zeros = (int64_t)(given[1] ? json_number_value(given[1]) : how->standard[1]);
  return true;
}
