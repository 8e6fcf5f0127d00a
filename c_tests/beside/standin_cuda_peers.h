/* SPDX-License-Identifier: MIT */

/* Part of standin_cuda.c: the memory that a device's kernels can access. */

enum { PEER_ACCESS_ALREADY_ENABLED = 704, PEER_ACCESS_NOT_ENABLED = 705 };

/* Whether kernels of one reach memory of another. */
static int reaches_peer[DEVICES][DEVICES];

CUDA(cuDeviceCanAccessPeer, int* can, int number, int other)
{
    const int are_there = number >= 0 && number < device_count && other >= 0 && other < device_count;
    *can = are_there && number != other;
    return are_there ? SUCCESS : INVALID_DEVICE;
}

/* Whether kernels of a device reach memory of the device with a number. */
static int reaches_device(const device* of, int other)
{
    return of == &devices[other] || reaches_peer[of - devices][other];
}

static int set_peer_access(const device* other, int is_open)
{
    const ptrdiff_t to = other - devices;
    pthread_mutex_lock(&lock);
    if (current() == NULL || to < 0 || to >= device_count || other == current()) {
        return answer(INVALID_CONTEXT);
    }
    int* reaches = &reaches_peer[current() - devices][to];
    const int result = *reaches != is_open ? SUCCESS : is_open ? PEER_ACCESS_ALREADY_ENABLED : PEER_ACCESS_NOT_ENABLED;
    *reaches = is_open;
    return answer(result);
}

CUDA(cuCtxEnablePeerAccess, void* other, unsigned flags)
{
    return flags == 0 ? set_peer_access(other, 1) : INVALID_VALUE;
}

CUDA(cuCtxDisablePeerAccess, void* other) { return set_peer_access(other, 0); }
