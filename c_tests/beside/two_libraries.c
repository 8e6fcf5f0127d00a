/* SPDX-License-Identifier: MIT */

/*
 * Ours and another library called hipdnn, with functions of the same names, in one process: standin_hipdnn.c. Ours calls its own
 * functions, whichever comes first and however visible the other is; so does the other, where it comes first or ours is opened
 * for the program alone.
 *
 *   two_libraries OURS OTHER [ours-first] [global] [other-is-whole]
 *
 * opens both files; where the program was linked with one or it was loaded before anything, that is the one that is there. With
 * "ours-first" ours is opened first, with "global" both are visible to all, and with "other-is-whole" the other has to find its own
 * functions as well.
 */
#define _POSIX_C_SOURCE 200809L

#include <hipdnn_backend.h>

#include <dlfcn.h>
#include <string.h>

typedef void (*any_function)(void);

static void* ours;
static void* other;

static any_function function(void* library, const char* name);

/* The fixture uses our functions, whatever the program is linked with. */
#define OF_OURS(name, result, ...) ((result(*)(__VA_ARGS__))function(ours, #name))
#define hipdnnCreate OF_OURS(hipdnnCreate, hipdnnStatus_t, hipdnnHandle_t*)
#define hipdnnDestroy OF_OURS(hipdnnDestroy, hipdnnStatus_t, hipdnnHandle_t)
#define hipdnnSetStream OF_OURS(hipdnnSetStream, hipdnnStatus_t, hipdnnHandle_t, hipStream_t)
#define hipdnnGetErrorString OF_OURS(hipdnnGetErrorString, const char*, hipdnnStatus_t)
#define hipdnnGetLastErrorString OF_OURS(hipdnnGetLastErrorString, void, char*, size_t)
#define hipdnnBackendCreateDescriptor \
    OF_OURS(hipdnnBackendCreateDescriptor, hipdnnStatus_t, hipdnnBackendDescriptorType_t, hipdnnBackendDescriptor_t*)
#define hipdnnBackendDestroyDescriptor OF_OURS(hipdnnBackendDestroyDescriptor, hipdnnStatus_t, hipdnnBackendDescriptor_t)
#define hipdnnBackendFinalize OF_OURS(hipdnnBackendFinalize, hipdnnStatus_t, hipdnnBackendDescriptor_t)
#define hipdnnBackendExecute \
    OF_OURS(hipdnnBackendExecute, hipdnnStatus_t, hipdnnHandle_t, hipdnnBackendDescriptor_t, hipdnnBackendDescriptor_t)
#define hipdnnBackendSetAttribute                                                                       \
    OF_OURS(hipdnnBackendSetAttribute, hipdnnStatus_t, hipdnnBackendDescriptor_t, hipdnnBackendAttributeName_t, \
            hipdnnBackendAttributeType_t, int64_t, const void*)
#define hipdnnBackendGetAttribute                                                                       \
    OF_OURS(hipdnnBackendGetAttribute, hipdnnStatus_t, hipdnnBackendDescriptor_t, hipdnnBackendAttributeName_t, \
            hipdnnBackendAttributeType_t, int64_t, int64_t*, void*)

#include "../fixture.h"

static any_function function(void* library, const char* name)
{
    any_function found;
    void* const address = dlsym(library, name);
    if (address == NULL) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(1);
    }
    memcpy(&found, &address, sizeof found);
    return found;
}

static void* open_library(const char* path, int visibility)
{
    void* const library = dlopen(path, RTLD_NOW | visibility);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

/* A graph through all of ours: a handle, the engines, a plan, the result; and a call that fails, with its text. */
static void test_ours(void)
{
    buffers data;
    CHECK(strcmp(hipdnnGetErrorString(HIPDNN_STATUS_SUCCESS), "HIPDNN_STATUS_SUCCESS") == 0);
    CHECK_EQ(hipdnnCreate(NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    hipdnnHandle_t handle = make_handle();
    CHECK_OK(hipdnnSetStream(handle, NULL));
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_other(bool is_whole)
{
    void* handle = NULL;
    const int status = ((int (*)(void**))function(other, "hipdnnCreate"))(&handle);
    const char* const text = ((const char* (*)(int))function(other, "hipdnnGetErrorString"))(status);
    const char* const own = ((const char* (*)(void))function(other, "other_selfcheck"))();
    CHECK(strcmp(text, "the other library's success") == 0);
    CHECK_EQ(((int (*)(void*, void*))function(other, "hipdnnSetStream"))(handle, NULL), status);
    if (is_whole) {
        check_about("other_selfcheck: %s", own);
        CHECK(strcmp(own, "the other library's success") == 0);
        check_about("%s", "");
    }
}

int main(int count, char** words)
{
    bool ours_first = false;
    bool is_whole = false;
    int visibility = RTLD_LOCAL;
    if (count < 3) {
        return 2;
    }
    for (int i = 3; i < count; i++) {
        ours_first |= strcmp(words[i], "ours-first") == 0;
        is_whole |= strcmp(words[i], "other-is-whole") == 0;
        visibility = strcmp(words[i], "global") == 0 ? RTLD_GLOBAL : visibility;
    }
    if (ours_first) {
        ours = open_library(words[1], visibility);
    }
    other = open_library(words[2], visibility);
    if (!ours_first) {
        ours = open_library(words[1], visibility);
    }
    for (int round = 0; round < 3; round++) {
        test_ours();
        test_other(is_whole);
    }
    return check_result();
}
