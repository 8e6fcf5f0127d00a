// Packed, matrix and dual instructions: VOP3P, WMMA, VOPD.
#include "wave.h"

namespace softhip {

void Wave::vop3p(u64 w) {
  VOp o = {};
  o.op = field(w, 22, 16);
  o.dst = field(w, 7, 0);
  o.src[0] = field(w, 40, 32);
  o.src[1] = field(w, 49, 41);
  o.src[2] = field(w, 58, 50);
  o.clamp = field(w, 15, 15);
  u32 sel = field(w, 13, 11), sel_hi = field(w, 60, 59) | field(w, 14, 14) << 2;
  u32 neg = field(w, 63, 61), neg_hi = field(w, 10, 8);
  mask = s[EXEC];
  if (o.src[0] == 250 || o.src[0] == 233 || o.src[0] == 234) dpp(o, o.src[0], *pc++);
  else if (o.src[0] == 255 || o.src[1] == 255 || o.src[2] == 255) lit = *pc++;
  cur = &o;
  u32 op = o.op;
  if (op >= 64) { o.opsel = sel; o.neg = neg; return wmma(op, o); }
  bool floating = (op >= 14 && op <= 19) || op == 26 || op >= 32;
  const u32 *a[3];
  for (int i = 0; i < 3; i++) {
    bool full = op >= 32 && !(sel_hi >> i & 1);
    int c = o.src[i];
    a[i] = U(i);
    if (floating && !full && c >= 240 && c <= 248)
      for (u32 &x : arg[i].lo) x = f2h(bits<float>(x));
  }
  auto half = [&](int i, int l, bool top) {
    u32 m = top ? sel_hi : sel, n = top ? neg_hi : neg, x = m >> i & 1 ? a[i][l] >> 16 : a[i][l] & 0xffff;
    return floating && n >> i & 1 ? x ^ 0x8000 : x;
  };
  if (op <= 18) {
    each([&](int l) {
      u32 r[2];
      for (int t = 0; t < 2; t++) {
        u32 x = half(0, l, t), y = half(1, l, t), z = half(2, l, t);
        float p = h2f(x), q = h2f(y);
        switch (op) {
          case 0: case 9: r[t] = x * y + z; break;
          case 1: r[t] = x * y; break;
          case 2: case 10: r[t] = x + y; break;
          case 3: case 11: r[t] = x - y; break;
          case 4: r[t] = y << (x & 15); break;
          case 5: r[t] = y >> (x & 15); break;
          case 6: r[t] = (i16)y >> (x & 15); break;
          case 7: r[t] = std::max((i16)x, (i16)y); break;
          case 8: r[t] = std::min((i16)x, (i16)y); break;
          case 12: r[t] = std::max(x, y); break;
          case 13: r[t] = std::min(x, y); break;
          case 14: r[t] = bits<u16>((f16)std::fma((double)p, (double)q, (double)h2f(z))); break;
          case 15: r[t] = f2h(p + q); break;
          case 16: r[t] = f2h(p * q); break;
          case 17: r[t] = f2h(fmin_(p, q)); break;
          default: r[t] = f2h(fmax_(p, q)); break;
        }
        if (o.clamp && floating) r[t] = f2h(std::min(1.f, std::max(0.f, h2f(r[t]))));
      }
      put(l, (r[0] & 0xffff) | r[1] << 16);
    });
  } else if (op == 19 || op == 26) {
    each([&](int l) {
      auto f = op == 19 ? h2f : bf2f;
      float c = bits<float>(a[2][l]);
      c = neg >> 2 & 1 ? -c : c;
      put(l, f(half(0, l, 0)) * f(half(1, l, 0)) + f(half(0, l, 1)) * f(half(1, l, 1)) + c);
    });
  } else if (op == 22 || op == 23) {
    each([&](int l) {
      u32 r = a[2][l];
      for (int i = 0; i < 32; i += 8) {
        i32 x = op == 22 && neg & 1 ? (int8_t)(a[0][l] >> i) : (u8)(a[0][l] >> i);
        i32 y = op == 22 && neg & 2 ? (int8_t)(a[1][l] >> i) : (u8)(a[1][l] >> i);
        r += x * y;
      }
      put(l, r);
    });
  } else if (op >= 32 && op <= 34) {
    each([&](int l) {
      float x[3];
      for (int i = 0; i < 3; i++) {
        x[i] = !(sel_hi >> i & 1) ? bits<float>(a[i][l]) : h2f(sel >> i & 1 ? a[i][l] >> 16 : a[i][l]);
        if (neg_hi >> i & 1) x[i] = std::fabs(x[i]);
        if (neg >> i & 1) x[i] = -x[i];
      }
      float r = std::fma(x[0], x[1], x[2]);
      u32 &d = v[o.dst][l];
      if (o.clamp) r = std::min(1.f, std::max(0.f, r));
      d = op == 32 ? bits<u32>(r) : op == 33 ? (d & 0xffff0000) | f2h(r) : (d & 0xffff) | f2h(r) << 16;
    });
  } else unknown("VOP3P", op);
}

// 16x16x16: A holds a row per lane, B a column per lane (lanes 16..31 repeat), C rows alternate
// between the halves of the wave.
void Wave::wmma(u32 op, const VOp &o) {
  u32 *a = v[o.src[0] - 256], *b = v[o.src[1] - 256];
  auto at = [](u32 *m, int lane, int k, int wide) { return m[k * wide / 32 * kLanes + lane] >> k * wide % 32; };
  auto c = [&](int l, int i) { return is_vgpr(o.src[2]) ? v[o.src[2] - 256 + i][l] : s32(o.src[2]); };
  u32 out[8][kLanes];
  for (int l = 0; l < kLanes; l++)
    for (int i = 0; i < 8; i++) {
      int row = 2 * i + l / 16, col = l & 15;
      u32 &r = out[i][l];
      if (op == 68 || op == 69) {  // iu8, iu4: the neg bits say signed
        int wide = op == 68 ? 8 : 4;
        auto term = [&](u32 *m, int lane, int k, bool sign) {
          u32 x = at(m, lane, k, wide) << (32 - wide);
          return sign ? (i32)x >> (32 - wide) : (i32)(x >> (32 - wide));
        };
        i64 t = (i32)c(l, i);
        for (int k = 0; k < 16; k++) t += term(a, row, k, o.neg & 1) * term(b, col, k, o.neg & 2);
        r = o.clamp ? sat<i32>(t) : (u32)t;
        continue;
      }
      if (op > 69) unknown("WMMA", op);
      auto f = op == 64 || op == 66 ? h2f : bf2f;
      bool narrow = op >= 66, hi = o.opsel & 4;
      u32 x = c(l, i);
      float t = narrow ? f(hi ? x >> 16 : x & 0xffff) : bits<float>(x);
      for (int k = 0; k < 16; k++) t += f(at(a, row, k, 16) & 0xffff) * f(at(b, col, k, 16) & 0xffff);
      if (!narrow) { r = bits<u32>(t); continue; }
      u32 h = op == 66 ? f2h(t) : (bits<u32>(t) + 0x7fff + (bits<u32>(t) >> 16 & 1)) >> 16, d = v[o.dst + i][l];
      r = hi ? (d & 0xffff) | h << 16 : (d & 0xffff0000) | h;
    }
  for (int i = 0; i < 8; i++) memcpy(v[o.dst + i], out[i], sizeof out[i]);
}

void Wave::vopd(u64 w) {
  int dst[2] = {(int)field(w, 63, 56), 0};
  dst[1] = field(w, 55, 49) << 1 | (~dst[0] & 1);
  u32 op[2] = {field(w, 25, 22), field(w, 21, 17)};
  int c0[2] = {(int)field(w, 8, 0), (int)field(w, 40, 32)};
  int c1[2] = {(int)field(w, 16, 9), (int)field(w, 48, 41)};
  if (c0[0] == 255 || c0[1] == 255 || op[0] == 1 || op[0] == 2 || op[1] == 1 || op[1] == 2) lit = *pc++;
  mask = s[EXEC];
  VOp o = {};
  cur = &o;
  u32 out[2][kLanes], vcc = s[VCC];
  float k = bits<float>(lit);
  for (int t = 0; t < 2; t++) {
    o.src[0] = c0[t];
    o.src[1] = 256 + c1[t];
    auto a = U(0), b = U(1), d = (const u32 *)v[dst[t]];
    auto x = (const float *)a, y = (const float *)b, z = (const float *)d;
    u32 *r = out[t];
    auto all = [&](auto f) {
      for (int l = 0; l < kLanes; l++) {
        auto q = f(l);
        if constexpr (std::is_same<decltype(q), float>::value) r[l] = bits<u32>(q); else r[l] = q;
      }
    };
    switch (op[t]) {
      case 0: all([&](int l) { return std::fma(x[l], y[l], z[l]); }); break;
      case 1: all([&](int l) { return std::fma(x[l], y[l], k); }); break;
      case 2: all([&](int l) { return std::fma(x[l], k, y[l]); }); break;
      case 3: all([&](int l) { return x[l] * y[l]; }); break;
      case 4: all([&](int l) { return x[l] + y[l]; }); break;
      case 5: all([&](int l) { return x[l] - y[l]; }); break;
      case 6: all([&](int l) { return y[l] - x[l]; }); break;
      case 7: all([&](int l) { return x[l] == 0 || y[l] == 0 ? 0.f : x[l] * y[l]; }); break;
      case 8: all([&](int l) { return a[l]; }); break;
      case 9: all([&](int l) { return vcc >> l & 1 ? b[l] : a[l]; }); break;
      case 10: all([&](int l) { return fmax_(x[l], y[l]); }); break;
      case 11: all([&](int l) { return fmin_(x[l], y[l]); }); break;
      case 12: all([&](int l) { return z[l] + h2f(a[l]) * h2f(b[l]) + h2f(a[l] >> 16) * h2f(b[l] >> 16); }); break;
      case 16: all([&](int l) { return a[l] + b[l]; }); break;
      case 17: all([&](int l) { return b[l] << (a[l] & 31); }); break;
      case 18: all([&](int l) { return a[l] & b[l]; }); break;
      default: unknown("VOPD", op[t]);
    }
  }
  each([&](int l) { v[dst[0]][l] = out[0][l]; v[dst[1]][l] = out[1][l]; });
}

}  // namespace softhip
