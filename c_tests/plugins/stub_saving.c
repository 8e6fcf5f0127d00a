/* SPDX-License-Identifier: MIT */

/*
 * What the stub plugin may have besides the functions that every plugin has: contexts that are saved, loaded and described,
 * executions with other shapes.
 */

#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SAVE, SAVE_OLDER: contexts are saved, by the name with the engine's id and by the older one. */
/* SAVE_STATUS: saving fails. SAVE_NULL: success with null. SAVE_SIZE: the number of bytes that it says there are. SAVE_GROWS: one
 * byte more each time. SAVE_SILENT: success without bytes. */
#ifndef SAVE_STATUS
#define SAVE_STATUS OK
#endif

#if defined(SAVE) || defined(SAVE_OLDER)
/* "STUB", and the engine's id. */
enum { SAVED_SIZE = 12 };

static hipdnnPluginStatus_t save(hipdnnEnginePluginExecutionContext_t context,
                                 hipdnnPluginConstData_t* serialized_context, const char* function)
{
#if defined(SAVE_NULL)
    (void)context;
    serialized_context->ptr = NULL;
    serialized_context->size = SAVED_SIZE;
#elif defined(SAVE_SILENT)
    (void)context;
    (void)serialized_context;
#else
    if (SAVE_STATUS == OK) {
        size_t size = SAVED_SIZE;
#ifdef SAVE_GROWS
        static _Atomic size_t grown;
        size += grown++;
#endif
        unsigned char* bytes = calloc(1, size);
        if (bytes == NULL) {
            return answer(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, function);
        }
        const int64_t engine = engine_of_context(context);
        memcpy(bytes, "STUB", 4);
        memcpy(bytes + 4, &engine, sizeof engine);
        serialized_context->ptr = bytes;
        serialized_context->size = size;
#ifdef SAVE_SIZE
        serialized_context->size = (size_t)SAVE_SIZE;
#endif
    }
#endif
    return answer(SAVE_STATUS, function);
}
#endif

#ifdef SAVE
hipdnnPluginStatus_t
hipdnnEnginePluginSerializeExecutionContextWithEngineId(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                        hipdnnEnginePluginExecutionContext_t execution_context,
                                                        hipdnnPluginConstData_t* serialized_context)
{
    record("SerializeExecutionContextWithEngineId handle=%u engine=%" PRId64 " context=%u", serial_of_handle(handle),
           engine_id, serial_of_context(execution_context));
    return save(execution_context, serialized_context, __func__);
}
#endif

#ifdef SAVE_OLDER
hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                 hipdnnEnginePluginExecutionContext_t execution_context,
                                                                 hipdnnPluginConstData_t* serialized_context)
{
    record("SerializeExecutionContext handle=%u context=%u", serial_of_handle(handle),
           serial_of_context(execution_context));
    return save(execution_context, serialized_context, __func__);
}
#endif

/* GIVE_BACK: bytes of contexts are taken back. GIVE_BACK_STATUS: that fails, though they are taken back. */
#ifdef GIVE_BACK
#ifndef GIVE_BACK_STATUS
#define GIVE_BACK_STATUS OK
#endif
hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                         hipdnnPluginConstData_t* serialized_context)
{
    record("DestroySerializedExecutionContext handle=%u", serial_of_handle(handle));
    free((void*)serialized_context->ptr);
    serialized_context->ptr = NULL;
    serialized_context->size = 0;
    return answer(GIVE_BACK_STATUS, __func__);
}
#endif

/* LOAD: contexts are loaded. LOAD_STATUS: that fails. LOAD_NULL: success with null. LOAD_SILENT: success without a context. */
#ifdef LOAD
#ifndef LOAD_STATUS
#define LOAD_STATUS OK
#endif
hipdnnPluginStatus_t
hipdnnEnginePluginCreateExecutionContextFromSerialized(hipdnnEnginePluginHandle_t handle,
                                                       const hipdnnPluginConstData_t* serialized_context,
                                                       hipdnnEnginePluginExecutionContext_t* execution_context)
{
    hipdnnEnginePluginExecutionContext_t context = NULL;
    int status = LOAD_STATUS;
    int64_t engine = 0;
    if (serialized_context->size != 12 || memcmp(serialized_context->ptr, "STUB", 4) != 0) {
        status = HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
    } else {
        memcpy(&engine, (const unsigned char*)serialized_context->ptr + 4, sizeof engine);
    }
#if !defined(LOAD_NULL) && !defined(LOAD_SILENT)
    if (status == OK) {
        context = new_context(engine);
    }
#endif
    record("CreateExecutionContextFromSerialized handle=%u size=%zu engine=%" PRId64 " context=%u",
           serial_of_handle(handle), serialized_context->size, engine, serial_of_context(context));
#ifdef LOAD_SILENT
    (void)execution_context;
#else
    *execution_context = context;
#endif
    return answer(status, __func__);
}
#endif

/* DESCRIBES: the description of contexts. DESCRIBE_STATUS: that fails. DESCRIBE_SIZE: the size that it reports.
 * DESCRIBE_SILENT: success without a size. DESCRIBE_GROWS: the second text and its size are larger than the first said. */
#ifdef DESCRIBES
#ifndef DESCRIBE_STATUS
#define DESCRIBE_STATUS OK
#endif
#ifndef DESCRIBE_SIZE
#define DESCRIBE_SIZE sizeof DESCRIBES
#endif
hipdnnPluginStatus_t
hipdnnEnginePluginDescribeExecutionContext_ext(hipdnnEnginePluginHandle_t handle,
                                               hipdnnEnginePluginExecutionContext_t execution_context,
                                               size_t requested_size, size_t* size, char* json)
{
    record("DescribeExecutionContext handle=%u context=%u requested=%zu", serial_of_handle(handle),
           serial_of_context(execution_context), requested_size);
#ifdef DESCRIBE_SILENT
    (void)size;
#else
    *size = (size_t)(DESCRIBE_SIZE);
#endif
    if (requested_size > 0) {
        memcpy(json, DESCRIBES, requested_size < sizeof DESCRIBES ? requested_size : sizeof DESCRIBES);
#ifdef DESCRIBE_GROWS
        memset(json, 'x', requested_size);
        *size = SIZE_MAX;
#endif
    }
    return answer(DESCRIBE_STATUS, __func__);
}
#endif

/* NUMERICS: what the engines may do to numbers; NUMERICS_WITH: the same with a knob set, by the configuration's size.
 * NUMERICS_STATUS: that fails. NUMERICS_FAILS_FIRST: the first call does. NUMERICS_SIZE: the size that it reports. */
#ifdef NUMERICS
#ifndef NUMERICS_WITH
#define NUMERICS_WITH NUMERICS
#endif
#ifndef NUMERICS_STATUS
#define NUMERICS_STATUS OK
#endif
hipdnnPluginStatus_t hipdnnEnginePluginDescribeNumerics_ext(hipdnnEnginePluginHandle_t handle,
                                                            const hipdnnPluginConstData_t* engine_config,
                                                            const hipdnnPluginConstData_t* op_graph,
                                                            size_t requested_size, size_t* size, char* json)
{
    const char* const text = engine_config->size > 64 ? NUMERICS_WITH : NUMERICS;
    record("DescribeNumerics handle=%u graph=%d requested=%zu", serial_of_handle(handle), op_graph->size > 0,
           requested_size);
#ifdef NUMERICS_SIZE
    *size = (size_t)(NUMERICS_SIZE);
#else
    *size = strlen(text) + 1;
#endif
    if (requested_size > 0) {
        memcpy(json, text, requested_size < strlen(text) + 1 ? requested_size : strlen(text) + 1);
    }
#ifdef NUMERICS_FAILS_FIRST
    static int calls;
    if (calls++ == 0) {
        return answer(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, __func__);
    }
#endif
    return answer(NUMERICS_STATUS, __func__);
}
#endif

/* SHARES: whether contexts may be shared. SHARES_STATUS: the question fails. */
#ifdef SHARES
#ifndef SHARES_STATUS
#define SHARES_STATUS OK
#endif
hipdnnPluginStatus_t hipdnnEnginePluginIsExecutionContextShareable_ext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t execution_context, uint32_t* is_shareable)
{
    record("IsExecutionContextShareable handle=%u context=%u", serial_of_handle(handle),
           serial_of_context(execution_context));
    *is_shareable = SHARES;
    return answer(SHARES_STATUS, __func__);
}
#endif

/* STEPS: each execution is a step of this name. */
#ifdef STEPS
static void (*step_callback)(const char* name, uint64_t begin, uint64_t end);

hipdnnPluginStatus_t hipdnnEnginePluginSetStepCallback_ext(void (*callback)(const char* name, uint64_t begin,
                                                                            uint64_t end))
{
    record("SetStepCallback");
    const hipdnnPluginStatus_t status = answer(OK, __func__);
    step_callback = callback;
    return status;
}
#endif

void tell_step(void)
{
#ifdef STEPS
    if (step_callback != NULL) {
        step_callback(STEPS, 1000, 3500);
    }
#endif
}

/* OVERRIDES: shapes may be replaced. OVERRIDES_STATUS: the execution fails. */
#ifdef OVERRIDES
#ifndef OVERRIDES_STATUS
#define OVERRIDES_STATUS OK
#endif

static size_t append_numbers(char* text, size_t room, size_t length, uint32_t count, const int64_t* numbers)
{
    for (uint32_t i = 0; i < count && length + 32 < room; i++) {
        int written = snprintf(text + length, room - length, "%s%" PRId64, i == 0 ? "" : ",", numbers[i]);
        length += written < 0 ? 0 : (size_t)written;
    }
    return length;
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t execution_context, void* workspace,
    const hipdnnPluginDeviceBuffer_t* device_buffers, uint32_t num_device_buffers, uint32_t num_overrides,
    const int64_t* override_unique_ids, const uint32_t* override_lengths, const int64_t* const* override_shapes,
    const int64_t* const* override_strides)
{
    char text[2048] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < num_overrides && length + 128 < sizeof text; i++) {
        const char* const gap = i == 0 ? "" : " ";
        int written = snprintf(text + length, sizeof text - length, "%s%" PRId64 ":", gap, override_unique_ids[i]);
        length += written < 0 ? 0 : (size_t)written;
        length = append_numbers(text, sizeof text, length, override_lengths[i], override_shapes[i]);
        text[length++] = '/';
        length = append_numbers(text, sizeof text, length, override_lengths[i], override_strides[i]);
    }
    record("ExecuteOpGraphWithOverrides handle=%u context=%u workspace=%" PRIuPTR " count=%" PRIu32 " first=%" PRId64
           " overrides=[%s]",
           serial_of_handle(handle), serial_of_context(execution_context), (uintptr_t)workspace, num_device_buffers,
           num_device_buffers == 0 ? 0 : device_buffers[0].uid, text);
    return answer(OVERRIDES_STATUS, __func__);
}
#endif
