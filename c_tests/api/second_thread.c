/* SPDX-License-Identifier: MIT */

/* The second thread that uses the library destroys what the first one is using, at the moment of its first call. Each
 * round needs a process in which one thread alone has used the library, so it is a child. */
#include "../fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 300, NAME = 4096 };

static hipdnnBackendDescriptor_t shared;
static atomic_bool begun;
static int delay;

static void* destroy_it(void* nothing)
{
    (void)nothing;
    while (!atomic_load(&begun)) {
    }
    for (volatile int i = 0; i < delay; i++) {
    }
    if (hipdnnBackendDestroyDescriptor(shared) != HIPDNN_STATUS_SUCCESS) {
        _exit(4);
    }
    /* Overwrites what was freed, if the first thread still reads it. */
    for (int i = 0; i < 8; i++) {
        char* const memory = malloc(NAME);
        memset(memory, '!', NAME);
        free(memory);
    }
    return NULL;
}

/* Reads the name until the descriptor is gone. */
static int child(int round)
{
    static char name[NAME];
    char expected[NAME];
    pthread_t thread;
    memset(expected, 'n', sizeof expected);
    delay = round * 7 % 500;
    if (hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, &shared) != HIPDNN_STATUS_SUCCESS) {
        return 5;
    }
    put(shared, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, NAME - 1, expected);
    put_float_type(shared, HIPDNN_ATTR_TENSOR_DATA_TYPE);
    const int64_t one[] = {1};
    put(shared, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 1, one);
    put(shared, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 1, one);
    if (hipdnnBackendFinalize(shared) != HIPDNN_STATUS_SUCCESS ||
        pthread_create(&thread, NULL, destroy_it, NULL) != 0) {
        return 6;
    }
    atomic_store(&begun, true);
    for (;;) {
        int64_t count = 0;
        const hipdnnStatus_t status =
            hipdnnBackendGetAttribute(shared, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, NAME, &count, name);
        if (status == HIPDNN_STATUS_BAD_PARAM) {
            break;
        }
        if (status != HIPDNN_STATUS_SUCCESS || memcmp(name, expected, NAME - 1) != 0) {
            return 7;
        }
    }
    return pthread_join(thread, NULL) == 0 ? check_result() : 8;
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        check_about("round %d", round);
        const pid_t process = fork();
        REQUIRE(process >= 0);
        if (process == 0) {
            _exit(child(round));
        }
        int status = 0;
        REQUIRE(waitpid(process, &status, 0) == process);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return check_result();
}
