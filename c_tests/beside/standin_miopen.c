/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for MIOpen where it forwards to hipDNN: while it is loaded, whenever a handle is made, a solution looked for or
 * run, it asks hipDNN for the engines of a graph, and would run it by the best. A handle has one of hipDNN's, which ends with it.
 *
 * What it computes is ANSWER everywhere. With PRIVATE it is the library that does the work behind such a one: its functions
 * have _impl behind their names, and it forwards nothing.
 */
#include "forwarding.h"
#include "may_throw.h"

#include <stdatomic.h>

#ifdef PRIVATE
#define NAME(name) name##_impl
#else
#define NAME(name) name
#endif

standin_counts NAME(standin);

/* Handles, descriptors and solutions are all alike. */
typedef struct {
    hipdnnHandle_t hipdnn;
} object;

static int make_object(void** made)
{
    *made = calloc(1, sizeof(object));
    return *made != NULL ? 0 : 1;
}

static int end_object(void* ended)
{
    free(ended);
    return 0;
}

#ifndef PRIVATE
static _Thread_local int depth = 0;

static void ask(void)
{
    char reason[1 << 14] = "";
    buffers data;
    if (depth == STANDIN_LIMIT) {
        return;
    }
    depth++;
    if (atomic_load(&standin.deepest) < depth) {
        atomic_store(&standin.deepest, depth);
    }
    atomic_fetch_add(&standin.asked, 1);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    if (count_results(heuristic) > 0) {
        hipdnnBackendDescriptor_t plan = make_plan(graph);
        fill_buffers(&data, plan);
        hipdnnBackendDescriptor_t pack = make_pack(&data);
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
        drop(pack);
        drop(plan);
        free(data.workspace);
    } else {
        hipdnnGetLastErrorString(reason, sizeof reason);
        const bool good = strstr(reason, "MIOPEN_HIPDNN_FORWARDING") != NULL;
        atomic_fetch_add(&standin.turned_away, good);
        check_report(good, __FILE__, __LINE__, reason);
    }
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    depth--;
}

__attribute__((constructor)) static void loaded(void) { ask(); }
#else
static void ask(void) {}
#endif

#define MIOPEN(name, ...) \
    int NAME(name)(__VA_ARGS__); \
    int NAME(name)(__VA_ARGS__)

const char* NAME(miopenGetErrorString)(int status);
const char* NAME(miopenGetErrorString)(int status) { return status == 0 ? "no error" : "an error of the stand-in"; }

MIOPEN(miopenGetVersion, size_t* major, size_t* minor, size_t* patch)
{
    *major = 3;
    *minor = *patch = 0;
    return 0;
}

MIOPEN(miopenCreateWithStream, void** handle, void* stream)
{
    (void)stream;
    may_throw("miopenCreateWithStream");
    ask();
    if (make_object(handle) != 0) {
        return 1;
    }
#ifndef PRIVATE
    CHECK_OK(hipdnnCreate(&((object*)*handle)->hipdnn));
#endif
    return 0;
}

MIOPEN(miopenDestroy, void* handle)
{
#ifndef PRIVATE
    CHECK_OK(hipdnnDestroy(((object*)handle)->hipdnn));
#endif
    return end_object(handle);
}

MIOPEN(miopenFindSolutions, void* handle, void* problem, void* options, void** solutions, size_t* count, size_t most)
{
    (void)handle, (void)problem, (void)options;
    may_throw("miopenFindSolutions");
    ask();
    *count = 0;
    if (most == 0 || make_object(&solutions[0]) != 0) {
        return 1;
    }
    *count = 1;
    return 0;
}

typedef struct {
    unsigned id;
    void* descriptor;
    void* buffer;
} argument;

MIOPEN(miopenRunSolution, void* handle, void* solution, size_t count, const argument* arguments, void* workspace,
       size_t size)
{
    enum { CONVOLUTION_Y = 3 };
    (void)handle, (void)solution, (void)workspace, (void)size;
    may_throw("miopenRunSolution");
    ask();
    atomic_fetch_add(&NAME(standin).runs, 1);
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; arguments[i].id == CONVOLUTION_Y && k < X_COUNT; k++) {
            ((float*)arguments[i].buffer)[k] = STANDIN_ANSWER;
        }
    }
    return 0;
}

MIOPEN(miopenGetSolutionWorkspaceSize, void* solution, size_t* size)
{
    (void)solution;
    *size = may_lie("miopenGetSolutionWorkspaceSize", 0);
    return 0;
}

MIOPEN(miopenGetSolutionSize, void* solution, size_t* size)
{
    (void)solution;
    *size = may_lie("miopenGetSolutionSize", 1);
    return 0;
}

MIOPEN(miopenSaveSolution, void* solution, char* data)
{
    (void)solution;
    *data = 's';
    return 0;
}

MIOPEN(miopenLoadSolution, void** solution, const char* data, size_t size)
{
    return size == 1 && *data == 's' ? make_object(solution) : 1;
}

MIOPEN(miopenCreateConvProblem, void** problem, void* convolution, int direction)
{
    (void)convolution, (void)direction;
    return make_object(problem);
}

#define CREATES(name) MIOPEN(name, void** made) { return make_object(made); }
#define ENDS(name) MIOPEN(name, void* ended) { return end_object(ended); }
CREATES(miopenCreateTensorDescriptor)
CREATES(miopenCreateConvolutionDescriptor)
CREATES(miopenCreateFindOptions)
CREATES(miopenCreateActivationDescriptor)
ENDS(miopenDestroyTensorDescriptor)
ENDS(miopenDestroyConvolutionDescriptor)
ENDS(miopenDestroyProblem)
ENDS(miopenDestroyFindOptions)
ENDS(miopenDestroySolution)
ENDS(miopenDestroyActivationDescriptor)

MIOPEN(miopenSetStream, void* handle, void* stream)
{
    (void)handle, (void)stream;
    return 0;
}

MIOPEN(miopenSetTensorDescriptor, void* set, int type, int rank, const int* dims, const int* strides)
{
    (void)set, (void)type, (void)rank, (void)dims, (void)strides;
    return 0;
}

MIOPEN(miopenInitConvolutionNdDescriptor, void* set, int n, const int* pad, const int* stride, const int* dilation,
       int mode)
{
    (void)set, (void)n, (void)pad, (void)stride, (void)dilation, (void)mode;
    return 0;
}

MIOPEN(miopenSetConvolutionGroupCount, void* set, int groups)
{
    (void)set, (void)groups;
    return 0;
}

MIOPEN(miopenSetConvolutionAttribute, void* set, int attribute, int value)
{
    (void)set, (void)attribute, (void)value;
    return 0;
}

MIOPEN(miopenSetConvolutionFindMode, void* set, int mode)
{
    (void)set, (void)mode;
    return 0;
}

MIOPEN(miopenSetProblemTensorDescriptor, void* set, unsigned id, void* descriptor)
{
    (void)set, (void)id, (void)descriptor;
    return 0;
}

MIOPEN(miopenSetFindOptionTuning, void* set, int value)
{
    (void)set, (void)value;
    return 0;
}

MIOPEN(miopenSetFindOptionWorkspaceLimit, void* set, size_t bytes)
{
    (void)set, (void)bytes;
    return 0;
}

/* They have to be there, and no graph of the test gets to them. */
#define UNUSED(name) MIOPEN(name, void) { return 1; }
UNUSED(miopenBatchNormalizationForwardInference)
UNUSED(miopenBatchNormalizationForwardTraining)
UNUSED(miopenBatchNormalizationBackward)
UNUSED(miopenSetActivationDescriptor)
UNUSED(miopenActivationForward)
UNUSED(miopenActivationBackward)
UNUSED(miopenOpTensor)
