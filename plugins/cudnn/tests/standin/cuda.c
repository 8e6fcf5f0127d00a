/* SPDX-License-Identifier: MIT */

/* A stand-in for the CUDA driver: one device, whose memory is the processor's and whose work is done at once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    NOT_FOUND = 500,
    CAPABILITY_MAJOR = 75,
    MEMORY_TYPE = 2,
    DEVICE_POINTER = 3,
    DEVICE_MEMORY = 2,
    RELAXED = 2
};

#define CU(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

static char context;

CU(cuInit, unsigned flags) { return (int)flags; }
CU(cuDriverGetVersion, int* version)
{
    *version = 13000;
    return SUCCESS;
}
CU(cuDeviceGetCount, int* count)
{
    *count = 1;
    return SUCCESS;
}
CU(cuDeviceGet, int* device, int ordinal)
{
    *device = ordinal;
    return SUCCESS;
}
CU(cuCtxGetDevice, int* device)
{
    *device = 0;
    return SUCCESS;
}
CU(cuDevicePrimaryCtxRetain, void** made, int device)
{
    *made = &context;
    return device;
}
CU(cuCtxGetCurrent, void** current)
{
    *current = &context;
    return SUCCESS;
}
CU(cuCtxPopCurrent_v2, void** current)
{
    *current = &context;
    return SUCCESS;
}
CU(cuCtxPushCurrent_v2, void* current) { return current == &context ? SUCCESS : NOT_FOUND; }
CU(cuCtxSynchronize, void) { return SUCCESS; }
/* Whether this thread captures a stream, globally, and what it may do meanwhile. */
static _Thread_local int is_captured, mode;
CU(standin_capture, int begins)
{
    is_captured = begins;
    return SUCCESS;
}
CU(standin_allows, void) { return !is_captured || mode == RELAXED; }
CU(cuStreamIsCapturing, void* stream, int* status)
{
    *status = is_captured;
    return stream == NULL ? SUCCESS : NOT_FOUND;
}
/* How often work is ordered by events. */
static int orders;
CU(standin_orders, void) { return orders; }
CU(cuStreamGetId, void* stream, uint64_t* id)
{
    *id = (uintptr_t)stream;
    return SUCCESS;
}
CU(cuStreamWaitEvent, void* stream, void* event, unsigned flags)
{
    orders++;
    return stream == event ? NOT_FOUND : (int)flags;
}
CU(cuEventCreate, void** event, unsigned flags)
{
    *event = malloc(1 + flags);
    return SUCCESS;
}
CU(cuEventRecord, void* event, void* stream)
{
    orders++;
    return event == stream ? NOT_FOUND : SUCCESS;
}
CU(cuEventQuery, void* event) { return event == NULL ? NOT_FOUND : SUCCESS; }
CU(cuEventDestroy_v2, void* event)
{
    free(event);
    return SUCCESS;
}
CU(cuThreadExchangeStreamCaptureMode, int* to)
{
    int old = mode;
    mode = *to;
    *to = old;
    return SUCCESS;
}

CU(cuDeviceGetAttribute, int* value, int attribute, int device)
{
    *value = attribute == CAPABILITY_MAJOR ? 9 : 0;
    return device;
}

CU(cuGetErrorName, int error, const char** text)
{
    *text = error == SUCCESS ? "CUDA_SUCCESS" : "STANDIN";
    return SUCCESS;
}
CU(cuGetErrorString, int error, const char** text)
{
    *text = error == SUCCESS ? "" : "a stand-in";
    return SUCCESS;
}

CU(cuMemAlloc_v2, uint64_t* memory, size_t bytes)
{
    void* made = aligned_alloc(256, (bytes + 255) / 256 * 256);
    /* What a kernel must not count on. */
    memset(made, 0xff, bytes);
    *memory = (uint64_t)(uintptr_t)made;
    return SUCCESS;
}

CU(cuMemFree_v2, uint64_t memory)
{
    free((void*)(uintptr_t)memory);
    return SUCCESS;
}
CU(cuMemcpyHtoD_v2, uint64_t to, const void* from, size_t bytes)
{
    memcpy((void*)(uintptr_t)to, from, bytes);
    return SUCCESS;
}
CU(cuMemcpyHtoDAsync_v2, uint64_t to, const void* from, size_t bytes, void* stream)
{
    (void)stream;
    return cuMemcpyHtoD_v2(to, from, bytes);
}
CU(cuMemcpyDtoH_v2, void* to, uint64_t from, size_t bytes)
{
    memcpy(to, (const void*)(uintptr_t)from, bytes);
    return SUCCESS;
}

CU(cuPointerGetAttributes, unsigned count, int* attributes, void** answers, uint64_t pointer)
{
    for (unsigned i = 0; i < count; i++) {
        if (attributes[i] == DEVICE_POINTER)
            memcpy(answers[i], &pointer, sizeof pointer);
        else
            *(int*)answers[i] = attributes[i] == MEMORY_TYPE && pointer != 0 ? DEVICE_MEMORY : 0;
    }
    return SUCCESS;
}

CU(cuModuleLoadData, void** module, const void* image)
{
    *module = NULL;
    return image == NULL ? SUCCESS : NOT_FOUND;
}
CU(cuModuleUnload, void* module) { return module == NULL ? SUCCESS : NOT_FOUND; }
CU(cuModuleGetFunction, void** function, void* module, const char* name)
{
    *function = module;
    return name == NULL ? SUCCESS : NOT_FOUND;
}
CU(cuStreamGetCtx, void* stream, void** of)
{
    *of = &context;
    return stream == NULL ? NOT_FOUND : SUCCESS;
}
CU(cuLaunchKernel, void) { return NOT_FOUND; }
