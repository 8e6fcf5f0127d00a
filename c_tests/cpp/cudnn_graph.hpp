/* Graphs by cuDNN's names, of floats. */
#pragma once

#include <hipdnn/compat/cudnn_frontend.h>

#include "check.hpp"

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

inline fe::graph::Graph of_floats()
{
    fe::graph::Graph graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return graph;
}

inline hipdnn::TensorPtr given(int64_t uid, const std::vector<int64_t>& dims)
{
    return fe::graph::Graph::tensor(
        Tensor_attributes().set_uid(uid).set_dim(dims).set_stride(hipdnn::packed_strides(dims)));
}

inline void run(fe::graph::Graph& graph, cudnnHandle_t handle, const hipdnn::VariantPack& pack)
{
    std::vector<int8_t> workspace(static_cast<size_t>(graph.get_workspace_size()) + 64);
    CHECK_GOOD(graph.execute(handle, pack, workspace.data()));
}
