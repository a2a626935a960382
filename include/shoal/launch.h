/** @file
 * A training job on several hosts, started over ssh: what `shoal launch` does.
 *
 *     shoal_job job;
 *     shoal_job_init(&job, sizeof job);
 *     job.model = "lenet";
 *     int exit_status;
 *     shoal_launch(&job, &(shoal_launch_options){.hosts = "a,b:2,c"}, &exit_status);   four workers, one server
 *
 * One connection of OpenSSH's client goes to each host, with its configuration and agent; on the other end runs an agent
 * of the same program (shoal_launch_agent), which picks ports, takes the keys made for this job, starts the tasks and
 * hands on what they log. When the connection ends, whatever ends it, the agent ends its tasks. */
#ifndef SHOAL_LAUNCH_H
#define SHOAL_LAUNCH_H

#include "shoal/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How a job is launched; NULL and zero in every field but `hosts` is the usual. */
typedef struct {
  size_t size;            /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *hosts;      /**< "a,b:2,user@c": names as ssh takes them, and how many workers each has; 1. Hosts
                             with :0 have servers alone */
  const char *ssh;        /**< the client and more flags for it, parted by blanks; NULL: "ssh" */
  const char *program;    /**< what runs on the hosts; NULL: "shoal" */
  const char *copy;       /**< a program to copy to each host for the job, in place of `program`; NULL: none */
  const char *folder;     /**< in which tasks run; NULL: this process's own folder, by the same path */
  const char *interface;  /**< of the hosts, at whose address tasks listen: "eth1", "10.1.0.0/16"; NULL: that which
                             ssh reached */
  const char *ports;      /**< "FIRST-LAST": those tasks may listen at; NULL: any that are free */
  double connect_seconds; /**< to reach each host in; 0: 10 */
  const int *stop;        /**< the job stops with a checkpoint once *stop is not 0; may be NULL */
  void *context;          /**< handed to both of these */
  void (*on_log)(void *context, const char *task, const char *host, const char *line); /**< a line of a task's log */
  void (*on_note)(void *context, const char *line);                                    /**< a line for people */
  bool namespaces; /**< `hosts` are network namespaces of this machine (`ip netns`), and no ssh is needed; `interface`
                      says at which address tasks listen there */
} shoal_launch_options;

/** Runs the job to its end: worker 0, on the first host, has the result there. `strategy` is "ps", "allreduce"
 * or not said, which is "ps"; `workers` not said: one a slot; `ps` not said: 1. Nothing is left running on any host when it
 * returns. *exit_status: that of worker 0. SHOAL_ERR_PEER: a host that cannot be reached, has another version, or is
 * lost; a task that failed. SHOAL_ERR_CANCELLED: it was stopped before all hosts were there. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_launch(const shoal_job *job, const shoal_launch_options *options,
                                                  int *exit_status);

/** The far end, on each host: speaks with shoal_launch through two descriptors until `in` ends, and leaves nothing
 * running. remove_program: take away the program's own file at once, since it was copied here for this job alone.
 * Changes the working folder of the process. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_launch_agent(int in, int out, bool remove_program);

#ifdef __cplusplus
}
#endif
#endif
