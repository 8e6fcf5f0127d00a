/* SPDX-License-Identifier: MIT */

/*
 * The network that train_digits.c trains: its tensors, and the operation graphs of a training step and of inference.
 *
 *   8x8 image -> conv 3x3, batchnorm, relu -> conv 3x3 stride 2, batchnorm, relu -> fully connected -> softmax
 */
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include "digits.h"
#include "hipdnn_helpers.h"

enum {
    TEST = 360, /* held-out digits */
    BATCH = 32,
    C1 = 24, /* channels of the first block */
    C2 = 48, /* channels of the second block, whose images are half as wide and high */
    HALF = SIDE / 2,
};

static const float MOMENTUM = 0.9f;
static const float WEIGHT_DECAY = 1e-3f;
static const float EPSILON = 1e-5f;
static const float STATISTICS_MOMENTUM = 0.1f;

/* The network's tensors in memory. Each name is a uid, which identifies the tensor in graphs; its address is
* memory[uid]. */
enum {
    IMAGES,
    LABELS, /* one-hot */
    LOSS,   /* of each image */
    LOGITS,
    DLOGITS,
    /* first block: filter, scale, bias; convolution result, batch statistics, output; running statistics */
    W1,
    SCALE1,
    BIAS1,
    CONV1,
    MEAN1,
    INV_STD1,
    OUT1,
    RUNNING_MEAN1,
    RUNNING_VAR1,
    NEXT_MEAN1,
    NEXT_VAR1,
    DW1,
    DSCALE1,
    DBIAS1,
    DOUT1,
    /* second block */
    W2,
    SCALE2,
    BIAS2,
    CONV2,
    MEAN2,
    INV_STD2,
    OUT2,
    RUNNING_MEAN2,
    RUNNING_VAR2,
    NEXT_MEAN2,
    NEXT_VAR2,
    DW2,
    DSCALE2,
    DBIAS2,
    DOUT2,
    /* classifier */
    W3,
    BIAS3,
    DW3,
    DBIAS3,
    /* all weights in one array, so that one graph updates them */
    WEIGHTS,
    NEXT_WEIGHTS,
    GRADIENTS,
    VELOCITY,
    NEXT_VELOCITY,
    RATE,
    /* a one for every image */
    ONE_PER_IMAGE,
    /* held-out digits */
    TEST_IMAGES,
    TEST_LOGITS,
    TENSORS
};

/* The offset of each weight in the array of all weights, a multiple of 16 floats: engines may need aligned
* memory. */
typedef struct weight {
    int uid, gradient_uid;
    size_t start, count;
} weight;

#define ALIGNED(count) (((count) + 15) / 16 * 16)
#define W1_COUNT (C1 * 1 * 3 * 3)
#define W2_COUNT (C2 * C1 * 3 * 3)
#define W3_COUNT (CLASSES * C2 * HALF * HALF)

enum {
    W1_START = 0,
    SCALE1_START = W1_START + ALIGNED(W1_COUNT),
    BIAS1_START = SCALE1_START + ALIGNED(C1),
    W2_START = BIAS1_START + ALIGNED(C1),
    SCALE2_START = W2_START + ALIGNED(W2_COUNT),
    BIAS2_START = SCALE2_START + ALIGNED(C2),
    W3_START = BIAS2_START + ALIGNED(C2),
    BIAS3_START = W3_START + ALIGNED(W3_COUNT),
    WEIGHT_COUNT = BIAS3_START + ALIGNED(CLASSES),
};

static const weight WEIGHT_TABLE[] = {
    {W1, DW1, W1_START, W1_COUNT}, {SCALE1, DSCALE1, SCALE1_START, C1},   {BIAS1, DBIAS1, BIAS1_START, C1},
    {W2, DW2, W2_START, W2_COUNT}, {SCALE2, DSCALE2, SCALE2_START, C2},   {BIAS2, DBIAS2, BIAS2_START, C2},
    {W3, DW3, W3_START, W3_COUNT}, {BIAS3, DBIAS3, BIAS3_START, CLASSES},
};
enum { WEIGHT_KINDS = sizeof WEIGHT_TABLE / sizeof WEIGHT_TABLE[0] };

/* Graphs */

/* One block in training: convolution, batch normalization with the statistics of the batch, relu.
 * The normalized values are virtual: they exist only between two operations of the graph. */
typedef struct block {
    int in, w, scale, bias, conv, mean, inv_std, out;
    int running_mean, running_var, next_mean, next_var;
    int dw, dscale, dbias, dout, din;
    int64_t in_channels, in_side, channels, side, stride;
} block;

static const block BLOCK1 = {IMAGES,       W1,         SCALE1,    BIAS1, CONV1,   MEAN1,  INV_STD1, OUT1, RUNNING_MEAN1,
                             RUNNING_VAR1, NEXT_MEAN1, NEXT_VAR1, DW1,   DSCALE1, DBIAS1, DOUT1,    -1,   1,
                             SIDE,         C1,         SIDE,      1};
static const block BLOCK2 = {OUT1,          W2,           SCALE2,     BIAS2,     CONV2, MEAN2,   INV_STD2, OUT2,
                             RUNNING_MEAN2, RUNNING_VAR2, NEXT_MEAN2, NEXT_VAR2, DW2,   DSCALE2, DBIAS2,   DOUT2,
                             DOUT1,         C1,           SIDE,       C2,        HALF,  2};

static hd_plan block_forward(hipdnnHandle_t handle, const char* engine, const char* name, const block* b)
{
    hd_graph g = hd_graph_begin(handle, name);
    hipdnnBackendDescriptor_t in = hd_tensor(&g, b->in, BATCH, b->in_channels, b->in_side, b->in_side);
    hipdnnBackendDescriptor_t w = hd_tensor(&g, b->w, b->channels, b->in_channels, 3, 3);
    hipdnnBackendDescriptor_t conv = hd_tensor(&g, b->conv, BATCH, b->channels, b->side, b->side);
    hd_conv_forward(&g, in, w, conv, 1, b->stride);

    hipdnnBackendDescriptor_t normalized = hd_virtual(&g, BATCH, b->channels, b->side, b->side);
    hipdnnBackendDescriptor_t batchnorm = hd_operation(&g, HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_X_EXT, conv);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT,
                      hd_tensor(&g, b->scale, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT,
                      hd_tensor(&g, b->bias, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT, hd_constant(&g, EPSILON));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT, normalized);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT,
                      hd_tensor(&g, b->running_mean, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT,
                      hd_tensor(&g, b->running_var, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT, hd_constant(&g, STATISTICS_MOMENTUM));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT,
                      hd_tensor(&g, b->mean, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INV_VARIANCE_EXT,
                      hd_tensor(&g, b->inv_std, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT,
                      hd_tensor(&g, b->next_mean, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT,
                      hd_tensor(&g, b->next_var, 1, b->channels, 1, 1));
    hd_set_float_type(batchnorm, HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT);
    HD_CHECK(hipdnnBackendFinalize(batchnorm));

    hipdnnBackendDescriptor_t out = hd_tensor(&g, b->out, BATCH, b->channels, b->side, b->side);
    hd_pointwise(&g, HIPDNN_POINTWISE_RELU_FWD, normalized, NULL, out);
    return hd_graph_build(&g, engine);
}

/* The backward pass: relu, batch normalization, then backward weights and, if there is a layer before, backward
* data. The output of relu is above 0 where its input is, so it can serve as the forward pass's input. */
static hd_plan block_backward(hipdnnHandle_t handle, const char* engine, const char* name, const block* b)
{
    hd_graph g = hd_graph_begin(handle, name);
    hipdnnBackendDescriptor_t dout = hd_tensor(&g, b->dout, BATCH, b->channels, b->side, b->side);
    hipdnnBackendDescriptor_t out = hd_tensor(&g, b->out, BATCH, b->channels, b->side, b->side);
    hipdnnBackendDescriptor_t dnormalized = hd_virtual(&g, BATCH, b->channels, b->side, b->side);
    hd_pointwise(&g, HIPDNN_POINTWISE_RELU_BWD, dout, out, dnormalized);

    hipdnnBackendDescriptor_t dconv = hd_virtual(&g, BATCH, b->channels, b->side, b->side);
    hipdnnBackendDescriptor_t batchnorm = hd_operation(&g, HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DY_EXT, dnormalized);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_X_EXT,
                      hd_tensor(&g, b->conv, BATCH, b->channels, b->side, b->side));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_SCALE_EXT,
                      hd_tensor(&g, b->scale, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_MEAN_EXT,
                      hd_tensor(&g, b->mean, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT,
                      hd_tensor(&g, b->inv_std, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DX_EXT, dconv);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DSCALE_EXT,
                      hd_tensor(&g, b->dscale, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DBIAS_EXT,
                      hd_tensor(&g, b->dbias, 1, b->channels, 1, 1));
    hd_set_float_type(batchnorm, HIPDNN_ATTR_BATCHNORM_BACKWARD_COMP_TYPE_EXT);
    HD_CHECK(hipdnnBackendFinalize(batchnorm));

    hipdnnBackendDescriptor_t in = hd_tensor(&g, b->in, BATCH, b->in_channels, b->in_side, b->in_side);
    hipdnnBackendDescriptor_t dw = hd_tensor(&g, b->dw, b->channels, b->in_channels, 3, 3);
    hd_conv_backward_filter(&g, in, dconv, dw, 1, b->stride);
    if (b->din >= 0) {
        hipdnnBackendDescriptor_t w = hd_tensor(&g, b->w, b->channels, b->in_channels, 3, 3);
        hipdnnBackendDescriptor_t din = hd_tensor(&g, b->din, BATCH, b->in_channels, b->in_side, b->in_side);
        hd_conv_backward_data(&g, dconv, w, din, 1, b->stride);
    }
    return hd_graph_build(&g, engine);
}

/* Logits. A convolution over the full extent of its input is a fully connected layer. */
static hd_plan classifier_forward(hipdnnHandle_t handle, const char* engine)
{
    hd_graph g = hd_graph_begin(handle, "classifier");
    hipdnnBackendDescriptor_t in = hd_tensor(&g, OUT2, BATCH, C2, HALF, HALF);
    hipdnnBackendDescriptor_t w = hd_tensor(&g, W3, CLASSES, C2, HALF, HALF);
    hipdnnBackendDescriptor_t bias = hd_tensor(&g, BIAS3, 1, CLASSES, 1, 1);
    hipdnnBackendDescriptor_t product = hd_virtual(&g, BATCH, CLASSES, 1, 1);
    hd_conv_forward(&g, in, w, product, 0, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_ADD, product, bias, hd_tensor(&g, LOGITS, BATCH, CLASSES, 1, 1));
    return hd_graph_build(&g, engine);
}

/* The loss of each image, and the gradient of the mean loss with respect to the logits. Subtracting the largest logit first
* keeps exp in range; it does not change softmax. */
static hd_plan loss_and_gradient(hipdnnHandle_t handle, const char* engine)
{
    hd_graph g = hd_graph_begin(handle, "loss");
    hipdnnBackendDescriptor_t logits = hd_tensor(&g, LOGITS, BATCH, CLASSES, 1, 1);
    hipdnnBackendDescriptor_t largest = hd_virtual(&g, BATCH, 1, 1, 1);
    hipdnnBackendDescriptor_t centred = hd_virtual(&g, BATCH, CLASSES, 1, 1);
    hd_reduction(&g, HIPDNN_REDUCE_TENSOR_MAX, logits, largest);
    hd_pointwise(&g, HIPDNN_POINTWISE_SUB, logits, largest, centred);

    hipdnnBackendDescriptor_t exponential = hd_virtual(&g, BATCH, CLASSES, 1, 1);
    hipdnnBackendDescriptor_t sum = hd_virtual(&g, BATCH, 1, 1, 1);
    hipdnnBackendDescriptor_t probability = hd_virtual(&g, BATCH, CLASSES, 1, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_EXP, centred, NULL, exponential);
    hd_reduction(&g, HIPDNN_REDUCE_TENSOR_ADD, exponential, sum);
    hd_pointwise(&g, HIPDNN_POINTWISE_DIV, exponential, sum, probability);

    /* gradient = (probability - label) / batch */
    hipdnnBackendDescriptor_t labels = hd_tensor(&g, LABELS, BATCH, CLASSES, 1, 1);
    hipdnnBackendDescriptor_t difference = hd_virtual(&g, BATCH, CLASSES, 1, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_SUB, probability, labels, difference);
    hd_pointwise(&g, HIPDNN_POINTWISE_MUL, difference, hd_constant(&g, 1.0f / BATCH),
                 hd_tensor(&g, DLOGITS, BATCH, CLASSES, 1, 1));

    /* loss = log(sum) - logit of the right class */
    hipdnnBackendDescriptor_t log_sum = hd_virtual(&g, BATCH, 1, 1, 1);
    hipdnnBackendDescriptor_t selected = hd_virtual(&g, BATCH, CLASSES, 1, 1);
    hipdnnBackendDescriptor_t right = hd_virtual(&g, BATCH, 1, 1, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_LOG, sum, NULL, log_sum);
    hd_pointwise(&g, HIPDNN_POINTWISE_MUL, centred, labels, selected);
    hd_reduction(&g, HIPDNN_REDUCE_TENSOR_ADD, selected, right);
    hd_pointwise(&g, HIPDNN_POINTWISE_SUB, log_sum, right, hd_tensor(&g, LOSS, BATCH, 1, 1, 1));
    return hd_graph_build(&g, engine);
}

/* Gradients of filter, bias and input. The bias's gradient is the sum over the batch, computed as backward weights
* of a convolution whose inputs are all ones. */
static hd_plan classifier_backward(hipdnnHandle_t handle, const char* engine)
{
    hd_graph g = hd_graph_begin(handle, "classifier backward");
    hipdnnBackendDescriptor_t dlogits = hd_tensor(&g, DLOGITS, BATCH, CLASSES, 1, 1);
    hipdnnBackendDescriptor_t in = hd_tensor(&g, OUT2, BATCH, C2, HALF, HALF);
    hipdnnBackendDescriptor_t ones = hd_tensor(&g, ONE_PER_IMAGE, BATCH, 1, 1, 1);
    hipdnnBackendDescriptor_t w = hd_tensor(&g, W3, CLASSES, C2, HALF, HALF);
    hd_conv_backward_filter(&g, in, dlogits, hd_tensor(&g, DW3, CLASSES, C2, HALF, HALF), 0, 1);
    hd_conv_backward_filter(&g, ones, dlogits, hd_tensor(&g, DBIAS3, CLASSES, 1, 1, 1), 0, 1);
    hd_conv_backward_data(&g, dlogits, w, hd_tensor(&g, DOUT2, BATCH, C2, HALF, HALF), 0, 1);
    return hd_graph_build(&g, engine);
}

/* velocity = momentum * velocity + gradient + decay * weight;  weight = weight - rate * velocity */
static hd_plan weight_update(hipdnnHandle_t handle, const char* engine)
{
    hd_graph g = hd_graph_begin(handle, "stochastic gradient descent");
    hipdnnBackendDescriptor_t weights = hd_tensor(&g, WEIGHTS, 1, WEIGHT_COUNT, 1, 1);
    hipdnnBackendDescriptor_t gradients = hd_tensor(&g, GRADIENTS, 1, WEIGHT_COUNT, 1, 1);
    hipdnnBackendDescriptor_t velocity = hd_tensor(&g, VELOCITY, 1, WEIGHT_COUNT, 1, 1);
    hipdnnBackendDescriptor_t next_velocity = hd_tensor(&g, NEXT_VELOCITY, 1, WEIGHT_COUNT, 1, 1);
    hipdnnBackendDescriptor_t kept = hd_virtual(&g, 1, WEIGHT_COUNT, 1, 1);
    hipdnnBackendDescriptor_t decay = hd_virtual(&g, 1, WEIGHT_COUNT, 1, 1);
    hipdnnBackendDescriptor_t pull = hd_virtual(&g, 1, WEIGHT_COUNT, 1, 1);
    hipdnnBackendDescriptor_t step = hd_virtual(&g, 1, WEIGHT_COUNT, 1, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_MUL, velocity, hd_constant(&g, MOMENTUM), kept);
    hd_pointwise(&g, HIPDNN_POINTWISE_MUL, weights, hd_constant(&g, WEIGHT_DECAY), decay);
    hd_pointwise(&g, HIPDNN_POINTWISE_ADD, gradients, decay, pull);
    hd_pointwise(&g, HIPDNN_POINTWISE_ADD, kept, pull, next_velocity);
    hd_pointwise(&g, HIPDNN_POINTWISE_MUL, next_velocity, hd_tensor(&g, RATE, 1, 1, 1, 1), step);
    hd_pointwise(&g, HIPDNN_POINTWISE_SUB, weights, step, hd_tensor(&g, NEXT_WEIGHTS, 1, WEIGHT_COUNT, 1, 1));
    return hd_graph_build(&g, engine);
}

static hipdnnBackendDescriptor_t inference_block(hd_graph* g, const block* b, hipdnnBackendDescriptor_t in)
{
    hipdnnBackendDescriptor_t w = hd_tensor(g, b->w, b->channels, b->in_channels, 3, 3);
    hipdnnBackendDescriptor_t conv = hd_virtual(g, TEST, b->channels, b->side, b->side);
    hipdnnBackendDescriptor_t normalized = hd_virtual(g, TEST, b->channels, b->side, b->side);
    hipdnnBackendDescriptor_t out = hd_virtual(g, TEST, b->channels, b->side, b->side);
    hd_conv_forward(g, in, w, conv, 1, b->stride);
    hipdnnBackendDescriptor_t batchnorm =
        hd_operation(g, HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT, conv);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT,
                      hd_tensor(g, b->running_mean, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT,
                      hd_tensor(g, b->running_var, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT,
                      hd_tensor(g, b->scale, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT,
                      hd_tensor(g, b->bias, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT, normalized);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT,
                      hd_constant(g, EPSILON));
    hd_set_float_type(batchnorm, HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT);
    HD_CHECK(hipdnnBackendFinalize(batchnorm));
    hd_pointwise(g, HIPDNN_POINTWISE_RELU_FWD, normalized, NULL, out);
    return out;
}

/* The whole trained network as one graph: only images, weights and logits are in memory. */
static hd_plan network_inference(hipdnnHandle_t handle, const char* engine)
{
    hd_graph g = hd_graph_begin(handle, "whole network");
    hipdnnBackendDescriptor_t images = hd_tensor(&g, TEST_IMAGES, TEST, 1, SIDE, SIDE);
    hipdnnBackendDescriptor_t features = inference_block(&g, &BLOCK2, inference_block(&g, &BLOCK1, images));
    hipdnnBackendDescriptor_t w = hd_tensor(&g, W3, CLASSES, C2, HALF, HALF);
    hipdnnBackendDescriptor_t product = hd_virtual(&g, TEST, CLASSES, 1, 1);
    hd_conv_forward(&g, features, w, product, 0, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_ADD, product, hd_tensor(&g, BIAS3, 1, CLASSES, 1, 1),
                 hd_tensor(&g, TEST_LOGITS, TEST, CLASSES, 1, 1));
    return hd_graph_build(&g, engine);
}

#endif
