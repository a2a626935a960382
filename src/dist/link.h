/* What carries messages between the ranks of an all-reduce: a table of functions, in a library of its own that is
 * opened when it is asked for (docs/decisions/2026-11-15-all-reduce.md). The library is compiled against the machine's
 * MPI, and uses nothing of Shoal but this header.
 *
 * A *set* is a list of messages that are sent and received again and again, prepared once. One thread uses a link.
 * Functions return false after having written why to the room that `begin` was given. */
#ifndef SHOAL_DIST_LINK_H
#define SHOAL_DIST_LINK_H

#include <stdbool.h>
#include <stdint.h>

#define LINK_VERSION 1
#define LINK_SYMBOL "shoal_link"
#define LINK_WHY 256

typedef struct link_set link_set;

typedef struct {
  int version; /* LINK_VERSION */
  /* why: [LINK_WHY], kept. Takes the place that the launcher gave this process. */
  bool (*begin)(char *why, int *rank, int *ranks);
  bool (*broadcast)(void *bytes, int64_t count); /* from rank 0 */
  /* The memory must stay until the set is freed. */
  bool (*set_create)(int most, link_set **out);
  bool (*set_send)(link_set *s, const void *bytes, int64_t count, int peer, int tag);
  bool (*set_receive)(link_set *s, void *bytes, int64_t count, int peer, int tag);
  /* use: [messages] which of them, in the order they were added; NULL: all. */
  bool (*set_start)(link_set *s, const bool *use);
  /* *done: all that were started are through. */
  bool (*set_test)(link_set *s, bool *done);
  /* Peers whose messages are not through; at most `room`. Returns how many. */
  int (*set_late)(link_set *s, int *peers, int room);
  void (*set_free)(link_set *s);
  bool (*end)(void);
  void (*abort)(int code);
} link_table;

#endif
