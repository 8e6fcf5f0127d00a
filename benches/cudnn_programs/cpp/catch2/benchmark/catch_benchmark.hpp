/* Measurements run once, and are not measured. */
#pragma once
#include "../catch_test_macros.hpp"

namespace Catch::Benchmark {
struct Chronometer {
    int runs() const { return 1; }
    template <class F>
    void measure(F function)
    {
        if constexpr (std::is_invocable_v<F, int>) {
            function(0);
        } else {
            function();
        }
    }
};
} // namespace Catch::Benchmark
namespace cases {
struct Measured {
    template <class F>
    Measured& operator=(F function)
    {
        Catch::Benchmark::Chronometer meter;
        return function(meter), *this;
    }
};
} // namespace cases
#undef BENCHMARK_ADVANCED
#define BENCHMARK_ADVANCED(...)                   \
    cases::Measured CASES_JOIN(measured_, __LINE__); \
    CASES_JOIN(measured_, __LINE__) = [&]
