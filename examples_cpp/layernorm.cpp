// SPDX-License-Identifier: MIT

// Layer normalization over the last dimension, in inference.
#include "example.hpp"

int main()
{
    return run("layernorm", [](hipdnnHandle_t handle) {
        hipdnn::Graph graph;
        of_floats(graph);
        auto y = graph.layernorm(
            tensor(1, {3, 4}), tensor(2, {1, 4}), tensor(3, {1, 4}),
            hipdnn::LayernormAttributes().set_forward_phase(hipdnn::NormFwdPhase::INFERENCE).set_epsilon(1e-5F))[0];
        y->set_uid(4).set_output(true);
        hipdnn::check(graph.build(handle));
        Memory x(12, 0.0F, 1.0F), scale(4, 2.0F), bias(4, 1.0F), out(12);
        execute(graph, handle, {{1, x.data}, {2, scale.data}, {3, bias.data}, {4, out.data}});
        /* The first row is 0, 1, 2, 3: mean 1.5, variance 1.25. */
        expect("the first element", out.data[0], 1 - 2 * 1.5 / std::sqrt(1.25 + 1e-5));
        expect("the last of the row", out.data[3], 1 + 2 * 1.5 / std::sqrt(1.25 + 1e-5));
    });
}
