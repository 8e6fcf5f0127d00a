/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Numbers of engines and policies, made from their names.
 */
#pragma once

#include <cstdint>
#include <string_view>

namespace hipdnn_compat
{

/** The number of a name, 0 if it is empty. */
constexpr int64_t name_to_id(std::string_view name)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : name)
    {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    return name.empty() ? 0 : static_cast<int64_t>(hash);
}

constexpr std::string_view text_of(const char* name) { return name == nullptr ? std::string_view() : name; }

} // namespace hipdnn_compat
