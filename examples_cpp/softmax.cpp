// SPDX-License-Identifier: MIT

// Softmax of rows composed of single operations: a maximum, a difference, an exponential, a sum, a quotient.
#include "example.hpp"

int main()
{
    return run("softmax", [](hipdnnHandle_t handle) {
        using hipdnn::PointwiseMode;
        hipdnn::Graph graph;
        of_floats(graph);
        const auto row = [&](const hipdnn::TensorPtr& of, hipdnn::ReductionMode mode) {
            auto made = graph.reduction(of, hipdnn::ReductionAttributes().set_mode(mode));
            made->set_dim({2, 1}).set_stride({1, 1});
            return made;
        };
        const auto each = [&](const hipdnn::TensorPtr& a, const hipdnn::TensorPtr& b, PointwiseMode mode) {
            return graph.pointwise(a, b, hipdnn::PointwiseAttributes().set_mode(mode));
        };
        auto x = tensor(1, {2, 3});
        auto e = graph.pointwise(each(x, row(x, hipdnn::ReductionMode::MAX), PointwiseMode::SUB),
                                 hipdnn::PointwiseAttributes().set_mode(PointwiseMode::EXP));
        each(e, row(e, hipdnn::ReductionMode::ADD), PointwiseMode::DIV)->set_uid(2).set_output(true);
        hipdnn::check(graph.build(handle));
        Memory in(6, 0.0F, 1.0F), out(6);
        execute(graph, handle, {{1, in.data}, {2, out.data}});
        const double sum = 1 + std::exp(1.0) + std::exp(2.0);
        for (int i = 0; i < 6; i++)
        {
            expect("an element", out.data[i], std::exp(i % 3) / sum);
        }
    });
}
