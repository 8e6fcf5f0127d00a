// SPDX-License-Identifier: MIT

// A convolution, step by step: each call that build() combines, and the engines to choose from.
#include "example.hpp"

int main()
{
    return run("convolution, step by step", [](hipdnnHandle_t handle) {
        hipdnn::Graph graph;
        of_floats(graph);
        auto y =
            graph.conv_fprop(tensor(1, {1, 1, 4, 4}), tensor(2, {1, 1, 2, 2}),
                             hipdnn::ConvFpropAttributes().set_padding({0, 0}).set_stride({2, 2}).set_dilation({1, 1}));
        y->set_uid(3).set_output(true);
        hipdnn::check(graph.validate());
        hipdnn::check(graph.build_operation_graph(handle));
        std::vector<int64_t> engines;
        hipdnn::check(graph.get_ranked_engine_ids(engines));
        hipdnn::check(graph.create_execution_plans());
        hipdnn::check(graph.check_support());
        hipdnn::check(graph.build_plans());
        std::string name;
        hipdnn::check(graph.get_plan_name(name));
        std::printf("%zu engines, the first is %s\n", engines.size(), name.c_str());
        Memory x(16, 1.0F, 1.0F), w(4, 1.0F), out(4);
        execute(graph, handle, {{1, x.data}, {2, w.data}, {3, out.data}});
        for (int i = 0; i < 4; i++)
        {
            const float* corner = x.data + i / 2 * 8 + i % 2 * 2;
            expect("an element", out.data[i], static_cast<double>(corner[0] + corner[1] + corner[4] + corner[5]));
        }
    });
}
