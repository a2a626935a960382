/* What a transport implements; for the files of this folder only. Each transport has its own structs that begin with
 * these. Addresses and options have been checked and defaults filled in by transport.c. */
#ifndef SHOAL_NET_ENDPOINT_H
#define SHOAL_NET_ENDPOINT_H

#include "net/transport.h"

struct transport {
  const char *scheme; /* what its addresses begin with */
  const char *form;   /* for messages: "shm:/NAME"; NULL: not for users */
  shoal_status (*listen)(const char *address, const net_options *options, net_server **out);
  shoal_status (*connect)(const char *address, const net_options *options, double seconds, net_client **out);
  void (*server_close)(net_server *s);
  void (*client_close)(net_client *c);
  shoal_status (*receive)(net_server *s, double seconds, net_message *out, bool *got);
  shoal_status (*answer)(net_server *s, uint64_t peer, const net_header *header, const net_part *parts, int n,
                         size_t bytes);
  shoal_status (*send)(net_client *c, const net_header *header, const net_part *parts, int n, size_t bytes,
                       double seconds);
  shoal_status (*await)(net_client *c, double seconds, net_message *out);
  bool (*gone)(net_client *c);                  /* net_client_gone */
  void (*limit)(net_server *s, size_t largest); /* net_server_limit */
  bool (*hand_over)(net_client *c);             /* net_client_hand_over; NULL: it cannot */
  shoal_status (*take_rest)(net_server *s, uint64_t peer, net_message *out, bool *got); /* the same */
  void (*release_server)(net_server *s, net_message *m);
  void (*release_client)(net_client *c, net_message *m);
};

struct net_server {
  const transport *transport;
  char *address; /* for messages; owned by transport.c */
  size_t largest;
  double eager; /* net_server_eager */
  bool crowded;
  net_stats stats;
};

struct net_client {
  const transport *transport;
  char *address;
  size_t largest;
  double eager;   /* net_client_eager */
  bool abandoned; /* net_client_abandon */
  net_stats stats;
};

/* Of a client: an answer did not have its checksum. */
SHOAL_CHECKED shoal_status net_damaged(void);

extern const transport transport_shm, transport_tcp, transport_zmq, transport_sim;

#endif
