/* SPDX-License-Identifier: MIT */

/* For cudnn_peer.c: the libraries, opened at run time, and graphs both as cuDNN's objects and as JSON. */
#ifndef CUDNN_PEER_GRAPHS_H
#define CUDNN_PEER_GRAPHS_H

#include <hipdnn_backend.h>

#include <cuda.h>
#include <cudnn.h>

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 32, MOST_NODES = 24 };

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "cudnn_peer: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

/* ---- Libraries ---- */

#define CUDA_FUNCTIONS(X) \
    X(Init) X(DeviceGet) X(DevicePrimaryCtxRetain) X(CtxSetCurrent) X(CtxSynchronize) X(StreamCreate) X(MemAlloc_v2) \
    X(MemFree_v2) X(MemcpyHtoD_v2) X(MemcpyDtoH_v2) X(MemsetD8_v2) X(EventCreate) X(EventRecord) X(EventSynchronize) \
    X(EventElapsedTime) X(StreamBeginCapture_v2) X(StreamEndCapture) X(GraphInstantiateWithFlags) X(GraphLaunch) \
    X(GraphExecDestroy) X(GraphDestroy)
#define CUDNN_LIST(X) \
    X(GetVersion) X(GetErrorString) X(GetLastErrorString) X(Create) X(SetStream) X(BackendCreateDescriptor) \
    X(BackendDestroyDescriptor) X(BackendFinalize) X(BackendSetAttribute) X(BackendGetAttribute) X(BackendExecute)
#define HIPDNN_LIST(X) \
    X(Create) X(SetStream) X(GetEngineIdByName_ext) X(GetLastErrorString) X(BackendCreateDescriptor) \
    X(BackendDestroyDescriptor) X(BackendCreateAndDeserializeJsonGraph_ext) X(BackendFinalize) X(BackendSetAttribute) \
    X(BackendGetAttribute) X(BackendExecute)

#define CUDA_MEMBER(name) __typeof__(&cu##name) name;
#define CUDNN_MEMBER(name) __typeof__(&cudnn##name) name;
#define HIPDNN_MEMBER(name) __typeof__(&hipdnn##name) name;
#define NAME(name) #name,

#define FUNCTIONS(of, LIST, MEMBER) static struct { LIST(MEMBER) } of
FUNCTIONS(cuda, CUDA_FUNCTIONS, CUDA_MEMBER);
FUNCTIONS(cudnn, CUDNN_LIST, CUDNN_MEMBER);
FUNCTIONS(hipdnn, HIPDNN_LIST, HIPDNN_MEMBER);
static const char* const CUDA_NAMES[] = {CUDA_FUNCTIONS(NAME) NULL};
static const char* const CUDNN_FUNCTIONS[] = {CUDNN_LIST(NAME) NULL};
static const char* const HIPDNN_FUNCTIONS[] = {HIPDNN_LIST(NAME) NULL};

/* Fills a table, whose members are functions in the order of the names. */
static void open_library(void* table, size_t size, const char* file, const char* prefix, const char* const* names)
{
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "cudnn_peer: %s\n", dlerror());
        exit(2);
    }
    for (size_t i = 0; names[i] != NULL && i < size / sizeof(void*); i++) {
        char name[100];
        snprintf(name, sizeof name, "%s%s", prefix, names[i]);
        void* function = dlsym(library, name);
        if (function == NULL) {
            die("%s has no %s", file, name);
        }
        memcpy((char*)table + i * sizeof(void*), &function, sizeof function);
    }
}

static CUstream stream;
static cudnnHandle_t handle;

static void cuda_ok(const char* what, CUresult answer)
{
    if (answer != CUDA_SUCCESS) {
        die("%s: error %d", what, (int)answer);
    }
}

static void cudnn_ok(const char* what, cudnnStatus_t status)
{
    if (status != CUDNN_STATUS_SUCCESS) {
        char text[1000] = "";
        cudnn.GetLastErrorString(text, sizeof text);
        die("%s: %s: %s", what, cudnn.GetErrorString(status), text);
    }
}

/* The driver with the context of the first device, and a stream. */
static void open_cuda(void)
{
    CUdevice device;
    CUcontext context;
    open_library(&cuda, sizeof cuda, "libcuda.so.1", "cu", CUDA_NAMES);
    if (cuda.Init(0) != CUDA_SUCCESS || cuda.DeviceGet(&device, 0) != CUDA_SUCCESS) {
        fprintf(stderr, "cudnn_peer: CUDA finds no device\n");
        exit(2);
    }
    cuda_ok("cuDevicePrimaryCtxRetain", cuda.DevicePrimaryCtxRetain(&context, device));
    cuda_ok("cuCtxSetCurrent", cuda.CtxSetCurrent(context));
    cuda_ok("cuStreamCreate", cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void open_cudnn(void)
{
    open_library(&cudnn, sizeof cudnn, "libcudnn.so.9", "cudnn", CUDNN_FUNCTIONS);
    cudnn_ok("cudnnCreate", cudnn.Create(&handle));
    cudnn_ok("cudnnSetStream", cudnn.SetStream(handle, (cudaStream_t)stream));
}

/* ---- Graphs ---- */

typedef struct {
    cudnnBackendDescriptor_t object;
    size_t bytes; /* 0 for what is not in memory */
    int is_result, is_value, is_scratch;
    int bound;     /* the place among those in memory */
    float value;   /* of what cuDNN is given as a number, which the JSON has itself */
    void* scratch; /* memory between operations, which this library's engine has itself */
} tensor;

typedef struct {
    char name[100];
    char json[16000];
    size_t length;
    int count, nodes;
    int is_loose; /* whether sums are in no order, so that results differ from run to run */
    tensor tensors[MOST_TENSORS];
    cudnnBackendDescriptor_t operations[MOST_NODES];
    cudnnBackendDescriptor_t plan;
    int64_t workspace_size;
} graph;

static cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t kind)
{
    cudnnBackendDescriptor_t made;
    cudnn_ok("cudnnBackendCreateDescriptor", cudnn.BackendCreateDescriptor(kind, &made));
    return made;
}

static void set(cudnnBackendDescriptor_t object, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t kind,
                int64_t count, const void* elements)
{
    cudnn_ok("cudnnBackendSetAttribute", cudnn.BackendSetAttribute(object, name, kind, count, elements));
}

static void set_object(cudnnBackendDescriptor_t object, cudnnBackendAttributeName_t name,
                       cudnnBackendDescriptor_t value)
{
    set(object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

__attribute__((format(printf, 2, 3))) static void json(graph* g, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof g->json - g->length;
    const int length = vsnprintf(g->json + g->length, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room) {
        die("the JSON of %s is longer than %zu bytes", g->name, sizeof g->json);
    }
    g->length += (size_t)length;
}

static void begin(graph* g, const char* name)
{
    memset(g, 0, sizeof *g);
    snprintf(g->name, sizeof g->name, "%s", name);
    json(g, "{\"name\": \"peer\", \"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", ");
    json(g, "\"compute_data_type\": \"float\", \"tensors\": [");
}

typedef enum { VIRTUAL, INPUT, RESULT, VALUE, SCRATCH } role;

/* Adds a tensor to the JSON. */
static void json_tensor(graph* g, int place, cudnnDataType_t type, int rank, const int64_t* dims,
                        const int64_t* strides, int is_virtual)
{
    const char* name = type == CUDNN_DATA_HALF ? "half" : type == CUDNN_DATA_BFLOAT16 ? "bfloat16" : "float";
    json(g, "%s{\"uid\": %d, \"name\": \"t\", \"data_type\": \"%s\"", place > 0 ? ", " : "", place + 1, name);
    json(g, ", \"virtual\": %s", is_virtual ? "true" : "false");
    for (int which = 0; which < 2; which++) {
        json(g, ", \"%s\": [", which == 0 ? "dims" : "strides");
        for (int i = 0; i < rank; i++) {
            json(g, "%s%lld", i > 0 ? ", " : "", (long long)(which == 0 ? dims : strides)[i]);
        }
        json(g, "]");
    }
    json(g, "}");
}

/* Adds a tensor to cuDNN's form. Returns its index, which is its uid less 1. */
static int add(graph* g, cudnnDataType_t type, int rank, const int64_t* dims, const int64_t* strides, role role)
{
    const int place = g->count++;
    if (place >= MOST_TENSORS) {
        die("%s has more than %d tensors", g->name, MOST_TENSORS);
    }
    tensor* t = &g->tensors[place];
    const int64_t uid = place + 1, alignment = 16;
    const bool is_virtual = role == VIRTUAL, is_value = role == VALUE;
    int64_t extent = 1;
    for (int i = 0; i < rank; i++) {
        extent += (dims[i] - 1) * strides[i];
    }
    t->bytes = !is_virtual && !is_value ? (size_t)extent * (type == CUDNN_DATA_FLOAT ? 4 : 2) : 0;
    t->is_result = role == RESULT;
    t->is_value = is_value;
    t->is_scratch = role == SCRATCH;
    if (cudnn.Create == NULL) {
        return place;
    }
    t->object = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(t->object, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(t->object, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims);
    set(t->object, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides);
    set(t->object, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(t->object, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(t->object, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(t->object, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_value);
    cudnn_ok("a tensor", cudnn.BackendFinalize(t->object));
    return place;
}

/* Adds a tensor to both forms. */
static int both(graph* g, cudnnDataType_t type, int rank, const int64_t* dims, const int64_t* strides, role role)
{
    json_tensor(g, g->count, type, rank, dims, strides, role == VIRTUAL);
    return add(g, type, rank, dims, strides, role);
}

static void operation(graph* g, cudnnBackendDescriptor_t made)
{
    if (g->nodes >= MOST_NODES) {
        die("%s has more than %d operations", g->name, MOST_NODES);
    }
    cudnn_ok("an operation", cudnn.BackendFinalize(made));
    g->operations[g->nodes++] = made;
}

static const cudnnDataType_t FLOAT = CUDNN_DATA_FLOAT;

/* y = mode(x, b), with t for a selection, with an axis for an index. Negative indices mean absent operands. */
static void pointwise(graph* g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int x, int b, int t, int y,
                      int64_t axis)
{
    if (cudnn.Create == NULL) {
        return;
    }
    cudnnBackendDescriptor_t described = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(described, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(described, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (axis >= 0) {
        set(described, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    }
    cudnn_ok("a pointwise mode", cudnn.BackendFinalize(described));
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_object(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, described);
    set_object(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, g->tensors[x].object);
    if (b >= 0) {
        set_object(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, g->tensors[b].object);
    }
    if (t >= 0) {
        set_object(made, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, g->tensors[t].object);
    }
    set_object(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, g->tensors[y].object);
    operation(g, made);
}

static void matmul(graph* g, int a, int b, int c)
{
    if (cudnn.Create == NULL) {
        return;
    }
    cudnnBackendDescriptor_t described = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(described, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &FLOAT);
    cudnn_ok("a product", cudnn.BackendFinalize(described));
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_object(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, g->tensors[a].object);
    set_object(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, g->tensors[b].object);
    set_object(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, g->tensors[c].object);
    set_object(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, described);
    operation(g, made);
}

static void reduction(graph* g, cudnnReduceTensorOp_t mode, int x, int y)
{
    if (cudnn.Create == NULL) {
        return;
    }
    cudnnBackendDescriptor_t described = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(described, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    set(described, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &FLOAT);
    cudnn_ok("a reduction", cudnn.BackendFinalize(described));
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_object(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, g->tensors[x].object);
    set_object(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, g->tensors[y].object);
    set_object(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, described);
    operation(g, made);
}

static void json_node(graph* g, const char* type)
{
    json(g, "%s{\"name\": \"n\", \"type\": \"%s\", \"compute_data_type\": \"float\", ",
         g->json[g->length - 1] == '[' ? "" : ", ", type);
}

/* y [n, k, s / step, s / step] of x [n, c, s, s] and w [k, c, f, f], half, channels last. */
static void convolution(graph* g, int64_t n, int64_t c, int64_t k, int64_t f, int64_t s, int64_t step)
{
    const int64_t pad[2] = {f / 2, f / 2}, one[2] = {1, 1}, steps[2] = {step, step}, spatial = 2;
    const int64_t made_size = (s + 2 * pad[0] - f) / step + 1;
    const float factors[2] = {1.0f, 0.0f};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dims[3][4] = {{n, c, s, s}, {k, c, f, f}, {n, k, made_size, made_size}};
    int places[3];
    char name[100];
    snprintf(name, sizeof name, "convolution %lldx%lldx%lldx%lld by %lldx%lldx%lld/%lld half", (long long)n,
             (long long)c, (long long)s, (long long)s, (long long)k, (long long)f, (long long)f, (long long)step);
    begin(g, name);
    for (int i = 0; i < 3; i++) {
        const int64_t* d = dims[i];
        const int64_t strides[4] = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
        places[i] = both(g, CUDNN_DATA_HALF, 4, d, strides, i < 2 ? INPUT : RESULT);
    }
    json(g, "], \"nodes\": [");
    json_node(g, "ConvolutionFwdAttributes");
    json(g, "\"inputs\": {\"x_tensor_uid\": 1, \"w_tensor_uid\": 2}, \"outputs\": {\"y_tensor_uid\": 3}, ");
    json(g,
         "\"parameters\": {\"pre_padding\": [%d, %d], \"post_padding\": [%d, %d], \"stride\": [%d, %d], "
         "\"dilation\": [1, 1], \"conv_mode\": \"CROSS_CORRELATION\"}}]}",
         (int)pad[0], (int)pad[0], (int)pad[0], (int)pad[0], (int)step, (int)step);
    if (cudnn.Create == NULL) {
        return;
    }
    cudnnBackendDescriptor_t described = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(described, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &FLOAT);
    set(described, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(described, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set(described, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, one);
    set(described, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, steps);
    set(described, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(described, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    cudnn_ok("a convolution", cudnn.BackendFinalize(described));
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set_object(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, g->tensors[places[0]].object);
    set_object(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, g->tensors[places[1]].object);
    set_object(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, g->tensors[places[2]].object);
    set_object(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, described);
    set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &factors[0]);
    set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &factors[1]);
    operation(g, made);
}

/* gelu(a [1, m, k] times b [1, k, n] + bias [1, 1, n]), bfloat16. */
static void product(graph* g, int64_t m, int64_t n, int64_t k)
{
    const int64_t a[3] = {1, m, k}, b[3] = {1, k, n}, bias[3] = {1, 1, n}, c[3] = {1, m, n};
    const int64_t of_a[3] = {m * k, k, 1}, of_b[3] = {k * n, n, 1}, of_bias[3] = {n, n, 1}, of_c[3] = {m * n, n, 1};
    char name[100];
    snprintf(name, sizeof name, "matmul + bias + gelu %lldx%lldx%lld bfloat16", (long long)m, (long long)n,
             (long long)k);
    begin(g, name);
    both(g, CUDNN_DATA_BFLOAT16, 3, a, of_a, INPUT);
    both(g, CUDNN_DATA_BFLOAT16, 3, b, of_b, INPUT);
    both(g, CUDNN_DATA_BFLOAT16, 3, bias, of_bias, INPUT);
    both(g, CUDNN_DATA_FLOAT, 3, c, of_c, VIRTUAL);
    both(g, CUDNN_DATA_FLOAT, 3, c, of_c, VIRTUAL);
    both(g, CUDNN_DATA_BFLOAT16, 3, c, of_c, RESULT);
    json(g, "], \"nodes\": [");
    json_node(g, "MatmulAttributes");
    json(g, "\"inputs\": {\"a_tensor_uid\": 1, \"b_tensor_uid\": 2}, \"outputs\": {\"c_tensor_uid\": 4}}");
    json_node(g, "PointwiseAttributes");
    json(g, "\"inputs\": {\"operation\": \"add\", \"in_0_tensor_uid\": 4, \"in_1_tensor_uid\": 3}, "
            "\"outputs\": {\"out_0_tensor_uid\": 5}}");
    json_node(g, "PointwiseAttributes");
    json(g, "\"inputs\": {\"operation\": \"gelu_approx_tanh_fwd\", \"in_0_tensor_uid\": 5}, "
            "\"outputs\": {\"out_0_tensor_uid\": 6}}]}");
    matmul(g, 0, 1, 3);
    pointwise(g, CUDNN_POINTWISE_ADD, FLOAT, 3, 2, -1, 4, -1);
    pointwise(g, CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, FLOAT, 4, -1, -1, 5, -1);
}

/* Causal attention forward with statistics, bfloat16: [b, h, s, d]. */
static void attention(graph* g, int64_t b, int64_t h, int64_t s, int64_t d)
{
    const int64_t dims[4] = {b, h, s, d}, strides[4] = {h * s * d, s * d, d, 1};
    const int64_t turned[4] = {b, h, d, s}, of_turned[4] = {h * s * d, s * d, 1, d};
    const int64_t scores[4] = {b, h, s, s}, of_scores[4] = {h * s * s, s * s, s, 1};
    const int64_t rows[4] = {b, h, s, 1}, of_rows[4] = {h * s, s, 1, 1}, one[4] = {1, 1, 1, 1};
    const cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
    enum { Q, K, V, O, STATS, SCALE, LOW };
    char name[100];
    snprintf(name, sizeof name, "sdpa causal forward %lldx%lldx%lldx%lld bfloat16", (long long)b, (long long)h,
             (long long)s, (long long)d);
    begin(g, name);
    both(g, type, 4, dims, strides, INPUT);
    json_tensor(g, K, type, 4, dims, strides, 0);
    add(g, type, 4, turned, of_turned, INPUT);
    both(g, type, 4, dims, strides, INPUT);
    both(g, type, 4, dims, strides, RESULT);
    both(g, FLOAT, 4, rows, of_rows, RESULT);
    json(g, "], \"nodes\": [");
    json_node(g, "SdpaAttributes");
    json(g,
         "\"inputs\": {\"q_tensor_uid\": 1, \"k_tensor_uid\": 2, \"v_tensor_uid\": 3}, "
         "\"outputs\": {\"o_tensor_uid\": 4, \"stats_tensor_uid\": 5}, \"attributes\": {\"generate_stats\": true, "
         "\"attn_scale_value\": %.9g, \"right_bound\": 0, \"diagonal_alignment\": \"TOP_LEFT\"}}]}",
         0.08838834764831845);
    add(g, FLOAT, 4, one, one, VALUE);
    g->tensors[SCALE].value = 0.08838834764831845f;
    add(g, FLOAT, 4, one, one, VALUE);
    g->tensors[LOW].value = -__builtin_inff();
    const int product = add(g, FLOAT, 4, scores, of_scores, VIRTUAL),
              scaled = add(g, FLOAT, 4, scores, of_scores, VIRTUAL);
    const int row = add(g, CUDNN_DATA_INT32, 4, scores, of_scores, VIRTUAL);
    const int column = add(g, CUDNN_DATA_INT32, 4, scores, of_scores, VIRTUAL);
    const int mask = add(g, CUDNN_DATA_BOOLEAN, 4, scores, of_scores, VIRTUAL);
    const int masked = add(g, FLOAT, 4, scores, of_scores, VIRTUAL), most = add(g, FLOAT, 4, rows, of_rows, VIRTUAL);
    const int below = add(g, FLOAT, 4, scores, of_scores, VIRTUAL),
              power = add(g, FLOAT, 4, scores, of_scores, VIRTUAL);
    const int sum = add(g, FLOAT, 4, rows, of_rows, VIRTUAL), logarithm = add(g, FLOAT, 4, rows, of_rows, VIRTUAL);
    const int weights = add(g, type, 4, scores, of_scores, VIRTUAL);
    matmul(g, Q, K, product);
    pointwise(g, CUDNN_POINTWISE_MUL, FLOAT, product, SCALE, -1, scaled, -1);
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, FLOAT, scaled, -1, -1, row, 2);
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, FLOAT, scaled, -1, -1, column, 3);
    pointwise(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, column, -1, mask, -1);
    pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, FLOAT, scaled, LOW, mask, masked, -1);
    reduction(g, CUDNN_REDUCE_TENSOR_MAX, masked, most);
    pointwise(g, CUDNN_POINTWISE_SUB, FLOAT, masked, most, -1, below, -1);
    pointwise(g, CUDNN_POINTWISE_EXP, FLOAT, below, -1, -1, power, -1);
    reduction(g, CUDNN_REDUCE_TENSOR_ADD, power, sum);
    pointwise(g, CUDNN_POINTWISE_LOG, FLOAT, sum, -1, -1, logarithm, -1);
    pointwise(g, CUDNN_POINTWISE_ADD, FLOAT, most, logarithm, -1, STATS, -1);
    pointwise(g, CUDNN_POINTWISE_DIV, FLOAT, power, sum, -1, weights, -1);
    matmul(g, weights, V, O);
}

/* Makes the plan of the first engine that cuDNN recommends and that can be finalized. */
static void plan(graph* g)
{
    enum { MOST = 16 };
    const __typeof__(cudnn.BackendGetAttribute) get = cudnn.BackendGetAttribute;
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t described = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(described, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(described, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->nodes, g->operations);
    cudnn_ok("the graph", cudnn.BackendFinalize(described));
    cudnnBackendDescriptor_t heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), found[MOST];
    set_object(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, described);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    cudnn_ok("the heuristic", cudnn.BackendFinalize(heuristic));
    for (int i = 0; i < MOST; i++) {
        found[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    int64_t count = 0;
    cudnn_ok("the engines",
             get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &count, found));
    for (int i = 0; i < count && i < MOST; i++) {
        g->plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(g->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        set_object(g->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, found[i]);
        if (cudnn.BackendFinalize(g->plan) == CUDNN_STATUS_SUCCESS) {
            int64_t got = 0;
            const cudnnStatus_t status =
                get(g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got, &g->workspace_size);
            cudnn_ok("the workspace", status);
            return;
        }
    }
    die("%s: cuDNN has no engine", g->name);
}

/* Makes the variant pack for an execution, as a program does each time. */
static void execute(const graph* g, int count, const int64_t* uids, void* const* pointers, void* workspace)
{
    cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    cudnn_ok("the pack", cudnn.BackendFinalize(pack));
    cudnn_ok("cudnnBackendExecute", cudnn.BackendExecute(handle, g->plan, pack));
    cudnn_ok("the end of the pack", cudnn.BackendDestroyDescriptor(pack));
}

#endif
