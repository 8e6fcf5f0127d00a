/* SPDX-License-Identifier: MIT */

/*
 * A long random sequence of calls with descriptors of every kind and state, living and dead, as a caller with a wild pointer
 * bug would make them. The sequence is always the same. Every failing call must leave a text, no call may answer a status
 * that is not expected of it, and the process lives.
 *
 * Shapes are small and all data pointers lie in one large buffer, so that a graph that happens to make sense can be executed.
 */
#include "../fixture.h"

enum { CALLS = 40000, TIMES_LONG = 10, POOL = 96, DATA_SIZE = 1 << 20, WORKSPACE_SIZE = 1 << 22 };

static hipdnnHandle_t handles[4];
static hipdnnBackendDescriptor_t pool[POOL]; /* some of them destroyed already */
static _Alignas(64) unsigned char data[DATA_SIZE];
static _Alignas(64) unsigned char workspace[WORKSPACE_SIZE];
static long statuses[16];
static long executed;
/* Those that were planted last, dead or alive */
static hipdnnBackendDescriptor_t planted_plan;
static hipdnnBackendDescriptor_t planted_pack;

static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t next_random(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545f4914f6cdd1d);
}

static int pick(int count) { return (int)(next_random() % (uint64_t)count); }

static hipdnnBackendDescriptor_t pick_descriptor(void)
{
    return pick(200) == 0 ? (hipdnnBackendDescriptor_t)(uintptr_t)next_random() : pool[pick(POOL)];
}

static hipdnnHandle_t pick_handle(void)
{
    return pick(50) == 0 ? (hipdnnHandle_t)(uintptr_t)next_random() : handles[pick(4)];
}

static void expect_sane(hipdnnStatus_t status)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    CHECK((int)status >= 0 && (int)status <= 14);
    if ((int)status >= 0 && (int)status <= 14) {
        statuses[status]++;
    }
    if (status != HIPDNN_STATUS_SUCCESS) {
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK(text[0] != '\0');
        /* No call may report an internal defect of the library. */
        CHECK(strstr(text, "internal defect") == NULL);
    }
}

static void create_some(void)
{
    const int at = pick(POOL);
    if (pool[at] != NULL && pick(4) != 0) {
        expect_sane(hipdnnBackendDestroyDescriptor(pool[at]));
    }
    expect_sane(hipdnnBackendCreateDescriptor(CREATABLE[pick((int)COUNT(CREATABLE))], &pool[at]));
}

/* The attributes of what the descriptors of this test are, and a few that belong to none of them */
static hipdnnBackendAttributeName_t pick_attribute(void)
{
    static const int ranges[][2] = {{100, 107},   {200, 206},   {300, 310},   {600, 609},     {700, 707},
                                    {1000, 1015}, {1300, 1311}, {1400, 1402}, {1500, 1505},   {1600, 1602},
                                    {1700, 1702}, {1800, 1806}, {1900, 1907}, {2000, 2007},   {2100, 2101},
                                    {2200, 2203}, {2300, 2308}, {2900, 2913}, {60200, 60200}, {60300, 60300},
                                    {-5, 5},      {2400, 2410}};
    const int i = pick((int)(sizeof ranges / sizeof ranges[0]));
    return (hipdnnBackendAttributeName_t)(ranges[i][0] + pick(ranges[i][1] - ranges[i][0] + 1));
}

static hipdnnBackendAttributeType_t pick_type(void)
{
    static const int types[] = {0, 1, 2, 3, 4, 6, 7, 13, 19, 24, 25, 5, 999, -1};
    return (hipdnnBackendAttributeType_t)types[pick((int)(sizeof types / sizeof types[0]))];
}

/* Values of the type; the buffer holds 8 of any. */
static void fill_values(hipdnnBackendAttributeType_t type, unsigned char values[64])
{
    static const int64_t numbers[] = {0, 1, 1, 1, 2, 2, 3, 4, -1, 16, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 8; i++) {
        const hipdnnHandle_t handle = pick_handle();
        const hipdnnBackendDescriptor_t descriptor = pick_descriptor();
        void* const pointer = data + pick(DATA_SIZE / 64) / 2 * 64;
        const int64_t number = numbers[pick((int)COUNT(numbers))];
        const int32_t small = pick(52) - 2;
        const float real = (float)pick(5) - 2.0f;
        switch ((int)type) {
        case HIPDNN_TYPE_HANDLE: memcpy(values + i * 8, &handle, 8); break;
        case HIPDNN_TYPE_BACKEND_DESCRIPTOR: memcpy(values + i * 8, &descriptor, 8); break;
        case HIPDNN_TYPE_VOID_PTR: memcpy(values + i * 8, &pointer, 8); break;
        case HIPDNN_TYPE_INT64: memcpy(values + i * 8, &number, 8); break;
        case HIPDNN_TYPE_FLOAT: memcpy(values + i * 4, &real, 4); break;
        case HIPDNN_TYPE_BOOLEAN:
        case HIPDNN_TYPE_CHAR: values[i] = (unsigned char)pick(256); break;
        default: memcpy(values + i * 4, &small, 4); break;
        }
    }
}

static void set_some(void)
{
    unsigned char values[64] = {0};
    const hipdnnBackendAttributeType_t type = pick_type();
    static const int64_t counts[] = {1, 1, 1, 1, 2, 3, 4, 8, 0, -1, INT64_MAX, INT64_MIN};
    fill_values(type, values);
    expect_sane(hipdnnBackendSetAttribute(pick_descriptor(), pick_attribute(), type, counts[pick((int)COUNT(counts))],
                                          pick(30) == 0 ? NULL : values));
}

static void get_some(void)
{
    unsigned char values[512];
    const hipdnnBackendAttributeName_t name = pick_attribute();
    const hipdnnBackendAttributeType_t type = pick_type();
    static const int64_t requests[] = {0, 1, 1, 2, 8, -1, INT64_MIN};
    hipdnnBackendDescriptor_t from = pick_descriptor();
    int64_t count = 0;
    /* Results are descriptors of the caller's that get filled; all other descriptors that come back are new. */
    const bool is_results = name == HIPDNN_ATTR_ENGINEHEUR_RESULTS;
    memset(values, 0, sizeof values);
    if (is_results) {
        fill_values(HIPDNN_TYPE_BACKEND_DESCRIPTOR, values);
    }
    const int64_t requested = requests[pick((int)COUNT(requests))];
    const bool no_array = pick(20) == 0;
    const bool no_count = pick(20) == 0;
    const hipdnnStatus_t status =
        hipdnnBackendGetAttribute(from, name, type, requested, no_count ? NULL : &count, no_array ? NULL : values);
    expect_sane(status);
    if (status == HIPDNN_STATUS_SUCCESS && type == HIPDNN_TYPE_BACKEND_DESCRIPTOR && !is_results && !no_array) {
        for (int64_t i = 0; i < requested; i++) {
            hipdnnBackendDescriptor_t got = NULL;
            memcpy(&got, values + i * 8, 8);
            if (got != NULL) {
                const int at = pick(POOL);
                if (pool[at] != NULL) {
                    expect_sane(hipdnnBackendDestroyDescriptor(pool[at]));
                }
                pool[at] = got;
            }
        }
    }
}

/* What a graph serializes to is a graph again. */
static void serialize_some(void)
{
    static uint8_t bytes[1 << 16];
    size_t size = 0;
    hipdnnBackendDescriptor_t from = pick_descriptor();
    const size_t room = pick(4) == 0 ? (size_t)pick(600) : sizeof bytes;
    const bool json = pick(2) == 0;
    const hipdnnStatus_t status = json ? hipdnnBackendGetSerializedJsonGraph_ext(from, room, &size, (char*)bytes)
                                       : hipdnnBackendGetSerializedBinaryGraph_ext(from, room, &size, bytes);
    expect_sane(status);
    if (status == HIPDNN_STATUS_SUCCESS && size > 0) {
        const int at = pick(POOL);
        if (pool[at] != NULL) {
            expect_sane(hipdnnBackendDestroyDescriptor(pool[at]));
        }
        CHECK(size <= room);
        CHECK_OK(json ? hipdnnBackendCreateAndDeserializeJsonGraph_ext(&pool[at], (const char*)bytes, size)
                      : hipdnnBackendCreateAndDeserializeGraph_ext(&pool[at], bytes, size));
    }
}

/* What a plan is saved as is loaded again, with a handle whose plugins are those of the plan. */
static void save_some(void)
{
    static uint8_t bytes[1 << 16];
    size_t size = 0;
    int flags = 0;
    hipdnnBackendDescriptor_t plan = pick(2) == 0 ? planted_plan : pick_descriptor();
    hipdnnBackendDescriptor_t graph = pick_descriptor();
    const bool alone = pick(2) == 0;
    const size_t room = pick(4) == 0 ? (size_t)pick(600) : sizeof bytes;
    const hipdnnStatus_t status =
        alone ? hipdnnBackendGetSerializedExecutionPlan_ext(plan, room, &size, pick(4) == 0 ? NULL : bytes)
              : hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, room, &size, bytes);
    expect_sane(status);
    if (status == HIPDNN_STATUS_SUCCESS && size > 0 && size <= sizeof bytes) {
        const int at = pick(POOL);
        if (pool[at] != NULL) {
            expect_sane(hipdnnBackendDestroyDescriptor(pool[at]));
        }
        expect_sane(hipdnnBackendGetSerializedBinaryContents_ext(bytes, size, &flags));
        expect_sane(hipdnnBackendCreateAndDeserializeExecutionPlan_ext(pick_handle(), &pool[at], bytes, size));
    }
}

static void execute_some(void)
{
    hipdnnBackendDescriptor_t plan = pick(2) == 0 ? planted_plan : pick_descriptor();
    hipdnnBackendDescriptor_t pack = pick(2) == 0 ? planted_pack : pick_descriptor();
    int64_t size = 0;
    /* A pack's workspace is at most this large. */
    const hipdnnStatus_t status =
        hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1, NULL, &size);
    if (status == HIPDNN_STATUS_SUCCESS && size > WORKSPACE_SIZE / 2) {
        return;
    }
    const hipdnnStatus_t result = hipdnnBackendExecute(pick_handle(), plan, pack);
    executed += result == HIPDNN_STATUS_SUCCESS;
    expect_sane(result);
}

/* Valid descriptors, so that the random calls use finalized descriptors of every kind. */
static void plant_sensible(void)
{
    static buffers planted;
    hipdnnHandle_t handle = handles[pick(4)];
    int64_t count = 0;
    size_t length = 0;
    size_t plugins = 0;
    if (hipdnnGetLoadedEnginePluginPaths_ext(handle, &plugins, NULL, &length) != HIPDNN_STATUS_SUCCESS) {
        return;
    }
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         &count, &config));
    REQUIRE_OK(hipdnnBackendFinalize(config));
    planted.workspace = workspace;
    hipdnnBackendDescriptor_t planned[] = {graph,
                                           heuristic,
                                           config,
                                           make_plan(graph),
                                           make_pack(&planted),
                                           open_engine(graph),
                                           open_convolution(),
                                           open_relu(),
                                           make_tensor(pick(5), 1, 2, 4, 4, pick(2) == 0)};
    planted_plan = planned[3];
    planted_pack = planned[4];
    for (int64_t i = 0; i < COUNT(planned); i++) {
        const int at = pick(POOL);
        if (pool[at] != NULL) {
            expect_sane(hipdnnBackendDestroyDescriptor(pool[at]));
        }
        pool[at] = planned[i];
    }
}

int main(void)
{
    for (int i = 0; i < 4; i++) {
        handles[i] = make_handle();
    }
    const int calls = getenv("HIPDNN_TEST_LONG") != NULL ? TIMES_LONG * CALLS : CALLS;
    for (int call = 0; call < calls; call++) {
        const int what = pick(100);
        check_about("call %d", call);
        if (what < 12) {
            create_some();
        } else if (what < 16) {
            expect_sane(hipdnnBackendDestroyDescriptor(pick_descriptor()));
        } else if (what < 60) {
            set_some();
        } else if (what < 80) {
            get_some();
        } else if (what < 92) {
            expect_sane(hipdnnBackendFinalize(pick_descriptor()));
        } else if (what < 93) {
            serialize_some();
        } else if (what < 94) {
            save_some();
        } else if (what < 98) {
            execute_some();
        } else if (pick(4) == 0) {
            plant_sensible();
        } else if (pick(20) == 0) {
            const int at = pick(4);
            expect_sane(hipdnnDestroy(handles[at]));
            REQUIRE_OK(hipdnnCreate(&handles[at]));
        }
    }
    check_about("%s", "");
    for (int i = 0; i < POOL; i++) {
        if (pool[i] != NULL) {
            (void)hipdnnBackendDestroyDescriptor(pool[i]);
        }
    }
    for (int i = 0; i < 4; i++) {
        CHECK_OK(hipdnnDestroy(handles[i]));
    }
    /* The sequence is useful only if calls sometimes succeed. */
    CHECK(statuses[HIPDNN_STATUS_SUCCESS] > calls / 20);
    CHECK(executed > calls / 400);
    printf("%ld executions; calls by status:", executed);
    for (int i = 0; i < 15; i++) {
        printf(" %ld", statuses[i]);
    }
    printf("\n");
    return check_result();
}
