/* The strategy ps: gradients go to parameter servers, which update the parameters and send them back. */
#ifndef SHOAL_TRAIN_PS_H
#define SHOAL_TRAIN_PS_H

#include "dist/ps_client.h"
#include "dist/ps_server.h"
#include "net/key_ring.h"
#include "train/model.h"
#include "train/ps_table.h"
#include "train/strategy.h"

enum { PS_TASKS_MAX = 256 }; /* that a strategy starts itself */

typedef struct {
  int count;
  const char *const *addresses; /* of the servers, then of their backups */
} ps_servers;

typedef struct {
  ps_terms terms; /* what hangs on the model is filled in when it is known */
  ps_task task;
  int worker;
  const char *const *addresses; /* of the servers, then of their backups; kept by the caller */
  int replicas;                 /* backups of each server, 0 or 1 */
  const char *folder;           /* of worker 0, with replicas: as in ps_client_options */
  bool local; /* servers and other workers are started as copies of this process when a training begins; addresses
                          are made then. This process is worker 0 */
  bool deterministic;                /* of a strategy without a model yet: terms.round is set when a training begins */
  const wire_format *wire;           /* of gradients and of parameters that answer them; NULL: f32 */
  bool advised;                      /* it is chosen by what steps take: ps_advice.h; `wire` is NULL */
  double outer_rate, outer_momentum; /* with terms.local_steps: of the servers' update, see ps_local.h */
  bool table; /* the model's weights are a table on the servers, see ps_table.h; model_shrink_table was called */
  ps_table_cache cache; /* of a table, async: rows that the worker keeps */
  int pieces;     /* 1: large gradients go out while backward still runs, -1: they do not; 0: as the transport likes */
  key_ring *ring; /* NULL, or what the keys in `task.net` are part of: the strategy takes it */
  void *listener; /* of worker 0, if on_change is not NULL: told when a worker leaves or comes */
  void (*on_change)(void *listener, const ps_change *change);
  void (*on_failover)(void *listener, int server, int64_t step, double seconds); /* NULL, or as in ps_client_options */
  /* All NULL, or: other servers may take over while training goes on (ps_move.h). What *out points to stays until the next
   * call of the same function.
   * has_moved: as in ps_client_options. find_servers: those that count now. next_servers, of worker 0: those that are to take
   * over; false: none. settle, the same: they hold everything, and count from now on. on_move, the same: they have, or (why
   * not NULL) have not, and all is as before. */
  bool (*has_moved)(void *listener);
  shoal_status (*find_servers)(void *listener, ps_servers *out);
  bool (*next_servers)(void *listener, ps_servers *out);
  shoal_status (*settle)(void *listener);
  void (*on_move)(void *listener, int before, int servers, int64_t step, double seconds, const char *why);
} ps_options;

/* A worker's strategy. m: the compiled model; NULL: the one that is trained first. */
SHOAL_CHECKED shoal_status ps_strategy_create(const ps_options *options, shoal_model *m, shoal_strategy **out);
/* At the end of training: what this worker has to say (at most PS_REPORT_MAX bytes), kept by server 0 ... */
SHOAL_CHECKED shoal_status ps_strategy_report(shoal_strategy *s, const char *words);
/* ... for worker 0 to collect, once all have spoken: out[0 .. workers) are the workers' words (NULL: it has gone), then
 * each server's own; all the caller's to free. */
SHOAL_CHECKED shoal_status ps_strategy_collect(shoal_strategy *s, char **out);
/* Says QUIT to the servers if this is worker 0 and training ended well; closes the connections. */
SHOAL_CHECKED shoal_status ps_strategy_close(shoal_strategy *s);
/* A server's clock minus this machine's, in seconds; see ps_client_clock. */
double ps_strategy_clock(const shoal_strategy *s, int server);
/* The server that holds the first part of a trained weight; -1: none does. */
int ps_strategy_server(const shoal_strategy *s, const shoal_value *variable);
void ps_strategy_stats(const shoal_strategy *s, net_stats *out);

/* Runs a server until worker 0 says QUIT: ps_server_run with the optimizers that there are. It learns from worker 0 what
 * to hold. */
SHOAL_CHECKED shoal_status ps_serve(const ps_server_options *options, ps_server_result *out);

#endif
