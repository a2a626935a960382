/* Reading ONNX: values by name, nodes with their attributes. onnx_read.c reads the messages, onnx_read_ops.c has the table
 * of operators. */
#ifndef SHOAL_EXCHANGE_ONNX_READER_H
#define SHOAL_EXCHANGE_ONNX_READER_H

#include "exchange/network.h"
#include "exchange/onnx.h"

typedef struct {
  char *name;
  shoal_value *value; /* NULL: a constant that nobody has asked for yet */
  shoal_tensor known; /* of constants; data NULL: it is computed */
  bool is_shape;      /* stands for the shape of `value` */
} onnx_value;

typedef struct {
  shoal_network *network;
  shoal_graph *graph;
  int64_t opset;
  onnx_value *values;
  size_t n_values, cap_values;
} onnx_reader;

typedef struct {
  char *name, *s;
  double f;
  int64_t i;
  shoal_shape list;
  shoal_tensor tensor; /* data NULL: none */
} onnx_attribute;

typedef struct {
  char *op, *name, *domain;
  char **inputs, **outputs;
  size_t n_inputs, n_outputs;
  onnx_attribute *attributes;
  size_t n_attributes;
} onnx_node;

/* INPUT error. */
shoal_status onnx_wrong(const char *format, ...) SHOAL_CHECKED __attribute__((format(printf, 1, 2), returns_nonnull));

onnx_value *onnx_find(const onnx_reader *r, const char *name);
/* Input i as a value of the graph. */
SHOAL_CHECKED shoal_status onnx_input(onnx_reader *r, const onnx_node *n, size_t i, shoal_value **out);
/* Is there an input i? */
bool onnx_has(const onnx_node *n, size_t i);
/* Input i must be a constant: its numbers, or a short list of them. */
SHOAL_CHECKED shoal_status onnx_numbers(const onnx_reader *r, const onnx_node *n, size_t i, const shoal_tensor **out);
SHOAL_CHECKED shoal_status onnx_list(const onnx_reader *r, const onnx_node *n, size_t i, shoal_shape *out);
/* Says what output i is. */
SHOAL_CHECKED shoal_status onnx_give(onnx_reader *r, const onnx_node *n, size_t i, shoal_value *value);
/* A constant that was computed while reading; takes the tensor. */
SHOAL_CHECKED shoal_status onnx_give_constant(onnx_reader *r, const onnx_node *n, shoal_tensor *t);

int64_t onnx_int_of(const onnx_node *n, const char *name, int64_t standard);
double onnx_float_of(const onnx_node *n, const char *name, double standard);
const char *onnx_text_of(const onnx_node *n, const char *name); /* NULL: none */
bool onnx_list_of(const onnx_node *n, const char *name, shoal_shape *out);
const shoal_tensor *onnx_tensor_of(const onnx_node *n, const char *name); /* NULL: none */

/* Adds the node's operators; INPUT error: there is no such operator, or not with these attributes. */
SHOAL_CHECKED shoal_status onnx_read_node(onnx_reader *r, const onnx_node *n);

#endif
