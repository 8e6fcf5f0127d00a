/* SPDX-License-Identifier: MIT */

/**
 * @file
 * What engines are ranked by, under AMD's names.
 */
#pragma once

#include <array>
#include <cmath>
#include <string_view>

namespace hipdnn_data_sdk
{
namespace utilities
{

/** Which of two values is the better one. */
enum class MetricDirection { HIGHER_IS_BETTER, LOWER_IS_BETTER };

struct RankingMetric
{
    std::string_view name;
    std::string_view units;
    MetricDirection direction;
};

inline constexpr std::string_view DEFAULT_RANKING_METRIC = "tflops";
inline constexpr std::array<RankingMetric, 2> RANKING_METRICS = {{
    {"tflops", "TFLOPS", MetricDirection::HIGHER_IS_BETTER},
    {"time", "ms", MetricDirection::LOWER_IS_BETTER},
}};

/** Null for an unknown name. */
constexpr const RankingMetric* findRankingMetric(std::string_view name)
{
    const auto& [throughput, time] = RANKING_METRICS;
    return name == throughput.name ? &throughput : name == time.name ? &time : nullptr;
}

constexpr bool isHigherBetter(const RankingMetric& metric)
{
    return metric.direction == MetricDirection::HIGHER_IS_BETTER;
}

constexpr std::string_view objectiveOf(const RankingMetric& metric) { return isHigherBetter(metric) ? "max" : "min"; }

/** Only a throughput may be 0. */
inline bool isValidMetricValue(const RankingMetric& metric, double value)
{
    return std::isfinite(value) && (value > 0 || (value >= 0 && isHigherBetter(metric)));
}

constexpr bool isBetterMetricValue(const RankingMetric& metric, double value, double than)
{
    return isHigherBetter(metric) ? than < value : value < than;
}

} // namespace utilities
} // namespace hipdnn_data_sdk
