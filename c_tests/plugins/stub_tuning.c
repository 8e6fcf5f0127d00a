/* SPDX-License-Identifier: MIT */

/*
 * A tuning plugin that can be built with any defect. As it stands it has one strategy, which measures each engine as it is and ranks them by
 * their times. The variants of variants.txt whose name begins with tuning_ are made of this file, stub_identity.c and stub_log.c.
 */

#include "stub.h"

#include "../flatbuffer_writer.h"

#include <hipdnn_plugin_sdk/TuningPluginApi.h>
#include <string.h>
#include <unistd.h>

/* STRATEGIES: the strategies' names. STRATEGY_COUNT: how many of them there are. */
#ifndef STRATEGIES
#define STRATEGIES "stub"
#endif
static const char* const NAMES[] = {STRATEGIES};
#ifndef STRATEGY_COUNT
#define STRATEGY_COUNT (sizeof NAMES / sizeof NAMES[0])
#endif

/* ID_OFFSET: added to each id, which then is not the hash of the name. */
#ifndef ID_OFFSET
#define ID_OFFSET 0
#endif

static int64_t id_of(size_t strategy)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* at = NAMES[strategy]; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return (int64_t)(hash + ID_OFFSET);
}

/* IDS_STATUS: asking for the ids fails. COUNT, COUNT_AGAIN: the counts of the first and the second call. */
#ifndef IDS_STATUS
#define IDS_STATUS OK
#endif
#ifndef COUNT
#define COUNT STRATEGY_COUNT
#endif
#ifndef COUNT_AGAIN
#define COUNT_AGAIN COUNT
#endif
#ifndef NO_GET_ALL_STRATEGY_IDS
hipdnnPluginStatus_t hipdnnTuningPluginGetAllStrategyIds(int64_t* strategy_ids, uint32_t max_strategies,
                                                         uint32_t* num_strategies)
{
    size_t count = STRATEGY_COUNT;
    for (size_t strategy = 0; strategy < count && strategy < max_strategies; strategy++) {
        strategy_ids[strategy] = id_of(strategy);
    }
    *num_strategies = (uint32_t)(max_strategies == 0 ? COUNT : COUNT_AGAIN);
    return answer(IDS_STATUS, __func__);
}
#endif

/* STRATEGY_NAME_NULL: success with null. STRATEGY_NAME_STATUS: asking fails. */
#ifndef STRATEGY_NAME_STATUS
#define STRATEGY_NAME_STATUS OK
#endif
#ifndef NO_GET_STRATEGY_NAME
hipdnnPluginStatus_t hipdnnTuningPluginGetStrategyName(int64_t strategy_id, const char** name)
{
#ifdef STRATEGY_NAME_NULL
    (void)strategy_id;
    *name = NULL;
#else
    size_t count = STRATEGY_COUNT;
    for (size_t strategy = 0; strategy < count; strategy++) {
        if (strategy_id == id_of(strategy)) {
            *name = NAMES[strategy];
        }
    }
#endif
    return answer(STRATEGY_NAME_STATUS, __func__);
}
#endif

/* The bytes of a configuration: an engine, and a knob with a number where `knob` is not null. */
static inline hipdnnPluginConstData_t configuration(flatbuffer* fb, int64_t engine, const char* knob, int64_t number)
{
    memset(fb, 0, sizeof *fb);
    uint32_t settings = 0;
    if (knob != NULL) {
        uint32_t id = fb_text(fb, knob);
        fb_begin(fb);
        fb_long(fb, 0, number);
        uint32_t value = fb_end(fb);
        fb_begin(fb);
        fb_reference(fb, 0, id);
        fb_byte(fb, 1, 1);
        fb_reference(fb, 2, value);
        uint32_t setting = fb_end(fb);
        settings = fb_offsets(fb, 1, &setting);
    }
    fb_begin(fb);
    fb_long(fb, 0, engine);
    if (settings != 0) {
        fb_reference(fb, 1, settings);
    }
    size_t size;
    const unsigned char* bytes = fb_finish(fb, fb_end(fb), &size);
    hipdnnPluginConstData_t data = {bytes, size};
    return data;
}

/* What a search did that must not be done: another measurement, whose status is recorded. */
static inline void misuse(const char* what, const hipdnnTuningHost_t* host, const hipdnnPluginConstData_t* config,
                          uint32_t runs)
{
    hipdnnTuningMeasurement_t found;
    record("%s status=%d", what, (int)host->measure(host->context, config, runs, &found));
}

static inline void rank(const char* what, const hipdnnTuningHost_t* host, const uint32_t* numbers, size_t count)
{
    record("%s status=%d", what, (int)host->rank(host->context, numbers, count));
}

#ifdef OTHER_THREAD
#include <pthread.h>

struct elsewhere {
    const hipdnnTuningHost_t* host;
    const hipdnnPluginConstData_t* config;
};

static void* on_another_thread(void* argument)
{
    const struct elsewhere* of = argument;
    uint32_t first = 0;
    misuse("measure on another thread", of->host, of->config, 1);
    rank("rank on another thread", of->host, &first, 1);
    return NULL;
}
#endif

/* SEARCH_STATUS: the search fails in the end. MISUSES: it calls the host in every wrong way. KEEPS: it keeps the host's functions and calls
 * them in the next search. INSISTS: it goes on measuring when the budget is spent, ENDLESS: for ever. STUCK: it does not return. RANKS: what
 * it ranks, in the place of its order. */
#ifndef SEARCH_STATUS
#define SEARCH_STATUS OK
#endif
#ifndef NO_SEARCH
hipdnnPluginStatus_t hipdnnTuningPluginSearch(int64_t strategy_id, const hipdnnTuningProblem_t* problem,
                                              const hipdnnTuningHost_t* host)
{
    static flatbuffer fb;
    char graph[1024];
    uint32_t numbers[16];
    uint64_t times[16];
    size_t count = 0;
    record("Search strategy=%d size=%d graph=%s candidates=%zu similar=%zu", strategy_id == id_of(0),
           problem->size >= sizeof *problem && host->size >= sizeof *host,
           describe_graph(&problem->graph, graph, sizeof graph), problem->num_candidates, problem->num_similar);
    for (size_t i = 0; i < problem->num_candidates && count < 16; i++) {
        hipdnnPluginConstData_t config = configuration(&fb, chosen(&problem->candidates[i]), NULL, 0);
        hipdnnTuningMeasurement_t found = {0, 0, 0, 0};
        int status = (int)host->measure(host->context, &config, 3, &found);
        record("measure status=%d measured=%d within=%d", status, found.num_runs > 0,
               found.remaining_ns <= problem->budget_ns);
        if (status != OK || found.num_runs == 0) {
            continue;
        }
        size_t at = count++;
        for (; at > 0 && times[at - 1] > found.time_ns; at--) {
            times[at] = times[at - 1];
            numbers[at] = numbers[at - 1];
        }
        times[at] = found.time_ns;
        numbers[at] = found.configuration;
    }
#ifdef MISUSES
    {
        hipdnnPluginConstData_t nothing = {NULL, 8}, garbage = {"garbage and more", 16}, cut = {"", 0},
                                huge = {"", SIZE_MAX};
        hipdnnPluginConstData_t right = configuration(&fb, chosen(&problem->candidates[0]), NULL, 0);
        misuse("no configuration", host, NULL, 1);
        misuse("no bytes", host, &nothing, 1);
        misuse("garbage", host, &garbage, 1);
        misuse("cut", host, &cut, 1);
        misuse("huge", host, &huge, 1);
        misuse("no runs", host, &right, 0);
        record("no output status=%d", (int)host->measure(host->context, &right, 1, NULL));
        record("no context status=%d", (int)host->measure(NULL, &right, 1, NULL));
        right = configuration(&fb, 42, NULL, 0);
        misuse("another engine", host, &right, 1);
        right = configuration(&fb, chosen(&problem->candidates[0]), "nonsense", 1);
        misuse("another knob", host, &right, 1);
        right = configuration(&fb, chosen(&problem->candidates[0]), "a", 99);
        misuse("another value", host, &right, 1);
        right = configuration(&fb, chosen(&problem->candidates[0]), "a", 1);
        misuse("a knob", host, &right, 1);
        uint32_t foreign = 77, twice[2] = {numbers[0], numbers[0]};
        rank("no numbers", host, NULL, 1);
        rank("an empty ranking", host, numbers, 0);
        rank("too many", host, numbers, SIZE_MAX);
        rank("another number", host, &foreign, 1);
        rank("a number twice", host, twice, 2);
    }
#endif
#ifdef OTHER_THREAD
    {
        hipdnnPluginConstData_t right = configuration(&fb, chosen(&problem->candidates[0]), NULL, 0);
        struct elsewhere of = {host, &right};
        pthread_t thread;
        if (pthread_create(&thread, NULL, on_another_thread, &of) == 0) {
            pthread_join(thread, NULL);
        }
    }
#endif
#ifdef KEEPS
    {
        static hipdnnTuningHost_t kept;
        hipdnnPluginConstData_t right = configuration(&fb, chosen(&problem->candidates[0]), NULL, 0);
        if (kept.measure != NULL) {
            misuse("after its search", &kept, &right, 1);
            rank("ranked after its search", &kept, numbers, 1);
        }
        kept = *host;
    }
#endif
#ifdef INSISTS
    for (int i = 0; i < 1000; i++) {
        hipdnnTuningMeasurement_t found;
        hipdnnPluginConstData_t right = configuration(&fb, chosen(&problem->candidates[0]), NULL, 0);
        (void)!host->measure(host->context, &right, 1000000, &found);
    }
#endif
#ifdef ENDLESS
    rank("rank", host, numbers, count);
    for (;;) {
        hipdnnTuningMeasurement_t found;
        hipdnnPluginConstData_t right = configuration(&fb, chosen(&problem->candidates[0]), NULL, 0);
        (void)!host->measure(host->context, &right, 1, &found);
    }
#endif
#ifdef STUCK
    for (;;) {
        sleep(1);
    }
#endif
#ifdef RANKS
    {
        const uint32_t own[] = {RANKS};
        rank("rank", host, own, sizeof own / sizeof own[0]);
    }
#elif !defined(SILENT)
    if (count > 0) {
        rank("rank", host, numbers, count);
    }
#endif
    return answer(SEARCH_STATUS, __func__);
}
#endif
