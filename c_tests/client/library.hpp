/* SPDX-License-Identifier: MIT */

/*
 * The library as a frontend has it that is not linked with it: found at run time, its version checked, and each function
 * resolved by name. A function that is not there makes calls of it end with VERSION_MISMATCH, and nothing else.
 */
#pragma once

#include <hipdnn_backend.h>
#include <hipdnn_backend/version.h>

#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <sys/auxv.h>
#include <type_traits>

namespace client
{

/* The result of a call: a status of the library, or one of the client's own. */
enum class Result { Success, Failed, VersionMismatch };

/* The major version that the client was written for. A test names another one, for which nothing is compiled again. */
inline long written_for()
{
    const char* other = std::getenv("CLIENT_MAJOR");
    return other == nullptr ? HIPDNN_BACKEND_VERSION_MAJOR : std::strtol(other, nullptr, 10);
}

/* Exactly the functions that today's frontends resolve. */
#define CLIENT_FUNCTIONS(X)                                                                                            \
    X(hipdnnCreate)                                                                                                    \
    X(hipdnnDestroy)                                                                                                   \
    X(hipdnnSetStream)                                                                                                 \
    X(hipdnnGetStream)                                                                                                 \
    X(hipdnnBackendCreateDescriptor)                                                                                   \
    X(hipdnnBackendDestroyDescriptor)                                                                                  \
    X(hipdnnBackendExecute)                                                                                            \
    X(hipdnnBackendFinalize)                                                                                           \
    X(hipdnnBackendGetAttribute)                                                                                       \
    X(hipdnnBackendSetAttribute)                                                                                       \
    X(hipdnnGetErrorString)                                                                                            \
    X(hipdnnGetLastErrorString)                                                                                        \
    X(hipdnnBackendCreateAndDeserializeGraph_ext)                                                                      \
    X(hipdnnBackendGetSerializedBinaryGraph_ext)                                                                       \
    X(hipdnnBackendGetSerializedJsonGraph_ext)                                                                         \
    X(hipdnnBackendCreateAndDeserializeJsonGraph_ext)                                                                  \
    X(hipdnnBackendGetSerializedExecutionPlan_ext)                                                                     \
    X(hipdnnBackendCreateAndDeserializeExecutionPlan_ext)                                                              \
    X(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext)                                                                \
    X(hipdnnBackendGetSerializedBinaryContents_ext)                                                                    \
    X(hipdnnLoggingCallback_ext)                                                                                       \
    X(hipdnnSetEnginePluginPaths_ext)                                                                                  \
    X(hipdnnSetHeuristicPluginPaths_ext)                                                                               \
    X(hipdnnGetLoadedEnginePluginPaths_ext)                                                                            \
    X(hipdnnSetUserLogCallback_ext)                                                                                    \
    X(hipdnnBackendSetGlobalLogLevel_ext)                                                                              \
    X(hipdnnBackendGetGlobalLogLevel_ext)                                                                              \
    X(hipdnnGetEngineNameById_ext)                                                                                     \
    X(hipdnnGetHeuristicPolicyCount_ext)                                                                               \
    X(hipdnnGetHeuristicPolicyInfo_ext)                                                                                \
    X(hipdnnBackendWriteEngineRankingResults_ext)                                                                      \
    X(hipdnnVersionString_ext)

/* A function of the library, or of nothing. */
template <typename Function>
struct Resolved;

template <typename Value, typename... Arguments>
struct Resolved<Value (*)(Arguments...)>
{
    Value (*function)(Arguments...) = nullptr;

    /* Calls the function. One that answers with no status succeeds when it is there. */
    Result operator()(Arguments... arguments) const
    {
        if (function == nullptr)
        {
            return Result::VersionMismatch;
        }
        if constexpr (std::is_same_v<Value, hipdnnStatus_t>)
        {
            return function(arguments...) == HIPDNN_STATUS_SUCCESS ? Result::Success : Result::Failed;
        } else
        {
            function(arguments...);
            return Result::Success;
        }
    }

    /* Calls the function with zeros. */
    Result with_zeros() const { return (*this)(Arguments{}...); }
};

/* How a library was found. */
enum class Way { Nowhere, Directory, Variable, Module, Lib, Lib64, Hip, Loader };

inline const char* name(Way way)
{
    constexpr const char* names[] = {"nowhere", "directory", "variable", "module", "lib", "lib64", "hip", "loader"};
    return names[static_cast<int>(way)];
}

/* How a program looks for the library, and what it expects. */
struct Search
{
    /* Searched first, unless empty. */
    std::string directory;
    /* Frontends of November 2025 do not look at the version. */
    bool checks_version = true;
    /* A program that has more rights than its user trusts neither the user's variables nor what lies beside it. */
    bool secure = getauxval(AT_SECURE) != 0;
};

class Library
{
public:
#define CLIENT_MEMBER(name) Resolved<decltype(&::name)> name;
    CLIENT_FUNCTIONS(CLIENT_MEMBER)
#undef CLIENT_MEMBER

    explicit Library(const Search& search)
    {
        open(search);
        if (_handle == nullptr)
        {
            return;
        }
        resolve();
        if (search.checks_version && !has_our_version())
        {
            /* Everything fails, as if nothing had been found. */
            forget();
        }
    }

    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    ~Library()
    {
        if (_handle != nullptr)
        {
            dlclose(_handle);
        }
    }

    Way way() const { return _way; }

    /* A function besides those of the frontends, null if missing. */
    template <typename Function>
    Function find(const char* name) const
    {
        return _handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(_handle, name));
    }

    /* Why the last call on this thread failed; empty if the function for that is missing. */
    std::string last_error() const
    {
        char text[256] = "";
        if (hipdnnGetLastErrorString.function != nullptr)
        {
            hipdnnGetLastErrorString.function(text, sizeof text);
        }
        return text;
    }

private:
    void* _handle = nullptr;
    Way _way = Way::Nowhere;

    void open(const Search& search)
    {
        attempt(Way::Directory, search.directory);
        if (!search.secure)
        {
            const char* variable = std::getenv("HIPDNN_BACKEND_LIBRARY_PATH");
            if (variable != nullptr && variable[0] == '/')
            {
                attempt(Way::Variable, variable);
            }
            const std::string module = folder_of(reinterpret_cast<void*>(&folder_of));
            attempt(Way::Module, module);
            attempt(Way::Lib, module.empty() ? "" : module + "/../lib");
            attempt(Way::Lib64, module.empty() ? "" : module + "/../lib64");
            attempt(Way::Hip, folder_of(dlsym(RTLD_DEFAULT, "hipInit")));
        }
        if (_handle == nullptr)
        {
            load(Way::Loader, "libhipdnn_backend.so");
        }
    }

    void attempt(Way way, const std::string& folder)
    {
        if (_handle == nullptr && !folder.empty())
        {
            load(way, folder + "/libhipdnn_backend.so");
        }
    }

    void load(Way way, const std::string& file)
    {
        _handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        _way = _handle == nullptr ? Way::Nowhere : way;
    }

    /* The folder of the file that something lies in. */
    static std::string folder_of(void* address)
    {
        Dl_info info;
        if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr)
        {
            return "";
        }
        const std::string path = info.dli_fname;
        const size_t slash = path.rfind('/');
        return slash == std::string::npos ? "" : path.substr(0, slash);
    }

    void resolve()
    {
#define CLIENT_RESOLVE(name) name.function = reinterpret_cast<decltype(&::name)>(dlsym(_handle, #name));
        CLIENT_FUNCTIONS(CLIENT_RESOLVE)
#undef CLIENT_RESOLVE
    }

    void forget()
    {
#define CLIENT_FORGET(name) name.function = nullptr;
        CLIENT_FUNCTIONS(CLIENT_FORGET)
#undef CLIENT_FORGET
    }

    /* Only the major version counts. A text that is not a version matches none. */
    bool has_our_version() const
    {
        const char* text = hipdnnVersionString_ext.function == nullptr ? nullptr : hipdnnVersionString_ext.function();
        if (text == nullptr)
        {
            return false;
        }
        char* end = nullptr;
        const long major = std::strtol(text, &end, 10);
        return end != text && *end == '.' && major == written_for();
    }
};

} // namespace client
