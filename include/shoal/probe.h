/** @file
 * Whether the tasks of a described cluster reach each other, before anything is trained on it.
 *
 * Every task runs a probe at the same time. It listens at its own address, and to each of the others it connects, asks
 * for its version and clock, and measures the round trip and the bandwidth. What it found it then tells to all the
 * others, so that each ends with the whole matrix. A probe neither disturbs a training that runs at those addresses nor
 * is taken for a part of it. */
#ifndef SHOAL_PROBE_H
#define SHOAL_PROBE_H

#include "shoal/options.h"
#include "shoal/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What one task found out about another. */
typedef struct {
  bool known;        /**< somebody looked, and told */
  bool answered;     /**< it did; else only `error` counts */
  double round_trip; /**< seconds, the shortest of many */
  double bandwidth;  /**< bytes a second towards it, the best of several */
  double offset;     /**< seconds its clock is ahead */
  char version[32];  /**< of its Shoal */
  char host[64];     /**< it runs on */
  char error[320];   /**< what happened last, when it did not answer */
} shoal_probe_pair;

/** How a cluster is probed. */
typedef struct {
  size_t size;      /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *keys; /**< folder of keys (shoal/keys.h), needed beyond the loopback, unless: */
  bool insecure;    /**< said aloud: no keys */
  double seconds;   /**< to wait for the others; 0: 30. A little longer where others are still measuring. */
  const int *stop;  /**< when not NULL: it ends once *stop is not 0 */
} shoal_probe_options;

/** What all tasks found. Tasks count as in shoal_cluster_task_name. */
typedef struct {
  int tasks;                     /**< of the cluster */
  const shoal_probe_pair *pairs; /**< [tasks][tasks] from, to */
  const char *const *problems;   /**< [n_problems] what is wrong and what to do, one sentence each */
  int n_problems;                /**< 0: all is well */
} shoal_probe;

/** Probes the cluster as the task that this process is. *out: destroy it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_cluster_probe(const shoal_cluster *c, const shoal_probe_options *options,
                                                         shoal_probe **out);
/** NULL is fine. */
SHOAL_API void shoal_probe_destroy(shoal_probe *p);

#ifdef __cplusplus
}
#endif
#endif
