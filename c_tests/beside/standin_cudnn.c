/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for cuDNN's graph API on top of the stand-in for the CUDA driver. It is compiled with NVIDIA's header, or with one that has
 * the constants that the cuDNN plugin uses. Objects store their attributes; a graph is computed operation by operation, in double
 * precision, each result rounded to its tensor's type.
 *
 * What standin_cudnn_compute.h does not compute is refused when the graph is finalized. What it writes of a plan means something to the same
 * process alone.
 */
#include "standin_cuda.h"
#include "standin_numbers.h"

#include <cudnn.h>

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BOUND = 128, ENGINES = 2 };

typedef struct attribute {
    struct attribute* next;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    char* elements;
} attribute;

/* An object lives until destroyed and until no other object that it was set in lives. */
typedef struct object {
    cudnnBackendDescriptorType_t kind;
    int users;
    bool is_final;
    attribute* attributes;
} object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- For tests ---- */

static atomic_int searches, loads, handles, slowness, graph_status, most_operations = INT_MAX;

/* How often engines were asked for, how many saved plans were read, how many handles were made. */
int standin_cudnn_searches(void) { return searches; }
int standin_cudnn_loads(void) { return loads; }
int standin_cudnn_handles(void) { return handles; }
/* Has each search take so many milliseconds. */
void standin_cudnn_slow_down(int milliseconds) { slowness = milliseconds; }
/* Has the next graph be answered this status, once, as late as a search. */
void standin_cudnn_fail_graph(int status) { graph_status = status; }
/* Has graphs of more operations get no engine. */
void standin_cudnn_limit_operations(int most) { most_operations = most; }

static void pause_as_told(void)
{
    const struct timespec pause = {0, slowness * 1000000L};
    nanosleep(&pause, NULL);
}

/* ---- Objects ---- */

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4;
    }
}

static attribute* find(const object* o, cudnnBackendAttributeName_t name)
{
    attribute* a = o->attributes;
    while (a != NULL && a->name != name) {
        a = a->next;
    }
    return a;
}

static object* child(const object* o, cudnnBackendAttributeName_t name, int64_t place)
{
    const attribute* a = find(o, name);
    object* found = NULL;
    if (a != NULL && a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && place < a->count) {
        memcpy(&found, a->elements + place * 8, sizeof found);
    }
    return found;
}

static int64_t integer(const object* o, cudnnBackendAttributeName_t name, int64_t place, int64_t otherwise)
{
    const attribute* a = find(o, name);
    int64_t number = 0;
    if (a == NULL || place >= a->count) {
        return otherwise;
    }
    memcpy(&number, a->elements + (size_t)place * size_of(a->type), size_of(a->type));
    return number;
}

static void let_go(object* o)
{
    if (--o->users > 0) {
        return;
    }
    for (attribute* a = o->attributes; a != NULL;) {
        attribute* next = a->next;
        for (int64_t i = 0; a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < a->count; i++) {
            object* part;
            memcpy(&part, a->elements + i * 8, sizeof part);
            let_go(part);
        }
        free(a->elements);
        free(a);
        a = next;
    }
    free(o);
}

#include "standin_cudnn_compute.h"

/* ---- The interface ---- */

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS          ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_INTERNAL_ERROR ? "CUDNN_STATUS_INTERNAL_ERROR"
           : status == CUDNN_STATUS_NOT_SUPPORTED  ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == CUDNN_STATUS_BAD_PARAM      ? "CUDNN_STATUS_BAD_PARAM"
                                                   : "an error of the stand-in for cuDNN";
}

static _Thread_local const char* words = "words of the stand-in for cuDNN";

void cudnnGetLastErrorString(char* text, size_t size) { snprintf(text, size, "%s", words); }

struct cudnnContext {
    void* stream;
    uint64_t memory;
};

int cuMemAlloc_v2(uint64_t* pointer, size_t bytes);
int cuMemFree_v2(uint64_t pointer);

/* A handle allocates device memory, which ends strict captures. */
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle)
{
    struct cudnnContext* made = calloc(1, sizeof *made);
    if (made == NULL || cuMemAlloc_v2(&made->memory, 512) != 0) {
        free(made);
        return CUDNN_STATUS_INTERNAL_ERROR;
    }
    *handle = made;
    handles++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    cuMemFree_v2(handle->memory);
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = (void*)stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t* made)
{
    object* o = calloc(1, sizeof *o);
    if (o == NULL) {
        return CUDNN_STATUS_INTERNAL_ERROR;
    }
    *o = (object){.kind = kind, .users = 1};
    *made = (cudnnBackendDescriptor_t)o;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t ended)
{
    pthread_mutex_lock(&lock);
    let_go((object*)ended);
    pthread_mutex_unlock(&lock);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t put(object* o, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                         const void* elements)
{
    attribute* a = calloc(1, sizeof *a);
    const size_t bytes = (size_t)count * size_of(type);
    if (a == NULL || (a->elements = malloc(bytes + 1)) == NULL) {
        free(a);
        return CUDNN_STATUS_INTERNAL_ERROR;
    }
    memcpy(a->elements, elements, bytes);
    a->elements[bytes] = '\0';
    *a = (attribute){o->attributes, name, type, count, a->elements};
    o->attributes = a;
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++) {
        child(o, name, i)->users++;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements)
{
    object* o = (object*)of;
    if (o->is_final || count < 0 || find(o, name) != NULL) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    pthread_mutex_lock(&lock);
    const cudnnStatus_t status = put(o, name, type, count, elements);
    pthread_mutex_unlock(&lock);
    return status;
}

/* The graph that an object is about: of a heuristic, an engine, a configuration or a plan. */
static object* graph_of(const object* o)
{
    switch (o->kind) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return (object*)o;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return child(o, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        /* Filled by a heuristic, or of a configuration. */
        return child(o, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
        const object* config = child(o, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
        return config != NULL ? graph_of(config) : child(o, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0);
    }
    default: return NULL;
    }
}

/* A plan of what was once written of a graph, which is kept for that. */
static cudnnStatus_t read_plan(object* plan)
{
    const attribute* text = find(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    void* graph = NULL;
    if (text == NULL || sscanf(text->elements, "{\"standin\": \"%p\"}", &graph) != 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    loads++;
    return put(plan, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t of)
{
    object* o = (object*)of;
    cudnnStatus_t status = o->is_final ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
    if (o->kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
        const int failure = atomic_exchange(&graph_status, 0);
        if (failure != 0) {
            pause_as_told();
            return (cudnnStatus_t)failure;
        }
    }
    pthread_mutex_lock(&lock);
    if (status == CUDNN_STATUS_SUCCESS && o->kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
        const attribute* operations = find(o, CUDNN_ATTR_OPERATIONGRAPH_OPS);
        for (int64_t i = 0; operations != NULL && i < operations->count; i++) {
            status = is_computed(child(o, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)) ? status : CUDNN_STATUS_NOT_SUPPORTED;
        }
    }
    if (status == CUDNN_STATUS_SUCCESS && o->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && graph_of(o) == NULL) {
        status = read_plan(o);
    }
    o->is_final = status == CUDNN_STATUS_SUCCESS;
    pthread_mutex_unlock(&lock);
    return status;
}

/* Graphs of several operations want a workspace that callers are asked for, others one that a plan has itself. */
static int64_t workspace_size(const object* o)
{
    return find(graph_of(o), CUDNN_ATTR_OPERATIONGRAPH_OPS)->count > 4 ? 100000 : 1000;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t* count, void* elements)
{
    object* o = (object*)of;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && room == 0) {
        searches++;
        pause_as_told();
    }
    pthread_mutex_lock(&lock);
    object* graph = graph_of(o);
    const int64_t operations = graph != NULL ? find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS)->count : 0;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        *count = operations > most_operations ? 0 : ENGINES;
        if (*count == 0) {
            words = "{\"engineId\":0}\nWarning: CUDNN_STATUS_NOT_SUPPORTED; Reason: too many operations\n";
        }
        for (int64_t i = 0; i < room && i < *count && elements != NULL; i++) {
            put(((object**)elements)[i], CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
        }
    } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE && room == 1) {
        *count = 1;
        status = put(*(object**)elements, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        *count = 0;
    } else if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
        /* Fused graphs are compiled: note 0. */
        *count = operations > 1;
        if (*count > 0 && room > 0) {
            memset(elements, 0, size_of(type));
        }
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && room == 1) {
        const int64_t size = workspace_size(o);
        *count = 1;
        memcpy(elements, &size, sizeof size);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && type == CUDNN_TYPE_CHAR) {
        char text[64];
        *count = snprintf(text, sizeof text, "{\"standin\": \"%p\"}", (void*)graph);
        if (elements != NULL && room >= *count) {
            memcpy(elements, text, (size_t)*count);
            /* Whoever reads the text finds it. */
            graph->users++;
        }
    } else {
        status = CUDNN_STATUS_NOT_SUPPORTED;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t of)
{
    const object* pack = (const object*)of;
    const attribute* uids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const attribute* pointers = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const attribute* workspace = find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    execution e = {.graph = graph_of((const object*)plan)};
    if (!pack->is_final || uids == NULL || pointers == NULL || uids->count != pointers->count ||
        uids->count > MOST_BOUND) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    e.count = uids->count;
    memcpy(e.uids, uids->elements, (size_t)uids->count * 8);
    memcpy(e.pointers, pointers->elements, (size_t)uids->count * 8);
    memcpy(&e.workspace, workspace->elements, sizeof e.workspace);
    e.workspace_size = workspace_size((const object*)plan);
    /* Scalars are read now, device memory when the work is done. The graph may be captured, and used at any time. */
    pthread_mutex_lock(&lock);
    e.graph->users++;
    const int known = read_numbers(&e);
    pthread_mutex_unlock(&lock);
    if (!known) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    return standin_cuda_queue(handle->stream, compute, &e, sizeof e) == 0 ? CUDNN_STATUS_SUCCESS
                                                                          : CUDNN_STATUS_INTERNAL_ERROR;
}
