/* SPDX-License-Identifier: MIT */

/*
 * A privileged program: the user's variables choose neither what it loads nor where it writes. Without privileges the same program
 * obeys all of them.
 *
 * The privileged program is a set-gid copy. If that is impossible, the test is skipped with a message.
 */
#include "host.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool exists(const char* path) { return access(path, F_OK) == 0; }

/* What the variables do, in a process that has them; an exit status of 77 says that it has not the rights that were asked for. */
static int child(bool is_secure)
{
    char names[1024];
    if ((getauxval(AT_SECURE) != 0) != is_secure) {
        return 77;
    }
    check_about(is_secure ? "more rights" : "no more rights");
    hipdnnHandle_t handle = make_handle();
    loaded_names(handle, names, sizeof names);
    CHECK_STR(strstr(names, "saves") != NULL ? "saves" : "default", is_secure ? "default" : "saves");
    size_t count = 0;
    CHECK_OK(hipdnnGetHeuristicPolicyCount_ext(handle, &count));
    /* Four policies are built in. */
    CHECK(is_secure == (count == 4));
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    if (count_loaded(handle) > 0) {
        const int64_t engine = best_engine_id(graph);
        CHECK_OK(hipdnnBackendWriteEngineRankingResults_ext(handle, graph, &engine, 1, NULL));
        /* The default engines, too, can save their plans. */
        drop(make_plan(graph));
    }
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    static const char* const written[] = {"s_log/log.txt", "s_graphs", "s_cache", "s_plans", "s_trace/t.json"};
    for (int64_t i = 0; i < COUNT(written); i++) {
        check_report(exists(written[i]) == !is_secure, __FILE__, __LINE__, written[i]);
    }
    CHECK(!exists("s_home"));
    return check_result();
}

/* Runs the program with all variables; it writes nowhere but in files that are gone before. */
static int run(const char* program, const char* word)
{
    static const char* const written[] = {"s_log/log.txt", "s_log"};
    for (int64_t i = 0; i < COUNT(written); i++) {
        remove(written[i]);
    }
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        char path[PATH_LENGTH];
        plugin_path(path, "saves");
        setenv("HIPDNN_PLUGIN_DIR", path, 1);
        plugin_path(path, "heuristic_good");
        setenv("HIPDNN_HEURISTIC_PLUGIN_DIR", path, 1);
        setenv("HIPDNN_LOG_LEVEL", "info", 1);
        setenv("HIPDNN_LOG_FILE", "s_log/log.txt", 1);
        setenv("HIPDNN_LOG_GRAPH_DIR", "s_graphs", 1);
        setenv("HIPDNN_CACHE_DIR", "s_cache", 1);
        setenv("HIPDNN_PLAN_CACHE_DIR", "s_plans", 1);
        setenv("HIPDNN_TRACE_FILE", "s_trace/t.json", 1);
        setenv("HOME", "s_home", 1);
        execl(program, program, word, (char*)NULL);
        _exit(99);
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A copy of this program that is of a group which this process is not in by itself, and set-gid. */
static bool make_set_gid(const char* at)
{
    static char bytes[1 << 22];
    gid_t groups[256];
    gid_t other = getgid();
    const int count = getgroups(256, groups);
    for (int i = 0; i < count; i++) {
        other = groups[i] != getgid() ? groups[i] : other;
    }
    if (other == getgid() && geteuid() == 0) {
        other = getgid() + 1;
    }
    FILE* in = fopen("/proc/self/exe", "rb");
    FILE* out = fopen(at, "wb");
    REQUIRE(in != NULL && out != NULL);
    const size_t size = fread(bytes, 1, sizeof bytes, in);
    REQUIRE(size > 0 && size < sizeof bytes && fwrite(bytes, 1, size, out) == size);
    fclose(in);
    fclose(out);
    return other != getgid() && chown(at, (uid_t)-1, other) == 0 && chmod(at, S_ISGID | 0755) == 0;
}

int main(int count, char** words)
{
    if (count == 2) {
        return child(strcmp(words[1], "secure") == 0);
    }
    const int secure = make_set_gid("set_gid") ? run("./set_gid", "secure") : 77;
    if (secure == 77) {
        puts("left out: no program can be given more rights here");
    } else {
        CHECK_EQ(secure, 0);
    }
    CHECK_EQ(run("/proc/self/exe", "plain"), 0);
    return check_result();
}
