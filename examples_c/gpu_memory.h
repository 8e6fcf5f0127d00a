/* SPDX-License-Identifier: MIT */

/*
 * GPU memory for the examples: of an AMD GPU through the HIP runtime, or else an NVIDIA GPU through the CUDA driver. Both are
 * loaded when hd_use_device is called, so a program built anywhere runs with and without them.
 */
#ifndef GPU_MEMORY_H
#define GPU_MEMORY_H

#include "hipdnn_helpers.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

/* The numbers of hipMemcpyKind. */
enum { HD_HOST_TO_DEVICE = 1, HD_DEVICE_TO_HOST = 2 };

static struct {
    void* library;
    int (*hipGetDeviceCount)(int* count);
    int (*hipMalloc)(void** memory, size_t bytes);
    int (*hipFree)(void* memory);
    int (*hipMemcpy)(void* to, const void* from, size_t bytes, int kind);
} hd_hip;

static struct {
    void* library;
    int (*cuInit)(unsigned flags);
    int (*cuDevicePrimaryCtxRetain)(void** context, int device);
    int (*cuCtxSetCurrent)(void* context);
    int (*cuMemAlloc_v2)(unsigned long long* memory, size_t bytes);
    int (*cuMemFree_v2)(unsigned long long memory);
    int (*cuMemcpyHtoD_v2)(unsigned long long to, const void* from, size_t bytes);
    int (*cuMemcpyDtoH_v2)(void* to, unsigned long long from, size_t bytes);
} hd_cuda;

static inline void hd_gpu_check(int error, const char* call)
{
    if (error != 0) {
        fprintf(stderr, "%s failed with error %d\n", call, error);
        exit(EXIT_FAILURE);
    }
}

static inline void* hd_hip_allocate(size_t bytes)
{
    void* memory = NULL;
    hd_gpu_check(hd_hip.hipMalloc(&memory, bytes), "hipMalloc");
    return memory;
}

static inline void hd_hip_release(void* memory) { hd_gpu_check(hd_hip.hipFree(memory), "hipFree"); }

static inline void hd_hip_write(void* to, const void* from, size_t bytes)
{
    hd_gpu_check(hd_hip.hipMemcpy(to, from, bytes, HD_HOST_TO_DEVICE), "hipMemcpy");
}

/* Engines queue their work on the default stream and return; a copy on that stream waits for earlier work. */
static inline void hd_hip_read(void* to, const void* from, size_t bytes)
{
    hd_gpu_check(hd_hip.hipMemcpy(to, from, bytes, HD_DEVICE_TO_HOST), "hipMemcpy");
}

static inline void* hd_cuda_allocate(size_t bytes)
{
    unsigned long long memory = 0;
    hd_gpu_check(hd_cuda.cuMemAlloc_v2(&memory, bytes), "cuMemAlloc");
    return (void*)(uintptr_t)memory;
}

static inline void hd_cuda_release(void* memory) { hd_gpu_check(hd_cuda.cuMemFree_v2((uintptr_t)memory), "cuMemFree"); }

static inline void hd_cuda_write(void* to, const void* from, size_t bytes)
{
    hd_gpu_check(hd_cuda.cuMemcpyHtoD_v2((uintptr_t)to, from, bytes), "cuMemcpyHtoD");
}

/* Waits for the default stream, as above. */
static inline void hd_cuda_read(void* to, const void* from, size_t bytes)
{
    hd_gpu_check(hd_cuda.cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes), "cuMemcpyDtoH");
}

/* The first library of a list that can be loaded. */
static inline void* hd_open_library(const char* const names[], size_t count)
{
    void* library = NULL;
    for (size_t i = 0; i < count && library == NULL; i++) {
#ifdef _WIN32
        library = LoadLibraryA(names[i]);
#else
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
#endif
    }
    return library;
}

/* POSIX allows converting a symbol's address to a function pointer; C does not, so its bytes are copied. */
static inline void hd_gpu_function(void* library, void* function, const char* name)
{
#ifdef _WIN32
    const FARPROC symbol = GetProcAddress((HMODULE)library, name);
#else
    void* symbol = dlsym(library, name);
#endif
    if (symbol == NULL) {
        fprintf(stderr, "the GPU's library has no %s\n", name);
        exit(EXIT_FAILURE);
    }
    memcpy(function, &symbol, sizeof symbol);
}

/* True if the HIP runtime is available and has a device. */
static inline int hd_open_hip(void)
{
#ifdef _WIN32
    static const char* const names[] = {"amdhip64_7.dll", "amdhip64_6.dll"};
#else
    static const char* const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
#endif
    hd_hip.library = hd_open_library(names, sizeof names / sizeof names[0]);
    if (hd_hip.library == NULL) {
        return 0;
    }
    hd_gpu_function(hd_hip.library, &hd_hip.hipGetDeviceCount, "hipGetDeviceCount");
    hd_gpu_function(hd_hip.library, &hd_hip.hipMalloc, "hipMalloc");
    hd_gpu_function(hd_hip.library, &hd_hip.hipFree, "hipFree");
    hd_gpu_function(hd_hip.library, &hd_hip.hipMemcpy, "hipMemcpy");
    int count = 0;
    return hd_hip.hipGetDeviceCount(&count) == 0 && count > 0;
}

/* True if the CUDA driver is available and has a device; makes its primary context this thread's. */
static inline int hd_open_cuda(void)
{
#ifdef _WIN32
    static const char* const names[] = {"nvcuda.dll"};
#else
    static const char* const names[] = {"libcuda.so.1"};
#endif
    hd_cuda.library = hd_open_library(names, 1);
    if (hd_cuda.library == NULL) {
        return 0;
    }
    hd_gpu_function(hd_cuda.library, &hd_cuda.cuInit, "cuInit");
    hd_gpu_function(hd_cuda.library, &hd_cuda.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    hd_gpu_function(hd_cuda.library, &hd_cuda.cuCtxSetCurrent, "cuCtxSetCurrent");
    hd_gpu_function(hd_cuda.library, &hd_cuda.cuMemAlloc_v2, "cuMemAlloc_v2");
    hd_gpu_function(hd_cuda.library, &hd_cuda.cuMemFree_v2, "cuMemFree_v2");
    hd_gpu_function(hd_cuda.library, &hd_cuda.cuMemcpyHtoD_v2, "cuMemcpyHtoD_v2");
    hd_gpu_function(hd_cuda.library, &hd_cuda.cuMemcpyDtoH_v2, "cuMemcpyDtoH_v2");
    void* context = NULL;
    return hd_cuda.cuInit(0) == 0 && hd_cuda.cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
           hd_cuda.cuCtxSetCurrent(context) == 0;
}

/* From now on, memory is GPU memory. Call this before any allocation. */
static inline void hd_use_device(void)
{
    if (hd_open_hip()) {
        hd_memory.allocate = hd_hip_allocate;
        hd_memory.release = hd_hip_release;
        hd_memory.write = hd_hip_write;
        hd_memory.read = hd_hip_read;
    } else if (hd_open_cuda()) {
        hd_memory.allocate = hd_cuda_allocate;
        hd_memory.release = hd_cuda_release;
        hd_memory.write = hd_cuda_write;
        hd_memory.read = hd_cuda_read;
    } else {
        hd_fail("no GPU: neither the HIP runtime (libamdhip64.so.7, .6 or .5) nor the CUDA driver (libcuda.so.1) has a "
                "device here");
    }
}

#endif
