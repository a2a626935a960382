/* The arrays of rows that make up the operator table, one for each file; each ends with a row without a name. */
#ifndef SHOAL_GRAPH_OPS_OPS_H
#define SHOAL_GRAPH_OPS_OPS_H

#include "graph/op.h"

extern const op_row ops_source[], ops_unary[], ops_activations[], ops_binary[], ops_cast[], ops_shapes[], ops_views[],
    ops_remap[], ops_along[], ops_select[], ops_join[], ops_reduce[],
    ops_scalars[], ops_state[], ops_random[];
extern const op_row ops_matmul[], ops_batch_matmul[], ops_normalize[], ops_recurrent[], ops_resize[],
    ops_conv[], ops_pool[], ops_softmax[], ops_norm[], ops_dropout[], ops_gather[],
    ops_update[], ops_blocks[], ops_control[], ops_accumulator[], ops_queue[], ops_fused[], ops_sparse_fused[];

#endif
