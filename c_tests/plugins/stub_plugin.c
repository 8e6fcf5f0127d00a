/* SPDX-License-Identifier: MIT */

/*
 * An engine plugin that can be built with any defect. Without macros it is a correct plugin that computes nothing; a comment at
 * each macro tells its effect. variants.txt lists the libraries built from this file and the stub files beside it.
 *
 * With HIPDNN_STUB_LOG set to a file name, each call appends one line to that file, so that a test can compare what a host
 * called, in which order and with what.
 */

#include "stub.h"

#ifdef OPENS
#include <dlfcn.h>
#endif
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ENGINES: the engines' names. */
#ifndef ENGINES
#define ENGINES "STUB_ENGINE", "STUB_OTHER_ENGINE"
#endif

/* ENGINE_COUNT: how many of them there are. */
static const char* const NAMES[] = {ENGINES};
#ifndef ENGINE_COUNT
#define ENGINE_COUNT (sizeof NAMES / sizeof NAMES[0])
#endif

/* ID_OFFSET: added to each id, which then is not the hash of the name. */
#ifndef ID_OFFSET
#define ID_OFFSET 0
#endif

static int64_t id_of(size_t engine)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* at = NAMES[engine]; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return (int64_t)(hash + ID_OFFSET);
}

/* Handles and contexts have serial numbers, which tests can compare where they cannot compare addresses. */

struct HipdnnEnginePluginHandle {
    unsigned serial;
};

struct HipdnnEnginePluginExecutionContext {
    unsigned serial;
    bool is_tuning;
    int64_t engine;
};

unsigned serial_of_handle(hipdnnEnginePluginHandle_t handle)
{
/* HANDLE: the value of every handle. */
#ifdef HANDLE
    return (unsigned)(uintptr_t)handle;
#else
    return handle == NULL ? 0 : handle->serial;
#endif
}

unsigned serial_of_context(hipdnnEnginePluginExecutionContext_t context)
{
    return context == NULL ? 0 : context->serial;
}

int64_t engine_of_context(hipdnnEnginePluginExecutionContext_t context)
{
    return context == NULL ? 0 : context->engine;
}

hipdnnEnginePluginExecutionContext_t new_context(int64_t engine)
{
    static _Atomic unsigned contexts;
    hipdnnEnginePluginExecutionContext_t context = malloc(sizeof *context);
    if (context != NULL) {
        context->serial = ++contexts;
        context->is_tuning = false;
        context->engine = engine;
    }
    return context;
}

/*
 * IDS_STATUS: asking for the ids fails. COUNT: the count of the first call, without an array. COUNT_AGAIN: the count of the
 * second call, which never writes beyond its array. IDS_SILENT: success without a count.
 */
#ifndef IDS_STATUS
#define IDS_STATUS OK
#endif
#ifndef COUNT
#define COUNT ENGINE_COUNT
#endif
#ifndef COUNT_AGAIN
#define COUNT_AGAIN COUNT
#endif
#ifndef NO_GET_ALL_ENGINE_IDS
hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* engine_ids, uint32_t max_engines, uint32_t* num_engines)
{
    record("GetAllEngineIds max=%" PRIu32, max_engines);
#ifdef IDS_SILENT
    (void)engine_ids;
    (void)num_engines;
#else
    size_t count = ENGINE_COUNT;
    for (size_t engine = 0; engine < count && engine < max_engines; engine++) {
        engine_ids[engine] = id_of(engine);
    }
    *num_engines = (uint32_t)(max_engines == 0 ? COUNT : COUNT_AGAIN);
#endif
    return answer(IDS_STATUS, __func__);
}
#endif

/* ENGINE_NAME: another name than the id's. ENGINE_NAME_NULL: success with null. ENGINE_NAME_STATUS: asking fails. */
#ifndef ENGINE_NAME_STATUS
#define ENGINE_NAME_STATUS OK
#endif
#ifndef NO_GET_ENGINE_NAME
hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id, const char** name)
{
    record("GetEngineName engine=%" PRId64, engine_id);
#if defined(ENGINE_NAME)
    *name = ENGINE_NAME;
#elif defined(ENGINE_NAME_NULL)
    *name = NULL;
#else
    size_t count = ENGINE_COUNT;
    for (size_t engine = 0; engine < count; engine++) {
        if (engine_id == id_of(engine)) {
            *name = NAMES[engine];
            return answer(ENGINE_NAME_STATUS, __func__);
        }
    }
    return answer(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, __func__);
#endif
#if defined(ENGINE_NAME) || defined(ENGINE_NAME_NULL)
    return answer(ENGINE_NAME_STATUS, __func__);
#endif
}
#endif

/* DEVICE, IMPLEMENTATION: what the engines compute on, and where their kernels come from. KIND_STATUS: asking fails. */
#ifdef DEVICE
#ifndef IMPLEMENTATION
#define IMPLEMENTATION 0
#endif
#ifndef KIND_STATUS
#define KIND_STATUS OK
#endif
hipdnnPluginStatus_t hipdnnEnginePluginGetEngineKind_ext(int64_t engine_id, uint32_t* device, uint32_t* implementation)
{
    record("GetEngineKind engine=%" PRId64, engine_id);
    *device = DEVICE;
    *implementation = IMPLEMENTATION;
    return answer(KIND_STATUS, __func__);
}
#endif

/*
 * CREATE_STATUS: no handle can be made. CREATE_SILENT: success without a handle. OPENS: a library that is opened when a handle is
 * made, as by engines that find out then what they stand on.
 */
#ifndef CREATE_STATUS
#define CREATE_STATUS OK
#endif
#ifndef NO_CREATE
hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle)
{
#ifdef OPENS
    void* const library = dlopen(OPENS, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        dlclose(library);
    }
#endif
#if defined(CREATE_SILENT)
    (void)handle;
    record("Create");
#elif defined(HANDLE)
    *handle = (hipdnnEnginePluginHandle_t)HANDLE;
    record("Create handle=%u", serial_of_handle(*handle));
#else
    if (CREATE_STATUS == OK) {
        static _Atomic unsigned handles;
        *handle = malloc(sizeof **handle);
        if (*handle == NULL) {
            return answer(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, __func__);
        }
        (*handle)->serial = ++handles;
        record("Create handle=%u", serial_of_handle(*handle));
    }
#endif
    return answer(CREATE_STATUS, __func__);
}
#endif

/* DESTROY_STATUS: ending a handle fails, though it is ended. */
#ifndef DESTROY_STATUS
#define DESTROY_STATUS OK
#endif
#ifndef NO_DESTROY
hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle)
{
    record("Destroy handle=%u", serial_of_handle(handle));
#if !defined(HANDLE) && !defined(CREATE_SILENT)
    free(handle);
#endif
    return answer(DESTROY_STATUS, __func__);
}
#endif

/* STREAM_STATUS: no stream is taken but the default one. */
#ifndef STREAM_STATUS
#define STREAM_STATUS OK
#endif
#ifndef NO_SET_STREAM
hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle, hipStream_t stream)
{
    record("SetStream handle=%u stream=%" PRIuPTR, serial_of_handle(handle), (uintptr_t)stream);
    return answer(stream == NULL ? OK : STREAM_STATUS, __func__);
}
#endif

/*
 * APPLICABLE: how many of the engines apply. APPLICABLE_STATUS: asking fails. APPLICABLE_MORE: the count exceeds the room.
 * APPLICABLE_TWICE: one engine twice. APPLICABLE_UNKNOWN: an engine that is not the plugin's. APPLICABLE_SILENT: success
 * without a count. APPLICABLE_REVERSED: the last engine first.
 */
#ifndef APPLICABLE
#define APPLICABLE ENGINE_COUNT
#endif
#ifndef APPLICABLE_STATUS
#define APPLICABLE_STATUS OK
#endif
#ifndef NO_GET_APPLICABLE_ENGINE_IDS
hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* op_graph,
                                                              int64_t* engine_ids, uint32_t max_engines,
                                                              uint32_t* num_engines)
{
    char graph[1024];
    record("GetApplicableEngineIds handle=%u max=%" PRIu32 " graph=%s", serial_of_handle(handle), max_engines,
           describe_graph(op_graph, graph, sizeof graph));
    log_reason();
#ifdef DIES_OF_MATMUL
    if (strstr(graph, "=[9") != NULL) {
        raise(SIGFPE);
    }
#endif
#if defined(APPLICABLE_MORE)
    (void)engine_ids;
    *num_engines = max_engines + 1;
#elif defined(APPLICABLE_TWICE)
    for (uint32_t i = 0; i < 2 && i < max_engines; i++) {
        engine_ids[i] = id_of(0);
    }
    *num_engines = 2;
#elif defined(APPLICABLE_UNKNOWN)
    if (max_engines > 0) {
        engine_ids[0] = 42;
    }
    *num_engines = 1;
#elif defined(APPLICABLE_SILENT)
    (void)engine_ids;
    (void)num_engines;
#else
    uint32_t count = (uint32_t)APPLICABLE;
    for (uint32_t i = 0; i < count && i < max_engines; i++) {
#ifdef APPLICABLE_REVERSED
        engine_ids[i] = id_of(ENGINE_COUNT - 1 - i);
#else
        engine_ids[i] = id_of(i);
#endif
    }
    *num_engines = count;
#endif
    return answer(APPLICABLE_STATUS, __func__);
}
#endif

/*
 * DETAILS_STATUS: asking for details fails. DETAILS_NULL: success with null. DETAILS_EMPTY: a pointer and no bytes. DETAILS_HUGE: and more bytes than there can be.
 * DETAILS_GARBAGE: bytes that are not a FlatBuffer. DETAILS_SILENT: success without details. DETAILS_OTHER: details of another
 * engine. stub_details.c has what details can be made of.
 */
#ifndef DETAILS_STATUS
#define DETAILS_STATUS OK
#endif
#ifndef NO_GET_ENGINE_DETAILS
hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                        const hipdnnPluginConstData_t* op_graph,
                                                        hipdnnPluginConstData_t* engine_details)
{
    char graph[1024];
    record("GetEngineDetails handle=%u engine=%" PRId64 " graph=%s", serial_of_handle(handle), engine_id,
           describe_graph(op_graph, graph, sizeof graph));
#if defined(DETAILS_NULL)
    engine_details->ptr = NULL;
    engine_details->size = 0;
#elif defined(DETAILS_SILENT)
    (void)engine_details;
#else
    if (DETAILS_STATUS == OK) {
#ifdef DETAILS_OTHER
        engine_id += 1;
#endif
        size_t size = 0;
        unsigned char* bytes = details_of(engine_id, &size);
        if (bytes == NULL) {
            return answer(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, __func__);
        }
#ifdef DETAILS_GARBAGE
        memset(bytes, 0xee, size);
#endif
        engine_details->ptr = bytes;
        engine_details->size = size;
#ifdef DETAILS_EMPTY
        engine_details->size = 0;
#endif
#ifdef DETAILS_HUGE
        engine_details->size = SIZE_MAX;
#endif
    }
#endif
    return answer(DETAILS_STATUS, __func__);
}
#endif

/* DESTROY_DETAILS_STATUS: giving details back fails, though they are given back. */
#ifndef DESTROY_DETAILS_STATUS
#define DESTROY_DETAILS_STATUS OK
#endif
#ifndef NO_DESTROY_ENGINE_DETAILS
hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t handle,
                                                            hipdnnPluginConstData_t* engine_details)
{
    record("DestroyEngineDetails handle=%u", serial_of_handle(handle));
#ifndef DETAILS_SILENT
    free((void*)engine_details->ptr);
#endif
    engine_details->ptr = NULL;
    engine_details->size = 0;
    return answer(DESTROY_DETAILS_STATUS, __func__);
}
#endif

/* WORKSPACE: the bytes of workspace. WORKSPACE_STATUS: asking fails. WORKSPACE_SILENT: success without a size. */
#ifndef WORKSPACE
#define WORKSPACE 0
#endif
#ifndef WORKSPACE_STATUS
#define WORKSPACE_STATUS OK
#endif
#ifndef NO_GET_WORKSPACE_SIZE
hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(hipdnnEnginePluginHandle_t handle,
                                                        const hipdnnPluginConstData_t* engine_config,
                                                        const hipdnnPluginConstData_t* op_graph, size_t* workspace_size)
{
    char graph[1024], knobs[1024];
    record("GetWorkspaceSize handle=%u engine=%" PRId64 " graph=%s%s", serial_of_handle(handle), chosen(engine_config),
           describe_graph(op_graph, graph, sizeof graph), describe_knobs(engine_config, knobs, sizeof knobs));
#ifdef WORKSPACE_SILENT
    (void)workspace_size;
#else
    *workspace_size = (size_t)WORKSPACE;
#endif
    return answer(WORKSPACE_STATUS, __func__);
}
#endif

/* CONTEXT_STATUS: no context can be made. CONTEXT_NULL: success with null. CONTEXT_SILENT: success without a context. */
#ifndef CONTEXT_STATUS
#define CONTEXT_STATUS OK
#endif
#ifndef NO_CREATE_EXECUTION_CONTEXT
hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* engine_config,
                                                              const hipdnnPluginConstData_t* op_graph,
                                                              hipdnnEnginePluginExecutionContext_t* execution_context)
{
    hipdnnEnginePluginExecutionContext_t context = NULL;
#if !defined(CONTEXT_NULL) && !defined(CONTEXT_SILENT)
    if (CONTEXT_STATUS == OK) {
        context = new_context(chosen(engine_config));
        if (context == NULL) {
            return answer(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, __func__);
        }
    }
#endif
    char graph[1024], knobs[1024];
    record("CreateExecutionContext handle=%u engine=%" PRId64 " graph=%s context=%u%s", serial_of_handle(handle),
           chosen(engine_config), describe_graph(op_graph, graph, sizeof graph), serial_of_context(context),
           describe_knobs(engine_config, knobs, sizeof knobs));
    if (context != NULL) {
        context->is_tuning = strstr(knobs, "global.benchmarking=1") != NULL;
    }
#ifdef CONTEXT_SILENT
    (void)execution_context;
#else
    *execution_context = context;
#endif
    return answer(CONTEXT_STATUS, __func__);
}
#endif

/* DESTROY_CONTEXT_STATUS: ending a context fails, though it is ended. */
#ifndef DESTROY_CONTEXT_STATUS
#define DESTROY_CONTEXT_STATUS OK
#endif
#ifndef NO_DESTROY_EXECUTION_CONTEXT
hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                               hipdnnEnginePluginExecutionContext_t execution_context)
{
    record("DestroyExecutionContext handle=%u context=%u", serial_of_handle(handle),
           serial_of_context(execution_context));
    free(execution_context);
    return answer(DESTROY_CONTEXT_STATUS, __func__);
}
#endif

/*
 * CONTEXT_WORKSPACE: the bytes of workspace that a context says it needs. TUNING_WORKSPACE: the same while it tunes itself.
 * CONTEXT_WORKSPACE_STATUS: asking fails.
 */
#ifndef CONTEXT_WORKSPACE
#define CONTEXT_WORKSPACE WORKSPACE
#endif
#ifndef TUNING_WORKSPACE
#define TUNING_WORKSPACE CONTEXT_WORKSPACE
#endif
#ifndef CONTEXT_WORKSPACE_STATUS
#define CONTEXT_WORKSPACE_STATUS OK
#endif
#ifndef NO_GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT
hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t execution_context, size_t* workspace_size)
{
    record("GetWorkspaceSizeFromExecutionContext handle=%u context=%u", serial_of_handle(handle),
           serial_of_context(execution_context));
    const bool is_tuning = execution_context != NULL && execution_context->is_tuning;
    *workspace_size = is_tuning ? (size_t)TUNING_WORKSPACE : (size_t)CONTEXT_WORKSPACE;
    return answer(CONTEXT_WORKSPACE_STATUS, __func__);
}
#endif

/* EXECUTE_STATUS: the execution fails. */
#ifndef EXECUTE_STATUS
#define EXECUTE_STATUS OK
#endif
#ifndef NO_EXECUTE_OP_GRAPH
hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t handle,
                                                      hipdnnEnginePluginExecutionContext_t execution_context,
                                                      void* workspace, const hipdnnPluginDeviceBuffer_t* device_buffers,
                                                      uint32_t num_device_buffers)
{
    char buffers[2048] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < num_device_buffers && length + 64 < sizeof buffers; i++) {
        const hipdnnPluginDeviceBuffer_t* buffer = &device_buffers[i];
        int written = snprintf(buffers + length, sizeof buffers - length, "%s%" PRId64 ":%" PRIuPTR, i == 0 ? "" : ",",
                               buffer->uid, (uintptr_t)buffer->ptr);
        length += written < 0 ? 0 : (size_t)written;
    }
    record("ExecuteOpGraph handle=%u context=%u workspace=%" PRIuPTR " count=%" PRIu32 " buffers=[%s]",
           serial_of_handle(handle), serial_of_context(execution_context), (uintptr_t)workspace, num_device_buffers,
           buffers);
    tell_step();
    return answer(EXECUTE_STATUS, __func__);
}
#endif
