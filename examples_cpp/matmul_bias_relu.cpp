// SPDX-License-Identifier: MIT

// A matrix product with a bias and ReLU, fused into one plan.
#include "example.hpp"

int main()
{
    return run("matmul, bias and ReLU", [](hipdnnHandle_t handle) {
        hipdnn::Graph graph;
        of_floats(graph);
        auto product = graph.matmul(tensor(1, {1, 4, 8}), tensor(2, {1, 8, 3}), hipdnn::MatmulAttributes());
        auto sum = graph.pointwise(product, tensor(3, {1, 1, 3}),
                                   hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::ADD));
        auto y = graph.pointwise(sum, hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::RELU_FWD));
        y->set_uid(4).set_output(true);
        hipdnn::check(graph.build(handle));
        Memory a(32, -1.0F, 0.25F), b(24, 0.5F, -0.25F), bias(3, 0.5F), out(12);
        execute(graph, handle, {{1, a.data}, {2, b.data}, {3, bias.data}, {4, out.data}});
        for (int i = 0; i < 12; i++)
        {
            double expected = 0.5;
            for (int k = 0; k < 8; k++)
            {
                expected += static_cast<double>(a.data[i / 3 * 8 + k] * b.data[k * 3 + i % 3]);
            }
            expect("an element", out.data[i], expected > 0 ? expected : 0);
        }
    });
}
