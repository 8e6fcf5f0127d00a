/* SPDX-License-Identifier: MIT */

/* Numerical notes of plugins: the library passes valid ones on, refuses others alone, and sets knobs for those that a program wants. */
#include "host.h"

static const int32_t WINOGRAD = HIPDNN_NUMERICAL_NOTE_WINOGRAD;

typedef struct {
    const char* plugin;
    hipdnnStatus_t status;
    const char* said; /* of a failure */
} row;

static const row ROWS[] = {
    {"notes", HIPDNN_STATUS_SUCCESS, NULL},
    {"good", HIPDNN_STATUS_NOT_SUPPORTED, "engine STUB_ENGINE does not say what it does to numbers"},
    {"g1", HIPDNN_STATUS_NOT_SUPPORTED, "does not say what it does to numbers"},
    {"notes_not_applicable", HIPDNN_STATUS_NOT_SUPPORTED, "does not say what it does to numbers"},
    {"notes_fail", HIPDNN_STATUS_PLUGIN_ERROR, "Failed to describe numerics"},
    {"notes_no_json", HIPDNN_STATUS_PLUGIN_ERROR, "is defective: its description of numerics is \"notes\""},
    {"notes_no_numerics", HIPDNN_STATUS_PLUGIN_ERROR, "is defective"},
    {"notes_not_utf8", HIPDNN_STATUS_PLUGIN_ERROR, "is not UTF-8"},
    {"notes_empty", HIPDNN_STATUS_PLUGIN_ERROR, "has 0 bytes, expected 1 to 1048576"},
    {"notes_short", HIPDNN_STATUS_PLUGIN_ERROR, "is defective"},
    {"notes_huge", HIPDNN_STATUS_PLUGIN_ERROR, "has 18446744073709551615 bytes"},
    {"throws_in_notes", HIPDNN_STATUS_INTERNAL_ERROR, "the plugin threw an exception"},
};

static void test_row(const row* r)
{
    check_about("%s", r->plugin);
    use_plugin(r->plugin);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t engine = open_engine(graph);
    int32_t notes[4] = {-7, -7, -7, -7};
    int64_t count = 4711;
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    /* The function is called only for a program that asks. */
    CHECK_EQ(count_in(recorded(), "DescribeNumerics"), 0);
    const hipdnnBackendAttributeName_t name = HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE;
    if (r->said == NULL) {
        CHECK_OK(hipdnnBackendGetAttribute(engine, name, HIPDNN_TYPE_NUMERICAL_NOTE, 4, &count, notes));
        /* A note of a newer plugin is left out. */
        CHECK(count == 1 && notes[0] == WINOGRAD && notes[1] == -7);
    } else {
        CHECK_FAILS(r->status, r->said,
                    hipdnnBackendGetAttribute(engine, name, HIPDNN_TYPE_NUMERICAL_NOTE, 4, &count, notes));
        CHECK(count == 4711 && notes[0] == -7);
    }
    drop(engine);

    hipdnnBackendDescriptor_t config = open_config(graph);
    put(config, HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT, HIPDNN_TYPE_NUMERICAL_NOTE, 1, &WINOGRAD);
    if (r->said == NULL) {
        CHECK_OK(hipdnnBackendFinalize(config));
    } else {
        CHECK_FAILS(r->status, r->said, hipdnnBackendFinalize(config));
    }
    drop(config);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A plugin whose knob helps, and one that has the note whatever its knob is. */
static void test_knobs(const char* plugin, bool helps)
{
    check_about("%s", plugin);
    use_plugin(plugin);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t config = open_config(graph);
    hipdnnBackendDescriptor_t choice = NULL;
    int64_t count = 0;
    put(config, HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT, HIPDNN_TYPE_NUMERICAL_NOTE, 1, &WINOGRAD);
    if (helps) {
        REQUIRE_OK(hipdnnBackendFinalize(config));
        CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_CHOSEN_KNOBS_EXT,
                                           HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &choice));
        CHECK_EQ(count, 1);
        drop(choice);
        CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_NUMERICAL_NOTES_EXT,
                                           HIPDNN_TYPE_NUMERICAL_NOTE, 0, &count, NULL));
        CHECK_EQ(count, 0);
    } else {
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "has the note WINOGRAD, which is deselected",
                    hipdnnBackendFinalize(config));
    }
    drop(config);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    for (int64_t i = 0; i < COUNT(ROWS); i++) {
        test_row(&ROWS[i]);
    }
    test_knobs("notes", true);
    test_knobs("notes_stay", false);
    return check_result();
}
