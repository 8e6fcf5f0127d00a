/* SPDX-License-Identifier: MIT */

/*
 * Writes FlatBuffers bytes, for the C tests and the plugins that they load.
 *
 * A buffer is filled from its end, so that whatever a table refers to is there before the table. A position is counted
 * from the end of the buffer.
 */
#ifndef FLATBUFFER_WRITER_H
#define FLATBUFFER_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FB_SIZE = 1 << 20, FB_FIELDS = 16 };

typedef struct {
    unsigned char bytes[FB_SIZE];
    uint32_t used;
    uint32_t fields[FB_FIELDS];
    int field_count;
    uint32_t table_end;
} flatbuffer;

static inline unsigned char* fb_at(flatbuffer* fb, uint32_t position) { return fb->bytes + FB_SIZE - position; }

/* Pads so that something is aligned that is written after `before` more bytes. */
static inline void fb_align(flatbuffer* fb, uint32_t alignment, uint32_t before)
{
    while ((fb->used + before) % alignment != 0) {
        *fb_at(fb, ++fb->used) = 0;
    }
}

static inline uint32_t fb_put(flatbuffer* fb, const void* value, uint32_t size)
{
    if (fb->used + size + 64 >= FB_SIZE) {
        abort();
    }
    fb->used += size;
    memcpy(fb_at(fb, fb->used), value, size);
    return fb->used;
}

static inline uint32_t fb_put_u32(flatbuffer* fb, uint32_t value) { return fb_put(fb, &value, sizeof value); }

static inline uint32_t fb_put_offset(flatbuffer* fb, uint32_t target) { return fb_put_u32(fb, fb->used + 4 - target); }

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

static inline void fb_int(flatbuffer* fb, int index, int32_t value)
{
    fb_align(fb, 4, 0);
    fb_note(fb, index, fb_put(fb, &value, 4));
}

static inline void fb_double(flatbuffer* fb, int index, double value)
{
    fb_align(fb, 8, 0);
    fb_note(fb, index, fb_put(fb, &value, 8));
}

static inline uint32_t fb_ints(flatbuffer* fb, uint32_t count, const int32_t* values)
{
    fb_align(fb, 4, 0);
    fb_put(fb, values, count * 4);
    return fb_put_u32(fb, count);
}

#endif
