/* SPDX-License-Identifier: MIT */

/*
 * Times on a device of CUDA, in the trace and of PROFILING_CONTROL, and ranges for a profiler that NVTX 3 finds.
 *
 * The driver and the profiler are stand-ins, standin_cuda.c and standin_nvtx.c: between any two events there is 1 ms. CPU_ENGINE computes,
 * on copies of memory that the stand-in has.
 */
#include "../fixture.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXECUTIONS = 20 };

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuMemAlloc_v2(uint64_t* pointer, size_t bytes);

/* The two points of a measurement are events once the device is in use, and the clock of the processor before. */
static float measure(hipdnnHandle_t handle)
{
    const bool yes = true;
    float milliseconds = -1;
    hipdnnBackendDescriptor_t control = make(HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
    put(control, HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &handle);
    put(control, HIPDNN_ATTR_PROFILING_START_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    put(control, HIPDNN_ATTR_PROFILING_STOP_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    put(control, HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    REQUIRE_OK(hipdnnBackendFinalize(control));
    CHECK_OK(hipdnnBackendGetAttribute(control, HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, 1, NULL,
                                       &milliseconds));
    drop(control);
    return milliseconds;
}

static void child(void)
{
    void* context = NULL;
    uint64_t x = 0;
    REQUIRE(cuInit(0) == 0);
    hipdnnHandle_t handle = make_handle();
    CHECK(measure(handle) != 1.0f);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    CHECK(measure(handle) == 1.0f);
    REQUIRE(cuCtxSetCurrent(context) == 0 && cuMemAlloc_v2(&x, sizeof(float) * X_COUNT) == 0);

    void* const profiler = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);
    REQUIRE(profiler != NULL);
    const int* const depth = dlsym(profiler, "standin_depth");
    const int* const pushed = dlsym(profiler, "standin_pushed");
    const char* const last = dlsym(profiler, "standin_last");
    REQUIRE(depth != NULL && pushed != NULL && last != NULL);
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, 4, "dev");
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    buffers data;
    fill_buffers(&data, plan);
    void* const pointers[] = {(void*)(uintptr_t)x, data.w, data.y};
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &data.workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    const int before = *pushed;
    CHECK(before > 0);
    for (int i = 0; i < EXECUTIONS; i++) {
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
        CHECK_STR(last, "dev (CPU_ENGINE)");
        CHECK(*depth == 0);
    }
    CHECK_EQ(*pushed - before, 2 * EXECUTIONS);
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
    CHECK_OK(hipdnnDestroy(handle));
    exit(check_result());
}

int main(void)
{
    static const char path[] = "cuda_trace.json";
    static char text[1 << 20];
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        setenv("HIPDNN_TRACE_FILE", path, 1);
        child();
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    read_text(path, text, sizeof text);
    int count = 0;
    for (const char* at = text;
         (at = strstr(at, "{\"ph\":\"X\",\"cat\":\"device\",\"name\":\"dev (CPU_ENGINE)\",")) != NULL; at++) {
        count++;
    }
    CHECK_EQ(count, EXECUTIONS);
    remove(path);
    return check_result();
}
