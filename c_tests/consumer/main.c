/* SPDX-License-Identifier: MIT */

/* A program that found the installed library: it makes a handle, and the CPU engines are found with no setting. */

#include <hipdnn_backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char* what, hipdnnStatus_t status)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
    hipdnnGetLastErrorString(text, sizeof text);
    fprintf(stderr, "%s: %s: %s\n", what, hipdnnGetErrorString(status), text);
    return EXIT_FAILURE;
}

int main(void)
{
    hipdnnHandle_t handle = NULL;
    size_t count = 0;
    size_t length = 0;
    int found = 0;
    hipdnnStatus_t status = hipdnnCreate(&handle);
    if (status != HIPDNN_STATUS_SUCCESS)
        return failed("hipdnnCreate", status);

    status = hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length);
    if (status != HIPDNN_STATUS_SUCCESS)
        return failed("number of plugins", status);
    if (count == 0 || length == 0) {
        fprintf(stderr, "no plugin was found beside the library\n");
        return EXIT_FAILURE;
    }

    char** paths = calloc(count, sizeof *paths);
    for (size_t i = 0; paths != NULL && i < count; ++i)
        paths[i] = calloc(length, 1);
    status = hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, paths, &length);
    if (status != HIPDNN_STATUS_SUCCESS)
        return failed("paths of plugins", status);
    for (size_t i = 0; i < count; ++i) {
        printf("plugin %s\n", paths[i]);
        found |= strstr(paths[i], "/hipdnn_plugins/engines/libhipdnn_cpu_plugin.so") != NULL;
        free(paths[i]);
    }
    free(paths);

    status = hipdnnDestroy(handle);
    if (status != HIPDNN_STATUS_SUCCESS)
        return failed("hipdnnDestroy", status);
    printf("hipDNN backend %s\n", hipdnnVersionString_ext());
    if (!found)
        fprintf(stderr, "the CPU plugin is not among the plugins\n");
    return found ? EXIT_SUCCESS : EXIT_FAILURE;
}
