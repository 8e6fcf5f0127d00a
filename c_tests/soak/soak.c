/* SPDX-License-Identifier: MIT */

/*
 * soak MINUTES: threads plan, execute and destroy graphs of every operation, each with its own handles, while the memory of the
 * process is watched. It must not grow after the first tenth of the time.
 */
#define _DEFAULT_SOURCE

#include "../every_operation.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, PER_HANDLE = 50, MOST_GROWTH_KIB = 16 << 10 };

static atomic_bool ended;
static atomic_llong executed;
static atomic_llong rounds;

static void* soak(void* number)
{
    trial* const t = calloc(1, sizeof *t);
    REQUIRE(t != NULL);
    /* Each thread starts at a different graph. */
    for (int64_t i = (intptr_t)number * 31; !atomic_load(&ended); i++) {
        if (t->handle == NULL || i % PER_HANDLE == 0) {
            if (t->handle != NULL) {
                CHECK_OK(hipdnnDestroy(t->handle));
            }
            t->handle = make_handle();
        }
        begin_trial(t, &ROWS[i % COUNT(ROWS)], TYPES[i / COUNT(ROWS) % COUNT(TYPES)]);
        t->executed = 0;
        use_graph(t);
        end_trial(t);
        atomic_fetch_add(&executed, t->executed);
        atomic_fetch_add(&rounds, 1);
    }
    CHECK_OK(hipdnnDestroy(t->handle));
    free(t);
    return NULL;
}

/* Resident memory without file mappings. */
static long memory_kib(void)
{
    long pages = 0;
    long resident = 0;
    long shared = 0;
    FILE* const file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%ld %ld %ld", &pages, &resident, &shared) == 3);
    fclose(file);
    return (resident - shared) * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int count, char** words)
{
    pthread_t threads[THREADS];
    const double minutes = count > 1 ? atof(words[1]) : 1.0;
    const time_t begin = time(NULL);
    const double seconds = minutes * 60.0;
    long settled = 0;
    long most = 0;
    REQUIRE(seconds >= 10.0);
    for (intptr_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, soak, (void*)i) == 0);
    }
    for (double passed = 0.0; passed < seconds; passed = difftime(time(NULL), begin)) {
        usleep(200000);
        const long now = memory_kib();
        if (passed < seconds / 10.0) {
            settled = now > settled ? now : settled;
        }
        most = now > most ? now : most;
    }
    atomic_store(&ended, true);
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    printf("%lld graphs, %lld executions in %.1f minutes; at most %ld KiB in the first tenth, %ld KiB in all\n",
           (long long)atomic_load(&rounds), (long long)atomic_load(&executed), minutes, settled, most);
    CHECK(most - settled <= MOST_GROWTH_KIB);
    return check_result();
}
