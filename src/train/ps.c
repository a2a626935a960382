#include "train/ps_terms.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/optimizer.h"
#include "train/ps_table.h"
#include "train/shards.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLL_SECONDS 0.01 /* between two looks whether the others are done */

typedef struct {
  shoal_strategy base;
  ps_options options;
  placement place;
  text settings;
  ps_client *client;
  shoal_model *model;
  ps_table *table; /* NULL: each worker has all parameters */
  /* [1 + slots] lists of pointers to the numbers of the trained weights, in their order: the weights, then each slot */
  float **values[1 + OPTIMIZER_MOST_SLOTS];
  int n_values, n_weights;
  int64_t *counts, elements; /* [n_weights] numbers of each; all of them. Not of a table */
  int64_t *counter;   /* the optimizer's; NULL: it has none */
  float **gradients;  /* [n_weights] of the step under way; of a round: [vectors][n_weights] */
  shards *shards;     /* of a round; otherwise NULL */
  float **vectors;    /* [n_vectors][elements] what they have come to */
  int n_vectors;
  bool is_stream;     /* rows come from one */
  int in_flight;      /* of the training under way: parts that may be without answer */
  ps_head sent[PS_FLIGHT_MOST]; /* those parts, oldest first */
  int n_sent;
  int64_t next[PS_FLIGHT_MOST]; /* batches that were given to this worker and are to be computed, oldest first */
  int n_next;
  bool over;          /* there will be no others */
  strategy_outcome since; /* of the answers that came since the last outcome */
  shoal_status error; /* the first that `ready` met, for the step */
  bool ended;
  net_stats stats;    /* of the connections, once closed */
} ps;

/* Pointers to the numbers of all weights, or of the slot of that name of each. */
static shoal_status find_values(ps *s, shoal_value **weights, const char *slot, float **out) {
  for (int i = 0; i < s->n_weights; i++) {
    shoal_value *v = weights[i];
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
  const char *counter = optimizer_counter(&s->model->options.optimizer, name);
  if (!counter) return NULL;
  shoal_tensor t;
  TRY(shoal_session_variable(s->model->session, shoal_graph_find(s->model->graph, counter), &t));
  s->counter = t.data;
  return NULL;
}

static shoal_status find_all(ps *s, shoal_value **weights) {
  const char *slots[OPTIMIZER_MOST_SLOTS];
  int n_slots = optimizer_slots(&s->model->options.optimizer, slots);
  for (int k = 0; k <= n_slots; k++) {
    s->values[k] = calloc((size_t)s->n_weights, sizeof **s->values);
    if (!s->values[k]) return status_no_memory();
    s->n_values = k + 1;
    TRY(find_values(s, weights, k ? slots[k - 1] : NULL, s->values[k]));
  }
  s->counts = calloc((size_t)s->n_weights, sizeof *s->counts);
  if (!s->counts) return status_no_memory();
  for (int i = 0; i < s->n_weights; i++) s->elements += s->counts[i] = shoal_shape_count(&weights[i]->shape);
  s->gradients = calloc((size_t)s->n_weights, sizeof *s->gradients);
  return s->gradients ? NULL : status_no_memory();
}

/* Takes `status`: an error that meeting again may help against becomes *lost. */
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

/* Notes where the training stands; apart, an answer that gives nothing leaves the worker what it has. */
static void note_place(ps *s, const ps_answer *a) {
  s->since.place.updates = a->head.updates;
  s->since.place.rows = a->head.rows;
  s->since.place.clock = a->head.ready;
  s->since.place.index = a->head.index;
  s->since.place.epochs = a->head.epochs;
  s->over = s->over || a->stopped || a->next == PS_END;
  if (!a->stopped) give_batch(s, a->next);
}

static int64_t next_batch(ps *s) {
  if (s->over && !s->n_next) return STRATEGY_END;
  if (!s->n_next) return STRATEGY_NOTHING;
  int64_t batch = s->next[0];
  s->n_next--;
  for (int i = 0; i < s->n_next; i++) s->next[i] = s->next[i + 1];
  return batch;
}

static shoal_status meet(shoal_strategy *base, bool *under_way) {
  return ps_client_meet(((ps *)base)->client, under_way);
}

/* Brings all that worker 0 has. */
static shoal_status bring(ps *s, const strategy_plan *plan, const strategy_place *place, ps_answer *answer) {
  const lease_plan *batches = &plan->batches;
  ps_start start = {.counter = s->counter ? *s->counter : 0,
                    .rows_done = place->rows,
                    .batch = batches->batch,
                    .rows = batches->rows,
                    .end = batches->end,
                    .end_step = plan->end_step,
                    .round = batches->round};
  if (batches->rows) {
    int64_t position = place->rows % batches->rows;
    start.first = place->rows / batches->rows * lease_plan_epoch_batches(batches);
    start.first += batches->parts ? position / batches->round * batches->parts : position / batches->batch;
  }
  if (s->table && s->base.checkpoint) TRY(ps_table_restore(s->table, s->base.checkpoint));
  for (int k = 0; k < s->n_values; k++) TRY(ps_client_set(s->client, k, s->values[k]));
  return ps_client_start(s->client, place->updates, &start, plan->stream, answer);
}

static shoal_status begin(shoal_strategy *base, shoal_model *m, const strategy_plan *plan, bool under_way,
                          strategy_place *place, bool *lost) {
  ps *s = (ps *)base;
  ps_answer answer = {0};
  float *const *parameters = s->n_values ? s->values[0] : NULL;
  shoal_status status = base->worker || under_way ? ps_client_pull(s->client, parameters, &answer)
                                                  : bring(s, plan, place, &answer);
  TRY(may_be_lost(s, status, lost));
  if (*lost) return NULL;
  s->is_stream = !plan->batches.rows;
  s->in_flight = s->is_stream ? 1 : ps_flight(&s->options);
  s->n_sent = s->n_next = 0;
  s->over = false;
  s->since = (strategy_outcome){0};
  note_place(s, &answer);
  if (s->in_flight > 1) give_batch(s, answer.head.also);
  *place = s->since.place;
  place->next = next_batch(s);
  return NULL;
}

static shoal_status fetch(shoal_strategy *base, const shoal_batch *b) {
  return ps_table_fetch(((ps *)base)->table, b, true, &base->indices);
}

/* ---- the parts of a round */

static shoal_status prepare(shoal_strategy *base, const strategy_setup *setup) {
  ps *s = (ps *)base;
  TRY(shards_create(setup, -1, base->workers, base->workers, true, &s->shards));
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

static shoal_status compute(shoal_strategy *base, const strategy_rows *rows, strategy_part *out) {
  ps *s = (ps *)base;
  shards_sum sum;
  shards_take(s->shards, out->span.part);
  TRY(shards_run(s->shards, rows, false, s->vectors, &sum));
  out->examples = sum.examples;
  out->loss = sum.loss;
  out->hits = sum.hits;
  return NULL;
}

/* ---- steps */

/* Takes note of the answer to the oldest part. */
static void note_answer(ps *s, const ps_answer *a) {
  strategy_outcome *o = &s->since;
  const ps_head *sent = &s->sent[0], *about = s->base.together ? &a->head : sent;
  note_place(s, a);
  o->stop = o->stop || a->stopped;
  o->barrier_seconds += a->waited;
  o->server_seconds += a->worked;
  o->rate = a->head.rate;
  if (!(a->stopped && a->late)) { /* together, the step is counted also where this part of it came too late */
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

static shoal_status take_all_answers(ps *s) {
  while (s->n_sent) TRY(take_answer(s));
  return NULL;
}

static shoal_status push_table(ps *s, const strategy_part *part, ps_head *head) {
  ps_answer answer = {0};
  s->since.touched += part->examples ? ps_table_touched(s->table) : 0;
  TRY(ps_table_push(s->table, part->gradients, part->next, head, &s->base.indices, &answer));
  if (s->counter) *s->counter = answer.head.counter;
  note_answer(s, &answer);
  return NULL;
}

/* A gradient is there before the others are: what is large enough goes out now. */
static void ready(shoal_strategy *base, int which, const shoal_tensor *gradient) {
  ps *s = (ps *)base;
  if (s->error) return;
  double begun = clock_seconds();
  int64_t before = bytes_moved(s);
  s->gradients[which] = gradient->data;
  s->error = ps_client_ready(s->client, s->gradients, which);
  s->since.bytes += bytes_moved(s) - before;
  s->since.network_seconds += clock_seconds() - begun;
}

/* Asks for a shard of a stream. */
static shoal_status ask(ps *s) {
  ps_answer answer = {0};
  TRY(ps_client_ask(s->client, s->n_values ? s->values[0] : NULL, &answer));
  note_place(s, &answer);
  s->since.stop = s->since.stop || answer.stopped;
  return NULL;
}

static shoal_status find(shoal_strategy *base, int64_t shard, int64_t *index, char position[SHOAL_POSITION_TEXT]) {
  return ps_client_find(((ps *)base)->client, shard, index, position);
}

/* Hands on a part, and takes answers until there is a batch to go on with, or none any more. */
static shoal_status push(ps *s, const strategy_part *part, ps_head *head) {
  shoal_status error = s->error;
  s->error = NULL;
  TRY(error);
  s->sent[s->n_sent++] = *head;
  if (s->table) return push_table(s, part, head);
  if (s->shards) {
    head->first_leaf = (int32_t)part->span.first_leaf;
    head->last_leaf = (int32_t)part->span.last_leaf;
    head->round_rows = part->span.round_rows;
  }
  for (int i = 0; part->examples && !s->shards && i < s->n_weights; i++) s->gradients[i] = part->gradients[i].data;
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

static shoal_status take_step(shoal_strategy *base, const strategy_part *part, strategy_outcome *out) {
  ps *s = (ps *)base;
  ps_head head = {.loss = part->loss, .hits = part->hits, .examples = part->examples};
  bool lost, asks = s->is_stream && !base->together && part->shard < 0;
  int64_t before = bytes_moved(s);
  if (s->is_stream) {
    head.shard = part->shard;
    head.batch = part->index;
    head.shard_epochs = part->epochs;
  }
  shoal_status status = part->position ? ps_client_mark(s->client, part->shard, part->index + 1, part->position) : NULL;
  if (!status) status = asks ? ask(s) : push(s, part, &head);
  TRY(may_be_lost(s, status, &lost));
  if (lost) {
    *out = (strategy_outcome){.lost = true};
    return NULL;
  }
  s->since.bytes += bytes_moved(s) - before;
  take_outcome(s, out);
  out->place.next = next_batch(s);
  return NULL;
}

static shoal_status stop(shoal_strategy *base) {
  ps *s = (ps *)base;
  ps_answer answers[PS_FLIGHT_MOST];
  int n;
  TRY(ps_client_stop(s->client, s->n_values ? s->values[0] : NULL, answers, &n));
  for (int i = 0; i < n; i++) note_answer(s, &answers[i]);
  return NULL;
}

static void settle(shoal_strategy *base, strategy_outcome *out) { take_outcome((ps *)base, out); }

static shoal_status gather(shoal_strategy *base) {
  ps *s = (ps *)base;
  ps_head head;
  int first = base->together ? 1 : 0; /* together, the parameters here are fresh */
  TRY(take_all_answers(s));
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
    if (head->rows != seen) last = clock_seconds();
    seen = head->rows;
    if (clock_seconds() - last > s->options.answer_seconds)
      return status_make(SHOAL_ERR_PEER, "%d of %d workers are not done, and none has made a step in %g s",
                         head->running, s->base.workers, s->options.answer_seconds);
  }
  return NULL;
}

static shoal_status say_goodbye(ps *s, ps_head *head) {
  TRY(ps_client_done(s->client, head));
  if (s->base.worker) return NULL;
  TRY(wait_for_others(s, head));
  if (s->counter) *s->counter = head->counter;
  return gather(&s->base);
}

static shoal_status end(shoal_strategy *base, strategy_place *place, bool *lost) {
  ps *s = (ps *)base;
  ps_head head;
  TRY(may_be_lost(s, say_goodbye(s, &head), lost));
  if (*lost) return NULL;
  *place = (strategy_place){.updates = head.updates,
                            .rows = head.rows,
                            .next = STRATEGY_END,
                            .epochs = s->is_stream ? head.epochs : 0,
                            .clock = head.ready};
  s->ended = true;
  return NULL;
}

static const strategy_kind kind = {.name = "ps",
                                   .meet = meet,
                                   .begin = begin,
                                   .step = take_step,
                                   .ready = ready,
                                   .find = find,
                                   .settle = settle,
                                   .stop = stop,
                                   .gather = gather,
                                   .end = end};
static const strategy_kind rounds_kind = {.name = "ps",
                                          .meet = meet,
                                          .begin = begin,
                                          .step = take_step,
                                          .settle = settle,
                                          .prepare = prepare,
                                          .compute = compute,
                                          .stop = stop,
                                          .gather = gather,
                                          .end = end};
static const strategy_kind table_kind = {.name = "ps",
                                         .meet = meet,
                                         .begin = begin,
                                         .step = take_step,
                                         .settle = settle,
                                         .fetch = fetch,
                                         .find = find,
                                         .stop = stop,
                                         .gather = gather,
                                         .end = end};

shoal_status ps_strategy_create(const ps_options *options, shoal_model *m, shoal_strategy **out) {
  TRY(model_ready(m));
  ps *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base = (shoal_strategy){.kind = options->table ? &table_kind : options->round ? &rounds_kind : &kind,
                             .rounds = options->round > 0,
                             .worker = options->worker,
                             .workers = options->workers,
                             .together = options->together,
                             .recovers = options->returns && !options->table};
  s->options = *options;
  s->model = m;
  shoal_value **weights = NULL;
  shoal_status status = NULL;
  TRY_GOTO(status, ps_place_weights(m, options, &s->place), done);
  TRY_GOTO(status, ps_write_settings(options, m, &s->place, &s->settings), done);
  TRY_GOTO(status, model_weights(m, true, &weights, &s->n_weights), done);
  TRY_GOTO(status, find_counter(s), done);
  if (!options->table) TRY_GOTO(status, find_all(s, weights), done);
  ps_client_options client = {.addresses = options->addresses,
                              .place = &s->place,
                              .round = options->round,
                              .workers = options->workers,
                              .variables = s->n_weights,
                              .pieces = ps_sends_pieces(options),
                              .touched = options->table ? m->input.dim[0] : 0,
                              .net = options->net,
                              .settings = s->settings.data,
                              .backups = options->backups > 0,
                              .connect_seconds = options->connect_seconds,
                              .again_seconds = options->returns ? options->answer_seconds : 0,
                              .events = m->session->events,
                              .stop = options->stop,
                              /* Longer than a server waits, which knows who is missing and is to say so first. */
                              .answer_seconds = 1.5 * options->answer_seconds + 1};
  client.net.from = (uint32_t)options->worker;
  TRY_GOTO(status, ps_client_create(&client, &s->client), done);
  s->base.watches = ps_client_takes_pieces(s->client);
  if (options->table) TRY_GOTO(status, ps_table_create(m, s->client, &s->table), done);
done:
  free(weights);
  if (status)
    ps_strategy_destroy(&s->base);
  else
    *out = &s->base;
  return status;
}

shoal_status ps_strategy_report(shoal_strategy *base, const char *words) {
  return ps_client_report(((ps *)base)->client, words);
}

shoal_status ps_strategy_collect(shoal_strategy *base, char **out) {
  ps *s = (ps *)base;
  int workers = base->workers, n = workers + s->options.servers;
  memset(out, 0, (size_t)n * sizeof *out);
  double end = clock_seconds() + s->options.answer_seconds;
  shoal_status status = NULL;
  for (int i = 0; i < n && !status;) {
    int server = i < workers ? 0 : i - workers;
    bool gone = false;
    status = ps_client_collect(s->client, server, MIN_OF(i, workers), &out[i], &gone);
    if (status || out[i] || gone) {
      i++;
    } else if (clock_seconds() > end) {
      status = status_make(SHOAL_ERR_PEER, "no report of %s/%d in %g s", i < workers ? "worker" : "ps",
                           i < workers ? i : server, s->options.answer_seconds);
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

void ps_strategy_destroy(shoal_strategy *base) {
  ps *s = (ps *)base;
  if (!s) return;
  ps_table_destroy(s->table);
  ps_client_destroy(s->client);
  shoal_status_free(s->error);
  free(s->base.checkpoint);
  free(s->base.stream);
  for (int k = 0; k < s->n_values; k++) free(s->values[k]);
  free(s->gradients);
  shards_destroy(s->shards);
  for (int k = 0; k < s->n_vectors; k++) free(s->vectors[k]);
  free(s->vectors);
  free(s->counts);
  placement_fini(&s->place);
  text_fini(&s->settings);
  free(s);
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
  for (int server = 0; server < s->place.servers; server++)
    for (int i = s->place.begin[server]; i < s->place.begin[server + 1]; i++)
      if (s->place.slices[i].first == 0 && s->values[0][s->place.slices[i].variable] == t.data) return server;
  return -1;
}

void ps_strategy_stats(const shoal_strategy *base, net_stats *out) {
  const ps *s = (const ps *)base;
  if (s->client)
    ps_client_stats(s->client, out);
  else
    *out = s->stats;
}
