/* SPDX-License-Identifier: MIT */

/* HIPDNN_BATCH_INVARIANT=1 and engines without the knob: one is left out unless it says that its results do not depend on the
 * batch. */
#include "host.h"

static void test_plugin(const char* plugin, int64_t expected)
{
    check_about("%s", plugin);
    use_plugin(plugin);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    if (expected == 0) {
        CHECK_LAST_ERROR("it has no knob \"batch_invariant\", which HIPDNN_BATCH_INVARIANT=1 asks for");
    }
    CHECK_EQ(count_results(heuristic), expected);
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    setenv("HIPDNN_BATCH_INVARIANT", "1", 1);
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    /* Two engines, whose notes are others. */
    test_plugin("notes", 2);
    test_plugin("notes_not_applicable", 0);
    test_plugin("good", 0);
    return check_result();
}
