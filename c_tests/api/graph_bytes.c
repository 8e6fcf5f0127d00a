/* SPDX-License-Identifier: MIT */

/* hipdnnBackendCreateAndDeserializeGraph_ext: graphs of both generations run, hostile bytes get a status. */
#include "../fixture.h"
#include "../flatbuffer.h"

static hipdnnHandle_t handle;
static flatbuffer fb;

static hipdnnStatus_t deserialize(hipdnnBackendDescriptor_t* graph, const void* bytes, size_t size)
{
    return hipdnnBackendCreateAndDeserializeGraph_ext(graph, bytes, size);
}

static void test_arguments(void)
{
    hipdnnBackendDescriptor_t untouched = (hipdnnBackendDescriptor_t)(uintptr_t)0x77;
    const graph_shape shape = plain_graph(true);
    size_t size = 0;
    const unsigned char* const bytes = write_graph(&fb, &shape, &size);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor", deserialize(NULL, bytes, size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor", deserialize(NULL, NULL, 0));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "serializedGraph", deserialize(&untouched, NULL, size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "serializedGraph", deserialize(&untouched, NULL, 0));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "graphByteSize", deserialize(&untouched, bytes, 0));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "graphByteSize", deserialize(&untouched, bytes, SIZE_MAX));
    CHECK(untouched == (hipdnnBackendDescriptor_t)(uintptr_t)0x77);
}

/* Plans and executes the graph of these bytes, and compares the result with plain loops. */
static void expect_runs(const unsigned char* bytes, size_t size)
{
    hipdnnBackendDescriptor_t graph = NULL;
    REQUIRE_OK(deserialize(&graph, bytes, size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "HANDLE", hipdnnBackendFinalize(graph));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    CHECK_OK(hipdnnBackendFinalize(graph));
    CHECK_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    static buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
}

static void test_both_generations(void)
{
    for (int newer = 0; newer <= 1; newer++) {
        check_about(newer ? "2026" : "2025");
        const graph_shape shape = plain_graph(newer != 0);
        size_t size = 0;
        const unsigned char* const bytes = write_graph(&fb, &shape, &size);
        expect_runs(bytes, size);
        /* At an odd address, with more bytes behind it */
        unsigned char* moved = malloc(size + 64);
        REQUIRE(moved != NULL);
        for (int shift = 1; shift < 8; shift++) {
            memset(moved, 0xee, size + 64);
            memcpy(moved + shift, bytes, size);
            expect_runs(moved + shift, size + 40);
        }
        free(moved);
    }
    check_about("%s", "");
}

/* The caller's bytes may go at once, and the graph can be read back through descriptors. */
static void test_unpacking(void)
{
    for (int newer = 0; newer <= 1; newer++) {
        check_about(newer ? "read back, 2026" : "read back, 2025");
        const graph_shape shape = plain_graph(newer != 0);
        size_t size = 0;
        const unsigned char* const bytes = write_graph(&fb, &shape, &size);
        hipdnnBackendDescriptor_t graph = NULL;
        REQUIRE_OK(deserialize(&graph, bytes, size));
        memset(fb.bytes, 0xee, sizeof fb.bytes);
        hipdnnBackendDescriptor_t operation = NULL;
        hipdnnBackendDescriptor_t w = NULL;
        hipdnnOperationType_ext_t type = HIPDNN_OPERATION_TYPE_NOT_SET_EXT;
        int64_t count = 0;
        int64_t dims[8] = {0};
        REQUIRE_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                             &count, &operation));
        CHECK_EQ(count, 1);
        CHECK_OK(hipdnnBackendGetAttribute(operation, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1,
                                           NULL, &type));
        CHECK(type == HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT);
        REQUIRE_OK(hipdnnBackendGetAttribute(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                             HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &w));
        CHECK_OK(hipdnnBackendGetAttribute(w, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 8, &count, dims));
        CHECK(count == 4 && dims[0] == 2 && dims[1] == 2 && dims[2] == 3 && dims[3] == 3);
        drop(w);
        drop(operation);
        drop(graph);
    }
    check_about("%s", "");
}

/* Takes a graph as far as possible, with any status. Each failure must have a text, and the process must survive. */
static void drive(const unsigned char* bytes, size_t size, bool may_load)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnBackendDescriptor_t graph = NULL;
    check_forget_error();
    const hipdnnStatus_t status = deserialize(&graph, bytes, size);
    if (status != HIPDNN_STATUS_SUCCESS) {
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK(text[0] != '\0' && graph == NULL);
        CHECK(status == HIPDNN_STATUS_BAD_PARAM || status == HIPDNN_STATUS_NOT_SUPPORTED);
        return;
    }
    CHECK(may_load);
    hipdnnBackendDescriptor_t heuristic = make(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    put(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    int64_t count = 0;
    if (hipdnnBackendFinalize(graph) == HIPDNN_STATUS_SUCCESS) {
        put_descriptor(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
        if (hipdnnBackendFinalize(heuristic) == HIPDNN_STATUS_SUCCESS) {
            count = count_results(heuristic);
            if (count == 0) {
                CHECK_LAST_ERROR("No engine can run this graph");
            }
        }
    } else {
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK(text[0] != '\0');
    }
    if (count > 0) {
        hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &count, &config) == HIPDNN_STATUS_SUCCESS &&
            hipdnnBackendFinalize(config) == HIPDNN_STATUS_SUCCESS) {
            put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
            (void)hipdnnBackendFinalize(plan);
        }
        drop(plan);
        drop(config);
    }
    drop(heuristic);
    drop(graph);
}

static void test_damage(bool newer)
{
    const graph_shape shape = plain_graph(newer);
    size_t size = 0;
    const unsigned char* const whole = write_graph(&fb, &shape, &size);
    unsigned char* bytes = malloc(size);
    REQUIRE(bytes != NULL);
    /* Cut off anywhere. The tensors come last in the buffer, so no shorter part is a graph. */
    for (size_t length = 1; length < size; length++) {
        check_about("%s, cut to %zu", newer ? "2026" : "2025", length);
        unsigned char* part = malloc(length);
        REQUIRE(part != NULL);
        memcpy(part, whole, length);
        /* A few bytes of padding may be missing without loss. */
        drive(part, length, size - length < 8);
        free(part);
    }
    /* Each byte set to each of some values */
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0xfe, 0x04, 0x20};
    for (size_t at = 0; at < size; at++) {
        for (int64_t i = 0; i < COUNT(values); i++) {
            check_about("%s, byte %zu is %d", newer ? "2026" : "2025", at, values[i]);
            memcpy(bytes, whole, size);
            bytes[at] = values[i];
            drive(bytes, size, true);
        }
    }
    free(bytes);
    check_about("%s", "");
}

static void test_nonsense(void)
{
    unsigned char noise[512];
    uint64_t state = 12345;
    for (int round = 0; round < 2000; round++) {
        const size_t size = 1 + (size_t)(round % (int)sizeof noise);
        for (size_t i = 0; i < size; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            noise[i] = (unsigned char)(state >> 56);
        }
        check_about("noise %d", round);
        drive(noise, size, true);
    }
    /* Well formed, but not computable */
    for (int newer = 0; newer <= 1; newer++) {
        size_t size = 0;
        const unsigned char* bytes;
        graph_shape shape = plain_graph(newer != 0);
        check_about("operation without content, %d", newer);
        shape.payload = false;
        bytes = write_graph(&fb, &shape, &size);
        drive(bytes, size, true);

        for (int operation = 0; operation < 256; operation++) {
            check_about("operation %d, %d", operation, newer);
            shape = plain_graph(newer != 0);
            shape.operation = operation;
            bytes = write_graph(&fb, &shape, &size);
            drive(bytes, size, true);
        }
        check_about("tensor missing, %d", newer);
        shape = plain_graph(newer != 0);
        shape.with_w = false;
        bytes = write_graph(&fb, &shape, &size);
        drive(bytes, size, true);

        check_about("output is the input, %d", newer);
        shape = plain_graph(newer != 0);
        shape.y_uid = 1;
        bytes = write_graph(&fb, &shape, &size);
        drive(bytes, size, true);

        check_about("no padding, %d", newer);
        shape = plain_graph(newer != 0);
        shape.padding_count = 0;
        bytes = write_graph(&fb, &shape, &size);
        drive(bytes, size, true);

        /* One table referred to a great many times must not be copied as often. */
        check_about("many nodes, %d", newer);
        shape = plain_graph(newer != 0);
        shape.copies_of_node = 100000;
        bytes = write_graph(&fb, &shape, &size);
        drive(bytes, size, true);

        check_about("no nodes, %d", newer);
        shape = plain_graph(newer != 0);
        shape.copies_of_node = 0;
        bytes = write_graph(&fb, &shape, &size);
        drive(bytes, size, true);
    }
    check_about("%s", "");
}

int main(void)
{
    handle = make_handle();
    test_arguments();
    test_both_generations();
    test_unpacking();
    test_damage(false);
    test_damage(true);
    test_nonsense();
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
