/** @file
 * A session holds the variables of a graph and runs parts of it.
 *
 * The first run for a set of fetches and feed shapes makes a plan; the next ones allocate nothing. A session is used by
 * one thread at a time. */
#ifndef SHOAL_SESSION_H
#define SHOAL_SESSION_H

#include "shoal/graph.h"
#include "shoal/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The variables of one graph and the plans of its runs. */
typedef struct shoal_session shoal_session;

/** How a session computes; zero in every field is the usual. */
typedef struct {
  size_t size;         /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int threads;         /**< 0: as many as there are processors */
  uint64_t seed;       /**< of every random operator */
  const char *kernels; /**< NULL or "auto", "generic", "avx2", "avx512" */
  bool no_fusion;      /**< run each operator by itself, with its reference kernel: slow, to compare with */
} shoal_session_options;

/** A value that a run is given. */
typedef struct {
  shoal_value *value;  /**< a placeholder, or any other value: it is then not computed */
  shoal_tensor tensor; /**< borrowed during the run */
} shoal_feed;

/** Borrows the graph. Runs the variables' initial values. options may be NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_session_create(shoal_graph *g, const shoal_session_options *options,
                                                          shoal_session **out);
/** Destroys the session and its variables; the graph stays. NULL is fine. */
SHOAL_API void shoal_session_destroy(shoal_session *s);

/** Runs what the fetches need, once. fetched[i] becomes a view valid until the next run of this session; may be NULL
 * where only the effects count. Values of variables read in a run are those before its updates. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_session_run(shoal_session *s, const shoal_feed *feeds, int n_feeds,
                                                       shoal_value *const *fetches, int n_fetches,
                                                       shoal_tensor *fetched);

/** A view of a variable's memory; valid as long as the session. Not over a cluster: fetch it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_session_variable(shoal_session *s, const shoal_value *variable,
                                                            shoal_tensor *out);

/** In a process that was made by fork, before the first use of a session that came along: gives it threads of its own,
 * since those of the other process are not here. Without it the session would wait for them. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_session_after_fork(shoal_session *s);

/** Steps run so far: random operators draw new numbers each step. Settable, to resume. */
SHOAL_API uint64_t shoal_session_step(const shoal_session *s);
/** Sets the step, to resume. */
SHOAL_API void shoal_session_set_step(shoal_session *s, uint64_t step);

/** Records what the runs from here on do and when: operators, and over a cluster the messages and waits of all tasks.
 * Kept are the last 65,536 spans of each thread. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_session_trace_begin(shoal_session *s);
/** Stops that and writes the file, in Chrome's trace format, for `shoal trace`, Perfetto or chrome://tracing: a process
 * for this client and one for each task, all on the clock of this machine. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_session_trace_end(shoal_session *s, const char *path);

#ifdef __cplusplus
}
#endif
#endif
