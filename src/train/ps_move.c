#include "train/ps_move.h"

#include "base/clock.h"

#define LOOK_SECONDS 0.02 /* between two looks whether other servers are to take over */

/* The other servers, and what they are told. */
typedef struct {
  ps_servers servers;
  placement *place;
  ps_client *client;
  ps_head head; /* where the training stands */
  char *done;   /* which of its batches are done */
} target;

static void drop(target *t) {
  ps_client_destroy(t->client);
  if (t->place) placement_fini(t->place);
  free(t->place);
  free(t->done);
}

/* The strategy talks to them from now on. */
static void use(ps *s, target *t) {
  placement *place = s->place;
  ps_client *client = s->client;
  s->place = t->place;
  s->client = t->client;
  s->options.terms.servers = t->servers.count;
  s->options.addresses = t->servers.addresses;
  s->watches = ps_client_takes_pieces(s->client);
  if (s->table) ps_table_use(s->table, s->client);
  t->place = place;
  t->client = client;
}

/* Parameters and slots; they pass through this process, which has room for all that is not a table. */
static shoal_status copy_vectors(ps *s, ps_client *to) {
  ps_head ignored;
  for (int k = 0; k < s->n_values; k++) {
    TRY(ps_client_get(s->client, k, s->values[k], &ignored));
    TRY(ps_client_set(to, k, s->values[k]));
  }
  return s->table ? ps_table_copy(s->table, to) : NULL;
}

/* Up to where the others count. */
static shoal_status fill(ps *s, target *t) {
  bool under_way;
  TRY(ps_client_connect(t->client, &under_way));
  TRY(ps_take_answers(s));
  TRY(ps_client_pause(s->client, &t->head, &t->done));
  TRY(copy_vectors(s, t->client));
  const strategy_place place = {.updates = t->head.updates, .rows = t->head.rows};
  ps_start start = ps_plan_start(s, &place);
  start.counter = t->head.counter;
  TRY(ps_client_continue(t->client, s->client, t->head.updates, &start, start.round ? NULL : t->done));
  return s->options.settle(s->options.listener);
}

/* The others count: whatever happens to the old servers now is of no consequence. */
static shoal_status go_on(ps *s, target *t) {
  ps_answer answer = {0};
  shoal_status_free(ps_client_hand_over(s->client));
  use(s, t);
  s->known_changes = 0; /* the leader is another */
  TRY(ps_client_started(s->client, &answer));
  ps_take_batches(s, &answer);
  return NULL;
}

shoal_status ps_move_if_due(ps *s) {
  const ps_options *o = &s->options;
  const double begun = clock_seconds();
  const int before = o->terms.servers;
  target t = {0};
  if (!o->next_servers || s->base.worker || s->over || s->since.stop || begun - s->looked < LOOK_SECONDS) return NULL;
  s->looked = begun;
  if (!o->next_servers(o->listener, &t.servers)) return NULL;
  shoal_status status = ps_make_client(s, &t.servers, &t.place, &t.client);
  if (!status) status = fill(s, &t);
  if (status) {
    const bool lost = ps_client_lost(s->client); /* the old servers: as at any other time */
    o->on_move(o->listener, before, t.servers.count, 0, 0, shoal_status_message(status));
    drop(&t);
    if (lost) return status;
    shoal_status_free(status);
    return NULL;
  }
  status = go_on(s, &t);
  drop(&t);
  if (!status)
    o->on_move(o->listener, before, s->options.terms.servers, s->since.place.updates, clock_seconds() - begun, NULL);
  return status;
}

bool ps_has_moved(const ps *s) { return s->options.has_moved && s->options.has_moved(s->options.listener); }

shoal_status ps_follow(ps *s) {
  target t = {0};
  if (!ps_has_moved(s)) return NULL;
  TRY(s->options.find_servers(s->options.listener, &t.servers));
  TRY(ps_make_client(s, &t.servers, &t.place, &t.client));
  ps_client_inherit(t.client, s->client);
  use(s, &t);
  drop(&t);
  return NULL;
}
