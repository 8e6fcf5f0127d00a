// Comparisons: VOPC and their VOP3 forms.
#include "wave.h"

namespace softhip {

namespace {

// The lanes of the wave in which the relation holds.
template <class A, class B> u32 compare(Wave &wave, int cond, A a, B b) {
  u32 r = 0;
  wave.each([&](int l) {
    auto x = a[l], y = b[l];
    int rel = x < y ? 1 : x == y ? 2 : x > y ? 4 : 8;
    r |= (u32)((cond & rel) != 0) << l;
  });
  return r;
}
template <class T> struct Half {
  const u32 *p;
  auto operator[](int l) const { if constexpr (std::is_same<T, f16>::value) return h2f(p[l]); else return (T)p[l]; }
};
template <class T> bool in_class(T x, u32 m) {
  int k;
  bool n = std::signbit((double)x);
  switch (std::fpclassify(x)) {
    case FP_NAN: k = 1; break;
    case FP_INFINITE: k = n ? 2 : 9; break;
    case FP_NORMAL: k = n ? 3 : 8; break;
    case FP_SUBNORMAL: k = n ? 4 : 7; break;
    default: k = n ? 5 : 6;
  }
  return m >> k & 1 || (k == 1 && m & 1);
}
}  // namespace

void Wave::vcmp() {
  u32 op = cur->op & 127, r = 0;
  int cond = op & (op < 48 ? 15 : 7);
  if (op < 16) { auto a = H(0), b = H(1); r = compare(*this, cond, Half<f16>{a}, Half<f16>{b}); }
  else if (op < 32) { auto a = F(0), b = F(1); r = compare(*this, cond, a, b); }
  else if (op < 48) { auto a = D(0); auto b = D(1); r = compare(*this, cond, a, b); }
  else if (op < 56) { auto a = H(0, false), b = H(1, false); r = compare(*this, cond, Half<i16>{a}, Half<i16>{b}); }
  else if (op < 64) { auto a = H(0, false), b = H(1, false); r = compare(*this, cond, Half<u16>{a}, Half<u16>{b}); }
  else if (op < 72) { auto a = I(0), b = I(1); r = compare(*this, cond, a, b); }
  else if (op < 80) { auto a = U(0), b = U(1); r = compare(*this, cond, a, b); }
  else if (op < 88) { auto a = QI(0); auto b = QI(1); r = compare(*this, cond, a, b); }
  else if (op < 96) { auto a = Q(0); auto b = Q(1); r = compare(*this, cond, a, b); }
  else if (op == 125) {
    auto a = H(0); auto b = H(1, false);
    each([&](int l) {
      float x = h2f(a[l]);
      bool tiny = (a[l] & 0x7c00) == 0 && (a[l] & 0x3ff);
      r |= (u32)in_class(tiny ? std::copysign(1e-40f, x) : x, b[l]) << l;
    });
  } else if (op == 126) { auto a = F(0); auto b = U(1); each([&](int l) { r |= (u32)in_class(a[l], b[l]) << l; }); }
  else if (op == 127) { auto a = D(0); auto b = U(1); each([&](int l) { r |= (u32)in_class(a[l], b[l]) << l; }); }
  else unknown("VOPC", cur->op);
  set32(cur->op & 128 ? EXEC : cur->dst, r);
}

}  // namespace softhip
