/* SPDX-License-Identifier: MIT */

/**
 * @file
 * What tuning needs of the system: plugin folders, the clock, and the device.
 */
#pragma once

#include "modules.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#ifdef _WIN32
struct _WIN32_FIND_DATAW;
union _LARGE_INTEGER;
extern "C" {
__declspec(dllimport) void* __stdcall FindFirstFileW(const wchar_t*, _WIN32_FIND_DATAW*);
__declspec(dllimport) int __stdcall FindNextFileW(void*, _WIN32_FIND_DATAW*);
__declspec(dllimport) int __stdcall FindClose(void*);
__declspec(dllimport) unsigned long __stdcall GetActiveProcessorCount(unsigned short);
__declspec(dllimport) int __stdcall QueryPerformanceCounter(_LARGE_INTEGER*);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(_LARGE_INTEGER*);
}
#else
#include <ctime>
#include <dirent.h>
#endif

namespace hipdnn
{
namespace detail
{

/** A GPU, or the processor with the number -1. */
template <typename>
struct DeviceOf
{
    int number = -1;
    int units = 0;
    uint64_t memory = 0;
    std::string architecture;
};

/** A template, so that a program that does not tune need not compile what it calls. */
template <typename T>
struct SystemOf
{
    using Device = DeviceOf<T>;

#ifdef _WIN32

    /** The names in a folder; false if it is not a folder. */
    static bool read_folder(const std::string& path, std::vector<std::string>& names)
    {
        /* WIN32_FIND_DATAW, which has the name at offset 44. */
        alignas(8) wchar_t entry[512] = {};
        auto* const raw = reinterpret_cast<_WIN32_FIND_DATAW*>(entry);
        void* const search = FindFirstFileW(modules::to_wide(path + "\\*").c_str(), raw);
        if (reinterpret_cast<intptr_t>(search) == -1)
        {
            return false;
        }
        do
        {
            names.push_back(modules::to_utf8(entry + 22));
        } while (FindNextFileW(search, raw) != 0);
        FindClose(search);
        return true;
    }

    /** The folder of a loaded library, by one of its functions. */
    static std::string folder_of_backend(const char* name, const void* function)
    {
        constexpr unsigned long UNCHANGED_COUNT = 2;
        HINSTANCE__* module = nullptr;
        return GetModuleHandleExW(UNCHANGED_COUNT, modules::to_wide(name).c_str(), &module) != 0
                   ? modules::folder_of_module(module)
                   : modules::folder_of(function);
    }

    static int processors() { return static_cast<int>(GetActiveProcessorCount(0xffff)); }

    /** Nanoseconds of a monotonic clock. */
    static double now()
    {
        long long count = 0, each_second = 1;
        QueryPerformanceCounter(reinterpret_cast<_LARGE_INTEGER*>(&count));
        QueryPerformanceFrequency(reinterpret_cast<_LARGE_INTEGER*>(&each_second));
        return static_cast<double>(count) / static_cast<double>(each_second) * 1e9;
    }

#else

    /** The names in a folder; false if it is not a folder. */
    static bool read_folder(const std::string& path, std::vector<std::string>& names)
    {
        DIR* const folder = opendir(path.c_str());
        while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder))
        {
            names.emplace_back(entry->d_name);
        }
        return folder != nullptr && closedir(folder) == 0;
    }

    /**
     * The folder of a loaded library, by one of its functions. Looked up in the library itself: in programs at fixed addresses, the address of a
     * library's function may be in the program.
     */
    static std::string folder_of_backend(const char* name, const void* function)
    {
        void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
        const void* const own = library == nullptr ? nullptr : dlsym(library, "hipdnnCreate");
        return modules::folder_of(own == nullptr ? function : own);
    }

    static int processors() { return static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)); }

    /** Nanoseconds of a monotonic clock. */
    static double now()
    {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    }

#endif

    /** The path in a variable, with a leading `~` expanded; empty if it is unset or must not be used. */
    static std::string path_in(const char* name)
    {
        std::string path, home;
        if (modules::is_secure() || !modules::read_variable(name, path))
        {
            return "";
        }
        const bool in_home = path[0] == '~' && (path.size() == 1 || path[1] == '/');
        return in_home && modules::read_variable("HOME", home) ? home + path.substr(1) : path;
    }

    /** A file, or the shared libraries in a folder, sorted by name. */
    static std::vector<std::string> libraries_in(const std::string& place)
    {
        std::vector<std::string> names, paths;
        if (!read_folder(place, names))
        {
            return modules::is_file(place) ? std::vector<std::string>{place} : paths;
        }
        std::string ending = modules::BACKEND;
        ending.erase(0, ending.rfind('.'));
        std::sort(names.begin(), names.end());
        for (const std::string& name : names)
        {
            const std::string path = place + modules::SEPARATOR + name;
            if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0 &&
                modules::is_file(path))
            {
                paths.push_back(path);
            }
        }
        return paths;
    }

    /** The first GPU, or the processor. */
    static Device device()
    {
        Device found;
        if (!hip_device(found) && !cuda_device(found))
        {
            found = Device();
            found.units = processors();
            found.architecture = processor_name();
        }
        return found;
    }

private:
    /** A library by one of its names; null if none is found. */
    static void* open_any(std::initializer_list<const char*> names)
    {
        for (const char* name : names)
        {
            std::string reason;
            if (void* library = modules::open(name, reason))
            {
                return library;
            }
        }
        return nullptr;
    }

    template <typename Function>
    static bool find(void* library, const char* name, Function& function)
    {
        function = library == nullptr ? nullptr : reinterpret_cast<Function>(modules::find(library, name));
        return function != nullptr;
    }

    /** HIP's first device, as described by runtimes since version 6. */
    static bool hip_device(Device& device)
    {
        void* const hip = open_any({"libamdhip64.so.7", "libamdhip64.so.6", "amdhip64_7.dll", "amdhip64_6.dll"});
        int (*count)(int*);
        int (*describe)(void*, int);
        int devices = 0;
        /* The offset of the used fields in hipDeviceProp_tR0600, and more room than it takes. */
        constexpr size_t MEMORY = 288, UNITS = 388, ARCHITECTURE = 1160;
        alignas(16) char room[8192] = {};
        if (!find(hip, "hipGetDeviceCount", count) || !find(hip, "hipGetDevicePropertiesR0600", describe) ||
            count(&devices) != 0 || devices < 1 || describe(room, 0) != 0)
        {
            return false;
        }
        std::copy_n(room + MEMORY, sizeof device.memory, reinterpret_cast<char*>(&device.memory));
        std::copy_n(room + UNITS, sizeof device.units, reinterpret_cast<char*>(&device.units));
        device.architecture = room + ARCHITECTURE;
        device.number = 0;
        return true;
    }

    /** CUDA's first device. */
    static bool cuda_device(Device& device)
    {
        void* const cuda = open_any({"libcuda.so.1", "nvcuda.dll"});
        int (*begin)(unsigned);
        int (*get)(int*, int);
        int (*name_of)(char*, int, int);
        int (*attribute)(int*, int, int);
        int (*total)(size_t*, int);
        constexpr int MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76;
        int first = 0, major = 0, minor = 0;
        size_t memory = 0;
        char name[128] = {};
        if (!find(cuda, "cuInit", begin) || !find(cuda, "cuDeviceGet", get) ||
            !find(cuda, "cuDeviceGetName", name_of) || !find(cuda, "cuDeviceGetAttribute", attribute) ||
            !find(cuda, "cuDeviceTotalMem_v2", total) || begin(0) != 0 || get(&first, 0) != 0 ||
            name_of(name, 127, first) != 0 || total(&memory, first) != 0 ||
            attribute(&device.units, MULTIPROCESSORS, first) != 0 || attribute(&major, MAJOR, first) != 0 ||
            attribute(&minor, MINOR, first) != 0)
        {
            return false;
        }
        device.number = 0;
        device.memory = memory;
        device.architecture = "sm_" + std::to_string(major) + std::to_string(minor) + ", " + name;
        return true;
    }

    static std::string processor_name()
    {
#if defined(__x86_64__) || defined(_M_X64)
        std::string name = "x86_64";
#elif defined(__aarch64__) || defined(_M_ARM64)
        std::string name = "aarch64";
#else
        std::string name = "unknown";
#endif
        FILE* const list = fopen("/proc/cpuinfo", "r");
        char line[512];
        while (list != nullptr && fgets(line, sizeof line, list) != nullptr)
        {
            const std::string text = line;
            const size_t begin = text.find(": ");
            if (text.rfind("model name", 0) == 0 && begin != std::string::npos)
            {
                name += text.substr(begin, text.find_last_not_of(" \n") + 1 - begin);
                break;
            }
        }
        if (list != nullptr)
        {
            fclose(list);
        }
        return name;
    }
};

} // namespace detail
} // namespace hipdnn
