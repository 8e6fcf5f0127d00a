/* SPDX-License-Identifier: MIT */

/*
 * The profile and the trace: every line of every thread is there, is what it should be, and the whole is JSON, however the process
 * ends. Each setting is tried in a process of its own, which writes into pipes that this one reads.
 *
 * With two numbers, `program THREADS EXECUTIONS`, only as many executions of as many threads are looked at.
 */
#include "host.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Parses the JSON of lines: returns the end of a value, or null if it is invalid. */
static const char* value_end(const char* at, int depth);

static const char* text_end(const char* at)
{
    if (*at++ != '"') {
        return NULL;
    }
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20 || (*at == '\\' && strchr("\"\\/bfnrtu", *++at) == NULL)) {
            return NULL;
        }
    }
    return at + 1;
}

static const char* list_end(const char* at, int depth)
{
    const char close = *at == '{' ? '}' : ']';
    if (at[1] == close) {
        return at + 2;
    }
    do {
        at++;
        if (close == '}') {
            at = text_end(at);
            if (at == NULL || *at++ != ':') {
                return NULL;
            }
        }
        at = value_end(at, depth + 1);
    } while (at != NULL && *at == ',');
    return at != NULL && *at == close ? at + 1 : NULL;
}

static const char* value_end(const char* at, int depth)
{
    if (*at == '"') {
        return text_end(at);
    }
    if (*at == '{' || *at == '[') {
        return depth < 8 ? list_end(at, depth) : NULL;
    }
    if (strncmp(at, "true", 4) == 0) {
        return at + 4;
    }
    if (!isdigit((unsigned char)*at) || (at[0] == '0' && isdigit((unsigned char)at[1]))) {
        return NULL;
    }
    while (isdigit((unsigned char)*at)) {
        at++;
    }
    if (*at == '.') {
        if (!isdigit((unsigned char)*++at)) {
            return NULL;
        }
        while (isdigit((unsigned char)*at)) {
            at++;
        }
    }
    return at;
}

/* What came through a pipe. */
enum { MOST_LINES = 64 };
typedef struct {
    const char* path;
    bool is_trace;
    long bad;
    long calls, executions, steps, profiled, plans, plugins, heads, phases, warnings;
    bool began, ended;
    char odd[512];
    long threads[64];
    int thread_count;
} stream;

static void of_trace(stream* it, char* line)
{
    size_t length = strlen(line);
    if (strcmp(line, "[") == 0) {
        it->bad += it->began ? 1 : 0;
        it->began = true;
        return;
    }
    if (strcmp(line, "]") == 0) {
        it->ended = true;
        return;
    }
    /* Nothing but the last line may lack its comma. */
    const bool has_comma = length > 0 && line[length - 1] == ',';
    if (has_comma) {
        line[length - 1] = '\0';
    }
    const char* const end = value_end(line, 0);
    const bool is_last = strstr(line, "\"name\":\"exit\"") != NULL;
    if (line[0] != '{' || end == NULL || *end != '\0' || has_comma == is_last || !it->began || it->ended) {
        snprintf(it->odd, sizeof it->odd, "%s", line);
        it->bad++;
    }
    it->calls += strstr(line, "\"name\":\"hipdnnBackendExecute\"") != NULL;
    it->steps += strstr(line, "\"cat\":\"step\",\"name\":\"a \\\"step\\\"\\n\"") != NULL &&
                 strstr(line, "\"ts\":1.000,\"dur\":2.500}") != NULL;
    it->plans += strstr(line, "\"name\":\"plan traced (STUB_ENGINE)\"") != NULL &&
                 strstr(line, "\"algorithm\":\"stub, loops\"") != NULL;
    it->plugins += strstr(line, "\"name\":\"load a plugin\"") != NULL;
    it->phases +=
        strstr(line, "\"name\":\"compile\"") != NULL || strstr(line, "\"name\":\"ask which engines apply\"") != NULL;
    if (strstr(line, "\"cat\":\"execute\",\"name\":\"traced (STUB_ENGINE)\"") != NULL) {
        it->executions++;
        const char* const thread = strstr(line, "\"tid\":");
        const long number = thread == NULL ? 0 : strtol(thread + 6, NULL, 10);
        int i = 0;
        while (i < it->thread_count && it->threads[i] != number) {
            i++;
        }
        if (i == it->thread_count && i < (int)COUNT(it->threads)) {
            it->threads[it->thread_count++] = number;
        }
    }
}

static void of_profile(stream* it, const char* line)
{
    static const char EXECUTE[] = "hipdnn_verbose,execute,traced,STUB_ENGINE,stub; loops,"
                                  "1x2x4x4:float 2x2x3x3:float -> 1x2x4x4:float,";
    if (strncmp(line, "hipdnn_verbose,info,", 20) == 0) {
        it->heads++;
    } else if (strncmp(line, EXECUTE, sizeof EXECUTE - 1) == 0) {
        double time = -1;
        double bytes = 0;
        double operations = 0;
        const int count = sscanf(line + sizeof EXECUTE - 1, "%lf,%lf,%lf", &time, &bytes, &operations);
        /* Events of zero duration have no rates. */
        if (count < 1 || time < 0 || (count == 3 && (bytes < 0 || operations < bytes))) {
            snprintf(it->odd, sizeof it->odd, "%s", line);
            it->bad++;
        }
        it->profiled++;
    } else if (strncmp(line, "hipdnn_verbose,plan,traced,STUB_ENGINE,", 39) == 0) {
        it->plans++;
    } else if (strstr(line, "[warning]") != NULL) {
        it->warnings++;
        snprintf(it->odd, sizeof it->odd, "%s", line);
    } else {
        snprintf(it->odd, sizeof it->odd, "%s", line);
        it->bad++;
    }
}

static void* read_stream(void* argument)
{
    stream* const it = argument;
    FILE* const file = fopen(it->path, "r");
    char* line = NULL;
    size_t room = 0;
    ssize_t length;
    while (file != NULL && (length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] != '\n') {
            it->bad++;
            break;
        }
        line[length - 1] = '\0';
        if (it->is_trace) {
            of_trace(it, line);
        } else {
            of_profile(it, line);
        }
    }
    free(line);
    if (file != NULL) {
        fclose(file);
    }
    return NULL;
}

/* The child */

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t plan;
static buffers data;
static long executions;

static void* execute(void* unused)
{
    (void)unused;
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    for (long i = 0; i < executions; i++) {
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    }
    drop(pack);
    return NULL;
}

static void* execute_for_ever(void* unused)
{
    for (;;) {
        execute(unused);
    }
    return NULL;
}

static int child(const char* how, int threads, long count)
{
    pthread_t workers[64];
    executions = count;
    use_plugin(strcmp(how, "throws") == 0 ? "throws_in_step_callback" : "steps");
    handle = make_handle();
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, 6, "traced");
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    plan = make_plan(graph);
    fill_buffers(&data, plan);
    void* (*const work)(void*) = strcmp(how, "busy") == 0 ? execute_for_ever : execute;
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_create(&workers[i], NULL, work, NULL) == 0);
    }
    if (strcmp(how, "busy") == 0) {
        const struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
        /* With threads that execute and are not waited for. */
        exit(check_result());
    }
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_join(workers[i], NULL) == 0);
    }
    if (strcmp(how, "forks") == 0) {
        const pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            execute(NULL);
            exit(check_result());
        }
        int status = -1;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}

/* The parent */

static pid_t start(const char* how, int threads, long count, const char* verbose, const char* trace, const char* log)
{
    char words[2][32];
    snprintf(words[0], sizeof words[0], "%d", threads);
    snprintf(words[1], sizeof words[1], "%ld", count);
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        if (verbose != NULL) {
            setenv("HIPDNN_VERBOSE", verbose, 1);
        }
        if (trace != NULL) {
            setenv("HIPDNN_TRACE_FILE", trace, 1);
        }
        setenv("HIPDNN_LOG_FILE", log, 1);
        execl("/proc/self/exe", "trace", how, words[0], words[1], (char*)NULL);
        _exit(99);
    }
    return pid;
}

static void finish(pid_t pid)
{
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Runs a child whose lines come through pipes; either may be left out. */
static void run(const char* how, int threads, long count, const char* verbose, stream* trace, stream* profile)
{
    pthread_t readers[2];
    int there[2];
    stream* const streams[] = {trace, profile};
    for (int i = 0; i < 2; i++) {
        remove(streams[i]->path);
        REQUIRE(mkfifo(streams[i]->path, 0600) == 0);
        /* The child does not wait for a reader. */
        there[i] = open(streams[i]->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        REQUIRE(there[i] >= 0);
        REQUIRE(pthread_create(&readers[i], NULL, read_stream, streams[i]) == 0);
    }
    const pid_t pid = start(how, threads, count, verbose, trace->path, profile->path);
    finish(pid);
    /* A reader whose pipe has no writer is let go. */
    for (int i = 0; i < 2; i++) {
        const int file = open(streams[i]->path, O_RDWR);
        REQUIRE(file >= 0);
        close(file);
        REQUIRE(pthread_join(readers[i], NULL) == 0);
        close(there[i]);
        CHECK_EQ(streams[i]->bad, 0);
        if (streams[i]->bad > 0) {
            fprintf(stderr, "  for instance %s\n", streams[i]->odd);
        }
        remove(streams[i]->path);
    }
}

static void test_threads(int threads, long count, bool tell)
{
    check_about("%d threads", threads);
    static stream trace;
    static stream profile;
    trace = (stream){.path = "trace_pipe", .is_trace = true};
    profile = (stream){.path = "profile_pipe"};
    run("calls", threads, count, "1", &trace, &profile);
    const long expected = threads * count;
    CHECK_EQ(trace.calls, expected);
    CHECK_EQ(trace.executions, expected);
    CHECK_EQ(trace.steps, expected);
    CHECK_EQ(trace.thread_count, threads);
    CHECK(trace.began && trace.ended);
    CHECK_EQ(trace.plans, 1);
    CHECK_EQ(trace.plugins, 1);
    CHECK(trace.phases >= 2);
    CHECK_EQ(profile.profiled, expected);
    CHECK_EQ(profile.plans, 1);
    CHECK_EQ(profile.heads, 2);
    if (tell) {
        printf("%ld executions of %d threads: %ld calls, %ld executions, %ld steps in the trace, %ld lines of the "
               "profile\n",
               expected, threads, trace.calls, trace.executions, trace.steps, profile.profiled);
    }
}

static void test_busy_exit(void)
{
    check_about("exit while threads execute");
    static stream trace;
    static stream profile;
    trace = (stream){.path = "trace_pipe", .is_trace = true};
    profile = (stream){.path = "profile_pipe"};
    run("busy", 4, 100, "profile", &trace, &profile);
    CHECK(trace.began && trace.ended);
    CHECK(trace.executions > 100 && profile.profiled > 100);
}

/* A plugin that throws where it is asked for its steps has none, and works. */
static void test_throwing_plugin(void)
{
    check_about("a plugin that throws");
    static stream trace;
    static stream profile;
    trace = (stream){.path = "trace_pipe", .is_trace = true};
    profile = (stream){.path = "profile_pipe"};
    run("throws", 1, 10, "0", &trace, &profile);
    CHECK(trace.began && trace.ended);
    CHECK_EQ(trace.executions, 10);
    CHECK_EQ(trace.steps, 0);
    CHECK_EQ(profile.profiled, 0);
}

/* The events of a trace in a file; -1 where it is not whole. */
static long executions_in(const char* path)
{
    static stream trace;
    trace = (stream){.path = path, .is_trace = true};
    read_stream(&trace);
    CHECK_EQ(trace.bad, 0);
    return trace.began && trace.ended ? trace.executions : -1;
}

/* A forked child neither harms its parent's file nor writes the parent's events once more. */
static void test_fork(void)
{
    check_about("fork");
    remove("traces/t.json");
    finish(start("forks", 1, 50, NULL, "traces/t.json", "log.txt"));
    CHECK_EQ(executions_in("traces/t.json"), 50);
    remove("traces/t.json");

    const pid_t pid = start("forks", 1, 60, NULL, "traces/%p.json", "log.txt");
    finish(pid);
    char path[64];
    snprintf(path, sizeof path, "traces/%d.json", (int)pid);
    CHECK_EQ(executions_in(path), 60);
    remove(path);
    /* The child's number is not known; its file is the only one that is left. */
    CHECK(system("mv traces/*.json traces/t.json") == 0);
    CHECK_EQ(executions_in("traces/t.json"), 60);
    remove("traces/t.json");
    remove("traces");
}

static void test_bad_settings(void)
{
    static stream log;
    static const struct {
        const char* verbose;
        const char* trace;
        const char* expected;
    } rows[] = {
        {"loudly", NULL, "HIPDNN_VERBOSE is \"loudly\", expected 0, 1 or profile"},
        {NULL, "/proc/no/trace.json", "HIPDNN_TRACE_FILE /proc/no/trace.json cannot be written: "},
        {NULL, "/dev/full", "HIPDNN_TRACE_FILE /dev/full cannot be written: "},
        {"0", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_about("%s %s", rows[i].verbose != NULL ? rows[i].verbose : "",
                    rows[i].trace != NULL ? rows[i].trace : "");
        remove("log.txt");
        finish(start("calls", 1, 2000, rows[i].verbose, rows[i].trace, "log.txt"));
        log = (stream){.path = "log.txt"};
        read_stream(&log);
        CHECK_EQ(log.bad, 0);
        CHECK_EQ(log.profiled, 0);
        CHECK_EQ(log.warnings, rows[i].expected != NULL);
        /* The end of the process is too late to complain. */
        if (rows[i].expected != NULL) {
            CHECK_CONTAINS(log.odd, rows[i].expected);
        }
    }
    remove("log.txt");
}

int main(int count, char** words)
{
    if (count == 4) {
        return child(words[1], atoi(words[2]), atol(words[3]));
    }
    if (count == 3) {
        test_threads(atoi(words[1]), atol(words[2]), true);
        return check_result();
    }
    test_threads(1, 1, false);
    test_threads(16, 5000, false);
    test_busy_exit();
    test_throwing_plugin();
    test_fork();
    test_bad_settings();
    return check_result();
}
