/* SPDX-License-Identifier: MIT */

/* A heuristic plugin for AMD's header: ranks engines by the host's predictions, the worst first, so that a test sees it. */

#define POLICY "Upstream::WorstFirst"
#include "upstream_policy.h"

static int finalize(hipdnnHeuristicPolicyDescriptor_t desc, const hipdnnHeuristicHostCallbacks_t* host)
{
    if (host == NULL || host->version < 2 || host->struct_size < sizeof *host) {
        return 0;
    }
    const int less_is_better = strcmp(host->ranking_metric, "time") == 0;
    for (size_t i = 0; i < desc->count; i++) {
        hipdnnPluginConstData_t data = {NULL, 0};
        if (host->get_prediction(host->context, desc->engines[i], HIPDNN_ENGINE_PREDICTION_ENGINE, &data) !=
                HIPDNN_PLUGIN_STATUS_SUCCESS ||
            !read_prediction(&data, &desc->values[i])) {
            return 0;
        }
        desc->values[i] = less_is_better ? desc->values[i] : -desc->values[i];
    }
    for (size_t i = 0; i < desc->count; i++) {
        for (size_t k = i + 1; k < desc->count; k++) {
            if (desc->values[k] > desc->values[i]) {
                const double value = desc->values[i];
                const int64_t engine = desc->engines[i];
                desc->values[i] = desc->values[k];
                desc->engines[i] = desc->engines[k];
                desc->values[k] = value;
                desc->engines[k] = engine;
            }
        }
    }
    return 1;
}
