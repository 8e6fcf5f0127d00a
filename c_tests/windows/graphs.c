/* SPDX-License-Identifier: MIT */

/* Rewrites graphs: graphs FOLDER FILE..., where each file is a graph as JSON or, with the ending .bin, its bytes. The folder gets its
 * bytes and its JSON, under the file's name. `cargo xtask windows-test` compares what this writes on Linux with what it writes on Windows. */
#include "../json_text.h"

static char* content_of(const char* path, size_t* size)
{
    FILE* const file = fopen(path, "rb");
    REQUIRE(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char* const content = calloc(*size + 1, 1);
    REQUIRE(content != NULL && fread(content, 1, *size, file) == *size);
    fclose(file);
    return content;
}

static void write_file(const char* folder, const char* name, const char* ending, const void* content, size_t size)
{
    char path[1024];
    REQUIRE(snprintf(path, sizeof path, "%s/%s%s", folder, name, ending) < (int)sizeof path);
    FILE* const file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(content, 1, size, file) == size && fclose(file) == 0);
}

int main(int count, char** words)
{
    REQUIRE(count > 2);
    for (int i = 2; i < count; i++) {
        size_t size = 0;
        char* const content = content_of(words[i], &size);
        const bool is_bytes = strstr(words[i], ".bin") != NULL;
        hipdnnBackendDescriptor_t graph =
            is_bytes ? graph_of_bytes((const uint8_t*)content, size) : graph_of_json(content);
        char name[256];
        const char* const slash = strrchr(words[i], '/');
        REQUIRE(snprintf(name, sizeof name, "%s", slash == NULL ? words[i] : slash + 1) < (int)sizeof name);
        name[strcspn(name, ".")] = '\0';
        uint8_t* const bytes = bytes_of(graph, &size);
        write_file(words[1], name, ".bin", bytes, size);
        char* const json = json_of(graph);
        write_file(words[1], name, ".json", json, strlen(json));
        free(json);
        free(bytes);
        free(content);
        drop(graph);
    }
    return check_result();
}
