/* SPDX-License-Identifier: MIT */

/*
 * A plugin that calls the library from each of its functions, with all live objects, including those of the current call: every
 * such call returns with a status.
 */
#include "../saved.h"
#include "host.h"

#include <unistd.h>

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph, heuristic, engine, config, plan, pack;
static char seen[64][96]; /* copies: the plugin is gone when they are read */
static int depth;
static int created_within;
static blob saved;

static void expect_answer(hipdnnStatus_t status)
{
    CHECK((int)status >= 0 && (int)status <= 14);
    if (status != HIPDNN_STATUS_SUCCESS) {
        char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK(text[0] != '\0');
        CHECK(strstr(text, "internal defect") == NULL);
    }
}

static void use(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name,
                hipdnnBackendAttributeType_t type)
{
    hipdnnBackendDescriptor_t values[4] = {NULL};
    int64_t count = 0;
    expect_answer(hipdnnBackendGetAttribute(descriptor, name, type, 1, &count, values));
    if (type == HIPDNN_TYPE_BACKEND_DESCRIPTOR && values[0] != NULL) {
        expect_answer(hipdnnBackendSetAttribute(descriptor, name, type, 1, values));
        expect_answer(hipdnnBackendDestroyDescriptor(values[0]));
    }
    expect_answer(hipdnnBackendFinalize(descriptor));
}

static void hook(const char* function)
{
    if (depth > 0) {
        return;
    }
    depth++;
    check_about("within %s", function);
    for (int64_t i = 0; i < COUNT(seen); i++) {
        if (seen[i][0] == '\0' || strcmp(seen[i], function) == 0) {
            snprintf(seen[i], sizeof seen[i], "%s", function);
            break;
        }
    }
    hipdnnHandle_t other = NULL;
    const hipdnnStatus_t status = hipdnnCreate(&other);
    expect_answer(status);
    if (status == HIPDNN_STATUS_SUCCESS) {
        created_within++;
        expect_answer(hipdnnDestroy(other));
    }
    expect_answer(hipdnnSetEnginePluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    expect_answer(hipdnnSetStream(handle, NULL));
    use(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR);
    use(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR);
    use(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR);
    use(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR);
    use(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, HIPDNN_TYPE_BACKEND_DESCRIPTOR);
    use(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR);
    expect_answer(hipdnnBackendExecute(handle, plan, pack));
    size_t size = 0;
    hipdnnBackendDescriptor_t loaded = NULL;
    expect_answer(hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &size, NULL));
    if (saved.bytes != NULL) {
        expect_answer(load(handle, &loaded, saved));
    }
    if (loaded != NULL) {
        expect_answer(hipdnnBackendDestroyDescriptor(loaded));
    }
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "a line from within");
    depth--;
}

static bool was_seen(const char* function)
{
    for (int64_t i = 0; i < COUNT(seen); i++) {
        if (strcmp(seen[i], function) == 0) {
            return true;
        }
    }
    return false;
}

int main(void)
{
    static buffers data;
    char address[32];
    void (*const function)(const char*) = hook;
    uintptr_t number = 0;
    memcpy(&number, &function, sizeof number);
    snprintf(address, sizeof address, "%llx", (unsigned long long)number);
    setenv("HIPDNN_STUB_HOOK", address, 1);
    alarm(60); /* a call that waits for itself ends the program */

    use_plugin("calls_back");
    handle = make_handle();
    const bool yes = true;
    graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    CHECK(count_results(heuristic) == 2);
    engine = open_engine(graph);
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    put_descriptor(config, HIPDNN_ATTR_ENGINECFG_ENGINE, engine);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    fill_buffers(&data, plan);
    pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK_OK(hipdnnSetStream(handle, NULL));
    const int64_t uid = UID_X;
    const int64_t one = 1;
    hipdnnBackendDescriptor_t override_pack = open_pack(&data);
    put(override_pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 1, &uid);
    put(override_pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 1, &one);
    put(override_pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 1, &one);
    put(override_pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 1, &one);
    REQUIRE_OK(hipdnnBackendFinalize(override_pack));
    CHECK_OK(hipdnnBackendExecute(handle, plan, override_pack));
    drop(override_pack);
    saved = save_plan(plan);
    hipdnnBackendDescriptor_t loaded = load_plan(handle, saved);
    CHECK_OK(hipdnnBackendExecute(handle, loaded, pack));
    drop(loaded);
    drop(plan);
    drop(config);
    drop(engine);
    drop(heuristic);
    drop(graph);
    drop(pack);
    CHECK_OK(hipdnnDestroy(handle));
    /* Unloaded now */
    CHECK_OK(hipdnnSetEnginePluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE));

    check_about("%s", "");
    CHECK(created_within > 0);
    static const char* const expected[] = {
        "hipdnnPluginGetName",
        "hipdnnEnginePluginGetAllEngineIds",
        "hipdnnEnginePluginCreate",
        "hipdnnEnginePluginGetApplicableEngineIds",
        "hipdnnEnginePluginGetEngineDetails",
        "hipdnnEnginePluginDestroyEngineDetails",
        "hipdnnEnginePluginGetWorkspaceSize",
        "hipdnnEnginePluginCreateExecutionContext",
        "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext",
        "hipdnnEnginePluginExecuteOpGraph",
        "hipdnnEnginePluginSetStream",
        "hipdnnEnginePluginDestroyExecutionContext",
        "hipdnnEnginePluginDestroy",
        "hipdnnEnginePluginExecuteOpGraphWithOverrides",
        "hipdnnEnginePluginSerializeExecutionContextWithEngineId",
        "hipdnnEnginePluginDestroySerializedExecutionContext",
        "hipdnnEnginePluginCreateExecutionContextFromSerialized",
    };
    for (int64_t i = 0; i < COUNT(expected); i++) {
        check_about("%s", expected[i]);
        CHECK(was_seen(expected[i]));
    }
    free(data.workspace);
    free(saved.bytes);
    return check_result();
}
