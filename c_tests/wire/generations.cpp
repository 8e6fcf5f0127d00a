/* SPDX-License-Identifier: MIT */

/*
 * The generation of graph bytes for plugins that do not declare theirs: compiled with the FlatBuffers compiler's code in each of
 * AMD's namespaces, with and without optional functions, with symbols and stripped. The library passes a graph of each kind of
 * node to each plugin, which compares every field.
 *
 * Arguments, three for each plugin: its file, how many of the kinds it has to read back right, and what the log has to say of
 * its generation. Where that is HIPDNN_PLUGIN_GENERATION, this is set to 2026 for the file.
 */

#include "backend.h"
#include "nodes.h"

#include <cstdlib>

static const char VARIABLE[] = "HIPDNN_PLUGIN_GENERATION";

/* What the log says of the plugins that are loaded. */
static std::string loaded;

static void keep(hipdnnUserLogCallbackHandle_t, hipdnnSeverity_t, const char* line)
{
    if (strstr(line, "] loaded plugin ") != nullptr)
    {
        loaded += line;
        loaded += '\n';
    }
}

/* Whether the plugin reads the graph as the one that it expects. */
static bool is_read(hipdnnBackendDescriptor_t graph, hipdnnHandle_t handle)
{
    set<hipdnnHandle_t>(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, {handle});
    finish(graph);
    auto heuristic = make(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set<hipdnnBackendDescriptor_t>(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                   {graph});
    set<hipdnnBackendHeurMode_t>(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE,
                                 {HIPDNN_HEUR_MODE_FALLBACK});
    finish(heuristic);
    int64_t count = -1;
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                         &count, nullptr));
    CHECK_OK(hipdnnBackendDestroyDescriptor(heuristic));
    CHECK_OK(hipdnnBackendDestroyDescriptor(graph));
    return count == 1;
}

/* The graph of a kind, from bytes of 2026; renamed, so that the library unpacks it and writes other bytes. */
static hipdnnBackendDescriptor_t renamed(int kind)
{
    auto graph = from_bytes<hipdnn::Graph>(graph_of_g2(kind));
    set_text(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, "renamed " + std::to_string(kind));
    return graph;
}

static void test(const char* path, int kinds, const std::string& reason)
{
    const char* name = strrchr(path, '/') + 1;
    if (reason.find(VARIABLE) == 0)
    {
        REQUIRE(setenv(VARIABLE, (std::string(name) + "=2026").c_str(), 1) == 0);
    }
    loaded.clear();
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, &path, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    hipdnnHandle_t handle = nullptr;
    REQUIRE_OK(hipdnnCreate(&handle));
    check_about("%s: %s", name, loaded.c_str());
    CHECK(loaded.find(std::string(name) + ", generation " + (kinds > 7 ? "2026" : "2025") + ": ") != std::string::npos);
    CHECK(loaded.find(reason) != std::string::npos);
    for (int kind = 1; kind <= KINDS; kind++)
    {
        check_about("%s, kind %d", name, kind);
        const bool expected = kind <= kinds;
        CHECK(is_read(from_bytes<hipdnn::Graph>(graph_of_g2(kind)), handle) == expected);
        CHECK(is_read(renamed(kind), handle) == expected);
        /* Bytes of 2025 can only have kinds of 2025. */
        CHECK(kind > 7 || is_read(from_bytes<hipdnn::GraphG1>(graph_of_g1(kind)), handle) == expected);
    }
    const auto said = loaded.find("generation ");
    printf("%s: %d kinds, %s", name, kinds, said == std::string::npos ? "\n" : loaded.c_str() + said);
    CHECK_OK(hipdnnDestroy(handle));
    unsetenv(VARIABLE);
}

int main(int count, char** arguments)
{
    REQUIRE(count > 1 && count % 3 == 1);
    static char user;
    REQUIRE(setenv("HIPDNN_LOG_FILE", "/dev/null", 1) == 0);
    REQUIRE_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_INFO));
    REQUIRE_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC, &user));
    for (int i = 1; i < count; i += 3)
    {
        test(arguments[i], atoi(arguments[i + 1]), arguments[i + 2]);
    }
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, &user));
    return check_result();
}
