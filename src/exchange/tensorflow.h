/* Models as frozen GraphDefs with TensorFlow's own operators: weights are constants, what is fed are placeholders. The
 * messages are those of src/graph/graphdef.h; here are the two tables of operators, for writing and for reading. */
#ifndef SHOAL_EXCHANGE_TENSORFLOW_H
#define SHOAL_EXCHANGE_TENSORFLOW_H

#include "exchange/graph_writer.h"

/* An attribute of a node. */
typedef struct {
  const char *name; /* NULL: there is no attribute here */
  enum { TF_TYPE, TF_INT, TF_FLOAT, TF_BOOL, TF_TEXT, TF_INTS } kind;
  double f;
  int64_t i;
  const char *s;
  const int64_t *list;
} tf_attr;
#define T_T(name_, dtype) ((tf_attr){.name = (name_), .kind = TF_TYPE, .i = (dtype)})
#define T_I(name_, value) ((tf_attr){.name = (name_), .kind = TF_INT, .i = (value)})
#define T_F(name_, value) ((tf_attr){.name = (name_), .kind = TF_FLOAT, .f = (value)})
#define T_B(name_, value) ((tf_attr){.name = (name_), .kind = TF_BOOL, .i = (value)})
#define T_S(name_, value) ((tf_attr){.name = (name_), .kind = TF_TEXT, .s = (value)})
#define T_L(name_, count, values) ((tf_attr){.name = (name_), .kind = TF_INTS, .i = (count), .list = (values)})

/* A node with these inputs; returns its name, which is that of its first output. */
const char *tf_emit(graph_writer *w, const char *op, const char *const *inputs, int ins, const tf_attr *attrs,
                    int n_attrs);
#define TF_ATTRS(...) (const tf_attr[]){__VA_ARGS__}, (int)(sizeof((const tf_attr[]){__VA_ARGS__}) / sizeof(tf_attr))
#define tf_1(w, op, a, ...) tf_emit(w, op, (const char *[]){a}, 1, __VA_ARGS__)
#define tf_2(w, op, a, b, ...) tf_emit(w, op, (const char *[]){a, b}, 2, __VA_ARGS__)
#define tf_3(w, op, a, b, c, ...) tf_emit(w, op, (const char *[]){a, b, c}, 3, __VA_ARGS__)
/* Output i of a node with several. */
const char *tf_output(graph_writer *w, const char *name, int i);
/* A shape as an i32 list; what is unknown is the number of rows of `rows`. */
const char *tf_shape(graph_writer *w, const shoal_shape *shape, const shoal_value *rows);
const char *tf_i32s(graph_writer *w, const int64_t *list, int n);

/* Writes the node under way; false: TensorFlow has nothing for it. */
bool tf_write_node(graph_writer *w, const node *n);

/* Operators of layers: each binds the node's outputs. */
void tf_conv2d(graph_writer *w, const node *n);
void tf_conv2d_transpose(graph_writer *w, const node *n);
void tf_max_pool(graph_writer *w, const node *n);
void tf_avg_pool(graph_writer *w, const node *n);
void tf_rnn(graph_writer *w, const node *n);
void tf_lstm(graph_writer *w, const node *n);
void tf_gru(graph_writer *w, const node *n);

#endif
