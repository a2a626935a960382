/* The shapes that values take once those of the feeds are known, without making a plan. */
#ifndef SHOAL_GRAPH_INFER_H
#define SHOAL_GRAPH_INFER_H

#include "graph/graph.h"

/* The operator's shape rule between checks of what goes into it and of what it gives: whatever the attributes and the
 * shapes, the outputs are tensors that may exist (tensor/limits.h). All callers of a rule go through here. */
SHOAL_CHECKED shoal_status op_infer(const op_row *op, op_shapes *s);

#define SHAPE_NOT_KNOWN ((shoal_shape){.rank = -1})

/* shapes: [g->n_values]; those that are fed hold their shape, all others SHAPE_NOT_KNOWN. Fills in the values of the
 * nodes needed ([g->count], by id). */
SHOAL_CHECKED shoal_status graph_infer(const shoal_graph *g, const bool *needed, shoal_shape *shapes);

/* needed: [g->count], zeroed. Marks what the fetches need when the values with a shape in `shapes` are fed; a node
 * that is needed for the shape of its result alone counts. */
SHOAL_CHECKED shoal_status graph_mark(const shoal_graph *g, shoal_value *const *fetches, int n,
                                      const shoal_shape *shapes, bool *needed);

#endif
