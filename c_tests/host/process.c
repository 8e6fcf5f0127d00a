/* SPDX-License-Identifier: MIT */

/*
 * The library in its process: fork, closing and reopening the library while threads live that have used it, and calls at
 * thread exit.
 */
#include "host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph, plan, pack;

static bool works(void)
{
    hipdnnHandle_t other = NULL;
    hipdnnBackendDescriptor_t another = NULL;
    bool good = hipdnnBackendExecute(handle, plan, pack) == HIPDNN_STATUS_SUCCESS;
    good = good && hipdnnCreate(&other) == HIPDNN_STATUS_SUCCESS;
    good = good && hipdnnBackendExecute(other, plan, pack) == HIPDNN_STATUS_SUCCESS;
    good = good && hipdnnDestroy(other) == HIPDNN_STATUS_SUCCESS;
    good = good && hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, &another) == HIPDNN_STATUS_SUCCESS;
    good = good && hipdnnBackendDestroyDescriptor(another) == HIPDNN_STATUS_SUCCESS;
    return good && hipdnnBackendDestroyDescriptor(another) == HIPDNN_STATUS_BAD_PARAM;
}

/* The child has the parent's handles, its own copy of everything, and the log. */
static void test_fork(void)
{
    static char text[1 << 20];
    check_about("fork");
    CHECK(works());
    for (int generation = 0; generation < 3; generation++) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(30);
            for (int i = 0; i < 100; i++) {
                if (!works()) {
                    _exit(1);
                }
            }
            hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "a line of the child");
            const bool destroyed = hipdnnBackendDestroyDescriptor(plan) == HIPDNN_STATUS_SUCCESS &&
                                   hipdnnDestroy(handle) == HIPDNN_STATUS_SUCCESS;
            _exit(destroyed ? 0 : 2);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
        CHECK(works());
    }
    read_text("log.txt", text, sizeof text);
    CHECK_EQ(count_in(text, "a line of the child\n"), 3);
}

/* The library under another name, which is another library to the loader. */
typedef struct {
    void* library;
    hipdnnStatus_t (*create)(hipdnnHandle_t*);
    hipdnnStatus_t (*destroy)(hipdnnHandle_t);
    hipdnnStatus_t (*set_paths)(size_t, const char* const*, hipdnnPluginLoadingMode_ext_t);
} copy;

static void find(void* library, const char* name, void* function)
{
    void* const found = dlsym(library, name);
    REQUIRE(found != NULL);
    memcpy(function, &found, sizeof found);
}

static copy open_copy(void)
{
    copy opened = {.library = dlopen("./copy.so", RTLD_NOW | RTLD_LOCAL)};
    REQUIRE(opened.library != NULL);
    find(opened.library, "hipdnnCreate", &opened.create);
    find(opened.library, "hipdnnDestroy", &opened.destroy);
    find(opened.library, "hipdnnSetEnginePluginPaths_ext", &opened.set_paths);
    return opened;
}

static void copy_library(void)
{
    static char bytes[1 << 16];
    char line[PATH_LENGTH + 128];
    char path[PATH_LENGTH] = "";
    size_t size = 0;
    FILE* const maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        const char* const slash = strchr(line, '/');
        if (slash != NULL && strstr(slash, "libhipdnn_backend.so") != NULL) {
            snprintf(path, sizeof path, "%.*s", (int)strcspn(slash, "\n"), slash);
            break;
        }
    }
    fclose(maps);
    FILE* const in = fopen(path, "rb");
    FILE* const out = fopen("copy.so", "wb");
    REQUIRE(in != NULL && out != NULL);
    while ((size = fread(bytes, 1, sizeof bytes, in)) > 0) {
        REQUIRE(fwrite(bytes, 1, size, out) == size);
    }
    fclose(in);
    REQUIRE(fclose(out) == 0);
}

static sem_t used, closed;

static void* use_copy(void* argument)
{
    const copy* const opened = argument;
    hipdnnHandle_t own = NULL;
    bool good = opened->create(&own) == HIPDNN_STATUS_SUCCESS && opened->destroy(own) == HIPDNN_STATUS_SUCCESS;
    sem_post(&used);
    /* The thread ends after the library was closed. */
    while (sem_wait(&closed) != 0) {
    }
    return good ? argument : NULL;
}

static void test_close(void)
{
    char path[PATH_LENGTH];
    const char* const paths[] = {path};
    check_about("close");
    copy_library();
    plugin_path(path, "good");
    REQUIRE(sem_init(&used, 0, 0) == 0 && sem_init(&closed, 0, 0) == 0);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        void* result = NULL;
        copy opened = open_copy();
        CHECK_OK(opened.set_paths(1, paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
        REQUIRE(pthread_create(&thread, NULL, use_copy, &opened) == 0);
        while (sem_wait(&used) != 0) {
        }
        CHECK(dlclose(opened.library) == 0);
        sem_post(&closed);
        REQUIRE(pthread_join(thread, &result) == 0);
        CHECK(result != NULL);
    }
    /* Also by the thread that stays */
    copy opened = open_copy();
    hipdnnHandle_t own = NULL;
    CHECK_OK(opened.create(&own));
    CHECK_OK(opened.destroy(own));
    CHECK(dlclose(opened.library) == 0);
}

static pthread_key_t key;

/* Runs when a thread ends, after most of what the thread had is gone. */
static void end_of_thread(void* descriptor)
{
    hipdnnHandle_t own = NULL;
    CHECK_OK(hipdnnBackendDestroyDescriptor(descriptor));
    CHECK_OK(hipdnnCreate(&own));
    CHECK_OK(hipdnnDestroy(own));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "destroyed before", hipdnnDestroy(own));
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    CHECK(count_results(heuristic) == 2);
    drop(heuristic);
}

static void* short_thread(void* argument)
{
    REQUIRE(pthread_setspecific(key, make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR)) == 0);
    return argument;
}

static void test_end_of_thread(void)
{
    check_about("end of a thread");
    REQUIRE(pthread_key_create(&key, end_of_thread) == 0);
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, short_thread, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
}

int main(void)
{
    static buffers data;
    remove("log.txt");
    setenv("HIPDNN_LOG_LEVEL", "error", 1);
    setenv("HIPDNN_LOG_FILE", "log.txt", 1);
    use_plugin("good");
    handle = make_handle();
    graph = make_graph(handle);
    plan = make_plan(graph);
    fill_buffers(&data, plan);
    pack = make_pack(&data);
    test_fork();
    test_close();
    test_end_of_thread();
    drop(pack);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    free(data.workspace);
    return check_result();
}
