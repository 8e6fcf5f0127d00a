/* CUDA's runtime as the machine has it, found when the program starts. */
#include "cuda_runtime.h"

#include <cstdio>
#include <initializer_list>
#include <dlfcn.h>

static void* symbol(const char* name)
{
    static void* library = nullptr;
    for (const char* file : {"libcudart.so.13", "libcudart.so.12", "libcudart.so"}) {
        library = library == nullptr ? dlopen(file, RTLD_NOW | RTLD_GLOBAL) : library;
    }
    void* found = library == nullptr ? nullptr : dlsym(library, name);
    if (found == nullptr) {
        std::fprintf(stderr, "%s: not in a libcudart that the loader finds\n", name);
        std::exit(3);
    }
    return found;
}

/* A function of the library under its own name. */
#define FORWARD(name, parameters, ...)                                                        \
    extern "C" cudaError_t name parameters                                                    \
    {                                                                                         \
        static const auto function = reinterpret_cast<cudaError_t(*) parameters>(symbol(#name)); \
        return function(__VA_ARGS__);                                                         \
    }

FORWARD(cudaGetDevice, (int* device), device)
FORWARD(cudaSetDevice, (int device), device)
FORWARD(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device), value, attribute, device)
FORWARD(cudaGetLastError, (), )
FORWARD(cudaFree, (void* memory), memory)
FORWARD(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind), to, from, bytes, kind)
FORWARD(cudaMemset, (void* memory, int value, size_t bytes), memory, value, bytes)
FORWARD(cudaDeviceSynchronize, (), )
FORWARD(cudaStreamCreate, (cudaStream_t * stream), stream)
FORWARD(cudaStreamDestroy, (cudaStream_t stream), stream)
FORWARD(cudaStreamSynchronize, (cudaStream_t stream), stream)
FORWARD(cudaEventCreate, (cudaEvent_t * event), event)
FORWARD(cudaEventDestroy, (cudaEvent_t event), event)
FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), event, stream)
FORWARD(cudaEventSynchronize, (cudaEvent_t event), event)
FORWARD(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t from, cudaEvent_t to), milliseconds, from, to)
FORWARD(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), graph, flags)
FORWARD(cudaGraphDestroy, (cudaGraph_t graph), graph)
FORWARD(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), exec, stream)
FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t exec), exec)
FORWARD(cudaGraphExecUpdate, (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result), exec,
        graph, result)
FORWARD(cudaGraphAddChildGraphNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaGraph_t child),
        node, graph, after, count, child)
FORWARD(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* graph), node, graph)
FORWARD(cudaGraphExecChildGraphNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child), exec,
        node, child)

extern "C" const char* cudaGetErrorString(cudaError_t error)
{
    return reinterpret_cast<const char* (*)(cudaError_t)>(symbol("cudaGetErrorString"))(error);
}
cudaError_t allocate(void** memory, size_t bytes)
{
    return reinterpret_cast<cudaError_t (*)(void**, size_t)>(symbol("cudaMalloc"))(memory, bytes);
}
cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph)
{
    using Function = cudaError_t (*)(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
    return reinterpret_cast<Function>(symbol("cudaGraphInstantiate"))(exec, graph, 0);
}
