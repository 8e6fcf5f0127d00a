/* SPDX-License-Identifier: MIT */

/*
 * The overhead of this library over cuDNN itself: builds a graph by hand with cuDNN's graph API, has CUDNN_ENGINE plan the same graph,
 * and measures both in turns: device times by events, also of captured graphs, which the host does not slow down, and host times of an
 * execution with new pointers. A second cuDNN plan of the same graph is measured as a separate subject: the difference between the two
 * shows the precision of the measurement.
 *
 * Usage: cudnn_peer LIBRARY          compares; prints CSV lines: what, who, value, unit
 *        cudnn_peer LIBRARY --small  the same of small graphs, in one round, to see that the results agree
 *        cudnn_peer LIBRARY --first  what the first handle and the first plan of a process take
 * Exit status: 0; 1 when results differ or something fails; 2 without a GPU or cuDNN.
 */
#define _POSIX_C_SOURCE 200809L

#include "cudnn_peer_backward.h"
#include "cudnn_peer_graphs.h"

enum { SETS = 8 };

/* ---- This library ---- */

typedef struct {
    hipdnnBackendDescriptor_t plan;
    int64_t workspace_size;
} our_plan;

static hipdnnHandle_t our_handle;

static void ours_ok(const char* what, int status)
{
    if (status != 0) {
        char text[2000];
        hipdnn.GetLastErrorString(text, sizeof text);
        die("%s: status %d: %s", what, status, text);
    }
}

static hipdnnBackendDescriptor_t our_descriptor(hipdnnBackendDescriptorType_t kind)
{
    hipdnnBackendDescriptor_t made = NULL;
    ours_ok("hipdnnBackendCreateDescriptor", hipdnn.BackendCreateDescriptor(kind, &made));
    return made;
}

static void our_set(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name,
                    hipdnnBackendAttributeType_t kind, int64_t count, const void* elements)
{
    ours_ok("hipdnnBackendSetAttribute", hipdnn.BackendSetAttribute(descriptor, name, kind, count, elements));
}

/* The plan of CUDNN_ENGINE for a graph in JSON. */
static our_plan plan_ours(const char* json)
{
    our_plan made = {NULL, 0};
    hipdnnBackendDescriptor_t graph = NULL;
    ours_ok("graph", hipdnn.BackendCreateAndDeserializeJsonGraph_ext(&graph, json, strlen(json)));
    our_set(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &our_handle);
    ours_ok("finalize the graph", hipdnn.BackendFinalize(graph));
    int64_t id = 0;
    ours_ok("CUDNN_ENGINE", hipdnn.GetEngineIdByName_ext(our_handle, "CUDNN_ENGINE", &id));
    hipdnnBackendDescriptor_t engine = our_descriptor(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    our_set(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    our_set(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    ours_ok("finalize the engine", hipdnn.BackendFinalize(engine));
    hipdnnBackendDescriptor_t config = our_descriptor(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    our_set(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    ours_ok("finalize the configuration", hipdnn.BackendFinalize(config));
    made.plan = our_descriptor(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    our_set(made.plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    ours_ok("finalize the plan", hipdnn.BackendFinalize(made.plan));
    int64_t count = 0;
    ours_ok("size of the workspace", hipdnn.BackendGetAttribute(made.plan, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                                HIPDNN_TYPE_INT64, 1, &count, &made.workspace_size));
    const hipdnnBackendDescriptor_t parts[] = {config, engine, graph};
    for (int i = 0; i < 3; i++) {
        ours_ok("destroy", hipdnn.BackendDestroyDescriptor(parts[i]));
    }
    return made;
}

/* Tensors in memory: uids, which are those of the JSON and of cuDNN, and their address in each set. They are followed by the scalars
 * that cuDNN gets, `all` together. */
typedef struct {
    int count, all;
    int64_t uids[MOST_TENSORS];
    void* pointers[SETS][MOST_TENSORS];
    void* our_workspace;
    void* workspace;
} bindings;

static hipdnnBackendDescriptor_t our_pack(const bindings* b, int set)
{
    hipdnnBackendDescriptor_t pack = our_descriptor(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    our_set(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, b->count, b->uids);
    our_set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, b->count, b->pointers[set]);
    our_set(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &b->our_workspace);
    ours_ok("finalize the pack", hipdnn.BackendFinalize(pack));
    return pack;
}

#include "cudnn_peer_times.h"

/* The largest difference of bfloat16 numbers, relative to the largest number. */
static double distance(const char* a, const char* b, size_t bytes)
{
    double most = 0.0, largest = 0.0;
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        float numbers[2];
        for (int who = 0; who < 2; who++) {
            uint32_t bits = 0;
            memcpy((char*)&bits + 2, (who == 0 ? a : b) + i, 2);
            memcpy(&numbers[who], &bits, sizeof bits);
        }
        const double apart = numbers[0] > numbers[1] ? numbers[0] - numbers[1] : numbers[1] - numbers[0];
        const double size = numbers[0] < 0 ? -numbers[0] : numbers[0];
        /* NaN differs from everything. */
        most = apart <= most ? most : apart;
        largest = size > largest ? size : largest;
    }
    return largest > 0.0 ? most / largest : most;
}

/* Whether all leave the same bytes in the results, or about the same numbers. */
static int agree(const graph* g, const bindings* b, const measured* m)
{
    int same = 1;
    for (int i = 0; i < g->count; i++) {
        const tensor* t = &g->tensors[i];
        if (!t->is_result) {
            continue;
        }
        const CUdeviceptr at = (CUdeviceptr)(uintptr_t)b->pointers[0][t->bound];
        char* results[] = {malloc(t->bytes), malloc(t->bytes), malloc(t->bytes)};
        for (int who = CUDNN; who <= OURS; who++) {
            cuda_ok("cuMemsetD8", cuda.MemsetD8_v2(at, 0xff, t->bytes));
            cuda_ok("cuCtxSynchronize", cuda.CtxSynchronize());
            RUNS[who](m, 0);
            cuda_ok("cuCtxSynchronize", cuda.CtxSynchronize());
            cuda_ok("cuMemcpyDtoH", cuda.MemcpyDtoH_v2(results[who], at, t->bytes));
        }
        for (int who = AGAIN; who <= OURS; who++) {
            const bool is_same = memcmp(results[0], results[who], t->bytes) == 0;
            if (!is_same && !(g->is_loose && distance(results[0], results[who], t->bytes) < 0.02)) {
                fprintf(stderr, "%s: tensor %d of %s differs from cuDNN's\n", g->name, i + 1, SUBJECTS[who]);
                same = 0;
            }
        }
        for (int who = CUDNN; who <= OURS; who++) {
            free(results[who]);
        }
    }
    return same;
}

static void* allocate(size_t bytes)
{
    CUdeviceptr made = 0;
    cuda_ok("cuMemAlloc", cuda.MemAlloc_v2(&made, bytes > 0 ? bytes : 1));
    return (void*)(uintptr_t)made;
}

/* Fills memory with 16-bit numbers near 1, half or bfloat16. */
static void fill(void* memory, size_t bytes, int seed)
{
    uint16_t* numbers = malloc(bytes);
    uint32_t state = 12345u + (uint32_t)seed;
    for (size_t i = 0; i < bytes / 2; i++) {
        state = state * 1664525u + 1013904223u;
        /* Both signs, and exponents and fractions that are small in either type. */
        numbers[i] = (uint16_t)(0x3c00u | (state >> 16 & 0x80ffu));
    }
    cuda_ok("cuMemcpyHtoD", cuda.MemcpyHtoD_v2((CUdeviceptr)(uintptr_t)memory, numbers, bytes));
    free(numbers);
}

/* Memory for the tensors of a graph, in as many sets, and for its workspaces. */
static void bind(graph* g, const our_plan* ours, bindings* b)
{
    for (int i = 0; i < g->count; i++) {
        tensor* t = &g->tensors[i];
        if (t->bytes == 0 || t->is_scratch) {
            continue;
        }
        t->bound = b->count;
        b->uids[b->count] = i + 1;
        for (int set = 0; set < SETS; set++) {
            b->pointers[set][b->count] = allocate(t->bytes);
            fill(b->pointers[set][b->count], t->bytes, i + set);
        }
        b->count++;
    }
    b->all = b->count;
    for (int i = 0; i < g->count; i++) {
        tensor* t = &g->tensors[i];
        if (t->is_value || t->is_scratch) {
            t->scratch = t->is_scratch ? allocate(t->bytes) : NULL;
            b->uids[b->all] = i + 1;
            for (int set = 0; set < SETS; set++) {
                b->pointers[set][b->all] = t->is_scratch ? t->scratch : (void*)&t->value;
            }
            b->all++;
        }
    }
    b->our_workspace = allocate((size_t)ours->workspace_size);
    b->workspace = allocate((size_t)g->workspace_size);
}

static void unbind(const graph* g, const bindings* b)
{
    for (int set = 0; set < SETS; set++) {
        for (int i = 0; i < b->count; i++) {
            cuda_ok("cuMemFree", cuda.MemFree_v2((CUdeviceptr)(uintptr_t)b->pointers[set][i]));
        }
    }
    for (int i = 0; i < g->count; i++) {
        if (g->tensors[i].is_scratch) {
            cuda_ok("cuMemFree", cuda.MemFree_v2((CUdeviceptr)(uintptr_t)g->tensors[i].scratch));
        }
    }
    cuda_ok("cuMemFree", cuda.MemFree_v2((CUdeviceptr)(uintptr_t)b->our_workspace));
    cuda_ok("cuMemFree", cuda.MemFree_v2((CUdeviceptr)(uintptr_t)b->workspace));
}

/* Measures one graph. Returns whether the results agree. */
static int compare(graph* g)
{
    static graph again;
    bindings b = {0, 0, {0}, {{0}}, NULL, NULL};
    plan(g);
    again = *g;
    plan(&again);
    if (again.workspace_size > g->workspace_size) {
        g->workspace_size = again.workspace_size;
    }
    measured m = {&b, {g, &again}, plan_ours(g->json), {0}};
    bind(g, &m.ours, &b);
    for (int set = 0; set < SETS; set++) {
        m.packs[set] = our_pack(&b, set);
    }
    const int same = agree(g, &b, &m);
    measure(g->name, &m);
    printf("%s,CUDNN_ENGINE: workspace of callers,%lld,bytes\n", g->name, (long long)m.ours.workspace_size);
    printf("%s,cuDNN: workspace,%lld,bytes\n", g->name, (long long)g->workspace_size);
    fflush(stdout);
    for (int set = 0; set < SETS; set++) {
        ours_ok("destroy the pack", hipdnn.BackendDestroyDescriptor(m.packs[set]));
    }
    unbind(g, &b);
    return same;
}

/* A context, a handle, a plan and an execution, each for the first time in a process. */
static void first(const char* library, double loaded)
{
    const double context = now();
    open_library(&hipdnn, sizeof hipdnn, library, "hipdnn", HIPDNN_FUNCTIONS);
    ours_ok("hipdnnCreate", hipdnn.Create(&our_handle));
    ours_ok("hipdnnSetStream", hipdnn.SetStream(our_handle, (void*)stream));
    const double handle = now();
    graph g;
    convolution(&g, 1, 16, 16, 3, 8, 1);
    plan_ours(g.json);
    const double planned = now();
    open_cudnn();
    const double opened = now();
    convolution(&g, 1, 16, 24, 3, 8, 1);
    plan(&g);
    printf("first,CUDA: cuInit and context,%.2f,ms\n", (context - loaded) / 1e6);
    printf("first,this library: opened and a handle,%.2f,ms\n", (handle - context) / 1e6);
    printf("first,CUDNN_ENGINE: cuDNN and the first plan,%.2f,ms\n", (planned - handle) / 1e6);
    printf("first,cuDNN: another handle,%.2f,ms\n", (opened - planned) / 1e6);
    printf("first,cuDNN: another plan,%.2f,ms\n", (now() - opened) / 1e6);
}

int main(int count, char** arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: cudnn_peer LIBRARY [--small | --first]\n");
        return 2;
    }
    const double loaded = now();
    const int is_small = count > 2 && strcmp(arguments[2], "--small") == 0;
    open_cuda();
    if (count > 2 && !is_small) {
        first(arguments[1], loaded);
        return 0;
    }
    open_cudnn();
    open_library(&hipdnn, sizeof hipdnn, arguments[1], "hipdnn", HIPDNN_FUNCTIONS);
    ours_ok("hipdnnCreate", hipdnn.Create(&our_handle));
    ours_ok("hipdnnSetStream", hipdnn.SetStream(our_handle, (void*)stream));
    printf("what,who,value,unit\n");
    int same = 1;
    static graph g;
    if (is_small) {
        rounds = host_rounds = 1;
        convolution(&g, 1, 8, 8, 3, 4, 1);
        same &= compare(&g);
        convolution(&g, 1, 8, 8, 3, 4, 2);
        same &= compare(&g);
        product(&g, 8, 16, 8);
        same &= compare(&g);
        attention(&g, 1, 1, 16, 8);
        same &= compare(&g);
        return same ? 0 : 1;
    }
    fprintf(stderr, "cuDNN %zu; medians of %d rounds of the device and %d of the host, in turns whose order changes\n",
            cudnn.GetVersion(), rounds, host_rounds);
    /* ResNet-50's convolutions: channels, filters, their size, the image's and the stride. */
    static const int64_t CONVOLUTIONS[][5] = {{8, 64, 7, 224, 2},  {64, 64, 1, 56, 1},   {64, 64, 3, 56, 1},
                                              {256, 64, 1, 56, 1}, {128, 128, 3, 28, 1}, {256, 256, 3, 14, 1},
                                              {512, 512, 3, 7, 1}, {256, 512, 1, 56, 2}};
    /* BERT's, base with 512 positions and with 4096, and large with 4096. */
    static const int64_t PRODUCTS[][3] = {{512, 3072, 768}, {4096, 3072, 768}, {4096, 4096, 1024}};
    convolution(&g, 1, 16, 16, 3, 8, 1);
    same &= compare(&g);
    for (size_t i = 0; i < sizeof CONVOLUTIONS / sizeof *CONVOLUTIONS; i++) {
        const int64_t* of = CONVOLUTIONS[i];
        convolution(&g, 64, of[0], of[1], of[2], of[3], of[4]);
        same &= compare(&g);
    }
    for (size_t i = 0; i < sizeof PRODUCTS / sizeof *PRODUCTS; i++) {
        product(&g, PRODUCTS[i][0], PRODUCTS[i][1], PRODUCTS[i][2]);
        same &= compare(&g);
    }
    for (int64_t s = 2048; s <= 8192; s *= 4) {
        attention(&g, 2, 16, s, 128);
        same &= compare(&g);
        attention_backward(&g, 2, 16, s, 128);
        same &= compare(&g);
    }
    return same ? 0 : 1;
}
