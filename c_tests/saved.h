/* SPDX-License-Identifier: MIT */

/* Saved plans and containers, for the C tests: fetching, inspecting, and changing them with a valid seal. */
#ifndef SAVED_H
#define SAVED_H

#include "fixture.h"

typedef struct {
    uint8_t* bytes;
    size_t size;
} blob;

static inline blob make_blob(size_t size)
{
    blob made = {malloc(size), size};
    REQUIRE(size > 0 && made.bytes != NULL);
    return made;
}

static inline blob save_plan(hipdnnBackendDescriptor_t plan)
{
    size_t size = 0;
    size_t again = 0;
    REQUIRE_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &size, NULL));
    blob saved = make_blob(size);
    REQUIRE_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, size, &again, saved.bytes));
    CHECK(again == size);
    return saved;
}

static inline blob save_both(hipdnnBackendDescriptor_t graph, hipdnnBackendDescriptor_t plan)
{
    size_t size = 0;
    size_t again = 0;
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, 0, &size, NULL));
    blob saved = make_blob(size);
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, size, &again, saved.bytes));
    CHECK(again == size);
    return saved;
}

static inline hipdnnStatus_t load(hipdnnHandle_t handle, hipdnnBackendDescriptor_t* plan, blob saved)
{
    return hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, plan, saved.bytes, saved.size);
}

static inline hipdnnBackendDescriptor_t load_plan(hipdnnHandle_t handle, blob saved)
{
    hipdnnBackendDescriptor_t plan = NULL;
    REQUIRE_OK(load(handle, &plan, saved));
    REQUIRE(plan != NULL);
    return plan;
}

/* What hipdnnBackendGetSerializedBinaryContents_ext says, or -1. */
static inline int contents(blob saved)
{
    int flags = -1;
    const hipdnnStatus_t status = hipdnnBackendGetSerializedBinaryContents_ext(saved.bytes, saved.size, &flags);
    return status == HIPDNN_STATUS_SUCCESS ? flags : -1;
}

/* Where field `index` of the root table begins, 0 if it is absent. */
static inline size_t root_field(blob saved, unsigned index)
{
    uint32_t root;
    int32_t back;
    uint16_t slots, offset;
    memcpy(&root, saved.bytes, sizeof root);
    memcpy(&back, saved.bytes + root, sizeof back);
    const uint8_t* const table = saved.bytes + root - back;
    memcpy(&slots, table, sizeof slots);
    if (4 + 2 * index + 2 > slots) {
        return 0;
    }
    memcpy(&offset, table + 4 + 2 * index, sizeof offset);
    return offset == 0 ? 0 : root + offset;
}

/* The content of a vector or text in field `index`, and its number of elements. */
static inline uint8_t* root_vector(blob saved, unsigned index, uint32_t* count)
{
    uint32_t offset;
    const size_t field = root_field(saved, index);
    REQUIRE(field != 0);
    memcpy(&offset, saved.bytes + field, sizeof offset);
    memcpy(count, saved.bytes + field + offset, sizeof *count);
    return saved.bytes + field + offset + 4;
}

enum {
    PLAN_VERSION = 0,
    PLAN_ENGINE_ID = 1,
    PLAN_WORKSPACE = 2,
    PLAN_PAYLOAD = 4,
    PLAN_PLUGIN_NAME = 16,
    PLAN_PLUGIN_VERSION = 17,
    PLAN_DEVICE = 18,
    PLAN_CHECKSUM = 20
};

/* Updates the checksum of a changed plan. */
static inline void reseal(blob saved)
{
    const size_t checksum = root_field(saved, PLAN_CHECKSUM);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    REQUIRE(checksum != 0);
    for (size_t i = 0; i < saved.size; i++) {
        if (i < checksum || i >= checksum + 8) {
            hash = (hash ^ saved.bytes[i]) * UINT64_C(0x100000001b3);
        }
    }
    memcpy(saved.bytes + checksum, &hash, sizeof hash);
}

#endif
