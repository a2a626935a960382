#include "exec/session.h"

#include "base/mem.h"
#include "base/options.h"
#include "exec/packed.h"
#include "exec/plan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_to_stderr(void *sink, const char *line) {
  (void)sink;
  fprintf(stderr, "%s\n", line);
}

shoal_status session_adopt(shoal_session *s) {
  const shoal_graph *g = s->graph;
  if (s->n_variables == g->count) return NULL;
  if (s->owner) TRY(session_adopt(s->owner));
  size_t first = s->n_variables, added = g->count - first;
  shoal_tensor *grown = realloc(s->variables, g->count * sizeof *grown);
  if (!grown) return status_no_memory();
  s->variables = grown;
  memset(grown + first, 0, added * sizeof *grown);
  s->n_variables = g->count;
  if (s->owner) {
    memcpy(grown + first, s->owner->variables + first, added * sizeof *grown);
    return NULL;
  }
  shoal_value **initial = calloc(added, sizeof *initial);
  size_t *owner = calloc(added, sizeof *owner);
  shoal_tensor *values = calloc(added, sizeof *values);
  shoal_status status = NULL;
  plan *p = NULL;
  int n = 0;
  if (!initial || !owner || !values) {
    status = status_no_memory();
    goto done;
  }
  for (size_t i = first; i < g->count; i++) {
    node *v = g->nodes[i];
    if (!v->initial || (s->owns && !s->owns(s->owns_context, v))) continue;
    shoal_tensor like = shoal_tensor_view(v->out[0].dtype, v->out[0].shape, NULL);
    TRY_GOTO(status, mem_charge(s->budget, shoal_tensor_bytes(&like), v->name), done);
    TRY_GOTO(status, shoal_tensor_create(like.dtype, like.shape, &s->variables[i]), done);
    const node *maker = v->initial->maker;
    if (!strcmp(maker->op->name, "fill") || !strcmp(maker->op->name, "random_table")) { /* no second copy of what may be
                                                                                         large */
      kernel_call call = {
          .out = &s->variables[i], .outs = 1, .attr = maker->attr, .seed = s->seed, .threads = s->threads};
      TRY_GOTO(status, maker->op->kernel(&call), done);
      continue;
    }
    initial[n] = v->initial;
    owner[n++] = i;
  }
  if (!n) goto done;
  plan_request request = {.session = s, .fetches = initial, .n_fetches = n};
  TRY_GOTO(status, plan_create(&request, &p), done);
  TRY_GOTO(status, plan_run(p, NULL, values), done);
  for (int i = 0; i < n; i++) memcpy(s->variables[owner[i]].data, values[i].data, shoal_tensor_bytes(&values[i]));
done:
  plan_destroy(p);
  free(initial);
  free(owner);
  free(values);
  return status;
}

/* Each shape of feeds has a plan with memory of its own. The one longest unused makes room. */
static void forget_oldest(shoal_session *s) {
  size_t oldest = 0;
  for (size_t i = 1; i < s->n_plans; i++)
    if (s->plans[i]->last_used < s->plans[oldest]->last_used) oldest = i;
  plan_destroy(s->plans[oldest]);
  s->plans[oldest] = s->plans[--s->n_plans];
}

shoal_status session_plan(shoal_session *s, const plan_request *request, plan **out) {
  for (size_t i = 0; i < s->n_plans; i++)
    if (plan_matches(s->plans[i], request)) {
      *out = s->plans[i];
      (*out)->last_used = ++s->uses;
      return NULL;
    }
  TRY(shoal_graph_status(s->graph));
  TRY(session_adopt(s));
  plan *made;
  TRY(plan_create(request, &made));
  if (s->n_plans == SESSION_PLANS) forget_oldest(s);
  made->last_used = ++s->uses;
  s->plans[s->n_plans++] = made;
  *out = made;
  return NULL;
}

shoal_status session_create_part(shoal_graph *g, const shoal_session_options *options,
                                 bool (*owns)(void *context, const node *variable), void *context, mem_budget *budget,
                                 shoal_session **out) {
  shoal_session_options given;
  TRY(OPTIONS_TAKE(&given, options));
  TRY(shoal_graph_status(g));
  shoal_session *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->graph = g;
  s->owns = owns;
  s->owns_context = context;
  s->budget = budget;
  s->seed = given.seed;
  s->reference = given.no_fusion;
  s->print = print_to_stderr;
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  int threads = given.threads > 0 ? given.threads : processors > 0 ? (int)processors : 1;
  shoal_status status = cpu_level_parse(given.kernels ? given.kernels : "auto", &s->level);
  if (!status) status = pool_create(threads, &s->threads);
  if (!status) status = session_adopt(s);
  if (status) {
    shoal_session_destroy(s);
    return status;
  }
  *out = s;
  return NULL;
}

shoal_status shoal_session_create(shoal_graph *g, const shoal_session_options *options, shoal_session **out) {
  return session_create_part(g, options, NULL, NULL, NULL, out);
}

shoal_status session_create_remote(shoal_graph *g, const session_remote *remote, void *state, shoal_session **out) {
  shoal_session *s = calloc(1, sizeof *s);
  if (!s) {
    remote->destroy(state);
    return status_no_memory();
  }
  s->graph = g;
  s->remote = remote;
  s->remote_state = state;
  *out = s;
  return NULL;
}

shoal_status session_create_sharing(shoal_session *owner, shoal_session **out) {
  shoal_session *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->graph = owner->graph;
  s->seed = owner->seed;
  s->level = owner->level;
  s->reference = owner->reference;
  s->guard = owner->guard;
  s->print = owner->print;
  s->print_sink = owner->print_sink;
  s->owner = owner;
  s->never_packs = true;
  packed_never(owner);
  shoal_status status = pool_create(1, &s->threads);
  if (!status) status = session_adopt(s);
  if (status) {
    shoal_session_destroy(s);
    return status;
  }
  *out = s;
  return NULL;
}

void session_watch(shoal_session *s, const session_watcher *watcher) {
  s->watcher = watcher ? *watcher : (session_watcher){0};
}

void shoal_session_destroy(shoal_session *s) {
  if (!s) return;
  if (s->remote) s->remote->destroy(s->remote_state);
  for (size_t i = 0; i < s->n_plans; i++) plan_destroy(s->plans[i]);
  packed_destroy(s);
  for (size_t i = 0; i < s->n_variables && !s->owner; i++) shoal_tensor_fini(&s->variables[i]);
  free(s->variables);
  pool_destroy(s->threads);
  if (s->owns_events) events_destroy(s->events);
  free(s);
}

shoal_status shoal_session_run(shoal_session *s, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                               int n_fetches, shoal_tensor *fetched) {
  if (s->remote) return s->remote->run(s->remote_state, s->step++, feeds, n_feeds, fetches, n_fetches, fetched);
  plan_request request = {.session = s,
                          .fetches = fetches,
                          .n_fetches = n_fetches,
                          .feeds = feeds,
                          .n_feeds = n_feeds,
                          .reference = s->reference};
  plan *p;
  TRY(session_plan(s, &request, &p));
  uint64_t begun = s->owns_events && s->events->on ? events_now() : 0;
  if (begun) s->events->step = (uint32_t)s->step;
  shoal_status status = plan_run(p, feeds, fetched);
  if (begun) events_add(s->events, 0, s->run_label, begun, events_now(), 0);
  s->step++;
  return status;
}

shoal_status session_variable_now(shoal_session *s, const shoal_value *variable, shoal_tensor *out) {
  if (s->remote)
    return status_make(SHOAL_ERR_ARGUMENT, "'%s' has no memory in this process: fetch it", shoal_value_name(variable));
  size_t id = (size_t)variable->maker->id;
  TRY(session_adopt(s));
  if (id >= s->n_variables || !s->variables[id].data)
    return status_make(SHOAL_ERR_ARGUMENT, "'%s' is not a variable", shoal_value_name(variable));
  packed_release(s, (int)id, false);
  *out = s->variables[id];
  return NULL;
}

shoal_status shoal_session_variable(shoal_session *s, const shoal_value *variable, shoal_tensor *out) {
  TRY(session_variable_now(s, variable, out));
  packed_release(s, variable->maker->id, true);
  return NULL;
}

shoal_status session_trace(shoal_session *s, events *e, int first) {
  TRY(events_label(e, &(event_label){.kind = EVENT_SYNC, .name = "wait for threads"}, &s->sync_label));
  TRY(events_label(e, &(event_label){.kind = EVENT_SYNC, .name = "add up sums"}, &s->sums_label));
  s->events = e;
  s->track = first;
  for (size_t i = 0; i < s->n_plans; i++) TRY(plan_label(s->plans[i]));
  return NULL;
}

shoal_status shoal_session_after_fork(shoal_session *s) { return pool_after_fork(s->threads, false); }

uint64_t shoal_session_step(const shoal_session *s) { return s->step; }
void shoal_session_set_step(shoal_session *s, uint64_t step) { s->step = step; }
void session_guard(shoal_session *s, shoal_value *loss) { s->guard = loss; }
void session_race(shoal_session *s, bool racing) { s->racing = racing; }

shoal_status session_find_bad(shoal_session *s, const shoal_feed *feeds, int n_feeds, shoal_value *target,
                              char **description) {
  plan_request request = {.session = s,
                          .fetches = &target,
                          .n_fetches = 1,
                          .feeds = feeds,
                          .n_feeds = n_feeds,
                          .reference = true,
                          .check_each = true};
  plan *p;
  TRY(plan_create(&request, &p));
  shoal_status status = plan_run(p, feeds, NULL);
  plan_destroy(p);
  *description = NULL;
  if (shoal_status_code(status) != SHOAL_ERR_NUMERIC) return status;
  *description = strdup(shoal_status_message(status));
  shoal_status_free(status);
  return *description ? NULL : status_no_memory();
}

shoal_status session_explain(shoal_session *s, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                             int n_fetches, char **out) {
  plan_request request = {.session = s,
                          .fetches = fetches,
                          .n_fetches = n_fetches,
                          .feeds = feeds,
                          .n_feeds = n_feeds,
                          .reference = s->reference};
  plan *p;
  TRY(session_plan(s, &request, &p));
  *out = plan_describe(p);
  return *out ? NULL : status_no_memory();
}
