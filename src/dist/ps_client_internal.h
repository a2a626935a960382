/* What the files of a worker's end share: ps_client.c, which finds the servers and asks them, ps_client_message.c,
 * which moves one message, ps_client_wire.c, which encodes what it carries, ps_client_pieces.c, which sends gradients
 * before they are whole, ps_client_table.c, which asks for rows of a table, ps_client_stream.c, which asks for shards of a stream, and ps_client_failover.c, which finds
 * the members of replicated servers. For those files only. */
#ifndef SHOAL_DIST_PS_CLIENT_INTERNAL_H
#define SHOAL_DIST_PS_CLIENT_INTERNAL_H

#include "base/clock.h"
#include "dist/ps_arbiter.h"
#include "dist/ps_client.h"

typedef struct {
  double sent[PS_FLIGHT_MAX]; /* clock: PUSHes without answer, oldest first */
  clock_estimate server;      /* its clock */
} ps_clock;

/* A server's part of a table. */
typedef struct {
  int64_t count;             /* rows: every servers-th of the table */
  int32_t *asked;            /* [touched] its rows that were asked for last, by its own numbers */
  int32_t *own;              /* [touched] of the keys under way, the same */
  uint64_t *asked_ids;       /* [touched] of growing ids, instead of `asked` and `own` */
  bool others;               /* the same: and the rows of other parameters were */
  int64_t n_asked, begin, n; /* begin, n: of the keys under way, this server's */
  uint8_t *code;             /* room for them as they travel */
  ps_marks marks;            /* of those, and how many rows have one */
  int64_t n_marked;
} ps_table_end;

enum { CLIENT_UNANSWERED_MAX = PS_FLIGHT_MAX + 1 };

/* A request as it was sent, so that it can be sent again. */
typedef struct {
  net_header header;
  uint8_t *bytes; /* [n]; owned, with room for `room` */
  size_t n, room;
} kept_request;

/* A server with a backup, as a worker knows it: rule 22 of the protocol. */
typedef struct {
  int member;                                     /* that is spoken to */
  uint64_t session;                               /* 0: not agreed yet */
  int64_t sent, answered;                         /* counted requests of the session */
  kept_request unanswered[CLIENT_UNANSWERED_MAX]; /* oldest first */
  int n_unanswered;
  int failovers; /* of the arbiter's count, that were told of */
} client_session;

struct ps_client {
  ps_client_options options;
  net_client **links;      /* [servers] */
  uint64_t *versions;      /* [servers] of the parameters held */
  uint64_t *generations;   /* [servers] as they said last */
  uint64_t newest;         /* of worker 0: the generation that it started last */
  ps_clock *clocks;        /* [servers] */
  int in_flight;           /* PUSHes that were sent to all and answered by none */
  uint32_t labels;         /* of the timeline: the first of them */
  net_part *parts;         /* room for the largest message */
  int nodes;               /* vectors of a gradient at most */
  ps_table_end *ends;      /* [servers] of a table; NULL: there is none */
  bool in_pieces;          /* large gradients go out before they are whole */
  bool *ready;             /* [variables] whose gradients are there, of the one that goes out in pieces */
  int64_t *unsent;         /* [servers] elements of it that were not sent: the first ones of the server's vector */
  int *slices;             /* [servers] those from here on are ready */
  const wire_format *wire; /* of gradients; NULL: f32 */
  uint8_t *code;           /* room for the largest message of them, encoded; NULL: none yet */
  size_t code_room;
  bool drains; /* the next gradient is f32 and takes along what was left out before */
  float *left; /* [elements of all servers] what was left out of the gradients before; NULL: nothing ever was */
  bool lost, fenced;
  net_stats past;           /* of the connections before */
  client_session *sessions; /* [servers] of replicated servers; otherwise NULL */
  ps_arbiter *arbiter;      /* of worker 0; otherwise NULL */
};

/* Seconds that an answer is awaited: longer than a server waits, which knows who is missing and is to say so first. */
static inline double client_patience(const ps_client *c) { return 1.5 * c->options.task.deadline + 1; }

static inline int client_servers(const ps_client *c) { return c->options.place->servers; }

/* ---- ps_client.c */

void client_add_stats(net_stats *to, const net_stats *one);

/* Of a gradient to that server; of a round *head says of which versions it is, too. */
net_header client_push_header(const ps_client *c, int server, ps_head *head);

/* ---- ps_client_message.c */

/* Vectors of the gradient that such a head stands before. */
int client_vectors(const ps_client *c, const ps_head *head);

/* The timeline's labels. */
SHOAL_CHECKED shoal_status client_label(ps_client *c);

/* The first n of c->parts go out; of a PUSH the timeline and the clock take note. */
SHOAL_CHECKED shoal_status client_send_parts(ps_client *c, int server, net_header h, int n);
/* Head (NULL: none), then the server's slices of the values (NULL: none). */
SHOAL_CHECKED shoal_status client_send(ps_client *c, int server, net_header h, const ps_head *head,
                                       float *const *values);
SHOAL_CHECKED shoal_status client_send_text(ps_client *c, int server, int kind, const char *words);

/* The next answer as it comes, to be released. */
SHOAL_CHECKED shoal_status client_await(ps_client *c, int server, int kind, net_message *m);

/* What an answer carries, and where it goes. */
typedef struct {
  float *const *vectors; /* one pointer a variable; NULL: no vector */
  float *values;         /* or else so many numbers, */
  int64_t n;             /* 0: none */
} ps_cargo;

/* The answer to a message of that kind. One that says STOPPED may come without it. */
SHOAL_CHECKED shoal_status client_receive(ps_client *c, int server, int kind, const ps_cargo *cargo, ps_head *head,
                                          net_header *header);
/* One with parameters, of which *out takes note; those of servers 0, 1, ... follow each other. since: clock, when
 * waiting for them began. */
SHOAL_CHECKED shoal_status client_take(ps_client *c, int server, int kind, const ps_cargo *cargo, double since,
                                       ps_answer *out);

/* ---- ps_client_failover.c: of replicated servers only */

SHOAL_CHECKED shoal_status client_make_sessions(ps_client *c);
void client_free_sessions(ps_client *c, bool over);
/* Options of a connection to that server. */
net_options client_net(const ps_client *c, int server);
/* Connects to the primary of a server, whichever member that is by `until` (clock). */
SHOAL_CHECKED shoal_status client_find_primary(ps_client *c, int server, double until);
/* HELLO was answered. */
void client_begin_session(ps_client *c, int server, uint64_t session);
/* Before a request goes out: keeps it. After its answer came: forgets it. */
SHOAL_CHECKED shoal_status client_keep_request(ps_client *c, int server, const net_header *h, int n);
void client_forget_request(ps_client *c, int server, int kind);
/* Whether the server's other member is primary by now. */
bool client_was_replaced(ps_client *c, int server);
/* The connection is of no use any more: goes on with whoever is primary now. */
SHOAL_CHECKED shoal_status client_fail_over(ps_client *c, int server);

/* ---- ps_client_wire.c */

void client_free_wire(ps_client *c);
/* Nothing was left out: what was is of a training before. */
void client_forget_left(ps_client *c);
/* Of the next gradient. */
static inline uint16_t client_wire_flags(const ps_client *c) { return c->wire ? ps_wire_flags(c->wire) : 0; }
/* Elements [first, last) of the server's vector as one part, encoded; c->wire or c->drains. */
net_part client_encode(ps_client *c, int server, float *const *values, int64_t first, int64_t last);
/* What came in that format goes to the vectors, or is added there. */
void client_decode(const ps_client *c, int server, const wire_format *f, const uint8_t *from, float *const *vectors);

/* ---- ps_client_pieces.c */

SHOAL_CHECKED shoal_status client_make_pieces(ps_client *c);
void client_free_pieces(ps_client *c);
/* Nothing of the next gradient was sent. */
void client_begin_pieces(ps_client *c);
/* Elements [first, last) of the server's vector become c->parts from n on. Returns the number of parts then. */
int client_add_parts(ps_client *c, int server, float *const *values, int64_t first, int64_t last, int n);
/* Sends what is unsent from element `first` of the server's vector on. */
SHOAL_CHECKED shoal_status client_send_pieces(ps_client *c, int server, float *const *gradients, int64_t first);

/* ---- ps_client_table.c */

SHOAL_CHECKED shoal_status client_cut_table(ps_client *c);
void client_free_table(ps_client *c);

/* ---- ps_client_stream.c */

/* The part of `words`, which ps_client_hold gave, that is for a server. */
void client_stream_words(const ps_client *c, const char *words, int server, net_part *out);

#endif
