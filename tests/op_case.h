/* Test cases of the operator table: one line of text in the row, here turned into shapes, attributes and numbers.
 *
 *   "[?5,8,8,3] [3,3,3,4] stride_h=2 pad_top=1"
 *
 * Inputs are `[dims]`, `[]` a scalar, of the real type under test unless a type stands before them; a `?` before the
 * first dimension marks the batch (unknown while a graph is built). Values are in [-1, 1), or
 *   [3]>0        in [0.5, 1.5)                  i32[3]<5     integers in [0, 5)
 *   [3]~8        in [-8, 8)
 *   asc[4]<9     i64, ascending from 0 to 9     uniq[3]<5    i64, distinct, in [0, 5)
 *   [3,2]=max_pool:1       what max_pool gives on this case's input 1 with this case's attributes
 *   []=widen_u8:u8[?3,7]   what widen_u8 gives on such an input of its own: its type, shape and batch too
 * Attributes are name=value, lists axes=0,2 and types dtype=f32; those left out take the row's standard. */
#ifndef SHOAL_TESTS_OP_CASE_H
#define SHOAL_TESTS_OP_CASE_H

#include "graph/op.h"

#define CASE_INPUTS 8

typedef enum {
  VALUES_ANY,
  VALUES_POSITIVE,
  VALUES_BELOW,
  VALUES_WIDE,
  VALUES_ASCENDING,
  VALUES_DISTINCT,
  VALUES_OF
} case_values;

typedef struct {
  bool real; /* takes the real type under test; dtype does not count */
  shoal_dtype dtype;
  bool batched;
  shoal_shape shape; /* as fed */
  case_values values;
  int64_t bound;
  const op_row *of; /* VALUES_OF: the operator, */
  int of_input;     /* the input it is run on, or -1: */
  char *of_own;     /* text of an input of its own; owned by the case */
} case_input;

typedef struct {
  const op_row *row;
  const char *text;
  case_input in[CASE_INPUTS];
  int ins, outs;
  attr_value attr[OP_MAX_ATTRS]; /* texts are owned by the case */
} op_case;

/* Fails the running test when the text is malformed. */
void case_parse(const op_row *row, const char *line, op_case *out);
void case_fini(op_case *c);

/* Shapes of inputs and outputs with room for them; `built` says whether the batch is still unknown. */
typedef struct {
  shoal_shape in[CASE_INPUTS], out[OP_MAX_OUTPUTS];
  shoal_dtype in_dtype[CASE_INPUTS], out_dtype[OP_MAX_OUTPUTS];
  op_shapes s;
} case_shapes;
/* Runs the shape rule; its error fails the test. */
void case_infer(const op_case *c, shoal_dtype real, bool built, case_shapes *out);

/* The numbers of input i, the same for every real type (they are rounded to f32). Owned by the caller. */
shoal_tensor case_fill(const op_case *c, int i, shoal_dtype real);

/* New memory of that type and shape; `garbage`: filled with what no kernel would leave behind. */
shoal_tensor case_tensor(shoal_dtype dtype, shoal_shape shape, bool garbage);

/* Memory for all inputs and outputs of one run of one kernel. Where the row updates its inputs, output 0 is input 0. */
typedef struct {
  shoal_tensor in[CASE_INPUTS], out[OP_MAX_OUTPUTS];
  int ins, outs;
  bool aliased;
} case_memory;
void case_memory_init(const op_case *c, const case_shapes *shapes, shoal_dtype real, case_memory *out);
void case_memory_fini(case_memory *m);

/* The call that runs the whole of it; number streams are fixed. */
kernel_call case_call(const op_case *c, case_memory *m);

#endif
