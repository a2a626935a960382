/* What the files of a parameter server share: ps_server.c, which takes in messages, and ps_steps.c, which forms steps
 * out of gradients and knows who takes part. For those two files only. */
#ifndef SHOAL_DIST_PS_SERVING_H
#define SHOAL_DIST_PS_SERVING_H

#include "dist/leases.h"
#include "dist/ps_protocol.h"
#include "dist/ps_vectors.h"
#include "dist/sparse_rows.h"

typedef enum {
  ABSENT,  /* has not come yet */
  JOINING, /* has said HELLO */
  MEMBER,  /* has parameters; its gradients count */
  DONE,    /* has said so */
  GONE     /* went away before it was done */
} worker_state;

typedef struct {
  worker_state state;
  uint64_t peer;    /* its connection; 0: none */
  int64_t steps;    /* gradients that came; of one that came later: as if it had been here as long as the slowest */
  bool waits;       /* `held` has to be answered ... */
  bool keeps;       /* ... and released */
  net_message held; /* a PUSH (together: with its gradient) or a PULL; of the latter only the header and the peer */
  ps_head head;     /* of the held PUSH */
  double heard;     /* clock: its last message */
  double answered;  /* clock: the last answer to it */
  double longest;   /* seconds between an answer and the next gradient, so far */
  char *report;     /* NULL: none yet */
  double refused;   /* clock: it came with other settings; 0: it did not */
} worker;

typedef struct {
  const ps_server_options *options;
  net_server *net;
  ps_vectors *vectors;
  sparse_rows *rows;      /* NULL: the vectors are no table */
  net_part *parts;        /* room for an answer */
  ps_gradient *gradients; /* [workers] of a step */
  worker *workers;
  leases leases;          /* of the leader */
  ps_start plan;
  int64_t epoch;          /* of the round under way, together: a round does not cross the end of an epoch */
  bool dry;               /* of a stream, together: no worker had rows for the last round */
  uint64_t generation;    /* 0: no training has started */
  bool start_asked, started, stopping, quit;
  uint64_t start_peer;    /* whom to answer once it starts; 0: nobody */
  double asked;           /* clock: START came */
  ps_head head;           /* what the last update has come to */
  double now;             /* clock, of the message or look under way */
  uint32_t wait_label;    /* of the timeline, if there is one */
  double start, last_update, last_message, last_look;
  ps_server_result result;
} server;

enum { NO_VECTOR = -1 };

/* Rows come from each worker's own stream. */
static inline bool is_stream(const server *s) { return s->plan.rows == 0; }

/* which: the vector to send along, NO_VECTOR: none. */
SHOAL_CHECKED shoal_status server_answer(server *s, const net_message *m, int64_t number, int which, uint16_t flags);

/* Takes in a gradient. Takes *m when *held becomes true. */
SHOAL_CHECKED shoal_status steps_push(server *s, net_message *m, bool *held);
/* `w` asks for parameters; its request stands in `held`. */
SHOAL_CHECKED shoal_status steps_pull(server *s, worker *w);
/* START came, or somebody who was awaited: begins the training if it can. */
SHOAL_CHECKED shoal_status steps_begin(server *s);
/* Answers all that can be answered now. */
SHOAL_CHECKED shoal_status steps_go_on(server *s);
/* All that wait are answered with `flags`; nothing is applied. */
SHOAL_CHECKED shoal_status steps_release_all(server *s, uint16_t flags);
/* The worker no longer counts; its connection is fenced. */
SHOAL_CHECKED shoal_status steps_lose(server *s, worker *w);
/* Drops those that others have waited for for too long. */
SHOAL_CHECKED shoal_status steps_find_silent(server *s);

#endif
