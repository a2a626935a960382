/* What the two ends of an elastic all-reduce share: elastic.c, in every rank; elastic_chief.c, in rank 0. */
#ifndef SHOAL_DIST_ELASTIC_INTERNAL_H
#define SHOAL_DIST_ELASTIC_INTERNAL_H

#include "dist/elastic.h"

#include "base/text.h"
#include "net/transport.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ELASTIC_ASK = 1, ELASTIC_BYTES, ELASTIC_WORDS }; /* kinds of messages to the chief */
#define ELASTIC_PIECE ((size_t)1 << 18)                 /* bytes of a message at most */
#define ELASTIC_WORDS_MAX ((size_t)64 << 20)            /* of a report */

typedef enum { ELASTIC_STARTS, ELASTIC_WAITS, ELASTIC_WORKS, ELASTIC_LEAVES, ELASTIC_ENDS } elastic_stage;

/* What a rank says of itself, again and again. */
typedef struct {
  int32_t id, stage, pid, reserved;
  uint64_t life;       /* another number each time it is started */
  uint64_t generation; /* it is in, or was last; 0: none */
  int64_t step;        /* finished, with all variables; -1: none */
  char host[PEERS_HOST], address[ELASTIC_ADDRESS];
  uint8_t with[ELASTIC_RANKS / 8]; /* who is in that generation */
} elastic_state;

/* What the chief answers; behind it `n` ranks, and then `n_changes` changes, where it is another generation than the asker's. */
typedef struct {
  uint64_t generation;
  int64_t step;
  int32_t n, from, n_changes;
  int32_t over;    /* the generation is, and another one is to be formed */
  int32_t ended;   /* the training is */
  int32_t reports; /* the asker's has come */
  int32_t twice;   /* another process is this rank */
  int32_t broadcasts;
} elastic_answer;

typedef struct {
  elastic_state said;
  bool known, gone, in, ever; /* heard of; not there any more; in the generation; in any so far */
  bool left;                  /* by its own will */
  bool silent;                /* gone, since it said nothing */
  double heard;
  uint64_t peer;
  bool reported;
  char *words; /* its report, until it is taken */
  size_t words_bytes, words_have;
} elastic_entry;

typedef struct {
  void *bytes;
  size_t count;
} elastic_item;

typedef struct {
  net_server *server;
  pthread_t thread;
  bool started;
  elastic_entry entries[ELASTIC_RANKS];
  elastic_view view;                     /* `own` is not set */
  elastic_change changes[ELASTIC_RANKS]; /* of that view */
  elastic_change pending[ELASTIC_RANKS]; /* who was lost since */
  int n_changes, n_pending;
  bool over, ended;
  double first; /* when somebody came who was in a generation before; 0: nobody */
  double begun; /* when the chief began to wait for the first generation; 0: it does not */
  elastic_item *items;
  size_t n_items, room;
} elastic_chief;

struct elastic {
  int id, ranks; /* as they were described */
  uint64_t job;
  double heartbeat, patience;
  bool again;
  char chief_address[ELASTIC_ADDRESS];
  net_options serving, asking;
  mesh_options mesh; /* for its keys */
  const char *addresses[ELASTIC_RANKS];
  elastic_chief *chief; /* NULL: this is not it */
  pthread_mutex_t lock; /* all below, and *chief */
  pthread_cond_t news;
  elastic_state own;
  elastic_view view;
  elastic_history history;
  int fresh; /* of its changes, those that this generation began with */
  _Atomic bool broken;
  bool quit, ended, reported, twice;
  bool reached;         /* the chief was there, at least once */
  double lost_since;    /* the chief; 0: it is there */
  shoal_status final;   /* asking makes no sense any more */
  char trouble[256];    /* why it cannot be reached */
  size_t taken;         /* broadcasts */
  pthread_mutex_t wire; /* the connection with the chief */
  net_client *client;
  pthread_t thread;
  bool started;
};

/* ---- elastic_chief.c: with e->lock held */
SHOAL_CHECKED shoal_status elastic_chief_start(elastic *e);
void elastic_chief_stop(elastic *e);
/* A rank says so. changes: [answer->n_changes]. */
void elastic_chief_hear(elastic *e, const elastic_state *said, uint64_t peer, elastic_answer *answer);
/* Forms a generation, if it is time. */
void elastic_chief_form(elastic *e, double now);
/* Adds whoever is not there at the start: "rank 1 (node2:2222), rank 2 (node3:2222)". */
void elastic_chief_add_missing(elastic *e, text *out);

/* ---- elastic.c: with e->lock held */
/* A rank has learned of a generation. */
void elastic_take(elastic *e, const elastic_answer *a, const elastic_rank *ranks, const elastic_change *changes);

#endif
