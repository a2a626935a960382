/** @file
 * One graph over many machines: graph servers, each a task, and sessions that run any part of a graph on them.
 *
 *     shoal_task tasks[] = {{"/job:ps/task:0", "tcp://a:2222"}, {"/job:worker/task:0", "tcp://b:2222"}};
 *     shoal_session *s;
 *     shoal_session_connect(g, &(shoal_cluster_options){.tasks = tasks, .n_tasks = 2}, &s);
 *     shoal_session_run(s, ...);
 *
 * Nodes run where their device says (shoal_device_push); a placer decides what is left open. The graph is sent once;
 * the first run for a set of fetches and feed shapes cuts it up, each later one is one small message a task and
 * back. */
#ifndef SHOAL_PLACED_H
#define SHOAL_PLACED_H

#include "shoal/options.h"
#include "shoal/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A graph server. */
typedef struct {
  const char *name;    /**< "/job:worker/task:0" */
  const char *address; /**< "tcp://HOST:PORT", or "shm:/NAME" on this host */
} shoal_task;

/** Tasks that a session can have. */
#define SHOAL_MAX_TASKS 64

/** The servers of a session and how they are reached. */
typedef struct {
  size_t size;             /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const shoal_task *tasks; /**< [n_tasks], copied */
  int n_tasks;             /**< at most SHOAL_MAX_TASKS */
  uint64_t job;            /**< the servers': another one's are refused */
  uint64_t seed;           /**< of every random operator: results do not depend on the placement */
  int threads;             /**< of each task; 0: as its server was told */
  bool no_fusion;          /**< as in shoal_session_options */
  const char *keys;        /**< a folder as `shoal keygen` makes it; NULL: none (loopback only, unless insecure) */
  bool insecure;           /**< beyond the loopback without keys */
  double connect_seconds;  /**< 0: 10 */
  double step_seconds;     /**< after which a run is given up; 0: 600 */
} shoal_cluster_options;

/** A session as any other, but for shoal_session_variable. Borrows the graph, which may grow between runs. A run that
 * fails says where; the session stays usable unless a task was lost, which then is named. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_session_connect(shoal_graph *g, const shoal_cluster_options *options,
                                                           shoal_session **out);
/** Which task runs which node, and why, a line each; then what would travel. No server is needed. The caller frees
 * it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_placement_explain(shoal_graph *g, const shoal_task *tasks, int n_tasks,
                                                             char **out);

/** What the runs of a session have sent. */
typedef struct {
  uint64_t runs;           /**< so far */
  uint64_t sent_bytes;     /**< by this process */
  uint64_t received_bytes; /**< by this process */
  uint64_t messages;       /**< between tasks, of all runs */
  uint64_t data_bytes;     /**< in them */
  uint64_t wire_bytes;     /**< the same as the tasks' own links counted them, headers and filling included */
  uint64_t reserved[6];    /**< 0: for fields to come */
} shoal_cluster_stats;
/** All zero for a session of one process. */
SHOAL_API void shoal_session_stats(const shoal_session *s, shoal_cluster_stats *out);

/** How a graph server is reached and computes. */
typedef struct {
  size_t size;         /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *address; /**< where it listens, as in shoal_task */
  uint64_t job;        /**< clients of another one are refused */
  int threads;         /**< 0: as many as there are processors */
  const char *kernels; /**< as in shoal_session_options */
  const char *keys;    /**< a folder; NULL: none */
  bool insecure;       /**< beyond the loopback without keys */
  const int *stop;     /**< when not NULL: the server ends once *stop is not 0 */
  /** Bytes that a session may take here for its graph, variables and values; what needs more is refused. 0: three
   * quarters of the machine's memory. */
  size_t client_memory;
  /** Seconds that one run of a session may take; it is ended between two operators then. 0: as long as the client
   * says. Sessions take turns, whatever this is. */
  double client_seconds;
} shoal_server_options;

/** Serves until it is stopped. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_server_run(const shoal_server_options *options);

/* ---- graph servers that belong together */
/** The graph servers of a session, wherever they run. */
typedef struct shoal_graph_servers shoal_graph_servers;

/** Servers on this machine. */
typedef struct {
  size_t size;          /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int ps;               /**< tasks /job:ps */
  int workers;          /**< tasks /job:worker; both together 1 to SHOAL_MAX_TASKS */
  int threads;          /**< of each; 0: processors / tasks */
  bool tcp;             /**< they talk by TCP instead of shared memory */
  size_t client_memory; /**< as in shoal_server_options */
} shoal_local_servers_options;

/** Starts them as copies of this process (fork); they end with it, or when destroyed. Call it before this process
 * starts threads of its own. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_servers_start(const shoal_local_servers_options *options,
                                                               shoal_graph_servers **out);
/** Those of a cluster that is described in a file, as shoal_cluster_read takes it, and that somebody else runs: every
 * task of it is a server. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_servers_read(const char *path, shoal_graph_servers **out);
/** Sets tasks, n_tasks and job of `out`, which borrow from `s`. */
SHOAL_API void shoal_graph_servers_fill(const shoal_graph_servers *s, shoal_cluster_options *out);
/** Takes the error of a session over these servers, and returns it or, where a server of this machine has ended by
 * itself, what happened to that one. NULL stays NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_servers_explain(shoal_graph_servers *s, shoal_status status);
/** Ends those of this machine. NULL is fine. */
SHOAL_API void shoal_graph_servers_destroy(shoal_graph_servers *s);

#ifdef __cplusplus
}
#endif
#endif
