/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Executions with memory in the order of uids, first ones, and those that fill CUDA graphs by hand.
 */
#pragma once

#include "notes.hpp"

namespace hipdnn_frontend::compatibility::cudnn_frontend
{
namespace graph
{

/** The calls of a graph that execute it in other ways. */
template <typename Derived>
class Executions : public Notes<Derived>
{
    using Base = Notes<Derived>;
    using Handle = hipdnnHandle_t;

public:
    using Base::execute;

    /** The same with addresses in the order of get_variant_pack_uids_sorted(). */
    error_t execute(Handle handle, void** addresses, int count, void* workspace) const
    {
        const std::vector<int64_t> uids = self().get_variant_pack_uids_sorted();
        if (addresses == nullptr || count < 0 || static_cast<size_t>(count) != uids.size())
        {
            return {error_code_t::INVALID_VALUE,
                    ::hipdnn::detail::join({count, " addresses, expected ", uids.size(), " in the order of uids"})};
        }
        ::hipdnn::VariantPack pack;
        for (size_t i = 0; i < uids.size(); i++)
        {
            pack[uids[i]] = addresses[i];
        }
        return self().execute(handle, pack, workspace);
    }

    error_t warmup(Handle) const { return this->check_support(); }
    /** Executes the chosen plan once. */
    template <typename Memory>
    error_t warmup(Handle handle, const Memory& memory, void* workspace) const
    {
        return self().execute(handle, memory, workspace);
    }

    /* Filling CUDA graphs by hand is not supported; instead execute on a stream that is being captured. */
    // clang-format off
    template <typename... Any> error_t populate_cuda_graph(const Any&...) const { return refuse_cuda_graph("populate_cuda_graph"); }
    template <typename... Any> error_t update_cuda_graph(const Any&...) const { return refuse_cuda_graph("update_cuda_graph"); }
    template <typename... Any> error_t populate_cuda_graph_direct(const Any&...) const { return refuse_cuda_graph("populate_cuda_graph_direct"); }
    template <typename... Any> error_t update_cuda_graph_direct(const Any&...) const { return refuse_cuda_graph("update_cuda_graph_direct"); }
    // clang-format on
    bool cuda_graph_direct_population_eligible() const { return false; }

private:
    const Derived& self() const { return static_cast<const Derived&>(*this); }

    static error_t refuse_cuda_graph(const char* call)
    {
        return {error_code_t::GRAPH_NOT_SUPPORTED,
                std::string(call) + "() is not supported, expected execute() on a stream that is captured"};
    }
};

} // namespace graph
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
