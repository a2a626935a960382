/** @file
 * Training with several workers: who takes part in a cluster, and the strategies that make their work one training.
 *
 *     shoal_strategy *s;
 *     shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.mode = "sync"}, &s);   two workers, one server
 *     shoal_model_fit(m, data, &(shoal_fit_options){.epochs = 2, .batch_size = 64, .strategy = s}, NULL);
 *     shoal_strategy_destroy(s);
 *
 * A strategy is given to shoal_model_fit, and to shoal_model_compile where the model's weights are a table of sparse
 * features that stays on the servers. It serves one training at a time and is destroyed after the last. */
#ifndef SHOAL_CLUSTER_H
#define SHOAL_CLUSTER_H

#include "shoal/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clusters: addresses of all tasks, and which of them this process is */
/** The tasks of a cluster, and which of them this process is. */
typedef struct shoal_cluster shoal_cluster;
/** What a task does. */
typedef enum { SHOAL_CHIEF, SHOAL_WORKER, SHOAL_PS, SHOAL_EVALUATOR } shoal_role;

/** json: as TensorFlow's TF_CONFIG, {"cluster": {"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]}, "task": {"type":
 * "worker", "index": 1}}, or only what is under "cluster". task: "worker:1", instead of what is under "task"; NULL:
 * none. A wrong description is SHOAL_ERR_ARGUMENT and names what is wrong. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_cluster_parse(const char *json, const char *task, shoal_cluster **out);
/** The same from a file. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_cluster_read(const char *path, const char *task, shoal_cluster **out);
/** What TF_CONFIG says; in a step of Slurm without it, the step's tasks, the first `servers` of them as parameter
 * servers. *out is NULL where neither is there: this process is alone. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_cluster_from_environment(int servers, shoal_cluster **out);
/** Both: the description in the file `path` or, where that is NULL, in the environment; task: as in
 * shoal_cluster_parse, SHOAL_ERR_ARGUMENT where nothing is described. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_cluster_find(const char *path, const char *task, int servers,
                                                        shoal_cluster **out);
/** Frees it. NULL is fine. */
SHOAL_API void shoal_cluster_destroy(shoal_cluster *c);
/** This process's own task. */
SHOAL_API shoal_role shoal_cluster_role(const shoal_cluster *c);
/** The number of this process's task in its role, from 0. */
SHOAL_API int shoal_cluster_index(const shoal_cluster *c);
/** How many tasks have that role. */
SHOAL_API int shoal_cluster_count(const shoal_cluster *c, shoal_role role);
/** NULL: there is no such task. */
SHOAL_API const char *shoal_cluster_address(const shoal_cluster *c, shoal_role role, int index);
/** The same number for all who were given the same cluster: what graph servers and their sessions call `job`. */
SHOAL_API uint64_t shoal_cluster_id(const shoal_cluster *c);
/** All tasks count from 0: chief, workers, servers, evaluators. How many there are. */
SHOAL_API int shoal_cluster_tasks(const shoal_cluster *c);
/** The number of this process's task among all; -1: it has no address in the cluster. */
SHOAL_API int shoal_cluster_task(const shoal_cluster *c);
/** Room for what shoal_cluster_task_name writes. */
#define SHOAL_TASK_NAME 32
/** "worker:1", for the task of that number. Returns `buffer`. */
SHOAL_API const char *shoal_cluster_task_name(const shoal_cluster *c, int task, char buffer[SHOAL_TASK_NAME]);
/** Where the task of that number listens. */
SHOAL_API const char *shoal_cluster_task_address(const shoal_cluster *c, int task);

/* ---- parameter servers */
/** How parameter servers and workers go together; zero in every field is the usual. */
typedef struct {
  size_t size;        /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *mode;   /**< "sync": a step is the mean over one gradient of each worker; "async": each gradient is
                             applied when it arrives. NULL: "sync" */
  bool bounded;       /**< async: no worker gets more than `staleness` steps ahead of the slowest */
  int64_t staleness;  /**< ... steps */
  int in_flight;      /**< async: gradients of a worker that may await their answer, 1 or 2; 0: 1 */
  int backup_workers; /**< sync: gradients a step can do without */
  bool deterministic; /**< sync: the same bits on any number of workers, servers and threads */
  double deadline;    /**< seconds without an answer after which a peer counts as dead; 0: 30 */
  double heartbeat;   /**< seconds of silence after which a worker that others wait for is left out; 0: never */
  const char *keys;   /**< folder of `shoal keygen`: traffic is encrypted, and only those with keys take part.
                           * Needed beyond the loopback, unless: */
  bool insecure;      /**< said aloud: no keys */
  const char *wire; /**< how gradients travel to the servers and parameters back, but for tables: "f32", "bf16", "fp16",
                       "int8", a byte a number, or "topk", the 8 largest of each 256; what the last three leave out is
                       made good in the next steps; NULL: f32 */
  const char *compress; /**< "auto": measures a step and chooses between these formats; NULL: "none" */
  int local_steps; /**< steps that a worker makes by itself between two exchanges (local SGD, DiLoCo), which are what
                       counts as a step then; 0: 1 */
  double outer_lr; /**< with local_steps: rate of the servers' update; 0: 1, with momentum 0.7, async divided by the
                       number of workers */
  double outer_momentum; /**< the same: its Nesterov momentum, 0: none */
  int64_t cache_rows; /**< models with a table, async: rows that each worker keeps, those that its batches ask for most
                       * often, and is not sent in each step; sync it changes nothing. 0: none */
  int64_t cache_staleness; /**< the same: steps of the worker for which such a row is taken as it is; 0: 1 */
} shoal_ps_options;

/** Starts the servers and the other workers as copies of this process (fork) when a training begins and ends them with
 * it; this process is worker 0. Data and model are shared until somebody writes to them, so nothing is read twice.
 * Callbacks are called in this process alone. options NULL: the standard ones. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_strategy_create_local_ps(int workers, int servers,
                                                                    const shoal_ps_options *options,
                                                                    shoal_strategy **out);
/** Joins a described cluster as the worker (or chief) that this process is. The cluster must outlive the strategy. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_strategy_create_ps(const shoal_cluster *c, const shoal_ps_options *options,
                                                              shoal_strategy **out);
/** The other side: serves parameters as the task of a described cluster that this process is, until the training ends.
 * It needs no model: sizes, optimizer, rates and mode it learns from worker 0 and holds the other workers to. Of the
 * options only deadline, heartbeat, keys and insecure count. stop: NULL, or an int that ends it (SHOAL_ERR_CANCELLED)
 * once it is not 0. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_serve_parameters(const shoal_cluster *c, const shoal_ps_options *options,
                                                            const int *stop);

/* ---- without servers: all workers have all parameters and take each step together */
/** How replicas go together; zero in every field is the usual. */
typedef struct {
  size_t size;         /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  bool deterministic;  /**< the same bits on any number of workers and threads */
  bool bf16;           /**< allreduce: gradients travel as bfloat16; the same as wire "bf16" */
  int64_t check_every; /**< allreduce: steps between two comparisons of all workers' parameters; 0: at the end only */
  double deadline;     /**< allreduce: seconds to wait for a rank; 0: 30 */
  const shoal_cluster *cluster; /**< allreduce: its chief and workers are the ranks, which need no MPI then; NULL: those
                                  that mpirun or srun has started */
  const char *keys;             /**< with a cluster: folder with keys, see shoal/keys.h; NULL: none, on one host only */
  bool insecure;                /**< with a cluster: several hosts without keys, said aloud */
  const char *wire;     /**< allreduce: how gradients travel: "f32", "bf16", "fp16", "int8", a byte a number, or "topk",
                       the 8 largest of each 256; what the last three leave out is made good in the next steps; NULL: f32 */
  const char *compress; /**< allreduce: "powersgd": gradients travel as factors of a low rank; "auto": measures the
                           network and a step, and chooses between that and the formats of `wire`; NULL: "none" */
  int compress_rank;    /**< of PowerSGD; 0: 4 */
  int local_steps; /**< allreduce: steps that each worker makes by itself between two exchanges (local SGD, DiLoCo);
                           0: 1. A worker that is lost then ends the training */
  double outer_lr; /**< with local_steps: rate of the update that an exchange makes; 0: 1, with momentum 0.7 */
  double outer_momentum; /**< the same: its Nesterov momentum, 0: none */
  uint64_t seed;         /**< for PowerSGD's first factors */
} shoal_replica_options;

/** One replica a thread of this process. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_strategy_create_mirrored(int workers, const shoal_replica_options *options,
                                                                    shoal_strategy **out);
/** One process a replica: joins the workers of a cluster, or the ranks that mpirun or srun has started (those once a
 * process). Waits until all are there. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_strategy_create_allreduce(const shoal_replica_options *options,
                                                                     shoal_strategy **out);

/* ---- all */
/** NULL is fine. */
SHOAL_API void shoal_strategy_destroy(shoal_strategy *s);
/** Worker 0 is the chief: it saves checkpoints, validates, and has the result. */
SHOAL_API int shoal_strategy_worker(const shoal_strategy *s);
/** How many workers there are. */
SHOAL_API int shoal_strategy_workers(const shoal_strategy *s);

#ifdef __cplusplus
}
#endif
#endif
