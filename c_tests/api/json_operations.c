/* SPDX-License-Identifier: MIT */

/* A graph built by descriptors, the same from bytes and the same from JSON: the same bytes, and the same results. */
#include "../json_text.h"
#include "attribute_table.h"

/* Whether two open or finalized graphs have the same bytes and the same JSON. */
static void check_same(hipdnnBackendDescriptor_t one, hipdnnBackendDescriptor_t other)
{
    size_t size = 0;
    size_t other_size = 0;
    uint8_t* const bytes = bytes_of(one, &size);
    uint8_t* const other_bytes = bytes_of(other, &other_size);
    CHECK(size == other_size && memcmp(bytes, other_bytes, size) == 0);
    char* const json = json_of(one);
    char* const other_json = json_of(other);
    CHECK_STR(other_json, json);
    free(bytes);
    free(other_bytes);
    free(json);
    free(other_json);
}

/* The graph from its bytes and from its JSON. */
static void copies_of(hipdnnBackendDescriptor_t from, hipdnnBackendDescriptor_t copies[2])
{
    size_t size = 0;
    uint8_t* const bytes = bytes_of(from, &size);
    char* const json = json_of(from);
    copies[0] = graph_of_bytes(bytes, size);
    copies[1] = graph_of_json(json);
    free(bytes);
    free(json);
    for (int i = 0; i < 2; i++) {
        check_same(from, copies[i]);
    }
}

static bool is_operation(const kind* k)
{
    for (int64_t i = 0; i < k->count; i++) {
        if (k->attributes[i].name == HIPDNN_ATTR_OPERATION_NAME_EXT) {
            return true;
        }
    }
    return false;
}

enum { MOST_ATTRIBUTES = 64 };

/* The finalized operation without some of its attributes, or null if it cannot be finalized. */
static hipdnnBackendDescriptor_t operation_without(const kind* k, const bool* left_out)
{
    hipdnnBackendDescriptor_t descriptor = make(k->type);
    for (int64_t i = 0; i < k->count; i++) {
        const attribute* a = &k->attributes[i];
        if (!left_out[i]) {
            put(descriptor, a->name, a->type, a->count, a->value);
        }
    }
    if (hipdnnBackendFinalize(descriptor) != HIPDNN_STATUS_SUCCESS) {
        drop(descriptor);
        return NULL;
    }
    return descriptor;
}

/* With every attribute set, or with only the required ones. */
static hipdnnBackendDescriptor_t make_operation(const kind* k, bool full)
{
    bool left_out[MOST_ATTRIBUTES] = {false};
    REQUIRE(k->count <= MOST_ATTRIBUTES);
    for (int64_t i = 0; !full && i < k->count; i++) {
        left_out[i] = true;
        hipdnnBackendDescriptor_t without = operation_without(k, left_out);
        left_out[i] = without != NULL;
        if (without != NULL) {
            drop(without);
        }
    }
    hipdnnBackendDescriptor_t descriptor = operation_without(k, left_out);
    REQUIRE(descriptor != NULL);
    return descriptor;
}

static int test_operations(void)
{
    int operations = 0;
    for (int64_t i = 0; i < COUNT(KINDS); i++) {
        for (int full = 0; is_operation(&KINDS[i]) && full < 2; full++) {
            check_about("%s, %s", KINDS[i].name, full ? "every attribute" : "few attributes");
            hipdnnBackendDescriptor_t node = make_operation(&KINDS[i], full != 0);
            hipdnnBackendDescriptor_t built = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
            hipdnnBackendDescriptor_t copies[2];
            put_descriptor(built, HIPDNN_ATTR_OPERATIONGRAPH_OPS, node);
            put(built, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, sizeof text - 1, text);
            put_float_type(built, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT);
            copies_of(built, copies);
            drop(copies[0]);
            drop(copies[1]);
            finalize_with(built, handle);
            copies_of(built, copies);
            for (int j = 0; j < 2; j++) {
                finalize_with(copies[j], handle);
                check_same(built, copies[j]);
                drop(copies[j]);
            }
            drop(built);
            drop(node);
            operations += full;
        }
    }
    check_about("%s", "");
    return operations;
}

enum { MOST_TENSORS = 8, MOST_ELEMENTS = 96 };

/* Executes with values derived from the uids, and returns the tensors' contents. */
static void compute(hipdnnBackendDescriptor_t of, float values[MOST_TENSORS][MOST_ELEMENTS])
{
    hipdnnBackendDescriptor_t plan = make_plan(of);
    for (int i = 0; i < MOST_TENSORS; i++) {
        for (int j = 0; j < MOST_ELEMENTS; j++) {
            values[i][j] = (float)((j * 7 + i * 5) % 13 + 1) / 8.0f;
        }
    }
    int64_t uids[MOST_TENSORS];
    void* pointers[MOST_TENSORS];
    int64_t count = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT, HIPDNN_TYPE_INT64,
                                         MOST_TENSORS, &count, uids));
    REQUIRE(count <= MOST_TENSORS);
    for (int64_t i = 0; i < count; i++) {
        pointers[i] = values[uids[i] - 1];
    }
    execute_and_drop(handle, plan, count, uids, pointers);
}

static hipdnnBackendDescriptor_t build_conv_relu(void)
{
    hipdnnBackendDescriptor_t operations[] = {open_convolution(), open_relu()};
    hipdnnBackendDescriptor_t built = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    hipdnnBackendDescriptor_t between = make_tensor(UID_BETWEEN, 1, CHANNELS, SIDE, SIDE, true);
    put_descriptor(operations[0], HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, between);
    put_descriptor(operations[1], HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, between);
    drop(between);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(hipdnnBackendFinalize(operations[i]));
    }
    put(built, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2, operations);
    put_float_type(built, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT);
    put_float_type(built, HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT);
    put_float_type(built, HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT);
    drop(operations[0]);
    drop(operations[1]);
    return built;
}

/* scaled = x * a value of the graph's own, y = batchnorm(scaled) with its variance and epsilon as a value */
static const char BATCHNORM[] =
    "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\","
    " \"nodes\": ["
    "  {\"type\": \"PointwiseAttributes\","
    "   \"inputs\": {\"operation\": \"mul\", \"in_0_tensor_uid\": 1, \"in_1_tensor_uid\": 7},"
    "   \"outputs\": {\"out_0_tensor_uid\": 9}},"
    "  {\"type\": \"BatchnormInferenceAttributesVarianceExt\","
    "   \"inputs\": {\"x_tensor_uid\": 9, \"mean_tensor_uid\": 2, \"variance_tensor_uid\": 3, \"scale_tensor_uid\": 4,"
    "              \"bias_tensor_uid\": 5, \"epsilon_tensor_uid\": 8},"
    "   \"outputs\": {\"y_tensor_uid\": 6}}],"
    " \"tensors\": ["
    "  {\"uid\": 1, \"dims\": [2, 3, 4, 4], \"strides\": [48, 16, 4, 1]},"
    "  {\"uid\": 2, \"dims\": [1, 3, 1, 1], \"strides\": [3, 1, 1, 1]},"
    "  {\"uid\": 3, \"dims\": [1, 3, 1, 1], \"strides\": [3, 1, 1, 1]},"
    "  {\"uid\": 4, \"dims\": [1, 3, 1, 1], \"strides\": [3, 1, 1, 1]},"
    "  {\"uid\": 5, \"dims\": [1, 3, 1, 1], \"strides\": [3, 1, 1, 1]},"
    "  {\"uid\": 6, \"dims\": [2, 3, 4, 4], \"strides\": [48, 16, 4, 1]},"
    "  {\"uid\": 7, \"dims\": [1, 1, 1, 1], \"strides\": [1, 1, 1, 1], \"value_type\": \"Float32Value\", \"value\": "
    "0.1},"
    "  {\"uid\": 8, \"dims\": [1, 1, 1, 1], \"strides\": [1, 1, 1, 1], \"value_type\": \"Float32Value\", \"value\": "
    "1e-5},"
    "  {\"uid\": 9, \"dims\": [2, 3, 4, 4], \"strides\": [48, 16, 4, 1], \"virtual\": true}]}";

/* Consumes the graph, and returns the tensors after an execution. */
static void check_same_results(hipdnnBackendDescriptor_t built, float results[MOST_TENSORS][MOST_ELEMENTS])
{
    static float other[MOST_TENSORS][MOST_ELEMENTS];
    hipdnnBackendDescriptor_t copies[2];
    finalize_with(built, handle);
    copies_of(built, copies);
    compute(built, results);
    for (int i = 0; i < 2; i++) {
        finalize_with(copies[i], handle);
        compute(copies[i], other);
        CHECK(memcmp(results, other, sizeof other) == 0);
        drop(copies[i]);
    }
    drop(built);
}

static void test_results(void)
{
    static float results[MOST_TENSORS][MOST_ELEMENTS];
    static float from_text[MOST_TENSORS][MOST_ELEMENTS];
    check_about("convolution and relu");
    check_same_results(build_conv_relu(), results);
    check_same_results(graph_of_json(CONV_RELU_JSON), from_text);
    CHECK(memcmp(results, from_text, sizeof results) == 0);
    static buffers data;
    memcpy(data.x, results[UID_X - 1], sizeof data.x);
    memcpy(data.w, results[UID_W - 1], sizeof data.w);
    memcpy(data.y, results[UID_Y - 1], sizeof data.y);
    /* All values are positive, so relu changes nothing. */
    CHECK(is_convolved(&data));

    check_about("batchnorm");
    check_same_results(graph_of_json(BATCHNORM), results);
    for (int i = 0; i < 96; i++) {
        const int c = i / 16 % 3;
        const double x = (double)results[0][i] * 0.1;
        const double variance = (double)results[2][c] + 1e-5;
        const double difference = (x - (double)results[1][c]) * (double)results[3][c];
        const double y = (double)results[5][i] - (double)results[4][c];
        /* y² · variance = difference², without a square root */
        CHECK_NEAR(y * y * variance, difference * difference, 1e-5);
        CHECK(y * difference >= 0);
    }
    check_about("%s", "");
}

#define AND_ONE(name, type, operation, compute_type) +1

int main(void)
{
    handle = make_handle();
    tensor = make_tensor(5, 2, 3, 4, 4, false);
    operation = open_single_convolution();
    REQUIRE_OK(hipdnnBackendFinalize(operation));
    CHECK_EQ(test_operations(), 0 OPERATIONS(AND_ONE));
    test_results();
    drop(operation);
    drop(tensor);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
