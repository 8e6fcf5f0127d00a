/* SPDX-License-Identifier: MIT */

/* Graphs as bytes, with what each tensor holds: at most four dimensions, without gaps. */
#ifndef PLUGIN_HOST_GRAPHS_H
#define PLUGIN_HOST_GRAPHS_H

#include "../flatbuffer_writer.h"
#include "interface.h"

#include <math.h>
#include <stdbool.h>

enum { MOST_TENSORS = 12, MOST_ELEMENTS = 1024 };
enum { FLOAT = 1, HALF = 2, BFLOAT16 = 3 };
enum { CROSS_CORRELATION = 2, POINTWISE = 2, BATCHNORM_BACKWARD = 3, BATCHNORM = 4, CONVOLUTION_FWD = 5 };
enum { FLOAT_VALUE = 1, ADD = 2, RELU_FWD = 34 };

typedef struct tensor {
    int64_t uid;
    int64_t dims[4];
    int type, stored; /* what the graph says, and what memory holds */
    bool is_virtual, is_output, is_scalar;
    float values[MOST_ELEMENTS]; /* what goes in, or is expected to come out */
} tensor;

typedef struct graph {
    const char* name;
    bool is_earlier; /* in the layout of 2025 */
    int io_type;
    tensor tensors[MOST_TENSORS];
    int tensor_count;
    flatbuffer builder;
    uint32_t nodes[4];
    uint32_t node_count;
    constant_data bytes;
} graph;

static inline size_t elements(const tensor* t) { return (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]); }

/* What a tensor takes in memory, in its stored type. */
static inline size_t element_size(const tensor* t) { return t->stored == FLOAT ? sizeof(float) : sizeof(uint16_t); }

/* A number whose digits fit, as 16 bits with this many of them for the fraction. */
static inline uint16_t to_bits(float value, int type)
{
    const int fraction = type == HALF ? 10 : 7, bias = type == HALF ? 15 : 127;
    int exponent;
    const float part = frexpf(fabsf(value), &exponent);
    const int digits = (int)ldexpf(part, fraction + 1) - (1 << fraction);
    const int bits = value == 0.0f ? 0 : ((exponent - 1 + bias) << fraction) | digits;
    return (uint16_t)(bits | (value < 0.0f ? 0x8000 : 0));
}

static inline float from_bits(uint16_t bits, int type)
{
    const int fraction = type == HALF ? 10 : 7, bias = type == HALF ? 15 : 127;
    const int exponent = (bits & 0x7fff) >> fraction, digits = bits & ((1 << fraction) - 1);
    const float size = exponent == 0 ? ldexpf((float)digits, 1 - bias - fraction)
                                     : ldexpf((float)(digits | 1 << fraction), exponent - bias - fraction);
    return (bits & 0x8000) != 0 ? -size : size;
}

static inline void pack(const tensor* t, unsigned char* to)
{
    for (size_t i = 0; i < elements(t); i++) {
        const uint16_t bits = t->stored == FLOAT ? 0 : to_bits(t->values[i], t->stored);
        memcpy(to + i * element_size(t), t->stored == FLOAT ? (const void*)&t->values[i] : &bits, element_size(t));
    }
}

static inline void unpack(const tensor* t, const unsigned char* from, float* values)
{
    for (size_t i = 0; i < elements(t); i++) {
        uint16_t bits;
        if (t->stored == FLOAT) {
            memcpy(&values[i], from + i * sizeof(float), sizeof(float));
        } else {
            memcpy(&bits, from + i * sizeof bits, sizeof bits);
            values[i] = from_bits(bits, t->stored);
        }
    }
}

static inline tensor* add_tensor(graph* g, int64_t n, int64_t c, int64_t h, int64_t w)
{
    tensor* t = &g->tensors[g->tensor_count++];
    const int64_t dims[4] = {n, c, h, w};
    memcpy(t->dims, dims, sizeof dims);
    t->uid = 100 + g->tensor_count;
    t->type = t->stored = FLOAT;
    for (size_t i = 0; i < elements(t); i++) {
        t->values[i] = (float)((int)(i * 37 + (size_t)t->uid * 11) % 17 - 8) / 8.0f;
    }
    return t;
}

/* A node of a table that is finished, with the number of its kind; in 2025 it had no type to compute with before that. */
static inline void add_node(graph* g, int kind, uint32_t table)
{
    flatbuffer* fb = &g->builder;
    const uint32_t name = fb_text(fb, "node");
    fb_begin(fb);
    fb_reference(fb, 0, name);
    fb_reference(fb, g->is_earlier ? 2 : 3, table);
    fb_byte(fb, 1, g->is_earlier ? kind : FLOAT);
    if (!g->is_earlier) {
        fb_byte(fb, 2, kind);
    }
    g->nodes[g->node_count++] = fb_end(fb);
}

static inline void add_pointwise(graph* g, int mode, const tensor* a, const tensor* b, const tensor* out)
{
    flatbuffer* fb = &g->builder;
    fb_begin(fb);
    fb_long(fb, 5, a->uid);
    if (b != NULL) {
        fb_long(fb, 6, b->uid);
    }
    fb_long(fb, 8, out->uid);
    fb_byte(fb, 0, mode);
    add_node(g, POINTWISE, fb_end(fb));
}

static inline void add_convolution(graph* g, const tensor* x, const tensor* w, const tensor* y, int64_t padding)
{
    flatbuffer* fb = &g->builder;
    const int64_t paddings[2] = {padding, padding}, ones[2] = {1, 1};
    const uint32_t before = fb_longs(fb, 2, paddings), after = fb_longs(fb, 2, paddings);
    const uint32_t stride = fb_longs(fb, 2, ones), dilation = fb_longs(fb, 2, ones);
    fb_begin(fb);
    fb_long(fb, 0, x->uid);
    fb_long(fb, 1, w->uid);
    fb_long(fb, 2, y->uid);
    fb_reference(fb, 3, before);
    fb_reference(fb, 4, after);
    fb_reference(fb, 5, stride);
    fb_reference(fb, 6, dilation);
    fb_byte(fb, 7, CROSS_CORRELATION);
    add_node(g, CONVOLUTION_FWD, fb_end(fb));
}

static inline void finish(graph* g)
{
    flatbuffer* fb = &g->builder;
    uint32_t tensors[MOST_TENSORS];
    for (int i = 0; i < g->tensor_count; i++) {
        const tensor* t = &g->tensors[i];
        const int64_t strides[4] = {t->dims[1] * t->dims[2] * t->dims[3], t->dims[2] * t->dims[3], t->dims[3], 1};
        const uint32_t stride = fb_longs(fb, 4, strides), dims = fb_longs(fb, 4, t->dims);
        fb_align(fb, 4, 0);
        const uint32_t value = t->is_scalar ? fb_put(fb, &t->values[0], sizeof(float)) : 0;
        fb_begin(fb);
        fb_long(fb, 0, t->uid);
        fb_reference(fb, 3, stride);
        fb_reference(fb, 4, dims);
        if (t->is_scalar) {
            fb_reference(fb, 7, value);
            fb_byte(fb, 6, FLOAT_VALUE);
        }
        fb_byte(fb, 2, t->type);
        fb_byte(fb, 5, t->is_virtual);
        tensors[i] = fb_end(fb);
    }
    const uint32_t all_tensors = fb_offsets(fb, (uint32_t)g->tensor_count, tensors);
    const uint32_t all_nodes = fb_offsets(fb, g->node_count, g->nodes);
    const uint32_t name = fb_text(fb, g->name);
    fb_begin(fb);
    fb_reference(fb, 0, name);
    fb_reference(fb, 4, all_tensors);
    fb_reference(fb, 5, all_nodes);
    fb_byte(fb, 1, FLOAT);
    fb_byte(fb, 2, FLOAT);
    fb_byte(fb, 3, g->io_type != 0 ? g->io_type : FLOAT);
    g->bytes.ptr = fb_finish(fb, fb_end(fb), &g->bytes.size);
}

/* relu(a + b), with the sum as a virtual tensor; the result may be one, too, which is bound all the same */
static inline void make_pointwise(graph* g, bool unmarked)
{
    const tensor* a = add_tensor(g, 2, 3, 4, 5);
    const tensor* b = add_tensor(g, 2, 3, 4, 5);
    tensor* sum = add_tensor(g, 2, 3, 4, 5);
    tensor* y = add_tensor(g, 2, 3, 4, 5);
    sum->is_virtual = true;
    y->is_output = true;
    y->is_virtual = unmarked;
    for (size_t i = 0; i < elements(y); i++) {
        y->values[i] = fmaxf(a->values[i] + b->values[i], 0.0f);
    }
    add_pointwise(g, ADD, a, b, sum);
    add_pointwise(g, RELU_FWD, sum, NULL, y);
    finish(g);
}

/* A 3x3 convolution with zero padding, optionally with a bias */
static inline void make_convolution(graph* g, bool biased)
{
    enum { N = 2, C = 3, K = 4, H = 6, W = 5 };
    const tensor* x = add_tensor(g, N, C, H, W);
    const tensor* w = add_tensor(g, K, C, 3, 3);
    const tensor* bias = biased ? add_tensor(g, 1, K, 1, 1) : NULL;
    tensor* product = biased ? add_tensor(g, N, K, H, W) : NULL;
    tensor* y = add_tensor(g, N, K, H, W);
    y->is_output = true;
    for (int i = 0; i < N * K * H * W; i++) {
        const int n = i / (K * H * W), k = i / (H * W) % K, row = i / W % H, column = i % W;
        float sum = biased ? bias->values[k] : 0.0f;
        for (int j = 0; j < C * 9; j++) {
            const int c = j / 9, h = row + j / 3 % 3 - 1, v = column + j % 3 - 1;
            if (h >= 0 && h < H && v >= 0 && v < W) {
                sum += x->values[((n * C + c) * H + h) * W + v] * w->values[k * C * 9 + j];
            }
        }
        y->values[i] = sum;
    }
    add_convolution(g, x, w, biased ? product : y, 1);
    if (biased) {
        product->is_virtual = true;
        add_pointwise(g, ADD, product, bias, y);
    }
    finish(g);
}

#endif
