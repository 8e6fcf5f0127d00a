/* SPDX-License-Identifier: MIT */

/* Results of plans of equal graphs, which share the CPU engine's context: with many threads, and if a knob ties a plan to the memory of its
   first execution. */
#include "../fixture.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 50 };

static hipdnnHandle_t shared;

static hipdnnBackendDescriptor_t make_single(hipdnnHandle_t handle, const char* name)
{
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, (int64_t)strlen(name), name);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    return graph;
}

/* Executes a plan with its own weights. */
static void expect_convolved(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan, float factor)
{
    buffers data;
    fill_buffers(&data, plan);
    for (int i = 0; i < W_COUNT; i++) {
        data.w[i] *= factor;
    }
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    free(data.workspace);
}

static void test_alike(void)
{
    check_about("alike");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_single(handle, "one");
    hipdnnBackendDescriptor_t one = make_plan(graph);
    hipdnnBackendDescriptor_t again = make_single(handle, "another");
    hipdnnBackendDescriptor_t other = make_plan(again);
    size_t sizes[2] = {0, 1};
    CHECK_EQ(plan_workspace(one), plan_workspace(other));
    CHECK_EQ(best_engine_id(graph), best_engine_id(again));
    CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(one, 0, &sizes[0], NULL));
    CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(other, 0, &sizes[1], NULL));
    CHECK_EQ((int64_t)sizes[0], (int64_t)sizes[1]);
    /* A plan reports its own graph. */
    hipdnnBackendDescriptor_t config = NULL;
    hipdnnBackendDescriptor_t engine = NULL;
    hipdnnBackendDescriptor_t told = NULL;
    char name[32] = "";
    REQUIRE_OK(hipdnnBackendGetAttribute(other, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                         HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &config));
    REQUIRE_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                                         &engine));
    REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         NULL, &told));
    CHECK_OK(hipdnnBackendGetAttribute(told, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, sizeof name, NULL,
                                       name));
    CHECK_STR(name, "another");
    drop(told);
    drop(engine);
    drop(config);
    /* Neither ends the other. */
    drop(one);
    drop(graph);
    drop(again);
    CHECK_OK(hipdnnDestroy(handle));
    handle = make_handle();
    expect_convolved(handle, other, 1.0f);
    drop(other);
    CHECK_OK(hipdnnDestroy(handle));
}

static hipdnnBackendDescriptor_t plan_with_constant_weights(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t graph = make_single(handle, "");
    hipdnnBackendDescriptor_t plan = plan_with_knob(graph, "constant_weights", 1);
    drop(graph);
    return plan;
}

/* Weights that a plan has packed are not another plan's. */
static void test_constant_weights(void)
{
    check_about("constant weights");
    hipdnnHandle_t handle = make_handle();
    for (int i = 0; i < 3; i++) {
        hipdnnBackendDescriptor_t plan = plan_with_constant_weights(handle);
        expect_convolved(handle, plan, (float)(i + 1));
        drop(plan);
    }
    CHECK_OK(hipdnnDestroy(handle));
}

static void* plan_over_and_over(void* number)
{
    const int thread = *(const int*)number;
    hipdnnHandle_t handle = thread % 2 == 0 ? shared : make_handle();
    for (int round = 0; round < ROUNDS; round++) {
        hipdnnBackendDescriptor_t graph = make_single(handle, round % 2 == 0 ? "even" : "odd round");
        hipdnnBackendDescriptor_t plan = make_plan(graph);
        drop(graph);
        expect_convolved(handle, plan, (float)(thread + 1));
        drop(plan);
    }
    if (handle != shared) {
        CHECK_OK(hipdnnDestroy(handle));
    }
    return NULL;
}

/* Half of the threads with one handle, the others with one each. */
static void test_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    check_about("threads");
    shared = make_handle();
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, plan_over_and_over, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_OK(hipdnnDestroy(shared));
}

int main(void)
{
    test_alike();
    test_constant_weights();
    test_threads();
    return check_result();
}
