// SPDX-License-Identifier: MIT

// What the examples share: memory for tensors, and the check of a result.
#pragma once

#include <hipdnn/hipdnn.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>

/// The packed elements of a tensor, in host memory aligned for every engine.
struct Memory
{
    std::vector<float> room;
    float* data;

    explicit Memory(size_t count, float first = 0.0F, float step = 0.0F) : room(count + 16)
    {
        data = room.data();
        while (reinterpret_cast<uintptr_t>(data) % 64 != 0)
        {
            data++;
        }
        for (size_t i = 0; i < count; i++)
        {
            data[i] = first + step * static_cast<float>(i % 7);
        }
    }
};

/// A tensor of packed floats.
inline hipdnn::TensorPtr tensor(int64_t uid, const hipdnn::Dims& dims)
{
    return hipdnn::Graph::tensor(hipdnn::Tensor().set_uid(uid).set_dim(dims).set_stride(hipdnn::packed_strides(dims)));
}

/// Executes a built graph, with the workspace that it needs.
inline void execute(const hipdnn::Graph& graph, hipdnnHandle_t handle, const hipdnn::VariantPack& pack)
{
    int64_t bytes = 0;
    hipdnn::check(graph.get_workspace_size(bytes));
    Memory workspace(static_cast<size_t>(bytes) / sizeof(float) + 1);
    hipdnn::check(graph.execute(handle, pack, workspace.data));
}

/// Exits if a result differs from what was computed by hand.
inline void expect(const char* what, float got, double expected)
{
    if (std::fabs(static_cast<double>(got) - expected) > 1e-4 * (1 + std::fabs(expected)))
    {
        std::fprintf(stderr, "%s is %g, expected %g\n", what, static_cast<double>(got), expected);
        std::exit(1);
    }
}

/// A graph of floats.
inline void of_floats(hipdnn::Graph& graph)
{
    using hipdnn::DataType;
    graph.set_io_data_type(DataType::FLOAT)
        .set_intermediate_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT);
}

/// Runs an example with a handle, and prints what went wrong.
inline int run(const char* name, const std::function<void(hipdnnHandle_t)>& example)
{
    try
    {
        hipdnn::HandlePtr handle;
        hipdnn::check(hipdnn::create_handle(handle));
        example(*handle);
        std::printf("%s: right\n", name);
        return 0;
    } catch (const std::exception& error)
    {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
}
