/** @file
 * A trained model that scores rows over HTTP, as TensorFlow Serving's REST interface does.
 *
 *     POST /v1/models/NAME:predict   {"instances": [ROW, ...]}, answered by {"predictions": [...]}
 *     GET  /v1/models/NAME           which weights are served
 *     GET  /healthz, /readyz         200 while it serves
 *
 * docs/serving.md has the formats of rows. Requests that wait at the same moment are scored as one batch. Newer weights
 * of a run, be it a checkpoint or the final ones, replace the old ones between two batches. */
#ifndef SHOAL_SERVE_H
#define SHOAL_SERVE_H

#include "shoal/options.h"
#include "shoal/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is served, where and to whom. */
typedef struct {
  size_t size;           /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *target;    /**< a run's folder or a safetensors file, as in shoal_trained_open */
  const char *model;     /**< which model it is, when the file lies outside a run; NULL: as the run says */
  const char *address;   /**< of this machine: "127.0.0.1", "::1", "0.0.0.0"; NULL: the first. Beyond loopback needs: */
  const char *token;     /**< letters, digits and -._~ that every request must bring; NULL: none */
  int port;              /**< 0: any that is free */
  int threads;           /**< that compute; 0: 1 */
  int64_t batch_max;     /**< rows scored at once, of one request or of several; 0: 256 */
  int64_t body_max;      /**< bytes of a request's body; 0: 1 MiB */
  double reload_seconds; /**< between two looks for newer weights; 0: 1, below 0: never */
  void *context;         /**< for on_note */
  /** A line about something that happened: newer weights are served, or could not be loaded. Called by a thread of the
   * server's own; may be NULL. */
  void (*on_note)(void *context, const char *line);
} shoal_serving_options;

/** What it has done so far. */
typedef struct {
  int64_t requests;        /**< answered with predictions */
  int64_t rows;            /**< in them */
  int64_t batches;         /**< that they were scored in */
  int64_t refused;         /**< requests that were wrong (4xx) */
  int64_t unknown_entries; /**< of sparse rows, left out since the model does not know their index */
  int64_t reloads;         /**< newer weights taken over */
  int64_t reserved[6];     /**< 0: for fields to come */
} shoal_serving_counts;

/** A server of scores, in threads of its own. */
typedef struct shoal_serving shoal_serving;

/** Loads the model and starts to serve. SHOAL_ERR_SYSTEM when this build of the library has no server. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_serving_create(const shoal_serving_options *options, shoal_serving **out);
/** The port it listens on. */
SHOAL_API int shoal_serving_port(const shoal_serving *s);
/** The model's name, for addresses. */
SHOAL_API const char *shoal_serving_model(const shoal_serving *s);
/** Any thread. */
SHOAL_API void shoal_serving_count(shoal_serving *s, shoal_serving_counts *out);
/** Answers what has arrived and ends all connections. NULL is fine. */
SHOAL_API void shoal_serving_destroy(shoal_serving *s);

#ifdef __cplusplus
}
#endif
#endif
