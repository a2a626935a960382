/* The transport of simulated tasks (sim.h): addresses "sim:N". Its connections are never refused or damaged; they end
 * when one side closes them. */
#include "net/endpoint.h"
#include "net/sim.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_TRIPS 3      /* for a connection: TCP's and TLS's */
#define AGAIN_SECONDS 0.01 /* between two looks whether the server is there */

typedef struct {
  sim_end *end; /* the client's; NULL: closed */
  int host;     /* it is at */
} connection;

typedef struct {
  net_server base;
  sim *sim;
  sim_end *end;
  connection *connections; /* peer p is at p - 1 */
  size_t n, room;
} listener;

typedef struct {
  net_client base;
  sim *sim;
  sim_end *end, *there;
  int host;      /* of the server */
  uint64_t peer; /* its own number there */
  uint32_t from;
  bool gone; /* the server has closed the connection */
} caller;

static const net_header goodbye = {.kind = NET_GONE};

static shoal_status find_world(sim **out) {
  *out = sim_here();
  return *out ? NULL : status_make(SHOAL_ERR_ARGUMENT, "simulated hosts are there in simulations alone");
}

static shoal_status listen_at(const char *address, const net_options *options, net_server **out) {
  sim *s;
  TRY(find_world(&s));
  listener *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->sim = s;
  shoal_status status = sim_end_create(s, &l->end);
  if (status) {
    free(l);
    return status;
  }
  sim_publish(s, l);
  *out = &l->base;
  return NULL;
}

static void server_close(net_server *base) {
  listener *l = (listener *)base;
  for (size_t i = 0; i < l->n; i++)
    if (l->connections[i].end)
      shoal_status_free(sim_post(l->sim, l->connections[i].host, l->connections[i].end, &goodbye, 0, NULL, 0, 0));
  sim_publish(l->sim, NULL);
  sim_end_close(l->end);
  free(l->connections);
  free(l);
}

static shoal_status connect_to(const char *address, const net_options *options, double seconds, net_client **out) {
  const double until = clock_seconds() + seconds;
  const int host = atoi(address + strlen(transport_sim.scheme));
  sim *s;
  TRY(find_world(&s));
  listener *l;
  sim_end *end;
  TRY(sim_end_create(s, &end));
  while (!(l = sim_published(s, host))) {
    if (clock_seconds() > until) return status_make(SHOAL_ERR_PEER, "no server in %g s", seconds);
    sim_message *none = sim_take(end, clock_seconds() + AGAIN_SECONDS); /* nobody knows this end */
    if (none) sim_release(s, none, none->bytes);
  }
  caller *c = calloc(1, sizeof *c);
  shoal_status status =
      c ? mem_grow((void **)&l->connections, &l->room, l->n + 1, sizeof *l->connections) : status_no_memory();
  if (status) {
    free(c);
    return status;
  }
  l->connections[l->n++] = (connection){end, sim_self(s)};
  *c = (caller){.sim = s, .end = end, .there = l->end, .host = host, .peer = l->n, .from = options->from};
  sim_work(s, 2 * ROUND_TRIPS * sim_delay(s));
  *out = &c->base;
  return NULL;
}

static void client_close(net_client *base) {
  caller *c = (caller *)base;
  net_header h = goodbye;
  h.from = c->from;
  if (!c->gone) shoal_status_free(sim_post(c->sim, c->host, c->there, &h, c->peer, NULL, 0, 0));
  sim_end_close(c->end);
  free(c);
}

static net_message as_message(sim_message *m) {
  return (net_message){.header = m->header, .payload = m->payload, .bytes = m->bytes, .peer = m->peer, .hold = m};
}

static shoal_status receive(net_server *base, double seconds, net_message *out, bool *got) {
  listener *l = (listener *)base;
  sim_message *m = sim_take(l->end, clock_seconds() + seconds);
  *got = m;
  if (!m) return NULL;
  *out = as_message(m);
  if (m->header.kind == NET_GONE) l->connections[m->peer - 1].end = NULL;
  return NULL;
}

static shoal_status answer(net_server *base, uint64_t peer, const net_header *header, const net_part *parts, int n,
                           size_t bytes) {
  listener *l = (listener *)base;
  if (!peer || peer > l->n) return NULL;
  const connection *to = &l->connections[peer - 1];
  return to->end ? sim_post(l->sim, to->host, to->end, header, 0, parts, n, bytes) : NULL;
}

static shoal_status has_gone(void) { return status_make(SHOAL_ERR_PEER, "the server has closed the connection"); }

static shoal_status send_to(net_client *base, const net_header *header, const net_part *parts, int n, size_t bytes,
                            double seconds) {
  caller *c = (caller *)base;
  net_header h = *header;
  h.from = c->from;
  return c->gone ? has_gone() : sim_post(c->sim, c->host, c->there, &h, c->peer, parts, n, bytes);
}

static shoal_status await_answer(net_client *base, double seconds, net_message *out) {
  caller *c = (caller *)base;
  if (c->gone) return has_gone();
  sim_message *m = sim_take(c->end, clock_seconds() + seconds);
  if (!m) return status_make(SHOAL_ERR_PEER, "nothing came in %g s", seconds);
  if (m->header.kind == NET_GONE) {
    c->gone = true;
    sim_release(c->sim, m, m->bytes);
    return has_gone();
  }
  *out = as_message(m);
  return NULL;
}

static bool gone(net_client *base) { return ((caller *)base)->gone; }
static void limit(net_server *base, size_t largest) {}

static void release_server(net_server *base, net_message *m) {
  if (m->hold) sim_release(((listener *)base)->sim, m->hold, m->bytes);
}
static void release_client(net_client *base, net_message *m) {
  if (m->hold) sim_release(((caller *)base)->sim, m->hold, m->bytes);
}

const transport transport_sim = {.scheme = "sim:",
                                 .listen = listen_at,
                                 .connect = connect_to,
                                 .server_close = server_close,
                                 .client_close = client_close,
                                 .receive = receive,
                                 .answer = answer,
                                 .send = send_to,
                                 .await = await_answer,
                                 .gone = gone,
                                 .limit = limit,
                                 .release_server = release_server,
                                 .release_client = release_client};
