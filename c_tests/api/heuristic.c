/* SPDX-License-Identifier: MIT */

/* The engine heuristic: finalize's requirements, and its results, which fill the caller's configurations. */
#include "../fixture.h"

#include <limits.h>

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;

static hipdnnStatus_t results(hipdnnBackendDescriptor_t heuristic, int64_t requested, int64_t* count, void* array)
{
    return hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                     requested, count, array);
}

static void test_finalize(void)
{
    hipdnnBackendDescriptor_t heuristic = make(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "GRAPH", hipdnnBackendFinalize(heuristic));
    put_descriptor(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "MODE", hipdnnBackendFinalize(heuristic));
    /* There is one mode. */
    const int unknown[] = {1, 2, -1, INT_MAX, INT_MIN};
    for (int64_t i = 0; i < COUNT(unknown); i++) {
        CHECK_FAILS(
            HIPDNN_STATUS_NOT_SUPPORTED, "MODE",
            hipdnnBackendSetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &unknown[i]));
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "MODE", hipdnnBackendFinalize(heuristic));
    put(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode);
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    drop(heuristic);
}

static void test_bad_requests(void)
{
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    hipdnnBackendDescriptor_t finalized_config = open_config(graph);
    REQUIRE_OK(hipdnnBackendFinalize(finalized_config));
    int64_t count = 4711;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "finalized", results(heuristic, 0, &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "RESULTS",
                hipdnnBackendSetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &config));
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));

    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_INT64, 0, &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount", results(heuristic, 0, NULL, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", results(heuristic, 1, &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount", results(heuristic, 1, NULL, &config));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount", results(heuristic, -1, &count, &config));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount", results(heuristic, INT64_MIN, &count, &config));
    hipdnnBackendDescriptor_t slot = NULL;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "null", results(heuristic, 1, &count, &slot));
    slot = graph;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "", results(heuristic, 1, &count, &slot));
    slot = heuristic;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "", results(heuristic, 1, &count, &slot));
    slot = finalized_config;
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", results(heuristic, 1, &count, &slot));
    slot = (hipdnnBackendDescriptor_t)(uintptr_t)0xdeadbeef;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "", results(heuristic, 1, &count, &slot));
    CHECK_EQ(count, 4711);
    /* None of it has touched the configuration. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "ENGINE", hipdnnBackendFinalize(config));
    drop(config);
    drop(finalized_config);
    drop(heuristic);
}

static int64_t engine_of(hipdnnBackendDescriptor_t config)
{
    hipdnnBackendDescriptor_t engine = NULL;
    int64_t id = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                                         &engine));
    REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, NULL, &id));
    drop(engine);
    return id;
}

static void test_results(void)
{
    enum { ROOM = 40 };
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    const int64_t total = count_results(heuristic);
    REQUIRE(total > 0 && total < ROOM);
    /* More room than results: the remaining slots are ignored. */
    hipdnnBackendDescriptor_t configs[ROOM];
    hipdnnBackendDescriptor_t copy[ROOM];
    int64_t ids[ROOM];
    for (int i = 0; i < ROOM; i++) {
        configs[i] = i < total ? make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR) : (hipdnnBackendDescriptor_t)(uintptr_t)0x77;
    }
    memcpy(copy, configs, sizeof copy);
    int64_t count = 0;
    CHECK_OK(results(heuristic, ROOM, &count, configs));
    CHECK_EQ(count, total);
    CHECK(memcmp(copy, configs, sizeof copy) == 0);
    for (int64_t i = 0; i < total; i++) {
        CHECK_OK(hipdnnBackendFinalize(configs[i]));
        ids[i] = engine_of(configs[i]);
        for (int64_t k = 0; k < i; k++) {
            CHECK(ids[k] != ids[i]);
        }
    }
    /* Less room, a second time, and into a configuration that has an engine already: the best engine again. */
    hipdnnBackendDescriptor_t one = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(results(heuristic, 1, &count, &one));
        CHECK_EQ(count, 1);
    }
    CHECK_OK(hipdnnBackendFinalize(one));
    CHECK_EQ(engine_of(one), ids[0]);
    drop(one);
    for (int64_t i = 0; i < total; i++) {
        drop(configs[i]);
    }
    drop(heuristic);
}

/* A graph that no engine runs: success without results, and the last error has each engine's reason. */
static void test_no_engine(void)
{
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, 1, CHANNELS + 1, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t operation = open_single_convolution();
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    REQUIRE_OK(hipdnnBackendFinalize(operation));
    hipdnnBackendDescriptor_t impossible = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put(impossible, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
    put(impossible, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(impossible));
    hipdnnBackendDescriptor_t heuristic = open_heuristic(impossible);
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK_CONTAINS(text, "CPU_ENGINE");
    CHECK_CONTAINS(text, "CPU_REFERENCE_ENGINE");
    /* The reason names what does not fit: 3 channels where the filter has 2. */
    CHECK_CONTAINS(text, "3");
    CHECK_EQ(count_results(heuristic), 0);
    int64_t count = 4711;
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CHECK_OK(results(heuristic, 1, &count, &config));
    CHECK_EQ(count, 0);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "ENGINE", hipdnnBackendFinalize(config));
    drop(config);
    drop(heuristic);
    drop(impossible);
    drop(operation);
    drop(x);
}

int main(void)
{
    handle = make_handle();
    graph = make_graph(handle);
    test_finalize();
    test_bad_requests();
    test_results();
    test_no_engine();
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
