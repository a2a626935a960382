/* A simulated network: hosts whose tasks are functions of one thread, with a clock of its own. What a task does takes no
 * time but what it says (sim_work) and what messages cost; a message takes the delay of the network, and its size by the
 * rate, at the link of the sender and at that of the receiver. Large messages to several hosts take turns.
 *
 *  1. Each task has a host, with one link each way. Its clock (clock_seconds) is its own and may be ahead of the others'.
 *  2. A task goes on until it waits for a message that may not be known yet; then the one that is furthest behind does.
 *     What is sent at time t arrives at t + delay or later: so long before, nobody needs to be waited for.
 *  3. Messages arrive in the order of their times, then of their senders: the same seed gives the same run.
 *  4. Addresses are "sim:N", where N is the number of the host. They can be used inside of tasks alone. */
#ifndef SHOAL_NET_SIM_H
#define SHOAL_NET_SIM_H

#include "net/transport.h"

typedef struct sim sim;
typedef struct sim_host sim_host;
typedef struct sim_end
    sim_end; /* where messages come in: a server, a client of one, a rank. Lives as long as the sim */

/* Tasks of one side do not send to each other: less has to be waited for then. */
typedef enum { SIM_ANY, SIM_SERVERS, SIM_CLIENTS, SIM_SIDES } sim_side;

typedef struct {
  double rate;   /* bytes a second of each link, each way; 0: not limited */
  double delay;  /* seconds from host to host */
  double window; /* bytes that a sender may be ahead of its link: what a socket keeps */
  /* What a payload weighs on the wire, header included; NULL: what it has. Large vectors may be stood for by short ones. */
  double (*weigh)(void *context, const net_header *header, size_t bytes);
  void *context;
} sim_options;

/* Seconds of a task's processor, for each message that it sends or receives, and for each byte. */
typedef struct {
  double message, byte;
} sim_costs;

typedef struct {
  double sent_bytes, received_bytes; /* as they weigh */
  int64_t sent_messages, received_messages;
  double sending_seconds, receiving_seconds; /* the link was in use */
  double working_seconds;                    /* of the processor: sim_work and messages */
} sim_stats;

SHOAL_CHECKED shoal_status sim_create(const sim_options *options, sim **out);
void sim_destroy(sim *s);
/* A task that begins at `start`, a time. name: for messages; copied. *out: its number. */
SHOAL_CHECKED shoal_status sim_add(sim *s, const char *name, double start, const sim_costs *costs, sim_side side,
                                   void (*run)(void *context), void *context, int *out);
/* Until all tasks have ended, or one has called sim_stop. SHOAL_ERR_INTERNAL: they wait for each other for ever. */
SHOAL_CHECKED shoal_status sim_run(sim *s);
void sim_stats_read(const sim *s, int host, sim_stats *out);
/* What all hosts have counted so far no longer counts. */
void sim_stats_reset(sim *s);

/* ---- inside of a task: of the thread's simulation */

sim *sim_here(void); /* NULL: none runs in this thread */
int sim_self(const sim *s);
void *sim_task(const sim *s);   /* what the task was given as its context */
double sim_delay(const sim *s); /* as in the options */
/* The task computes for so long. */
void sim_work(sim *s, double seconds);

/* The simulation ends as it is; what its tasks hold is lost. */
void sim_stop(sim *s);
/* What others find by the number of its host; NULL: nothing (any more). */
void sim_publish(sim *s, void *what);
void *sim_published(const sim *s, int host);

SHOAL_CHECKED shoal_status sim_end_create(sim *s, sim_end **out); /* of the task that runs */
/* What comes later is dropped. */
void sim_end_close(sim_end *e);

typedef struct sim_message {
  double ready;  /* clock: all of it was there */
  double weight; /* bytes on the wire */
  double piece;  /* seconds that a link takes for each of its pieces */
  sim_end *to;
  struct sim_message *next;
  size_t bytes;
  uint32_t host, from, number; /* where it goes; where from, and how many that one had sent before */
  uint16_t unsent, missing;    /* pieces */
  uint64_t peer;               /* the sender's to say, e.g. which of its connections it is */
  net_header header;
  _Alignas(64) uint8_t payload[];
} sim_message;

/* To an end of that host. Copies the parts. Returns when the link has taken it, but for the window. */
SHOAL_CHECKED shoal_status sim_post(sim *s, int host, sim_end *to, const net_header *header, uint64_t peer,
                                    const net_part *parts, int n, size_t bytes);
/* The next message to `e`, or NULL when there is none by `until` (clock). */
sim_message *sim_take(sim_end *e, double until);
/* bytes: as in *m, which may be far away by now. */
void sim_release(sim *s, sim_message *m, size_t bytes);

#endif
