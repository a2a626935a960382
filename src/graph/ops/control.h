/* Attributes of the operators that run sub-graphs, in the order of their rows. */
#ifndef SHOAL_GRAPH_OPS_CONTROL_H
#define SHOAL_GRAPH_OPS_CONTROL_H

enum { COND_OUTPUTS, COND_THEN, COND_ELSE };
enum { WHILE_OUTPUTS, WHILE_CONDITION, WHILE_BODY, WHILE_MAX, WHILE_VARS, WHILE_DERIVATIVE };

#endif
