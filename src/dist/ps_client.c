#include "dist/ps_client.h"

#include "base/clock.h"
#include "base/mem.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define AGAIN_MILLISECONDS 20 /* between two tries */
#define TRY_SECONDS 1.0       /* for one try to connect, when meeting again */
#define TAKEN_SECONDS 2.0     /* beyond a heartbeat: until a server knows that an earlier connection has ended */

typedef struct {
  double sent;  /* clock: the last PUSH */
  bool known;
  double trip;  /* seconds on the way, of the quickest so far ... */
  double ahead; /* ... and the server's clock minus this one by it */
} ps_clock;

/* A server's part of a table. */
typedef struct {
  int64_t first, count;         /* rows */
  int32_t *asked;               /* [touched] keys asked for last, of the whole table */
  int64_t n_asked, begin, n;    /* begin, n: of the keys under way, this server's */
  uint8_t *code;                /* room for them as they travel */
} ps_table_end;

struct ps_client {
  ps_client_options options;
  net_client **links;   /* [servers] */
  uint64_t *versions;   /* [servers] of the parameters held */
  uint64_t *generations; /* [servers] as they said last */
  ps_clock *clocks;     /* [servers] */
  uint32_t labels;      /* of the timeline: the first of them */
  net_part *parts;      /* room for the largest message */
  int nodes;            /* vectors of a gradient at most */
  ps_table_end *ends;   /* [servers] of a table; NULL: there is none */
  bool met;             /* once */
  bool lost, fenced;
  net_stats past;       /* of the connections before */
};

static const char *const kind_names[] = {"",        "hello",  "set up", "start", "pull from",
                                         "push to", "get from", "stop",  "done",  "report to",
                                         "collect from", "quit", "rows of", "read from", "write to"};

/* Takes `status`. */
static shoal_status explain(const ps_client *c, int server, int kind, shoal_status status) {
  return status_wrap(status, "%s ps/%d (%s)", kind_names[kind], server, c->options.addresses[server]);
}

static int servers_of(const ps_client *c) { return c->options.place->servers; }
bool ps_client_lost(const ps_client *c) { return c->lost; }
bool ps_client_fenced(const ps_client *c) { return c->fenced; }

/* ---- timeline */

enum { SENDING, WAITING, TAKING, LABELS };

static uint32_t label_of(const ps_client *c, int server, int what) {
  return c->labels + (uint32_t)(server * LABELS + what);
}

static shoal_status label(ps_client *c) {
  static const struct {
    event_kind kind;
    const char *words;
  } all[LABELS] = {[SENDING] = {EVENT_MESSAGE, "send to ps/%d"},
                   [WAITING] = {EVENT_WAIT, "wait for ps/%d"},
                   [TAKING] = {EVENT_MESSAGE, "take in from ps/%d"}};
  events *e = c->options.events;
  if (!e) return NULL;
  c->labels = e->n_labels;
  for (int i = 0; i < servers_of(c) * LABELS; i++) {
    char name[64];
    uint32_t ignored; /* they follow each other */
    snprintf(name, sizeof name, all[i % LABELS].words, i / LABELS);
    TRY(events_label(e, &(event_label){.kind = all[i % LABELS].kind, .name = name}, &ignored));
  }
  return NULL;
}

/* ---- */

/* A table is one variable, and each server has one slice of it. */
static shoal_status cut_table(ps_client *c) {
  const placement *place = c->options.place;
  c->ends = calloc((size_t)place->servers, sizeof *c->ends);
  if (!c->ends) return status_no_memory();
  for (int s = 0; s < place->servers; s++) {
    const placement_slice *slice = &place->slices[place->begin[s]];
    const int64_t most = MIN_OF(c->options.touched, slice->count);
    ps_table_end *end = &c->ends[s];
    *end = (ps_table_end){.first = slice->first, .count = slice->count, .n_asked = -1};
    end->asked = calloc((size_t)most + 1, sizeof *end->asked);
    end->code = calloc(1, sparse_keys_most(most) + 1);
    if (!end->asked || !end->code) return status_no_memory();
    if (place->begin[s + 1] - place->begin[s] != 1 || (s && end->first != end[-1].first + end[-1].count))
      return status_make(SHOAL_ERR_INTERNAL, "the table's rows are not with the servers in their order");
  }
  return NULL;
}

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
  c->nodes = ps_most_nodes(options->round, MAX_OF(options->workers, 1));
  c->parts = calloc((size_t)(place->n_slices * c->nodes) + 3, sizeof *c->parts);
  bool good = c->links && c->versions && c->generations && c->clocks && c->parts;
  shoal_status status = good ? label(c) : status_no_memory();
  if (!status && options->touched) status = cut_table(c);
  if (status) {
    ps_client_destroy(c);
    return status;
  }
  *out = c;
  return NULL;
}

static void hang_up(ps_client *c) {
  for (int s = 0; c->links && s < servers_of(c); s++) {
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
  for (int s = 0; c->ends && s < servers_of(c); s++) {
    free(c->ends[s].asked);
    free(c->ends[s].code);
  }
  free(c->ends);
  free(c);
}

/* ---- one message */

/* A connection that breaks is lost; a server that does not answer in time is an error like any other. */
static shoal_status note_loss(ps_client *c, double since, double seconds, shoal_status status) {
  if (shoal_status_code(status) == SHOAL_ERR_PEER && clock_seconds() - since < 0.9 * seconds) c->lost = true;
  return status;
}

/* Answers to earlier requests may still be on their way: nothing goes over these connections any more. */
static shoal_status check_met(const ps_client *c, int server, int kind) {
  if (!c->lost && c->links[server]) return NULL;
  return explain(c, server, kind, status_make(SHOAL_ERR_PEER, "the connections were lost"));
}

/* `parts` of c go out. */
static shoal_status send_parts(ps_client *c, int server, net_header h, int n) {
  TRY(check_met(c, server, h.kind));
  double since = clock_seconds(), seconds = c->options.answer_seconds;
  h.from = c->options.net.from;
  shoal_status status = net_send(c->links[server], &h, c->parts, n, seconds);
  return status ? explain(c, server, h.kind, note_loss(c, since, seconds, status)) : NULL;
}

static shoal_status send_traced(ps_client *c, int server, net_header h, int n) {
  bool watched = h.kind == PS_PUSH && events_on(c->options.events);
  uint64_t begun = watched ? events_now() : 0;
  TRY(send_parts(c, server, h, n));
  if (!watched) return NULL;
  double bytes = 0;
  for (int i = 0; i < n; i++) bytes += (double)c->parts[i].bytes;
  events_add(c->options.events, 0, label_of(c, server, SENDING), begun, events_now(), bytes);
  return NULL;
}

/* Vectors of the gradient that such a head stands before. */
static int nodes_of(const ps_head *head) {
  tree_node nodes[TREE_MOST_NODES];
  return head && head->round_rows ? tree_nodes(head->first_leaf, head->last_leaf, nodes) : 1;
}

/* Head, then the server's slices of the values (NULL: none). */
static shoal_status send(ps_client *c, int server, net_header h, const ps_head *head, float *const *values) {
  const placement *p = c->options.place;
  const int nodes = values ? nodes_of(head) : 0;
  int n = 0;
  if (head) c->parts[n++] = (net_part){head, sizeof *head};
  for (int k = 0; k < nodes; k++, values += c->options.variables)
    for (int i = p->begin[server]; i < p->begin[server + 1]; i++) {
      const placement_slice *slice = &p->slices[i];
      c->parts[n++] = (net_part){values[slice->variable] + slice->first, (size_t)slice->count * sizeof(float)};
    }
  return send_traced(c, server, h, n);
}

static shoal_status send_text(ps_client *c, int server, int kind, const char *words) {
  c->parts[0] = (net_part){words, strlen(words)};
  return send_parts(c, server, (net_header){.kind = (uint16_t)kind}, 1);
}

static shoal_status await(ps_client *c, int server, int kind, net_message *m) {
  double since = clock_seconds(), seconds = c->options.answer_seconds;
  shoal_status status = net_await(c->links[server], seconds, m);
  return status ? explain(c, server, kind, note_loss(c, since, seconds, status)) : NULL;
}

/* What an answer brings, and where it goes. */
typedef struct {
  float *const *vectors; /* one pointer a variable; NULL: no vector */
  float *values;         /* or else so many numbers, */
  int64_t n;             /* 0: none */
} ps_cargo;

static void unload(const ps_client *c, int server, const ps_cargo *to, const float *from) {
  const placement *p = c->options.place;
  if (to->n) memcpy(to->values, from, (size_t)to->n * sizeof *from);
  for (int i = p->begin[server]; to->vectors && i < p->begin[server + 1]; i++) {
    const placement_slice *slice = &p->slices[i];
    memcpy(to->vectors[slice->variable] + slice->first, from + slice->offset, (size_t)slice->count * sizeof *from);
  }
}

/* The answer to a message of that kind. One that says STOPPED may come without what it was to bring. */
static shoal_status receive_cargo(ps_client *c, int server, int kind, const ps_cargo *cargo, ps_head *head,
                                  net_header *header) {
  net_message m;
  bool watched = kind == PS_PUSH && events_on(c->options.events);
  uint64_t begun = watched ? events_now() : 0;
  TRY(await(c, server, kind, &m));
  if (watched) begun = events_add(c->options.events, 0, label_of(c, server, WAITING), begun, events_now(), 0);
  shoal_status status = NULL;
  int64_t numbers = cargo->vectors ? c->options.place->elements[server] : cargo->n;
  size_t expected = sizeof *head + (size_t)numbers * sizeof(float);
  bool empty = m.header.flags & PS_STOPPED && m.bytes == sizeof *head;
  *header = m.header;
  if (m.header.flags & (PS_REFUSED | PS_FENCED)) {
    if (m.header.flags & PS_FENCED) c->lost = c->fenced = true;
    status = status_make(SHOAL_ERR_PEER, "refused: %.*s", (int)m.bytes, (const char *)m.payload);
  } else if (m.header.kind != kind || (m.bytes != expected && !empty)) {
    status = status_make(SHOAL_ERR_PEER, "an answer of kind %u and %zu bytes came; kind %d and %zu bytes were expected",
                         m.header.kind, m.bytes, kind, expected);
  } else {
    memcpy(head, m.payload, sizeof *head);
    if (m.bytes == expected) unload(c, server, cargo, (const float *)(m.payload + sizeof *head));
  }
  if (watched)
    events_add(c->options.events, 0, label_of(c, server, TAKING), begun, events_now(), (double)expected);
  net_release_client(c->links[server], &m);
  return status ? explain(c, server, kind, status) : NULL;
}

/* values: where its vector goes; NULL: it has none. */
static shoal_status receive(ps_client *c, int server, int kind, float *const *values, ps_head *head,
                            net_header *header) {
  return receive_cargo(c, server, kind, &(ps_cargo){.vectors = values}, head, header);
}

/* ---- meeting */

static void add_stats(net_stats *to, const net_stats *one) {
  to->sent_messages += one->sent_messages;
  to->received_messages += one->received_messages;
  to->sent_bytes += one->sent_bytes;
  to->received_bytes += one->received_bytes;
  to->refused += one->refused;
}

static shoal_status connect_all(ps_client *c, double seconds) {
  const placement *place = c->options.place;
  ps_client_stats(c, &c->past);
  hang_up(c);
  for (int s = 0; s < place->servers; s++) {
    net_options net = c->options.net;
    net.largest = ps_largest((size_t)place->elements[s], c->nodes, (size_t)c->options.touched,
                             strlen(c->options.settings));
    if (c->ends) c->ends[s].n_asked = -1;
    TRY(status_wrap(net_connect(c->options.addresses[s], &net, seconds, &c->links[s]), "ps/%d", s));
  }
  return NULL;
}

/* An earlier connection of this worker may not be known to have ended. */
static shoal_status hello(ps_client *c, int server, bool *under_way) {
  double end = clock_seconds() + c->options.net.heartbeat + TAKEN_SECONDS;
  for (;;) {
    ps_head head;
    net_header answer = {0};
    TRY(send_text(c, server, PS_HELLO, c->options.settings));
    shoal_status status = receive(c, server, PS_HELLO, NULL, &head, &answer);
    if (!status) {
      c->versions[server] = answer.step;
      c->generations[server] = answer.generation;
      *under_way = answer.flags & PS_UNDER_WAY;
      return NULL;
    }
    if (!(answer.flags & PS_TAKEN) || clock_seconds() > end) return status;
    shoal_status_free(status);
    poll(NULL, 0, AGAIN_MILLISECONDS);
  }
}

/* *final: it makes no sense to try again. */
static shoal_status meet_once(ps_client *c, double seconds, bool *under_way, bool *final) {
  *final = false;
  c->lost = c->fenced = false;
  TRY(connect_all(c, seconds));
  bool all = true;
  for (int s = servers_of(c) - 1; s >= 0; s--) {
    bool one;
    shoal_status status = hello(c, s, &one);
    *final = !c->lost;
    TRY(status);
    all = all && one && c->generations[s] == c->generations[servers_of(c) - 1];
  }
  *under_way = all;
  return NULL;
}

static bool asked_to_stop(const ps_client *c) {
  return c->options.stop && __atomic_load_n(c->options.stop, __ATOMIC_RELAXED);
}

shoal_status ps_client_meet(ps_client *c, bool *under_way) {
  double since = clock_seconds(), seconds = c->met ? c->options.again_seconds : c->options.connect_seconds;
  for (;;) {
    bool final;
    double left = since + seconds - clock_seconds();
    shoal_status status = meet_once(c, MIN_OF(c->options.again_seconds > 0 ? TRY_SECONDS : seconds, MAX_OF(left, 0.1)),
                                    under_way, &final);
    if (!status) {
      c->met = true;
      return NULL;
    }
    if (final || shoal_status_code(status) != SHOAL_ERR_PEER || c->options.again_seconds <= 0) return status;
    if (asked_to_stop(c)) {
      shoal_status_free(status);
      return status_make(SHOAL_ERR_CANCELLED, "asked to stop while servers were awaited");
    }
    if (clock_seconds() - since > seconds) return status_wrap(status, "not all servers are there after %g s", seconds);
    shoal_status_free(status);
    poll(NULL, 0, AGAIN_MILLISECONDS);
  }
}

/* ---- requests */

/* The same request to all servers. out: values sent along; in: where the answers go. *first: server 0's answer. */
static shoal_status ask(ps_client *c, net_header h, const ps_head *head, float *const *out, float *const *in,
                        ps_head *first) {
  for (int s = servers_of(c) - 1; s >= 0; s--) TRY(send(c, s, h, head, out));
  for (int s = 0; s < servers_of(c); s++) {
    ps_head got;
    net_header answer;
    TRY(receive(c, s, h.kind, in, &got, &answer));
    if (s == 0) *first = got;
    first->running = MAX_OF(first->running, got.running);
  }
  return NULL;
}

/* The less a round trip took, the nearer the middles of both ends' times are to each other. */
static void note_clock(ps_client *c, int server, ps_answer *got) {
  const ps_head *h = &got->head;
  ps_clock *clock = &c->clocks[server];
  double now = clock_seconds(), here = now - clock->sent, there = h->answered - h->arrived;
  got->waited = MIN_OF(MAX_OF(h->ready - h->arrived, 0), here);
  got->worked = MIN_OF(MAX_OF(h->answered - h->ready, 0), here - got->waited);
  if (clock->known && here - there >= clock->trip) return;
  clock->known = true;
  clock->trip = here - there;
  clock->ahead = (h->arrived + h->answered) / 2 - (clock->sent + now) / 2;
}

/* Takes in an answer with parameters. */
static shoal_status take_cargo(ps_client *c, int server, int kind, const ps_cargo *cargo, ps_answer *out) {
  ps_answer got = {0};
  net_header answer;
  TRY(receive_cargo(c, server, kind, cargo, &got.head, &answer));
  c->versions[server] = answer.step;
  c->generations[server] = answer.generation;
  got.next = (int64_t)answer.number;
  if (kind == PS_PUSH) note_clock(c, server, &got);
  got.stopped = answer.flags & PS_STOPPED;
  got.late = answer.flags & PS_LATE;
  bool stopped = server && out->stopped;
  double waited = server ? out->waited : 0, worked = server ? out->worked : 0;
  if (server == 0) *out = got;
  out->stopped = got.stopped || stopped;
  out->waited = MAX_OF(waited, got.waited);
  out->worked = MAX_OF(worked, got.worked);
  return NULL;
}

static shoal_status take(ps_client *c, int server, int kind, float *const *parameters, ps_answer *out) {
  return take_cargo(c, server, kind, &(ps_cargo){.vectors = parameters}, out);
}

static shoal_status push_to(ps_client *c, int server, float *const *gradients, const ps_head *head) {
  net_header h = {.kind = PS_PUSH, .step = c->versions[server], .number = (uint64_t)head->examples};
  c->clocks[server].sent = clock_seconds();
  return send(c, server, h, head, head->examples ? gradients : NULL);
}

/* Parameters of the others, as the leader has them. */
static shoal_status pull_from(ps_client *c, int server, uint64_t version) {
  return send(c, server, (net_header){.kind = PS_PULL, .step = version}, NULL, NULL);
}

/* The leader decides first whether the gradient counts, and in how large a step. */
static shoal_status push_with_backups(ps_client *c, float *const *gradients, float *const *parameters,
                                      const ps_head *head, ps_answer *out) {
  TRY(push_to(c, 0, gradients, head));
  TRY(take(c, 0, PS_PUSH, parameters, out));
  if (out->stopped) return NULL;
  bool used = head->examples && !out->late;
  ps_head told = *head;
  told.used = out->head.used;
  for (int s = 1; s < servers_of(c); s++) TRY(used ? push_to(c, s, gradients, &told) : pull_from(c, s, c->versions[0]));
  for (int s = 1; s < servers_of(c); s++) TRY(take(c, s, used ? PS_PUSH : PS_PULL, parameters, out));
  return NULL;
}

shoal_status ps_client_push(ps_client *c, float *const *gradients, float *const *parameters, const ps_head *head,
                            ps_answer *out) {
  if (c->options.backups && servers_of(c) > 1) return push_with_backups(c, gradients, parameters, head, out);
  for (int s = servers_of(c) - 1; s >= 0; s--) TRY(push_to(c, s, gradients, head));
  for (int s = 0; s < servers_of(c); s++) TRY(take(c, s, PS_PUSH, parameters, out));
  return NULL;
}

shoal_status ps_client_pull(ps_client *c, float *const *parameters, ps_answer *out) {
  uint64_t version = 0;
  for (int s = 0; s < servers_of(c); s++) version = MAX_OF(version, c->versions[s]);
  TRY(pull_from(c, 0, version));
  TRY(take(c, 0, PS_PULL, parameters, out));
  for (int s = 1; s < servers_of(c); s++) TRY(pull_from(c, s, c->versions[0]));
  for (int s = 1; s < servers_of(c); s++) {
    TRY(take(c, s, PS_PULL, parameters, out));
    if (c->generations[s] == c->generations[0]) continue;
    c->lost = c->fenced = true; /* one of them has begun again meanwhile */
    return status_make(SHOAL_ERR_PEER, "ps/%d is in training %llu, ps/0 in training %llu", s,
                       (unsigned long long)c->generations[s], (unsigned long long)c->generations[0]);
  }
  return NULL;
}

/* ---- a table */

/* Keys [0, n) from `begin` on that are the server's. */
static void find_own(const ps_client *c, int server, ps_keys keys) {
  ps_table_end *end = &c->ends[server];
  int64_t bounds[2]; /* the first key that is not below the server's first row, and behind its last */
  for (int k = 0; k < 2; k++) {
    int64_t low = 0, high = keys.n, row = end->first + (k ? end->count : 0);
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (keys.keys[middle] < row)
        low = middle + 1;
      else
        high = middle;
    }
    bounds[k] = low;
  }
  end->begin = bounds[0];
  end->n = bounds[1] - bounds[0];
}

/* Head, gradients and the server's share of the keys. kept: those keys are what the server knows this worker by. */
static shoal_status send_keys(ps_client *c, int server, net_header h, ps_head *head, const float *gradients,
                              ps_keys keys, bool kept) {
  ps_table_end *end = &c->ends[server];
  find_own(c, server, keys);
  const int32_t *own = keys.keys + end->begin;
  int n = 1;
  if (gradients) c->parts[n++] = (net_part){gradients, (size_t)head->gradients * sizeof *gradients};
  if (kept && end->n == end->n_asked && !memcmp(own, end->asked, (size_t)end->n * sizeof *own)) {
    head->keys = PS_SAME;
  } else {
    head->keys = end->n;
    c->parts[n++] = (net_part){end->code, sparse_keys_encode(own, end->n, (int32_t)end->first, end->code)};
  }
  if (kept) {
    memcpy(end->asked, own, (size_t)end->n * sizeof *own);
    end->n_asked = end->n;
  }
  c->parts[0] = (net_part){head, sizeof *head};
  return send_traced(c, server, h, n);
}

static ps_cargo cargo_of(const ps_table_end *end, float *values) {
  return (ps_cargo){.values = values + end->begin, .n = end->n};
}

shoal_status ps_client_push_rows(ps_client *c, const float *gradients, ps_keys next, float *values, ps_head *head,
                                 ps_answer *out) {
  int64_t at = 0; /* gradients of servers with smaller rows */
  for (int s = 0; s < servers_of(c); s++) at += c->ends[s].n_asked;
  for (int s = servers_of(c) - 1; s >= 0; s--) {
    at -= c->ends[s].n_asked;
    head->gradients = head->examples ? c->ends[s].n_asked : 0;
    net_header h = {.kind = PS_PUSH, .step = c->versions[s], .number = (uint64_t)head->examples};
    c->clocks[s].sent = clock_seconds();
    TRY(send_keys(c, s, h, head, head->examples ? gradients + at : NULL, next, true));
  }
  for (int s = 0; s < servers_of(c); s++) {
    ps_cargo cargo = cargo_of(&c->ends[s], values);
    TRY(take_cargo(c, s, PS_PUSH, &cargo, out));
  }
  return NULL;
}

shoal_status ps_client_rows(ps_client *c, ps_keys keys, bool keep, float *values) {
  ps_head head = {0};
  for (int s = 0; s < servers_of(c); s++) {
    if (keep) c->ends[s].n_asked = -1; /* so that they are sent */
    TRY(send_keys(c, s, (net_header){.kind = PS_ROWS, .number = keep}, &head, NULL, keys, keep));
  }
  for (int s = 0; s < servers_of(c); s++) {
    ps_head got;
    net_header answer;
    ps_cargo cargo = cargo_of(&c->ends[s], values);
    TRY(receive_cargo(c, s, PS_ROWS, &cargo, &got, &answer));
  }
  return NULL;
}

/* The server with that row, and how many of `count` from it on can go in one message. */
static int server_with(const ps_client *c, int64_t row, int64_t count, int64_t *out) {
  int s = 0;
  while (s + 1 < servers_of(c) && (row < c->ends[s].first || row >= c->ends[s].first + c->ends[s].count)) s++;
  *out = MIN_OF(MIN_OF(count, PS_PIECE_MOST), c->ends[s].first + c->ends[s].count - row);
  return s;
}

shoal_status ps_client_read(ps_client *c, int which, int64_t first, int64_t count, float *values) {
  for (int64_t n; count > 0; first += n, count -= n, values += n) {
    int s = server_with(c, first, count, &n);
    ps_piece piece = {.which = which, .first = first - c->ends[s].first, .count = n};
    ps_head head;
    net_header answer;
    c->parts[0] = (net_part){&piece, sizeof piece};
    TRY(send_parts(c, s, (net_header){.kind = PS_READ}, 1));
    TRY(receive_cargo(c, s, PS_READ, &(ps_cargo){.values = values, .n = n}, &head, &answer));
  }
  return NULL;
}

shoal_status ps_client_write(ps_client *c, int which, int64_t first, int64_t count, const float *values) {
  for (int64_t n; count > 0; first += n, count -= n, values += n) {
    int s = server_with(c, first, count, &n);
    ps_piece piece = {.which = which, .first = first - c->ends[s].first, .count = n};
    ps_head head;
    net_header answer;
    c->parts[0] = (net_part){&piece, sizeof piece};
    c->parts[1] = (net_part){values, (size_t)n * sizeof *values};
    TRY(send_parts(c, s, (net_header){.kind = PS_WRITE}, 2));
    TRY(receive(c, s, PS_WRITE, NULL, &head, &answer));
  }
  return NULL;
}

/* ---- vectors */

shoal_status ps_client_set(ps_client *c, int which, float *const *values) {
  ps_head none = {0}, head;
  return ask(c, (net_header){.kind = PS_SET, .number = (uint64_t)which}, &none, values, NULL, &head);
}

shoal_status ps_client_get(ps_client *c, int which, float *const *values, ps_head *head) {
  return ask(c, (net_header){.kind = PS_GET, .number = (uint64_t)which}, NULL, NULL, values, head);
}

shoal_status ps_client_start(ps_client *c, int64_t updates, const ps_start *plan, ps_answer *out) {
  net_header h = {.kind = PS_START, .step = (uint64_t)updates};
  for (int s = 0; s < servers_of(c); s++) h.generation = MAX_OF(h.generation, c->generations[s] + 1);
  c->parts[0] = (net_part){plan, sizeof *plan};
  for (int s = servers_of(c) - 1; s >= 0; s--) TRY(send_parts(c, s, h, 1));
  for (int s = 0; s < servers_of(c); s++) TRY(take(c, s, PS_START, NULL, out));
  return NULL;
}

shoal_status ps_client_stop(ps_client *c) {
  ps_head head;
  return ask(c, (net_header){.kind = PS_STOP}, NULL, NULL, NULL, &head);
}

shoal_status ps_client_done(ps_client *c, ps_head *head) {
  return ask(c, (net_header){.kind = PS_DONE}, NULL, NULL, NULL, head);
}

shoal_status ps_client_report(ps_client *c, const char *words) {
  net_header answer;
  ps_head head;
  TRY(send_text(c, 0, PS_REPORT, words));
  return receive(c, 0, PS_REPORT, NULL, &head, &answer);
}

shoal_status ps_client_collect(ps_client *c, int server, int which, char **out, bool *gone) {
  net_message m;
  TRY(send(c, server, (net_header){.kind = PS_COLLECT, .number = (uint64_t)which}, NULL, NULL));
  TRY(await(c, server, PS_COLLECT, &m));
  char *words = m.bytes && !(m.header.flags & PS_REFUSED) ? strndup((const char *)m.payload, m.bytes) : NULL;
  *gone = m.header.flags & PS_FENCED;
  net_release_client(c->links[server], &m);
  *out = words;
  return NULL;
}

shoal_status ps_client_quit(ps_client *c) {
  ps_head head;
  return ask(c, (net_header){.kind = PS_QUIT}, NULL, NULL, NULL, &head);
}

double ps_client_clock(const ps_client *c, int server) { return c->clocks[server].ahead; }

void ps_client_stats(const ps_client *c, net_stats *out) {
  net_stats sum = c->past;
  for (int s = 0; s < servers_of(c); s++) {
    if (!c->links[s]) continue;
    net_stats one;
    net_client_stats(c->links[s], &one);
    add_stats(&sum, &one);
  }
  *out = sum;
}
