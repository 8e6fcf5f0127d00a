/* SPDX-License-Identifier: MIT */

/*
 * Files of the log, the profile and the trace that the program closes, that have no reader or cannot be written: lines never get into
 * another file, nothing blocks, and there is one warning. Each row is a separate process, since settings are read once.
 */
#include "host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXECUTIONS = 200, PATIENCE = 30, LAST = 64 };

static void wait_for(long microseconds)
{
    const struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph, plan, pack;
static buffers data;

static void execute(int count)
{
    for (int i = 0; i < count; i++) {
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    }
}

/* What waits in the recorder is written. */
static void wait_for_lines(void) { wait_for(300000); }

/* As daemons do. */
static void close_all(void)
{
    for (int file = 3; file < LAST; file++) {
        close(file);
    }
}

static void open_foreign(void)
{
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "foreign%d.txt", i);
        REQUIRE(open(name, O_CREAT | O_TRUNC | O_RDWR, 0600) >= 0);
    }
}

/* The child: its name says what it does besides executing. */
static int child(const char* how)
{
    alarm(PATIENCE);
    use_plugin("steps");
    handle = make_handle();
    graph = make_graph(handle);
    plan = make_plan(graph);
    fill_buffers(&data, plan);
    pack = make_pack(&data);
    execute(EXECUTIONS);
    if (strcmp(how, "closes") == 0) {
        wait_for_lines();
        close_all();
        open_foreign();
        execute(EXECUTIONS);
        wait_for_lines();
    } else if (strcmp(how, "closes and goes") == 0) {
        wait_for_lines();
        close_all();
        REQUIRE(chdir("/") == 0);
        execute(EXECUTIONS);
    } else if (strcmp(how, "moves") == 0) {
        wait_for_lines();
        close_all();
        REQUIRE(rename("trace.json", "old.json") == 0);
        execute(EXECUTIONS);
    } else if (strcmp(how, "loses its reader") == 0) {
        /* The parent has read something and ends. */
        wait_for_lines();
        execute(EXECUTIONS);
    }
    drop(pack);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    free(data.workspace);
    return check_result();
}

static pid_t start(const char* how, const char* level, const char* log, const char* trace, const char* verbose)
{
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        const char* const names[] = {"HIPDNN_LOG_LEVEL", "HIPDNN_LOG_FILE", "HIPDNN_TRACE_FILE", "HIPDNN_VERBOSE"};
        const char* const values[] = {level, log, trace, verbose};
        for (int i = 0; i < 4; i++) {
            if (values[i] != NULL) {
                setenv(names[i], values[i], 1);
            }
        }
        const int file = open("stderr.txt", O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
        if (file < 0 || dup2(file, STDERR_FILENO) < 0) {
            _exit(98);
        }
        close(file);
        execl("/proc/self/exe", "log_files", how, (char*)NULL);
        _exit(99);
    }
    return pid;
}

static void finish(pid_t pid)
{
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : status, 0);
}

static const char* text_of(const char* path)
{
    static char text[1 << 20];
    read_text(path, text, sizeof text);
    return text;
}

static int executions_in(const char* path) { return count_in(text_of(path), "\"cat\":\"execute\""); }

static void check_no_foreign_lines(void)
{
    for (int i = 0; i < 5; i++) {
        struct stat about;
        char name[32];
        snprintf(name, sizeof name, "foreign%d.txt", i);
        REQUIRE(stat(name, &about) == 0);
        CHECK_EQ(about.st_size, 0);
        remove(name);
    }
}

static void test_closed(void)
{
    check_about("a daemon closes its descriptors, others get their numbers");
    remove("log.txt");
    finish(start("closes", "info", "log.txt", "trace.json", "1"));
    check_no_foreign_lines();
    CHECK_EQ(executions_in("trace.json"), 2 * EXECUTIONS);
    CHECK_EQ(count_in(text_of("trace.json"), "\n]"), 1);
    CHECK_EQ(count_in(text_of("log.txt"), "hipdnn_verbose,execute,"), 2 * EXECUTIONS);
    CHECK_EQ(count_in(text_of("log.txt"), "API success: [hipdnnBackendExecute]"), 2 * EXECUTIONS);
    CHECK_EQ(count_in(text_of("stderr.txt"), "hip"), 0);

    check_about("a daemon closes its descriptors and goes to another folder");
    remove("log.txt");
    finish(start("closes and goes", "info", "log.txt", "trace.json", NULL));
    CHECK_EQ(executions_in("trace.json"), 2 * EXECUTIONS);
    CHECK_EQ(count_in(text_of("log.txt"), "API success: [hipdnnBackendExecute]"), 2 * EXECUTIONS);

    check_about("the trace has another name when it was closed");
    finish(start("moves", NULL, NULL, "trace.json", NULL));
    CHECK_EQ(executions_in("old.json"), EXECUTIONS);
    /* The new file is whole by itself. */
    CHECK_EQ(executions_in("trace.json"), EXECUTIONS);
    CHECK_EQ(strncmp(text_of("trace.json"), "[\n", 2), 0);
    CHECK_EQ(count_in(text_of("trace.json"), "\n]"), 1);
}

static void test_unread_pipe(void)
{
    check_about("pipes that nothing reads");
    REQUIRE(mkfifo("pipe", 0600) == 0);
    finish(start("", "info", "pipe", NULL, NULL));
    CHECK_EQ(count_in(text_of("stderr.txt"), "HIPDNN_LOG_FILE"), 1);
    CHECK_CONTAINS(text_of("stderr.txt"), "HIPDNN_LOG_FILE pipe cannot be written: ");
    CHECK_EQ(count_in(text_of("stderr.txt"), "API success: [hipdnnBackendExecute]"), EXECUTIONS);
    finish(start("", NULL, NULL, "pipe", NULL));
    CHECK_EQ(count_in(text_of("stderr.txt"), "HIPDNN_TRACE_FILE pipe cannot be written: "), 1);

    check_about("a pipe whose reader ends");
    const int reader = open("pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    const pid_t pid = start("loses its reader", "info", "pipe", NULL, NULL);
    char some[256];
    while (read(reader, some, sizeof some) <= 0) {
        wait_for(1000);
    }
    /* The child would be killed by a signal, or wait for ever. */
    close(reader);
    finish(pid);
    CHECK_EQ(count_in(text_of("stderr.txt"), "pipe cannot be written: Broken pipe"), 1);
    CHECK(count_in(text_of("stderr.txt"), "API success: [hipdnnBackendExecute]") >= EXECUTIONS);
    remove("pipe");
}

static void test_not_writable(void)
{
    check_about("a full disk");
    finish(start("", "info", "/dev/full", NULL, "1"));
    CHECK_EQ(count_in(text_of("stderr.txt"), "HIPDNN_LOG_FILE"), 1);
    CHECK_CONTAINS(text_of("stderr.txt"), "HIPDNN_LOG_FILE /dev/full cannot be written: No space left on device");
    CHECK_EQ(count_in(text_of("stderr.txt"), "API success: [hipdnnBackendExecute]"), EXECUTIONS);
    CHECK_EQ(count_in(text_of("stderr.txt"), "hipdnn_verbose,execute,"), EXECUTIONS);

    check_about("a trace that cannot be made");
    finish(start("", NULL, NULL, "/proc/x", NULL));
    CHECK_EQ(count_in(text_of("stderr.txt"), "HIPDNN_TRACE_FILE /proc/x cannot be written: "), 1);
    finish(start("", NULL, NULL, "/proc/%p/x", NULL));
    CHECK_EQ(count_in(text_of("stderr.txt"), " cannot be written: "), 1);
    /* Also where the log cannot be written either. */
    finish(start("", NULL, "/proc/y", "/proc/x", NULL));
    CHECK_EQ(count_in(text_of("stderr.txt"), "HIPDNN_LOG_FILE /proc/y cannot be written: "), 1);
    CHECK_EQ(count_in(text_of("stderr.txt"), "HIPDNN_TRACE_FILE /proc/x cannot be written: "), 1);
}

int main(int count, char** words)
{
    if (count == 2) {
        return child(words[1]);
    }
    /* A child that writes to a closed pipe is to live by the library's care, not by this program's. */
    signal(SIGPIPE, SIG_DFL);
    test_closed();
    test_unread_pipe();
    test_not_writable();
    return check_result();
}
