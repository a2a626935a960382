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

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
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

static shoal_status make_local(ps *s) {
  float **slots = s->n_values > 1 ? s->values[1] : calloc((size_t)s->n_weights, sizeof *slots);
  if (!slots) return status_no_memory();
  shoal_status status = ps_local_create(s->model, s->values[0], s->n_trained, s->gradients, slots, &s->local);
  if (s->n_values == 1) free(slots);
  return status;
}

/* Takes `status`: an error that connecting again may help against becomes *lost. */
static shoal_status may_be_lost(const ps *s, shoal_status status, bool *lost) {
  *lost = status && ps_client_lost(s->client) && shoal_status_code(status) == SHOAL_ERR_PEER &&
          (s->base.recovers || ps_client_fenced(s->client));
  if (!*lost) return status;
  shoal_status_free(status);
  return NULL;
}

static int64_t bytes_moved(const ps *s) {
  net_stats stats;
  ps_client_stats(s->client, &stats);
  return (int64_t)(stats.sent_bytes + stats.received_bytes);
}

static void give_batch(ps *s, int64_t batch) {
  if (batch >= 0) s->next[s->n_next++] = batch;
}

/* Notes where the training stands; async, an answer that gives nothing leaves the worker what it has. */
static void note_place(ps *s, const ps_answer *a) {
  s->since.place.updates = a->head.updates;
  s->since.place.rows = a->head.rows;
  s->since.place.clock = a->head.ready;
  s->since.place.index = a->head.index;
  s->since.place.epochs = a->head.epochs;
  s->changes = a->head.changes;
  s->over = s->over || a->stopped || a->next == PS_END;
  if (!a->stopped) give_batch(s, a->next);
}

/* Of rounds, whose rows every worker reads: where to begin with them. */
static shoal_status find_round(ps *s, strategy_place *place) {
  int64_t ignored = 0;
  TRY(ps_client_find(s->client, 0, &ignored, &place->marked, s->marked));
  if (*s->marked) place->mark = s->marked;
  return NULL;
}

/* Where to begin reading the shard to go on with, unless it is the one that this worker reads anyway. May be a batch that
 * the leader has had and another server not. */
static shoal_status find_mark(ps *s, strategy_place *place) {
  place->mark = NULL;
  if (!s->is_stream || place->next < 0) return NULL;
  if (place->next == s->shard && place->index == s->index + 1) return NULL;
  TRY(ps_client_find(s->client, place->next, &place->index, &place->marked, s->marked));
  if (place->marked) place->mark = s->marked;
  return NULL;
}

static int64_t next_batch(ps *s) {
  if (s->over && !s->n_next) return STRATEGY_END;
  if (!s->n_next) return STRATEGY_NOTHING;
  int64_t batch = s->next[0];
  s->n_next--;
  for (int i = 0; i < s->n_next; i++) s->next[i] = s->next[i + 1];
  return batch;
}

/* Batches below it are done, of a training in which so many rows are. In the middle of a round, which is where a training stands
 * whose workers went away, the parts before are. */
static int64_t first_batch(const lease_plan *p, int64_t rows_done) {
  const int64_t position = rows_done % p->rows;
  int64_t first = rows_done / p->rows * lease_plan_epoch_batches(p);
  if (!p->parts) return first + position / p->batch;
  first += position / p->round * p->parts;
  const int64_t next = first + p->parts;
  for (; position % p->round && first < next; first++) {
    const lease_span part = lease_plan_span(p, first);
    if (part.first + part.rows > position) break;
  }
  return first;
}

ps_start ps_plan_start(const ps *s, const strategy_place *place) {
  const strategy_plan *plan = &s->setup->plan;
  const lease_plan *batches = &plan->batches;
  ps_start start = {.counter = s->counter ? *s->counter : 0,
                    .rows_done = place->rows,
                    .batch = batches->batch,
                    .rows = batches->rows,
                    .end = batches->end,
                    .end_step = plan->end_step,
                    .round = batches->round};
  if (batches->rows) start.first = first_batch(batches, place->rows);
  return start;
}

/* Worker 0 uploads all that it has. */
static shoal_status upload(ps *s, const strategy_place *place, ps_answer *answer) {
  const ps_start start = ps_plan_start(s, place);
  if (s->table) TRY(s->base.checkpoint ? ps_table_restore(s->table, s->base.checkpoint) : ps_table_upload(s->table));
  for (int k = 0; k < s->n_values; k++) TRY(ps_client_set(s->client, k, s->values[k]));
  if (s->leaves && s->base.rounds && *s->setup->position)
    TRY(ps_client_mark(s->client, 0, 0, s->setup->position)); /* before the others ask for it */
  return ps_client_start(s->client, place->updates, &start, *s->setup->stream, answer);
}

void ps_take_batches(ps *s, const ps_answer *answer) {
  if (s->table) ps_table_forget(s->table);
  s->n_sent = s->n_next = 0;
  s->over = false;
  note_place(s, answer);
  if (s->in_flight > 1) give_batch(s, answer->head.also);
}

static shoal_status prepare(ps *s);

/* Connects to all servers and becomes a member of the training; *lost: a server went away meanwhile. */
static shoal_status join(ps *s, strategy_place *place, bool *lost) {
  ps_answer answer = {0};
  bool under_way = false;
  float *const *parameters = s->n_values ? s->values[0] : NULL;
  TRY(ps_follow(s));
  shoal_status status = ps_client_connect(s->client, &under_way);
  if ((*lost = status && ps_has_moved(s))) {
    shoal_status_free(status);
    return NULL;
  }
  TRY(status);
  const bool uploads = !s->base.worker && !under_way;
  if (uploads && s->moved) TRY(s->setup->restore(s->setup->context, place));
  s->moved = s->moved || !uploads;
  status = uploads ? upload(s, place, &answer) : ps_client_pull(s->client, parameters, &answer);
  TRY(may_be_lost(s, status, lost));
  if (*lost) return NULL;
  shoal_status_free(s->error); /* of the training before */
  s->error = NULL;
  s->is_stream = !s->setup->plan.batches.rows;
  s->in_flight = s->is_stream ? 1 : s->options.terms.in_flight;
  s->shard = STRATEGY_NOTHING;
  s->since = (strategy_outcome){0};
  ps_take_batches(s, &answer);
  if (under_way) s->known_changes = s->changes; /* an earlier life of worker 0 has told of those */
  *place = s->since.place;
  place->next = next_batch(s);
  return may_be_lost(s, s->leaves && s->base.rounds ? find_round(s, place) : find_mark(s, place), lost);
}

static shoal_status open_client(ps *s, shoal_model *m);

/* Servers and the other workers as copies of this process; in a copy that is a worker it returns, too. */
static shoal_status start_tasks(ps *s, shoal_model *m) {
  ps_options *o = &s->options;
  const int servers = o->terms.servers, n = servers + o->terms.workers - 1;
  uint64_t id;
  char names[PS_TASKS_MAX][32];
  const char *list[PS_TASKS_MAX];
  int task;
  if (getrandom(&id, sizeof id, 0) != sizeof id) return status_errno(errno, "no random number for the job's name");
  s->names = calloc((size_t)servers, sizeof *s->names);
  s->addresses = calloc((size_t)servers, sizeof *s->addresses);
  if (!s->names || !s->addresses) return status_no_memory();
  for (int i = 0; i < servers; i++) {
    snprintf(s->names[i], sizeof s->names[i], "shm:/shoal-%016llx-ps-%d", (unsigned long long)id, i);
    s->addresses[i] = s->names[i];
  }
  o->addresses = s->addresses;
  o->task.net.job = id;
  for (int i = 0; i < n; i++) {
    const bool server = i < servers;
    snprintf(names[i], sizeof names[i], "%s/%d", server ? "ps" : "worker", server ? i : i - servers + 1);
    list[i] = names[i];
  }
  TRY(forked_create(list, n, &task, &s->tasks));
  if (task < 0) return NULL;
  if (task < servers) {
    ps_server_result result;
    const ps_server_options server = {.index = task,
                                      .address = o->addresses[task],
                                      .terms = o->terms,
                                      .task = o->task,
                                      .kernels = m->options.kernels};
    shoal_status status = pool_after_fork(m->session->threads, true);
    shoal_session_destroy(m->session); /* so that its memory is not copied when the parent writes to it */
    m->session = NULL;
    forked_end(s->tasks, status ? status : ps_serve(&server, &result));
  }
  s->base.worker = o->worker = task - servers + 1;
  s->base.copy = s->tasks;
  return pool_after_fork(m->session->threads, false);
}

/* Takes `status`; of a peer that was started here, why it has gone is known. */
static shoal_status explain(ps *s, shoal_status status) {
  return status && s->tasks && !s->base.copy ? forked_explain(s->tasks, status) : status;
}

static shoal_status begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  ps *s = (ps *)base;
  shoal_model *m = setup->compute->model;
  bool lost = true;
  if (!s->client && s->setup)
    return status_make(SHOAL_ERR_ARGUMENT, "this strategy's training has ended: create another one");
  if (!s->client) {
    s->options.table = m->sparse && m->features > 0;
    if (m->ids) return status_make(SHOAL_ERR_ARGUMENT, "growing ids are in this process: train it without a strategy");
    if (s->options.deterministic) s->options.terms.round = setup->plan.batches.round;
    if (s->options.local) TRY(start_tasks(s, m));
    TRY(open_client(s, m));
  }
  if (!s->setup) {
    s->setup = setup;
    TRY(prepare(s));
  }
  while (lost) TRY(explain(s, join(s, place, &lost)));
  return NULL;
}

/* ---- computing */

/* Vectors for the parts of a round. */
static shoal_status prepare_rounds(ps *s) {
  TRY(shards_create(s->setup, -1, s->base.workers, s->base.workers, true, &s->shards));
  int n = shards_vectors(s->shards);
  free(s->gradients);
  s->gradients = calloc((size_t)(n * s->n_weights), sizeof *s->gradients);
  s->vectors = calloc((size_t)n, sizeof *s->vectors);
  if (!s->gradients || !s->vectors) return status_no_memory();
  for (int k = 0; k < n; k++) {
    TRY(mem_aligned((size_t)s->elements * sizeof **s->vectors, (void **)&s->vectors[k]));
    s->n_vectors = k + 1;
    float *at = s->vectors[k];
    for (int i = 0; i < s->n_weights; at += s->counts[i++]) s->gradients[k * s->n_weights + i] = at;
  }
  return NULL;
}

static shoal_status prepare(ps *s) {
  const compute *c = s->setup->compute;
  if (s->table)
    return ps_leaves_create(s->setup, s->table, s->base.rounds ? s->setup->round : 0, s->base.workers, &s->leaves);
  if (s->base.rounds) return prepare_rounds(s);
  if (s->options.terms.local_steps) TRY(make_local(s));
  if (c->model->sparse) {
    ps_table_shape table;
    TRY(ps_table_find(c->model, s->options.terms.servers, &table));
    if (table.width != 1 || !ps_table_first(c->model))
      return status_make(SHOAL_ERR_ARGUMENT, "`transfer` dense is for tables of one weight a feature");
    s->dense = calloc((size_t)model_features(c->model), sizeof *s->dense);
    return s->dense ? NULL : status_no_memory();
  }
  const int64_t rows = s->setup->plan.batches.rows, batch = s->setup->batch / MAX_OF(s->base.local_steps, 1);
  TRY(compute_plan_batch(c, &s->setup->example, rows ? MIN_OF(batch, rows) : batch));
  return compute_plan_batch(c, &s->setup->example, rows % s->setup->batch % batch);
}

/* A gradient is there before the others are: what is large enough goes out now. */
static void on_ready(void *context, int fetch, const shoal_tensor *gradient) {
  ps *s = context;
  const int which = fetch - s->setup->compute->first_gradient;
  if (which < 0 || s->error) return;
  double begun = clock_seconds();
  int64_t before = bytes_moved(s);
  s->gradients[which] = gradient->data;
  s->error = ps_client_ready(s->client, s->gradients, which);
  s->since.bytes += bytes_moved(s) - before;
  s->since.network_seconds += clock_seconds() - begun;
}

static void on_phase(void *context) {}

/* This worker's part of a round, whose rows all workers cut among them. */
static shoal_status compute_part(ps *s, const train_batch *b) {
  shards_sum sum;
  train_batch round = *b;
  round.first = b->span.round;
  round.rows = b->span.round_rows;
  shards_take(s->shards, b->span.part);
  TRY(compute_explain(s->setup->compute, &round, shards_run(s->shards, &round, false, s->vectors, &sum)));
  s->part = (ps_head){.loss = sum.loss, .hits = sum.hits, .examples = sum.examples};
  s->span = b->span;
  return NULL;
}

/* The gradient of the touched rows as one of all. */
static shoal_status spread(ps *s, const train_batch *b) {
  const shoal_tensor *gradient = compute_gradients(s->setup->compute);
  const float *rows = gradient->data;             /* [entries, 1] */
  const int32_t *index = b->sparse->indices.data; /* [entries] */
  const int64_t entries = gradient->shape.dim[0];
  memset(s->dense, 0, (size_t)model_features(s->model) * sizeof *s->dense);
  for (int64_t e = 0; e < entries; e++) s->dense[index[e]] += rows[e];
  s->gradients[0] = s->dense;
  TRY(sparse_set_make(&s->spread, index, entries));
  s->since.touched += s->spread.n;
  return NULL;
}

/* The rows of a table that the batch needs, unless they came with the last answer. */
static shoal_status fetch_rows(ps *s, const train_batch *b) {
  if (ps_table_kept(s->table) && b->shard == s->rows_shard && b->index == s->rows_index) return NULL;
  return ps_table_fetch(s->table, b->sparse, true, &s->indices);
}

static shoal_status compute_local(ps *s, const train_batch *b) {
  const int64_t steps = s->base.local_steps;
  const ps_local_plan plan = {.steps = steps, .batch = s->setup->batch / steps, .done = s->since.place.updates * steps};
  return ps_local_compute(s->local, s->setup->compute, b, &plan, &s->part, &s->local_rate);
}

static shoal_status compute_batch(shoal_strategy *base, const train_batch *b) {
  ps *s = (ps *)base;
  compute *c = s->setup->compute;
  s->part = (ps_head){.examples = b->rows};
  s->span = s->table ? b->span : (lease_span){0};
  s->shard = b->shard;
  s->index = b->index;
  s->mark = b->mark;
  s->begun = s->advice ? clock_seconds() : 0;
  if (!b->rows) return NULL;
  if (s->shards) return compute_part(s, b);
  if (s->local) return compute_local(s, b);
  if (s->table && (s->error = fetch_rows(s, b))) return NULL; /* `exchange` tells, and whether all is to begin again */
  if (s->table) return ps_leaves_run(s->leaves, b, &s->indices, &s->part);
  const bool early = s->watches && !s->dense; /* rows that were touched are spread over the whole table first */
  TRY(compute_run(c, b, NULL, early ? &(session_watcher){s, on_ready, on_phase} : NULL));
  compute_losses(c, b->rows, &s->part.loss, &s->part.hits);
  for (int i = 0; i < s->n_weights; i++) s->gradients[i] = compute_gradients(c)[i].data;
  return s->dense ? spread(s, b) : NULL;
}

/* ---- steps */

/* Takes note of the answer to the oldest part. */
static void note_answer(ps *s, const ps_answer *a) {
  strategy_outcome *o = &s->since;
  const ps_head *sent = &s->sent[0], *about = s->base.sync ? &a->head : sent;
  s->moved = true;
  note_place(s, a);
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
  note_place(s, &answer);
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
  const int64_t before = bytes_moved(s);
  const double begun = clock_seconds(), waited = s->since.barrier_seconds + s->since.server_seconds;
  shoal_status status = hand_on(s, next);
  if (!status) status = tell_changes(s);
  if (!status) status = ps_move_if_due(s);
  TRY(explain(s, may_be_lost(s, status, &lost)));
  if (lost) {
    *out = (strategy_outcome){.lost = true};
    return NULL;
  }
  s->since.bytes += bytes_moved(s) - before;
  note_time(s, begun, waited);
  if (s->advice) TRY(take_advice(s));
  take_outcome(s, out);
  out->place.next = next_batch(s);
  TRY(may_be_lost(s, find_mark(s, &out->place), &out->lost));
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
    TRY(explain(s, ps_take_answers(s))); /* it leaves, and the others go on; if all are to stop, they know */
  else if (early)
    TRY(stop(s));
  if (early) note_time(s, begun, waited);
  TRY(explain(s, may_be_lost(s, say_goodbye(s, &head), &lost)));
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
                                   .begin = begin,
                                   .compute = compute_batch,
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
static shoal_status open_client(ps *s, shoal_model *m) {
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
  shoal_status status = m ? open_client(s, m) : NULL;
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
