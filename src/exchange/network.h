/* A model that predicts: a graph with named inputs and outputs, and the session that holds its weights. */
#ifndef SHOAL_EXCHANGE_NETWORK_H
#define SHOAL_EXCHANGE_NETWORK_H

#include "base/text.h"
#include "shoal/exchange.h"
#include "train/model.h"

typedef struct {
  char *name; /* owned */
  shoal_value *value;
} network_port;

typedef struct {
  network_port *list;
  int n;
} network_ports;

struct shoal_network {
  shoal_model *model;     /* whose layers it is; NULL: it has none, only a graph */
  bool owns_model;        /* ... and goes with the network */
  shoal_model_kind *kind; /* of a model file that it was made from; NULL: none */
  shoal_graph *graph;     /* the model's, or its own */
  shoal_session *session;
  bool owns_session;
  network_ports inputs, outputs;
  text notes;
  char *name; /* NULL: the file has none */
};

/* An empty one. */
SHOAL_CHECKED shoal_status network_create(shoal_network **out);
/* Adds an input or output; `name` is copied. */
SHOAL_CHECKED shoal_status network_add(network_ports *ports, const char *name, shoal_value *value);
/* Adds the nodes that predict to the graph of its model, and makes the inputs and outputs. outputs: the calls, and names,
 * n of them; 0: the last one. Then, unless the model is compiled, a session. */
SHOAL_CHECKED shoal_status network_build(shoal_network *n, shoal_output *const *outputs, const char *const *names,
                                         int n_outputs);
/* The session over the network's graph, with its variables' first values. */
SHOAL_CHECKED shoal_status network_start(shoal_network *n);

#endif
