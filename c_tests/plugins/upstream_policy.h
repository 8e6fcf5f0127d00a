/* SPDX-License-Identifier: MIT */

/*
 * What the three heuristic plugins have in common that are written for AMD's header: one policy, whose name is POLICY and which
 * orders engines in finalize(). Each defines both before it includes this.
 */
#ifndef UPSTREAM_POLICY_H
#define UPSTREAM_POLICY_H

#include <hipdnn_plugin_sdk/BehaviorNote.h>
#include <hipdnn_plugin_sdk/HeuristicsPluginApi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hipdnnHeuristicHandle_opaque {
    size_t device_bytes;
};

struct hipdnnHeuristicPolicyDescriptor_opaque {
    int64_t engines[16];
    size_t count;
    double values[16];
    char trace[256];
};

static int finalize(hipdnnHeuristicPolicyDescriptor_t desc, const hipdnnHeuristicHostCallbacks_t* host);

static int64_t policy_id(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* at = POLICY; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return (int64_t)hash;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetName(const char** name)
{
    *name = POLICY " plugin";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version)
{
    *version = "1.0.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version)
{
    *version = "0.1.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type)
{
    *type = HIPDNN_PLUGIN_TYPE_HEURISTIC;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT void hipdnnPluginGetLastErrorString(const char** error) { *error = "no reason"; }

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback)
{
    (void)callback;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPluginGetAllPolicyIds(int64_t* policy_ids,
                                                                                         uint32_t max_policies,
                                                                                         uint32_t* num_policies)
{
    if (max_policies > 0) {
        policy_ids[0] = policy_id();
    }
    *num_policies = 1;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPluginGetPolicyName(int64_t id, const char** name)
{
    *name = POLICY;
    return id == policy_id() ? HIPDNN_PLUGIN_STATUS_SUCCESS : HIPDNN_PLUGIN_STATUS_BAD_PARAM;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleCreate(hipdnnHeuristicHandle_t* out_handle)
{
    *out_handle = (hipdnnHeuristicHandle_t)calloc(1, sizeof **out_handle);
    return *out_handle == NULL ? HIPDNN_PLUGIN_STATUS_ALLOC_FAILED : HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleDestroy(hipdnnHeuristicHandle_t handle)
{
    free(handle);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleSetDeviceProperties(
    hipdnnHeuristicHandle_t handle, const hipdnnPluginConstData_t* device_props_serialized)
{
    handle->device_bytes = device_props_serialized->size;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorCreate(
    hipdnnHeuristicHandle_t plugin_handle, int64_t id, hipdnnHeuristicPolicyDescriptor_t* out_desc)
{
    *out_desc = (hipdnnHeuristicPolicyDescriptor_t)calloc(1, sizeof **out_desc);
    return plugin_handle->device_bytes == 0 || id != policy_id() ? HIPDNN_PLUGIN_STATUS_BAD_PARAM
           : *out_desc == NULL                                   ? HIPDNN_PLUGIN_STATUS_ALLOC_FAILED
                                                                 : HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t
hipdnnHeuristicPolicyDescriptorDestroy(hipdnnHeuristicPolicyDescriptor_t desc)
{
    free(desc);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicySetEngineIds(
    hipdnnHeuristicPolicyDescriptor_t desc, const int64_t* engine_ids, size_t engine_id_count)
{
    desc->count = engine_id_count < 16 ? engine_id_count : 16;
    memcpy(desc->engines, engine_ids, desc->count * sizeof *engine_ids);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicySetSerializedGraph(
    hipdnnHeuristicPolicyDescriptor_t desc, const hipdnnPluginConstData_t* serialized_graph)
{
    (void)desc;
    return serialized_graph->size == 0 ? HIPDNN_PLUGIN_STATUS_BAD_PARAM : HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t
hipdnnHeuristicPolicyFinalize(hipdnnHeuristicPolicyDescriptor_t desc, int32_t* out_applied)
{
    *out_applied = finalize(desc, NULL);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyFinalizeWithHost(
    hipdnnHeuristicPolicyDescriptor_t desc, const hipdnnHeuristicHostCallbacks_t* host, int32_t* out_applied)
{
    *out_applied = finalize(desc, host);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyGetSortedEngineIds(
    hipdnnHeuristicPolicyDescriptor_t desc, int64_t* engine_ids, size_t* num_engines)
{
    const size_t count = engine_ids == NULL || *num_engines > desc->count ? desc->count : *num_engines;
    if (engine_ids != NULL) {
        memcpy(engine_ids, desc->engines, count * sizeof *engine_ids);
    }
    *num_engines = count;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

/* A field of a FlatBuffers table: its place in the bytes, 0 if it is absent. */
static inline size_t field_of(const unsigned char* bytes, int index)
{
    uint32_t root = 0;
    int32_t distance = 0;
    uint16_t size = 0;
    uint16_t offset = 0;
    memcpy(&root, bytes, sizeof root);
    memcpy(&distance, bytes + root, sizeof distance);
    const unsigned char* const vtable = bytes + root - distance;
    memcpy(&size, vtable, sizeof size);
    if (4 + 2 * index + 2 <= size) {
        memcpy(&offset, vtable + 4 + 2 * index, sizeof offset);
    }
    return offset == 0 ? 0 : root + offset;
}

/* The value of an EnginePrediction if it is available. */
static inline int read_prediction(const hipdnnPluginConstData_t* data, double* value)
{
    const unsigned char* const bytes = (const unsigned char*)data->ptr;
    const size_t status = field_of(bytes, 2);
    const size_t number = field_of(bytes, 3);
    if (status == 0 || bytes[status] != 1 || number == 0) {
        return 0;
    }
    memcpy(value, bytes + number, sizeof *value);
    return 1;
}

#endif
