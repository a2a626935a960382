/* Replicated servers, as a worker finds them: rule 22 of ps_protocol.h. */
#include "dist/ps_client_internal.h"

#include "base/mem.h"

#include <poll.h>
#include <string.h>

#define AGAIN_MILLISECONDS 10
#define CONNECT_SECONDS 0.1 /* to a member that may have gone */
#define ANSWER_SECONDS 0.3  /* of one that is there */
#define STOP_SECONDS 2.0    /* for a server to be replaced, when the worker is asked to stop */

shoal_status client_make_sessions(ps_client *c) {
  const ps_client_options *o = &c->options;
  c->sessions = calloc((size_t)client_servers(c), sizeof *c->sessions);
  if (!c->sessions) return status_no_memory();
  if (o->worker) return NULL;
  const ps_arbiter_options arbiter = {.servers = client_servers(c),
                                      .workers = o->terms.workers,
                                      .addresses = o->addresses,
                                      .net = o->task.net,
                                      .folder = o->folder};
  return ps_arbiter_create(&arbiter, &c->arbiter);
}

void client_free_sessions(ps_client *c, bool over) {
  ps_arbiter_destroy(c->arbiter, over);
  c->arbiter = NULL;
  if (over || !c->sessions) return;
  for (int s = 0; s < client_servers(c); s++)
    for (int i = 0; i < CLIENT_UNANSWERED_MAX; i++) free(c->sessions[s].unanswered[i].bytes);
  free(c->sessions);
}

static shoal_status connect_member(const ps_client *c, int server, int member, net_client **out) {
  net_options net = client_net(c, server);
  return net_connect(c->options.addresses[member * client_servers(c) + server], &net, CONNECT_SECONDS, out);
}

/* One question and its answer, on a connection with nothing else under way. *m: to be released. */
static shoal_status exchange(const ps_client *c, net_client *link, int kind, const void *bytes, size_t n,
                             net_message *m) {
  const net_header h = {.kind = (uint16_t)kind, .from = (uint32_t)c->options.worker};
  const net_part part = {bytes, n};
  TRY(net_send(link, &h, &part, n ? 1 : 0, ANSWER_SECONDS));
  return net_await(link, ANSWER_SECONDS, m);
}

/* Whether that member says it is the primary. *out: the connection to it; NULL: not wanted. */
static bool is_primary(const ps_client *c, int server, int member, net_client **out) {
  net_client *link = NULL;
  net_message m;
  ps_member_status said = {0};
  shoal_status status = connect_member(c, server, member, &link);
  if (!status) status = exchange(c, link, PS_STATUS, NULL, 0, &m);
  const bool answered = !status;
  shoal_status_free(status);
  if (answered) {
    if (m.header.kind == PS_STATUS && m.bytes == sizeof said) memcpy(&said, m.payload, sizeof said);
    net_release_client(link, &m);
  }
  const bool serves = answered && said.role == PS_PRIMARY;
  if (serves && out)
    *out = link;
  else
    net_client_abandon(link);
  return serves;
}

shoal_status client_find_primary(ps_client *c, int server, double until) {
  client_session *s = &c->sessions[server];
  s->session = 0;
  s->n_unanswered = 0;
  for (;;) {
    for (int k = 0; k < PS_MEMBERS; k++) {
      const int member = (s->member + k) % PS_MEMBERS;
      if (!is_primary(c, server, member, &c->links[server])) continue;
      s->member = member;
      return NULL;
    }
    if (clock_seconds() > until)
      return status_make(SHOAL_ERR_PEER, "neither %s nor %s is its primary", c->options.addresses[server],
                         c->options.addresses[client_servers(c) + server]);
    poll(NULL, 0, AGAIN_MILLISECONDS);
  }
}

void client_begin_session(ps_client *c, int server, uint64_t session) {
  client_session *s = &c->sessions[server];
  s->session = session;
  s->sent = s->answered = 0;
}

/* ---- requests */

static bool is_kept(int kind) { return kind != PS_MARK && kind != PS_PIECE; }

shoal_status client_keep_request(ps_client *c, int server, const net_header *h, int n) {
  client_session *s = &c->sessions[server];
  if (!is_kept(h->kind)) return NULL;
  if (s->n_unanswered == CLIENT_UNANSWERED_MAX)
    return status_make(SHOAL_ERR_INTERNAL, "%d requests are already waiting for an answer", s->n_unanswered);
  kept_request *k = &s->unanswered[s->n_unanswered];
  size_t bytes = 0;
  for (int i = 0; i < n; i++) bytes += c->parts[i].bytes;
  if (k->room < bytes) {
    free(k->bytes);
    k->room = 0;
    k->bytes = malloc(bytes);
    if (!k->bytes) return status_no_memory();
    k->room = bytes;
  }
  k->header = *h;
  k->n = 0;
  for (int i = 0; i < n; k->n += c->parts[i++].bytes)
    if (c->parts[i].bytes) memcpy(k->bytes + k->n, c->parts[i].data, c->parts[i].bytes);
  s->n_unanswered++;
  s->sent += ps_counts(h->kind);
  return NULL;
}

void client_forget_request(ps_client *c, int server, int kind) {
  client_session *s = &c->sessions[server];
  int at = 0; /* answers come in the order of requests */
  while (at < s->n_unanswered && s->unanswered[at].header.kind != kind) at++;
  if (at == s->n_unanswered) return;
  kept_request done = s->unanswered[at];
  for (int i = at; i + 1 < s->n_unanswered; i++) s->unanswered[i] = s->unanswered[i + 1];
  s->unanswered[--s->n_unanswered] = done; /* its room stays */
  s->answered += ps_counts(kind);
}

/* ---- another primary */

bool client_was_replaced(ps_client *c, int server) {
  return is_primary(c, server, 1 - c->sessions[server].member, NULL);
}

/* Requests that the server has not had, and those that may be done twice. had: counted ones that it has. */
static shoal_status send_again(ps_client *c, int server, int64_t had) {
  client_session *s = &c->sessions[server];
  int64_t number = s->answered;
  for (int i = 0; i < s->n_unanswered; i++) {
    const kept_request *k = &s->unanswered[i];
    const bool counts = ps_counts(k->header.kind);
    number += counts;
    if (counts && number <= had) continue;
    const net_part part = {k->bytes, k->n};
    TRY(net_send(c->links[server], &k->header, &part, k->n ? 1 : 0, client_patience(c)));
  }
  return NULL;
}

/* *done: that member goes on with the session. An error: it does not know it. */
static shoal_status resume(ps_client *c, int server, int member, bool *done) {
  client_session *s = &c->sessions[server];
  const ps_resume words = {.session = s->session, .sent = s->sent, .answered = s->answered};
  net_client *link = NULL;
  net_message m = {0};
  shoal_status status = connect_member(c, server, member, &link);
  if (!status) status = exchange(c, link, PS_RESUME, &words, sizeof words, &m);
  const bool answered = !status && m.header.kind == PS_RESUME;
  const bool fenced = answered && m.header.flags & PS_FENCED, away = !answered || m.header.flags & PS_NOT_PRIMARY;
  const int64_t had = (int64_t)m.header.number;
  if (!status) net_release_client(link, &m);
  shoal_status_free(status);
  *done = !fenced && !away;
  if (!*done) {
    net_client_abandon(link);
    if (!fenced) return NULL;
    c->lost = c->fenced = true;
    return status_make(SHOAL_ERR_PEER, "ps/%d was replaced and does not know this worker", server);
  }
  net_stats before;
  net_client_stats(c->links[server], &before);
  client_add_stats(&c->past, &before);
  net_client_abandon(c->links[server]);
  c->links[server] = link;
  s->member = member;
  status = send_again(c, server, had);
  if (!status) return NULL;
  shoal_status_free(status); /* that one has gone, too */
  *done = false;
  return NULL;
}

/* Worker 0 tells of it. */
static void note_failover(ps_client *c, int server) {
  client_session *s = &c->sessions[server];
  if (!c->arbiter) return;
  double heard;
  const int all = ps_arbiter_failovers(c->arbiter, server, &heard);
  if (all == s->failovers) return;
  s->failovers = all;
  if (c->options.on_failover)
    c->options.on_failover(c->options.listener, server, (int64_t)c->versions[server], clock_seconds() - heard);
}

shoal_status client_fail_over(ps_client *c, int server) {
  const double begun = clock_seconds();
  const int before = c->sessions[server].member;
  for (;;) {
    for (int k = 1; k <= PS_MEMBERS; k++) {
      bool done;
      TRY(resume(c, server, (before + k) % PS_MEMBERS, &done));
      if (!done) continue;
      note_failover(c, server);
      return NULL;
    }
    const bool stops = c->options.task.stop && __atomic_load_n(c->options.task.stop, __ATOMIC_RELAXED);
    if (stops && clock_seconds() - begun > STOP_SECONDS)
      return status_make(SHOAL_ERR_CANCELLED, "stopped while ps/%d was replaced", server);
    if (clock_seconds() - begun > c->options.task.deadline) {
      c->lost = true;
      return status_make(SHOAL_ERR_PEER, "no member of ps/%d serves after %g s", server, c->options.task.deadline);
    }
    poll(NULL, 0, AGAIN_MILLISECONDS);
  }
}
