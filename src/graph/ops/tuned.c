#include "graph/ops/tuned.h"

#include "kernel/conv_rows.h"
#include "kernel/gemm.h"
#include "kernel/lanes.h"
#include "kernel/lstm.h"
#include "kernel/rows.h"
#include "kernel/skip.h"
#include "kernel/sparse.h"
#include "kernel/table.h"
#include "kernel/update.h"
#include "kernel/winograd.h"

/* The same kernel for each instruction set; what follows applies to all. */
#define ON_LANES(function, ...) VARIANTS("lanes", function, __VA_ARGS__)
#define ON_ROWS(function, ...) VARIANTS("rows", function, __VA_ARGS__)
#define END \
  { .name = NULL }

static bool plain_product(const op_shapes *s) { return !s->attr[0].i; }
static bool sum_product(const op_shapes *s) { return s->attr[0].i && !s->attr[1].i; }
static size_t sum_scratch(const op_shapes *s) { return lanes_matmul_sum_scratch(s->out[0].dim[1], s->in[0].dim[0]); }

/* Weights that fit no cache are read once for the whole batch. */
#define ON_WHOLE(function, ...) VARIANTS("wide", function, .whole = true, __VA_ARGS__)
enum { WIDE_WEIGHTS = 1 << 18 };
static bool wide(const shoal_shape *w) { return w->dim[0] * w->dim[1] >= WIDE_WEIGHTS; }
static bool wide_block(const op_shapes *s) { return wide(&s->in[1]) && s->in[0].rank == 2; }
static bool flat_block(const op_shapes *s) { return s->in[0].rank == 2; }
static bool wide_back(const op_shapes *s) { return !s->attr[0].i && s->attr[1].i && wide(&s->in[1]); }
static bool wide_sum(const op_shapes *s) { return sum_product(s) && wide(&s->out[0]); }
/* As lanes_matmul_sum: the gradient, in other order. Whole blocks of columns. */
static size_t wide_scratch(const op_shapes *s) {
  return lanes_matmul_sum_scratch((s->out[0].dim[1] + 63) / 64 * 64, s->in[0].dim[0]);
}

static size_t product_scratch(const op_shapes *s) {
  return gemm_scratch(s->out[0].dim[0], s->out[0].dim[1], s->in[0].dim[s->attr[0].i ? 0 : 1]);
}
static size_t block_scratch(const op_shapes *s) {
  const int64_t columns = s->in[1].dim[1];
  return gemm_scratch(columns ? shoal_shape_count(&s->out[0]) / columns : 0, columns, s->in[1].dim[0]);
}

/* A gradient of weights that fits the second-level cache is better added up from panels: no conversion to LANES. */
enum { WIDE_PANELS = 1 << 20 };
static bool panels_sum(const op_shapes *s) { return wide_sum(s) && shoal_shape_count(&s->out[0]) < WIDE_PANELS; }

const op_variant tuned_matmul[] = {
    ON_WHOLE(rows_matmul, .fits = panels_sum, .scratch = product_scratch),
    ON_WHOLE(wide_matmul_back, .fits = wide_back, .lanes_in = 1, .lanes_out = 1, .anchor = true),
    ON_WHOLE(wide_matmul_sum, .fits = wide_sum, .scratch = wide_scratch, .lanes_in = 1, .anchor = true),
    ON_LANES(lanes_matmul, .fits = plain_product, .lanes_in = 1, .lanes_out = 1, .anchor = true),
    ON_LANES(lanes_matmul_sum, .fits = sum_product, .scratch = sum_scratch, .lanes_in = 3, .anchor = true),
    ON_ROWS(rows_matmul, .scratch = product_scratch),
    END,
};
static bool has_channels(const op_shapes *s) { return s->in[0].rank > 1; }
const op_variant tuned_bias_add[] = {ON_LANES(lanes_bias_add, .fits = has_channels, .lanes_in = 1, .lanes_out = 1),
                                     ON_ROWS(rows_bias_add), END};
const op_variant tuned_bias_add_grad[] = {ON_LANES(lanes_bias_sum, .fits = has_channels, .lanes_in = 1),
                                          ON_ROWS(rows_bias_sum), END};

static size_t conv_scratch(const op_shapes *s) { return lanes_conv_scratch(&s->in[0], &s->in[1], s->attr); }
static size_t conv_grad_x_scratch(const op_shapes *s) { return lanes_conv_grad_scratch(&s->in[2], &s->in[1], s->attr); }
static size_t conv_grad_w_scratch(const op_shapes *s) {
  return lanes_conv_grad_scratch(&s->in[0], &s->out[0], s->attr);
}
/* By Winograd's algorithm, where there are channels enough. */
#define BY_WINOGRAD(function, ...) VARIANTS("winograd", function, .anchor = true, __VA_ARGS__)
/* Neighbouring pixels, all channels. */
static bool plain(const op_shapes *s) { return conv_plain(s->attr); }
static bool many_channels(const op_shapes *s) {
  return plain(s) && winograd_fits(&s->in[0], &s->in[1], s->attr, false);
}
static bool many_channels_block(const op_shapes *s) {
  return s->attr[CONV_POOL].i == POOL_NONE && winograd_fits(&s->in[0], &s->in[1], s->attr, false);
}
static bool many_channels_x(const op_shapes *s) {
  return plain(s) && winograd_fits(&s->in[2], &s->in[1], s->attr, true);
}
static bool many_channels_w(const op_shapes *s) {
  return plain(s) && winograd_fits(&s->in[0], &s->out[0], s->attr, false);
}
static size_t wino_scratch(const op_shapes *s) { return winograd_scratch(&s->in[0], &s->in[1], s->attr); }
static size_t wino_x_scratch(const op_shapes *s) { return winograd_grad_x_scratch(&s->in[2], &s->in[1], s->attr); }
static size_t wino_w_scratch(const op_shapes *s) { return winograd_grad_w_scratch(&s->in[0], &s->out[0], s->attr); }

/* In rows, where the filters outweigh the places they are applied to. */
static bool few_places(const op_shapes *s) { return conv_rows_fits(&s->in[0], &s->in[1], &s->out[0], s->attr); }
static bool few_places_x(const op_shapes *s) { return conv_rows_fits(&s->in[2], &s->in[1], &s->in[0], s->attr); }
static bool few_places_w(const op_shapes *s) { return conv_rows_fits(&s->in[0], &s->out[0], &s->in[1], s->attr); }
static size_t rows_scratch(const op_shapes *s) { return conv_rows_scratch(&s->in[1]); }
static size_t rows_x_scratch(const op_shapes *s) { return conv_rows_grad_x_scratch(&s->in[2], &s->in[1], s->attr); }
static size_t rows_w_scratch(const op_shapes *s) { return conv_rows_grad_w_scratch(&s->out[0], &s->in[1]); }

const op_variant tuned_conv2d[] = {
    ON_WHOLE(conv_rows, .fits = few_places, .scratch = rows_scratch),
    BY_WINOGRAD(winograd_conv, .fits = many_channels, .scratch = wino_scratch, .lanes_in = 1, .lanes_out = 1),
    ON_LANES(lanes_conv, .fits = plain, .scratch = conv_scratch, .lanes_in = 1, .lanes_out = 1, .anchor = true), END};
const op_variant tuned_conv2d_grad_x[] = {ON_WHOLE(conv_rows_grad_x, .fits = few_places_x, .scratch = rows_x_scratch),
                                          BY_WINOGRAD(winograd_conv_grad_x, .fits = many_channels_x,
                                                      .scratch = wino_x_scratch, .lanes_in = 1, .lanes_out = 1),
                                          ON_LANES(lanes_conv_grad_x, .fits = plain, .scratch = conv_grad_x_scratch,
                                                   .lanes_in = 1, .lanes_out = 1, .anchor = true),
                                          END};
const op_variant tuned_conv2d_grad_w[] = {
    ON_WHOLE(conv_rows_grad_w, .fits = few_places_w, .scratch = rows_w_scratch),
    BY_WINOGRAD(winograd_conv_grad_w, .fits = many_channels_w, .scratch = wino_w_scratch, .lanes_in = 3),
    ON_LANES(lanes_conv_grad_w, .fits = plain, .scratch = conv_grad_w_scratch, .lanes_in = 3, .anchor = true), END};

const op_variant tuned_relu[] = {ON_LANES(lanes_relu, .lanes_in = 1, .lanes_out = 1), ON_ROWS(rows_relu), END};
const op_variant tuned_tanh[] = {ON_LANES(lanes_tanh, .lanes_in = 1, .lanes_out = 1), END};
const op_variant tuned_sigmoid[] = {ON_LANES(lanes_sigmoid, .lanes_in = 1, .lanes_out = 1), END};
const op_variant tuned_relu_grad[] = {ON_LANES(lanes_relu_grad, .lanes_in = 3, .lanes_out = 1), ON_ROWS(rows_relu_grad),
                                      END};
const op_variant tuned_tanh_grad[] = {ON_LANES(lanes_tanh_grad, .lanes_in = 3, .lanes_out = 1), END};
const op_variant tuned_sigmoid_grad[] = {ON_LANES(lanes_sigmoid_grad, .lanes_in = 3, .lanes_out = 1), END};

const op_variant tuned_max_pool[] = {ON_LANES(lanes_max_pool, .lanes_in = 1, .lanes_out = 1), END};
const op_variant tuned_max_pool_grad[] = {ON_LANES(lanes_max_pool_grad, .lanes_in = 7, .lanes_out = 1), END};

const op_variant tuned_gelu[] = {ON_ROWS(rows_gelu), END};
const op_variant tuned_gelu_grad[] = {ON_ROWS(rows_gelu_grad), END};
static bool floats(const op_shapes *s) { return s->in_dtype[0] == SHOAL_F32; }
const op_variant tuned_scale[] = {ON_ROWS(rows_scale, .fits = floats), END};
static bool alike(const op_shapes *s) { return floats(s) && shoal_shape_equal(&s->in[0], &s->in[1]); }
const op_variant tuned_add[] = {ON_ROWS(rows_add, .fits = alike), END};
const op_variant tuned_mul[] = {ON_ROWS(rows_mul, .fits = alike), END};

static bool last_axis(const op_shapes *s, int64_t axis) {
  const int last = s->in[0].rank - 1;
  return (axis == last || axis == -1) && s->in[0].dim[last] > 0;
}
static bool last_axis_softmax(const op_shapes *s) { return last_axis(s, s->attr[0].i); }
static bool last_axis_norm(const op_shapes *s) {
  return s->attr[0].list.rank == 1 && last_axis(s, s->attr[0].list.dim[0]);
}
const op_variant tuned_softmax[] = {ON_ROWS(rows_softmax, .fits = last_axis_softmax), END};
const op_variant tuned_softmax_grad[] = {ON_ROWS(rows_softmax_grad, .fits = last_axis_softmax), END};
const op_variant tuned_normalize[] = {ON_ROWS(rows_normalize, .fits = last_axis_norm), END};
const op_variant tuned_normalize_grad[] = {ON_ROWS(rows_normalize_grad, .fits = last_axis_norm), END};
static size_t batch_norm_scratch(const op_shapes *s) { return norm_scratch(s->in[1].dim[0]); }
static size_t batch_norm_grad_scratch(const op_shapes *s) { return norm_scratch(s->in[2].dim[0]); }
const op_variant tuned_batch_norm[] = {ON_ROWS(rows_batch_norm, .scratch = batch_norm_scratch), END};
const op_variant tuned_batch_norm_grad[] = {ON_ROWS(rows_batch_norm_grad, .scratch = batch_norm_grad_scratch), END};

static bool top_1(const op_shapes *s) { return s->attr[0].i == 1; }
const op_variant tuned_in_top_k[] = {ON_LANES(lanes_top_1, .fits = top_1, .lanes_in = 1), END};

const op_variant tuned_pack[] = {ON_LANES(lanes_pack, .lanes_out = 1), END};
const op_variant tuned_unpack[] = {ON_LANES(lanes_unpack, .lanes_in = 1), END};
const op_variant tuned_widen[] = {ON_LANES(lanes_pack, .lanes_out = 1), END};

const op_variant tuned_conv_block[] = {
    BY_WINOGRAD(winograd_conv_block, .fits = many_channels_block, .scratch = wino_scratch, .lanes_in = 1,
                .lanes_out = 3),
    ON_LANES(lanes_conv_block, .scratch = conv_scratch, .lanes_in = 1, .lanes_out = 3, .anchor = true), END};
const op_variant tuned_conv_block_grad_x[] = {ON_LANES(lanes_conv_block_grad_x, .scratch = conv_grad_x_scratch,
                                                       .lanes_in = 1 | 8 | 16, .lanes_out = 1, .anchor = true),
                                              END};
const op_variant tuned_conv_block_grad_w[] = {
    ON_LANES(lanes_conv_block_grad_w, .scratch = conv_grad_w_scratch, .lanes_in = 15, .anchor = true), END};
const op_variant tuned_dense_block[] = {
    ON_WHOLE(wide_dense, .fits = wide_block, .scratch = block_scratch),
    ON_LANES(lanes_dense, .fits = flat_block, .lanes_in = 1, .lanes_out = 1, .anchor = true),
    ON_ROWS(wide_dense, .scratch = block_scratch), END};

static bool few_classes(const op_shapes *s) { return s->in[0].dim[1] <= SKIP_CLASSES_MAX; }
const op_variant tuned_cross_entropy_pair[] = {
    ON_LANES(lanes_xent, .lanes_in = 1, .lanes_out = 2),
    ON_ROWS(xent_rows, .fits = few_classes),
    END,
};

const op_variant tuned_skip_compress[] = {ON_ROWS(skip_compress), END};
const op_variant tuned_skip_matmul[] = {ON_ROWS(skip_matmul), END};
const op_variant tuned_skip_sum[] = {ON_ROWS(skip_sum), END};
const op_variant tuned_skip_sgd[] = {ON_ROWS(skip_sgd), END};

static bool one_column(const op_shapes *s) { return s->in[3].dim[1] == 1 && s->in_dtype[1] == SHOAL_I32; }
const op_variant tuned_sparse_matmul[] = {ON_ROWS(sparse_product, .fits = one_column, .packs = true), END};

/* Tables of rows, whose kernels split the work over the threads themselves. */
static bool narrow_indices(const op_shapes *s) {
  return s->in_dtype[1] == SHOAL_I32 && (s->ins < 5 || s->in_dtype[4] == SHOAL_I32);
}
static bool narrow_fields(const op_shapes *s) { return s->ins < 4 || s->in_dtype[3] == SHOAL_I32; }
static bool narrow_rows(const op_shapes *s) { return s->in_dtype[0] == SHOAL_I32; }
static size_t bag_scratch(const op_shapes *s) { return s->attr[2].i ? table_scratch(s->attr[0].i) : 0; }
const op_variant tuned_embedding_bag[] = {
    ON_ROWS(table_bag, .fits = narrow_indices, .scratch = bag_scratch, .packs = true), END};
const op_variant tuned_embedding_bag_grad_rows[] = {
    ON_ROWS(table_bag_grad, .fits = narrow_fields, .scratch = bag_scratch), END};
const op_variant tuned_fm[] = {ON_ROWS(table_fm, .fits = narrow_indices, .packs = true), END};
const op_variant tuned_fm_grad_rows[] = {ON_ROWS(table_fm_grad, .fits = narrow_indices, .packs = true), END};
const op_variant tuned_field_pairs[] = {ON_ROWS(table_pairs), END};
const op_variant tuned_field_pairs_grad[] = {ON_ROWS(table_pairs_grad), END};

static size_t unique_scratch(const op_shapes *s) { return table_unique_scratch(s->in[0].dim[0]); }
const op_variant tuned_unique_rows[] = {ON_ROWS(table_unique, .fits = narrow_rows, .scratch = unique_scratch), END};

static bool float_variable(const op_shapes *s) { return s->in_dtype[0] == SHOAL_F32; }
const op_variant tuned_apply_sgd[] = {ON_ROWS(update_sgd, .fits = float_variable), END};
const op_variant tuned_apply_adagrad[] = {ON_ROWS(update_adagrad, .fits = float_variable), END};
const op_variant tuned_apply_adam[] = {ON_ROWS(update_adam, .fits = float_variable), END};

/* Indices stand behind the variable and its slots. */
static bool narrow_after_0(const op_shapes *s) { return s->in_dtype[1] == SHOAL_I32; }
static bool narrow_after_1(const op_shapes *s) { return s->in_dtype[2] == SHOAL_I32; }
static bool narrow_after_2(const op_shapes *s) { return s->in_dtype[3] == SHOAL_I32; }
const op_variant tuned_sparse_apply_sgd[] = {ON_ROWS(table_apply_sgd, .fits = narrow_after_0), END};
const op_variant tuned_sparse_apply_adagrad[] = {ON_ROWS(table_apply_adagrad, .fits = narrow_after_1, .packs = true),
                                                 END};
const op_variant tuned_sparse_apply_rowwise_adagrad[] = {ON_ROWS(table_apply_rowwise, .fits = narrow_after_1), END};
const op_variant tuned_sparse_apply_adam[] = {ON_ROWS(table_apply_adam, .fits = narrow_after_2, .packs = true), END};
const op_variant tuned_sparse_apply_ftrl[] = {ON_ROWS(table_apply_ftrl, .fits = narrow_after_2, .packs = true), END};

static size_t logistic_scratch(const op_shapes *s, int slots) {
  return sparse_scratch(s->in[slots + SPARSE_OFFSETS].dim[0] - 1, s->in[slots + SPARSE_INDICES].dim[0]);
}
static size_t sgd_scratch(const op_shapes *s) { return logistic_scratch(s, 0); }
static size_t adagrad_scratch(const op_shapes *s) { return logistic_scratch(s, 1); }
static size_t ftrl_scratch(const op_shapes *s) { return logistic_scratch(s, 2); }
const op_variant tuned_sparse_logistic_sgd[] = {ON_ROWS(sparse_logistic_sgd, .scratch = sgd_scratch), END};
const op_variant tuned_sparse_logistic_adagrad[] = {
    ON_ROWS(sparse_logistic_adagrad, .scratch = adagrad_scratch, .packs = true), END};
const op_variant tuned_sparse_logistic_ftrl[] = {ON_ROWS(sparse_logistic_ftrl, .scratch = ftrl_scratch, .packs = true),
                                                 END};

/* y, or its gradient, is [rows, steps, units]. */
static size_t lstm_scratch(const op_shapes *s) { return lstm_steps_scratch(s->in[0].dim[0], s->in[1].dim[0]); }
const op_variant tuned_lstm[] = {ON_ROWS(lstm_steps, .scratch = lstm_scratch), END};
const op_variant tuned_lstm_grad[] = {ON_ROWS(lstm_steps_grad, .scratch = lstm_scratch), END};
