/* What all tasks of a parameter-server job must agree on. The chief tells it to the servers in its HELLO; they build what
 * they hold from it, and compare what every other worker says with it. As text: "name=value" with blanks in between, in
 * the order of the table in ps_terms.c. */
#ifndef SHOAL_DIST_PS_TERMS_H
#define SHOAL_DIST_PS_TERMS_H

#include "base/events.h"
#include "base/text.h"
#include "net/transport.h"
#include "shoal/train.h"

#define PS_TERMS_TEXT (1 << 14) /* bytes of the text at most */
#define PS_TABLES_MAX 64        /* of a model */

/* The columns of a row that are one table's, and how they begin (kernel/table.h). */
typedef struct {
  int64_t width, zeros;
  double limit;
} ps_columns;

typedef struct {
  int workers, servers;
  bool sync;         /* a step is the mean over one gradient of each worker; otherwise each is applied when it comes */
  int64_t staleness; /* async: steps that a worker may be ahead of the slowest; below 0: no bound */
  int in_flight;     /* async: gradients of a worker that may be without answer, 1 to PS_FLIGHT_MAX */
  int backups;       /* sync: gradients a step can do without */
  int64_t round;     /* rows of a step that is cut along a tree (ps_protocol.h, 14); 0: a batch a worker */
  int64_t local_steps; /* that a worker makes by itself: what it pushes is how far it came; 0: gradients are pushed */
  int64_t elements;    /* parameters of the server that is spoken to */
  int64_t averages;    /* of them, the last ones: moving averages, to which what comes as a gradient is added */
  int64_t touched;     /* they are a table: rows of it that a batch touches at most; 0: they are none (12) */
  int64_t width;       /* of a table: parameters of a row; otherwise 0 */
  int64_t
      first_row;   /* of a table: of the server that is spoken to, whose rows are this one and each `servers` further */
  int64_t started; /* of a table: rows from here on, of the whole table, begin with zeros */
  /* A model's tables stand side by side: a row has each one's row of a feature. */
  ps_columns columns[PS_TABLES_MAX];
  int tables;
  bool
      row_slots; /* of a table of wide rows: slots have one number for a row of features, and one for each number of the rows
                      of other parameters; otherwise they are like the parameters */
  /* Growing ids (ps_protocol.h, 27): */
  bool ids;           /* rows go by id; otherwise none of these count */
  int64_t other_rows; /* of the whole table: of other parameters, its first ones */
  int64_t ids_memory; /* bytes that each server has for ids, 0: as many as it takes; the others as in base/id_table.h */
  int64_t ids_admit, ids_evict_after;
  shoal_optimizer_options optimizer;
  shoal_schedule schedule;
  uint64_t seed;
  void *owned; /* what was read from a text: names and lists point into it; otherwise NULL */
} ps_terms;

SHOAL_CHECKED shoal_status ps_terms_write(const ps_terms *t, text *out);
/* SHOAL_ERR_PEER: no such text, naming the setting that is wrong. */
SHOAL_CHECKED shoal_status ps_terms_read(const char *words, size_t length, ps_terms *out);
void ps_terms_fini(ps_terms *t);
/* Adds "mode is sync there, async here; ..." for each setting that differs. Returns how many do. */
int ps_terms_differ(const ps_terms *theirs, const ps_terms *ours, text *out);

/* How one task takes part, which is its own affair. */
typedef struct {
  net_options net;  /* `largest` and `from` are set by client and server */
  bool has_chief;   /* users call worker 0 chief/0, worker 1 worker/0, ...: for messages */
  double deadline;  /* seconds to connect, and for an answer, after which the job is taken for dead */
  double heartbeat; /* of a server: seconds of silence after which a worker that others wait for no longer counts; only
                        above thrice the time its gradients took so far, so that long steps are no silence. 0: never */
  bool returns;     /* tasks that die are started again: they are waited for, for `deadline` */
  const int *stop;  /* NULL, or: the task ends, or gives up waiting, once *stop is not 0 */
  double drain;     /* of a server, seconds: for that long it serves on once *stop is not 0, and has worker 0 end the
                        training */
  events *events;   /* NULL, or a timeline: track 0 is this task's */
} ps_task;

#endif
