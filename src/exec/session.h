/* The session's inside. */
#ifndef SHOAL_EXEC_SESSION_H
#define SHOAL_EXEC_SESSION_H

#include "base/events.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernel/cpu.h"
#include "shoal/session.h"

struct plan;
struct packed_table;
struct node;

/* A session whose runs are carried out elsewhere, see shoal/placed.h. */
typedef struct {
  void (*destroy)(void *remote);
  shoal_status (*run)(void *remote, uint64_t step, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                      int n_fetches, shoal_tensor *fetched);
} session_remote;

#define SESSION_PLANS 16 /* kept ready at most */

/* Told while a run goes on, by the thread that runs it. */
typedef struct {
  void *context;
  /* Fetch number `fetch` has its value, which stays until the next run. Feeds, variables and constants are not told of.
   */
  void (*ready)(void *context, int fetch, const shoal_tensor *value);
  void (*phase)(void *context); /* a phase is over */
} session_watcher;

struct shoal_session {
  shoal_graph *graph; /* borrowed */
  uint64_t seed, step;
  cpu_level level;
  bool reference;
  bool racing;
  pool *threads;
  shoal_tensor *variables; /* by node id; data NULL where it is no variable */
  size_t n_variables;
  struct packed_table *packed; /* tables and their slots: see packed.h */
  size_t n_packed, cap_packed;
  bool never_packs; /* others know where its variables are */
  bool *given_away; /* [n_given_away] by node id: whoever asked may use the variable's memory at any time */
  size_t n_given_away;
  shoal_session *owner; /* whose variables these are; NULL: its own */
  session_watcher watcher;
  shoal_value *guard;
  struct plan *plans[SESSION_PLANS];
  size_t n_plans;
  uint64_t uses; /* of plans so far: tells which one was used last */
  void (*print)(void *sink, const char *line);
  void *print_sink;
  events *events;                             /* NULL: nobody wants a timeline */
  bool owns_events;                           /* otherwise borrowed */
  uint32_t sync_label, sums_label, run_label; /* run_label: of runs, where it owns them */
  int track;                                  /* in it: of the pool's first thread */
  /* NULL, or called between the phases of a run; its error ends the run. */
  shoal_status (*look)(void *context);
  void *look_context;
  /* NULL, or whether a variable is this session's; the others have no memory here. */
  bool (*owns)(void *context, const struct node *variable);
  void *owns_context;
  mem_budget *budget;           /* NULL, or what variables and plans may take; borrowed */
  const session_remote *remote; /* NULL: runs here; then everything above but graph and step is unused */
  void *remote_state;
};

/* Runs from now on go to the timeline while that is on: thread i of the pool on track `first` + i. Borrowed. */
SHOAL_CHECKED shoal_status session_trace(shoal_session *s, events *e, int first);
/* Cuts the rows that are fed into steps of `step_rows` (the last may be shorter) and does what as many calls of
 * shoal_session_run would, one after the other. Feeds whose axis 0 is the batch are cut, ragged ones with their rows; a
 * placeholder without axes may be fed a vector: one element a step. means[i]: of fetch i over the rows, if it has no
 * axes. Where the whole step is one operator that can (OP_STEPS), it is one call of its kernel. */
SHOAL_CHECKED shoal_status session_run_steps(shoal_session *s, const shoal_feed *feeds, int n_feeds,
                                             shoal_value *const *fetches, int n_fetches, int64_t step_rows,
                                             double *means);
/* Not reproducible: operators that make many steps in a call may let all threads make them at once, without locks. */
void session_race(shoal_session *s, bool racing);

/* As shoal_session_create, for a session that holds only some of the variables. budget: NULL for none; what variables
 * take of it is never given back. */
SHOAL_CHECKED shoal_status session_create_part(shoal_graph *g, const shoal_session_options *options,
                                               bool (*owns)(void *context, const struct node *variable), void *context,
                                               mem_budget *budget, shoal_session **out);
/* As shoal_session_variable, but valid until the next run only: its numbers may then move (packed.h). */
SHOAL_CHECKED shoal_status session_variable_now(shoal_session *s, const shoal_value *variable, shoal_tensor *out);
/* What session_variable_now gave for any variable is valid again until the next run. */
void session_settle(shoal_session *s);
/* Gives the variables that the graph has gained their memory and initial values. */
SHOAL_CHECKED shoal_status session_adopt(shoal_session *s);
/* Takes `state`, also on failure. */
SHOAL_CHECKED shoal_status session_create_remote(shoal_graph *g, const session_remote *remote, void *state,
                                                 shoal_session **out);

/* A run in which this value turns out not finite stops before it changes any variable, with SHOAL_ERR_NUMERIC. */
void session_guard(shoal_session *s, shoal_value *loss);

/* A session over the same graph that reads and changes the variables of `owner`, which must outlive it, with one thread
 * and plans of its own. Runs of several such sessions may go on at once as long as none of them changes a variable and
 * their plans are made (session_explain) before. */
SHOAL_CHECKED shoal_status session_create_sharing(shoal_session *owner, shoal_session **out);

/* watcher->ready NULL, or watcher NULL: nobody is told. */
void session_watch(shoal_session *s, const session_watcher *watcher);

/* Looks for the first operator, in order of computation, that makes a NaN or an infinity on the way to `target`;
 * changes nothing. *description is NULL when there is none; the caller frees it. */
SHOAL_CHECKED shoal_status session_find_bad(shoal_session *s, const shoal_feed *feeds, int n_feeds, shoal_value *target,
                                            char **description);

/* How the runs with these fetches are carried out, for people; the caller frees it. Makes the plan if need be. */
SHOAL_CHECKED shoal_status session_explain(shoal_session *s, const shoal_feed *feeds, int n_feeds,
                                           shoal_value *const *fetches, int n_fetches, char **out);

#endif
