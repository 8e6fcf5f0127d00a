/* A matmul of 32 x 32 floats by the names of AMD's frontend. */
#pragma once

#include <hipdnn_frontend.hpp>

#include "check.hpp"

namespace fe = hipdnn_frontend;

/* Tensors 1, 2 and 3: operands and result. */
alignas(64) static float A[32 * 32], B[32 * 32], C[32 * 32];

inline void make(fe::graph::Graph& graph, hipdnnHandle_t handle)
{
    graph.set_io_data_type(fe::DataType::FLOAT)
        .set_intermediate_data_type(fe::DataType::FLOAT)
        .set_compute_data_type(fe::DataType::FLOAT);
    auto a = fe::graph::makeTensorAttributes("a", {1, 32, 32}, {1024, 32, 1});
    auto b = fe::graph::makeTensorAttributes("b", {1, 32, 32}, {1024, 32, 1});
    a->set_uid(1);
    b->set_uid(2);
    graph.matmul(a, b, fe::graph::MatmulAttributes())->set_uid(3).set_output(true);
    CHECK_GOOD(graph.build_operation_graph(handle));
}
