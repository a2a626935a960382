/* Activations by name, as Keras calls them: functions of a layer's result. */
#include "base/mem.h"
#include "base/text.h"
#include "train/layer.h"

#include <string.h>

typedef struct {
  const char *name;
  shoal_value *(*apply)(shoal_graph *g, shoal_value *x); /* NULL: x itself */
} activation;

static shoal_value *leaky_relu(shoal_graph *g, shoal_value *x) { return shoal_leaky_relu(g, x, 0.2); }
static shoal_value *elu(shoal_graph *g, shoal_value *x) { return shoal_elu(g, x, 1); }

static shoal_value *number(shoal_graph *g, double x) { return shoal_scalar(g, SHOAL_F32, x); }

/* log(sigmoid(x)) */
static shoal_value *log_sigmoid(shoal_graph *g, shoal_value *x) {
  return shoal_neg(g, shoal_softplus(g, shoal_neg(g, x)));
}

static shoal_value *tanh_shrink(shoal_graph *g, shoal_value *x) { return shoal_sub(g, x, shoal_tanh(g, x)); }

/* Both leave out what is between -1/2 and 1/2; the second moves the rest towards 0. */
static shoal_value *hard_shrink(shoal_graph *g, shoal_value *x) {
  shoal_value *large = shoal_greater(g, shoal_abs(g, x), number(g, 0.5));
  return shoal_mul(g, x, shoal_cast(g, large, SHOAL_F32));
}

static shoal_value *soft_shrink(shoal_graph *g, shoal_value *x) { return shoal_sub(g, x, shoal_clip(g, x, -0.5, 0.5)); }

/* (x + sqrt(x^2 + 4)) / 2 */
static shoal_value *squareplus(shoal_graph *g, shoal_value *x) {
  shoal_value *root = shoal_sqrt(g, shoal_add(g, shoal_square(g, x), number(g, 4)));
  return shoal_scale(g, shoal_add(g, x, root), 0.5);
}

/* 0 up to -1, x from 1 on, (x + 1)^2 / 4 in between. */
static shoal_value *sparse_plus(shoal_graph *g, shoal_value *x) {
  shoal_value *between = shoal_square(g, shoal_scale(g, shoal_add(g, shoal_clip(g, x, -1, 1), number(g, 1)), 0.5));
  return shoal_add(g, between, shoal_relu(g, shoal_sub(g, x, number(g, 1))));
}

static shoal_value *sparse_sigmoid(shoal_graph *g, shoal_value *x) {
  return shoal_scale(g, shoal_add(g, shoal_clip(g, x, -1, 1), number(g, 1)), 0.5);
}

/* The first half of the features, each times the sigmoid of one of the second half. */
static shoal_value *glu(shoal_graph *g, shoal_value *x) {
  shoal_value *half = shoal_split(g, x, 2, x->shape.rank - 1);
  return half ? shoal_mul(g, half, shoal_sigmoid(g, shoal_value_output(half, 1))) : NULL;
}

/* The nearest point of those that are not negative and sum up to 1: as softmax, with zeros. */
static shoal_value *sparsemax(shoal_graph *g, shoal_value *x) {
  const int axis = x->shape.rank - 1;
  const shoal_shape last = SHOAL_SHAPE(axis);
  shoal_value *sorted = shoal_sort(g, x, axis, true), *sums = shoal_cumsum(g, sorted, axis, false, false);
  shoal_value *ones = shoal_cast(g, shoal_equal(g, x, x), SHOAL_F32);
  shoal_value *place = shoal_cumsum(g, ones, axis, false, false); /* 1, 2, 3 ... */
  shoal_value *kept =
      shoal_cast(g, shoal_greater(g, shoal_add(g, shoal_mul(g, sorted, place), number(g, 1)), sums), SHOAL_F32);
  shoal_value *sum = shoal_reduce_sum(g, shoal_mul(g, sorted, kept), last, true);
  shoal_value *less = shoal_div(g, shoal_sub(g, sum, number(g, 1)), shoal_reduce_sum(g, kept, last, true));
  return shoal_relu(g, shoal_sub(g, x, less));
}

static const activation activations[] = {
    {"linear", NULL},
    {"relu", shoal_relu},
    {"tanh", shoal_tanh},
    {"sigmoid", shoal_sigmoid},
    {"softmax", shoal_softmax},
    {"relu6", shoal_relu6},
    {"leaky_relu", leaky_relu},
    {"elu", elu},
    {"selu", shoal_selu},
    {"gelu", shoal_gelu},
    {"gelu_tanh", shoal_gelu_tanh},
    {"silu", shoal_silu},
    {"swish", shoal_silu},
    {"softplus", shoal_softplus},
    {"softsign", shoal_softsign},
    {"hard_sigmoid", shoal_hard_sigmoid},
    {"hard_swish", shoal_hard_swish},
    {"hard_tanh", shoal_hard_tanh},
    {"mish", shoal_mish},
    {"exponential", shoal_exp},
    {"log_softmax", shoal_log_softmax},
    {"celu", elu},
    {"glu", glu},
    {"hard_shrink", hard_shrink},
    {"log_sigmoid", log_sigmoid},
    {"soft_shrink", soft_shrink},
    {"sparse_plus", sparse_plus},
    {"sparse_sigmoid", sparse_sigmoid},
    {"sparsemax", sparsemax},
    {"squareplus", squareplus},
    {"tanh_shrink", tanh_shrink},
};

static const activation *find_activation(const char *name) {
  for (size_t i = 0; i < COUNT_OF(activations); i++)
    if (!strcmp(activations[i].name, name)) return &activations[i];
  return NULL;
}

shoal_status activation_check(const char *name) {
  if (find_activation(name)) return NULL;
  const char *names[COUNT_OF(activations)];
  for (size_t i = 0; i < COUNT_OF(activations); i++) names[i] = activations[i].name;
  const char *near = text_nearest(name, names, COUNT_OF(names));
  return status_make(SHOAL_ERR_ARGUMENT,
                     "unknown activation '%s'%s%s; relu, tanh, sigmoid, gelu, silu and others "
                     "are listed at shoal_model_dense",
                     name, near ? "; did you mean " : "", near ? near : "");
}

shoal_value *activation_apply(shoal_graph *g, const char *name, shoal_value *x) {
  const activation *a = find_activation(name);
  return x && a && a->apply ? a->apply(g, x) : x;
}
