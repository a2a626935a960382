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

/* Parts of the messages, for TensorFlow's own operators, too (src/exchange). */
typedef struct {
  size_t entry, value;
} graphdef_attr;
/* The value of an attribute, PREFIX NAME, of the node under way: everything written between the two. */
graphdef_attr graphdef_begin_attr(proto *p, const char *prefix, const char *name);
void graphdef_end_attr(proto *p, graphdef_attr a);
void graphdef_put_shape(proto *p, int field, const shoal_shape *shape);
void graphdef_put_tensor(proto *p, const shoal_tensor *t); /* as the value of an attribute */
SHOAL_CHECKED shoal_status graphdef_read_dtype(uint64_t number, shoal_dtype *out);
/* *known: false if the shape has not even a number of dimensions. */
SHOAL_CHECKED shoal_status graphdef_read_shape(proto_reader r, shoal_shape *out, bool *known);
/* *out: to be freed. spread: bytes that a few numbers may stand for, beyond eight for each byte of the message. */
SHOAL_CHECKED shoal_status graphdef_read_tensor(proto_reader r, size_t spread, shoal_tensor *out);

#endif
