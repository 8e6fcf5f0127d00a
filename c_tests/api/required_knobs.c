/* SPDX-License-Identifier: MIT */

/* HIPDNN_BATCH_INVARIANT=1 and HIPDNN_FLUSH_SUBNORMALS=1: engines without the first one's knob are left out, plans of others
 * have both, and a program's own setting counts. */
#include "../json_text.h"

#include <float.h>

enum { ROWS = 33, LENGTH = 31 };

static hipdnnHandle_t handle;
static float x[ROWS * LENGTH];

/* Tensor 2 has the sums of the rows of tensor 1. */
static const char SUMS[] =
    "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\","
    " \"nodes\": [{\"type\": \"ReductionAttributes\", \"mode\": \"add\", \"in_tensor_uid\": 1, \"out_tensor_uid\": 2}],"
    " \"tensors\": [{\"uid\": 1, \"dims\": [%d, %d], \"strides\": [%d, 1]},"
    "  {\"uid\": 2, \"dims\": [%d, 1], \"strides\": [1, 1]}]}";

static hipdnnBackendDescriptor_t sums_of(int rows)
{
    char text[1024];
    snprintf(text, sizeof text, SUMS, rows, LENGTH, LENGTH, rows);
    hipdnnBackendDescriptor_t graph = graph_of_json(text);
    finalize_with(graph, handle);
    return graph;
}

/* Computes the sums of the first rows, and drops the plan. */
static void compute(hipdnnBackendDescriptor_t plan, float* sums)
{
    const int64_t uids[] = {1, 2};
    void* const pointers[] = {x, sums};
    void* const workspace = malloc((size_t)plan_workspace(plan) + 1);
    REQUIRE(workspace != NULL);
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 2, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 2, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    drop(pack);
    drop(plan);
    free(workspace);
}

/* Whether a row's sum has the same bits beside others and alone. */
static void check_sums(void)
{
    hipdnnBackendDescriptor_t all = sums_of(ROWS);
    hipdnnBackendDescriptor_t one = sums_of(1);
    float beside[ROWS];
    float alone = 0.0f;
    for (int i = 0; i < ROWS * LENGTH; i++) {
        x[i] = 1.0f / (float)(i % 97 + 3);
    }
    compute(make_plan(all), beside);
    compute(make_plan(one), &alone);
    CHECK(memcmp(beside, &alone, sizeof alone) == 0);
    /* A program may say otherwise; then the number of rows decides on the order of sums. */
    compute(plan_with_knob(all, "batch_invariant", 0), beside);
    compute(plan_with_knob(one, "batch_invariant", 0), &alone);
    CHECK(memcmp(beside, &alone, sizeof alone) != 0);
    drop(all);
    drop(one);
}

static void check_subnormals(void)
{
    hipdnnBackendDescriptor_t one = sums_of(1);
    float sum = -1.0f;
    for (int i = 0; i < LENGTH; i++) {
        x[i] = FLT_MIN / 64.0f;
    }
    compute(make_plan(one), &sum);
    CHECK(sum == 0.0f);
    compute(plan_with_knob(one, "flush_subnormals", 0), &sum);
    CHECK(sum > 0.0f);
    drop(one);
}

static void check_engines(void)
{
    hipdnnBackendDescriptor_t graph = sums_of(2);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    CHECK_EQ(count_results(heuristic), 1);
    drop(heuristic);
    int64_t id = 0;
    REQUIRE_OK(hipdnnGetEngineIdByName_ext(handle, "CPU_REFERENCE_ENGINE", &id));
    hipdnnBackendDescriptor_t engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    put_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "Engine id is not in a valid range", hipdnnBackendFinalize(engine));
    drop(engine);
    drop(graph);
}

/* Only the reference is left, which lacks the knob: the reason is told. */
static void check_reason(void)
{
    CHECK_OK(hipdnnDestroy(handle));
    setenv("HIPDNN_DISABLE_ENGINES", "CPU_ENGINE", 1);
    handle = make_handle();
    hipdnnBackendDescriptor_t graph = sums_of(2);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "it has no knob \"batch_invariant\", which HIPDNN_BATCH_INVARIANT=1 asks for",
                hipdnnBackendFinalize(heuristic));
    drop(heuristic);
    drop(graph);
}

int main(void)
{
    setenv("HIPDNN_BATCH_INVARIANT", "1", 1);
    setenv("HIPDNN_FLUSH_SUBNORMALS", "1", 1);
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    handle = make_handle();
    check_sums();
    check_subnormals();
    check_engines();
    check_reason();
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
