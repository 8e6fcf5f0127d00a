/* As much of Catch2 as the samples use: cases, checks, and generators whose values are taken one run after the other. */
#pragma once
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace cases {

struct Skip {
    std::string words;
};
struct Fail {
    std::string words;
};
struct Case {
    const char* name;
    void (*run)();
};

inline std::vector<Case>& all()
{
    static std::vector<Case> list;
    return list;
}
struct Add {
    Add(const char* name, void (*run)()) { all().push_back({name, run}); }
};
inline std::string& wrong()
{
    static std::string words;
    return words;
}

/** Which value each generator of a case gives in this run, and how many it has. */
struct Places {
    std::vector<size_t> at, of;
    size_t next = 0;
};
inline Places& places()
{
    static Places made;
    return made;
}
template <class T>
T generate(const std::vector<T>& values)
{
    Places& here = places();
    const size_t which = here.next++;
    if (here.at.size() <= which) {
        here.at.push_back(0);
        here.of.push_back(values.size());
    }
    return values[here.at[which]];
}
/** Goes to the next values; false where all were taken. */
inline bool advance()
{
    Places& here = places();
    for (size_t i = here.at.size(); i-- > 0;) {
        if (++here.at[i] < here.of[i]) {
            here.at.resize(i + 1);
            here.of.resize(i + 1);
            return true;
        }
    }
    here = {};
    return false;
}

template <class... T>
auto list(T... values)
{
    return std::vector<std::common_type_t<T...>>{values...};
}
template <class T>
auto list(std::vector<T> values)
{
    return values;
}
inline std::string joined(const char* file, int line, const char* words)
{
    const char* slash = std::strrchr(file, '/');
    return std::string(slash == nullptr ? file : slash + 1) + ":" + std::to_string(line) + " " + words;
}

} // namespace cases

#define CASES_JOIN_NOW(a, b) a##b
#define CASES_JOIN(a, b) CASES_JOIN_NOW(a, b)
#define TEST_CASE(name, ...)                                                            \
    static void CASES_JOIN(case_, __LINE__)();                                          \
    static const cases::Add CASES_JOIN(add_, __LINE__)(name, CASES_JOIN(case_, __LINE__)); \
    static void CASES_JOIN(case_, __LINE__)()
#define REQUIRE(...)                                                          \
    do                                                                        \
    {                                                                         \
        if (!(__VA_ARGS__))                                                   \
        {                                                                     \
            throw cases::Fail{cases::joined(__FILE__, __LINE__, #__VA_ARGS__)}; \
        }                                                                     \
    } while (0)
#define CHECK(...)                                                            \
    do                                                                        \
    {                                                                         \
        if (!(__VA_ARGS__))                                                   \
        {                                                                     \
            cases::wrong() = cases::joined(__FILE__, __LINE__, #__VA_ARGS__); \
        }                                                                     \
    } while (0)
#define CASES_THROW(kind, ...)              \
    do                                      \
    {                                       \
        std::ostringstream words;           \
        words << __VA_ARGS__;               \
        throw cases::kind{words.str()};     \
    } while (0)
#define SKIP(...) CASES_THROW(Skip, __VA_ARGS__)
#define FAIL(...) CASES_THROW(Fail, __VA_ARGS__)
#define REQUIRE_FALSE(...) REQUIRE(!(__VA_ARGS__))
#define CHECK_FALSE(...) CHECK(!(__VA_ARGS__))
#define WARN(...) static_cast<void>(0)
#define INFO(...) static_cast<void>(0)
#define SUCCEED(...) static_cast<void>(0)
#define SECTION(...) if (true)
#define DYNAMIC_SECTION(...) if (true)
#define BENCHMARK(...) auto CASES_JOIN(bench_, __LINE__) = [&](int = 0)
#define BENCHMARK_ADVANCED(...) if (true)
#define GENERATE(...) cases::generate(cases::list(__VA_ARGS__))
