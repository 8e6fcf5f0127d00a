/* SPDX-License-Identifier: MIT */

/*
 * Trains a convolutional network on handwritten digits through nothing but the hipDNN C API.
 *
 *   8x8 image -> conv 3x3, batchnorm, relu -> conv 3x3 stride 2, batchnorm, relu -> fully connected -> softmax
 *
 * Every tensor operation, forward and backward and the update of the weights, is an operation graph that an engine of
 * hipDNN runs. The C code here reads the file, shuffles, counts correct answers and draws the progress bar.
 *
 * Usage: train_digits [--device] [--steps N] [DIGITS.CSV [ENGINE]]
 *   --device   tensors are in the memory of an AMD or NVIDIA GPU, and each graph goes to the library's first choice of engines
 *   --steps N  trains only so many steps, and prints the loss of each
 * Exit status: 0 when at least 97 % of the held-out digits are recognised, or, with --steps, when each loss is a number.
 */
#define _POSIX_C_SOURCE 200809L

#include "digits.h"
#include "gpu_memory.h"
#include "hipdnn_helpers.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

enum {
    TEST = 360,
    TRAIN = DIGITS - TEST,
    BATCH = 32,
    STEPS = TRAIN / BATCH, /* in an epoch; what is left over changes with every shuffle */
    EPOCHS = 16,
    C1 = 24, /* channels of the first block */
    C2 = 48, /* channels of the second block, whose images are half as wide and high */
    HALF = SIDE / 2,
};

static const float LEARNING_RATE = 0.05f;
static const float MOMENTUM = 0.9f;
static const float WEIGHT_DECAY = 1e-3f;
static const float EPSILON = 1e-5f;
static const float STATISTICS_MOMENTUM = 0.1f;
static const double REQUIRED_ACCURACY = 0.97;

/* The tensors of the network that live in memory. Each name is a uid: the graphs that use a tensor name it by this
 * number, and memory[uid] is where it lives. */
enum {
    IMAGES,
    LABELS, /* one-hot */
    LOSS,   /* of each image */
    LOGITS,
    DLOGITS,
    /* first block: filter, scale, bias; convolution result, batch statistics, output; running statistics */
    W1, SCALE1, BIAS1,
    CONV1, MEAN1, INV_STD1, OUT1,
    RUNNING_MEAN1, RUNNING_VAR1, NEXT_MEAN1, NEXT_VAR1,
    DW1, DSCALE1, DBIAS1, DOUT1,
    /* second block */
    W2, SCALE2, BIAS2,
    CONV2, MEAN2, INV_STD2, OUT2,
    RUNNING_MEAN2, RUNNING_VAR2, NEXT_MEAN2, NEXT_VAR2,
    DW2, DSCALE2, DBIAS2, DOUT2,
    /* classifier */
    W3, BIAS3, DW3, DBIAS3,
    /* all weights in one array, so that one graph updates them */
    WEIGHTS, NEXT_WEIGHTS, GRADIENTS, VELOCITY, NEXT_VELOCITY, RATE,
    /* a one for every image */
    ONE_PER_IMAGE,
    /* held-out digits */
    TEST_IMAGES, TEST_LOGITS,
    TENSORS
};

/* Where each weight lies in the array of all weights. Starts are multiples of 16 floats: engines may ask for aligned
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
    {W1, DW1, W1_START, W1_COUNT},         {SCALE1, DSCALE1, SCALE1_START, C1}, {BIAS1, DBIAS1, BIAS1_START, C1},
    {W2, DW2, W2_START, W2_COUNT},         {SCALE2, DSCALE2, SCALE2_START, C2}, {BIAS2, DBIAS2, BIAS2_START, C2},
    {W3, DW3, W3_START, W3_COUNT},         {BIAS3, DBIAS3, BIAS3_START, CLASSES},
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

static const block BLOCK1 = {IMAGES, W1, SCALE1, BIAS1, CONV1, MEAN1, INV_STD1, OUT1, RUNNING_MEAN1, RUNNING_VAR1,
                             NEXT_MEAN1, NEXT_VAR1, DW1, DSCALE1, DBIAS1, DOUT1, -1, 1, SIDE, C1, SIDE, 1};
static const block BLOCK2 = {OUT1, W2, SCALE2, BIAS2, CONV2, MEAN2, INV_STD2, OUT2, RUNNING_MEAN2, RUNNING_VAR2,
                             NEXT_MEAN2, NEXT_VAR2, DW2, DSCALE2, DBIAS2, DOUT2, DOUT1, C1, SIDE, C2, HALF, 2};

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
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT, hd_tensor(&g, b->bias, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT, hd_constant(&g, EPSILON));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT, normalized);
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT,
                      hd_tensor(&g, b->running_mean, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT,
                      hd_tensor(&g, b->running_var, 1, b->channels, 1, 1));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT, hd_constant(&g, STATISTICS_MOMENTUM));
    hd_set_descriptor(batchnorm, HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT, hd_tensor(&g, b->mean, 1, b->channels, 1, 1));
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

/* The way back: relu, batch normalization, then the gradients by the filter and, where there is a layer before, by the
 * input. The output of relu is above 0 where its input is, so the output serves as "input of the forward pass". */
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

/* The loss of each image, and the gradient of the mean loss by the logits. Subtracting the largest logit first keeps exp in
 * range; it does not change softmax. */
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

/* Gradients by filter, bias and input. The gradient by the bias is the sum over the batch: the gradient by the filter
 * of a convolution whose every input is a single one. */
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

/* The whole trained network as one graph: nothing but images, weights and logits is in memory. */
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

/* Memory */

/* Points each weight at its part of the array of all weights. */
static void place_weights(float* memory[TENSORS])
{
    for (int i = 0; i < WEIGHT_KINDS; i++) {
        memory[WEIGHT_TABLE[i].uid] = memory[WEIGHTS] + WEIGHT_TABLE[i].start;
        memory[WEIGHT_TABLE[i].gradient_uid] = memory[GRADIENTS] + WEIGHT_TABLE[i].start;
    }
}

static void exchange(float* memory[TENSORS], int a, int b)
{
    float* kept = memory[a];
    memory[a] = memory[b];
    memory[b] = kept;
}

static void fill(float* values, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = value;
    }
}

/* Uniform values whose variance keeps the scale of what passes through a relu (He). */
static void fill_random(float* values, size_t count, size_t inputs)
{
    const float limit = sqrtf(6.0f / (float)inputs);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_float(limit);
    }
}

static void allocate(float* memory[TENSORS])
{
    const struct {
        int uid;
        size_t count;
    } sizes[] = {
        {IMAGES, BATCH * PIXELS},
        {LABELS, BATCH * CLASSES},
        {LOSS, BATCH},
        {LOGITS, BATCH * CLASSES},
        {DLOGITS, BATCH * CLASSES},
        {CONV1, BATCH * C1 * PIXELS},
        {MEAN1, C1},
        {INV_STD1, C1},
        {OUT1, BATCH * C1 * PIXELS},
        {RUNNING_MEAN1, C1},
        {RUNNING_VAR1, C1},
        {NEXT_MEAN1, C1},
        {NEXT_VAR1, C1},
        {DOUT1, BATCH * C1 * PIXELS},
        {CONV2, BATCH * C2 * HALF * HALF},
        {MEAN2, C2},
        {INV_STD2, C2},
        {OUT2, BATCH * C2 * HALF * HALF},
        {RUNNING_MEAN2, C2},
        {RUNNING_VAR2, C2},
        {NEXT_MEAN2, C2},
        {NEXT_VAR2, C2},
        {DOUT2, BATCH * C2 * HALF * HALF},
        {WEIGHTS, WEIGHT_COUNT},
        {NEXT_WEIGHTS, WEIGHT_COUNT},
        {GRADIENTS, WEIGHT_COUNT},
        {VELOCITY, WEIGHT_COUNT},
        {NEXT_VELOCITY, WEIGHT_COUNT},
        {RATE, 1},
        {ONE_PER_IMAGE, BATCH},
        {TEST_IMAGES, TEST * PIXELS},
        {TEST_LOGITS, TEST * CLASSES},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memory[sizes[i].uid] = hd_floats(sizes[i].count);
    }
    place_weights(memory);
    static float weights[WEIGHT_COUNT];
    fill_random(weights + W1_START, W1_COUNT, 9);
    fill_random(weights + W2_START, W2_COUNT, C1 * 9);
    fill_random(weights + W3_START, W3_COUNT, C2 * HALF * HALF);
    fill(weights + SCALE1_START, C1, 1.0f);
    fill(weights + SCALE2_START, C2, 1.0f);
    hd_write_floats(memory[WEIGHTS], weights, WEIGHT_COUNT);

    float ones[C2]; /* the longest of these */
    fill(ones, C2, 1.0f);
    hd_write_floats(memory[RUNNING_VAR1], ones, C1);
    hd_write_floats(memory[RUNNING_VAR2], ones, C2);
    hd_write_floats(memory[ONE_PER_IMAGE], ones, BATCH);
}

static void release(float* memory[TENSORS])
{
    for (int uid = 0; uid < TENSORS; uid++) {
        int is_part = 0;
        for (int i = 0; i < WEIGHT_KINDS; i++) {
            is_part |= uid == WEIGHT_TABLE[i].uid || uid == WEIGHT_TABLE[i].gradient_uid;
        }
        if (!is_part && memory[uid] != NULL) {
            hd_memory.release(memory[uid]);
        }
    }
}

/* Training */

static void draw_progress(bool in_place, int epoch, int step, double loss, double accuracy)
{
    enum { WIDTH = 30 };
    const int done = step * WIDTH / STEPS;
    char bar[WIDTH + 1];
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)done);
    bar[WIDTH] = '\0';
    if (in_place) {
        printf("\repoch %2d/%d [%s] loss %.4f  accuracy %5.1f %%", epoch + 1, EPOCHS, bar, loss, 100.0 * accuracy);
        if (step == STEPS) {
            printf("\n");
        }
        fflush(stdout);
    } else if (step == STEPS) {
        printf("epoch %2d/%d  loss %.4f  accuracy %5.1f %%\n", epoch + 1, EPOCHS, loss, 100.0 * accuracy);
        fflush(stdout);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct options {
    bool device;
    int steps; /* 0: all */
    const char *path, *engine;
} options;

static options read_options(int count, char** arguments)
{
    options read = {false, 0, NULL, NULL};
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--device") == 0) {
            read.device = true;
        } else if (strcmp(arguments[i], "--steps") == 0 && i + 1 < count) {
            read.steps = atoi(arguments[++i]);
        } else if (read.path == NULL && arguments[i][0] != '-') {
            read.path = arguments[i];
        } else if (read.engine == NULL && arguments[i][0] != '-') {
            read.engine = arguments[i];
        } else {
            hd_fail("usage: train_digits [--device] [--steps N] [DIGITS.CSV [ENGINE]]");
        }
    }
    read.path = read.path != NULL ? read.path : "examples_c/data/digits.csv";
    /* On a GPU any engine, the library's first choice; the engines for the processor refuse its memory. */
    read.engine = read.engine != NULL ? read.engine : read.device ? "" : "CPU";
    return read;
}

int main(int argument_count, char** arguments)
{
    const options chosen = read_options(argument_count, arguments);
    const char* path = chosen.path;
    const char* engine = chosen.engine;
    if (chosen.device) {
        hd_use_device();
    }
    digits data = read_digits(path);
    int order[DIGITS];
    for (int i = 0; i < DIGITS; i++) {
        order[i] = i;
    }
    shuffle(order, DIGITS);
    int* const train_rows = order;
    const int* const test_rows = order + TRAIN;

    hipdnnHandle_t handle = NULL;
    HD_CHECK(hipdnnCreate(&handle));
    float* memory[TENSORS] = {NULL};
    allocate(memory);
    hd_plan block1_forward_plan = block_forward(handle, engine, "block 1 forward", &BLOCK1);
    hd_plan block2_forward_plan = block_forward(handle, engine, "block 2 forward", &BLOCK2);
    hd_plan classifier_forward_plan = classifier_forward(handle, engine);
    hd_plan loss_plan = loss_and_gradient(handle, engine);
    hd_plan classifier_backward_plan = classifier_backward(handle, engine);
    hd_plan block2_backward_plan = block_backward(handle, engine, "block 2 backward", &BLOCK2);
    hd_plan block1_backward_plan = block_backward(handle, engine, "block 1 backward", &BLOCK1);
    hd_plan update_plan = weight_update(handle, engine);
    hd_plan inference_plan = network_inference(handle, engine);

    hd_plan* const step_plans[] = {&block1_forward_plan,  &block2_forward_plan,      &classifier_forward_plan,
                                   &loss_plan,            &classifier_backward_plan, &block2_backward_plan,
                                   &block1_backward_plan, &update_plan};
    enum { STEP_PLANS = sizeof step_plans / sizeof step_plans[0] };

    if (chosen.steps == 0) {
        printf("Training on %d digits, %d held out, in %d epochs of %d steps of %d\n", TRAIN, TEST, EPOCHS, STEPS, BATCH);
    }
    const bool in_place = isatty(STDOUT_FILENO) != 0;
    const double start = seconds();
    int steps_done = 0;
    bool is_number = true;
    for (int epoch = 0; epoch < EPOCHS && (chosen.steps == 0 || steps_done < chosen.steps); epoch++) {
        shuffle(train_rows, TRAIN);
        double loss = 0.0;
        int correct = 0;
        for (int step = 0; step < STEPS && (chosen.steps == 0 || steps_done < chosen.steps); step++) {
            /* What goes in: the images, their labels, and the rate, which falls from its start to zero along half a cosine. */
            const int* const rows = train_rows + step * BATCH;
            static float images[BATCH * PIXELS];
            static float labels[BATCH * CLASSES];
            copy_images_moved(images, &data, rows, BATCH);
            fill(labels, BATCH * CLASSES, 0.0f);
            for (int i = 0; i < BATCH; i++) {
                labels[i * CLASSES + data.labels[rows[i]]] = 1.0f;
            }
            const double progress = (double)(epoch * STEPS + step) / (EPOCHS * STEPS);
            const float rate = LEARNING_RATE * (float)(0.5 + 0.5 * cos(3.14159265358979 * progress));
            hd_write_floats(memory[IMAGES], images, BATCH * PIXELS);
            hd_write_floats(memory[LABELS], labels, BATCH * CLASSES);
            hd_write_floats(memory[RATE], &rate, 1);

            for (int i = 0; i < STEP_PLANS; i++) {
                hd_execute(step_plans[i], memory);
            }

            exchange(memory, WEIGHTS, NEXT_WEIGHTS);
            exchange(memory, VELOCITY, NEXT_VELOCITY);
            exchange(memory, RUNNING_MEAN1, NEXT_MEAN1);
            exchange(memory, RUNNING_VAR1, NEXT_VAR1);
            exchange(memory, RUNNING_MEAN2, NEXT_MEAN2);
            exchange(memory, RUNNING_VAR2, NEXT_VAR2);
            place_weights(memory);

            /* What comes out. */
            float losses[BATCH];
            float logits[BATCH * CLASSES];
            hd_read_floats(losses, memory[LOSS], BATCH);
            hd_read_floats(logits, memory[LOGITS], BATCH * CLASSES);
            double step_loss = 0.0;
            for (int i = 0; i < BATCH; i++) {
                step_loss += losses[i];
            }
            loss += step_loss;
            correct += count_correct(logits, &data, rows, BATCH);
            steps_done++;
            if (chosen.steps > 0) {
                printf("step %d loss %.6f\n", steps_done, step_loss / BATCH);
                fflush(stdout);
                is_number = is_number && isfinite(step_loss);
            } else {
                const int seen = (step + 1) * BATCH;
                draw_progress(in_place, epoch, step + 1, loss / seen, (double)correct / seen);
            }
        }
    }
    const double elapsed = seconds() - start;

    static float test_images[TEST * PIXELS];
    static float test_logits[TEST * CLASSES];
    copy_images(test_images, &data, test_rows, TEST);
    hd_write_floats(memory[TEST_IMAGES], test_images, TEST * PIXELS);
    hd_execute(&inference_plan, memory);
    hd_read_floats(test_logits, memory[TEST_LOGITS], TEST * CLASSES);
    const int correct = count_correct(test_logits, &data, test_rows, TEST);
    const double accuracy = (double)correct / TEST;
    const bool trained = chosen.steps == 0;
    const bool good = trained ? accuracy >= REQUIRED_ACCURACY : is_number;

    if (chosen.device || !trained) {
        for (int i = 0; i < STEP_PLANS; i++) {
            printf("Graph %d        %s\n", i + 1, step_plans[i]->engine);
        }
    }
    printf("Engine         %s\n", block2_forward_plan.engine);
    printf("Training       %.2f s, %.3f ms a step\n", elapsed, 1000.0 * elapsed / steps_done);
    printf("Test accuracy  %.2f %% (%d of %d held-out digits)%s\n", 100.0 * accuracy, correct, TEST,
           good || !trained ? "" : ", below the required 97 %");

    for (int i = 0; i < STEP_PLANS; i++) {
        hd_plan_destroy(step_plans[i]);
    }
    hd_plan_destroy(&inference_plan);
    HD_CHECK(hipdnnDestroy(handle));
    release(memory);
    free(data.pixels);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
