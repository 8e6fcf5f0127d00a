/* SPDX-License-Identifier: MIT */

/* Execution plans that are saved and loaded, alone and with their graph: the four functions, their arguments, and what a
 * loaded plan is. */
#include "../saved.h"

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;
static hipdnnBackendDescriptor_t plan;
static buffers data;

static void test_round_trip(void)
{
    const blob saved = save_plan(plan);
    hipdnnHandle_t other = make_handle();
    hipdnnBackendDescriptor_t loaded = load_plan(other, saved);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    memset(data.y, 0, sizeof data.y);
    CHECK_OK(hipdnnBackendExecute(other, loaded, pack));
    CHECK(is_convolved(&data));
    /* Any handle executes it, also when the one it was loaded with is gone. */
    CHECK_OK(hipdnnDestroy(other));
    memset(data.y, 0, sizeof data.y);
    CHECK_OK(hipdnnBackendExecute(handle, loaded, pack));
    CHECK(is_convolved(&data));

    /* Saved again, it is the same to the byte. */
    const blob again = save_plan(loaded);
    CHECK(again.size == saved.size && memcmp(again.bytes, saved.bytes, saved.size) == 0);
    free(again.bytes);

    int64_t uids[4] = {0};
    int64_t count = 0;
    int64_t id = 0;
    bool overrides = true;
    CHECK_OK(hipdnnBackendGetAttribute(loaded, HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT, HIPDNN_TYPE_INT64, 4, &count,
                                       uids));
    CHECK(count == 3 && uids[0] == UID_X && uids[1] == UID_W && uids[2] == UID_Y);
    CHECK_OK(hipdnnBackendGetAttribute(loaded, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT, HIPDNN_TYPE_INT64, 1,
                                       NULL, &id));
    CHECK_EQ(id, best_engine_id(graph));
    CHECK_OK(hipdnnBackendGetAttribute(loaded, HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT,
                                       HIPDNN_TYPE_BOOLEAN, 1, NULL, &overrides));
    CHECK(!overrides);
    CHECK_EQ(plan_workspace(loaded), plan_workspace(plan));

    /* It is finalized, and has no graph. */
    hipdnnBackendDescriptor_t config = NULL;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "finalized", hipdnnBackendFinalize(loaded));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                hipdnnBackendSetAttribute(loaded, HIPDNN_ATTR_EXECUTION_PLAN_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "ENGINE_CONFIG",
                hipdnnBackendGetAttribute(loaded, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                          HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &config));
    CHECK(config == NULL);

    /* It checks alignments like the saved plan. */
    const int64_t pack_uids[] = {UID_X, UID_W, UID_Y};
    void* const pointers[] = {(char*)data.x + 4, data.w, data.y};
    hipdnnBackendDescriptor_t misaligned = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(misaligned, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(misaligned, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, pack_uids);
    REQUIRE_OK(hipdnnBackendFinalize(misaligned));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "not aligned to 16 bytes", hipdnnBackendExecute(handle, loaded, misaligned));
    drop(misaligned);
    drop(pack);
    drop(loaded);
    free(saved.bytes);
}

static void test_two_calls(void)
{
    size_t size = 0;
    uint8_t bytes[8] = {0x5a};
    REQUIRE_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &size, NULL));
    size_t needed = 0;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "requestedByteSize",
                hipdnnBackendGetSerializedExecutionPlan_ext(plan, sizeof bytes, &needed, bytes));
    CHECK(needed == size && bytes[0] == 0x5a);
    /* The buffer beyond the size is unchanged. */
    uint8_t* const room = calloc(1, size + 1);
    REQUIRE(room != NULL);
    room[size] = 0x5a;
    CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, size + 1, &needed, room));
    CHECK(needed == size && room[size] == 0x5a);
    /* And without asking before */
    CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, size, &needed, room));
    CHECK(needed == size);
    free(room);

    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "requestedByteSize",
                hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, sizeof bytes, &needed, bytes));
    CHECK(needed == size && bytes[0] == 0x5a);
}

static void test_arguments(void)
{
    hipdnnBackendDescriptor_t open = open_plan(graph);
    hipdnnBackendDescriptor_t dead = make_plan(graph);
    hipdnnBackendDescriptor_t made = NULL;
    size_t size = 4711;
    int flags = 4711;
    const blob saved = save_plan(plan);
    drop(dead);

    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor",
                hipdnnBackendGetSerializedExecutionPlan_ext(NULL, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "planByteSize",
                hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, NULL, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "execution plan",
                hipdnnBackendGetSerializedExecutionPlan_ext(graph, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "destroyed",
                hipdnnBackendGetSerializedExecutionPlan_ext(dead, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                hipdnnBackendGetSerializedExecutionPlan_ext(open, 0, &size, NULL));

    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle",
                hipdnnBackendCreateAndDeserializeExecutionPlan_ext(NULL, &made, saved.bytes, saved.size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor",
                hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, NULL, saved.bytes, saved.size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "serializedPlan",
                hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &made, NULL, saved.size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "planByteSize",
                hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &made, saved.bytes, 0));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "planByteSize",
                hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &made, saved.bytes, SIZE_MAX));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t",
                hipdnnBackendCreateAndDeserializeExecutionPlan_ext((hipdnnHandle_t)(uintptr_t)0x1, &made, saved.bytes,
                                                                   saved.size));

    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "graphDescriptor",
                hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(NULL, plan, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "blobByteSize",
                hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, 0, NULL, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "operation graph",
                hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(plan, plan, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "execution plan",
                hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, graph, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "destroyed",
                hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, dead, 0, &size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, open, 0, &size, NULL));

    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "serializedBlob",
                hipdnnBackendGetSerializedBinaryContents_ext(NULL, 8, &flags));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "contentFlags",
                hipdnnBackendGetSerializedBinaryContents_ext(saved.bytes, saved.size, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "blobByteSize",
                hipdnnBackendGetSerializedBinaryContents_ext(saved.bytes, SIZE_MAX, &flags));
    CHECK(size == 4711 && flags == 4711 && made == NULL);
    free(saved.bytes);
    drop(open);
}

/* A graph and a plan in one: either can be taken out. */
static void test_container(void)
{
    const blob both = save_both(graph, plan);
    const blob alone = save_both(graph, NULL);
    const blob saved = save_plan(plan);
    CHECK(both.size > alone.size && memcmp(both.bytes + 4, "HDGP", 4) == 0 && memcmp(alone.bytes + 4, "HDGP", 4) == 0);
    CHECK_EQ(contents(both), HIPDNN_SERIALIZED_CONTENT_GRAPH | HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN);
    CHECK_EQ(contents(alone), HIPDNN_SERIALIZED_CONTENT_GRAPH);
    /* Bytes other than a container count as a graph: a plan alone, and too few bytes for anything. */
    CHECK_EQ(contents(saved), HIPDNN_SERIALIZED_CONTENT_GRAPH);
    for (size_t size = 0; size < 8; size++) {
        CHECK_EQ(contents((blob){both.bytes, size}), HIPDNN_SERIALIZED_CONTENT_GRAPH);
    }

    hipdnnBackendDescriptor_t loaded = load_plan(handle, both);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    memset(data.y, 0, sizeof data.y);
    CHECK_OK(hipdnnBackendExecute(handle, loaded, pack));
    CHECK(is_convolved(&data));
    drop(loaded);
    loaded = NULL;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "without an execution plan", load(handle, &loaded, alone));
    CHECK(loaded == NULL);

    const blob blobs[] = {both, alone};
    for (int i = 0; i < 2; i++) {
        hipdnnBackendDescriptor_t copy = NULL;
        size_t size = 0;
        size_t copy_size = 0;
        REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&copy, blobs[i].bytes, blobs[i].size));
        REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, &size, NULL));
        REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(copy, 0, &copy_size, NULL));
        CHECK_EQ(copy_size, size);
        put(copy, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
        REQUIRE_OK(hipdnnBackendFinalize(copy));
        hipdnnBackendDescriptor_t copy_plan = make_plan(copy);
        memset(data.y, 0, sizeof data.y);
        CHECK_OK(hipdnnBackendExecute(handle, copy_plan, pack));
        CHECK(is_convolved(&data));
        drop(copy_plan);
        drop(copy);
    }
    /* An open graph, and an empty one, can be saved too. */
    hipdnnBackendDescriptor_t empty = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const blob little = save_both(empty, NULL);
    CHECK_EQ(contents(little), HIPDNN_SERIALIZED_CONTENT_GRAPH);
    free(little.bytes);
    drop(empty);
    drop(pack);
    free(both.bytes);
    free(alone.bytes);
    free(saved.bytes);
}

/* Intact plans for another plugin, version or device. */
static void test_origin(void)
{
    static const struct {
        unsigned field;
        const char* part;
    } rows[] = {
        {PLAN_PLUGIN_NAME, "made by another plugin: \"@"},
        {PLAN_PLUGIN_VERSION, "made by version \"@"},
        {PLAN_DEVICE, "made by another device: \"@"},
    };
    for (int64_t i = 0; i < COUNT(rows); i++) {
        const blob saved = save_plan(plan);
        hipdnnBackendDescriptor_t loaded = NULL;
        uint32_t length = 0;
        uint8_t* const text = root_vector(saved, rows[i].field, &length);
        REQUIRE(length > 0);
        text[0] = '@';
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "checksum", load(handle, &loaded, saved));
        reseal(saved);
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, rows[i].part, load(handle, &loaded, saved));
        CHECK(loaded == NULL);
        free(saved.bytes);
    }
}

/* Plans with a valid seal and invalid content. */
static void test_content(void)
{
    const uint32_t newer = 2;
    const int64_t unknown = 12345;
    const int64_t negative = -1;
    const struct {
        unsigned field;
        const void* value;
        size_t size;
        hipdnnStatus_t status;
        const char* part;
    } rows[] = {
        {PLAN_VERSION, &newer, sizeof newer, HIPDNN_STATUS_NOT_SUPPORTED, "of version 2"},
        {PLAN_ENGINE_ID, &unknown, sizeof unknown, HIPDNN_STATUS_INTERNAL_ERROR, "engine 12345"},
        {PLAN_WORKSPACE, &negative, sizeof negative, HIPDNN_STATUS_BAD_PARAM, "workspace of -1"},
    };
    hipdnnBackendDescriptor_t loaded = NULL;
    for (int64_t i = 0; i < COUNT(rows); i++) {
        const blob saved = save_plan(plan);
        const size_t at = root_field(saved, rows[i].field);
        REQUIRE(at != 0);
        memcpy(saved.bytes + at, rows[i].value, rows[i].size);
        reseal(saved);
        CHECK_FAILS(rows[i].status, rows[i].part, load(handle, &loaded, saved));
        free(saved.bytes);
    }
    /* What the plugin saved is checked by the plugin as well. */
    const blob saved = save_plan(plan);
    uint32_t count = 0;
    uint8_t* const payload = root_vector(saved, PLAN_PAYLOAD, &count);
    for (uint32_t i = 0; i < count; i++) {
        payload[i] ^= 0x10;
        reseal(saved);
        CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "saved", load(handle, &loaded, saved));
        payload[i] ^= 0x10;
    }
    reseal(saved);
    hipdnnBackendDescriptor_t good = load_plan(handle, saved);
    drop(good);
    free(saved.bytes);
    CHECK(loaded == NULL);
}

int main(void)
{
    handle = make_handle();
    graph = make_graph(handle);
    plan = make_plan(graph);
    fill_buffers(&data, plan);
    test_round_trip();
    test_two_calls();
    test_arguments();
    test_container();
    test_origin();
    test_content();
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    free(data.workspace);
    return check_result();
}
