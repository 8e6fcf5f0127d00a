/* SPDX-License-Identifier: MIT */

/*
 * The library's stand-in for the CUDA driver, which logs what orders work and what frees memory to the file HIPDNN_STUB_LOG, as the
 * stub plugin logs its calls. The functions below are called by tests.
 */
#define cuCtxSynchronize quiet_synchronize
#define cuEventQuery quiet_query
#define cuEventRecord quiet_record
#define cuMemFree_v2 quiet_free
#define cuStreamWaitEvent quiet_wait
#include "standin_cuda.c"
#undef cuCtxSynchronize
#undef cuEventQuery
#undef cuEventRecord
#undef cuMemFree_v2
#undef cuStreamWaitEvent

#include <inttypes.h>
#include <stdarg.h>

enum { NOT_READY = 600 };

static int is_busy;

static void log_call(const char* format, ...)
{
    const char* path = getenv("HIPDNN_STUB_LOG");
    FILE* file = path == NULL ? NULL : fopen(path, "ab");
    if (file == NULL) {
        return;
    }
    va_list values;
    va_start(values, format);
    vfprintf(file, format, values);
    va_end(values);
    fputc('\n', file);
    fclose(file);
}

/* Whether this thread holds the interpreter's lock. */
static int has_lock(void)
{
    int (*check)(void);
    void* at = dlsym(RTLD_DEFAULT, "PyGILState_Check");
    memcpy(&check, &at, sizeof at);
    return at != NULL && check();
}

CUDA(cuCtxSynchronize, void)
{
    log_call("cuCtxSynchronize device=%d", (int)(current() - devices));
    return quiet_synchronize();
}

CUDA(cuEventQuery, void* event)
{
    const int result = quiet_query(event);
    return result == SUCCESS && is_busy ? NOT_READY : result;
}

CUDA(cuEventRecord, void* event, void* at)
{
    log_call("cuEventRecord stream=%" PRIuPTR, (uintptr_t)at);
    return quiet_record(event, at);
}

CUDA(cuMemFree_v2, uint64_t pointer)
{
    log_call("cuMemFree_v2 lock=%d", has_lock());
    return quiet_free(pointer);
}

CUDA(cuStreamWaitEvent, void* at, void* event, unsigned flags)
{
    log_call("cuStreamWaitEvent stream=%" PRIuPTR, (uintptr_t)at);
    return quiet_wait(at, event, flags);
}

/* A stream of a device. */
void* standin_stream(int number);
void* standin_stream(int number)
{
    void *made = NULL, *context;
    cuInit(0);
    cuCtxPushCurrent_v2(&devices[number]);
    cuStreamCreate(&made, 1);
    cuCtxPopCurrent_v2(&context);
    return made;
}

/* Begins or ends a capture, as PyTorch does. */
CUDA(standin_capture, void* at, int is_on)
{
    void* made;
    return is_on ? cuStreamBeginCapture_v2(at, GLOBAL) : cuStreamEndCapture(at, &made);
}

/* Makes a device's context current; -1 means none. */
CUDA(standin_context, int number) { return cuCtxSetCurrent(number < 0 ? NULL : &devices[number]); }

/* The number of allocated bytes. */
size_t standin_allocated(void);
size_t standin_allocated(void)
{
    size_t sum = 0;
    for (int i = 0; i < device_count; i++) {
        sum += devices[i].used;
    }
    return sum;
}

/* Writes to device memory. */
CUDA(standin_write, uint64_t to, const void* from, size_t bytes)
{
    void* context;
    cuCtxPushCurrent_v2(&devices[0]);
    const int result = cuMemcpyHtoD_v2(to, from, bytes);
    cuCtxPopCurrent_v2(&context);
    return result;
}

/* Whether events have not happened yet. */
CUDA(standin_busy, int is_on)
{
    is_busy = is_on;
    return SUCCESS;
}

/* A library's function that should return its stream, and raises a Python error instead. */
CUDA(standin_no_stream, int32_t kind, int32_t number, void** to)
{
    (void)kind;
    (void)number;
    (void)to;
    void (*raise)(void*, const char*);
    void* at = dlsym(RTLD_DEFAULT, "PyErr_SetString");
    memcpy(&raise, &at, sizeof at);
    raise(*(void**)dlsym(RTLD_DEFAULT, "PyExc_RuntimeError"), "no stream");
    return -1;
}
