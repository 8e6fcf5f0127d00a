/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The ids of engines.
 */
#pragma once

#include <cstdint>
#include <string_view>

namespace hipdnn
{

/** The id of an engine with this name. */
constexpr int64_t engine_name_to_id(std::string_view name)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : name)
    {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    return static_cast<int64_t>(hash);
}

/** The id of an engine by its name or, as engines without a name are called, by its id: 0x and 16 digits. */
inline int64_t engine_id_of(std::string_view name)
{
    if (name.size() != 18 || name[0] != '0' || (name[1] != 'x' && name[1] != 'X'))
    {
        return engine_name_to_id(name);
    }
    uint64_t id = 0;
    for (const char c : name.substr(2))
    {
        const int letter = (c | 0x20) - 'a';
        if ((c < '0' || c > '9') && (letter < 0 || letter > 5))
        {
            return engine_name_to_id(name);
        }
        id = id * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : letter + 10);
    }
    return static_cast<int64_t>(id);
}

} // namespace hipdnn
