/* What the files of a parameter server share: ps_server.c, which takes in messages, ps_handshake.c, which agrees with
 * workers on what the job is, and ps_steps.c, which forms steps out of gradients and knows who takes part. For those
 * files only. */
#ifndef SHOAL_DIST_PS_SERVER_INTERNAL_H
#define SHOAL_DIST_PS_SERVER_INTERNAL_H

#include "base/mem.h"
#include "cluster/cluster.h"
#include "dist/leases.h"
#include "dist/ps_copies.h"
#include "dist/ps_protocol.h"
#include "dist/ps_vectors.h"
#include "dist/sparse_rows.h"

typedef enum {
  ABSENT,  /* has not come yet */
  JOINING, /* has said HELLO */
  MEMBER,  /* has parameters; its gradients count */
  IDLE,    /* async, of a stream: there is no shard for it; it asks again by PULL */
  DONE,    /* has said so */
  GONE     /* went away before it was done */
} worker_state;

/* A PUSH or a PULL that has not been answered yet. */
typedef struct {
  net_message message;   /* sync, of a PUSH: with its gradient; otherwise only the header and the peer count */
  bool keeps;            /* the message has to be released */
  ps_head head;          /* of a PUSH */
  const float *gradient; /* the same; [elements], or as many as rows were asked for; NULL: an empty one */
  double arrived;        /* clock */
  int64_t behind;        /* of a PUSH that was applied: as in ps_head */
  bool unused;           /* async, of a PUSH: it is applied when the server no longer holds still */
  bool copied;           /* the payload is in worker.copy: the message is a primary's, and was released */
} request;

/* An answer to a counted request, but for the parameters: it is given again to a worker that resumes. */
typedef struct {
  net_header header;
  ps_head head;
} past_answer;

typedef struct {
  /* What each message needs comes first, to be on one or two cache lines. */
  worker_state state;
  int waits;      /* requests of it that have to be answered */
  uint64_t peer;  /* its connection; 0: none */
  int64_t steps;  /* gradients that came; of one that came later: as if it had been here as long as the slowest */
  double heard;   /* clock: its last message */
  double since;   /* clock: the last answer to it, or its last gradient if that was later */
  double longest; /* seconds from there to the next gradient, so far */
  int64_t whole;  /* elements of the next gradient that its PUSH has to carry: the others came before */
  int64_t received, answered;  /* of a replicated server: counted requests of the session */
  bool torn;                   /* one of its pieces did not fit */
  request held[PS_FLIGHT_MAX]; /* requests that wait, oldest first; in sync mode there is one at most */
  float *pieces;               /* [elements] a gradient that came in pieces or was decoded; NULL: none ever; owned */
  uint64_t session;            /* of a replicated server: rule 22 */
  past_answer *past;           /* the same: answer i is at i % PS_FLIGHT_MAX; in server.past */
  uint8_t *copy;               /* [copy_room] of a request; NULL: none; owned */
  size_t copy_room;
  char *report;  /* NULL: none yet */
  char *refusal; /* why its last HELLO was refused; NULL: it was not */
} worker;

typedef struct {
  const ps_server_options *options;
  bool leads;     /* it is server 0 */
  ps_terms terms; /* what all agree on; before `agreed` only how many workers and servers there are */
  bool agreed;    /* the chief has told the terms: from then on there are `vectors`, `rows`, `copies` and `parts` */
  char *hello;    /* [hello_bytes] the last HELLO that said the same: others say it word for word; NULL: none */
  size_t hello_bytes;
  net_server *net;
  ps_vectors *vectors;
  sparse_rows *rows;      /* NULL: the vectors are no table */
  ps_copies *copies;      /* of the parameters, that workers have; NULL: of a table */
  net_part *parts;        /* room for an answer */
  ps_gradient *gradients; /* [workers] of a step */
  worker *workers;
  past_answer *past; /* [workers x PS_FLIGHT_MAX]; NULL: not replicated */
  /* Over all workers, so that with many of them a message costs no more than with few: those that are here, of them the
   * members, and requests that have to be answered. */
  int n_here, n_members, n_waits;
  leases leases;                        /* of the leader */
  stream_leases streams;                /* of a stream; only the leader hands out its shards */
  char round_mark[SHOAL_POSITION_TEXT]; /* of the leader, of rounds: rule 19; empty: none */
  ps_start plan;
  int64_t epoch;       /* sync: of the round under way, which does not cross the end of an epoch */
  uint64_t generation; /* 0: no training has started */
  bool start_asked, started, stopping, quit;
  bool written;        /* of a table: parts of it came since the last START */
  bool holds;          /* gradients are not used for now, see rule 20 of the protocol */
  bool pauses;         /* other servers take over, see rule 25: no step is made, nobody is answered */
  uint64_t pause_peer; /* whom to answer once all that was handed out has come; 0: nobody */
  bool continues;      /* START said that all workers come again */
  uint64_t start_peer; /* whom to answer once it starts; 0: nobody */
  double asked;        /* clock: START came */
  ps_head head;        /* what the last update has come to */
  double now;          /* clock, of the message or look under way */
  uint32_t wait_label; /* of the timeline, if there is one */
  double start, last_update, last_message, last_look;
  double busy_at_start;              /* what result.busy_seconds was at `start` */
  double drain_until;                /* clock; 0: nobody has asked it to leave */
  double lost;                       /* clock: a worker went away last */
  ps_change changes[PS_CHANGES_MAX]; /* the last ones; change i is at i % PS_CHANGES_MAX */
  int64_t n_changes;                 /* all of them */
  ps_server_result result;
  struct replica *replica; /* NULL: it has no backup */
  uint64_t sessions;       /* given out so far */
  bool replays;            /* what is done is a primary's record: nobody is answered */
  double clock_ahead;      /* of a server that was a backup: its primary's clock minus its own */
} server;

/* The clock that all times of the server are of. */
double server_clock(const server *s);

/* What users call that worker. Returns out. */
static inline const char *server_worker_name(const server *s, int index, char out[CLUSTER_NAME]) {
  return cluster_worker_name(s->options->task.has_chief, index, out);
}

enum { NO_VECTOR = -1 };

/* It has come, and is neither done nor gone. */
static inline bool is_here(const worker *w) { return w->state == JOINING || w->state == MEMBER || w->state == IDLE; }

/* Of many workers hardly any is in a cache: brings one nearer that is looked at next. It may be one that there is not. */
static inline void server_fetch_worker(const worker *w) {
  for (size_t at = 0; at < offsetof(worker, held[1]); at += MEM_ALIGN) __builtin_prefetch((const char *)w + at, 1);
}

/* Every change of a worker's state. */
static inline void server_set_state(server *s, worker *w, worker_state state) {
  s->n_here -= is_here(w);
  s->n_members -= w->state == MEMBER;
  w->state = state;
  s->n_here += is_here(w);
  s->n_members += w->state == MEMBER;
}
/* After workers were replaced as a whole: counts them. */
static inline void server_count_workers(server *s) {
  s->n_here = s->n_members = s->n_waits = 0;
  for (int w = 0; w < s->terms.workers; w++) {
    s->n_here += is_here(&s->workers[w]);
    s->n_members += s->workers[w].state == MEMBER;
    s->n_waits += s->workers[w].waits;
  }
}

/* Rows come from a stream. */
static inline bool is_stream(const server *s) { return s->plan.rows == 0; }

/* which: the vector to send along, NO_VECTOR: none. */
SHOAL_CHECKED shoal_status server_answer(server *s, const net_message *m, int64_t number, int which, uint16_t flags);
/* To one that was held; with the parameters. also: as in ps_head. */
SHOAL_CHECKED shoal_status server_answer_held(server *s, const request *r, int64_t number, int64_t also,
                                              uint16_t flags);

/* Every answer goes through here: it waits until the backup has all that the answer is about. */
SHOAL_CHECKED shoal_status server_send(server *s, uint64_t peer, const net_header *header, const net_part *parts,
                                       int n);
/* Parts of vector `which` behind the head, in s->parts: *n of them with the head. to: the request that is answered; *flags
 * take the format that they are in. */
SHOAL_CHECKED shoal_status server_add_vector(server *s, const net_header *to, int which, int *n, uint16_t *flags);
/* The same of an answer that is given once more: parameters as they are; of a table, those rows that the worker was given
 * last. */
int server_add_again(server *s, int from, bool parameters);
/* A message of a worker. Takes *m when *held becomes true. */
SHOAL_CHECKED shoal_status server_handle(server *s, net_message *m, bool *held);
/* Whoever waits for the server to hold still is answered, if it does. */
SHOAL_CHECKED shoal_status server_pause(server *s);
/* What hangs on time alone. */
SHOAL_CHECKED shoal_status server_look(server *s);
/* Forgets everything. */
void server_reset(server *s);

/* A sentence instead of an answer; the server itself goes on. */
SHOAL_CHECKED shoal_status server_say(server *s, const net_message *m, uint16_t flags, const char *why);
/* The training under way ends: all but worker 0 have to begin again. */
SHOAL_CHECKED shoal_status server_disband(server *s);

SHOAL_CHECKED shoal_status handshake_hello(server *s, const net_message *m);
/* Of a replicated server: rule 22. */
SHOAL_CHECKED shoal_status handshake_resume(server *s, const net_message *m);
/* Makes what the terms need; s->terms takes them. */
SHOAL_CHECKED shoal_status handshake_adopt(server *s, ps_terms *terms);
/* Gives up what was built by the terms. */
void handshake_forget(server *s);

/* Gradients of a worker that may be without answer. */
int steps_flight(const server *s);
/* Takes in a gradient. Takes *m when *held becomes true. */
SHOAL_CHECKED shoal_status steps_push(server *s, net_message *m, bool *held);
/* Keeps a copy of a PUSH of a primary's record, whose room is wanted: one connection carries those of all workers. */
SHOAL_CHECKED shoal_status steps_copy_request(server *s, worker *w, request *r);
/* A piece of the gradient to come. */
SHOAL_CHECKED shoal_status steps_piece(server *s, const net_message *m);
/* Forgets what came of a gradient that is not whole. */
void steps_drop_pieces(const server *s, worker *w);
/* `w` asks for parameters; its request stands in `held`. */
SHOAL_CHECKED shoal_status steps_pull(server *s, worker *w);
/* START came, or somebody who was awaited: begins the training if it can. */
SHOAL_CHECKED shoal_status steps_begin(server *s);
/* Worker 0 goes on, or has gone: gradients that came while the server held still are used. */
SHOAL_CHECKED shoal_status steps_let_go(server *s);
/* Answers all that can be answered now. */
SHOAL_CHECKED shoal_status steps_go_on(server *s);
/* Whether every gradient that other workers than worker 0 were given batches for has come. */
bool steps_all_in(const server *s);
/* All that wait are told that no gradient will be used any more; nothing is applied. */
SHOAL_CHECKED shoal_status steps_release_all(server *s);
/* The worker no longer counts; its connection is fenced. why: PS_DISCONNECTED, PS_SILENT; 0: it is to begin again. */
SHOAL_CHECKED shoal_status steps_lose(server *s, worker *w, int why);
/* The worker makes no more gradients: it has said DONE. */
void steps_leave(server *s, worker *w);
/* Drops those that others have waited for for too long. */
SHOAL_CHECKED shoal_status steps_find_silent(server *s);

#endif
