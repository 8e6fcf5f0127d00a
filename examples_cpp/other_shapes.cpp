// SPDX-License-Identifier: MIT

// One plan for many sizes: shapes are overridden at execution.
#include "example.hpp"

int main()
{
    return run("other shapes", [](hipdnnHandle_t handle) {
        hipdnn::Graph graph;
        of_floats(graph);
        graph.set_override_shape_enabled(true);
        graph
            .pointwise(tensor(1, {2, 4}), tensor(2, {1, 4}),
                       hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::MUL))
            ->set_uid(3)
            .set_output(true);
        hipdnn::check(graph.build(handle));
        for (int64_t rows : {1, 2, 5})
        {
            Memory a(static_cast<size_t>(rows) * 4, 1.0F, 1.0F), b(4, 3.0F), c(static_cast<size_t>(rows) * 4);
            hipdnn::check(graph.execute(handle, {{1, a.data}, {2, b.data}, {3, c.data}}, nullptr, {1, 3},
                                        {{rows, 4}, {rows, 4}}, {{4, 1}, {4, 1}}));
            const int64_t last = rows * 4 - 1;
            expect("the last element", c.data[last], 3.0 * static_cast<double>(a.data[last]));
        }
    });
}
