// SPDX-License-Identifier: MIT

// Knobs of the engines, and autotuning: times candidates, or searches knobs as well with a strategy, and takes the fastest.
#include "example.hpp"

#include <hipdnn/hipdnn_tuning.hpp>

int main()
{
    return run("autotuning", [](hipdnnHandle_t handle) {
        hipdnn::Graph graph;
        of_floats(graph);
        graph.matmul(tensor(1, {1, 64, 64}), tensor(2, {1, 64, 64}), hipdnn::MatmulAttributes())
            ->set_uid(3)
            .set_output(true);
        hipdnn::check(graph.build_operation_graph(handle));
        std::vector<hipdnn::EngineConfigInfo> engines;
        hipdnn::check(graph.get_engine_configs(engines));
        for (const auto& engine : engines)
        {
            std::printf("%s: %zu knobs\n", engine.engineName.c_str(), engine.knobs.size());
            for (const auto& knob : engine.knobs)
            {
                std::printf("  %s\n", knob.toString().c_str());
            }
        }
        hipdnn::check(graph.add_engine_configs(engines));
        int64_t bytes = 0;
        hipdnn::check(graph.get_estimated_max_workspace_size(bytes));
        Memory a(4096, 1.0F), b(4096, 2.0F), c(4096), workspace(static_cast<size_t>(bytes) / 4 + 1);
        std::vector<hipdnn::AutotuneResult> results;
        hipdnn::AutotuneConfig config;
        config.strategy = hipdnn::AutotuneStrategy::FIXED_AVERAGE;
        config.timedIterations = 3;
        const hipdnn::VariantPack pack{{1, a.data}, {2, b.data}, {3, c.data}};
        hipdnn::check(graph.autotune(handle, pack, workspace.data, bytes, config, {}, &results));
        for (const auto& one : results)
        {
            std::printf("%s: %.3f ms\n", one.engineName.c_str(), static_cast<double>(one.minTimeMs));
        }
        // The name of a strategy, and the seconds that its search may take.
        config.search = hipdnn::make_autotune_search("halving", 0.2);
        hipdnn::check(graph.autotune(handle, pack, workspace.data, bytes, config, {}, &results));
        std::printf("halving: %s with %zu knobs set, %.3f ms\n", results[0].engineName.c_str(),
                    results[0].knobSettings.size(), static_cast<double>(results[0].minTimeMs));
        execute(graph, handle, {{1, a.data}, {2, b.data}, {3, c.data}});
        expect("an element", c.data[4095], 128);
    });
}
