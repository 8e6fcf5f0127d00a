/* SPDX-License-Identifier: MIT */

/* HIPDNN_BATCH_INVARIANT=1 and HIPDNN_FLUSH_SUBNORMALS=1: plans of engines with the knobs have both, a program's own setting
 * counts, and the reference, whose results never depend on the batch, needs none. host/batch_promise.c has other engines. */
#include "../json_text.h"

#include <float.h>

/* Rows begin at multiples of 16 bytes. */
enum { ROWS = 33, LENGTH = 31, STRIDE = 32 };

static hipdnnHandle_t handle;
static _Alignas(64) float x[ROWS * STRIDE];

/* Tensor 2 has the sums of the rows of tensor 1. */
static const char SUMS[] =
    "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\","
    " \"nodes\": [{\"type\": \"ReductionAttributes\", \"mode\": \"add\", \"in_tensor_uid\": 1, \"out_tensor_uid\": 2}],"
    " \"tensors\": [{\"uid\": 1, \"dims\": [%d, %d], \"strides\": [%d, 1]},"
    "  {\"uid\": 2, \"dims\": [%d, 1], \"strides\": [1, 1]}]}";

static hipdnnBackendDescriptor_t sums_of(int rows)
{
    char text[1024];
    snprintf(text, sizeof text, SUMS, rows, LENGTH, STRIDE, rows);
    hipdnnBackendDescriptor_t graph = graph_of_json(text);
    finalize_with(graph, handle);
    return graph;
}

/* Computes the sums of rows from one on, and drops the plan. */
static void compute(hipdnnBackendDescriptor_t plan, float* rows, float* sums)
{
    const int64_t uids[] = {1, 2};
    void* const pointers[] = {rows, sums};
    execute_and_drop(handle, plan, 2, uids, pointers);
}

/* How many rows' sums have other bits beside others than alone; `value` of the knob below 0 leaves it to the environment. */
static int count_different(int64_t value)
{
    hipdnnBackendDescriptor_t all = sums_of(ROWS);
    hipdnnBackendDescriptor_t one = sums_of(1);
    _Alignas(64) float beside[ROWS];
    _Alignas(64) float alone = 0.0f;
    int count = 0;
    compute(value < 0 ? make_plan(all) : plan_with_knob(all, "batch_invariant", value), x, beside);
    for (int row = 0; row < ROWS; row++) {
        compute(value < 0 ? make_plan(one) : plan_with_knob(one, "batch_invariant", value), x + row * STRIDE, &alone);
        count += memcmp(&beside[row], &alone, sizeof alone) != 0;
    }
    drop(all);
    drop(one);
    return count;
}

static void check_sums(void)
{
    for (int i = 0; i < ROWS * STRIDE; i++) {
        x[i] = (float)(i * 7919 % 1009) / 997.0f - 0.4f;
    }
    CHECK_EQ(count_different(-1), 0);
    /* A program may say otherwise; then the number of rows decides on the order of sums. */
    CHECK(count_different(0) > 0);
}

static void check_subnormals(void)
{
    hipdnnBackendDescriptor_t one = sums_of(1);
    _Alignas(64) float sum = -1.0f;
    for (int i = 0; i < LENGTH; i++) {
        x[i] = FLT_MIN / 64.0f;
    }
    compute(make_plan(one), x, &sum);
    CHECK(sum == 0.0f);
    compute(plan_with_knob(one, "flush_subnormals", 0), x, &sum);
    CHECK(sum > 0.0f);
    drop(one);
}

/* The first engine has the knob. The reference lacks it, and is there to compare with. */
static void check_engines(void)
{
    hipdnnBackendDescriptor_t graph = sums_of(2);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    CHECK_EQ(count_results(heuristic), 2);
    drop(heuristic);
    int64_t id = 0;
    REQUIRE_OK(hipdnnGetEngineIdByName_ext(handle, "CPU_REFERENCE_ENGINE", &id));
    hipdnnBackendDescriptor_t engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    put_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    CHECK_OK(hipdnnBackendFinalize(engine));
    drop(engine);
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
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
