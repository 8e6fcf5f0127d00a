/* SPDX-License-Identifier: MIT */

/* Engine, engine configuration, execution plan: what finalize demands and what can be read. */
#include "../fixture.h"

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;

static void test_engine(void)
{
    const int64_t id = best_engine_id(graph);
    const int64_t unknown[] = {0, -1, INT64_MIN, INT64_MAX, id + 1};
    hipdnnBackendDescriptor_t engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "GRAPH", hipdnnBackendFinalize(engine));
    put_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "INDEX", hipdnnBackendFinalize(engine));
    for (int64_t i = 0; i < COUNT(unknown); i++) {
        put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &unknown[i]);
        /* Callers look for exactly this text. */
        char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
        CHECK_STATUS(hipdnnBackendFinalize(engine), HIPDNN_STATUS_BAD_PARAM);
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK_STR(text, "EngineDescriptor::finalize() failed: Engine id is not in a valid range of engine IDs");
    }
    put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    CHECK_OK(hipdnnBackendFinalize(engine));

    char name[64] = "";
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_NAME_EXT, HIPDNN_TYPE_CHAR, 64, &count, name));
    CHECK_STR(name, "CPU_ENGINE");
    CHECK_EQ(count, 11);
    /* An engine's number is the hash of its name. */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    CHECK_EQ((int64_t)hash, id);
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                hipdnnBackendSetAttribute(engine, HIPDNN_ATTR_ENGINE_NAME_EXT, HIPDNN_TYPE_CHAR, 1, "x"));
    drop(engine);
    engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "NAME",
                hipdnnBackendSetAttribute(engine, HIPDNN_ATTR_ENGINE_NAME_EXT, HIPDNN_TYPE_CHAR, 1, "x"));
    drop(engine);
}

/* WORKSPACE_SIZE of a configuration and of a plan follow the same rule. */
static void test_workspace(hipdnnBackendDescriptor_t finalized, hipdnnBackendDescriptor_t open,
                           hipdnnBackendAttributeName_t name)
{
    int64_t size = -7;
    int64_t count = 4711;
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                hipdnnBackendGetAttribute(open, name, HIPDNN_TYPE_INT64, 1, &count, &size));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "WORKSPACE_SIZE",
                hipdnnBackendSetAttribute(open, name, HIPDNN_TYPE_INT64, 1, &size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                hipdnnBackendGetAttribute(finalized, name, HIPDNN_TYPE_DOUBLE, 1, &count, &size));
    const int64_t wrong[] = {0, 2, -1, INT64_MIN};
    for (int64_t i = 0; i < COUNT(wrong); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                    hipdnnBackendGetAttribute(finalized, name, HIPDNN_TYPE_INT64, wrong[i], &count, &size));
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                hipdnnBackendGetAttribute(finalized, name, HIPDNN_TYPE_INT64, 1, &count, NULL));
    CHECK(size == -7 && count == 4711);
    CHECK_OK(hipdnnBackendGetAttribute(finalized, name, HIPDNN_TYPE_INT64, 1, NULL, &size));
    CHECK(size >= 0);
    CHECK_OK(hipdnnBackendGetAttribute(finalized, name, HIPDNN_TYPE_INT64, 1, &count, &size));
    CHECK_EQ(count, 1);
}

static void test_config(void)
{
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "ENGINE", hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t engine = open_engine(graph);
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    put_descriptor(config, HIPDNN_ATTR_ENGINECFG_ENGINE, engine);
    drop(engine);
    CHECK_OK(hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t open = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    test_workspace(config, open, HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
    drop(open);
    drop(config);
}

static void test_plan(void)
{
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "CONFIG", hipdnnBackendFinalize(plan));
    /* The handle is checked for null and otherwise ignored, whatever it is. */
    const uintptr_t anything = 0xdeadbeef;
    CHECK_OK(hipdnnBackendSetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_HANDLE, HIPDNN_TYPE_HANDLE, 1, &anything));
    hipdnnBackendDescriptor_t config = open_config(graph);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "finalized",
                hipdnnBackendSetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                          HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config));
    REQUIRE_OK(hipdnnBackendFinalize(config));
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    drop(config);
    CHECK_OK(hipdnnBackendFinalize(plan));
    hipdnnBackendDescriptor_t open = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    test_workspace(plan, open, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    drop(open);

    /* The configuration read back makes another plan that does the same. */
    CHECK_OK(hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                       1, NULL, &config));
    hipdnnBackendDescriptor_t twin = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(twin, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    drop(config);
    drop(plan);
    CHECK_OK(hipdnnBackendFinalize(twin));
    buffers data;
    fill_buffers(&data, twin);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, twin, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    drop(twin);
    free(data.workspace);
}

int main(void)
{
    handle = make_handle();
    graph = make_graph(handle);
    test_engine();
    test_config();
    test_plan();
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
