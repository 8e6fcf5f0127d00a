/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for the CUDA driver: two devices, whose memory is the processor's and whose work is done at once. Streams, contexts and
 * memory are checked, and what orders work is written to the file HIPDNN_STUB_LOG, as the stub plugin writes its calls.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, UNSAFE = 900 };
enum { DEVICES = 2, MOST = 4096, RELAXED = 2 };

typedef struct {
    int device;
    int is_captured;
} stream;

typedef struct {
    int device;
} context;

static context primary[DEVICES] = {{0}, {1}};
static context own[DEVICES] = {{0}, {1}};
static _Thread_local context* current;
static _Thread_local context* before[16];
static _Thread_local int depth;
static _Thread_local int mode;
static stream streams[64];
static int stream_count;
static int captures;

static struct {
    char* start;
    size_t size;
    int device;
} memory[MOST];

static void record(const char* format, ...)
{
    const char* path = getenv("HIPDNN_STUB_LOG");
    FILE* file = path == NULL ? NULL : fopen(path, "ab");
    if (file == NULL) return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fputc('\n', file);
    fclose(file);
}

/* The stream at an address, null for one of the default streams; *status says where it is none. */
static stream* find(void* at, int* status)
{
    *status = SUCCESS;
    if ((uintptr_t)at <= 2) return NULL;
    for (int i = 0; i < stream_count; i++)
        if (at == &streams[i]) return &streams[i];
    *status = INVALID_HANDLE;
    return NULL;
}

#define CU(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

/* What tests call: a stream of a device, whether its work is captured, a context that is no primary one, bytes that are allocated. */

CU(standin_context, int device);
void* standin_stream(int device);
void* standin_stream(int device)
{
    streams[stream_count].device = device;
    return &streams[stream_count++];
}

CU(standin_capture, stream* of, int on)
{
    captures += on - of->is_captured;
    of->is_captured = on;
    return SUCCESS;
}

CU(standin_context, int device)
{
    current = device < 0 ? NULL : &own[device];
    return SUCCESS;
}

size_t standin_allocated(void);
size_t standin_allocated(void)
{
    size_t sum = 0;
    for (int i = 0; i < MOST; i++) sum += memory[i].start == NULL ? 0 : memory[i].size;
    return sum;
}

/* The driver. */

CU(cuInit, unsigned flags)
{
    return flags == 0 ? SUCCESS : INVALID_VALUE;
}

CU(cuGetErrorName, int error, const char** text)
{
    (void)error;
    *text = "STANDIN_ERROR";
    return SUCCESS;
}

CU(cuGetErrorString, int error, const char** text)
{
    (void)error;
    *text = "an error of the stand-in";
    return SUCCESS;
}

CU(cuDriverGetVersion, int* version)
{
    *version = 13000;
    return SUCCESS;
}

CU(cuDeviceGetCount, int* count)
{
    *count = DEVICES;
    return SUCCESS;
}

CU(cuDeviceGet, int* device, int ordinal)
{
    if (ordinal < 0 || ordinal >= DEVICES) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

CU(cuDeviceGetAttribute, int* value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75 ? 9 : 0;
    return SUCCESS;
}

CU(cuDevicePrimaryCtxRetain, void** to, int device)
{
    record("cuDevicePrimaryCtxRetain device=%d", device);
    *to = &primary[device];
    return SUCCESS;
}

CU(cuCtxGetCurrent, void** to)
{
    *to = current;
    return SUCCESS;
}

CU(cuCtxPushCurrent_v2, void* to)
{
    before[depth++] = current;
    current = to;
    return SUCCESS;
}

CU(cuCtxPopCurrent_v2, void** to)
{
    if (depth == 0) return INVALID_CONTEXT;
    *to = current;
    current = before[--depth];
    return SUCCESS;
}

CU(cuCtxGetDevice, int* device)
{
    if (current == NULL) return INVALID_CONTEXT;
    *device = current->device;
    return SUCCESS;
}

CU(cuCtxSynchronize, void)
{
    if (current == NULL) return INVALID_CONTEXT;
    record("cuCtxSynchronize device=%d", current->device);
    return SUCCESS;
}

CU(cuStreamGetCtx, void* at, void** to)
{
    int status;
    stream* of = find(at, &status);
    if (status == SUCCESS) *to = of == NULL ? current : &primary[of->device];
    return status;
}

CU(cuModuleLoadData, void** module, const void* image)
{
    (void)module;
    (void)image;
    return INVALID_VALUE;
}

CU(cuModuleUnload, void* module)
{
    (void)module;
    return SUCCESS;
}

CU(cuModuleGetFunction, void** function, void* module, const char* name)
{
    (void)function;
    (void)module;
    (void)name;
    return INVALID_VALUE;
}

CU(cuLaunchKernel, void)
{
    return INVALID_VALUE;
}

CU(cuMemAlloc_v2, uint64_t* pointer, size_t bytes)
{
    if (current == NULL) return INVALID_CONTEXT;
    /* As the driver: while a stream is captured, a thread that has not said otherwise may not allocate. */
    if (captures > 0 && mode != RELAXED) return UNSAFE;
    for (int i = 0; i < MOST; i++)
    {
        if (memory[i].start != NULL) continue;
        memory[i].start = aligned_alloc(256, (bytes + 255) / 256 * 256);
        if (memory[i].start == NULL) return OUT_OF_MEMORY;
        memory[i].size = bytes;
        memory[i].device = current->device;
        *pointer = (uintptr_t)memory[i].start;
        return SUCCESS;
    }
    return OUT_OF_MEMORY;
}

CU(cuMemFree_v2, uint64_t pointer)
{
    if (captures > 0 && mode != RELAXED) return UNSAFE;
    for (int i = 0; i < MOST; i++)
    {
        if (pointer == 0 || (uintptr_t)memory[i].start != pointer) continue;
        free(memory[i].start);
        memory[i].start = NULL;
        return SUCCESS;
    }
    return INVALID_VALUE;
}

CU(cuMemcpyHtoD_v2, uint64_t to, const void* from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((char*)(uintptr_t)to)[i] = ((const char*)from)[i];
    return SUCCESS;
}

CU(cuMemcpyDtoH_v2, void* to, uint64_t from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((char*)to)[i] = ((const char*)(uintptr_t)from)[i];
    return SUCCESS;
}

CU(cuEventCreate, void** event, unsigned flags)
{
    (void)flags;
    *event = malloc(1);
    return current == NULL ? INVALID_CONTEXT : SUCCESS;
}

CU(cuEventRecord, void* event, void* at)
{
    int status;
    (void)event;
    find(at, &status);
    record("cuEventRecord stream=%" PRIuPTR, (uintptr_t)at);
    return status;
}

CU(cuEventQuery, void* event)
{
    (void)event;
    return SUCCESS;
}

CU(cuEventDestroy_v2, void* event)
{
    free(event);
    return SUCCESS;
}

CU(cuStreamWaitEvent, void* at, void* event, unsigned flags)
{
    int status;
    (void)event;
    (void)flags;
    find(at, &status);
    record("cuStreamWaitEvent stream=%" PRIuPTR, (uintptr_t)at);
    return status;
}

CU(cuStreamIsCapturing, void* at, int* answer)
{
    int status;
    stream* of = find(at, &status);
    *answer = of != NULL && of->is_captured;
    return status;
}

CU(cuThreadExchangeStreamCaptureMode, int* to)
{
    int old = mode;
    mode = *to;
    *to = old;
    return SUCCESS;
}

CU(cuPointerGetAttributes, unsigned count, int* attributes, void** to, uint64_t pointer)
{
    int kind = 0, device = -2;
    for (int i = 0; i < MOST; i++)
    {
        if (memory[i].start == NULL || pointer - (uintptr_t)memory[i].start >= memory[i].size) continue;
        kind = 2;
        device = memory[i].device;
    }
    for (unsigned i = 0; i < count; i++) *(int*)to[i] = attributes[i] == 2 ? kind : attributes[i] == 9 ? device : 0;
    return SUCCESS;
}
