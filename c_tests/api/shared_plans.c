/* SPDX-License-Identifier: MIT */

/* Results of CPU_ENGINE plans made by other handles, for graphs with other uids: with many threads, saved plans, and knobs. */
#include "../fixture.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 50 };

/* A graph of one convolution whose tensors are numbered from a uid: w, x and y. */
static hipdnnBackendDescriptor_t make_numbered(hipdnnHandle_t handle, int64_t first)
{
    hipdnnBackendDescriptor_t x = make_tensor(first + 1, 1, CHANNELS, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t w = make_tensor(first, CHANNELS, CHANNELS, 3, 3, false);
    hipdnnBackendDescriptor_t y = make_tensor(first + 2, 1, CHANNELS, SIDE, SIDE, false);
    return graph_of_one(handle, convolution_of(x, w, y, 1));
}

static hipdnnBackendDescriptor_t plan_numbered(hipdnnHandle_t handle, int64_t first)
{
    hipdnnBackendDescriptor_t graph = make_numbered(handle, first);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    drop(graph);
    return plan;
}

/* Executes with its own weights. */
static void expect_convolved(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan, int64_t first, float factor)
{
    buffers data;
    fill_buffers(&data, plan);
    for (int i = 0; i < W_COUNT; i++) {
        data.w[i] *= factor;
    }
    const int64_t uids[] = {first + 1, first, first + 2};
    hipdnnBackendDescriptor_t pack = open_pack(&data);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    free(data.workspace);
}

/* The second handle's plan works even if the first handle is destroyed. Uids may mean other tensors in the other graph. */
static void test_uids(void)
{
    check_about("uids");
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    hipdnnBackendDescriptor_t one = plan_numbered(first, 1);
    hipdnnBackendDescriptor_t other = plan_numbered(second, 2);
    expect_convolved(first, one, 1, 1.0f);
    expect_convolved(second, other, 2, 2.0f);
    expect_convolved(first, other, 2, 1.0f);
    drop(one);
    CHECK_OK(hipdnnDestroy(first));
    expect_convolved(second, other, 2, 3.0f);
    CHECK_OK(hipdnnDestroy(second));
    first = make_handle();
    expect_convolved(first, other, 2, 1.0f);
    drop(other);
    CHECK_OK(hipdnnDestroy(first));
}

/* A saved plan has the uids of its own graph, and so has its description. */
static void test_saved(void)
{
    check_about("saved");
    static uint8_t bytes[1 << 16];
    size_t size = 0;
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    hipdnnBackendDescriptor_t one = plan_numbered(first, 1);
    hipdnnBackendDescriptor_t other = plan_numbered(second, 50);
    hipdnnBackendDescriptor_t loaded = NULL;
    REQUIRE_OK(hipdnnBackendGetSerializedExecutionPlan_ext(other, 0, &size, NULL));
    REQUIRE(size <= sizeof bytes);
    REQUIRE_OK(hipdnnBackendGetSerializedExecutionPlan_ext(other, size, &size, bytes));
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeExecutionPlan_ext(second, &loaded, bytes, size));
    expect_convolved(second, loaded, 50, 1.0f);
    expect_convolved(second, other, 50, 1.0f);
    drop(loaded);
    drop(one);
    drop(other);
    CHECK_OK(hipdnnDestroy(first));
    CHECK_OK(hipdnnDestroy(second));
}

static hipdnnBackendDescriptor_t plan_with(hipdnnHandle_t handle, int64_t first, const char* knob)
{
    hipdnnBackendDescriptor_t graph = make_numbered(handle, first);
    hipdnnBackendDescriptor_t plan = plan_with_knob(graph, knob, 1);
    drop(graph);
    return plan;
}

/* Weights that a plan has packed are not another plan's, of whatever handle. */
static void test_knobs(void)
{
    static const char* const knobs[] = {"constant_weights", "threads", "deterministic"};
    hipdnnHandle_t handles[] = {make_handle(), make_handle()};
    for (int i = 0; i < 12; i++) {
        const char* const knob = knobs[i / 4];
        check_about("%s, %d", knob, i);
        hipdnnBackendDescriptor_t plan = plan_with(handles[i % 2], 1 + i % 3, knob);
        expect_convolved(handles[i % 2], plan, 1 + i % 3, (float)(i + 1));
        drop(plan);
    }
    CHECK_OK(hipdnnDestroy(handles[0]));
    CHECK_OK(hipdnnDestroy(handles[1]));
}

static void* plan_over_and_over(void* number)
{
    const int thread = *(const int*)number;
    hipdnnHandle_t handle = make_handle();
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t first = (round + thread) % 5 - 2;
        hipdnnBackendDescriptor_t plan = plan_numbered(handle, first);
        expect_convolved(handle, plan, first, (float)(thread + 1));
        drop(plan);
        if (round % 10 == thread) {
            CHECK_OK(hipdnnDestroy(handle));
            handle = make_handle();
        }
    }
    CHECK_OK(hipdnnDestroy(handle));
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    check_about("threads");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, plan_over_and_over, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void)
{
    test_uids();
    test_saved();
    test_knobs();
    test_threads();
    return check_result();
}
