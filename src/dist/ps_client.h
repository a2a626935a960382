/* A worker's end of all parameter servers: one request to each server at a time, sent to all before the first answer is
 * awaited. */
#ifndef SHOAL_DIST_PS_CLIENT_H
#define SHOAL_DIST_PS_CLIENT_H

#include "dist/placement.h"
#include "dist/ps_protocol.h"
#include "net/transport.h"

typedef struct {
  const char *const *addresses; /* of the servers, in their order; kept by the caller as long as the client */
  const placement *place;       /* the same */
  net_options net;              /* `largest` is set by the client; `from`: the worker */
  const char *settings;
  double connect_seconds, answer_seconds; /* deadlines */
} ps_client_options;

typedef struct ps_client ps_client;

/* Connects to all and says HELLO. */
SHOAL_CHECKED shoal_status ps_client_create(const ps_client_options *options, ps_client **out);
void ps_client_destroy(ps_client *c);

/* Gradients out, fresh parameters back. gradients and parameters: one pointer a variable, to all its elements;
 * gradients may be NULL when head->examples is 0. *head: what goes out, then what server 0 answered. *stopped: rule 6
 * of the protocol. */
SHOAL_CHECKED shoal_status ps_client_push(ps_client *c, float *const *gradients, float *const *parameters,
                                          ps_head *head, bool *stopped);
/* Waits for START; *round as worker 0 said there. */
SHOAL_CHECKED shoal_status ps_client_pull(ps_client *c, float *const *parameters, int64_t *round);
/* Vector `which` of all servers: 0 the parameters, k slot k - 1. */
SHOAL_CHECKED shoal_status ps_client_set(ps_client *c, int which, float *const *values);
SHOAL_CHECKED shoal_status ps_client_get(ps_client *c, int which, float *const *values, ps_head *head);
SHOAL_CHECKED shoal_status ps_client_start(ps_client *c, int64_t round, int64_t updates, int64_t counter);
SHOAL_CHECKED shoal_status ps_client_stop(ps_client *c);
/* *head: what server 0 answered; the largest `running` of all servers. */
SHOAL_CHECKED shoal_status ps_client_done(ps_client *c, ps_head *head);
/* At most PS_REPORT_MOST bytes, kept by server 0. */
SHOAL_CHECKED shoal_status ps_client_report(ps_client *c, const char *words);
/* The report of worker `which`, or with the number of workers the server's own; *out is the caller's to free, NULL: not
 * there yet. */
SHOAL_CHECKED shoal_status ps_client_collect(ps_client *c, int server, int which, char **out);
SHOAL_CHECKED shoal_status ps_client_quit(ps_client *c);

/* Of all connections together. */
void ps_client_stats(const ps_client *c, net_stats *out);

#endif
