/* Reading a graph of another program: values by name, nodes with their attributes. ONNX and TensorFlow's GraphDef each have
 * a file that reads the messages, and one with the table of operators. */
#ifndef SHOAL_EXCHANGE_GRAPH_READER_H
#define SHOAL_EXCHANGE_GRAPH_READER_H

#include "base/proto.h"
#include "exchange/network.h"
#include "graph/graph.h"

typedef struct {
  char *name;
  shoal_value *value; /* NULL: a constant that nobody has asked for yet */
  shoal_tensor known; /* of constants; data NULL: it is computed */
  bool weight;        /* a constant that training may change, if its numbers are f32 */
  bool is_shape;      /* stands for the shape of `value` */
  bool open;          /* of known numbers: -1 stands for the number of rows */
} reader_value;

typedef struct {
  shoal_network *network;
  shoal_graph *graph;
  int64_t opset; /* ONNX */
  reader_value *values;
  size_t n_values, cap_values;
} graph_reader;

typedef struct {
  char *name, *s;
  double f;
  int64_t i;
  shoal_shape list;
  int64_t ints[2 * SHOAL_MAX_RANK]; /* TensorFlow: longer lists, of which n_ints are set */
  int n_ints;
  shoal_tensor tensor; /* data NULL: none */
} reader_attribute;

typedef struct {
  char *op, *name, *domain;
  char **inputs, **outputs;
  size_t n_inputs, n_outputs;
  reader_attribute *attributes;
  size_t n_attributes;
} reader_node;

/* INPUT error. */
shoal_status reader_wrong(const char *format, ...) SHOAL_CHECKED __attribute__((format(printf, 1, 2), returns_nonnull));

reader_value *reader_find(const graph_reader *r, const char *name);
/* Input i as a value of the graph. */
SHOAL_CHECKED shoal_status reader_input(graph_reader *r, const reader_node *n, size_t i, shoal_value **out);
/* The same of what training leaves as it is: statistics. */
SHOAL_CHECKED shoal_status reader_fixed_input(graph_reader *r, const reader_node *n, size_t i, shoal_value **out);
/* Is there an input i? */
bool reader_has(const reader_node *n, size_t i);
/* Input i must be a constant: its numbers, or a short list of them. */
SHOAL_CHECKED shoal_status reader_numbers(const graph_reader *r, const reader_node *n, size_t i,
                                          const shoal_tensor **out);
SHOAL_CHECKED shoal_status reader_list(const graph_reader *r, const reader_node *n, size_t i, shoal_shape *out);
/* Says what output i is. */
SHOAL_CHECKED shoal_status reader_give(graph_reader *r, const reader_node *n, size_t i, shoal_value *value);
/* A constant that was computed while reading; takes the tensor. */
SHOAL_CHECKED shoal_status reader_give_constant(graph_reader *r, const reader_node *n, shoal_tensor *t);

const reader_attribute *reader_attribute_of(const reader_node *n, const char *name); /* NULL: none */
int64_t reader_int_of(const reader_node *n, const char *name, int64_t standard);
double reader_float_of(const reader_node *n, const char *name, double standard);
const char *reader_text_of(const reader_node *n, const char *name); /* NULL: none */
bool reader_list_of(const reader_node *n, const char *name, shoal_shape *out);
const shoal_tensor *reader_tensor_of(const reader_node *n, const char *name); /* NULL: none */

/* A value by a name, which is taken; a constant's numbers are taken, too, if it does not fail. */
SHOAL_CHECKED shoal_status reader_keep(graph_reader *r, char *name, shoal_value *value, const shoal_tensor *known,
                                       bool trained);
/* Text of the field under way in place of *out; a number at the end of a list; text at the end of one. */
SHOAL_CHECKED shoal_status reader_words(const proto_reader *r, char **out);
SHOAL_CHECKED shoal_status reader_add_number(shoal_shape *list, int64_t number);
SHOAL_CHECKED shoal_status reader_add_word(const proto_reader *r, char ***list, size_t *n, size_t *cap);
void reader_node_fini(reader_node *n);

/* Adds the nodes of the bytes, and the network's inputs and outputs. */
typedef shoal_status (*reader_function)(graph_reader *r, const uint8_t *bytes, size_t n);
SHOAL_CHECKED shoal_status reader_import(const char *path, reader_function read, shoal_network **out);

/* Adds the node's operators; INPUT error: there is no such operator, or not with these attributes. */
SHOAL_CHECKED shoal_status onnx_read_node(graph_reader *r, const reader_node *n);
SHOAL_CHECKED shoal_status tensorflow_read_node(graph_reader *r, const reader_node *n);

#endif
