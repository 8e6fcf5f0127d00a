// SPDX-License-Identifier: MIT

// The same program for AMD's frontend and for ours. CMakeLists.txt beside it uses AMD's if find_package(hipdnn_frontend) finds it.
#ifdef WITH_AMD_FRONTEND
#include <hipdnn_frontend.hpp>
#else
#include <hipdnn/compat/hipdnn_frontend.hpp>
#endif

#include <cstdio>
#include <unordered_map>

using namespace hipdnn_frontend;

int main()
{
    hipdnnHandle_t handle = nullptr;
    if (hipdnnCreate(&handle) != HIPDNN_STATUS_SUCCESS)
    {
        return 1;
    }
    graph::Graph graph;
    graph.set_io_data_type(DataType::FLOAT)
        .set_intermediate_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT);
    const auto tensor = [](const char* name, int64_t uid, const std::vector<int64_t>& dims,
                           const std::vector<int64_t>& strides) {
        auto made = std::make_shared<graph::TensorAttributes>();
        made->set_name(name).set_uid(uid).set_data_type(DataType::FLOAT).set_dim(dims).set_stride(strides);
        return made;
    };
    graph::ConvFpropAttributes how;
    how.set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1});
    auto y =
        graph.conv_fprop(tensor("x", 1, {1, 1, 3, 3}, {9, 9, 3, 1}), tensor("w", 2, {1, 1, 3, 3}, {9, 9, 3, 1}), how);
    y->set_uid(3).set_output(true);
    alignas(64) float x[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, w[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, out[9] = {};
    auto error = graph.validate();
    error = error.is_bad() ? error : graph.build_operation_graph(handle);
    error = error.is_bad() ? error : graph.create_execution_plans();
    error = error.is_bad() ? error : graph.check_support();
    error = error.is_bad() ? error : graph.build_plans();
    int64_t bytes = 0;
    error = error.is_bad() ? error : graph.get_workspace_size(bytes);
    std::vector<char> workspace(static_cast<size_t>(bytes) + 1);
    std::unordered_map<int64_t, void*> pack = {{1, x}, {2, w}, {3, out}};
    error = error.is_bad() ? error : graph.execute(handle, pack, workspace.data());
    hipdnnDestroy(handle);
    const bool right = out[0] == 4 && out[1] == 6 && out[4] == 9;
    std::printf("convolution by AMD's names: %s\n", error.is_bad() ? error.get_message().c_str()
                                                    : right        ? "right"
                                                                   : "wrong");
    return error.is_good() && right ? 0 : 1;
}
