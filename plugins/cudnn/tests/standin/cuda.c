/* SPDX-License-Identifier: MIT */

/* The library's stand-in for the CUDA driver, which counts how often work is ordered by events. */
#define cuEventRecord uncounted_record
#define cuStreamWaitEvent uncounted_wait
#include "standin_cuda.c"
#undef cuEventRecord
#undef cuStreamWaitEvent

static int orders;
CUDA(standin_orders, void) { return orders; }

CUDA(cuEventRecord, void* event, void* stream)
{
    orders++;
    return uncounted_record(event, stream);
}

CUDA(cuStreamWaitEvent, void* stream, void* event, unsigned flags)
{
    orders++;
    return uncounted_wait(stream, event, flags);
}
