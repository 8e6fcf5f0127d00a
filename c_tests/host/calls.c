/* SPDX-License-Identifier: MIT */

/* The arguments and number of plugin calls, and the order of destruction. The test plugins record every call. */
#include "host.h"

#include <inttypes.h>

static void expect_recorded(int times, const char* part)
{
    const int found = count_in(recorded(), part);
    CHECK_EQ(found, times);
    if (found != times) {
        fprintf(stderr, "  \"%s\" in\n%s\n", part, recorded());
    }
}

/* The graph goes out in the layout of the plugin's generation. */
static void test_layout(const char* plugin, const char* layout)
{
    char line[128];
    check_about("%s gets %s", plugin, layout);
    use_plugin(plugin);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    /* One convolution forward, number 5, of three tensors */
    const char* const calls[] = {"GetApplicableEngineIds", "GetEngineDetails", "GetWorkspaceSize",
                                 "CreateExecutionContext"};
    for (int64_t i = 0; i < COUNT(calls); i++) {
        snprintf(line, sizeof line, "\n%s handle=1", calls[i]);
        CHECK_CONTAINS(recorded(), line);
    }
    snprintf(line, sizeof line, "graph=%s tensors=3 operations=[5]", layout);
    CHECK(count_in(recorded(), line) >= 4);
    CHECK_EQ(count_in(recorded(), "graph="), count_in(recorded(), line));
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A graph that the older generation cannot express is not offered to its plugins, and the last error says so. */
static void test_not_expressible(void)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    check_about("not expressible");
    static const int tensors[] = {1900, 1901, 1902, 1903, 1904, 1905, 1906};
    hipdnnBackendDescriptor_t operation = make(HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT);
    for (int64_t i = 0; i < COUNT(tensors); i++) {
        hipdnnBackendDescriptor_t tensor = make_tensor(i + 1, i == 0 || i == 5 ? 2 : 1, i == 6 ? 1 : 3,
                                                       i == 0 || i == 5 ? 4 : 1, i == 0 || i == 5 ? 4 : 1, false);
        put_descriptor(operation, (hipdnnBackendAttributeName_t)tensors[i], tensor);
        drop(tensor);
    }
    put_float_type(operation, HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT);
    REQUIRE_OK(hipdnnBackendFinalize(operation));
    const char* const both[] = {"g1", "other_good"};
    for (int count = 1; count <= 2; count++) {
        use_plugins(count, both);
        start_recording();
        hipdnnHandle_t handle = make_handle();
        hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        put(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
        put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
        REQUIRE_OK(hipdnnBackendFinalize(graph));
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        check_forget_error();
        CHECK_OK(hipdnnBackendFinalize(heuristic));
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK_EQ(count_results(heuristic), count - 1);
        expect_recorded(0, "graph=G1");
        expect_recorded(count - 1, "graph=G2 tensors=7 operations=[8]");
        if (count == 1) {
            CHECK_CONTAINS(text, "2025");
        }
        drop(heuristic);
        drop(graph);
        CHECK_OK(hipdnnDestroy(handle));
    }
    drop(operation);
}

static void test_streams(void)
{
    char line[128];
    check_about("streams");
    const char* const both[] = {"good", "other_good"};
    use_plugins(2, both);
    start_recording();
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    /* A new handle has no stream, and plugins get no call for that. */
    expect_recorded(4, "\nCreate handle=");
    expect_recorded(0, "SetStream");
    hipStream_t stream = (hipStream_t)(uintptr_t)0x1230;
    CHECK_OK(hipdnnSetStream(second, stream));
    snprintf(line, sizeof line, "\nSetStream handle=2 stream=%d\n", 0x1230);
    expect_recorded(2, line);
    expect_recorded(2, "SetStream");
    CHECK_OK(hipdnnGetStream(second, &stream));
    CHECK(stream == (hipStream_t)(uintptr_t)0x1230);
    CHECK_OK(hipdnnGetStream(first, &stream));
    CHECK(stream == NULL);
    CHECK_OK(hipdnnDestroy(first));
    expect_recorded(2, "\nDestroy handle=1");
    CHECK_OK(hipdnnDestroy(second));
    expect_recorded(2, "\nDestroy handle=2");
}

/* The pack arrives as it was set, with the plugin handle of the handle that executes. */
static void test_execute(void)
{
    char line[512];
    check_about("execute");
    use_plugin("good");
    start_recording();
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(first);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    const int64_t uids[] = {UID_Y, 999, UID_X, UID_X};
    static _Alignas(64) char memory[256];
    void* const pointers[] = {memory, memory + 64, NULL, memory + 128};
    void* workspace = memory + 192;
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 4, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 4, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(first, plan, pack));
    CHECK_OK(hipdnnBackendExecute(second, plan, pack));
    for (int serial = 1; serial <= 2; serial++) {
        snprintf(line, sizeof line,
                 "\nExecuteOpGraph handle=%d context=1 workspace=%" PRIuPTR " count=4 buffers=[4:%" PRIuPTR
                 ",999:%" PRIuPTR ",1:0,1:%" PRIuPTR "]\n",
                 serial, (uintptr_t)workspace, (uintptr_t)pointers[0], (uintptr_t)pointers[1], (uintptr_t)pointers[3]);
        expect_recorded(1, line);
    }
    /* A misaligned pointer does not reach the plugin; one of a uid that the graph does not have is not checked. */
    void* const misaligned[] = {memory, memory + 65, NULL, memory + 130};
    hipdnnBackendDescriptor_t bad_pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(bad_pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 4, misaligned);
    put(bad_pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 4, uids);
    REQUIRE_OK(hipdnnBackendFinalize(bad_pack));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "aligned", hipdnnBackendExecute(first, plan, bad_pack));
    expect_recorded(2, "ExecuteOpGraph");
    drop(bad_pack);
    drop(pack);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(first));
    CHECK_OK(hipdnnDestroy(second));
}

/* The handle goes first, then the plan: the plugin sees the context end before its handle, each once. */
static void test_order_of_ends(void)
{
    check_about("order of ends");
    use_plugin("good");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    CHECK_OK(hipdnnDestroy(handle));
    expect_recorded(0, "\nDestroy handle=");
    drop(graph);
    drop(plan);
    expect_recorded(1, "\nDestroyExecutionContext handle=1 context=1\n");
    expect_recorded(1, "\nDestroy handle=1\n");
    const char* const context = strstr(recorded(), "\nDestroyExecutionContext");
    CHECK(context != NULL && strstr(context, "\nDestroy handle=1") != NULL);
    /* Every details buffer was given back. */
    CHECK(count_in(recorded(), "\nGetEngineDetails") > 0);
    CHECK_EQ(count_in(recorded(), "\nGetEngineDetails"), count_in(recorded(), "\nDestroyEngineDetails"));
}

/* A plan that cannot be finished leaves no context behind. */
static void test_failed_plan(void)
{
    check_about("failed plan");
    use_plugin("context_workspace_fails");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = open_plan(graph);
    for (int attempt = 1; attempt <= 3; attempt++) {
        CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "workspace size from execution context", hipdnnBackendFinalize(plan));
        expect_recorded(attempt, "\nCreateExecutionContext");
        expect_recorded(attempt, "\nDestroyExecutionContext");
    }
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* Details that cannot be used are given back all the same. */
static void test_bad_details_are_returned(void)
{
    static const char* const plugins[] = {"details_garbage", "details_empty", "details_of_another_engine"};
    for (int64_t i = 0; i < COUNT(plugins); i++) {
        check_about("%s", plugins[i]);
        use_plugin(plugins[i]);
        start_recording();
        hipdnnHandle_t handle = make_handle();
        hipdnnBackendDescriptor_t graph = make_graph(handle);
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        int64_t count = 0;
        CHECK_OK(hipdnnBackendFinalize(heuristic));
        (void)hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                        &count, &config);
        drop(config);
        drop(heuristic);
        drop(graph);
        CHECK_OK(hipdnnDestroy(handle));
        expect_recorded(1, "\nGetEngineDetails");
        expect_recorded(1, "\nDestroyEngineDetails");
        expect_recorded(1, "\nDestroy handle=1");
    }
}

/* Ids are asked for once per load, however many handles there are. */
static void test_load_once(void)
{
    enum { HANDLES = 5 };
    hipdnnHandle_t handles[HANDLES];
    check_about("load once");
    use_plugin("good");
    start_recording();
    for (int i = 0; i < HANDLES; i++) {
        handles[i] = make_handle();
    }
    expect_recorded(1, "GetAllEngineIds max=0");
    expect_recorded(1, "GetAllEngineIds max=2");
    expect_recorded(HANDLES, "\nCreate handle=");
    for (int i = 0; i < HANDLES; i++) {
        CHECK_OK(hipdnnDestroy(handles[i]));
    }
    expect_recorded(HANDLES, "\nDestroy handle=");
}

int main(void)
{
    unsetenv("HIPDNN_PLUGIN_DIR");
    test_layout("good", "G2");
    test_layout("g1", "G1");
    test_not_expressible();
    test_streams();
    test_execute();
    test_order_of_ends();
    test_failed_plan();
    test_bad_details_are_returned();
    test_load_once();
    return check_result();
}
