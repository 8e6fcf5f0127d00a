/* SPDX-License-Identifier: MIT */

/* The generation of a plugin, determined by its functions, the names in its file and HIPDNN_PLUGIN_GENERATION, and the log's
 * message about it. */
#include "host.h"

#define VARIABLE "HIPDNN_PLUGIN_GENERATION"
#define COMPLAINT VARIABLE ": ignored "

/* The log since the last plugins were set. */
static char lines[1 << 16];

static void keep(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    (void)severity;
    char* text = user;
    const size_t used = strlen(text);
    snprintf(text + used, sizeof lines - used, "%s\n", message);
}

/* Checks which bytes a plugin gets, from its first call to its plan, and what the log says of it. */
static void expect(const char* name, int year, const char* reason)
{
    char expected[512];
    check_about("%s: %d", name, year);
    lines[0] = '\0';
    use_plugin(name);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    drop(make_plan(graph));
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    snprintf(expected, sizeof expected, SEPARATOR LIBRARY_BEGIN "%s" LIBRARY_END ", generation %d: %s\n", name, year,
             reason);
    CHECK_CONTAINS(lines, expected);
    const int graphs = count_in(recorded(), "graph=");
    CHECK(graphs >= 3);
    CHECK_EQ(count_in(recorded(), year == 2025 ? "graph=G1" : "graph=G2"), graphs);
}

static void test_evidence(void)
{
    static const char presumed[] = "presumed, as neither exports nor names in its file tell; " VARIABLE " can";
    static const struct {
        const char* name;
        int year;
        const char* reason;
    } rows[] = {
        {"good", 2026, "it exports hipdnnPluginGetApiVersion"},
        {"newer_overrides", 2026, "it exports hipdnnEnginePluginExecuteOpGraphWithOverrides"},
        {"newer_save", 2026, "it exports hipdnnEnginePluginSerializeExecutionContextWithEngineId"},
        {"newer_save_older", 2026, "it exports hipdnnEnginePluginSerializeExecutionContext"},
        {"newer_give_back", 2026, "it exports hipdnnEnginePluginDestroySerializedExecutionContext"},
        {"newer_load", 2026, "it exports hipdnnEnginePluginCreateExecutionContextFromSerialized"},
        {"g1", 2025, presumed},
        {"older_with_folders", 2025, presumed},
    };
    for (int64_t i = 0; i < COUNT(rows); i++) {
        expect(rows[i].name, rows[i].year, rows[i].reason);
    }
    static const struct {
        const char* name;
        int year;
        const char* reason;
    } twice[] = {
        {"newer_version", 2026, "it exports hipdnnPluginGetApiVersion"},
        {"newer_named", 2026, "it exports hipdnnEnginePluginGetEngineName"},
        {"newer_log_level", 2026, "it exports hipdnnPluginSetLogLevel"},
        {"newer_flatbuffers_sdk", 2026, "its file names the C++ namespace hipdnn_flatbuffers_sdk"},
        {"newer_data_sdk", 2026, "its file names the C++ namespace hipdnn_data_sdk"},
        {"newer_plugin_sdk", 2026, "its file names the C++ namespace hipdnn_plugin_sdk"},
        {"newer_both", 2026, "its file names the C++ namespace hipdnn_data_sdk"},
        {"older_named_in_file", 2025, "its file names the C++ namespace hipdnn_sdk::data_objects"},
        {"older_silent", 2025, presumed},
    };
    for (int64_t i = 0; i < COUNT(twice); i++) {
        char stripped[128];
        expect(twice[i].name, twice[i].year, twice[i].reason);
        snprintf(stripped, sizeof stripped, "%s_stripped", twice[i].name);
        expect(stripped, twice[i].year, twice[i].reason);
    }
}

static void test_setting(void)
{
    static const char says_so[] = VARIABLE " says so";
    char path[PATH_LENGTH];
    char value[PATH_LENGTH + 64];
    setenv(VARIABLE, "2026", 1);
    expect("older_silent_stripped", 2026, says_so);
    setenv(VARIABLE, "2025", 1);
    expect("good", 2025, says_so);
    setenv(VARIABLE,
           "2025," LIBRARY_BEGIN "oldest" LIBRARY_END "=2025," LIBRARY_BEGIN "older_silent" LIBRARY_END "=2026", 1);
    expect("older_silent", 2026, says_so);
    expect("newer_version", 2025, says_so);
    setenv(VARIABLE, LIBRARY_BEGIN "older_silent" LIBRARY_END "=2026", 1);
    expect("newer_version", 2026, "it exports hipdnnPluginGetApiVersion");
    plugin_path(path, "older_silent");
    snprintf(value, sizeof value, "%s=2026", path);
    setenv(VARIABLE, value, 1);
    expect("older_silent", 2026, says_so);
    CHECK_EQ(count_in(lines, COMPLAINT), 0);
    /* Invalid entries are reported once, and the rest counts. */
    setenv(VARIABLE, "2027," LIBRARY_BEGIN "older_silent" LIBRARY_END "=2026,newest", 1);
    expect("older_silent", 2026, says_so);
    CHECK_CONTAINS(lines,
                   "[warning] [hipdnn_backend] " COMPLAINT "\"2027\", \"newest\"; expected 2025, 2026, FILE=2025 or "
                   "FILE=2026, with commas between\n");
    expect("newer_version", 2026, "it exports hipdnnPluginGetApiVersion");
    CHECK_EQ(count_in(lines, COMPLAINT), 0);
    unsetenv(VARIABLE);
}

/* A plugin of 2026 without the version function speaks the first version of the interface: graphs that need more, or more than
 * its functions can do, are not shown to it. One that is taken for a plugin of 2025 is told so where that is the reason. */
static void test_refusals(void)
{
    static const struct {
        const char* name;
        const char* setting;
        bool overridable;
        const char* reason;
    } rows[] = {
        {"newer_overrides", "", true, "the graph needs plugin API 1.1.0, the plugin speaks 1.0.0"},
        {"newer_data_sdk", "", true, "the graph needs plugin API 1.1.0, the plugin speaks 1.0.0"},
        {"older_silent", "", false, "cannot express this one (generation 2025: presumed"},
        {"good", "2025", false, "cannot express this one (generation 2025: " VARIABLE " says so)"},
    };
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    for (int64_t i = 0; i < COUNT(rows); i++) {
        check_about("refusal of %s", rows[i].name);
        setenv(VARIABLE, rows[i].setting, 1);
        use_plugin(rows[i].name);
        hipdnnHandle_t handle = make_handle();
        hipdnnBackendDescriptor_t graph = open_graph(handle);
        if (rows[i].overridable) {
            const bool yes = true;
            put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
        } else {
            /* 2025 has no such type. */
            const hipdnnDataType_t type = HIPDNN_DATA_FP8_E4M3;
            put(graph, HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT, HIPDNN_TYPE_DATA_TYPE, 1, &type);
        }
        REQUIRE_OK(hipdnnBackendFinalize(graph));
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        REQUIRE_OK(hipdnnBackendFinalize(heuristic));
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK_EQ(count_results(heuristic), 0);
        CHECK_CONTAINS(text, rows[i].reason);
        drop(heuristic);
        drop(graph);
        CHECK_OK(hipdnnDestroy(handle));
    }
    unsetenv(VARIABLE);
}

int main(void)
{
    unsetenv("HIPDNN_PLUGIN_DIR");
    unsetenv(VARIABLE);
    setenv("HIPDNN_LOG_FILE", NOWHERE, 1);
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_INFO));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC, lines));
    test_evidence();
    test_setting();
    test_refusals();
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, lines));
    return check_result();
}
