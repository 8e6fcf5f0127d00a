/* SPDX-License-Identifier: MIT */

/*
 * Knobs and notes as an engine publishes them: what can be read of them. knob_choices.c goes the other way, and defects.c has
 * the plugins whose knobs make no sense.
 */
#include "one_graph.h"

#include <HipdnnBackendFlatbufferData.h>

static hipdnnBackendDescriptor_t make_engine(void)
{
    hipdnnBackendDescriptor_t engine = open_engine(graph);
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    return engine;
}

static int64_t count_of(hipdnnBackendDescriptor_t d, hipdnnBackendAttributeName_t name,
                        hipdnnBackendAttributeType_t type)
{
    int64_t count = 4711;
    CHECK_OK(hipdnnBackendGetAttribute(d, name, type, 0, &count, NULL));
    return count;
}

static const char* text_of(hipdnnBackendDescriptor_t knob, hipdnnBackendAttributeName_t name)
{
    static char text[256];
    text[0] = '\0';
    CHECK_OK(hipdnnBackendGetAttribute(knob, name, HIPDNN_TYPE_CHAR, sizeof text, NULL, text));
    return text;
}

static int64_t int_of(hipdnnBackendDescriptor_t knob, hipdnnBackendAttributeName_t name)
{
    int64_t value = 4711;
    CHECK_OK(hipdnnBackendGetAttribute(knob, name, HIPDNN_TYPE_INT64, 1, NULL, &value));
    return value;
}

static double double_of(hipdnnBackendDescriptor_t knob, hipdnnBackendAttributeName_t name)
{
    double value = 4711.0;
    CHECK_OK(hipdnnBackendGetAttribute(knob, name, HIPDNN_TYPE_DOUBLE, 1, NULL, &value));
    return value;
}

static void test_infos(hipdnnBackendDescriptor_t engine)
{
    static const char* const ids[] = {"count", "pick", "ratio", "mode", "label", "free", "bare"};
    hipdnnBackendDescriptor_t knobs[8] = {NULL};
    int64_t count = 0;
    CHECK_EQ(count_of(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR), COUNT(ids));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "expected at least 7",
                hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 6,
                                          &count, knobs));
    CHECK(knobs[0] == NULL);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_INT64, 8, &count, knobs));
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 8, &count,
                                       knobs));
    REQUIRE(count == COUNT(ids));
    CHECK(knobs[7] == NULL);
    for (int i = 0; i < COUNT(ids); i++) {
        CHECK_STR(text_of(knobs[i], HIPDNN_ATTR_KNOB_INFO_TYPE), ids[i]);
        bool deprecated = false;
        CHECK_OK(hipdnnBackendGetAttribute(knobs[i], HIPDNN_ATTR_KNOB_INFO_DEPRECATED, HIPDNN_TYPE_BOOLEAN, 1, NULL,
                                           &deprecated));
        CHECK_EQ(deprecated, i == 6);
        CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                    hipdnnBackendSetAttribute(knobs[i], HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, 1, "x"));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "finalized", hipdnnBackendFinalize(knobs[i]));
    }
    CHECK_STR(text_of(knobs[0], HIPDNN_ATTR_KNOB_INFO_DESCRIPTION), "How many.");
    CHECK_EQ(int_of(knobs[0], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE), 4);
    CHECK_EQ(int_of(knobs[0], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE), HIPDNN_TYPE_INT64);
    CHECK_EQ(int_of(knobs[0], HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE), 2);
    CHECK_EQ(int_of(knobs[0], HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE), 10);
    CHECK_EQ(int_of(knobs[0], HIPDNN_ATTR_KNOB_INFO_STRIDE), 2);
    CHECK_EQ(count_of(knobs[0], HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, HIPDNN_TYPE_INT64), 0);
    int64_t picks[3] = {0};
    CHECK_OK(hipdnnBackendGetAttribute(knobs[1], HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, HIPDNN_TYPE_INT64, 3, &count,
                                       picks));
    CHECK(count == 3 && picks[0] == 3 && picks[1] == 5 && picks[2] == 8);
    /* Bounds that are both 0 count as unset. */
    CHECK_EQ(count_of(knobs[1], HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, HIPDNN_TYPE_INT64), 0);
    CHECK_EQ(count_of(knobs[5], HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, HIPDNN_TYPE_INT64), 0);
    CHECK_EQ(int_of(knobs[5], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE), -1);
    CHECK_EQ(int_of(knobs[2], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE), HIPDNN_TYPE_DOUBLE);
    CHECK(double_of(knobs[2], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE) == 0.5);
    CHECK(double_of(knobs[2], HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE) == 0.0);
    CHECK(double_of(knobs[2], HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE) == 1.0);
    CHECK_EQ(int_of(knobs[3], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE), HIPDNN_TYPE_CHAR);
    CHECK_STR(text_of(knobs[3], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE), "fast");
    char modes[16] = "";
    CHECK_OK(hipdnnBackendGetAttribute(knobs[3], HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR, 16,
                                       &count, modes));
    CHECK(count == 11 && memcmp(modes, "fast\0exact", 11) == 0);
    CHECK_EQ(count_of(knobs[3], HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32), 0);
    int32_t length = 0;
    CHECK_OK(hipdnnBackendGetAttribute(knobs[4], HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32, 1, NULL,
                                       &length));
    CHECK_EQ(length, 8);
    CHECK(double_of(knobs[6], HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE) == 0.25);
    for (int i = 0; i < COUNT(ids); i++) {
        drop(knobs[i]);
    }
}

/* Each root is a Knob; the first field is its id. */
static void test_serialized(hipdnnBackendDescriptor_t engine)
{
    hipdnnBackendFlatbufferData_t knobs[8] = {{NULL, 0}};
    int64_t count = 0;
    CHECK_EQ(count_of(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE, HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT), 7);
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, &count, knobs));
    CHECK(count == 1 && knobs[0].ptr != NULL && knobs[1].ptr == NULL);
    const void* const first = knobs[0].ptr;
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 8, &count, knobs));
    CHECK(count == 7 && knobs[0].ptr == first && knobs[7].ptr == NULL);
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE, HIPDNN_TYPE_CHAR, 8, &count, knobs));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE,
                                          HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 8, &count, NULL));
    const unsigned char* const bytes = knobs[3].ptr;
    uint32_t root = 0;
    int32_t back = 0;
    uint16_t at = 0;
    uint32_t text = 0;
    memcpy(&root, bytes, 4);
    memcpy(&back, bytes + root, 4);
    memcpy(&at, bytes + root - back + 4, 2);
    REQUIRE(at != 0 && root + at + 4 <= knobs[3].size);
    memcpy(&text, bytes + root + at, 4);
    CHECK_STR((const char*)bytes + root + at + text + 4, "mode");
}

static void test_notes(hipdnnBackendDescriptor_t engine, int64_t expected, const int32_t* values)
{
    int32_t notes[8] = {-7, -7, -7, -7, -7, -7, -7, -7};
    int64_t count = 0;
    CHECK_EQ(count_of(engine, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE), expected);
    if (expected > 1) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                    hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE,
                                              expected - 1, &count, notes));
    }
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_INT32, 8, &count, notes));
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE, 8, &count,
                                       notes));
    CHECK_EQ(count, expected);
    CHECK(memcmp(notes, values, (size_t)expected * sizeof notes[0]) == 0 && notes[expected] == -7);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE, 8,
                                          &count, NULL));
}

/* Missing attributes, and attributes that cannot be set */
static void test_engine_rest(hipdnnBackendDescriptor_t engine)
{
    const int64_t zero = 0;
    const int missing[] = {1003, 1004, 1006, 1007, 1009, 1011, 1012, 1013, 1014};
    const int readable[] = {1002, 1005, 1008, 1010, 60000};
    hipdnnBackendDescriptor_t open = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    unsigned char bytes[64];
    for (int64_t i = 0; i < COUNT(missing); i++) {
        const hipdnnBackendAttributeName_t name = (hipdnnBackendAttributeName_t)missing[i];
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "HIPDNN_ATTR_ENGINE_",
                    hipdnnBackendGetAttribute(engine, name, HIPDNN_TYPE_INT64, 1, &count, bytes));
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "HIPDNN_ATTR_ENGINE_",
                    hipdnnBackendSetAttribute(open, name, HIPDNN_TYPE_INT64, 1, &zero));
    }
    for (int64_t i = 0; i < COUNT(readable); i++) {
        const hipdnnBackendAttributeName_t name = (hipdnnBackendAttributeName_t)readable[i];
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "HIPDNN_ATTR_",
                    hipdnnBackendSetAttribute(open, name, HIPDNN_TYPE_INT64, 1, &zero));
        CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized",
                    hipdnnBackendGetAttribute(open, name, HIPDNN_TYPE_INT64, 1, &count, bytes));
    }
    drop(open);
    hipdnnBackendFlatbufferData_t prediction = {NULL, 0};
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_PREDICTION_EXT,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, &count, &prediction));
    CHECK(count == 1 && prediction.ptr != NULL && prediction.size > 16);
}

static void test_predictions(void)
{
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    hipdnnBackendFlatbufferData_t before = {NULL, 0};
    hipdnnBackendFlatbufferData_t after = {NULL, 0};
    unsigned char copy[256];
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_PREDICTION_EXT,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, &count, &before));
    REQUIRE(count == 1 && before.ptr != NULL && before.size <= sizeof copy);
    memcpy(copy, before.ptr, before.size);
    hipdnnBackendDescriptor_t engine = make_engine();
    put_descriptor(config, HIPDNN_ATTR_ENGINECFG_ENGINE, engine);
    drop(engine);
    CHECK_OK(hipdnnBackendFinalize(config));
    CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_PREDICTION_EXT,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, &count, &after));
    /* What was read first is still there; it was of no engine. */
    CHECK(after.ptr != before.ptr && memcmp(copy, before.ptr, before.size) == 0);
    CHECK(after.size != before.size || memcmp(after.ptr, before.ptr, after.size) != 0);
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_PREDICTION_EXT, HIPDNN_TYPE_CHAR, 1, &count, &after));
    drop(config);
}

int main(void)
{
    static const int32_t notes[] = {0, 3, 4, 77};
    static const int32_t one_note[] = {2};
    start("knobs");
    hipdnnBackendDescriptor_t engine = make_engine();
    test_infos(engine);
    test_serialized(engine);
    test_notes(engine, 4, notes);
    test_engine_rest(engine);
    drop(engine);
    test_predictions();
    stop();

    start("notes_only");
    engine = make_engine();
    CHECK_EQ(count_of(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR), 0);
    test_notes(engine, 1, one_note);
    drop(engine);
    stop();

    /* Details that are nothing but an id, of a plugin of today and one of November 2025 */
    static const char* const plain[] = {"good", "g1"};
    for (int64_t i = 0; i < COUNT(plain); i++) {
        start(plain[i]);
        engine = make_engine();
        CHECK_EQ(count_of(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR), 0);
        CHECK_EQ(count_of(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE, HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT), 0);
        CHECK_EQ(count_of(engine, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE), 0);
        drop(engine);
        stop();
    }
    return check_result();
}
