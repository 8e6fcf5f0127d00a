/* SPDX-License-Identifier: MIT */

/* Memory of the host, or of the HIP device with a stream; HIP is found at run time. A failure ends the program. */
#ifndef MEMORY_H
#define MEMORY_H

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

static struct {
    void* library;
    int (*Malloc)(void** pointer, size_t size);
    int (*Free)(void* pointer);
    int (*Memcpy)(void* to, const void* from, size_t size, int kind);
    int (*StreamCreate)(void** stream);
    int (*StreamSynchronize)(void* stream);
    int (*StreamDestroy)(void* stream);
    void* stream;
} hip;

static inline void memory_check(int answer, const char* what)
{
    if (answer != 0) {
        fprintf(stderr, "FAILED: %s answers %d\n", what, answer);
        exit(EXIT_FAILURE);
    }
}

#define HIP(call) memory_check((call), #call)

static inline void memory_function(void* function, const char* name)
{
    void* const symbol = dlsym(hip.library, name);
    memory_check(symbol == NULL, name);
    memcpy(function, &symbol, sizeof symbol);
}

static inline void memory_begin(bool on_device)
{
    static const char* const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    for (int i = 0; on_device && hip.library == NULL && i < 3; i++) {
        hip.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (on_device) {
        memory_check(hip.library == NULL, "opening the HIP runtime");
        memory_function(&hip.Malloc, "hipMalloc");
        memory_function(&hip.Free, "hipFree");
        memory_function(&hip.Memcpy, "hipMemcpy");
        memory_function(&hip.StreamCreate, "hipStreamCreate");
        memory_function(&hip.StreamSynchronize, "hipStreamSynchronize");
        memory_function(&hip.StreamDestroy, "hipStreamDestroy");
        HIP(hip.StreamCreate(&hip.stream));
    }
}

static inline void* memory_stream(void) { return hip.stream; }

static inline void* memory_new(size_t size)
{
    void* pointer = NULL;
    if (hip.library != NULL) {
        HIP(hip.Malloc(&pointer, size));
    } else {
        /* Whole lines of 64 bytes, as aligned as device memory is at least. */
        pointer = aligned_alloc(64, (size + 63) / 64 * 64);
        memory_check(pointer == NULL, "aligned_alloc");
        /* Engines must not rely on zeros. */
        memset(pointer, 0xff, size);
    }
    return pointer;
}

static inline void memory_free(void* pointer)
{
    if (hip.library != NULL) {
        HIP(hip.Free(pointer));
    } else {
        free(pointer);
    }
}

static inline void memory_write(void* to, const void* from, size_t size)
{
    if (hip.library != NULL) {
        HIP(hip.Memcpy(to, from, size, TO_DEVICE));
    } else {
        memcpy(to, from, size);
    }
}

static inline void memory_read(void* to, const void* from, size_t size)
{
    if (hip.library != NULL) {
        HIP(hip.Memcpy(to, from, size, FROM_DEVICE));
    } else {
        memcpy(to, from, size);
    }
}

/* Waits until the work on the stream is done. */
static inline void memory_wait(void)
{
    if (hip.library != NULL) {
        HIP(hip.StreamSynchronize(hip.stream));
    }
}

static inline void memory_end(void)
{
    if (hip.library != NULL) {
        HIP(hip.StreamDestroy(hip.stream));
        dlclose(hip.library);
        hip.library = NULL;
    }
}

#endif
