/* Time since an arbitrary start, monotonic, in seconds; and how far the clocks of two machines are apart. */
#ifndef SHOAL_BASE_CLOCK_H
#define SHOAL_BASE_CLOCK_H

#include <stdbool.h>
#include <time.h>

/* A clock in place of the machine's, for a thread that simulates tasks (net/sim.h): the time of the task that runs. */
typedef struct clock_simulated {
  double now;                                              /* seconds */
  void (*pass)(struct clock_simulated *c, double seconds); /* the task does nothing for so long */
} clock_simulated;
extern _Thread_local clock_simulated *clock_here; /* NULL: the machine's */

static inline double clock_seconds(void) {
  if (clock_here) return clock_here->now;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of all threads of this process. */
static inline double clock_processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sleeps, unless a signal comes. */
void clock_sleep(double seconds);

/* Processes with the same name for it share this clock: the machine's and its start's. "" where it has none. */
#define CLOCK_NAME 64
void clock_name(char out[CLOCK_NAME]);

/* What exchanges with a process elsewhere say about its clock. The less time one spent on the way, the nearer the
 * middles of both ends' times are to each other: as exact as half of that. */
typedef struct {
  bool known;
  double trip;  /* seconds on the way, of the quickest so far ... */
  double ahead; /* ... and its clock minus ours by that one */
} clock_estimate;

/* sent, now: by our clock; arrived, answered: by the other one. */
static inline void clock_note(clock_estimate *e, double sent, double arrived, double answered, double now) {
  double trip = (now - sent) - (answered - arrived);
  if (e->known && trip >= e->trip) return;
  *e = (clock_estimate){.known = true, .trip = trip, .ahead = (arrived + answered) / 2 - (sent + now) / 2};
}

#endif
