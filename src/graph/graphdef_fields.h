/* Field numbers of the messages that make up a GraphDef, and the names of what Shoal adds; for the files that write and
 * read it. */
#ifndef SHOAL_GRAPH_GRAPHDEF_FIELDS_H
#define SHOAL_GRAPH_GRAPHDEF_FIELDS_H

#include "shoal/tensor.h"

enum { GRAPH_NODE = 1, GRAPH_VERSIONS = 4, VERSIONS_PRODUCER = 1, GRAPHDEF_PRODUCER = 1 };
enum { NODE_NAME = 1, NODE_OP = 2, NODE_INPUT = 3, NODE_DEVICE = 4, NODE_ATTR = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum {
  ATTR_LIST_FIELD = 1,
  ATTR_S_FIELD = 2,
  ATTR_I_FIELD = 3,
  ATTR_F_FIELD = 4,
  ATTR_B_FIELD = 5,
  ATTR_TYPE_FIELD = 6,
  ATTR_SHAPE_FIELD = 7,
  ATTR_TENSOR_FIELD = 8
};
enum { LIST_I = 3, LIST_SHAPE = 7 };
enum { SHAPE_DIM = 2, SHAPE_UNKNOWN_RANK = 3, DIM_SIZE = 1 };
enum {
  TENSOR_DTYPE = 1,
  TENSOR_SHAPE = 2,
  TENSOR_CONTENT = 4,
  TENSOR_FLOATS = 5,
  TENSOR_DOUBLES = 6,
  TENSOR_INTS = 7, /* of i32 and u8 */
  TENSOR_INT64S = 10,
  TENSOR_BOOLS = 11
};

/* DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64, DT_UINT8, DT_BOOL */
static const int graphdef_types[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F32] = 1, [SHOAL_F64] = 2, [SHOAL_I32] = 3, [SHOAL_I64] = 9, [SHOAL_U8] = 4, [SHOAL_BOOL] = 10};

#define GRAPHDEF_INITIAL "_initial"
#define GRAPHDEF_OFFSETS "_offsets"
#define GRAPHDEF_F64 "_f64_"
#define GRAPHDEF_PARAMS "_params"
#define GRAPHDEF_RESULTS "_results"

#endif
