#include "dist/ps_server.h"

#include "base/clock.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/text.h"
#include "dist/id_rows.h"
#include "dist/ps_replica.h"
#include "dist/ps_server_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOOK_SECONDS 0.1    /* how often the server looks at the time */
#define CLOSING_SECONDS 2.0 /* for the last answers to be read */

double server_clock(const server *s) { return clock_seconds() + s->clock_ahead; }

/* ---- answers */

shoal_status server_send(server *s, uint64_t peer, const net_header *header, const net_part *parts, int n) {
  bool drops = s->replays;
  if (s->replica && !drops) TRY(replica_await_backup(s, &drops));
  return drops ? NULL : net_answer(s->net, peer, header, parts, n);
}

/* With n parts in s->parts, from the second on; the first is the head. arrived: clock, the request. */
static shoal_status answer_parts(server *s, const net_message *m, double arrived, int64_t number, uint16_t flags,
                                 int n) {
  net_header h = {.kind = m->header.kind,
                  .flags = flags | (s->drain_until && m->header.kind == PS_PUSH && !m->header.from ? PS_DRAIN : 0),
                  .from = m->header.from,
                  .generation = s->generation,
                  .step = (uint64_t)s->head.updates,
                  .number = (uint64_t)number};
  const int64_t *counter = ps_vectors_counter(s->vectors);
  s->head.counter = counter ? *counter : 0;
  s->head.running = (int16_t)s->n_here;
  if (s->leads && is_stream(s) && s->streams.n) {
    s->head.epochs = stream_leases_epochs(&s->streams);
    s->head.index = number >= 0 && number < s->streams.n ? s->streams.shards[number].done : 0;
  }
  s->head.steps = s->workers[m->header.from].steps;
  s->head.changes = (int32_t)s->n_changes;
  s->head.arrived = arrived;
  s->head.ready = m->header.kind == PS_DONE ? s->last_update : s->now;
  s->head.answered = server_clock(s);
  s->parts[0] = (net_part){&s->head, sizeof s->head};
  if (s->replica && ps_counts(h.kind)) {
    worker *w = &s->workers[m->header.from];
    w->past[w->answered++ % PS_FLIGHT_MAX] = (past_answer){h, s->head};
  }
  return server_send(s, m->peer, &h, s->parts, n);
}

/* The parameters themselves, or another vector. */
static int add_whole(server *s, int which) {
  ps_vectors_parts(s->vectors, which, s->parts + 1);
  return 1 + ps_vectors_n_parts(s->vectors);
}

/* The parameters in the format that a PUSH asks for. Nobody hears what a backup says. */
static shoal_status add_encoded(server *s, int from, const wire_format *f, int *n, uint16_t *flags) {
  const wire_format *as;
  *n = 1;
  if (s->replays) return NULL;
  TRY(ps_copies_answer(s->copies, from, s->head.updates, f, &s->parts[1], &as));
  *flags |= ps_wire_flags(as);
  *n += s->parts[1].bytes > 0;
  return NULL;
}

shoal_status server_add_vector(server *s, const net_header *to, int which, int *n, uint16_t *flags) {
  const int from = (int)to->from;
  const wire_format *f = to->kind == PS_PUSH ? ps_wire_of(to->flags) : NULL;
  *n = 1;
  if (which == NO_VECTOR) return NULL;
  if (s->rows && which == PS_PARAMETERS) {
    s->parts[1] = sparse_rows_answer(s->rows, from, s->vectors, true);
    *n = 2;
    return NULL;
  }
  if (f && f->encode && which == PS_PARAMETERS) return add_encoded(s, from, f, n, flags);
  ps_copies_forget(s->copies, from);
  *n = add_whole(s, which);
  return NULL;
}

int server_add_again(server *s, int from, bool parameters) {
  if (!parameters) return 1;
  if (s->rows) {
    s->parts[1] = sparse_rows_repeat(s->rows, from, s->vectors);
    return 2;
  }
  ps_copies_forget(s->copies, from);
  return add_whole(s, PS_PARAMETERS);
}

shoal_status server_answer(server *s, const net_message *m, int64_t number, int which, uint16_t flags) {
  int n;
  TRY(server_add_vector(s, &m->header, which, &n, &flags));
  return answer_parts(s, m, s->workers[m->header.from].heard, number, flags, n);
}

shoal_status server_answer_held(server *s, const request *r, int64_t number, int64_t also, uint16_t flags) {
  const net_message *m = &r->message;
  int which = m->header.kind == PS_PULL && flags & PS_IDLE ? NO_VECTOR : PS_PARAMETERS, n;
  TRY(server_add_vector(s, &m->header, which, &n, &flags));
  s->head.also = also;
  s->head.behind = r->behind;
  shoal_status status = answer_parts(s, m, r->arrived, number, flags, n);
  s->head.also = PS_NO_BATCH;
  s->head.behind = 0;
  return status;
}

shoal_status server_say(server *s, const net_message *m, uint16_t flags, const char *why) {
  net_header h = {.kind = m->header.kind, .flags = flags, .from = m->header.from, .step = m->header.step};
  net_part part = {why, strlen(why)};
  return server_send(s, m->peer, &h, &part, 1);
}

static shoal_status refuse(server *s, const net_message *m, const char *why) {
  return server_say(s, m, PS_REFUSED, why);
}

/* ---- messages */

shoal_status server_disband(server *s) {
  s->started = s->start_asked = s->stopping = false;
  for (int w = 1; w < s->terms.workers; w++) {
    worker *k = &s->workers[w];
    for (int i = 0; i < k->waits; i++)
      TRY(server_say(s, &k->held[i].message, PS_FENCED, "the chief has restarted the training"));
    TRY(steps_lose(s, k, 0));
  }
  return NULL;
}

static shoal_status on_set(server *s, const net_message *m) {
  uint64_t which = m->header.number;
  size_t bytes = (size_t)s->terms.elements * sizeof(float);
  if (m->header.from != 0) return refuse(s, m, "only worker 0 uploads parameters");
  if (which >= (uint64_t)ps_vectors_count(s->vectors) || m->bytes != sizeof(ps_head) + bytes || s->rows)
    return refuse(s, m, "this server has no vector of that number and size");
  if (s->start_asked) TRY(server_disband(s));
  ps_vectors_set(s->vectors, (int)which, 0, s->terms.elements, (const float *)(m->payload + sizeof(ps_head)));
  return server_answer(s, m, 0, NO_VECTOR, 0);
}

/* ---- a table */

static shoal_status on_rows(server *s, const net_message *m) {
  if (!s->rows) return refuse(s, m, "this server holds no table");
  if (s->workers[m->header.from].waits) return refuse(s, m, "ROWS is not expected now");
  const char *wrong = sparse_rows_ask(s->rows, (int)m->header.from, m, 0);
  if (wrong) return refuse(s, m, wrong);
  s->parts[1] = sparse_rows_answer(s->rows, (int)m->header.from, s->vectors, m->header.number & 1);
  return answer_parts(s, m, s->now, 0, 0, 2);
}

/* Whether there are the elements that a message is about. */
static bool find_piece(const server *s, const net_message *m, ps_piece *out) {
  if (m->bytes < sizeof *out) return false;
  memcpy(out, m->payload, sizeof *out);
  return out->which >= 0 && out->which < ps_vectors_count(s->vectors) && out->first >= 0 && out->count >= 0 &&
         out->count <= PS_PIECE_MAX && out->first <= ps_vector_elements(&s->terms, out->which) - out->count;
}

/* Whether it is about the rows of growing ids. */
static bool is_of_ids(const server *s, const net_message *m) {
  ps_piece piece;
  if (!s->rows || !sparse_rows_ids(s->rows) || m->bytes < sizeof piece) return false;
  memcpy(&piece, m->payload, sizeof piece);
  return piece.which >= PS_IDS;
}

static shoal_status read_ids(server *s, const net_message *m) {
  ps_piece piece;
  memcpy(&piece, m->payload, sizeof piece);
  if (piece.which == PS_IDS_BASE && m->header.from != 0) return refuse(s, m, "only worker 0 saves");
  const char *wrong = id_rows_read(sparse_rows_ids(s->rows), &piece, &s->parts[1]);
  return wrong ? refuse(s, m, wrong) : answer_parts(s, m, s->now, 0, 0, 2);
}

/* What does not fit the table is the worker's concern. */
static shoal_status write_ids(server *s, const net_message *m) {
  ps_piece piece;
  const char *wrong;
  memcpy(&piece, m->payload, sizeof piece);
  shoal_status status =
      id_rows_write(sparse_rows_ids(s->rows), &piece, m->payload + sizeof piece, m->bytes - sizeof piece, &wrong);
  if (shoal_status_code(status) != SHOAL_ERR_INPUT) TRY(status);
  if (!status && !wrong) return server_answer(s, m, 0, NO_VECTOR, 0);
  shoal_status said = refuse(s, m, status ? shoal_status_message(status) : wrong);
  shoal_status_free(status);
  return said;
}

static shoal_status on_read(server *s, const net_message *m) {
  ps_piece piece;
  if (is_of_ids(s, m)) return read_ids(s, m);
  if (!s->rows || !find_piece(s, m, &piece) || m->bytes != sizeof piece)
    return refuse(s, m, "this server has no such part of a table");
  const float *at = ps_vectors_table(s->vectors, (int)piece.which) + piece.first;
  s->parts[1] = (net_part){at, (size_t)piece.count * sizeof *at};
  return answer_parts(s, m, s->now, 0, 0, 2);
}

/* A table begins as its optimizer makes it, also when a training begins once more. */
static shoal_status renew_table(server *s) {
  ps_vectors_destroy(s->vectors);
  s->vectors = NULL;
  TRY(ps_vectors_create(s->options, &s->terms, &s->vectors));
  return sparse_rows_renew(s->rows, s->vectors);
}

static shoal_status on_write(server *s, const net_message *m) {
  ps_piece piece;
  if (m->header.from != 0) return refuse(s, m, "only worker 0 uploads parameters");
  const bool ids = is_of_ids(s, m);
  if (!ids && (!find_piece(s, m, &piece) || m->bytes != sizeof piece + (size_t)piece.count * sizeof(float)))
    return refuse(s, m, "this server has no such part of a vector");
  if (s->start_asked) TRY(server_disband(s));
  if (s->rows && s->generation && !s->written) TRY(renew_table(s)); /* what is not written is to begin anew */
  s->written = true;
  if (ids) return write_ids(s, m);
  ps_vectors_set(s->vectors, (int)piece.which, piece.first, piece.count, (const float *)(m->payload + sizeof piece));
  return server_answer(s, m, 0, NO_VECTOR, 0);
}

/* What is done of a stream, or of the batches, comes behind the plan. *wrong: what the worker is to know, or NULL. */
static shoal_status start_batches(server *s, const net_message *m, shoal_status *wrong) {
  char *words = strndup((const char *)m->payload + sizeof s->plan, m->bytes - sizeof s->plan);
  if (!words) return status_no_memory();
  if (is_stream(s)) {
    stream_leases_fini(&s->streams);
    *wrong = stream_leases_init(&s->streams, s->terms.workers, s->plan.end, words);
  } else if (s->leads) {
    const lease_plan plan = {.batch = s->plan.batch,
                             .rows = s->plan.rows,
                             .end = s->plan.end,
                             .round = s->plan.round,
                             .parts = s->plan.round ? s->terms.workers : 0};
    leases_fini(&s->leases);
    *wrong = leases_init(&s->leases, &plan, s->plan.first, s->terms.workers, steps_flight(s));
    if (!*wrong && *words) *wrong = leases_read(&s->leases, words);
  }
  free(words);
  return NULL;
}

/* Whether so many updates of whole rounds come to so many rows. */
static bool is_even(const ps_start *plan, int64_t updates) {
  const int64_t an_epoch = (plan->rows + plan->round - 1) / plan->round, position = plan->rows_done % plan->rows;
  return updates == plan->rows_done / plan->rows * an_epoch + position / plan->round && position % plan->round == 0;
}

static shoal_status on_start(server *s, const net_message *m) {
  if (m->header.from != 0 || m->bytes < sizeof s->plan || m->header.generation <= s->generation)
    return refuse(s, m, "START is not expected now");
  if (s->start_asked) TRY(server_disband(s)); /* of a table nothing is uploaded before */
  memcpy(&s->plan, m->payload, sizeof s->plan);
  if (s->plan.round != s->terms.round) return refuse(s, m, "START with another number of rows in a step");
  if (!is_stream(s) && m->bytes != sizeof s->plan && (m->header.number != 1 || s->plan.round))
    return refuse(s, m, "START with the state of a stream, but the rows are in memory");
  if (s->rows && !m->header.step && s->generation && !s->written) TRY(renew_table(s));
  s->written = false;
  if (s->copies) ps_copies_reset(s->copies);
  s->holds = s->pauses = false;
  s->continues = m->header.number == 1;
  shoal_status wrong = NULL;
  TRY(start_batches(s, m, &wrong));
  if (wrong) {
    shoal_status status = refuse(s, m, shoal_status_message(wrong));
    shoal_status_free(wrong);
    return status;
  }
  int64_t *counter = ps_vectors_counter(s->vectors);
  if (counter) *counter = s->plan.counter;
  if (s->plan.round && !is_even(&s->plan, (int64_t)m->header.step)) s->result.uneven++; /* before it was resumed */
  s->head = (ps_head){.updates = (int64_t)m->header.step, .rows = s->plan.rows_done, .also = PS_NO_BATCH};
  s->generation = m->header.generation;
  s->start_peer = m->peer;
  s->start_asked = true;
  s->asked = s->now;
  return steps_begin(s);
}

static shoal_status on_pull(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  if (w->waits) return refuse(s, m, "PULL is not expected now");
  w->held[w->waits++] = (request){.message = *m, .arrived = s->now}; /* it has no payload: who asks counts */
  s->n_waits++;
  return steps_pull(s, w);
}

/* ---- a stream */

static void on_mark(server *s, const net_message *m) {
  const int64_t shard = (int64_t)m->header.number, batch = (int64_t)m->header.step;
  if (s->terms.round && m->bytes < sizeof s->round_mark) {
    memcpy(s->round_mark, m->payload, m->bytes);
    s->round_mark[m->bytes] = 0;
  }
  if (!s->started || !is_stream(s) || stream_leases_held(&s->streams, (int)m->header.from) != shard) return;
  stream_leases_mark(&s->streams, shard, batch, (const char *)m->payload, m->bytes);
}

static shoal_status find_round(server *s, const net_message *m) {
  net_header h = {.kind = PS_FIND, .from = m->header.from, .step = m->header.step};
  net_part part = {s->round_mark, strlen(s->round_mark)};
  return server_send(s, m->peer, &h, &part, 1);
}

static shoal_status on_find(server *s, const net_message *m) {
  if (s->terms.round) return find_round(s, m);
  const int64_t shard = (int64_t)m->header.number;
  if (!is_stream(s) || shard < 0 || shard >= s->streams.n) return refuse(s, m, "the stream has no such shard");
  const stream_mark *mark = stream_leases_find(&s->streams, shard, (int64_t)m->header.step);
  net_header h = {.kind = PS_FIND,
                  .from = m->header.from,
                  .step = (uint64_t)s->streams.shards[shard].done,
                  .number = (uint64_t)(mark ? mark->index : 0)};
  net_part part = {mark ? mark->text : "", mark ? strlen(mark->text) : 0};
  return server_send(s, m->peer, &h, &part, 1);
}

/* With what is done of the batches or the stream. */
static shoal_status answer_hold(server *s, const net_message *m) {
  text words = {0};
  if (is_stream(s))
    stream_leases_write(&s->streams, &words);
  else if (s->leads)
    leases_write(&s->leases, &words);
  s->parts[1] = (net_part){words.data, words.length};
  shoal_status status = words.failed ? status_no_memory() : answer_parts(s, m, s->now, PS_NO_BATCH, 0, 2);
  text_fini(&words);
  return status;
}

shoal_status server_pause(server *s) {
  const net_message m = {.header = {.kind = PS_HOLD, .from = 0}, .peer = s->pause_peer};
  if (!s->pause_peer || (s->leads && !steps_all_in(s))) return NULL;
  s->pause_peer = 0;
  return answer_hold(s, &m);
}

static shoal_status on_hold(server *s, const net_message *m) {
  const bool moves = m->header.number == 1;
  if (m->header.from != 0 || (is_stream(s) ? !s->streams.n : !moves) || (moves && (!s->started || s->replica)))
    return refuse(s, m, "HOLD is not expected now");
  if (!moves) {
    s->holds = s->started && !s->terms.sync;
    return answer_hold(s, m);
  }
  s->pauses = true;
  s->pause_peer = m->peer;
  return server_pause(s);
}

static shoal_status on_quit(server *s, const net_message *m) {
  s->quit = m->header.from == 0;
  if (s->quit && m->header.number == 1) TRY(server_disband(s));
  return server_answer(s, m, 0, NO_VECTOR, 0);
}

static bool ends_hold(const net_message *m) {
  return m->header.from == 0 && (m->header.kind == PS_PUSH || m->header.kind == PS_PULL || m->header.kind == PS_STOP ||
                                 m->header.kind == PS_DONE);
}

static shoal_status on_done(server *s, const net_message *m) {
  steps_leave(s, &s->workers[m->header.from]);
  TRY(server_answer(s, m, 0, NO_VECTOR, 0));
  return steps_go_on(s);
}

static int present(const server *s) {
  int n = 0;
  for (int w = 0; w < s->terms.workers; w++) n += s->workers[w].peer != 0;
  return n;
}

static shoal_status on_gone(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  if (w->peer != m->peer) return NULL;
  bool early = is_here(w);
  w->peer = 0;
  if (!early) return NULL;
  TRY(steps_lose(s, w, m->header.flags & NET_DAMAGED ? PS_DAMAGED : PS_DISCONNECTED));
  if (s->options->task.returns) return NULL;
  char name[CLUSTER_NAME];
  if (m->header.from == 0 || (s->started && !present(s)))
    return status_make(SHOAL_ERR_PEER, "%s disconnected after %lld steps",
                       server_worker_name(s, (int)m->header.from, name), (long long)w->steps);
  return NULL;
}

static shoal_status on_report(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  if (m->bytes > PS_REPORT_MAX) return refuse(s, m, "the report is too long");
  free(w->report);
  w->report = strndup((const char *)m->payload, m->bytes);
  return w->report ? server_answer(s, m, 0, NO_VECTOR, 0) : status_no_memory();
}

static void complete_result(server *s) {
  s->result.seconds = s->generation ? s->last_update - s->start : 0;
  s->result.stopped = s->stopping;
  if (s->rows) s->result.asked_rows = sparse_rows_asked(s->rows, &s->result.hot_share);
  if (s->net) net_server_stats(s->net, &s->result.net);
}

static shoal_status on_collect(server *s, const net_message *m) {
  const ps_server_options *o = s->options;
  char *own = NULL;
  const char *words = "";
  net_header h = {.kind = PS_COLLECT, .from = m->header.from};
  if (m->header.number < (uint64_t)s->terms.workers) {
    const worker *w = &s->workers[m->header.number];
    if (w->report)
      words = w->report;
    else if (!w->peer)
      h.flags = PS_FENCED;
  }
  if (m->header.number == (uint64_t)s->terms.workers && o->describe) {
    complete_result(s);
    own = o->describe(o->describer, &s->result);
    words = own && strlen(own) <= PS_REPORT_MAX ? own : "";
  }
  net_part part = {words, strlen(words)};
  shoal_status status = server_send(s, m->peer, &h, &part, 1);
  free(own);
  return status;
}

static shoal_status on_changes(server *s, const net_message *m) {
  ps_change list[PS_CHANGES_MAX];
  int64_t known = (int64_t)m->header.number, n = 0;
  if (known < 0 || known > s->n_changes) known = 0; /* this server was started again */
  for (int64_t i = MAX_OF(known, s->n_changes - PS_CHANGES_MAX); i < s->n_changes; i++)
    list[n++] = s->changes[i % PS_CHANGES_MAX];
  net_header h = {.kind = PS_CHANGES, .from = m->header.from, .number = (uint64_t)s->n_changes};
  net_part part = {list, (size_t)n * sizeof *list};
  return server_send(s, m->peer, &h, &part, 1);
}

shoal_status server_handle(server *s, net_message *m, bool *held) {
  if (m->header.from >= (uint32_t)s->terms.workers) {
    if (m->header.kind == NET_GONE) return NULL;
    return refuse(s, m, "the cluster has no such worker");
  }
  worker *w = &s->workers[m->header.from];
  server_fetch_worker(w + 1); /* they often come in turn */
  if (m->header.kind == NET_GONE) return on_gone(s, m);
  if (m->header.kind == PS_HELLO) return handshake_hello(s, m);
  if (m->header.kind == PS_RESUME && s->replica) return handshake_resume(s, m);
  bool answered = m->header.kind != PS_PIECE && m->header.kind != PS_MARK;
  if (!answered && (w->peer != m->peer || !s->agreed)) return NULL; /* the PUSH after it is told */
  if (w->peer != m->peer || !s->agreed)
    return server_say(s, m, PS_FENCED, "this is not the worker's current connection: connect again");
  w->heard = s->now;
  w->received += ps_counts(m->header.kind);
  if (s->pauses && ends_hold(m)) {
    s->pauses = false;
    TRY(steps_go_on(s));
  }
  if (s->holds && ends_hold(m)) TRY(steps_let_go(s));
  switch (m->header.kind) {
    case PS_SET: return on_set(s, m);
    case PS_START: return on_start(s, m);
    case PS_PULL: return on_pull(s, m);
    case PS_PUSH: return steps_push(s, m, held);
    case PS_PIECE: return steps_piece(s, m);
    case PS_MARK: on_mark(s, m); return NULL;
    case PS_FIND: return on_find(s, m);
    case PS_HOLD: return on_hold(s, m);
    case PS_ROWS: return on_rows(s, m);
    case PS_READ: return on_read(s, m);
    case PS_WRITE: return on_write(s, m);
    case PS_GET:
      if (s->rows || m->header.number >= (uint64_t)ps_vectors_count(s->vectors))
        return refuse(s, m, "this server has no vector of that number");
      return server_answer(s, m, 0, (int)m->header.number, 0);
    case PS_STOP:
      s->stopping = true;
      if (s->started) TRY(steps_release_all(s)); /* first: whoever stops has its gradients answered before */
      return server_answer(s, m, 0, NO_VECTOR, 0);
    case PS_DONE: return on_done(s, m);
    case PS_REPORT: return on_report(s, m);
    case PS_COLLECT: return on_collect(s, m);
    case PS_CHANGES: return on_changes(s, m);
    case PS_QUIT: return on_quit(s, m);
    default: return refuse(s, m, "a message of an unknown kind");
  }
}

/* ---- the whole */

/* "worker/1, worker/2 (refused: ...)": those whose message would let the job go on. */
static void name_awaited(const server *s, text *out) {
  for (int w = 0; w < s->terms.workers; w++) {
    char name[CLUSTER_NAME];
    const worker *k = &s->workers[w];
    bool comes = k->state == ABSENT ? !s->started : k->state == GONE && w == 0;
    if (!comes && (!is_here(k) || k->waits || (w == 0 && s->start_peer))) continue;
    text_add(out, "%s%s", out->length ? ", " : "", server_worker_name(s, w, name));
    if (k->refusal) text_add(out, " (refused: %s)", k->refusal);
  }
}

/* what: did not happen in time. */
static shoal_status too_long(const server *s, const char *what) {
  text names = {0};
  char chief[CLUSTER_NAME];
  name_awaited(s, &names);
  if (!names.length) text_add(&names, "QUIT from %s", server_worker_name(s, 0, chief));
  net_stats net;
  net_server_stats(s->net, &net);
  if (net.accept_error)
    text_add(&names, "; a connection could not be accepted: %s%s", strerror(net.accept_error),
             net.accept_error == EMFILE ? " (raise the limit with `ulimit -n`)" : "");
  shoal_status status = status_make(SHOAL_ERR_PEER, "%s in %g s; awaited: %s", what, s->options->task.deadline,
                                    names.data ? names.data : "?");
  text_fini(&names);
  return status;
}

shoal_status server_look(server *s) {
  if (s->now - s->last_message > s->options->task.deadline) return too_long(s, "no message");
  if (s->start_asked && !s->started && s->now - s->asked > s->options->task.deadline)
    return too_long(s, "not all workers have connected");
  TRY(steps_find_silent(s));
  if (s->terms.round || is_stream(s)) TRY(steps_go_on(s)); /* a part or a shard was awaited for too long */
  return steps_begin(s);
}

/* What this process alone has to do now and then. */
static shoal_status look(server *s) {
  s->last_look = s->now;
  if (s->options->task.stop && __atomic_load_n(s->options->task.stop, __ATOMIC_RELAXED)) {
    if (!s->drain_until && s->generation) s->drain_until = s->now + s->options->task.drain;
    if (s->now >= s->drain_until) return status_make(SHOAL_ERR_CANCELLED, "asked to stop");
  }
  if (s->options->on_look) {
    net_server_stats(s->net, &s->result.net);
    s->options->on_look(s->options->describer, &s->result);
  }
  return s->replica ? replica_look(s) : server_look(s);
}

static shoal_status serve(server *s) {
  s->now = s->last_message = server_clock(s);
  while (!s->quit) {
    net_message m;
    bool got = false, held = false;
    double wait = LOOK_SECONDS;
    if (s->replica) TRY(replica_work(s, &wait));
    events_begin_step(s->options->task.events, s->result.updates);
    bool watched = events_on(s->options->task.events);
    uint64_t begun = watched ? events_now() : 0;
    if (s->replica) got = replica_take_kept(s, &m);
    if (!got) TRY(net_receive(s->net, wait, &m, &got));
    s->now = server_clock(s);
    if (got) {
      uint64_t came = watched ? events_now() : 0;
      uint32_t from = m.header.kind == PS_PUSH && m.header.from < (uint32_t)s->terms.workers ? m.header.from + 1 : 0;
      double bytes = (double)m.bytes;
      shoal_status status = s->replica ? replica_handle(s, &m, &held) : server_handle(s, &m, &held);
      s->result.busy_seconds += server_clock(s) - s->now;
      if (watched) {
        events_add(s->options->task.events, 0, s->wait_label, begun, came, 0);
        events_add(s->options->task.events, 0, s->wait_label + 1 + from, came, events_now(), bytes);
      }
      if (!held) net_release_server(s->net, &m);
      TRY(status);
      if (!s->replica) s->last_message = s->now;
    }
    if (s->now - s->last_look >= LOOK_SECONDS) TRY(look(s));
  }
  return NULL;
}

/* So that nobody finds the server gone before having read its last answer. */
static void see_off(server *s) {
  double end = clock_seconds() + CLOSING_SECONDS;
  while (present(s) && clock_seconds() < end) {
    net_message m;
    bool got = false;
    shoal_status status = net_receive(s->net, LOOK_SECONDS, &m, &got);
    if (status) {
      shoal_status_free(status);
      return;
    }
    if (!got) continue;
    if (m.header.kind == NET_GONE && m.header.from < (uint32_t)s->terms.workers) {
      worker *w = &s->workers[m.header.from];
      if (w->peer == m.peer) w->peer = 0;
    }
    net_release_server(s->net, &m);
  }
}

/* One after the other: waiting, other messages, gradients of each worker. */
static shoal_status label(server *s) {
  events *e = s->options->task.events;
  if (!e) return NULL;
  TRY(events_label(e, &(event_label){.kind = EVENT_WAIT, .name = "wait for messages"}, &s->wait_label));
  for (int w = -1; w < s->terms.workers; w++) {
    char name[64] = "other message", whose[CLUSTER_NAME];
    uint32_t ignored;
    if (w >= 0) snprintf(name, sizeof name, "gradient of %s", server_worker_name(s, w, whose));
    TRY(events_label(e, &(event_label){.kind = EVENT_SERVER, .name = name}, &ignored));
  }
  return NULL;
}

static void lend_past(server *s, size_t workers) {
  for (size_t w = 0; s->past && w < workers; w++) s->workers[w].past = s->past + w * PS_FLIGHT_MAX;
}

static shoal_status set_up(server *s) {
  const ps_server_options *o = s->options;
  TRY(label(s));
  size_t workers = (size_t)o->terms.workers;
  s->workers = calloc(workers, sizeof *s->workers);
  s->gradients = calloc(workers, sizeof *s->gradients);
  s->result.workers = calloc(workers, sizeof *s->result.workers);
  if (o->members) s->past = calloc(workers * PS_FLIGHT_MAX, sizeof *s->past);
  if (!s->workers || !s->gradients || !s->result.workers || (o->members && !s->past)) return status_no_memory();
  lend_past(s, workers);
  net_options net = o->task.net;
  net.largest = MAX_OF(machine_memory(), PS_REPORT_MAX); /* until the chief has said how large messages are */
  TRY(net_listen(o->address, &net, &s->net));
  return o->members ? replica_create(s, &s->replica) : NULL;
}

static void drop_requests(server *s, worker *w) {
  for (int i = 0; i < w->waits; i++)
    if (w->held[i].keeps) net_release_server(s->net, &w->held[i].message);
  free(w->report);
  free(w->refusal);
  free(w->pieces);
  free(w->copy);
}

void server_reset(server *s) {
  ps_worker_count *counts = s->result.workers;
  const size_t workers = (size_t)s->terms.workers;
  for (size_t w = 0; w < workers; w++) drop_requests(s, &s->workers[w]);
  memset(s->workers, 0, workers * sizeof *s->workers);
  memset(counts, 0, workers * sizeof *counts);
  if (s->past) memset(s->past, 0, workers * PS_FLIGHT_MAX * sizeof *s->past);
  handshake_forget(s);
  leases_fini(&s->leases);
  stream_leases_fini(&s->streams);
  *s = (server){.options = s->options,
                .leads = s->leads,
                .terms = s->terms,
                .net = s->net,
                .gradients = s->gradients,
                .workers = s->workers,
                .past = s->past,
                .wait_label = s->wait_label,
                .result = {.workers = counts},
                .replica = s->replica};
  lend_past(s, workers);
  s->now = s->last_message = s->last_look = server_clock(s);
  net_server_limit(s->net, SIZE_MAX); /* as at the start: a primary's state may be more than workers ever send */
}

shoal_status ps_server_run(const ps_server_options *options, ps_server_result *out) {
  server s = {.options = options, .leads = options->index == 0};
  s.terms.workers = options->terms.workers;
  s.terms.servers = options->terms.servers;
  shoal_status status = set_up(&s);
  if (!status) status = serve(&s);
  s.result.was_backup = s.replica && !replica_serves(s.replica);
  if (!status && !s.result.was_backup) see_off(&s);
  complete_result(&s);
  for (int w = 0; s.workers && w < options->terms.workers; w++) drop_requests(&s, &s.workers[w]);
  replica_destroy(&s, s.replica);
  net_server_close(s.net);
  handshake_forget(&s);
  leases_fini(&s.leases);
  stream_leases_fini(&s.streams);
  free(s.workers);
  free(s.past);
  free(s.gradients);
  if (status) {
    free(s.result.workers);
    return status_wrap(status, "ps/%d (%s)", options->index, options->address);
  }
  *out = s.result;
  return NULL;
}
