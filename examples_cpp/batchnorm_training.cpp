// SPDX-License-Identifier: MIT

// Batch normalization in training: statistics per channel, and running statistics.
#include "example.hpp"

int main()
{
    return run("batchnorm in training", [](hipdnnHandle_t handle) {
        hipdnn::Graph graph;
        of_floats(graph);
        auto epsilon = graph.tensor(hipdnn::Tensor(1e-5F)), momentum = graph.tensor(hipdnn::Tensor(0.5F));
        auto made = graph.batchnorm(tensor(1, {2, 1, 1, 2}), tensor(2, {1, 1, 1, 1}), tensor(3, {1, 1, 1, 1}),
                                    hipdnn::BatchnormAttributes().set_epsilon(epsilon).set_previous_running_stats(
                                        tensor(4, {1, 1, 1, 1}), tensor(5, {1, 1, 1, 1}), momentum));
        for (size_t i = 0; i < 5; i++)
        {
            made[i]->set_uid(static_cast<int64_t>(10 + i)).set_output(true);
        }
        hipdnn::check(graph.build(handle));
        Memory x(4, 1.0F, 1.0F), one(1, 1.0F), zero(1), mean(1, 2.0F), variance(1, 1.0F), y(4), m(1), v(1),
            next_mean(1), next_variance(1);
        execute(graph, handle,
                {{1, x.data},
                 {2, one.data},
                 {3, zero.data},
                 {4, mean.data},
                 {5, variance.data},
                 {10, y.data},
                 {11, m.data},
                 {12, v.data},
                 {13, next_mean.data},
                 {14, next_variance.data}});
        expect("the mean", m.data[0], 2.5);
        expect("the running mean", next_mean.data[0], 0.5 * 2 + 0.5 * 2.5);
        expect("an element", y.data[0], -1.5 / std::sqrt(1.25 + 1e-5));
    });
}
