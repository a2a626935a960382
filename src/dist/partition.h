/* A run over several tasks, cut into what each of them has to do.
 *
 * Each needed node has a depth: how many times, on the longest way to it, a value changes task. The nodes of one task
 * and one depth are a *segment*, which the task runs as one plan. A task runs its segments by depth; what a segment
 * needs from other tasks was made at a smaller depth there, so nobody waits in a circle. After a segment the task
 * sends each other task one *message* with all values of that segment which the other needs, each once.
 *
 *  1. A value of another task reaches a segment in a message; one of an earlier segment of the same task is carried
 *     over; what is a view or a source is seen anew by each segment.
 *  2. A node that changes a variable has at least the depth of those that read the variable as it was, and more than
 *     that of the segment that sends it away. So all readers of a run see the same variable.
 *  3. Of a value whose shape alone counts nothing is sent. For one that is only waited for an empty place is. */
#ifndef SHOAL_DIST_PARTITION_H
#define SHOAL_DIST_PARTITION_H

#include "dist/placer.h"
#include "shoal/session.h"

typedef struct {
  int *items;
  size_t n, capacity;
} int_list;

typedef struct {
  int from, to; /* tasks */
  int depth;    /* of the segment that sends it */
  int_list values;
  int_list empty; /* values waited for: nothing but the message itself */
} part_message;

typedef struct {
  int task, depth;
  int_list messages; /* to be there before it starts */
  int_list received; /* values out of them */
  int_list carried;  /* values of earlier segments of this task */
  int_list shapes;   /* values of which only the shape counts */
  int_list feeds;    /* which of the feeds */
  int_list fetches;  /* values that leave the segment */
  int_list effects;  /* values that are made for what making them does */
  int_list sends;    /* messages */
} part_segment;

typedef struct {
  part_segment *segments; /* by task, then depth */
  size_t n_segments, cap_segments;
  part_message *messages;
  size_t n_messages, cap_messages;
  shoal_shape *shapes; /* [values of the graph]; rank -1: not needed */
  int *owner;          /* [fetches]: the task that makes it; -1: it is fed */
} partition;

/* tasks: [nodes] as placed. The tensors of the feeds are looked at for their shapes only. */
SHOAL_CHECKED shoal_status partition_make(const shoal_graph *g, const placer_choice *tasks, int n_tasks,
                                          const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                                          int n_fetches, partition *out);
void partition_fini(partition *p);

/* By number; see value_id. */
const shoal_value *partition_value(const shoal_graph *g, int id);

#endif
