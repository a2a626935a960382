/* Recurrent layers as the operators of each step, for formats that have no such layer, or none with a mask. */
#ifndef SHOAL_EXCHANGE_RECURRENT_STEPS_H
#define SHOAL_EXCHANGE_RECURRENT_STEPS_H

#include "exchange/graph_writer.h"

/* How a format writes what a step needs, all of f32 unless the type is given. Sigmoid, Tanh, Relu, Add, Sub, Mul and MatMul
 * are called the same in all of them. */
typedef struct {
  const char *(*one)(graph_writer *w, const char *op, const char *x);
  const char *(*two)(graph_writer *w, const char *op, const char *a, const char *b);
  const char *(*at)(graph_writer *w, const char *x, shoal_dtype dtype, int64_t t); /* x[:, t] */
  void (*split)(graph_writer *w, const char *x, int parts, const char **out);      /* along axis 1 */
  const char *(*expand)(graph_writer *w, const char *x, shoal_dtype dtype);        /* a new axis 1 */
  const char *(*where)(graph_writer *w, const char *c, const char *a, const char *b);
  const char *(*concat)(graph_writer *w, const char **all, int n); /* along axis 1 */
} step_format;

/* Bind the node's outputs. */
void steps_rnn(graph_writer *w, const node *n, const step_format *f);
void steps_lstm(graph_writer *w, const node *n, const step_format *f);
void steps_gru(graph_writer *w, const node *n, const step_format *f);

#endif
