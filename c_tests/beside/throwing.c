/* SPDX-License-Identifier: MIT */

/*
 * The engines for AMD GPUs with library functions that throw a C++ exception, as the real ones do when memory is short: the call
 * fails with a message, and the process goes on. The same for functions that return an absurd size.
 *
 * Everything here is a stand-in: standin_hip.c, and for the library that the program's word names standin_miopen.c, standin_hipblaslt.c
 * or standin_hiprtc.c. They throw in the function that STANDIN_THROWS names, and lie in the
 * one that STANDIN_LIES names.
 */
#include "forwarding.h"
#include "may_throw.h"

#include <dlfcn.h>

enum { MOST = 10, ROUNDS = 100 };

/* The phases in which library functions are called. Exceptions while destroying objects fail no call. */
typedef struct {
    const char* word;
    hipdnnBackendDescriptor_t (*make_graph)(hipdnnHandle_t);
    const char* asking[MOST];
    const char* planning[MOST];
    const char* executing[MOST];
    const char* ending[MOST];
    const char* lying[MOST]; /* while a plan is made or saved */
    bool answers;            /* whether an execution writes STANDIN_ANSWER */
} library;

static hipdnnBackendDescriptor_t make_matrix(int64_t uid, int64_t rows, int64_t columns)
{
    const int64_t dims[] = {1, rows, columns};
    hipdnnBackendDescriptor_t matrix = open_tensor(uid, 3, dims, false);
    REQUIRE_OK(hipdnnBackendFinalize(matrix));
    return matrix;
}

static hipdnnBackendDescriptor_t make_product(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t operation = make(HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    hipdnnBackendDescriptor_t a = make_matrix(UID_X, 4, 8);
    hipdnnBackendDescriptor_t b = make_matrix(UID_W, 8, 4);
    hipdnnBackendDescriptor_t c = make_matrix(UID_Y, 4, 4);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    put_float_type(operation, HIPDNN_ATTR_MATMUL_COMP_TYPE);
    drop(a);
    drop(b);
    drop(c);
    return graph_of_one(handle, operation);
}

static hipdnnBackendDescriptor_t make_relu(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t operation = open_relu();
    hipdnnBackendDescriptor_t in = make_tensor(UID_X, 1, CHANNELS, SIDE, SIDE, false);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, in);
    drop(in);
    return graph_of_one(handle, operation);
}

/* The first calls of a process look for algorithms, which are kept. */
static const library LIBRARIES[] = {
    {"miopen",
     make_graph,
     {"hipGetDeviceCount", "miopenCreateWithStream"},
     {"miopenFindSolutions"},
     {"miopenRunSolution"},
     {NULL},
     {"miopenGetSolutionWorkspaceSize"},
     true},
    {"hipblaslt",
     make_product,
     {"hipGetDeviceCount", "hipblasLtCreate", "hipblasLtGetVersion", "hipblasLtMatmulDescCreate",
      "hipblasLtMatmulDescSetAttribute", "hipblasLtMatrixLayoutCreate", "hipblasLtMatrixLayoutSetAttribute",
      "hipblasLtMatmulPreferenceCreate", "hipblasLtMatmulPreferenceSetAttribute", "hipblasLtMatmulAlgoGetHeuristic"},
     {"hipblasLtMatmulDescCreate", "hipblasLtMatrixLayoutCreate"},
     {"hipblasLtMatmul"},
     {"hipblasLtMatmulDescDestroy", "hipblasLtMatrixLayoutDestroy"},
     {NULL},
     true},
    {"hiprtc",
     make_relu,
     {"hipGetDeviceCount"},
     {"hiprtcVersion", "hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcGetCodeSize", "hiprtcGetCode",
      "hipModuleLoadData", "hipModuleGetFunction"},
     {"hipModuleLaunchKernel"},
     {"hiprtcDestroyProgram", "hipModuleUnload"},
     {"hiprtcGetCodeSize"},
     false},
};

static void check_threw(hipdnnStatus_t status, const char* function)
{
    char text[1 << 14] = "";
    char expected[200];
    hipdnnGetLastErrorString(text, sizeof text);
    snprintf(expected, sizeof expected, "%s threw a C++ exception: std::bad_alloc", function);
    if (status == HIPDNN_STATUS_SUCCESS || strstr(text, expected) == NULL) {
        fprintf(stderr, "%s: status %d: %s\n", function, (int)status, text);
        check_report(false, __FILE__, __LINE__, function);
    }
}

static void check_asking(hipdnnBackendDescriptor_t graph, const char* function)
{
    setenv("STANDIN_THROWS", function, 1);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    CHECK_EQ(count_results(heuristic), 0);
    check_threw(HIPDNN_STATUS_NOT_SUPPORTED, function);
    unsetenv("STANDIN_THROWS");
    drop(heuristic);
}

/* The configuration asks for the workspace, for which some engines plan. */
static hipdnnStatus_t finalize_both(hipdnnBackendDescriptor_t config, hipdnnBackendDescriptor_t plan)
{
    const hipdnnStatus_t status = hipdnnBackendFinalize(config);
    if (status != HIPDNN_STATUS_SUCCESS) {
        return status;
    }
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return hipdnnBackendFinalize(plan);
}

static void check_planning(hipdnnBackendDescriptor_t graph, const char* function)
{
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    setenv("STANDIN_THROWS", function, 1);
    check_threw(finalize_both(config, plan), function);
    unsetenv("STANDIN_THROWS");
    drop(plan);
    drop(config);
}

/* An impossible size is an error with the function's name and the size, and does not end the process. */
static void check_lying(hipdnnBackendDescriptor_t graph, const char* function)
{
    char text[1 << 14] = "";
    char size[30];
    size_t bytes = 0;
    snprintf(size, sizeof size, "%zu", (size_t)1 << LIE_BITS);
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    setenv("STANDIN_LIES", function, 1);
    hipdnnStatus_t status = finalize_both(config, plan);
    if (status == HIPDNN_STATUS_SUCCESS) {
        status = hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &bytes, NULL);
    }
    unsetenv("STANDIN_LIES");
    hipdnnGetLastErrorString(text, sizeof text);
    if (status == HIPDNN_STATUS_SUCCESS || strstr(text, size) == NULL) {
        fprintf(stderr, "%s: status %d, %zu bytes: %s\n", function, (int)status, bytes, text);
        check_report(false, __FILE__, __LINE__, function);
    }
    drop(plan);
    drop(config);
}

static void check_execution(const library* it, hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan,
                            const char* function)
{
    buffers data;
    void* const hip = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(hip != NULL);
    const int* const launches = dlsym(hip, "standin_launches");
    REQUIRE(launches != NULL);
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    for (int round = 0; round < ROUNDS; round++) {
        const int before = *launches;
        setenv("STANDIN_THROWS", function, 1);
        check_threw(hipdnnBackendExecute(handle, plan, pack), function);
        unsetenv("STANDIN_THROWS");
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
        CHECK(it->answers ? data.y[0] == STANDIN_ANSWER : *launches == before + 1);
    }
    drop(pack);
    free(data.workspace);
    dlclose(hip);
}

int main(int count, char** words)
{
    const library* it = NULL;
    for (int64_t i = 0; i < COUNT(LIBRARIES); i++) {
        it = count == 2 && strcmp(words[1], LIBRARIES[i].word) == 0 ? &LIBRARIES[i] : it;
    }
    REQUIRE(it != NULL);
    check_about("%s", it->word);
    /* Each plan is made without cached kernels. */
    setenv("HIPDNN_PLAN_CACHE_BYTES", "0", 1);
    setenv("HIPDNN_DISABLE_CACHE", "1", 1);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = it->make_graph(handle);
    for (int i = 0; i < MOST && it->asking[i] != NULL; i++) {
        check_asking(graph, it->asking[i]);
    }
    for (int i = 0; i < MOST && it->planning[i] != NULL; i++) {
        check_planning(graph, it->planning[i]);
    }
    for (int i = 0; i < MOST && it->executing[i] != NULL; i++) {
        hipdnnBackendDescriptor_t plan = make_plan(graph);
        check_execution(it, handle, plan, it->executing[i]);
        drop(plan);
    }
    for (int i = 0; i < MOST && it->ending[i] != NULL; i++) {
        setenv("STANDIN_THROWS", it->ending[i], 1);
        drop(make_plan(graph));
        unsetenv("STANDIN_THROWS");
        drop(make_plan(graph));
    }
    for (int i = 0; i < MOST && it->lying[i] != NULL; i++) {
        check_lying(graph, it->lying[i]);
    }
    drop(make_plan(graph));
    drop(graph);
    setenv("STANDIN_THROWS", "hipblasLtDestroy", 1);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
