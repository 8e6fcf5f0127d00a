/* SPDX-License-Identifier: MIT */

/* HIPDNN_LOG_GRAPH_DIR: every finalized graph becomes a file; a folder that cannot be written is only logged. */
#define _DEFAULT_SOURCE

#include "../again.h"
#include "../json_text.h"

#include <dirent.h>

static const char* program;

/* The number of files in the folder, and the name of one of them. */
static int count_files(const char* folder, char* name, size_t size)
{
    int count = 0;
    DIR* const directory = opendir(folder);
    if (directory == NULL) {
        return 0;
    }
    for (struct dirent* entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (entry->d_name[0] != '.') {
            snprintf(name, size, "%s", entry->d_name);
            count++;
        }
    }
    closedir(directory);
    return count;
}

static void test_files(void)
{
    char name[256] = "";
    char path[512];
    static char text[1 << 16];
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    CHECK_EQ(count_files("graphs/all", name, sizeof name), 0);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    REQUIRE(count_files("graphs/all", name, sizeof name) == 1);
    /* Finalizing again does nothing. */
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    CHECK_EQ(count_files("graphs/all", name, sizeof name), 1);
    snprintf(path, sizeof path, "graphs/all/%s", name);
    read_text(path, text, sizeof text);
    char* const json = json_of(graph);
    CHECK(strncmp(text, json, strlen(json)) == 0 && strcmp(text + strlen(json), "\n") == 0);
    const char* const id = strstr(json, "\"id\":\"");
    REQUIRE(id != NULL);
    char expected[256];
    snprintf(expected, sizeof expected, "graph_%.36s.json", id + 6);
    CHECK_STR(name, expected);
    hipdnnBackendDescriptor_t copy = graph_of_json(text);
    finalize_with(copy, handle);
    CHECK_EQ(count_files("graphs/all", name, sizeof name), 1);
    drop(copy);

    /* A graph without an identifier: a file with another name, the same each time. */
    for (int i = 0; i < 2; i++) {
        copy = graph_of_json(CONV_RELU_JSON);
        finalize_with(copy, handle);
        CHECK_EQ(count_files("graphs/all", name, sizeof name), 2);
        drop(copy);
    }
    free(json);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_unwritable(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    drop(make_plan(graph));
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* The variable is read once, so each value has its own process. */
static void in_process(const char* folder, const char* test)
{
    check_about("%s", folder);
    setenv("HIPDNN_LOG_GRAPH_DIR", folder, 1);
    setenv("HIPDNN_LOG_LEVEL", "warn", 1);
    setenv("HIPDNN_LOG_FILE", "log.txt", 1);
    CHECK_EQ(run_again(program, test, NULL), EXIT_SUCCESS);
}

int main(int count, char** words)
{
    program = words[0];
    if (count > 1) {
        (strcmp(words[1], "files") == 0 ? test_files : test_unwritable)();
        return check_result();
    }
    char name[256];
    static char log[1 << 16];
    in_process("graphs/all", "files");
    in_process("", "unwritable");
    CHECK_EQ(count_files("graphs", name, sizeof name), 1);
    FILE* const file = fopen("file", "wb");
    REQUIRE(file != NULL);
    fclose(file);
    in_process("file/folder", "unwritable");
    check_about("%s", "");
    read_text("log.txt", log, sizeof log);
    CHECK_CONTAINS(log, "[warning]");
    CHECK_CONTAINS(log, "HIPDNN_LOG_GRAPH_DIR");
    CHECK_CONTAINS(log, "file/folder" SEPARATOR "graph_");
    return check_result();
}
