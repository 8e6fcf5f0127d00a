/* SPDX-License-Identifier: MIT */

/* The reader of the C example plugin: reads graphs correctly, and never out of bounds, whatever the bytes are. */

/* mmap of memory without a file. */
#define _DEFAULT_SOURCE

#include "../../examples_c/plugin/graph_reader.h"
#include "../flatbuffer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Adds up all that is in a graph, as far as it can be read. */
static int64_t walk(const void* bytes, size_t size)
{
    int64_t sum = 0;
    const fb_table graph = fb_root(bytes, size);
    const fb_vector tensors = fb_elements(graph, 4, 4);
    for (size_t i = 0; i < tensors.count && i < 64; ++i) {
        const fb_table tensor = fb_element_table(tensors, i);
        const fb_vector dims = fb_elements(tensor, 4, 8);
        sum += fb_int64(tensor, 0, 0) + fb_uint8(tensor, 2, 0);
        for (size_t d = 0; d < dims.count && d < 64; ++d)
            sum ^= fb_element_int64(dims, d);
    }
    const fb_vector nodes = fb_elements(graph, 5, 4);
    for (size_t i = 0; i < nodes.count && i < 64; ++i) {
        const fb_table node = fb_element_table(nodes, i);
        const fb_vector padding = fb_elements(fb_child(node, 3), 3, 8);
        sum ^= fb_uint8(node, 2, 0) + fb_int64(fb_child(node, 3), 2, 0) + (int64_t)(fb_float(node, 1, 1.0F) > 0.0F);
        for (size_t d = 0; d < padding.count && d < 64; ++d)
            sum ^= fb_element_int64(padding, d);
    }
    return sum;
}

int main(void)
{
    static flatbuffer fb;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const graph_shape shape = plain_graph(true);
    size_t size = 0;
    const unsigned char* const whole = write_graph(&fb, &shape, &size);
    REQUIRE(size <= page);

    const fb_table graph = fb_root(whole, size);
    const fb_vector tensors = fb_elements(graph, 4, 4);
    const fb_table node = fb_element_table(fb_elements(graph, 5, 4), 0);
    CHECK(tensors.count == 3);
    const fb_table w = fb_element_table(tensors, 2);
    CHECK(fb_int64(w, 0, 0) == UID_FIRST + 1);
    CHECK(fb_uint8(w, 2, 0) == 1);
    const fb_vector dims = fb_elements(w, 4, 8);
    CHECK(dims.count == 4);
    CHECK(fb_element_int64(dims, 0) == 2 && fb_element_int64(dims, 2) == 3 && fb_element_int64(dims, 4) == 0);
    CHECK(fb_uint8(node, 2, 0) == 5);
    CHECK(fb_int64(fb_child(node, 3), 2, 0) == shape.y_uid);
    CHECK(!fb_is_there(fb_element_table(tensors, 3)) && !fb_is_there(fb_child(w, 9)) && fb_int64(w, 1000, 7) == 7);
    CHECK(!fb_is_there(fb_root(NULL, 0)));

    /* Bytes between guard pages. */
    unsigned char* const pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED && mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0);
    int64_t sum = 0;
    for (size_t length = 0; length <= size; ++length) {
        unsigned char* const at_end = pages + 2 * page - length;
        memcpy(at_end, whole, length);
        sum ^= walk(at_end, length);
    }
    static const unsigned char values[] = {0x00, 0x01, 0x04, 0x7f, 0x80, 0xff};
    for (size_t start = 0; start < 2; ++start) {
        unsigned char* const bytes = start == 0 ? pages + page : pages + 2 * page - size;
        memcpy(bytes, whole, size);
        for (size_t at = 0; at < size; ++at) {
            for (size_t value = 0; value < sizeof values; ++value) {
                const size_t run = size - at < 4 ? size - at : 4;
                bytes[at] = values[value];
                sum ^= walk(bytes, size);
                memset(bytes + at, values[value], run);
                sum ^= walk(bytes, size);
                memcpy(bytes + at, whole + at, run);
            }
        }
    }
    printf("%zu bytes, each damaged, checksum %lld\n", size, (long long)sum);
    return check_result();
}
