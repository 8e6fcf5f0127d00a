/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Arithmetic of sizes that does not overflow, whatever numbers a program gives.
 */
#pragma once

#include <cstdint>
#include <limits>

namespace hipdnn
{
namespace detail
{

/** A 64-bit integer. Sums and products that do not fit stay at the nearest integer, and say so. */
class Checked
{
public:
    Checked(int64_t value) : _value(value) {}

    /** The integer, or the nearest one if a step on the way did not fit. */
    int64_t value() const { return _value; }
    /** Whether all steps on the way fit 64 bits. */
    bool fits() const { return _fits; }

    friend Checked operator+(Checked a, Checked b)
    {
        const bool above = b._value > 0 && a._value > MOST - b._value;
        const bool below = b._value < 0 && a._value < LEAST - b._value;
        return made(a, b, above, below, above || below ? 0 : a._value + b._value);
    }
    friend Checked operator-(Checked a, Checked b)
    {
        const bool above = b._value < 0 && a._value > MOST + b._value;
        const bool below = b._value > 0 && a._value < LEAST + b._value;
        return made(a, b, above, below, above || below ? 0 : a._value - b._value);
    }
    friend Checked operator*(Checked a, Checked b)
    {
        if (a._value == 0 || b._value == 0)
        {
            return made(a, b, false, false, 0);
        }
        const bool negative = (a._value < 0) != (b._value < 0);
        const uint64_t limit = negative ? uint64_t{1} << 63 : static_cast<uint64_t>(MOST);
        const bool outside = magnitude(a._value) > limit / magnitude(b._value);
        return made(a, b, outside && !negative, outside && negative, outside ? 0 : a._value * b._value);
    }
    /** Rounds toward 0. The divisor is above 0. */
    friend Checked operator/(Checked a, Checked b) { return made(a, b, false, false, a._value / b._value); }

private:
    static constexpr int64_t LEAST = std::numeric_limits<int64_t>::min(), MOST = std::numeric_limits<int64_t>::max();

    static uint64_t magnitude(int64_t value)
    {
        return value < 0 ? static_cast<uint64_t>(-(value + 1)) + 1 : static_cast<uint64_t>(value);
    }
    static Checked made(Checked a, Checked b, bool above, bool below, int64_t value)
    {
        Checked result(above ? MOST : below ? LEAST : value);
        result._fits = a._fits && b._fits && !above && !below;
        return result;
    }

    int64_t _value;
    bool _fits = true;
};

} // namespace detail
} // namespace hipdnn
