/* SPDX-License-Identifier: MIT */

/**
 * @file
 * AMD's names for the numbers of engines, and those of engines that this program registered.
 */
#pragma once

#include "../../../cpp/engine_ids.hpp"
#include "../../hipdnn_compat/name_ids.hpp"

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

/** Defines a name and its number as `name_NAME` and `name_ID`, and registers them. `text` lives as long as the program. */
#define HIPDNN_REGISTER_ENGINE(name, text)                                                                             \
    inline constexpr const char* name##_NAME = text;                                                                   \
    inline constexpr int64_t name##_ID = ::hipdnn_data_sdk::utilities::engineNameToId(text);                           \
    inline const ::hipdnn_data_sdk::utilities::EngineRegistrar name##_registrar{text};

namespace hipdnn_data_sdk
{
namespace utilities
{

constexpr int64_t engineNameToId(std::string_view engine) { return ::hipdnn_compat::name_to_id(engine); }
constexpr int64_t engineNameToId(const char* engine) { return engineNameToId(::hipdnn_compat::text_of(engine)); }
inline int64_t engineNameToId(const std::string& engine) { return engineNameToId(std::string_view(engine)); }

/** How an engine without a name is called: its number, as 0x and 16 digits. */
inline std::string formatEngineIdHex(int64_t id)
{
    std::string text = "0x0000000000000000";
    auto rest = static_cast<uint64_t>(id);
    for (size_t place = text.size() - 1; rest != 0; rest >>= 4)
    {
        text[place--] = "0123456789ABCDEF"[rest % 16];
    }
    return text;
}

/** The number of an engine by its name, or by what an engine without one is called. */
inline int64_t engineNameOrIdToId(std::string_view engine) { return ::hipdnn::engine_id_of(engine); }

namespace detail
{

struct RegisteredEngines
{
    std::set<std::string_view> names;
    std::unordered_map<int64_t, std::string_view> by_id;

    static RegisteredEngines& all()
    {
        static RegisteredEngines engines;
        return engines;
    }
};

} // namespace detail

inline const std::set<std::string_view>& getAllEngineNames() { return detail::RegisteredEngines::all().names; }
inline const std::unordered_map<int64_t, std::string_view>& getEngineIdToNameMap()
{
    return detail::RegisteredEngines::all().by_id;
}
inline bool isEngineNameRegistered(std::string_view engine) { return getAllEngineNames().count(engine) != 0; }

/** Throws std::out_of_range for a number that is not registered. */
inline std::string_view getEngineNameFromId(int64_t id)
{
    const auto& names = getEngineIdToNameMap();
    const auto found = names.find(id);
    return found != names.end() ? found->second
                                : throw std::out_of_range("no engine with number " + std::to_string(id));
}

/** Registers an engine, before `main` if it is a global variable. Throws std::runtime_error if another one has this number. */
struct EngineRegistrar
{
    EngineRegistrar(std::string_view engine)
    {
        auto& engines = detail::RegisteredEngines::all();
        const auto place = engines.by_id.emplace(engineNameToId(engine), engine).first;
        if (place->second != engine)
        {
            throw std::runtime_error(std::string(engine) + " has the number of " + std::string(place->second));
        }
        engines.names.insert(engine);
    }
};

HIPDNN_REGISTER_ENGINE(MIOPEN_ENGINE, "MIOPEN_ENGINE")
HIPDNN_REGISTER_ENGINE(MIOPEN_ENGINE_DETERMINISTIC, "MIOPEN_ENGINE_DETERMINISTIC")
HIPDNN_REGISTER_ENGINE(HIPBLASLT_ENGINE, "HIPBLASLT_ENGINE")

} // namespace utilities
} // namespace hipdnn_data_sdk
