/* The operator table: each operator is one row, and everything known about it stands in that row. */
#ifndef SHOAL_GRAPH_OP_H
#define SHOAL_GRAPH_OP_H

#include "kernel/kernel.h"
#include "shoal/graph.h"

#define OP_MAX_ATTRS 10
#define OP_MAX_OUTPUTS 16

typedef enum { ATTR_INT, ATTR_BOOL, ATTR_FLOAT, ATTR_LIST, ATTR_DTYPE, ATTR_TEXT, ATTR_DATA, ATTR_GRAPH } attr_kind;

typedef struct {
  const char *name; /* NULL ends the list */
  attr_kind kind;
  double standard; /* the value when a test case or a saved graph leaves it out */
} op_attr;

/* What a shape rule (and everything else that depends on shapes alone) sees. While the graph is built a dimension may
 * be SHOAL_UNKNOWN; when a plan is made all are known. */
typedef struct {
  int ins, outs;
  const shoal_shape *in;
  const shoal_dtype *in_dtype;
  const attr_value *attr;
  shoal_shape *out;
  shoal_dtype *out_dtype;
} op_shapes;

/* How an operator treats axis 0 when that is the batch (a dimension unknown until a batch is fed). */
typedef enum {
  BATCH_WHOLE, /* needs all rows at once */
  BATCH_MAP,   /* row i of each output depends on row i of each batched input alone */
  BATCH_SUM    /* outputs have no batch axis and are sums over rows; the kernel can accumulate */
} op_batch;

/* One tuned kernel, f32. */
typedef struct {
  const char *name; /* "lanes avx512" */
  cpu_level needs;
  kernel_fn run;
  bool (*fits)(const op_shapes *s);      /* NULL: any shape */
  size_t (*scratch)(const op_shapes *s); /* NULL: none */
  uint32_t lanes_in, lanes_out;          /* bit i: input / output i is in LANES layout, if it is batched */
  bool anchor;                           /* worth converting its inputs to LANES for */
  bool whole;                            /* takes all rows at once and splits the work over threads itself */
  bool packs;                            /* takes its table from call->packed, too: see exec/packed.h */
} op_variant;

/* A gradient: dense, or, where indices is set, only the rows named: value[i] belongs to row indices[i], and a row named
 * twice counts twice. */
typedef struct {
  shoal_value *value;
  shoal_value *indices; /* i32 or i64 [n], or NULL */
} op_grad;

typedef struct {
  shoal_graph *graph;
  shoal_value *const *in;  /* the node's inputs */
  shoal_value *const *out; /* its outputs */
  shoal_value *const *dy;  /* gradient with respect to each output, dense; NULL: none flows there */
  const attr_value *attr;
  int ins, outs;
  op_grad *dx; /* to be filled: gradient with respect to each input; leave zero where there is none */
} op_grad_call;

enum {
  OP_STATEFUL = 1,       /* changes a variable or the outside world: not folded, not merged, runs once a step */
  OP_RANDOM = 2,         /* gives something new each step: not folded */
  OP_NO_GRADIENT = 4,    /* has none by its nature (argmax, equal, assign ...); otherwise `gradient` must be set */
  OP_SOURCE = 8,         /* placeholder, constant, variable: no kernel */
  OP_INTERNAL = 16,      /* made by the planner only; its reference is the operators it replaces */
  OP_GRADIENT_ONLY = 32, /* used by gradient rules; its own gradient is not defined */
  OP_VIEW = 64,          /* output 0 is input 0's memory seen differently (reshape, identity, stop_gradient) */
  OP_TAKES_ROWS = 128,   /* its kernels follow shoal_tensor.rows of input 0: a shuffled batch need not be copied */
  OP_ELEMENTS = 256,     /* element i of each output depends on element i of the inputs, and on scalars: it can be cut
                           anywhere; the kernel looks at counts, not at shapes */
  OP_WAITS = 512,        /* its inputs must have been computed; their numbers do not count */
  OP_NESTED = 2048,      /* runs sub-graphs: its kernel is the executor's, and tests/test_control.c checks it */
  OP_STEPS = 1024        /* its kernels can make many updates in one call, see kernel_call.step_rows */
};

typedef struct op_row {
  const char *name;
  op_attr attrs[OP_MAX_ATTRS];
  int ins_min, ins_max; /* ins_max -1: any number */
  int outs;             /* -1: as many as attribute 0 says */
  uint32_t flags;
  uint32_t updates; /* bit i: input i is a variable (or slot) changed in place. Then output 0 is input 0 afterwards. */
  uint32_t any_int; /* bit i: attribute i, an ATTR_INT, may be any 64 bits; others are held to TENSOR_MAX_BYTES */
  uint32_t shape_only; /* bit i: only the shape of input i is used, never its numbers */
  uint32_t saved;      /* bit i: output i is there for the gradient rule alone; no gradient flows through it */
  shoal_status (*shape)(op_shapes *s);
  op_batch (*batch)(const op_shapes *s); /* asked with the shapes as built, unknown batch included; NULL: BATCH_WHOLE */
  void (*gradient)(op_grad_call *c);     /* adds nodes; errors stick to the graph */
  kernel_fn kernel;           /* ROWS, plain C, every type the operator takes: the reference for all others */
  const op_variant *variants; /* best first; ended by a row without a name */
  void (*cost)(const op_shapes *s,
               double *flops); /* NULL: one for each output element. Bytes follow from the shapes. */
  /* Test cases, ended by NULL: inputs as shapes, then attributes: "[3,4] [4,5] transpose_b=1". See tests/test_ops.c. */
  const char *const *cases;
} op_row;

/* The sets of bits are of the first 32 inputs; of those beyond, none is in them. */
static inline bool op_shape_only(const op_row *op, int input) { return input < 32 && (op->shape_only >> input & 1); }
static inline bool op_updates(const op_row *op, int input) { return input < 32 && (op->updates >> input & 1); }

const op_row *op_find(const char *name); /* NULL: none */
const op_row *op_at(size_t i);           /* NULL past the end */
/* For messages about an unknown name. */
const char *op_nearest(const char *name);

#define ATTR_I(value) ((attr_value){.i = (value)})
#define ATTR_F(value) ((attr_value){.f = (value)})
#define ATTR_L(value) ((attr_value){.list = (value)})

#endif
