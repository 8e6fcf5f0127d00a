/* SPDX-License-Identifier: MIT */

/* What engines may do to numbers: their notes, and knobs that are set for notes. host/notes.c has what plugins may get wrong. */
#include "../plan_text.h"

enum { ROOM = 32 };

static const int64_t CPU_ENGINE = (int64_t)UINT64_C(0xfa9419aaf1757ef8);

static int64_t read_notes(hipdnnBackendDescriptor_t from, hipdnnBackendAttributeName_t name, int32_t notes[ROOM])
{
    int64_t size = -1;
    int64_t count = -1;
    CHECK_OK(hipdnnBackendGetAttribute(from, name, HIPDNN_TYPE_NUMERICAL_NOTE, 0, &size, NULL));
    CHECK_OK(hipdnnBackendGetAttribute(from, name, HIPDNN_TYPE_NUMERICAL_NOTE, ROOM, &count, notes));
    CHECK(size == count && count >= 0 && count < ROOM);
    return count;
}

static bool has(hipdnnBackendDescriptor_t from, hipdnnBackendAttributeName_t name, int32_t note)
{
    int32_t notes[ROOM] = {0};
    const int64_t count = read_notes(from, name, notes);
    for (int64_t i = 0; i < count; i++) {
        if (notes[i] == note) {
            return true;
        }
    }
    return false;
}

static void set_notes(hipdnnBackendDescriptor_t config, bool wanted, int64_t count, const int32_t* notes)
{
    put(config,
        wanted ? HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT : HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT,
        HIPDNN_TYPE_NUMERICAL_NOTE, count, notes);
}

/* The knobs of a configuration, one after the other: "id=value " */
static void read_knobs(hipdnnBackendDescriptor_t config, char* text, size_t room)
{
    hipdnnBackendDescriptor_t choices[8] = {NULL};
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_CHOSEN_KNOBS_EXT, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                       0, &count, NULL));
    REQUIRE(count >= 0 && count <= COUNT(choices));
    text[0] = '\0';
    if (count == 0) {
        return;
    }
    CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_CHOSEN_KNOBS_EXT, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                       count, &count, choices));
    for (int64_t i = 0; i < count; i++) {
        char id[64] = "";
        int64_t value = 0;
        int64_t length = 0;
        CHECK_OK(hipdnnBackendGetAttribute(choices[i], HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, 63, &length,
                                           id));
        CHECK_OK(hipdnnBackendGetAttribute(choices[i], HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, 1,
                                           &length, &value));
        const size_t used = strlen(text);
        snprintf(text + used, room - used, "%s=%lld ", id, (long long)value);
        drop(choices[i]);
    }
}

static void test_engine(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t engine = open_engine(graph);
    int32_t notes[ROOM] = {0};
    int64_t count = 4711;
    const hipdnnBackendAttributeName_t name = HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE;
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE",
                hipdnnBackendSetAttribute(engine, name, HIPDNN_TYPE_NUMERICAL_NOTE, 1, notes));
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                hipdnnBackendGetAttribute(engine, name, HIPDNN_TYPE_INT32, ROOM, &count, notes));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount",
                hipdnnBackendGetAttribute(engine, name, HIPDNN_TYPE_NUMERICAL_NOTE, 1, &count, notes));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                hipdnnBackendGetAttribute(engine, name, HIPDNN_TYPE_NUMERICAL_NOTE, ROOM, &count, NULL));
    CHECK_EQ(count, 4711);
    CHECK(has(engine, name, HIPDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    CHECK(!has(engine, name, HIPDNN_NUMERICAL_NOTE_FFT));
    const int64_t found = read_notes(engine, name, notes);
    for (int64_t i = 1; i < found; i++) {
        CHECK(notes[i - 1] < notes[i]);
    }
    drop(engine);
}

static void test_arguments(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t config = open_config(graph);
    const hipdnnBackendAttributeName_t names[] = {HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT,
                                                  HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT};
    const int32_t notes[] = {HIPDNN_NUMERICAL_NOTE_FFT, 10, -1, 999};
    for (int64_t i = 0; i < COUNT(names); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                    hipdnnBackendSetAttribute(config, names[i], HIPDNN_TYPE_INT32, 1, notes));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount",
                    hipdnnBackendSetAttribute(config, names[i], HIPDNN_TYPE_NUMERICAL_NOTE, 0, notes));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                    hipdnnBackendSetAttribute(config, names[i], HIPDNN_TYPE_NUMERICAL_NOTE, 1, NULL));
        for (int64_t wrong = 1; wrong < COUNT(notes); wrong++) {
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "hipdnnBackendNumericalNote_t",
                        hipdnnBackendSetAttribute(config, names[i], HIPDNN_TYPE_NUMERICAL_NOTE, 1, &notes[wrong]));
        }
    }
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "HIPDNN_ATTR_ENGINECFG_NUMERICAL_NOTES_EXT",
                hipdnnBackendSetAttribute(config, HIPDNN_ATTR_ENGINECFG_NUMERICAL_NOTES_EXT, HIPDNN_TYPE_NUMERICAL_NOTE,
                                          1, notes));
    /* What was refused counts for nothing. */
    REQUIRE_OK(hipdnnBackendFinalize(config));
    drop(config);
}

static void test_selection(hipdnnBackendDescriptor_t graph)
{
    const int32_t nondeterministic = HIPDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    const int32_t fft = HIPDNN_NUMERICAL_NOTE_FFT;
    char knobs[256];

    /* Without notes, and with one that no engine has, nothing is set. */
    hipdnnBackendDescriptor_t config = open_config(graph);
    set_notes(config, false, 1, &fft);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    read_knobs(config, knobs, sizeof knobs);
    CHECK_STR(knobs, "");
    CHECK(has(config, HIPDNN_ATTR_ENGINECFG_NUMERICAL_NOTES_EXT, nondeterministic));
    drop(config);

    config = open_config(graph);
    set_notes(config, false, 1, &nondeterministic);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    read_knobs(config, knobs, sizeof knobs);
    CHECK_STR(knobs, "deterministic=1 ");
    CHECK(!has(config, HIPDNN_ATTR_ENGINECFG_NUMERICAL_NOTES_EXT, nondeterministic));
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    char* const text = plan_text(plan);
    CHECK_CONTAINS(text, "\"knobs\":{\"deterministic\":1}");
    CHECK_CONTAINS(text, "\"numerics\":{\"accumulators\":[\"float\"]");
    CHECK_CONTAINS(text, "\"numerical_notes\":[");
    CHECK(strstr(text, "NONDETERMINISTIC") == NULL);
    free(text);
    drop(plan);
    drop(config);

    /* What the program sets itself stays, and is named. */
    config = open_config(graph);
    hipdnnBackendDescriptor_t choice = make_knob_choice("deterministic", 0);
    put(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &choice);
    set_notes(config, false, 1, &nondeterministic);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "knob \"deterministic\" = 1 would change that",
                hipdnnBackendFinalize(config));
    drop(choice);
    drop(config);

    /* No engine has it, nor a knob for it; the configuration stays open. */
    config = open_config(graph);
    set_notes(config, true, 1, &fft);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "does not have the note FFT, which is selected",
                hipdnnBackendFinalize(config));
    set_notes(config, true, 1, &nondeterministic);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    drop(config);
}

int main(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    test_arguments(graph);
    /* Other engines have notes of their own. */
    if (best_engine_id(graph) == CPU_ENGINE) {
        test_engine(graph);
        test_selection(graph);
    }
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
