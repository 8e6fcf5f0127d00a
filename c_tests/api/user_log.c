/* SPDX-License-Identifier: MIT */

/* hipdnnSetUserLogCallback_ext: which lines a callback receives, on which thread, and none once it is removed. */
#include "../fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#ifndef _WIN32
#include <sys/wait.h>
#endif
#include <time.h>
#include <unistd.h>

enum { KEPT = 64, LENGTH = 256, CAPACITY = 8192 };

/* What a callback has received. */
struct lines {
    pthread_mutex_t lock;
    char text[KEPT][LENGTH];
    hipdnnSeverity_t severity[KEPT];
    int count;
    pthread_t thread;
};

static void keep(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    struct lines* const lines = user;
    pthread_mutex_lock(&lines->lock);
    if (lines->count < KEPT) {
        snprintf(lines->text[lines->count], LENGTH, "%s", message);
        lines->severity[lines->count] = severity;
    }
    lines->count += 1;
    lines->thread = pthread_self();
    pthread_mutex_unlock(&lines->lock);
}

static void keep_too(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    keep(user, severity, message);
}

static void wait_microseconds(long microseconds)
{
    const struct timespec time = {.tv_sec = 0, .tv_nsec = microseconds * 1000};
    nanosleep(&time, NULL);
}

static int count_of(struct lines* lines)
{
    pthread_mutex_lock(&lines->lock);
    const int count = lines->count;
    pthread_mutex_unlock(&lines->lock);
    return count;
}

static void log_line(hipdnnSeverity_t severity, const char* text) { hipdnnLoggingCallback_ext(severity, text); }

static const hipdnnLogCallbackMode_t SYNC = HIPDNN_LOG_CALLBACK_SYNC;
static const hipdnnLogCallbackMode_t ASYNC = HIPDNN_LOG_CALLBACK_ASYNC;

static void arguments(void)
{
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "callback", hipdnnSetUserLogCallback_ext(NULL, HIPDNN_SEV_INFO, SYNC, &lines));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "userHandle", hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_INFO, SYNC, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "mode",
                hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_INFO, (hipdnnLogCallbackMode_t)2, &lines));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "minLevel",
                hipdnnSetUserLogCallback_ext(keep, (hipdnnSeverity_t)5, SYNC, &lines));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "minLevel",
                hipdnnSetUserLogCallback_ext(keep, (hipdnnSeverity_t)-1, SYNC, &lines));
    /* Nothing of it is set, so nothing can be removed. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "not set", hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, SYNC, &lines));
}

static void levels(void)
{
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct lines other = {.lock = PTHREAD_MUTEX_INITIALIZER};
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_WARN));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_INFO, SYNC, &lines));
    /* Another pointer and another function are other registrations. */
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_FATAL, SYNC, &other));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep_too, HIPDNN_SEV_ERROR, SYNC, &other));
    log_line(HIPDNN_SEV_INFO, "below the level of the log");
    log_line(HIPDNN_SEV_WARN, "a warning");
    log_line(HIPDNN_SEV_ERROR, "an error");
    CHECK_EQ(lines.count, 2);
    CHECK_STR(lines.text[0], "a warning");
    CHECK_EQ(lines.severity[0], HIPDNN_SEV_WARN);
    CHECK_STR(lines.text[1], "an error");
    CHECK(pthread_equal(lines.thread, pthread_self()));
    CHECK_EQ(other.count, 1);
    /* The library's own lines come too. */
    (void)hipdnnDestroy(NULL);
    CHECK_EQ(lines.count, 3);
    CHECK_CONTAINS(lines.text[2], "hipdnnDestroy");
    /* The same again changes the settings. */
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_ERROR, SYNC, &lines));
    log_line(HIPDNN_SEV_WARN, "no longer");
    CHECK_EQ(lines.count, 3);
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_OFF));
    log_line(HIPDNN_SEV_FATAL, "the log is off");
    CHECK_EQ(lines.count, 3);
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_INFO));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, SYNC, &lines));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, SYNC, &other));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep_too, HIPDNN_SEV_OFF, SYNC, &other));
    log_line(HIPDNN_SEV_FATAL, "removed");
    CHECK_EQ(lines.count, 3);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "not set", hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, SYNC, &lines));
}

/* A callback may call everything, and does not receive the lines of its own calls. */
static atomic_int nested_calls;

static void calls_the_library(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    (void)severity;
    (void)message;
    atomic_fetch_add(&nested_calls, 1);
    hipdnnHandle_t own = NULL;
    /* While plugins are loaded this is refused; else it works. */
    if (hipdnnCreate(&own) == HIPDNN_STATUS_SUCCESS) {
        (void)hipdnnDestroy(own);
    }
    log_line(HIPDNN_SEV_ERROR, "from within");
    (void)hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, SYNC, user);
    (void)hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_ERROR, SYNC, user);
}

static void nested(void)
{
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    CHECK_OK(hipdnnSetUserLogCallback_ext(calls_the_library, HIPDNN_SEV_INFO, SYNC, &lines));
    /* Loads the plugins, and logs while it does. */
    hipdnnHandle_t handle = make_handle();
    CHECK(atomic_load(&nested_calls) > 0);
    CHECK_OK(hipdnnDestroy(handle));
    CHECK_OK(hipdnnSetUserLogCallback_ext(calls_the_library, HIPDNN_SEV_OFF, SYNC, &lines));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, SYNC, &lines));
}

/* A callback that removes itself is called no more. */
static void removes_itself(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    keep(user, severity, message);
    CHECK_OK(hipdnnSetUserLogCallback_ext(removes_itself, HIPDNN_SEV_OFF, SYNC, user));
}

static void remove_from_within(void)
{
    for (int mode = 0; mode < 2; mode++) {
        struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
        CHECK_OK(hipdnnSetUserLogCallback_ext(removes_itself, HIPDNN_SEV_INFO, mode == 0 ? SYNC : ASYNC, &lines));
        for (int i = 0; i < 100; i++) {
            log_line(HIPDNN_SEV_ERROR, "once");
        }
        for (int i = 0; i < 2000 && count_of(&lines) == 0; i++) {
            wait_microseconds(1000);
        }
        wait_microseconds(20000);
        CHECK_EQ(count_of(&lines), 1);
    }
}

static void asynchronous(void)
{
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_ERROR, ASYNC, &lines));
    for (int i = 0; i < KEPT; i++) {
        char text[LENGTH];
        snprintf(text, sizeof text, "line %d", i);
        log_line(HIPDNN_SEV_ERROR, text);
    }
    for (int i = 0; i < 5000 && count_of(&lines) < KEPT; i++) {
        wait_microseconds(1000);
    }
    CHECK_EQ(count_of(&lines), KEPT);
    for (int i = 0; i < KEPT; i++) {
        char text[LENGTH];
        snprintf(text, sizeof text, "line %d", i);
        CHECK_STR(lines.text[i], text);
    }
    CHECK(!pthread_equal(lines.thread, pthread_self()));
    CHECK_OK(hipdnnSetUserLogCallback_ext(keep, HIPDNN_SEV_OFF, ASYNC, &lines));
}

/* A slow callback fills the queue; its queued lines are dropped when it is removed. */
static atomic_int slow_calls;
static atomic_bool gone;

static void slow(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    (void)user;
    (void)severity;
    (void)message;
    CHECK(!atomic_load(&gone));
    if (atomic_fetch_add(&slow_calls, 1) % 100 == 0) {
        wait_microseconds(1000);
    }
}

static void full_queue(void)
{
    int user = 0;
    CHECK_OK(hipdnnSetUserLogCallback_ext(slow, HIPDNN_SEV_ERROR, ASYNC, &user));
    for (int i = 0; i < 3 * CAPACITY; i++) {
        log_line(HIPDNN_SEV_ERROR, "many");
    }
    /* All but those that wait, and one that no longer waits and is not yet with the callback. */
    CHECK(atomic_load(&slow_calls) >= 2 * CAPACITY - 1);
    CHECK_OK(hipdnnSetUserLogCallback_ext(slow, HIPDNN_SEV_OFF, ASYNC, &user));
    atomic_store(&gone, true);
    CHECK(atomic_load(&slow_calls) <= 3 * CAPACITY);
    wait_microseconds(20000);
}

/* Threads log while callbacks come and go: after a removal has returned, the memory behind userHandle may be gone. */
static atomic_bool stop;

static void poisoned(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    (void)severity;
    (void)message;
    CHECK(*(volatile int*)user == 42);
}

static void* logs(void* nothing)
{
    (void)nothing;
    while (!atomic_load(&stop)) {
        log_line(HIPDNN_SEV_ERROR, "from a thread");
    }
    return NULL;
}

static void races(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, logs, NULL) == 0);
    }
    for (int round = 0; round < 400; round++) {
        int* const user = malloc(sizeof *user);
        REQUIRE(user != NULL);
        *user = 42;
        const hipdnnLogCallbackMode_t mode = round % 2 == 0 ? SYNC : ASYNC;
        CHECK_OK(hipdnnSetUserLogCallback_ext(poisoned, HIPDNN_SEV_INFO, mode, user));
        wait_microseconds(round % 5 * 50L);
        CHECK_OK(hipdnnSetUserLogCallback_ext(poisoned, HIPDNN_SEV_OFF, mode, user));
        *user = 0;
        free(user);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
}

#ifndef _WIN32
/* A child has no thread of its parent's: it gets its own. What waits when a process ends is delivered. */
static int to_parent = -1;

static void tells_parent(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    (void)user;
    (void)severity;
    (void)message;
    wait_microseconds(500);
    CHECK(write(to_parent, "x", 1) == 1);
}

static void forked(void)
{
    int user = 0;
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    to_parent = ends[1];
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(ends[0]);
        if (hipdnnSetUserLogCallback_ext(tells_parent, HIPDNN_SEV_ERROR, ASYNC, &user) != HIPDNN_STATUS_SUCCESS) {
            _exit(3);
        }
        for (int i = 0; i < 100; i++) {
            log_line(HIPDNN_SEV_ERROR, "from the child");
        }
        exit(check_result());
    }
    close(ends[1]);
    int count = 0;
    char byte = 0;
    while (read(ends[0], &byte, 1) == 1) {
        count += 1;
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
    CHECK_EQ(count, 100);
    close(ends[0]);
}
#endif

int main(void)
{
    /* The log file is not needed. */
    setenv("HIPDNN_LOG_FILE", NOWHERE, 1);
    arguments();
    levels();
    nested();
    remove_from_within();
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_ERROR));
    asynchronous();
    full_queue();
    races();
#ifndef _WIN32
    forked();
#endif
    return check_result();
}
