/* SPDX-License-Identifier: MIT */

/* Part of cudnn_peer.c: the subjects, and the times of the device and of the host. */

#include <time.h>

/* Rounds, and of one round: executions between two events and in a captured graph, and the nanoseconds that they are to take at most. */
enum {
    ROUNDS = 25,
    HOST_ROUNDS = 101,
    LAUNCHES = 200,
    HOST_LAUNCHES = 64,
    CAPTURED = 20,
    LEAST = 4,
    MOST_SUBJECTS = 4
};
static const double ROUND_TIME = 10e6, HOST_ROUND_TIME = 4e6;

static int rounds = ROUNDS, host_rounds = HOST_ROUNDS;

typedef struct {
    const bindings* bound;
    const graph* of_cudnn[2];
    our_plan ours;
    hipdnnBackendDescriptor_t packs[SETS];
} measured;

/* The timed function: one execution of set `set`. */
typedef void (*run)(const measured* m, int set);

static void run_cudnn(const measured* m, int set)
{
    const bindings* b = m->bound;
    execute(m->of_cudnn[0], b->all, b->uids, b->pointers[set], b->workspace);
}

static void run_again(const measured* m, int set)
{
    const bindings* b = m->bound;
    execute(m->of_cudnn[1], b->all, b->uids, b->pointers[set], b->workspace);
}

static void run_ours(const measured* m, int set)
{
    ours_ok("hipdnnBackendExecute", hipdnn.BackendExecute(our_handle, m->ours.plan, m->packs[set]));
}

static void run_ours_whole(const measured* m, int set)
{
    hipdnnBackendDescriptor_t pack = our_pack(m->bound, set);
    ours_ok("hipdnnBackendExecute", hipdnn.BackendExecute(our_handle, m->ours.plan, pack));
    ours_ok("destroy the pack", hipdnn.BackendDestroyDescriptor(pack));
}

/* A subject. A program that uses cuDNN makes a pack for each execution. */
enum { CUDNN, AGAIN, OURS, OURS_WHOLE };
static const run RUNS[MOST_SUBJECTS] = {run_cudnn, run_again, run_ours, run_ours_whole};
static const char* const SUBJECTS[MOST_SUBJECTS] = {"cuDNN", "cuDNN again", "CUDNN_ENGINE",
                                                    "CUDNN_ENGINE with a pack for each execution"};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b)
{
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double median(const double* values, int count)
{
    double sorted[HOST_ROUNDS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return sorted[count / 2];
}

/* The order of a round, forwards or backwards, so that each subject is at each position about equally often. */
static int turn(int round, int at, int count)
{
    const int place = (at + round) % count;
    return round / count % 2 == 0 ? place : count - 1 - place;
}

/* Nanoseconds of the host for one execution, while the device has room for more work. */
static double host_time(run what, const measured* m, int launches)
{
    cuda_ok("cuCtxSynchronize", cuda.CtxSynchronize());
    const double begun = now();
    for (int i = 0; i < launches; i++) {
        what(m, i % SETS);
    }
    return (now() - begun) / launches;
}

/* Nanoseconds of the device between two events. */
static double between(CUevent first, CUevent last)
{
    float milliseconds = 0.0f;
    cuda_ok("cuEventSynchronize", cuda.EventSynchronize(last));
    cuda_ok("cuEventElapsedTime", cuda.EventElapsedTime(&milliseconds, first, last));
    return (double)milliseconds * 1e6;
}

/* The same for one execution of many. */
static double device_time(run what, const measured* m, int launches, const CUevent* events)
{
    cuda_ok("cuCtxSynchronize", cuda.CtxSynchronize());
    cuda_ok("cuEventRecord", cuda.EventRecord(events[0], stream));
    for (int i = 0; i < launches; i++) {
        what(m, i % SETS);
    }
    cuda_ok("cuEventRecord", cuda.EventRecord(events[1], stream));
    return between(events[0], events[1]) / launches;
}

/* Captures CAPTURED executions in one graph. */
static CUgraphExec captured(run what, const measured* m)
{
    CUgraph recorded = NULL;
    CUgraphExec made = NULL;
    cuda_ok("cuCtxSynchronize", cuda.CtxSynchronize());
    cuda_ok("cuStreamBeginCapture", cuda.StreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < CAPTURED; i++) {
        what(m, i % SETS);
    }
    cuda_ok("cuStreamEndCapture", cuda.StreamEndCapture(stream, &recorded));
    cuda_ok("cuGraphInstantiate", cuda.GraphInstantiateWithFlags(&made, recorded, 0));
    cuda_ok("cuGraphDestroy", cuda.GraphDestroy(recorded));
    return made;
}

static double graph_time(CUgraphExec started, int launches, const CUevent* events)
{
    cuda_ok("cuCtxSynchronize", cuda.CtxSynchronize());
    /* The first launch uploads the graph, which is not measured. */
    cuda_ok("cuGraphLaunch", cuda.GraphLaunch(started, stream));
    cuda_ok("cuEventRecord", cuda.EventRecord(events[0], stream));
    for (int i = 0; i < launches; i++) {
        cuda_ok("cuGraphLaunch", cuda.GraphLaunch(started, stream));
    }
    cuda_ok("cuEventRecord", cuda.EventRecord(events[1], stream));
    return between(events[0], events[1]) / (launches * CAPTURED);
}

/* How many executions of so many nanoseconds fill a round. */
static int filling(double nanoseconds, double round_time, int most)
{
    const double wanted = round_time / (nanoseconds > 1.0 ? nanoseconds : 1.0);
    return wanted > most ? most : wanted < LEAST ? LEAST : (int)wanted;
}

/* Lines of times of the device and of their ratios to cuDNN's, round by round. */
static void tell_device(const char* name, const char* what, double (*times)[ROUNDS])
{
    for (int who = CUDNN; who <= OURS; who++) {
        printf("%s,%s: %s,%.3f,us\n", name, SUBJECTS[who], what, median(times[who], rounds) / 1e3);
    }
    for (int who = AGAIN; who <= OURS; who++) {
        double ratios[ROUNDS];
        for (int round = 0; round < rounds; round++) {
            ratios[round] = times[who][round] / times[CUDNN][round];
        }
        printf("%s,%s: %s over cuDNN,%.4f,ratio\n", name, what, SUBJECTS[who], median(ratios, rounds));
    }
}

static void tell_host(const char* name, double (*times)[HOST_ROUNDS])
{
    for (int who = CUDNN; who <= OURS_WHOLE; who++) {
        printf("%s,%s: host,%.3f,us\n", name, SUBJECTS[who], median(times[who], host_rounds) / 1e3);
    }
    for (int who = AGAIN; who <= OURS_WHOLE; who++) {
        double more[HOST_ROUNDS];
        for (int round = 0; round < host_rounds; round++) {
            more[round] = times[who][round] - times[CUDNN][round];
        }
        printf("%s,host: %s above cuDNN,%.3f,us\n", name, SUBJECTS[who], median(more, host_rounds) / 1e3);
    }
}

/* Measures the subjects in turns, after a warm-up round, and prints CSV lines. */
static void measure(const char* name, const measured* m)
{
    static double device[MOST_SUBJECTS][ROUNDS], host[MOST_SUBJECTS][HOST_ROUNDS];
    enum { OF_DEVICE = OURS + 1 };
    CUevent events[2];
    CUgraphExec graphs[OF_DEVICE];
    for (int i = 0; i < 2; i++) {
        cuda_ok("cuEventCreate", cuda.EventCreate(&events[i], CU_EVENT_DEFAULT));
    }
    device_time(run_cudnn, m, SETS, events);
    const double estimate = device_time(run_cudnn, m, SETS, events);
    const int launches = filling(estimate, ROUND_TIME, LAUNCHES),
              host_launches = filling(estimate, HOST_ROUND_TIME, HOST_LAUNCHES);
    for (int round = -1; round < host_rounds; round++) {
        for (int at = 0; at < MOST_SUBJECTS; at++) {
            const int who = turn(round + 1, at, MOST_SUBJECTS);
            host[who][round < 0 ? 0 : round] = host_time(RUNS[who], m, host_launches);
        }
    }
    tell_host(name, host);
    for (int round = -1; round < rounds; round++) {
        for (int at = 0; at < OF_DEVICE; at++) {
            const int who = turn(round + 1, at, OF_DEVICE);
            device[who][round < 0 ? 0 : round] = device_time(RUNS[who], m, launches, events);
        }
    }
    tell_device(name, "device", device);
    for (int who = 0; who < OF_DEVICE; who++) {
        graphs[who] = captured(RUNS[who], m);
    }
    const int graph_launches = filling(estimate * CAPTURED, ROUND_TIME, LAUNCHES);
    for (int round = -1; round < rounds; round++) {
        for (int at = 0; at < OF_DEVICE; at++) {
            const int who = turn(round + 1, at, OF_DEVICE);
            device[who][round < 0 ? 0 : round] = graph_time(graphs[who], graph_launches, events);
        }
    }
    tell_device(name, "device in captured graphs", device);
    for (int who = 0; who < OF_DEVICE; who++) {
        cuda_ok("cuGraphExecDestroy", cuda.GraphExecDestroy(graphs[who]));
    }
}
