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

struct ps_client {
  ps_client_options options;
  net_client **links;   /* [servers] */
  uint64_t *versions;   /* [servers] of the parameters held */
  uint64_t *generations; /* [servers] as they said last */
  ps_clock *clocks;     /* [servers] */
  uint32_t labels;      /* of the timeline: the first of them */
  net_part *parts;      /* room for the largest message */
  bool met;             /* once */
  bool lost, fenced;
  net_stats past;       /* of the connections before */
};

static const char *const kind_names[] = {"",        "hello",  "set up", "start", "pull from",
                                         "push to", "get from", "stop",  "done",  "report to",
                                         "collect from", "quit"};

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
  c->parts = calloc((size_t)place->n_slices + 1, sizeof *c->parts);
  bool good = c->links && c->versions && c->generations && c->clocks && c->parts;
  shoal_status status = good ? label(c) : status_no_memory();
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

/* Head, then the server's slices of the values (NULL: none). */
static shoal_status send(ps_client *c, int server, net_header h, const ps_head *head, float *const *values) {
  const placement *p = c->options.place;
  int n = 0;
  if (head) c->parts[n++] = (net_part){head, sizeof *head};
  for (int i = p->begin[server]; values && i < p->begin[server + 1]; i++) {
    const placement_slice *slice = &p->slices[i];
    c->parts[n++] = (net_part){values[slice->variable] + slice->first, (size_t)slice->count * sizeof(float)};
  }
  bool watched = h.kind == PS_PUSH && events_on(c->options.events);
  uint64_t begun = watched ? events_now() : 0;
  TRY(send_parts(c, server, h, n));
  if (!watched) return NULL;
  double bytes = 0;
  for (int i = 0; i < n; i++) bytes += (double)c->parts[i].bytes;
  events_add(c->options.events, 0, label_of(c, server, SENDING), begun, events_now(), bytes);
  return NULL;
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

/* The answer to a message of that kind. values: where its vector goes; NULL: it has none. */
static shoal_status receive(ps_client *c, int server, int kind, float *const *values, ps_head *head,
                            net_header *header) {
  const placement *p = c->options.place;
  net_message m;
  bool watched = kind == PS_PUSH && events_on(c->options.events);
  uint64_t begun = watched ? events_now() : 0;
  TRY(await(c, server, kind, &m));
  if (watched) begun = events_add(c->options.events, 0, label_of(c, server, WAITING), begun, events_now(), 0);
  shoal_status status = NULL;
  size_t expected = sizeof *head + (values ? (size_t)p->elements[server] * sizeof(float) : 0);
  *header = m.header;
  if (m.header.flags & (PS_REFUSED | PS_FENCED)) {
    if (m.header.flags & PS_FENCED) c->lost = c->fenced = true;
    status = status_make(SHOAL_ERR_PEER, "refused: %.*s", (int)m.bytes, (const char *)m.payload);
  } else if (m.header.kind != kind || m.bytes != expected) {
    status = status_make(SHOAL_ERR_PEER, "an answer of kind %u and %zu bytes came; kind %d and %zu bytes were expected",
                         m.header.kind, m.bytes, kind, expected);
  } else {
    memcpy(head, m.payload, sizeof *head);
    const float *vector = (const float *)(m.payload + sizeof *head);
    for (int i = p->begin[server]; values && i < p->begin[server + 1]; i++) {
      const placement_slice *slice = &p->slices[i];
      memcpy(values[slice->variable] + slice->first, vector + slice->offset, (size_t)slice->count * sizeof(float));
    }
  }
  if (watched)
    events_add(c->options.events, 0, label_of(c, server, TAKING), begun, events_now(), (double)expected);
  net_release_client(c->links[server], &m);
  return status ? explain(c, server, kind, status) : NULL;
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
    net.largest = ps_largest((size_t)place->elements[s], strlen(c->options.settings));
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
static shoal_status take(ps_client *c, int server, int kind, float *const *parameters, ps_answer *out) {
  ps_answer got = {0};
  net_header answer;
  TRY(receive(c, server, kind, parameters, &got.head, &answer));
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
