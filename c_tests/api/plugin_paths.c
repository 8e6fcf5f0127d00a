/* SPDX-License-Identifier: MIT */

/* hipdnnSetEnginePluginPaths_ext and hipdnnGetLoadedEnginePluginPaths_ext: arguments. What the paths mean is tested in
 * c_tests/host. */
#include "../fixture.h"

#include <limits.h>

static void test_set(void)
{
    const char* const paths[] = {"no/such/folder/", "no/such/file"};
    const char* const with_null[] = {"no/such/folder/", NULL};
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "pluginPaths",
                hipdnnSetEnginePluginPaths_ext(1, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "pluginPaths",
                hipdnnSetEnginePluginPaths_ext(SIZE_MAX, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "pluginPaths",
                hipdnnSetEnginePluginPaths_ext(2, with_null, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "numPaths",
                hipdnnSetEnginePluginPaths_ext(SIZE_MAX, paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    /* The mode was once unchecked, which led to a third behaviour. */
    const int modes[] = {2, -1, 77, INT_MAX, INT_MIN};
    for (int64_t i = 0; i < COUNT(modes); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "loadingMode",
                    hipdnnSetEnginePluginPaths_ext(2, paths, (hipdnnPluginLoadingMode_ext_t)modes[i]));
    }
    /* None of it has changed where plugins are looked for. */
    size_t count = 0;
    size_t length = 0;
    hipdnnHandle_t handle = make_handle();
    CHECK_OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length));
    CHECK(count > 0);
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "active handle",
                hipdnnSetEnginePluginPaths_ext(2, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    /* Pointers are checked first. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "pluginPaths",
                hipdnnSetEnginePluginPaths_ext(2, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_OK(hipdnnDestroy(handle));
    /* Without a handle it may be called; no paths need no array. */
    CHECK_OK(hipdnnSetEnginePluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_OK(hipdnnSetEnginePluginPaths_ext(2, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_OK(hipdnnSetEnginePluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE));

    /* Absolute and empty: a handle without plugins, which is not an error. */
    handle = make_handle();
    count = 41;
    length = 42;
    CHECK_OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length));
    CHECK(count == 0 && length == 0);
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    CHECK_LAST_ERROR("no engine plugin is loaded");
    CHECK_EQ(count_results(heuristic), 0);
    drop(heuristic);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    CHECK_OK(hipdnnSetEnginePluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE));
}

static void test_get(void)
{
    const char* const one[] = {"hipdnn_plugins/engines/" LIBRARY_BEGIN "hipdnn_cpu_plugin" LIBRARY_END};
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, one, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    hipdnnHandle_t handle = make_handle();
    size_t count = 41;
    size_t length = 42;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle",
                hipdnnGetLoadedEnginePluginPaths_ext(NULL, &count, NULL, &length));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "numPluginPaths",
                hipdnnGetLoadedEnginePluginPaths_ext(handle, NULL, NULL, &length));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "maxStringLen",
                hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, NULL));
    CHECK(count == 41 && length == 42);
    REQUIRE_OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length));
    REQUIRE(count == 1 && length > 1);

    char* const memory = malloc(length + 16);
    REQUIRE(memory != NULL);
    char* paths[] = {memory, (char*)(uintptr_t)0x77};
    memset(memory, '#', length + 16);
    size_t small = 0;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "numPluginPaths",
                hipdnnGetLoadedEnginePluginPaths_ext(handle, &small, paths, &length));
    small = length - 1;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "maxStringLen",
                hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, paths, &small));
    CHECK_EQ(small, length - 1);
    char* null_path[] = {NULL};
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "pluginPaths",
                hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, null_path, &length));
    for (size_t i = 0; i < length + 16; i++) {
        CHECK(memory[i] == '#');
    }
    /* More room than needed: the buffer is cleared up to its end, a second one is not touched. */
    size_t buffers_given = 2;
    size_t room = length + 8;
    CHECK_OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &buffers_given, paths, &room));
    CHECK(buffers_given == 2 && room == length + 8);
    CHECK_EQ(strlen(memory), length - 1);
    CHECK(memory[0] == SEPARATOR[0] || memory[1] == ':');
    CHECK_CONTAINS(memory, SEPARATOR "hipdnn_plugins" SEPARATOR "engines" SEPARATOR);
    for (size_t i = length; i < length + 16; i++) {
        CHECK(memory[i] == (i < length + 8 ? '\0' : '#'));
    }
    CHECK(paths[1] == (char*)(uintptr_t)0x77);
    free(memory);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    test_set();
    test_get();
    return check_result();
}
