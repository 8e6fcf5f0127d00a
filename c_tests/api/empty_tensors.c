/* SPDX-License-Identifier: MIT */

/* Tensors with a dimension of 0 in both CPU engines: by descriptors, JSON, saved plans and overrides. Empty tensors are not
 * touched, and sums without a term are 0. */
#include "../json_text.h"
#include "../saved.h"

enum { MOST_ENGINES = 2, ELEMENTS = 64 };

static hipdnnHandle_t handle;
static float memory[3][ELEMENTS];
static const float UNTOUCHED = -99.0f;

/* Tensor 3 is a product of 1 and 2. A tensor without elements has strides that make no sense. */
static const char PRODUCT[] =
    "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\","
    " \"nodes\": [{\"type\": \"MatmulAttributes\", \"inputs\": {\"a_tensor_uid\": 1, \"b_tensor_uid\": 2},"
    "  \"outputs\": {\"c_tensor_uid\": 3}}],"
    " \"tensors\": ["
    "  {\"uid\": 1, \"dims\": [1, %d, %d], \"strides\": [%d, %d, 1]},"
    "  {\"uid\": 2, \"dims\": [1, %d, %d], \"strides\": [%d, %d, 1]},"
    "  {\"uid\": 3, \"dims\": [1, %d, %d], \"strides\": [%d, %d, 1]}]}";

/* Tensor 2 is a reduction of the second dimension of tensor 1, which is 0. */
static const char REDUCTION[] =
    "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\","
    " \"nodes\": [{\"type\": \"ReductionAttributes\", \"mode\": \"%s\", \"in_tensor_uid\": 1, \"out_tensor_uid\": 2}],"
    " \"tensors\": [{\"uid\": 1, \"dims\": [3, 0], \"strides\": [1, 1]},"
    "  {\"uid\": 2, \"dims\": [3, 1], \"strides\": [1, 1]}]}";

static hipdnnBackendDescriptor_t product(int m, int k, int n)
{
    static const int ODD = -5;
    char text[2048];
    const int a = m * k;
    const int b = k * n;
    const int c = m * n;
    snprintf(text, sizeof text, PRODUCT, m, k, a > 0 ? a : ODD, a > 0 ? k : ODD, k, n, b > 0 ? b : ODD, b > 0 ? n : ODD,
             m, n, c > 0 ? c : ODD, c > 0 ? n : ODD);
    hipdnnBackendDescriptor_t graph = graph_of_json(text);
    finalize_with(graph, handle);
    return graph;
}

static hipdnnBackendDescriptor_t reduction(const char* mode)
{
    char text[1024];
    snprintf(text, sizeof text, REDUCTION, mode);
    hipdnnBackendDescriptor_t graph = graph_of_json(text);
    finalize_with(graph, handle);
    return graph;
}

static void fill(void)
{
    for (int i = 0; i < ELEMENTS; i++) {
        memory[0][i] = (float)(i % 5 - 2);
        memory[1][i] = (float)(i % 7 - 3);
        memory[2][i] = UNTOUCHED;
    }
}

/* Tensors without elements are bound to null, or not at all; an override gives each tensor a shape of three dimensions. */
static hipdnnStatus_t execute(hipdnnBackendDescriptor_t plan, const int64_t counts[3], bool binds_empty,
                              const int64_t dims[9])
{
    int64_t uids[3];
    void* pointers[3];
    int64_t bound = 0;
    for (int i = 0; i < 3; i++) {
        if (counts[i] > 0 || binds_empty) {
            uids[bound] = i + 1;
            pointers[bound++] = counts[i] > 0 ? memory[i] : NULL;
        }
    }
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, bound, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, bound, pointers);
    if (dims != NULL) {
        const int64_t three[] = {3, 3, 3};
        int64_t strides[9];
        for (int i = 0; i < 9; i += 3) {
            strides[i] = dims[i + 1] * dims[i + 2];
            strides[i + 1] = dims[i + 2];
            strides[i + 2] = 1;
        }
        put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 3, uids);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 3, three);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 9, dims);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 9, strides);
    }
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    const hipdnnStatus_t status = hipdnnBackendExecute(handle, plan, pack);
    drop(pack);
    return status;
}

/* Whether the product is correct, and nothing after it was written. */
static bool is_product(int m, int k, int n)
{
    for (int i = 0; i < ELEMENTS; i++) {
        float expected = i < m * n ? 0.0f : UNTOUCHED;
        for (int l = 0; i < m * n && l < k; l++) {
            expected += memory[0][i / n * k + l] * memory[1][l * n + i % n];
        }
        if (memory[2][i] != expected) {
            return false;
        }
    }
    return true;
}

static void check_product(hipdnnBackendDescriptor_t plan, int m, int k, int n)
{
    const int64_t counts[] = {(int64_t)m * k, (int64_t)k * n, (int64_t)m * n};
    for (int binds_empty = counts[0] == 0 && counts[1] == 0 && counts[2] == 0; binds_empty < 2; binds_empty++) {
        fill();
        CHECK_OK(execute(plan, counts, binds_empty != 0, NULL));
        CHECK(is_product(m, k, n));
    }
}

/* The configurations of both engines, open. */
static void configs_of(hipdnnBackendDescriptor_t graph, hipdnnBackendDescriptor_t configs[MOST_ENGINES])
{
    int64_t count = 0;
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    for (int i = 0; i < MOST_ENGINES; i++) {
        configs[i] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                         MOST_ENGINES, &count, configs));
    REQUIRE(count == MOST_ENGINES);
    drop(heuristic);
}

static hipdnnBackendDescriptor_t plan_of(hipdnnBackendDescriptor_t config)
{
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    drop(config);
    return plan;
}

static void test_products(void)
{
    static const int SIZES[][3] = {{2, 0, 3}, {0, 4, 3}, {2, 4, 0}, {0, 0, 3}, {0, 0, 0}, {2, 4, 3}};
    for (int64_t i = 0; i < COUNT(SIZES); i++) {
        const int m = SIZES[i][0];
        const int k = SIZES[i][1];
        const int n = SIZES[i][2];
        hipdnnBackendDescriptor_t configs[MOST_ENGINES];
        hipdnnBackendDescriptor_t graph = product(m, k, n);
        configs_of(graph, configs);
        for (int engine = 0; engine < MOST_ENGINES; engine++) {
            check_about("product %d x %d x %d, engine %d", m, k, n, engine);
            hipdnnBackendDescriptor_t plan = plan_of(configs[engine]);
            check_product(plan, m, k, n);
            const blob saved = save_plan(plan);
            hipdnnBackendDescriptor_t loaded = load_plan(handle, saved);
            check_product(loaded, m, k, n);
            drop(loaded);
            free(saved.bytes);
            drop(plan);
        }
        drop(graph);
    }
}

/* A plan with elements is executed without, and the other way round. */
static void test_overrides(void)
{
    static const int SIZES[][3] = {{2, 4, 3}, {2, 0, 3}, {0, 4, 3}};
    const bool yes = true;
    for (int64_t planned = 0; planned < COUNT(SIZES); planned++) {
        char text[2048];
        const int* p = SIZES[planned];
        snprintf(text, sizeof text, PRODUCT, p[0], p[1], 99, 9, p[1], p[2], 99, 9, p[0], p[2], 99, 9);
        hipdnnBackendDescriptor_t graph = graph_of_json(text);
        put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
        finalize_with(graph, handle);
        hipdnnBackendDescriptor_t plan = make_plan(graph);
        for (int64_t i = 0; i < COUNT(SIZES); i++) {
            const int64_t m = SIZES[i][0];
            const int64_t k = SIZES[i][1];
            const int64_t n = SIZES[i][2];
            const int64_t dims[] = {1, m, k, 1, k, n, 1, m, n};
            const int64_t counts[] = {m * k, k * n, m * n};
            check_about("planned with %d, executed with %d", (int)planned, (int)i);
            fill();
            CHECK_OK(execute(plan, counts, true, dims));
            CHECK(is_product((int)m, (int)k, (int)n));
        }
        drop(plan);
        drop(graph);
    }
}

static void test_reductions(void)
{
    static const struct {
        const char* mode;
        float expected;
    } DEFINED[] = {{"add", 0.0f}, {"mul", 1.0f}, {"norm1", 0.0f}, {"norm2", 0.0f}, {"amax", 0.0f}};
    static const char* const UNDEFINED[] = {"min", "max", "avg"};
    for (int64_t i = 0; i < COUNT(DEFINED); i++) {
        check_about("%s of nothing", DEFINED[i].mode);
        hipdnnBackendDescriptor_t graph = reduction(DEFINED[i].mode);
        hipdnnBackendDescriptor_t plan = make_plan(graph);
        fill();
        CHECK_OK(execute(plan, (int64_t[]){0, 3, 3}, false, NULL));
        CHECK(memory[1][0] == DEFINED[i].expected && memory[1][2] == DEFINED[i].expected && memory[1][3] == 0.0f);
        drop(plan);
        drop(graph);
    }
    for (int64_t i = 0; i < COUNT(UNDEFINED); i++) {
        char part[64];
        check_about("%s of nothing", UNDEFINED[i]);
        hipdnnBackendDescriptor_t graph = reduction(UNDEFINED[i]);
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        CHECK_OK(hipdnnBackendFinalize(heuristic));
        CHECK_EQ(count_results(heuristic), 0);
        snprintf(part, sizeof part, "as the %s of none is not", UNDEFINED[i]);
        CHECK_LAST_ERROR(part);
        drop(heuristic);
        drop(graph);
    }
}

/* relu(convolution(x, w)) of no images, by descriptors: nothing is read or written. */
static void test_descriptors(void)
{
    hipdnnBackendDescriptor_t operations[] = {open_convolution(), open_relu()};
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, 0, CHANNELS, SIDE, SIDE, false);
    hipdnnBackendDescriptor_t between = make_tensor(UID_BETWEEN, 0, CHANNELS, SIDE, SIDE, true);
    hipdnnBackendDescriptor_t y = make_tensor(UID_Y, 0, CHANNELS, SIDE, SIDE, false);
    put_descriptor(operations[0], HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    put_descriptor(operations[0], HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, between);
    put_descriptor(operations[1], HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, between);
    put_descriptor(operations[1], HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, y);
    REQUIRE_OK(hipdnnBackendFinalize(operations[0]));
    REQUIRE_OK(hipdnnBackendFinalize(operations[1]));
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2, operations);
    finalize_with(graph, handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    CHECK_EQ(plan_workspace(plan), 0);
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void* const pointers[] = {NULL, memory[0], NULL};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    check_about("a convolution of no images");
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    drop(pack);
    drop(plan);
    drop(graph);
    hipdnnBackendDescriptor_t parts[] = {x, between, y, operations[0], operations[1]};
    for (int64_t i = 0; i < COUNT(parts); i++) {
        drop(parts[i]);
    }
}

int main(void)
{
    handle = make_handle();
    test_descriptors();
    test_products();
    test_overrides();
    test_reductions();
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
