/* SPDX-License-Identifier: MIT */

/* The operations: their type, finalize's requirements, and unset optional attributes. */
#include "attribute_table.h"

typedef struct {
    hipdnnBackendDescriptorType_t descriptor;
    hipdnnOperationType_ext_t type;
} operation_type;

#define TYPES_OF(name, descriptor, type, compute_type) {descriptor, type},
static const operation_type OPERATION_TYPES[] = {OPERATIONS(TYPES_OF)};

static const kind* kind_of(hipdnnBackendDescriptorType_t type)
{
    for (int64_t i = 0; i < COUNT(KINDS); i++) {
        if (KINDS[i].type == type) {
            return &KINDS[i];
        }
    }
    return NULL;
}

/* A block has to have elements, which the number of them does not say when it was never set. */
static bool is_block_size(const attribute* a)
{
    return a->name == HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE;
}

/* The operation with only its required attributes, and with one of them missing. */
static hipdnnBackendDescriptor_t open_operation(const kind* k, const attribute* missing)
{
    hipdnnBackendDescriptor_t open = make(k->type);
    for (int64_t i = 0; i < k->count; i++) {
        const attribute* a = &k->attributes[i];
        if (a != missing && (a->settable == REQUIRED || is_block_size(a))) {
            put(open, a->name, a->type, a->count, a->value);
        }
    }
    return open;
}

static void test_requirements(const kind* k)
{
    for (int64_t i = 0; i < k->count; i++) {
        const attribute* a = &k->attributes[i];
        if (a->settable != REQUIRED && !is_block_size(a)) {
            continue;
        }
        check_about("%s without %d", k->name, (int)a->name);
        hipdnnBackendDescriptor_t open = open_operation(k, a);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, is_block_size(a) ? "block_size" : "HIPDNN_ATTR_",
                    hipdnnBackendFinalize(open));
        /* It stays open, and can be completed. */
        put(open, a->name, a->type, a->count, a->value);
        CHECK_OK(hipdnnBackendFinalize(open));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "finalized", hipdnnBackendFinalize(open));
        drop(open);
    }
}

static void test_type(const operation_type* expected)
{
    hipdnnBackendDescriptor_t some = open_operation(kind_of(expected->descriptor), NULL);
    hipdnnOperationType_ext_t type = HIPDNN_OPERATION_TYPE_NOT_SET_EXT;
    int64_t count = 0;
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                hipdnnBackendGetAttribute(some, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1,
                                          &count, &type));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "OPERATION_TYPE",
                hipdnnBackendSetAttribute(some, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1,
                                          &expected->type));
    CHECK_OK(hipdnnBackendFinalize(some));
    CHECK_OK(hipdnnBackendGetAttribute(some, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1, &count,
                                       &type));
    CHECK(count == 1 && type == expected->type);
    drop(some);
}

/* What was never set and has no default: no elements, and nothing is written. */
static void test_never_set(hipdnnBackendDescriptor_t finalized, const attribute* a)
{
    unsigned char untouched[sizeof(int64_t)];
    unsigned char expected[sizeof untouched];
    int64_t count = 4711;
    memset(untouched, 0xa5, sizeof untouched);
    memset(expected, 0xa5, sizeof expected);
    CHECK_OK(hipdnnBackendGetAttribute(finalized, a->name, a->type, 1, &count, untouched));
    CHECK_EQ(count, 0);
    CHECK(memcmp(untouched, expected, sizeof expected) == 0);
}

/* A tensor that was set is returned as a new descriptor with the same content. */
static hipdnnBackendDescriptor_t test_tensor(hipdnnBackendDescriptor_t finalized, const attribute* a)
{
    hipdnnBackendDescriptor_t got = NULL;
    int64_t count = 0;
    int64_t got_uid = 0;
    CHECK_OK(hipdnnBackendGetAttribute(finalized, a->name, a->type, 1, &count, &got));
    CHECK(got != NULL && got != tensor);
    CHECK_OK(hipdnnBackendGetAttribute(got, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &count, &got_uid));
    CHECK_EQ(got_uid, 5);
    return got;
}

static void test_reading(const kind* k)
{
    hipdnnBackendDescriptor_t some = open_operation(k, NULL);
    hipdnnBackendDescriptor_t got = NULL;
    CHECK_OK(hipdnnBackendFinalize(some));
    for (int64_t i = 0; i < k->count; i++) {
        const attribute* a = &k->attributes[i];
        check_about("%s, attribute %d", k->name, (int)a->name);
        if (a->settable == OPTIONAL) {
            test_never_set(some, a);
        } else if (a->settable == REQUIRED && a->type == HIPDNN_TYPE_BACKEND_DESCRIPTOR && got == NULL) {
            got = test_tensor(some, a);
        }
    }
    drop(some);
    if (got != NULL) {
        /* The operation is destroyed, the descriptors it returned are not. */
        int64_t count = 0;
        int64_t got_uid = 0;
        CHECK_OK(hipdnnBackendGetAttribute(got, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &count, &got_uid));
        drop(got);
    }
}

int main(void)
{
    tensor = make_tensor(5, 2, 3, 4, 4, false);
    for (int64_t i = 0; i < COUNT(OPERATION_TYPES); i++) {
        const kind* k = kind_of(OPERATION_TYPES[i].descriptor);
        REQUIRE(k != NULL);
        test_requirements(k);
        check_about("%s", k->name);
        test_type(&OPERATION_TYPES[i]);
        test_reading(k);
    }
    check_about("%s", "");
    drop(tensor);
    return check_result();
}
