/* SPDX-License-Identifier: MIT */

/*
 * Writes graphs as FlatBuffers bytes, for the C tests: well formed ones of both generations, and ones that are well formed
 * and make no sense.
 *
 * A buffer is filled from its end, so that whatever a table refers to is there before the table. A position is counted
 * from the end of the buffer.
 */
#ifndef FLATBUFFER_H
#define FLATBUFFER_H

#include "check.h"

enum { FB_SIZE = 1 << 20, FB_FIELDS = 16 };

typedef struct {
    unsigned char bytes[FB_SIZE];
    uint32_t used;
    uint32_t fields[FB_FIELDS];
    int field_count;
    uint32_t table_end;
} flatbuffer;

static inline unsigned char* fb_at(flatbuffer* fb, uint32_t position)
{
    return fb->bytes + FB_SIZE - position;
}

/* Pads so that something is aligned that is written after `before` more bytes. */
static inline void fb_align(flatbuffer* fb, uint32_t alignment, uint32_t before)
{
    while ((fb->used + before) % alignment != 0) {
        *fb_at(fb, ++fb->used) = 0;
    }
}

static inline uint32_t fb_put(flatbuffer* fb, const void* value, uint32_t size)
{
    REQUIRE(fb->used + size + 64 < FB_SIZE);
    fb->used += size;
    memcpy(fb_at(fb, fb->used), value, size);
    return fb->used;
}

static inline uint32_t fb_put_u32(flatbuffer* fb, uint32_t value)
{
    return fb_put(fb, &value, sizeof value);
}

static inline uint32_t fb_put_offset(flatbuffer* fb, uint32_t target)
{
    return fb_put_u32(fb, fb->used + 4 - target);
}

static inline uint32_t fb_longs(flatbuffer* fb, uint32_t count, const int64_t* values)
{
    fb_align(fb, 8, count * 8);
    fb_put(fb, values, count * 8);
    return fb_put_u32(fb, count);
}

static inline uint32_t fb_offsets(flatbuffer* fb, uint32_t count, const uint32_t* targets)
{
    fb_align(fb, 4, 0);
    for (uint32_t i = count; i > 0; i--) {
        fb_put_offset(fb, targets[i - 1]);
    }
    return fb_put_u32(fb, count);
}

static inline uint32_t fb_text(flatbuffer* fb, const char* text)
{
    const uint32_t length = (uint32_t)strlen(text);
    fb_align(fb, 4, length + 1);
    fb_put(fb, text, length + 1);
    return fb_put_u32(fb, length);
}

static inline void fb_begin(flatbuffer* fb)
{
    memset(fb->fields, 0, sizeof fb->fields);
    fb->field_count = 0;
    fb->table_end = fb->used;
}

static inline void fb_note(flatbuffer* fb, int index, uint32_t position)
{
    fb->fields[index] = position;
    fb->field_count = index >= fb->field_count ? index + 1 : fb->field_count;
}

static inline void fb_long(flatbuffer* fb, int index, int64_t value)
{
    fb_align(fb, 8, 0);
    fb_note(fb, index, fb_put(fb, &value, 8));
}

static inline void fb_byte(flatbuffer* fb, int index, int value)
{
    const unsigned char byte = (unsigned char)value;
    fb_note(fb, index, fb_put(fb, &byte, 1));
}

static inline void fb_reference(flatbuffer* fb, int index, uint32_t target)
{
    fb_align(fb, 4, 0);
    fb_note(fb, index, fb_put_offset(fb, target));
}

static inline uint32_t fb_end(flatbuffer* fb)
{
    fb_align(fb, 4, 0);
    const uint32_t table = fb_put_u32(fb, 0);
    for (int i = fb->field_count; i > 0; i--) {
        const uint16_t offset = (uint16_t)(fb->fields[i - 1] == 0 ? 0 : table - fb->fields[i - 1]);
        fb_put(fb, &offset, 2);
    }
    const uint16_t table_bytes = (uint16_t)(table - fb->table_end);
    const uint16_t vtable_bytes = (uint16_t)(4 + 2 * fb->field_count);
    fb_put(fb, &table_bytes, 2);
    fb_put(fb, &vtable_bytes, 2);
    const int32_t distance = (int32_t)(fb->used - table);
    memcpy(fb_at(fb, table), &distance, 4);
    return table;
}

/* The finished bytes and, in `size`, their number. */
static inline const unsigned char* fb_finish(flatbuffer* fb, uint32_t root, size_t* size)
{
    fb_align(fb, 8, 4);
    fb_put_offset(fb, root);
    *size = fb->used;
    return fb_at(fb, fb->used);
}

/* Graphs */

typedef struct {
    bool newer;          /* the layout of 2026 */
    int operation;       /* number of the kind of operation; 5 is a convolution forward */
    bool payload;        /* the node has its operation's table */
    int64_t y_uid;       /* what the convolution writes */
    int copies_of_node;  /* how often the node is in the list */
    bool with_w;         /* the filter is among the tensors */
    int64_t padding_count; /* of the paddings' two elements */
} graph_shape;

static inline graph_shape plain_graph(bool newer)
{
    graph_shape shape = {newer, 5, true, 4, 1, true, 2};
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

/* The convolution of fixture.h: tensors 1 and 2 to 4. */
static inline const unsigned char* write_graph(flatbuffer* fb, const graph_shape* shape, size_t* size)
{
    enum { MOST_NODES = 100000 };
    static const int64_t x_dims[] = {1, 2, 4, 4};
    static const int64_t w_dims[] = {2, 2, 3, 3};
    static const int64_t ones[] = {1, 1};
    static uint32_t nodes[MOST_NODES];
    REQUIRE(shape->copies_of_node <= MOST_NODES);
    fb->used = 0;
    const uint32_t tensors[] = {fb_tensor(fb, 1, x_dims), fb_tensor(fb, 4, x_dims), fb_tensor(fb, 2, w_dims)};
    const uint32_t tensor_list = fb_offsets(fb, shape->with_w ? 3 : 2, tensors);
    const uint32_t vector = fb_longs(fb, (uint32_t)shape->padding_count, ones);
    fb_begin(fb);
    fb_long(fb, 0, 1);
    fb_long(fb, 1, 2);
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
