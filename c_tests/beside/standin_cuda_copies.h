/* SPDX-License-Identifier: MIT */

/* Part of standin_cuda.c: copies, which are done at once. */

static int copy(void* to, const void* from, size_t bytes, uint64_t on_device)
{
    int result = begin();
    const block* b = find(on_device);
    if (result == SUCCESS && (b == NULL || on_device - (uintptr_t)b->memory + bytes > b->size)) {
        result = INVALID_VALUE;
    }
    if (result == SUCCESS) {
        open_memory(&devices[b->device], 1);
        memcpy(to, from, bytes);
        open_memory(&devices[b->device], 0);
    }
    return answer(result);
}

CUDA(cuMemsetD8_v2, uint64_t to, unsigned char value, size_t bytes)
{
    char* values = malloc(bytes + 1);
    if (values == NULL) {
        return OUT_OF_MEMORY;
    }
    memset(values, value, bytes);
    const int result = copy((void*)(uintptr_t)to, values, bytes, to);
    free(values);
    return result;
}

CUDA(cuMemcpyHtoD_v2, uint64_t to, const void* from, size_t bytes)
{
    return copy((void*)(uintptr_t)to, from, bytes, to);
}

CUDA(cuMemcpyHtoDAsync_v2, uint64_t to, const void* from, size_t bytes, void* stream)
{
    (void)stream;
    return copy((void*)(uintptr_t)to, from, bytes, to);
}

CUDA(cuMemcpyDtoH_v2, void* to, uint64_t from, size_t bytes)
{
    return copy(to, (const void*)(uintptr_t)from, bytes, from);
}

CUDA(cuMemcpyDtoD_v2, uint64_t to, uint64_t from, size_t bytes)
{
    char* values = malloc(bytes + 1);
    if (values == NULL) {
        return OUT_OF_MEMORY;
    }
    int result = copy(values, (const void*)(uintptr_t)from, bytes, from);
    if (result == SUCCESS) {
        result = copy((void*)(uintptr_t)to, values, bytes, to);
    }
    free(values);
    return result;
}

CUDA(cuMemcpyDtoHAsync_v2, void* to, uint64_t from, size_t bytes, void* stream)
{
    (void)stream;
    return copy(to, (const void*)(uintptr_t)from, bytes, from);
}

CUDA(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, void* stream)
{
    (void)stream;
    return cuMemcpyDtoD_v2(to, from, bytes);
}
