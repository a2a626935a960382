/** @file
 * Clusters that are not there: a job's servers, workers and ranks as tasks of one process, on a network and with a clock
 * that are simulated. What `shoal simulate` does.
 *
 *     shoal_simulate_options o = {.workers = 1000, .ps = 100, .rate = "10gbit", .delay = "50us", .compute = "20ms"};
 *     shoal_simulate_result r;
 *     shoal_simulate(&o, &r);
 *
 * The tasks are those of a real job: what they say to each other, when steps are formed, who waits for whom. The network
 * is a model, and so are the times for computing and for messages: docs/scaling.md. Same options and seed, same result. */
#ifndef SHOAL_SIMULATE_H
#define SHOAL_SIMULATE_H

#include "shoal/options.h"
#include "shoal/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What is simulated. Times are texts with a unit: "50us", "20ms". */
typedef struct {
  size_t size;            /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *mode;       /**< "sync", "async" or "allreduce"; NULL: sync */
  int64_t workers;        /**< at most 10,000; 0: 1 */
  int64_t ps;             /**< parameter servers, at most 1,000; 0: 1; none of an all-reduce */
  int64_t backup_workers; /**< sync: gradients that a step can do without */
  int64_t staleness;      /**< async: steps that a worker may be ahead of the slowest; 0: any number */
  int64_t in_flight;      /**< async: gradients of a worker without answer, 1 or 2; 0: 1 */
  int64_t steps;          /**< of each worker; 0: 100 */
  int64_t seed;           /**< of stragglers and failures */
  const char *rate;       /**< of each host's link, each way: "10gbit"; NULL: not limited */
  const char *delay;      /**< from host to host, one way: "50us"; NULL: none */
  double parameters;      /**< of the model; 0: 1e6, or the model's */
  const char *wire;       /**< all-reduce: "f32", "bf16", "int8", "topk"; NULL: f32 */
  const char *model;      /**< its parameters, and the time of a step as it takes here; NULL: none */
  int64_t batch_size;     /**< for that; 0: the model's */
  const char *compute;    /**< for a step; NULL: none, or the model's */
  double sigma;           /**< computing takes e^(sigma z) times as long, with a normal z for each step */
  double slow_share;      /**< of steps that take `slow_factor` times as long, by chance */
  double slow_factor;     /**< 0: 10 */
  int64_t slow_workers;   /**< the last ones: each of their steps does */
  const char *failures;   /**< mean time between failures of a worker other than the first, with servers; NULL: none */
  const char *restart;    /**< until it is back; NULL: 1s */
  const char *message;    /**< of a processor, for each message sent or received; NULL: 5us */
  const char *megabyte;   /**< the same, for each 10^6 bytes; NULL: 0.2ms */
  const char *update;     /**< of a server, for each 10^6 parameters that it updates; NULL: 1ms */
  const char *run_dir;    /**< settings.json, metrics.jsonl and summary.json go there; NULL: nowhere */
  bool json;              /**< for the command: print summary.json */
  const char *compress;   /**< all-reduce: "none", "powersgd", or "auto": the way with the shortest step; NULL: none */
  int64_t compress_rank;  /**< of PowerSGD's factors; 0: 4 */
  const char *coding; /**< of a rank, to encode and decode 10^6 parameters; NULL: as it takes here with `compress` */
} shoal_simulate_options;

/** What came of it. Seconds are simulated ones unless they say otherwise. */
typedef struct {
  int64_t updates;                /**< of the parameters */
  double seconds;                 /**< from the first update to the last */
  double steps_per_second;        /**< updates in a second */
  double worker_steps_per_second; /**< steps of a worker in a second, the mean of all */
  double step_mean;               /**< seconds of a worker's step */
  double step_p50;                /**< the median */
  double step_p99;                /**< ... */
  double compute;                 /**< share of the workers' time: computing */
  double network;                 /**< messages on their way */
  double barrier;                 /**< waiting for the others' gradients */
  double server;                  /**< waiting for a server at work */
  double staleness_mean;          /**< async: updates between a gradient's parameters and itself */
  int64_t stalest;                /**< the most */
  int64_t late;                   /**< gradients that came too late to be used */
  int64_t failures;               /**< of workers */
  double sent_bytes;              /**< by all tasks, headers included */
  int64_t messages;               /**< by all tasks */
  double worker_link;             /**< share of the time that the busiest worker's link was in use, the busier way */
  double server_link;             /**< the same of the servers */
  double server_busy;             /**< share of the time that the busiest server's processor was at work */
  double step_compute;            /**< what computing a step takes, as it was given or measured */
  double parameters;              /**< of the model */
  double real_seconds;            /**< that the simulation took */
  shoal_verdict verdict;          /**< as of a run */
  const char *way;       /**< all-reduce: how gradients travel, "f32", "bf16", "int8", "topk", "powersgd" ... */
  double way_seconds[5]; /**< compress auto: of a step with each of these */
  double reserved[2];    /**< 0: for fields to come */
} shoal_simulate_result;

/** The options as a table of settings, from which flags are made. */
SHOAL_API const shoal_setting *shoal_simulate_settings(void);
/** Simulates the job. SHOAL_ERR_ARGUMENT: options that contradict or make no sense. One at a time in a thread. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_simulate(const shoal_simulate_options *options, shoal_simulate_result *out);
/** All of it as one JSON object. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_simulate_json(const shoal_simulate_options *options,
                                                         const shoal_simulate_result *r, char **out);
/** The same in lines for people. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_simulate_text(const shoal_simulate_options *options,
                                                         const shoal_simulate_result *r, char **out);

#ifdef __cplusplus
}
#endif
#endif
