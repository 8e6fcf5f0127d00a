/* SPDX-License-Identifier: MIT */

/* The variant pack: its attributes, finalize's checks, and its lifetime. */
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

static hipdnnStatus_t get(hipdnnBackendDescriptor_t pack, int name, hipdnnBackendAttributeType_t type,
                          int64_t requested, int64_t* count, void* values)
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
    /* This kind checks the array before the name. */
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
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                get(pack, IDS, HIPDNN_TYPE_INT64, 3, &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                get(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 3, &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                get(pack, WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &count, NULL));
    /* The pointers are never read without the number of them; ids are. */
    got_pointers[0] = memory + 1;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount",
                get(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 3, NULL, got_pointers));
    CHECK(got_pointers[0] == memory + 1);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount",
                get(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 0, NULL, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount", get(pack, IDS, HIPDNN_TYPE_INT64, 0, NULL, NULL));
    CHECK_OK(get(pack, IDS, HIPDNN_TYPE_INT64, 3, NULL, got_ids));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", get(pack, IDS, HIPDNN_TYPE_VOID_PTR, 3, &count, got_ids));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                get(pack, POINTERS, HIPDNN_TYPE_INT64, 3, &count, got_pointers));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                get(pack, WORKSPACE, HIPDNN_TYPE_INT64, 1, &count, &workspace));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "attributeName",
                get(pack, HIPDNN_ATTR_VARIANT_PACK_INTERMEDIATES, HIPDNN_TYPE_INT64, 1, &count, got_ids));
    CHECK_EQ(count, 4711);

    /* Nothing requested: their number, with an array or without */
    void* const arrays[] = {NULL, got_pointers};
    for (int i = 0; i < 2; i++) {
        count = 4711;
        CHECK_OK(get(pack, IDS, HIPDNN_TYPE_INT64, 0, &count, arrays[i]));
        CHECK_EQ(count, 3);
        count = 4711;
        CHECK_OK(get(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 0, &count, arrays[i]));
        CHECK_EQ(count, 3);
    }
    CHECK(got_pointers[0] == memory + 1);
    drop(pack);
}

/* The four lists of overrides are set and read alike, in any order. */
enum { OVERRIDE_LISTS = 4 };
static const int override_names[OVERRIDE_LISTS] = {
    HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT,
    HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT};

typedef struct {
    const char* what;
    int64_t counts[OVERRIDE_LISTS];
    int64_t uids[3];
    int64_t lengths[3];
    const char* part; /* of the text of the finalize that fails; NULL if it succeeds */
} overrides;

static const overrides OVERRIDES[] = {
    {"two tensors", {2, 2, 5, 5}, {-3, 8}, {2, 3}, NULL},
    {"one tensor", {1, 1, 5, 5}, {7}, {5}, NULL},
    {"no tensor", {0, 0, 0, 0}, {0}, {0}, NULL},
    {"a length too few", {2, 1, 5, 5}, {-3, 8}, {5}, "2 uids and 1 lengths"},
    {"no uids", {0, 2, 5, 5}, {0}, {2, 3}, "0 uids and 2 lengths"},
    {"only shapes", {0, 0, 5, 0}, {0}, {0}, "5 dimensions and 0 strides, expected 0"},
    {"only strides", {0, 0, 0, 5}, {0}, {0}, "0 dimensions and 5 strides, expected 0"},
    {"a tensor that is not bound", {2, 2, 5, 5}, {-3, 9}, {2, 3}, "tensor 9 is not among"},
    {"a tensor twice", {2, 2, 5, 5}, {8, 8}, {2, 3}, "tensor 8 is there twice"},
    {"length 0", {2, 2, 5, 5}, {8, 7}, {0, 5}, "tensor 8 has 0 dimensions"},
    {"a negative length", {2, 2, 5, 5}, {8, 7}, {6, -1}, "tensor 7 has -1 dimensions"},
    {"length 2^32", {2, 2, 5, 5}, {8, 7}, {5, INT64_C(1) << 32}, "tensor 7 has 4294967296 dimensions"},
    {"length 2^32 - 1", {1, 1, 5, 5}, {8}, {(INT64_C(1) << 32) - 1}, "expected 4294967295 of each"},
    {"the largest length", {1, 1, 5, 5}, {8}, {INT64_MAX}, "dimensions, expected 1 to 4294967295"},
    {"a dimension too few", {2, 2, 4, 5}, {8, 7}, {2, 3}, "4 dimensions and 5 strides, expected 5"},
    {"a stride too many", {2, 2, 4, 5}, {8, 7}, {2, 2}, "4 dimensions and 5 strides, expected 4"},
    {"no strides", {2, 2, 5, 0}, {8, 7}, {2, 3}, "5 dimensions and 0 strides, expected 5"},
};

static void test_overrides(void)
{
    static const int64_t shapes[] = {2, 3, 4, 5, 6};
    static const int64_t strides[] = {3, 1, 30, 6, 1};
    static const int64_t pack_ids[] = {7, 8, -3};
    for (int64_t i = 0; i < COUNT(OVERRIDES); i++) {
        const overrides* o = &OVERRIDES[i];
        const int64_t* const values[OVERRIDE_LISTS] = {o->uids, o->lengths, shapes, strides};
        check_about("overrides: %s", o->what);
        hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        for (int k = OVERRIDE_LISTS - 1; k >= 0; k--) {
            CHECK_OK(set(pack, override_names[k], HIPDNN_TYPE_INT64, o->counts[k], values[k]));
        }
        CHECK_OK(set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers));
        CHECK_OK(set(pack, IDS, HIPDNN_TYPE_INT64, 3, pack_ids));
        if (o->part != NULL) {
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, o->part, hipdnnBackendFinalize(pack));
            /* It stays open, and without overrides it is good. */
            for (int k = 0; k < OVERRIDE_LISTS; k++) {
                CHECK_OK(set(pack, override_names[k], HIPDNN_TYPE_INT64, 0, values[k]));
            }
            CHECK_OK(hipdnnBackendFinalize(pack));
            drop(pack);
            continue;
        }
        CHECK_OK(hipdnnBackendFinalize(pack));
        for (int k = 0; k < OVERRIDE_LISTS; k++) {
            int64_t got[8] = {0};
            int64_t count = 4711;
            CHECK_OK(get(pack, override_names[k], HIPDNN_TYPE_INT64, 0, &count, NULL));
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                        get(pack, override_names[k], HIPDNN_TYPE_INT64, 1, &count, NULL));
            CHECK_EQ(count, o->counts[k]);
            CHECK_OK(get(pack, override_names[k], HIPDNN_TYPE_INT64, 8, &count, got));
            CHECK_EQ(count, o->counts[k]);
            CHECK(memcmp(got, values[k], (size_t)count * sizeof got[0]) == 0);
            CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                        set(pack, override_names[k], HIPDNN_TYPE_INT64, 1, values[k]));
        }
        drop(pack);
    }
}

static void test_override_arguments(void)
{
    int64_t count = 4711;
    int64_t value = 0;
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    for (int k = 0; k < OVERRIDE_LISTS; k++) {
        check_about("attribute %d", override_names[k]);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                    set(pack, override_names[k], HIPDNN_TYPE_INT64, 0, NULL));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", set(pack, override_names[k], HIPDNN_TYPE_INT32, 1, ids));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(pack, override_names[k], HIPDNN_TYPE_INT64, -1, ids));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount",
                    set(pack, override_names[k], HIPDNN_TYPE_INT64, INT64_MAX, ids));
        CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                    get(pack, override_names[k], HIPDNN_TYPE_INT64, 1, &count, &value));
    }
    CHECK_OK(set(pack, POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers));
    CHECK_OK(set(pack, IDS, HIPDNN_TYPE_INT64, 3, ids));
    CHECK_OK(hipdnnBackendFinalize(pack));
    for (int k = 0; k < OVERRIDE_LISTS; k++) {
        check_about("attribute %d, never set", override_names[k]);
        CHECK_OK(get(pack, override_names[k], HIPDNN_TYPE_INT64, 1, &count, &value));
        CHECK_EQ(count, 0);
        count = 4711;
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                    get(pack, override_names[k], HIPDNN_TYPE_DOUBLE, 1, &count, &value));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                    get(pack, override_names[k], HIPDNN_TYPE_INT64, -1, &count, &value));
        CHECK_EQ(count, 4711);
    }
    check_about("%s", "");
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
    test_overrides();
    test_override_arguments();
    test_large();
    return check_result();
}
