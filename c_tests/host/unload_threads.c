/* SPDX-License-Identifier: MIT */

/*
 * Plugins with threads of their own, which log until the plugin's static destructor has joined them: every way of unloading and
 * refusing one, with the log off and on, with callbacks of the user's. The loader's lock is held while the destructor waits for
 * the threads, so whatever a line needs of the loader, or of a thread that waits for it, is a hang; an alarm ends that.
 *
 * An argument says how often each case runs in place of some times, and another how many of the kinds of logs. `exit` and the
 * numbers of a case before it make the process one that ends with the plugin loaded.
 */
#include "host.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A child of gcc's AddressSanitizer has the lock of its memory as the parent's threads had it, and waits for it for good. */
#ifdef __SANITIZE_ADDRESS__
#define FORK_HANGS true
#else
#define FORK_HANGS false
#endif

enum { FEW = 20, FEW_OF_MANY = 8, FEW_EXITS = 2, PATIENCE = 60, MOST_THREADS = 8 };

typedef enum {
    EAGER,
    PATHS_TWICE,
    WRONG_VERSION,
    TWICE_THE_ID,
    NO_ENGINES,
    CLASH,
    POLICY,
    WRONG_POLICY,
    EXIT,
    WAYS
} way;

static const char* const WAY_NAMES[WAYS] = {
    "eager unload",
    "paths set twice",
    "refused for its version",
    "refused for an id it has twice",
    "refused for having no engine",
    "all of its ids taken",
    "heuristic plugin",
    "heuristic plugin refused for its version",
    "exit with live handles",
};

typedef enum { OFF, INFO, SYNC, ASYNC, CALLING, CALLING_ASYNC, LOGS } log_mode;

static const char* const LOG_NAMES[LOGS] = {
    "no log",
    "log",
    "synchronous callback",
    "asynchronous callback",
    "callback that calls the library",
    "asynchronous callback that calls the library",
};

static char now[256];
static bool says_what_it_does;
static time_t begun;

static void begin(const char* what, log_mode mode, int threads)
{
    snprintf(now, sizeof now, "%s, %s, %d threads\n", what, LOG_NAMES[mode], threads);
    check_about("%s, %s, %d threads", what, LOG_NAMES[mode], threads);
    begun = time(NULL);
}

static void end(int runs)
{
    if (says_what_it_does) {
        printf("%d runs, %lld s: %s", runs, (long long)(time(NULL) - begun), now);
        fflush(stdout);
    }
}

static void too_long(int number)
{
    static const char what[] = "\nhangs: ";
    (void)number;
    ssize_t written = write(STDERR_FILENO, what, sizeof what - 1);
    written += write(STDERR_FILENO, now, strlen(now));
    _exit(written > 0 ? 3 : 4);
}

static atomic_long lines;

static void count_line(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* line)
{
    (void)user;
    (void)severity;
    lines += line[0] != '\0';
}

/* What a callback, or a plugin in its constructor or destructor, may do: each call returns, with one status or another. */
static void call_library(void)
{
    char text[64];
    hipdnnHandle_t handle = NULL;
    hipdnnBackendDescriptor_t descriptor = NULL;
    hipdnnSeverity_t level = HIPDNN_SEV_OFF;
    if (hipdnnCreate(&handle) == HIPDNN_STATUS_SUCCESS) {
        CHECK_OK(hipdnnDestroy(handle));
    }
    CHECK_OK(hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor));
    CHECK_STATUS(hipdnnBackendFinalize(descriptor), HIPDNN_STATUS_BAD_PARAM);
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK(text[0] != '\0');
    CHECK_OK(hipdnnBackendDestroyDescriptor(descriptor));
    CHECK_OK(hipdnnBackendGetGlobalLogLevel_ext(&level));
    /* Besides the plugin with threads, one whose function needs the loader when a handle is made. */
    char path[PATH_LENGTH];
    const char* const paths[] = {path};
    plugin_path(path, "opens_library");
    const hipdnnStatus_t status = hipdnnSetEnginePluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    CHECK(status == HIPDNN_STATUS_SUCCESS || status == HIPDNN_STATUS_NOT_SUPPORTED);
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "a line from within");
}

static void call_from_line(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* line)
{
    count_line(user, severity, line);
    call_library();
}

static void set_log(log_mode mode, bool on)
{
    static int user;
    const bool calls = mode == CALLING || mode == CALLING_ASYNC;
    const hipdnnLogCallbackMode_t when =
        mode == ASYNC || mode == CALLING_ASYNC ? HIPDNN_LOG_CALLBACK_ASYNC : HIPDNN_LOG_CALLBACK_SYNC;
    if (mode >= SYNC) {
        CHECK_OK(hipdnnSetUserLogCallback_ext(calls ? call_from_line : count_line,
                                              on ? HIPDNN_SEV_INFO : HIPDNN_SEV_OFF, when, &user));
    }
    if (mode != OFF) {
        CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(on ? HIPDNN_SEV_INFO : HIPDNN_SEV_OFF));
    }
}

static const char* plugin_of(way which)
{
    switch (which) {
    case WRONG_VERSION: return "threaded_api_2";
    case TWICE_THE_ID: return "threaded_twice";
    case NO_ENGINES: return "threaded_no_engines";
    default: return "threaded";
    }
}

static void set_paths(way which)
{
    const char* const clash[] = {"good", "threaded"};
    char path[PATH_LENGTH];
    const char* const paths[] = {path};
    if (which == CLASH) {
        use_plugins(2, clash);
    } else if (which == POLICY || which == WRONG_POLICY) {
        use_plugin("good");
        plugin_path(path, which == POLICY ? "heuristic_threaded" : "heuristic_threaded_api_1");
        REQUIRE_OK(hipdnnSetHeuristicPluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    } else {
        use_plugin(plugin_of(which));
    }
}

static atomic_int others; /* that may have handles now */

static void run_once(way which)
{
    hipdnnHandle_t handle = make_handle();
    CHECK_OK(hipdnnDestroy(handle));
    if (which == PATHS_TWICE) {
        char path[PATH_LENGTH];
        const char* const paths[] = {path};
        plugin_path(path, "threaded");
        const hipdnnStatus_t status = hipdnnSetEnginePluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
        CHECK(status == HIPDNN_STATUS_SUCCESS || (others > 0 && status == HIPDNN_STATUS_NOT_SUPPORTED));
    }
}

typedef struct {
    way which;
    int runs;
} work;

static void* run_some(void* argument)
{
    const work* const some = argument;
    for (int i = 0; i < some->runs; i++) {
        run_once(some->which);
    }
    return NULL;
}

static void run_on(int threads, work some)
{
    pthread_t ids[MOST_THREADS];
    if (threads == 1) {
        run_some(&some);
        return;
    }
    some.runs = (some.runs + threads - 1) / threads;
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_create(&ids[i], NULL, run_some, &some) == 0);
    }
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_join(ids[i], NULL) == 0);
    }
}

static bool is_loaded(const char* name)
{
    char line[PATH_LENGTH];
    bool found = false;
    FILE* const maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        found = found || strstr(line, name) != NULL;
    }
    fclose(maps);
    return found;
}

static void set_threads(int threads)
{
    char number[16];
    snprintf(number, sizeof number, "%d", threads);
    setenv("HIPDNN_STUB_THREADS", number, 1);
}

static void run_case(way which, log_mode mode, int threads, int runs)
{
    begin(WAY_NAMES[which], mode, threads);
    alarm((unsigned)(PATIENCE + runs / 2));
    set_threads(threads);
    others = mode >= CALLING || threads > 1;
    CHECK_OK(
        hipdnnSetPluginUnloadMode_ext(which == PATHS_TWICE ? HIPDNN_PLUGIN_UNLOAD_LAZY : HIPDNN_PLUGIN_UNLOAD_EAGER));
    set_paths(which);
    const long before = lines;
    set_log(mode, true);
    run_on(threads, (work){which, runs});
    set_log(mode, false);
    CHECK(mode < SYNC || lines > before);
    /* Libraries kept open by a callback are closed by now. */
    REQUIRE_OK(hipdnnSetHeuristicPluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    use_plugin("null");
    hipdnnHandle_t handle = make_handle();
    CHECK(count_loaded(handle) == 1);
    CHECK_OK(hipdnnDestroy(handle));
    CHECK(!is_loaded("threaded"));
    end(runs);
}

/* The child's part: many handles, made by several threads, that are never destroyed. */
static void* make_one(void* argument)
{
    make_handle();
    return argument;
}

static int end_with_handles(log_mode mode, int threads)
{
    pthread_t ids[MOST_THREADS];
    begin(WAY_NAMES[EXIT], mode, threads);
    alarm(PATIENCE);
    set_threads(threads);
    set_paths(EXIT);
    set_log(mode, true);
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_create(&ids[i], NULL, make_one, NULL) == 0);
    }
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_join(ids[i], NULL) == 0);
    }
    return check_result();
}

static void run_exit(log_mode mode, int threads, int runs)
{
    char numbers[2][16];
    char name[] = "program";
    char word[] = "exit";
    snprintf(numbers[0], sizeof numbers[0], "%d", (int)mode);
    snprintf(numbers[1], sizeof numbers[1], "%d", threads);
    begin(WAY_NAMES[EXIT], mode, threads);
    for (int i = 0; i < runs; i++) {
        alarm(2 * PATIENCE);
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            char* const words[] = {name, numbers[0], numbers[1], word, NULL};
            execv("/proc/self/exe", words);
            _exit(127);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    end(runs);
}

/* A child of a process whose plugin's threads log: it has the log and the callbacks, and not the threads. */
static void run_fork(log_mode mode, int threads, int runs)
{
    begin("fork", mode, threads);
    set_threads(threads);
    set_paths(EAGER);
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    set_log(mode, true);
    hipdnnHandle_t handle = make_handle();
    for (int i = 0; i < runs; i++) {
        alarm(PATIENCE);
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(PATIENCE);
            lines = 0;
            hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "a line of the child");
            while (mode >= SYNC && lines == 0) {
                sched_yield();
            }
            /* Waits for calls that run: those of the parent's threads do not. */
            set_log(mode, false);
            drop(make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR));
            _exit(check_result());
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    CHECK_OK(hipdnnDestroy(handle));
    set_log(mode, false);
    end(runs);
}

/* Calls of the library by the plugin itself. */
static atomic_int calls_of_constructor, calls_of_destructor;

static void hook(const char* from)
{
    hipdnnHandle_t handle = NULL;
    if (strcmp(from, "constructor") == 0) {
        calls_of_constructor++;
        /* The loading thread itself would have to wait. */
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "being loaded", hipdnnCreate(&handle));
        call_library();
    } else if (strcmp(from, "destructor") == 0) {
        calls_of_destructor++;
        call_library();
    }
}

static void set_hook(void (*function)(const char*))
{
    char address[32];
    uintptr_t number = 0;
    memcpy(&number, &function, sizeof number);
    snprintf(address, sizeof address, "%llx", (unsigned long long)number);
    setenv("HIPDNN_STUB_HOOK", address, 1);
}

/* From its constructor and destructor, which run on the thread that loads and unloads. */
static void test_calls_of_the_plugin(int runs, int logs)
{
    set_hook(hook);
    for (int i = 0; i < logs; i++) {
        for (way which = EAGER; which < EXIT; which++) {
            run_case(which, (log_mode)i, 1, runs);
        }
    }
    CHECK(calls_of_constructor > 0 && calls_of_destructor > 0);
    unsetenv("HIPDNN_STUB_HOOK");
}

/* From a thread that the destructor waits for: refused after a while, since it looks like any thread of the program. */
static atomic_int refused;
static atomic_bool unloads;

static void hook_of_thread(const char* from)
{
    if (unloads && refused == 0 && strcmp(from, "thread") == 0) {
        hipdnnHandle_t handle = NULL;
        CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "being unloaded", hipdnnCreate(&handle));
        refused++;
    } else if (strcmp(from, "destructor") == 0) {
        unloads = true;
    }
}

static void test_calls_of_its_threads(void)
{
    snprintf(now, sizeof now, "a plugin's thread creates a handle while the plugin is unloaded");
    alarm(PATIENCE);
    set_hook(hook_of_thread);
    set_threads(1);
    set_paths(EAGER);
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    hipdnnHandle_t handle = make_handle();
    CHECK_OK(hipdnnDestroy(handle));
    CHECK_EQ(refused, 1);
    CHECK(!is_loaded("threaded"));
    unsetenv("HIPDNN_STUB_HOOK");
}

int main(int count, char** words)
{
    signal(SIGALRM, too_long);
    /* Lines without end */
    setenv("HIPDNN_LOG_FILE", NOWHERE, 1);
    if (count == 4 && strcmp(words[3], "exit") == 0) {
        return end_with_handles((log_mode)atoi(words[1]), atoi(words[2]));
    }
    says_what_it_does = count > 1;
    const int asked = count > 1 ? atoi(words[1]) : 0;
    const int logs = count > 2 ? atoi(words[2]) : (int)LOGS;
    const int exits = asked > 0 ? asked : FEW_EXITS;
    for (int threads = 1; threads <= MOST_THREADS; threads *= MOST_THREADS) {
        const int runs = asked > 0 ? asked : threads == 1 ? FEW : FEW_OF_MANY;
        for (int i = 0; i < logs; i++) {
            for (way which = EAGER; which < EXIT; which++) {
                run_case(which, (log_mode)i, threads, runs);
            }
            run_exit((log_mode)i, threads, exits);
            if (i < CALLING && !FORK_HANGS) {
                run_fork((log_mode)i, threads, runs);
            }
        }
    }
    test_calls_of_the_plugin(asked > 0 ? asked : FEW_OF_MANY, logs);
    test_calls_of_its_threads();
    return check_result();
}
