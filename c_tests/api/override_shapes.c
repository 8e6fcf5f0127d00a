/* SPDX-License-Identifier: MIT */

/* The CPU engines with other shapes than those planned: larger and smaller batches and images, another layout, again and
 * again; shapes that make no sense. */
#include "../saved.h"

enum { MOST = 12, MOST_BATCH = 3 };

typedef struct {
    int batch;
    int side;
    bool channels_last;
} shape;

static hipdnnHandle_t handle;
static _Alignas(64) float x[MOST_BATCH * CHANNELS * MOST * MOST];
static _Alignas(64) float w[W_COUNT];
static _Alignas(64) float y[MOST_BATCH * CHANNELS * MOST * MOST];

static void dims_of(shape s, int64_t dims[4], int64_t strides[4])
{
    const int64_t sizes[] = {s.batch, CHANNELS, s.side, s.side};
    const int64_t area = (int64_t)s.side * s.side;
    const int64_t first[] = {CHANNELS * area, area, s.side, 1};
    const int64_t last[] = {CHANNELS * area, 1, (int64_t)s.side * CHANNELS, CHANNELS};
    memcpy(dims, sizes, sizeof sizes);
    memcpy(strides, s.channels_last ? last : first, sizeof first);
}

/* Other shapes for x and y, whatever they are. */
static hipdnnBackendDescriptor_t pack_of(shape x_shape, shape y_shape, void* workspace)
{
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void* const pointers[] = {x, w, y};
    const int64_t tensors[] = {UID_Y, UID_X};
    const int64_t lengths[] = {4, 4};
    int64_t dims[8];
    int64_t strides[8];
    dims_of(y_shape, dims, strides);
    dims_of(x_shape, dims + 4, strides + 4);
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 2, tensors);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 2, lengths);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 8, dims);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 8, strides);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    return pack;
}

static int64_t place(shape s, int n, int c, int row, int column)
{
    int64_t dims[4];
    int64_t strides[4];
    dims_of(s, dims, strides);
    return n * strides[0] + c * strides[1] + row * strides[2] + column * strides[3];
}

/* Whether y equals the result of plain loops, and nothing beyond it was written. */
static bool is_right(shape s)
{
    for (int n = 0; n < s.batch; n++) {
        for (int k = 0; k < CHANNELS; k++) {
            for (int row = 0; row < s.side; row++) {
                for (int column = 0; column < s.side; column++) {
                    float sum = 0.0f;
                    for (int c = 0; c < CHANNELS; c++) {
                        for (int r = 0; r < 3; r++) {
                            for (int q = 0; q < 3; q++) {
                                const int i = row + r - 1;
                                const int j = column + q - 1;
                                if (i >= 0 && i < s.side && j >= 0 && j < s.side) {
                                    sum += x[place(s, n, c, i, j)] * w[((k * CHANNELS + c) * 3 + r) * 3 + q];
                                }
                            }
                        }
                    }
                    if (y[place(s, n, k, row, column)] != sum) {
                        return false;
                    }
                }
            }
        }
    }
    for (int i = s.batch * CHANNELS * s.side * s.side; i < (int)COUNT(y); i++) {
        if (y[i] != -99.0f) {
            return false;
        }
    }
    return true;
}

static void fill(void)
{
    for (int i = 0; i < (int)COUNT(x); i++) {
        x[i] = (float)(i * 7 % 13 - 6) / 4.0f;
        y[i] = -99.0f;
    }
    for (int i = 0; i < W_COUNT; i++) {
        w[i] = (float)(i * 5 % 11 - 5) / 8.0f;
    }
}

static const shape SHAPES[] = {
    {1, 4, false}, {3, 4, false}, {1, 12, false}, {2, 7, true},  {3, 11, false}, {1, 1, false}, {3, 12, true},
    {1, 4, true},  {2, 5, false}, {2, 6, false},  {2, 8, false}, {1, 4, false},  {3, 12, true}, {1, 9, false},
};

static void test_plan(hipdnnBackendDescriptor_t plan)
{
    /* No more workspace than the plan asks for, with a guard behind it. */
    const size_t size = (size_t)plan_workspace(plan);
    unsigned char* const workspace = malloc(size + 64);
    REQUIRE(workspace != NULL);
    memset(workspace, 0x5a, size + 64);
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < COUNT(SHAPES); i++) {
            check_about("batch %d, side %d%s", SHAPES[i].batch, SHAPES[i].side,
                        SHAPES[i].channels_last ? ", channels last" : "");
            fill();
            hipdnnBackendDescriptor_t pack = pack_of(SHAPES[i], SHAPES[i], workspace);
            CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
            CHECK(is_right(SHAPES[i]));
            drop(pack);
        }
    }
    check_about("shapes that do not fit");
    static const shape wrong[][2] = {
        {{1, 4, false}, {1, 5, false}}, {{2, 4, false}, {1, 4, false}}, {{1, 0, false}, {1, 4, false}}};
    for (int64_t i = 0; i < COUNT(wrong); i++) {
        fill();
        hipdnnBackendDescriptor_t pack = pack_of(wrong[i][0], wrong[i][1], workspace);
        CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "Failed to execute op graph with overrides",
                    hipdnnBackendExecute(handle, plan, pack));
        CHECK(y[0] == -99.0f);
        drop(pack);
    }
    /* A pack without overrides has the shapes of the graph. */
    check_about("shapes of the graph");
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    free(data.workspace);
    for (size_t i = size; i < size + 64; i++) {
        CHECK(workspace[i] == 0x5a);
    }
    free(workspace);
    check_about("%s", "");
}

/* The plan of the engine at an index among the applicable ones. Returns whether there is one. */
static bool plan_of(hipdnnBackendDescriptor_t graph, int place_of_engine, hipdnnBackendDescriptor_t* plan)
{
    hipdnnBackendDescriptor_t configs[2];
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    const bool there = place_of_engine < count_results(heuristic);
    if (there) {
        int64_t count = 0;
        configs[0] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        configs[1] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                             2, &count, configs));
        REQUIRE_OK(hipdnnBackendFinalize(configs[place_of_engine]));
        *plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        put_descriptor(*plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[place_of_engine]);
        REQUIRE_OK(hipdnnBackendFinalize(*plan));
        drop(configs[0]);
        drop(configs[1]);
    }
    drop(heuristic);
    return there;
}

/* relu(convolution(x, w)) with another batch: the virtual tensor between the two gets its shape by a null pointer. */
static void test_virtual_tensor(void)
{
    enum { BATCH = 3 };
    const bool yes = true;
    hipdnnBackendDescriptor_t between = make_tensor(UID_BETWEEN, 1, CHANNELS, SIDE, SIDE, true);
    hipdnnBackendDescriptor_t operations[] = {open_convolution(), open_relu()};
    put_descriptor(operations[0], HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, between);
    put_descriptor(operations[1], HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, between);
    drop(between);
    REQUIRE_OK(hipdnnBackendFinalize(operations[0]));
    REQUIRE_OK(hipdnnBackendFinalize(operations[1]));
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2, operations);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    const shape s = {BATCH, SIDE, false};
    const int64_t uids[] = {UID_X, UID_W, UID_BETWEEN, UID_Y};
    const int64_t tensors[] = {UID_X, UID_BETWEEN, UID_Y};
    const int64_t lengths[] = {4, 4, 4};
    void* const pointers[] = {x, w, NULL, y};
    int64_t dims[12];
    int64_t strides[12];
    for (int i = 0; i < 3; i++) {
        dims_of(s, dims + 4 * i, strides + 4 * i);
    }
    void* workspace = malloc((size_t)plan_workspace(plan) + 1);
    REQUIRE(workspace != NULL);
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 4, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 4, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 3, tensors);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 3, lengths);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 12, dims);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 12, strides);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    check_about("virtual tensor");
    fill();
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    static float fused[COUNT(y)];
    memcpy(fused, y, sizeof y);
    /* The same by the convolution alone */
    hipdnnBackendDescriptor_t plain_graph = make_graph(handle);
    hipdnnBackendDescriptor_t plain = make_plan(plain_graph);
    buffers one;
    fill_buffers(&one, plain);
    hipdnnBackendDescriptor_t one_pack = make_pack(&one);
    memcpy(one.w, w, sizeof one.w);
    for (int n = 0; n < BATCH; n++) {
        memcpy(one.x, x + n * X_COUNT, sizeof one.x);
        CHECK_OK(hipdnnBackendExecute(handle, plain, one_pack));
        for (int i = 0; i < X_COUNT; i++) {
            CHECK(fused[n * X_COUNT + i] == (one.y[i] > 0.0f ? one.y[i] : 0.0f));
        }
    }
    check_about("%s", "");
    drop(one_pack);
    drop(plain);
    drop(plain_graph);
    free(one.workspace);
    drop(pack);
    drop(plan);
    drop(graph);
    drop(operations[0]);
    drop(operations[1]);
    free(workspace);
}

int main(void)
{
    const bool yes = true;
    handle = make_handle();
    test_virtual_tensor();
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    int engines = 0;
    hipdnnBackendDescriptor_t plan = NULL;
    while (engines < 2 && plan_of(graph, engines, &plan)) {
        engines++;
        test_plan(plan);
        /* And saved */
        const blob saved = save_plan(plan);
        hipdnnBackendDescriptor_t loaded = load_plan(handle, saved);
        test_plan(loaded);
        drop(loaded);
        free(saved.bytes);
        drop(plan);
    }
    CHECK_EQ(engines, 2);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
