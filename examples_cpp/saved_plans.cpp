// SPDX-License-Identifier: MIT

// A graph and a plan as bytes: once saved, they execute at once in another process.
#include "example.hpp"

int main()
{
    return run("saved graphs and plans", [](hipdnnHandle_t handle) {
        hipdnn::Graph graph;
        of_floats(graph);
        graph.set_name("sum")
            .pointwise(tensor(1, {4}), tensor(2, {4}),
                       hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::ADD))
            ->set_uid(3)
            .set_output(true);
        hipdnn::check(graph.build(handle));
        auto [plan, plan_error] = graph.to_compiled_plan_binary();
        hipdnn::check(plan_error);
        auto [json, json_error] = graph.to_json();
        hipdnn::check(json_error);
        std::printf("a plan of %zu bytes, a graph of %zu letters\n", plan.size(), json.size());

        hipdnn::Graph ready, again;
        hipdnn::check(ready.from_compiled_plan_binary(handle, plan));
        hipdnn::check(again.from_json(handle, json));
        hipdnn::check(again.create_execution_plans());
        hipdnn::check(again.build_plans());
        for (const hipdnn::Graph* one : {&ready, &again})
        {
            Memory a(4, 1.0F, 1.0F), b(4, 10.0F), c(4);
            execute(*one, handle, {{1, a.data}, {2, b.data}, {3, c.data}});
            expect("an element", c.data[3], 14);
        }
    });
}
