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
  int id;          /* position in graph->nodes; inputs have smaller ones */
  int first_value; /* number of its output 0 among all values of the graph */
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
  node **after;         /* [n_after] what runs before this one without being an input; ids are smaller */
  int n_after;
};

struct shoal_graph {
  node **nodes;
  size_t count, capacity;
  int n_values;    /* outputs of all nodes */
  char *scope;     /* "" or "a/b/" */
  char *next_name; /* NULL: none asked for */
  char *device;
  char **devices; /* [n_devices] of the scopes around this one; NULL: none */
  size_t n_devices, cap_devices;
  node **after; /* [n_after] of the control scopes */
  size_t n_after, cap_after;
  size_t *after_of; /* [n_controls] n_after before each control scope */
  size_t n_controls, cap_controls;
  node **index; /* [index_size] by hash of the name; NULL: free */
  size_t index_size;
  /* A graph used as a function (cond, while): what it is given and what it gives. */
  shoal_value **params, **results;
  int n_params, n_results;
  int refs;           /* users besides the first */
  shoal_status error; /* first one */
};

/* Counts all values of a graph, in the order in which they were made. */
static inline int value_id(const shoal_value *v) { return v->maker->first_value + v->index; }

/* Shares a graph that is not changed any more: shoal_graph_destroy undoes it. */
shoal_graph *graph_ref(shoal_graph *g);

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

/* As shoal_placeholder_ragged, with `width` numbers for each entry: [entries, width]; of 1 [entries]. */
shoal_value *placeholder_ragged_rows(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_value *offsets,
                                     int64_t width);

#endif
