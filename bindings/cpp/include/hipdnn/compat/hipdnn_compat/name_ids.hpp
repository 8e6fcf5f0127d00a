/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Numbers of engines and policies, made from their names.
 */
#pragma once

#include "../../cpp/engine_ids.hpp"

namespace hipdnn_compat
{

/** The number of a name, 0 if it is empty. */
constexpr int64_t name_to_id(std::string_view name) { return name.empty() ? 0 : ::hipdnn::engine_name_to_id(name); }

constexpr std::string_view text_of(const char* name) { return name == nullptr ? std::string_view() : name; }

} // namespace hipdnn_compat
