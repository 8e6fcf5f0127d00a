/* SPDX-License-Identifier: MIT */

/*
 * The stub plugin's log of what the host called: to the file that HIPDNN_STUB_LOG names.
 */

#include "stub.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void record(const char* format, ...)
{
    const char* path = getenv("HIPDNN_STUB_LOG");
    if (path == NULL) {
        return;
    }
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return;
    }
    if ((size_t)length > sizeof line - 2) {
        length = (int)sizeof line - 2;
    }
    line[length] = '\n';
    /* One write a line: lines of several threads do not mix. */
    FILE* file = fopen(path, "ab");
    if (file != NULL) {
        fwrite(line, 1, (size_t)length + 1, file);
        fclose(file);
    }
}

/* Where an offset in a FlatBuffer points. The host's bytes are well formed. */
static const unsigned char* follow(const unsigned char* at)
{
    uint32_t offset;
    memcpy(&offset, at, sizeof offset);
    return at + offset;
}

/* The field in a slot of a table, or null. */
static const unsigned char* field(const unsigned char* table, unsigned slot)
{
    int32_t back;
    uint16_t size, offset;
    memcpy(&back, table, sizeof back);
    const unsigned char* slots = table - back;
    memcpy(&size, slots, sizeof size);
    if (slot + 2 > size) {
        return NULL;
    }
    memcpy(&offset, slots + slot, sizeof offset);
    return offset == 0 ? NULL : table + offset;
}

const char* describe_graph(const hipdnnPluginConstData_t* graph, char* text, size_t room)
{
    if (graph == NULL || graph->ptr == NULL || graph->size < 8) {
        snprintf(text, room, "none");
        return text;
    }
    const unsigned char* root = follow(graph->ptr);
    const unsigned char *tensors = field(root, 12), *nodes = field(root, 14);
    uint32_t tensor_count = 0, count = 0;
    if (tensors != NULL) {
        memcpy(&tensor_count, follow(tensors), sizeof tensor_count);
    }
    if (nodes != NULL) {
        nodes = follow(nodes);
        memcpy(&count, nodes, sizeof count);
    }
    /* A node of 2026 has its operation's table in slot 10, one of November 2025 has no such slot. */
    int newer = count == 0 || field(follow(nodes + 4), 10) != NULL;
    int length = snprintf(text, room, "%s tensors=%" PRIu32 " operations=[", newer ? "G2" : "G1", tensor_count);
    for (uint32_t i = 0; i < count && length > 0 && (size_t)length < room; i++) {
        const unsigned char* operation = field(follow(nodes + 4 + 4 * (size_t)i), newer ? 8 : 6);
        int number = operation == NULL ? 0 : *operation;
        length += snprintf(text + length, room - (size_t)length, "%s%d", i == 0 ? "" : ",", number);
    }
    if (length > 0 && (size_t)length < room) {
        snprintf(text + length, room - (size_t)length, "]");
    }
    return text;
}

int64_t chosen(const hipdnnPluginConstData_t* config)
{
    int64_t id = 0;
    if (config != NULL && config->ptr != NULL && config->size >= 8) {
        const unsigned char* at = field(follow(config->ptr), 4);
        if (at != NULL) {
            memcpy(&id, at, sizeof id);
        }
    }
    return id;
}

const char* describe_knobs(const hipdnnPluginConstData_t* config, char* text, size_t room)
{
    text[0] = '\0';
    if (config == NULL || config->ptr == NULL || config->size < 8) {
        return text;
    }
    const unsigned char* list = field(follow(config->ptr), 6);
    if (list == NULL) {
        return text;
    }
    uint32_t count;
    list = follow(list);
    memcpy(&count, list, sizeof count);
    int length = snprintf(text, room, " knobs=[");
    for (uint32_t i = 0; i < count && length > 0 && (size_t)length < room; i++) {
        const unsigned char* knob = follow(list + 4 + 4 * (size_t)i);
        const unsigned char *id = field(knob, 4), *kind = field(knob, 6), *value = field(knob, 8);
        const unsigned char* at = value == NULL ? NULL : field(follow(value), 4);
        char said[256] = "nothing";
        if (kind != NULL && at != NULL) {
            int64_t number;
            double fraction;
            if (*kind == 1) {
                memcpy(&number, at, sizeof number);
                snprintf(said, sizeof said, "%" PRId64, number);
            } else if (*kind == 2) {
                memcpy(&fraction, at, sizeof fraction);
                snprintf(said, sizeof said, "%g", fraction);
            } else {
                snprintf(said, sizeof said, "%.200s", (const char*)follow(at) + 4);
            }
        }
        const char* name = id == NULL ? "" : (const char*)follow(id) + 4;
        length += snprintf(text + length, room - (size_t)length, "%s%s=%s", i == 0 ? "" : ",", name, said);
    }
    if (length > 0 && (size_t)length < room) {
        snprintf(text + length, room - (size_t)length, "]");
    }
    return text;
}
