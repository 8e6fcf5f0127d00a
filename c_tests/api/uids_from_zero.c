/* SPDX-License-Identifier: MIT */

/*
 * Tensors whose uids begin at 0, as PyTorch numbers them: through descriptors, bytes of both layouts, JSON, variant packs,
 * overrides, each of the CPU engines, and saved plans.
 */
#define UID_FIRST 0
#include "../flatbuffer.h"
#include "../json_text.h"
#include "../saved.h"

static hipdnnHandle_t handle;

static void run(hipdnnBackendDescriptor_t plan)
{
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    free(data.workspace);
}

static hipdnnBackendDescriptor_t plan_of(hipdnnBackendDescriptor_t config)
{
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    return plan;
}

static void test_uids(hipdnnBackendDescriptor_t plan)
{
    int64_t uids[4] = {-1, -1, -1, -1};
    int64_t count = 0;
    int found = 0;
    CHECK_OK(hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT, HIPDNN_TYPE_INT64, 4, &count,
                                       uids));
    CHECK_EQ(count, 3);
    for (int i = 0; i < 3; i++) {
        found += uids[i] == UID_X || uids[i] == UID_W || uids[i] == UID_Y;
    }
    CHECK_EQ(found, 3);
}

/* Every engine computes the graph, and so does its plan when it is saved and loaded. */
static void test_engines(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t configs[2] = {make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                                            make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR)};
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    int64_t count = 0;
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2,
                                         &count, configs));
    CHECK_EQ(count, 2);
    for (int i = 0; i < count; i++) {
        hipdnnBackendDescriptor_t plan = plan_of(configs[i]);
        test_uids(plan);
        run(plan);
        const blob saved = save_plan(plan);
        const blob both = save_both(graph, plan);
        hipdnnBackendDescriptor_t loaded = load_plan(handle, saved);
        test_uids(loaded);
        run(loaded);
        drop(loaded);
        loaded = load_plan(handle, both);
        run(loaded);
        drop(loaded);
        free(saved.bytes);
        free(both.bytes);
        drop(plan);
    }
    drop(configs[0]);
    drop(configs[1]);
    drop(heuristic);
}

/* Through bytes and through JSON; the result is the same graph. */
static void test_texts(hipdnnBackendDescriptor_t graph)
{
    size_t size = 0;
    size_t again = 0;
    uint8_t* const bytes = bytes_of(graph, &size);
    char* const text = json_of(graph);
    hipdnnBackendDescriptor_t of_bytes = graph_of_bytes(bytes, size);
    hipdnnBackendDescriptor_t of_json = graph_of_json(text);
    finalize_with(of_bytes, handle);
    finalize_with(of_json, handle);
    char* const other_text = json_of(of_bytes);
    uint8_t* const other_bytes = bytes_of(of_json, &again);
    CHECK(strcmp(text, other_text) == 0);
    CHECK(size == again && memcmp(bytes, other_bytes, size) == 0);
    CHECK(strstr(text, "\"x_tensor_uid\": 0") != NULL || strstr(text, "\"x_tensor_uid\":0") != NULL);
    check_about("bytes");
    test_engines(of_bytes);
    check_about("JSON");
    test_engines(of_json);
    free(bytes);
    free(text);
    free(other_bytes);
    free(other_text);
    drop(of_bytes);
    drop(of_json);
}

/* Bytes that others write, with the number where ours leave it out, in each layout. */
static void test_foreign_bytes(void)
{
    static flatbuffer bytes;
    for (int newer = 0; newer < 2; newer++) {
        const graph_shape shape = plain_graph(newer == 1);
        size_t size = 0;
        const unsigned char* const written = write_graph(&bytes, &shape, &size);
        hipdnnBackendDescriptor_t graph = graph_of_bytes(written, size);
        finalize_with(graph, handle);
        check_about("bytes of %d", newer ? 2026 : 2025);
        test_engines(graph);
        drop(graph);
    }
}

/* The tensor with uid 0 among those that have another shape. */
static void test_overrides(void)
{
    const bool yes = true;
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    buffers data;
    fill_buffers(&data, plan);
    /* One row and one column of windows: y is then the sums at the image's first place. */
    const int64_t uids[] = {UID_X, UID_Y};
    const int64_t lengths[] = {4, 4};
    const int64_t dims[] = {1, CHANNELS, 1, 1, 1, CHANNELS, 1, 1};
    const int64_t strides[] = {CHANNELS, 1, 1, 1, CHANNELS, 1, 1, 1};
    hipdnnBackendDescriptor_t pack = open_pack(&data);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 2, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 2, lengths);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 8, dims);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 8, strides);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    check_about("overrides");
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    for (int k = 0; k < CHANNELS; k++) {
        float sum = 0.0f;
        for (int c = 0; c < CHANNELS; c++) {
            sum += data.x[c] * data.w[(k * CHANNELS + c) * 9 + 4];
        }
        CHECK(data.y[k] == sum);
    }
    CHECK(data.y[CHANNELS] == -99.0f);
    drop(pack);
    free(data.workspace);
    drop(plan);
    drop(graph);
}

/* The pack has to have the tensor with uid 0, and it has to be aligned, as any other. */
static void test_refusals(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    buffers data;
    fill_buffers(&data, plan);
    const int64_t uids[] = {UID_W, UID_Y, UID_X};
    void* pointers[] = {data.w, data.y, (char*)data.x + 4};
    check_about("packs that are refused");
    for (int count = 2; count <= 3; count++) {
        hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, count, pointers);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, count, uids);
        put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &data.workspace);
        REQUIRE_OK(hipdnnBackendFinalize(pack));
        CHECK_FAILS(count == 2 ? HIPDNN_STATUS_PLUGIN_ERROR : HIPDNN_STATUS_BAD_PARAM,
                    count == 2 ? "tensor 0 is bound by none" : "align", hipdnnBackendExecute(handle, plan, pack));
        drop(pack);
    }
    CHECK(data.y[0] == -99.0f);
    free(data.workspace);
    drop(plan);
}

int main(void)
{
    handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    REQUIRE(UID_X == 0);
    check_about("descriptors");
    test_engines(graph);
    test_texts(graph);
    test_foreign_bytes();
    test_overrides();
    test_refusals(graph);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
