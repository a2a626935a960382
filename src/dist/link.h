/* What carries messages between the ranks of an all-reduce: a table of functions. There are two: our own, over shared
 * memory and TLS (link_own.c), and MPI's, in a library of its own that is opened when it is asked for
 * (docs/decisions/2026-11-15-all-reduce.md). That library is compiled against the machine's MPI, and uses nothing of
 * Shoal but this header.
 *
 * A *set* is a list of messages that are sent and received again and again, prepared once. One thread uses a link.
 * Functions return false after having written why to the room that `begin` was given. */
#ifndef SHOAL_DIST_LINK_H
#define SHOAL_DIST_LINK_H

#include <stdbool.h>
#include <stdint.h>

#define LINK_VERSION 3
#define LINK_SYMBOL "shoal_link"
#define LINK_WHY 512

typedef struct link_set link_set;
typedef struct link_place link_place; /* a process's place among the ranks */

typedef struct {
  int version;      /* LINK_VERSION */
  bool one_process; /* the ranks are tasks of this process: none of them is watched for its end */
  /* why: [LINK_WHY], kept. Takes the place that the launcher gave this process, or that `start` (link_own.h; MPI: NULL)
   * describes. */
  bool (*begin)(const void *start, char *why, link_place **out, int *rank, int *ranks);
  bool (*broadcast)(link_place *p, void *bytes, int64_t count); /* from rank 0 */
  /* The memory must stay until the set is freed. */
  bool (*set_create)(link_place *p, int most, link_set **out);
  bool (*set_send)(link_set *s, const void *bytes, int64_t count, int peer, int tag);
  bool (*set_receive)(link_set *s, void *bytes, int64_t count, int peer, int tag);
  /* use: [messages] which of them, in the order they were added; NULL: all. */
  bool (*set_start)(link_set *s, const bool *use);
  /* Lets messages move; NULL: set_test does. */
  bool (*move)(link_place *p);
  /* *done: all that were started are through. */
  bool (*set_test)(link_set *s, bool *done);
  /* Peers whose messages are not through; at most `room`. Returns how many. */
  int (*set_late)(link_set *s, int *peers, int room);
  void (*set_free)(link_set *s);
  /* Sleeps until there may be something to move, at most so many seconds; NULL: it cannot tell. */
  void (*wait)(link_place *p, double seconds);
  /* Whether the rank is known to have gone, without being waited for; NULL: it cannot tell. */
  bool (*gone)(link_place *p, int rank);
  /* Whether a rank has said that it ends the job and tells why; NULL: it cannot tell. */
  bool (*told)(link_place *p, int *rank);
  bool (*end)(link_place *p);
  /* The same at once, whatever is on its way; NULL: it cannot. */
  void (*drop)(link_place *p);
  /* Ends the job of all ranks; may not return. */
  void (*abort)(link_place *p, int code);
} link_table;

#endif
