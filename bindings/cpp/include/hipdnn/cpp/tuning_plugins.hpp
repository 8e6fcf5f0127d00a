/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Strategies of tuning plugins: where the plugins are searched, and what a library must satisfy.
 */
#pragma once

#include "tuning_callbacks.hpp"

namespace hipdnn
{
namespace detail
{

/** A valid plugin. It stays loaded: its threads may outlive a search. */
template <typename T>
class TuningPluginOf
{
public:
    std::string name;
    std::vector<std::string> strategies;

    /** Opens a file and checks the plugin; returns why it is rejected, or nothing. */
    std::string open(const std::string& path)
    {
        std::string reason;
        void* const library = modules::open(path, reason);
        if (library == nullptr)
        {
            return reason;
        }
        int (*get_type)(int*);
        int (*get_name)(const char**);
        int (*get_version)(const char**);
        int (*get_api_version)(const char**);
        int (*set_callback)(hipdnnCallback_t);
        int (*get_ids)(int64_t*, uint32_t, uint32_t*);
        int (*get_strategy_name)(int64_t, const char**);
        std::string missing;
        const auto find = [&](const char* of, auto& function) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(modules::find(library, of));
            missing += function != nullptr ? "" : (missing.empty() ? "" : ", ") + std::string(of);
        };
        find("hipdnnPluginGetType", get_type);
        find("hipdnnPluginGetName", get_name);
        find("hipdnnPluginGetVersion", get_version);
        find("hipdnnPluginGetApiVersion", get_api_version);
        find("hipdnnPluginSetLoggingCallback", set_callback);
        find("hipdnnPluginGetLastErrorString", _get_last_error);
        find("hipdnnTuningPluginGetAllStrategyIds", get_ids);
        find("hipdnnTuningPluginGetStrategyName", get_strategy_name);
        find("hipdnnTuningPluginSearch", _search);
        if (!missing.empty())
        {
            return "it lacks " + missing;
        }
        int type = 0;
        std::string version, api;
        reason = call("its type", [&] { return get_type(&type); });
        if (reason.empty() && type != TYPE)
        {
            reason = join({"its type is ", type, ", expected that of a tuning plugin, ", TYPE});
        }
        const auto ask = [&](const std::string& what, std::string& text, const auto& function) {
            const char* found = nullptr;
            reason = reason.empty() ? call(what, [&] { return function(&found); }) : reason;
            text = found == nullptr ? "" : found;
            if (reason.empty() && text.empty())
            {
                reason = what + (found == nullptr ? " is null" : " is empty");
            }
            if (reason.empty() && !is_utf8(text))
            {
                reason = what + " is \"" + text + "\", expected UTF-8";
            }
        };
        ask("its name", name, get_name);
        ask("its version", version, get_version);
        ask("its API version", api, get_api_version);
        if (reason.empty() && !is_own_version(api))
        {
            reason = "its API version is \"" + api + "\", expected 0.MINOR.PATCH";
        }
        if (reason.empty())
        {
            /* A plugin that refuses it stays silent. */
            static_cast<void>(call("", [&] { return set_callback(HIPDNN_CPP_CALL(hipdnnLoggingCallback_ext)); }));
        }
        std::vector<int64_t> ids;
        reason = reason.empty() ? read_ids(get_ids, ids) : reason;
        for (const int64_t id : ids)
        {
            std::string strategy;
            ask("the name of strategy " + std::to_string(id), strategy,
                [&](const char** text) { return get_strategy_name(id, text); });
            if (reason.empty() && hash_of(strategy) != id)
            {
                reason = join({"strategy ", strategy, " has the id ", id, ", expected the hash of its name, ",
                               hash_of(strategy)});
            }
            strategies.push_back(strategy);
        }
        return reason;
    }

    /** Runs the search of one of its strategies. */
    Error search(const std::string& strategy, const TuningProblemOf<T>& problem, TuningHostOf<T>& host,
                 std::vector<size_t>& order) const
    {
        struct Given
        {
            std::vector<std::vector<uint8_t>> tables;
            std::vector<uint8_t> graph;
            uint64_t budget;
        };
        Given given{{}, problem.graph, PluginSearchOf<T>::nanoseconds(host.remaining())};
        for (const auto& engine : problem.engines)
        {
            given.tables.push_back(TuningTablesOf<T>::details(engine));
        }
        given.tables.push_back(TuningTablesOf<T>::device());
        const std::string what = "the search of tuning plugin " + name;
        const auto run = [plugin = *this, id = hash_of(strategy), what,
                          given = std::move(given)](const TuningHostData& functions) {
            std::vector<TuningData> data;
            for (const auto& table : given.tables)
            {
                data.push_back({table.data(), table.size()});
            }
            const TuningProblemData raw = {sizeof raw,
                                           {given.graph.data(), given.graph.size()},
                                           data.back(),
                                           data.data(),
                                           data.size() - 1,
                                           nullptr,
                                           0,
                                           given.budget};
            return plugin.call(what, [&] { return plugin._search(id, &raw, &functions); });
        };
        return PluginSearchOf<T>::run(what, problem, host, order, run);
    }

    /** The 64-bit FNV-1a hash of a name. */
    static int64_t hash_of(const std::string& text)
    {
        uint64_t hash = 0xcbf29ce484222325U;
        for (const char c : text)
        {
            hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
        }
        return static_cast<int64_t>(hash);
    }

private:
    static constexpr int TYPE = 3;
    /** More strategies than any plugin has. */
    static constexpr uint32_t MOST = 4096;

    int (*_search)(int64_t, const TuningProblemData*, const TuningHostData*) = nullptr;
    void (*_get_last_error)(const char**) = nullptr;

    /** Calls a function of the plugin; returns why it failed, or nothing. */
    template <typename Function>
    std::string call(const std::string& what, const Function& function) const
    try
    {
        const int status = static_cast<int>(function());
        if (status == 0)
        {
            return "";
        }
        const char* text = nullptr;
        _get_last_error(&text);
        return what + ": status " + std::to_string(status) + ", \"" + (text == nullptr ? "" : text) + "\"";
    } catch (const std::exception& thrown)
    {
        return what + " threw a C++ exception: " + thrown.what();
    } catch (...)
    {
        return what + " threw a C++ exception";
    }

    /** Whether a text is 0.MINOR.PATCH, whatever follows. */
    static bool is_own_version(const std::string& text)
    {
        int parts = 0;
        for (size_t at = 0; parts < 3; parts++)
        {
            const size_t end = std::min(text.find_first_of(".-+", at), text.size());
            if (end == at || text.find_first_not_of("0123456789", at) < end)
            {
                return false;
            }
            const size_t digits = std::min(text.find_first_not_of('0', at), end);
            const bool is_zero = digits == end;
            /* The tool's parts have 32 bits. */
            if (end - digits > 10 || (end - digits == 10 && text.compare(digits, 10, "4294967295") > 0))
            {
                return false;
            }
            if ((parts == 0 && !is_zero) || (parts < 2 && (end == text.size() || text[end] != '.')))
            {
                return false;
            }
            at = end + 1;
        }
        return true;
    }

    /** Whether a text is UTF-8: no stray, missing or needless continuation, no surrogate, nothing above U+10FFFF. */
    static bool is_utf8(const std::string& text)
    {
        for (size_t at = 0; at < text.size();)
        {
            const auto byte = [&](size_t place) {
                return place < text.size() ? static_cast<unsigned char>(text[place]) : 0U;
            };
            const unsigned first = byte(at);
            const size_t size = first < 0x80       ? 1
                                : first >> 5 == 6  ? 2
                                : first >> 4 == 14 ? 3
                                : first >> 3 == 30 ? 4
                                                   : 0;
            unsigned code = size < 2 ? first : first & (0x7fU >> size);
            for (size_t more = 1; more < size; more++)
            {
                if ((byte(at + more) & 0xc0U) != 0x80U)
                {
                    return false;
                }
                code = (code << 6) | (byte(at + more) & 0x3fU);
            }
            constexpr unsigned LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
            if (size == 0 || code < LEAST[size] || code > 0x10ffff || code >> 11 == 0x1b)
            {
                return false;
            }
            at += size;
        }
        return true;
    }

    template <typename GetIds>
    std::string read_ids(const GetIds& get_ids, std::vector<int64_t>& ids) const
    {
        uint32_t count = 0, written = 0;
        std::string reason = call("the number of its strategies", [&] { return get_ids(nullptr, 0, &count); });
        if (!reason.empty())
        {
            return reason;
        }
        if (count < 1 || count > MOST)
        {
            return join({"it has ", size_t{count}, " strategies, expected 1 to ", size_t{MOST}});
        }
        std::vector<int64_t> found(count);
        reason = call("the ids of its strategies", [&] { return get_ids(found.data(), count, &written); });
        if (!reason.empty())
        {
            return reason;
        }
        if (written != count)
        {
            return join({"it has ", size_t{written}, " strategies, after it said ", size_t{count}});
        }
        std::vector<int64_t> sorted = found;
        std::sort(sorted.begin(), sorted.end());
        const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        if (twice != sorted.end())
        {
            return join({"it has strategy ", *twice, " twice"});
        }
        ids = std::move(found);
        return "";
    }
};

/** Writes a line to the library's log. */
inline void log_warning(const std::string& line)
{
    HIPDNN_CPP_CALL(hipdnnLoggingCallback_ext)(HIPDNN_SEV_WARN, line.c_str());
}

/** Every strategy by name: built-in ones, then those of plugins. */
template <typename T>
class StrategiesOf
{
public:
    using Search = std::function<Error(const TuningProblemOf<T>&, TuningHostOf<T>&, std::vector<size_t>&)>;

    /** Loads the tuning plugins of `hipdnn_plugins/tuning` beside the library, or of HIPDNN_TUNING_PLUGIN_DIR. */
    StrategiesOf()
    {
        _all.emplace_back("halving", &HalvingOf<T>::search);
        _all.emplace_back("exhaustive", &ExhaustiveOf<T>::search);
        for (const std::string& path : SystemOf<T>::libraries_in(place()))
        {
            TuningPluginOf<T> plugin;
            const std::string reason = plugin.open(path);
            if (!reason.empty())
            {
                log_warning("tuning plugin " + path + " is passed over: " + reason);
                continue;
            }
            for (const std::string& name : plugin.strategies)
            {
                /* A name that is taken is skipped. */
                if (find(name) == nullptr)
                {
                    _all.emplace_back(name, [plugin, name](const auto& problem, auto& host, auto& order) {
                        return plugin.search(name, problem, host, order);
                    });
                }
            }
        }
    }

    /** A strategy; null if the name is unknown. */
    const Search* find(const std::string& name) const
    {
        for (const auto& one : _all)
        {
            if (one.first == name)
            {
                return &one.second;
            }
        }
        return nullptr;
    }

    std::vector<std::string> names() const
    {
        std::vector<std::string> list;
        for (const auto& one : _all)
        {
            list.push_back(one.first);
        }
        return list;
    }
    std::string words() const
    {
        std::string list;
        for (const auto& one : _all)
        {
            list += (list.empty() ? "" : ", ") + one.first;
        }
        return list;
    }

private:
    std::vector<std::pair<std::string, Search>> _all;

    static std::string place()
    {
        const std::string given = SystemOf<T>::path_in("HIPDNN_TUNING_PLUGIN_DIR");
        if (!given.empty())
        {
            return given;
        }
        const auto* function = reinterpret_cast<const void*>(HIPDNN_CPP_CALL(hipdnnCreate));
#ifdef HIPDNN_FRONTEND_RUNTIME_LOAD_BACKEND
        const std::string folder = modules::folder_of(function);
#else
        const std::string folder = SystemOf<T>::folder_of_backend(modules::BACKEND, function);
#endif
        const std::string separator = modules::SEPARATOR;
        return folder.empty() ? "" : folder + separator + "hipdnn_plugins" + separator + "tuning";
    }
};

} // namespace detail
} // namespace hipdnn
