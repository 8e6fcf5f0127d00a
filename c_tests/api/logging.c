/* SPDX-License-Identifier: MIT */

/* hipdnnLoggingCallback_ext and the log: what goes to the file, from which level on. The library reads its settings once,
 * so each setting is tried in its own process. */
#include "../again.h"
#include "../fixture.h"

#include <limits.h>
#include <unistd.h>

static const char* program;

static const char LOG[] = "logging_test_folder/log.txt";

static void child(void)
{
    /* A caller's line is written unchanged; unknown severities count as information. */
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "line info");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_WARN, "line warn");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "line error");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_FATAL, "line fatal");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_OFF, "line off");
    hipdnnLoggingCallback_ext((hipdnnSeverity_t)77, "line 77");
    hipdnnLoggingCallback_ext((hipdnnSeverity_t)INT_MIN, "line min");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, NULL);
    hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "%s%n\xff\xfe");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "");
    (void)hipdnnDestroy(NULL);
    hipdnnHandle_t handle = NULL;
    if (hipdnnCreate(&handle) == HIPDNN_STATUS_SUCCESS) {
        (void)hipdnnDestroy(handle);
    }
}

/* The log after a child has run with this level; the caller frees it. */
static char* log_of(const char* level, const char* path)
{
    char* text = calloc(1, 1 << 20);
    REQUIRE(text != NULL);
    remove(LOG);
    setenv("HIPDNN_LOG_FILE", path, 1);
    unsetenv("HIPDNN_LOG_LEVEL");
    if (level != NULL) {
        setenv("HIPDNN_LOG_LEVEL", level, 1);
    }
    CHECK_EQ(run_again(program, "child", NULL), EXIT_SUCCESS);
    FILE* file = fopen(LOG, "rb");
    if (file != NULL) {
        const size_t read = fread(text, 1, (1 << 20) - 1, file);
        text[read] = '\0';
        fclose(file);
    }
    return text;
}

static void test_level(const char* level, bool info, bool warn, bool error, bool fatal)
{
    check_about("level %s", level == NULL ? "unset" : level);
    char* text = log_of(level, LOG);
    CHECK((strstr(text, "line info\n") != NULL) == info);
    CHECK((strstr(text, "line 77\n") != NULL) == info);
    CHECK((strstr(text, "line min\n") != NULL) == info);
    CHECK((strstr(text, "line warn\n") != NULL) == warn);
    CHECK((strstr(text, "line error\n") != NULL) == error);
    CHECK((strstr(text, "%s%n") != NULL) == error);
    CHECK((strstr(text, "line fatal\n") != NULL) == fatal);
    CHECK(strstr(text, "line off") == NULL);
    CHECK((strstr(text, "hipdnnCreate") != NULL) == info);
    /* A failure is an error, with its status. */
    CHECK((strstr(text, "HIPDNN_STATUS_BAD_PARAM_NULL_POINTER") != NULL) == error);
    CHECK((strstr(text, "[hipdnn_backend]") != NULL) == error);
    free(text);
}

/* Reported once, although the log stays off. */
static void test_unknown_level(void)
{
    check_about("unknown level");
    char* text = log_of("verbose", LOG);
    const char* const line =
        strstr(text, "[warning] [hipdnn_backend] HIPDNN_LOG_LEVEL is \"verbose\", expected trace, debug, info, ");
    CHECK(line != NULL);
    CHECK(line != NULL && strchr(line, '\n') == text + strlen(text) - 1);
    free(text);
}

int main(int count, char** words)
{
    program = words[0];
    if (count > 1) {
        child();
        return EXIT_SUCCESS;
    }
    test_level("info", true, true, true, true);
    test_level("warn", false, true, true, true);
    test_level("error", false, false, true, true);
    test_level("fatal", false, false, false, true);
    test_level("off", false, false, false, false);
    test_level(NULL, false, false, false, false);
    test_level("", false, false, false, false);
    test_level("INFO", true, true, true, true);
    test_level("debug", true, true, true, true);
    test_level("Trace", true, true, true, true);
    test_level("Warning", false, true, true, true);
    test_level("OFF", false, false, false, false);
    test_unknown_level();
    /* A file that cannot be written: the library still works. */
    check_about("unusable file");
    fclose(fopen("file", "wb"));
    char* text = log_of("info", "file/log.txt");
    CHECK(text[0] == '\0');
    free(text);
    check_about("%s", "");
    remove(LOG);
    rmdir("logging_test_folder");
    return check_result();
}
