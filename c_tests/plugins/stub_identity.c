/* SPDX-License-Identifier: MIT */

/*
 * The stub plugin's identity, error texts and log lines.
 */

#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local const char* error_text = "";

/* NAMES_IN_FILE: a text that is in the library and that nothing uses, as the names of C++ types are. */
#ifdef NAMES_IN_FILE
__attribute__((used)) static const char names_in_file[] = NAMES_IN_FILE;
#endif

/* CALLS_BACK: each function first calls that of the test's whose address is in HIPDNN_STUB_HOOK, with its own name. */
#ifdef CALLS_BACK
static void call_back(const char* function)
{
    const char* address = getenv("HIPDNN_STUB_HOOK");
    if (address != NULL) {
        uintptr_t number = (uintptr_t)strtoull(address, NULL, 16);
        void (*hook)(const char*);
        memcpy(&hook, &number, sizeof hook);
        hook(function);
    }
}
#endif

/* THROWS: the function that throws a C++ exception when it has done its work. */
#ifdef THROWS
void stub_throw(void);
#endif

hipdnnPluginStatus_t answer(int status, const char* function)
{
#ifdef CALLS_BACK
    call_back(function);
#endif
#ifdef THROWS
    if (strcmp(function, THROWS) == 0) {
        stub_throw();
    }
#endif
    if (status != OK) {
        static _Thread_local char text[256];
        snprintf(text, sizeof text, "the stub fails in %s", function);
        error_text = text;
    }
    return (hipdnnPluginStatus_t)status;
}

/* NAME_NULL, NAME_STATUS: the name is null; asking for it fails. */
#ifndef NAME_STATUS
#define NAME_STATUS OK
#endif
#ifndef PLUGIN_NAME
#define PLUGIN_NAME "Stub"
#endif
#ifndef NO_GET_NAME
hipdnnPluginStatus_t hipdnnPluginGetName(const char** name)
{
#ifdef NAME_NULL
    *name = NULL;
#else
    *name = PLUGIN_NAME;
#endif
    return answer(NAME_STATUS, __func__);
}
#endif

/* PLUGIN_VERSION: the version, which may be empty. */
#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION "1.2.3"
#endif
#ifndef NO_GET_VERSION
hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version)
{
    *version = PLUGIN_VERSION;
    return answer(OK, __func__);
}
#endif

/* HEURISTIC: a heuristic plugin. */
#ifdef HEURISTIC
#include <hipdnn_plugin_sdk/heuristic_api_version.h>
#ifndef TYPE
#define TYPE HIPDNN_PLUGIN_TYPE_HEURISTIC
#endif
#ifndef API_VERSION
#define API_VERSION HIPDNN_HEURISTIC_API_VERSION
#endif
#endif

/* TUNING: a tuning plugin. */
#ifdef TUNING
#include <hipdnn_plugin_sdk/TuningPluginApi.h>
#include <hipdnn_plugin_sdk/tuning_api_version.h>
#ifndef TYPE
#define TYPE HIPDNN_PLUGIN_TYPE_TUNING
#endif
#ifndef API_VERSION
#define API_VERSION HIPDNN_TUNING_API_VERSION
#endif
#endif

/* API_VERSION, API_VERSION_STATUS: the interface version; asking for it fails. */
#ifndef API_VERSION
#define API_VERSION HIPDNN_ENGINE_API_VERSION
#endif
#ifndef API_VERSION_STATUS
#define API_VERSION_STATUS OK
#endif
#ifndef NO_GET_API_VERSION
hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version)
{
    *version = API_VERSION;
    return answer(API_VERSION_STATUS, __func__);
}
#endif

/* TYPE, TYPE_STATUS: what the library says it is; asking fails. TYPE_SILENT: success without an answer. */
#ifndef TYPE
#define TYPE HIPDNN_PLUGIN_TYPE_ENGINE
#endif
#ifndef TYPE_STATUS
#define TYPE_STATUS OK
#endif
#ifndef NO_GET_TYPE
hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type)
{
#ifdef TYPE_SILENT
    (void)type;
#else
    *type = (hipdnnPluginType_t)TYPE;
#endif
    return answer(TYPE_STATUS, __func__);
}
#endif

/* ERROR_NULL, ERROR_SILENT, ERROR_NOT_UTF8, ERROR_LONG: defects of the error text. */
#ifndef NO_GET_LAST_ERROR_STRING
void hipdnnPluginGetLastErrorString(const char** error_str)
{
#if defined(ERROR_NULL)
    *error_str = NULL;
#elif defined(ERROR_SILENT)
    (void)error_str;
#elif defined(ERROR_NOT_UTF8)
    *error_str = "not \xff\xfe UTF-8";
#elif defined(ERROR_LONG)
    static char text[10001];
    memset(text, 'x', sizeof text - 1);
    *error_str = text;
#else
    *error_str = error_text;
#endif
    (void)answer(OK, __func__);
}
#endif

/* LOGS: the plugin says why when no engine applies. CALLBACK_STATUS: it cannot take a callback. */
#ifndef CALLBACK_STATUS
#define CALLBACK_STATUS OK
#endif
static hipdnnCallback_t callback;

/* THREAD: the plugin has threads that log, see stub_thread.cpp. */
#ifdef THREAD
void stub_log_to(hipdnnCallback_t function);
#endif

#ifndef NO_SET_LOGGING_CALLBACK
hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t function)
{
    record("SetLoggingCallback callback=%s", function == NULL ? "none" : "some");
    callback = function;
#ifdef THREAD
    stub_log_to(function);
#endif
    return answer(CALLBACK_STATUS, __func__);
}
#endif

void log_reason(void)
{
#ifdef LOGS
    if (callback != NULL) {
        callback(HIPDNN_SEV_INFO, LOGS);
    }
#else
    (void)callback;
#endif
}

#ifndef NO_SET_LOG_LEVEL
hipdnnPluginStatus_t hipdnnPluginSetLogLevel(hipdnnSeverity_t level)
{
    record("SetLogLevel level=%d", (int)level);
    return answer(OK, __func__);
}
#endif
