/* Starts the tasks of a job as processes of this machine and watches over them.
 *
 * 1. Each task is a process group of its own and dies with its parent, whatever kills that.
 * 2. Its standard output and error go to its log file; what it writes to LAUNCH_REPORT_FD, line by line, comes to the
 *    parent.
 * 3. launch_destroy leaves nothing running: it asks all to end, then makes them.
 *
 * One thread uses it, the one that started the tasks. */
#ifndef SHOAL_CLUSTER_LAUNCH_H
#define SHOAL_CLUSTER_LAUNCH_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/types.h>

#define LAUNCH_REPORT_FD 3

typedef struct launch launch;

typedef enum { LAUNCH_NOTHING, LAUNCH_LINE, LAUNCH_ENDED } launch_event_kind;

typedef struct {
  launch_event_kind kind;
  int task;   /* its number: tasks count from 0 in the order they were started */
  char *line; /* LAUNCH_LINE: without its newline; borrowed until the next call */
  int status; /* LAUNCH_ENDED: as from waitpid */
} launch_event;

SHOAL_CHECKED shoal_status launch_create(launch **out);
/* Which program tasks run, looked for as a shell does; copied. Without it: this one. */
void launch_program(launch *l, const char *program);
/* Starts the program with the given arguments (argv[0] included, ended by NULL). name: "worker/1", copied. */
SHOAL_CHECKED shoal_status launch_start(launch *l, const char *name, char *const *argv, const char *log);
/* The same for a task whose end was reported; its log goes on. */
SHOAL_CHECKED shoal_status launch_again(launch *l, int task, char *const *argv);
/* The next thing that happened, at most `seconds` from now. A task's lines come before its end. */
SHOAL_CHECKED shoal_status launch_wait(launch *l, double seconds, launch_event *out);
void launch_signal(launch *l, int task, int signal);
/* Whether the task is stopped (SIGSTOP), and will do nothing until it is continued. */
bool launch_stopped(const launch *l, int task);
int launch_running(const launch *l);
int launch_count(const launch *l);
const char *launch_name(const launch *l, int task);
const char *launch_log(const launch *l, int task);
pid_t launch_pid(const launch *l, int task);
/* Asks all that run to end (SIGTERM), and after `grace` seconds makes them. NULL is fine. */
void launch_destroy(launch *l, double grace);

#endif
