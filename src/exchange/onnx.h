/* ONNX models: the messages, and a graph of Shoal's operators written as one and read from one.
 *
 * Written is opset 18 of the standard's own operators. Each of Shoal's is a row of the table in onnx_ops.c: what it is
 * called there, or a function that says it with several. Images are [batch, height, width, channels] here and [batch,
 * channels, height, width] there: what looks at images is put between two transposes, which runtimes take out again. */
#ifndef SHOAL_EXCHANGE_ONNX_H
#define SHOAL_EXCHANGE_ONNX_H

#include "exchange/graph_writer.h"

/* Numbers of fields of the messages. */
enum {
  ONNX_IR_VERSION = 1,
  ONNX_PRODUCER = 2,
  ONNX_PRODUCER_VERSION = 3,
  ONNX_GRAPH = 7,
  ONNX_OPSET = 8,
  ONNX_OPSET_DOMAIN = 1,
  ONNX_OPSET_VERSION = 2,
  ONNX_METADATA = 14,
  ONNX_GRAPH_NODE = 1,
  ONNX_GRAPH_NAME = 2,
  ONNX_GRAPH_INITIALIZER = 5,
  ONNX_GRAPH_INPUT = 11,
  ONNX_GRAPH_OUTPUT = 12,
  ONNX_NODE_INPUT = 1,
  ONNX_NODE_OUTPUT = 2,
  ONNX_NODE_NAME = 3,
  ONNX_NODE_OP = 4,
  ONNX_NODE_ATTRIBUTE = 5,
  ONNX_NODE_DOMAIN = 7,
  ONNX_ATTR_NAME = 1,
  ONNX_ATTR_F = 2,
  ONNX_ATTR_I = 3,
  ONNX_ATTR_S = 4,
  ONNX_ATTR_T = 5,
  ONNX_ATTR_FLOATS = 7,
  ONNX_ATTR_INTS = 8,
  ONNX_ATTR_STRINGS = 9,
  ONNX_ATTR_TYPE = 20,
  ONNX_TENSOR_DIMS = 1,
  ONNX_TENSOR_TYPE = 2,
  ONNX_TENSOR_FLOATS = 4,
  ONNX_TENSOR_INT32S = 5,
  ONNX_TENSOR_INT64S = 7,
  ONNX_TENSOR_NAME = 8,
  ONNX_TENSOR_RAW = 9,
  ONNX_TENSOR_DOUBLES = 10,
  ONNX_TENSOR_LOCATION = 14,
  ONNX_VALUE_NAME = 1,
  ONNX_VALUE_TYPE = 2,
  ONNX_TYPE_TENSOR = 1,
  ONNX_TENSOR_TYPE_ELEMENT = 1,
  ONNX_TENSOR_TYPE_SHAPE = 2,
  ONNX_SHAPE_DIM = 1,
  ONNX_DIM_VALUE = 1,
  ONNX_DIM_PARAM = 2
};
enum { ONNX_WRITTEN_OPSET = 18, ONNX_WRITTEN_IR = 8, ONNX_ATTR_IS_TENSOR = 4 };

/* ONNX's numbers of our types. */
extern const int onnx_types[SHOAL_DTYPE_COUNT];

#endif
