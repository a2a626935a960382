/* A graph for people to look at: TensorFlow's GraphDef for TensorBoard, and graph.json (docs/run-folder.md) for the
 * report. Both hold what a training step may run: the nodes that anything which changes a variable hangs on, and those
 * of the scope `train`. */
#ifndef SHOAL_OBSERVE_GRAPH_EXPORT_H
#define SHOAL_OBSERVE_GRAPH_EXPORT_H

#include "graph/graph.h"
#include "base/proto.h"

#include <jansson.h>

typedef struct {
  const char *device; /* of nodes that have none of their own, e.g. "/job:worker/task:0"; NULL: "" */
  /* The server that holds a variable (the first part of it), below 0: none. May be NULL. */
  int (*server_of)(void *context, const shoal_value *variable);
  void *context;
} graph_export_options;

/* Serialises a GraphDef to the end of `out`. */
SHOAL_CHECKED shoal_status graph_export_def(const shoal_graph *g, const graph_export_options *options, proto *out);
/* The caller owns *out. */
SHOAL_CHECKED shoal_status graph_export_json(const shoal_graph *g, const char *model,
                                             const graph_export_options *options, json_t **out);

#endif
