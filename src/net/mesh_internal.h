/* What the files of a mesh share. */
#ifndef SHOAL_NET_MESH_INTERNAL_H
#define SHOAL_NET_MESH_INTERNAL_H

#include "net/mesh.h"
#include "net/mesh_channel.h"
#include "net/wire.h"

enum { MESH_DATA = 1, MESH_ABORT };

typedef struct {
  mesh_channel channel;
  char name[MESH_NAME]; /* "rank 2 (node3:2222)", "rank 2 (pid 77)" */
  bool there;           /* connected, once */
  bool gone;            /* nothing more comes or goes */
  const char *why;      /* it has */
  bool aborted;         /* it has told why it ends, or will */
  mesh_message *outgoing, **outgoing_end;
  mesh_message *expected, **expected_end;
  bool sending; /* `out` is of the first outgoing message */
  tcp_stream_outgoing out;
  net_part part; /* of `out` */
  uint8_t header[WIRE_HEADER];
  size_t have; /* bytes of the message that comes, header included */
  net_header incoming;
  uint64_t incoming_bytes;
  mesh_message *into; /* where its payload goes; NULL: nobody expects it yet */
} mesh_peer;

struct mesh {
  int rank, ranks;
  bool backwards;
  uint64_t job;
  double heartbeat;
  mesh_peer *peers; /* [ranks]; the own one is empty */
  bool shared;      /* by shared memory */
  int bells_fd;     /* shared: of the next, for those who come after */
  shm_bell *bells;  /* shared: [ranks] */
  int epoll;        /* TCP */
  tcp_tls server_tls, client_tls;
  double look; /* when to look at what makes no sound */
  uint64_t refused;
  bool wrong;              /* a message that cannot be right came; for ever */
  char reason[MESH_WORDS]; /* of that */
};

/* Connects all ranks. */
SHOAL_CHECKED shoal_status mesh_join_tcp(mesh *m, const mesh_options *o);
SHOAL_CHECKED shoal_status mesh_join_shared(mesh *m, const mesh_options *o);
/* "rank 2 (node3:2222)", for messages: with mesh_address. */
#define MESH_RANK "rank %d (%s)"
const char *mesh_address(const mesh_options *o, int rank);
/* Whether there is no sense in waiting for the others. */
bool mesh_interrupted(const mesh_options *o);
/* Nobody came for some ranks; until: the time that was given. */
SHOAL_CHECKED shoal_status mesh_missing(const mesh *m, const mesh_options *o, const char *more);

#endif
