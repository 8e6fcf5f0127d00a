/* SPDX-License-Identifier: MIT */

/*
 * Prints which plugins the library has loaded, their engines, and which of these can run a small graph, best first.
 *
 * Usage: list_engines
 * Exit status: 0 when at least one plugin is loaded and at least one engine can run the graph.
 */
#include "hipdnn_helpers.h"

/* Lists of unknown size are queried twice: first for the number of names and the length of the
* longest, then for the names. */
static size_t print_plugins(hipdnnHandle_t handle)
{
    size_t count = 0;
    size_t length = 0;
    HD_CHECK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length));
    printf("Library version %s, %zu engine plugin%s\n", hipdnnVersionString_ext(), count, count == 1 ? "" : "s");
    if (count == 0) {
        return 0;
    }
    char* characters = malloc(count * length);
    char** paths = malloc(count * sizeof *paths);
    if (characters == NULL || paths == NULL) {
        hd_fail("out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        paths[i] = characters + i * length;
    }
    HD_CHECK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, paths, &length));
    for (size_t i = 0; i < count; i++) {
        printf("  %s\n", paths[i]);
    }
    free(paths);
    free(characters);
    return count;
}

/* Every engine, whatever it can run. Its texts could be queried in two calls as well; here the buffers have a fixed size. */
static void print_loaded_engines(hipdnnHandle_t handle)
{
    enum { LENGTH = 128 };
    size_t count = 0;
    HD_CHECK(hipdnnGetEngineCount_ext(handle, &count));
    printf("Engines:\n");
    for (size_t i = 0; i < count; i++) {
        char name[LENGTH], plugin[LENGTH], version[LENGTH], type[LENGTH];
        size_t lengths[4] = {LENGTH, LENGTH, LENGTH, LENGTH};
        int64_t id = 0;
        HD_CHECK(hipdnnGetEngineInfo_ext(handle, i, &id, name, &lengths[0], plugin, &lengths[1], version, &lengths[2],
                                         type, &lengths[3]));
        printf("  %-24s id %" PRId64 ", plugin %s %s\n", name, id, plugin, version);
    }
}

static int64_t print_engines(hipdnnHandle_t handle)
{
    enum { X, W, Y, MOST = 64 };
    hd_graph g = hd_graph_begin(handle, "one convolution");
    hipdnnBackendDescriptor_t x = hd_tensor(&g, X, 1, 8, 16, 16);
    hipdnnBackendDescriptor_t w = hd_tensor(&g, W, 8, 8, 3, 3);
    hipdnnBackendDescriptor_t y = hd_tensor(&g, Y, 1, 8, 16, 16);
    hd_conv_forward(&g, x, w, y, 1, 1);
    hipdnnBackendDescriptor_t operation_graph = hd_graph_finalize(&g);

    hipdnnBackendDescriptor_t configs[MOST];
    const int64_t count = hd_engine_configs(operation_graph, MOST, configs);
    printf("Of these, for a 3x3 convolution of 8 channels, best first:\n");
    for (int64_t i = 0; i < count; i++) {
        char name[HD_NAME_LENGTH];
        int64_t workspace = 0;
        hd_engine_name(configs[i], name);
        HD_CHECK(hipdnnBackendGetAttribute(configs[i], HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1, NULL,
                                           &workspace));
        printf("  %-24s workspace %" PRId64 " bytes\n", name, workspace);
        hd_destroy(configs[i]);
    }
    if (count == 0) {
        char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
        hipdnnGetLastErrorString(text, sizeof text);
        printf("  none: %s\n", text);
    }
    hd_destroy(operation_graph);
    return count;
}

int main(void)
{
    hipdnnHandle_t handle = NULL;
    HD_CHECK(hipdnnCreate(&handle));
    const size_t plugins = print_plugins(handle);
    print_loaded_engines(handle);
    const int64_t engines = print_engines(handle);
    HD_CHECK(hipdnnDestroy(handle));
    return plugins > 0 && engines > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
