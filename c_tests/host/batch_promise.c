/* SPDX-License-Identifier: MIT */

/* HIPDNN_BATCH_INVARIANT=1 and engines without the knob: one is left out unless it says that its results do not depend on the
 * batch. */
#include "host.h"

static void test_plugin(const char* plugin, int64_t expected, const char* why)
{
    check_about("%s", plugin);
    use_plugin(plugin);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    if (why != NULL) {
        CHECK_LAST_ERROR(why);
    }
    CHECK_EQ(count_results(heuristic), expected);
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* What an engine failed to say once is asked again for the next equal graph: it fails the first time alone. */
static void test_asked_again(void)
{
    check_about("asked again");
    use_plugin("notes_fail_first");
    hipdnnHandle_t handle = make_handle();
    for (int64_t expected = 1; expected <= 2; ++expected) {
        hipdnnBackendDescriptor_t graph = make_graph(handle);
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        CHECK_OK(hipdnnBackendFinalize(heuristic));
        CHECK_EQ(count_results(heuristic), expected);
        drop(heuristic);
        drop(graph);
    }
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    setenv("HIPDNN_BATCH_INVARIANT", "1", 1);
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    /* Two engines, whose notes are others. */
    test_plugin("notes", 2, NULL);
    const char* const no_knob = "it has no knob \"batch_invariant\", which HIPDNN_BATCH_INVARIANT=1 asks for";
    test_plugin("notes_not_applicable", 0, no_knob);
    test_plugin("good", 0, no_knob);
    /* An engine that fails when it is asked is left out alone. */
    test_plugin("notes_fail_first", 1, NULL);
    test_asked_again();
    test_plugin("notes_fail", 0, "it does not say whether it keeps the promise of HIPDNN_BATCH_INVARIANT=1: ");
    return check_result();
}
