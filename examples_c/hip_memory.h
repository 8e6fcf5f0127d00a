/* SPDX-License-Identifier: MIT */

/*
 * Memory of an AMD GPU for the examples. The HIP runtime is looked for when hd_use_device is called, so that a program built
 * anywhere runs with and without it.
 */
#ifndef HIP_MEMORY_H
#define HIP_MEMORY_H

#include "hipdnn_helpers.h"

#include <dlfcn.h>

/* The numbers of hipMemcpyKind. */
enum { HD_HOST_TO_DEVICE = 1, HD_DEVICE_TO_HOST = 2 };

static struct {
    void* library;
    int (*hipMalloc)(void** memory, size_t bytes);
    int (*hipFree)(void* memory);
    int (*hipMemcpy)(void* to, const void* from, size_t bytes, int kind);
    const char* (*hipGetErrorString)(int error);
} hd_hip;

static inline void hd_hip_check(int error, const char* call)
{
    if (error != 0) {
        fprintf(stderr, "%s failed with error %d: %s\n", call, error, hd_hip.hipGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

static inline void* hd_device_allocate(size_t bytes)
{
    void* memory = NULL;
    hd_hip_check(hd_hip.hipMalloc(&memory, bytes), "hipMalloc");
    return memory;
}

static inline void hd_device_release(void* memory)
{
    hd_hip_check(hd_hip.hipFree(memory), "hipFree");
}

static inline void hd_device_write(void* to, const void* from, size_t bytes)
{
    hd_hip_check(hd_hip.hipMemcpy(to, from, bytes, HD_HOST_TO_DEVICE), "hipMemcpy");
}

/* Engines put their work on the default stream and return; a copy from there waits for what is before it. */
static inline void hd_device_read(void* to, const void* from, size_t bytes)
{
    hd_hip_check(hd_hip.hipMemcpy(to, from, bytes, HD_DEVICE_TO_HOST), "hipMemcpy");
}

/* POSIX lets a symbol's address be read as that of a function; C does not, so its bytes are copied. */
static inline void hd_hip_function(void* function, const char* name)
{
    void* symbol = dlsym(hd_hip.library, name);
    if (symbol == NULL) {
        fprintf(stderr, "the HIP runtime has no %s\n", name);
        exit(EXIT_FAILURE);
    }
    memcpy(function, &symbol, sizeof symbol);
}

/* From now on, memory is that of the GPU. To be called before anything is allocated. */
static inline void hd_use_device(void)
{
    static const char* const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && hd_hip.library == NULL; i++) {
        hd_hip.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (hd_hip.library == NULL) {
        hd_fail("no HIP runtime was found: libamdhip64.so.7, .6 or .5");
    }
    hd_hip_function(&hd_hip.hipMalloc, "hipMalloc");
    hd_hip_function(&hd_hip.hipFree, "hipFree");
    hd_hip_function(&hd_hip.hipMemcpy, "hipMemcpy");
    hd_hip_function(&hd_hip.hipGetErrorString, "hipGetErrorString");
    hd_memory.allocate = hd_device_allocate;
    hd_memory.release = hd_device_release;
    hd_memory.write = hd_device_write;
    hd_memory.read = hd_device_read;
}

#endif
