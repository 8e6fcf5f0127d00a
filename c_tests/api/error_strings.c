/* SPDX-License-Identifier: MIT */

/* hipdnnGetErrorString, hipdnnGetLastErrorString, hipdnnPeekLastErrorString_ext. */
#include "../fixture.h"

static void test_names(void)
{
    static const struct {
        int number;
        const char* name;
    } names[] = {
        {0, "HIPDNN_STATUS_SUCCESS"},
        {1, "HIPDNN_STATUS_NOT_INITIALIZED"},
        {2, "HIPDNN_STATUS_BAD_PARAM"},
        {3, "HIPDNN_STATUS_BAD_PARAM_NULL_POINTER"},
        {4, "HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
        {5, "HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND"},
        {6, "HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT"},
        {7, "HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH"},
        {8, "HIPDNN_STATUS_NOT_SUPPORTED"},
        {9, "HIPDNN_STATUS_INTERNAL_ERROR"},
        {10, "HIPDNN_STATUS_ALLOC_FAILED"},
        {11, "HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
        {12, "HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
        {13, "HIPDNN_STATUS_EXECUTION_FAILED"},
        {14, "HIPDNN_STATUS_PLUGIN_ERROR"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_about("status %d", names[i].number);
        CHECK(strcmp(hipdnnGetErrorString((hipdnnStatus_t)names[i].number), names[i].name) == 0);
    }
    const int unknown[] = {-1, 16, 100, 1 << 30, -2147483647 - 1, 2147483647};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        check_about("status %d", unknown[i]);
        CHECK(strcmp(hipdnnGetErrorString((hipdnnStatus_t)unknown[i]), "HIPDNN_STATUS_UNKNOWN") == 0);
    }
    check_about("%s", "");
}

static void make_error(void) { CHECK(hipdnnDestroy(NULL) == HIPDNN_STATUS_BAD_PARAM_NULL_POINTER); }

static void test_get_clears_and_peek_keeps(void)
{
    char first[HIPDNN_ERROR_STRING_MAX_LENGTH] = "?";
    char second[HIPDNN_ERROR_STRING_MAX_LENGTH] = "?";
    hipdnnGetLastErrorString(first, sizeof first);
    hipdnnPeekLastErrorString_ext(first, sizeof first);
    CHECK(first[0] == '\0');

    make_error();
    hipdnnPeekLastErrorString_ext(first, sizeof first);
    hipdnnPeekLastErrorString_ext(second, sizeof second);
    CHECK(first[0] != '\0' && strcmp(first, second) == 0);
    hipdnnGetLastErrorString(second, sizeof second);
    CHECK(strcmp(first, second) == 0);
    hipdnnGetLastErrorString(second, sizeof second);
    CHECK(second[0] == '\0');
}

static void test_success_keeps_the_text(void)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    make_error();
    hipdnnBackendDescriptor_t descriptor = NULL;
    CHECK(hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor) == HIPDNN_STATUS_SUCCESS);
    CHECK(hipdnnBackendDestroyDescriptor(descriptor) == HIPDNN_STATUS_SUCCESS);
    CHECK(strcmp(hipdnnGetErrorString(HIPDNN_STATUS_SUCCESS), "HIPDNN_STATUS_SUCCESS") == 0);
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "a line");
    hipdnnPeekLastErrorString_ext(text, sizeof text);
    CHECK(strstr(text, "handle") != NULL);
    /* The next failure replaces it. */
    CHECK(hipdnnBackendFinalize(NULL) == HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "escriptor") != NULL);
}

/* At most n - 1 characters and a NUL; the rest of the n bytes is zero; not a byte more. */
static void test_buffer_sizes(void (*get)(char*, size_t))
{
    char whole[HIPDNN_ERROR_STRING_MAX_LENGTH];
    make_error();
    hipdnnPeekLastErrorString_ext(whole, sizeof whole);
    const size_t length = strlen(whole);
    CHECK(length > 3);
    for (size_t size = 1; size < length + 20; size++) {
        char buffer[HIPDNN_ERROR_STRING_MAX_LENGTH];
        check_about("size %zu", size);
        memset(buffer, '#', sizeof buffer);
        make_error();
        get(buffer, size);
        const size_t expected = length < size - 1 ? length : size - 1;
        CHECK(strlen(buffer) == expected && memcmp(buffer, whole, expected) == 0);
        bool zeros = true;
        for (size_t i = expected; i < size; i++) {
            zeros = zeros && buffer[i] == '\0';
        }
        CHECK(zeros);
        CHECK(buffer[size] == '#');
    }
    check_about("%s", "");
}

/* Bad arguments of a reader neither crash nor lose the text. */
static void test_bad_arguments(void)
{
    char before[HIPDNN_ERROR_STRING_MAX_LENGTH];
    char after[HIPDNN_ERROR_STRING_MAX_LENGTH];
    char untouched = '#';
    make_error();
    hipdnnPeekLastErrorString_ext(before, sizeof before);
    hipdnnPeekLastErrorString_ext(NULL, 10);
    hipdnnPeekLastErrorString_ext(&untouched, 0);
    hipdnnGetLastErrorString(NULL, 10);
    hipdnnGetLastErrorString(&untouched, 0);
    hipdnnGetLastErrorString(NULL, 0);
    CHECK(untouched == '#');
    hipdnnGetLastErrorString(after, sizeof after);
    CHECK(strcmp(before, after) == 0);
}

int main(void)
{
    test_names();
    test_get_clears_and_peek_keeps();
    test_success_keeps_the_text();
    test_buffer_sizes(hipdnnGetLastErrorString);
    test_buffer_sizes(hipdnnPeekLastErrorString_ext);
    test_bad_arguments();
    return check_result();
}
