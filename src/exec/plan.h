/* A plan: what one kind of run (these fetches, these feed shapes) does, worked out once.
 *
 * Making it goes through the passes in this order, each in its file:
 *   build.c     only the nodes that the fetches need, with all shapes known; views resolved; constants folded
 *   fuse.c      groups of operators replaced by one that does the same in fewer passes over memory
 *   layout.c    a kernel for each node by processor and shape; ROWS or LANES for each value; conversions between them
 *   schedule.c  an order, cut into phases
 *   memory.c    where each value lives
 * execute.c runs it. Running allocates nothing.
 *
 * Phases. A *split* phase holds only nodes that treat the rows of a batch one by one, or sum over them. Each thread
 * takes a share of the rows and carries it through all nodes of the phase in strips small enough for its cache, so a
 * whole forward and backward pass needs one synchronisation. Sums are collected for each thread apart and added in the
 * order of the threads. A *whole* phase is one node, which may use all threads inside. A whole phase is *cut* when each
 * thread computes a part of the elements; updates that are cut alike follow each other, and the sums they use, without
 * the threads waiting for each other.
 *
 * Ragged values. The number of entries of sparse rows differs from batch to batch; a plan has room for so many, and any
 * batch with at most as many fits it (plan_matches). Kernels are told how many there are: axis 0 of each operand that
 * is as long as a ragged feed is set in every run. Nodes that touch such a value are not split over threads.
 *
 * Invariants:
 * 1. A node's inputs are made in an earlier phase, or earlier in the same split phase (and then not by a sum).
 * 2. A node that changes a variable comes after every node that reads it as it was before the step.
 * 3. Values made and used up inside one split phase exist only a strip at a time, in each thread's own memory. */
#ifndef SHOAL_EXEC_PLAN_H
#define SHOAL_EXEC_PLAN_H

#include "exec/session.h"
#include "graph/graph.h"

typedef enum {
  STORE_NONE,     /* not placed yet */
  STORE_FEED,     /* the caller's memory */
  STORE_VARIABLE, /* the session's */
  STORE_CONSTANT, /* the graph's, or folded and owned by the plan */
  STORE_SHARED,   /* the plan's memory, all rows */
  STORE_LOCAL,    /* each thread's memory, one strip */
  STORE_SUM       /* the plan's memory, one copy a thread; the first holds the sum after the phase */
} plan_store;

typedef struct {
  shoal_dtype dtype;
  shoal_shape shape;    /* all known */
  shoal_shape symbolic; /* as built: SHOAL_UNKNOWN where feeds decide */
  layout order;
  int maker; /* plan node, or -1 */
  int root;  /* the value whose memory this one is; itself if its own */
  plan_store store;
  const node *source; /* placeholder, constant or variable it comes from */
  shoal_tensor data;  /* STORE_CONSTANT: the numbers (owned if `owned`) */
  bool owned;
  int feed; /* STORE_FEED: which one */
  bool fetched;
  bool apart;    /* a sum of which each thread has its part in its own copy, and nobody reads the whole */
  int ragged;    /* the feed whose offsets say how long axis 0 is in this run, shape.dim[0] at most; -1: it is fixed */
  size_t offset; /* in the shared or the thread's memory */
  size_t row_bytes; /* batched values: of one row, in either layout */
} plan_value;

typedef struct {
  const op_row *op;
  const node *origin; /* for names in messages and random streams; of a fused node: the last one it replaces */
  int *in, *out;      /* values */
  int ins, outs;
  attr_value attr[OP_MAX_ATTRS]; /* text and data belong to the graph */
  bool dead;
  bool keep; /* part of a control dependency: runs as it is, neither folded nor fused nor taken for a view */
  /* layout.c */
  kernel_fn run;
  const op_variant *variant; /* NULL: the reference kernel */
  op_batch batch;
  size_t scratch;
  struct control *nested; /* OP_NESTED: see control.h */
  /* schedule.c */
  int phase;
} plan_node;

typedef struct {
  bool split;
  int first, count; /* in plan->order */
  int64_t rows;     /* split phases: of the batch */
  int threads;      /* how many take part */
  int64_t grain;    /* split phases: rows that stay together: LANES where something is in that layout, otherwise 1 */
  int64_t strip;    /* split phases: rows carried through at a time, a multiple of the grain */
  bool check_guard; /* before it, the guard must be finite */
  bool cut;         /* whole phases: each thread takes a part of the elements */
  int tail;         /* cut phases that share one meeting of the threads: after a split phase, or from a cut one on */
  int next;         /* phase to go on with */
} plan_phase;

/* One thread's ready-made calls: only pointers and row counts of batched operands change from strip to strip. */
typedef struct {
  kernel_call *calls;     /* by position in plan->order */
  shoal_tensor *operands; /* of all calls */
  char *local;            /* STORE_LOCAL memory */
  void *scratch;
  shoal_status error;
  int failed;    /* position of the node that gave it */
  uint64_t done; /* when its share of the phase was; only in a timeline */
} plan_thread;

/* An operand whose address depends on the feed or the strip. */
typedef struct {
  int operand, value;
} plan_patch;

typedef struct plan {
  shoal_session *session;
  uint64_t last_used; /* session->uses then */
  /* the key */
  shoal_value **fetches;
  int n_fetches;
  shoal_value **feed_values;
  shoal_shape *feed_shapes;
  bool *feed_indexed;
  int *feed_offsets; /* of a ragged feed: the feed with its offsets; otherwise -1 */
  int n_feeds;

  plan_value *values;
  size_t n_values, cap_values;
  plan_node *nodes;
  size_t n_nodes, cap_nodes;
  int *fetch_of; /* [n_fetches] value */
  int guard;     /* value, or -1 */
  struct plan_control {
    int before, after; /* nodes */
  } * controls;
  size_t n_controls, cap_controls;
  bool check_each; /* look at every result: to find the first bad operator */

  int *order; /* [n_order] nodes, in order of execution */
  int n_order;
  plan_phase *phases;
  int n_phases;

  char *shared;
  size_t shared_bytes, local_bytes, scratch_bytes;
  size_t charged; /* to the session's budget */
  plan_thread *threads;
  int n_threads;
  plan_patch *patches; /* ordered by phase */
  int *phase_patches;  /* [n_phases + 1] */
  int *operand_at;     /* [n_order + 1] first operand of each position */
  int *packed_at;      /* [n_order] table of the session that a node takes packed; -1: none. NULL: not looked yet */
  size_t n_packed;     /* tables that the session had then */
  uint32_t *labels;    /* [n_order] for the session's timeline; NULL: it has none */

  /* of the run under way */
  const shoal_feed *feeds;
  int running; /* phase */
} plan;

typedef struct {
  shoal_session *session;
  shoal_value *const *fetches;
  int n_fetches;
  const shoal_feed *feeds;
  int n_feeds;
  bool reference;  /* no fusion, reference kernels, no split phases */
  bool check_each; /* implies reference */
} plan_request;

SHOAL_CHECKED shoal_status plan_create(const plan_request *request, plan **out);
void plan_destroy(plan *p);
bool plan_matches(const plan *p, const plan_request *request);
/* fetched may be NULL. */
SHOAL_CHECKED shoal_status plan_run(plan *p, const shoal_feed *feeds, shoal_tensor *fetched);
/* Is the whole plan one node with OP_STEPS? */
bool plan_makes_steps(const plan *p);
/* Of such a plan: all steps in one call; feeds hold the rows of all of them. */
SHOAL_CHECKED shoal_status plan_run_steps(plan *p, const shoal_feed *feeds, int64_t step_rows, shoal_tensor *fetched);
/* The session's plan for such a run, made if need be. */
SHOAL_CHECKED shoal_status session_plan(shoal_session *s, const plan_request *request, plan **out);
/* A line a node: phase, operator, kernel, layouts, shapes; the caller frees it. */
char *plan_describe(const plan *p);

/* ---- the passes */
SHOAL_CHECKED shoal_status plan_build(plan *p, const plan_request *request);
SHOAL_CHECKED shoal_status plan_fuse(plan *p);
SHOAL_CHECKED shoal_status plan_choose(plan *p, bool reference);
SHOAL_CHECKED shoal_status plan_schedule(plan *p, bool reference);
SHOAL_CHECKED shoal_status plan_place(plan *p);
/* Before the plan allocates what depends on shapes; given back with the plan. */
SHOAL_CHECKED shoal_status plan_charge(plan *p, size_t bytes, const char *what);
/* Names the operators for the session's timeline, if it has one. */
SHOAL_CHECKED shoal_status plan_label(plan *p);

/* ---- used by the passes */
SHOAL_CHECKED shoal_status plan_add_value(plan *p, shoal_dtype dtype, shoal_shape shape, shoal_shape symbolic,
                                          int *out);
/* The outputs are new values with the shapes that the operator's rule gives. *out: the node. */
SHOAL_CHECKED shoal_status plan_add_node(plan *p, const op_row *op, const node *origin, const int *in, int ins,
                                         const attr_value *attr, int *out);
/* Makes every reader of `old` (and fetches) read `now`. */
void plan_replace(plan *p, int old, int now);
static inline bool plan_batched(const plan_value *v) {
  return v->symbolic.rank > 0 && v->symbolic.dim[0] == SHOAL_UNKNOWN;
}
/* Entries of the rows that a tensor of offsets [rows + 1] cuts. */
static inline int64_t plan_entries(const shoal_tensor *offsets) {
  const int64_t *o = offsets->data;
  return (int64_t)((uint64_t)o[offsets->shape.dim[0] - 1] - (uint64_t)o[0]); /* they may be anything */
}
/* Bytes of `rows` rows in its layout (LANES: rounded up to whole blocks). */
size_t plan_value_bytes(const plan_value *v, int64_t rows);
/* Shapes of a node as the rules want them: concrete, or as built. Arrays are the caller's: [ins] and [outs]. */
void plan_shapes(const plan *p, const plan_node *n, bool symbolic, shoal_shape *in, shoal_dtype *in_dtype,
                 shoal_shape *out, shoal_dtype *out_dtype, op_shapes *s);
#define PLAN_INPUTS_MAX 256
#define PLAN_CUT_INPUTS_MAX 8
#define PLAN_WORTH_CUTTING 4096 /* elements below which one thread is as fast as several */

#endif
