#include "dist/ps_client_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define AGAIN_SECONDS 0.02 /* between two tries */
#define LEAST_SECONDS 0.1  /* for a server when the others have taken all the time */
#define TRY_SECONDS 1.0    /* for one try to connect, when connecting again */
#define TAKEN_SECONDS 2.0  /* beyond a heartbeat: until a server knows that an earlier connection has ended */

bool ps_client_lost(const ps_client *c) { return c->lost; }
bool ps_client_fenced(const ps_client *c) { return c->fenced; }

/* ---- */

shoal_status ps_client_create(const ps_client_options *options, ps_client **out) {
  const placement *place = options->place;
  size_t servers = (size_t)place->servers;
  ps_client *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->options = *options;
  c->links = calloc(servers, sizeof *c->links);
  c->versions = calloc(servers, sizeof *c->versions);
  c->generations = calloc(servers, sizeof *c->generations);
  c->clocks = calloc(servers, sizeof *c->clocks);
  c->nodes = ps_nodes_max(options->terms.round, MAX_OF(options->terms.workers, 1));
  c->parts = calloc((size_t)(place->n_slices * c->nodes) + 4, sizeof *c->parts);
  bool good = c->links && c->versions && c->generations && c->clocks && c->parts;
  shoal_status status = good ? client_label(c) : status_no_memory();
  if (!status) status = options->terms.touched ? client_cut_table(c) : client_make_pieces(c);
  if (!status && options->replicas) status = client_make_sessions(c);
  if (status) {
    ps_client_destroy(c);
    return status;
  }
  *out = c;
  return NULL;
}

static void hang_up(ps_client *c) {
  for (int s = 0; c->links && s < client_servers(c); s++) {
    if (!c->links[s]) continue;
    net_client_close(c->links[s]);
    c->links[s] = NULL;
  }
}

void ps_client_destroy(ps_client *c) {
  if (!c) return;
  hang_up(c);
  free(c->links);
  free(c->versions);
  free(c->generations);
  free(c->clocks);
  free(c->parts);
  client_free_table(c);
  client_free_pieces(c);
  client_free_wire(c);
  client_free_sessions(c, false);
  free(c);
}

/* ---- connecting */

static bool asked_to_stop(const ps_client *c) {
  return c->options.task.stop && __atomic_load_n(c->options.task.stop, __ATOMIC_RELAXED);
}

void client_add_stats(net_stats *to, const net_stats *one) {
  to->sent_messages += one->sent_messages;
  to->received_messages += one->received_messages;
  to->sent_bytes += one->sent_bytes;
  to->received_bytes += one->received_bytes;
  to->refused += one->refused;
}

/* What is agreed with that server. */
static ps_terms terms_with(const ps_client *c, int server) {
  ps_terms t = c->options.terms;
  const placement *p = c->options.place;
  t.elements = p->elements[server] * MAX_OF(t.width, 1); /* a table is placed by rows */
  if (t.touched) t.first_row = p->slices[p->begin[server]].first;
  t.averages = 0;
  for (int i = p->begin[server]; i < p->begin[server + 1]; i++)
    if (c->options.variables && p->slices[i].variable >= c->options.trained) t.averages += p->slices[i].count;
  return t;
}

/* Of two servers: whether what terms_with() sets is the same. */
static bool same_terms(const ps_terms *a, const ps_terms *b) {
  return a->elements == b->elements && a->first_row == b->first_row && a->averages == b->averages;
}

net_options client_net(const ps_client *c, int server) {
  net_options net = c->options.task.net;
  const ps_terms terms = terms_with(c, server);
  net.from = (uint32_t)c->options.worker;
  net.largest = ps_largest(&terms);
  return net;
}

static shoal_status connect_all(ps_client *c, double seconds) {
  const double until = clock_seconds() + seconds;
  ps_client_stats(c, &c->past);
  hang_up(c);
  c->in_flight = 0;
  if (c->unsent) client_begin_pieces(c);
  client_forget_left(c);
  for (int s = 0; s < client_servers(c); s++) {
    net_options net = client_net(c, s);
    if (c->ends) c->ends[s].n_asked = -1;
    double left = MAX_OF(until - clock_seconds(), LEAST_SECONDS);
    TRY(status_wrap(c->sessions ? client_find_primary(c, s, clock_seconds() + left)
                                : net_connect(c->options.addresses[s], &net, left, &c->links[s]),
                    "ps/%d", s));
  }
  return NULL;
}

/* What was said to the server before, which most others are told, too. */
typedef struct {
  ps_terms terms;
  text words; /* empty: nothing yet */
} greeting;

static shoal_status send_hello(ps_client *c, int server, greeting *last) {
  const ps_terms terms = terms_with(c, server);
  if (!last->words.length || !same_terms(&terms, &last->terms)) {
    text_fini(&last->words);
    *last = (greeting){.terms = terms};
    TRY(ps_terms_write(&terms, &last->words));
  }
  return client_send_text(c, server, PS_HELLO, last->words.data);
}

/* An earlier connection of this worker may not be known to have ended; worker 0 may not have come yet, for which there is
 * time up to `until`. */
static shoal_status hello(ps_client *c, int server, double until, greeting *last, bool *under_way) {
  const double taken_until = clock_seconds() + c->options.task.net.heartbeat + TAKEN_SECONDS;
  for (;;) {
    ps_head head;
    net_header answer = {0};
    TRY(send_hello(c, server, last));
    shoal_status status = client_receive(c, server, PS_HELLO, &(ps_cargo){0}, &head, &answer);
    if (!status) {
      c->versions[server] = answer.step;
      c->generations[server] = answer.generation;
      *under_way = answer.flags & PS_UNDER_WAY;
      if (c->sessions) client_begin_session(c, server, answer.number);
      return NULL;
    }
    const bool waits = (answer.flags & PS_TAKEN && clock_seconds() < taken_until) ||
                       (answer.flags & PS_EARLY && clock_seconds() < until && !asked_to_stop(c));
    if (!waits) return status;
    shoal_status_free(status);
    clock_sleep(AGAIN_SECONDS);
  }
}

/* *final: it makes no sense to try again. */
static shoal_status connect_once(ps_client *c, double seconds, double until, bool *under_way, bool *final) {
  *final = false;
  c->lost = c->fenced = false;
  TRY(connect_all(c, seconds));
  bool all = true;
  greeting last = {0};
  shoal_status status = NULL;
  for (int s = client_servers(c) - 1; s >= 0 && !status; s--) {
    bool one = false;
    status = hello(c, s, until, &last, &one);
    *final = !c->lost;
    all = all && one && c->generations[s] == c->generations[client_servers(c) - 1];
  }
  text_fini(&last.words);
  if (!status) *under_way = all;
  return status;
}

shoal_status ps_client_connect(ps_client *c, bool *under_way) {
  const double seconds = c->options.task.deadline, until = clock_seconds() + seconds;
  const bool returns = c->options.task.returns || c->sessions;
  for (;;) {
    bool final;
    double left = MAX_OF(until - clock_seconds(), LEAST_SECONDS);
    shoal_status status = connect_once(c, returns ? MIN_OF(TRY_SECONDS, left) : left, until, under_way, &final);
    if (!status) return NULL;
    if (final || shoal_status_code(status) != SHOAL_ERR_PEER || !returns) return status;
    if (asked_to_stop(c)) {
      shoal_status_free(status);
      return status_make(SHOAL_ERR_CANCELLED, "stopped while waiting for the servers");
    }
    if (clock_seconds() > until) return status_wrap(status, "not all servers are reachable after %g s", seconds);
    if (c->options.has_moved && c->options.has_moved(c->options.listener)) {
      c->lost = true;
      return status;
    }
    shoal_status_free(status);
    clock_sleep(AGAIN_SECONDS);
  }
}

/* ---- requests */

/* The same request to all servers. out: values sent along; in: where the answers go. *first: server 0's answer. */
static shoal_status ask(ps_client *c, net_header h, const ps_head *head, float *const *out, float *const *in,
                        ps_head *first) {
  for (int s = client_servers(c) - 1; s >= 0; s--) TRY(client_send(c, s, h, head, out));
  for (int s = 0; s < client_servers(c); s++) {
    ps_head got;
    net_header answer;
    TRY(client_receive(c, s, h.kind, &(ps_cargo){.vectors = in}, &got, &answer));
    if (s == 0) *first = got;
    first->running = MAX_OF(first->running, got.running);
  }
  return NULL;
}

static shoal_status take(ps_client *c, int server, int kind, float *const *parameters, double since, ps_answer *out) {
  return client_take(c, server, kind, &(ps_cargo){.vectors = parameters}, since, out);
}

net_header client_push_header(const ps_client *c, int server, ps_head *head) {
  net_header h = {.kind = PS_PUSH, .step = c->versions[server], .number = (uint64_t)head->examples};
  if (!c->options.terms.round) return h;
  h.step = MIN_OF(h.step, c->versions[0]); /* a server ahead of the leader has had this part already, from who died */
  head->updates = 0;
  for (int s = 0; s < client_servers(c); s++) head->updates = MAX_OF(head->updates, (int64_t)c->versions[s]);
  return h;
}

/* What was not sent before. No message is larger than a piece: a server needs no room for one beside the gradient. */
static shoal_status push_to(ps_client *c, int server, float *const *gradients, const ps_head *head) {
  if (head->examples && c->in_pieces && c->unsent[server] > PS_PIECE_GRADIENT)
    TRY(client_send_pieces(c, server, gradients, PS_PIECE_GRADIENT));
  ps_head told = *head;
  const net_header h = client_push_header(c, server, &told);
  return client_send(c, server, h, &told, head->examples ? gradients : NULL);
}

/* version, steps: the leader's, for the others. */
static shoal_status pull_from(ps_client *c, int server, uint64_t version, int64_t steps) {
  net_header h = {.kind = PS_PULL, .step = version, .number = (uint64_t)steps};
  return client_send(c, server, h, NULL, NULL);
}

/* The leader decides first whether the gradient counts, and in how large a step. */
static shoal_status push_with_backups(ps_client *c, float *const *gradients, float *const *parameters,
                                      const ps_head *head, ps_answer *out) {
  double since = clock_seconds();
  TRY(push_to(c, 0, gradients, head));
  TRY(take(c, 0, PS_PUSH, parameters, since, out));
  if (out->stopped) return NULL;
  bool used = head->examples && !out->late;
  ps_head told = *head;
  told.used = out->head.used;
  for (int s = 1; s < client_servers(c); s++)
    TRY(used ? push_to(c, s, gradients, &told) : pull_from(c, s, c->versions[0], out->head.steps));
  for (int s = 1; s < client_servers(c); s++) TRY(take(c, s, used ? PS_PUSH : PS_PULL, parameters, since, out));
  return NULL;
}

shoal_status ps_client_send(ps_client *c, float *const *gradients, const ps_head *head) {
  if (c->in_flight == PS_FLIGHT_MAX)
    return status_make(SHOAL_ERR_INTERNAL, "%d gradients are already in flight", c->in_flight);
  for (int s = client_servers(c) - 1; s >= 0; s--) TRY(push_to(c, s, gradients, head));
  client_begin_pieces(c);
  c->drains = false;
  c->in_flight++;
  return NULL;
}

shoal_status ps_client_take(ps_client *c, float *const *parameters, ps_answer *out) {
  double since = clock_seconds();
  for (int s = 0; s < client_servers(c); s++) TRY(take(c, s, PS_PUSH, parameters, since, out));
  c->in_flight--;
  return NULL;
}

shoal_status ps_client_push(ps_client *c, float *const *gradients, float *const *parameters, const ps_head *head,
                            ps_answer *out) {
  if (c->options.terms.backups && client_servers(c) > 1) return push_with_backups(c, gradients, parameters, head, out);
  TRY(ps_client_send(c, gradients, head));
  return ps_client_take(c, parameters, out);
}

shoal_status ps_client_pull(ps_client *c, float *const *parameters, ps_answer *out) {
  uint64_t version = 0;
  for (int s = 0; s < client_servers(c); s++) version = MAX_OF(version, c->versions[s]);
  TRY(pull_from(c, 0, version, 0));
  TRY(take(c, 0, PS_PULL, parameters, 0, out));
  if (out->idle) return NULL;
  for (int s = 1; s < client_servers(c); s++) TRY(pull_from(c, s, c->versions[0], out->head.steps));
  for (int s = 1; s < client_servers(c); s++) {
    TRY(take(c, s, PS_PULL, parameters, 0, out));
    if (c->generations[s] == c->generations[0]) continue;
    c->lost = c->fenced = true; /* one of them has begun again meanwhile */
    return status_make(SHOAL_ERR_PEER, "ps/%d is in training %llu, ps/0 in training %llu", s,
                       (unsigned long long)c->generations[s], (unsigned long long)c->generations[0]);
  }
  return NULL;
}

/* ---- vectors */

/* A large vector by pieces, for the same reason as a large gradient. */
static shoal_status write_to(ps_client *c, int server, int which, float *const *values) {
  const int64_t elements = c->options.place->elements[server];
  for (int64_t at = 0; at < elements; at += PS_PIECE_MAX) {
    ps_piece piece = {.which = which, .first = at, .count = MIN_OF(PS_PIECE_MAX, elements - at)};
    ps_head head;
    net_header answer;
    c->parts[0] = (net_part){&piece, sizeof piece};
    int n = client_add_parts(c, server, values, at, at + piece.count, 1);
    TRY(client_send_parts(c, server, (net_header){.kind = PS_WRITE}, n));
    TRY(client_receive(c, server, PS_WRITE, &(ps_cargo){0}, &head, &answer));
  }
  return NULL;
}

shoal_status ps_client_set(ps_client *c, int which, float *const *values) {
  const ps_head none = {0};
  const net_header h = {.kind = PS_SET, .number = (uint64_t)which};
  for (int s = client_servers(c) - 1; s >= 0; s--) {
    ps_head head;
    net_header answer;
    if (c->in_pieces && c->options.place->elements[s] > PS_PIECE_GRADIENT) {
      TRY(write_to(c, s, which, values));
      continue;
    }
    TRY(client_send(c, s, h, &none, values));
    TRY(client_receive(c, s, PS_SET, &(ps_cargo){0}, &head, &answer));
  }
  return NULL;
}

shoal_status ps_client_get(ps_client *c, int which, float *const *values, ps_head *head) {
  return ask(c, (net_header){.kind = PS_GET, .number = (uint64_t)which}, NULL, NULL, values, head);
}

/* continues: as in rule 25. */
static shoal_status send_start(ps_client *c, int64_t updates, const ps_start *plan, const char *stream,
                               bool continues) {
  net_header h = {.kind = PS_START, .step = (uint64_t)updates, .number = continues};
  for (int s = 0; s < client_servers(c); s++) h.generation = MAX_OF(h.generation, c->generations[s] + 1);
  /* One that was started again may know of none: it is not the job's first, which waits for all workers. */
  h.generation = c->newest = MAX_OF(h.generation, c->newest + 1);
  c->parts[0] = (net_part){plan, sizeof *plan};
  for (int s = client_servers(c) - 1; s >= 0; s--) {
    if (stream) client_stream_words(c, stream, s, &c->parts[1]);
    TRY(client_send_parts(c, s, h, stream ? 2 : 1));
  }
  return NULL;
}

shoal_status ps_client_started(ps_client *c, ps_answer *out) {
  for (int s = 0; s < client_servers(c); s++) TRY(take(c, s, PS_START, NULL, 0, out));
  return NULL;
}

shoal_status ps_client_start(ps_client *c, int64_t updates, const ps_start *plan, const char *stream, ps_answer *out) {
  TRY(send_start(c, updates, plan, stream, false));
  return ps_client_started(c, out);
}

void ps_client_inherit(ps_client *c, const ps_client *before) {
  net_stats stats;
  c->newest = before->newest;
  for (int s = 0; s < client_servers(before); s++) c->newest = MAX_OF(c->newest, before->generations[s]);
  ps_client_stats(before, &stats);
  client_add_stats(&c->past, &stats);
}

shoal_status ps_client_continue(ps_client *c, const ps_client *before, int64_t updates, const ps_start *plan,
                                const char *done) {
  ps_client_inherit(c, before);
  return send_start(c, updates, plan, done, true);
}

shoal_status ps_client_stop(ps_client *c, float *const *parameters, ps_answer out[PS_FLIGHT_MAX], int *n) {
  *n = 0;
  for (int s = client_servers(c) - 1; s >= 0; s--) TRY(client_send(c, s, (net_header){.kind = PS_STOP}, NULL, NULL));
  while (c->in_flight) TRY(ps_client_take(c, parameters, &out[(*n)++]));
  for (int s = 0; s < client_servers(c); s++) {
    ps_head head;
    net_header answer;
    TRY(client_receive(c, s, PS_STOP, &(ps_cargo){0}, &head, &answer));
  }
  return NULL;
}

shoal_status ps_client_done(ps_client *c, ps_head *head) {
  return ask(c, (net_header){.kind = PS_DONE}, NULL, NULL, NULL, head);
}

shoal_status ps_client_report(ps_client *c, const char *words) {
  net_header answer;
  ps_head head;
  TRY(client_send_text(c, 0, PS_REPORT, words));
  return client_receive(c, 0, PS_REPORT, &(ps_cargo){0}, &head, &answer);
}

shoal_status ps_client_collect(ps_client *c, int server, int which, char **out, bool *gone) {
  net_message m;
  TRY(client_send(c, server, (net_header){.kind = PS_COLLECT, .number = (uint64_t)which}, NULL, NULL));
  TRY(client_await(c, server, PS_COLLECT, &m));
  char *words = m.bytes && !(m.header.flags & PS_REFUSED) ? strndup((const char *)m.payload, m.bytes) : NULL;
  *gone = m.header.flags & PS_FENCED;
  net_release_client(c->links[server], &m);
  *out = words;
  return NULL;
}

shoal_status ps_client_changes(ps_client *c, int64_t known, ps_change out[PS_CHANGES_MAX], int *n, int64_t *all) {
  net_message m;
  TRY(client_send(c, 0, (net_header){.kind = PS_CHANGES, .number = (uint64_t)known}, NULL, NULL));
  TRY(client_await(c, 0, PS_CHANGES, &m));
  bool good = m.header.kind == PS_CHANGES && !m.header.flags && m.bytes <= PS_CHANGES_MAX * sizeof *out;
  *n = good ? (int)(m.bytes / sizeof *out) : 0;
  *all = good ? (int64_t)m.header.number : known;
  if (good) memcpy(out, m.payload, (size_t)*n * sizeof *out);
  net_release_client(c->links[0], &m);
  return good ? NULL : status_make(SHOAL_ERR_PEER, "ps/0 does not report which workers left and joined");
}

shoal_status ps_client_quit(ps_client *c) {
  ps_head head;
  TRY(ask(c, (net_header){.kind = PS_QUIT}, NULL, NULL, NULL, &head));
  client_free_sessions(c, true);
  return NULL;
}

shoal_status ps_client_hand_over(ps_client *c) {
  ps_head head;
  return ask(c, (net_header){.kind = PS_QUIT, .number = 1}, NULL, NULL, NULL, &head);
}

double ps_client_clock(const ps_client *c, int server) { return c->clocks[server].server.ahead; }

void ps_client_stats(const ps_client *c, net_stats *out) {
  net_stats sum = c->past;
  for (int s = 0; s < client_servers(c); s++) {
    if (!c->links[s]) continue;
    net_stats one;
    net_client_stats(c->links[s], &one);
    client_add_stats(&sum, &one);
  }
  *out = sum;
}
