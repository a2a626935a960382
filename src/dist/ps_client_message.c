/* One message to or from a parameter server, as a worker sees it. */
#include "dist/ps_client_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define LOOK_SECONDS 0.25    /* between two looks at the other servers while one is awaited */
#define REPLACED_LOOK 0.1    /* the same at the other member, where one may have stalled */
#define REPLACED_SECONDS 1.0 /* for a message to a server that may have been replaced meanwhile */

static const char *const kind_names[] = {
    "",        "hello",     "set up",       "start",      "pull from", "push to",   "get from", "stop",
    "done",    "report to", "collect from", "quit",       "rows of",   "read from", "write to", "push a piece to",
    "mark to", "find at",   "hold",         "changes of", "resume at", "status of"};

/* Takes `status`. */
static shoal_status explain(const ps_client *c, int server, int kind, shoal_status status) {
  return status_wrap(status, "%s ps/%d (%s)", kind_names[kind], server, c->options.addresses[server]);
}

/* ---- timeline */

enum { SENDING, WAITING, TAKING, LABELS };

static uint32_t label_of(const ps_client *c, int server, int what) {
  return c->labels + (uint32_t)(server * LABELS + what);
}

shoal_status client_label(ps_client *c) {
  static const struct {
    event_kind kind;
    const char *words;
  } all[LABELS] = {[SENDING] = {EVENT_MESSAGE, "send to ps/%d"},
                   [WAITING] = {EVENT_WAIT, "wait for ps/%d"},
                   [TAKING] = {EVENT_MESSAGE, "take in from ps/%d"}};
  events *e = c->options.task.events;
  if (!e) return NULL;
  c->labels = e->n_labels;
  for (int i = 0; i < client_servers(c) * LABELS; i++) {
    char name[64];
    uint32_t ignored; /* they follow each other */
    snprintf(name, sizeof name, all[i % LABELS].words, i / LABELS);
    TRY(events_label(e, &(event_label){.kind = all[i % LABELS].kind, .name = name}, &ignored));
  }
  return NULL;
}

/* ---- out and in */

/* A connection that breaks is lost; a server that does not answer in time is an error like any other. */
static shoal_status note_loss(ps_client *c, double since, double seconds, shoal_status status) {
  if (shoal_status_code(status) == SHOAL_ERR_PEER && clock_seconds() - since < 0.9 * seconds) c->lost = true;
  return status;
}

/* Answers to earlier requests may still be on their way: nothing goes over these connections any more. */
static shoal_status check_connected(const ps_client *c, int server, int kind) {
  if (!c->lost && c->links[server]) return NULL;
  return explain(c, server, kind, status_make(SHOAL_ERR_PEER, "the connections were lost"));
}

static shoal_status send_parts(ps_client *c, int server, net_header h, int n) {
  TRY(check_connected(c, server, h.kind));
  double since = clock_seconds(), seconds = client_patience(c);
  h.from = (uint32_t)c->options.worker;
  if (h.kind == PS_PUSH) c->clocks[server].sent[c->in_flight] = since;
  if (c->sessions) TRY(client_keep_request(c, server, &h, n));
  shoal_status status = net_send(c->links[server], &h, c->parts, n, c->sessions ? REPLACED_SECONDS : seconds);
  if (status && c->sessions && c->sessions[server].session) { /* which sends it, too */
    shoal_status_free(status);
    return client_fail_over(c, server);
  }
  return status ? explain(c, server, h.kind, note_loss(c, since, seconds, status)) : NULL;
}

shoal_status client_send_parts(ps_client *c, int server, net_header h, int n) {
  bool watched = (h.kind == PS_PUSH || h.kind == PS_PIECE) && events_on(c->options.task.events);
  uint64_t begun = watched ? events_now() : 0;
  TRY(send_parts(c, server, h, n));
  if (!watched) return NULL;
  double bytes = 0;
  for (int i = 0; i < n; i++) bytes += (double)c->parts[i].bytes;
  events_add(c->options.task.events, 0, label_of(c, server, SENDING), begun, events_now(), bytes);
  return NULL;
}

int client_vectors(const ps_client *c, const ps_head *head) {
  tree_node nodes[TREE_NODES_MAX];
  return c->options.terms.round && head && head->round_rows ? tree_nodes(head->first_leaf, head->last_leaf, nodes) : 1;
}

shoal_status client_send(ps_client *c, int server, net_header h, const ps_head *head, float *const *values) {
  const int64_t elements = h.kind == PS_PUSH && c->unsent ? c->unsent[server] : c->options.place->elements[server];
  const int nodes = values ? client_vectors(c, head) : 0;
  int n = 0;
  if (head) c->parts[n++] = (net_part){head, sizeof *head};
  if ((c->wire || c->drains) && h.kind == PS_PUSH) {
    h.flags |= client_wire_flags(c);
    if (values) c->parts[n++] = client_encode(c, server, values, 0, elements);
    return client_send_parts(c, server, h, n);
  }
  for (int k = 0; k < nodes; k++, values += c->options.variables)
    n = client_add_parts(c, server, values, 0, elements, n);
  return client_send_parts(c, server, h, n);
}

shoal_status client_send_text(ps_client *c, int server, int kind, const char *words) {
  c->parts[0] = (net_part){words, strlen(words)};
  return client_send_parts(c, server, (net_header){.kind = (uint16_t)kind}, 1);
}

/* A server that has gone while the answer of another is awaited; -1: none has. */
static int find_gone(const ps_client *c) {
  for (int s = 0; s < client_servers(c); s++)
    if (c->links[s] && net_client_gone(c->links[s])) return s;
  return -1;
}

/* The answer of one server may hang on a worker that waits for another server to come back: whoever has gone is noticed
 * at once, so that all begin again. */
static shoal_status await_answer(ps_client *c, int server, int kind, net_message *m) {
  const double since = clock_seconds(), seconds = client_patience(c);
  for (;;) {
    const double left = since + seconds - clock_seconds();
    shoal_status status = net_await(c->links[server], MIN_OF(MAX_OF(left, 0), LOOK_SECONDS), m);
    if (!status) return NULL;
    const int gone = find_gone(c);
    const bool lost = shoal_status_code(status) == SHOAL_ERR_PEER && gone >= 0;
    if (!lost && shoal_status_code(status) == SHOAL_ERR_PEER && left > LOOK_SECONDS) {
      shoal_status_free(status);
      continue;
    }
    c->lost = c->lost || lost;
    if (gone == server || shoal_status_code(status) != SHOAL_ERR_PEER) return explain(c, server, kind, status);
    shoal_status_free(status);
    if (!lost) return explain(c, server, kind, status_make(SHOAL_ERR_PEER, "no answer in %g s", seconds));
    return explain(c, gone, kind,
                   status_make(SHOAL_ERR_PEER, "the connection was lost while ps/%d was awaited", server));
  }
}

/* The same, where whoever goes has a backup. */
static shoal_status await_replicated(ps_client *c, int server, int kind, net_message *m) {
  const double until = clock_seconds() + client_patience(c);
  for (;;) {
    shoal_status status = net_await(c->links[server], REPLACED_LOOK, m);
    if (!status && !(m->header.flags & PS_NOT_PRIMARY)) {
      client_forget_request(c, server, kind);
      return NULL;
    }
    const bool turned_away = !status;
    if (turned_away) net_release_client(c->links[server], m);
    if (status && shoal_status_code(status) != SHOAL_ERR_PEER) return explain(c, server, kind, status);
    shoal_status_free(status);
    if (!c->sessions[server].session) {
      c->lost = true; /* it is not known there yet: connects and says HELLO once more */
      if (turned_away || net_client_gone(c->links[server]) || clock_seconds() > until)
        return explain(c, server, kind, status_make(SHOAL_ERR_PEER, "it is not the primary, or has gone"));
      c->lost = false;
      continue;
    }
    const int gone = find_gone(c);
    if (turned_away || (gone < 0 && client_was_replaced(c, server)))
      TRY(client_fail_over(c, server));
    else if (gone >= 0)
      TRY(client_fail_over(c, gone));
    else if (clock_seconds() > until)
      return explain(c, server, kind, status_make(SHOAL_ERR_PEER, "no answer in %g s", client_patience(c)));
  }
}

shoal_status client_await(ps_client *c, int server, int kind, net_message *m) {
  return c->sessions ? await_replicated(c, server, kind, m) : await_answer(c, server, kind, m);
}

static void unload(const ps_client *c, int server, const wire_format *f, const ps_cargo *to, const uint8_t *bytes) {
  const placement *p = c->options.place;
  const float *from = (const float *)bytes;
  if (f->encode) {
    client_decode(c, server, f, bytes, to->vectors);
    return;
  }
  if (to->n) memcpy(to->values, from, (size_t)to->n * sizeof *from);
  for (int i = p->begin[server]; to->vectors && i < p->begin[server + 1]; i++) {
    const placement_slice *slice = &p->slices[i];
    memcpy(to->vectors[slice->variable] + slice->first, from + slice->offset, (size_t)slice->count * sizeof *from);
  }
}

shoal_status client_receive(ps_client *c, int server, int kind, const ps_cargo *cargo, ps_head *head,
                            net_header *header) {
  net_message m;
  bool watched = kind == PS_PUSH && events_on(c->options.task.events);
  uint64_t begun = watched ? events_now() : 0;
  TRY(client_await(c, server, kind, &m));
  if (watched) begun = events_add(c->options.task.events, 0, label_of(c, server, WAITING), begun, events_now(), 0);
  shoal_status status = NULL;
  int64_t numbers = cargo->vectors ? c->options.place->elements[server] : cargo->n;
  const wire_format *format = ps_wire_of(m.header.flags);
  if (!format || (format->encode && (kind != PS_PUSH || !c->wire || !cargo->vectors))) format = wire_format_at(0);
  size_t expected = sizeof *head + (size_t)format->bytes(numbers);
  bool empty = (m.header.flags & (PS_STOPPED | PS_IDLE) || format->encode) && m.bytes == sizeof *head;
  *header = m.header;
  if (m.header.flags & (PS_REFUSED | PS_FENCED)) {
    if (m.header.flags & PS_FENCED) c->lost = c->fenced = true;
    status = status_make(SHOAL_ERR_PEER, "refused: %.*s", (int)m.bytes, (const char *)m.payload);
  } else if (m.header.kind != kind || (m.bytes != expected && !empty)) {
    status = status_make(SHOAL_ERR_PEER, "got an answer of kind %u and %zu bytes, expected kind %d and %zu bytes",
                         m.header.kind, m.bytes, kind, expected);
  } else {
    memcpy(head, m.payload, sizeof *head);
    if (m.bytes == expected) unload(c, server, format, cargo, m.payload + sizeof *head);
  }
  if (watched)
    events_add(c->options.task.events, 0, label_of(c, server, TAKING), begun, events_now(), (double)expected);
  net_release_client(c->links[server], &m);
  return status ? explain(c, server, kind, status) : NULL;
}

/* since: when this worker began to wait; what the servers did before that kept nobody. */
static void note_clock(ps_client *c, int server, double since, ps_answer *got) {
  const ps_head *h = &got->head;
  ps_clock *clock = &c->clocks[server];
  double now = clock_seconds(), sent = clock->sent[0];
  double waited = now - MAX_OF(since, sent);
  got->waited = MIN_OF(MAX_OF(h->ready - h->arrived, 0), waited);
  got->worked = MIN_OF(MAX_OF(h->answered - h->ready, 0), waited - got->waited);
  for (int i = 1; i < PS_FLIGHT_MAX; i++) clock->sent[i - 1] = clock->sent[i];
  clock_note(&clock->server, sent, h->arrived, h->answered, now);
}

shoal_status client_take(ps_client *c, int server, int kind, const ps_cargo *cargo, double since, ps_answer *out) {
  ps_answer got = {0};
  net_header answer;
  TRY(client_receive(c, server, kind, cargo, &got.head, &answer));
  c->versions[server] = answer.step;
  c->generations[server] = answer.generation;
  got.next = (int64_t)answer.number;
  if (kind == PS_PUSH) note_clock(c, server, since, &got);
  got.stopped = answer.flags & PS_STOPPED;
  got.drain = answer.flags & PS_DRAIN;
  got.late = answer.flags & PS_LATE;
  got.idle = answer.flags & PS_IDLE;
  bool stopped = server && out->stopped, drain = server && out->drain;
  double waited = server ? out->waited : 0, worked = server ? out->worked : 0;
  if (server == 0) *out = got;
  out->stopped = got.stopped || stopped;
  out->drain = got.drain || drain;
  out->waited = MAX_OF(waited, got.waited);
  out->worked = MAX_OF(worked, got.worked);
  return NULL;
}
