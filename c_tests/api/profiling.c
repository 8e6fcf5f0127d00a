/* SPDX-License-Identifier: MIT */

/* PROFILING_CONTROL: measuring work, and every attribute correctly, with wrong types, counts and null, and out of order. Its
 * attributes trigger actions when set, so attributes.c does not test it. */
#include "../fixture.h"

#include <time.h>

static const bool yes = true;

static const hipdnnBackendAttributeName_t TRIGGERS[] = {
    HIPDNN_ATTR_PROFILING_START_EXT,     HIPDNN_ATTR_PROFILING_STOP_EXT,          HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT,
    HIPDNN_ATTR_PROFILING_STALL_ARM_EXT, HIPDNN_ATTR_PROFILING_STALL_RELEASE_EXT, HIPDNN_ATTR_PROFILING_RESET_EXT,
};

static hipdnnStatus_t trigger(hipdnnBackendDescriptor_t control, hipdnnBackendAttributeName_t name)
{
    return hipdnnBackendSetAttribute(control, name, HIPDNN_TYPE_BOOLEAN, 1, &yes);
}

static hipdnnStatus_t bind(hipdnnBackendDescriptor_t control, hipdnnHandle_t handle)
{
    return hipdnnBackendSetAttribute(control, HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &handle);
}

static float elapsed(hipdnnBackendDescriptor_t control)
{
    float milliseconds = -1;
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(control, HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, 1, &count,
                                       &milliseconds));
    CHECK_EQ(count, 1);
    return milliseconds;
}

static void sleep_milliseconds(long milliseconds)
{
    const struct timespec time = {.tv_sec = 0, .tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static void measure(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t control = make(HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
    CHECK_OK(bind(control, handle));
    /* The same handle again is the same. */
    CHECK_OK(bind(control, handle));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_STALL_ARM_EXT));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_START_EXT));
    sleep_milliseconds(20);
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_STOP_EXT));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_STALL_RELEASE_EXT));
    sleep_milliseconds(20);
    CHECK_OK(hipdnnBackendFinalize(control));
    const float first = elapsed(control);
    CHECK(first >= 20 && first < 20000);
    CHECK(elapsed(control) == first);
    for (int i = 0; i < 2; i++) {
        bool value = true;
        CHECK_OK(hipdnnBackendGetAttribute(
            control, i == 0 ? HIPDNN_ATTR_PROFILING_STALL_USED_EXT : HIPDNN_ATTR_PROFILING_STALL_TIMED_OUT_EXT,
            HIPDNN_TYPE_BOOLEAN, 1, NULL, &value));
        CHECK(!value);
    }
    /* What is measured again is another time. */
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_RESET_EXT));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "not started", hipdnnBackendFinalize(control));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_START_EXT));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_STOP_EXT));
    CHECK_OK(hipdnnBackendFinalize(control));
    CHECK(elapsed(control) >= 0 && elapsed(control) < first);
    drop(control);
}

static void out_of_turn(hipdnnHandle_t handle)
{
    hipdnnHandle_t other = make_handle();
    hipdnnBackendDescriptor_t control = make(HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
    float milliseconds = 0;
    for (size_t i = 0; i < sizeof TRIGGERS / sizeof TRIGGERS[0]; i++) {
        check_about("without a handle, attribute %d", (int)TRIGGERS[i]);
        /* Waiting for the device works without a handle, as frontends do between the plans that they time. */
        const bool works =
            TRIGGERS[i] == HIPDNN_ATTR_PROFILING_RESET_EXT || TRIGGERS[i] == HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT;
        CHECK_STATUS(trigger(control, TRIGGERS[i]), works ? HIPDNN_STATUS_SUCCESS : HIPDNN_STATUS_BAD_PARAM);
    }
    check_about("%s", "");
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "not started", hipdnnBackendFinalize(control));
    CHECK_OK(bind(control, handle));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "another handle", bind(control, other));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "not started", trigger(control, HIPDNN_ATTR_PROFILING_STOP_EXT));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_START_EXT));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "started already", trigger(control, HIPDNN_ATTR_PROFILING_START_EXT));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "started already", trigger(control, HIPDNN_ATTR_PROFILING_STALL_ARM_EXT));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "no time", hipdnnBackendFinalize(control));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_STOP_EXT));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "stopped already", trigger(control, HIPDNN_ATTR_PROFILING_STOP_EXT));
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "not finalized",
                hipdnnBackendGetAttribute(control, HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, 1, NULL,
                                          &milliseconds));
    CHECK_OK(hipdnnBackendFinalize(control));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "finalized already", hipdnnBackendFinalize(control));
    for (size_t i = 0; i + 1 < sizeof TRIGGERS / sizeof TRIGGERS[0]; i++) {
        check_about("finalized, attribute %d", (int)TRIGGERS[i]);
        CHECK_STATUS(trigger(control, TRIGGERS[i]), HIPDNN_STATUS_NOT_INITIALIZED);
    }
    check_about("%s", "");
    CHECK_STATUS(bind(control, handle), HIPDNN_STATUS_NOT_INITIALIZED);
    /* The measurement outlives its handle. */
    CHECK_OK(hipdnnDestroy(other));
    drop(control);
}

static void wrong_arguments(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t control = make(HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
    hipdnnHandle_t forged = (hipdnnHandle_t)&control;
    CHECK_STATUS(bind(control, NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(bind(control, forged), HIPDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(hipdnnBackendSetAttribute(control, HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_VOID_PTR, 1, &handle),
                 HIPDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(hipdnnBackendSetAttribute(control, HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 2, &handle),
                 HIPDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(hipdnnBackendSetAttribute(control, HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, NULL),
                 HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_OK(bind(control, handle));
    for (size_t i = 0; i < sizeof TRIGGERS / sizeof TRIGGERS[0]; i++) {
        check_about("attribute %d", (int)TRIGGERS[i]);
        if (TRIGGERS[i] == HIPDNN_ATTR_PROFILING_STOP_EXT) {
            CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_START_EXT));
        }
        CHECK_STATUS(hipdnnBackendSetAttribute(control, TRIGGERS[i], HIPDNN_TYPE_INT64, 1, &yes),
                     HIPDNN_STATUS_BAD_PARAM);
        for (int64_t count = -1; count <= 2; count += count == 0 ? 2 : 1) {
            CHECK_STATUS(hipdnnBackendSetAttribute(control, TRIGGERS[i], HIPDNN_TYPE_BOOLEAN, count, &yes),
                         HIPDNN_STATUS_BAD_PARAM);
        }
        CHECK_STATUS(hipdnnBackendSetAttribute(control, TRIGGERS[i], HIPDNN_TYPE_BOOLEAN, 1, NULL),
                     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
        CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_RESET_EXT));
    }
    check_about("%s", "");
    /* Results cannot be set, and what is set cannot be read. */
    const float milliseconds = 1;
    CHECK_STATUS(
        hipdnnBackendSetAttribute(control, HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, 1, &milliseconds),
        HIPDNN_STATUS_NOT_SUPPORTED);
    CHECK_STATUS(trigger(control, HIPDNN_ATTR_PROFILING_STALL_USED_EXT), HIPDNN_STATUS_NOT_SUPPORTED);
    CHECK_STATUS(trigger(control, HIPDNN_ATTR_TENSOR_IS_VIRTUAL), HIPDNN_STATUS_NOT_SUPPORTED);
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_START_EXT));
    CHECK_OK(trigger(control, HIPDNN_ATTR_PROFILING_STOP_EXT));
    CHECK_OK(hipdnnBackendFinalize(control));
    int64_t count = 0;
    float got = 0;
    CHECK_OK(
        hipdnnBackendGetAttribute(control, HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, 0, &count, NULL));
    CHECK_EQ(count, 1);
    CHECK_STATUS(
        hipdnnBackendGetAttribute(control, HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_DOUBLE, 1, &count, &got),
        HIPDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(
        hipdnnBackendGetAttribute(control, HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, -1, &count, &got),
        HIPDNN_STATUS_BAD_PARAM);
    for (size_t i = 0; i < sizeof TRIGGERS / sizeof TRIGGERS[0]; i++) {
        CHECK_STATUS(hipdnnBackendGetAttribute(control, TRIGGERS[i], HIPDNN_TYPE_BOOLEAN, 1, &count, &got),
                     HIPDNN_STATUS_NOT_SUPPORTED);
    }
    CHECK_STATUS(
        hipdnnBackendGetAttribute(control, HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &count, &forged),
        HIPDNN_STATUS_NOT_SUPPORTED);
    drop(control);
}

int main(void)
{
    hipdnnHandle_t handle = make_handle();
    measure(handle);
    out_of_turn(handle);
    wrong_arguments(handle);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
