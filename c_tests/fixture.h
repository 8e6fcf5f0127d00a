/* SPDX-License-Identifier: MIT */

/* Descriptors of every kind, open and finalized, for the C tests. They need one engine that runs a convolution with
 * relu after it. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "check.h"
#include "operations.h"

#include <HipdnnOperationType.h>
#include <HipdnnPointwiseMode.h>

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

#define TYPE_OF(name, type, operation, compute_type) type,
static const hipdnnBackendDescriptorType_t CREATABLE[] = {HIPDNN_BACKEND_ENGINE_DESCRIPTOR,
                                                          HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                          HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                                                          HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                                                          HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                                                          HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                                                          HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR,
                                                          HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                                          HIPDNN_BACKEND_PROFILING_CONTROL_EXT,
                                                          HIPDNN_BACKEND_TENSOR_DESCRIPTOR,
                                                          OPERATIONS(TYPE_OF)};

static inline hipdnnBackendDescriptor_t make(hipdnnBackendDescriptorType_t type)
{
    hipdnnBackendDescriptor_t descriptor = NULL;
    REQUIRE_OK(hipdnnBackendCreateDescriptor(type, &descriptor));
    REQUIRE(descriptor != NULL);
    return descriptor;
}

static inline void drop(hipdnnBackendDescriptor_t descriptor) { CHECK_OK(hipdnnBackendDestroyDescriptor(descriptor)); }

static inline void put(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name,
                       hipdnnBackendAttributeType_t type, int64_t count, const void* values)
{
    REQUIRE_OK(hipdnnBackendSetAttribute(descriptor, name, type, count, values));
}

static inline void put_descriptor(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name,
                                  hipdnnBackendDescriptor_t value)
{
    put(descriptor, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static inline void put_float_type(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name)
{
    const hipdnnDataType_t type = HIPDNN_DATA_FLOAT;
    put(descriptor, name, HIPDNN_TYPE_DATA_TYPE, 1, &type);
}

static inline hipdnnHandle_t make_handle(void)
{
    hipdnnHandle_t handle = NULL;
    REQUIRE_OK(hipdnnCreate(&handle));
    REQUIRE(handle != NULL);
    return handle;
}

/* A float tensor, packed, open. */
static inline hipdnnBackendDescriptor_t open_tensor(int64_t uid, int64_t rank, const int64_t* dims, bool is_virtual)
{
    int64_t strides[8];
    int64_t stride = 1;
    REQUIRE(rank > 0 && rank <= 8);
    for (int64_t i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= dims[i];
    }
    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    put(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid);
    put_float_type(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE);
    put(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, rank, dims);
    put(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, rank, strides);
    put(tensor, HIPDNN_ATTR_TENSOR_IS_VIRTUAL, HIPDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return tensor;
}

static inline hipdnnBackendDescriptor_t make_tensor(int64_t uid, int64_t n, int64_t c, int64_t h, int64_t w,
                                                    bool is_virtual)
{
    const int64_t dims[] = {n, c, h, w};
    hipdnnBackendDescriptor_t tensor = open_tensor(uid, 4, dims, is_virtual);
    REQUIRE_OK(hipdnnBackendFinalize(tensor));
    return tensor;
}

static inline void put_convolution(hipdnnBackendDescriptor_t operation, int64_t padding)
{
    const int64_t paddings[] = {padding, padding};
    const int64_t ones[] = {1, 1};
    const hipdnnConvolutionMode_t mode = HIPDNN_CROSS_CORRELATION;
    put(operation, HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, HIPDNN_TYPE_INT64, 2, paddings);
    put(operation, HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, HIPDNN_TYPE_INT64, 2, paddings);
    put(operation, HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, HIPDNN_TYPE_INT64, 2, ones);
    put(operation, HIPDNN_ATTR_CONVOLUTION_DILATIONS, HIPDNN_TYPE_INT64, 2, ones);
    put(operation, HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    put_float_type(operation, HIPDNN_ATTR_CONVOLUTION_COMP_TYPE);
}

/* The convolution of x with w into y with this padding, open. Drops the tensors. */
static inline hipdnnBackendDescriptor_t convolution_of(hipdnnBackendDescriptor_t x, hipdnnBackendDescriptor_t w,
                                                       hipdnnBackendDescriptor_t y, int64_t padding)
{
    hipdnnBackendDescriptor_t operation = make(HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    put_convolution(operation, padding);
    drop(x);
    drop(w);
    drop(y);
    return operation;
}

/* A graph in single precision of open operations, open, with its handle. Drops the operations. */
static inline hipdnnBackendDescriptor_t open_graph_of(hipdnnHandle_t handle, int64_t count,
                                                      hipdnnBackendDescriptor_t* operations)
{
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    for (int64_t i = 0; i < count; i++) {
        REQUIRE_OK(hipdnnBackendFinalize(operations[i]));
    }
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
    put_float_type(graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT);
    put_float_type(graph, HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT);
    put_float_type(graph, HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    for (int64_t i = 0; i < count; i++) {
        drop(operations[i]);
    }
    return graph;
}

/* The same of one operation, finalized. */
static inline hipdnnBackendDescriptor_t graph_of_one(hipdnnHandle_t handle, hipdnnBackendDescriptor_t operation)
{
    hipdnnBackendDescriptor_t graph = open_graph_of(handle, 1, &operation);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    return graph;
}

/* A test may choose the first uid. */
#ifndef UID_FIRST
#define UID_FIRST 1
#endif
enum { UID_X = UID_FIRST, UID_W, UID_BETWEEN, UID_Y };
enum { SIDE = 4, CHANNELS = 2, X_COUNT = CHANNELS * SIDE * SIDE, W_COUNT = CHANNELS * CHANNELS * 9 };

/* The two operations of relu(convolution(x, w)), open. */
static inline hipdnnBackendDescriptor_t open_convolution(void)
{
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, 1, CHANNELS, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t w = make_tensor(UID_W, CHANNELS, CHANNELS, 3, 3, false);
    hipdnnBackendDescriptor_t y = make_tensor(UID_BETWEEN, 1, CHANNELS, SIDE, SIDE, true);
    return convolution_of(x, w, y, 1);
}

static inline hipdnnBackendDescriptor_t open_relu(void)
{
    hipdnnBackendDescriptor_t in = make_tensor(UID_BETWEEN, 1, CHANNELS, SIDE, SIDE, true);
    hipdnnBackendDescriptor_t out = make_tensor(UID_Y, 1, CHANNELS, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t operation = make(HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    const hipdnnPointwiseMode_t mode = HIPDNN_POINTWISE_RELU_FWD;
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, in);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, out);
    put(operation, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &mode);
    put_float_type(operation, HIPDNN_ATTR_POINTWISE_MATH_PREC);
    drop(in);
    drop(out);
    return operation;
}

/* y = convolution(x, w) in one operation, open. */
static inline hipdnnBackendDescriptor_t open_single_convolution(void)
{
    hipdnnBackendDescriptor_t y = make_tensor(UID_Y, 1, CHANNELS, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t operation = open_convolution();
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    drop(y);
    return operation;
}

/* A graph of one convolution, open, with its handle. */
static inline hipdnnBackendDescriptor_t open_graph(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t operation = open_single_convolution();
    return open_graph_of(handle, 1, &operation);
}

static inline hipdnnBackendDescriptor_t make_graph(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    return graph;
}

static inline hipdnnBackendDescriptor_t open_heuristic(hipdnnBackendDescriptor_t graph)
{
    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    hipdnnBackendDescriptor_t heuristic = make(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    put_descriptor(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    put(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode);
    return heuristic;
}

static inline int64_t count_results(hipdnnBackendDescriptor_t heuristic)
{
    int64_t count = -1;
    CHECK_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                       &count, NULL));
    return count;
}

/* The configuration of the best engine for the graph, open. */
static inline hipdnnBackendDescriptor_t open_config(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    REQUIRE(count_results(heuristic) > 0);
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         &count, &config));
    drop(heuristic);
    return config;
}

/* A knob's value */
static inline hipdnnBackendDescriptor_t make_knob_choice(const char* id, int64_t value)
{
    hipdnnBackendDescriptor_t choice = make(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, (int64_t)strlen(id), id);
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, 1, &value);
    REQUIRE_OK(hipdnnBackendFinalize(choice));
    return choice;
}

/* The plan of the graph's best engine with one knob set */
static inline hipdnnBackendDescriptor_t plan_with_knob(hipdnnBackendDescriptor_t graph, const char* id, int64_t value)
{
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendDescriptor_t choice = make_knob_choice(id, value);
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &choice);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    drop(choice);
    drop(config);
    return plan;
}

/* The plan of one of two engines, the best first */
static inline hipdnnBackendDescriptor_t plan_of_engine(hipdnnBackendDescriptor_t graph, int64_t place)
{
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    hipdnnBackendDescriptor_t configs[2] = {make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                                            make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR)};
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t count = 0;
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2,
                                         &count, configs));
    REQUIRE(count == 2);
    REQUIRE_OK(hipdnnBackendFinalize(configs[place]));
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[place]);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    drop(configs[0]);
    drop(configs[1]);
    drop(heuristic);
    return plan;
}

static inline int64_t best_engine_id(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t config = open_config(graph);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t engine = NULL;
    int64_t id = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                                         &engine));
    REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, NULL, &id));
    drop(engine);
    drop(config);
    return id;
}

static inline hipdnnBackendDescriptor_t open_engine(hipdnnBackendDescriptor_t graph)
{
    const int64_t id = best_engine_id(graph);
    hipdnnBackendDescriptor_t engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    put_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    return engine;
}

static inline hipdnnBackendDescriptor_t open_plan(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t config = open_config(graph);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    drop(config);
    return plan;
}

static inline hipdnnBackendDescriptor_t make_plan(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t plan = open_plan(graph);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    return plan;
}

static inline int64_t plan_workspace(hipdnnBackendDescriptor_t plan)
{
    int64_t size = -1;
    REQUIRE_OK(
        hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1, NULL, &size));
    REQUIRE(size >= 0);
    return size;
}

/* Memory for the tensors of the graph of open_graph, and a workspace. */
typedef struct {
    _Alignas(64) float x[X_COUNT];
    _Alignas(64) float w[W_COUNT];
    _Alignas(64) float y[X_COUNT];
    void* workspace;
} buffers;

static inline void fill_buffers(buffers* data, hipdnnBackendDescriptor_t plan)
{
    for (int i = 0; i < X_COUNT; i++) {
        data->x[i] = (float)(i * 7 % 13 - 6) / 4.0f;
        data->y[i] = -99.0f;
    }
    for (int i = 0; i < W_COUNT; i++) {
        data->w[i] = (float)(i * 5 % 11 - 5) / 8.0f;
    }
    data->workspace = aligned_alloc(64, ((size_t)plan_workspace(plan) + 64) / 64 * 64);
    REQUIRE(data->workspace != NULL);
}

static inline hipdnnBackendDescriptor_t open_pack(buffers* data)
{
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void* const pointers[] = {data->x, data->w, data->y};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &data->workspace);
    return pack;
}

static inline hipdnnBackendDescriptor_t make_pack(buffers* data)
{
    hipdnnBackendDescriptor_t pack = open_pack(data);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    return pack;
}

/* Executes a plan with these tensors and a workspace, and drops it. */
static inline void execute_and_drop(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan, int64_t count,
                                    const int64_t* uids, void* const* pointers)
{
    void* const workspace = malloc((size_t)plan_workspace(plan) + 1);
    REQUIRE(workspace != NULL);
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, count, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, count, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    drop(pack);
    drop(plan);
    free(workspace);
}

/* Whether y equals the result of plain loops; the values are small binary fractions, so the sums are exact. */
static inline bool is_convolved(const buffers* data)
{
    for (int k = 0; k < CHANNELS; k++) {
        for (int row = 0; row < SIDE; row++) {
            for (int column = 0; column < SIDE; column++) {
                float sum = 0.0f;
                for (int c = 0; c < CHANNELS; c++) {
                    for (int r = 0; r < 3; r++) {
                        for (int s = 0; s < 3; s++) {
                            const int i = row + r - 1;
                            const int j = column + s - 1;
                            if (i >= 0 && i < SIDE && j >= 0 && j < SIDE) {
                                sum +=
                                    data->x[(c * SIDE + i) * SIDE + j] * data->w[((k * CHANNELS + c) * 3 + r) * 3 + s];
                            }
                        }
                    }
                }
                if (data->y[(k * SIDE + row) * SIDE + column] != sum) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* All of a file, which leaves room */
static inline void read_text(const char* path, char* text, size_t size)
{
    FILE* const file = fopen(path, "rb");
    REQUIRE(file != NULL);
    const size_t length = fread(text, 1, size - 1, file);
    fclose(file);
    REQUIRE(length < size - 1);
    text[length] = '\0';
}

#endif
