/* SPDX-License-Identifier: MIT */

/* A heuristic plugin for AMD's header: keeps the order, and gives each engine a configuration with one thread. */

#define POLICY "Upstream::OneThread"
#include "upstream_policy.h"

#include "../flatbuffer_writer.h"

static int finalize(hipdnnHeuristicPolicyDescriptor_t desc, const hipdnnHeuristicHostCallbacks_t* host)
{
    (void)host;
    return desc->count > 0;
}

HIPDNN_HEURISTIC_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyGetEngineConfig(
    hipdnnHeuristicPolicyDescriptor_t desc, int64_t engine_id, hipdnnPluginConstData_t* engine_config)
{
    static flatbuffer fb;
    memset(&fb, 0, sizeof fb);
    /* The first engine of the order has the knob; others have none. */
    if (engine_id != desc->engines[0]) {
        return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    }
    const uint32_t name = fb_text(&fb, "threads");
    fb_begin(&fb);
    fb_long(&fb, 0, 1);
    const uint32_t value = fb_end(&fb);
    fb_begin(&fb);
    fb_reference(&fb, 0, name);
    fb_byte(&fb, 1, 1);
    fb_reference(&fb, 2, value);
    const uint32_t setting = fb_end(&fb);
    const uint32_t settings = fb_offsets(&fb, 1, &setting);
    fb_begin(&fb);
    fb_long(&fb, 0, engine_id);
    fb_reference(&fb, 1, settings);
    engine_config->ptr = fb_finish(&fb, fb_end(&fb), &engine_config->size);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
