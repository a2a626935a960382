/* Messages between the tasks of a job, whatever carries them.
 *
 * A server listens at an address; clients connect to it. A client sends requests and receives answers in the order it
 * sent them; it may have several under way. A server receives from all its clients and answers each message, at once or
 * later. All waits have a deadline. An endpoint is used by one thread at a time, and not across a fork.
 *
 * Numbered facts that implementations keep:
 *  1. A message arrives whole and undamaged or not at all: header (magic, version, lengths, checksum) and payload (CRC-32C,
 *     TLS) have been checked before it is seen. One that is damaged ends its connection, with the cause.
 *  2. A received payload may be read until net_release; a small one lies in the transport's own memory, uncopied.
 *  3. What does not check is dropped and counted (net_stats.refused); it never ends the server.
 *  4. A peer that went away is reported as a message of kind NET_GONE from it, once, after all that it sent before.
 *  5. Messages are released in any order and before the endpoint is closed. One above 1 MB may arrive only after the
 *     earlier ones of the same peer are released. */
#ifndef SHOAL_NET_TRANSPORT_H
#define SHOAL_NET_TRANSPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct transport transport; /* "shm", "tcp", "zmq": one file and one row in the table in transport.c each */

typedef struct {
  uint16_t kind;       /* the application's; NET_GONE and above are the transport's */
  uint16_t flags;      /* the application's */
  uint32_t from;       /* the sender's number; net_send fills in the one chosen when connecting (e.g. worker index) */
  uint64_t generation; /* fences messages of earlier lives of a task */
  uint64_t step;
  uint64_t number; /* the application's: e.g. examples in a gradient */
} net_header;      /* travels in a fixed little-endian form, see wire.h */

enum { NET_GONE = 0xff00 };
enum {
  NET_DAMAGED = 1
}; /* in the flags of NET_GONE: the connection was ended, since a message did not have its checksum; what came after it is lost */

/* A piece of a payload to be sent. */
typedef struct {
  const void *data;
  size_t bytes;
} net_part;

typedef struct {
  net_header header;
  const uint8_t *payload; /* 64-byte aligned */
  size_t bytes;
  uint64_t peer; /* server: whom to answer */
  void *hold;    /* the transport's, until net_release */
} net_message;

typedef struct {
  size_t largest;   /* payload bytes of the largest message; a client's must not be above the server's, and is
                              what its connection carries */
  uint32_t from;    /* clients: own number */
  uint64_t job;     /* both sides: messages of another job are refused */
  double heartbeat; /* seconds without a sign of life after which a peer on another host is gone; 0: 5. One on
                              this host is gone when its process is, which is noticed within 0.1 s. */
  const char *public_key, *secret_key; /* as keys.h has them; NULL: none (loopback only, unless insecure) */
  const char *server_key;              /* clients: the server's public key */
  const char *const *allowed;          /* servers: clients' public keys, ended by NULL */
  bool insecure;                       /* said aloud: no keys beyond loopback */
  uint64_t rekey;                      /* bytes after which a connection changes its keys; 0: 64 GB */
  const struct net_client *beside; /* clients: another one, of the same owner, whose thread for the network is used */
} net_options;

typedef struct {
  uint64_t sent_messages, received_messages;
  uint64_t sent_bytes, received_bytes; /* payload and header */
  uint64_t refused;                    /* messages that did not check */
  uint64_t damaged;                    /* of them, those whose payload was not as it was sent */
  int accept_error;                    /* of a server: why a connection could not be taken (errno); 0: all were */
} net_stats;

typedef struct net_server net_server;
typedef struct net_client net_client;

/* Addresses: "shm:/NAME" (a shared-memory name unique to the job and server), "tcp://HOST:PORT" (TLS where there are keys), "zmq://HOST:PORT"
 * (ZeroMQ). The scheme chooses the
 * transport. Connecting waits up to `seconds` for a server that is not there yet. */
SHOAL_CHECKED shoal_status net_listen(const char *address, const net_options *options, net_server **out);
SHOAL_CHECKED shoal_status net_connect(const char *address, const net_options *options, double seconds,
                                       net_client **out);
void net_server_close(net_server *s);
void net_client_close(net_client *c);
/* The same, to a server that may take nothing any more: what is on its way there is dropped. */
void net_client_abandon(net_client *c);

/* SHOAL_ERR_PEER names the peer and what was awaited when `seconds` pass; 0 looks without waiting. For a server
 * *got is false when nothing came in time (no error). */
SHOAL_CHECKED shoal_status net_receive(net_server *s, double seconds, net_message *out, bool *got);
/* To a peer that has gone: no error, nothing is sent. Waits while a large message goes through; for a peer that takes
 * none of it for a while the rest is copied and sent by later calls of net_receive. Parts are borrowed until it
 * returns, as with net_send. */
SHOAL_CHECKED shoal_status net_answer(net_server *s, uint64_t peer, const net_header *header, const net_part *parts,
                                      int n);
/* After an error of code PEER that cut off a message, and when the server has gone, all calls fail: close, and connect
 * again. */
SHOAL_CHECKED shoal_status net_send(net_client *c, const net_header *header, const net_part *parts, int n,
                                    double seconds);
SHOAL_CHECKED shoal_status net_await(net_client *c, double seconds, net_message *out);
/* Whether the server is known to have gone, without waiting; answers that came before may still be there. */
bool net_client_gone(net_client *c);
/* From now on a message is the server's when net_send has returned, even if this process dies then: it lies in memory
 * that the server has, too. The server is not woken for each, and finds them within 0.02 s. False: this transport cannot do
 * that, and nothing changes. */
bool net_client_hand_over(net_client *c);
/* What such a client handed over and net_receive has not given yet, message by message; *got false: that was all. From the
 * first call on nothing comes after it: a net_send of the client fails. A damaged message is a NET_GONE. */
SHOAL_CHECKED shoal_status net_take_rest(net_server *s, uint64_t peer, net_message *out, bool *got);
void net_release_server(net_server *s, net_message *m);
void net_release_client(net_client *c, net_message *m);

/* From now on messages from clients have at most so many payload bytes; no more than `largest` when it listened. For
 * servers that learn only later how large messages are. */
void net_server_limit(net_server *s, size_t largest);

/* From now on a wait looks again and again for so many seconds before it sleeps, since a processor that has gone to
 * sleep takes long to wake; in between it lets others run. For short waits alone. 0, as it is at first: sleeps at once.
 * crowded: there are fewer processors than who waits so. A server of ZeroMQ, whose own threads want one, then sleeps at
 * once, too. */
void net_server_eager(net_server *s, double seconds, bool crowded);
void net_client_eager(net_client *c, double seconds);

void net_server_stats(const net_server *s, net_stats *out);
void net_client_stats(const net_client *c, net_stats *out);

#endif
