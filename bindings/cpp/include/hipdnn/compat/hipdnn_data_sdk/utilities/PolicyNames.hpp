/* SPDX-License-Identifier: MIT */

/**
 * @file
 * AMD's names for the numbers of heuristic policies.
 */
#pragma once

#include "../../hipdnn_compat/name_ids.hpp"

#include <string>

namespace hipdnn_data_sdk
{
namespace utilities
{

constexpr int64_t policyNameToId(std::string_view name) { return ::hipdnn_compat::name_to_id(name); }
constexpr int64_t policyNameToId(const char* name) { return policyNameToId(::hipdnn_compat::text_of(name)); }
inline int64_t policyNameToId(const std::string& name) { return policyNameToId(std::string_view(name)); }

inline constexpr const char* MODE_A_POLICY_NAME = "SelectionHeuristic::ModeA";
inline constexpr const char* MODE_B_POLICY_NAME = "SelectionHeuristic::ModeB";

} // namespace utilities
} // namespace hipdnn_data_sdk
