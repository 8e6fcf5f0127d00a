/* SPDX-License-Identifier: MIT */

/* Loading the test plugins, and reading what they recorded. */
#ifndef HOST_H
#define HOST_H

#include "../fixture.h"

enum { PATH_LENGTH = 4096 };

/* Where the library of a variant of stub_plugin.c lies. */
static inline void plugin_path(char path[PATH_LENGTH], const char* name)
{
    const char* folder = getenv("HIPDNN_TEST_PLUGINS");
    REQUIRE(folder != NULL);
    REQUIRE(snprintf(path, PATH_LENGTH, "%s/" LIBRARY_BEGIN "%s" LIBRARY_END, folder, name) < PATH_LENGTH);
}

/* From now on exactly these plugins are loaded, and no others. */
static inline void use_plugins(int count, const char* const names[])
{
    static char paths[8][PATH_LENGTH];
    const char* pointers[8];
    REQUIRE(count <= 8);
    for (int i = 0; i < count; i++) {
        plugin_path(paths[i], names[i]);
        pointers[i] = paths[i];
    }
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext((size_t)count, pointers, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
}

static inline void use_plugin(const char* name) { use_plugins(1, &name); }

static inline size_t count_loaded(hipdnnHandle_t handle)
{
    size_t count = 4711;
    size_t length = 0;
    CHECK_OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length));
    return count;
}

/* The loaded plugins' file names without what is around them, each with a blank after it, in the library's order. */
static inline void loaded_names(hipdnnHandle_t handle, char* names, size_t size)
{
    enum { MOST = 64 };
    static char paths[MOST][PATH_LENGTH];
    char* pointers[MOST];
    size_t count = MOST;
    size_t length = PATH_LENGTH;
    for (int i = 0; i < MOST; i++) {
        pointers[i] = paths[i];
    }
    names[0] = '\0';
    CHECK_OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, pointers, &length));
    count = count_loaded(handle);
    for (size_t i = 0; i < count; i++) {
        const char* const slash = strrchr(paths[i], SEPARATOR[0]);
        const char* name = slash == NULL ? paths[i] : slash + 1;
        if (strncmp(name, LIBRARY_BEGIN, strlen(LIBRARY_BEGIN)) == 0) {
            name += strlen(LIBRARY_BEGIN);
        }
        const size_t used = strlen(names);
        snprintf(names + used, size - used, "%.*s ", (int)(strlen(name) - strlen(LIBRARY_END)), name);
    }
}

static inline void engine_name(hipdnnBackendDescriptor_t config, char* name, int64_t size)
{
    hipdnnBackendDescriptor_t engine = NULL;
    int64_t count = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                                         &engine));
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_NAME_EXT, HIPDNN_TYPE_CHAR, size, &count, name));
    drop(engine);
}

/* The names of the engines of a finalized heuristic, best first, each with a blank after it. */
static inline void names_of(hipdnnBackendDescriptor_t heuristic, char* names, size_t size)
{
    enum { MOST = 64 };
    hipdnnBackendDescriptor_t configs[MOST];
    int64_t count = count_results(heuristic);
    names[0] = '\0';
    REQUIRE(count <= MOST);
    for (int64_t i = 0; i < count; i++) {
        configs[i] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (count > 0) {
        REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                             count, &count, configs));
    }
    for (int64_t i = 0; i < count; i++) {
        char name[128];
        REQUIRE_OK(hipdnnBackendFinalize(configs[i]));
        engine_name(configs[i], name, sizeof name);
        const size_t used = strlen(names);
        snprintf(names + used, size - used, "%s ", name);
        drop(configs[i]);
    }
}

/* The same for a graph. */
static inline void engine_names(hipdnnBackendDescriptor_t graph, char* names, size_t size)
{
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    names_of(heuristic, names, size);
    drop(heuristic);
}

/* The plugins write a line for each call to this file of the test's folder. */
#define RECORD "record.txt"

static inline void start_recording(void)
{
    remove(RECORD);
    setenv("HIPDNN_STUB_LOG", RECORD, 1);
}

/* Everything recorded so far. */
static inline const char* recorded(void)
{
    static char text[1 << 18];
    text[0] = '\0';
    FILE* file = fopen(RECORD, "rb");
    if (file != NULL) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    return text;
}

static inline int count_in(const char* text, const char* part)
{
    int count = 0;
    for (const char* at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

#endif
