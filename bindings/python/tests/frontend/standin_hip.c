/* SPDX-License-Identifier: MIT */

/* A stand-in for the parts of HIP that `hipdnn_frontend` calls: a stream waits by a thread's sleep, and time is the host's. */
#define _POSIX_C_SOURCE 200809L

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { NO_DEVICE = 100, INVALID = 1, CAN_WAIT = 10013, SIGNAL_MEMORY = 2, EQUAL = 1 };

static volatile uint32_t* waited;
static uint32_t wanted;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int hipGetDeviceCount(int* count)
{
    *count = getenv("STANDIN_NO_DEVICE") == NULL;
    return *count == 0 ? NO_DEVICE : 0;
}

const char* hipGetErrorString(int status) { return status == INVALID ? "invalid argument" : "an error"; }

int hipGetDevice(int* device)
{
    *device = 0;
    return 0;
}

int hipDeviceGetAttribute(int* value, int attribute, int device)
{
    *value = attribute == CAN_WAIT && device == 0 && getenv("STANDIN_CANNOT_WAIT") == NULL;
    return 0;
}

int hipEventCreate(double** event)
{
    *event = calloc(1, sizeof **event);
    return *event == NULL;
}

int hipEventDestroy(double* event)
{
    free(event);
    return 0;
}

int hipStreamSynchronize(void* stream)
{
    const struct timespec nap = {0, 1000000};
    while (stream == NULL && waited != NULL && *waited != wanted) {
        nanosleep(&nap, NULL);
    }
    if (stream == NULL) {
        waited = NULL;
    }
    return 0;
}

int hipDeviceSynchronize(void) { return hipStreamSynchronize(NULL); }

int hipEventRecord(double* event, void* stream)
{
    (void)stream;
    *event = now();
    return 0;
}

int hipEventSynchronize(double* event) { return *event == 0 ? INVALID : hipStreamSynchronize(NULL); }

int hipEventElapsedTime(float* milliseconds, const double* start, const double* stop)
{
    *milliseconds = (float)(*stop - *start);
    return *start == 0 || *stop == 0 ? INVALID : 0;
}

int hipExtMallocWithFlags(void** memory, size_t size, unsigned flags)
{
    *memory = calloc(1, size);
    return size == 8 && flags == SIGNAL_MEMORY ? 0 : INVALID;
}

int hipFree(void* memory)
{
    free(memory);
    return 0;
}

int hipStreamCreateWithFlags(void** stream, unsigned flags)
{
    *stream = malloc(1);
    return flags == 1 ? 0 : INVALID;
}

int hipStreamDestroy(void* stream)
{
    free(stream);
    return 0;
}

int hipStreamWriteValue32(void* stream, volatile uint32_t* memory, uint32_t value, unsigned flags)
{
    *memory = value;
    return stream != NULL && flags == 0 ? 0 : INVALID;
}

int hipStreamWaitValue32(void* stream, volatile uint32_t* memory, uint32_t value, unsigned flags, uint32_t mask)
{
    (void)stream;
    waited = memory;
    wanted = value;
    return flags == EQUAL && mask == UINT32_MAX ? 0 : INVALID;
}
