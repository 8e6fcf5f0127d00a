/* SPDX-License-Identifier: MIT */

/* Variant packs without a workspace or with a null one, and results that are not marked as outputs, in both CPU engines. */
#include "../json_text.h"

#include <pthread.h>

/* Large enough that a tensor between two nodes exceeds an engine's own buffers. */
enum { COUNT = 32768, THREADS = 4, ROUNDS = 50 };

/* Tensor 3 = 1 + 2 lies between the nodes. 4 = max(3, 0) is virtual as well, and no node reads it; 5 = -3 is an output. */
static const char text[] =
    "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\",\n"
    " \"nodes\": [\n"
    "  {\"type\": \"PointwiseAttributes\", \"inputs\": {\"operation\": \"add\", \"in_0_tensor_uid\": 1,\n"
    "   \"in_1_tensor_uid\": 2}, \"outputs\": {\"out_0_tensor_uid\": 3}},\n"
    "  {\"type\": \"PointwiseAttributes\", \"inputs\": {\"operation\": \"relu_fwd\", \"in_0_tensor_uid\": 3},\n"
    "   \"outputs\": {\"out_0_tensor_uid\": 4}},\n"
    "  {\"type\": \"PointwiseAttributes\", \"inputs\": {\"operation\": \"neg\", \"in_0_tensor_uid\": 3},\n"
    "   \"outputs\": {\"out_0_tensor_uid\": 5}}],\n"
    " \"tensors\": [\n"
    "  {\"uid\": 1, \"dims\": [32768], \"strides\": [1]}, {\"uid\": 2, \"dims\": [32768], \"strides\": [1]},\n"
    "  {\"uid\": 3, \"dims\": [32768], \"strides\": [1], \"virtual\": true},\n"
    "  {\"uid\": 4, \"dims\": [32768], \"strides\": [1], \"virtual\": true},\n"
    "  {\"uid\": 5, \"dims\": [32768], \"strides\": [1]}]}\n";

/* The tensors 1 to 5 of one execution. */
typedef struct {
    _Alignas(64) float values[5][COUNT];
} tensors;

static const float UNTOUCHED = -99.0f;

static void fill(tensors* data, int seed)
{
    for (int i = 0; i < COUNT; i++) {
        data->values[0][i] = (float)((i * 7 + seed) % 13 - 6);
        data->values[1][i] = (float)((i * 5 + seed) % 11 - 5);
        for (int j = 2; j < 5; j++) {
            data->values[j][i] = UNTOUCHED;
        }
    }
}

/* Whether the results are correct; 3 is never bound, and 4 only in some cases. */
static bool is_right(const tensors* data, bool bound)
{
    for (int i = 0; i < COUNT; i++) {
        const float sum = data->values[0][i] + data->values[1][i];
        const float relu = sum > 0.0f ? sum : 0.0f;
        if (data->values[2][i] != UNTOUCHED || data->values[3][i] != (bound ? relu : UNTOUCHED) ||
            data->values[4][i] != -sum) {
            return false;
        }
    }
    return true;
}

/* The workspace of a pack. */
typedef enum { NOTHING, A_NULL, ITS_SIZE } workspace_kind;
/* Its binding of tensor 4. */
typedef enum { LEFT_OUT, BOUND_TO_NULL, BOUND } output_kind;

static hipdnnBackendDescriptor_t make_pack_of(tensors* data, workspace_kind kind, void* workspace, output_kind output)
{
    /* Tensor 3 is read, so it stays virtual whatever is bound to it. */
    const int64_t uids[] = {5, 1, 2, 3, 4};
    void* const pointers[] = {data->values[4], data->values[0], data->values[1], data->values[2],
                              output == BOUND ? data->values[3] : NULL};
    const int64_t count = output == LEFT_OUT ? 4 : 5;
    void* const place = kind == ITS_SIZE ? workspace : NULL;
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, count, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, count, pointers);
    if (kind != NOTHING) {
        put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &place);
    }
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    return pack;
}

static hipdnnHandle_t handle;

static hipdnnBackendDescriptor_t plan_of(hipdnnBackendDescriptor_t graph, const char* name)
{
    int64_t id = 0;
    REQUIRE_OK(hipdnnGetEngineIdByName_ext(handle, name, &id));
    hipdnnBackendDescriptor_t engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    put_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    put_descriptor(config, HIPDNN_ATTR_ENGINECFG_ENGINE, engine);
    REQUIRE_OK(hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    drop(config);
    drop(engine);
    return plan;
}

/* Every kind of workspace with every kind of output, one after the other on one plan. */
static void test_every_pack(hipdnnBackendDescriptor_t plan, const char* name)
{
    static tensors data;
    void* const workspace = malloc((size_t)plan_workspace(plan) + 1);
    REQUIRE(workspace != NULL);
    for (int round = 0; round < 2; round++) {
        for (int kind = NOTHING; kind <= ITS_SIZE; kind++) {
            for (int output = LEFT_OUT; output <= BOUND; output++) {
                check_about("%s, workspace %d, output %d", name, kind, output);
                fill(&data, round);
                hipdnnBackendDescriptor_t pack =
                    make_pack_of(&data, (workspace_kind)kind, workspace, (output_kind)output);
                CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
                CHECK(is_right(&data, output == BOUND));
                drop(pack);
            }
        }
    }
    check_about("%s", "");
    free(workspace);
}

static hipdnnBackendDescriptor_t shared_plan;

static void* run_alone(void* number)
{
    tensors* const data = aligned_alloc(64, sizeof *data);
    const int seed = *(const int*)number;
    size_t wrong = data == NULL;
    for (int round = 0; data != NULL && round < ROUNDS; round++) {
        fill(data, seed + round);
        hipdnnBackendDescriptor_t pack = make_pack_of(data, A_NULL, NULL, round % 2 == 0 ? BOUND : LEFT_OUT);
        wrong +=
            hipdnnBackendExecute(handle, shared_plan, pack) != HIPDNN_STATUS_SUCCESS || !is_right(data, round % 2 == 0);
        hipdnnBackendDestroyDescriptor(pack);
    }
    free(data);
    return wrong == 0 ? NULL : number;
}

/* Threads that share a plan do not share its own workspace. */
static void test_threads(hipdnnBackendDescriptor_t plan)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    shared_plan = plan;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, run_alone, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void* wrong = NULL;
        REQUIRE(pthread_join(threads[i], &wrong) == 0);
        CHECK(wrong == NULL);
    }
}

int main(void)
{
    handle = make_handle();
    hipdnnBackendDescriptor_t graph = graph_of_json(text);
    finalize_with(graph, handle);
    static const char* const names[] = {"CPU_ENGINE", "CPU_REFERENCE_ENGINE"};
    for (int i = 0; i < 2; i++) {
        hipdnnBackendDescriptor_t plan = plan_of(graph, names[i]);
        /* The reference stores what lies between its nodes, and asks for that. */
        CHECK(i == 0 || plan_workspace(plan) > COUNT * (int64_t)sizeof(float));
        test_every_pack(plan, names[i]);
        test_threads(plan);
        drop(plan);
    }
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
