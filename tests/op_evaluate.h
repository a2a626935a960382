/* A graph run the slow and obvious way: node after node, reference kernels, new memory for each value. */
#ifndef SHOAL_TESTS_OP_EVALUATE_H
#define SHOAL_TESTS_OP_EVALUATE_H

#include "graph/graph.h"

typedef struct {
  const shoal_graph *graph;
  int last;             /* id of the last node that was run */
  shoal_tensor **value; /* [node][output] */
} evaluation;

typedef struct {
  const shoal_value *value;
  shoal_tensor tensor; /* borrowed */
} evaluate_feed;

/* Runs the nodes up to id `last`; shapes come from the feeds. An error fails the running test with `what`. */
void evaluate(const shoal_graph *g, int last, const evaluate_feed *feeds, int n, const char *what, evaluation *out);
const shoal_tensor *evaluation_of(const evaluation *e, const shoal_value *v);
void evaluation_fini(evaluation *e);

#endif
