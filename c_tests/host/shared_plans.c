/* SPDX-License-Identifier: MIT */

/* Sharing between handles: the answers of every plugin, and plans of plugins that allow it. */
#include "host.h"

#include "../again.h"

#include <pthread.h>
#include <unistd.h>

static void expect_recorded(int times, const char* part)
{
    const int found = count_in(recorded(), part);
    CHECK_EQ(found, times);
    if (found != times) {
        fprintf(stderr, "  \"%s\" in\n%s\n", part, recorded());
    }
}

/* A graph of one convolution whose tensors are numbered from a uid, open. */
static hipdnnBackendDescriptor_t open_numbered(hipdnnHandle_t handle, int64_t first, int64_t side)
{
    char name[32];
    hipdnnBackendDescriptor_t x = make_tensor(first + 1, 1, CHANNELS, side, side, false);
    hipdnnBackendDescriptor_t w = make_tensor(first, CHANNELS, CHANNELS, 3, 3, false);
    hipdnnBackendDescriptor_t y = make_tensor(first + 2, 1, CHANNELS, side, side, false);
    hipdnnBackendDescriptor_t operation = convolution_of(x, w, y, 1);
    hipdnnBackendDescriptor_t graph = open_graph_of(handle, 1, &operation);
    const int length = snprintf(name, sizeof name, "from %lld", (long long)first);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, length, name);
    return graph;
}

static hipdnnBackendDescriptor_t plan_numbered(hipdnnHandle_t handle, int64_t first)
{
    hipdnnBackendDescriptor_t graph = open_numbered(handle, first, SIDE);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    drop(graph);
    return plan;
}

static hipdnnBackendDescriptor_t plan_with(hipdnnHandle_t handle, int64_t first, int64_t value)
{
    hipdnnBackendDescriptor_t graph = open_numbered(handle, first, SIDE);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = plan_with_knob(graph, "count", value);
    drop(graph);
    return plan;
}

/* Executes with the memory of x, w and y, and of a tensor that no graph has. */
static hipdnnStatus_t execute_numbered(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan, int64_t first)
{
    static _Alignas(64) float memory[4][X_COUNT + W_COUNT];
    const int64_t uids[] = {first + 1, first, first + 2, 100};
    void* const pointers[] = {memory[0], memory[1], memory[2], memory[3]};
    void* workspace = NULL;
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 4, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 4, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    const hipdnnStatus_t status = hipdnnBackendExecute(handle, plan, pack);
    drop(pack);
    return status;
}

/* Answers are shared whatever the plugin says, plans where it says so; of the first handle nothing is left when it ends. */
static void test_handles(void)
{
    static const char* const plugins[] = {"good", "shares_nothing", "shares_oddly", "share_fails", "shares"};
    for (int i = 0; i < 5; i++) {
        const bool shares = i == 4;
        check_about("handles, %s", plugins[i]);
        use_plugin(plugins[i]);
        start_recording();
        hipdnnHandle_t first = make_handle();
        hipdnnHandle_t second = make_handle();
        hipdnnBackendDescriptor_t one = plan_numbered(first, 1);
        expect_recorded(1, "GetApplicableEngineIds handle=");
        expect_recorded(1, "\nCreateExecutionContext");
        hipdnnBackendDescriptor_t other = plan_numbered(second, 1);
        expect_recorded(1, "GetApplicableEngineIds handle=");
        expect_recorded(1, "GetEngineDetails handle=");
        expect_recorded(1, "\nGetWorkspaceSize handle=");
        expect_recorded(shares ? 1 : 2, "\nCreateExecutionContext");
        CHECK_EQ(plan_workspace(one), plan_workspace(other));
        CHECK_OK(execute_numbered(second, other, 1));
        expect_recorded(1, shares ? "\nExecuteOpGraph handle=2 context=1" : "\nExecuteOpGraph handle=2 context=2");
        /* The first handle goes at once, the context with the last plan or handle that has it. */
        drop(one);
        CHECK_OK(hipdnnDestroy(first));
        expect_recorded(1, "\nDestroy handle=1\n");
        expect_recorded(shares ? 0 : 1, "\nDestroyExecutionContext");
        CHECK_OK(execute_numbered(second, other, 1));
        CHECK_OK(hipdnnDestroy(second));
        expect_recorded(0, "\nDestroy handle=2\n");
        drop(other);
        expect_recorded(shares ? 1 : 2, "\nDestroyExecutionContext");
        expect_recorded(1, shares ? "\nDestroyExecutionContext handle=2 context=1\n"
                                  : "\nDestroyExecutionContext handle=2 context=2\n");
        expect_recorded(1, "\nDestroy handle=2\n");
    }
}

/* A plan is executed with the uids of the graph that it was found for. */
static void test_uids(void)
{
    check_about("uids");
    use_plugin("shares");
    start_recording();
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    hipdnnBackendDescriptor_t one = plan_numbered(first, 100);
    CHECK_OK(execute_numbered(first, one, 100));
    expect_recorded(1, "buffers=[101:");
    hipdnnBackendDescriptor_t other = plan_numbered(second, 7);
    expect_recorded(1, "\nCreateExecutionContext");
    CHECK_OK(execute_numbered(second, other, 7));
    /* Uid 100 of the first graph corresponds to uid 7 of the second. */
    expect_recorded(2, "buffers=[101:");
    expect_recorded(1, "-9223372036854775808:");
    int64_t uids[3] = {0};
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(other, HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT, HIPDNN_TYPE_INT64, 3, &count,
                                       uids));
    CHECK(count == 3 && uids[0] == 8 && uids[1] == 7 && uids[2] == 9);
    drop(one);
    drop(other);
    CHECK_OK(hipdnnDestroy(first));
    CHECK_OK(hipdnnDestroy(second));
    /* Failures tell the engine's uids of the tensors. */
    use_plugin("shares_fails_to_execute");
    first = make_handle();
    one = plan_numbered(first, 100);
    other = plan_numbered(first, 7);
    CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "its engine knows tensor 7 as 100, 8 as 101, 9 as 102",
                execute_numbered(first, other, 7));
    drop(one);
    drop(other);
    CHECK_OK(hipdnnDestroy(first));
}

/* Plans with a knob are shared by those that set it alike, where the plugin says so. */
static void test_knobs(void)
{
    check_about("knobs");
    use_plugin("shares_knobs");
    start_recording();
    hipdnnHandle_t handles[] = {make_handle(), make_handle()};
    int contexts = 0;
    for (int64_t value = 3; value < 5; value++) {
        contexts++;
        for (int i = 0; i < 4; i++) {
            drop(plan_with(handles[i / 2], 1, value));
            expect_recorded(contexts, "\nCreateExecutionContext");
        }
    }
    drop(plan_numbered(handles[1], 1));
    expect_recorded(contexts + 1, "\nCreateExecutionContext");
    CHECK_OK(hipdnnDestroy(handles[0]));
    CHECK_OK(hipdnnDestroy(handles[1]));
    expect_recorded(contexts + 1, "\nDestroyExecutionContext");
}

static hipdnnBackendDescriptor_t plan_of(hipdnnHandle_t handle, int64_t place)
{
    hipdnnBackendDescriptor_t graph = open_numbered(handle, 1, SIDE);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = plan_of_engine(graph, place);
    drop(graph);
    return plan;
}

/* Each engine has its own plan, which all handles find. */
static void test_engines(void)
{
    check_about("engines");
    use_plugin("shares");
    start_recording();
    hipdnnHandle_t handles[] = {make_handle(), make_handle()};
    for (int i = 0; i < 8; i++) {
        const int place = i % 2;
        hipdnnBackendDescriptor_t plan = plan_of(handles[i / 4], place);
        char executed[64];
        expect_recorded(i == 0 ? 1 : 2, "\nCreateExecutionContext");
        CHECK_OK(execute_numbered(handles[i / 4], plan, 1));
        snprintf(executed, sizeof executed, "\nExecuteOpGraph handle=%d context=%d ", i / 4 + 1, place + 1);
        expect_recorded(i % 4 / 2 + 1, executed);
        drop(plan);
    }
    CHECK_OK(hipdnnDestroy(handles[0]));
    CHECK_OK(hipdnnDestroy(handles[1]));
    expect_recorded(2, "\nDestroyExecutionContext");
}

enum { FLOWS = 5 };

static void plan_for_the_trace(void)
{
    use_plugin("shares");
    hipdnnHandle_t handles[] = {make_handle(), make_handle()};
    for (int i = 0; i < FLOWS; i++) {
        drop(plan_numbered(handles[0], 1 + i));
    }
    drop(plan_numbered(handles[1], 1));
    CHECK_OK(hipdnnDestroy(handles[0]));
    CHECK_OK(hipdnnDestroy(handles[1]));
}

/* The trace tells how often a handle found a graph, and whose plan it used. */
static void test_trace(const char* program)
{
    static char text[1 << 18];
    check_about("trace");
    setenv("HIPDNN_TRACE_FILE", "trace.json", 1);
    CHECK_EQ(run_again(program, "child", NULL), 0);
    unsetenv("HIPDNN_TRACE_FILE");
    read_text("trace.json", text, sizeof text);
    CHECK_EQ(count_in(text, "\"name\":\"compile\""), 1);
    CHECK_EQ(count_in(text, "\"name\":\"found in the plan cache\""), FLOWS - 1);
    CHECK_EQ(count_in(text, "\"name\":\"found in the plan cache, made by another handle\""), 1);
    CHECK_EQ(count_in(text, "\"name\":\"another handle knows the graph\""), 1);
    for (int i = 1; i < FLOWS; i++) {
        char counted[64];
        snprintf(counted, sizeof counted, "\"of\":\"%d of %d graphs\"", i, i + 1);
        check_about("trace, %s", counted);
        CHECK(strstr(text, counted) != NULL);
    }
}

/* A handle with a stream shares nothing: the stream may be another device's. */
static void test_stream(void)
{
    check_about("stream");
    use_plugin("shares");
    start_recording();
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    CHECK_OK(hipdnnSetStream(second, (hipStream_t)(uintptr_t)0x1230));
    hipdnnBackendDescriptor_t one = plan_numbered(first, 1);
    hipdnnBackendDescriptor_t other = plan_numbered(second, 1);
    expect_recorded(2, "GetApplicableEngineIds handle=");
    expect_recorded(2, "\nCreateExecutionContext");
    CHECK_OK(hipdnnSetStream(second, NULL));
    drop(plan_numbered(second, 1));
    expect_recorded(2, "\nCreateExecutionContext");
    drop(one);
    drop(other);
    CHECK_OK(hipdnnDestroy(first));
    CHECK_OK(hipdnnDestroy(second));
}

/* A graph for which the cache is switched off is asked about and planned each time, and its plan ends with its descriptor. */
static void test_attribute(void)
{
    check_about("attribute");
    use_plugin("shares");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    bool is_on = false;
    for (int round = 1; round <= 3; round++) {
        hipdnnBackendDescriptor_t graph = open_numbered(handle, 1, SIDE);
        CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_PLAN_CACHE_ENABLED_EXT,
                                           HIPDNN_TYPE_BOOLEAN, 1, NULL, &is_on));
        CHECK(is_on);
        is_on = false;
        put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_PLAN_CACHE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &is_on);
        REQUIRE_OK(hipdnnBackendFinalize(graph));
        is_on = true;
        CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_PLAN_CACHE_ENABLED_EXT,
                                           HIPDNN_TYPE_BOOLEAN, 1, NULL, &is_on));
        CHECK(!is_on);
        drop(make_plan(graph));
        drop(graph);
        expect_recorded(round, "GetApplicableEngineIds handle=");
        expect_recorded(round, "\nCreateExecutionContext");
        expect_recorded(round, "\nDestroyExecutionContext");
    }
    CHECK_OK(hipdnnDestroy(handle));
}

/* Loading the plugins anew begins anew. */
static void test_reload(void)
{
    check_about("reload");
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    for (int round = 0; round < 2; round++) {
        use_plugin("shares");
        start_recording();
        hipdnnHandle_t handle = make_handle();
        drop(plan_numbered(handle, 1));
        expect_recorded(1, "GetApplicableEngineIds handle=");
        expect_recorded(1, "\nCreateExecutionContext");
        CHECK_OK(hipdnnDestroy(handle));
    }
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_LAZY));
}

enum { THREADS = 8, ROUNDS = 30 };

static void* plan_over_and_over(void* unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        hipdnnHandle_t handle = make_handle();
        const int64_t first = 1 + round % 3;
        hipdnnBackendDescriptor_t plan = plan_numbered(handle, first);
        CHECK_OK(execute_numbered(handle, plan, first));
        CHECK_OK(hipdnnDestroy(handle));
        drop(plan);
    }
    return NULL;
}

/* Handles that come and go in threads: each context ends once. */
static void test_threads(void)
{
    pthread_t threads[THREADS];
    check_about("threads");
    use_plugin("shares");
    start_recording();
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, plan_over_and_over, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    const int made = count_in(recorded(), "\nCreateExecutionContext");
    CHECK(made >= 1);
    expect_recorded(made, "\nDestroyExecutionContext");
}

int main(int count, char** words)
{
    if (count > 1) {
        plan_for_the_trace();
        return check_result();
    }
    /* Before this process has read the variable. */
    test_trace(words[0]);
    test_handles();
    test_uids();
    test_knobs();
    test_engines();
    test_stream();
    test_attribute();
    test_reload();
    test_threads();
    return check_result();
}
