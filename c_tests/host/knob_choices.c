/* SPDX-License-Identifier: MIT */

/*
 * Knobs from the caller to a plugin: whatever a configuration chooses reaches the plugin, which may refuse it when the plan is
 * made. cpu_knobs.c has an engine that does.
 */
#include "one_graph.h"

#include "../flatbuffer_writer.h"

#include <HipdnnBackendFlatbufferData.h>

static hipdnnBackendDescriptor_t open_choice(const char* id)
{
    hipdnnBackendDescriptor_t choice = make(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, (int64_t)strlen(id), id);
    return choice;
}

static hipdnnBackendDescriptor_t make_choice(const char* id, hipdnnBackendAttributeType_t type, int64_t count,
                                             const void* value)
{
    hipdnnBackendDescriptor_t choice = open_choice(id);
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, type, count, value);
    REQUIRE_OK(hipdnnBackendFinalize(choice));
    return choice;
}

static void put_choices(hipdnnBackendDescriptor_t config, int64_t count, hipdnnBackendDescriptor_t* choices)
{
    put(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, choices);
    for (int64_t i = 0; i < count; i++) {
        drop(choices[i]);
    }
}

static hipdnnBackendDescriptor_t plan_of(hipdnnBackendDescriptor_t config)
{
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return plan;
}

/* Finalizes a configuration and its plan: what was chosen reaches the plugin as it is, at both. */
static void expect_passed_on(hipdnnBackendDescriptor_t config, const char* knobs)
{
    char expected[1024];
    snprintf(expected, sizeof expected, " knobs=[%s]\n", knobs);
    start_recording();
    CHECK_OK(hipdnnBackendFinalize(config));
    CHECK_EQ(count_in(recorded(), "GetWorkspaceSize handle"), 1);
    CHECK_EQ(count_in(recorded(), expected), 1);
    hipdnnBackendDescriptor_t plan = plan_of(config);
    drop(config);
    CHECK_OK(hipdnnBackendFinalize(plan));
    CHECK_EQ(count_in(recorded(), "CreateExecutionContext"), 1);
    CHECK_EQ(count_in(recorded(), expected), 2);
    drop(plan);
    unsetenv("HIPDNN_STUB_LOG");
}

static void expect_choice(hipdnnBackendDescriptor_t choice, const char* knobs)
{
    hipdnnBackendDescriptor_t config = open_config(graph);
    put_choices(config, 1, &choice);
    expect_passed_on(config, knobs);
}

/* The library checks no choice, whatever the engine publishes: the plugin does. */
static void test_choices(void)
{
    const double half = 0.5;
    const double two = 2.0;
    expect_choice(make_knob_choice("count", 6), "count=6");
    expect_choice(make_knob_choice("count", 5), "count=5");
    expect_choice(make_knob_choice("count", 12), "count=12");
    expect_choice(make_choice("count", HIPDNN_TYPE_DOUBLE, 1, &half), "count=0.5");
    expect_choice(make_knob_choice("pick", 4), "pick=4");
    expect_choice(make_choice("ratio", HIPDNN_TYPE_DOUBLE, 1, &half), "ratio=0.5");
    expect_choice(make_choice("ratio", HIPDNN_TYPE_DOUBLE, 1, &two), "ratio=2");
    expect_choice(make_choice("mode", HIPDNN_TYPE_CHAR, 4, "slow"), "mode=slow");
    expect_choice(make_choice("label", HIPDNN_TYPE_CHAR, 9, "123456789"), "label=123456789");
    expect_choice(make_knob_choice("free", INT64_MIN), "free=-9223372036854775808");
    expect_choice(make_choice("bare", HIPDNN_TYPE_DOUBLE, 1, &two), "bare=2");
    expect_choice(make_knob_choice("none", 1), "none=1");
    expect_choice(make_knob_choice("odd", 1), "odd=1");
}

/* A plugin that refuses what was chosen fails the plan. */
static void test_refusal(void)
{
    start("context_fails");
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendDescriptor_t choice = make_knob_choice("none", 1);
    put_choices(config, 1, &choice);
    CHECK_OK(hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t plan = plan_of(config);
    drop(config);
    CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "the stub fails in hipdnnEnginePluginCreateExecutionContext",
                hipdnnBackendFinalize(plan));
    drop(plan);
    stop();
}

static const unsigned char* write_setting(flatbuffer* fb, const char* id, int kind, int64_t value, size_t* size)
{
    fb->used = 0;
    fb_begin(fb);
    fb_long(fb, 0, value);
    const uint32_t number = fb_end(fb);
    const uint32_t name = fb_text(fb, id);
    fb_begin(fb);
    fb_reference(fb, 0, name);
    fb_reference(fb, 2, number);
    fb_byte(fb, 1, kind);
    return fb_finish(fb, fb_end(fb), size);
}

static void test_travel(void)
{
    static flatbuffer fb;
    const double quarter = 0.25;
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendDescriptor_t choices[] = {make_choice("ratio", HIPDNN_TYPE_DOUBLE, 1, &quarter),
                                           make_choice("mode", HIPDNN_TYPE_CHAR, 5, "exact")};
    /* The last list counts. */
    hipdnnBackendDescriptor_t forgotten = make_knob_choice("count", 2);
    put_choices(config, 1, &forgotten);
    put_choices(config, 2, choices);
    hipdnnBackendFlatbufferData_t data = {NULL, 0};
    data.ptr = write_setting(&fb, "count", 1, 8, &data.size);
    put(config, HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE, HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, &data);
    memset(fb.bytes, 0xee, sizeof fb.bytes);
    expect_passed_on(config, "ratio=0.25,mode=exact,count=8");
    /* No choice: no word of knobs. */
    start_recording();
    drop(make_plan(graph));
    CHECK_EQ(count_in(recorded(), "CreateExecutionContext"), 1);
    CHECK_EQ(count_in(recorded(), "knobs="), 0);
    unsetenv("HIPDNN_STUB_LOG");
}

static hipdnnStatus_t set_choices(hipdnnBackendDescriptor_t config, int64_t count,
                                  const hipdnnBackendDescriptor_t* choices)
{
    return hipdnnBackendSetAttribute(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                     choices);
}

static hipdnnStatus_t set_data(hipdnnBackendDescriptor_t config, int64_t count,
                               const hipdnnBackendFlatbufferData_t* data)
{
    return hipdnnBackendSetAttribute(config, HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE,
                                     HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, count, data);
}

static void test_lists(void)
{
    static hipdnnBackendDescriptor_t many[1025];
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendDescriptor_t choice = make_knob_choice("count", 6);
    hipdnnBackendDescriptor_t open = open_choice("count");
    for (int64_t i = 0; i < COUNT(many); i++) {
        many[i] = choice;
    }
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set_choices(config, 1025, many));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set_choices(config, INT64_MAX, many));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set_choices(config, 0, many));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set_choices(config, -1, many));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", set_choices(config, 1, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "finalized", set_choices(config, 1, &open));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "expected a knob choice", set_choices(config, 1, &graph));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                hipdnnBackendSetAttribute(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_INT64, 1, many));
    CHECK_OK(set_choices(config, 1024, many));
    CHECK_OK(set_choices(config, 1, many));

    /* The same knob once more, as bytes */
    static flatbuffer fb;
    hipdnnBackendFlatbufferData_t data = {NULL, 0};
    data.ptr = write_setting(&fb, "count", 1, 8, &data.size);
    hipdnnBackendDescriptor_t twice = open_config(graph);
    CHECK_OK(set_choices(twice, 1, many));
    CHECK_OK(set_data(twice, 1, &data));
    expect_passed_on(twice, "count=6,count=8");
    /* Not even 1024 of one and one of the other */
    data.ptr = write_setting(&fb, "pick", 1, 8, &data.size);
    CHECK_OK(set_data(config, 1, &data));
    CHECK_OK(set_choices(config, 1024, many));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "1025 knobs of the engine configuration are set, expected at most 1024",
                hipdnnBackendFinalize(config));
    CHECK_OK(set_choices(config, 1, many));
    CHECK_OK(hipdnnBackendFinalize(config));

    /* Write only */
    int64_t count = 0;
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "KNOB_CHOICES",
                hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                          &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "KNOB_CHOICE_SERIALIZED_VALUE",
                hipdnnBackendGetAttribute(config, HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE,
                                          HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 0, &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", set_choices(config, 1, many));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", set_data(config, 1, &data));
    drop(open);
    drop(choice);
    drop(config);
}

/* Bytes that are no setting: every length too short, every byte damaged, noise */
static void test_hostile_bytes(void)
{
    static flatbuffer fb;
    static unsigned char copy[256];
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendFlatbufferData_t data = {NULL, 0};
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "ptr of an element is null", set_data(config, 1, &data));
    data.ptr = copy;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "size of an element is 0", set_data(config, 1, &data));
    data.size = SIZE_MAX;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "size of an element is", set_data(config, 1, &data));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set_data(config, 0, &data));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount", set_data(config, 1025, &data));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", set_data(config, 1, NULL));
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendSetAttribute(config, HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE, HIPDNN_TYPE_CHAR, 1, &data));

    size_t size = 0;
    const unsigned char* const good = write_setting(&fb, "count", 1, 8, &size);
    REQUIRE(size <= sizeof copy);
    memcpy(copy, good, size);
    for (size_t length = 1; length < size; length++) {
        /* Memory of exactly this size, so that sanitizers detect reads beyond. */
        unsigned char* const part = malloc(length);
        REQUIRE(part != NULL);
        memcpy(part, good, length);
        data.ptr = part;
        data.size = length;
        const hipdnnStatus_t status = set_data(config, 1, &data);
        CHECK(status == HIPDNN_STATUS_BAD_PARAM || status == HIPDNN_STATUS_SUCCESS);
        free(part);
    }
    data.ptr = copy;
    data.size = size;
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            copy[i] ^= (unsigned char)(1 << bit);
            const hipdnnStatus_t status = set_data(config, 1, &data);
            CHECK(status == HIPDNN_STATUS_BAD_PARAM || status == HIPDNN_STATUS_SUCCESS);
            copy[i] ^= (unsigned char)(1 << bit);
        }
    }
    CHECK_OK(set_data(config, 1, &data));
    data.ptr = write_setting(&fb, "count", 9, 8, &data.size);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "\"count\" has no value of a known kind", set_data(config, 1, &data));
    data.ptr = write_setting(&fb, "", 1, 8, &data.size);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "0 bytes, expected 1 to 4096", set_data(config, 1, &data));
    /* None of the failures took anything away. */
    CHECK_OK(hipdnnBackendFinalize(config));
    drop(config);
}

int main(void)
{
    start("knobs");
    test_choices();
    test_travel();
    test_lists();
    test_hostile_bytes();
    stop();

    /* Engines without a knob, of a plugin of today and one of November 2025 */
    static const char* const plain[] = {"good", "g1"};
    for (int64_t i = 0; i < COUNT(plain); i++) {
        start(plain[i]);
        expect_choice(make_knob_choice("count", 6), "count=6");
        stop();
    }
    test_refusal();
    return check_result();
}
