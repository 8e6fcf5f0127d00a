/* SPDX-License-Identifier: MIT */

/*
 * A few functions that turn a list of operations into an executable plan, shared by the examples.
 *
 * The C API of hipDNN has one kind of object, the descriptor, with one life cycle: create, set attributes,
 * finalize, destroy. A computation is built from them step by step, and these functions are named after the steps:
 *
 *   hd_graph_begin    an empty list of operations
 *   hd_tensor, ...    what the operations read and write: shape, type, and a number (uid) to bind memory to
 *   hd_conv_..., ...  one operation each
 *   hd_graph_build    operation graph -> engines that can run it -> configuration of one engine -> execution plan
 *   hd_execute        plan + memory -> results
 *
 * Every call is checked. If one fails, the program prints the call, the status and the library's message, and exits.
 */
#ifndef HIPDNN_HELPERS_H
#define HIPDNN_HELPERS_H

#include <hipdnn_backend.h>
#include <HipdnnOperationType.h>
#include <HipdnnPointwiseMode.h>
#include <HipdnnReduceTensorOp.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HD_MAX_DESCRIPTORS 128
#define HD_MAX_OPERATIONS 32
#define HD_MAX_BOUND 32
#define HD_NAME_LENGTH 64

/* Checks */

static inline void hd_check(hipdnnStatus_t status, const char* call, const char* file, int line)
{
    if (status == HIPDNN_STATUS_SUCCESS) {
        return;
    }
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnGetLastErrorString(text, sizeof text);
    fprintf(stderr, "%s:%d: %s\n  gave %s: %s\n", file, line, call, hipdnnGetErrorString(status), text);
    exit(EXIT_FAILURE);
}

#define HD_CHECK(call) hd_check((call), #call, __FILE__, __LINE__)

static inline void hd_fail(const char* text)
{
    fprintf(stderr, "%s\n", text);
    exit(EXIT_FAILURE);
}

/* Memory: of the host, or, with hd_use_device of gpu_memory.h, of a GPU, which the program cannot access directly */

static inline void* hd_host_allocate(size_t bytes)
{
    void* memory = aligned_alloc(64, bytes);
    if (memory == NULL) {
        hd_fail("out of memory");
    }
    return memory;
}

static inline void hd_host_copy(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }

static struct {
    void* (*allocate)(size_t bytes); /* aligned to at least 64 bytes, in multiples of 64 */
    void (*release)(void* memory);
    void (*write)(void* to, const void* from, size_t bytes); /* from the program's own memory */
    void (*read)(void* to, const void* from, size_t bytes);  /* into the program's own memory, after all work is done */
} hd_memory = {hd_host_allocate, free, hd_host_copy, hd_host_copy};

/* Memory for `count` floats, set to zero and aligned for any engine. */
static inline float* hd_floats(size_t count)
{
    const size_t alignment = 64;
    const size_t bytes = (count * sizeof(float) + alignment - 1) / alignment * alignment;
    float* memory = hd_memory.allocate(bytes);
    void* zeros = calloc(1, bytes);
    if (zeros == NULL) {
        hd_fail("out of memory");
    }
    hd_memory.write(memory, zeros, bytes);
    free(zeros);
    return memory;
}

static inline void hd_write_floats(float* to, const float* from, size_t count)
{
    hd_memory.write(to, from, count * sizeof(float));
}

static inline void hd_read_floats(float* to, const float* from, size_t count)
{
    hd_memory.read(to, from, count * sizeof(float));
}

/* Descriptors */

static inline hipdnnBackendDescriptor_t hd_create(hipdnnBackendDescriptorType_t type)
{
    hipdnnBackendDescriptor_t descriptor = NULL;
    HD_CHECK(hipdnnBackendCreateDescriptor(type, &descriptor));
    return descriptor;
}

static inline void hd_destroy(hipdnnBackendDescriptor_t descriptor)
{
    HD_CHECK(hipdnnBackendDestroyDescriptor(descriptor));
}

static inline void hd_set(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name,
                          hipdnnBackendAttributeType_t type, int64_t count, const void* values)
{
    HD_CHECK(hipdnnBackendSetAttribute(descriptor, name, type, count, values));
}

static inline void hd_set_descriptor(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name,
                                     hipdnnBackendDescriptor_t value)
{
    hd_set(descriptor, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static inline void hd_set_float_type(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name)
{
    const hipdnnDataType_t type = HIPDNN_DATA_FLOAT;
    hd_set(descriptor, name, HIPDNN_TYPE_DATA_TYPE, 1, &type);
}

/* Graphs */

/* The descriptors of a graph under construction. hd_graph_build destroys all of them. */
typedef struct hd_graph {
    hipdnnHandle_t handle;
    const char* name;
    hipdnnBackendDescriptor_t descriptors[HD_MAX_DESCRIPTORS];
    int descriptor_count;
    hipdnnBackendDescriptor_t operations[HD_MAX_OPERATIONS];
    int operation_count;
    int64_t bound[HD_MAX_BOUND]; /* uids of the tensors that memory is bound to */
    int bound_count;
    int64_t next_virtual_uid;
} hd_graph;

/* A finalized graph, planned by one engine. */
typedef struct hd_plan {
    hipdnnHandle_t handle;
    hipdnnBackendDescriptor_t descriptor;
    void* workspace;
    int64_t workspace_size;
    int64_t bound[HD_MAX_BOUND];
    int bound_count;
    char engine[HD_NAME_LENGTH];
} hd_plan;

static inline hd_graph hd_graph_begin(hipdnnHandle_t handle, const char* name)
{
    hd_graph graph;
    memset(&graph, 0, sizeof graph);
    graph.handle = handle;
    graph.name = name;
    graph.next_virtual_uid = 1000000;
    return graph;
}

/* Keeps a descriptor until the graph is built. */
static inline hipdnnBackendDescriptor_t hd_keep(hd_graph* graph, hipdnnBackendDescriptor_t descriptor)
{
    if (graph->descriptor_count == HD_MAX_DESCRIPTORS) {
        hd_fail("too many descriptors in one graph");
    }
    graph->descriptors[graph->descriptor_count++] = descriptor;
    return descriptor;
}

/* Tensors: four-dimensional floats, densely packed, the last dimension fastest (NCHW). */

static inline hipdnnBackendDescriptor_t hd_tensor_begin(hd_graph* graph, int64_t uid, int64_t n, int64_t c, int64_t h,
                                                        int64_t w)
{
    const int64_t dims[4] = {n, c, h, w};
    const int64_t strides[4] = {c * h * w, h * w, w, 1};
    hipdnnBackendDescriptor_t tensor = hd_keep(graph, hd_create(HIPDNN_BACKEND_TENSOR_DESCRIPTOR));
    hd_set(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid);
    hd_set_float_type(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE);
    hd_set(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 4, dims);
    hd_set(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 4, strides);
    return tensor;
}

/* A tensor in the caller's memory, bound by its uid when the plan is executed. */
static inline hipdnnBackendDescriptor_t hd_tensor(hd_graph* graph, int64_t uid, int64_t n, int64_t c, int64_t h,
                                                  int64_t w)
{
    if (graph->bound_count == HD_MAX_BOUND) {
        hd_fail("too many tensors in one graph");
    }
    graph->bound[graph->bound_count++] = uid;
    hipdnnBackendDescriptor_t tensor = hd_tensor_begin(graph, uid, n, c, h, w);
    HD_CHECK(hipdnnBackendFinalize(tensor));
    return tensor;
}

/* A virtual tensor between two operations of the graph. It has no memory of the caller's: the engine decides where it lives,
* or whether it ever exists. */
static inline hipdnnBackendDescriptor_t hd_virtual(hd_graph* graph, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const bool is_virtual = true;
    hipdnnBackendDescriptor_t tensor = hd_tensor_begin(graph, graph->next_virtual_uid++, n, c, h, w);
    hd_set(tensor, HIPDNN_ATTR_TENSOR_IS_VIRTUAL, HIPDNN_TYPE_BOOLEAN, 1, &is_virtual);
    HD_CHECK(hipdnnBackendFinalize(tensor));
    return tensor;
}

/* A number that is part of the graph. */
static inline hipdnnBackendDescriptor_t hd_constant(hd_graph* graph, float value)
{
    hipdnnBackendDescriptor_t tensor = hd_tensor_begin(graph, graph->next_virtual_uid++, 1, 1, 1, 1);
    hd_set(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, sizeof value, &value);
    HD_CHECK(hipdnnBackendFinalize(tensor));
    return tensor;
}

/* Operations */

static inline hipdnnBackendDescriptor_t hd_operation(hd_graph* graph, hipdnnBackendDescriptorType_t type)
{
    if (graph->operation_count == HD_MAX_OPERATIONS) {
        hd_fail("too many operations in one graph");
    }
    hipdnnBackendDescriptor_t operation = hd_keep(graph, hd_create(type));
    graph->operations[graph->operation_count++] = operation;
    return operation;
}

/* What the three convolutions share: the same padding on every side, one stride, computed in float. */
static inline void hd_convolution_end(hipdnnBackendDescriptor_t operation, int64_t padding, int64_t stride)
{
    const int64_t paddings[2] = {padding, padding};
    const int64_t strides[2] = {stride, stride};
    const int64_t dilations[2] = {1, 1};
    const hipdnnConvolutionMode_t mode = HIPDNN_CROSS_CORRELATION;
    hd_set(operation, HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, HIPDNN_TYPE_INT64, 2, paddings);
    hd_set(operation, HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, HIPDNN_TYPE_INT64, 2, paddings);
    hd_set(operation, HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, HIPDNN_TYPE_INT64, 2, strides);
    hd_set(operation, HIPDNN_ATTR_CONVOLUTION_DILATIONS, HIPDNN_TYPE_INT64, 2, dilations);
    hd_set(operation, HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    hd_set_float_type(operation, HIPDNN_ATTR_CONVOLUTION_COMP_TYPE);
    HD_CHECK(hipdnnBackendFinalize(operation));
}

/* y = x convolved with w */
static inline void hd_conv_forward(hd_graph* graph, hipdnnBackendDescriptor_t x, hipdnnBackendDescriptor_t w,
                                   hipdnnBackendDescriptor_t y, int64_t padding, int64_t stride)
{
    hipdnnBackendDescriptor_t operation = hd_operation(graph, HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    hd_convolution_end(operation, padding, stride);
}

/* dx, the gradient of the input (backward data) */
static inline void hd_conv_backward_data(hd_graph* graph, hipdnnBackendDescriptor_t dy, hipdnnBackendDescriptor_t w,
                                         hipdnnBackendDescriptor_t dx, int64_t padding, int64_t stride)
{
    hipdnnBackendDescriptor_t operation =
        hd_operation(graph, HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
    hd_convolution_end(operation, padding, stride);
}

/* dw, the gradient of the filter (backward weights) */
static inline void hd_conv_backward_filter(hd_graph* graph, hipdnnBackendDescriptor_t x, hipdnnBackendDescriptor_t dy,
                                           hipdnnBackendDescriptor_t dw, int64_t padding, int64_t stride)
{
    hipdnnBackendDescriptor_t operation =
        hd_operation(graph, HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw);
    hd_convolution_end(operation, padding, stride);
}

/* out = mode(a, b), element by element; dimensions of 1 are broadcast. b is NULL for a function of one element. For
* backward modes, a is the gradient of the output and b the input of the forward pass. */
static inline void hd_pointwise(hd_graph* graph, hipdnnPointwiseMode_t mode, hipdnnBackendDescriptor_t a,
                                hipdnnBackendDescriptor_t b, hipdnnBackendDescriptor_t out)
{
    hipdnnBackendDescriptor_t operation = hd_operation(graph, HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, a);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, out);
    if (b != NULL) {
        hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT, b);
    }
    hd_set(operation, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &mode);
    hd_set_float_type(operation, HIPDNN_ATTR_POINTWISE_MATH_PREC);
    HD_CHECK(hipdnnBackendFinalize(operation));
}

/* out = in reduced by mode along the dimensions in which out has 1 */
static inline void hd_reduction(hd_graph* graph, hipdnnReduceTensorOp_t mode, hipdnnBackendDescriptor_t in,
                                hipdnnBackendDescriptor_t out)
{
    hipdnnBackendDescriptor_t operation = hd_operation(graph, HIPDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_REDUCTION_XDESC, in);
    hd_set_descriptor(operation, HIPDNN_ATTR_OPERATION_REDUCTION_YDESC, out);
    hd_set(operation, HIPDNN_ATTR_REDUCTION_OPERATOR, HIPDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    hd_set_float_type(operation, HIPDNN_ATTR_REDUCTION_COMP_TYPE);
    HD_CHECK(hipdnnBackendFinalize(operation));
}

/* From operations to a plan */

/* Reads the name of a configuration's engine, or its number if the library provides no names. */
static inline void hd_engine_name(hipdnnBackendDescriptor_t config, char name[HD_NAME_LENGTH])
{
    hipdnnBackendDescriptor_t engine = NULL;
    HD_CHECK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                                       &engine));
    int64_t length = 0;
    if (hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_NAME_EXT, HIPDNN_TYPE_CHAR, HD_NAME_LENGTH, &length,
                                  name) != HIPDNN_STATUS_SUCCESS) {
        int64_t id = 0;
        HD_CHECK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, NULL, &id));
        snprintf(name, HD_NAME_LENGTH, "engine %" PRId64, id);
    }
    hd_destroy(engine);
}

/* Asks which engines can run the operation graph. Writes at most `most` finalized configurations, the best engine first,
 * and returns their number. The caller destroys each. */
static inline int64_t hd_engine_configs(hipdnnBackendDescriptor_t operation_graph, int64_t most,
                                        hipdnnBackendDescriptor_t* configs)
{
    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    hipdnnBackendDescriptor_t heuristic = hd_create(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    hd_set_descriptor(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operation_graph);
    hd_set(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode);
    HD_CHECK(hipdnnBackendFinalize(heuristic));

    /* Query the count, make that many empty configurations, and have them filled in. */
    int64_t count = 0;
    HD_CHECK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                       &count, NULL));
    if (count > most) {
        count = most;
    }
    if (count > 0) {
        for (int64_t i = 0; i < count; i++) {
            configs[i] = hd_create(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        }
        HD_CHECK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                           count, &count, configs));
        for (int64_t i = 0; i < count; i++) {
            HD_CHECK(hipdnnBackendFinalize(configs[i]));
        }
    }
    hd_destroy(heuristic);
    return count;
}

/* The operation graph of the operations so far, finalized. Destroys every descriptor that went into it: the graph
 * keeps what it needs. */
static inline hipdnnBackendDescriptor_t hd_graph_finalize(hd_graph* graph)
{
    hipdnnBackendDescriptor_t operation_graph = hd_create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    hd_set(operation_graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, graph->operation_count,
           graph->operations);
    hd_set_float_type(operation_graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT);
    hd_set_float_type(operation_graph, HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT);
    hd_set_float_type(operation_graph, HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT);
    hd_set(operation_graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, (int64_t)strlen(graph->name),
           graph->name);
    hd_set(operation_graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &graph->handle);
    HD_CHECK(hipdnnBackendFinalize(operation_graph));
    for (int i = 0; i < graph->descriptor_count; i++) {
        hd_destroy(graph->descriptors[i]);
    }
    graph->descriptor_count = 0;
    return operation_graph;
}

/* Builds the plan of the first engine whose name starts with `wanted`: "CPU" for data in host memory, or "" (any)
* for data in GPU memory, because the library lists GPU engines before CPU engines. */
static inline hd_plan hd_graph_build(hd_graph* graph, const char* wanted)
{
    enum { MOST = 16 };
    hd_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.handle = graph->handle;
    memcpy(plan.bound, graph->bound, sizeof plan.bound);
    plan.bound_count = graph->bound_count;

    hipdnnBackendDescriptor_t operation_graph = hd_graph_finalize(graph);
    hipdnnBackendDescriptor_t configs[MOST];
    const int64_t count = hd_engine_configs(operation_graph, MOST, configs);
    hipdnnBackendDescriptor_t chosen = NULL;
    for (int64_t i = 0; i < count && chosen == NULL; i++) {
        hd_engine_name(configs[i], plan.engine);
        if (strncmp(plan.engine, wanted, strlen(wanted)) == 0) {
            chosen = configs[i];
        }
    }
    if (chosen == NULL) {
        char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
        hipdnnGetLastErrorString(text, sizeof text);
        fprintf(stderr, "no engine whose name begins with \"%s\" runs the graph \"%s\"; %" PRId64 " others do\n%s\n",
                wanted, graph->name, count, text);
        exit(EXIT_FAILURE);
    }

    plan.descriptor = hd_create(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    hd_set_descriptor(plan.descriptor, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, chosen);
    HD_CHECK(hipdnnBackendFinalize(plan.descriptor));
    HD_CHECK(hipdnnBackendGetAttribute(plan.descriptor, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1,
                                       NULL, &plan.workspace_size));
    if (plan.workspace_size > 0) {
        plan.workspace = hd_floats(((size_t)plan.workspace_size + sizeof(float) - 1) / sizeof(float));
    }
    for (int64_t i = 0; i < count; i++) {
        hd_destroy(configs[i]);
    }
    hd_destroy(operation_graph);
    return plan;
}

/* Runs a plan. memory[uid] is the memory of the tensor with that uid. */
static inline void hd_execute(const hd_plan* plan, float* const memory[])
{
    void* pointers[HD_MAX_BOUND];
    for (int i = 0; i < plan->bound_count; i++) {
        pointers[i] = memory[plan->bound[i]];
    }
    hipdnnBackendDescriptor_t pack = hd_create(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    hd_set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, plan->bound_count, pointers);
    hd_set(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, plan->bound_count, plan->bound);
    hd_set(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &plan->workspace);
    HD_CHECK(hipdnnBackendFinalize(pack));
    HD_CHECK(hipdnnBackendExecute(plan->handle, plan->descriptor, pack));
    hd_destroy(pack);
}

static inline void hd_plan_destroy(hd_plan* plan)
{
    hd_destroy(plan->descriptor);
    if (plan->workspace != NULL) {
        hd_memory.release(plan->workspace);
    }
    memset(plan, 0, sizeof *plan);
}

#endif
