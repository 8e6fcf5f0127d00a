/* SPDX-License-Identifier: MIT */

/* For cudnn_peer.c: the gradients of attention, as the graph for which cuDNN has kernels. */
#ifndef CUDNN_PEER_BACKWARD_H
#define CUDNN_PEER_BACKWARD_H

#include "cudnn_peer_graphs.h"

static void reshape(graph* g, int x, int y)
{
    if (cudnn.Create == NULL) {
        return;
    }
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_object(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, g->tensors[x].object);
    set_object(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, g->tensors[y].object);
    operation(g, made);
}

/* Gradients of causal attention, bfloat16: [b, h, s, d]. */
static void attention_backward(graph* g, int64_t b, int64_t h, int64_t s, int64_t d)
{
    const int64_t dims[4] = {b, h, s, d}, strides[4] = {h * s * d, s * d, d, 1};
    const int64_t turned[4] = {b, h, d, s}, of_turned[4] = {h * s * d, s * d, 1, d};
    const int64_t scores[4] = {b, h, s, s}, of_scores[4] = {h * s * s, s * s, s, 1},
                  by_keys[4] = {h * s * s, s * s, 1, s};
    const int64_t rows[4] = {b, h, s, 1}, of_rows[4] = {h * s, s, 1, 1}, one[4] = {1, 1, 1, 1};
    const int64_t of_product[4] = {h * s * d, s * d, h * d, 1};
    const cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
    enum { Q, K, V, O, STATS, GRADIENT, DQ, DK, DV, SCALE, LOW, ONE };
    char name[100];
    snprintf(name, sizeof name, "sdpa causal backward %lldx%lldx%lldx%lld bfloat16", (long long)b, (long long)h,
             (long long)s, (long long)d);
    begin(g, name);
    g->is_loose = 1;
    for (int i = Q; i <= DV; i++) {
        const bool is_turned = i == K || i == V;
        const role role = i >= DQ ? RESULT : INPUT;
        if (i == STATS) {
            both(g, FLOAT, 4, rows, of_rows, role);
        } else {
            json_tensor(g, i, type, 4, dims, strides, 0);
            add(g, type, 4, is_turned ? turned : dims, is_turned ? of_turned : strides, role);
        }
    }
    json(g, "], \"nodes\": [");
    json_node(g, "SdpaBackwardAttributes");
    json(g,
         "\"inputs\": {\"q_tensor_uid\": 1, \"k_tensor_uid\": 2, \"v_tensor_uid\": 3, \"o_tensor_uid\": 4, "
         "\"stats_tensor_uid\": 5, \"do_tensor_uid\": 6}, "
         "\"outputs\": {\"dq_tensor_uid\": 7, \"dk_tensor_uid\": 8, \"dv_tensor_uid\": 9}, \"parameters\": "
         "{\"causal_mask\": true, \"attn_scale_value\": %.9g, \"diagonal_alignment\": \"TOP_LEFT\"}}]}",
         0.08838834764831845);
    for (int i = SCALE; i <= ONE; i++) {
        add(g, FLOAT, 4, one, one, VALUE);
    }
    g->tensors[SCALE].value = 0.08838834764831845f;
    g->tensors[LOW].value = -__builtin_inff();
    g->tensors[ONE].value = 1.0f;
    const int product = add(g, FLOAT, 4, dims, of_product, VIRTUAL), summed = add(g, FLOAT, 4, rows, of_rows, VIRTUAL);
    const int row_sums = add(g, FLOAT, 4, rows, of_rows, SCRATCH);
    const int again = add(g, FLOAT, 4, scores, of_scores, VIRTUAL),
              scaled = add(g, FLOAT, 4, scores, of_scores, VIRTUAL);
    const int below = add(g, FLOAT, 4, scores, of_scores, VIRTUAL);
    const int row = add(g, CUDNN_DATA_INT32, 4, scores, of_scores, VIRTUAL);
    const int column = add(g, CUDNN_DATA_INT32, 4, scores, of_scores, VIRTUAL);
    const int mask = add(g, CUDNN_DATA_BOOLEAN, 4, scores, of_scores, VIRTUAL);
    const int masked = add(g, FLOAT, 4, scores, of_scores, VIRTUAL),
              weights = add(g, FLOAT, 4, scores, of_scores, VIRTUAL);
    const int weights_by_keys = add(g, type, 4, scores, by_keys, VIRTUAL);
    const int of_weights = add(g, FLOAT, 4, scores, of_scores, VIRTUAL),
              less = add(g, FLOAT, 4, scores, of_scores, VIRTUAL);
    const int times = add(g, FLOAT, 4, scores, of_scores, VIRTUAL), last = add(g, FLOAT, 4, scores, of_scores, VIRTUAL);
    const int last_by_keys = add(g, type, 4, scores, by_keys, VIRTUAL), keys = add(g, type, 4, dims, strides, VIRTUAL);
    const int sums = add(g, FLOAT, 4, dims, strides, SCRATCH);
    pointwise(g, CUDNN_POINTWISE_MUL, FLOAT, GRADIENT, O, -1, product, -1);
    reduction(g, CUDNN_REDUCE_TENSOR_ADD, product, summed);
    pointwise(g, CUDNN_POINTWISE_MUL, FLOAT, summed, ONE, -1, row_sums, -1);
    matmul(g, Q, K, again);
    pointwise(g, CUDNN_POINTWISE_MUL, FLOAT, again, SCALE, -1, scaled, -1);
    pointwise(g, CUDNN_POINTWISE_SUB, FLOAT, scaled, STATS, -1, below, -1);
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, FLOAT, below, -1, -1, row, 2);
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, FLOAT, below, -1, -1, column, 3);
    pointwise(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, column, -1, mask, -1);
    pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, FLOAT, below, LOW, mask, masked, -1);
    pointwise(g, CUDNN_POINTWISE_EXP, FLOAT, masked, -1, -1, weights, -1);
    reshape(g, weights, weights_by_keys);
    matmul(g, weights_by_keys, GRADIENT, DV);
    matmul(g, GRADIENT, V, of_weights);
    pointwise(g, CUDNN_POINTWISE_SUB, FLOAT, of_weights, row_sums, -1, less, -1);
    pointwise(g, CUDNN_POINTWISE_MUL, FLOAT, less, weights, -1, times, -1);
    pointwise(g, CUDNN_POINTWISE_MUL, FLOAT, times, SCALE, -1, last, -1);
    reshape(g, last, last_by_keys);
    matmul(g, last_by_keys, Q, DK);
    reshape(g, K, keys);
    matmul(g, last, keys, sums);
    pointwise(g, CUDNN_POINTWISE_IDENTITY, FLOAT, sums, -1, -1, DQ, -1);
}

#endif
