/* A parameter server: one vector of parameters with the optimizer's slots, updated by the workers' gradients.
 *
 * sync: a step is the mean over exactly one gradient of each member, weighted by its examples, summed in the
 * workers' order (so the result has the same bits each time) and applied once; with `backups`, the mean over the first
 * workers - backups gradients; with `round`, the sum of a round's parts in the order of its tree. Otherwise each
 * gradient is applied when it arrives, and a worker more than `staleness` steps ahead of the slowest waits for its
 * answer.
 *
 * Members come and go. Whoever goes (its connection ends, or others have waited for it longer than `heartbeat`) no
 * longer counts, and what it had not finished is given to the others; whoever says HELLO later takes part from the next
 * answer on. Worker 0 is different: without it nothing is saved, so it is waited for (`returns`) or the server ends. */
#ifndef SHOAL_DIST_PS_SERVER_H
#define SHOAL_DIST_PS_SERVER_H

#include "dist/ps_terms.h"
#include "shoal/session.h"

#define PS_STALENESS_MAX 32 /* the last place counts all from there on */

/* What a server has had to do with a worker, since START. */
typedef struct {
  int64_t gradients, examples; /* used; examples in them */
  int64_t late;                /* gradients not used, since they came too late */
  int64_t joins, late_joins;   /* how often it came; after the training had started */
  int64_t deaths;              /* how often it went away, or was silent for too long, before it was done */
} ps_worker_count;

typedef struct {
  int64_t updates;          /* applied by this server since START */
  ps_worker_count *workers; /* [workers]; the caller frees it */
  int64_t handed_on;        /* rows of batches that were given to another worker, since theirs went away or was late */
  int64_t uneven;           /* updates that were not a whole round, since a worker went away; of rounds only */
  int64_t staleness[PS_STALENESS_MAX]; /* gradients by updates made between their parameters and themselves */
  int64_t stalest;
  int64_t lead; /* async: most steps that a worker had made more than the slowest when it began with a gradient */
  double staleness_sum;
  double seconds;      /* from START to the last update */
  double busy_seconds; /* at work on messages */
  double
      step_busy_seconds; /* of those, in `seconds`: without parameters that are written before and read after training */
  int64_t asked_rows;    /* of a table: rows of features that workers asked for, to train on */
  double hot_share;      /* the same: of the HOT_ROWS that were asked for most often (hot_rows.h) */
  net_stats net;
  bool stopped;    /* worker 0 has ended the training before its end */
  bool was_backup; /* it was no primary at the end: all of the above is also the primary's */
} ps_server_result;

typedef struct {
  int index; /* server 0 is the leader: it hands out the batches */
  const char *address;
  /* NULL: it has no backup. Otherwise the addresses of its two members, of which it is number `member`, at `address`. */
  const char *const *members;
  int member;
  const net_options *peer_net; /* keys for connections to the other member; NULL: as in `task` */
  ps_terms terms;              /* `workers` and `servers`; all others are learned from the chief's HELLO */
  ps_task task;
  int64_t block;       /* elements updated at a time; 0: the standard, for tests to make small */
  const char *kernels; /* as in shoal_session_options */
  int threads;         /* that add up and update; 0: one a processor where the vectors are large, otherwise one */
  /* How a gradient becomes an update, from those who know optimizers. build: adds to the graph the update of `variable`
   * by `gradient` with the scalar `rate`; indices NULL, or ascending: the elements it is about; rate NULL: they are moving
   * averages, to which it is added, with as many vectors of slots as others have. rate_at: the rate of
   * update 0, 1, ... */
  shoal_status (*build)(const ps_terms *terms, shoal_graph *g, shoal_value *variable, const shoal_gradient *gradient,
                        shoal_value *rate, shoal_value **update);
  double (*rate_at)(const ps_terms *terms, int64_t update);
  /* NULL, or what COLLECT says about the server: a text that the server frees. */
  void *describer;
  char *(*describe)(void *describer, const ps_server_result *so_far);
  void (*on_look)(void *describer, const ps_server_result *so_far); /* NULL, or called about ten times a second */
} ps_server_options;

/* Serves until worker 0 says QUIT. */
SHOAL_CHECKED shoal_status ps_server_run(const ps_server_options *options, ps_server_result *out);

#endif
