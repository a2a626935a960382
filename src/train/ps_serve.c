/* The server's side of the strategy ps: how a gradient becomes an update. */
#include "train/optimizer.h"
#include "dist/ps_protocol.h"
#include "train/ps.h"

/* Moving averages have nothing that the optimizer keeps, but every vector of a server is as long. */
static shoal_status build_averages(const ps_terms *t, shoal_graph *g, shoal_value *averages, shoal_value *changes,
                                   shoal_value **update) {
  const char *slots[OPTIMIZER_SLOTS_MAX];
  const int n = optimizer_slots(&t->optimizer, slots);
  for (int i = 0; i < n; i++) shoal_variable(g, slots[i], shoal_fill_like(g, averages, 0));
  *update = shoal_assign_add(g, averages, changes);
  return shoal_graph_status(g);
}

static shoal_status build_update(const ps_terms *t, shoal_graph *g, shoal_value *variable,
                                 const shoal_gradient *gradient, shoal_value *rate, shoal_value **update) {
  TRY(shoal_schedule_check(&t->schedule));
  if (!rate) return build_averages(t, g, variable, gradient->value, update);
  if (gradient->indices) {
    const optimizer_plain_rows plain = {t->elements / t->width - ps_feature_rows(t), t->ids};
    return optimizer_apply_rows(g, &t->optimizer, variable, gradient, plain, rate, update);
  }
  return optimizer_apply(g, &t->optimizer, &variable, gradient, 1, rate, update);
}

static double rate_at(const ps_terms *t, int64_t update) { return shoal_schedule_at(&t->schedule, update); }

shoal_status ps_serve(const ps_server_options *options, ps_server_result *out) {
  ps_server_options server = *options;
  server.build = build_update;
  if (!server.rate_at) server.rate_at = rate_at;
  return ps_server_run(&server, out);
}
