/* SPDX-License-Identifier: MIT */

/**
 * @file
 * NVIDIA's functions for SDPA_attributes::set_score_mod: masks, a bias, and a cap of scores [B, H, Sq, Skv].
 */
#pragma once

#include "graph.hpp"

#include <limits>

namespace hipdnn_frontend::compatibility::cudnn_frontend
{
namespace graph
{
namespace attn
{
namespace score_modifiers
{

namespace detail
{

inline Tensor combine(Graph& graph, PointwiseMode_t mode, const Tensor& a, const Tensor& b, DataType_t type)
{
    Tensor made = graph.pointwise(a, b, Pointwise_attributes().set_mode(mode));
    made->set_data_type(type);
    return made;
}

/** The indices of rows (axis 2) or columns (axis 3), as floats, which are exact for every sequence length. */
inline Tensor index(Graph& graph, const Tensor& scores, int64_t axis)
{
    Tensor made = graph.pointwise(scores, Pointwise_attributes().set_mode(PointwiseMode_t::GEN_INDEX).set_axis(axis));
    made->set_data_type(DataType_t::FLOAT);
    return made;
}

/** The scores where the mask is true, the lowest number elsewhere. */
inline Tensor keep(Graph& graph, const Tensor& scores, const Tensor& mask)
{
    const auto lowest = std::make_shared<Tensor_attributes>(std::numeric_limits<float>::lowest());
    return graph.pointwise(scores, lowest, mask, Pointwise_attributes().set_mode(PointwiseMode_t::BINARY_SELECT));
}

} // namespace detail

/** A query sees keys from left_bound - 1 before the diagonal to right_bound behind it; the diagonal ends in the corner of s_q and s_kv, or of lengths. */
inline Tensor sliding_window_mask(std::shared_ptr<Graph> graph, Tensor scores, DiagonalAlignment_t alignment,
                                  std::optional<int64_t> left_bound, std::optional<int64_t> right_bound, int64_t s_q,
                                  int64_t s_kv, Tensor length_q, Tensor length_kv)
{
    const auto number = [](int64_t value) { return std::make_shared<Tensor_attributes>(static_cast<float>(value)); };
    Tensor row = detail::index(*graph, scores, 2);
    const Tensor column = detail::index(*graph, scores, 3);
    if (alignment == DiagonalAlignment_t::BOTTOM_RIGHT)
    {
        row = detail::combine(*graph, PointwiseMode_t::ADD, row, length_kv != nullptr ? length_kv : number(s_kv),
                              DataType_t::FLOAT);
        row = detail::combine(*graph, PointwiseMode_t::SUB, row, length_q != nullptr ? length_q : number(s_q),
                              DataType_t::FLOAT);
    }
    if (right_bound)
    {
        const Tensor last = detail::combine(*graph, PointwiseMode_t::ADD, row, number(*right_bound), DataType_t::FLOAT);
        scores = detail::keep(*graph, scores,
                              detail::combine(*graph, PointwiseMode_t::CMP_GE, last, column, DataType_t::BOOLEAN));
    }
    if (left_bound)
    {
        const Tensor end =
            detail::combine(*graph, PointwiseMode_t::ADD, column, number(*left_bound), DataType_t::FLOAT);
        scores = detail::keep(*graph, scores,
                              detail::combine(*graph, PointwiseMode_t::CMP_GT, end, row, DataType_t::BOOLEAN));
    }
    return scores;
}

/** A query sees keys up to its own position. */
inline Tensor causal_mask(std::shared_ptr<Graph> graph, Tensor scores)
{
    return sliding_window_mask(std::move(graph), std::move(scores), DiagonalAlignment_t::TOP_LEFT, {}, 0, 0, 0, nullptr,
                               nullptr);
}

/** The last query sees all keys, each one before it one key less. */
inline Tensor causal_mask_bottom_right(std::shared_ptr<Graph> graph, Tensor scores, int64_t s_q, int64_t s_kv,
                                       Tensor length_q, Tensor length_kv)
{
    return sliding_window_mask(std::move(graph), std::move(scores), DiagonalAlignment_t::BOTTOM_RIGHT, {}, 0, s_q, s_kv,
                               std::move(length_q), std::move(length_kv));
}

/** Queries and keys end at the lengths of their sequences, [B, 1, 1, 1]. */
inline Tensor padding_mask(std::shared_ptr<Graph> graph, Tensor scores, Tensor length_kv, Tensor length_q)
{
    const Tensor rows = detail::combine(*graph, PointwiseMode_t::CMP_LT, detail::index(*graph, scores, 2), length_q,
                                        DataType_t::BOOLEAN);
    const Tensor columns = detail::combine(*graph, PointwiseMode_t::CMP_LT, detail::index(*graph, scores, 3), length_kv,
                                           DataType_t::BOOLEAN);
    return detail::keep(*graph, scores,
                        detail::combine(*graph, PointwiseMode_t::LOGICAL_AND, rows, columns, DataType_t::BOOLEAN));
}

/** Adds a bias to the scores. */
inline Tensor bias(std::shared_ptr<Graph> graph, Tensor scores, Tensor added)
{
    return graph->pointwise(std::move(scores), std::move(added), Pointwise_attributes().set_mode(PointwiseMode_t::ADD));
}

/** Caps scores between -cap and cap: cap tanh(score / cap). */
class Softcap
{
public:
    Tensor forward(std::shared_ptr<Graph> graph, Tensor scores, Tensor cap)
    {
        _scaled = graph->pointwise(std::move(scores), cap, Pointwise_attributes().set_mode(PointwiseMode_t::DIV));
        const Tensor bent = graph->pointwise(_scaled, Pointwise_attributes().set_mode(PointwiseMode_t::TANH_FWD));
        return graph->pointwise(bent, std::move(cap), Pointwise_attributes().set_mode(PointwiseMode_t::MUL));
    }
    /** The gradient with respect to the scores given to forward(). */
    Tensor backward(std::shared_ptr<Graph> graph, Tensor gradient, Tensor cap)
    {
        const Tensor wide =
            graph->pointwise(std::move(gradient), cap, Pointwise_attributes().set_mode(PointwiseMode_t::MUL));
        const Tensor bent = graph->pointwise(wide, _scaled, Pointwise_attributes().set_mode(PointwiseMode_t::TANH_BWD));
        return graph->pointwise(bent, std::move(cap), Pointwise_attributes().set_mode(PointwiseMode_t::DIV));
    }

private:
    Tensor _scaled;
};

} // namespace score_modifiers
} // namespace attn
} // namespace graph
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
