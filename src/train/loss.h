/* What training makes small: one row of the table in loss.c each.
 *
 * `outputs` are what the model's layers give for a batch, f32 [batch, units]; `labels` are class numbers [batch] or, of
 * a regression, the numbers to be predicted (targets), f32 [batch, units]. */
#ifndef SHOAL_TRAIN_LOSS_H
#define SHOAL_TRAIN_LOSS_H

#include "base/status.h"
#include "shoal/graph.h"

typedef struct {
  bool targets;           /* a regression: labels are numbers, not classes */
  bool one_unit;          /* classes 0 and 1, told apart by one unit */
  const char *activation; /* of the last layer, where the loss computes it, too: then `outputs` are what goes into it */
  /* The loss of each row, [batch]. *right: 1 where the class is told right, f32 [batch]; NULL: there are no classes. */
  shoal_value *(*rows)(shoal_graph *g, shoal_value *outputs, shoal_value *labels, shoal_value **right);
  /* The same with labels that are smoothed, by more than 0; NULL: labels of its kind cannot be. */
  shoal_value *(*smoothed)(shoal_graph *g, shoal_value *outputs, shoal_value *labels, double smoothing,
                           shoal_value **right);
  /* [batch, classes] probabilities; NULL: the outputs are the predictions. */
  shoal_value *(*probabilities)(shoal_graph *g, shoal_value *outputs);
} loss_kind;

extern const loss_kind loss_softmax_cross_entropy, loss_sigmoid_cross_entropy;
/* Not in the table, and without rows of their own: the sum over several outputs; functions of the program's. */
extern const loss_kind loss_several, loss_own_classes, loss_own_targets;

/* `rows` or `smoothed`, as the number asks for. */
shoal_value *loss_rows(const loss_kind *loss, shoal_graph *g, shoal_value *outputs, shoal_value *labels,
                       double smoothing, shoal_value **right);
const char *loss_name(const loss_kind *loss);
/* Whether its `rows` say which are told right. */
bool loss_tells_right(const loss_kind *loss);
/* ARGUMENT error with the names there are when it is none of them. */
SHOAL_CHECKED shoal_status loss_find(const char *name, const loss_kind **out);
/* Whether it is one of a regression; NULL: whichever suits the last layer, which is none. */
bool loss_takes_targets(const char *name);

#endif
