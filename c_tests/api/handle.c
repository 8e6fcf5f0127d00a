/* SPDX-License-Identifier: MIT */

/* hipdnnCreate, hipdnnDestroy, hipdnnSetStream, hipdnnGetStream: null, stale, forged and mistaken handles. */
#include "../fixture.h"

static hipStream_t some_stream(uintptr_t number) { return (hipStream_t)number; }

/* Everything that takes a handle refuses this one with `status`, and says so. */
static void expect_refused(hipdnnHandle_t handle, hipdnnStatus_t status, const char* fragment)
{
    hipStream_t stream = some_stream(0x77);
    size_t count = 41;
    size_t length = 42;
    int64_t id = 43;
    CHECK_FAILS(status, fragment, hipdnnSetStream(handle, NULL));
    CHECK_FAILS(status, fragment, hipdnnGetStream(handle, &stream));
    CHECK(stream == some_stream(0x77));
    CHECK_FAILS(status, fragment, hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length));
    CHECK_FAILS(status, fragment, hipdnnGetEngineCount_ext(handle, &count));
    CHECK_FAILS(status, fragment,
                hipdnnGetEngineInfo_ext(handle, 0, &id, NULL, &count, NULL, &length, NULL, &count, NULL, &length));
    CHECK_FAILS(status, fragment, hipdnnGetEngineIdByName_ext(handle, "CPU_ENGINE", &id));
    CHECK_FAILS(status, fragment, hipdnnGetEngineNameById_ext(handle, 1, NULL, &length));
    static const uint8_t bytes[16] = {0};
    hipdnnBackendDescriptor_t plan = NULL;
    CHECK_FAILS(status, fragment,
                hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &plan, bytes, sizeof bytes));
    CHECK(count == 41 && length == 42 && id == 43 && plan == NULL);
    CHECK_FAILS(status, fragment, hipdnnDestroy(handle));
}

static void test_life(void)
{
    hipdnnHandle_t handle = NULL;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle", hipdnnCreate(NULL));
    CHECK_OK(hipdnnCreate(&handle));
    CHECK(handle != NULL);
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_streams(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnHandle_t other = make_handle();
    hipStream_t stream = some_stream(0x77);
    CHECK(handle != other);
    CHECK_OK(hipdnnGetStream(handle, &stream));
    CHECK(stream == NULL);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "streamId", hipdnnGetStream(handle, NULL));

    CHECK_OK(hipdnnSetStream(handle, NULL));
    CHECK_OK(hipdnnGetStream(other, &stream));
    CHECK(stream == NULL);
    CHECK_OK(hipdnnDestroy(other));
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_bad_handles(void)
{
    expect_refused(NULL, HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle");

    hipdnnHandle_t stale = make_handle();
    CHECK_OK(hipdnnDestroy(stale));
    expect_refused(stale, HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t");

    /* Its successor must not be reachable by the old value. */
    hipdnnHandle_t next = make_handle();
    CHECK(next != stale);
    expect_refused(stale, HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t");

    /* Numbers and addresses that were never handles */
    char text[64] = "not a handle";
    const uintptr_t forged[] = {1,
                                2,
                                3,
                                5,
                                8,
                                0x10,
                                0x1000,
                                (uintptr_t)text,
                                (uintptr_t)&check_count,
                                UINTPTR_MAX,
                                UINTPTR_MAX - 7,
                                (uintptr_t)1 << 63,
                                0xdeadbeefcafebabe};
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        check_about("forged %#zx", (size_t)forged[i]);
        expect_refused((hipdnnHandle_t)forged[i], HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t");
    }
    /* One bit away from a living handle */
    for (int bit = 0; bit < 64; bit++) {
        check_about("bit %d", bit);
        expect_refused((hipdnnHandle_t)((uintptr_t)next ^ (uintptr_t)1 << bit), HIPDNN_STATUS_BAD_PARAM,
                       "hipdnnHandle_t");
    }
    check_about("a descriptor");
    hipdnnBackendDescriptor_t descriptor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    expect_refused((hipdnnHandle_t)descriptor, HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t");
    drop(descriptor);
    check_about("%s", "");

    /* The living one has survived all of it. */
    hipStream_t stream = some_stream(0x77);
    CHECK_OK(hipdnnGetStream(next, &stream));
    CHECK(stream == NULL);
    CHECK_OK(hipdnnDestroy(next));
}

static void test_many(void)
{
    enum { MANY = 300 };
    hipdnnHandle_t handles[MANY];
    for (int i = 0; i < MANY; i++) {
        handles[i] = make_handle();
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(hipdnnDestroy(handles[(i * 7) % MANY]));
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "hipdnnHandle_t", hipdnnDestroy(handles[i]));
    }
}

int main(void)
{
    test_life();
    test_streams();
    test_bad_handles();
    test_many();
    return check_result();
}
