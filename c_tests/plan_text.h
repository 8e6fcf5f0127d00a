/* SPDX-License-Identifier: MIT */

/* A plan as JSON, for the C tests. */
#ifndef PLAN_TEXT_H
#define PLAN_TEXT_H

#include "fixture.h"

static inline hipdnnStatus_t read_plan_text(hipdnnBackendDescriptor_t plan, int64_t room, int64_t* count, char* text)
{
    return hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, HIPDNN_TYPE_CHAR, room,
                                     count, text);
}

/* A graph that has a name. */
static inline hipdnnBackendDescriptor_t make_named_graph(hipdnnHandle_t handle, const char* name)
{
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, (int64_t)strlen(name), name);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    return graph;
}

/* The text, in two calls; the caller frees it. */
static inline char* plan_text(hipdnnBackendDescriptor_t plan)
{
    int64_t size = 0;
    int64_t again = 0;
    REQUIRE_OK(read_plan_text(plan, 0, &size, NULL));
    char* const text = malloc((size_t)size);
    REQUIRE(size > 0 && text != NULL);
    REQUIRE_OK(read_plan_text(plan, size, &again, text));
    CHECK_EQ(again, size);
    CHECK_EQ((long long)strlen(text), size - 1);
    return text;
}

#endif
