/* SPDX-License-Identifier: MIT */

/*
 * Writes graphs as FlatBuffers bytes, for the C tests: valid ones of both generations, and well-formed ones that make no sense.
 */
#ifndef FLATBUFFER_H
#define FLATBUFFER_H

#include "check.h"
#include "flatbuffer_writer.h"

/* As in fixture.h */
#ifndef UID_FIRST
#define UID_FIRST 1
#endif

typedef struct {
    bool newer;            /* the layout of 2026 */
    int operation;         /* number of the kind of operation; 5 is a convolution forward */
    bool payload;          /* the node has its operation's table */
    int64_t y_uid;         /* what the convolution writes */
    int copies_of_node;    /* how often the node is in the list */
    bool with_w;           /* the filter is among the tensors */
    int64_t padding_count; /* of the paddings' two elements */
} graph_shape;

static inline graph_shape plain_graph(bool newer)
{
    graph_shape shape = {newer, 5, true, UID_FIRST + 3, 1, true, 2};
    return shape;
}

static inline uint32_t fb_tensor(flatbuffer* fb, int64_t uid, const int64_t dims[4])
{
    const int64_t strides[] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    const uint32_t name = fb_text(fb, "tensor");
    const uint32_t strides_at = fb_longs(fb, 4, strides);
    const uint32_t dims_at = fb_longs(fb, 4, dims);
    fb_begin(fb);
    fb_long(fb, 0, uid);
    fb_reference(fb, 1, name);
    fb_byte(fb, 2, 1);
    fb_reference(fb, 3, strides_at);
    fb_reference(fb, 4, dims_at);
    fb_byte(fb, 5, 0);
    return fb_end(fb);
}

/* The convolution of fixture.h: its tensors x and w to y. */
static inline const unsigned char* write_graph(flatbuffer* fb, const graph_shape* shape, size_t* size)
{
    enum { MOST_NODES = 100000 };
    static const int64_t x_dims[] = {1, 2, 4, 4};
    static const int64_t w_dims[] = {2, 2, 3, 3};
    static const int64_t ones[] = {1, 1};
    static uint32_t nodes[MOST_NODES];
    REQUIRE(shape->copies_of_node <= MOST_NODES);
    fb->used = 0;
    const uint32_t tensors[] = {fb_tensor(fb, UID_FIRST, x_dims), fb_tensor(fb, UID_FIRST + 3, x_dims),
                                fb_tensor(fb, UID_FIRST + 1, w_dims)};
    const uint32_t tensor_list = fb_offsets(fb, shape->with_w ? 3 : 2, tensors);
    const uint32_t vector = fb_longs(fb, (uint32_t)shape->padding_count, ones);
    fb_begin(fb);
    fb_long(fb, 0, UID_FIRST);
    fb_long(fb, 1, UID_FIRST + 1);
    fb_long(fb, 2, shape->y_uid);
    for (int i = 3; i <= 6; i++) {
        fb_reference(fb, i, vector);
    }
    fb_byte(fb, 7, 2);
    const uint32_t convolution = fb_end(fb);
    const uint32_t name = fb_text(fb, "node");
    const int kind_at = shape->newer ? 2 : 1;
    fb_begin(fb);
    fb_reference(fb, 0, name);
    if (shape->newer) {
        fb_byte(fb, 1, 1);
    }
    fb_byte(fb, kind_at, shape->operation);
    if (shape->payload) {
        fb_reference(fb, kind_at + 1, convolution);
    }
    const uint32_t node = fb_end(fb);
    for (int i = 0; i < shape->copies_of_node; i++) {
        nodes[i] = node;
    }
    const uint32_t node_list = fb_offsets(fb, (uint32_t)shape->copies_of_node, nodes);
    fb_begin(fb);
    fb_byte(fb, 1, 1);
    fb_byte(fb, 2, 1);
    fb_byte(fb, 3, 1);
    fb_reference(fb, 4, tensor_list);
    fb_reference(fb, 5, node_list);
    return fb_finish(fb, fb_end(fb), size);
}

#endif
