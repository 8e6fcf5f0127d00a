/* SPDX-License-Identifier: MIT */

/* A stand-in for the HIP runtime: one device, or as many as STANDIN_DEVICES says, whose memory is the processor's and whose work is done at
 * once. It serves engines that need a device but compute with another library; kernels are counted and not run. With
 * STANDIN_KNOWS_NO_MEMORY every address is foreign to it, as those of another vendor's GPU are to HIP. */
#define _POSIX_C_SOURCE 200809L

#include "may_throw.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, DEVICE_MEMORY = 2 };

typedef struct {
    int kind;
    int device;
    void* device_pointer;
    void* host_pointer;
    int is_managed;
    unsigned flags;
} attributes;

const char* hipGetErrorString(int error);
const char* hipGetErrorString(int error) { return error == SUCCESS ? "no error" : "an error of the stand-in"; }

#define HIP(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

HIP(hipGetLastError, void) { return SUCCESS; }

static _Thread_local int current;

HIP(hipGetDeviceCount, int* count)
{
    may_throw("hipGetDeviceCount");
    const char* const devices = getenv("STANDIN_DEVICES");
    *count = devices != NULL ? atoi(devices) : 1;
    return SUCCESS;
}

HIP(hipGetDevice, int* device)
{
    *device = current;
    return SUCCESS;
}

HIP(hipSetDevice, int device)
{
    int count = 0;
    hipGetDeviceCount(&count);
    if (device < 0 || device >= count) {
        return INVALID_DEVICE;
    }
    current = device;
    return SUCCESS;
}

HIP(hipDeviceSynchronize, void) { return SUCCESS; }

HIP(hipStreamSynchronize, void* stream)
{
    (void)stream;
    return SUCCESS;
}

HIP(hipMalloc, void** pointer, size_t size)
{
    *pointer = malloc(size > 0 ? size : 1);
    return *pointer != NULL ? SUCCESS : OUT_OF_MEMORY;
}

HIP(hipFree, void* pointer)
{
    free(pointer);
    return SUCCESS;
}

HIP(hipMemcpy, void* to, const void* from, size_t size, int kind)
{
    (void)kind;
    memmove(to, from, size);
    return SUCCESS;
}

HIP(hipMemcpyAsync, void* to, const void* from, size_t size, int kind, void* stream)
{
    (void)stream;
    return hipMemcpy(to, from, size, kind);
}

HIP(hipPointerGetAttributes, attributes* found, const void* pointer)
{
    memset(found, 0, sizeof *found);
#ifdef STANDIN_KNOWS_NO_MEMORY
    (void)pointer;
    return INVALID_VALUE;
#else
    found->kind = DEVICE_MEMORY;
    memcpy(&found->device_pointer, &pointer, sizeof pointer);
    return SUCCESS;
#endif
}

HIP(hipEventCreate, void** event)
{
    static int any;
    *event = &any;
    return SUCCESS;
}

HIP(hipEventQuery, void* event)
{
    (void)event;
    return SUCCESS;
}

HIP(hipStreamWaitEvent, void* stream, void* event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return SUCCESS;
}

HIP(hipEventRecord, void* event, void* stream)
{
    (void)stream;
    return event != NULL ? SUCCESS : INVALID_VALUE;
}

HIP(hipEventSynchronize, void* event) { return event != NULL ? SUCCESS : INVALID_VALUE; }

HIP(hipEventElapsedTime, float* milliseconds, void* from, void* to)
{
    *milliseconds = 0.0f;
    return from != NULL && to != NULL ? SUCCESS : INVALID_VALUE;
}

HIP(hipEventDestroy, void* event) { return event != NULL ? SUCCESS : INVALID_VALUE; }

/* What is read of hipDeviceProp_tR0600 is the name of the architecture. */
HIP(hipGetDevicePropertiesR0600, void* properties, int device)
{
    enum { SIZE = 1472, NAME = 1160 };
    int count = 0;
    hipGetDeviceCount(&count);
    memset(properties, 0, SIZE);
    strcpy((char*)properties + NAME, "standin");
    if (device > 0) {
        /* Each of another architecture */
        ((char*)properties)[NAME + 7] = (char)('0' + device);
    }
    return device >= 0 && device < count ? SUCCESS : INVALID_DEVICE;
}

/* Code objects are not looked at, and kernels are counted and not run. */
int standin_launches;

HIP(hipModuleLoadData, void** module, const void* image)
{
    may_throw("hipModuleLoadData");
    *module = malloc(1);
    return *module == NULL ? OUT_OF_MEMORY : image == NULL ? INVALID_VALUE : SUCCESS;
}

HIP(hipModuleUnload, void* module)
{
    free(module);
    may_throw("hipModuleUnload");
    return SUCCESS;
}

HIP(hipModuleGetFunction, void** function, void* module, const char* name)
{
    may_throw("hipModuleGetFunction");
    *function = module;
    return name != NULL ? SUCCESS : INVALID_VALUE;
}

HIP(hipModuleLaunchKernel, void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
    unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** parameters, void** extra)
{
    (void)stream;
    (void)extra;
    may_throw("hipModuleLaunchKernel");
    standin_launches++;
    const int is_whole = function != NULL && parameters != NULL && shared == 0;
    return is_whole && grid_x * grid_y * grid_z * block_x * block_y * block_z > 0 ? SUCCESS : INVALID_VALUE;
}
