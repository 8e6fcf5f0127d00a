/* SPDX-License-Identifier: MIT */

/* The operation graph, built from descriptors. */
#include "../fixture.h"

static hipdnnHandle_t handle;

static hipdnnBackendDescriptor_t finalized_convolution(void)
{
    hipdnnBackendDescriptor_t operation = open_single_convolution();
    REQUIRE_OK(hipdnnBackendFinalize(operation));
    return operation;
}

static hipdnnStatus_t set_ops(hipdnnBackendDescriptor_t graph, int64_t count, const hipdnnBackendDescriptor_t* ops)
{
    return hipdnnBackendSetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, ops);
}

static int64_t count_ops(hipdnnBackendDescriptor_t graph)
{
    int64_t count = -1;
    CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                                       NULL));
    return count;
}

static void test_requirements(void)
{
    hipdnnBackendDescriptor_t operation = finalized_convolution();
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "OPS", hipdnnBackendFinalize(graph));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "OPS", hipdnnBackendFinalize(graph));
    drop(graph);

    graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    CHECK_OK(set_ops(graph, 1, &operation));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "HANDLE", hipdnnBackendFinalize(graph));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    CHECK_OK(hipdnnBackendFinalize(graph));
    /* Finalizing again was never an error for a graph. */
    CHECK_OK(hipdnnBackendFinalize(graph));
    drop(graph);
    drop(operation);
}

/* Repeated sets append; a set that fails appends nothing. */
static void test_ops_append(void)
{
    hipdnnBackendDescriptor_t convolution = open_convolution();
    hipdnnBackendDescriptor_t relu = open_relu();
    REQUIRE_OK(hipdnnBackendFinalize(convolution));
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    CHECK_EQ(count_ops(graph), 0);
    hipdnnBackendDescriptor_t both[] = {convolution, relu};
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "finalized", set_ops(graph, 2, both));
    CHECK_EQ(count_ops(graph), 0);
    hipdnnBackendDescriptor_t with_null[] = {convolution, NULL};
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "null", set_ops(graph, 2, with_null));
    CHECK_EQ(count_ops(graph), 0);
    CHECK_OK(set_ops(graph, 1, &convolution));
    REQUIRE_OK(hipdnnBackendFinalize(relu));
    CHECK_OK(set_ops(graph, 1, &relu));
    CHECK_EQ(count_ops(graph), 2);

    /* They come back in order, as descriptors of the caller's. */
    hipdnnBackendDescriptor_t got[3] = {NULL, NULL, handle == NULL ? NULL : convolution};
    int64_t count = 0;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &count, got));
    CHECK(got[0] == NULL);
    CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 3, &count,
                                       got));
    CHECK_EQ(count, 2);
    CHECK(got[2] == convolution);
    static const hipdnnOperationType_ext_t types[] = {HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT,
                                                      HIPDNN_OPERATION_TYPE_POINTWISE_EXT};
    for (int i = 0; i < 2; i++) {
        hipdnnOperationType_ext_t type = HIPDNN_OPERATION_TYPE_NOT_SET_EXT;
        CHECK_OK(hipdnnBackendGetAttribute(got[i], HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1,
                                           NULL, &type));
        CHECK(type == types[i]);
        drop(got[i]);
    }
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    /* Each operation has its own tensor "between", with the same uid. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "uid", hipdnnBackendFinalize(graph));
    drop(graph);
    drop(convolution);
    drop(relu);
}

/* An unset attribute reads as zero elements, so the number has to be asked for. */
static void test_type_that_is_not_set(void)
{
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    hipdnnDataType_t type = HIPDNN_DATA_HALF;
    int64_t count = 4711;
    CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT, HIPDNN_TYPE_DATA_TYPE,
                                       1, &count, &type));
    CHECK_EQ(count, 0);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount",
                hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT,
                                          HIPDNN_TYPE_DATA_TYPE, 1, NULL, &type));
    CHECK(type == HIPDNN_DATA_HALF);
    drop(graph);
}

static void test_properties(void)
{
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    const int64_t preferred = 12345;
    const bool yes = true;
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, 3, "abcdef");
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, HIPDNN_TYPE_INT64, 1, &preferred);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    for (int round = 0; round < 2; round++) {
        char name[16] = "###############";
        int64_t id = 0;
        int64_t count = 0;
        unsigned char flag = 0xa5;
        hipdnnDataType_t type = HIPDNN_DATA_HALF;
        check_about(round == 0 ? "open" : "finalized");
        CHECK_OK(
            hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, 16, &count, name));
        CHECK(count == 4 && strcmp(name, "abc") == 0);
        CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, HIPDNN_TYPE_INT64,
                                           1, &count, &id));
        CHECK_EQ(id, preferred);
        CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT,
                                           HIPDNN_TYPE_BOOLEAN, 1, &count, &flag));
        CHECK_EQ(flag, 1);
        CHECK_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT,
                                           HIPDNN_TYPE_DATA_TYPE, 1, &count, &type));
        CHECK(type == HIPDNN_DATA_FLOAT);
        if (round == 0) {
            REQUIRE_OK(hipdnnBackendFinalize(graph));
        }
    }
    check_about("%s", "");
    drop(graph);
}

/* A handle that is destroyed before the graph is used: a status, not a use after free. */
static void test_handle_is_gone(void)
{
    hipdnnHandle_t short_lived = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(short_lived);
    hipdnnBackendDescriptor_t late = open_graph(short_lived);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    hipdnnBackendDescriptor_t engine = open_engine(graph);
    hipdnnBackendDescriptor_t finalized_heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(finalized_heuristic));
    CHECK_OK(hipdnnDestroy(short_lived));

    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t",
        hipdnnBackendSetAttribute(late, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &short_lived));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t", hipdnnBackendFinalize(heuristic));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t", hipdnnBackendFinalize(engine));
    /* Results from the handle's lifetime stay readable. */
    CHECK(count_results(finalized_heuristic) > 0);
    drop(late);
    drop(heuristic);
    drop(engine);
    drop(finalized_heuristic);
    drop(graph);
}

int main(void)
{
    handle = make_handle();
    test_requirements();
    test_ops_append();
    test_type_that_is_not_set();
    test_properties();
    test_handle_is_gone();
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
