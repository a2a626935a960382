/* The server's side of the strategy ps: how a gradient becomes an update. */
#include "train/optimizer.h"
#include "train/ps.h"

static shoal_status build_update(const ps_terms *t, shoal_graph *g, shoal_value *variable,
                                 const shoal_gradient *gradient, shoal_value *rate, shoal_value **update) {
  TRY(shoal_schedule_check(&t->schedule));
  if (gradient->indices) return optimizer_apply_rows(g, &t->optimizer, variable, gradient, rate, update);
  return optimizer_apply(g, &t->optimizer, &variable, gradient, 1, rate, update);
}

static double rate_at(const ps_terms *t, int64_t update) { return shoal_schedule_at(&t->schedule, update); }

shoal_status ps_serve(const ps_server_options *options, ps_server_result *out) {
  ps_server_options server = *options;
  server.build = build_update;
  server.rate_at = rate_at;
  return ps_server_run(&server, out);
}
