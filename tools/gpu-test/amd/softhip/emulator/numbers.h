// Numbers as gfx11 computes them: conversions, minima, the steps of a division.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace softhip {

using u8 = uint8_t; using u16 = uint16_t; using u32 = uint32_t; using u64 = uint64_t;
using i16 = int16_t; using i32 = int32_t; using i64 = int64_t; using f16 = _Float16;

constexpr int kLanes = 32, VCC = 106, NUL = 124, M0 = 125, EXEC = 126;
constexpr u8 kGarbage = 0xCB;  // what registers, LDS and scratch hold before the kernel writes them
constexpr u64 kShared = 0x10000, kPrivate = 0x20000;  // high words of the LDS and scratch apertures

template <class T, class S> T bits(S s) {
  static_assert(sizeof(T) == sizeof(S));
  T t;
  memcpy(&t, &s, sizeof t);
  return t;
}
template <class T> T load(u64 p) { T v; memcpy(&v, (void *)p, sizeof v); return v; }
template <class T> void store(u64 p, T v) { memcpy((void *)p, &v, sizeof v); }
inline float h2f(u32 h) { return (float)bits<f16>((u16)h); }
inline u32 f2h(float f) { return bits<u16>((f16)f); }
inline float bf2f(u32 h) { return bits<float>(h << 16); }
inline u32 f2h_rtz(float f) {
  u16 h = f2h(f);
  if (std::isfinite(f) && std::fabs(h2f(h)) > std::fabs(f)) h--;
  return h;
}
inline u32 field(u64 w, int hi, int lo) { return w >> lo & ((2ull << (hi - lo)) - 1); }
template <class I> I sat(double v) {
  if (std::isnan(v)) return 0;
  double lo = (double)std::numeric_limits<I>::min(), hi = (double)std::numeric_limits<I>::max();
  return v <= lo ? std::numeric_limits<I>::min() : v >= hi ? std::numeric_limits<I>::max() : (I)v;
}
template <class F> F fmin_(F a, F b) { return a != a ? b : b != b ? a : a < b || (a == b && std::signbit((double)a)) ? a : b; }
template <class F> F fmax_(F a, F b) { return a != a ? b : b != b ? a : a > b || (a == b && std::signbit((double)b)) ? a : b; }
template <class T> T med3(T a, T b, T c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }
inline float med3f(float a, float b, float c) {
  if (a != a || b != b || c != c) return fmin_(fmin_(a, b), c);
  return med3(a, b, c);
}
inline int expo(float f) { return bits<u32>(f) >> 23 & 0xff; }
inline int expo(double f) { return bits<u64>(f) >> 52 & 0x7ff; }
template <class F> bool denorm(F f) { return std::fpclassify(f) == FP_SUBNORMAL; }

// The three steps of a division: scale the operands, undo the scale, settle the special cases.
template <class F> F div_scale(F s0, F den, F num, bool &vcc) {
  constexpr bool d = sizeof(F) == 8;
  const int up = d ? 128 : 64;
  vcc = false;
  if (num == 0 || den == 0) return NAN;
  if (expo(num) - expo(den) >= (d ? 768 : 96)) { vcc = true; return s0 == den ? std::ldexp(s0, up) : s0; }
  if (denorm(den)) return std::ldexp(s0, up);
  bool rden = denorm(F(1) / den), qden = denorm(num / den) || num / den == 0;
  if (rden && qden) { vcc = true; return s0 == den ? std::ldexp(s0, up) : s0; }
  if (rden) return std::ldexp(s0, -up);
  if (qden) { vcc = true; return s0 == num ? std::ldexp(s0, up) : s0; }
  if (expo(num) <= (d ? 53 : 23)) return std::ldexp(s0, up);
  return s0;
}
template <class F> F div_fmas(F a, F b, F c, bool vcc) {
  constexpr bool d = sizeof(F) == 8;
  F r = std::fma(a, b, c);
  return vcc ? std::ldexp(r, (expo(c) > (d ? 1023 : 127) ? 1 : -1) * (d ? 128 : 64)) : r;
}
template <class F> F div_fixup(F q, F den, F num) {
  F sign = std::signbit(den) != std::signbit(num) ? -1 : 1;
  if (num != num || den != den) return NAN;
  if ((num == 0 && den == 0) || (std::isinf(num) && std::isinf(den))) return -NAN;
  if (den == 0 || std::isinf(num)) return sign * INFINITY;
  if (std::isinf(den) || num == 0) return sign * F(0);
  return sign * std::fabs(q);
}

}  // namespace softhip
