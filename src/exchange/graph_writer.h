/* Writing a graph for another program: what ONNX and TensorFlow's GraphDef share. Names that these functions return live as
 * long as the writer. Errors stick to it; names are then "". */
#ifndef SHOAL_EXCHANGE_GRAPH_WRITER_H
#define SHOAL_EXCHANGE_GRAPH_WRITER_H

#include "base/proto.h"
#include "exchange/formats.h"
#include "graph/graph.h"
#include "shoal/session.h"
#include "train/model.h"

typedef struct {
  shoal_value *value;
  const char *name; /* what the file calls it */
} writer_port;

/* What is written. */
typedef struct {
  const char *name; /* of the model */
  const shoal_graph *graph;
  const writer_port *inputs, *outputs;
  int n_inputs, n_outputs;
  shoal_session *session;        /* what its variables hold is written as constants */
  const shoal_model *weights_of; /* says which of them are trained; NULL: all */
} writer_model;

typedef struct graph_writer graph_writer;

/* How a format writes. */
typedef struct {
  const char *name, *instead; /* for messages: "ONNX", and what to do about an operator that it has not */
  /* fixed: a constant of the graph, or a weight that is not trained */
  void (*put_tensor)(graph_writer *w, const char *name, const shoal_tensor *t, bool fixed);
  void (*put_input)(graph_writer *w, const writer_port *port);
  void (*put_output)(graph_writer *w, const writer_port *port);
  bool (*write_node)(graph_writer *w, const node *n); /* false: the format has nothing for it */
  void (*clean)(char *name); /* letters that names must not have become others; NULL: any are fine */
} graph_format;

struct graph_writer {
  const graph_format *format;
  const writer_model *model;
  proto graph; /* the message, growing */
  const shoal_graph *graph_nodes;
  const bool *needed;  /* by node: it is written */
  const char **values; /* by value_id: the name of each value written so far; NULL: not yet */
  bool *named;         /* by value_id: a constant has been written under the value's own name */
  char **names;        /* all that were made, owned */
  size_t n_names, cap_names;
  const node *node; /* the one under way */
  int made;         /* names for it so far */
  shoal_status error;
};

/* Writes inputs, nodes and outputs into w->graph. ARGUMENT error: an operator that the format has not, by its name. */
SHOAL_CHECKED shoal_status writer_run(graph_writer *w, const writer_model *m);
void writer_fini(graph_writer *w);

void writer_fail(graph_writer *w, shoal_status status);
/* Takes a name, NULL for lack of memory, and keeps it. */
const char *writer_keep(graph_writer *w, char *name);
/* A name nobody has. */
const char *writer_name(graph_writer *w);
/* The name of a value that has been written; constants are written when they are first asked for. */
const char *writer_of(graph_writer *w, const shoal_value *v);
/* Says what a value of the node under way is called. */
void writer_bind(graph_writer *w, const shoal_value *v, const char *name);

/* Whether another node that is written uses it. */
bool writer_uses(const graph_writer *w, const shoal_value *v);

/* Constants. */
const char *writer_tensor(graph_writer *w, const shoal_tensor *t);
const char *writer_scalar(graph_writer *w, shoal_dtype dtype, double value);
const char *writer_ints(graph_writer *w, const shoal_shape *list); /* i64 [rank] */
const char *writer_int(graph_writer *w, int64_t value);            /* i64 scalar */
/* The numbers of a variable or constant; false: v is computed. */
bool writer_known(const graph_writer *w, const shoal_value *v, shoal_tensor *out);
/* Of what is known, the numbers transposed by `order`; NULL: v is computed. */
const char *writer_transposed(graph_writer *w, const shoal_value *v, shoal_shape order);

/* Writes a network to a file by a function that appends the whole message. */
typedef shoal_status (*writer_function)(const writer_model *m, proto *out);
SHOAL_CHECKED shoal_status writer_export(shoal_network *n, const char *path, const shoal_export_options *options,
                                         writer_function write);

#endif
