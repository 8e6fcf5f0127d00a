/* SPDX-License-Identifier: MIT */

/*
 * Every variant of stub_plugin.c, alone: how far it gets, with which status and text, and that the process survives.
 *
 * If a library is refused, hipdnnCreate still succeeds; the last error names the file and the reason.
 */
#include "host.h"

/* How far a plugin gets. */
typedef enum {
    NOT_LOADED, /* refused as a whole */
    NO_ENGINE,  /* loaded, but it has no engine for the graph */
    HEURISTIC,  /* asking which engines apply fails */
    ENGINE,     /* an engine cannot be made */
    CONFIG,     /* its configuration cannot be finalized */
    PLAN,       /* no plan */
    EXECUTE,    /* a plan that fails to run */
    WORKS,
} reach;

typedef struct {
    const char* name;
    reach reach;
    hipdnnStatus_t status; /* of the call that fails */
    const char* part;      /* of the last error, or of the engine's name where it works */
} variant;

#define SYMBOL(name, symbol) {name, NOT_LOADED, HIPDNN_STATUS_SUCCESS, "Failed to get symbol: " symbol}
#define TURNED_DOWN(name, reason) {name, NOT_LOADED, HIPDNN_STATUS_SUCCESS, reason}
#define IDLE(name, reason) {name, NO_ENGINE, HIPDNN_STATUS_SUCCESS, reason}
#define PLUGIN(name, reach, text) {name, reach, HIPDNN_STATUS_PLUGIN_ERROR, text}
#define DETAILS(name, text) {name, ENGINE, HIPDNN_STATUS_BAD_PARAM, text}
#define RUNS(name, engine) {name, WORKS, HIPDNN_STATUS_SUCCESS, engine}
#define THREW "the plugin threw an exception"
#define STATUS_3 "Status: HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR(3), Error: the stub fails in hipdnn"

static const variant VARIANTS[] = {
    RUNS("good", "STUB_ENGINE"),
    RUNS("one_engine", "STUB_ENGINE"),
    RUNS("dies_of_matmul", "STUB_ENGINE"),
    RUNS("other_good", "OTHER_STUB_ENGINE"),
    RUNS("g1", "0x"),
    RUNS("with_workspace", "STUB_ENGINE"),
    RUNS("of_host", "THIRD_ENGINE"),
    RUNS("of_unknown_kind", "CPU_THIRD_ENGINE"),
    RUNS("reversed", "STUB_OTHER_ENGINE"),
    IDLE("no_engine_applies", "STUB_ENGINE (Stub): the stub declines"),
    IDLE("no_engine_applies_silently", "STUB_OTHER_ENGINE (Stub): the plugin gave no reason"),
    RUNS("without_names", "0x"),
    RUNS("without_callback", "STUB_ENGINE"),
    RUNS("without_log_level", "STUB_ENGINE"),
    RUNS("api_1_9", "STUB_ENGINE"),
    RUNS("api_0", "STUB_ENGINE"),
    RUNS("calls_back", "STUB_ENGINE"),
    RUNS("threaded", "STUB_ENGINE"),
    RUNS("opens_library", "OTHER_STUB_ENGINE"),

    /* What they are given is tested by generations.c. */
    RUNS("newer_version", "0x"),
    RUNS("newer_named", "STUB_ENGINE"),
    RUNS("newer_log_level", "0x"),
    RUNS("newer_flatbuffers_sdk", "0x"),
    RUNS("newer_data_sdk", "0x"),
    RUNS("newer_plugin_sdk", "0x"),
    RUNS("newer_both", "0x"),
    RUNS("older_named_in_file", "0x"),
    RUNS("older_silent", "0x"),
    RUNS("newer_version_stripped", "0x"),
    RUNS("newer_named_stripped", "STUB_ENGINE"),
    RUNS("newer_log_level_stripped", "0x"),
    RUNS("newer_flatbuffers_sdk_stripped", "0x"),
    RUNS("newer_data_sdk_stripped", "0x"),
    RUNS("newer_plugin_sdk_stripped", "0x"),
    RUNS("newer_both_stripped", "0x"),
    RUNS("older_named_in_file_stripped", "0x"),
    RUNS("older_silent_stripped", "0x"),
    RUNS("newer_overrides", "0x"),
    RUNS("newer_save", "0x"),
    RUNS("newer_save_older", "0x"),
    RUNS("newer_give_back", "0x"),
    RUNS("newer_load", "0x"),
    RUNS("older_with_folders", "0x"),

    SYMBOL("no_get_name", "hipdnnPluginGetName"),
    SYMBOL("no_get_version", "hipdnnPluginGetVersion"),
    SYMBOL("no_get_type", "hipdnnPluginGetType"),
    SYMBOL("no_get_last_error_string", "hipdnnPluginGetLastErrorString"),
    SYMBOL("no_get_all_engine_ids", "hipdnnEnginePluginGetAllEngineIds"),
    SYMBOL("no_create", "hipdnnEnginePluginCreate"),
    SYMBOL("no_destroy", "hipdnnEnginePluginDestroy"),
    SYMBOL("no_set_stream", "hipdnnEnginePluginSetStream"),
    SYMBOL("no_get_applicable_engine_ids", "hipdnnEnginePluginGetApplicableEngineIds"),
    SYMBOL("no_get_engine_details", "hipdnnEnginePluginGetEngineDetails"),
    SYMBOL("no_destroy_engine_details", "hipdnnEnginePluginDestroyEngineDetails"),
    SYMBOL("no_get_workspace_size", "hipdnnEnginePluginGetWorkspaceSize"),
    SYMBOL("no_create_execution_context", "hipdnnEnginePluginCreateExecutionContext"),
    SYMBOL("no_destroy_execution_context", "hipdnnEnginePluginDestroyExecutionContext"),
    SYMBOL("no_get_context_workspace_size", "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext"),
    SYMBOL("no_execute_op_graph", "hipdnnEnginePluginExecuteOpGraph"),
    SYMBOL("no_create_no_execute", "hipdnnEnginePluginCreate, hipdnnEnginePluginExecuteOpGraph"),

    TURNED_DOWN("type_heuristic", "Wrong plugin type"),
    TURNED_DOWN("type_unknown", "Wrong plugin type"),
    TURNED_DOWN("type_fails", "Failed to get plugin type. " STATUS_3),
    TURNED_DOWN("type_silent", "Wrong plugin type"),
    TURNED_DOWN("name_null", "plugin name"),
    TURNED_DOWN("name_fails", "Failed to get plugin name. " STATUS_3),
    RUNS("name_not_utf8", "STUB_ENGINE"),
    RUNS("version_empty", "STUB_ENGINE"),
    TURNED_DOWN("api_version_unparsable", "\"one\""),
    TURNED_DOWN("api_version_null", "API version"),
    TURNED_DOWN("api_version_fails", STATUS_3),
    TURNED_DOWN("api_2", "2.0.0 does not match expected engine API major version 1"),
    RUNS("callback_fails", "STUB_ENGINE"),

    TURNED_DOWN("no_engines", "No engines found in the plugin"),
    TURNED_DOWN("ids_fail", "Failed to get number of engines. " STATUS_3),
    TURNED_DOWN("ids_silent", "No engines found in the plugin"),
    TURNED_DOWN("count_grows", "Number of engines returned does not match expected count"),
    TURNED_DOWN("count_shrinks", "Number of engines returned does not match expected count"),
    TURNED_DOWN("count_huge", "4294967295"),
    TURNED_DOWN("duplicate_ids", "Duplicate engine IDs found"),
    TURNED_DOWN("threaded_api_2", "2.0.0 does not match expected engine API major version 1"),
    TURNED_DOWN("threaded_twice", "Duplicate engine IDs found"),
    TURNED_DOWN("threaded_no_engines", "No engines found in the plugin"),
    RUNS("clash", "STUB_ENGINE"),
    IDLE("engine_name_wrong",
         "plugin Stub: the plugin reports engine name 'WRONG_ENGINE' for engine 0x3679FC9FC0E0979C"),
    RUNS("engine_name_null", "0x"),
    RUNS("engine_name_empty", "0x"),
    IDLE("engine_name_fails", "plugin Stub: Failed to get the name of engine "),
    RUNS("engine_name_declined", "0x"),
    IDLE("id_not_the_hash", "plugin Stub has no engine that could be admitted\n  plugin Stub: the plugin reports "
                            "engine name 'STUB_ENGINE' for engine 0x3679FC9FC0E0979D"),

    IDLE("create_fails", "plugin Stub is left out of this handle: Failed to create engine plugin handle. " STATUS_3),
    IDLE("create_silent",
         "plugin Stub is left out of this handle: Failed to create engine plugin handle: the plugin gave a null one"),
    RUNS("destroy_fails", "STUB_ENGINE"),
    RUNS("stream_fails", "STUB_ENGINE"),
    IDLE("handle_null", "gave a null one"),
    IDLE("handle_null_other", "plugin Other is left out"),
    RUNS("handle_small", "STUB_ENGINE"),
    RUNS("handle_small_other", "OTHER_STUB_ENGINE"),

    PLUGIN("applicable_fails", HEURISTIC, "Failed to get applicable engine IDs. " STATUS_3),
    PLUGIN("applicable_not_applicable", HEURISTIC, "HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE(5)"),
    PLUGIN("applicable_more", HEURISTIC, "More applicable engines than expected"),
    PLUGIN("applicable_twice", HEURISTIC, "Duplicate engine IDs found"),
    PLUGIN("applicable_unknown", HEURISTIC, "Engine ID not found in the plugin's known IDs"),
    IDLE("applicable_silent", "gave no reason"),

    PLUGIN("details_fail", ENGINE, "Failed to get engine details. " STATUS_3),
    PLUGIN("details_null", ENGINE, "details"),
    PLUGIN("details_empty", ENGINE, "details"),
    PLUGIN("details_huge", ENGINE, "18446744073709551615 bytes of details"),
    {"details_garbage", ENGINE, HIPDNN_STATUS_BAD_PARAM, "plugin Stub is defective: its details"},
    PLUGIN("details_silent", ENGINE, "details"),
    RUNS("details_of_another_engine", "STUB_ENGINE"),
    RUNS("destroy_details_fails", "STUB_ENGINE"),
    RUNS("knobs", "STUB_ENGINE"),
    RUNS("knob_benchmarking", "STUB_ENGINE"),
    DETAILS("knobs_cut", "cannot be read"),
    DETAILS("knob_default_outside", "knob \"bad\": the default value is 11, expected an integer from 2 to 10"),
    DETAILS("knob_twice", "knob \"same\" is there twice"),
    DETAILS("knob_id_empty", "the id of a knob has 0 bytes, expected 1 to 4096"),
    RUNS("knob_id_longest", "STUB_ENGINE"),
    DETAILS("knob_id_too_long", "the id of a knob has 4097 bytes"),
    DETAILS("knob_description_too_long", "the description has 65537 bytes, expected at most 65536"),
    DETAILS("knob_text_too_long", "cannot be read: a text of 65537 bytes, expected at most 65536"),
    DETAILS("knob_limits_of_another_kind", "knob \"k\": the default value is 1, which is an integer"),
    DETAILS("knob_range_backwards", "the minimum 9 is above the maximum 1"),
    RUNS("notes_only", "STUB_ENGINE"),
    DETAILS("note_negative", "behavior note -1, expected 0 or more"),

    PLUGIN("workspace_fails", CONFIG, "Failed to get workspace size. " STATUS_3),
    PLUGIN("workspace_fails_other", CONFIG, "Failed to get workspace size. " STATUS_3),
    RUNS("workspace_silent", "STUB_ENGINE"),
    {"workspace_huge", CONFIG, HIPDNN_STATUS_INTERNAL_ERROR, "18446744073709551615"},
    {"workspace_just_too_large", CONFIG, HIPDNN_STATUS_INTERNAL_ERROR, "9223372036854775808"},
    RUNS("workspace_differs", "STUB_ENGINE"),
    PLUGIN("context_fails", PLAN, "Failed to create execution context. " STATUS_3),
    {"context_null", PLAN, HIPDNN_STATUS_INTERNAL_ERROR, "context"},
    {"context_silent", PLAN, HIPDNN_STATUS_INTERNAL_ERROR, "context"},
    PLUGIN("context_workspace_fails", PLAN, "Failed to get workspace size from execution context. " STATUS_3),
    RUNS("destroy_context_fails", "STUB_ENGINE"),
    PLUGIN("execute_fails", EXECUTE, "Failed to execute op graph. " STATUS_3),
    PLUGIN("execute_fails_oddly", EXECUTE, "Status: HIPDNN_PLUGIN_STATUS_UNKNOWN(99), Error: "),
    /* saved_plans.c and overrides.c go on from here. */
    RUNS("saves", "STUB_ENGINE"),
    RUNS("saves_newer", "STUB_ENGINE"),
    RUNS("saves_older", "STUB_ENGINE"),
    RUNS("saves_api_1_1", "STUB_ENGINE"),
    RUNS("saves_other_name", "STUB_ENGINE"),
    RUNS("saves_other_version", "STUB_ENGINE"),
    RUNS("saves_other_engine", "OTHER_STUB_ENGINE"),
    RUNS("save_lacks_save", "STUB_ENGINE"),
    RUNS("save_lacks_give_back", "STUB_ENGINE"),
    RUNS("save_lacks_load", "STUB_ENGINE"),
    RUNS("save_fails", "STUB_ENGINE"),
    RUNS("save_older_fails", "STUB_ENGINE"),
    RUNS("save_null", "STUB_ENGINE"),
    RUNS("save_empty", "STUB_ENGINE"),
    RUNS("save_short", "STUB_ENGINE"),
    RUNS("save_huge", "STUB_ENGINE"),
    RUNS("save_just_too_large", "STUB_ENGINE"),
    RUNS("save_grows", "STUB_ENGINE"),
    RUNS("save_silent", "STUB_ENGINE"),
    RUNS("give_back_fails", "STUB_ENGINE"),
    RUNS("load_fails", "STUB_ENGINE"),
    RUNS("load_not_applicable", "STUB_ENGINE"),
    RUNS("load_null", "STUB_ENGINE"),
    RUNS("load_silent", "STUB_ENGINE"),
    RUNS("load_workspace", "STUB_ENGINE"),
    PLUGIN("load_workspace_fails", PLAN, "Failed to get workspace size from execution context. " STATUS_3),
    {"load_workspace_huge", PLAN, HIPDNN_STATUS_INTERNAL_ERROR, "18446744073709551615"},
    /* trace.c goes on from here. */
    RUNS("steps", "STUB_ENGINE"),
    /* descriptions.c goes on from here. */
    RUNS("shares", "STUB_ENGINE"),
    RUNS("shares_knobs", "STUB_ENGINE"),
    RUNS("shares_overrides", "STUB_ENGINE"),
    RUNS("shares_saves", "STUB_ENGINE"),
    RUNS("shares_knobs_saves", "STUB_ENGINE"),
    RUNS("shares_nothing_saves", "STUB_ENGINE"),
    RUNS("knobs_saves", "STUB_ENGINE"),
    PLUGIN("shares_fails_to_execute", EXECUTE, "Failed to execute op graph. " STATUS_3),
    RUNS("shares_nothing", "STUB_ENGINE"),
    RUNS("shares_oddly", "STUB_ENGINE"),
    RUNS("share_fails", "STUB_ENGINE"),
    RUNS("describes", "STUB_ENGINE"),
    RUNS("describes_no_steps", "STUB_ENGINE"),
    RUNS("describes_no_json", "STUB_ENGINE"),
    RUNS("describes_deeply", "STUB_ENGINE"),
    RUNS("describes_not_utf8", "STUB_ENGINE"),
    RUNS("describe_fails", "STUB_ENGINE"),
    RUNS("describe_not_applicable", "STUB_ENGINE"),
    RUNS("describe_silent", "STUB_ENGINE"),
    RUNS("describe_empty", "STUB_ENGINE"),
    RUNS("describe_short", "STUB_ENGINE"),
    RUNS("describe_huge", "STUB_ENGINE"),
    RUNS("describe_grows", "STUB_ENGINE"),
    RUNS("notes", "STUB_ENGINE"),
    RUNS("notes_stay", "STUB_ENGINE"),
    RUNS("notes_not_applicable", "STUB_ENGINE"),
    RUNS("notes_fail", "STUB_ENGINE"),
    RUNS("notes_fail_first", "STUB_ENGINE"),
    RUNS("notes_no_json", "STUB_ENGINE"),
    RUNS("notes_no_numerics", "STUB_ENGINE"),
    RUNS("notes_not_utf8", "STUB_ENGINE"),
    RUNS("notes_empty", "STUB_ENGINE"),
    RUNS("notes_short", "STUB_ENGINE"),
    RUNS("notes_huge", "STUB_ENGINE"),
    RUNS("throws_in_notes", "STUB_ENGINE"),
    RUNS("overrides", "STUB_ENGINE"),
    RUNS("overrides_saves", "STUB_ENGINE"),
    RUNS("overrides_api_1_0", "STUB_ENGINE"),
    RUNS("overrides_saves_api_1_0", "STUB_ENGINE"),
    RUNS("overrides_fail", "STUB_ENGINE"),
    PLUGIN("error_null", EXECUTE, "Failed to execute op graph."),
    PLUGIN("error_silent", EXECUTE, "Failed to execute op graph."),
    PLUGIN("error_not_utf8", EXECUTE, "not "),
    PLUGIN("error_long", EXECUTE, "xxxxxxxx"),

    TURNED_DOWN("throws_in_name", "Failed to get plugin name: " THREW),
    TURNED_DOWN("throws_in_version", "Failed to get plugin version: " THREW),
    TURNED_DOWN("throws_in_type", "Failed to get plugin type: " THREW),
    TURNED_DOWN("throws_in_api_version", "Failed to get plugin API version: " THREW),
    RUNS("throws_in_callback", "STUB_ENGINE"),
    RUNS("throws_in_log_level", "STUB_ENGINE"),
    TURNED_DOWN("throws_in_ids", "Failed to get number of engines: " THREW),
    IDLE("throws_in_engine_name", THREW),
    IDLE("throws_in_create", "plugin Stub is left out of this handle: Failed to create engine plugin handle: " THREW),
    RUNS("throws_in_destroy", "STUB_ENGINE"),
    RUNS("throws_in_stream", "STUB_ENGINE"),
    {"throws_in_applicable", HEURISTIC, HIPDNN_STATUS_INTERNAL_ERROR, "Failed to get applicable engine IDs: " THREW},
    {"throws_in_details", ENGINE, HIPDNN_STATUS_INTERNAL_ERROR, "Failed to get engine details: " THREW},
    RUNS("throws_in_destroy_details", "STUB_ENGINE"),
    {"throws_in_workspace", CONFIG, HIPDNN_STATUS_INTERNAL_ERROR, "Failed to get workspace size: " THREW},
    {"throws_in_context", PLAN, HIPDNN_STATUS_INTERNAL_ERROR, "Failed to create execution context: " THREW},
    RUNS("throws_in_destroy_context", "STUB_ENGINE"),
    {"throws_in_context_workspace", PLAN, HIPDNN_STATUS_INTERNAL_ERROR,
     "Failed to get workspace size from execution context: " THREW},
    {"throws_in_execute", EXECUTE, HIPDNN_STATUS_INTERNAL_ERROR, "Failed to execute op graph: " THREW},
    RUNS("throws_in_save", "STUB_ENGINE"),
    RUNS("throws_in_save_older", "STUB_ENGINE"),
    RUNS("throws_in_give_back", "STUB_ENGINE"),
    RUNS("throws_in_load", "STUB_ENGINE"),
    RUNS("throws_in_overrides", "STUB_ENGINE"),
    RUNS("throws_in_describe", "STUB_ENGINE"),
    RUNS("throws_in_step_callback", "STUB_ENGINE"),
    PLUGIN("throws_in_error_text", EXECUTE, "Error: (the plugin threw an exception when it was asked)"),
};

/* One step of the way. Returns whether to go on; where the plugin is to fail here, it must, and as the table says. */
static bool step(const variant* v, reach here, hipdnnStatus_t got)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnGetLastErrorString(text, sizeof text);
    if (v->reach != here) {
        CHECK_EQ(got, HIPDNN_STATUS_SUCCESS);
        if (got != HIPDNN_STATUS_SUCCESS) {
            fprintf(stderr, "  %s\n", text);
        }
        return got == HIPDNN_STATUS_SUCCESS;
    }
    CHECK_EQ(got, v->status);
    CHECK_CONTAINS(text, v->part);
    return false;
}

static void use_plan(const variant* v, hipdnnHandle_t handle, hipdnnBackendDescriptor_t config)
{
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (step(v, PLAN, hipdnnBackendFinalize(plan))) {
        static buffers data;
        fill_buffers(&data, plan);
        hipdnnBackendDescriptor_t pack = make_pack(&data);
        step(v, EXECUTE, hipdnnBackendExecute(handle, plan, pack));
        drop(pack);
        free(data.workspace);
    } else {
        /* Trying again has the same result. */
        CHECK_EQ(hipdnnBackendFinalize(plan), v->status);
    }
    drop(plan);
}

static void use_engine(const variant* v, hipdnnHandle_t handle, hipdnnBackendDescriptor_t heuristic)
{
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    const hipdnnStatus_t status = hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS,
                                                            HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &config);
    if (step(v, ENGINE, status) && step(v, CONFIG, hipdnnBackendFinalize(config))) {
        char name[128] = "";
        engine_name(config, name, sizeof name);
        if (v->reach == WORKS) {
            CHECK(strncmp(name, v->part, strlen(v->part)) == 0);
        }
        use_plan(v, handle, config);
    }
    drop(config);
}

static void test_variant(const variant* v)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnHandle_t handle = NULL;
    check_about("%s", v->name);
    use_plugin(v->name);
    check_forget_error();
    REQUIRE_OK(hipdnnCreate(&handle));
    hipdnnGetLastErrorString(text, sizeof text);
    if (v->reach == NOT_LOADED) {
        CHECK_EQ(count_loaded(handle), 0);
        CHECK_CONTAINS(text, "Error loading plugin from [");
        CHECK_CONTAINS(text, v->name);
        CHECK_CONTAINS(text, v->part);
        CHECK_OK(hipdnnDestroy(handle));
        return;
    }
    CHECK_EQ(count_loaded(handle), 1);
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    if (step(v, HEURISTIC, hipdnnBackendFinalize(heuristic))) {
        const int64_t engines = count_results(heuristic);
        CHECK((engines == 0) == (v->reach == NO_ENGINE));
        if (engines > 0) {
            use_engine(v, handle, heuristic);
        }
    } else if (v->reach == NO_ENGINE) {
        CHECK_EQ(count_results(heuristic), 0);
    }
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* No engine: success, and the reason in the last error. */
static void test_reasons(const variant* v)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    check_about("%s", v->name);
    use_plugin(v->name);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    check_forget_error();
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK_CONTAINS(text, "No engine can run this graph");
    CHECK_CONTAINS(text, v->part);
    CHECK_EQ(count_results(heuristic), 0);
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A failed SetStream leaves the handle with the stream it had. */
static void test_stream_fails(void)
{
    hipStream_t stream = NULL;
    check_about("stream_fails");
    use_plugin("stream_fails");
    hipdnnHandle_t handle = make_handle();
    CHECK_OK(hipdnnSetStream(handle, NULL));
    CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "Failed to set stream for engine plugin handle. " STATUS_3,
                hipdnnSetStream(handle, (hipStream_t)(uintptr_t)0x1000));
    CHECK_OK(hipdnnGetStream(handle, &stream));
    CHECK(stream == NULL);
    CHECK_OK(hipdnnDestroy(handle));

    check_about("throws_in_stream");
    use_plugin("throws_in_stream");
    handle = make_handle();
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "Failed to set stream for engine plugin handle: " THREW,
                hipdnnSetStream(handle, (hipStream_t)(uintptr_t)0x1000));
    CHECK_OK(hipdnnGetStream(handle, &stream));
    CHECK(stream == NULL);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A variant that has been added without a row here would go untested. The list lies beside this file. */
static void test_completeness(void)
{
    char path[PATH_LENGTH];
    char line[512];
    int listed = 0;
    check_about("completeness");
    const char* const slash = strrchr(__FILE__, '/');
    REQUIRE(slash != NULL);
    snprintf(path, sizeof path, "%.*s/../plugins/variants.txt", (int)(slash - __FILE__), __FILE__);
    FILE* const file = fopen(path, "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, " \n")] = '\0';
        /* policies.c and upstream_policies.c test heuristic plugins, bindings/rust/tests/tuning_admission.rs those that tune. */
        if (line[0] == '\0' || line[0] == '#' || strncmp(line, "heuristic_", 10) == 0 ||
            strncmp(line, "tuning_", 7) == 0 || strncmp(line, "upstream_", 9) == 0) {
            continue;
        }
        bool known = false;
        for (int64_t i = 0; i < COUNT(VARIANTS); i++) {
            known = known || strcmp(VARIANTS[i].name, line) == 0;
        }
        if (!known) {
            fprintf(stderr, "%s\n", line);
        }
        CHECK(known);
        listed++;
    }
    fclose(file);
    CHECK_EQ(listed, COUNT(VARIANTS));
}

int main(void)
{
    for (int64_t i = 0; i < COUNT(VARIANTS); i++) {
        if (!IS_BUILT(VARIANTS[i].name)) {
            continue;
        }
        test_variant(&VARIANTS[i]);
        if (VARIANTS[i].reach == NO_ENGINE) {
            test_reasons(&VARIANTS[i]);
        }
    }
    test_stream_fails();
    test_completeness();
    return check_result();
}
