/* SPDX-License-Identifier: MIT */

/* Graphs of every operation, read, planned and executed on a thread whose stack has 64 KiB, as threads of many programs have. Behind the
 * stack is a page that must not be touched, and planning has to do with half of the stack. */
#define _DEFAULT_SOURCE

#include "../every_operation.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK = 64 << 10, ENOUGH = 32 << 10, PAGE = 4096, PAINT = 0xa5 };

static trial tried;

static void* on_small_stack(void* argument)
{
    static unsigned char for_signals[64 << 10];
    const stack_t other = {.ss_sp = for_signals, .ss_size = sizeof for_signals};
    (void)argument;
    REQUIRE(sigaltstack(&other, NULL) == 0);
    use_graph(&tried);
    return NULL;
}

static void stack_ended(int signal_number)
{
    static const char text[] = ": the stack ended\n";
    (void)signal_number;
    ssize_t ignored = write(STDERR_FILENO, check_row, strlen(check_row));
    ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(EXIT_FAILURE);
}

/* Bytes of the stack that a thread with this graph touches. */
static int depth(unsigned char* stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int untouched = 0;
    memset(stack, PAINT, STACK);
    REQUIRE(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK) == 0);
    REQUIRE(pthread_create(&thread, &attributes, on_small_stack, NULL) == 0 && pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
    while (untouched < STACK && stack[untouched] == PAINT) {
        untouched++;
    }
    return STACK - untouched;
}

int main(void)
{
    const struct sigaction action = {.sa_handler = stack_ended, .sa_flags = SA_ONSTACK};
    int deepest[2] = {0, 0};
    tried.handle = make_handle();
    unsigned char* const memory = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED && mprotect(memory, PAGE, PROT_NONE) == 0);
    REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
    for (int64_t i = 0; i < COUNT(ROWS); i++) {
        for (int64_t type = 0; type < COUNT(TYPES); type++) {
            check_about("%s in %s, row %d", ROWS[i].type, TYPES[type], (int)i);
            begin_trial(&tried, &ROWS[i], TYPES[type]);
            for (int execute = 0; execute < 2; execute++) {
                tried.only_plan = execute == 0;
                const int used = depth(memory + PAGE);
                CHECK(execute == 1 || used <= ENOUGH);
                deepest[execute] = used > deepest[execute] ? used : deepest[execute];
            }
            end_trial(&tried);
        }
    }
    printf("%lld plans; planning took at most %d bytes of stack, executions %d\n", (long long)tried.executed,
           deepest[0], deepest[1]);
    CHECK(tried.executed > COUNT(ROWS) * 6);
    CHECK_OK(hipdnnDestroy(tried.handle));
    return check_result();
}
