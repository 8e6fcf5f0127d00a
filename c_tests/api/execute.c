/* SPDX-License-Identifier: MIT */

/* hipdnnBackendExecute: the correct result, and every refusal. */
#include "../fixture.h"

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;
static hipdnnBackendDescriptor_t plan;
static buffers data;

static void test_result(void)
{
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    /* Again with the same pack and other numbers */
    data.x[3] += 0.5f;
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
}

static void test_bad_arguments(void)
{
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    hipdnnBackendDescriptor_t unfinished_plan = open_plan(graph);
    hipdnnBackendDescriptor_t unfinished_pack = open_pack(&data);
    memset(data.y, 0, sizeof data.y);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle", hipdnnBackendExecute(NULL, plan, pack));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "null", hipdnnBackendExecute(handle, NULL, pack));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "null", hipdnnBackendExecute(handle, plan, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "plan", hipdnnBackendExecute(handle, pack, pack));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "pack", hipdnnBackendExecute(handle, plan, plan));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "plan", hipdnnBackendExecute(handle, graph, graph));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "plan", hipdnnBackendExecute(handle, unfinished_plan, pack));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "pack", hipdnnBackendExecute(handle, plan, unfinished_pack));
    for (int i = 0; i < X_COUNT; i++) {
        CHECK(data.y[i] == 0.0f);
    }
    drop(pack);
    drop(unfinished_plan);
    drop(unfinished_pack);
}

/* A tensor's alignment, 16 bytes unless it was set, is checked before the engine sees the pointer. */
static void test_alignment(void)
{
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    char* const x = (char*)data.x;
    void* pointers[] = {x + 4, data.w, data.y};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &data.workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "align", hipdnnBackendExecute(handle, plan, pack));
    drop(pack);
}

/* A scalar that comes from the host at execution has no alignment to keep: it is mostly a variable on a stack. */
static void test_scalar_of_the_host(void)
{
    enum { FACTOR = 50, COUNT_OF_X = CHANNELS * SIDE * SIDE };
    const int64_t one[] = {1};
    const bool yes = true;
    const hipdnnPointwiseMode_t mode = HIPDNN_POINTWISE_MUL;
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, 1, CHANNELS, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t factor = open_tensor(FACTOR, 1, one, false);
    put(factor, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    REQUIRE_OK(hipdnnBackendFinalize(factor));
    hipdnnBackendDescriptor_t y = make_tensor(UID_Y, 1, CHANNELS, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t product = make(HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    put_descriptor(product, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, x);
    put_descriptor(product, HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT, factor);
    put_descriptor(product, HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, y);
    put(product, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &mode);
    put_float_type(product, HIPDNN_ATTR_POINTWISE_MATH_PREC);
    REQUIRE_OK(hipdnnBackendFinalize(product));
    hipdnnBackendDescriptor_t scaled = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put_descriptor(scaled, HIPDNN_ATTR_OPERATIONGRAPH_OPS, product);
    put(scaled, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(scaled));
    hipdnnBackendDescriptor_t scaled_plan = make_plan(scaled);

    _Alignas(16) char host[sizeof(float) + 1];
    const float two = 2;
    memcpy(host + 1, &two, sizeof two);
    const int64_t uids[] = {UID_X, FACTOR, UID_Y};
    void* pointers[] = {data.x, host + 1, data.y};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &data.workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(handle, scaled_plan, pack));
    for (int i = 0; i < COUNT_OF_X; i++) {
        CHECK(data.y[i] == 2 * data.x[i]);
    }
    drop(pack);
    drop(scaled_plan);
    drop(scaled);
    drop(product);
    drop(y);
    drop(factor);
    drop(x);
}

/* Pointers that are missing, null or for tensors that the graph does not have must not bring the process down. */
static void test_incomplete_packs(void)
{
    static const struct {
        const char* what;
        int64_t uids[4];
        int count;
        int null_at;
        bool good;
    } rows[] = {
        {"another order", {UID_Y, UID_X, UID_W}, 3, -1, true},
        {"one too many", {UID_X, UID_W, UID_Y, 999}, 4, -1, true},
        {"x is missing", {UID_W, UID_Y}, 2, -1, false},
        {"y is missing", {UID_X, UID_W}, 2, -1, false},
        {"x is null", {UID_X, UID_W, UID_Y}, 3, 0, false},
        {"y is null", {UID_X, UID_W, UID_Y}, 3, 2, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void* pointers[4];
        check_about("%s", rows[i].what);
        for (int k = 0; k < rows[i].count; k++) {
            const int64_t uid = rows[i].uids[k];
            pointers[k] = uid == UID_X ? data.x : uid == UID_W ? data.w : data.y;
            if (k == rows[i].null_at) {
                pointers[k] = NULL;
            }
        }
        hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, rows[i].count, pointers);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, rows[i].count, rows[i].uids);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &data.workspace);
        REQUIRE_OK(hipdnnBackendFinalize(pack));
        if (rows[i].good) {
            memset(data.y, 0, sizeof data.y);
            CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
            CHECK(is_convolved(&data));
        } else {
            CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "execute op graph", hipdnnBackendExecute(handle, plan, pack));
        }
        drop(pack);
    }
    check_about("%s", "");
}

/* A plan outlives its sources, and another handle may run it. */
static void test_survivors(void)
{
    hipdnnHandle_t other = make_handle();
    hipdnnHandle_t short_lived = make_handle();
    hipdnnBackendDescriptor_t own_graph = make_graph(short_lived);
    hipdnnBackendDescriptor_t own_plan = make_plan(own_graph);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    drop(own_graph);
    CHECK_OK(hipdnnBackendExecute(short_lived, own_plan, pack));
    CHECK_OK(hipdnnBackendExecute(other, own_plan, pack));
    CHECK_OK(hipdnnDestroy(short_lived));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t", hipdnnBackendExecute(short_lived, own_plan, pack));
    memset(data.y, 0, sizeof data.y);
    CHECK_OK(hipdnnBackendExecute(other, own_plan, pack));
    CHECK(is_convolved(&data));
    CHECK(plan_workspace(own_plan) >= 0);
    drop(own_plan);
    drop(pack);
    CHECK_OK(hipdnnDestroy(other));
}

int main(void)
{
    handle = make_handle();
    graph = make_graph(handle);
    plan = make_plan(graph);
    fill_buffers(&data, plan);
    test_result();
    test_bad_arguments();
    test_alignment();
    test_scalar_of_the_host();
    test_incomplete_packs();
    test_survivors();
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    free(data.workspace);
    return check_result();
}
