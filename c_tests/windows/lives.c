/* SPDX-License-Identifier: MIT */

/* The library as a DLL among others: from folders with long names and names of any alphabet, closed while its threads live, and replaced
 * while it is in use. The first argument is the folder with the library. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "hipdnn_backend.h"

enum { LENGTH = 4096 };

static int failures = 0;

static void check(bool passed, const char* what, int line)
{
    if (!passed) {
        failures++;
        fprintf(stderr, "lives.c:%d: %s (error %lu)\n", line, what, GetLastError());
    }
}

#define CHECK(condition) check((condition), #condition, __LINE__)

typedef hipdnnStatus_t (*Create)(hipdnnHandle_t*);
typedef hipdnnStatus_t (*Destroy)(hipdnnHandle_t);
typedef hipdnnStatus_t (*Paths)(hipdnnHandle_t, size_t*, char**, size_t*);
typedef hipdnnStatus_t (*SetPaths)(size_t, const char* const*, hipdnnPluginLoadingMode_ext_t);
typedef hipdnnStatus_t (*Listen)(hipdnnUserLogCallback_t, hipdnnSeverity_t, hipdnnLogCallbackMode_t,
                                 hipdnnUserLogCallbackHandle_t);
typedef hipdnnStatus_t (*SetLevel)(hipdnnSeverity_t);

static HMODULE library;

static FARPROC function(const char* name)
{
    const FARPROC found = GetProcAddress(library, name);
    check(found != NULL, name, __LINE__);
    return found;
}

/* A function of the library by its type. */
#define CALL(type, name) ((type)(void (*)(void))function(name))

/* The path of the only plugin that a new handle has, in UTF-8. */
static void only_plugin(char path[LENGTH])
{
    hipdnnHandle_t handle = NULL;
    size_t count = 1;
    size_t length = LENGTH;
    CHECK(CALL(Create, "hipdnnCreate")(&handle) == HIPDNN_STATUS_SUCCESS);
    path[0] = '\0';
    CHECK(CALL(Paths, "hipdnnGetLoadedEnginePluginPaths_ext")(handle, &count, &path, &length) == HIPDNN_STATUS_SUCCESS);
    CHECK(CALL(Destroy, "hipdnnDestroy")(handle) == HIPDNN_STATUS_SUCCESS);
}

static void to_utf8(const wchar_t* wide, char text[LENGTH])
{
    CHECK(WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, LENGTH, NULL, NULL) > 0);
}

static LONG lines = 0;

static void on_line(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* line)
{
    (void)user;
    (void)severity;
    (void)line;
    InterlockedIncrement(&lines);
}

int main(int count, char** words)
{
    if (count != 2) {
        fprintf(stderr, "expected the folder with the library\n");
        return 2;
    }
    wchar_t source[LENGTH];
    wchar_t folder[LENGTH];
    wchar_t path[LENGTH];
    wchar_t other[LENGTH];
    char found[LENGTH];
    char expected[LENGTH];
    CHECK(MultiByteToWideChar(CP_UTF8, 0, words[1], -1, source, LENGTH) > 0);

    /* A folder of three alphabets. */
    const wchar_t* const name = L"C:\\Gr\u00fc\u00dfe \u65e5\u672c \u05d0";
    CreateDirectoryW(name, NULL);
    swprintf(folder, LENGTH, L"%ls\\hipdnn_plugins", name);
    CreateDirectoryW(folder, NULL);
    wcscat(folder, L"\\engines");
    CreateDirectoryW(folder, NULL);
    swprintf(path, LENGTH, L"%ls\\hipdnn_backend.dll", source);
    swprintf(other, LENGTH, L"%ls\\hipdnn_backend.dll", name);
    CHECK(CopyFileW(path, other, FALSE));
    swprintf(path, LENGTH, L"%ls\\hipdnn_plugins\\engines\\hipdnn_cpu_plugin.dll", source);
    wcscat(folder, L"\\hipdnn_cpu_plugin.dll");
    CHECK(CopyFileW(path, folder, FALSE));
    library = LoadLibraryW(other);
    CHECK(library != NULL);
    if (library == NULL) {
        return 1;
    }
    only_plugin(found);
    to_utf8(folder, expected);
    CHECK(strcmp(found, expected) == 0);
    fprintf(stderr, "%s", strcmp(found, expected) == 0 ? "" : found);

    /* A path that is longer than most functions of the system take, named through the interface. */
    wcscpy(path, L"\\\\?\\C:\\long");
    CreateDirectoryW(path, NULL);
    for (int i = 0; i < 12; i++) {
        wcscat(path, L"\\a folder with a name of thirty");
        CreateDirectoryW(path, NULL);
    }
    wcscat(path, L"\\hipdnn_cpu_plugin.dll");
    CHECK(wcslen(path) > MAX_PATH);
    CHECK(CopyFileW(folder, path, FALSE));
    to_utf8(path, expected);
    const char* const paths[] = {expected};
    CHECK(CALL(SetPaths, "hipdnnSetEnginePluginPaths_ext")(1, paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE) ==
          HIPDNN_STATUS_SUCCESS);
    only_plugin(found);
    CHECK(strcmp(found, expected) == 0);
    fprintf(stderr, "%s", strcmp(found, expected) == 0 ? "" : found);

    /* The library's own thread waits for lines when the program lets go of the library, as often as it likes. */
    CHECK(CALL(SetLevel, "hipdnnBackendSetGlobalLogLevel_ext")(HIPDNN_SEV_INFO) == HIPDNN_STATUS_SUCCESS);
    CHECK(CALL(Listen, "hipdnnSetUserLogCallback_ext")(on_line, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_ASYNC,
                                                       (void*)&lines) == HIPDNN_STATUS_SUCCESS);
    only_plugin(found);
    for (int i = 0; i < 3; i++) {
        FreeLibrary(library);
        Sleep(20);
    }
    library = LoadLibraryW(other);
    CHECK(library != NULL);
    only_plugin(found);
    for (int i = 0; i < 200 && InterlockedAdd(&lines, 0) == 0; i++) {
        Sleep(10);
    }
    CHECK(InterlockedAdd(&lines, 0) > 0);

    /* An update puts the files that are in use aside. */
    swprintf(path, LENGTH, L"%ls\\hipdnn_backend.old", name);
    DeleteFileW(path);
    CHECK(MoveFileW(other, path));
    CHECK(CopyFileW(path, other, FALSE));
    only_plugin(found);
    return failures == 0 ? 0 : 1;
}
