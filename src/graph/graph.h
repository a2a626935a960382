/* The graph's inside, for the modules that build on it. */
#ifndef SHOAL_GRAPH_GRAPH_H
#define SHOAL_GRAPH_GRAPH_H

#include "graph/op.h"

typedef struct node node;

struct shoal_value {
  node *maker;
  int index; /* which of the maker's outputs */
  shoal_dtype dtype;
  shoal_shape shape; /* SHOAL_UNKNOWN where a feed decides */
};

struct node {
  int id; /* position in graph->nodes; inputs have smaller ones */
  const op_row *op;
  char *name;
  char *device; /* NULL: unplaced */
  shoal_value **in;
  int ins;
  shoal_value *out; /* [outs] */
  int outs;
  attr_value attr[OP_MAX_ATTRS];
  uint64_t stream;      /* names this node's random numbers: a hash of its name */
  shoal_value *initial; /* variables only */
  shoal_value *offsets; /* ragged placeholders only: what says where each row's entries are */
};

struct shoal_graph {
  node **nodes;
  size_t count, capacity;
  char *scope;     /* "" or "a/b/" */
  char *next_name; /* NULL: none asked for */
  char *device;
  shoal_status error; /* first one */
};

/* Adds a node. `attrs` holds as many values as the row declares, in its order. Text and data attributes are copied.
 * Returns output 0, or NULL with the error kept in the graph (also when an input is NULL). */
shoal_value *graph_add(shoal_graph *g, const op_row *op, shoal_value *const *in, int ins, const attr_value *attrs);
/* By the operator's name; same otherwise. */
shoal_value *graph_op(shoal_graph *g, const char *op, shoal_value *const *in, int ins, const attr_value *attrs);
/* Keeps `status` if it is the first error; takes it. */
void graph_fail(shoal_graph *g, shoal_status status);

/* "'dense/matmul' [64,10]" for messages; returns buffer. */
#define VALUE_TEXT 256
const char *value_text(const shoal_value *v, char buffer[VALUE_TEXT]);

/* Builder shorthands used by the operators' own files. */
#define GRAPH_UNARY(g, op, x, ...) graph_op(g, op, (shoal_value *[]){x}, 1, (attr_value[OP_MAX_ATTRS]){__VA_ARGS__})
#define GRAPH_BINARY(g, op, a, b, ...) \
  graph_op(g, op, (shoal_value *[]){a, b}, 2, (attr_value[OP_MAX_ATTRS]){__VA_ARGS__})

#endif
