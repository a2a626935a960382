/* A worker's end of all parameter servers. A request goes to all of them before the first answer is awaited; the
 * leader's comes last: what it has got, the others were sent before. Gradients may be sent before the answer to the
 * last one has come; before any other request all answers are taken. */
#ifndef SHOAL_DIST_PS_CLIENT_H
#define SHOAL_DIST_PS_CLIENT_H

#include "dist/placement.h"
#include "dist/ps_protocol.h"

typedef struct {
  ps_terms terms; /* `elements` is set by the client, for each server; lists and names are borrowed */
  ps_task task;
  int worker;
  const char *const *addresses; /* of the servers, in their order; kept by the caller as long as the client */
  int replicas;       /* 1: each server has a backup; addresses of the second members follow those of the first ones */
  const char *folder; /* with replicas, of worker 0: where the arbiter (ps_arbiter.h) keeps views */
  void *listener;     /* the same, if on_failover is not NULL: told when a backup has taken over */
  void (*on_failover)(void *listener, int server, int64_t step, double seconds);
  bool (*has_moved)(
      void *listener);    /* NULL, or whether other servers count by now: it makes no sense to go on trying */
  const placement *place; /* the same; of a table: of one variable */
  int variables;          /* of a gradient; 0: of a table */
  int trained;            /* of them, the first ones; the others are moving averages */
  bool pieces;            /* large gradients may go out in pieces: rule 17 of the protocol */
} ps_client_options;

typedef struct ps_client ps_client;

/* What server 0 has answered to START, PULL or PUSH. */
typedef struct {
  ps_head head;
  int64_t next; /* batch, PS_NO_BATCH or PS_END */
  bool stopped; /* rule 10 of the protocol */
  bool drain;   /* rule 24 */
  bool late;    /* the gradient was not used */
  bool idle;    /* there is no shard for this worker now: ps_client_ask */
  /* Of a PUSH, seconds at the servers while this worker waited, the longest of them: until all that the step needs was
   * there; until the answer. */
  double waited, worked;
} ps_answer;

SHOAL_CHECKED shoal_status ps_client_create(const ps_client_options *options, ps_client **out);
void ps_client_destroy(ps_client *c);

/* Connects to all and says HELLO; also again, when `lost`. *under_way: all servers are in the same training. */
SHOAL_CHECKED shoal_status ps_client_connect(ps_client *c, bool *under_way);
/* After an error: whether a server has gone or no longer knows this worker, so that connecting again may help. */
bool ps_client_lost(const ps_client *c);
/* Of these the latter. */
bool ps_client_fenced(const ps_client *c);

/* Gradients out, fresh parameters back. gradients and parameters: one pointer a variable, to all its elements;
 * gradients may be NULL when head->examples is 0. Of a round: [nodes of head's leaves][variables]. */
SHOAL_CHECKED shoal_status ps_client_push(ps_client *c, float *const *gradients, float *const *parameters,
                                          const ps_head *head, ps_answer *out);
/* The same in two halves, where the mode allows it (rule 15 of the protocol): up to PS_FLIGHT_MAX gradients may be
 * sent before the answer to the first of them is taken. Gradients are free again when ps_client_send returns;
 * parameters change in ps_client_take only. */
SHOAL_CHECKED shoal_status ps_client_send(ps_client *c, float *const *gradients, const ps_head *head);
SHOAL_CHECKED shoal_status ps_client_take(ps_client *c, float *const *parameters, ps_answer *out);

/* The format of gradients and of the parameters that answer them from now on (rule 27); NULL: f32. What formats leave out is
 * kept for the next gradient, also of another format, until the client connects again. Not of a table or a round. */
SHOAL_CHECKED shoal_status ps_client_use_wire(ps_client *c, const wire_format *f);

/* Whether gradients may go out before they are whole: large ones do, where the mode allows it. */
bool ps_client_takes_pieces(const ps_client *c);
/* The gradient of that variable is there, of the step that ps_client_push or ps_client_send comes for next: sends what
 * can be sent. It stays in use until then. */
SHOAL_CHECKED shoal_status ps_client_ready(ps_client *c, float *const *gradients, int variable);

/* ---- a table (rule 12 of the protocol). An answer's values are in the keys' order. */
typedef struct {
  /* [n] rows of the table: those of server 0 first (row k is server k % servers'), each server's ascending */
  const int32_t *keys;
  int64_t n;
  /* Instead of `keys`, of growing ids (rule 27): ids, as id_set.h has them; the rows of other parameters come behind each
   * server's if `others`. n counts both. */
  const uint64_t *ids;
  const int64_t *first; /* [servers + 1] */
  bool others;
  const bool *held; /* [n] rows that are not to be sent (rule 28): their values stay as they are; NULL: all are */
} ps_keys;

/* Gradients [as many rows as keys were asked for last] out, the values of `next` back. gradients: one pointer; of a round
 * [nodes of head's leaves]. They may be NULL when head->examples is 0. */
SHOAL_CHECKED shoal_status ps_client_push_rows(ps_client *c, const float *const *gradients, ps_keys next, float *values,
                                               ps_head *head, ps_answer *out);
int ps_client_servers(const ps_client *c);
/* keep: the next gradients are about these. */
SHOAL_CHECKED shoal_status ps_client_rows(ps_client *c, ps_keys keys, bool keep, float *values);
/* Of growing ids: so many of a server's rows, as PS_IDS and those that follow say; values [as many as that is]. */
SHOAL_CHECKED shoal_status ps_client_read_ids(ps_client *c, int server, int which, int64_t first, int64_t count,
                                              void *values);
/* The same: records as id_rows.h has them. */
SHOAL_CHECKED shoal_status ps_client_write_ids(ps_client *c, int server, int which, const void *records, int64_t count,
                                               size_t bytes);
/* Rows of other parameters that the server has. */
int64_t ps_client_others(const ps_client *c, int server);
/* Elements [first, first + count) of vector `which`, in pieces. */
SHOAL_CHECKED shoal_status ps_client_read(ps_client *c, int which, int64_t first, int64_t count, float *values);
SHOAL_CHECKED shoal_status ps_client_write(ps_client *c, int which, int64_t first, int64_t count, const float *values);

/* ---- a stream (rules 13 and 18 to 20) */

/* Async: after an answer that said `idle`: waits for a shard, but not for long. */
SHOAL_CHECKED shoal_status ps_client_ask(ps_client *c, float *const *parameters, ps_answer *out);
/* Where that batch of the shard this worker has is found. */
SHOAL_CHECKED shoal_status ps_client_mark(ps_client *c, int64_t shard, int64_t batch, const char *position);
/* *batch: to begin with in a shard, by the leader; becomes the first that any server lacks. *marked, position: a batch
 * at or before it, and where it is found; 0: none is known. */
SHOAL_CHECKED shoal_status ps_client_find(ps_client *c, int64_t shard, int64_t *batch, int64_t *marked,
                                          char position[SHOAL_POSITION_TEXT]);
/* The servers hold still until this worker, worker 0, goes on. *head: server 0's; *out: what each of them has done, for
 * ps_client_start; the caller frees it. */
SHOAL_CHECKED shoal_status ps_client_hold(ps_client *c, ps_head *head, char **out);

/* Waits for START, and becomes a member. parameters NULL: they are a table. */
SHOAL_CHECKED shoal_status ps_client_pull(ps_client *c, float *const *parameters, ps_answer *out);
/* Vector `which` of all servers: 0 the parameters, k slot k - 1. */
SHOAL_CHECKED shoal_status ps_client_set(ps_client *c, int which, float *const *values);
SHOAL_CHECKED shoal_status ps_client_get(ps_client *c, int which, float *const *values, ps_head *head);
/* stream: as ps_client_hold gave it, of a training that is continued; NULL: there is none. */
SHOAL_CHECKED shoal_status ps_client_start(ps_client *c, int64_t updates, const ps_start *plan, const char *stream,
                                           ps_answer *out);
/* Of worker 0: rule 25. The servers make no step and answer nobody else until this worker goes on; *head: server 0's, *out:
 * what is done by then, which the caller frees. */
SHOAL_CHECKED shoal_status ps_client_pause(ps_client *c, ps_head *head, char **out);
/* What was counted by `before`, the client of the servers before these, goes on. */
void ps_client_inherit(ps_client *c, const ps_client *before);
/* As ps_client_start, of a training that `before` was the client of, from what it was told in ps_client_pause. The answer is
 * taken by ps_client_started: the other workers are awaited. */
SHOAL_CHECKED shoal_status ps_client_continue(ps_client *c, const ps_client *before, int64_t updates,
                                              const ps_start *plan, const char *done);
SHOAL_CHECKED shoal_status ps_client_started(ps_client *c, ps_answer *out);
/* These servers end; the other workers are told to look for those that have taken over. */
SHOAL_CHECKED shoal_status ps_client_hand_over(ps_client *c);
/* out, *n: the answers to gradients that were on their way. */
SHOAL_CHECKED shoal_status ps_client_stop(ps_client *c, float *const *parameters, ps_answer out[PS_FLIGHT_MAX], int *n);
/* *head: what server 0 answered; the largest `running` of all servers. */
SHOAL_CHECKED shoal_status ps_client_done(ps_client *c, ps_head *head);
/* At most PS_REPORT_MAX bytes, kept by server 0. */
SHOAL_CHECKED shoal_status ps_client_report(ps_client *c, const char *words);
/* The report of worker `which`, or with the number of workers the server's own; *out is the caller's to free, NULL: not
 * there yet, or (*gone) that worker is not here. */
SHOAL_CHECKED shoal_status ps_client_collect(ps_client *c, int server, int which, char **out, bool *gone);
/* Worker 0: who left and came since `known` changes (rule 18 of the protocol); *all: how many there are by now. */
SHOAL_CHECKED shoal_status ps_client_changes(ps_client *c, int64_t known, ps_change out[PS_CHANGES_MAX], int *n,
                                             int64_t *all);
SHOAL_CHECKED shoal_status ps_client_quit(ps_client *c);

/* A server's monotonic clock minus this machine's, in seconds, from the quickest PUSH so far; 0 before the first. */
double ps_client_clock(const ps_client *c, int server);
/* Of all connections together, earlier ones included. */
void ps_client_stats(const ps_client *c, net_stats *out);

#endif
