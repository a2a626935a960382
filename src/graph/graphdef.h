/* Graphs as TensorFlow's GraphDef: what TensorBoard shows, `shoal run` runs and graph servers are sent.
 *
 * The messages are GraphDef's, the operators Shoal's own (docs/graphs.md has the attributes). Beyond TensorFlow's:
 *   _initial        of a variable: the value it starts as, "NAME" or "NAME:OUTPUT"
 *   _offsets        of a ragged placeholder: the placeholder that says where each row's entries are
 *   _f64_ATTRIBUTE  eight bytes: a number that an f32 would round
 *   a sub-graph of cond and while is a GraphDef inside a bytes attribute; its last nodes are called _params and
 *   _results and name, as inputs, what it is given and what it gives. */
#ifndef SHOAL_GRAPH_GRAPHDEF_H
#define SHOAL_GRAPH_GRAPHDEF_H

#include "base/proto.h"
#include "graph/graph.h"

/* Appends the nodes from number `first` on. */
SHOAL_CHECKED shoal_status graphdef_write(const shoal_graph *g, size_t first, proto *out);
/* Adds the nodes to a graph, which may be empty or hold those before `first`. Wrong bytes are SHOAL_ERR_INPUT and name
 * the node; what was added before them stays. */
SHOAL_CHECKED shoal_status graphdef_read(shoal_graph *g, const void *bytes, size_t n);

#endif
