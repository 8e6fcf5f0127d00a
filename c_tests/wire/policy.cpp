/* SPDX-License-Identifier: MIT */

/*
 * A heuristic plugin that reads the device's properties and the graph with the FlatBuffers library itself, and decides only
 * where both are well formed. It leaves the engines as they are.
 */

#include "graphs.h"

#include <hipdnn_plugin_sdk/HeuristicPluginApi.h>

#include <cstdio>
#include <vector>

static const char NAME[] = "Wire::Check";
static char error_text[256];

struct hipdnnHeuristicHandle_opaque
{
    bool has_device;
};

struct hipdnnHeuristicPolicyDescriptor_opaque
{
    bool has_device;
    bool has_graph;
    std::vector<int64_t> engines;
};

/* The 64-bit FNV-1a hash of the name. */
static int64_t policy_id()
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const char* c = NAME; *c != '\0'; c++)
    {
        hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3;
    }
    return static_cast<int64_t>(hash);
}

static hipdnnPluginStatus_t fail(const char* text)
{
    snprintf(error_text, sizeof error_text, "%s", text);
    return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
}

static hipdnnPluginStatus_t give(const char** to, const char* text)
{
    *to = text;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

extern "C" {

hipdnnPluginStatus_t hipdnnPluginGetName(const char** name) { return give(name, "wire policy"); }

hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version) { return give(version, "1.0.0"); }

hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version) { return give(version, "0.1.0"); }

hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type)
{
    *type = HIPDNN_PLUGIN_TYPE_HEURISTIC;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t) { return HIPDNN_PLUGIN_STATUS_SUCCESS; }

void hipdnnPluginGetLastErrorString(const char** error) { *error = error_text; }

hipdnnPluginStatus_t hipdnnHeuristicPluginGetAllPolicyIds(int64_t* ids, uint32_t room, uint32_t* count)
{
    if (room > 0)
    {
        ids[0] = policy_id();
    }
    *count = 1;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicPluginGetPolicyName(int64_t, const char** name) { return give(name, NAME); }

hipdnnPluginStatus_t hipdnnHeuristicHandleCreate(hipdnnHeuristicHandle_t* handle)
{
    *handle = new hipdnnHeuristicHandle_opaque{};
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicHandleDestroy(hipdnnHeuristicHandle_t handle)
{
    delete handle;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicHandleSetDeviceProperties(hipdnnHeuristicHandle_t handle,
                                                              const hipdnnPluginConstData_t* data)
{
    flatbuffers::Verifier verifier(static_cast<const uint8_t*>(data->ptr), data->size);
    if (!verifier.VerifyBuffer<hipdnn::DeviceProperties>("HDDP"))
    {
        return fail("the device's properties do not verify");
    }
    const auto* device = flatbuffers::GetRoot<hipdnn::DeviceProperties>(data->ptr);
    /* Of the processor, which these graphs run on: its number, its threads, no memory of its own, its name. */
    if (device->device_id() != -1 || device->multi_processor_count() < 1 || device->total_global_mem() != 0 ||
        device->architecture_name() == nullptr || device->architecture_name()->size() == 0)
    {
        return fail("the device's properties are not those of the processor");
    }
    handle->has_device = true;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorCreate(hipdnnHeuristicHandle_t handle, int64_t,
                                                           hipdnnHeuristicPolicyDescriptor_t* desc)
{
    *desc = new hipdnnHeuristicPolicyDescriptor_opaque{handle->has_device, false, {}};
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorDestroy(hipdnnHeuristicPolicyDescriptor_t desc)
{
    delete desc;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicPolicySetEngineIds(hipdnnHeuristicPolicyDescriptor_t desc, const int64_t* ids,
                                                       size_t count)
{
    desc->engines.assign(ids, ids + count);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicPolicySetSerializedGraph(hipdnnHeuristicPolicyDescriptor_t desc,
                                                             const hipdnnPluginConstData_t* data)
{
    flatbuffers::Verifier verifier(static_cast<const uint8_t*>(data->ptr), data->size);
    if (!verifier.VerifyBuffer<hipdnn::Graph>(nullptr))
    {
        return fail("the graph does not verify");
    }
    desc->has_graph = true;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicPolicyFinalize(hipdnnHeuristicPolicyDescriptor_t desc, int32_t* applied)
{
    *applied = desc->has_device && desc->has_graph ? 1 : 0;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnHeuristicPolicyGetSortedEngineIds(hipdnnHeuristicPolicyDescriptor_t desc, int64_t* ids,
                                                             size_t* count)
{
    for (size_t i = 0; ids != nullptr && i < desc->engines.size() && i < *count; i++)
    {
        ids[i] = desc->engines[i];
    }
    *count = desc->engines.size();
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
}
