/* SPDX-License-Identifier: MIT */

/*
 * Checks for test programs: a failing check prints its location, the expression, and the actual and expected values, and the
 * program continues. `return check_result();` at the end of main turns any failure into the program's exit status.
 *
 * `cargo xtask test c` runs each program in an empty folder of its own, with HIPDNN_TEST_PLUGINS in the environment: the
 * folder of the plugins that tools/stub-plugins builds, lib<name>.so or <name>.dll for each name in c_tests/plugins/variants.txt. No other
 * HIPDNN_ variable is set.
 */

#ifndef HIPDNN_C_TESTS_CHECK_H
#define HIPDNN_C_TESTS_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hipdnn_backend.h"

/* What is around the name of a library, what is between folders, the file that takes whatever is written to it, and which
 * of the plugins there are. */
#ifdef _WIN32
#define LIBRARY_BEGIN ""
#define LIBRARY_END ".dll"
#define SEPARATOR "\\"
#define NOWHERE "NUL"
/* A DLL cannot wait for its threads while it is unloaded: they end under the lock that the loader holds meanwhile. */
#define IS_BUILT(variant) (strstr(variant, "threaded") == NULL)
#else
#define LIBRARY_BEGIN "lib"
#define LIBRARY_END ".so"
#define SEPARATOR "/"
#define NOWHERE "/dev/null"
#define IS_BUILT(variant) true
#endif

/* Atomic, since programs with several threads check in each of them. */
#ifdef __cplusplus
#include <atomic>
static std::atomic<int> check_failures{0};
static std::atomic<int> check_count{0};
#else
static _Atomic int check_failures = 0;
static _Atomic int check_count = 0;
#endif
/* Printed with every failure: which row of a table is being checked. */
static char check_row[256] = "";

static inline void check_about(const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check_row, sizeof check_row, format, arguments);
    va_end(arguments);
}

static inline void check_report(int passed, const char* file, int line, const char* what)
{
    ++check_count;
    if (!passed) {
        ++check_failures;
        fprintf(stderr, "%s:%d: %s%s%s\n", file, line, check_row, check_row[0] != '\0' ? ": " : "", what);
    }
}

static inline void check_long(long long got, long long expected, const char* file, int line, const char* what)
{
    check_report(got == expected, file, line, what);
    if (got != expected)
        fprintf(stderr, "  got %lld, expected %lld\n", got, expected);
}

static inline void check_status(hipdnnStatus_t got, hipdnnStatus_t expected, const char* file, int line,
                                const char* what)
{
    check_report(got == expected, file, line, what);
    if (got != expected) {
        char text[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
        hipdnnGetLastErrorString(text, sizeof text);
        fprintf(stderr, "  got %s (%d), expected %s (%d); last error: %s\n", hipdnnGetErrorString(got), (int)got,
                hipdnnGetErrorString(expected), (int)expected, text);
    }
}

static inline void check_string(const char* got, const char* expected, const char* file, int line, const char* what)
{
    int same = got != NULL && strcmp(got, expected) == 0;
    check_report(same, file, line, what);
    if (!same)
        fprintf(stderr, "  got \"%s\", expected \"%s\"\n", got != NULL ? got : "(null)", expected);
}

static inline void check_contains(const char* text, const char* part, const char* file, int line, const char* what)
{
    int found = text != NULL && strstr(text, part) != NULL;
    check_report(found, file, line, what);
    if (!found)
        fprintf(stderr, "  \"%s\" does not contain \"%s\"\n", text != NULL ? text : "(null)", part);
}

static inline void check_near(double got, double expected, double tolerance, const char* file, int line,
                              const char* what)
{
    double difference = got > expected ? got - expected : expected - got;
    /* Written so that a NaN fails. */
    int near = difference <= tolerance;
    check_report(near, file, line, what);
    if (!near)
        fprintf(stderr, "  got %.9g, expected %.9g within %.3g\n", got, expected, tolerance);
}

/* The text of the last error of this thread, which must name each of these parts. Clears it, as reading does. */
static inline void check_last_error(const char* part, const char* file, int line, const char* what)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
    hipdnnGetLastErrorString(text, sizeof text);
    check_contains(text, part, file, line, what);
}

/* A failing call must leave its own text, so an earlier one is cleared first. */
static inline void check_forget_error(void)
{
    char text[1];
    hipdnnGetLastErrorString(text, sizeof text);
}

static inline void check_fails(hipdnnStatus_t got, hipdnnStatus_t expected, const char* part, const char* file,
                               int line, const char* what)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
    hipdnnGetLastErrorString(text, sizeof text);
    int good = got == expected && text[0] != '\0' && strstr(text, part) != NULL;
    check_report(good, file, line, what);
    if (!good)
        fprintf(stderr, "  got %s, expected %s; the last error \"%s\" should have \"%s\" in it\n",
                hipdnnGetErrorString(got), hipdnnGetErrorString(expected), text, part);
}

static inline void check_required(int before)
{
    if (check_failures != before) {
        fprintf(stderr, "the rest of the program needs this\n");
        exit(EXIT_FAILURE);
    }
}

/* A condition holds. */
#define CHECK(condition) check_report((condition) ? 1 : 0, __FILE__, __LINE__, #condition)
/* Two integers, enums or sizes are equal. */
#define CHECK_EQ(got, expected) \
    check_long((long long)(got), (long long)(expected), __FILE__, __LINE__, #got " == " #expected)
/* A call answers this status. */
#define CHECK_STATUS(call, expected) check_status((call), (expected), __FILE__, __LINE__, #call)
/* A call succeeds. */
#define CHECK_OK(call) CHECK_STATUS(call, HIPDNN_STATUS_SUCCESS)
/* A call fails with this status, and with its own text that contains a part. */
#define CHECK_FAILS(expected, part, call) \
    check_fails((check_forget_error(), (call)), (expected), (part), __FILE__, __LINE__, #call)
/* Ends the program if a precondition fails. */
#define REQUIRE(condition)            \
    do                                \
    {                                 \
        int before_ = check_failures; \
        CHECK(condition);             \
        check_required(before_);      \
    } while(0)
#define REQUIRE_OK(call)              \
    do                                \
    {                                 \
        int before_ = check_failures; \
        CHECK_OK(call);               \
        check_required(before_);      \
    } while(0)
/* Two strings are equal. */
#define CHECK_STR(got, expected) check_string((got), (expected), __FILE__, __LINE__, #got " == " #expected)
/* A text has a part. */
#define CHECK_CONTAINS(text, part) check_contains((text), (part), __FILE__, __LINE__, #text " contains " #part)
/* The last error of this thread has a part. */
#define CHECK_LAST_ERROR(part) check_last_error((part), __FILE__, __LINE__, "last error contains " #part)
/* Two numbers are equal within a tolerance. */
#define CHECK_NEAR(got, expected, tolerance) \
    check_near((got), (expected), (tolerance), __FILE__, __LINE__, #got " near " #expected)

/* The exit status: 0 when every check held and at least one was made. */
static inline int check_result(void)
{
    if (check_failures != 0 || check_count == 0)
        fprintf(stderr, "%d of %d checks failed\n", (int)check_failures, (int)check_count);
    return check_failures == 0 && check_count != 0 ? 0 : 1;
}

#endif
