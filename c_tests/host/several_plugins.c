/* SPDX-License-Identifier: MIT */

/* Several plugins at once: clashes, order, and defective ones that must not stand in the way of the others. */
#include "host.h"

static void expect_engines(int count, const char* const names[], const char* expected)
{
    char engines[1024];
    check_about("%s%s%s", names[0], count > 1 ? " and " : "", count > 1 ? names[1] : "");
    use_plugins(count, names);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    engine_names(graph, engines, sizeof engines);
    CHECK_STR(engines, expected);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_engines(void)
{
    /* Plugins by path; engines as their plugin lists them. */
    const char* const sorted[] = {"good", "other_good"};
    const char* const unsorted[] = {"other_good", "good"};
    expect_engines(2, sorted, "STUB_ENGINE STUB_OTHER_ENGINE OTHER_STUB_ENGINE ");
    expect_engines(2, unsorted, "STUB_ENGINE STUB_OTHER_ENGINE OTHER_STUB_ENGINE ");
    const char* const reversed[] = {"reversed"};
    expect_engines(1, reversed, "STUB_OTHER_ENGINE STUB_ENGINE ");

    /* An engine id that an earlier plugin has: the engine is dropped, the plugin stays. */
    const char* const clash[] = {"good", "clash"};
    expect_engines(2, clash, "STUB_ENGINE CLASH_ENGINE STUB_OTHER_ENGINE ");
    /* All of its engines */
    const char* const twin[] = {"good", "one_engine"};
    expect_engines(2, twin, "STUB_ENGINE STUB_OTHER_ENGINE ");

    /* Plugins may use the same numbers for handles. */
    const char* const small[] = {"handle_small", "handle_small_other"};
    expect_engines(2, small, "STUB_ENGINE STUB_OTHER_ENGINE OTHER_STUB_ENGINE ");

    /* One that fails in any way does not keep another from answering. */
    static const char* const failing[] = {
        "no_create",          "type_unknown",
        "count_huge",         "create_fails",
        "handle_null",        "applicable_fails",
        "applicable_more",    "applicable_twice",
        "applicable_unknown", "applicable_silent",
        "no_engines",         "engine_name_wrong",
        "no_engine_applies",  "api_2",
    };
    for (int64_t i = 0; i < COUNT(failing); i++) {
        const char* const pair[] = {failing[i], "other_good"};
        expect_engines(2, pair, "OTHER_STUB_ENGINE ");
    }
}

/* The kind that a plugin tells, else the one that its engine's name tells. */
static void test_kinds(void)
{
    static const struct {
        const char* plugin;
        uint32_t device;
    } kinds[] = {{"of_host", 1}, {"of_unknown_kind", 1}, {"one_engine", 0}};
    for (int64_t i = 0; i < COUNT(kinds); i++) {
        check_about("%s", kinds[i].plugin);
        use_plugins(1, &kinds[i].plugin);
        hipdnnHandle_t handle = make_handle();
        uint32_t device = 9, implementation = 9;
        CHECK_OK(hipdnnGetEngineKind_ext(handle, 0, &device, &implementation));
        CHECK(device == kinds[i].device && implementation == 0);
        CHECK_OK(hipdnnDestroy(handle));
    }
}

static void test_clash_is_told(void)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    const char* const clash[] = {"good", "clash"};
    check_about("clash");
    use_plugins(2, clash);
    check_forget_error();
    hipdnnHandle_t handle = NULL;
    REQUIRE_OK(hipdnnCreate(&handle));
    hipdnnGetLastErrorString(text, sizeof text);
    /* libclash.so comes before libgood.so, so it is the second that loses its engine. Callers look for these words. */
    CHECK_CONTAINS(text, "Engine ID ");
    CHECK_CONTAINS(text, " already exists");
    CHECK_CONTAINS(text, "declares engine 0x3679FC9FC0E0979C, which plugin 'Clash'");
    CHECK_CONTAINS(text, " already provides");
    CHECK_CONTAINS(text, LIBRARY_BEGIN "good" LIBRARY_END "]");
    CHECK_EQ(count_loaded(handle), 2);
    CHECK_OK(hipdnnDestroy(handle));
}

/* The CPU engines come after all others, whatever their plugin's path. */
static void test_cpu_is_last(void)
{
    char names[1024];
    char path[PATH_LENGTH];
    const char* paths[] = {path};
    const char* const folder = getenv("HIPDNN_TEST_PLUGINS");
    check_about("CPU engines");
    REQUIRE(folder != NULL);
    plugin_path(path, "good");
    use_plugins(0, NULL);
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    CHECK_EQ(count_loaded(handle), 7);
    engine_names(graph, names, sizeof names);
    CHECK_STR(names, "STUB_ENGINE STUB_OTHER_ENGINE CPU_ENGINE CPU_REFERENCE_ENGINE ");
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* When nothing applies, every engine of every plugin has its reason. */
static void test_reasons(void)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    const char* const names[] = {"no_engine_applies", "handle_null_other"};
    check_about("reasons");
    use_plugins(2, names);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    check_forget_error();
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK_CONTAINS(text, "No engine can run this graph:");
    CHECK_CONTAINS(text, "\n  STUB_ENGINE (Stub): the stub declines");
    CHECK_CONTAINS(text, "\n  STUB_OTHER_ENGINE (Stub): the plugin gave no reason");
    CHECK_CONTAINS(text, "\n  plugin Other is left out of this handle: Failed to create engine plugin handle: the "
                         "plugin gave a null one");
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* If nothing could be loaded, the text names the places searched and the refused files. */
static void test_nothing_loaded(void)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    char path[PATH_LENGTH];
    check_about("nothing loaded");
    use_plugin("no_create");
    plugin_path(path, "no_create");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    check_forget_error();
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK_CONTAINS(text, "No engine can run this graph: no engine plugin is loaded; looked in ");
    CHECK_CONTAINS(text, path);
    CHECK_CONTAINS(text, "\n  not loaded: ");
    CHECK_CONTAINS(text, LIBRARY_BEGIN "no_create" LIBRARY_END ": Failed to get symbol: hipdnnEnginePluginCreate");
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    unsetenv("HIPDNN_PLUGIN_DIR");
    test_engines();
    test_kinds();
    test_clash_is_told();
    test_cpu_is_last();
    test_reasons();
    test_nothing_loaded();
    return check_result();
}
