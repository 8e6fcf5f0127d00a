/* Shared by the C++ tests: checks that end the program and print the line, and tensors of floats. */
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(condition)                                                              \
    do                                                                                \
    {                                                                                 \
        if (!(condition))                                                             \
        {                                                                             \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
            std::exit(1);                                                             \
        }                                                                             \
    } while (false)

/* Any of the frontends' errors: prints the message of one that is bad. */
#define CHECK_GOOD(call)                                                                                              \
    do                                                                                                                \
    {                                                                                                                 \
        const auto check_error = call;                                                                                \
        if (check_error.is_bad())                                                                                     \
        {                                                                                                             \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, check_error.get_message().c_str());    \
            std::exit(1);                                                                                             \
        }                                                                                                             \
    } while (false)

/* A call that must fail with this code and these words in its message. */
#define CHECK_BAD(call, expected, words)                                                                              \
    do                                                                                                                \
    {                                                                                                                 \
        const auto check_error = call;                                                                                \
        if (check_error.get_code() != (expected) || check_error.get_message().find(words) == std::string::npos)       \
        {                                                                                                             \
            std::fprintf(stderr, "%s:%d: %s: code %d, \"%s\"; expected \"%s\"\n", __FILE__, __LINE__, #call,          \
                         static_cast<int>(check_error.get_code()), check_error.get_message().c_str(), words);         \
            std::exit(1);                                                                                             \
        }                                                                                                             \
    } while (false)

/* Numbers between -1 and 1 that differ from element to element. */
inline std::vector<float> numbers(size_t count, unsigned seed = 1)
{
    std::vector<float> made(count);
    for (float& one : made)
    {
        seed = seed * 1664525U + 1013904223U;
        one = static_cast<float>(seed >> 8) / 8388608.0F - 1.0F;
    }
    return made;
}

inline bool close(float a, float b, float tolerance = 1e-4F)
{
    return std::fabs(a - b) <= tolerance * (1.0F + std::fabs(b));
}

inline bool close(const std::vector<float>& a, const std::vector<float>& b, float tolerance = 1e-4F)
{
    for (size_t i = 0; i < a.size(); i++)
    {
        if (!close(a[i], b[i], tolerance))
        {
            std::fprintf(stderr, "element %zu is %g, expected %g\n", i, static_cast<double>(a[i]),
                         static_cast<double>(b[i]));
            return false;
        }
    }
    return a.size() == b.size();
}

/* The file of a plugin among those of the tests. */
inline std::string library(const char* name)
{
    const char* folder = std::getenv("HIPDNN_TEST_PLUGINS");
    CHECK(folder != nullptr);
#ifdef _WIN32
    return std::string(folder) + "/" + name + ".dll";
#else
    return std::string(folder) + "/lib" + name + ".so";
#endif
}
