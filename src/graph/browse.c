/* Finding one's way in a graph somebody else has made. */
#include "base/mem.h"
#include "base/text.h"
#include "graph/graph.h"

#include <string.h>

static shoal_status unknown(const shoal_graph *g, const char *name) {
  const char **names = calloc(g->count + 1, sizeof *names);
  for (size_t i = 0; names && i < g->count; i++) names[i] = g->nodes[i]->name;
  const char *near = names ? text_nearest(name, names, g->count) : NULL;
  free(names);
  return status_make(SHOAL_ERR_ARGUMENT, "the graph has no value '%s'%s%s%s; shoal run GRAPH --list shows what it has",
                     name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

shoal_status shoal_graph_lookup(const shoal_graph *g, const char *name, shoal_value **out) {
  int64_t output;
  shoal_value *found = shoal_graph_find(g, name);
  const char *colon = strrchr(name, ':');
  if (!found && colon && text_to_int(colon + 1, &output) && output >= 0 && output <= INT32_MAX) {
    char *maker = strndup(name, (size_t)(colon - name));
    if (!maker) return status_no_memory();
    found = shoal_value_output(shoal_graph_find(g, maker), (int)output);
    free(maker);
  }
  if (!found) return unknown(g, name);
  *out = found;
  return NULL;
}

static bool is_used(const shoal_graph *g, const node *n) {
  for (size_t i = (size_t)n->id + 1; i < g->count; i++) {
    if (g->nodes[i]->initial && g->nodes[i]->initial->maker == n) return true;
    for (int k = 0; k < g->nodes[i]->ins; k++)
      if (g->nodes[i]->in[k]->maker == n) return true;
  }
  return false;
}

static bool belongs(const shoal_graph *g, const node *n, shoal_graph_part part) {
  switch (part) {
    case SHOAL_GRAPH_PLACEHOLDERS: return !strcmp(n->op->name, "placeholder");
    case SHOAL_GRAPH_VARIABLES: return n->initial != NULL;
    case SHOAL_GRAPH_RESULTS: return !(n->op->flags & OP_SOURCE) && !is_used(g, n);
  }
  return false;
}

shoal_value *shoal_graph_next(const shoal_graph *g, shoal_graph_part part, const shoal_value *after) {
  for (size_t i = after ? (size_t)after->maker->id + 1 : 0; i < g->count; i++)
    if (g->nodes[i]->outs && belongs(g, g->nodes[i], part)) return &g->nodes[i]->out[0];
  return NULL;
}
