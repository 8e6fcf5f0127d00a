/* SPDX-License-Identifier: MIT */

/* The tensor: what finalize demands, defaults, and values that are part of the graph. */
#include "../fixture.h"

static const int64_t dims[] = {2, 3};
static const int64_t strides[] = {3, 1};

static void put_type(hipdnnBackendDescriptor_t tensor, hipdnnDataType_t type)
{
    put(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, &type);
}

/* Each requirement missing in turn, then present: the same descriptor serves until it is complete. */
static void test_requirements(void)
{
    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "tensor", hipdnnBackendFinalize(tensor));
    put(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 2, dims);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "", hipdnnBackendFinalize(tensor));
    put(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 2, strides);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "DATA_TYPE", hipdnnBackendFinalize(tensor));
    put_type(tensor, HIPDNN_DATA_HALF);
    put(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 1, strides);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "", hipdnnBackendFinalize(tensor));
    put(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 2, strides);
    CHECK_OK(hipdnnBackendFinalize(tensor));
    drop(tensor);
}

static int64_t read_int64(hipdnnBackendDescriptor_t tensor, hipdnnBackendAttributeName_t name)
{
    int64_t value = 4711;
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(tensor, name, HIPDNN_TYPE_INT64, 1, &count, &value));
    CHECK_EQ(count, 1);
    return value;
}

static bool read_bool(hipdnnBackendDescriptor_t tensor, hipdnnBackendAttributeName_t name)
{
    unsigned char value = 0xa5;
    CHECK_OK(hipdnnBackendGetAttribute(tensor, name, HIPDNN_TYPE_BOOLEAN, 1, NULL, &value));
    CHECK(value <= 1);
    return value == 1;
}

static void test_defaults(void)
{
    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    put(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 2, dims);
    put(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 2, strides);
    put_type(tensor, HIPDNN_DATA_FLOAT);
    CHECK_OK(hipdnnBackendFinalize(tensor));
    CHECK_EQ(read_int64(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID), 0);
    CHECK_EQ(read_int64(tensor, HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT), 16);
    CHECK(!read_bool(tensor, HIPDNN_ATTR_TENSOR_IS_VIRTUAL));
    CHECK(!read_bool(tensor, HIPDNN_ATTR_TENSOR_IS_BY_VALUE));
    CHECK(!read_bool(tensor, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT));
    char name[8] = "#######";
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, 8, &count, name));
    CHECK(count == 1 && name[0] == '\0');
    drop(tensor);
}

static hipdnnStatus_t set_value(hipdnnBackendDescriptor_t tensor, int64_t bytes, const void* value)
{
    return hipdnnBackendSetAttribute(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, bytes, value);
}

static void test_values(void)
{
    static const struct {
        hipdnnDataType_t type;
        int64_t size;
    } types[] = {
        {HIPDNN_DATA_FLOAT, 4}, {HIPDNN_DATA_DOUBLE, 8}, {HIPDNN_DATA_HALF, 2},    {HIPDNN_DATA_BFLOAT16, 2},
        {HIPDNN_DATA_INT32, 4}, {HIPDNN_DATA_INT64, 8},  {HIPDNN_DATA_BOOLEAN, 1},
    };
    /* 1 as a number of every type in turn */
    static const float one = 1.0f;
    static const double one_double = 1.0;
    static const uint16_t one_half = 0x3c00;
    static const uint16_t one_bfloat16 = 0x3f80;
    static const int32_t one_int32 = 1;
    static const int64_t one_int64 = 1;
    static const unsigned char one_boolean = 1;
    const void* const values[] = {&one, &one_double, &one_half, &one_bfloat16, &one_int32, &one_int64, &one_boolean};
    const int64_t scalar[] = {1};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        check_about("data type %d", (int)types[i].type);
        unsigned char got[16];
        int64_t count = 0;
        hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
        put(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 1, scalar);
        put(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 1, scalar);
        put_type(tensor, types[i].type);
        unsigned char longer[sizeof got] = {0};
        memcpy(longer, values[i], (size_t)types[i].size);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "VALUE", set_value(tensor, types[i].size + 1, longer));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "VALUE", set_value(tensor, -1, values[i]));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "VALUE", set_value(tensor, types[i].size, NULL));
        CHECK_OK(set_value(tensor, types[i].size, values[i]));
        CHECK_OK(hipdnnBackendFinalize(tensor));
        CHECK(read_bool(tensor, HIPDNN_ATTR_TENSOR_IS_BY_VALUE));
        CHECK_OK(
            hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, sizeof got, &count, got));
        CHECK_EQ(count, types[i].size);
        CHECK(memcmp(got, values[i], (size_t)types[i].size) == 0);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                    hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, 1, &count, NULL));
        drop(tensor);
    }
    check_about("%s", "");

    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    /* The type comes first: it says how many bytes a value has. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "VALUE", set_value(tensor, 4, &one));
    put(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 1, scalar);
    put(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 1, scalar);
    put_type(tensor, HIPDNN_DATA_FP4_E2M1);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "VALUE", set_value(tensor, 1, &one));
    put_type(tensor, HIPDNN_DATA_FLOAT);
    CHECK_OK(hipdnnBackendFinalize(tensor));
    unsigned char byte = 0xa5;
    int64_t count = 4711;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "VALUE",
                hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, 1, &count, &byte));
    CHECK(byte == 0xa5 && count == 4711);

    /* An array for the bytes of a value, and a number where there may be none of a tensor */
    hipdnnBackendDescriptor_t offsets = tensor;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount",
                hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, NULL, &offsets));
    CHECK_OK(hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                       &count, &offsets));
    CHECK(count == 0 && offsets == tensor);
    drop(tensor);
}

/* Numbers as a hostile caller would give them: refused here, or by the engine that is asked for the graph, but never a
 * crash. */
static void test_extreme_shapes(void)
{
    static const int64_t numbers[] = {0, -1, INT64_MIN, INT64_MAX, (int64_t)1 << 62, 3};
    hipdnnHandle_t handle = make_handle();
    for (int64_t i = 0; i < COUNT(numbers); i++) {
        for (int64_t j = 0; j < COUNT(numbers); j++) {
            check_about("dims %lld, strides %lld", (long long)numbers[i], (long long)numbers[j]);
            const int64_t shape[] = {1, numbers[i], 4, 4};
            const int64_t steps[] = {numbers[j], numbers[j], 4, 1};
            hipdnnBackendDescriptor_t x = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
            const int64_t uid = 1;
            put(x, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid);
            put_type(x, HIPDNN_DATA_FLOAT);
            put(x, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 4, shape);
            put(x, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 4, steps);
            if (hipdnnBackendFinalize(x) != HIPDNN_STATUS_SUCCESS) {
                CHECK_LAST_ERROR("tensor");
                drop(x);
                continue;
            }
            hipdnnBackendDescriptor_t operation = open_single_convolution();
            put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
            hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
            if (hipdnnBackendFinalize(operation) == HIPDNN_STATUS_SUCCESS) {
                put(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
                put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
                if (hipdnnBackendFinalize(graph) == HIPDNN_STATUS_SUCCESS) {
                    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
                    CHECK_OK(hipdnnBackendFinalize(heuristic));
                    CHECK_EQ(count_results(heuristic), 0);
                    drop(heuristic);
                }
            }
            drop(graph);
            drop(operation);
            drop(x);
        }
    }
    check_about("%s", "");
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    test_requirements();
    test_defaults();
    test_values();
    test_extreme_shapes();
    return check_result();
}
