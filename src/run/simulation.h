/* A simulated job: what its files share. simulate.c checks what is asked for and adds up what came of it; the tasks are in
 * simulate_ps.c and simulate_ranks.c. */
#ifndef SHOAL_RUN_SIMULATION_H
#define SHOAL_RUN_SIMULATION_H

#include "base/random.h"
#include "dist/low_rank.h"
#include "net/sim.h"
#include "shoal/simulate.h"

enum { SIMULATED_EXCHANGES = 2 }; /* of a step of ranks, at most: PowerSGD's */
#define SIMULATED_START 1.0       /* clock: when workers begin; servers are there at 0 */

/* A worker or a rank. */
typedef struct {
  struct simulation *of;
  int index, host;
  double compute, network, barrier, server; /* seconds */
  double began, ended;                      /* clock: its first step, after its last one */
  int64_t steps, failures, late;
  double fails_at;
  int exchange; /* ranks: under way, or the next one */
} simulated_worker;

typedef struct simulation {
  const shoal_simulate_options *options;
  bool allreduce, sync;
  int workers, servers;
  int64_t steps;
  double rate, delay;                     /* bytes a second, seconds */
  double compute, failures, restart;      /* seconds */
  double message, byte, update;           /* seconds: of a message, of a byte, of a parameter */
  double parameters, wire;                /* wire: bytes of a parameter */
  double scale;                           /* parameters that one stands for; of ranks: numbers of their exchanges say */
  const char *way;                        /* ranks: how gradients travel; NULL: as `wire` of the options says */
  double numbers[SIMULATED_EXCHANGES];    /* ranks: that each exchange of a step is of; 0: there is none */
  double coding[SIMULATED_EXCHANGES + 1]; /* ranks: seconds of compressing before each exchange and after the last */
  low_rank_shape *shapes;                 /* [tensors] of the model; NULL: it is not known, or nobody asks */
  int tensors;
  sim *sim;
  simulated_worker *all; /* [workers] */
  double *step_seconds;  /* [n_steps] of all workers */
  int64_t n_steps, room;
  double *updated_at; /* [n_updates] clock, of server 0 or rank 0 */
  int64_t n_updates;
  int *server_hosts; /* [servers] */
  double staleness_sum;
  int64_t stalest, stale; /* stale: how many the sum is of */
  shoal_status error;     /* of the first task that has failed */
  void *tasks;            /* what they share */
} simulation;

/* The tasks; their results go to *s. */
SHOAL_CHECKED shoal_status simulate_ps(simulation *s);
SHOAL_CHECKED shoal_status simulate_ranks(simulation *s);

/* Parameters and the seconds of a step that a model takes here, on one thread. What is said already stays. */
SHOAL_CHECKED shoal_status simulate_model(const char *name, int64_t batch, simulation *s);
/* How gradients of ranks travel by options->compress, whose way s->way says, or by options->wire: what is exchanged, and what
 * compressing costs. */
SHOAL_CHECKED shoal_status simulate_compress(simulation *s);
/* settings.json, metrics.jsonl and summary.json of the run's folder. */
SHOAL_CHECKED shoal_status simulate_write(const simulation *s, const shoal_simulate_result *r);

/* Bytes on the wire of a payload: with our header, and those of TCP, IP and Ethernet for each packet. */
double simulation_frame(double bytes);
/* How long the worker's step computes. */
double simulation_compute(const simulation *s, int worker, int64_t step);
/* Room for as many is there. */
void simulation_note_step(simulation *s, double seconds);
void simulation_note_update(simulation *s);
/* Keeps the first error, takes `status`, and ends the simulation. */
void simulation_fail(simulation *s, shoal_status status);

#endif
