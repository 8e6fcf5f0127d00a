/* SPDX-License-Identifier: MIT */

/*
 * Heuristic plugins: every variant of stub_heuristic.c, alone and with the next policy behind it; policies as they are listed;
 * the order of policies; and that a policy may call back.
 */
#include "host.h"

#include <inttypes.h>

static const int64_t CONFIG = 0x79dac33209e0d5c1;
static const int64_t STATIC_ORDERING = -0x46f46a1c3b64fde3;

#define IN_ORDER "STUB_ENGINE STUB_OTHER_ENGINE "
#define REVERSED "STUB_OTHER_ENGINE STUB_ENGINE "
#define THREW "the plugin threw an exception"

static int64_t id_of(const char* name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return (int64_t)hash;
}

static void use_heuristics(int count, const char* const names[])
{
    static char paths[4][PATH_LENGTH];
    const char* pointers[4];
    REQUIRE(count <= 4);
    for (int i = 0; i < count; i++) {
        plugin_path(paths[i], names[i]);
        pointers[i] = paths[i];
    }
    REQUIRE_OK(hipdnnSetHeuristicPluginPaths_ext((size_t)count, pointers, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
}

static hipdnnBackendDescriptor_t with_order(hipdnnBackendDescriptor_t graph, int64_t count, const int64_t* policies)
{
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    put(heuristic, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, count, policies);
    return heuristic;
}

static void expect(hipdnnBackendDescriptor_t heuristic, const char* expected)
{
    char names[512];
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    names_of(heuristic, names, sizeof names);
    CHECK_STR(names, expected);
    drop(heuristic);
}

static size_t count_policies(hipdnnHandle_t handle)
{
    size_t count = 4711;
    CHECK_OK(hipdnnGetHeuristicPolicyCount_ext(handle, &count));
    return count;
}

/* How far a plugin gets: it is not loaded, gives no handle, is passed over when it is asked, or its order is taken. */
typedef enum { NOT_LOADED, NO_HANDLE, PASSED_OVER, WORKS } reach;

static const struct {
    const char* name;
    reach reach;
    const char* part; /* of the reason, or the engines */
} VARIANTS[] = {
    {"good", WORKS, REVERSED},
    {"one", WORKS, "STUB_OTHER_ENGINE "},
    {"api_0_9", WORKS, REVERSED},
    {"without_log_level", WORKS, REVERSED},
    {"calls_back", WORKS, REVERSED},
    {"destroy_throws", WORKS, REVERSED},
    {"threaded", WORKS, REVERSED},
    {"with_host", WORKS, REVERSED},
    {"host_retained", WORKS, REVERSED},
    {"host_foreign", WORKS, REVERSED},
    {"config_none", WORKS, REVERSED},
    {"trace_null", WORKS, REVERSED},
    {"trace_none", WORKS, REVERSED},
    {"trace_fails", WORKS, REVERSED},
    {"trace_garbage", WORKS, REVERSED},
    {"trace_throws", WORKS, REVERSED},

    {"engine_type", NOT_LOADED, "Wrong plugin type: got 1"},
    {"type_fails", NOT_LOADED, "Failed to get plugin type"},
    {"name_empty", NOT_LOADED, "no name"},
    {"name_null", NOT_LOADED, "plugin name"},
    {"api_1", NOT_LOADED, "1.0.0 is not supported, expected major 0"},
    {"threaded_api_1", NOT_LOADED, "1.0.0 is not supported, expected major 0"},
    {"api_unparsable", NOT_LOADED, "\"zero\""},
    {"api_fails", NOT_LOADED, "Failed to get plugin API version"},
    {"no_get_name", NOT_LOADED, "Failed to get symbol: hipdnnPluginGetName"},
    {"no_get_version", NOT_LOADED, "Failed to get symbol: hipdnnPluginGetVersion"},
    {"no_get_api_version", NOT_LOADED, "Failed to get symbol: hipdnnPluginGetApiVersion"},
    {"no_get_type", NOT_LOADED, "Failed to get symbol: hipdnnPluginGetType"},
    {"no_callback", NOT_LOADED, "Failed to get symbol: hipdnnPluginSetLoggingCallback"},
    {"no_last_error", NOT_LOADED, "Failed to get symbol: hipdnnPluginGetLastErrorString"},
    {"no_ids", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPluginGetAllPolicyIds"},
    {"no_policy_name", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPluginGetPolicyName"},
    {"no_create", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicHandleCreate"},
    {"no_destroy", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicHandleDestroy"},
    {"no_set_device", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicHandleSetDeviceProperties"},
    {"no_create_descriptor", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPolicyDescriptorCreate"},
    {"no_destroy_descriptor", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPolicyDescriptorDestroy"},
    {"no_set_engine_ids", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPolicySetEngineIds"},
    {"no_set_graph", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPolicySetSerializedGraph"},
    {"no_finalize", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPolicyFinalize"},
    {"no_get_sorted", NOT_LOADED, "Failed to get symbol: hipdnnHeuristicPolicyGetSortedEngineIds"},
    {"no_policies", NOT_LOADED, "No policies found"},
    {"count_grows", NOT_LOADED, "does not match expected count"},
    {"count_huge", NOT_LOADED, "4294967295"},
    {"ids_fail", NOT_LOADED, "Failed to get number of policies"},
    {"ids_throw", NOT_LOADED, THREW},
    {"duplicate", NOT_LOADED, "Duplicate policy IDs found"},
    {"policy_name_empty", NOT_LOADED, "has no name"},
    {"policy_name_null", NOT_LOADED, "null text"},
    {"policy_name_fails", NOT_LOADED, "the stub fails in hipdnnHeuristicPluginGetPolicyName"},
    {"id_not_the_hash", NOT_LOADED, "expected the hash of its name"},
    {"built_in", NOT_LOADED, "in the library itself"},

    {"create_fails", NO_HANDLE, "no such policy"},
    {"create_silent", NO_HANDLE, "no such policy"},
    {"create_throws", NO_HANDLE, "no such policy"},
    {"device_fails", NO_HANDLE, "no such policy"},

    {"descriptor_fails", PASSED_OVER, "Failed to create policy descriptor"},
    {"descriptor_silent", PASSED_OVER, "gave a null one"},
    {"descriptor_throws", PASSED_OVER, THREW},
    {"engines_fail", PASSED_OVER, "Failed to set engine IDs"},
    {"graph_fails", PASSED_OVER, "HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE(5)"},
    {"finalize_fails", PASSED_OVER, "Failed to finalize policy"},
    {"finalize_silent", PASSED_OVER, "out_applied is -2147483648"},
    {"finalize_throws", PASSED_OVER, THREW},
    {"applied_2", PASSED_OVER, "out_applied is 2, expected 0 or 1"},
    {"applied_negative", PASSED_OVER, "out_applied is -1"},
    {"sorted_fails", PASSED_OVER, "Failed to get number of sorted engine IDs"},
    {"sorted_none", PASSED_OVER, "chose 0 engines"},
    {"sorted_more", PASSED_OVER, "chose 17 engines, expected 1 to 2"},
    {"sorted_huge", PASSED_OVER, "chose 18446744073709551615 engines"},
    {"sorted_grows", PASSED_OVER, "chose 3 engines when it had said 2"},
    {"sorted_foreign", PASSED_OVER, "engine 42, which is not among those"},
    {"sorted_twice", PASSED_OVER, "twice"},
    {"sorted_throws", PASSED_OVER, THREW},
    {"host_declines", PASSED_OVER, "it leaves the choice to others"},
    {"host_fails", PASSED_OVER, "Failed to finalize policy"},
    {"host_throws", PASSED_OVER, THREW},
    {"config_fails", PASSED_OVER, "Failed to get the configuration of an engine"},
    {"config_empty", PASSED_OVER, "gave 0 bytes of a configuration"},
    {"config_null", PASSED_OVER, "gave 8 bytes of a configuration"},
    {"config_huge", PASSED_OVER, "gave 18446744073709551615 bytes of a configuration"},
    {"config_garbage", PASSED_OVER, "The policy's configuration of engine"},
    {"config_foreign", PASSED_OVER, "it is of engine 0"},
    {"config_throws", PASSED_OVER, THREW},
};

static void test_variants(void)
{
    const int64_t both[] = {id_of("STUB_REVERSE"), STATIC_ORDERING};
    for (int64_t i = 0; i < COUNT(VARIANTS); i++) {
        char name[64];
        const char* const pointer = name;
        const reach how_far = VARIANTS[i].reach;
        if (!IS_BUILT(VARIANTS[i].name)) {
            continue;
        }
        snprintf(name, sizeof name, "heuristic_%s", VARIANTS[i].name);
        check_about("%s", name);
        use_plugin("good");
        use_heuristics(1, &pointer);
        check_forget_error();
        start_recording();
        hipdnnHandle_t handle = make_handle();
        if (how_far == NOT_LOADED) {
            CHECK_LAST_ERROR(VARIANTS[i].part);
        }
        CHECK_EQ(count_policies(handle), how_far < PASSED_OVER ? 4 : 6);
        hipdnnBackendDescriptor_t graph = make_graph(handle);
        expect(with_order(graph, 2, both), how_far == WORKS ? VARIANTS[i].part : IN_ORDER);
        hipdnnBackendDescriptor_t alone = with_order(graph, 1, both);
        if (how_far == WORKS) {
            CHECK_OK(hipdnnBackendFinalize(alone));
        } else {
            CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR,
                        how_far == PASSED_OVER ? VARIANTS[i].part : "no such policy is loaded",
                        hipdnnBackendFinalize(alone));
        }
        drop(alone);
        drop(graph);
        CHECK_OK(hipdnnDestroy(handle));
        /* Everything created was destroyed. */
        const char* const calls = recorded();
        const bool is_made = strstr(name, "descriptor_") == NULL;
        CHECK(!is_made || count_in(calls, "DescriptorCreate") == count_in(calls, "DescriptorDestroy"));
        unsetenv("HIPDNN_STUB_LOG");
    }
}

/* A variant that has been added without a row here would go untested. */
static void test_completeness(void)
{
    char path[PATH_LENGTH];
    char line[512];
    check_about("completeness");
    const char* const slash = strrchr(__FILE__, '/');
    REQUIRE(slash != NULL);
    snprintf(path, sizeof path, "%.*s/../plugins/variants.txt", (int)(slash - __FILE__), __FILE__);
    FILE* const file = fopen(path, "r");
    REQUIRE(file != NULL);
    int listed = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, " \n")] = '\0';
        if (strncmp(line, "heuristic_", 10) != 0 || strcmp(line, "heuristic_other") == 0) {
            continue;
        }
        bool known = false;
        for (int64_t i = 0; i < COUNT(VARIANTS); i++) {
            known = known || strcmp(VARIANTS[i].name, line + 10) == 0;
        }
        check_about("%s", line);
        CHECK(known);
        listed++;
    }
    fclose(file);
    CHECK_EQ(listed, COUNT(VARIANTS));
}

static void test_orders(void)
{
    const char* const names[] = {"heuristic_good", "heuristic_other"};
    check_about("orders");
    use_plugin("good");
    use_heuristics(2, names);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    CHECK_EQ(count_policies(handle), 7);
    /* Policies of plugins are not asked by default. */
    expect(open_heuristic(graph), IN_ORDER);
    /* One declines, one is not there, and the next decides. */
    const int64_t policies[] = {id_of("STUB_DECLINE"), 4711, CONFIG, id_of("STUB_FIRST"), STATIC_ORDERING};
    expect(with_order(graph, 5, policies), REVERSED);
    expect(with_order(graph, 3, policies + 2), REVERSED);
    hipdnnBackendDescriptor_t none = with_order(graph, 3, policies);
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "STUB_DECLINE: it leaves the choice to others",
                hipdnnBackendFinalize(none));
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "4711: no such policy is loaded", hipdnnBackendFinalize(none));
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "SelectionHeuristic::Config: there", hipdnnBackendFinalize(none));
    /* It can be mended. */
    put(none, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, 5, policies);
    expect(none, REVERSED);
    /* An empty list is one. */
    hipdnnBackendDescriptor_t empty = open_heuristic(graph);
    REQUIRE_OK(
        hipdnnBackendSetAttribute(empty, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, 0, policies));
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "the list of policies is empty", hipdnnBackendFinalize(empty));
    /* Not needed without policies. */
    const bool yes = true;
    put(empty, HIPDNN_ATTR_ENGINEHEUR_FIND_FIRST_EXT, HIPDNN_TYPE_BOOLEAN, 1, &yes);
    expect(empty, IN_ORDER);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* The policy asks again about the same graph. */
static hipdnnBackendDescriptor_t asked_again;
static int calls_back;

static void call_back(const char* function)
{
    if (strcmp(function, "hipdnnHeuristicPolicyFinalize") == 0 && asked_again != NULL) {
        const int64_t both[] = {id_of("STUB_REVERSE"), STATIC_ORDERING};
        calls_back++;
        expect(with_order(asked_again, 2, both), IN_ORDER);
        hipdnnBackendDescriptor_t alone = with_order(asked_again, 1, both);
        CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "is being asked on this thread already",
                    hipdnnBackendFinalize(alone));
        drop(alone);
    }
}

static void test_calls_back(void)
{
    char address[32];
    const char* const name = "heuristic_calls_back";
    void (*const hook)(const char*) = call_back;
    uintptr_t number = 0;
    const int64_t policy = id_of("STUB_REVERSE");
    memcpy(&number, &hook, sizeof number);
    snprintf(address, sizeof address, "%" PRIxPTR, number);
    check_about("calls back");
    use_plugin("good");
    use_heuristics(1, &name);
    hipdnnHandle_t handle = make_handle();
    asked_again = make_graph(handle);
    setenv("HIPDNN_STUB_HOOK", address, 1);
    for (int i = 0; i < 3; i++) {
        expect(with_order(asked_again, 1, &policy), REVERSED);
        CHECK_EQ(calls_back, i + 1);
    }
    unsetenv("HIPDNN_STUB_HOOK");
    drop(asked_again);
    asked_again = NULL;
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_calls(void)
{
    const char* const name = "heuristic_good";
    const int64_t policy = id_of("STUB_REVERSE");
    check_about("calls");
    use_plugin("good");
    use_heuristics(1, &name);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    expect(with_order(graph, 1, &policy), REVERSED);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    const char* const calls = recorded();
    CHECK_CONTAINS(calls, "SetDeviceProperties HDDP");
    CHECK_CONTAINS(calls, "DescriptorCreate told=1\nSetEngineIds count=2\nSetSerializedGraph graph=");
    CHECK_CONTAINS(calls, "Finalize\nDescriptorDestroy\n");
    CHECK_CONTAINS(calls, "HandleDestroy");
    unsetenv("HIPDNN_STUB_LOG");
}

/* A policy gets the host's services while it is finalized; before and after it is refused. */
static void test_host(void)
{
    static const struct {
        const char* name;
        const char* calls;
    } hosts[] = {
        {"heuristic_host_retained", "FinalizeWithHost version=2 metric=tflops prediction=0\nlate prediction=6\n"},
        {"heuristic_host_foreign", "FinalizeWithHost version=2 metric=tflops prediction=1\n"},
    };
    const int64_t policy = id_of("STUB_REVERSE");
    for (int i = 0; i < (int)COUNT(hosts); i++) {
        check_about("%s", hosts[i].name);
        use_plugin("good");
        use_heuristics(1, &hosts[i].name);
        start_recording();
        hipdnnHandle_t handle = make_handle();
        hipdnnBackendDescriptor_t graph = make_graph(handle);
        expect(with_order(graph, 1, &policy), REVERSED);
        drop(graph);
        CHECK_OK(hipdnnDestroy(handle));
        CHECK_CONTAINS(recorded(), hosts[i].calls);
        unsetenv("HIPDNN_STUB_LOG");
    }
}

/* The environment is read when plugins are loaded, and overrides the caller. */
static void test_environment(void)
{
    const int64_t policy = STATIC_ORDERING;
    int64_t used[4] = {0};
    int64_t count = 0;
    check_about("environment");
    setenv("HIPDNN_HEUR_POLICY_ORDER", "SelectionHeuristic::Config, STUB_REVERSE", 1);
    const char* const name = "heuristic_good";
    use_heuristics(1, &name);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = with_order(graph, 1, &policy);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    CHECK_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, 4, &count,
                                       used));
    CHECK_EQ(count, 2);
    CHECK(used[0] == CONFIG && used[1] == id_of("STUB_REVERSE"));
    char names[512];
    names_of(heuristic, names, sizeof names);
    CHECK_STR(names, REVERSED);
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    unsetenv("HIPDNN_HEUR_POLICY_ORDER");

    setenv("HIPDNN_HEUR_FALLBACK_ENGINE_ORDER", "NO_ENGINE,STUB_OTHER_ENGINE", 1);
    use_heuristics(0, NULL);
    handle = make_handle();
    CHECK_EQ(count_policies(handle), 4);
    graph = make_graph(handle);
    expect(open_heuristic(graph), "STUB_OTHER_ENGINE ");
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    /* Names that no loaded plugin has count as the default. */
    setenv("HIPDNN_HEUR_FALLBACK_ENGINE_ORDER", "NO_ENGINE", 1);
    setenv("HIPDNN_HEUR_POLICY_ORDER", "NO_POLICY", 1);
    use_heuristics(0, NULL);
    handle = make_handle();
    graph = make_graph(handle);
    expect(open_heuristic(graph), IN_ORDER);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    unsetenv("HIPDNN_HEUR_FALLBACK_ENGINE_ORDER");
    unsetenv("HIPDNN_HEUR_POLICY_ORDER");
}

int main(void)
{
    setenv("HIPDNN_DISABLE_CACHE", "1", 1);
    test_variants();
    test_completeness();
    test_orders();
    test_calls_back();
    test_calls();
    test_host();
    test_environment();
    return check_result();
}
