/* The outputs of a model, each with its loss. Labels of several outputs stand side by side in a row, f32 [batch, numbers]:
 * of a loss of classes one number, of all others as many as the output has. */
#ifndef SHOAL_TRAIN_RESULTS_H
#define SHOAL_TRAIN_RESULTS_H

#include "train/model.h"

/* Before the layers are applied: the loss of each result and of the model. ARGUMENT error: one that does not exist or fit. */
SHOAL_CHECKED shoal_status results_find_losses(shoal_model *m, const shoal_compile_options *options);
/* Once they are applied: how many numbers each result has, and which labels it needs. */
SHOAL_CHECKED shoal_status results_take(shoal_model *m);
/* The loss that computes the activation of this call; NULL: none does. */
const loss_kind *results_loss_of(const shoal_model *m, const shoal_output *c);
/* What each row of a batch loses, [batch], in the branch that was built last. *right as loss_kind.rows. */
shoal_value *results_losses(const shoal_model *m, const tower *t, shoal_value **right);
/* The same for evaluation: sets t->figures, too. */
shoal_value *results_measure(shoal_model *m, tower *t, shoal_value **right);
/* [batch, outputs], in the branch that was built last. */
shoal_value *results_predictions(const shoal_model *m);
/* INPUT error: what is wrong with the numbers [m->targets] that a row is labelled with. */
SHOAL_CHECKED shoal_status results_check_targets(const shoal_model *m, const float *row);
/* As the file has it, or as its layer is called. */
const char *result_name(const model_result *r);

#endif
