#include "train/ps_model.h"

#include "base/mem.h"
#include "dist/ps_protocol.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/optimizer.h"
#include "train/ps_table.h"

#include <string.h>

shoal_status ps_model_place(const shoal_model *m, int servers, bool table, placement *out) {
  shoal_value **weights;
  int n_trained, n;
  TRY(optimizer_check_servers(&m->options.optimizer, servers));
  if (table) {
    ps_table_shape shape;
    TRY(ps_table_find(m, servers, &shape));
    return placement_deal(shape.rows, servers, out);
  }
  TRY(model_exchanged(m, &weights, &n_trained, &n));
  int64_t *counts = calloc((size_t)n, sizeof *counts);
  shoal_status status = counts ? NULL : status_no_memory();
  for (int i = 0; i < n && !status; i++) {
    counts[i] = shoal_shape_count(&weights[i]->shape);
    if (weights[i]->dtype != SHOAL_F32)
      status = status_make(SHOAL_ERR_ARGUMENT, "'%s' is %s; parameter servers keep f32", shoal_value_name(weights[i]),
                           shoal_dtype_name(weights[i]->dtype));
  }
  if (!status) status = placement_make(counts, n, servers, out);
  free(counts);
  free(weights);
  TRY(status);
  for (int s = 0; s < servers; s++) { /* its slices are in the order of the variables */
    if (out->slices[out->begin[s]].variable < n_trained) continue;
    placement_fini(out);
    return status_make(SHOAL_ERR_ARGUMENT, "%d parameter servers leave one with nothing but moving averages: use fewer",
                       servers);
  }
  return NULL;
}

shoal_status ps_model_terms(const shoal_model *m, bool table, ps_terms *terms) {
  const shoal_compile_options *c = &m->options;
  ps_table_shape shape = {0};
  if (table) TRY(ps_table_find(m, terms->servers, &shape));
  terms->touched = table ? m->input.dim[0] + shape.other_rows : 0;
  terms->width = shape.width;
  terms->started = table && !m->grows ? model_features(m) : 0;
  terms->ids = table && m->grows;
  if (terms->ids) {
    terms->other_rows = shape.other_rows;
    terms->ids_memory = c->ids_memory / terms->servers;
    terms->ids_admit = c->ids_admit;
    terms->ids_evict_after = c->ids_evict_after;
  }
  memcpy(terms->columns, shape.columns, sizeof terms->columns);
  terms->tables = shape.tables;
  terms->row_slots = table && shape.row_slots;
  terms->optimizer = c->optimizer;
  terms->schedule = c->schedule;
  terms->seed = c->seed;
  if (!terms->optimizer.name) terms->optimizer.name = "sgd";
  if (!terms->schedule.name) terms->schedule.name = "constant";
  if (table) terms->optimizer.l2 = c->l2; /* the update sees to it, for the rows it touches */
  if (terms->sync || table || terms->staleness == 0) terms->in_flight = 1;
  terms->in_flight = MAX_OF(MIN_OF(terms->in_flight, PS_FLIGHT_MAX), 1);
  return NULL;
}
