// SPDX-License-Identifier: MIT

// Causal attention, written for NVIDIA's frontend: its names and its order of calls.
#include <hipdnn/compat/cudnn_frontend.h>

#include <cmath>
#include <cstdio>

namespace fe = cudnn_frontend;

int main()
{
    cudnnHandle_t handle = nullptr;
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS)
    {
        return 1;
    }
    fe::graph::Graph graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const auto tensor = [&](const char* name, int64_t uid) {
        return graph.tensor(
            fe::graph::Tensor_attributes().set_name(name).set_uid(uid).set_dim({1, 1, 2, 4}).set_stride({8, 8, 4, 1}));
    };
    auto [o, stats] =
        graph.sdpa(tensor("Q", 1), tensor("K", 2), tensor("V", 3),
                   fe::graph::SDPA_attributes().set_is_inference(true).set_causal_mask(true).set_attn_scale(0.5F));
    o->set_output(true).set_uid(4);
    alignas(64) float q[] = {1, 1, 1, 1, 1, 1, 1, 1}, k[] = {1, 0, 0, 0, 0, 0, 0, 1}, v[] = {1, 2, 3, 4, 5, 6, 7, 8},
                      out[8] = {};
    std::unordered_map<int64_t, void*> pack = {{1, q}, {2, k}, {3, v}, {4, out}};
    fe::error_t error = graph.build(handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    std::vector<char> workspace(static_cast<size_t>(graph.get_workspace_size()));
    error = error.is_bad() ? error : graph.execute(handle, pack, workspace.data());
    cudnnDestroy(handle);
    /* The first query sees only the first key; for the second one both keys are equal. */
    const bool right = stats == nullptr && std::fabs(out[0] - 1) < 1e-5F && std::fabs(out[4] - 3) < 1e-5F;
    std::printf("attention by cuDNN's names: %s\n", error.is_bad() ? error.get_message().c_str()
                                                    : right        ? "right"
                                                                   : "wrong");
    return error.is_good() && right ? 0 : 1;
}
