/* What can be fed into a graph and fetched from it, as JSON. */
#include "base/json_text.h"
#include "base/mem.h"
#include "shoal/graph.h"
#include "shoal/observe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *output_json(shoal_value *first, int k) {
  const shoal_value *v = shoal_value_output(first, k);
  const shoal_shape shape = shoal_value_shape(v);
  json_t *dims = json_array();
  for (int i = 0; i < shape.rank; i++)
    json_array_append_new(dims, shape.dim[i] == SHOAL_UNKNOWN ? json_null() : json_integer(shape.dim[i]));
  json_t *name = k ? json_sprintf("%s:%d", shoal_value_name(first), k) : json_string(shoal_value_name(first));
  return json_pack("{s:o, s:s, s:o, s:s?}", "name", name, "dtype", shoal_dtype_name(shoal_value_dtype(v)), "shape",
                   dims, "device", shoal_value_device(first));
}

static json_t *part_json(const shoal_graph *g, shoal_graph_part part) {
  json_t *all = json_array();
  for (shoal_value *v = NULL; (v = shoal_graph_next(g, part, v));)
    for (int k = 0; shoal_value_output(v, k); k++)
      if (json_array_append_new(all, output_json(v, k))) {
        json_decref(all);
        return NULL;
      }
  return all;
}

shoal_status shoal_graph_list_json(const shoal_graph *g, char **out) {
  json_t *o = json_pack("{s:o, s:o, s:o}", "placeholders", part_json(g, SHOAL_GRAPH_PLACEHOLDERS), "variables",
                        part_json(g, SHOAL_GRAPH_VARIABLES), "results", part_json(g, SHOAL_GRAPH_RESULTS));
  char *words = o ? json_words(o, JSON_INDENT(2)) : NULL;
  json_decref(o);
  const bool good = words && asprintf(out, "%s\n", words) >= 0;
  free(words);
  return good ? NULL : status_no_memory();
}
