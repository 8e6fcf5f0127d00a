/* SPDX-License-Identifier: MIT */

/*
 * A plugin that waits for its own thread in each of its functions, while that thread logs and the user's callback uses every live
 * descriptor and handle, including those of the current call: all of these calls return.
 */
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t all[5];
static atomic_int called, refused;
static int within;

static void use(hipdnnBackendDescriptor_t descriptor)
{
    int64_t count = 0;
    int64_t value[16];
    if (descriptor == NULL) {
        return;
    }
    /* No attribute of most of them, and for those that are open nothing that can be read. */
    CHECK(hipdnnBackendGetAttribute(descriptor, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1, &count,
                                    value) <= HIPDNN_STATUS_PLUGIN_ERROR);
    refused += hipdnnBackendFinalize(descriptor) == HIPDNN_STATUS_NOT_SUPPORTED;
}

static void use_all(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* line)
{
    (void)user;
    (void)severity;
    if (strcmp(line, "a line of the plugin's thread") != 0) {
        return;
    }
    called++;
    for (int64_t i = 0; i < COUNT(all); i++) {
        use(all[i]);
    }
    hipdnnHandle_t other = NULL;
    if (hipdnnCreate(&other) == HIPDNN_STATUS_SUCCESS) {
        CHECK_OK(hipdnnDestroy(other));
    }
    const hipdnnStatus_t status = hipdnnSetEnginePluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    CHECK(status == HIPDNN_STATUS_SUCCESS || status == HIPDNN_STATUS_NOT_SUPPORTED);
}

static void* log_line(void* argument)
{
    hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "a line of the plugin's thread");
    return argument;
}

static void hook(const char* function)
{
    pthread_t thread;
    /* Those calls of the plugin that its own thread causes are not waited for again. */
    if (within > 0) {
        return;
    }
    within++;
    check_about("%s", function);
    REQUIRE(pthread_create(&thread, NULL, log_line, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    within--;
}

int main(void)
{
    char address[32];
    void (*const function)(const char*) = hook;
    uintptr_t number = 0;
    int user = 0;
    memcpy(&number, &function, sizeof number);
    snprintf(address, sizeof address, "%llx", (unsigned long long)number);
    setenv("HIPDNN_STUB_HOOK", address, 1);
    setenv("HIPDNN_LOG_FILE", NOWHERE, 1);
    alarm(60); /* a call that waits for itself ends the program */
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_ERROR));
    CHECK_OK(hipdnnSetUserLogCallback_ext(use_all, HIPDNN_SEV_ERROR, HIPDNN_LOG_CALLBACK_SYNC, &user));

    use_plugin("calls_back");
    handle = make_handle();
    all[0] = make_graph(handle);
    all[1] = open_heuristic(all[0]);
    CHECK_OK(hipdnnBackendFinalize(all[1]));
    all[2] = open_engine(all[0]);
    CHECK_OK(hipdnnBackendFinalize(all[2]));
    all[3] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    put_descriptor(all[3], HIPDNN_ATTR_ENGINECFG_ENGINE, all[2]);
    CHECK_OK(hipdnnBackendFinalize(all[3]));
    all[4] = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(all[4], HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, all[3]);
    CHECK_OK(hipdnnBackendFinalize(all[4]));
    check_about("%s", "");
    CHECK(called > 10);
    CHECK(refused > 0);
    for (int64_t i = COUNT(all) - 1; i >= 0; i--) {
        hipdnnBackendDescriptor_t const descriptor = all[i];
        all[i] = NULL;
        drop(descriptor);
    }
    CHECK_OK(hipdnnDestroy(handle));
    CHECK_OK(hipdnnSetUserLogCallback_ext(use_all, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, &user));
    return check_result();
}
