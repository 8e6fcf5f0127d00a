/* SPDX-License-Identifier: MIT */

/* Tensors that share memory: an execution is either correct or refused, and the refusal names both tensors. */
#include "../every_operation.h"
#include "../saved.h"

enum { MOST_ENGINES = 8 };

/* Whether the row's operation writes the tensor. */
static bool is_output(const row* r, int64_t uid)
{
    static const char* const FLAT[] = {"\"out" UIDS(2), "\"y" UIDS(2), "\"dx" UIDS(2)};
    const char* at = strstr(r->fields, "\"outputs\":{");
    char text[32];
    if (at != NULL) {
        const char* const end = strchr(at, '}');
        snprintf(text, sizeof text, "_uid\":%lld", (long long)uid);
        at = strstr(at, text);
        return at != NULL && at < end;
    }
    for (size_t i = 0; i < sizeof FLAT / sizeof FLAT[0]; i++) {
        if (uid == 2 && strstr(r->fields, FLAT[i]) != NULL) {
            return true;
        }
    }
    return uid == 3 && strcmp(r->type, "ResampleFwdAttributes") == 0;
}

/* The dimensions of a tensor, as the row has them. */
static const char* tensor_text(const row* r, int64_t uid)
{
    char text[16];
    snprintf(text, sizeof text, "%lld=", (long long)uid);
    const char* at = r->tensors;
    while (strncmp(at, text, strlen(text)) != 0) {
        at = strchr(at, ' ') + 1;
    }
    return at + strlen(text);
}

/* Bytes of a tensor of float or int32. */
static int64_t size_of(const row* r, int64_t uid)
{
    int64_t size = 1;
    char* end = NULL;
    const char* at = tensor_text(r, uid);
    do {
        size *= strtol(at, &end, 10);
        at = end + 1;
    } while (*end == ',');
    return size * 4;
}

static void fill(const trial* t, const row* r)
{
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t count = size_of(r, t->uids[i]) / 4;
        const char* kind = tensor_text(r, t->uids[i]);
        kind += strcspn(kind, "is ");
        for (int64_t k = 0; k < count; k++) {
            if (*kind == 'i') {
                ((int32_t*)t->pointers[i])[k] = (int32_t)(4 * k);
            } else if (*kind == 's') {
                ((uint8_t*)t->pointers[i])[k] = 127;
            } else {
                ((float*)t->pointers[i])[k] = 0.5f + (float)(k * 37 % 101 + t->uids[i]) / 128.0f;
            }
        }
    }
}

static hipdnnStatus_t run(const trial* t, hipdnnBackendDescriptor_t plan, void* const* pointers, void* workspace)
{
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, t->count, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, t->count, t->uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    const hipdnnStatus_t status = hipdnnBackendExecute(t->handle, plan, pack);
    drop(pack);
    return status;
}

/* Every result is what it should be. */
static void check_outputs(const trial* t, const row* r, void* const* pointers, void* const* expected)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (is_output(r, t->uids[i])) {
            CHECK(memcmp(pointers[i], expected[i], (size_t)size_of(r, t->uids[i])) == 0);
        }
    }
}

/* Binds `out` and `other` to the same address, in the larger one's memory. */
static void bind_together(const trial* t, const row* r, int64_t out, int64_t other, void** pointers)
{
    memcpy(pointers, t->pointers, sizeof t->pointers);
    const size_t read = (size_t)size_of(r, t->uids[other]);
    if ((size_t)size_of(r, t->uids[out]) > read) {
        memcpy(pointers[out], pointers[other], read);
        pointers[other] = pointers[out];
    } else {
        pointers[out] = pointers[other];
    }
}

/* Binds every pair with a written tensor to the same address. Counts the allowed pairs. */
static int try_pairs(const trial* t, const row* r, hipdnnBackendDescriptor_t plan)
{
    void* expected[MOST_TENSORS];
    void* const workspace = malloc((size_t)plan_workspace(plan) + 1);
    int allowed = 0;
    fill(t, r);
    CHECK_OK(run(t, plan, t->pointers, workspace));
    for (int64_t i = 0; i < t->count; i++) {
        const size_t size = (size_t)size_of(r, t->uids[i]);
        expected[i] = malloc(size);
        memcpy(expected[i], t->pointers[i], size);
    }
    for (int64_t out = 0; out < t->count; out++) {
        for (int64_t other = 0; other < t->count && is_output(r, t->uids[out]); other++) {
            if (other == out) {
                continue;
            }
            char uids[2][32];
            char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
            void* pointers[MOST_TENSORS];
            fill(t, r);
            bind_together(t, r, out, other, pointers);
            check_about("%s, tensor %d with %d", r->type, (int)t->uids[out], (int)t->uids[other]);
            const hipdnnStatus_t status = run(t, plan, pointers, workspace);
            if (status == HIPDNN_STATUS_SUCCESS) {
                allowed++;
                CHECK(!is_output(r, t->uids[other]));
                check_outputs(t, r, pointers, expected);
                continue;
            }
            snprintf(uids[0], sizeof uids[0], "tensor %d, which", (int)t->uids[out]);
            snprintf(uids[1], sizeof uids[1], "tensor %d, which", (int)t->uids[other]);
            hipdnnGetLastErrorString(text, sizeof text);
            CHECK_CONTAINS(text, uids[0]);
            CHECK_CONTAINS(text, uids[1]);
            CHECK_EQ(status, HIPDNN_STATUS_BAD_PARAM);
        }
    }
    check_about("%s", "");
    for (int64_t i = 0; i < t->count; i++) {
        free(expected[i]);
    }
    free(workspace);
    return allowed;
}

/* How many pairs an operation allows: x and y of normalizations, both operands' gradients of batch norm, q and o. */
static int allowed_pairs(const row* r)
{
    static const char* const ONE[] = {"PointwiseAttributes",
                                      "BatchnormAttributes",
                                      "BatchnormInferenceAttributes",
                                      "BatchnormInferenceAttributesVarianceExt",
                                      "LayernormAttributes",
                                      "RMSNormAttributes",
                                      "SdpaAttributes",
                                      "BlockScaleDequantizeAttributes"};
    for (size_t i = 0; i < sizeof ONE / sizeof ONE[0]; i++) {
        if (strcmp(r->type, ONE[i]) == 0) {
            return 1;
        }
    }
    return strcmp(r->type, "BatchnormBackwardAttributes") == 0 ? 2 : 0;
}

static hipdnnBackendDescriptor_t graph_of(const trial* t)
{
    hipdnnBackendDescriptor_t graph = NULL;
    REQUIRE_OK(read_json(&graph, t->text));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &t->handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    return graph;
}

/* Every operation, every engine, every pair of tensors in one place. */
static void test_every_operation(trial* t)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        begin_trial(t, &ROWS[i], "float");
        hipdnnBackendDescriptor_t graph = graph_of(t);
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        REQUIRE_OK(hipdnnBackendFinalize(heuristic));
        hipdnnBackendDescriptor_t configs[MOST_ENGINES];
        int64_t count = count_results(heuristic);
        /* No engine quantizes to float. */
        REQUIRE(count <= MOST_ENGINES && (count > 0 || strcmp(ROWS[i].type, "BlockScaleQuantizeAttributes") == 0));
        for (int64_t k = 0; k < count; k++) {
            configs[k] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        }
        if (count > 0) {
            REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, configs));
        }
        for (int64_t k = 0; k < count; k++) {
            REQUIRE_OK(hipdnnBackendFinalize(configs[k]));
            hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[k]);
            REQUIRE_OK(hipdnnBackendFinalize(plan));
            CHECK_EQ(try_pairs(t, &ROWS[i], plan), allowed_pairs(&ROWS[i]));
            drop(plan);
            drop(configs[k]);
        }
        drop(heuristic);
        drop(graph);
        end_trial(t);
    }
}

/* Shifted by an element, side by side, and the same from a saved plan. */
static void test_places(trial* t)
{
    enum { SIZE = 4 * 5 * 6 };
    const row pointwise = ROWS[4];
    _Alignas(64) static float memory[3 * SIZE];
    REQUIRE(strcmp(pointwise.type, "PointwiseAttributes") == 0);
    begin_trial(t, &pointwise, "float");
    hipdnnBackendDescriptor_t graph = graph_of(t);
    hipdnnBackendDescriptor_t plans[2] = {make_plan(graph)};
    const blob saved = save_plan(plans[0]);
    plans[1] = load_plan(t->handle, saved);
    for (int i = 0; i < 2; i++) {
        void* pointers[] = {memory, t->pointers[1], memory + SIZE};
        check_about("%s", i == 0 ? "made" : "loaded");
        CHECK_OK(run(t, plans[i], pointers, NULL));
        pointers[2] = memory + 4;
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "tensor 3, which the graph writes, and tensor 1, which it reads",
                    run(t, plans[i], pointers, NULL));
        pointers[2] = memory + SIZE - 4;
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "memory that overlaps", run(t, plans[i], pointers, NULL));
        pointers[2] = memory;
        CHECK_OK(run(t, plans[i], pointers, NULL));
        drop(plans[i]);
    }
    check_about("%s", "");
    free(saved.bytes);
    drop(graph);
    end_trial(t);
}

/* A pack is right for one plan and wrong for another, however often and in whatever order they are executed. */
static void test_plans_of_one_pack(hipdnnHandle_t handle)
{
    static float memory[X_COUNT];
    static float filter[W_COUNT];
    static const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void* const pointers[] = {memory, filter, memory};
    hipdnnBackendDescriptor_t relu = open_relu();
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, 1, CHANNELS, SIDE, SIDE, false);
    put_descriptor(relu, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, x);
    drop(x);
    hipdnnBackendDescriptor_t graphs[] = {graph_of_one(handle, relu), graph_of_one(handle, open_single_convolution())};
    hipdnnBackendDescriptor_t plans[] = {make_plan(graphs[0]), make_plan(graphs[1])};
    void* const workspace = malloc((size_t)plan_workspace(plans[0]) + 1);
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    check_about("one pack");
    for (int round = 0; round < 3; round++) {
        CHECK_OK(hipdnnBackendExecute(handle, plans[0], pack));
        CHECK_OK(hipdnnBackendExecute(handle, plans[0], pack));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "memory that overlaps", hipdnnBackendExecute(handle, plans[1], pack));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "memory that overlaps", hipdnnBackendExecute(handle, plans[1], pack));
    }
    drop(pack);
    free(workspace);
    for (int i = 0; i < 2; i++) {
        drop(plans[i]);
        drop(graphs[i]);
    }
}

int main(void)
{
    trial t = {.handle = make_handle()};
    test_every_operation(&t);
    test_places(&t);
    test_plans_of_one_pack(t.handle);
    CHECK_OK(hipdnnDestroy(t.handle));
    return check_result();
}
