/* A ZeroMQ socket as Shoal uses it: its own context, bounded in everything, with CURVE where keys are given, and a
 * monitor that tells of connections that end. Used by zmq.c alone. */
#ifndef SHOAL_NET_ZMQ_SOCKET_H
#define SHOAL_NET_ZMQ_SOCKET_H

#include "net/wire.h"
#include "net/zmq_zap.h"

#include <zmq.h>

typedef struct zmq_hold zmq_hold;

typedef struct zmq_thread zmq_thread;

typedef struct {
  zmq_thread *thread; /* libzmq's, shared by several ends or not */
  void *context;      /* the thread's */
  void *socket, *monitor;
  zmq_zap *zap;
  zmq_hold *spare;   /* holds to be used again */
  double eager;      /* seconds of looking before a wait sleeps */
  int receive_limit; /* ZMQ_RCVTIMEO as it is set now, milliseconds */
} zmq_end;

/* A message held for the application: the libzmq message itself where its data is aligned, otherwise a copy. */
struct zmq_hold {
  zmq_msg_t message;
  bool has_message;
  uint8_t *block; /* [room] */
  size_t room;
  zmq_hold *next;
};

/* address: "zmq://HOST:PORT". Binds (server) or connects. beside: whose thread is shared; NULL: a new one. */
SHOAL_CHECKED shoal_status zmq_end_open(const char *address, const net_options *options, bool server,
                                        const zmq_end *beside, zmq_end *out);
/* Whatever is unsent after `linger` milliseconds is lost. Zeroed ends are fine. */
void zmq_end_close(zmq_end *e, int linger);

/* The next event of the monitor; false when there is none. */
bool zmq_end_event(zmq_end *e, uint16_t *event, uint32_t *value);

typedef struct {
  uint64_t route;    /* server: the peer, 0 when its routing id is none that libzmq gave */
  int fd;            /* server: the connection's descriptor inside libzmq, -1: unknown */
  const char *wrong; /* what did not check; NULL: all did */
  uint16_t foreign;  /* the version of the protocol it is of; 0: this one, or it is no message */
  net_header header;
  uint64_t job;
  zmq_msg_t payload; /* valid also when wrong; to be closed */
  size_t offset;     /* of the payload in it */
} zmq_incoming;

/* One whole message, waiting for at most `seconds`. False when none came. */
bool zmq_end_receive(zmq_end *e, bool server, double seconds, size_t largest, zmq_incoming *in);
/* Hands the payload over to `out`. Closes in->payload. */
SHOAL_CHECKED shoal_status zmq_end_hold(zmq_end *e, zmq_incoming *in, net_message *out);
void zmq_end_release(zmq_end *e, zmq_hold *h);

typedef enum { ZMQ_END_SENT, ZMQ_END_FULL, ZMQ_END_NO_PEER, ZMQ_END_FAILED } zmq_end_result;

/* A message is one frame, the header and then the payload: each frame costs a place in a queue, and with keys a nonce
 * and an authentication. Only a large payload of one part is a frame of its own, after the header's: it is not copied,
 * but in use until zmq_end_wait_sent says otherwise. */
typedef struct zmq_borrow zmq_borrow;

/* route: 0 for clients. *borrow is set to NULL unless the payload is borrowed. */
zmq_end_result zmq_end_send(zmq_end *e, uint64_t route, const net_header *header, uint64_t job, const net_part *parts,
                            int n, size_t bytes, zmq_borrow **borrow);
/* Whether the payload has left within `seconds`; frees the borrow then. */
bool zmq_end_wait_sent(zmq_end *e, zmq_borrow *b, double seconds);

#endif
