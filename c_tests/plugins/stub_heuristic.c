/* SPDX-License-Identifier: MIT */

/*
 * A heuristic plugin that can be built with any defect. As it stands it has two policies: the first reverses the engines, the
 * second leaves the choice to others. The variants of variants.txt whose name begins with heuristic_ are made of this file,
 * stub_identity.c and stub_log.c.
 */

#include "stub.h"

#include <hipdnn_plugin_sdk/HeuristicPluginApi.h>
#include <stdlib.h>
#include <string.h>

/* POLICIES: the policies' names. POLICY_COUNT: how many of them there are. */
#ifndef POLICIES
#define POLICIES "STUB_REVERSE", "STUB_DECLINE"
#endif
static const char* const NAMES[] = {POLICIES};
#ifndef POLICY_COUNT
#define POLICY_COUNT (sizeof NAMES / sizeof NAMES[0])
#endif

/* ID_OFFSET: added to each id, which then is not the hash of the name. */
#ifndef ID_OFFSET
#define ID_OFFSET 0
#endif

static int64_t id_of(size_t policy)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* at = NAMES[policy]; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return (int64_t)(hash + ID_OFFSET);
}

struct hipdnnHeuristicHandle_opaque {
    int is_told;
};

struct hipdnnHeuristicPolicyDescriptor_opaque {
    int64_t policy;
    int64_t engines[16];
    size_t count;
};

/* IDS_STATUS: asking for the ids fails. COUNT, COUNT_AGAIN: the counts of the first and the second call. */
#ifndef IDS_STATUS
#define IDS_STATUS OK
#endif
#ifndef COUNT
#define COUNT POLICY_COUNT
#endif
#ifndef COUNT_AGAIN
#define COUNT_AGAIN COUNT
#endif
#ifndef NO_GET_ALL_POLICY_IDS
hipdnnPluginStatus_t hipdnnHeuristicPluginGetAllPolicyIds(int64_t* policy_ids, uint32_t max_policies,
                                                          uint32_t* num_policies)
{
    size_t count = POLICY_COUNT;
    for (size_t policy = 0; policy < count && policy < max_policies; policy++) {
        policy_ids[policy] = id_of(policy);
    }
    *num_policies = (uint32_t)(max_policies == 0 ? COUNT : COUNT_AGAIN);
    return answer(IDS_STATUS, __func__);
}
#endif

/* POLICY_NAME_NULL: success with null. POLICY_NAME_STATUS: asking fails. */
#ifndef POLICY_NAME_STATUS
#define POLICY_NAME_STATUS OK
#endif
#ifndef NO_GET_POLICY_NAME
hipdnnPluginStatus_t hipdnnHeuristicPluginGetPolicyName(int64_t policy_id, const char** name)
{
#ifdef POLICY_NAME_NULL
    (void)policy_id;
    *name = NULL;
#else
    size_t count = POLICY_COUNT;
    for (size_t policy = 0; policy < count; policy++) {
        if (policy_id == id_of(policy)) {
            *name = NAMES[policy];
        }
    }
#endif
    return answer(POLICY_NAME_STATUS, __func__);
}
#endif

/* CREATE_STATUS: no handle can be made. CREATE_SILENT: success without a handle. */
#ifndef CREATE_STATUS
#define CREATE_STATUS OK
#endif
#ifndef NO_CREATE
hipdnnPluginStatus_t hipdnnHeuristicHandleCreate(hipdnnHeuristicHandle_t* out_handle)
{
#ifdef CREATE_SILENT
    (void)out_handle;
#else
    if (CREATE_STATUS == OK) {
        *out_handle = calloc(1, sizeof **out_handle);
    }
#endif
    record("HandleCreate");
    return answer(CREATE_STATUS, __func__);
}
#endif

#ifndef NO_DESTROY
hipdnnPluginStatus_t hipdnnHeuristicHandleDestroy(hipdnnHeuristicHandle_t handle)
{
    record("HandleDestroy");
    free(handle);
    return answer(OK, __func__);
}
#endif

/* DEVICE_STATUS: no device is good enough. */
#ifndef DEVICE_STATUS
#define DEVICE_STATUS OK
#endif
#ifndef NO_SET_DEVICE
hipdnnPluginStatus_t hipdnnHeuristicHandleSetDeviceProperties(hipdnnHeuristicHandle_t handle,
                                                              const hipdnnPluginConstData_t* device_props_serialized)
{
    const unsigned char* bytes = device_props_serialized->ptr;
    record("SetDeviceProperties %.4s", device_props_serialized->size < 8 ? "none" : (const char*)bytes + 4);
    handle->is_told = 1;
    return answer(DEVICE_STATUS, __func__);
}
#endif

/* DESCRIPTOR_STATUS: no descriptor can be made. DESCRIPTOR_SILENT: success without one. */
#ifndef DESCRIPTOR_STATUS
#define DESCRIPTOR_STATUS OK
#endif
#ifndef NO_CREATE_DESCRIPTOR
hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorCreate(hipdnnHeuristicHandle_t plugin_handle, int64_t policy_id,
                                                           hipdnnHeuristicPolicyDescriptor_t* out_desc)
{
    record("DescriptorCreate told=%d", plugin_handle->is_told);
#ifdef DESCRIPTOR_SILENT
    (void)policy_id;
    (void)out_desc;
#else
    if (DESCRIPTOR_STATUS == OK) {
        *out_desc = calloc(1, sizeof **out_desc);
        if (*out_desc != NULL) {
            (*out_desc)->policy = policy_id;
        }
    }
#endif
    return answer(DESCRIPTOR_STATUS, __func__);
}
#endif

#ifndef NO_DESTROY_DESCRIPTOR
hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorDestroy(hipdnnHeuristicPolicyDescriptor_t desc)
{
    record("DescriptorDestroy");
    free(desc);
    return answer(OK, __func__);
}
#endif

/* ENGINES_STATUS: no engines are taken. */
#ifndef ENGINES_STATUS
#define ENGINES_STATUS OK
#endif
#ifndef NO_SET_ENGINE_IDS
hipdnnPluginStatus_t hipdnnHeuristicPolicySetEngineIds(hipdnnHeuristicPolicyDescriptor_t desc,
                                                       const int64_t* engine_ids, size_t engine_id_count)
{
    desc->count = engine_id_count < 16 ? engine_id_count : 16;
    memcpy(desc->engines, engine_ids, desc->count * sizeof *engine_ids);
    record("SetEngineIds count=%zu", engine_id_count);
    return answer(ENGINES_STATUS, __func__);
}
#endif

/* GRAPH_STATUS: no graph is taken. */
#ifndef GRAPH_STATUS
#define GRAPH_STATUS OK
#endif
#ifndef NO_SET_GRAPH
hipdnnPluginStatus_t hipdnnHeuristicPolicySetSerializedGraph(hipdnnHeuristicPolicyDescriptor_t desc,
                                                             const hipdnnPluginConstData_t* serialized_graph)
{
    char graph[1024];
    (void)desc;
    record("SetSerializedGraph graph=%s", describe_graph(serialized_graph, graph, sizeof graph));
    return answer(GRAPH_STATUS, __func__);
}
#endif

/* FINALIZE_STATUS: finalizing fails. APPLIED: what it answers. FINALIZE_SILENT: success without an answer. */
#ifndef FINALIZE_STATUS
#define FINALIZE_STATUS OK
#endif
#ifndef APPLIED
#define APPLIED (desc->policy == id_of(0))
#endif
#ifndef NO_FINALIZE
hipdnnPluginStatus_t hipdnnHeuristicPolicyFinalize(hipdnnHeuristicPolicyDescriptor_t desc, int32_t* out_applied)
{
    record("Finalize");
#ifdef FINALIZE_SILENT
    (void)desc;
    (void)out_applied;
#else
    (void)desc;
    *out_applied = APPLIED;
#endif
    return answer(FINALIZE_STATUS, __func__);
}
#endif

/*
 * WITH_HOST: the policy takes the host's services. HOST_RETAINS: it keeps them, and asks again when it should not.
 * HOST_FOREIGN: it asks about an engine that is not among them. It records what it is answered.
 */
#ifdef WITH_HOST
static const hipdnnHeuristicHostCallbacks_t* retained;

static hipdnnPluginStatus_t predict(const hipdnnHeuristicHostCallbacks_t* host, int64_t engine)
{
    hipdnnPluginConstData_t data = {NULL, 0};
    return host->get_prediction(host->context, engine, HIPDNN_ENGINE_PREDICTION_ENGINE, &data);
}

hipdnnPluginStatus_t hipdnnHeuristicPolicyFinalizeWithHost(hipdnnHeuristicPolicyDescriptor_t desc,
                                                           const hipdnnHeuristicHostCallbacks_t* host,
                                                           int32_t* out_applied)
{
    int64_t engine = desc->engines[0];
#ifdef HOST_FOREIGN
    engine = 42;
#endif
    record("FinalizeWithHost version=%u metric=%s prediction=%d", host->version, host->ranking_metric,
           predict(host, engine));
    retained = host;
    *out_applied = APPLIED;
    return answer(FINALIZE_STATUS, __func__);
}
#endif

/*
 * CONFIG: the configuration of each engine, as bytes. CONFIG_STATUS: asking for it fails. CONFIG_NULL, CONFIG_HUGE: success
 * without bytes, or with more than there are.
 */
#ifndef CONFIG_STATUS
#define CONFIG_STATUS OK
#endif
#if defined(CONFIG) || defined(CONFIG_NULL) || defined(CONFIG_HUGE)
hipdnnPluginStatus_t hipdnnHeuristicPolicyGetEngineConfig(hipdnnHeuristicPolicyDescriptor_t desc, int64_t engine_id,
                                                          hipdnnPluginConstData_t* engine_config)
{
    (void)desc;
    (void)engine_id;
#if defined(CONFIG)
    static const char bytes[] = CONFIG;
    engine_config->ptr = bytes;
    engine_config->size = sizeof bytes - 1;
#elif defined(CONFIG_HUGE)
    engine_config->ptr = desc;
    engine_config->size = SIZE_MAX;
#else
    engine_config->ptr = NULL;
    engine_config->size = 8;
#endif
    return answer(CONFIG_STATUS, __func__);
}
#endif

/* TRACE: what the policy says of each engine. TRACE_NULL: success without a text. TRACE_STATUS: asking for it fails. */
#ifndef TRACE_STATUS
#define TRACE_STATUS OK
#endif
#if defined(TRACE) || defined(TRACE_NULL)
hipdnnPluginStatus_t hipdnnHeuristicPolicyGetTrace(hipdnnHeuristicPolicyDescriptor_t desc, int64_t engine_id,
                                                   const char** trace_json)
{
    (void)desc;
    (void)engine_id;
#ifdef TRACE
    *trace_json = TRACE;
#else
    *trace_json = NULL;
#endif
    return answer(TRACE_STATUS, __func__);
}
#endif

/*
 * SORTED_STATUS: asking for the order fails. SORTED: how many engines it has. SORTED_AGAIN: how many it has when they are
 * asked for. SORTED_FOREIGN: one that is not among them. SORTED_TWICE: one of them twice.
 */
#ifndef SORTED_STATUS
#define SORTED_STATUS OK
#endif
#ifndef SORTED
#define SORTED desc->count
#endif
#ifndef SORTED_AGAIN
#define SORTED_AGAIN SORTED
#endif
#ifndef NO_GET_SORTED
hipdnnPluginStatus_t hipdnnHeuristicPolicyGetSortedEngineIds(hipdnnHeuristicPolicyDescriptor_t desc,
                                                             int64_t* engine_ids, size_t* num_engines)
{
#ifdef HOST_RETAINS
    record("late prediction=%d", predict(retained, desc->engines[0]));
#endif
    if (engine_ids == NULL) {
        *num_engines = (size_t)(SORTED);
        return answer(SORTED_STATUS, __func__);
    }
    for (size_t i = 0; i < *num_engines; i++) {
#if defined(SORTED_FOREIGN)
        engine_ids[i] = 42;
#elif defined(SORTED_TWICE)
        engine_ids[i] = desc->engines[0];
#else
        engine_ids[i] = desc->engines[desc->count - 1 - i];
#endif
    }
    *num_engines = (size_t)(SORTED_AGAIN);
    return answer(SORTED_STATUS, __func__);
}
#endif
