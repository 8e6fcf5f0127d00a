/* SPDX-License-Identifier: MIT */

/*
 * Saved plans and containers with every single bit flipped, and cut at every length: all functions refuse them. Damaged
 * envelopes of other libraries, which have no seal, may be accepted but do no harm.
 */
#include "../flatbuffer.h"
#include "../saved.h"

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;
static hipdnnBackendDescriptor_t plan;

/* Counts a failed call's text too: each must leave one. */
static bool is_refused(hipdnnStatus_t status, hipdnnBackendDescriptor_t made)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    if (status == HIPDNN_STATUS_SUCCESS) {
        drop(made);
        return false;
    }
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK(text[0] != '\0' && strstr(text, "internal defect") == NULL);
    CHECK(status == HIPDNN_STATUS_BAD_PARAM || status == HIPDNN_STATUS_NOT_SUPPORTED ||
          status == HIPDNN_STATUS_INTERNAL_ERROR || status == HIPDNN_STATUS_PLUGIN_ERROR);
    return true;
}

static bool plan_is_refused(blob damaged)
{
    hipdnnBackendDescriptor_t made = NULL;
    const hipdnnStatus_t status = load(handle, &made, damaged);
    return is_refused(status, made);
}

static bool graph_is_refused(blob damaged)
{
    hipdnnBackendDescriptor_t made = NULL;
    const hipdnnStatus_t status = hipdnnBackendCreateAndDeserializeGraph_ext(&made, damaged.bytes, damaged.size);
    return is_refused(status, made);
}

/* A heap copy of exactly the bytes, so that sanitizers detect reads beyond. */
static blob copy_of(const uint8_t* bytes, size_t size)
{
    blob copy = make_blob(size);
    memcpy(copy.bytes, bytes, size);
    return copy;
}

/* Calls `refused` with every damage and returns how many were accepted. */
static int taken(blob whole, bool (*refused)(blob))
{
    int count = 0;
    for (size_t size = 1; size < whole.size; size++) {
        const blob cut = copy_of(whole.bytes, size);
        count += !refused(cut);
        free(cut.bytes);
    }
    const blob damaged = copy_of(whole.bytes, whole.size);
    for (size_t bit = 0; bit < whole.size * 8; bit++) {
        damaged.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        count += !refused(damaged);
        damaged.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK(!refused(damaged));
    free(damaged.bytes);
    return count;
}

static void test_sealed(void)
{
    const blob saved = save_plan(plan);
    check_about("plan");
    CHECK_EQ(taken(saved, plan_is_refused), 0);
    const blob both = save_both(graph, plan);
    check_about("plan in a container");
    CHECK_EQ(taken(both, plan_is_refused), 0);
    check_about("graph in a container with a plan");
    CHECK_EQ(taken(both, graph_is_refused), 0);
    const blob alone = save_both(graph, NULL);
    check_about("graph in a container");
    CHECK_EQ(taken(alone, graph_is_refused), 0);
    check_about("flags");
    for (size_t bit = 64; bit < both.size * 8; bit++) {
        both.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK_EQ(contents(both), -1);
        both.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t size = 8; size < both.size; size++) {
        CHECK_EQ(contents((blob){both.bytes, size}), -1);
    }
    /* Bytes after the end are not sealed. */
    blob longer = make_blob(saved.size + 1);
    memcpy(longer.bytes, saved.bytes, saved.size);
    longer.bytes[saved.size] = 0;
    CHECK(plan_is_refused(longer));
    free(longer.bytes);
    free(saved.bytes);
    free(both.bytes);
    free(alone.bytes);
}

/* Another library's envelope of the plugin's bytes: the six common fields, in its own layout. */
static blob unsealed(blob saved)
{
    static flatbuffer fb;
    static const int64_t uids[] = {UID_X, UID_W, UID_Y};
    int64_t engine_id;
    uint32_t length = 0;
    const uint8_t* const payload = root_vector(saved, PLAN_PAYLOAD, &length);
    memcpy(&engine_id, saved.bytes + root_field(saved, PLAN_ENGINE_ID), sizeof engine_id);
    fb.used = 0;
    fb_align(&fb, 4, length);
    fb_put(&fb, payload, length);
    const uint32_t payload_at = fb_put_u32(&fb, length);
    const uint32_t uids_at = fb_longs(&fb, COUNT(uids), uids);
    fb_begin(&fb);
    fb_long(&fb, PLAN_ENGINE_ID, engine_id);
    fb_long(&fb, PLAN_WORKSPACE, 0);
    fb_reference(&fb, 3, uids_at);
    fb_reference(&fb, PLAN_PAYLOAD, payload_at);
    fb_align(&fb, 4, 0);
    fb_note(&fb, PLAN_VERSION, fb_put_u32(&fb, 1));
    size_t size = 0;
    const unsigned char* const bytes = fb_finish(&fb, fb_end(&fb), &size);
    return copy_of(bytes, size);
}

static void test_unsealed(void)
{
    const blob saved = save_plan(plan);
    const blob foreign = unsealed(saved);
    check_about("without a seal");
    hipdnnBackendDescriptor_t loaded = load_plan(handle, foreign);
    buffers data;
    fill_buffers(&data, loaded);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, loaded, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    drop(loaded);
    free(data.workspace);
    /* Damage to uids and padding is not detected. */
    const int count = taken(foreign, plan_is_refused);
    CHECK(count > 0 && count < (int)foreign.size);
    free(saved.bytes);
    free(foreign.bytes);
}

/* Bytes of any other kind */
static void test_foreign_bytes(void)
{
    uint64_t state = 88172645463325252u;
    check_about("noise");
    for (int round = 0; round < 2000; round++) {
        uint8_t noise[128];
        for (size_t i = 0; i < sizeof noise; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise[i] = (uint8_t)(state >> 24);
        }
        if (round % 2 == 0) {
            memcpy(noise + 4, "HDGP", 4);
        }
        const blob bytes = copy_of(noise, (size_t)(1 + round % 128));
        CHECK(plan_is_refused(bytes));
        CHECK(graph_is_refused(bytes));
        free(bytes.bytes);
    }
    check_about("a graph is not a plan");
    size_t size = 0;
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, &size, NULL));
    const blob bytes = make_blob(size);
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, size, &size, bytes.bytes));
    CHECK(plan_is_refused(bytes));
    free(bytes.bytes);
}

int main(void)
{
    handle = make_handle();
    graph = make_graph(handle);
    plan = make_plan(graph);
    test_sealed();
    test_unsealed();
    test_foreign_bytes();
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
