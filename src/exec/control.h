/* Operators that run sub-graphs: each has, in the plan that it is part of, a plan of its own for each sub-graph. */
#ifndef SHOAL_EXEC_CONTROL_H
#define SHOAL_EXEC_CONTROL_H

#include "exec/plan.h"

/* Makes the sub-graphs' plans and chooses the kernel of a node with OP_NESTED. */
SHOAL_CHECKED shoal_status control_prepare(plan *p, plan_node *n);
void control_destroy(struct control *c);

#endif
