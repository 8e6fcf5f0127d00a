// A wave of 32 lanes: its registers, its operands, and what executes each format of instructions.
#pragma once
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "../dispatch.h"
#include "numbers.h"

namespace softhip {

struct Unknown : std::runtime_error { using runtime_error::runtime_error; };

struct Group {
  const softhip_dispatch &d;
  std::vector<u8> lds;
  explicit Group(const softhip_dispatch &d) : d(d), lds(std::max<size_t>(d.lds, 4) + 64, kGarbage) {}
};

// A vector instruction in the operand form that VOP1, VOP2, VOPC, VOP3 and their DPP variants share.
// `op` is the number in VOP3's space: compares at 0, VOP2 at 0x100, VOP1 at 0x180.
struct VOp {
  u32 op;
  int src[3];
  int dst, sdst;
  u32 neg, abs, omod, opsel;
  bool clamp, e32;
  const u8 *lane0;  // DPP: the lane each lane reads src0 from, 255 for none (reads zero)
};

struct Wave {
  Group &g;
  const u32 *pc;
  u32 s[130];
  u32 v[256][kLanes];
  bool scc = false, done = false;
  u32 lit = 0;
  std::vector<u8> scratch;
  u64 count = 0;

  explicit Wave(Group &g) : g(g), pc((const u32 *)g.d.entry), scratch((size_t)g.d.scratch * kLanes, kGarbage) {
    memset(v, kGarbage, sizeof v);
    memset(s, kGarbage, sizeof s);
    s[NUL] = 0;
  }

  u64 touch(u64 p, u32 n) {
    if (g.d.valid && !g.d.valid(p, n)) {
      char t[160];
      snprintf(t, sizeof t, "rdna3: %u bytes at %#zx, before +0x%zx of the kernel, are in no allocation", n, (size_t)p,
               (size_t)((const u8 *)pc - (const u8 *)g.d.entry));
      throw Unknown(t);
    }
    return p;
  }
  [[noreturn]] void unknown(const char *what, u32 op) {
    char t[160];
    snprintf(t, sizeof t, "rdna3: unknown %s %u at +0x%zx: %08x %08x", what, op,
             (size_t)((const u8 *)pc - (const u8 *)g.d.entry), pc[0], pc[1]);
    throw Unknown(t);
  }

  // ------------------------------------------------------------------------------ scalar operands
  u32 s32(int c) {
    if (c < 128) return s[c];
    if (c <= 192) return c - 128;
    if (c <= 208) return 192 - c;
    switch (c) {
      case 235: case 236: case 237: case 238: return 0;
      case 240: return bits<u32>(0.5f);
      case 241: return bits<u32>(-0.5f);
      case 242: return bits<u32>(1.f);
      case 243: return bits<u32>(-1.f);
      case 244: return bits<u32>(2.f);
      case 245: return bits<u32>(-2.f);
      case 246: return bits<u32>(4.f);
      case 247: return bits<u32>(-4.f);
      case 248: return 0x3e22f983;
      case 253: return scc;
      case 255: return lit;
    }
    unknown("scalar source", c);
  }
  u64 s64(int c, bool floating = false) {
    if (c < 128) return s[c] | (u64)s[c + 1] << 32;
    if (c <= 208) return (i64)(i32)s32(c);
    if (c == 235) return kShared << 32;
    if (c == 237) return kPrivate << 32;
    if (c == 248) return 0x3fc45f306dc9c882;
    if (c >= 240 && c < 248) return bits<u64>((double)bits<float>(s32(c)));
    if (c == 255) return floating ? (u64)lit << 32 : lit;
    return s32(c);
  }
  void set32(int d, u32 x) { s[d] = x; s[NUL] = 0; }
  void set64(int d, u64 x) { s[d] = x; s[d + 1] = x >> 32; s[NUL] = 0; }

  // scalar.cpp
  void sop2(u32 w);
  void sop1(u32 w);
  void sopc(u32 w);
  void sopk(u32 w);
  bool sopp(u32 w);
  void smem(u64 w);

  // ------------------------------------------------------------------------------ vector operands
  struct Arg { u32 lo[kLanes], hi[kLanes]; };
  Arg arg[3];
  const VOp *cur;
  u32 mask;

  bool is_vgpr(int c) { return c >= 256; }
  void fetch(int i, u32 *to, int c) {
    if (!is_vgpr(c)) { u32 x = s32(c); for (int l = 0; l < kLanes; l++) to[l] = x; return; }
    const u32 *from = v[c - 256];
    if (i == 0 && cur->lane0)
      for (int l = 0; l < kLanes; l++) to[l] = cur->lane0[l] == 255 ? 0 : from[cur->lane0[l]];
    else memcpy(to, from, sizeof v[0]);
  }
  const u32 *U(int i) { fetch(i, arg[i].lo, cur->src[i]); return arg[i].lo; }
  const i32 *I(int i) { return (const i32 *)U(i); }
  const float *F(int i) {
    u32 *a = arg[i].lo;
    fetch(i, a, cur->src[i]);
    if (cur->abs >> i & 1) for (int l = 0; l < kLanes; l++) a[l] &= 0x7fffffff;
    if (cur->neg >> i & 1) for (int l = 0; l < kLanes; l++) a[l] ^= 0x80000000;
    return (const float *)a;
  }
  const u32 *H(int i, bool floating = true) {  // 16 bits, in the low half
    u32 *a = arg[i].lo;
    int c = cur->src[i];
    bool hi = cur->opsel >> i & 1;
    if (is_vgpr(c)) {
      if (cur->e32) { hi = (c - 256) & 128; c &= ~128; }
      fetch(i, a, c);
    } else {
      u32 x = floating && c >= 240 && c <= 248 ? f2h(bits<float>(s32(c))) : s32(c);
      for (int l = 0; l < kLanes; l++) a[l] = x;
    }
    for (int l = 0; l < kLanes; l++) a[l] = hi ? a[l] >> 16 : a[l] & 0xffff;
    if (cur->abs >> i & 1) for (int l = 0; l < kLanes; l++) a[l] &= 0x7fff;
    if (cur->neg >> i & 1) for (int l = 0; l < kLanes; l++) a[l] ^= 0x8000;
    return a;
  }
  template <class T> struct Wide {
    const Arg *a;
    T operator[](int l) const { return bits<T>(a->lo[l] | (u64)a->hi[l] << 32); }
  };
  void wide(int i, bool floating) {
    int c = cur->src[i];
    if (is_vgpr(c)) { fetch(i, arg[i].lo, c); fetch(i, arg[i].hi, c + 1); }
    else { u64 x = s64(c, floating); for (int l = 0; l < kLanes; l++) { arg[i].lo[l] = x; arg[i].hi[l] = x >> 32; } }
  }
  Wide<u64> Q(int i) { wide(i, false); return {&arg[i]}; }
  Wide<i64> QI(int i) {
    wide(i, false);
    if (cur->src[i] == 255) for (u32 &h : arg[i].hi) h = (i32)lit >> 31;
    return {&arg[i]};
  }
  Wide<double> D(int i) {
    wide(i, true);
    if (cur->abs >> i & 1) for (u32 &h : arg[i].hi) h &= 0x7fffffff;
    if (cur->neg >> i & 1) for (u32 &h : arg[i].hi) h ^= 0x80000000;
    return {&arg[i]};
  }
  bool bit(int c, int l) { return s32(c) >> l & 1; }

  template <class T> T finish(T x) {
    if (cur->omod) x *= cur->omod == 1 ? T(2) : cur->omod == 2 ? T(4) : T(0.5);
    if (cur->clamp) x = !(x > 0) ? T(0) : x > 1 ? T(1) : x;
    return x;
  }
  template <class Fn> void each(Fn f) {
    if (mask == ~0u) for (int l = 0; l < kLanes; l++) f(l);
    else for (int l = 0; l < kLanes; l++) if (mask >> l & 1) f(l);
  }
  // A result is stored by its type: float and double take output modifiers, u16 keeps the other half.
  void put(int l, float x) { v[cur->dst][l] = bits<u32>(cur->omod || cur->clamp ? finish(x) : x); }
  void put(int l, u32 x) { v[cur->dst][l] = x; }
  void put(int l, i32 x) { v[cur->dst][l] = x; }
  void put(int l, u64 x) { v[cur->dst][l] = x; v[cur->dst + 1][l] = x >> 32; }
  void put(int l, i64 x) { put(l, (u64)x); }
  void put(int l, double x) { put(l, bits<u64>(cur->omod || cur->clamp ? finish(x) : x)); }
  void put(int l, u16 x) {
    bool hi = cur->e32 ? cur->dst & 128 : cur->opsel & 8;
    u32 &r = v[cur->e32 ? cur->dst & 127 : cur->dst][l];
    r = hi ? (r & 0xffff) | (u32)x << 16 : (r & 0xffff0000) | x;
  }
  void put(int l, f16 x) { put(l, bits<u16>(cur->omod || cur->clamp ? (f16)finish((float)x) : x)); }

  template <class Fn> void f1(Fn f) { auto a = F(0); each([&](int l) { put(l, f(a[l])); }); }
  template <class Fn> void f2(Fn f) { auto a = F(0), b = F(1); each([&](int l) { put(l, f(a[l], b[l])); }); }
  template <class Fn> void f3(Fn f) { auto a = F(0), b = F(1), c = F(2); each([&](int l) { put(l, f(a[l], b[l], c[l])); }); }
  template <class Fn> void u1(Fn f) { auto a = U(0); each([&](int l) { put(l, f(a[l])); }); }
  template <class Fn> void u2(Fn f) { auto a = U(0), b = U(1); each([&](int l) { put(l, f(a[l], b[l])); }); }
  template <class Fn> void u3(Fn f) { auto a = U(0), b = U(1), c = U(2); each([&](int l) { put(l, f(a[l], b[l], c[l])); }); }
  template <class Fn> void i3(Fn f) { u3([&](u32 a, u32 b, u32 c) { return (u32)f((i32)a, (i32)b, (i32)c); }); }
  template <class Fn> void d1(Fn f) { auto a = D(0); each([&](int l) { put(l, f(a[l])); }); }
  template <class Fn> void d2(Fn f) { auto a = D(0); auto b = D(1); each([&](int l) { put(l, f(a[l], b[l])); }); }
  template <class Fn> void h1(Fn f) { auto a = H(0); each([&](int l) { put(l, (f16)f(h2f(a[l]))); }); }
  template <class Fn> void h2(Fn f) { auto a = H(0), b = H(1); each([&](int l) { put(l, (f16)f(h2f(a[l]), h2f(b[l]))); }); }
  template <class Fn> void h3(Fn f) {
    auto a = H(0), b = H(1), c = H(2);
    each([&](int l) { put(l, (f16)f((double)h2f(a[l]), (double)h2f(b[l]), (double)h2f(c[l]))); });
  }
  template <class Fn> void w2(Fn f) { auto a = H(0, false), b = H(1, false); each([&](int l) { put(l, (u16)f(a[l], b[l])); }); }
  template <class Fn> void w3(Fn f) {
    auto a = H(0, false), b = H(1, false), c = H(2, false);
    each([&](int l) { put(l, (u16)f(a[l], b[l], c[l])); });
  }
  // f(a, b, carry in, carry out)
  template <class Fn> void carry(bool in, Fn f) {
    auto a = U(0), b = U(1);
    u32 out = 0, cin = in ? s32(cur->src[2]) : 0;
    each([&](int l) { bool c = false; put(l, f(a[l], b[l], cin >> l & 1, c)); out |= (u32)c << l; });
    set32(cur->sdst, out);
  }

  // compare.cpp
  void vcmp();

  // vector.cpp
  void valu(const VOp &o);
  void dpp(VOp &o, int code, u32 w);
  void vop_e32(u32 w);
  void vop3(u64 w);

  // packed.cpp
  void vop3p(u64 w);
  void wmma(u32 op, const VOp &o);
  void vopd(u64 w);

  // memory.cpp
  template <class At> void move(u32 op, int vdst, int vdata, At at);
  template <class T> T amo(u32 kind, T old, T x, T y);
  template <class At> void atomic(u32 op, int vdst, int vdata, bool ret, At at);
  template <class At> void access(u32 op, int vdst, int vdata, bool glc, At at);
  u64 scratch_at(int l, u32 off, u32 n) {
    if (off + (u64)n > g.d.scratch) throw Unknown("rdna3: scratch access out of range");
    return (u64)scratch.data() + (u64)l * g.d.scratch + off;
  }
  u64 lds_at(u32 off, u32 n = 4) { return off + (u64)n <= g.lds.size() - 64 ? (u64)g.lds.data() + off : 0; }

  void flat(u64 w);
  void mubuf(u64 w);
  void ds(u64 w);
  u32 tmp[4][kLanes];

  // Runs to the next barrier or to the end.
  void run();
};

}  // namespace softhip
