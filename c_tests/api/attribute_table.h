/* SPDX-License-Identifier: MIT */

/* Every kind of descriptor but the variant pack, with its attributes. */
#ifndef ATTRIBUTE_TABLE_H
#define ATTRIBUTE_TABLE_H

#include "../fixture.h"

#include <HipdnnAttentionImplementation.h>
#include <HipdnnDiagonalAlignment.h>
#include <HipdnnNormFwdPhase.h>

/* How many elements an attribute has. */
typedef enum { ONE, MANY, TEXT, BYTES } shape;

/* Who may ask for how many. EXACTLY: requestedElementCount must be 1. SIZED: null or 0 asks for the number. */
typedef enum { UNREADABLE, EXACTLY, SIZED } reading;

/* What an operation does without an attribute: it has a default, it has no element, or it cannot be finalized. */
enum { DEFAULT = 1, OPTIONAL, REQUIRED };

typedef struct {
    hipdnnBackendAttributeName_t name;
    hipdnnBackendAttributeType_t type;
    shape shape;
    int settable; /* false, true, or of an operation DEFAULT, OPTIONAL or REQUIRED */
    reading reading;
    const void* value;
    int64_t count;
    size_t size; /* of an element */
} attribute;

typedef struct {
    hipdnnBackendDescriptorType_t type;
    const char* name;
    const attribute* attributes;
    int64_t count;
    hipdnnStatus_t open_get; /* SUCCESS: can be read before it is finalized */
    bool once;               /* finalizing again fails */
} kind;

/* What attributes are set to */
static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t tensor;
static hipdnnBackendDescriptor_t operation;
static hipdnnBackendDescriptor_t graph;
static hipdnnBackendDescriptor_t engine;
static hipdnnBackendDescriptor_t config;
static int64_t engine_id;
static const int64_t uid = 77;
static const int64_t graph_uids[] = {UID_X, UID_W, UID_Y};
static const int64_t pair[] = {1, 1};
static const int64_t dims[] = {2, 3, 4};
static const int64_t strides[] = {12, 4, 1};
static const int64_t alignment = 32;
static const int64_t axis = 1;
static const int64_t knob_value = 4;
static const int64_t knob_type = HIPDNN_TYPE_INT64;
static const bool no = false;
static const float number = 0.25f;
static const char text[] = "a name";
static const unsigned char raw_bytes[] = {0, 255, 0, 7};
static const int32_t block = 32;
static const int32_t blocks[] = {32, 1};
static const hipdnnDataType_t half_type = HIPDNN_DATA_HALF;
/* SelectionHeuristic::StaticOrdering, SelectionHeuristic::Config */
static const int64_t policies[] = {-0x46f46a1c3b64fde3, 0x79dac33209e0d5c1};
static const hipdnnBackendHeurMode_t heuristic_mode = HIPDNN_HEUR_MODE_FALLBACK;
/* One of each enumeration that operations have, under its attribute type. */
static const hipdnnDataType_t a_HIPDNN_TYPE_DATA_TYPE = HIPDNN_DATA_FLOAT;
static const hipdnnConvolutionMode_t a_HIPDNN_TYPE_CONVOLUTION_MODE = HIPDNN_CROSS_CORRELATION;
static const hipdnnPointwiseMode_t a_HIPDNN_TYPE_POINTWISE_MODE = HIPDNN_POINTWISE_RELU_FWD;
static const hipdnnNormFwdPhase_t a_HIPDNN_TYPE_NORM_FWD_PHASE = HIPDNN_NORM_FWD_TRAINING;
static const hipdnnDiagonalAlignment_t a_HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT =
    HIPDNN_DIAGONAL_ALIGNMENT_BOTTOM_RIGHT_EXT;
static const hipdnnAttentionImplementation_t a_HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT =
    HIPDNN_ATTENTION_IMPLEMENTATION_UNIFIED_EXT;
static const hipdnnReduceTensorOp_t a_HIPDNN_TYPE_REDUCTION_OPERATOR_TYPE = HIPDNN_REDUCE_TENSOR_NORM2;
static const hipdnnResampleMode_t a_HIPDNN_TYPE_RESAMPLE_MODE = HIPDNN_RESAMPLE_MAXPOOL;
static const hipdnnPaddingMode_t a_HIPDNN_TYPE_PADDING_MODE = HIPDNN_PADDING_NEG_INF_PAD;
static const hipdnnMoeGroupedMatmulMode_t a_HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE =
    HIPDNN_MOE_GROUPED_MATMUL_MODE_SCATTER;

#define TENSOR(name, need) {name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, ONE, need, SIZED, &tensor, 1, sizeof tensor}
#define TENSORS(name, need) {name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, MANY, need, SIZED, &tensor, 1, sizeof tensor}
#define INT64(name, need) {name, HIPDNN_TYPE_INT64, ONE, need, SIZED, &axis, 1, sizeof axis}
#define INT64S(name, need) {name, HIPDNN_TYPE_INT64, MANY, need, SIZED, pair, 2, sizeof pair[0]}
#define INT32(name, need) {name, HIPDNN_TYPE_INT32, ONE, need, SIZED, &block, 1, sizeof block}
#define INT32S(name, need) {name, HIPDNN_TYPE_INT32, MANY, need, SIZED, blocks, 2, sizeof blocks[0]}
#define FLOAT(name, need) {name, HIPDNN_TYPE_FLOAT, ONE, need, SIZED, &number, 1, sizeof number}
#define FLAG(name, need) {name, HIPDNN_TYPE_BOOLEAN, ONE, need, SIZED, &no, 1, sizeof no}
#define STRING(name, need) {name, HIPDNN_TYPE_CHAR, TEXT, need, SIZED, text, sizeof text - 1, 1}
#define RAW(name, need) {name, HIPDNN_TYPE_CHAR, BYTES, need, SIZED, raw_bytes, sizeof raw_bytes, 1}
#define ENUM(name, type, need) {name, type, ONE, need, SIZED, &a_##type, 1, sizeof a_##type}
#define DATA_TYPE(name) ENUM(name, HIPDNN_TYPE_DATA_TYPE, true)
#define CHILD(name, child) {name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, ONE, true, EXACTLY, &child, 1, sizeof child}

static const attribute TENSOR_ATTRIBUTES[] = {
    {HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, ONE, true, SIZED, &uid, 1, sizeof uid},
    {HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, TEXT, true, SIZED, text, sizeof text - 1, 1},
    {HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, ONE, true, SIZED, &half_type, 1, sizeof half_type},
    {HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, MANY, true, SIZED, dims, 3, sizeof dims[0]},
    {HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, MANY, true, SIZED, strides, 3, sizeof strides[0]},
    {HIPDNN_ATTR_TENSOR_IS_VIRTUAL, HIPDNN_TYPE_BOOLEAN, ONE, true, SIZED, &no, 1, sizeof no},
    {HIPDNN_ATTR_TENSOR_IS_BY_VALUE, HIPDNN_TYPE_BOOLEAN, ONE, false, SIZED, &no, 1, sizeof no},
    {HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT, HIPDNN_TYPE_BOOLEAN, ONE, true, SIZED, &no, 1, sizeof no},
    {HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, HIPDNN_TYPE_INT64, ONE, true, SIZED, &alignment, 1, sizeof alignment},
};

/* The operations. */
#define TABLE(name, type, operation, compute_type)                      \
    static const attribute OF_##name[] = {                              \
        ATTRIBUTES_##name ENUM(compute_type, HIPDNN_TYPE_DATA_TYPE, REQUIRED), \
        STRING(HIPDNN_ATTR_OPERATION_NAME_EXT, DEFAULT),                \
    };
OPERATIONS(TABLE)

static const attribute GRAPH[] = {
    {HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, ONE, true, UNREADABLE, &handle, 1, sizeof handle},
    {HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, MANY, true, SIZED, &operation, 1,
     sizeof operation},
    DATA_TYPE(HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT),
    DATA_TYPE(HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT),
    DATA_TYPE(HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT),
    {HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, HIPDNN_TYPE_INT64, ONE, true, SIZED, &engine_id, 1,
     sizeof engine_id},
    {HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, TEXT, true, SIZED, text, sizeof text - 1, 1},
    {HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, ONE, true, SIZED, &no, 1,
     sizeof no},
    {HIPDNN_ATTR_OPERATIONGRAPH_IS_PLAN_CACHE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, ONE, true, SIZED, &no, 1, sizeof no},
};

static const attribute HEURISTIC[] = {
    {HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, ONE, true, EXACTLY, &heuristic_mode, 1, sizeof heuristic_mode},
    CHILD(HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph),
    {HIPDNN_ATTR_ENGINEHEUR_FIND_FIRST_EXT, HIPDNN_TYPE_BOOLEAN, ONE, true, SIZED, &no, 1, sizeof no},
    /* Not MANY, since a list without policies is a list, too. */
    {HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, BYTES, true, SIZED, policies, 2, sizeof policies[0]},
};

static const attribute ENGINE[] = {
    CHILD(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph),
    {HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, ONE, true, EXACTLY, &engine_id, 1, sizeof engine_id},
};

static const attribute CONFIG[] = {
    CHILD(HIPDNN_ATTR_ENGINECFG_ENGINE, engine),
};

static const attribute PLAN[] = {
    CHILD(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config),
    {HIPDNN_ATTR_EXECUTION_PLAN_HANDLE, HIPDNN_TYPE_HANDLE, ONE, true, UNREADABLE, &handle, 1, sizeof handle},
    {HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT, HIPDNN_TYPE_INT64, MANY, false, SIZED, graph_uids, 3,
     sizeof graph_uids[0]},
    {HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT, HIPDNN_TYPE_INT64, ONE, false, SIZED, &engine_id, 1,
     sizeof engine_id},
    {HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, ONE, false, SIZED, &no, 1,
     sizeof no},
};

/* What is for texts only (908, 909) has knob_info.c. */
static const attribute KNOB_INFO[] = {
    {HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, TEXT, true, SIZED, text, sizeof text - 1, 1},
    {HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, HIPDNN_TYPE_INT64, ONE, true, SIZED, &uid, 1, sizeof uid},
    {HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, HIPDNN_TYPE_INT64, ONE, true, SIZED, &axis, 1, sizeof axis},
    {HIPDNN_ATTR_KNOB_INFO_STRIDE, HIPDNN_TYPE_INT64, ONE, true, SIZED, &axis, 1, sizeof axis},
    {HIPDNN_ATTR_KNOB_INFO_DESCRIPTION, HIPDNN_TYPE_CHAR, TEXT, true, SIZED, text, sizeof text - 1, 1},
    {HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_INT64, ONE, true, SIZED, &knob_value, 1, sizeof knob_value},
    {HIPDNN_ATTR_KNOB_INFO_DEPRECATED, HIPDNN_TYPE_BOOLEAN, ONE, true, SIZED, &no, 1, sizeof no},
    {HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, HIPDNN_TYPE_INT64, MANY, true, SIZED, strides, 3, sizeof strides[0]},
    {HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE, HIPDNN_TYPE_INT64, ONE, false, SIZED, &knob_type, 1, sizeof knob_type},
};

static const attribute KNOB_CHOICE[] = {
    {HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, TEXT, true, SIZED, text, sizeof text - 1, 1},
    {HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, ONE, true, SIZED, &knob_value, 1, sizeof knob_value},
};

#define KIND(type, name, list, open_get, once) {type, name, list, COUNT(list), open_get, once}
#define OPERATION(name, type, operation, compute_type) KIND(type, #name, OF_##name, HIPDNN_STATUS_NOT_INITIALIZED, true),
static const kind KINDS[] = {
    KIND(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor", TENSOR_ATTRIBUTES, HIPDNN_STATUS_NOT_INITIALIZED, true),
    OPERATIONS(OPERATION) KIND(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "graph", GRAPH, HIPDNN_STATUS_SUCCESS, false),
    KIND(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristic", HEURISTIC, HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, true),
    KIND(HIPDNN_BACKEND_ENGINE_DESCRIPTOR, "engine", ENGINE, HIPDNN_STATUS_NOT_INITIALIZED, true),
    KIND(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine configuration", CONFIG, HIPDNN_STATUS_NOT_INITIALIZED, true),
    KIND(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan", PLAN, HIPDNN_STATUS_NOT_INITIALIZED, true),
    KIND(HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR, "knob info", KNOB_INFO, HIPDNN_STATUS_NOT_INITIALIZED, true),
    KIND(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "knob choice", KNOB_CHOICE, HIPDNN_STATUS_NOT_INITIALIZED, true),
};

#endif
