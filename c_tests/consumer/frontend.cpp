/* A program for AMD's frontend, which the installed package compiles unchanged: an elementwise sum. */

#include <hipdnn_frontend.hpp>

#include <cstdio>
#include <unordered_map>

int main()
{
    using namespace hipdnn_frontend;
    auto [handle, error] = createHipdnnHandle();
    graph::Graph sum;
    sum.set_io_data_type(DataType::FLOAT)
        .set_intermediate_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT);
    auto a = graph::makeTensorAttributes("a", DataType::FLOAT, {3}, {1});
    auto b = graph::makeTensorAttributes("b", DataType::FLOAT, {3}, {1});
    auto y = sum.pointwise(a, b, graph::PointwiseAttributes().set_mode(PointwiseMode::ADD));
    y->set_output(true);
    alignas(16) float va[] = {1, 2, 3}, vb[] = {10, 20, 30}, vy[3] = {};
    error = error.is_bad() ? error : sum.build(*handle);
    std::unordered_map<std::shared_ptr<graph::TensorAttributes>, void*> pack{{a, va}, {b, vb}, {y, vy}};
    error = error.is_bad() ? error : sum.execute(*handle, pack, nullptr);
    if (error.is_bad() || vy[0] != 11 || vy[1] != 22 || vy[2] != 33) {
        return std::fprintf(stderr, "%s; %g %g %g\n", error.get_message().c_str(), double{vy[0]}, double{vy[1]},
                            double{vy[2]}),
               1;
    }
    return 0;
}
