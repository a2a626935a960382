#include "net/endpoint.h"
#include "net/wire.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* A new transport is a file and a row here. */
static const transport *const transports[] = {&transport_shm, &transport_tcp, &transport_zmq, &transport_sim};

#define LARGEST_PAYLOAD ((size_t)1 << 40) /* sums of lengths stay far from overflowing */
#define STANDARD_HEARTBEAT 5.0            /* seconds */

static shoal_status find(const char *address, const transport **out) {
  for (size_t i = 0; i < COUNT_OF(transports); i++)
    if (!strncmp(address, transports[i]->scheme, strlen(transports[i]->scheme))) {
      *out = transports[i];
      return NULL;
    }
  text forms = {0};
  for (size_t i = 0; i < COUNT_OF(transports); i++)
    if (transports[i]->form) text_add(&forms, "%s%s", i ? " or " : "", transports[i]->form);
  shoal_status status =
      status_make(SHOAL_ERR_ARGUMENT, "address '%s': expected %s", address, forms.data ? forms.data : "another");
  text_fini(&forms);
  return status;
}

static shoal_status complete(const net_options *given, net_options *out) {
  if (given->largest > LARGEST_PAYLOAD)
    return status_make(SHOAL_ERR_ARGUMENT, "messages of %zu bytes: expected at most %zu", given->largest,
                       LARGEST_PAYLOAD);
  if (!(given->heartbeat >= 0)) return status_make(SHOAL_ERR_ARGUMENT, "a heartbeat must not be negative");
  *out = *given;
  if (out->heartbeat == 0) out->heartbeat = STANDARD_HEARTBEAT;
  return NULL;
}

shoal_status net_listen(const char *address, const net_options *options, net_server **out) {
  const transport *t;
  net_options full;
  TRY(find(address, &t));
  TRY(complete(options, &full));
  char *name = strdup(address);
  if (!name) return status_no_memory();
  net_server *s;
  shoal_status status = t->listen(address, &full, &s);
  if (status) {
    free(name);
    return status_wrap(status, "listen at %s", address);
  }
  s->transport = t;
  s->address = name;
  s->largest = full.largest;
  *out = s;
  return NULL;
}

shoal_status net_connect(const char *address, const net_options *options, double seconds, net_client **out) {
  const transport *t;
  net_options full;
  TRY(find(address, &t));
  TRY(complete(options, &full));
  char *name = strdup(address);
  if (!name) return status_no_memory();
  net_client *c;
  shoal_status status = t->connect(address, &full, seconds, &c);
  if (status) {
    free(name);
    return status_wrap(status, "connect to %s", address);
  }
  c->transport = t;
  c->address = name;
  c->largest = full.largest;
  *out = c;
  return NULL;
}

void net_server_close(net_server *s) {
  if (!s) return;
  char *name = s->address;
  s->transport->server_close(s);
  free(name);
}

void net_client_close(net_client *c) {
  if (!c) return;
  char *name = c->address;
  c->transport->client_close(c);
  free(name);
}

void net_client_abandon(net_client *c) {
  if (c) c->abandoned = true;
  net_client_close(c);
}

/* Adds up the parts; refuses what the other side would refuse. */
static shoal_status measure(const net_header *header, const net_part *parts, int n, size_t largest, size_t *bytes) {
  size_t sum = 0;
  for (int i = 0; i < n; i++) {
    if (parts[i].bytes > largest - sum)
      return status_make(SHOAL_ERR_ARGUMENT, "a message of more than the %zu bytes that were agreed", largest);
    sum += parts[i].bytes;
  }
  if (header->kind >= NET_GONE)
    return status_make(SHOAL_ERR_ARGUMENT, "kind %u of a message is the transport's", header->kind);
  *bytes = sum;
  return NULL;
}

shoal_status net_receive(net_server *s, double seconds, net_message *out, bool *got) {
  TRY(s->transport->receive(s, seconds, out, got));
  if (*got && out->header.kind != NET_GONE) {
    s->stats.received_messages++;
    s->stats.received_bytes += WIRE_HEADER + out->bytes;
  }
  return NULL;
}

shoal_status net_answer(net_server *s, uint64_t peer, const net_header *header, const net_part *parts, int n) {
  size_t bytes;
  TRY(measure(header, parts, n, s->largest, &bytes));
  return status_wrap(s->transport->answer(s, peer, header, parts, n, bytes), "%s", s->address);
}

shoal_status net_send(net_client *c, const net_header *header, const net_part *parts, int n, double seconds) {
  size_t bytes;
  TRY(measure(header, parts, n, c->largest, &bytes));
  TRY(status_wrap(c->transport->send(c, header, parts, n, bytes, seconds), "send to %s", c->address));
  c->stats.sent_messages++;
  c->stats.sent_bytes += WIRE_HEADER + bytes;
  return NULL;
}

shoal_status net_await(net_client *c, double seconds, net_message *out) {
  TRY(status_wrap(c->transport->await(c, seconds, out), "answer of %s", c->address));
  c->stats.received_messages++;
  c->stats.received_bytes += WIRE_HEADER + out->bytes;
  return NULL;
}

shoal_status net_damaged(void) {
  return status_make(
      SHOAL_ERR_PEER,
      "a message was damaged on its way (its checksum does not match): the connection is given up; if that "
      "comes again, have the memory and the network of these hosts checked");
}

bool net_client_gone(net_client *c) { return c->transport->gone(c); }

void net_release_server(net_server *s, net_message *m) {
  s->transport->release_server(s, m);
  *m = (net_message){0};
}

void net_release_client(net_client *c, net_message *m) {
  c->transport->release_client(c, m);
  *m = (net_message){0};
}

bool net_client_hand_over(net_client *c) { return c->transport->hand_over && c->transport->hand_over(c); }

shoal_status net_take_rest(net_server *s, uint64_t peer, net_message *out, bool *got) {
  *got = false;
  return s->transport->take_rest ? s->transport->take_rest(s, peer, out, got) : NULL;
}

void net_server_limit(net_server *s, size_t largest) { s->transport->limit(s, MIN_OF(largest, s->largest)); }

void net_server_eager(net_server *s, double seconds, bool crowded) {
  s->eager = seconds;
  s->crowded = crowded;
}
void net_client_eager(net_client *c, double seconds) { c->eager = seconds; }

void net_server_stats(const net_server *s, net_stats *out) { *out = s->stats; }
void net_client_stats(const net_client *c, net_stats *out) { *out = c->stats; }
