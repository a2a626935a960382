/* HELLO: what a worker takes this job to be. The chief's is what the server holds parameters by; the others' must say the
 * same (rule 3 of ps_protocol.h). */
#include "dist/ps_replica.h"
#include "dist/ps_server_internal.h"

#include "base/machine.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

/* The tables fill a row. */
static bool columns_fit(const ps_terms *t) {
  int64_t width = 0;
  for (int i = 0; i < t->tables; i++) {
    const ps_columns *c = &t->columns[i];
    if (c->width < 1 || c->width > t->width || c->zeros < 0 || !(c->limit >= 0 && c->limit < 1e30)) return false;
    width += c->width;
  }
  return width == t->width;
}

/* Whether a server can hold such terms: whoever said them is trusted with nothing. */
static shoal_status check(const server *s, const ps_terms *t) {
  const int64_t limit = (int64_t)(machine_memory() / sizeof(float));
  ps_terms expected = *t;
  expected.workers = s->terms.workers;
  expected.servers = s->terms.servers;
  if (t->workers != expected.workers || t->servers != expected.servers) {
    text why = {0};
    ps_terms_differ(t, &expected, &why);
    shoal_status status = status_make(SHOAL_ERR_PEER, "%s", why.failed ? "the number of tasks differs" : why.data);
    text_fini(&why);
    return status;
  }
  if (t->elements < 1 || t->averages < 0 || t->averages >= t->elements || t->touched < 0 || t->round < 0 ||
      t->local_steps < 0 || t->in_flight < 1 || t->in_flight > PS_FLIGHT_MAX || t->backups < 0 ||
      t->backups >= t->workers ||
      (t->touched && (t->width < 1 || t->width > PS_WIDTH_MAX || t->elements % t->width || t->first_row < 0 ||
                      t->first_row >= t->servers || t->started > INT32_MAX || t->started < 0 || !columns_fit(t) ||
                      t->other_rows < 0)) ||
      (t->row_slots && (t->width < 2 || !t->touched || t->tables != 1)) ||
      (t->ids && (!t->touched || t->ids_memory < 0 || t->other_rows > t->touched)))
    return status_make(SHOAL_ERR_PEER, "invalid settings");
  if (t->elements > limit / ps_nodes_max(t->round, t->workers) ||
      (t->touched && t->touched > limit / 4 / t->workers / t->width / ps_nodes_max(t->round, t->workers)))
    return status_make(SHOAL_ERR_PEER, "%lld parameters, of which %lld are touched: more than the server's memory",
                       (long long)t->elements, (long long)t->touched);
  return NULL;
}

void handshake_forget(server *s) {
  const int workers = s->terms.workers, servers = s->terms.servers;
  ps_vectors_destroy(s->vectors);
  sparse_rows_destroy(s->rows);
  ps_copies_destroy(s->copies);
  free(s->parts);
  free(s->hello);
  ps_terms_fini(&s->terms);
  s->hello = NULL;
  s->vectors = NULL;
  s->rows = NULL;
  s->copies = NULL;
  s->parts = NULL;
  s->terms.workers = workers;
  s->terms.servers = servers;
  s->agreed = false;
}

shoal_status handshake_adopt(server *s, ps_terms *terms) {
  TRY(check(s, terms));
  handshake_forget(s);
  s->terms = *terms;
  *terms = (ps_terms){0};
  shoal_status status = ps_vectors_create(s->options, &s->terms, &s->vectors);
  if (!status && s->terms.touched) status = sparse_rows_create(&s->terms, s->vectors, &s->rows);
  if (!status && !s->terms.touched) status = ps_copies_create(&s->terms, s->vectors, &s->copies);
  if (!status) {
    s->parts = calloc((size_t)ps_vectors_n_parts(s->vectors) + 1, sizeof *s->parts);
    if (!s->parts) status = status_no_memory();
  }
  if (status) {
    handshake_forget(s);
    return status;
  }
  s->agreed = true;
  for (int w = 0; w < s->terms.workers; w++) steps_drop_pieces(s, &s->workers[w]);
  net_server_limit(s->net, ps_largest(&s->terms) + (s->replica ? REPLICA_RECORD : 0));
  return NULL;
}

/* *wrong: NULL, or why the worker is refused; takes *theirs if they are adopted. */
static shoal_status agree(server *s, uint32_t from, ps_terms *theirs, shoal_status *wrong) {
  text why = {0};
  *wrong = NULL;
  if (s->agreed && ps_terms_differ(theirs, &s->terms, &why) == 0) return NULL;
  if (from == 0 && !s->generation) { /* nobody has begun: what the chief says now counts */
    shoal_status status = s->agreed ? server_disband(s) : NULL;
    if (!status) *wrong = handshake_adopt(s, theirs);
    text_fini(&why);
    return status;
  }
  *wrong = status_make(SHOAL_ERR_PEER, "its settings are not the chief's: %s", why.failed ? "they differ" : why.data);
  text_fini(&why);
  return NULL;
}

static bool is_known(const server *s, const net_message *m) {
  return s->hello && m->bytes == s->hello_bytes && !memcmp(m->payload, s->hello, m->bytes);
}

/* Reads what the worker says, and agrees or not. Most say what one before them has said. */
static shoal_status hear(server *s, const net_message *m, shoal_status *wrong) {
  *wrong = NULL;
  if (is_known(s, m)) return NULL;
  ps_terms theirs = {0};
  *wrong = ps_terms_read((const char *)m->payload, m->bytes, &theirs);
  shoal_status status = *wrong ? NULL : agree(s, m->header.from, &theirs, wrong);
  ps_terms_fini(&theirs);
  if (status || *wrong) return status;
  free(s->hello);
  s->hello = malloc(m->bytes + 1); /* without, the next one is read, too */
  s->hello_bytes = m->bytes;
  if (s->hello) memcpy(s->hello, m->payload, m->bytes);
  return NULL;
}

shoal_status handshake_hello(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  if (w->peer == REPLICA_UNBOUND) TRY(steps_lose(s, w, PS_DISCONNECTED)); /* it begins again instead of resuming */
  if (w->peer && w->peer != m->peer)
    return server_say(s, m, PS_REFUSED | PS_TAKEN, "another task is already connected as this worker");
  if (!s->agreed && m->header.from != 0) {
    w->peer = m->peer; /* the place is its own */
    return server_say(s, m, PS_REFUSED | PS_EARLY, "the chief has not connected to this server yet");
  }
  shoal_status wrong, status = hear(s, m, &wrong);
  if (status || wrong) {
    if (!status) status = server_say(s, m, PS_REFUSED, shoal_status_message(wrong));
    free(w->refusal);
    w->refusal = wrong ? strdup(shoal_status_message(wrong)) : NULL;
    shoal_status_free(wrong);
    return status;
  }
  w->peer = m->peer;
  server_set_state(s, w, JOINING);
  w->heard = s->now;
  free(w->refusal);
  w->refusal = NULL;
  steps_drop_pieces(s, w);
  if (s->rows) sparse_rows_forget(s->rows, (int)m->header.from);
  w->session = s->replica ? ++s->sessions : 0;
  w->received = w->answered = 0;
  return server_answer(s, m, (int64_t)w->session, NO_VECTOR, s->started ? PS_UNDER_WAY : 0);
}

/* The answer that was lost, with the parameters as they are now. */
static shoal_status answer_again(server *s, worker *w, int64_t which) {
  past_answer *past = &w->past[which % PS_FLIGHT_MAX];
  net_header h = past->header;
  const bool bare = h.kind == PS_START || (h.kind == PS_PULL && h.flags & PS_IDLE);
  h.flags &= (uint16_t)~PS_WIRE_MASK;
  h.step = (uint64_t)s->head.updates;
  const int64_t *counter = ps_vectors_counter(s->vectors);
  past->head.updates = s->head.updates;
  past->head.counter = counter ? *counter : 0;
  const int n = server_add_again(s, (int)(w - s->workers), !bare);
  s->parts[0] = (net_part){&past->head, sizeof past->head};
  return server_send(s, w->peer, &h, s->parts, n);
}

/* The worker had this session with another member, or lost the answer to its last RESUME. */
shoal_status handshake_resume(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  ps_resume r = {0};
  if (m->bytes == sizeof r) memcpy(&r, m->payload, sizeof r);
  const bool known = s->agreed && w->session && r.session == w->session && w->peer; /* once more, too */
  if (!known || r.answered > w->answered || r.sent < w->received || w->answered - r.answered > PS_FLIGHT_MAX)
    return server_say(s, m, PS_FENCED, "this server does not know the session: connect again");
  w->peer = m->peer;
  w->heard = s->now;
  for (int i = 0; i < w->waits; i++) w->held[i].message.peer = m->peer;
  if (m->header.from == 0 && s->start_peer) s->start_peer = m->peer;
  net_header h = {.kind = PS_RESUME,
                  .from = m->header.from,
                  .generation = s->generation,
                  .step = (uint64_t)s->head.updates,
                  .number = (uint64_t)w->received};
  TRY(server_send(s, m->peer, &h, NULL, 0));
  for (int64_t i = r.answered; i < w->answered; i++) TRY(answer_again(s, w, i));
  return NULL;
}
