/* SPDX-License-Identifier: MIT */

/*
 * Batch normalizations whose images are of 16 bits and whose parameters are float. Frontends of November 2025 give the channel
 * outputs the type of images; AMD's plugin of that time writes them as float all the same. In graphs of 2026 types mean what they say.
 *
 * Names: "gradients" or "statistics", then "-half" or "-bfloat", then "-2025" or "-2026".
 */
#ifndef PLUGIN_HOST_BATCHNORM_H
#define PLUGIN_HOST_BATCHNORM_H

#include "graphs.h"

enum { IMAGES = 4, CHANNELS = 3, SIDE = 4, PER_CHANNEL = IMAGES * SIDE * SIDE };

/* The place of an element of a channel in an image tensor. */
static inline int in_channel(int channel, int i)
{
    return (i / (SIDE * SIDE) * CHANNELS + channel) * SIDE * SIDE + i % (SIDE * SIDE);
}

static inline tensor* add_image(graph* g)
{
    tensor* t = add_tensor(g, IMAGES, CHANNELS, SIDE, SIDE);
    t->type = t->stored = g->io_type;
    return t;
}

static inline tensor* add_channels(graph* g) { return add_tensor(g, 1, CHANNELS, 1, 1); }

/* A channel output whose type was not set. */
static inline tensor* add_unset(graph* g)
{
    tensor* t = add_channels(g);
    t->is_output = true;
    t->type = g->io_type;
    t->stored = g->is_earlier ? FLOAT : g->io_type;
    return t;
}

static inline tensor* add_number(graph* g, float value)
{
    tensor* t = add_tensor(g, 1, 1, 1, 1);
    t->values[0] = value;
    t->is_scalar = true;
    return t;
}

/* A node with the tensors of its fields, NULL for none, and no peers in the field for these. */
static inline void add_normalization(graph* g, int kind, int count, const tensor* const* fields, int of_peers)
{
    flatbuffer* fb = &g->builder;
    const uint32_t peers = fb_longs(fb, 0, NULL);
    fb_begin(fb);
    for (int i = 0; i < count; i++) {
        if (fields[i] != NULL) {
            fb_long(fb, i, fields[i]->uid);
        }
    }
    fb_reference(fb, of_peers, peers);
    add_node(g, kind, fb_end(fb));
}

static inline void make_gradients(graph* g)
{
    const tensor *dy = add_image(g), *x = add_image(g);
    tensor *mean = add_channels(g), *inverse = add_channels(g), *scale = add_channels(g), *dx = add_image(g);
    tensor *dscale = add_unset(g), *dbias = add_unset(g);
    dx->is_output = true;
    for (int c = 0; c < CHANNELS; c++) {
        inverse->values[c] = 1.5f + 0.25f * (float)c;
        scale->values[c] = 0.5f + 0.25f * (float)c;
        float bias_sum = 0.0f, scale_sum = 0.0f;
        for (int i = 0; i < PER_CHANNEL; i++) {
            const int at = in_channel(c, i);
            const float normal = (x->values[at] - mean->values[c]) * inverse->values[c];
            bias_sum += dy->values[at];
            scale_sum += dy->values[at] * normal;
        }
        dbias->values[c] = bias_sum;
        dscale->values[c] = scale_sum;
        for (int i = 0; i < PER_CHANNEL; i++) {
            const int at = in_channel(c, i);
            const float normal = (x->values[at] - mean->values[c]) * inverse->values[c];
            const float rest = dy->values[at] - (bias_sum + normal * scale_sum) / PER_CHANNEL;
            dx->values[at] = scale->values[c] * inverse->values[c] * rest;
        }
    }
    const tensor* fields[] = {dy, x, mean, inverse, scale, NULL, dx, dscale, dbias};
    add_normalization(g, BATCHNORM_BACKWARD, 9, fields, 5);
}

static inline void make_statistics(graph* g)
{
    const float epsilon = 0.125f, momentum = 0.25f;
    const tensor *x = add_image(g), *scale = add_channels(g), *bias = add_channels(g);
    const tensor* of_epsilon = add_number(g, epsilon);
    tensor *before_mean = add_channels(g), *before_variance = add_channels(g);
    const tensor* of_momentum = add_number(g, momentum);
    tensor* y = add_image(g);
    tensor *mean = add_unset(g), *inverse = add_unset(g), *next_mean = add_unset(g), *next_variance = add_unset(g);
    y->is_output = true;
    for (int c = 0; c < CHANNELS; c++) {
        before_variance->values[c] = 1.0f + (float)c;
        float sum = 0.0f, squares = 0.0f;
        for (int i = 0; i < PER_CHANNEL; i++) {
            sum += x->values[in_channel(c, i)];
        }
        const float m = sum / PER_CHANNEL;
        for (int i = 0; i < PER_CHANNEL; i++) {
            const float distance = x->values[in_channel(c, i)] - m;
            squares += distance * distance;
        }
        mean->values[c] = m;
        inverse->values[c] = 1.0f / sqrtf(squares / PER_CHANNEL + epsilon);
        next_mean->values[c] = (1.0f - momentum) * before_mean->values[c] + momentum * m;
        next_variance->values[c] =
            (1.0f - momentum) * before_variance->values[c] + momentum * squares / (PER_CHANNEL - 1);
        for (int i = 0; i < PER_CHANNEL; i++) {
            const int at = in_channel(c, i);
            y->values[at] = (x->values[at] - m) * inverse->values[c] * scale->values[c] + bias->values[c];
        }
    }
    const tensor* fields[] = {x,           scale, bias, of_epsilon, NULL,      before_mean,  before_variance,
                              of_momentum, y,     mean, inverse,    next_mean, next_variance};
    add_normalization(g, BATCHNORM, 13, fields, 4);
}

/* Makes the graph of this name; returns false if no graph has it. */
static inline bool make_batchnorm(graph* g, const char* name)
{
    char kind[16] = "", type[16] = "";
    int year = 0;
    if (sscanf(name, "%15[a-z]-%15[a-z]-%d", kind, type, &year) != 3) {
        return false;
    }
    g->is_earlier = year == 2025;
    g->io_type = strcmp(type, "half") == 0 ? HALF : BFLOAT16;
    if (strcmp(kind, "gradients") == 0) {
        make_gradients(g);
    } else {
        make_statistics(g);
    }
    finish(g);
    return true;
}

#endif
