/* The strategy ps: gradients go to parameter servers, which update the parameters and send them back. */
#ifndef SHOAL_TRAIN_PS_H
#define SHOAL_TRAIN_PS_H

#include "dist/ps_client.h"
#include "dist/ps_server.h"
#include "net/key_ring.h"
#include "train/model.h"
#include "train/strategy.h"

enum { PS_TASKS_MAX = 256 }; /* that a strategy starts itself */

typedef struct {
  int worker, workers; /* worker: of the strategy; a server has none */
  bool has_chief;      /* users call worker 0 chief/0, worker 1 worker/0, ...: for messages */
  bool local;          /* of the strategy: servers and other workers are started as copies of this process when a training
                          begins; addresses are made then. This process is worker 0 */
  bool deterministic;  /* of a strategy without a model yet: `round` is set when a training begins */
  bool together;
  int64_t staleness;            /* below 0: no bound; not with `together` */
  int64_t round;                /* together: rows of a step, with `--deterministic`; 0: a batch a worker */
  int in_flight; /* gradients of a worker that may be without answer, where the mode allows it; 0: 1 */
  int backups;                  /* together: gradients a step can do without */
  int pieces; /* 1: large gradients go out while backward still runs, -1: they do not; 0: as the transport likes */
  const char *const *addresses; /* of the servers; kept by the caller */
  int servers;
  net_options net;              /* `largest` and `from` are set here */
  key_ring *ring;               /* NULL, or what the keys in `net` are part of: the strategy takes it */
  double connect_seconds, answer_seconds;
  double heartbeat; /* seconds of silence after which a worker that others wait for no longer counts; 0: never */
  bool returns;     /* tasks that die are started again: they are waited for, for answer_seconds */
  const int *stop;  /* NULL, or: waiting for a lost server is given up once *stop is not 0 */
  bool table;      /* the model's weights are a table on the servers, see ps_table.h; model_shrink_table was called */
  int64_t block;   /* of a server: see ps_server_options */
  void *listener;  /* of worker 0, if on_change is not NULL: told when a worker leaves or comes */
  void (*on_change)(void *listener, const ps_change *change);
  void *describer; /* of a server: see ps_server_options */
  char *(*describe)(void *describer, const ps_server_result *so_far);
  void (*on_look)(void *describer, const ps_server_result *so_far); /* the same */
  events *events;                                                   /* the same */
} ps_options;

/* A worker's strategy. m: the compiled model; NULL: the one that is trained first. */
SHOAL_CHECKED shoal_status ps_strategy_create(const ps_options *options, shoal_model *m, shoal_strategy **out);
/* At the end of training: what this worker has to say (at most PS_REPORT_MOST bytes), kept by server 0 ... */
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

/* Runs server `index` for workers that train such a model. Of the model only the settings are used: its own variables
 * are given up, so that the memory is there for the server's. */
SHOAL_CHECKED shoal_status ps_serve(const ps_options *options, int index, shoal_model *m, const int *stop,
                                    ps_server_result *out);

#endif
