/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The system's loader, for loader.hpp: files by UTF-8 paths, and modules, which are loaded programs and shared libraries.
 */
#pragma once

#include <string>

#ifdef _WIN32
/* The functions of Windows, declared here because its headers define common words as macros. */
struct HINSTANCE__;
extern "C" {
__declspec(dllimport) HINSTANCE__* __stdcall LoadLibraryExW(const wchar_t*, void*, unsigned long);
__declspec(dllimport) int __stdcall GetModuleHandleExW(unsigned long, const wchar_t*, HINSTANCE__**);
__declspec(dllimport) unsigned long __stdcall GetModuleFileNameW(HINSTANCE__*, wchar_t*, unsigned long);
__declspec(dllimport) long long(__stdcall* __stdcall GetProcAddress(HINSTANCE__*, const char*))();
__declspec(dllimport) unsigned long __stdcall GetFileAttributesW(const wchar_t*);
__declspec(dllimport) unsigned long __stdcall GetEnvironmentVariableW(const wchar_t*, wchar_t*, unsigned long);
__declspec(dllimport) unsigned long __stdcall GetLastError(void);
__declspec(dllimport) int __stdcall MultiByteToWideChar(unsigned, unsigned long, const char*, int, wchar_t*, int);
__declspec(dllimport) int __stdcall WideCharToMultiByte(unsigned, unsigned long, const wchar_t*, int, char*, int,
                                                        const char*, int*);
}
#define HIPDNN_CPP_HIDDEN
#else
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>
/* One copy per module: modules may use different backends. */
#define HIPDNN_CPP_HIDDEN __attribute__((visibility("hidden")))
#endif

namespace hipdnn
{
namespace detail
{
namespace modules
{

/** The folder of a file, empty if the path has none. */
inline std::string parent(const std::string& path)
{
#ifdef _WIN32
    const size_t end = path.find_last_of("\\/");
#else
    const size_t end = path.rfind('/');
#endif
    return path.substr(0, end == std::string::npos ? 0 : end);
}

#ifdef _WIN32

constexpr const char* BACKEND = "hipdnn_backend.dll";
constexpr const char* SEPARATOR = "\\";

constexpr unsigned UTF8 = 65001;

inline std::wstring to_wide(const std::string& text)
{
    const int length = static_cast<int>(text.size());
    /* A byte is at most one unit. */
    std::wstring wide(text.size(), L'\0');
    const int written = length == 0 ? 0 : MultiByteToWideChar(UTF8, 0, text.data(), length, &wide[0], length);
    wide.resize(static_cast<size_t>(written));
    return wide;
}

inline std::string to_utf8(const std::wstring& wide)
{
    const int length = static_cast<int>(wide.size());
    /* A unit is at most three bytes. */
    std::string text(3 * wide.size(), '\0');
    const int room = 3 * length;
    const int written =
        length == 0 ? 0 : WideCharToMultiByte(UTF8, 0, wide.data(), length, &text[0], room, nullptr, nullptr);
    text.resize(static_cast<size_t>(written));
    return text;
}

/** False: Windows does not start programs with more rights than their user in that user's environment. */
inline bool is_secure() { return false; }

/** Whether a variable is set, and its value. */
inline bool read_variable(const char* name, std::string& value)
{
    const std::wstring wide = to_wide(name);
    std::wstring found(32768, L'\0');
    const unsigned long length =
        GetEnvironmentVariableW(wide.c_str(), &found[0], static_cast<unsigned long>(found.size()));
    found.resize(length);
    value = to_utf8(found);
    return length != 0;
}

inline bool is_absolute(const std::string& path)
{
    const auto is_separator = [](char c) { return c == '\\' || c == '/'; };
    return path.size() > 2 &&
           ((path[1] == ':' && is_separator(path[2])) || (is_separator(path[0]) && is_separator(path[1])));
}

inline bool exists(const std::string& path) { return GetFileAttributesW(to_wide(path).c_str()) != 0xffffffffUL; }

/** Whether it is a file. */
inline bool is_file(const std::string& path)
{
    constexpr unsigned long FOLDER = 0x10;
    return (GetFileAttributesW(to_wide(path).c_str()) & FOLDER) == 0;
}

inline std::string folder_of_module(HINSTANCE__* module)
{
    std::wstring name(260, L'\0');
    for (;;)
    {
        const unsigned long length = GetModuleFileNameW(module, &name[0], static_cast<unsigned long>(name.size()));
        /* A path that fills the buffer was cut. */
        if (length < name.size())
        {
            name.resize(length);
            return parent(to_utf8(name));
        }
        name.resize(2 * name.size());
    }
}

/** The folder of the file at an address, empty if unknown. */
inline std::string folder_of(const void* address)
{
    constexpr unsigned long UNCHANGED_COUNT = 2, FROM_ADDRESS = 4;
    HINSTANCE__* module = nullptr;
    const int found = GetModuleHandleExW(FROM_ADDRESS | UNCHANGED_COUNT, static_cast<const wchar_t*>(address), &module);
    return found == 0 ? "" : folder_of_module(module);
}

/** The folder of the HIP runtime, if it is loaded. */
inline std::string hip_folder()
{
    constexpr unsigned long UNCHANGED_COUNT = 2;
    for (const wchar_t* name : {L"amdhip64_7.dll", L"amdhip64_6.dll"})
    {
        HINSTANCE__* module = nullptr;
        if (GetModuleHandleExW(UNCHANGED_COUNT, name, &module) != 0)
        {
            return folder_of_module(module);
        }
    }
    return "";
}

/** A library by its path, with those that it needs beside it, or by the loader's search; null with the reason. */
inline void* open(const std::string& path, std::string& reason)
{
    constexpr unsigned long BESIDE = 0x100, DEFAULT = 0x1000;
    const std::wstring wide = to_wide(path);
    HINSTANCE__* module = LoadLibraryExW(wide.c_str(), nullptr, is_absolute(path) ? BESIDE | DEFAULT : DEFAULT);
    if (module == nullptr && !is_absolute(path))
    {
        /* Also in the folders of PATH. */
        module = LoadLibraryExW(wide.c_str(), nullptr, 0);
    }
    if (module == nullptr)
    {
        reason = path + ": error " + std::to_string(GetLastError());
    }
    return module;
}

inline void* find(void* library, const char* name)
{
    return reinterpret_cast<void*>(GetProcAddress(static_cast<HINSTANCE__*>(library), name));
}

#else

constexpr const char* BACKEND = "libhipdnn_backend.so";
constexpr const char* SEPARATOR = "/";

/** Whether the program has more rights than its user. */
inline bool is_secure() { return getauxval(AT_SECURE) != 0; }

/** Whether a variable is set, and its value. */
inline bool read_variable(const char* name, std::string& value)
{
    const char* found = std::getenv(name);
    value = found == nullptr ? "" : found;
    return found != nullptr;
}

inline bool is_absolute(const std::string& path) { return !path.empty() && path[0] == '/'; }

inline bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

/** Whether it is a plain file: opening a pipe would wait for a writer. */
inline bool is_file(const std::string& path)
{
    struct stat found;
    return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

/** The folder of the file at an address, empty if unknown. */
inline std::string folder_of(const void* address)
{
    Dl_info info;
    char whole[PATH_MAX];
    if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr)
    {
        return "";
    }
    /* A program found by PATH has no folder in its name. */
    const bool named = std::string(info.dli_fname).find('/') != std::string::npos;
    if (realpath(named ? info.dli_fname : "/proc/self/exe", whole) == nullptr)
    {
        return "";
    }
    return parent(whole);
}

/** The folder of the HIP runtime, if it is loaded. */
inline std::string hip_folder()
{
    for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"})
    {
        if (void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD))
        {
            const std::string folder = folder_of(dlsym(library, "hipInit"));
            dlclose(library);
            return folder;
        }
    }
    return folder_of(dlsym(RTLD_DEFAULT, "hipInit"));
}

/** A library by its path, or by the loader's search; null with the reason. */
inline void* open(const std::string& path, std::string& reason)
{
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
    {
        const char* words = dlerror();
        reason = words == nullptr ? path : words;
    }
    return library;
}

inline void* find(void* library, const char* name) { return dlsym(library, name); }

#endif

/** Whether the process sees a GPU, according to the CUDA and HIP drivers; cached. */
inline bool has_gpu()
{
    using Begin = int (*)(unsigned);
    using Count = int (*)(int*);
    static const bool seen = [] {
        for (const char* name :
             {"libcuda.so.1", "nvcuda.dll", "libamdhip64.so.7", "libamdhip64.so.6", "amdhip64_7.dll", "amdhip64_6.dll"})
        {
            std::string reason;
            void* driver = open(name, reason);
            if (driver == nullptr)
            {
                continue;
            }
            const auto begin = reinterpret_cast<Begin>(find(driver, "cuInit"));
            void* cuda = find(driver, "cuDeviceGetCount");
            const auto count = reinterpret_cast<Count>(cuda != nullptr ? cuda : find(driver, "hipGetDeviceCount"));
            int devices = 0;
            if ((begin == nullptr || begin(0) == 0) && count != nullptr && count(&devices) == 0 && devices > 0)
            {
                return true;
            }
        }
        return false;
    }();
    return seen;
}

} // namespace modules
} // namespace detail
} // namespace hipdnn
