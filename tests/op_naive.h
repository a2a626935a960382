/* The most important operators once more, from their definitions: double, direct index formulas, no shared code. */
#ifndef SHOAL_TESTS_OP_NAIVE_H
#define SHOAL_TESTS_OP_NAIVE_H

#include "op_case.h"

/* Writes what output 0 of a run on m's inputs should hold into `expected`, of the output's size. */
typedef void (*naive_fn)(const op_case *c, const case_memory *m, double *expected);
/* NULL when the operator is not defined a second time here. */
naive_fn naive_find(const char *op);
/* Parts of the same: functions of one number; operators that move elements, compare or multiply; layers. */
naive_fn naive_find_unary(const char *op);
naive_fn naive_find_shapes(const char *op);
naive_fn naive_find_nn(const char *op);

#endif
