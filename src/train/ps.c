#include "train/ps_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "dist/sparse_set.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/optimizer.h"
#include "train/ps_model.h"
#include "train/ps_move.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TASKS_END_SECONDS 10.0 /* for those that were started here to end by themselves */
#define POLL_SECONDS 0.01      /* between two looks whether the others are done */

/* Pointers to the numbers of all weights, or of the slot of that name of each; moving averages have none. */
static shoal_status find_values(ps *s, shoal_value **weights, const char *slot, float **out) {
  for (int i = 0; i < s->n_weights; i++) {
    shoal_value *v = weights[i];
    if (slot && i >= s->n_trained) {
      out[i] = s->no_slot;
      continue;
    }
    if (slot) {
      char *name;
      if (asprintf(&name, "%s/%s", shoal_value_name(weights[i]), slot) < 0) return status_no_memory();
      v = shoal_graph_find(s->model->graph, name);
      free(name);
      if (!v) return status_make(SHOAL_ERR_INTERNAL, "'%s' has no slot %s", shoal_value_name(weights[i]), slot);
    }
    shoal_tensor t;
    TRY(shoal_session_variable(s->model->session, v, &t));
    out[i] = t.data;
  }
  return NULL;
}

static shoal_status find_counter(ps *s) {
  char name[OPTIMIZER_COUNTER];
  if (s->options.terms.local_steps) return NULL;
  const char *counter = optimizer_counter(&s->model->options.optimizer, name);
  if (!counter) return NULL;
  shoal_tensor t;
  TRY(shoal_session_variable(s->model->session, shoal_graph_find(s->model->graph, counter), &t));
  s->counter = t.data;
  return NULL;
}

static shoal_status find_all(ps *s, shoal_value **weights) {
  const char *slots[OPTIMIZER_SLOTS_MAX];
  int64_t largest = 1;
  for (int i = s->n_trained; i < s->n_weights; i++) largest = MAX_OF(largest, shoal_shape_count(&weights[i]->shape));
  s->no_slot = calloc((size_t)largest, sizeof *s->no_slot);
  if (!s->no_slot) return status_no_memory();
  const bool local = s->options.terms.local_steps > 0;
  int n_slots = optimizer_slots(&s->options.terms.optimizer, slots); /* the servers' */
  for (int k = 0; k <= n_slots; k++) {
    s->values[k] = calloc((size_t)s->n_weights, sizeof **s->values);
    if (!s->values[k]) return status_no_memory();
    s->n_values = k + 1;
    if (!k || !local) TRY(find_values(s, weights, k ? slots[k - 1] : NULL, s->values[k]));
  }
  s->counts = calloc((size_t)s->n_weights, sizeof *s->counts);
  if (!s->counts) return status_no_memory();
  for (int i = 0; i < s->n_weights; i++) s->elements += s->counts[i] = shoal_shape_count(&weights[i]->shape);
  s->gradients = calloc((size_t)s->n_weights, sizeof *s->gradients);
  return s->gradients ? NULL : status_no_memory();
}

/* ---- steps */

/* Takes note of the answer to the oldest part. */
static void note_answer(ps *s, const ps_answer *a) {
  strategy_outcome *o = &s->since;
  const ps_head *sent = &s->sent[0], *about = s->base.sync ? &a->head : sent;
  s->moved = true;
  ps_note_place(s, a);
  o->stop = o->stop || a->stopped;
  o->drain = o->drain || a->drain;
  o->barrier_seconds += a->waited;
  o->server_seconds += a->worked;
  o->rate = s->local ? s->local_rate : a->head.rate;
  if (!(a->stopped && a->late)) { /* sync: the step is counted also where this part of it came too late */
    o->own_steps++;
    o->own_examples += a->late ? 0 : sent->examples;
    o->examples += about->examples;
    o->loss += about->loss;
    o->hits += about->hits;
    o->staleness += a->head.behind;
  }
  s->n_sent--;
  for (int i = 0; i < s->n_sent; i++) s->sent[i] = s->sent[i + 1];
}

static shoal_status take_answer(ps *s) {
  ps_answer answer = {0};
  TRY(ps_client_take(s->client, s->values[0], &answer));
  note_answer(s, &answer);
  return NULL;
}

shoal_status ps_take_answers(ps *s) {
  while (s->n_sent) TRY(take_answer(s));
  return NULL;
}

/* Tells who has left or come since the last time. */
static shoal_status tell_changes(ps *s) {
  if (s->base.worker || !s->options.on_change || s->changes == s->known_changes) return NULL;
  ps_change list[PS_CHANGES_MAX];
  int n;
  TRY(ps_take_answers(s));
  TRY(ps_client_changes(s->client, s->known_changes, list, &n, &s->known_changes));
  s->changes = s->known_changes;
  for (int i = 0; i < n; i++) s->options.on_change(s->options.listener, &list[i]);
  return NULL;
}

static shoal_status push_table(ps *s, const train_batch *next) {
  ps_answer answer = {0};
  s->since.touched += s->part.examples ? ps_table_touched(s->table) : 0;
  TRY(ps_table_push(s->table, ps_leaves_vectors(s->leaves), next->sparse, &s->part, &s->indices, &answer));
  if (s->counter) *s->counter = answer.head.counter;
  s->rows_shard = next->shard;
  s->rows_index = next->index;
  note_answer(s, &answer);
  return NULL;
}

/* Asks for a shard of a stream. */
static shoal_status ask(ps *s) {
  ps_answer answer = {0};
  TRY(ps_client_ask(s->client, s->n_values ? s->values[0] : NULL, &answer));
  ps_note_place(s, &answer);
  s->since.stop = s->since.stop || answer.stopped;
  return NULL;
}

/* Hands on a part, and takes answers until there is a batch to go on with, or none any more. */
static shoal_status push(ps *s, const train_batch *next) {
  ps_head *head = &s->part;
  shoal_status error = s->error;
  s->error = NULL;
  TRY(error);
  s->sent[s->n_sent++] = *head;
  if (s->base.rounds) {
    head->first_leaf = (int32_t)s->span.first_leaf;
    head->last_leaf = (int32_t)s->span.last_leaf;
    head->round_rows = s->span.round_rows;
  }
  if (s->table) return push_table(s, next);
  if (s->in_flight == 1) {
    ps_answer answer = {0};
    TRY(ps_client_push(s->client, s->gradients, s->values[0], head, &answer));
    note_answer(s, &answer);
    return NULL;
  }
  TRY(ps_client_send(s->client, s->gradients, head));
  while (s->n_sent && (s->n_sent == s->in_flight || !s->n_next)) TRY(take_answer(s));
  return NULL;
}

/* What has come to pass since the last one. */
static void take_outcome(ps *s, strategy_outcome *out) {
  *out = s->since;
  s->since = (strategy_outcome){.place = out->place, .rate = out->rate};
}

/* What a call took beyond waiting at the servers. */
static void note_time(ps *s, double begun, double waited) {
  double others = s->since.barrier_seconds + s->since.server_seconds - waited;
  s->since.network_seconds += MAX_OF(clock_seconds() - begun - others, 0);
}

static shoal_status hand_on(ps *s, const train_batch *next) {
  if (!s->is_stream && s->mark) TRY(ps_client_mark(s->client, 0, 0, s->mark));
  if (!s->is_stream) return push(s, next);
  s->part.shard = s->shard;
  s->part.batch = s->index;
  s->part.shard_epochs = next->epoch;
  if (s->mark) TRY(ps_client_mark(s->client, s->shard, s->index + 1, s->mark));
  return s->shard < 0 && !s->base.sync ? ask(s) : push(s, next);
}

/* Another format, if that is due. */
static shoal_status take_advice(ps *s) {
  const ps_advice_step step = {.examples = s->part.examples,
                               .seconds = clock_seconds() - s->begun,
                               .waiting = s->since.network_seconds + s->since.barrier_seconds};
  const wire_format *before = s->wire;
  text line = {0};
  s->wire = ps_advice_take(s->advice, &step, &line);
  if (line.length && !line.failed && !s->base.worker) strategy_note(s->setup, line.data);
  text_fini(&line);
  return s->wire == before ? NULL : ps_client_use_wire(s->client, s->wire);
}

static shoal_status exchange(shoal_strategy *base, const train_batch *next, strategy_outcome *out) {
  ps *s = (ps *)base;
  bool lost;
  const int64_t before = ps_bytes_moved(s);
  const double begun = clock_seconds(), waited = s->since.barrier_seconds + s->since.server_seconds;
  shoal_status status = hand_on(s, next);
  if (!status) status = tell_changes(s);
  if (!status) status = ps_move_if_due(s);
  TRY(ps_explain(s, ps_may_be_lost(s, status, &lost)));
  if (lost) {
    *out = (strategy_outcome){.lost = true};
    return NULL;
  }
  s->since.bytes += ps_bytes_moved(s) - before;
  note_time(s, begun, waited);
  if (s->advice) TRY(take_advice(s));
  take_outcome(s, out);
  out->place.next = ps_next_batch(s);
  TRY(ps_may_be_lost(s, ps_find_mark(s, &out->place), &out->lost));
  return NULL;
}

static shoal_status stop(ps *s) {
  ps_answer answers[PS_FLIGHT_MAX];
  int n;
  TRY(ps_client_stop(s->client, s->n_values ? s->values[0] : NULL, answers, &n));
  for (int i = 0; i < n; i++) note_answer(s, &answers[i]);
  return NULL;
}

static shoal_status gather(shoal_strategy *base) {
  ps *s = (ps *)base;
  ps_head head;
  int first = base->sync && !s->wire ? 1 : 0; /* sync: the parameters here are fresh, and exact */
  TRY(ps_take_answers(s));
  if (s->is_stream) {
    char *stream;
    TRY(ps_client_hold(s->client, &head, &stream));
    free(base->stream);
    base->stream = stream;
    base->stream_updates = head.updates;
    base->stream_rows = head.rows;
    if (s->counter) *s->counter = head.counter;
  }
  for (int k = first; k < s->n_values; k++) {
    TRY(ps_client_get(s->client, k, s->values[k], &head));
    if (s->counter) *s->counter = head.counter;
  }
  return NULL;
}

/* Worker 0 waits as long as the others make progress. */
static shoal_status wait_for_others(ps *s, ps_head *head) {
  double last = clock_seconds();
  int64_t seen = head->rows;
  while (head->running > 0) {
    nanosleep(&(struct timespec){.tv_nsec = (long)(POLL_SECONDS * 1e9)}, NULL);
    TRY(ps_client_done(s->client, head));
    s->changes = head->changes;
    TRY(tell_changes(s));
    if (head->rows != seen) last = clock_seconds();
    seen = head->rows;
    if (clock_seconds() - last > s->options.task.deadline)
      return status_make(SHOAL_ERR_PEER, "%d of %d workers are not done, and none has made a step in %g s",
                         head->running, s->base.workers, s->options.task.deadline);
  }
  return NULL;
}

static shoal_status say_goodbye(ps *s, ps_head *head) {
  /* Worker 0 gathers the parameters as they are; the others are to end with the same. */
  if (s->wire && s->base.sync && s->base.worker) TRY(ps_client_get(s->client, 0, s->values[0], head));
  TRY(ps_client_done(s->client, head));
  if (s->base.worker) return NULL;
  TRY(wait_for_others(s, head));
  if (s->counter) *s->counter = head->counter;
  return gather(&s->base);
}

static shoal_status end(shoal_strategy *base, bool early, strategy_outcome *out) {
  ps *s = (ps *)base;
  ps_head head;
  bool lost;
  const double begun = clock_seconds(), waited = s->since.barrier_seconds + s->since.server_seconds;
  if (early && base->worker)
    TRY(ps_explain(s, ps_take_answers(s))); /* it leaves, and the others go on; if all are to stop, they know */
  else if (early)
    TRY(stop(s));
  if (early) note_time(s, begun, waited);
  TRY(ps_explain(s, ps_may_be_lost(s, say_goodbye(s, &head), &lost)));
  take_outcome(s, out);
  out->stop = false;
  if ((out->lost = lost)) return NULL;
  out->place = (strategy_place){.updates = head.updates,
                                .rows = head.rows,
                                .next = STRATEGY_END,
                                .epochs = s->is_stream ? head.epochs : 0,
                                .clock = head.ready};
  s->ended = true;
  return NULL;
}

static void destroy(shoal_strategy *base) {
  ps *s = (ps *)base;
  shoal_status_free(ps_strategy_close(base)); /* how the training went is known */
  if (s->tasks) {
    if (s->ended) shoal_status_free(forked_wait(s->tasks, TASKS_END_SECONDS));
    forked_destroy(s->tasks);
  }
  free(s->names);
  free(s->addresses);
  if (s->options.ring) key_ring_fini(s->options.ring);
  free(s->options.ring);
  ps_leaves_destroy(s->leaves);
  ps_table_destroy(s->table);
  ps_local_destroy(s->local);
  ps_advice_destroy(s->advice);
  ps_client_destroy(s->client);
  shoal_status_free(s->error);
  free(s->dense);
  sparse_set_fini(&s->spread);
  for (int k = 0; k < s->n_values; k++) free(s->values[k]);
  free(s->gradients);
  shards_destroy(s->shards);
  for (int k = 0; k < s->n_vectors; k++) free(s->vectors[k]);
  free(s->vectors);
  free(s->counts);
  free(s->no_slot);
  if (s->place) placement_fini(s->place);
  free(s->place);
  free(s);
}

static const strategy_kind kind = {.name = "ps",
                                   .begin = ps_begin,
                                   .compute = ps_compute,
                                   .exchange = exchange,
                                   .gather = gather,
                                   .end = end,
                                   .follow_chief = strategy_no_copies,
                                   .destroy = destroy};

/* Through shared memory sending is copying, by the processors that compute: there is nothing to hide behind that. */
static bool sends_pieces(const ps_options *o) {
  if (o->replicas) return false; /* a new backup is given whole gradients only */
  return o->pieces ? o->pieces > 0 : strncmp(o->addresses[0], "shm:", 4) != 0;
}

shoal_status ps_make_client(const ps *s, const ps_servers *servers, placement **place, ps_client **out) {
  const ps_options *o = &s->options;
  placement *made = calloc(1, sizeof *made);
  if (!made) return status_no_memory();
  ps_client_options client = {.terms = o->terms,
                              .task = o->task,
                              .worker = o->worker,
                              .addresses = servers->addresses,
                              .replicas = o->replicas,
                              .folder = o->folder,
                              .listener = o->listener,
                              .on_failover = o->on_failover,
                              .has_moved = o->has_moved,
                              .place = made,
                              .variables = s->n_weights,
                              .trained = s->n_trained,
                              .pieces = sends_pieces(o)};
  client.terms.servers = servers->count;
  client.task.events = s->model->session->events;
  shoal_status status = ps_model_place(s->model, servers->count, o->table, made);
  if (!status) {
    status = ps_client_create(&client, out);
    if (!status && (status = ps_client_use_wire(*out, s->wire))) ps_client_destroy(*out);
    if (status) placement_fini(made);
  }
  if (status)
    free(made);
  else
    *place = made;
  return status;
}

/* What a training of this model needs of the servers; connects later. */
shoal_status ps_open_client(ps *s, shoal_model *m) {
  ps_options *o = &s->options;
  shoal_value **weights = NULL;
  shoal_status status = NULL;
  s->model = m;
  TRY(ps_model_terms(m, o->table, &o->terms));
  if (o->terms.local_steps) ps_local_terms(o, &o->terms);
  if (o->table && (s->wire || o->advised || o->terms.local_steps))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "of a table only the rows that a batch touches travel, and as f32: leave out wire formats, "
                       "compression and local steps");
  if (o->terms.row_slots && o->replicas)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "backups of servers do not hold slots of whole rows: use adagrad instead of %s, or no replicas",
                       m->options.optimizer.name);
  if (!o->table && o->cache.rows)
    return status_make(SHOAL_ERR_ARGUMENT, "cache_rows is for models with a table on the servers: leave it out");
  TRY(model_exchanged(m, &weights, &s->n_trained, &s->n_weights));
  TRY_GOTO(status, find_counter(s), done);
  if (!o->table) TRY_GOTO(status, find_all(s, weights), done);
  TRY_GOTO(status, ps_make_client(s, &(ps_servers){o->terms.servers, o->addresses}, &s->place, &s->client), done);
  s->watches = ps_client_takes_pieces(s->client);
  if (o->advised) TRY_GOTO(status, ps_advice_create(s->elements, s->base.sync ? s->base.workers : 1, &s->advice), done);
  if (o->table) TRY_GOTO(status, ps_table_create(m, s->client, s->base.sync ? NULL : &o->cache, &s->table), done);
done:
  free(weights);
  return status;
}

shoal_status ps_strategy_create(const ps_options *options, shoal_model *m, shoal_strategy **out) {
  if (m) TRY(model_ready(m));
  ps *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base = (shoal_strategy){.kind = &kind,
                             .rounds = options->terms.round > 0 || options->deterministic,
                             .worker = options->worker,
                             .workers = options->terms.workers,
                             .sync = options->terms.sync,
                             .leases = true,
                             .table = true,
                             .recovers = options->task.returns,
                             .restarts = options->table,
                             .local_steps = options->terms.local_steps};
  s->options = *options;
  s->wire = options->wire && options->wire->encode ? options->wire : NULL;
  shoal_status status = m ? ps_open_client(s, m) : NULL;
  if (status)
    destroy(&s->base);
  else
    *out = &s->base;
  return status;
}

shoal_status ps_strategy_report(shoal_strategy *base, const char *words) {
  return ps_client_report(((ps *)base)->client, words);
}

shoal_status ps_strategy_collect(shoal_strategy *base, char **out) {
  ps *s = (ps *)base;
  int workers = base->workers, n = workers + s->options.terms.servers;
  memset(out, 0, (size_t)n * sizeof *out);
  double end = clock_seconds() + s->options.task.deadline;
  shoal_status status = NULL;
  for (int i = 0; i < n && !status;) {
    int server = i < workers ? 0 : i - workers;
    bool gone = false;
    status = ps_client_collect(s->client, server, MIN_OF(i, workers), &out[i], &gone);
    if (status || out[i] || gone) {
      i++;
    } else if (clock_seconds() > end) {
      char name[CLUSTER_NAME];
      if (i < workers)
        cluster_worker_name(s->options.task.has_chief, i, name);
      else
        snprintf(name, sizeof name, "ps/%d", server);
      status = status_make(SHOAL_ERR_PEER, "no report of %s in %g s", name, s->options.task.deadline);
    } else {
      nanosleep(&(struct timespec){.tv_nsec = (long)(POLL_SECONDS * 1e9)}, NULL);
    }
  }
  for (int i = 0; i < n && status; i++) free(out[i]);
  return status;
}

shoal_status ps_strategy_close(shoal_strategy *base) {
  ps *s = (ps *)base;
  if (!s->client) return NULL;
  shoal_status status = s->ended && base->worker == 0 ? ps_client_quit(s->client) : NULL;
  ps_client_stats(s->client, &s->stats);
  ps_client_destroy(s->client);
  s->client = NULL;
  return status;
}

double ps_strategy_clock(const shoal_strategy *base, int server) {
  const ps *s = (const ps *)base;
  return s->client ? ps_client_clock(s->client, server) : 0;
}

int ps_strategy_server(const shoal_strategy *base, const shoal_value *variable) {
  const ps *s = (const ps *)base;
  shoal_tensor t;
  shoal_status status = shoal_session_variable(s->model->session, variable, &t);
  if (status) {
    shoal_status_free(status);
    return -1;
  }
  if (s->table) return 0;
  for (int server = 0; server < s->place->servers; server++)
    for (int i = s->place->begin[server]; i < s->place->begin[server + 1]; i++)
      if (s->place->slices[i].first == 0 && s->values[0][s->place->slices[i].variable] == t.data) return server;
  return -1;
}

void ps_strategy_stats(const shoal_strategy *base, net_stats *out) {
  const ps *s = (const ps *)base;
  if (s->client)
    ps_client_stats(s->client, out);
  else
    *out = s->stats;
}
