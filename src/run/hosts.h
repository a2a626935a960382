/* Hosts as users list them, "a,b:2,user@c", and which tasks of a job go to which of them. */
#ifndef SHOAL_RUN_HOSTS_H
#define SHOAL_RUN_HOSTS_H

#include "base/status.h"
#include "shoal/run.h"

#define HOSTS_MAX 256

typedef struct {
  char *name; /* as ssh takes it */
  int slots;  /* workers it has room for; 0: servers alone */
} host_slots;

typedef struct {
  host_slots *hosts;
  int count;
} host_list;

/* A wrong list is SHOAL_ERR_ARGUMENT and names what is wrong. */
SHOAL_CHECKED shoal_status host_list_parse(const char *words, host_list *out);
void host_list_fini(host_list *l);

/* One task: "worker/1" on host 2. */
typedef struct {
  const char *role; /* "worker", "ps", "evaluator" */
  int index, host;
  int port;      /* among those of its host, which are handed out in the order of the tasks */
  bool ended;    /* ... and how: */
  int status;    /* as from waitpid */
  char name[32]; /* "worker/1" */
} host_task;

/* Servers go round the hosts, or round those without slots if there are any; all-reduce has none. Workers fill the slots in the order of the list, the evaluator is beside worker 0. The
 * caller frees *out. SHOAL_ERR_ARGUMENT: more workers than slots. */
SHOAL_CHECKED shoal_status host_list_place(const host_list *l, const shoal_job *job, host_task **out, int *count);

#endif
