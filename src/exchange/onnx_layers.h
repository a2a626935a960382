/* Operators of layers in ONNX: each binds the node's outputs. See onnx_ops.c, whose table names them. */
#ifndef SHOAL_EXCHANGE_ONNX_LAYERS_H
#define SHOAL_EXCHANGE_ONNX_LAYERS_H

#include "exchange/onnx_writer.h"

void onnx_conv2d(graph_writer *w, const node *n);
void onnx_conv2d_transpose(graph_writer *w, const node *n);
void onnx_max_pool(graph_writer *w, const node *n);
void onnx_avg_pool(graph_writer *w, const node *n);
void onnx_local_response_norm(graph_writer *w, const node *n);
void onnx_normalize(graph_writer *w, const node *n);
void onnx_resize_bilinear(graph_writer *w, const node *n);
void onnx_sparse_matmul(graph_writer *w, const node *n);
void onnx_rnn(graph_writer *w, const node *n);
void onnx_lstm(graph_writer *w, const node *n);
void onnx_gru(graph_writer *w, const node *n);

#endif
