#include "train/loss.h"

#include "base/mem.h"
#include "base/text.h"
#include "shoal/train.h"

#include <string.h>

#define HUBER_DELTA 1.0 /* errors up to here count squared, larger ones linearly */

/* ---- classes */

static shoal_value *softmax_rows(shoal_graph *g, shoal_value *logits, shoal_value *labels, shoal_value **right) {
  *right = shoal_in_top_k(g, logits, labels, 1);
  return shoal_sparse_softmax_cross_entropy(g, logits, labels);
}

static shoal_value *softmax_probabilities(shoal_graph *g, shoal_value *logits) {
  shoal_name_next(g, "probabilities");
  return shoal_softmax(g, logits);
}

const loss_kind loss_softmax_cross_entropy = {
    .activation = "softmax", .rows = softmax_rows, .probabilities = softmax_probabilities};

/* One unit: class 1 where its logit is above 0. */
static shoal_value *sigmoid_rows(shoal_graph *g, shoal_value *logits, shoal_value *labels, shoal_value **right) {
  shoal_value *z = shoal_reshape(g, logits, SHOAL_SHAPE(SHOAL_UNKNOWN)), *y = shoal_cast(g, labels, SHOAL_F32);
  shoal_value *seen = shoal_relu(g, shoal_sign(g, z));
  *right = shoal_cast(g, shoal_equal(g, seen, y), SHOAL_F32);
  return shoal_sigmoid_cross_entropy(g, z, y);
}

static shoal_value *sigmoid_probabilities(shoal_graph *g, shoal_value *logits) {
  shoal_value *yes = shoal_sigmoid(g, logits), *no = shoal_sigmoid(g, shoal_neg(g, logits));
  shoal_name_next(g, "probabilities");
  return shoal_concat(g, (shoal_value *[]){no, yes}, 2, 1);
}

const loss_kind loss_sigmoid_cross_entropy = {
    .activation = "sigmoid", .rows = sigmoid_rows, .probabilities = sigmoid_probabilities};

/* ---- targets: the mean over a row's outputs */

static shoal_value *mean_of_row(shoal_graph *g, shoal_value *x) {
  return shoal_reduce_mean(g, x, SHOAL_SHAPE(1), false);
}

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

/* ---- the table */

#define CLASS_LOSSES(X) X(softmax_cross_entropy) X(sigmoid_cross_entropy)
#define TARGET_LOSSES(X) X(mse) X(mae) X(huber)
#define AS_ROW(name) &loss_##name,
#define AS_NAME(name) #name,
static const loss_kind *const losses[] = {CLASS_LOSSES(AS_ROW) TARGET_LOSSES(AS_ROW)};
static const char *const names[] = {CLASS_LOSSES(AS_NAME) TARGET_LOSSES(AS_NAME) NULL};
static const char *const target_names[] = {TARGET_LOSSES(AS_NAME) NULL};

const char *const *shoal_loss_names(void) { return names; }
const char *const *loss_target_names(void) { return target_names; }

const char *loss_name(const loss_kind *loss) {
  size_t i = 0;
  while (losses[i] != loss) i++;
  return names[i];
}

shoal_status loss_find(const char *name, const loss_kind **out) {
  for (size_t i = 0; i < COUNT_OF(losses); i++)
    if (!strcmp(names[i], name)) {
      *out = losses[i];
      return NULL;
    }
  return status_unknown("loss", name, names, COUNT_OF(losses));
}

bool loss_takes_targets(const char *name) {
  for (size_t i = 0; name && target_names[i]; i++)
    if (!strcmp(target_names[i], name)) return true;
  return false;
}
