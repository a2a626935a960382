/* Operators of layers in ONNX: each binds the node's outputs. See onnx_ops.c, whose table names them. */
#ifndef SHOAL_EXCHANGE_ONNX_LAYERS_H
#define SHOAL_EXCHANGE_ONNX_LAYERS_H

#include "exchange/onnx_writer.h"

void onnx_conv2d(onnx_writer *w, const node *n);
void onnx_conv2d_transpose(onnx_writer *w, const node *n);
void onnx_max_pool(onnx_writer *w, const node *n);
void onnx_avg_pool(onnx_writer *w, const node *n);
void onnx_local_response_norm(onnx_writer *w, const node *n);
void onnx_normalize(onnx_writer *w, const node *n);
void onnx_resize_bilinear(onnx_writer *w, const node *n);
void onnx_sparse_matmul(onnx_writer *w, const node *n);
void onnx_rnn(onnx_writer *w, const node *n);
void onnx_lstm(onnx_writer *w, const node *n);
void onnx_gru(onnx_writer *w, const node *n);

#endif
