/* A host at the other end of ssh: the client's process, and what its agent says. */
#ifndef SHOAL_RUN_REMOTE_HOST_H
#define SHOAL_RUN_REMOTE_HOST_H

#include "run/remote_channel.h"
#include "shoal/launch.h"

#include <sys/types.h>

typedef struct {
  const char *name; /* borrowed */
  pid_t ssh;        /* 0: none */
  remote_channel line;
  int errors;    /* standard error of ssh; -1: closed */
  text said;     /* the end of what came there */
  int copy;      /* the program that is still being copied; -1: none */
  char *pending; /* of it: bytes that were read and not yet sent */
  size_t at, room;
  char version[64]; /* "": it has not said hello */
  char *address;    /* of its tasks; NULL: not known yet */
  int *ports, n_ports;
  int tasks;     /* that are to run there */
  bool ended;    /* ssh has ended */
  int status;    /* ... as from waitpid */
  char why[512]; /* what is wrong with it; "": nothing */
} remote_host;

/* Starts ssh. */
SHOAL_CHECKED shoal_status remote_host_start(remote_host *h, const char *name, const shoal_launch_options *o);
/* Looks what came: standard error, the copy, the end of ssh. The next message in *out, the caller's; NULL: none. What is
 * wrong with the host goes to `why`. */
void remote_host_look(remote_host *h, json_t **out);
/* Sends a message; what goes wrong goes to `why`. Takes `body`. */
void remote_host_send(remote_host *h, const char *kind, json_t *body);
/* Its agent is to end: it sees the end of its input. */
void remote_host_hang_up(remote_host *h);
/* Ends ssh, if it still runs, and frees all. */
void remote_host_fini(remote_host *h);

#endif
