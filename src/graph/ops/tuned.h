/* The tuned kernels of each operator, best first; see op_variant. The numeric functions are in src/kernel. */
#ifndef SHOAL_GRAPH_OPS_TUNED_H
#define SHOAL_GRAPH_OPS_TUNED_H

#include "graph/op.h"

extern const op_variant tuned_matmul[], tuned_bias_add[], tuned_bias_add_grad[];
extern const op_variant tuned_conv2d[], tuned_conv2d_grad_x[], tuned_conv2d_grad_w[];
extern const op_variant tuned_relu[], tuned_tanh[], tuned_sigmoid[];
extern const op_variant tuned_relu_grad[], tuned_tanh_grad[], tuned_sigmoid_grad[];
extern const op_variant tuned_gelu[], tuned_gelu_grad[], tuned_scale[], tuned_add[], tuned_mul[];
extern const op_variant tuned_softmax[], tuned_softmax_grad[], tuned_normalize[], tuned_normalize_grad[];
extern const op_variant tuned_batch_norm[], tuned_batch_norm_grad[];
extern const op_variant tuned_max_pool[], tuned_max_pool_grad[];
extern const op_variant tuned_in_top_k[];
extern const op_variant tuned_pack[], tuned_unpack[], tuned_widen[];
extern const op_variant tuned_conv_block[], tuned_conv_block_grad_x[], tuned_conv_block_grad_w[];
extern const op_variant tuned_dense_block[], tuned_cross_entropy_pair[];
extern const op_variant tuned_skip_compress[], tuned_skip_matmul[], tuned_skip_sum[], tuned_skip_sgd[];
extern const op_variant tuned_sparse_matmul[], tuned_sparse_logistic_sgd[], tuned_sparse_logistic_adagrad[],
    tuned_sparse_logistic_ftrl[];
extern const op_variant tuned_embedding_bag[], tuned_embedding_bag_grad_rows[], tuned_fm[], tuned_fm_grad_rows[];
extern const op_variant tuned_field_pairs[], tuned_field_pairs_grad[];
extern const op_variant tuned_unique_rows[], tuned_sparse_apply_sgd[], tuned_sparse_apply_adagrad[],
    tuned_sparse_apply_rowwise_adagrad[], tuned_sparse_apply_adam[], tuned_sparse_apply_ftrl[];
extern const op_variant tuned_apply_sgd[], tuned_apply_adagrad[], tuned_apply_adam[];
extern const op_variant tuned_lstm[], tuned_lstm_grad[];

#endif
