/* SPDX-License-Identifier: MIT */

/* Every function that takes a descriptor, with one that is null, destroyed, made up or a handle; and every function that
 * takes a descriptor inside an array. */
#include "../fixture.h"

static void expect_refused(hipdnnHandle_t handle, hipdnnBackendDescriptor_t bad, hipdnnStatus_t status,
                           const char* fragment)
{
    int64_t value = 41;
    int64_t count = 42;
    CHECK_FAILS(status, fragment, hipdnnBackendFinalize(bad));
    CHECK_FAILS(status, fragment,
                hipdnnBackendSetAttribute(bad, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &value));
    CHECK_FAILS(status, fragment,
                hipdnnBackendGetAttribute(bad, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &count, &value));
    CHECK(value == 41 && count == 42);
    CHECK_FAILS(status, fragment, hipdnnBackendExecute(handle, bad, bad));
    size_t size = 44;
    CHECK_FAILS(status, fragment, hipdnnBackendGetSerializedBinaryGraph_ext(bad, 0, &size, NULL));
    CHECK_FAILS(status, fragment, hipdnnBackendGetSerializedJsonGraph_ext(bad, 0, &size, NULL));
    CHECK_FAILS(status, fragment, hipdnnBackendGetSerializedExecutionPlan_ext(bad, 0, &size, NULL));
    CHECK_FAILS(status, fragment, hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(bad, NULL, 0, &size, NULL));
    CHECK_FAILS(status, fragment, hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(bad, bad, 0, &size, NULL));
    CHECK(size == 44);
    CHECK_FAILS(status, fragment, hipdnnBackendDestroyDescriptor(bad));
}

/* As a value of an attribute */
static void expect_refused_as_child(hipdnnBackendDescriptor_t bad, hipdnnStatus_t status, const char* fragment)
{
    static const struct {
        hipdnnBackendDescriptorType_t type;
        hipdnnBackendAttributeName_t name;
    } parents[] = {
        {HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH},
        {HIPDNN_BACKEND_ENGINE_DESCRIPTOR, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH},
        {HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR, HIPDNN_ATTR_ENGINECFG_ENGINE},
        {HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG},
        {HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, HIPDNN_ATTR_OPERATIONGRAPH_OPS},
        {HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X},
        {HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT},
        {HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT, HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT},
    };
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++) {
        hipdnnBackendDescriptor_t parent = make(parents[i].type);
        CHECK_FAILS(status, fragment,
                    hipdnnBackendSetAttribute(parent, parents[i].name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &bad));
        drop(parent);
    }
}

static void test_forged(hipdnnHandle_t handle)
{
    char text[64] = "not a descriptor";
    hipdnnBackendDescriptor_t living = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    const uintptr_t forged[] = {1,
                                2,
                                3,
                                4,
                                5,
                                6,
                                7,
                                8,
                                0x10,
                                0x1000,
                                (uintptr_t)text,
                                (uintptr_t)&living,
                                UINTPTR_MAX,
                                UINTPTR_MAX - 7,
                                (uintptr_t)1 << 63,
                                0xdeadbeefcafebabe,
                                (uintptr_t)handle};
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        check_about("forged %#zx", (size_t)forged[i]);
        expect_refused(handle, (hipdnnBackendDescriptor_t)forged[i], HIPDNN_STATUS_BAD_PARAM, "escriptor");
        expect_refused_as_child((hipdnnBackendDescriptor_t)forged[i], HIPDNN_STATUS_BAD_PARAM, "escriptor");
    }
    for (int bit = 0; bit < 64; bit++) {
        check_about("bit %d", bit);
        expect_refused(handle, (hipdnnBackendDescriptor_t)((uintptr_t)living ^ (uintptr_t)1 << bit),
                       HIPDNN_STATUS_BAD_PARAM, "escriptor");
    }
    check_about("%s", "");
    drop(living);
}

static void test_stale(hipdnnHandle_t handle)
{
    for (int64_t i = 0; i < COUNT(CREATABLE); i++) {
        check_about("stale, type %d", (int)CREATABLE[i]);
        hipdnnBackendDescriptor_t stale = make(CREATABLE[i]);
        drop(stale);
        expect_refused(handle, stale, HIPDNN_STATUS_BAD_PARAM, "escriptor");
        expect_refused_as_child(stale, HIPDNN_STATUS_BAD_PARAM, "escriptor");
        /* Its successor must not be reachable by the old value. */
        hipdnnBackendDescriptor_t next = make(CREATABLE[i]);
        CHECK(next != stale);
        expect_refused(handle, stale, HIPDNN_STATUS_BAD_PARAM, "escriptor");
        drop(next);
    }
    check_about("%s", "");
}

/* Living descriptors of the wrong kind or state */
static void test_wrong_children(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    hipdnnBackendDescriptor_t heuristic = make(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    hipdnnBackendDescriptor_t convolution = make(HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    hipdnnBackendDescriptor_t open_graph_descriptor = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    hipdnnBackendDescriptor_t open_engine_descriptor = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);

    const struct {
        hipdnnBackendDescriptor_t parent;
        hipdnnBackendAttributeName_t name;
        hipdnnBackendDescriptor_t child;
        hipdnnStatus_t status;
    } rows[] = {
        {heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, pack, HIPDNN_STATUS_BAD_PARAM},
        {heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, heuristic, HIPDNN_STATUS_BAD_PARAM},
        {heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, open_graph_descriptor,
         HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED},
        {open_engine_descriptor, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, tensor, HIPDNN_STATUS_BAD_PARAM},
        {open_engine_descriptor, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, open_graph_descriptor,
         HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED},
        {config, HIPDNN_ATTR_ENGINECFG_ENGINE, graph, HIPDNN_STATUS_BAD_PARAM},
        {config, HIPDNN_ATTR_ENGINECFG_ENGINE, config, HIPDNN_STATUS_BAD_PARAM},
        {config, HIPDNN_ATTR_ENGINECFG_ENGINE, open_engine_descriptor, HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED},
        {convolution, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, graph, HIPDNN_STATUS_BAD_PARAM},
        {convolution, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor, HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED},
        {open_graph_descriptor, HIPDNN_ATTR_OPERATIONGRAPH_OPS, convolution, HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED},
        {open_graph_descriptor, HIPDNN_ATTR_OPERATIONGRAPH_OPS, graph, HIPDNN_STATUS_NOT_SUPPORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_about("row %zu", i);
        CHECK_FAILS(
            rows[i].status, "HIPDNN_ATTR_",
            hipdnnBackendSetAttribute(rows[i].parent, rows[i].name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &rows[i].child));
    }
    check_about("%s", "");
    drop(graph);
    drop(pack);
    drop(heuristic);
    drop(config);
    drop(convolution);
    drop(open_graph_descriptor);
    drop(open_engine_descriptor);
    drop(tensor);
}

int main(void)
{
    hipdnnHandle_t handle = make_handle();
    check_about("null");
    expect_refused(handle, NULL, HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    expect_refused_as_child(NULL, HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    check_about("%s", "");
    test_forged(handle);
    test_stale(handle);
    test_wrong_children(handle);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
