/* SPDX-License-Identifier: MIT */

/*
 * The interface between a host and an engine plugin, as far as this host uses it: the numbers, structs and functions that
 * every plugin and every host agree on, declared independently of this project's headers.
 */
#ifndef INTERFACE_H
#define INTERFACE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int status;   /* 0 is success */
typedef int severity; /* 0 info, 1 warn, 2 error, 3 fatal, 4 off */
enum { SUCCESS = 0 };

typedef struct constant_data {
    const void* ptr;
    size_t size;
} constant_data;

typedef struct device_buffer {
    int64_t uid;
    void* ptr;
} device_buffer;

typedef struct handle_* handle;
typedef struct context_* context;
typedef void* stream;
typedef void (*log_callback)(severity severity, const char* message);

/* The functions: the beginning of the name, the rest of it, the arguments. REQUIRED ones are in every plugin. */
#define FUNCTIONS(REQUIRED, OPTIONAL)                                                                                       \
    REQUIRED(hipdnnPlugin, GetName, (const char** name))                                                                    \
    REQUIRED(hipdnnPlugin, GetVersion, (const char** version))                                                              \
    REQUIRED(hipdnnPlugin, GetType, (int* type))                                                                            \
    OPTIONAL(hipdnnPlugin, GetApiVersion, (const char** version))                                                           \
    OPTIONAL(hipdnnPlugin, SetLoggingCallback, (log_callback callback))                                                     \
    OPTIONAL(hipdnnPlugin, SetLogLevel, (severity level))                                                                   \
    REQUIRED(hipdnnEnginePlugin, GetAllEngineIds, (int64_t* ids, uint32_t most, uint32_t* count))                           \
    OPTIONAL(hipdnnEnginePlugin, GetEngineName, (int64_t id, const char** name))                                            \
    REQUIRED(hipdnnEnginePlugin, Create, (handle * handle))                                                                 \
    REQUIRED(hipdnnEnginePlugin, Destroy, (handle handle))                                                                  \
    REQUIRED(hipdnnEnginePlugin, SetStream, (handle handle, stream stream))                                                 \
    REQUIRED(hipdnnEnginePlugin, GetApplicableEngineIds,                                                                    \
             (handle handle, const constant_data* graph, int64_t* ids, uint32_t most, uint32_t* count))                     \
    REQUIRED(hipdnnEnginePlugin, GetEngineDetails,                                                                          \
             (handle handle, int64_t id, const constant_data* graph, constant_data* details))                               \
    REQUIRED(hipdnnEnginePlugin, DestroyEngineDetails, (handle handle, constant_data* details))                             \
    REQUIRED(hipdnnEnginePlugin, GetWorkspaceSize,                                                                          \
             (handle handle, const constant_data* config, const constant_data* graph, size_t* size))                        \
    REQUIRED(hipdnnEnginePlugin, CreateExecutionContext,                                                                    \
             (handle handle, const constant_data* config, const constant_data* graph, context* context))                    \
    REQUIRED(hipdnnEnginePlugin, DestroyExecutionContext, (handle handle, context context))                                 \
    REQUIRED(hipdnnEnginePlugin, GetWorkspaceSizeFromExecutionContext, (handle handle, context context, size_t* size))      \
    REQUIRED(hipdnnEnginePlugin, ExecuteOpGraph,                                                                            \
             (handle handle, context context, void* workspace, const device_buffer* buffers, uint32_t count))               \
    OPTIONAL(hipdnnEnginePlugin, SerializeExecutionContext, (handle handle, context context, constant_data* saved))         \
    OPTIONAL(hipdnnEnginePlugin, SerializeExecutionContextWithEngineId,                                                     \
             (handle handle, int64_t id, context context, constant_data* saved))                                            \
    OPTIONAL(hipdnnEnginePlugin, DestroySerializedExecutionContext, (handle handle, constant_data* saved))                  \
    OPTIONAL(hipdnnEnginePlugin, CreateExecutionContextFromSerialized,                                                      \
             (handle handle, const constant_data* saved, context* context))

#define MEMBER(prefix, name, arguments) status(*name) arguments;

/* The functions of a plugin; optional ones may be null. */
typedef struct interface {
    FUNCTIONS(MEMBER, MEMBER)
    void (*GetLastErrorString)(const char** text);
} interface;

/* Finds the functions of an open library. Says which required ones are missing. */
static inline bool interface_read(interface* table, void* library)
{
    bool complete = true;
    void* symbol;
/* POSIX lets a symbol's address be read as that of a function; C does not, so its bytes are copied. */
#define READ(prefix, name, arguments)            \
    symbol = dlsym(library, #prefix #name);      \
    memcpy(&table->name, &symbol, sizeof symbol);
#define READ_REQUIRED(prefix, name, arguments)                 \
    READ(prefix, name, arguments)                              \
    if (symbol == NULL) {                                      \
        fprintf(stderr, "FAILED: no %s\n", #prefix #name);     \
        complete = false;                                      \
    }
    FUNCTIONS(READ_REQUIRED, READ)
    READ_REQUIRED(hipdnnPlugin, GetLastErrorString, ())
#undef READ
#undef READ_REQUIRED
    return complete;
}

#endif
