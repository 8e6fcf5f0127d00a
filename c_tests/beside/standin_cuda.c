/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for the CUDA driver, for machines without an NVIDIA GPU: devices whose memory is the processor's and whose work is done at
 * once. Kernels are those that the stand-in for NVRTC compiles for the processor; the threads of a block take turns from one barrier to
 * the next.
 *
 * It is strict where a GPU is: the host and kernels of another device cannot touch a device's memory, streams and kernels belong to a
 * context, fresh memory has no numbers, and a capture is ended by what CUDA says ends it. STANDIN_CUDA_DEVICES is the number of devices, 1
 * unless told; with STANDIN_CUDA_REVERSE blocks and threads run last to first.
 */
#define _GNU_SOURCE

#include "standin_cuda.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_IMPLICIT = 906,
    CAPTURE_WRONG_THREAD = 908
};
enum { GLOBAL, THREAD_LOCAL, RELAXED };
enum { DEVICES = 4, CONTEXTS = 32, PARAMETERS = 128, STACK = 64 << 10, MOST_THREADS = 1024 };
enum { NVIDIA = 190 };
#define ARENA ((size_t)2 << 30)

#define CUDA(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

typedef struct {
    char* memory;
    size_t used;
} device;

typedef struct block {
    struct block* next;
    char* memory;
    size_t size;
    int device, kind; /* 1 registered, 2 device, 3 managed, 4 pinned */
} block;

typedef struct {
    void* library;
    const device* of;
    int file;
} module;

typedef struct function {
    struct function* next;
    void (*run)(void**);
    void (*place)(unsigned, unsigned);
    int count;
    const module* module;
} function;

typedef struct node {
    struct node* next;
    const device* of;
    standin_work work;
    void* data;
} node;

typedef struct {
    node *first, *last;
    size_t count, more_users;
} graph;

typedef struct stream {
    struct stream* next;
    device* of;
    unsigned flags;
    graph* captured;
    pthread_t owner;
    int mode, is_invalid;
    uint64_t id;
} stream;

static device devices[DEVICES];
static int device_count, is_retained[DEVICES];
static block* blocks;
static stream* streams;
static function* functions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local device* entered[CONTEXTS];
static _Thread_local int depth;
static _Thread_local int thread_mode = GLOBAL;

static device* current(void) { return depth > 0 ? entered[depth - 1] : NULL; }

static int answer(int result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* Opens or closes a device's memory to this process. */
static void open_memory(const device* of, int is_open)
{
    mprotect(of->memory, ARENA, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* ---- Devices and contexts; a context is its device ---- */

CUDA(cuInit, unsigned flags)
{
    pthread_mutex_lock(&lock);
    if (device_count == 0 && flags == 0) {
        const char* wanted = getenv("STANDIN_CUDA_DEVICES");
        const int count = wanted != NULL ? atoi(wanted) : 1;
        for (int i = 0; i < count && i < DEVICES; i++) {
            devices[i].memory = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            device_count += devices[i].memory != MAP_FAILED;
        }
    }
    return answer(flags == 0 ? SUCCESS : INVALID_VALUE);
}

CUDA(cuGetErrorName, int error, const char** text)
{
    static const struct {
        int error;
        const char* name;
    } NAMES[] = {
        {SUCCESS, "CUDA_SUCCESS"},
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    };
    *text = "an error of the stand-in";
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        *text = NAMES[i].error == error ? NAMES[i].name : *text;
    }
    return SUCCESS;
}

CUDA(cuGetErrorString, int error, const char** text)
{
    *text = error == SUCCESS ? "no error" : "words of the stand-in for the CUDA driver";
    return SUCCESS;
}

CUDA(cuDriverGetVersion, int* version)
{
    *version = 13000;
    return SUCCESS;
}

CUDA(cuDeviceGetCount, int* count)
{
    *count = device_count;
    return device_count > 0 ? SUCCESS : NOT_INITIALIZED;
}

CUDA(cuDeviceGet, int* number, int ordinal)
{
    *number = ordinal;
    return ordinal >= 0 && ordinal < device_count ? SUCCESS : INVALID_DEVICE;
}

CUDA(cuDeviceGetAttribute, int* value, int attribute, int number)
{
    /* The compute capability is 9.0. */
    *value = attribute == 75 ? 9 : 0;
    return number >= 0 && number < device_count ? SUCCESS : INVALID_DEVICE;
}

CUDA(cuDeviceGetName, char* name, int size, int number)
{
    snprintf(name, (size_t)size, "stand-in %d", number);
    return number >= 0 && number < device_count ? SUCCESS : INVALID_DEVICE;
}

CUDA(cuDeviceTotalMem_v2, size_t* bytes, int number)
{
    *bytes = ARENA;
    return number >= 0 && number < device_count ? SUCCESS : INVALID_DEVICE;
}

CUDA(cuDevicePrimaryCtxRetain, void** context, int number)
{
    if (number < 0 || number >= device_count) {
        return INVALID_DEVICE;
    }
    *context = &devices[number];
    is_retained[number] = 1;
    return SUCCESS;
}

CUDA(cuDevicePrimaryCtxGetState, int number, unsigned* flags, int* is_active)
{
    const int is_there = number >= 0 && number < device_count;
    *flags = 0;
    *is_active = is_there && is_retained[number];
    return is_there ? SUCCESS : INVALID_DEVICE;
}

CUDA(cuCtxGetCurrent, void** context)
{
    *context = current();
    return SUCCESS;
}

CUDA(cuCtxSetCurrent, void* context)
{
    depth += depth == 0;
    entered[depth - 1] = context;
    return SUCCESS;
}

CUDA(cuCtxPushCurrent_v2, void* context)
{
    if (context == NULL || depth == CONTEXTS) {
        return INVALID_CONTEXT;
    }
    entered[depth++] = context;
    return SUCCESS;
}

CUDA(cuCtxPopCurrent_v2, void** context)
{
    if (depth == 0) {
        return INVALID_CONTEXT;
    }
    *context = entered[--depth];
    return SUCCESS;
}

CUDA(cuCtxGetDevice, int* number)
{
    *number = current() != NULL ? (int)(current() - devices) : -1;
    return current() != NULL ? SUCCESS : INVALID_CONTEXT;
}

#include "standin_cuda_peers.h"

/* ---- What a capture forbids ---- */

/* What a call that allocates or waits is answered, with the lock held: the captures that it disturbs are over. */
static int disturbs(void)
{
    int result = SUCCESS;
    for (stream* s = streams; s != NULL && thread_mode != RELAXED; s = s->next) {
        const int is_own = s->captured != NULL && pthread_equal(s->owner, pthread_self());
        const int is_other = s->captured != NULL && !is_own;
        if ((is_own && s->mode != RELAXED) || (is_other && s->mode == GLOBAL && thread_mode == GLOBAL)) {
            s->is_invalid = 1;
            result = CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

/* Requires the lock, a context and no strict capture. */
static int begin(void)
{
    pthread_mutex_lock(&lock);
    return current() == NULL ? INVALID_CONTEXT : disturbs();
}

CUDA(cuCtxSynchronize, void) { return answer(begin()); }

CUDA(cuThreadExchangeStreamCaptureMode, int* mode)
{
    const int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return SUCCESS;
}

/* ---- Memory ---- */

static block* keep(void* memory, size_t size, int kind)
{
    block* made = malloc(sizeof *made);
    if (made != NULL) {
        *made = (block){blocks, memory, size, (int)(current() - devices), kind};
        blocks = made;
    }
    return made;
}

static block* find(uint64_t address)
{
    for (block* b = blocks; b != NULL; b = b->next) {
        if (address >= (uintptr_t)b->memory && address - (uintptr_t)b->memory < b->size) {
            return b;
        }
    }
    return NULL;
}

CUDA(cuMemAlloc_v2, uint64_t* pointer, size_t bytes)
{
    const size_t alignment = 512;
    int result = begin();
    if (result == SUCCESS) {
        device* of = current();
        /* The first gap between the unordered allocations. */
        size_t at = 0;
        for (block* b = blocks; b != NULL;) {
            const size_t begins = (size_t)(b->memory - of->memory);
            const int overlaps =
                b->kind == 2 && b->device == of - devices && begins < at + bytes && at < begins + b->size;
            at = overlaps ? (begins + b->size + alignment - 1) / alignment * alignment : at;
            b = overlaps ? blocks : b->next;
        }
        if (bytes == 0 || at + bytes > ARENA || keep(of->memory + at, bytes, 2) == NULL) {
            return answer(bytes == 0 ? INVALID_VALUE : OUT_OF_MEMORY);
        }
        of->used += bytes;
        open_memory(of, 1);
        memset(of->memory + at, 0xff, bytes);
        open_memory(of, 0);
        *pointer = (uintptr_t)(of->memory + at);
    }
    return answer(result);
}

CUDA(cuMemAllocAsync, uint64_t* pointer, size_t bytes, void* s)
{
    (void)s;
    return cuMemAlloc_v2(pointer, bytes);
}

/* Memory of the host that devices reach, of one kind. */
static int host_memory(void** pointer, size_t bytes, int kind)
{
    int result = begin();
    void* memory = kind == 1 ? *pointer : NULL;
    if (result == SUCCESS && kind != 1 && posix_memalign(&memory, 512, bytes) != 0) {
        result = OUT_OF_MEMORY;
    }
    if (result == SUCCESS) {
        *pointer = memory;
        result = keep(memory, bytes, kind) != NULL ? SUCCESS : OUT_OF_MEMORY;
    }
    return answer(result);
}

CUDA(cuMemAllocManaged, uint64_t* pointer, size_t bytes, unsigned flags)
{
    void* memory = NULL;
    const int result = flags == 1 ? host_memory(&memory, bytes, 3) : INVALID_VALUE;
    *pointer = (uintptr_t)memory;
    return result;
}

CUDA(cuMemHostAlloc, void** pointer, size_t bytes, unsigned flags)
{
    return flags == 0 ? host_memory(pointer, bytes, 4) : INVALID_VALUE;
}

CUDA(cuMemHostRegister_v2, void* pointer, size_t bytes, unsigned flags)
{
    return flags == 0 ? host_memory(&pointer, bytes, 1) : INVALID_VALUE;
}

static int forget(uint64_t pointer, int is_kind, int or_kind)
{
    int result = begin();
    block** at = &blocks;
    while (result == SUCCESS && *at != NULL && (uintptr_t)(*at)->memory != pointer) {
        at = &(*at)->next;
    }
    block* ended = *at;
    if (result == SUCCESS && (ended == NULL || (ended->kind != is_kind && ended->kind != or_kind))) {
        result = INVALID_VALUE;
    }
    if (result == SUCCESS) {
        *at = ended->next;
        if (ended->kind == 2) {
            devices[ended->device].used -= ended->size;
        } else if (ended->kind != 1) {
            free(ended->memory);
        }
        free(ended);
    }
    return answer(result);
}

CUDA(cuMemFree_v2, uint64_t pointer) { return forget(pointer, 2, 3); }

CUDA(cuMemFreeHost, void* pointer) { return forget((uintptr_t)pointer, 4, 4); }

CUDA(cuMemHostUnregister, void* pointer) { return forget((uintptr_t)pointer, 1, 1); }

CUDA(cuMemGetInfo_v2, size_t* left, size_t* total)
{
    pthread_mutex_lock(&lock);
    *total = ARENA;
    *left = current() != NULL ? ARENA - current()->used : 0;
    return answer(current() != NULL ? SUCCESS : INVALID_CONTEXT);
}

#include "standin_cuda_copies.h"

CUDA(cuPointerGetAttributes, unsigned count, int* attributes, void** answers, uint64_t pointer)
{
    pthread_mutex_lock(&lock);
    const block* b = find(pointer);
    const int reaches = b != NULL && current() != NULL && (b->kind != 2 || reaches_device(current(), b->device));
    const int kind = b == NULL ? 0 : b->kind == 2 || b->kind == 3 ? 2 : 1, is_managed = b != NULL && b->kind == 3;
    /* Attributes of unknown addresses are zero, without a device. */
    const int on_device = b != NULL ? b->device : -2;
    const uint64_t there = reaches ? pointer : 0;
    int result = SUCCESS;
    for (unsigned i = 0; i < count; i++) {
        switch (attributes[i]) {
        case 2: memcpy(answers[i], &kind, sizeof kind); break;
        case 3: memcpy(answers[i], &there, sizeof there); break;
        case 8: memcpy(answers[i], &is_managed, sizeof is_managed); break;
        case 9: memcpy(answers[i], &on_device, sizeof on_device); break;
        default: result = INVALID_VALUE;
        }
    }
    return answer(result);
}

#include "standin_cuda_work.h"
