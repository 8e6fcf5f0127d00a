/* SPDX-License-Identifier: MIT */

/**
 * @file
 * RAII handles, plugin paths, and policies.
 */
#pragma once

#include "descriptor.hpp"

#include <memory>

namespace hipdnn
{

/** Destroys a handle. */
struct HandleDeleter
{
    void operator()(hipdnnHandle_t* handle) const
    {
        if (handle != nullptr && *handle != nullptr)
        {
            HIPDNN_CPP_CALL(hipdnnDestroy)(*handle);
        }
        delete handle;
    }
};

/** An owning pointer to a handle: pass `*handle` to the C interface and graphs. */
using HandlePtr = std::unique_ptr<hipdnnHandle_t, HandleDeleter>;

/**
 * Makes a handle, which loads the engines.
 * @param stream the stream that executes plans; null for the default stream
 */
inline Error create_handle(HandlePtr& handle, hipStream_t stream = nullptr)
{
    HandlePtr made(new hipdnnHandle_t(nullptr));
    HIPDNN_CPP_TRY(detail::backend_error(HIPDNN_CPP_CALL(hipdnnCreate)(made.get()), "making a handle"));
    if (stream != nullptr)
    {
        HIPDNN_CPP_TRY(detail::backend_error(HIPDNN_CPP_CALL(hipdnnSetStream)(*made, stream), "setting the stream"));
    }
    handle = std::move(made);
    return {};
}

inline std::pair<HandlePtr, Error> create_handle(hipStream_t stream = nullptr)
{
    HandlePtr handle;
    Error error = create_handle(handle, stream);
    return {std::move(handle), std::move(error)};
}

inline Error set_handle_stream(const HandlePtr& handle, hipStream_t stream)
{
    return handle == nullptr
               ? Error(ErrorCode::INVALID_VALUE, "the handle is null")
               : detail::backend_error(HIPDNN_CPP_CALL(hipdnnSetStream)(*handle, stream), "setting the stream");
}

inline Error get_handle_stream(const HandlePtr& handle, hipStream_t* stream)
{
    return handle == nullptr || stream == nullptr
               ? Error(ErrorCode::INVALID_VALUE, "the handle or the place for the stream is null")
               : detail::backend_error(HIPDNN_CPP_CALL(hipdnnGetStream)(*handle, stream), "asking for the stream");
}

/** Whether plugins are loaded in addition to the library's own or instead of them. */
enum class PluginLoadingMode { ADDITIVE, ABSOLUTE };

namespace detail
{

inline std::string path_text(const char* path) { return path; }
inline std::string path_text(const std::string& path) { return path; }
template <typename Path>
auto path_text(const Path& path) -> decltype(path.string())
{
    return path.string();
}

} // namespace detail

/**
 * Sets the engine plugins that handles load from now on.
 * @param paths files or folders, as texts or as std::filesystem::path
 */
template <typename Container>
Error set_engine_plugin_paths(const Container& paths, PluginLoadingMode mode)
{
    std::vector<std::string> texts;
    std::vector<const char*> raw;
    for (const auto& path : paths)
    {
        texts.push_back(detail::path_text(path));
    }
    for (const std::string& text : texts)
    {
        raw.push_back(text.c_str());
    }
    const auto how =
        mode == PluginLoadingMode::ABSOLUTE ? HIPDNN_PLUGIN_LOADING_ABSOLUTE : HIPDNN_PLUGIN_LOADING_ADDITIVE;
    return detail::backend_error(HIPDNN_CPP_CALL(hipdnnSetEnginePluginPaths_ext)(raw.size(), raw.data(), how),
                                 "setting paths of plugins");
}

/** The files of the engine plugins that a handle loaded. */
template <typename Path>
Error get_loaded_engine_plugin_paths(hipdnnHandle_t handle, std::vector<Path>& paths)
{
    size_t count = 0, longest = 0;
    const char* attempt = "asking for plugins";
    paths.clear();
    HIPDNN_CPP_TRY(detail::backend_error(
        HIPDNN_CPP_CALL(hipdnnGetLoadedEnginePluginPaths_ext)(handle, &count, nullptr, &longest), attempt));
    std::vector<std::vector<char>> room(count, std::vector<char>(longest + 1, '\0'));
    std::vector<char*> raw;
    for (auto& one : room)
    {
        raw.push_back(one.data());
    }
    if (count > 0)
    {
        HIPDNN_CPP_TRY(detail::backend_error(
            HIPDNN_CPP_CALL(hipdnnGetLoadedEnginePluginPaths_ext)(handle, &count, raw.data(), &longest), attempt));
    }
    for (size_t i = 0; i < count && i < raw.size(); i++)
    {
        paths.emplace_back(raw[i]);
    }
    return {};
}

/** A policy that ranks engines. */
struct HeuristicPolicyInfo
{
    int64_t policyId = -1;
    std::string policyName;
    std::string pluginName;
    std::string pluginVersion;
    std::string apiVersion;
};

/** The policies that a handle has. */
template <typename = void>
std::pair<std::vector<HeuristicPolicyInfo>, Error> get_loaded_heuristic_policy_infos(hipdnnHandle_t handle)
{
    std::vector<HeuristicPolicyInfo> found;
    size_t count = 0;
    const char* attempt = "asking for policies";
    Error error = detail::backend_error(HIPDNN_CPP_CALL(hipdnnGetHeuristicPolicyCount_ext)(handle, &count), attempt);
    for (size_t i = 0; i < count && error.is_good(); i++)
    {
        HeuristicPolicyInfo info;
        size_t lengths[4] = {};
        const auto ask = HIPDNN_CPP_CALL(hipdnnGetHeuristicPolicyInfo_ext);
        error = detail::backend_error(ask(handle, i, nullptr, nullptr, &lengths[0], nullptr, &lengths[1], nullptr,
                                          &lengths[2], nullptr, &lengths[3]),
                                      attempt);
        std::string* texts[4] = {&info.policyName, &info.pluginName, &info.pluginVersion, &info.apiVersion};
        for (size_t part = 0; part < 4; part++)
        {
            lengths[part]++;
            texts[part]->assign(lengths[part], '\0');
        }
        if (error.is_good())
        {
            error = detail::backend_error(ask(handle, i, &info.policyId, &info.policyName[0], &lengths[0],
                                              &info.pluginName[0], &lengths[1], &info.pluginVersion[0], &lengths[2],
                                              &info.apiVersion[0], &lengths[3]),
                                          attempt);
        }
        for (std::string* text : texts)
        {
            text->erase(std::min(text->find('\0'), text->size()));
        }
        found.push_back(std::move(info));
    }
    return {error.is_bad() ? std::vector<HeuristicPolicyInfo>() : std::move(found), error};
}

} // namespace hipdnn
