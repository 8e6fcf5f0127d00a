/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The names of AMD's types of 16 bits and fewer, which are ours. Conversions to float need no cast here.
 */
#pragma once

#include "../../cpp/small_floats.hpp"

#include <ostream>

namespace hipdnn_data_sdk
{
namespace types
{

using ::hipdnn::bfloat16;
using ::hipdnn::fp4_e2m1;
using ::hipdnn::fp6_e2m3;
using ::hipdnn::fp6_e3m2;
using ::hipdnn::fp8_e4m3;
using ::hipdnn::fp8_e4m3_fnuz;
using ::hipdnn::fp8_e5m2;
using ::hipdnn::fp8_e5m2_fnuz;
using ::hipdnn::fp8_e8m0;
using ::hipdnn::half;

/* Functions of the language's own numbers, so that templates call them as those of the types above. */
using std::abs;
using std::acos;
using std::asin;
using std::atan;
using std::ceil;
using std::copysign;
using std::cos;
using std::cosh;
using std::erf;
using std::exp;
using std::exp2;
using std::fabs;
using std::floor;
using std::fma;
using std::fmod;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::log;
using std::log10;
using std::log2;
using std::max;
using std::min;
using std::pow;
using std::round;
using std::signbit;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
using std::trunc;

inline half operator""_h(long double value) { return half(value); }
inline bfloat16 operator""_bf(long double value) { return bfloat16(value); }
inline fp8_e4m3 operator""_e4m3(long double value) { return fp8_e4m3(value); }
inline fp8_e5m2 operator""_e5m2(long double value) { return fp8_e5m2(value); }
inline fp8_e8m0 operator""_e8m0(long double value) { return fp8_e8m0(value); }
inline fp4_e2m1 operator""_e2m1(long double value) { return fp4_e2m1(value); }

} // namespace types
} // namespace hipdnn_data_sdk
