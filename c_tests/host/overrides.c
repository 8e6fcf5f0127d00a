/* SPDX-License-Identifier: MIT */

/* Override shapes: which plugins are offered such graphs, their arguments, and refusals. */
#include "../saved.h"
#include "host.h"

#include <inttypes.h>

/* The graph of fixture.h, made so that shapes may be replaced. */
static hipdnnBackendDescriptor_t make_flexible_graph(hipdnnHandle_t handle)
{
    const bool yes = true;
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    return graph;
}

static const int64_t override_uids[] = {UID_Y, UID_X};
static const int64_t override_lengths[] = {4, 2};
static const int64_t override_shapes[] = {1, 2, 8, 8, 3, 5};
static const int64_t override_strides[] = {128, 64, 8, 1, 5, 1};

static hipdnnBackendDescriptor_t make_override_pack(buffers* data)
{
    hipdnnBackendDescriptor_t pack = open_pack(data);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 2, override_uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 2, override_lengths);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 6, override_shapes);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 6, override_strides);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    return pack;
}

static void expect_recorded(int count, const char* part)
{
    const int found = count_in(recorded(), part);
    if (found != count) {
        fprintf(stderr, "  %s\n", part);
    }
    CHECK_EQ(found, count);
}

/* The overrides arrive as they were set; a pack without any goes the plain way. */
static void test_call(void)
{
    char line[256];
    buffers data;
    check_about("call");
    use_plugin("overrides");
    start_recording();
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    hipdnnBackendDescriptor_t graph = make_flexible_graph(first);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    bool enabled = false;
    CHECK_OK(hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT,
                                       HIPDNN_TYPE_BOOLEAN, 1, NULL, &enabled));
    CHECK(enabled);
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_override_pack(&data);
    CHECK_OK(hipdnnBackendExecute(second, plan, pack));
    snprintf(line, sizeof line,
             "\nExecuteOpGraphWithOverrides handle=2 context=1 workspace=%" PRIuPTR
             " count=3 first=1 overrides=[4:1,2,8,8/128,64,8,1 1:3,5/5,1]\n",
             (uintptr_t)data.workspace);
    expect_recorded(1, line);
    expect_recorded(0, "\nExecuteOpGraph ");
    drop(pack);

    pack = open_pack(&data);
    const int names[] = {HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT,
                         HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT,
                         HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT};
    for (int64_t i = 0; i < COUNT(names); i++) {
        put(pack, (hipdnnBackendAttributeName_t)names[i], HIPDNN_TYPE_INT64, 0, override_uids);
    }
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(second, plan, pack));
    expect_recorded(1, "\nExecuteOpGraph handle=2 context=1 ");
    expect_recorded(1, "\nExecuteOpGraphWithOverrides ");
    drop(pack);

    /* A misaligned pointer is refused before. */
    void* const pointers[] = {(char*)data.x + 4, data.w, data.y};
    pack = open_pack(&data);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 1, override_uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 1, override_lengths);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 4, override_shapes);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 4, override_strides);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "aligned", hipdnnBackendExecute(second, plan, pack));
    expect_recorded(1, "\nExecuteOpGraphWithOverrides ");
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
    CHECK_OK(hipdnnDestroy(first));
    CHECK_OK(hipdnnDestroy(second));
}

/* Executing with overrides fails with this status. */
static void test_refusal(const char* plugin, bool flexible, hipdnnStatus_t status, const char* part)
{
    buffers data;
    check_about("%s", plugin);
    use_plugin(plugin);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = flexible ? make_flexible_graph(handle) : make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_override_pack(&data);
    hipdnnBackendDescriptor_t plain = make_pack(&data);
    CHECK_FAILS(status, part, hipdnnBackendExecute(handle, plan, pack));
    expect_recorded(0, "\nExecuteOpGraph ");
    CHECK_OK(hipdnnBackendExecute(handle, plan, plain));
    expect_recorded(1, "\nExecuteOpGraph ");
    drop(plain);
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A graph whose shapes may be replaced is offered only to plugins that can do that. */
static void test_offer(const char* plugin, const char* reason)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    check_about("%s", plugin);
    use_plugin(plugin);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_flexible_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    check_forget_error();
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK_EQ(count_results(heuristic), 0);
    CHECK_CONTAINS(text, reason);
    expect_recorded(0, "GetApplicableEngineIds");
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A plan that was saved says whether shapes may be replaced; the plugin that loads it must still be able to. */
static void test_saved(void)
{
    buffers data;
    check_about("saved");
    use_plugin("overrides_saves");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_flexible_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    const blob saved = save_plan(plan);
    hipdnnBackendDescriptor_t loaded = load_plan(handle, saved);
    fill_buffers(&data, loaded);
    hipdnnBackendDescriptor_t pack = make_override_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, loaded, pack));
    expect_recorded(1, "\nExecuteOpGraphWithOverrides handle=1 context=2 ");
    drop(pack);
    drop(loaded);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));

    check_about("saved, and loaded by a plugin without overrides");
    use_plugin("saves_api_1_1");
    handle = make_handle();
    loaded = load_plan(handle, saved);
    pack = make_override_pack(&data);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "plugin Stub has no hipdnnEnginePluginExecuteOpGraphWithOverrides",
                hipdnnBackendExecute(handle, loaded, pack));
    drop(pack);
    drop(loaded);
    CHECK_OK(hipdnnDestroy(handle));

    check_about("saved, and loaded by a plugin of an older interface");
    use_plugin("overrides_saves_api_1_0");
    handle = make_handle();
    loaded = load_plan(handle, saved);
    pack = make_override_pack(&data);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "plugin Stub speaks plugin API 1.0.0, expected 1.1.0 or newer",
                hipdnnBackendExecute(handle, loaded, pack));
    drop(pack);
    drop(loaded);
    CHECK_OK(hipdnnDestroy(handle));
    free(saved.bytes);
    free(data.workspace);
}

int main(void)
{
    test_call();
    test_refusal("overrides", false, HIPDNN_STATUS_NOT_SUPPORTED, "IS_OVERRIDE_SHAPE_ENABLED");
    test_refusal("good", false, HIPDNN_STATUS_NOT_SUPPORTED, "IS_OVERRIDE_SHAPE_ENABLED");
    test_refusal("overrides_fail", true, HIPDNN_STATUS_PLUGIN_ERROR,
                 "Failed to execute op graph with overrides. Status: HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR(3), Error: "
                 "the stub fails");
    test_refusal("throws_in_overrides", true, HIPDNN_STATUS_INTERNAL_ERROR,
                 "Failed to execute op graph with overrides: the plugin threw an exception");
    test_offer("api_1_9", "hipdnnEnginePluginExecuteOpGraphWithOverrides");
    test_offer("overrides_api_1_0", "the graph needs plugin API 1.1.0, the plugin speaks 1.0.0");
    test_offer("g1", "needs plugin API 1.1.0");
    test_saved();
    return check_result();
}
