/* SPDX-License-Identifier: MIT */

/* A heuristic plugin for AMD's header: reverses the order, and says so. */

#define POLICY "Upstream::Traced"
#include "upstream_policy.h"

static int finalize(hipdnnHeuristicPolicyDescriptor_t desc, const hipdnnHeuristicHostCallbacks_t* host)
{
    for (size_t i = 0; i < desc->count / 2; i++) {
        const int64_t engine = desc->engines[i];
        desc->engines[i] = desc->engines[desc->count - 1 - i];
        desc->engines[desc->count - 1 - i] = engine;
    }
    return host != NULL && desc->count > 0;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t
hipdnnHeuristicPolicyGetTrace(hipdnnHeuristicPolicyDescriptor_t desc, int64_t engine_id, const char** trace_json)
{
    for (size_t i = 0; i < desc->count; i++) {
        if (desc->engines[i] == engine_id) {
            snprintf(desc->trace, sizeof desc->trace,
                     "{\"adapter_type\": \"reversed\", \"used_model\": false, \"place\": %zu}", i);
            *trace_json = desc->trace;
            return i == 0 ? HIPDNN_PLUGIN_STATUS_SUCCESS : HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
        }
    }
    return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
}
