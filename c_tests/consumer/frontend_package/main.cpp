/* Includes parts of AMD's frontend by their paths, and computes a scaled sum of halves. */

#include <hipdnn_backend.h>
#include <hipdnn_data_sdk/types.hpp>
#include <hipdnn_frontend/Graph.hpp>
#include <hipdnn_frontend/Types.hpp>
#include <hipdnn_frontend/Utilities.hpp>
#include <hipdnn_frontend/attributes/CustomOpAttributes.hpp>
#include <hipdnn_frontend/attributes/SdpaAttributes.hpp>

#include <cstdio>

int main()
{
    using namespace hipdnn_frontend;
    using hipdnn_data_sdk::types::half;
    graph::SdpaAttributes attention;
    attention.set_name("unused");
    auto [handle, error] = createHipdnnHandle();
    graph::Graph sum;
    sum.set_io_data_type(DataType::HALF)
        .set_intermediate_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT);
    auto a = graph::makeTensorAttributes("a", DataType::HALF, {3}, {1});
    auto b = graph::makeTensorAttributes("b", DataType::HALF, {3}, {1});
    auto y = sum.pointwise(a, b, graph::PointwiseAttributes().set_mode(PointwiseMode::ADD));
    y->set_output(true);
    alignas(16) half va[] = {half(1.0F), half(2.0F), half::from_bits(0x3c00)}, vb[] = {half(10), half(20), half(30)},
                     vy[3];
    error = error.is_bad() ? error : sum.build(*handle);
    std::unordered_map<std::shared_ptr<graph::TensorAttributes>, void*> pack{{a, va}, {b, vb}, {y, vy}};
    error = error.is_bad() ? error : sum.execute(*handle, pack, nullptr);
    if (error.is_bad() || vy[0] != half(11) || vy[1] != half(22) || vy[2] != half(31)) {
        std::fprintf(stderr, "%s\n", error.get_message().c_str());
        return 1;
    }
    return 0;
}
