/* Emitting nodes of an ONNX graph: what the rows of onnx_ops.c are written with. Names that these functions return live
 * as long as the writer. Errors stick to it; names are then "". */
#ifndef SHOAL_EXCHANGE_ONNX_WRITER_H
#define SHOAL_EXCHANGE_ONNX_WRITER_H

#include "exchange/graph_writer.h"
#include "exchange/onnx.h"

typedef struct {
  const char *name; /* NULL: there is no attribute here */
  enum { ONNX_FLOAT = 1, ONNX_INT = 2, ONNX_TEXT = 3, ONNX_INTS = 7, ONNX_TEXTS = 8 } kind;
  double f;
  int64_t i;
  const char *s;
  shoal_shape list;
} onnx_attr;
#define A_F(name_, value) ((onnx_attr){.name = (name_), .kind = ONNX_FLOAT, .f = (value)})
#define A_I(name_, value) ((onnx_attr){.name = (name_), .kind = ONNX_INT, .i = (value)})
#define A_S(name_, value) ((onnx_attr){.name = (name_), .kind = ONNX_TEXT, .s = (value)})
#define A_L(name_, value) ((onnx_attr){.name = (name_), .kind = ONNX_INTS, .list = (value)})

/* A node with one output, or with `outs` of them whose names are set (NULL inside: not wanted). inputs: "" is one that is
 * left out. */
const char *onnx_emit(graph_writer *w, const char *op, const char *const *inputs, int ins, const onnx_attr *attrs,
                      int n_attrs);
void onnx_emit_several(graph_writer *w, const char *op, const char *const *inputs, int ins, const char **outputs,
                       int outs, const onnx_attr *attrs, int n_attrs);
#define ONNX_ATTRS(...) \
  (const onnx_attr[]){__VA_ARGS__}, (int)(sizeof((const onnx_attr[]){__VA_ARGS__}) / sizeof(onnx_attr))
#define ONNX_NONE NULL, 0
#define onnx_1(w, op, a, ...) onnx_emit(w, op, (const char *[]){a}, 1, __VA_ARGS__)
#define onnx_2(w, op, a, b, ...) onnx_emit(w, op, (const char *[]){a, b}, 2, __VA_ARGS__)
#define onnx_3(w, op, a, b, c, ...) onnx_emit(w, op, (const char *[]){a, b, c}, 3, __VA_ARGS__)

/* Transposed by `order`; of what is known, the transposed numbers. */
const char *onnx_transposed(graph_writer *w, const shoal_value *v, shoal_shape order);
const char *onnx_transpose(graph_writer *w, const char *x, shoal_shape order);

/* Writes the node under way; false: ONNX has nothing for it. */
bool onnx_write_node(graph_writer *w, const node *n);

#endif
