/* Graphs used as functions by cond and while: params are placeholders, results any values; no variables inside. */
#ifndef SHOAL_GRAPH_FUNCTION_H
#define SHOAL_GRAPH_FUNCTION_H

#include "graph/graph.h"

/* A graph whose params are like `in`, filled by `body`; device: the scope around it, or NULL. */
SHOAL_CHECKED shoal_status function_make(const char *device, shoal_value *const *in, int n_in, int n_out,
                                         shoal_function body, void *context, shoal_graph **out);
/* Whether what a function may not do is not done inside: no variables are made or changed. */
SHOAL_CHECKED shoal_status function_check(const shoal_graph *f);
/* The derivative: params are those of f and one for each f32 or f64 result (the gradient that flows into it); results
 * are one for each f32 or f64 param. */
SHOAL_CHECKED shoal_status function_gradient(const shoal_graph *f, shoal_graph **out);
/* Shapes of the results when the params have these; types are checked. */
SHOAL_CHECKED shoal_status function_shapes(const shoal_graph *f, const shoal_shape *in, const shoal_dtype *in_dtype,
                                           int n_in, shoal_shape *out);

#endif
