/* SPDX-License-Identifier: MIT */

/* For tests of knobs: a graph with a plugin of its own. */
#ifndef ONE_GRAPH_H
#define ONE_GRAPH_H

#include "host.h"

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;

static void start(const char* plugin)
{
    check_about("%s", plugin);
    use_plugin(plugin);
    handle = make_handle();
    graph = make_graph(handle);
}

static void stop(void)
{
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

#endif
