#include "dist/ps_state.h"

#include "base/mem.h"

#include <string.h>

/* The server's own numbers. */
typedef struct {
  ps_start plan;
  int64_t epoch, n_changes, counter;
  uint64_t generation, start_peer, sessions;
  double asked, now, start, last_update, last_message, lost;
  ps_head head;
  ps_change changes[PS_CHANGES_MAX];
  ps_server_result result; /* its pointer means nothing */
  bool start_asked, started, stopping, holds;
  int shards; /* of a stream */
  int64_t stream_epochs;
  bool leased; /* batches are handed out: leases follow */
  int returned, depth;
  int64_t next;
  lease_plan leases;
} server_numbers;

/* A worker's. Requests: without their gradients. */
typedef struct {
  worker_state state;
  int waits;
  uint64_t peer, session;
  int64_t steps, received, answered;
  double heard, since, longest;
  request held[PS_FLIGHT_MAX];
  past_answer past[PS_FLIGHT_MAX];
  int64_t report; /* bytes; -1: none */
} worker_numbers;

/* ---- out */

/* Lists that are not there have no address. */
static void add(text *out, const void *bytes, size_t n) {
  if (n) text_add_bytes(out, bytes, n);
}

static void save_worker(const worker *w, text *out) {
  worker_numbers n = {.state = w->state,
                      .waits = w->waits,
                      .peer = w->peer,
                      .session = w->session,
                      .steps = w->steps,
                      .received = w->received,
                      .answered = w->answered,
                      .heard = w->heard,
                      .since = w->since,
                      .longest = w->longest,
                      .report = w->report ? (int64_t)strlen(w->report) : -1};
  memcpy(n.past, w->past, sizeof n.past);
  for (int i = 0; i < w->waits; i++) {
    n.held[i] = w->held[i];
    n.held[i].message.payload = NULL;
    n.held[i].message.hold = NULL;
    n.held[i].gradient = NULL;
    n.held[i].keeps = n.held[i].copied = false;
  }
  add(out, &n, sizeof n);
  if (w->report) text_add_bytes(out, w->report, (size_t)n.report);
}

shoal_status ps_state_save(const server *s, text *out) {
  const int64_t *counter = ps_vectors_counter(s->vectors);
  const bool leased = s->leases.held != NULL;
  const size_t workers = (size_t)s->terms.workers;
  server_numbers n = {.plan = s->plan,
                      .epoch = s->epoch,
                      .n_changes = s->n_changes,
                      .counter = counter ? *counter : 0,
                      .generation = s->generation,
                      .start_peer = s->start_peer,
                      .sessions = s->sessions,
                      .asked = s->asked,
                      .now = s->now,
                      .start = s->start,
                      .last_update = s->last_update,
                      .last_message = s->last_message,
                      .lost = s->lost,
                      .head = s->head,
                      .result = s->result,
                      .start_asked = s->start_asked,
                      .started = s->started,
                      .stopping = s->stopping,
                      .holds = s->holds,
                      .shards = s->streams.n,
                      .stream_epochs = s->streams.epochs,
                      .leased = leased,
                      .returned = s->leases.n_returned,
                      .depth = s->leases.depth,
                      .next = s->leases.next,
                      .leases = s->leases.plan};
  memcpy(n.changes, s->changes, sizeof n.changes);
  n.result.workers = NULL;
  text words = {0};
  shoal_status status = ps_terms_write(&s->terms, &words);
  const uint64_t length = words.length;
  if (!status) {
    add(out, &length, sizeof length);
    add(out, words.data, words.length);
  }
  text_fini(&words);
  TRY(status);
  add(out, &n, sizeof n);
  add(out, s->result.workers, workers * sizeof *s->result.workers);
  for (size_t w = 0; w < workers; w++) save_worker(&s->workers[w], out);
  add(out, s->streams.shards, (size_t)n.shards * sizeof *s->streams.shards);
  if (leased) {
    add(out, s->leases.returned, (size_t)n.returned * sizeof *s->leases.returned);
    add(out, s->leases.held, workers * (size_t)n.depth * sizeof *s->leases.held);
  }
  for (int w = 0; s->rows && w < s->terms.workers; w++) sparse_rows_save(s->rows, w, out);
  return out->failed ? status_no_memory() : NULL;
}

/* ---- in */

typedef struct {
  const uint8_t *at, *end;
} reader;

static bool take(reader *r, void *out, size_t bytes) {
  if ((size_t)(r->end - r->at) < bytes) return false;
  if (bytes) memcpy(out, r->at, bytes);
  r->at += bytes;
  return true;
}

static shoal_status wrong(void) {
  return status_make(SHOAL_ERR_PEER, "the primary's state is not understood: are both members the same version?");
}

static shoal_status load_terms(server *s, reader *r) {
  uint64_t length;
  ps_terms terms = {0};
  if (!take(r, &length, sizeof length) || (uint64_t)(r->end - r->at) < length) return wrong();
  TRY(ps_terms_read((const char *)r->at, (size_t)length, &terms));
  r->at += length;
  shoal_status status = handshake_adopt(s, &terms);
  ps_terms_fini(&terms);
  return status;
}

static shoal_status load_worker(worker *w, reader *r) {
  worker_numbers n;
  if (!take(r, &n, sizeof n) || n.waits < 0 || n.waits > PS_FLIGHT_MAX || n.report > r->end - r->at) return wrong();
  w->state = n.state;
  w->waits = n.waits;
  w->peer = n.peer;
  w->session = n.session;
  w->steps = n.steps;
  w->received = n.received;
  w->answered = n.answered;
  w->heard = n.heard;
  w->since = n.since;
  w->longest = n.longest;
  memcpy(w->held, n.held, sizeof w->held);
  memcpy(w->past, n.past, sizeof n.past);
  if (n.report < 0) return NULL;
  w->report = strndup((const char *)r->at, (size_t)n.report);
  r->at += n.report;
  return w->report ? NULL : status_no_memory();
}

static shoal_status load_leases(server *s, const server_numbers *n, reader *r) {
  if (n->shards) {
    TRY(stream_leases_init(&s->streams, n->shards, n->stream_epochs, ""));
    if (!take(r, s->streams.shards, (size_t)n->shards * sizeof *s->streams.shards)) return wrong();
  }
  if (!n->leased) return NULL;
  if (n->depth < 1 || n->depth > PS_FLIGHT_MAX || n->returned < 0 || n->returned > n->depth * s->terms.workers)
    return wrong();
  TRY(leases_init(&s->leases, &n->leases, n->next, s->terms.workers, n->depth));
  s->leases.n_returned = n->returned;
  const size_t held = (size_t)s->terms.workers * (size_t)n->depth;
  return take(r, s->leases.returned, (size_t)n->returned * sizeof *s->leases.returned) &&
                 take(r, s->leases.held, held * sizeof *s->leases.held)
             ? NULL
             : wrong();
}

static void take_numbers(server *s, const server_numbers *n) {
  int64_t *counter = ps_vectors_counter(s->vectors);
  ps_worker_count *counts = s->result.workers;
  s->plan = n->plan;
  s->epoch = n->epoch;
  s->n_changes = n->n_changes;
  if (counter) *counter = n->counter;
  s->generation = n->generation;
  s->start_peer = n->start_peer;
  s->sessions = n->sessions;
  s->asked = n->asked;
  s->now = n->now;
  s->start = n->start;
  s->last_update = n->last_update;
  s->last_message = n->last_message;
  s->lost = n->lost;
  s->head = n->head;
  s->result = n->result;
  s->result.workers = counts;
  s->start_asked = n->start_asked;
  s->started = n->started;
  s->stopping = n->stopping;
  s->holds = n->holds;
  memcpy(s->changes, n->changes, sizeof s->changes);
}

shoal_status ps_state_load(server *s, const uint8_t *bytes, size_t n_bytes) {
  reader r = {bytes, bytes + n_bytes};
  server_numbers n;
  TRY(load_terms(s, &r));
  const size_t workers = (size_t)s->terms.workers;
  if (!take(&r, &n, sizeof n) || n.shards < 0 || n.shards > s->terms.workers) return wrong();
  take_numbers(s, &n);
  if (!take(&r, s->result.workers, workers * sizeof *s->result.workers)) return wrong();
  for (size_t w = 0; w < workers; w++) TRY(load_worker(&s->workers[w], &r));
  server_count_workers(s);
  TRY(load_leases(s, &n, &r));
  for (int w = 0; s->rows && w < s->terms.workers; w++)
    if (!sparse_rows_load(s->rows, w, &r.at, r.end)) return wrong();
  for (size_t w = 0; w < workers; w++) steps_drop_pieces(s, &s->workers[w]);
  return r.at == r.end ? NULL : wrong();
}
