/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for cuDNN's graph API, of floats, over the stand-in for the CUDA driver. It has an engine for graphs of at most two operations: products of
 * matrices, hyperbolic tangents, sigmoids and sums. What it is given for itself it overwrites.
 */
#define _POSIX_C_SOURCE 200809L

#include "standin_cuda.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0,
    NOT_SUPPORTED = 3000,
    BAD_PARAM = 2000,
    INTERNAL_ERROR = 4000,
    MOST_OPERATIONS = 2,
    WORKSPACE = 4096,
    RANK = 8,
    KEPT = 64,
    MOST_BOUND = 32
};
/* Kinds of objects. */
enum { PLAN = 5, GRAPH = 15, OPERATION_MATMUL = 19 };
/* Attributes. */
enum {
    POINTWISE_MODE = 0,
    HEURISTIC_MODE = 200,
    HEURISTIC_GRAPH = 201,
    HEURISTIC_RESULTS = 202,
    CONFIG_ENGINE = 300,
    PLAN_CONFIG = 401,
    PLAN_WORKSPACE = 402,
    PLAN_JSON = 405,
    OPERATION_DESCRIPTOR = 750,
    OPERATION_X = 751,
    OPERATION_B = 752,
    OPERATION_Y = 753,
    GRAPH_OPERATIONS = 801,
    TENSOR_DIMS = 902,
    TENSOR_STRIDES = 903,
    TENSOR_UID = 906,
    TENSOR_IS_VIRTUAL = 907,
    PACK_UIDS = 1000,
    PACK_POINTERS = 1001,
    PACK_WORKSPACE = 1003,
    ENGINE_NOTES = 1303,
    ENGINE_BEHAVIOR = 1305,
    MATMUL_A = 1520,
    MATMUL_B = 1521,
    MATMUL_C = 1522,
};
enum { TANH = 101, SIGMOID = 102 };
enum { TYPE_BOOLEAN = 2, TYPE_BACKEND_DESCRIPTOR = 15, TYPE_CHAR = 24, HEURISTIC_A = 3 };

typedef struct object object;

typedef struct {
    int name, type;
    int64_t count;
    void* values;
} attribute;

struct object {
    int kind, references, attributes;
    attribute attribute[32];
    object* of; /* the graph of a configuration or a plan */
};

static _Thread_local const char* words = "";
static object* plans[KEPT];
static int plan_count;
static atomic_int searches, loads;
/* Milliseconds that a search takes. */
static atomic_int slowness;
/* What the next graph is answered, once. */
static atomic_int graph_status;

int standin_searches(void);
int standin_searches(void) { return searches; }
int standin_loads(void);
int standin_loads(void) { return loads; }
void standin_slow_down(int milliseconds);
void standin_slow_down(int milliseconds) { slowness = milliseconds; }
void standin_fail_graph(int status);
void standin_fail_graph(int status) { graph_status = status; }

static void pause_for(int milliseconds)
{
    const struct timespec pause = {0, milliseconds * 1000000L};
    nanosleep(&pause, NULL);
}

static size_t size_of(int type)
{
    switch (type) {
    case TYPE_BOOLEAN:
    case TYPE_CHAR: return 1;
    case 0:
    case 3:
    case 5:
    case 6:
    case TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
    }
}

static attribute* find(const object* of, int name)
{
    for (int i = 0; i < of->attributes; i++)
        if (of->attribute[i].name == name)
            return (attribute*)&of->attribute[i];
    return NULL;
}

static object* descriptor(const object* of, int name)
{
    const attribute* found = find(of, name);
    return found == NULL ? NULL : *(object**)found->values;
}

static int64_t integer(const object* of, int name) { return *(int64_t*)find(of, name)->values; }

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return 91400; }
const char* cudnnGetErrorString(int status);
const char* cudnnGetErrorString(int status)
{
    return status == SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_STANDIN";
}

void cudnnGetLastErrorString(char* text, size_t size);
void cudnnGetLastErrorString(char* text, size_t size)
{
    snprintf(text, size, "%s", words);
    words = "";
}

#define CUDNN(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

/* Of the stand-in for the driver. */
int cuMemAlloc_v2(uint64_t* memory, size_t bytes);
int cuMemFree_v2(uint64_t memory);

typedef struct {
    void* stream;
    uint64_t memory;
} context;

static int handles;
int standin_handles(void);
int standin_handles(void) { return handles; }
/* A handle has device memory, which ends captures that mind. */
CUDNN(cudnnCreate, context** handle)
{
    *handle = calloc(1, sizeof **handle);
    handles++;
    return cuMemAlloc_v2(&(*handle)->memory, 512) == 0 ? SUCCESS : INTERNAL_ERROR;
}
CUDNN(cudnnDestroy, context* handle)
{
    cuMemFree_v2(handle->memory);
    free(handle);
    return SUCCESS;
}
CUDNN(cudnnSetStream, context* handle, void* stream)
{
    handle->stream = stream;
    return SUCCESS;
}

CUDNN(cudnnBackendCreateDescriptor, int kind, object** made)
{
    *made = calloc(1, sizeof **made);
    (*made)->kind = kind;
    (*made)->references = 1;
    return SUCCESS;
}

CUDNN(cudnnBackendDestroyDescriptor, object* ended)
{
    if (ended == NULL || --ended->references > 0)
        return SUCCESS;
    for (int i = 0; i < ended->attributes; i++) {
        attribute* own = &ended->attribute[i];
        for (int64_t j = 0; own->type == TYPE_BACKEND_DESCRIPTOR && j < own->count; j++)
            cudnnBackendDestroyDescriptor(((object**)own->values)[j]);
        free(own->values);
    }
    cudnnBackendDestroyDescriptor(ended->of);
    free(ended);
    return SUCCESS;
}

static object* shared(object* of)
{
    of->references++;
    return of;
}

CUDNN(cudnnBackendSetAttribute, object* of, int name, int type, int64_t count, const void* values)
{
    attribute* own = &of->attribute[of->attributes++];
    const size_t bytes = (size_t)count * size_of(type);
    *own = (attribute){name, type, count, malloc(bytes + 1)};
    memcpy(own->values, values, bytes);
    ((char*)own->values)[bytes] = '\0';
    for (int64_t i = 0; type == TYPE_BACKEND_DESCRIPTOR && i < count; i++)
        shared(((object* const*)values)[i]);
    return SUCCESS;
}

CUDNN(cudnnBackendFinalize, object* of)
{
    if (of->kind == GRAPH) {
        const int status = atomic_exchange(&graph_status, SUCCESS);
        if (status != SUCCESS)
            pause_for(slowness);
        return status;
    }
    if (of->kind != PLAN)
        return SUCCESS;
    const attribute* json = find(of, PLAN_JSON);
    if (json != NULL) {
        const int place = atoi(json->values);
        if (place < 0 || place >= plan_count)
            return BAD_PARAM;
        loads++;
        of->of = shared(plans[place]->of);
        return SUCCESS;
    }
    of->of = shared(descriptor(of, PLAN_CONFIG)->of);
    return SUCCESS;
}

CUDNN(cudnnBackendGetAttribute, object* of, int name, int type, int64_t room, int64_t* count, void* values)
{
    (void)type;
    *count = 0;
    switch (name) {
    case HEURISTIC_RESULTS: {
        object* graph = descriptor(of, HEURISTIC_GRAPH);
        if (room == 0) {
            searches++;
            pause_for(slowness);
        }
        if (*(int*)find(of, HEURISTIC_MODE)->values != HEURISTIC_A ||
            find(graph, GRAPH_OPERATIONS)->count > MOST_OPERATIONS) {
            words = "{\"engineId\":0}\nWarning: CUDNN_STATUS_NOT_SUPPORTED; Reason: more than two operations\n";
            return SUCCESS;
        }
        *count = 1;
        if (room > 0)
            (*(object**)values)->of = shared(graph);
        return SUCCESS;
    }
    case CONFIG_ENGINE: (*(object**)values)->of = shared(of->of); return SUCCESS;
    case ENGINE_NOTES: return SUCCESS;
    case ENGINE_BEHAVIOR:
        /* What is fused it compiles: note 0. */
        *count = find(of->of, GRAPH_OPERATIONS)->count > 1;
        if (*count > 0 && room > 0)
            *(int*)values = 0;
        return SUCCESS;
    case PLAN_WORKSPACE:
        *count = 1;
        *(int64_t*)values = WORKSPACE;
        return SUCCESS;
    case PLAN_JSON: {
        char text[16];
        int place = 0;
        while (place < plan_count && plans[place]->of != of->of)
            place++;
        if (place == KEPT)
            return NOT_SUPPORTED;
        if (place == plan_count)
            plans[plan_count++] = shared(of);
        *count = snprintf(text, sizeof text, "%d", place);
        if (room > 0)
            memcpy(values, text, (size_t)*count);
        return SUCCESS;
    }
    default: return BAD_PARAM;
    }
}

/* A tensor with its elements. */
typedef struct {
    int rank;
    int64_t dims[RANK], strides[RANK];
    float* at;
} array;

/* Tensors between operations of one graph, by uid. */
static struct {
    int64_t uid;
    float* at;
} between[MOST_OPERATIONS];

/* An execution, as work of a stream. */
typedef struct {
    const object* graph;
    int64_t count, uids[MOST_BOUND];
    float* pointers[MOST_BOUND];
    void* workspace;
} execution;

static array read_tensor(const object* tensor, const execution* in)
{
    array read = {0};
    const attribute* dims = find(tensor, TENSOR_DIMS);
    const int64_t uid = integer(tensor, TENSOR_UID);
    read.rank = (int)dims->count;
    memcpy(read.dims, dims->values, (size_t)dims->count * 8);
    memcpy(read.strides, find(tensor, TENSOR_STRIDES)->values, (size_t)dims->count * 8);
    if (*(bool*)find(tensor, TENSOR_IS_VIRTUAL)->values) {
        int place = 0;
        while (between[place].at != NULL && between[place].uid != uid)
            place++;
        if (between[place].at == NULL) {
            int64_t extent = 1;
            for (int i = 0; i < read.rank; i++)
                extent += (read.dims[i] - 1) * read.strides[i];
            between[place].uid = uid;
            between[place].at = malloc((size_t)extent * sizeof(float));
        }
        read.at = between[place].at;
        return read;
    }
    for (int64_t i = 0; i < in->count; i++)
        if (in->uids[i] == uid)
            read.at = in->pointers[i];
    return read;
}

/* The element at an index, along which a dimension of 1 is repeated. */
static float* element(const array* of, const int64_t index[RANK])
{
    int64_t at = 0;
    for (int i = 0; i < of->rank; i++)
        at += of->dims[i] == 1 ? 0 : index[i] * of->strides[i];
    return of->at + at;
}

static float computed(int mode, float x, float b)
{
    return mode == TANH ? tanhf(x) : mode == SIGMOID ? 1.0f / (1.0f + expf(-x)) : x + b;
}

static void compute(const object* operation, const execution* in)
{
    const bool is_product = operation->kind == OPERATION_MATMUL;
    const object* second = descriptor(operation, is_product ? MATMUL_B : OPERATION_B);
    const array y = read_tensor(descriptor(operation, is_product ? MATMUL_C : OPERATION_Y), in);
    const array x = read_tensor(descriptor(operation, is_product ? MATMUL_A : OPERATION_X), in);
    const array b = second == NULL ? x : read_tensor(second, in);
    const int last = y.rank - 1;
    int64_t index[RANK] = {0};
    for (;;) {
        if (is_product) {
            double sum = 0.0;
            for (int64_t k = 0; k < x.dims[last]; k++) {
                int64_t of_x[RANK], of_b[RANK];
                memcpy(of_x, index, sizeof index);
                memcpy(of_b, index, sizeof index);
                of_x[last] = of_b[last - 1] = k;
                sum += (double)*element(&x, of_x) * (double)*element(&b, of_b);
            }
            *element(&y, index) = (float)sum;
        } else {
            const int mode = *(int*)find(descriptor(operation, OPERATION_DESCRIPTOR), POINTWISE_MODE)->values;
            *element(&y, index) = computed(mode, *element(&x, index), *element(&b, index));
        }
        int axis = last;
        while (axis >= 0 && ++index[axis] == y.dims[axis])
            index[axis--] = 0;
        if (axis < 0)
            return;
    }
}

static void compute_all(void* data)
{
    const execution* in = data;
    const attribute* operations = find(in->graph, GRAPH_OPERATIONS);
    memset(in->workspace, 0xff, WORKSPACE);
    for (int64_t i = 0; i < operations->count; i++)
        compute(((object**)operations->values)[i], in);
    for (int i = 0; i < MOST_OPERATIONS; i++) {
        free(between[i].at);
        between[i].at = NULL;
    }
}

CUDNN(cudnnBackendExecute, const context* handle, const object* plan, const object* pack)
{
    const attribute* uids = find(pack, PACK_UIDS);
    if (handle == NULL || uids->count > MOST_BOUND)
        return BAD_PARAM;
    /* What is captured may be executed at any time. */
    execution in = {.graph = shared(plan->of), .count = uids->count};
    memcpy(in.uids, uids->values, (size_t)uids->count * sizeof in.uids[0]);
    memcpy(in.pointers, find(pack, PACK_POINTERS)->values, (size_t)uids->count * sizeof in.pointers[0]);
    in.workspace = *(void**)find(pack, PACK_WORKSPACE)->values;
    return standin_cuda_queue(handle->stream, compute_all, &in, sizeof in) == 0 ? SUCCESS : INTERNAL_ERROR;
}
