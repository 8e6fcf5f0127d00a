/* SPDX-License-Identifier: MIT */

/*
 * Reads FlatBuffers bytes, such as graphs, in plain C. A plugin in C++ may use code of the FlatBuffers compiler instead:
 *
 *     flatc --cpp $(pkg-config --variable=schema hipdnn_backend)
 *
 * The format, as far as a reader needs it. All numbers are little-endian, as on every processor this library runs on.
 *
 *   - The first four bytes are the offset of the root table, from their own position.
 *   - A table begins with a signed number: the distance back to its list of slots. The list consists of two-byte numbers: its own size,
 *     the size of the table, and then for each field of the schema, in order, its offset in the table, or 0 for an absent one.
 *   - A number is stored in the table itself. A table, text or vector is stored elsewhere; the table has the offset from there.
 *   - A vector begins with the number of its elements. A text is a vector of bytes.
 *   - A union has two fields: which of its tables it is, and the table.
 *
 * Never reads outside of the bytes, whatever they are: malformed data counts as absent.
 */
#ifndef GRAPH_READER_H
#define GRAPH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A table; an absent one has no bytes. */
typedef struct {
    const unsigned char* bytes;
    size_t size;
    /* Where it begins, where its list of slots begins, and the size of that in bytes. */
    size_t at;
    size_t slots;
    size_t slots_size;
} fb_table;

/* A vector; an absent one is empty. */
typedef struct {
    const unsigned char* bytes;
    size_t size;
    /* The position of its first element. */
    size_t at;
    size_t count;
} fb_vector;

/* Copies a number from the bytes; false if it would end beyond them. */
static inline bool fb_read(const unsigned char* bytes, size_t size, size_t at, void* number, size_t length)
{
    if (at > size || size - at < length)
        return false;
    memcpy(number, bytes + at, length);
    return true;
}

static inline fb_table fb_table_at(const unsigned char* bytes, size_t size, size_t at)
{
    const fb_table absent = {NULL, 0, 0, 0, 0};
    int32_t back = 0;
    uint16_t slots_size = 0;
    if (!fb_read(bytes, size, at, &back, sizeof back))
        return absent;
    const int64_t slots = (int64_t)at - back;
    if (slots < 0 || !fb_read(bytes, size, (size_t)slots, &slots_size, sizeof slots_size))
        return absent;
    if (size - (size_t)slots < slots_size)
        return absent;
    const fb_table table = {bytes, size, at, (size_t)slots, slots_size};
    return table;
}

/* The root table. */
static inline fb_table fb_root(const void* bytes, size_t size)
{
    uint32_t offset = 0;
    if (bytes == NULL || !fb_read(bytes, size, 0, &offset, sizeof offset))
        return fb_table_at(NULL, 0, 0);
    return fb_table_at(bytes, size, offset);
}

static inline bool fb_is_there(fb_table table) { return table.bytes != NULL; }

/* Copies field number `field`, counted from 0, of a table; returns false and leaves the number unchanged if it is absent. */
static inline bool fb_field(fb_table table, unsigned field, void* number, size_t length)
{
    const size_t slot = 4 + 2 * (size_t)field;
    uint16_t offset = 0;
    if (!fb_is_there(table) || slot + sizeof offset > table.slots_size)
        return false;
    if (!fb_read(table.bytes, table.size, table.slots + slot, &offset, sizeof offset) || offset == 0)
        return false;
    return fb_read(table.bytes, table.size, table.at + offset, number, length);
}

/* The position of what a field refers to. */
static inline bool fb_target(fb_table table, unsigned field, size_t* at)
{
    uint16_t place = 0;
    uint32_t offset = 0;
    if (!fb_field(table, field, &offset, sizeof offset))
        return false;
    memcpy(&place, table.bytes + table.slots + 4 + 2 * (size_t)field, sizeof place);
    *at = table.at + place + offset;
    return true;
}

static inline int64_t fb_int64(fb_table table, unsigned field, int64_t fallback)
{
    int64_t value = fallback;
    (void)fb_field(table, field, &value, sizeof value);
    return value;
}

/* Enumerations, flags, and which of its tables a union is. */
static inline uint8_t fb_uint8(fb_table table, unsigned field, uint8_t fallback)
{
    uint8_t value = fallback;
    (void)fb_field(table, field, &value, sizeof value);
    return value;
}

static inline float fb_float(fb_table table, unsigned field, float fallback)
{
    float value = fallback;
    (void)fb_field(table, field, &value, sizeof value);
    return value;
}

static inline fb_table fb_child(fb_table table, unsigned field)
{
    size_t at = 0;
    if (!fb_target(table, field, &at))
        return fb_table_at(NULL, 0, 0);
    return fb_table_at(table.bytes, table.size, at);
}

/* A vector whose elements have this many bytes each: 8 for integers, 4 for tables. */
static inline fb_vector fb_elements(fb_table table, unsigned field, size_t element)
{
    fb_vector vector = {NULL, 0, 0, 0};
    size_t at = 0;
    uint32_t count = 0;
    if (!fb_target(table, field, &at) || !fb_read(table.bytes, table.size, at, &count, sizeof count))
        return vector;
    at += sizeof count;
    if (count > (table.size - at) / element)
        return vector;
    vector.bytes = table.bytes;
    vector.size = table.size;
    vector.at = at;
    vector.count = count;
    return vector;
}

/* An element of a vector of 64-bit integers; 0 beyond its end. */
static inline int64_t fb_element_int64(fb_vector vector, size_t index)
{
    int64_t value = 0;
    if (index < vector.count)
        memcpy(&value, vector.bytes + vector.at + index * sizeof value, sizeof value);
    return value;
}

/* An element of a vector of tables. */
static inline fb_table fb_element_table(fb_vector vector, size_t index)
{
    uint32_t offset = 0;
    if (index >= vector.count)
        return fb_table_at(NULL, 0, 0);
    const size_t at = vector.at + index * sizeof offset;
    memcpy(&offset, vector.bytes + at, sizeof offset);
    return fb_table_at(vector.bytes, vector.size, at + offset);
}

#endif
