// SPDX-License-Identifier: MIT

// A heuristic plugin in C++: for graphs of one operation, it reverses the order of engines.
#include <hipdnn/plugin/hipdnn_heuristic_plugin.hpp>
using namespace hipdnn_plugin;

struct Backwards : Policy {
    const char* name() const override { return "Example::Backwards"; }
    std::optional<std::vector<int64_t>> order(const Graph& graph, const std::vector<int64_t>& engines,
                                              const Device&) const override
    {
        if (graph.nodes.size() != 1)
            return std::nullopt; // the next policy decides
        return std::vector<int64_t>(engines.rbegin(), engines.rend());
    }
};
HIPDNN_EXPORT_POLICIES("Example of a policy in C++", "1.0.0", Backwards);
