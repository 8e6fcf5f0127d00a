/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The backend found at run time, for programs that define HIPDNN_FRONTEND_RUNTIME_LOAD_BACKEND and are not linked with it.
 *
 * Each executable and each shared library searches once, when it first calls the backend, in this order: the folder given to
 * set_backend_library_path(), or else the absolute folder in the variable HIPDNN_BACKEND_LIBRARY_PATH; the folder of the module
 * itself; `lib` and `lib64` beside that folder; the folder of the HIP runtime that is loaded; the loader's own search. A program
 * with more rights than its user only searches the first and the last. A function that the library lacks returns
 * HIPDNN_STATUS_VERSION_MISMATCH, as do all functions if no library was found; hipdnnGetLastErrorString() then says where it was
 * looked for.
 */
#pragma once

#include <hipdnn/backend/hipdnn_backend.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <type_traits>

#include "modules.hpp"

namespace hipdnn
{
namespace detail
{

/** Every function of the backend. */
#define HIPDNN_CPP_FUNCTIONS(USE)                        \
    USE(hipdnnCreate)                                    \
    USE(hipdnnDestroy)                                   \
    USE(hipdnnSetStream)                                 \
    USE(hipdnnGetStream)                                 \
    USE(hipdnnBackendCreateDescriptor)                   \
    USE(hipdnnBackendDestroyDescriptor)                  \
    USE(hipdnnBackendExecute)                            \
    USE(hipdnnBackendFinalize)                           \
    USE(hipdnnBackendGetAttribute)                       \
    USE(hipdnnBackendSetAttribute)                       \
    USE(hipdnnGetErrorString)                            \
    USE(hipdnnGetLastErrorString)                        \
    USE(hipdnnBackendCreateAndDeserializeGraph_ext)      \
    USE(hipdnnBackendGetSerializedBinaryGraph_ext)       \
    USE(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext) \
    USE(hipdnnBackendGetSerializedBinaryContents_ext)    \
    USE(hipdnnBackendGetSerializedJsonGraph_ext)         \
    USE(hipdnnBackendCreateAndDeserializeJsonGraph_ext)  \
    USE(hipdnnBackendGetSerializedExecutionPlan_ext)     \
    USE(hipdnnBackendCreateAndDeserializeExecutionPlan_ext) \
    USE(hipdnnLoggingCallback_ext)                       \
    USE(hipdnnSetEnginePluginPaths_ext)                  \
    USE(hipdnnSetHeuristicPluginPaths_ext)               \
    USE(hipdnnGetLoadedEnginePluginPaths_ext)            \
    USE(hipdnnSetUserLogCallback_ext)                    \
    USE(hipdnnBackendSetGlobalLogLevel_ext)              \
    USE(hipdnnBackendGetGlobalLogLevel_ext)              \
    USE(hipdnnGetEngineIdByName_ext)                     \
    USE(hipdnnGetEngineNameById_ext)                     \
    USE(hipdnnGetHeuristicPolicyCount_ext)               \
    USE(hipdnnGetHeuristicPolicyInfo_ext)                \
    USE(hipdnnBackendWriteEngineRankingResults_ext)      \
    USE(hipdnnVersionString_ext)

/** Returns an error for a missing function. */
template <typename Function>
struct Missing;

template <typename... Arguments>
struct Missing<hipdnnStatus_t (*)(Arguments...)>
{
    static hipdnnStatus_t call(Arguments...) { return HIPDNN_STATUS_VERSION_MISMATCH; }
};

template <typename... Arguments>
struct Missing<const char* (*)(Arguments...)>
{
    static const char* call(Arguments...) { return "HIPDNN_STATUS_VERSION_MISMATCH"; }
};

/** Without hipdnnGetLastErrorString(): why there is no library. */
HIPDNN_CPP_HIDDEN inline void say_what_is_missing(char* text, size_t size);

template <typename... Arguments>
struct Missing<void (*)(Arguments...)>
{
    static void call(Arguments... arguments)
    {
        if constexpr (std::is_same_v<void(Arguments...), void(char*, size_t)>)
        {
            say_what_is_missing(arguments...);
        } else
        {
            (static_cast<void>(arguments), ...);
        }
    }
};

/** The functions, each from the library or a stand-in. */
struct Functions
{
#define HIPDNN_CPP_MEMBER(name) decltype(&::name) name = &Missing<decltype(&::name)>::call;
    HIPDNN_CPP_FUNCTIONS(HIPDNN_CPP_MEMBER)
#undef HIPDNN_CPP_MEMBER
    void* library = nullptr;
    /** The path that opened the library; empty if the library is not open. */
    std::string path;
    /** Where the library was looked for, if it was not found. */
    std::string reason;
};

/** The path set before the first call. */
struct Override
{
    std::mutex mutex;
    std::string folder;
    bool given = false;
    bool used = false;
};

HIPDNN_CPP_HIDDEN inline Override& override_of_path()
{
    static Override state;
    return state;
}

HIPDNN_CPP_HIDDEN inline Functions load_functions();

/** The backend functions of this module; the first call finds them. */
HIPDNN_CPP_HIDDEN inline const Functions& functions()
{
    static const Functions found = load_functions();
    return found;
}

HIPDNN_CPP_HIDDEN inline Functions load_functions()
{
    Functions made;
    std::string tried;
    const auto open = [&](const std::string& path, bool must_exist) {
        if (made.library != nullptr)
        {
            return;
        }
        if (must_exist && !modules::exists(path))
        {
            tried += "\n  " + path + ": not present";
            return;
        }
        std::string reason;
        made.library = modules::open(path, reason);
        if (made.library == nullptr)
        {
            tried += "\n  " + reason;
            return;
        }
        made.path = path;
    };
    const auto look_in = [&](const std::string& folder) {
        if (!folder.empty())
        {
            open(folder + modules::SEPARATOR + modules::BACKEND, true);
        }
    };
    const bool secure = modules::is_secure();
    {
        Override& wanted = override_of_path();
        const std::lock_guard<std::mutex> lock(wanted.mutex);
        wanted.used = true;
        std::string folder = wanted.folder;
        const bool given = wanted.given || (!secure && modules::read_variable("HIPDNN_BACKEND_LIBRARY_PATH", folder));
        if (modules::is_absolute(folder))
        {
            look_in(folder);
        } else if (given)
        {
            std::fprintf(stderr, "hipDNN: the folder of the backend is \"%s\", expected an absolute path\n",
                         folder.c_str());
        }
    }
    if (!secure)
    {
        const std::string module = modules::folder_of(reinterpret_cast<const void*>(&load_functions));
        look_in(module);
        const std::string above = module.empty() ? "" : modules::parent(module) + modules::SEPARATOR;
        look_in(above.empty() ? "" : above + "lib");
        look_in(above.empty() ? "" : above + "lib64");
        look_in(modules::hip_folder());
    }
    open(modules::BACKEND, false);
    if (made.library == nullptr)
    {
        made.reason = "no library " + std::string(modules::BACKEND) + " was found; looked for:" + tried;
        std::fprintf(stderr, "hipDNN: %s\n", made.reason.c_str());
        return made;
    }
#define HIPDNN_CPP_RESOLVE(name)                           \
    if (void *found = modules::find(made.library, #name))          \
    {                                                      \
        made.name = reinterpret_cast<decltype(&::name)>(found); \
    }
    HIPDNN_CPP_FUNCTIONS(HIPDNN_CPP_RESOLVE)
#undef HIPDNN_CPP_RESOLVE
    return made;
}

HIPDNN_CPP_HIDDEN inline void say_what_is_missing(char* text, size_t size)
{
    const Functions& found = functions();
    if (text != nullptr && size > 0)
    {
        std::snprintf(text, size, "%s",
                      found.library == nullptr ? found.reason.c_str() : "the library lacks hipdnnGetLastErrorString");
    }
}

} // namespace detail

/**
 * Sets the folder of the backend, before this module first calls it.
 * @return false if the backend was searched already; then nothing changes
 */
HIPDNN_CPP_HIDDEN inline bool set_backend_library_path(const std::string& folder)
{
    detail::Override& wanted = detail::override_of_path();
    const std::lock_guard<std::mutex> lock(wanted.mutex);
    if (wanted.used)
    {
        return false;
    }
    wanted.folder = folder;
    wanted.given = true;
    return true;
}

/** The path that opened the backend, searching for it if necessary; empty if none was found. */
HIPDNN_CPP_HIDDEN inline std::string backend_library_path() { return detail::functions().path; }

} // namespace hipdnn

#undef HIPDNN_CPP_FUNCTIONS
