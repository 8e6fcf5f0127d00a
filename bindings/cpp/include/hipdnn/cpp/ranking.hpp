/* SPDX-License-Identifier: MIT */

/**
 * @file
 * What a graph's engines are ranked by: the library's policies, and the metric of predictions.
 */
#pragma once

#include "descriptor.hpp"

namespace hipdnn
{
namespace detail
{

/** The id of one of the library's policies: the 64-bit FNV-1a hash of its name. */
inline int64_t policy_id(const char* name)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : std::string("SelectionHeuristic::") + name)
    {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    int64_t id;
    std::memcpy(&id, &hash, sizeof id);
    return id;
}

/** An engine's id as the tools print it. */
inline std::string hexadecimal(int64_t id)
{
    static constexpr char digits[] = "0123456789ABCDEF";
    std::string text = "0x";
    for (int shift = 60; shift >= 0; shift -= 4)
    {
        text += digits[static_cast<uint64_t>(id) >> shift & 15];
    }
    return text;
}

/** Changes a metric to one that is known. */
inline Error set_metric(std::string& place, const std::string& metric)
{
    if (metric != "tflops" && metric != "time")
    {
        return {ErrorCode::INVALID_VALUE, join({"the ranking metric is \"", metric, "\", expected tflops or time"})};
    }
    place = metric;
    return {};
}

/** Has a heuristic rank as the first mode says that asks for predictions, and by a metric unless it is empty. */
inline Error set_ranking(const Descriptor& heuristic, const std::vector<HeuristicMode>& modes,
                         const std::string& metric)
{
    for (const HeuristicMode mode : modes)
    {
        if (mode == HeuristicMode::A || mode == HeuristicMode::B)
        {
            const char* ranking = mode == HeuristicMode::A ? "ModeA" : "ModeB";
            const int64_t policies[] = {policy_id("Config"), policy_id(ranking), policy_id("StaticOrdering")};
            HIPDNN_CPP_TRY(
                backend_error(heuristic.set(HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, 3, policies),
                              "asking for engines by predictions"));
            break;
        }
    }
    return metric.empty() ? Error()
                          : backend_error(heuristic.set_text(HIPDNN_ATTR_ENGINEHEUR_RANKING_METRIC_EXT, metric),
                                          "setting the ranking metric");
}

} // namespace detail
} // namespace hipdnn
