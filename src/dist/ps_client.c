#include "dist/ps_client.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

struct ps_client {
  ps_client_options options;
  net_client **links;  /* [servers] */
  uint64_t *versions;  /* [servers] of the parameters held */
  net_part *parts;     /* room for the largest message */
};

static const char *const kind_names[] = {"",        "hello",  "set up", "start", "first pull",
                                         "push to", "get from", "stop",  "done",  "report to",
                                         "collect from", "quit"};

/* Takes `status`. */
static shoal_status explain(const ps_client *c, int server, int kind, shoal_status status) {
  return status_wrap(status, "%s ps/%d (%s)", kind_names[kind], server, c->options.addresses[server]);
}

static int servers_of(const ps_client *c) { return c->options.place->servers; }

shoal_status ps_client_create(const ps_client_options *options, ps_client **out) {
  const placement *place = options->place;
  size_t servers = (size_t)place->servers;
  ps_client *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->options = *options;
  c->links = calloc(servers, sizeof *c->links);
  c->versions = calloc(servers, sizeof *c->versions);
  c->parts = calloc((size_t)place->n_slices + 1, sizeof *c->parts);
  shoal_status status = c->links && c->versions && c->parts ? NULL : status_no_memory();
  for (int s = 0; s < place->servers && !status; s++) {
    net_options net = options->net;
    net.largest = ps_largest((size_t)place->elements[s], strlen(options->settings));
    status = net_connect(options->addresses[s], &net, options->connect_seconds, &c->links[s]);
    if (status) status = status_wrap(status, "ps/%d", s);
  }
  net_header h = {.kind = PS_HELLO, .from = options->net.from};
  net_part words = {options->settings, strlen(options->settings)};
  for (int s = 0; s < place->servers && !status; s++) {
    status = net_send(c->links[s], &h, &words, 1, options->answer_seconds);
    net_message m;
    if (!status) status = net_await(c->links[s], options->answer_seconds, &m);
    if (!status) {
      if (m.header.flags & PS_REFUSED)
        status = status_make(SHOAL_ERR_PEER, "refused: %.*s", (int)m.bytes, (const char *)m.payload);
      net_release_client(c->links[s], &m);
    }
    status = explain(c, s, PS_HELLO, status);
  }
  if (status) {
    ps_client_destroy(c);
    return status;
  }
  *out = c;
  return NULL;
}

void ps_client_destroy(ps_client *c) {
  if (!c) return;
  for (int s = 0; c->links && s < servers_of(c); s++)
    if (c->links[s]) net_client_close(c->links[s]);
  free(c->links);
  free(c->versions);
  free(c->parts);
  free(c);
}

/* One message: head, then the server's slices of the values (NULL: none). */
static shoal_status send(ps_client *c, int server, net_header h, const ps_head *head, float *const *values) {
  const placement *p = c->options.place;
  int n = 0;
  h.from = c->options.net.from;
  if (head) c->parts[n++] = (net_part){head, sizeof *head};
  for (int i = p->begin[server]; values && i < p->begin[server + 1]; i++) {
    const placement_slice *slice = &p->slices[i];
    c->parts[n++] = (net_part){values[slice->variable] + slice->first, (size_t)slice->count * sizeof(float)};
  }
  return explain(c, server, h.kind, net_send(c->links[server], &h, c->parts, n, c->options.answer_seconds));
}

/* The answer to a message of that kind. values: where its vector goes; NULL: it has none. */
static shoal_status receive(ps_client *c, int server, int kind, float *const *values, ps_head *head,
                            net_header *header) {
  const placement *p = c->options.place;
  net_message m;
  shoal_status status = net_await(c->links[server], c->options.answer_seconds, &m);
  if (status) return explain(c, server, kind, status);
  size_t expected = sizeof *head + (values ? (size_t)p->elements[server] * sizeof(float) : 0);
  if (m.header.flags & PS_REFUSED) {
    status = status_make(SHOAL_ERR_PEER, "refused: %.*s", (int)m.bytes, (const char *)m.payload);
  } else if (m.header.kind != kind || m.bytes != expected) {
    status = status_make(SHOAL_ERR_PEER, "an answer of kind %u and %zu bytes came; kind %d and %zu bytes were expected",
                         m.header.kind, m.bytes, kind, expected);
  } else {
    memcpy(head, m.payload, sizeof *head);
    *header = m.header;
    const float *vector = (const float *)(m.payload + sizeof *head);
    for (int i = p->begin[server]; values && i < p->begin[server + 1]; i++) {
      const placement_slice *slice = &p->slices[i];
      memcpy(values[slice->variable] + slice->first, vector + slice->offset, (size_t)slice->count * sizeof(float));
    }
  }
  net_release_client(c->links[server], &m);
  return explain(c, server, kind, status);
}

/* The same request to all servers. out: values sent along; in: where the answers go. *first: server 0's answer. */
static shoal_status ask(ps_client *c, net_header h, const ps_head *head, float *const *out, float *const *in,
                        ps_head *first, net_header *answer) {
  for (int s = 0; s < servers_of(c); s++) TRY(send(c, s, h, head, out));
  for (int s = 0; s < servers_of(c); s++) {
    ps_head got;
    net_header got_header;
    TRY(receive(c, s, h.kind, in, &got, &got_header));
    if (in && h.kind != PS_GET) c->versions[s] = got_header.step;
    if (s == 0) {
      *first = got;
      *answer = got_header;
    }
    first->running = MAX_OF(first->running, got.running);
  }
  return NULL;
}

shoal_status ps_client_push(ps_client *c, float *const *gradients, float *const *parameters, ps_head *head,
                            bool *stopped) {
  net_header h = {.kind = PS_PUSH, .number = (uint64_t)head->examples};
  for (int s = 0; s < servers_of(c); s++) {
    h.step = c->versions[s];
    TRY(send(c, s, h, head, head->examples ? gradients : NULL));
  }
  bool stop = false;
  for (int s = 0; s < servers_of(c); s++) {
    ps_head got;
    net_header answer;
    TRY(receive(c, s, PS_PUSH, parameters, &got, &answer));
    c->versions[s] = answer.step;
    if (answer.flags & PS_STOPPED) stop = true;
    if (s == 0) *head = got;
  }
  *stopped = stop;
  return NULL;
}

shoal_status ps_client_pull(ps_client *c, float *const *parameters, int64_t *round) {
  ps_head head;
  net_header answer;
  TRY(ask(c, (net_header){.kind = PS_PULL}, NULL, NULL, parameters, &head, &answer));
  *round = (int64_t)answer.number;
  return NULL;
}

shoal_status ps_client_set(ps_client *c, int which, float *const *values) {
  ps_head none = {0}, head;
  net_header answer;
  return ask(c, (net_header){.kind = PS_SET, .number = (uint64_t)which}, &none, values, NULL, &head, &answer);
}

shoal_status ps_client_get(ps_client *c, int which, float *const *values, ps_head *head) {
  net_header answer;
  return ask(c, (net_header){.kind = PS_GET, .number = (uint64_t)which}, NULL, NULL, values, head, &answer);
}

shoal_status ps_client_start(ps_client *c, int64_t round, int64_t updates, int64_t counter) {
  ps_head out = {.counter = counter}, head;
  net_header answer;
  for (int s = 0; s < servers_of(c); s++) c->versions[s] = (uint64_t)updates;
  return ask(c, (net_header){.kind = PS_START, .step = (uint64_t)round, .number = (uint64_t)updates}, &out, NULL, NULL,
             &head, &answer);
}

shoal_status ps_client_stop(ps_client *c) {
  ps_head head;
  net_header answer;
  return ask(c, (net_header){.kind = PS_STOP}, NULL, NULL, NULL, &head, &answer);
}

shoal_status ps_client_done(ps_client *c, ps_head *head) {
  net_header answer;
  return ask(c, (net_header){.kind = PS_DONE}, NULL, NULL, NULL, head, &answer);
}

shoal_status ps_client_report(ps_client *c, const char *words) {
  net_header h = {.kind = PS_REPORT, .from = c->options.net.from}, answer;
  net_part part = {words, strlen(words)};
  ps_head head;
  TRY(explain(c, 0, PS_REPORT, net_send(c->links[0], &h, &part, 1, c->options.answer_seconds)));
  return receive(c, 0, PS_REPORT, NULL, &head, &answer);
}

shoal_status ps_client_collect(ps_client *c, int server, int which, char **out) {
  net_message m;
  TRY(send(c, server, (net_header){.kind = PS_COLLECT, .number = (uint64_t)which}, NULL, NULL));
  TRY(explain(c, server, PS_COLLECT, net_await(c->links[server], c->options.answer_seconds, &m)));
  char *words = m.bytes && !(m.header.flags & PS_REFUSED) ? strndup((const char *)m.payload, m.bytes) : NULL;
  net_release_client(c->links[server], &m);
  *out = words;
  return NULL;
}

shoal_status ps_client_quit(ps_client *c) {
  ps_head head;
  net_header answer;
  return ask(c, (net_header){.kind = PS_QUIT}, NULL, NULL, NULL, &head, &answer);
}

void ps_client_stats(const ps_client *c, net_stats *out) {
  *out = (net_stats){0};
  for (int s = 0; s < servers_of(c); s++) {
    net_stats one;
    net_client_stats(c->links[s], &one);
    out->sent_messages += one.sent_messages;
    out->received_messages += one.received_messages;
    out->sent_bytes += one.sent_bytes;
    out->received_bytes += one.received_bytes;
    out->refused += one.refused;
  }
}
