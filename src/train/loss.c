#include "train/loss.h"

#include "base/mem.h"
#include "base/text.h"
#include "shoal/train.h"

#include <string.h>

#define HUBER_DELTA 1.0 /* errors up to here count squared, larger ones linearly */
#define TINY 1e-7       /* keeps logarithms finite */

/* ---- classes */

static shoal_value *softmax_rows(shoal_graph *g, shoal_value *logits, shoal_value *labels, shoal_value **right) {
  *right = shoal_in_top_k(g, logits, labels, 1);
  return shoal_sparse_softmax_cross_entropy(g, logits, labels);
}

static shoal_value *softmax_probabilities(shoal_graph *g, shoal_value *logits) {
  shoal_name_next(g, "probabilities");
  return shoal_softmax(g, logits);
}

/* (1 - s) of the label's cross-entropy, s of the mean over all classes'. */
static shoal_value *softmax_smoothed(shoal_graph *g, shoal_value *logits, shoal_value *labels, double smoothing,
                                     shoal_value **right) {
  shoal_value *own = shoal_scale(g, softmax_rows(g, logits, labels, right), 1 - smoothing);
  shoal_value *all = shoal_reduce_mean(g, shoal_log_softmax(g, logits), SHOAL_SHAPE(1), false);
  return shoal_add(g, own, shoal_scale(g, all, -smoothing));
}

const loss_kind loss_softmax_cross_entropy = {.activation = "softmax",
                                              .rows = softmax_rows,
                                              .smoothed = softmax_smoothed,
                                              .probabilities = softmax_probabilities};

/* What the unit of each row gives, [batch], and its label as 0 or 1. *right: class 1 where it is above 0. */
static shoal_value *one_unit(shoal_graph *g, shoal_value *outputs, shoal_value *labels, shoal_value **y,
                             shoal_value **right) {
  shoal_value *z = shoal_reshape(g, outputs, SHOAL_SHAPE(SHOAL_UNKNOWN));
  *y = shoal_cast(g, labels, SHOAL_F32);
  shoal_value *seen = shoal_relu(g, shoal_sign(g, z));
  *right = shoal_cast(g, shoal_equal(g, seen, *y), SHOAL_F32);
  return z;
}

static shoal_value *add_number(shoal_graph *g, shoal_value *x, double number) {
  return shoal_add(g, x, shoal_scalar(g, SHOAL_F32, number));
}

/* Targets of yes and no, a little away from both. */
static shoal_value *smooth_yes_no(shoal_graph *g, shoal_value *y, double smoothing) {
  return add_number(g, shoal_scale(g, y, 1 - smoothing), smoothing / 2);
}

static shoal_value *sigmoid_rows(shoal_graph *g, shoal_value *logits, shoal_value *labels, shoal_value **right) {
  shoal_value *y, *z = one_unit(g, logits, labels, &y, right);
  return shoal_sigmoid_cross_entropy(g, z, y);
}

static shoal_value *sigmoid_smoothed(shoal_graph *g, shoal_value *logits, shoal_value *labels, double smoothing,
                                     shoal_value **right) {
  shoal_value *y, *z = one_unit(g, logits, labels, &y, right);
  return shoal_sigmoid_cross_entropy(g, z, smooth_yes_no(g, y, smoothing));
}

static shoal_value *sigmoid_probabilities(shoal_graph *g, shoal_value *logits) {
  shoal_value *yes = shoal_sigmoid(g, logits), *no = shoal_sigmoid(g, shoal_neg(g, logits));
  shoal_name_next(g, "probabilities");
  return shoal_concat(g, (shoal_value *[]){no, yes}, 2, 1);
}

const loss_kind loss_sigmoid_cross_entropy = {.activation = "sigmoid",
                                              .one_unit = true,
                                              .rows = sigmoid_rows,
                                              .smoothed = sigmoid_smoothed,
                                              .probabilities = sigmoid_probabilities};

/* max(0, 1 - s z) with s = 1 for class 1 and -1 for class 0. */
static shoal_value *hinge_rows(shoal_graph *g, shoal_value *outputs, shoal_value *labels, shoal_value **right) {
  shoal_value *y, *z = one_unit(g, outputs, labels, &y, right);
  shoal_value *side = add_number(g, shoal_scale(g, y, 2), -1);
  return shoal_relu(g, add_number(g, shoal_neg(g, shoal_mul(g, side, z)), 1));
}

static const loss_kind loss_hinge = {.one_unit = true, .rows = hinge_rows, .probabilities = sigmoid_probabilities};

/* The best of the other classes should be at least 1 below the right one. */
static shoal_value *categorical_hinge_rows(shoal_graph *g, shoal_value *outputs, shoal_value *labels,
                                           shoal_value **right) {
  const int64_t classes = outputs ? shoal_value_shape(outputs).dim[1] : 0;
  shoal_value *own = shoal_one_hot(g, labels, classes, 1, 0, SHOAL_F32);
  shoal_value *others = shoal_one_hot(g, labels, classes, 0, 1, SHOAL_F32);
  shoal_value *z = shoal_reduce_sum(g, shoal_mul(g, own, outputs), SHOAL_SHAPE(1), false);
  shoal_value *best = shoal_reduce_max(g, shoal_mul(g, others, outputs), SHOAL_SHAPE(1), false);
  *right = shoal_in_top_k(g, outputs, labels, 1);
  return shoal_relu(g, add_number(g, shoal_sub(g, best, z), 1));
}

static const loss_kind loss_categorical_hinge = {.rows = categorical_hinge_rows,
                                                 .probabilities = softmax_probabilities};

/* ---- targets: the mean or the sum over a row's outputs */

static shoal_value *mean_of_row(shoal_graph *g, shoal_value *x) {
  return shoal_reduce_mean(g, x, SHOAL_SHAPE(1), false);
}

static shoal_value *sum_of_row(shoal_graph *g, shoal_value *x) { return shoal_reduce_sum(g, x, SHOAL_SHAPE(1), false); }

static shoal_value *mse_rows(shoal_graph *g, shoal_value *outputs, shoal_value *targets, shoal_value **right) {
  *right = NULL;
  return mean_of_row(g, shoal_square(g, shoal_sub(g, outputs, targets)));
}

static const loss_kind loss_mse = {.targets = true, .rows = mse_rows};

static shoal_value *mae_rows(shoal_graph *g, shoal_value *outputs, shoal_value *targets, shoal_value **right) {
  *right = NULL;
  return mean_of_row(g, shoal_abs(g, shoal_sub(g, outputs, targets)));
}

static const loss_kind loss_mae = {.targets = true, .rows = mae_rows};

/* With c = min(|error|, delta): c^2 / 2 + delta (|error| - c). */
static shoal_value *huber_rows(shoal_graph *g, shoal_value *outputs, shoal_value *targets, shoal_value **right) {
  shoal_value *error = shoal_abs(g, shoal_sub(g, outputs, targets)), *c = shoal_clip(g, error, 0, HUBER_DELTA);
  shoal_value *square = shoal_scale(g, shoal_square(g, c), 0.5);
  *right = NULL;
  return mean_of_row(g, shoal_add(g, square, shoal_scale(g, shoal_sub(g, error, c), HUBER_DELTA)));
}

static const loss_kind loss_huber = {.targets = true, .rows = huber_rows};

/* The mean of a Poisson distribution: outputs - targets log(outputs), up to a constant. */
static shoal_value *poisson_rows(shoal_graph *g, shoal_value *outputs, shoal_value *targets, shoal_value **right) {
  *right = NULL;
  return mean_of_row(g, shoal_sub(g, outputs, shoal_mul(g, targets, shoal_log(g, add_number(g, outputs, TINY)))));
}

static const loss_kind loss_poisson = {.targets = true, .rows = poisson_rows};

static shoal_value *of_length_one(shoal_graph *g, shoal_value *x) {
  shoal_value *square = shoal_reduce_sum(g, shoal_square(g, x), SHOAL_SHAPE(1), true);
  return shoal_mul(g, x, shoal_rsqrt(g, shoal_maximum(g, square, shoal_scalar(g, SHOAL_F32, TINY * TINY))));
}

/* -1 where outputs and targets point the same way, 1 where they are opposed. */
static shoal_value *cosine_rows(shoal_graph *g, shoal_value *outputs, shoal_value *targets, shoal_value **right) {
  *right = NULL;
  return shoal_neg(g, sum_of_row(g, shoal_mul(g, of_length_one(g, outputs), of_length_one(g, targets))));
}

static const loss_kind loss_cosine_similarity = {.targets = true, .rows = cosine_rows};

/* ---- targets that are probabilities */

/* Told right: the likeliest class is the one of most weight. */
static shoal_value *categorical_rows(shoal_graph *g, shoal_value *logits, shoal_value *targets, shoal_value **right) {
  *right = shoal_cast(g, shoal_equal(g, shoal_argmax(g, logits, 1), shoal_argmax(g, targets, 1)), SHOAL_F32);
  return shoal_softmax_cross_entropy(g, logits, targets);
}

static shoal_value *categorical_smoothed(shoal_graph *g, shoal_value *logits, shoal_value *targets, double smoothing,
                                         shoal_value **right) {
  const double classes = targets ? (double)shoal_value_shape(targets).dim[1] : 1;
  return categorical_rows(g, logits, add_number(g, shoal_scale(g, targets, 1 - smoothing), smoothing / classes), right);
}

static const loss_kind loss_categorical_cross_entropy = {.targets = true,
                                                         .activation = "softmax",
                                                         .rows = categorical_rows,
                                                         .smoothed = categorical_smoothed,
                                                         .probabilities = softmax_probabilities};

static shoal_value *kl_rows(shoal_graph *g, shoal_value *logits, shoal_value *targets, shoal_value **right) {
  shoal_value *own = shoal_log(g, shoal_maximum(g, targets, shoal_scalar(g, SHOAL_F32, TINY)));
  *right = NULL;
  return sum_of_row(g, shoal_mul(g, targets, shoal_sub(g, own, shoal_log_softmax(g, logits))));
}

static const loss_kind loss_kl_divergence = {
    .targets = true, .activation = "softmax", .rows = kl_rows, .probabilities = softmax_probabilities};

static shoal_value *each_sigmoid(shoal_graph *g, shoal_value *logits) {
  shoal_name_next(g, "probabilities");
  return shoal_sigmoid(g, logits);
}

/* Several answers of yes or no to a row. Told right: the share of them. */
static shoal_value *binary_smoothed(shoal_graph *g, shoal_value *logits, shoal_value *targets, double smoothing,
                                    shoal_value **right) {
  shoal_value *half = shoal_scalar(g, SHOAL_F32, 0.5), *zero = shoal_scalar(g, SHOAL_F32, 0);
  shoal_value *same = shoal_equal(g, shoal_greater(g, logits, zero), shoal_greater(g, targets, half));
  *right = mean_of_row(g, shoal_cast(g, same, SHOAL_F32));
  return mean_of_row(g, shoal_sigmoid_cross_entropy(g, logits, smooth_yes_no(g, targets, smoothing)));
}

static shoal_value *binary_rows(shoal_graph *g, shoal_value *logits, shoal_value *targets, shoal_value **right) {
  return binary_smoothed(g, logits, targets, 0, right);
}

static const loss_kind loss_binary_cross_entropy = {.targets = true,
                                                    .activation = "sigmoid",
                                                    .rows = binary_rows,
                                                    .smoothed = binary_smoothed,
                                                    .probabilities = each_sigmoid};

/* ---- others */

const loss_kind loss_several = {.targets = true};
const loss_kind loss_own_classes = {.probabilities = softmax_probabilities};
const loss_kind loss_own_targets = {.targets = true};

/* ---- the table */

#define CLASS_LOSSES(X) X(softmax_cross_entropy) X(sigmoid_cross_entropy) X(hinge) X(categorical_hinge)
#define TARGET_LOSSES(X) \
  X(mse)                 \
  X(mae) X(huber) X(poisson) X(cosine_similarity) X(categorical_cross_entropy) X(binary_cross_entropy) X(kl_divergence)
#define AS_ROW(name) &loss_##name,
#define AS_NAME(name) #name,
static const loss_kind *const losses[] = {CLASS_LOSSES(AS_ROW) TARGET_LOSSES(AS_ROW)};
static const char *const names[] = {CLASS_LOSSES(AS_NAME) TARGET_LOSSES(AS_NAME) NULL};
static const char *const target_names[] = {TARGET_LOSSES(AS_NAME) NULL};

const char *const *shoal_loss_names(void) { return names; }

const char *loss_name(const loss_kind *loss) {
  for (size_t i = 0; i < COUNT_OF(losses); i++)
    if (losses[i] == loss) return names[i];
  return loss == &loss_several ? "of several outputs" : "of the program's own";
}

bool loss_tells_right(const loss_kind *loss) {
  return !loss->targets || loss == &loss_categorical_cross_entropy || loss == &loss_binary_cross_entropy;
}

shoal_status loss_find(const char *name, const loss_kind **out) {
  for (size_t i = 0; i < COUNT_OF(losses); i++)
    if (!strcmp(names[i], name)) {
      *out = losses[i];
      return NULL;
    }
  return status_unknown("loss", name, names, COUNT_OF(losses));
}

shoal_value *loss_rows(const loss_kind *loss, shoal_graph *g, shoal_value *outputs, shoal_value *labels,
                       double smoothing, shoal_value **right) {
  if (smoothing > 0) return loss->smoothed(g, outputs, labels, smoothing, right);
  return loss->rows(g, outputs, labels, right);
}

bool loss_takes_targets(const char *name) {
  for (size_t i = 0; name && target_names[i]; i++)
    if (!strcmp(target_names[i], name)) return true;
  return false;
}
