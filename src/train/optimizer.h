/* The inside of the optimizers, for those who have gradients but no loss: a parameter server. */
#ifndef SHOAL_TRAIN_OPTIMIZER_H
#define SHOAL_TRAIN_OPTIMIZER_H

#include "shoal/train.h"

#define OPTIMIZER_SLOTS_MAX 3
#define OPTIMIZER_AVERAGE "average" /* slot of options with `average`, the last one */
#define OPTIMIZER_COUNTER 64

/* One update of all variables by the given gradients (those with value NULL are left out); slots as in
 * shoal_minimize. */
SHOAL_CHECKED shoal_status optimizer_apply(shoal_graph *g, const shoal_optimizer_options *options,
                                           shoal_value *const *variables, const shoal_gradient *gradients, int n,
                                           shoal_value *rate, shoal_value **update);
/* Rows of a variable, its first or last ones, that are none of features: each of their numbers has slots of its own also with
 * an optimizer that has one for a row. */
typedef struct {
  int64_t n;
  bool first;
} optimizer_plain_rows;

/* The same of one variable by a gradient of some of its rows, each named once. */
SHOAL_CHECKED shoal_status optimizer_apply_rows(shoal_graph *g, const shoal_optimizer_options *options,
                                                shoal_value *variable, const shoal_gradient *gradient,
                                                optimizer_plain_rows plain, shoal_value *rate, shoal_value **update);
/* The weight_decay that is taken when none is said; 0: there is no optimizer of that name. */
double optimizer_usual_decay(const char *name);
/* Whether so many parameter servers, each with a part of all variables, can make the updates. */
SHOAL_CHECKED shoal_status optimizer_check_servers(const shoal_optimizer_options *options, int servers);
/* Gradients of the loss; at least one variable must have one. */
SHOAL_CHECKED shoal_status optimizer_gradients(shoal_graph *g, shoal_value *loss, shoal_value *const *variables, int n,
                                               shoal_gradient *out);
/* Names of the slots of each variable, each of the variable's shape, apart from those below; returns how many. */
int optimizer_slots(const shoal_optimizer_options *options, const char *slots[OPTIMIZER_SLOTS_MAX]);
/* Whether slots have one number for a row of a variable whose gradient is by rows. */
bool optimizer_by_rows(const shoal_optimizer_options *options);
/* The name of the variable (i64, scalar) that counts updates; NULL: the optimizer has none. Returns buffer. */
const char *optimizer_counter(const shoal_optimizer_options *options, char buffer[OPTIMIZER_COUNTER]);

#endif
