/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Floats of 16 bits and fewer, computed with as float. They have the members of AMD's types of the same names.
 */
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <limits>
#include <type_traits>

namespace hipdnn
{
namespace detail
{

/** Operators and functions of a type that converts to float and from it. */
template <typename Self>
struct ComputedAsFloat
{
    friend Self operator+(Self a, Self b) { return Self(float(a) + float(b)); }
    friend Self operator-(Self a, Self b) { return Self(float(a) - float(b)); }
    friend Self operator*(Self a, Self b) { return Self(float(a) * float(b)); }
    friend Self operator/(Self a, Self b) { return Self(float(a) / float(b)); }
    friend Self& operator+=(Self& a, Self b) { return a = a + b; }
    friend Self& operator-=(Self& a, Self b) { return a = a - b; }
    friend Self& operator*=(Self& a, Self b) { return a = a * b; }
    friend Self& operator/=(Self& a, Self b) { return a = a / b; }
    friend Self operator+(Self x) { return x; }
    friend Self operator-(Self x) { return Self::from_bits(x.data ^ Self::SIGN); }
    friend bool operator==(Self a, Self b) { return float(a) == float(b); }
    friend bool operator!=(Self a, Self b) { return float(a) != float(b); }
    friend bool operator<(Self a, Self b) { return float(a) < float(b); }
    friend bool operator>(Self a, Self b) { return float(a) > float(b); }
    friend bool operator<=(Self a, Self b) { return float(a) <= float(b); }
    friend bool operator>=(Self a, Self b) { return float(a) >= float(b); }

    friend bool isnan(Self x) { return std::isnan(float(x)); }
    friend bool isinf(Self x) { return std::isinf(float(x)); }
    friend bool isfinite(Self x) { return std::isfinite(float(x)); }
    friend bool signbit(Self x) { return (x.data & Self::SIGN) != 0; }
    friend Self abs(Self x) { return signbit(x) ? -x : x; }
    friend Self fabs(Self x) { return abs(x); }
    friend Self copysign(Self x, Self y) { return signbit(x) == signbit(y) ? x : -x; }
    friend Self max(Self a, Self b) { return Self(std::fmax(float(a), float(b))); }
    friend Self min(Self a, Self b) { return Self(std::fmin(float(a), float(b))); }
    friend Self floor(Self x) { return Self(std::floor(float(x))); }
    friend Self ceil(Self x) { return Self(std::ceil(float(x))); }
    friend Self round(Self x) { return Self(std::round(float(x))); }
    friend Self trunc(Self x) { return Self(std::trunc(float(x))); }
    friend Self exp(Self x) { return Self(std::exp(float(x))); }
    friend Self exp2(Self x) { return Self(std::exp2(float(x))); }
    friend Self log(Self x) { return Self(std::log(float(x))); }
    friend Self log2(Self x) { return Self(std::log2(float(x))); }
    friend Self log10(Self x) { return Self(std::log10(float(x))); }
    friend Self sqrt(Self x) { return Self(std::sqrt(float(x))); }
    friend Self rsqrt(Self x) { return Self(1.0F / std::sqrt(float(x))); }
    friend Self pow(Self x, Self y) { return Self(std::pow(float(x), float(y))); }
    friend Self sin(Self x) { return Self(std::sin(float(x))); }
    friend Self cos(Self x) { return Self(std::cos(float(x))); }
    friend Self tan(Self x) { return Self(std::tan(float(x))); }
    friend Self asin(Self x) { return Self(std::asin(float(x))); }
    friend Self acos(Self x) { return Self(std::acos(float(x))); }
    friend Self atan(Self x) { return Self(std::atan(float(x))); }
    friend Self sinh(Self x) { return Self(std::sinh(float(x))); }
    friend Self cosh(Self x) { return Self(std::cosh(float(x))); }
    friend Self tanh(Self x) { return Self(std::tanh(float(x))); }
    friend Self erf(Self x) { return Self(std::erf(float(x))); }
    friend Self fmod(Self x, Self y) { return Self(std::fmod(float(x), float(y))); }
    friend Self fma(Self x, Self y, Self z) { return Self(std::fma(float(x), float(y), float(z))); }

    template <typename Traits>
    friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream, Self x)
    {
        return stream << float(x);
    }
};

/** The bits of a 16-bit float as vendors' headers name them. */
struct RawFloat16
{
    uint16_t x;
};

/** A float in 16 bits, rounded to nearest even; `Exponent` bits of the exponent, `Mantissa` of the fraction. */
template <int Exponent, int Mantissa>
class SmallFloat : public ComputedAsFloat<SmallFloat<Exponent, Mantissa>>
{
public:
    static constexpr uint16_t SIGN = 1U << (Exponent + Mantissa);
    /* The largest exponent, and infinity. */
    static constexpr uint16_t TOP = ((1U << Exponent) - 1) << Mantissa;

    uint16_t data = 0;

    constexpr SmallFloat() = default;
    constexpr SmallFloat(RawFloat16 raw) : data(raw.x) {}
    template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
    explicit SmallFloat(Number value) : data(narrow(static_cast<float>(value)))
    {
    }
    /** From another of these types, through float. */
    template <typename Other, typename = decltype(Other::from_bits(0)), typename = void>
    explicit SmallFloat(Other other) : data(narrow(static_cast<float>(other)))
    {
    }
    static constexpr SmallFloat from_bits(uint16_t bits) { return RawFloat16{bits}; }

    operator float() const { return widen(data); }
    constexpr operator RawFloat16() const { return {data}; }

private:
    static constexpr int BIAS = (1 << (Exponent - 1)) - 1;
    static constexpr int LOST = 23 - Mantissa;

    static uint16_t narrow(float value)
    {
        uint32_t wide;
        std::memcpy(&wide, &value, sizeof wide);
        const uint32_t sign = wide >> 31 << (Exponent + Mantissa);
        const uint32_t top = ((1U << Exponent) - 1) << Mantissa;
        const uint32_t magnitude = wide & 0x7fffffffU;
        if (magnitude > 0x7f800000U)
        {
            return static_cast<uint16_t>(sign | top | (1U << (Mantissa - 1)));
        }
        const int exponent = static_cast<int>(magnitude >> 23) - 127 + BIAS;
        const uint64_t fraction = (magnitude & 0x7fffffU) | (magnitude >= 0x800000U ? 0x800000U : 0U);
        /* Numbers below the smallest normal one lose further bits. */
        const int lost = exponent > 0 ? LOST : LOST + 1 - (magnitude >= 0x800000U ? exponent : exponent + 1);
        if (lost > 40)
        {
            return static_cast<uint16_t>(sign);
        }
        uint64_t kept = fraction >> lost;
        const uint64_t rest = fraction & ((uint64_t{1} << lost) - 1), half = uint64_t{1} << (lost - 1);
        kept += rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
        const uint64_t whole = exponent > 0 ? kept + (static_cast<uint64_t>(exponent - 1) << Mantissa) : kept;
        return static_cast<uint16_t>(sign | (whole > top ? top : static_cast<uint32_t>(whole)));
    }

    static float widen(uint16_t bits)
    {
        const uint32_t sign = static_cast<uint32_t>(bits >> (Exponent + Mantissa)) << 31;
        const uint32_t exponent = (bits >> Mantissa) & ((1U << Exponent) - 1);
        uint32_t fraction = bits & ((1U << Mantissa) - 1);
        uint32_t wide;
        if (exponent == (1U << Exponent) - 1)
        {
            wide = sign | 0x7f800000U | fraction << LOST;
        } else if (exponent != 0)
        {
            wide = sign | (exponent - BIAS + 127) << 23 | fraction << LOST;
        } else if (fraction == 0 || Exponent == 8)
        {
            wide = sign | fraction << LOST;
        } else
        {
            uint32_t shifted = 127 - BIAS + 1;
            while ((fraction & (1U << Mantissa)) == 0)
            {
                fraction <<= 1;
                shifted -= 1;
            }
            wide = sign | shifted << 23 | (fraction & ((1U << Mantissa) - 1)) << LOST;
        }
        float value;
        std::memcpy(&value, &wide, sizeof value);
        return value;
    }
};

/** A float in 8 bits or fewer, without a place for more: values beyond the largest become the largest. */
template <typename Format>
class TinyFloat : public ComputedAsFloat<TinyFloat<Format>>
{
public:
    static constexpr uint8_t SIGN = 1U << (Format::EXPONENT + Format::MANTISSA);

    uint8_t data = 0;

    constexpr TinyFloat() = default;
    template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
    explicit TinyFloat(Number value) : data(narrow(static_cast<float>(value)))
    {
    }
    /** From another of these types, through float. */
    template <typename Other, typename = decltype(Other::from_bits(0)), typename = void>
    explicit TinyFloat(Other other) : data(narrow(static_cast<float>(other)))
    {
    }
    static constexpr TinyFloat from_bits(uint8_t bits)
    {
        TinyFloat made;
        made.data = bits & static_cast<uint8_t>(2 * SIGN - 1);
        return made;
    }

    explicit operator float() const
    {
        const uint8_t size = data & static_cast<uint8_t>(SIGN - 1);
        if (Format::is_nan(data))
        {
            return std::numeric_limits<float>::quiet_NaN();
        }
        const int exponent = size >> Format::MANTISSA, fraction = size - (exponent << Format::MANTISSA);
        const int normal = exponent == 0 ? 0 : 1;
        const float value = Format::is_infinite(size)
                                ? std::numeric_limits<float>::infinity()
                                : std::ldexp(static_cast<float>(fraction + (normal << Format::MANTISSA)),
                                             exponent + 1 - normal - Format::BIAS - Format::MANTISSA);
        return (data & SIGN) != 0 ? -value : value;
    }
    explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }

private:
    static uint8_t narrow(float value)
    {
        const bool negative = std::signbit(value);
        if (std::isnan(value))
        {
            return Format::nan(negative);
        }
        const float size = std::fabs(value), largest = static_cast<float>(from_bits(Format::LARGEST));
        uint8_t code = Format::LARGEST;
        if (size < largest)
        {
            const int least = 1 - Format::BIAS, power = size == 0 ? least : std::max(std::ilogb(size), least);
            const float units = std::ldexp(size, Format::MANTISSA - power), whole = std::floor(units);
            auto steps = static_cast<int>(whole);
            steps += units - whole > 0.5F || (units - whole == 0.5F && steps % 2 != 0) ? 1 : 0;
            code = static_cast<uint8_t>(((power - least) << Format::MANTISSA) + steps);
        }
        return static_cast<uint8_t>(code | (negative && (code != 0 || Format::HAS_NEGATIVE_ZERO) ? SIGN : 0));
    }
};

/** A format with as many bits of exponent and fraction; an instance says which codes are not numbers. */
template <int Exponent, int Mantissa, int Bias, int Largest>
struct TinyFormat
{
    static constexpr int EXPONENT = Exponent, MANTISSA = Mantissa, BIAS = Bias;
    static constexpr uint8_t LARGEST = Largest;
    static constexpr bool HAS_NEGATIVE_ZERO = true, HAS_NAN = true;
    static constexpr bool is_infinite(uint8_t) { return false; }
};

/** OCP's, without infinity. */
struct FormatE4m3 : TinyFormat<4, 3, 7, 0x7e>
{
    static constexpr bool is_nan(uint8_t bits) { return (bits & 0x7f) == 0x7f; }
    static constexpr uint8_t nan(bool negative) { return negative ? 0xff : 0x7f; }
};
/** OCP's, with infinity, which only from_bits() makes. */
struct FormatE5m2 : TinyFormat<5, 2, 15, 0x7b>
{
    static constexpr bool is_infinite(uint8_t size) { return size == 0x7c; }
    static constexpr bool is_nan(uint8_t bits) { return (bits & 0x7f) > 0x7c; }
    static constexpr uint8_t nan(bool negative) { return negative ? 0xff : 0x7f; }
};
/** Without negative zero, whose code is NaN. */
template <int Exponent, int Mantissa>
struct FormatFnuz : TinyFormat<Exponent, Mantissa, 1 << (Exponent - 1), 0x7f>
{
    static constexpr bool HAS_NEGATIVE_ZERO = false;
    static constexpr bool is_nan(uint8_t bits) { return bits == 0x80; }
    static constexpr uint8_t nan(bool) { return 0x80; }
};
/** Below 8 bits: all codes are numbers, and NaN becomes 0. */
template <int Exponent, int Mantissa, int Bias>
struct FormatMx : TinyFormat<Exponent, Mantissa, Bias, (1 << (Exponent + Mantissa)) - 1>
{
    static constexpr bool HAS_NAN = false;
    static constexpr bool is_nan(uint8_t) { return false; }
    static constexpr uint8_t nan(bool) { return 0; }
};

} // namespace detail

/** IEEE 754's binary16. */
using half = detail::SmallFloat<5, 10>;
/** The upper half of a float. */
using bfloat16 = detail::SmallFloat<8, 7>;
using fp8_e4m3 = detail::TinyFloat<detail::FormatE4m3>;
using fp8_e5m2 = detail::TinyFloat<detail::FormatE5m2>;
using fp8_e4m3_fnuz = detail::TinyFloat<detail::FormatFnuz<4, 3>>;
using fp8_e5m2_fnuz = detail::TinyFloat<detail::FormatFnuz<5, 2>>;
using fp6_e2m3 = detail::TinyFloat<detail::FormatMx<2, 3, 1>>;
using fp6_e3m2 = detail::TinyFloat<detail::FormatMx<3, 2, 3>>;
using fp4_e2m1 = detail::TinyFloat<detail::FormatMx<2, 1, 1>>;

/** A scale of block-scaled tensors: a power of two from 2^-127 to 2^127, or NaN. */
class fp8_e8m0
{
public:
    uint8_t data = 0;

    constexpr fp8_e8m0() = default;
    /** The power of two at or below a value; the least one for values below it. */
    template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
    explicit fp8_e8m0(Number number)
    {
        const auto value = static_cast<float>(number);
        uint32_t wide;
        std::memcpy(&wide, &value, sizeof wide);
        data = std::isnan(value) ? 0xff : std::isinf(value) && value > 0 ? 0xfe : value <= 0 ? 0 : (wide >> 23) & 0xff;
    }
    template <typename Other, typename = decltype(Other::from_bits(0)), typename = void>
    explicit fp8_e8m0(Other other) : fp8_e8m0(static_cast<float>(other))
    {
    }
    static constexpr fp8_e8m0 from_bits(uint8_t bits)
    {
        fp8_e8m0 made;
        made.data = bits;
        return made;
    }

    explicit operator float() const
    {
        return data == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, data - 127);
    }
    explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }

    friend bool isnan(fp8_e8m0 x) { return x.data == 0xff; }
    friend bool isinf(fp8_e8m0) { return false; }
    friend bool isfinite(fp8_e8m0 x) { return x.data != 0xff; }
    friend bool signbit(fp8_e8m0) { return false; }
    friend bool operator==(fp8_e8m0 a, fp8_e8m0 b) { return float(a) == float(b); }
    friend bool operator!=(fp8_e8m0 a, fp8_e8m0 b) { return !(a == b); }
    template <typename Traits>
    friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream, fp8_e8m0 x)
    {
        return stream << float(x);
    }
};

} // namespace hipdnn

/** What programs ask of floating-point types. */
template <int Exponent, int Mantissa>
class std::numeric_limits<hipdnn::detail::SmallFloat<Exponent, Mantissa>>
{
    using Self = hipdnn::detail::SmallFloat<Exponent, Mantissa>;
    static constexpr uint16_t ONE = ((1U << (Exponent - 1)) - 1) << Mantissa;

public:
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
    static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_bounded = true;
    static constexpr bool is_iec559 = Exponent == 5, is_modulo = false, traps = false;
    static constexpr std::float_round_style round_style = std::round_to_nearest;
    static constexpr int digits = Mantissa + 1, radix = 2;
    static constexpr int digits10 = Mantissa * 30103 / 100000, max_digits10 = 2 + (Mantissa + 1) * 30103 / 100000;
    static constexpr int max_exponent = 1 << (Exponent - 1), min_exponent = 3 - max_exponent;
    static constexpr Self min() { return Self::from_bits(1U << Mantissa); }
    static constexpr Self max() { return Self::from_bits(Self::TOP - 1); }
    static constexpr Self lowest() { return Self::from_bits(Self::SIGN | (Self::TOP - 1)); }
    static constexpr Self epsilon() { return Self::from_bits(ONE - (Mantissa << Mantissa)); }
    static constexpr Self round_error() { return Self::from_bits(ONE - (1U << Mantissa)); }
    static constexpr Self infinity() { return Self::from_bits(Self::TOP); }
    static constexpr Self quiet_NaN() { return Self::from_bits(Self::TOP | 1U << (Mantissa - 1)); }
    static constexpr Self signaling_NaN() { return Self::from_bits(Self::TOP | 1U); }
    static constexpr Self denorm_min() { return Self::from_bits(1); }
};

template <typename Format>
class std::numeric_limits<hipdnn::detail::TinyFloat<Format>>
{
    using Self = hipdnn::detail::TinyFloat<Format>;

public:
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
    static constexpr bool has_infinity = Format::is_infinite(0x7c), has_quiet_NaN = Format::HAS_NAN;
    static constexpr bool has_signaling_NaN = false, is_bounded = true, is_iec559 = false, is_modulo = false;
    static constexpr std::float_round_style round_style = std::round_to_nearest;
    static constexpr int digits = Format::MANTISSA + 1, radix = 2;
    static constexpr Self min() { return Self::from_bits(1U << Format::MANTISSA); }
    static constexpr Self max() { return Self::from_bits(Format::LARGEST); }
    static constexpr Self lowest() { return Self::from_bits(Self::SIGN | Format::LARGEST); }
    static constexpr Self infinity() { return has_infinity ? Self::from_bits(0x7c) : max(); }
    static constexpr Self quiet_NaN() { return Self::from_bits(Format::nan(false)); }
    static constexpr Self denorm_min() { return Self::from_bits(1); }
    /** The step from 1 to the next number. */
    static Self epsilon() { return Self(std::ldexp(1.0F, -Format::MANTISSA)); }
    static Self round_error() { return Self(0.5F); }
};
