/* Which task runs which node, where the graph leaves it open.
 *
 *  1. A node runs on a task that its device allows; a device that no task of the cluster fits is an error.
 *     A condition or a loop runs on one task as a whole; devices inside it count for the whole of it.
 *  2. A variable and everything that changes it stand on one task.
 *  3. Variables that may stand on several tasks of a job that was asked for are spread by size.
 *  4. What is still open goes where the fewest bytes have to travel, a value counted once for each task that needs it
 *     and not at all where only its shape counts or it is a constant; so inputs come to stand beside their consumers.
 *     A graph without devices stays on the first task. */
#ifndef SHOAL_DIST_PLACER_H
#define SHOAL_DIST_PLACER_H

#include "graph/device.h"
#include "graph/graph.h"
#include "shoal/placed.h"

#define PLACER_TASKS_MAX SHOAL_MAX_TASKS
#define PLACER_UNKNOWN_ROWS 64 /* a batch of unknown size counts as so many */

typedef enum { PLACED_ASKED, PLACED_WITH, PLACED_SPREAD, PLACED_BYTES, PLACED_FREE } placer_reason;

typedef struct {
  int task;
  placer_reason why;
  int with;            /* PLACED_WITH: node */
  double here, beside; /* PLACED_BYTES: that travel, and that would on the next best task (below 0: there is none) */
} placer_choice;

/* choices: [graph->count]; those before `first` are settled and stay. */
SHOAL_CHECKED shoal_status placer_place(const shoal_graph *g, const device *tasks, int n_tasks, size_t first,
                                        placer_choice *choices);
/* A line a node: name, operator, task and why; then the bytes between tasks. The caller frees it; NULL: no memory. */
char *placer_explain(const shoal_graph *g, const device *tasks, int n_tasks, const placer_choice *choices);

/* How a node uses its input k. */
typedef enum { EDGE_DATA, EDGE_SHAPE, EDGE_WAIT } edge_kind;
static inline edge_kind edge_of(const node *n, int k) {
  if (n->op->flags & OP_WAITS) return EDGE_WAIT;
  return op_shape_only(n->op, k) ? EDGE_SHAPE : EDGE_DATA;
}
/* Constants are known to all tasks. */
bool placer_everywhere(const node *n);

#endif
