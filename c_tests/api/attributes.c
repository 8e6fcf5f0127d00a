/* SPDX-License-Identifier: MIT */

/*
 * Every attribute of every kind of descriptor x {set, get} x {right, wrong type, wrong count, null, wrong state}, and
 * every number that is not an attribute of the kind.
 *
 * The variant pack has its own rules, which variant_pack.c tests.
 */
#include "attribute_table.h"

#include <limits.h>

/* Attributes with tests of their own (results, workspace sizes, operation type, tensor value), and those of features that
 * may come and go independently of the rules tested here. */
static bool is_tested_elsewhere(hipdnnBackendDescriptorType_t type, int name)
{
    switch ((int)type) {
    case HIPDNN_BACKEND_TENSOR_DESCRIPTOR:
        return name == HIPDNN_ATTR_TENSOR_VALUE_EXT || name == HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC ||
               name == HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER;
    case HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return false;
    case HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return name == HIPDNN_ATTR_ENGINEHEUR_RESULTS ||
               (name >= HIPDNN_ATTR_ENGINEHEUR_FIND_FIRST_EXT && name <= HIPDNN_ATTR_ENGINEHEUR_RANKING_METRIC_EXT);
    case HIPDNN_BACKEND_ENGINE_DESCRIPTOR:
        return name == HIPDNN_ATTR_ENGINE_KNOB_INFO || name == HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE ||
               name == HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE ||
               (name >= HIPDNN_ATTR_ENGINE_NAME_EXT && name <= HIPDNN_ATTR_ENGINE_PREDICTION_METRIC_EXT) ||
               name == HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE;
    case HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return (name >= HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES && name <= HIPDNN_ATTR_ENGINECFG_RANKING_METRIC_EXT) ||
               (name >= HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT &&
                name <= HIPDNN_ATTR_ENGINECFG_CHOSEN_KNOBS_EXT) ||
               name == HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE;
    case HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR:
        return name == HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING || name == HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH;
    case HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return name == HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE ||
               name == HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    default: return name == HIPDNN_ATTR_OPERATION_TYPE_EXT;
    }
}

static hipdnnBackendDescriptor_t make_finalized(const kind* k)
{
    hipdnnBackendDescriptor_t descriptor = make(k->type);
    for (int64_t i = 0; i < k->count; i++) {
        const attribute* a = &k->attributes[i];
        if (a->settable) {
            put(descriptor, a->name, a->type, a->count, a->value);
        }
    }
    REQUIRE_OK(hipdnnBackendFinalize(descriptor));
    return descriptor;
}

static hipdnnStatus_t set(hipdnnBackendDescriptor_t d, const attribute* a, int64_t count, const void* value)
{
    return hipdnnBackendSetAttribute(d, a->name, a->type, count, value);
}

/* Type numbers: all defined ones, and two undefined ones */
static const int TYPES[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,    16,    17, 18,
                            19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, -1, 10000, 10001, 999};

/* The value of a knob is of one of several types. */
static bool also_takes(const attribute* a, int type)
{
    switch ((int)a->name) {
    case HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE:
    case HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE: return type == HIPDNN_TYPE_DOUBLE || type == HIPDNN_TYPE_CHAR;
    case HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE:
    case HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE: return type == HIPDNN_TYPE_DOUBLE;
    default: return false;
    }
}

static void test_set(const kind* k, const attribute* a)
{
    hipdnnBackendDescriptor_t open = make(k->type);
    /* As large as any value here, in case a wrong type is taken for the right one. */
    int64_t zeros[8] = {0};
    if (!a->settable) {
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "HIPDNN_ATTR_", set(open, a, a->count, a->value));
        drop(open);
        return;
    }
    for (int64_t i = 0; i < COUNT(TYPES); i++) {
        if (TYPES[i] != (int)a->type && !also_takes(a, TYPES[i])) {
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                        hipdnnBackendSetAttribute(open, a->name, (hipdnnBackendAttributeType_t)TYPES[i], 1, zeros));
        }
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(open, a, -1, a->value));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(open, a, INT64_MIN, a->value));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(open, a, INT64_MAX, a->value));
    if (a->shape == ONE || a->shape == MANY) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(open, a, 0, a->value));
    }
    if (a->shape == ONE) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set(open, a, 2, a->value));
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", set(open, a, a->count, NULL));
    if (a->type == HIPDNN_TYPE_BACKEND_DESCRIPTOR || a->type == HIPDNN_TYPE_HANDLE) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "null", set(open, a, 1, zeros));
    }
    CHECK_OK(set(open, a, a->count, a->value));
    CHECK_OK(set(open, a, a->count, a->value));
    drop(open);
}

static void test_enum_values(const kind* k, const attribute* a)
{
    const int unknown[] = {-1, 255, 1000, INT_MAX, INT_MIN};
    /* The types of the enumerations of operations follow each other, but for two. */
    if (a->type != HIPDNN_TYPE_DATA_TYPE && a->type != HIPDNN_TYPE_NORM_FWD_PHASE &&
        (a->type < HIPDNN_TYPE_CONVOLUTION_MODE || a->type > HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE)) {
        return;
    }
    hipdnnBackendDescriptor_t open = make(k->type);
    for (int64_t i = 0; i < COUNT(unknown); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "HIPDNN_ATTR_", set(open, a, 1, &unknown[i]));
    }
    drop(open);
}

static hipdnnStatus_t get(hipdnnBackendDescriptor_t d, const attribute* a, int64_t requested, int64_t* count, void* to)
{
    return hipdnnBackendGetAttribute(d, a->name, a->type, requested, count, to);
}

static bool is_untouched(const unsigned char* bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0xa5) {
            return false;
        }
    }
    return true;
}

static void test_get_fails(hipdnnBackendDescriptor_t d, const attribute* a, hipdnnStatus_t status, const char* part)
{
    unsigned char bytes[256];
    int64_t count = 4711;
    memset(bytes, 0xa5, sizeof bytes);
    CHECK_FAILS(status, part, get(d, a, 1, &count, bytes));
    CHECK(count == 4711 && is_untouched(bytes, sizeof bytes));
}

static void test_get(const kind* k, hipdnnBackendDescriptor_t finalized, const attribute* a)
{
    unsigned char bytes[256];
    int64_t count = 4711;
    const bool is_child = a->type == HIPDNN_TYPE_BACKEND_DESCRIPTOR;
    const int64_t total = a->count + (a->shape == TEXT ? 1 : 0);
    (void)k;
    if (a->reading == UNREADABLE) {
        test_get_fails(finalized, a, HIPDNN_STATUS_NOT_SUPPORTED, "HIPDNN_ATTR_");
        return;
    }
    memset(bytes, 0xa5, sizeof bytes);
    for (int64_t i = 0; i < COUNT(TYPES); i++) {
        if (TYPES[i] != (int)a->type) {
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                        hipdnnBackendGetAttribute(finalized, a->name, (hipdnnBackendAttributeType_t)TYPES[i], 1, &count,
                                                  bytes));
        }
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount", get(finalized, a, -1, &count, bytes));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount", get(finalized, a, INT64_MIN, &count, bytes));
    if (a->reading == EXACTLY) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount", get(finalized, a, 0, &count, bytes));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount", get(finalized, a, 2, &count, bytes));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", get(finalized, a, 1, &count, NULL));
        CHECK(count == 4711);
    } else {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount", get(finalized, a, 0, NULL, NULL));
        CHECK(count == 4711);
        CHECK_OK(get(finalized, a, 0, &count, NULL));
        CHECK_EQ(count, total);
        count = 4711;
        CHECK_OK(get(finalized, a, 0, &count, bytes));
        CHECK_EQ(count, total);
        count = 4711;
        if (a->shape == ONE) {
            CHECK_OK(get(finalized, a, 5, &count, NULL));
            CHECK_EQ(count, total);
        } else {
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", get(finalized, a, 1, &count, NULL));
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", get(finalized, a, 5, &count, NULL));
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                        get(finalized, a, INT64_MAX, NULL, NULL));
            CHECK_EQ(count, 4711);
        }
    }
    CHECK(is_untouched(bytes, sizeof bytes));

    /* The value, and not a byte more */
    count = 4711;
    CHECK_OK(get(finalized, a, total, &count, bytes));
    CHECK_EQ(count, total);
    const size_t size = (size_t)total * a->size;
    CHECK(is_untouched(bytes + size, sizeof bytes - size));
    if (is_child) {
        hipdnnBackendDescriptor_t first = NULL;
        hipdnnBackendDescriptor_t second = NULL;
        memcpy(&first, bytes, sizeof first);
        CHECK_OK(get(finalized, a, 1, NULL, &second));
        CHECK(first != NULL && second != NULL && first != second);
        const int64_t zero = 0;
        CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                    hipdnnBackendSetAttribute(first, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &zero));
        drop(first);
        drop(second);
    } else {
        CHECK(memcmp(bytes, a->value, (size_t)a->count * a->size) == 0);
        CHECK(a->shape != TEXT || bytes[a->count] == '\0');
        memset(bytes, 0xa5, sizeof bytes);
        CHECK_OK(get(finalized, a, a->reading == EXACTLY ? 1 : total, NULL, bytes));
        CHECK(memcmp(bytes, a->value, (size_t)a->count * a->size) == 0);
    }
    if (a->shape == MANY && !is_child) {
        /* Less room than there are elements */
        memset(bytes, 0xa5, sizeof bytes);
        CHECK_OK(get(finalized, a, 1, &count, bytes));
        CHECK_EQ(count, 1);
        CHECK(memcmp(bytes, a->value, a->size) == 0 && is_untouched(bytes + a->size, sizeof bytes - a->size));
        /* More room */
        CHECK_OK(get(finalized, a, 20, &count, bytes));
        CHECK_EQ(count, total);
    }
    if (a->shape == TEXT) {
        memset(bytes, 0xa5, sizeof bytes);
        CHECK_OK(get(finalized, a, 4, &count, bytes));
        CHECK_EQ(count, 4);
        CHECK(memcmp(bytes, a->value, 3) == 0 && bytes[3] == '\0' && is_untouched(bytes + 4, sizeof bytes - 4));
    }
}

static void test_state(const kind* k, hipdnnBackendDescriptor_t finalized)
{
    hipdnnBackendDescriptor_t open = make(k->type);
    for (int64_t i = 0; i < k->count; i++) {
        const attribute* a = &k->attributes[i];
        check_about("%s, attribute %d", k->name, (int)a->name);
        CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", set(finalized, a, a->count, a->value));
        if (k->open_get != HIPDNN_STATUS_SUCCESS) {
            test_get_fails(open, a, k->open_get, "finalized");
        }
    }
    check_about("%s, finalized twice", k->name);
    if (k->once) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "finalized", hipdnnBackendFinalize(finalized));
    } else {
        CHECK_OK(hipdnnBackendFinalize(finalized));
    }
    drop(open);
}

static bool has(const kind* k, int name)
{
    for (int64_t i = 0; i < k->count; i++) {
        if ((int)k->attributes[i].name == name) {
            return true;
        }
    }
    return false;
}

static void test_foreign_attribute(const kind* k, hipdnnBackendDescriptor_t open, hipdnnBackendDescriptor_t finalized,
                                   int name)
{
    const attribute foreign = {
        (hipdnnBackendAttributeName_t)name, HIPDNN_TYPE_INT64, ONE, false, UNREADABLE, &uid, 1, sizeof uid};
    check_about("%s, foreign attribute %d", k->name, name);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "attributeName", set(open, &foreign, 1, &uid));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", set(finalized, &foreign, 1, &uid));
    test_get_fails(finalized, &foreign, HIPDNN_STATUS_NOT_SUPPORTED, "attributeName");
}

static void test_foreign_attributes(const kind* k, hipdnnBackendDescriptor_t finalized)
{
    hipdnnBackendDescriptor_t open = make(k->type);
    for (int name = -1; name < 60500; name = name == 3900 ? 60000 : name + 1) {
        if (!has(k, name) && !is_tested_elsewhere(k->type, name)) {
            test_foreign_attribute(k, open, finalized, name);
        }
    }
    test_foreign_attribute(k, open, finalized, INT_MAX);
    test_foreign_attribute(k, open, finalized, INT_MIN);
    drop(open);
}

int main(void)
{
    handle = make_handle();
    tensor = make_tensor(5, 2, 3, 4, 4, false);
    operation = open_single_convolution();
    REQUIRE_OK(hipdnnBackendFinalize(operation));
    graph = make_graph(handle);
    engine_id = best_engine_id(graph);
    engine = open_engine(graph);
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    config = open_config(graph);
    REQUIRE_OK(hipdnnBackendFinalize(config));

    for (int64_t i = 0; i < COUNT(KINDS); i++) {
        const kind* k = &KINDS[i];
        check_about("%s", k->name);
        hipdnnBackendDescriptor_t finalized = make_finalized(k);
        for (int64_t j = 0; j < k->count; j++) {
            const attribute* a = &k->attributes[j];
            check_about("%s, attribute %d", k->name, (int)a->name);
            test_set(k, a);
            test_enum_values(k, a);
            test_get(k, finalized, a);
        }
        test_state(k, finalized);
        test_foreign_attributes(k, finalized);
        drop(finalized);
    }
    check_about("%s", "");
    drop(config);
    drop(engine);
    drop(graph);
    drop(operation);
    drop(tensor);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
