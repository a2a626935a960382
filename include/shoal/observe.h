/** @file
 * Looking at runs: the page that shows them, as a file or live in the browser, and timelines that sessions and
 * trainings have recorded. */
#ifndef SHOAL_OBSERVE_H
#define SHOAL_OBSERVE_H

#include "shoal/graph.h"
#include "shoal/machine.h"
#include "shoal/options.h"
#include "shoal/probe.h"
#include "shoal/status.h"
#include "shoal/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one file that shows runs */
/** What the page shows. */
typedef struct {
  size_t size;                /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *const *folders; /**< [n_folders] each of a run, or one with runs or a sweep in it */
  int n_folders;              /**< at least 1 */
  int points;       /**< of each curve at most: longer ones show means and ranges. 0: 4000, fewer of many runs */
  const char *path; /**< of the HTML file to write; one that is there is replaced when the new one is whole */
} shoal_report_options;

/** What was written. */
typedef struct {
  int runs;            /**< that it shows */
  size_t bytes;        /**< of the file */
  int64_t reserved[4]; /**< 0: for fields to come */
} shoal_report_result;

/** Writes an HTML file that needs nothing but a browser. result may be NULL. SHOAL_ERR_SYSTEM when this build of the
 * library holds no page. Any thread. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_report_write(const shoal_report_options *options,
                                                        shoal_report_result *result);

/* ---- the same page, live */
/** What is served, where and to whom. */
typedef struct {
  size_t size;         /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *folder;  /**< runs below it are shown, those that come later, too */
  const char *address; /**< of this machine: "127.0.0.1", "::1", "0.0.0.0"; NULL: the first. Beyond loopback needs: */
  const char *token;   /**< letters, digits and -._~ that every request must bring; NULL: none */
  int port;            /**< 0: any that is free */
} shoal_dashboard_options;

/** A server of the page, in threads of its own. */
typedef struct shoal_dashboard shoal_dashboard;

/** Starts it. It follows no symbolic links, and nothing changes by a request. SHOAL_ERR_SYSTEM when this build of the
 * library has no server. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dashboard_create(const shoal_dashboard_options *options,
                                                            shoal_dashboard **out);
/** The port it listens on. */
SHOAL_API int shoal_dashboard_port(const shoal_dashboard *d);
/** Ends all connections. NULL is fine. */
SHOAL_API void shoal_dashboard_destroy(shoal_dashboard *d);

/* ---- timelines */
/** What a span of time was spent on. */
typedef enum {
  SHOAL_SPAN_STEP,    /**< a whole step */
  SHOAL_SPAN_OP,      /**< an operator */
  SHOAL_SPAN_SYNC,    /**< threads that wait for each other */
  SHOAL_SPAN_MESSAGE, /**< a message */
  SHOAL_SPAN_WAIT,    /**< waiting for another task */
  SHOAL_SPAN_SERVER,  /**< a server's own work */
  SHOAL_SPAN_KINDS    /**< how many there are */
} shoal_span_kind;

/** All spans of one name, over all tasks and threads. */
typedef struct {
  const char *name;     /**< "conv2d train/conv2d/conv2d" */
  const char *kernel;   /**< of an operator; NULL: none */
  shoal_span_kind kind; /**< what it is */
  int64_t calls;        /**< spans */
  double seconds;       /**< in all */
  double flops;         /**< of operators, by their own count */
  double bytes;         /**< read and written by operators; sent in messages */
  double possible;      /**< flops in that time at the rate of multiply-adds of its tasks' machines; 0: not known */
} shoal_trace_row;

/** One task of a timeline. */
typedef struct {
  const char *task;                 /**< "worker/0"; NULL: it has no name */
  int threads;                      /**< that recorded something */
  double flops;                     /**< operations a second that one thread can reach by multiply-adds; 0: not known */
  double seconds;                   /**< from its first span to its last */
  double by_kind[SHOAL_SPAN_KINDS]; /**< seconds on its first thread */
} shoal_trace_task;

/** A timeline, added up. */
typedef struct {
  const shoal_trace_row *rows;   /**< [n_rows] most time first, kind by kind */
  size_t n_rows;                 /**< ... */
  const shoal_trace_task *tasks; /**< [n_tasks] */
  size_t n_tasks;                /**< ... */
} shoal_trace_summary;

/** Reads the file that shoal_session_trace_end or a training with a timeline has written. *out: destroy it. Any
 * thread. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trace_read(const char *path, shoal_trace_summary **out);
/** Its rows as a JSON array. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trace_summary_json(const shoal_trace_summary *t, char **out);
/** Its rows for people: messages, waits, and the `top` operators that took longest. *operators: how many there are; may
 * be NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trace_summary_table(const shoal_trace_summary *t, int64_t top,
                                                               int64_t *operators, shoal_result_table **out);
/** All operators together, those that only move numbers included. */
SHOAL_API shoal_trace_row shoal_trace_summary_operators(const shoal_trace_summary *t);
/** Its tasks for people: what shares of its first thread's time each spent on what. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_trace_summary_task_table(const shoal_trace_summary *t,
                                                                    shoal_result_table **out);
/** NULL is fine. */
SHOAL_API void shoal_trace_summary_destroy(shoal_trace_summary *t);
/* ---- a machine and the cluster around it */
/** Room for what shoal_machine_facts writes. */
#define SHOAL_MACHINE_FACTS 16

/** A line about a machine: "memory", "1.9 GB free of 3.8 GB". */
typedef struct {
  const char *name; /**< constant */
  char value[120];  /**< in words */
} shoal_machine_fact;

/** What shoal_machine_inspect found, line by line. Returns their number. */
SHOAL_API int shoal_machine_facts(const shoal_machine *m, shoal_machine_fact out[SHOAL_MACHINE_FACTS]);
/** Problem i of the machine, then of the cluster, each with what to do about it; NULL past the last. probe may be NULL. */
SHOAL_API const char *shoal_health_problem(const shoal_machine *m, const shoal_probe *probe, int i);
/** The pairs of tasks for people: who answers whom, how fast. Without rows: none was tried. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_probe_table(const shoal_cluster *c, const shoal_probe *probe,
                                                       shoal_result_table **out);
/** All of it as one JSON object: version, machine, pairs of tasks, problems. c and probe may be NULL. *out: the caller
 * frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_health_json(const shoal_machine *m, const shoal_cluster *c,
                                                       const shoal_probe *probe, char **out);

/** What can be fed into a graph and fetched from it, as one JSON object: "placeholders", "variables" and "results" (see
 * shoal_graph_part), each a list of outputs with name, dtype, shape (null: a dimension that is not known) and device
 * (null: any). *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_graph_list_json(const shoal_graph *g, char **out);

/** "step", "op", "sync", "message", "wait", "server". */
SHOAL_API const char *shoal_span_kind_name(shoal_span_kind kind);

#ifdef __cplusplus
}
#endif
#endif
