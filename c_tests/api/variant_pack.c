/* SPDX-License-Identifier: MIT */

/* The variant pack: its attributes, what finalize checks, and what it keeps. */
#include "../fixture.h"

#include <limits.h>

static const int64_t ids[] = {7, 7, -3};
static char memory[64];
static void* const pointers[] = {memory, NULL, memory + 16};

static hipdnnStatus_t set(hipdnnBackendDescriptor_t pack, int name, hipdnnBackendAttributeType_t type, int64_t count,
                          const void* values)
{
    return hipdnnBackendSetAttribute(pack, (hipdnnBackendAttributeName_t)name, type, count, values);
}

static hipdnnStatus_t get(hipdnnBackendDescriptor_t pack, int name, hipdnnBackendAttributeType_t type, int64_t requested,
                          int64_t* count, void* values)
{
    return hipdnnBackendGetAttribute(pack, (hipdnnBackendAttributeName_t)name, type, requested, count, values);
}

enum {
    IDS = HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
    POINTERS = HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
    WORKSPACE = HIPDNN_ATTR_VARIANT_PACK_WORKSPACE,
};

static void test_set(void)
{
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void* workspace = NULL;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", set(pack, IDS, HIPDNN_TYPE_VOID_PTR, 3, ids));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", set(pack, POINTERS, HIPDNN_TYPE_INT64, 3, pointers));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", set(pack, WORKSPACE, HIPDNN_TYPE_INT64, 1, &workspace));
    const int64_t counts[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 8 + 1};
    for (int64_t i = 0; i < COUNT(counts); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(pack, IDS, HIPDNN_TYPE_INT64, counts[i], ids));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount",
                    set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, counts[i], pointers));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount",
                    set(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, counts[i], &workspace));
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, 0, &workspace));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, 2, pointers));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", set(pack, IDS, HIPDNN_TYPE_INT64, 3, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 3, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                set(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, NULL));
    /* Here the array is looked at before the name. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", set(pack, 12345, HIPDNN_TYPE_INT64, 1, NULL));
    const int foreign[] = {HIPDNN_ATTR_VARIANT_PACK_INTERMEDIATES, HIPDNN_ATTR_TENSOR_UNIQUE_ID, 0, -1, INT_MAX};
    for (int64_t i = 0; i < COUNT(foreign); i++) {
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "attributeName", set(pack, foreign[i], HIPDNN_TYPE_INT64, 1, ids));
    }
    drop(pack);
}

static void test_finalize(void)
{
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "variant pack", hipdnnBackendFinalize(pack));
    CHECK_OK(set(pack, IDS, HIPDNN_TYPE_INT64, 3, ids));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "3", hipdnnBackendFinalize(pack));
    CHECK_OK(set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 2, pointers));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "2", hipdnnBackendFinalize(pack));
    /* A failed finalize leaves it open and as it was; a set replaces what was set before. */
    CHECK_OK(set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers));
    CHECK_OK(set(pack, IDS, HIPDNN_TYPE_INT64, 0, ids));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "0", hipdnnBackendFinalize(pack));
    CHECK_OK(set(pack, IDS, HIPDNN_TYPE_INT64, 3, ids));
    CHECK_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendFinalize(pack));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", set(pack, IDS, HIPDNN_TYPE_INT64, 3, ids));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", set(pack, IDS, HIPDNN_TYPE_INT64, 3, NULL));
    drop(pack);
}

static void test_get(void)
{
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    int64_t got_ids[5] = {41, 42, 43, 44, 45};
    void* got_pointers[5] = {memory + 1, memory + 2, memory + 3, memory + 4, memory + 5};
    void* workspace = memory;
    int64_t count = 4711;
    CHECK_OK(set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers));
    CHECK_OK(set(pack, IDS, HIPDNN_TYPE_INT64, 3, ids));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", get(pack, IDS, HIPDNN_TYPE_INT64, 3, &count, got_ids));
    CHECK(count == 4711 && got_ids[0] == 41);
    CHECK_OK(hipdnnBackendFinalize(pack));

    /* Never set: null */
    CHECK_OK(get(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, NULL, &workspace));
    CHECK(workspace == NULL);

    CHECK_OK(get(pack, IDS, HIPDNN_TYPE_INT64, 5, &count, got_ids));
    CHECK(count == 3 && memcmp(got_ids, ids, sizeof ids) == 0 && got_ids[3] == 44);
    CHECK_OK(get(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 5, &count, got_pointers));
    CHECK(count == 3 && memcmp(got_pointers, pointers, sizeof pointers) == 0 && got_pointers[3] == memory + 4);
    got_ids[1] = 42;
    CHECK_OK(get(pack, IDS, HIPDNN_TYPE_INT64, 1, &count, got_ids));
    CHECK(count == 1 && got_ids[1] == 42);

    count = 4711;
    const int64_t negative[] = {-1, INT64_MIN};
    for (int64_t i = 0; i < COUNT(negative); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                    get(pack, IDS, HIPDNN_TYPE_INT64, negative[i], &count, got_ids));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                    get(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, negative[i], &count, got_pointers));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                    get(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, negative[i], &count, &workspace));
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                get(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, 2, &count, &workspace));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", get(pack, IDS, HIPDNN_TYPE_VOID_PTR, 3, &count, got_ids));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                get(pack, POINTERS, HIPDNN_TYPE_INT64, 3, &count, got_pointers));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                get(pack, WORKSPACE, HIPDNN_TYPE_INT64, 1, &count, &workspace));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "attributeName",
                get(pack, HIPDNN_ATTR_VARIANT_PACK_INTERMEDIATES, HIPDNN_TYPE_INT64, 1, &count, got_ids));
    CHECK_EQ(count, 4711);
    drop(pack);
}

/* More tensors than any inline storage holds */
static void test_large(void)
{
    enum { LARGE = 10000 };
    int64_t* many_ids = calloc(LARGE, sizeof *many_ids);
    int64_t* got = calloc(LARGE, sizeof *got);
    void** many_pointers = calloc(LARGE, sizeof *many_pointers);
    REQUIRE(many_ids != NULL && got != NULL && many_pointers != NULL);
    for (int i = 0; i < LARGE; i++) {
        many_ids[i] = i * 3;
        many_pointers[i] = memory + i % 64;
    }
    int64_t count = 0;
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    CHECK_OK(set(pack, IDS, HIPDNN_TYPE_INT64, LARGE, many_ids));
    CHECK_OK(set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, LARGE, many_pointers));
    CHECK_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(get(pack, IDS, HIPDNN_TYPE_INT64, LARGE, &count, got));
    CHECK(count == LARGE && memcmp(got, many_ids, LARGE * sizeof *got) == 0);
    drop(pack);
    free(many_ids);
    free(many_pointers);
    free(got);
}

int main(void)
{
    test_set();
    test_finalize();
    test_get();
    test_large();
    return check_result();
}
