/* SPDX-License-Identifier: MIT */

/**
 * @file
 * hipDNN in C++17, using only the standard library: graphs of tensor operations, computed by engines.
 *
 * @code{.cpp}
 * hipdnn::Graph graph;
 * graph.set_io_data_type(hipdnn::DataType::FLOAT).set_compute_data_type(hipdnn::DataType::FLOAT);
 * auto a = graph.tensor(hipdnn::Tensor().set_dim({1, 2, 3}).set_stride({6, 3, 1}));
 * auto b = graph.tensor(hipdnn::Tensor().set_dim({1, 3, 4}).set_stride({12, 4, 1}));
 * auto c = graph.matmul(a, b, hipdnn::MatmulAttributes());
 * c->set_output(true);
 * hipdnn::check(graph.build(*handle));
 * hipdnn::check(graph.execute(*handle, {{a->get_uid(), x}, {b->get_uid(), y}, {c->get_uid(), z}}, nullptr));
 * @endcode
 *
 * Define HIPDNN_FRONTEND_RUNTIME_LOAD_BACKEND to load the backend at run time instead of linking with it (cpp/loader.hpp).
 * Programs for AMD's frontend include compat/hipdnn_frontend.hpp, programs for NVIDIA's compat/cudnn_frontend.h.
 */
#pragma once

#include "cpp/graph.hpp"
