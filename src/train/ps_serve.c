/* What parameter servers and workers must agree on, and the server's side. */
#include "train/ps_terms.h"

#include "exec/session.h"
#include "graph/graph.h"
#include "train/optimizer.h"
#include "train/ps_table.h"

#include <stdio.h>
#include <string.h>

int ps_flight(const ps_options *o) {
  if (o->together || o->table || o->staleness == 0) return 1;
  return MAX_OF(MIN_OF(o->in_flight, PS_FLIGHT_MOST), 1);
}

/* Through shared memory sending is copying, by the processors that compute: there is nothing to hide behind that. */
bool ps_sends_pieces(const ps_options *o) {
  return o->pieces ? o->pieces > 0 : strncmp(o->addresses[0], "shm:", 4) != 0;
}

shoal_status ps_place_weights(const shoal_model *m, const ps_options *o, placement *out) {
  shoal_value **weights;
  int n, servers = o->servers;
  if (o->table) {
    int64_t rows;
    TRY(ps_table_rows(m, &rows));
    return placement_make(&rows, 1, servers, out);
  }
  TRY(model_weights(m, true, &weights, &n));
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
  return status;
}

shoal_status ps_write_settings(const ps_options *o, const shoal_model *m, const placement *p, text *out) {
  const shoal_compile_options *c = &m->options;
  text_add(out, "workers=%d servers=%d pace=%s staleness=%lld in-flight=%d backups=%d optimizer=%s schedule=%s "
           "rate=%a seed=%llu slices=", o->workers, o->servers, o->together ? "together" : "own",
           (long long)o->staleness, ps_flight(o), o->backups, c->optimizer.name ? c->optimizer.name : "sgd",
           c->schedule.name ? c->schedule.name : "constant", c->schedule.rate, (unsigned long long)c->seed);
  for (int s = 0; s < p->servers; s++) text_add(out, "%s%lld", s ? "," : "", (long long)p->elements[s]);
  if (o->round) text_add(out, " round=%lld", (long long)o->round);
  if (o->table) text_add(out, " touched=%lld", (long long)m->input.dim[0]);
  return out->failed ? status_no_memory() : NULL;
}

/* ---- the server's side */

static shoal_status build_update(void *optimizer, shoal_graph *g, shoal_value *variable,
                                 const shoal_gradient *gradient, shoal_value *rate, shoal_value **update) {
  const shoal_compile_options *o = optimizer;
  if (!gradient->indices) return optimizer_apply(g, &o->optimizer, &variable, gradient, 1, rate, update);
  shoal_optimizer_options rows = o->optimizer;
  rows.l2 = o->l2; /* the update sees to it, for what it touches */
  return optimizer_apply_rows(g, &rows, variable, gradient, rate, update);
}

static double rate_at(void *optimizer, int64_t update) {
  const shoal_compile_options *o = optimizer;
  return shoal_schedule_at(&o->schedule, update);
}

shoal_status ps_serve(const ps_options *options, int index, shoal_model *m, const int *stop_flag,
                      ps_server_result *out) {
  TRY(model_ready(m));
  placement place = {0};
  text settings = {0};
  char name[32];
  snprintf(name, sizeof name, "ps/%d", index);
  shoal_status status = ps_place_weights(m, options, &place);
  if (!status) status = ps_write_settings(options, m, &place, &settings);
  shoal_session_destroy(m->session);
  m->session = NULL;
  if (!status) {
    ps_server_options server = {.name = name,
                                .address = options->addresses[index],
                                .net = options->net,
                                .leader = index == 0,
                                .workers = options->workers,
                                .has_chief = options->has_chief,
                                .together = options->together,
                                .staleness = options->staleness,
                                .in_flight = ps_flight(options),
                                .backups = options->backups,
                                .heartbeat = options->heartbeat,
                                .returns = options->returns,
                                .elements = place.elements[index],
                                .round = options->round,
                                .touched = options->table ? m->input.dim[0] : 0,
                                .block = options->block,
                                .settings = settings.data,
                                .kernels = m->options.kernels,
                                .patience = options->answer_seconds,
                                .stop = stop_flag,
                                .optimizer = (void *)&m->options,
                                .build = build_update,
                                .rate_at = rate_at,
                                .describer = options->describer,
                                .on_look = options->on_look,
                                .events = options->events,
                                .describe = options->describe};
    status = ps_server_run(&server, out);
  }
  placement_fini(&place);
  text_fini(&settings);
  return status;
}
