/* What the files of the strategy ps share: ps.c, which is the strategy, ps_join.c, which begins a training, ps_compute.c, which
 * computes its gradients, and ps_move.c, which goes on with other servers. For those files only. */
#ifndef SHOAL_TRAIN_PS_INTERNAL_H
#define SHOAL_TRAIN_PS_INTERNAL_H

#include "dist/sparse_set.h"
#include "train/optimizer.h"
#include "train/ps.h"
#include "train/ps_advice.h"
#include "train/ps_leaves.h"
#include "train/ps_local.h"
#include "train/ps_table.h"
#include "train/shards.h"

#define PS_ADDRESS_TEXT 64

typedef struct {
  shoal_strategy base;
  ps_options options;
  placement *place; /* of the servers that `client` talks to */
  ps_client *client;
  shoal_model *model;             /* NULL: not known yet */
  forked *tasks;                  /* that were started here; NULL: none */
  char (*names)[PS_ADDRESS_TEXT]; /* [servers] addresses of those */
  const char **addresses;         /* [servers] the same */
  ps_table *table;                /* NULL: each worker has all parameters */
  ps_leaves *leaves;              /* of a table: its gradients */
  /* [1 + slots] lists of pointers to the numbers of the trained weights, in their order: the weights, then each slot */
  float **values[1 + OPTIMIZER_SLOTS_MAX];
  int n_values, n_weights; /* n_weights: of what is exchanged, n_trained of them are trained */
  int n_trained;
  float *no_slot;            /* [of the largest moving average] zeros, in place of slots */
  int64_t *counts, elements; /* [n_weights] numbers of each; all of them. Not of a table */
  int64_t *counter;          /* the optimizer's; NULL: it has none, or counts here, with local steps */
  const wire_format *wire;   /* of gradients now; NULL: f32 */
  ps_advice *advice;         /* that chooses it; NULL: it is given */
  double begun;              /* clock: the step under way, for advice */
  ps_local *local;           /* steps of this worker's own; NULL: gradients are exchanged */
  double local_rate;         /* of the last of them */
  float **gradients;         /* [n_weights] of the step under way; of a round: [vectors][n_weights] */
  const strategy_setup *setup;
  bool moved; /* parameters came since the training began: those here are no longer what it began with */
  /* of the batch computed last */
  ps_head part;
  lease_span span;
  shards *shards;  /* of a round; otherwise NULL */
  float **vectors; /* [n_vectors][elements] what they have come to */
  int n_vectors;
  bool is_stream;                   /* rows come from one */
  int64_t shard, index;             /* of a stream: the batch computed last */
  int64_t rows_shard, rows_index;   /* of a table: the batch whose rows came last */
  const char *mark;                 /* the same: where the next one begins, if that is to be told */
  char marked[SHOAL_POSITION_TEXT]; /* the same: of the shard to go on with */
  float *dense;      /* [features] a gradient of few rows as one of all; NULL: rows are dense, or in a table */
  sparse_set spread; /* with `dense`: the rows it is about */
  int in_flight;     /* of the training under way: parts that may be without answer */
  ps_head sent[PS_FLIGHT_MAX]; /* those parts, oldest first */
  int n_sent;
  int64_t next[PS_FLIGHT_MAX]; /* batches that were given to this worker and are to be computed, oldest first */
  int n_next;
  bool over;                      /* there will be no others */
  bool watches;                   /* gradients may leave while the others are computed */
  shoal_tensor indices;           /* of a table: the batch's, as rows of the session's table */
  strategy_outcome since;         /* of the answers that came since the last outcome */
  shoal_status error;             /* the first in `ready`, for the step */
  int64_t changes, known_changes; /* of members: as server 0 said last; told to on_change */
  double looked;                  /* clock: whether other servers are to take over */
  bool ended;
  net_stats stats; /* of the connections, once closed */
} ps;

/* ---- ps.c */

/* Finds what is exchanged of the model, and makes the client. */
SHOAL_CHECKED shoal_status ps_open_client(ps *s, shoal_model *m);
/* A client of so many servers at those addresses, and which of them holds what; not connected. */
SHOAL_CHECKED shoal_status ps_make_client(const ps *s, const ps_servers *servers, placement **place, ps_client **out);
/* All answers that are on their way. */
SHOAL_CHECKED shoal_status ps_take_answers(ps *s);

/* ---- ps_join.c */

/* What START says of a training that stands there. */
ps_start ps_plan_start(const ps *s, const strategy_place *place);
/* The servers have given this worker its first batches: what it had before counts no longer. */
void ps_take_batches(ps *s, const ps_answer *answer);
SHOAL_CHECKED shoal_status ps_begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place);
/* Takes `status`: an error that connecting again may help against becomes *lost. */
SHOAL_CHECKED shoal_status ps_may_be_lost(const ps *s, shoal_status status, bool *lost);
/* Takes `status`; of a peer that was started here, why it has gone is known. */
SHOAL_CHECKED shoal_status ps_explain(ps *s, shoal_status status);
/* Notes where the training stands; async, an answer that gives nothing leaves the worker what it has. */
void ps_note_place(ps *s, const ps_answer *a);
/* Where to begin reading the shard to go on with, unless it is the one that this worker reads anyway. May be a batch that
 * the leader has had and another server not. */
SHOAL_CHECKED shoal_status ps_find_mark(ps *s, strategy_place *place);
int64_t ps_next_batch(ps *s);

/* ---- ps_compute.c */

SHOAL_CHECKED shoal_status ps_prepare(ps *s);
SHOAL_CHECKED shoal_status ps_compute(shoal_strategy *base, const train_batch *b);

/* By the connections so far. */
static inline int64_t ps_bytes_moved(const ps *s) {
  net_stats stats;
  ps_client_stats(s->client, &stats);
  return (int64_t)(stats.sent_bytes + stats.received_bytes);
}

#endif
