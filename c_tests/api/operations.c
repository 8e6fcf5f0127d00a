/* SPDX-License-Identifier: MIT */

/* The operations: their type, what finalize demands, and optional attributes that were never set. */
#include "../fixture.h"

static hipdnnBackendDescriptor_t tensor;

typedef struct {
    hipdnnBackendDescriptorType_t type;
    hipdnnOperationType_ext_t operation;
    hipdnnBackendAttributeName_t compute_type;
    /* Required tensors, then optional ones; each list ends with 0. */
    int required[10];
    int optional[10];
    enum { PLAIN, CONVOLUTION, POINTWISE } parameters;
} kind;

static const kind KINDS[] = {
    {HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT,
     HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
     {1400, 1401, 1402, 0},
     {0},
     CONVOLUTION},
    {HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_WEIGHTS_EXT,
     HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
     {1600, 1601, 1602, 0},
     {0},
     CONVOLUTION},
    {HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_DATA_EXT,
     HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
     {1700, 1701, 1702, 0},
     {0},
     CONVOLUTION},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT,
     HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_EXT,
     HIPDNN_ATTR_BATCHNORM_INF_COMP_TYPE_EXT,
     {1800, 1801, 1802, 1803, 1804, 1805, 0},
     {0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT,
     HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_VARIANCE_EXT,
     HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT,
     {1900, 1901, 1902, 1903, 1904, 1905, 1906, 0},
     {0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT,
     HIPDNN_OPERATION_TYPE_BATCHNORM_EXT,
     HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT,
     {2900, 2901, 2902, 2903, 2904, 0},
     {2905, 2906, 2907, 2908, 2909, 2910, 2911, 2913, 0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT,
     HIPDNN_OPERATION_TYPE_BATCHNORM_BACKWARD_EXT,
     HIPDNN_ATTR_BATCHNORM_BACKWARD_COMP_TYPE_EXT,
     {2000, 2001, 2002, 2003, 2004, 2005, 0},
     {2006, 2007, 2101, 0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_MATMUL_EXT,
     HIPDNN_ATTR_MATMUL_COMP_TYPE,
     {2500, 2501, 2502, 0},
     {0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_RMSNORM_DESCRIPTOR_EXT,
     HIPDNN_OPERATION_TYPE_RMSNORM_EXT,
     HIPDNN_ATTR_RMSNORM_COMP_TYPE_EXT,
     {2400, 2401, 2402, 2403, 0},
     {2404, 2405, 0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_RMSNORM_BACKWARD_DESCRIPTOR_EXT,
     HIPDNN_OPERATION_TYPE_RMSNORM_BACKWARD_EXT,
     HIPDNN_ATTR_RMSNORM_BACKWARD_COMP_TYPE_EXT,
     {3500, 3501, 3502, 3504, 3505, 0},
     {3503, 3506, 0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_SDPA_FORWARD_EXT,
     HIPDNN_ATTR_SDPA_FWD_COMP_TYPE_EXT,
     {2600, 2601, 2602, 2603, 0},
     {2604, 2605, 2606, 2607, 2614, 2615, 2621, 2622, 2627, 0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR_EXT,
     HIPDNN_OPERATION_TYPE_SDPA_BACKWARD_EXT,
     HIPDNN_ATTR_SDPA_BWD_COMP_TYPE_EXT,
     {3100, 3101, 3102, 3103, 3104, 3105, 3106, 3107, 3108, 0},
     {3109, 3110, 3111, 3112, 3113, 3114, 3117, 3118, 0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_EXT,
     HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC,
     {3700, 3701, 3702, 3705, 0},
     {3703, 3704, 0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_BWD_EXT,
     HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_MATH_PREC,
     {3800, 3801, 3802, 3803, 0},
     {0},
     PLAIN},
    {HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     HIPDNN_OPERATION_TYPE_POINTWISE_EXT,
     HIPDNN_ATTR_POINTWISE_MATH_PREC,
     {2200, 2201, 0},
     {2202, 2203, 0},
     POINTWISE},
};

static void put_parameters(hipdnnBackendDescriptor_t operation, const kind* k)
{
    const hipdnnPointwiseMode_t mode = HIPDNN_POINTWISE_ABS;
    if (k->parameters == CONVOLUTION) {
        put_convolution(operation, 1);
    } else if (k->parameters == POINTWISE) {
        put(operation, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &mode);
    }
}

/* The operation without the required tensor at `missing` and, if so asked, without its compute type or parameters. */
static hipdnnBackendDescriptor_t open_operation(const kind* k, int missing, bool compute_type, bool parameters)
{
    hipdnnBackendDescriptor_t operation = make(k->type);
    for (int i = 0; k->required[i] != 0; i++) {
        if (i != missing) {
            put_descriptor(operation, (hipdnnBackendAttributeName_t)k->required[i], tensor);
        }
    }
    if (parameters) {
        put_parameters(operation, k);
    }
    if (compute_type && k->parameters != CONVOLUTION) {
        put_float_type(operation, k->compute_type);
    }
    return operation;
}

static void test_requirements(const kind* k)
{
    for (int i = 0; k->required[i] != 0; i++) {
        check_about("type %d without %d", (int)k->type, k->required[i]);
        hipdnnBackendDescriptor_t operation = open_operation(k, i, true, true);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "HIPDNN_ATTR_", hipdnnBackendFinalize(operation));
        /* It stays open, and can be completed. */
        put_descriptor(operation, (hipdnnBackendAttributeName_t)k->required[i], tensor);
        CHECK_OK(hipdnnBackendFinalize(operation));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "finalized", hipdnnBackendFinalize(operation));
        drop(operation);
    }
    check_about("type %d without compute type", (int)k->type);
    if (k->parameters != CONVOLUTION) {
        hipdnnBackendDescriptor_t operation = open_operation(k, -1, false, true);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "HIPDNN_ATTR_", hipdnnBackendFinalize(operation));
        drop(operation);
    }
    if (k->parameters != PLAIN) {
        check_about("type %d without parameters", (int)k->type);
        hipdnnBackendDescriptor_t operation = open_operation(k, -1, true, false);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "HIPDNN_ATTR_", hipdnnBackendFinalize(operation));
        drop(operation);
    }
}

static void test_each_convolution_parameter(const kind* k)
{
    static const int names[] = {1500, 1501, 1502, 1503, 1504, 1505};
    const int64_t ones[] = {1, 1};
    const hipdnnConvolutionMode_t mode = HIPDNN_CONVOLUTION;
    for (int64_t missing = 0; missing < COUNT(names); missing++) {
        check_about("type %d without %d", (int)k->type, names[missing]);
        hipdnnBackendDescriptor_t operation = open_operation(k, -1, true, false);
        for (int64_t i = 0; i < COUNT(names); i++) {
            const hipdnnBackendAttributeName_t name = (hipdnnBackendAttributeName_t)names[i];
            if (i == missing) {
                continue;
            }
            if (name == HIPDNN_ATTR_CONVOLUTION_COMP_TYPE) {
                put_float_type(operation, name);
            } else if (name == HIPDNN_ATTR_CONVOLUTION_CONV_MODE) {
                put(operation, name, HIPDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
            } else {
                put(operation, name, HIPDNN_TYPE_INT64, 2, ones);
            }
        }
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "HIPDNN_ATTR_", hipdnnBackendFinalize(operation));
        drop(operation);
    }
}

static void test_reading(const kind* k)
{
    check_about("type %d", (int)k->type);
    hipdnnBackendDescriptor_t operation = open_operation(k, -1, true, true);
    hipdnnOperationType_ext_t type = HIPDNN_OPERATION_TYPE_NOT_SET_EXT;
    int64_t count = 0;
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                hipdnnBackendGetAttribute(operation, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1,
                                          &count, &type));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "OPERATION_TYPE",
                hipdnnBackendSetAttribute(operation, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1,
                                          &k->operation));
    CHECK_OK(hipdnnBackendFinalize(operation));
    CHECK_OK(hipdnnBackendGetAttribute(operation, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1,
                                       &count, &type));
    CHECK(count == 1 && type == k->operation);

    /* An optional tensor that was never set: no elements, and nothing is written. */
    for (int i = 0; k->optional[i] != 0; i++) {
        hipdnnBackendDescriptor_t untouched = tensor;
        count = 4711;
        CHECK_OK(hipdnnBackendGetAttribute(operation, (hipdnnBackendAttributeName_t)k->optional[i],
                                           HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &untouched));
        CHECK_EQ(count, 0);
        CHECK(untouched == tensor);
    }
    /* A tensor that was set comes back as a descriptor of its own, with the same content. */
    hipdnnBackendDescriptor_t got = NULL;
    int64_t uid = 0;
    CHECK_OK(hipdnnBackendGetAttribute(operation, (hipdnnBackendAttributeName_t)k->required[0],
                                       HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &got));
    CHECK(got != NULL && got != tensor);
    CHECK_OK(hipdnnBackendGetAttribute(got, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &count, &uid));
    CHECK_EQ(uid, 5);
    drop(operation);
    /* The operation is gone, what it gave out is not. */
    CHECK_OK(hipdnnBackendGetAttribute(got, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &count, &uid));
    drop(got);
}

static void test_pointwise_floats(void)
{
    hipdnnBackendDescriptor_t operation = open_operation(&KINDS[COUNT(KINDS) - 1], -1, true, true);
    CHECK_OK(hipdnnBackendFinalize(operation));
    for (int name = HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP; name <= HIPDNN_ATTR_POINTWISE_SOFTPLUS_BETA; name++) {
        float untouched = 42.0f;
        int64_t count = 4711;
        check_about("attribute %d", name);
        CHECK_OK(hipdnnBackendGetAttribute(operation, (hipdnnBackendAttributeName_t)name, HIPDNN_TYPE_FLOAT, 1, &count,
                                           &untouched));
        CHECK(count == 0 && untouched == 42.0f);
    }
    check_about("%s", "");
    drop(operation);
}

int main(void)
{
    tensor = make_tensor(5, 2, 3, 4, 4, false);
    for (int64_t i = 0; i < COUNT(KINDS); i++) {
        test_requirements(&KINDS[i]);
        test_reading(&KINDS[i]);
        if (KINDS[i].parameters == CONVOLUTION) {
            test_each_convolution_parameter(&KINDS[i]);
        }
    }
    test_pointwise_floats();
    drop(tensor);
    return check_result();
}
