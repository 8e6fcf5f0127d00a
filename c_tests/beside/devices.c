/* SPDX-License-Identifier: MIT */

/*
 * Two devices: plugins' answers and plans for one are never used for the other, neither by the same handle nor by others nor from
 * disk, and are reused by handles that return to the first.
 *
 * HIP is a stand-in, standin_hip.c, and so is the plugin.
 */
#include "../host/host.h"

#include <dlfcn.h>
#include <pthread.h>

enum { DEVICES = 2 };

static int (*set_device)(int);

static hipdnnBackendDescriptor_t plan_on(hipdnnHandle_t handle, int device)
{
    REQUIRE(set_device(device) == 0);
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    drop(graph);
    return plan;
}

static void expect_recorded(int times, const char* part) { CHECK_EQ(count_in(recorded(), part), times); }

/* Executes on a device, which has to use this context. */
static void expect_context(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan, int device, int serial)
{
    buffers data;
    char executed[64];
    REQUIRE(set_device(device) == 0);
    start_recording();
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    snprintf(executed, sizeof executed, " context=%d ", serial);
    expect_recorded(1, "ExecuteOpGraph handle=");
    expect_recorded(1, executed);
    drop(pack);
    drop(plan);
    free(data.workspace);
}

/* Two handles of each device; the last one, made on the first, is used on both. */
enum { HANDLES = 5, PLANS = 6 };
static const int MADE_ON[HANDLES] = {0, 1, 0, 1, 0};
static const int PLANNED[PLANS][2] = {{0, 0}, {1, 1}, {2, 0}, {3, 1}, {4, 0}, {4, 1}};

static void test_handles(const char* plugin, bool has_folder)
{
    check_about("%s", plugin);
    use_plugin(plugin);
    start_recording();
    hipdnnHandle_t handles[HANDLES];
    hipdnnBackendDescriptor_t plans[PLANS];
    for (int i = 0; i < HANDLES; i++) {
        REQUIRE(set_device(MADE_ON[i]) == 0);
        handles[i] = make_handle();
    }
    for (int i = 0; i < PLANS; i++) {
        plans[i] = plan_on(handles[PLANNED[i][0]], PLANNED[i][1]);
        /* A handle used on another device shares nothing from then on: its plugins may have kept the first device. */
        const bool has_moved = i == PLANS - 1;
        const int asked = i == 0 ? 1 : has_moved ? 3 : DEVICES;
        expect_recorded(asked, "GetApplicableEngineIds handle=");
        expect_recorded(asked, "\nCreateExecutionContext");
        expect_recorded(has_moved && has_folder ? 1 : 0, "\nCreateExecutionContextFromSerialized handle=");
    }
    for (int i = 0; i < PLANS; i++) {
        expect_context(handles[PLANNED[i][0]], plans[i], PLANNED[i][1], i == PLANS - 1 ? 3 : PLANNED[i][1] + 1);
    }
    start_recording();
    for (int i = 0; i < HANDLES; i++) {
        CHECK_OK(hipdnnDestroy(handles[i]));
    }
    expect_recorded(3, "DestroyExecutionContext");
    if (has_folder) {
        /* Nothing is kept in memory any more: each device loads its own plan */
        start_recording();
        hipdnnHandle_t handle = make_handle();
        for (int device = DEVICES - 1; device >= 0; device--) {
            drop(plan_on(handle, device));
            expect_recorded(DEVICES - device, "\nCreateExecutionContextFromSerialized handle=");
        }
        expect_recorded(0, "\nCreateExecutionContext handle=");
        CHECK_OK(hipdnnDestroy(handle));
    }
}

static void* plan_on_the_second(void* handle)
{
    drop(plan_on(handle, 1));
    return NULL;
}

/* A thread starts on the first device; the current device is per thread. */
static void test_threads(void)
{
    pthread_t thread;
    check_about("threads");
    use_plugin("shares");
    start_recording();
    REQUIRE(set_device(0) == 0);
    hipdnnHandle_t handle = make_handle();
    drop(plan_on(handle, 0));
    REQUIRE(pthread_create(&thread, NULL, plan_on_the_second, handle) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    expect_recorded(2, "\nCreateExecutionContext handle=");
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    drop(make_plan(graph));
    drop(graph);
    expect_recorded(2, "\nCreateExecutionContext handle=");
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    setenv("STANDIN_DEVICES", "2", 1);
    void* const hip = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_GLOBAL);
    REQUIRE(hip != NULL);
    void* const found = dlsym(hip, "hipSetDevice");
    REQUIRE(found != NULL);
    memcpy(&set_device, &found, sizeof found);
    test_handles("shares", false);
    test_threads();
    setenv("HIPDNN_PLAN_CACHE_DIR", "plans", 1);
    test_handles("shares_saves", true);
    return check_result();
}
