// Vector instructions: VOP1, VOP2, VOP3 and their DPP variants.
#include "wave.h"

namespace softhip {

void Wave::valu(const VOp &o) {
  cur = &o;
  u32 op = o.op;
  if (op < 0x100) return vcmp();
  switch (op) {
    // VOP2
    case 257: {  // cndmask
      u32 m = s32(o.src[2]);
      auto a = F(0), b = F(1);
      each([&](int l) { put(l, bits<u32>(m >> l & 1 ? b[l] : a[l])); });
      break;
    }
    case 258: {  // dot2acc_f32_f16
      auto a = U(0), b = U(1), c = U(2);
      each([&](int l) { put(l, bits<float>(c[l]) + h2f(a[l]) * h2f(b[l]) + h2f(a[l] >> 16) * h2f(b[l] >> 16)); });
      break;
    }
    case 259: f2([](float a, float b) { return a + b; }); break;
    case 260: f2([](float a, float b) { return a - b; }); break;
    case 261: f2([](float a, float b) { return b - a; }); break;
    case 262: case 521: f3([](float a, float b, float c) { return a == 0 || b == 0 ? c : std::fma(a, b, c); }); break;
    case 263: f2([](float a, float b) { return a == 0 || b == 0 ? 0.f : a * b; }); break;
    case 264: f2([](float a, float b) { return a * b; }); break;
    case 265: u2([](u32 a, u32 b) { return ((i32)(a << 8) >> 8) * ((i32)(b << 8) >> 8); }); break;
    case 266: u2([](u32 a, u32 b) { return (u32)((i64)((i32)(a << 8) >> 8) * ((i32)(b << 8) >> 8) >> 32); }); break;
    case 267: u2([](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); }); break;
    case 268: u2([](u32 a, u32 b) { return (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 32); }); break;
    case 271: f2(fmin_<float>); break;
    case 272: f2(fmax_<float>); break;
    case 273: u2([](u32 a, u32 b) { return std::min((i32)a, (i32)b); }); break;
    case 274: u2([](u32 a, u32 b) { return std::max((i32)a, (i32)b); }); break;
    case 275: u2([](u32 a, u32 b) { return std::min(a, b); }); break;
    case 276: u2([](u32 a, u32 b) { return std::max(a, b); }); break;
    case 280: u2([](u32 a, u32 b) { return b << (a & 31); }); break;
    case 281: u2([](u32 a, u32 b) { return b >> (a & 31); }); break;
    case 282: u2([](u32 a, u32 b) { return (i32)b >> (a & 31); }); break;
    case 283: u2([](u32 a, u32 b) { return a & b; }); break;
    case 284: u2([](u32 a, u32 b) { return a | b; }); break;
    case 285: u2([](u32 a, u32 b) { return a ^ b; }); break;
    case 286: u2([](u32 a, u32 b) { return ~(a ^ b); }); break;
    case 288: case 768: carry(op == 288, [](u32 a, u32 b, u32 c, bool &o) { u64 t = (u64)a + b + c; o = t >> 32; return (u32)t; }); break;
    case 289: case 769: carry(op == 289, [](u32 a, u32 b, u32 c, bool &o) { o = (u64)b + c > a; return a - b - c; }); break;
    case 290: case 770: carry(op == 290, [](u32 a, u32 b, u32 c, bool &o) { o = (u64)a + c > b; return b - a - c; }); break;
    case 293: u2([&](u32 a, u32 b) { return o.clamp && a + b < a ? ~0u : a + b; }); break;
    case 294: u2([&](u32 a, u32 b) { return o.clamp && b > a ? 0u : a - b; }); break;
    case 295: u2([&](u32 a, u32 b) { return o.clamp && a > b ? 0u : b - a; }); break;
    case 299: f3([](float a, float b, float c) { return std::fma(a, b, c); }); break;
    case 300: { float k = bits<float>(lit); f2([k](float a, float b) { return std::fma(a, k, b); }); break; }
    case 301: { float k = bits<float>(lit); f2([k](float a, float b) { return std::fma(a, b, k); }); break; }
    case 303: { auto a = F(0), b = F(1); each([&](int l) { put(l, f2h_rtz(a[l]) | f2h_rtz(b[l]) << 16); }); break; }
    case 306: h2([](float a, float b) { return a + b; }); break;
    case 307: h2([](float a, float b) { return a - b; }); break;
    case 308: h2([](float a, float b) { return b - a; }); break;
    case 309: h2([](float a, float b) { return a * b; }); break;
    case 310: case 584: h3([](double a, double b, double c) { return std::fma(a, b, c); }); break;
    case 311: { double k = h2f(lit); h2([k](double a, double b) { return std::fma(a, k, b); }); break; }
    case 312: { double k = h2f(lit); h2([k](double a, double b) { return std::fma(a, b, k); }); break; }
    case 313: h2(fmax_<float>); break;
    case 314: h2(fmin_<float>); break;
    case 315: { auto a = H(0); auto b = H(1, false); each([&](int l) { put(l, (f16)std::ldexp(h2f(a[l]), (i16)b[l])); }); break; }
    case 316: {  // pk_fmac_f16
      auto a = U(0), b = U(1), c = U(2);
      each([&](int l) {
        u32 lo = f2h(std::fma((double)h2f(a[l]), h2f(b[l]), h2f(c[l])));
        put(l, lo | f2h(std::fma((double)h2f(a[l] >> 16), h2f(b[l] >> 16), h2f(c[l] >> 16))) << 16);
      });
      break;
    }
    // VOP1
    case 384: break;
    case 385: u1([](u32 a) { return a; }); break;
    case 386: {
      int l = s[EXEC] ? __builtin_ctz(s[EXEC]) : 0;
      set32(o.dst, U(0)[l]);
      break;
    }
    case 387: d1([](double a) { return sat<i32>(std::trunc(a)); }); break;
    case 388: u1([](u32 a) { return (double)(i32)a; }); break;
    case 389: u1([](u32 a) { return (float)(i32)a; }); break;
    case 390: u1([](u32 a) { return (float)a; }); break;
    case 391: f1([](float a) { return sat<u32>(std::trunc(a)); }); break;
    case 392: f1([](float a) { return sat<i32>(std::trunc(a)); }); break;
    case 394: f1([](float a) { return (f16)a; }); break;
    case 395: { auto a = H(0); each([&](int l) { put(l, h2f(a[l])); }); break; }
    case 396: f1([](float a) { return sat<i32>(std::floor(a + 0.5f)); }); break;
    case 397: f1([](float a) { return sat<i32>(std::floor(a)); }); break;
    case 398: u1([](u32 a) { return (float)((i32)(a << 28) >> 28) / 16; }); break;
    case 399: d1([](double a) { return (float)a; }); break;
    case 400: f1([](float a) { return (double)a; }); break;
    case 401: case 402: case 403: case 404: u1([&](u32 a) { return (float)(a >> 8 * (op - 401) & 255); }); break;
    case 405: d1([](double a) { return sat<u32>(std::trunc(a)); }); break;
    case 406: u1([](u32 a) { return (double)a; }); break;
    case 407: d1([](double a) { return std::trunc(a); }); break;
    case 408: d1([](double a) { return std::ceil(a); }); break;
    case 409: d1([](double a) { return std::nearbyint(a); }); break;
    case 410: d1([](double a) { return std::floor(a); }); break;
    case 412: { auto a = H(0, false); each([&](int l) { put(l, (u16)a[l]); }); break; }
    case 416: f1([](float a) { return std::min(a - std::floor(a), 0x1.fffffep-1f); }); break;
    case 417: f1([](float a) { return std::trunc(a); }); break;
    case 418: f1([](float a) { return std::ceil(a); }); break;
    case 419: f1([](float a) { return std::nearbyint(a); }); break;
    case 420: f1([](float a) { return std::floor(a); }); break;
    case 421: f1([](float a) { return std::exp2(a); }); break;
    case 423: f1([](float a) { return std::log2(a); }); break;
    case 426: case 427: f1([](float a) { return 1.f / a; }); break;
    case 430: f1([](float a) { return (float)(1 / std::sqrt((double)a)); }); break;
    case 431: d1([](double a) { return 1 / a; }); break;
    case 433: d1([](double a) { return 1 / std::sqrt(a); }); break;
    case 435: f1([](float a) { return std::sqrt(a); }); break;
    case 436: d1([](double a) { return std::sqrt(a); }); break;
    case 437: f1([](float a) { return (float)std::sin(2 * M_PI * a); }); break;
    case 438: f1([](float a) { return (float)std::cos(2 * M_PI * a); }); break;
    case 439: u1([](u32 a) { return ~a; }); break;
    case 440: u1([](u32 a) { u32 r = 0; for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i); return r; }); break;
    case 441: u1([](u32 a) { return a ? __builtin_clz(a) : -1; }); break;
    case 442: u1([](u32 a) { return a ? __builtin_ctz(a) : -1; }); break;
    case 443: u1([](u32 a) { return a == 0 || a == ~0u ? -1 : __builtin_clz((i32)a < 0 ? ~a : a); }); break;
    case 444: d1([](double a) { int e = 0; if (std::isfinite(a)) std::frexp(a, &e); return (i32)e; }); break;
    case 445: d1([](double a) { int e; return std::isfinite(a) ? std::frexp(a, &e) : a; }); break;
    case 446: d1([](double a) { return std::min(a - std::floor(a), 0x1.fffffffffffffp-1); }); break;
    case 447: f1([](float a) { int e = 0; if (std::isfinite(a)) std::frexp(a, &e); return (i32)e; }); break;
    case 448: f1([](float a) { int e; return std::isfinite(a) ? std::frexp(a, &e) : a; }); break;
    case 450: { auto a = U(0); u32 d = o.dst + s[M0]; each([&](int l) { v[d][l] = a[l]; }); break; }
    case 451: { u32 c = o.src[0] - 256 + s[M0]; each([&](int l) { v[o.dst][l] = v[c][l]; }); break; }
    case 464: { auto a = H(0, false); each([&](int l) { put(l, (f16)(float)a[l]); }); break; }
    case 465: { auto a = H(0, false); each([&](int l) { put(l, (f16)(float)(i16)a[l]); }); break; }
    case 466: { auto a = H(0); each([&](int l) { put(l, (u16)sat<u16>(std::trunc(h2f(a[l])))); }); break; }
    case 467: { auto a = H(0); each([&](int l) { put(l, (u16)sat<i16>(std::trunc(h2f(a[l])))); }); break; }
    case 468: h1([](float a) { return 1 / a; }); break;
    case 469: h1([](float a) { return std::sqrt(a); }); break;
    case 470: h1([](float a) { return 1 / std::sqrt(a); }); break;
    case 471: h1([](float a) { return std::log2(a); }); break;
    case 472: h1([](float a) { return std::exp2(a); }); break;
    case 473: h1([](float a) { int e; return std::isfinite(a) ? std::frexp(a, &e) : a; }); break;
    case 474: { auto a = H(0); each([&](int l) { int e = 0; float x = h2f(a[l]); if (std::isfinite(x)) std::frexp(x, &e); put(l, (u16)e); }); break; }
    case 475: h1([](float a) { return std::floor(a); }); break;
    case 476: h1([](float a) { return std::ceil(a); }); break;
    case 477: h1([](float a) { return std::trunc(a); }); break;
    case 478: h1([](float a) { return std::nearbyint(a); }); break;
    case 479: h1([](float a) { return a - std::floor(a); }); break;
    case 480: h1([](float a) { return (float)std::sin(2 * M_PI * a); }); break;
    case 481: h1([](float a) { return (float)std::cos(2 * M_PI * a); }); break;
    case 485: each([&](int l) { std::swap(v[o.dst][l], v[o.src[0] - 256][l]); }); break;
    case 489: { auto a = H(0, false); each([&](int l) { put(l, (u16)~a[l]); }); break; }
    case 490: { auto a = H(0, false); each([&](int l) { put(l, (i32)(i16)a[l]); }); break; }
    case 491: { auto a = H(0, false); each([&](int l) { put(l, a[l]); }); break; }
    // VOP3 only
    case 522: u3([](u32 a, u32 b, u32 c) { return ((i32)(a << 8) >> 8) * ((i32)(b << 8) >> 8) + c; }); break;
    case 523: u3([](u32 a, u32 b, u32 c) { return (a & 0xffffff) * (b & 0xffffff) + c; }); break;
    case 528: u3([](u32 a, u32 b, u32 c) { return a >> (b & 31) & ((1u << (c & 31)) - 1); }); break;
    case 529: u3([](u32 a, u32 b, u32 c) {
      int off = b & 31, n = c & 31;
      if (!n) return 0;
      n = std::min(n, 32 - off);
      return (i32)(a << (32 - off - n)) >> (32 - n);
    }); break;
    case 530: u3([](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); }); break;
    case 531: f3([](float a, float b, float c) { return std::fma(a, b, c); }); break;
    case 532: { auto a = D(0); auto b = D(1); auto c = D(2); each([&](int l) { put(l, std::fma(a[l], b[l], c[l])); }); break; }
    case 533: u3([](u32 a, u32 b, u32 c) { u32 r = 0; for (int i = 0; i < 32; i += 8) r |= ((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) / 2 << i; return r; }); break;
    case 534: u3([](u32 a, u32 b, u32 c) { return (u32)(((u64)a << 32 | b) >> (c & 31)); }); break;
    case 535: u3([](u32 a, u32 b, u32 c) { return (u32)(((u64)a << 32 | b) >> 8 * (c & 3)); }); break;
    case 537: f3([](float a, float b, float c) { return fmin_(fmin_(a, b), c); }); break;
    case 538: i3([](i32 a, i32 b, i32 c) { return std::min({a, b, c}); }); break;
    case 539: u3([](u32 a, u32 b, u32 c) { return std::min({a, b, c}); }); break;
    case 540: f3([](float a, float b, float c) { return fmax_(fmax_(a, b), c); }); break;
    case 541: i3([](i32 a, i32 b, i32 c) { return std::max({a, b, c}); }); break;
    case 542: u3([](u32 a, u32 b, u32 c) { return std::max({a, b, c}); }); break;
    case 543: f3(med3f); break;
    case 544: i3(med3<i32>); break;
    case 545: u3(med3<u32>); break;
    case 549: u3([](u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; }); break;
    case 550: { auto a = F(0); auto b = U(1), c = U(2); each([&](int l) { int k = (b[l] & 3) * 8; put(l, (c[l] & ~(255u << k)) | (u32)sat<u8>(std::nearbyint(a[l])) << k); }); break; }
    case 551: f3(div_fixup<float>); break;
    case 552: { auto a = D(0); auto b = D(1); auto c = D(2); each([&](int l) { put(l, div_fixup<double>(a[l], b[l], c[l])); }); break; }
    case 567: { auto a = F(0), b = F(1), c = F(2); each([&](int l) { put(l, div_fmas(a[l], b[l], c[l], bit(VCC, l))); }); break; }
    case 568: { auto a = D(0); auto b = D(1); auto c = D(2); each([&](int l) { put(l, div_fmas(a[l], b[l], c[l], bit(VCC, l))); }); break; }
    case 576: u3([](u32 a, u32 b, u32 c) { return a ^ b ^ c; }); break;
    case 577: case 595: w3([](u32 a, u32 b, u32 c) { return a * b + c; }); break;
    case 580: u3([](u32 a, u32 b, u32 c) {
      u64 data = (u64)a << 32 | b;
      u32 r = 0;
      for (int i = 0; i < 4; i++) {
        u32 k = c >> 8 * i & 255, x;
        if (k >= 13) x = 255;
        else if (k == 12) x = 0;
        else if (k >= 8) x = data >> (16 * (k - 8) + 15) & 1 ? 255 : 0;
        else x = data >> 8 * k & 255;
        r |= x << 8 * i;
      }
      return r;
    }); break;
    case 581: u3([](u32 a, u32 b, u32 c) { return (a ^ b) + c; }); break;
    case 582: u3([](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; }); break;
    case 583: u3([](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); }); break;
    case 585: h3([](double a, double b, double c) { return fmin_(fmin_(a, b), c); }); break;
    case 586: w3([](u32 a, u32 b, u32 c) { return std::min({(i16)a, (i16)b, (i16)c}); }); break;
    case 587: w3([](u32 a, u32 b, u32 c) { return std::min({a, b, c}); }); break;
    case 588: h3([](double a, double b, double c) { return fmax_(fmax_(a, b), c); }); break;
    case 589: w3([](u32 a, u32 b, u32 c) { return std::max({(i16)a, (i16)b, (i16)c}); }); break;
    case 590: w3([](u32 a, u32 b, u32 c) { return std::max({a, b, c}); }); break;
    case 591: h3([](double a, double b, double c) { return (double)med3f(a, b, c); }); break;
    case 592: w3([](u32 a, u32 b, u32 c) { return med3((i16)a, (i16)b, (i16)c); }); break;
    case 593: w3(med3<u32>); break;
    case 596: h3([](double q, double d, double n) { return (double)div_fixup<float>(q, d, n); }); break;
    case 597: u3([](u32 a, u32 b, u32 c) { return a + b + c; }); break;
    case 598: u3([](u32 a, u32 b, u32 c) { return a << (b & 31) | c; }); break;
    case 599: u3([](u32 a, u32 b, u32 c) { return (a & b) | c; }); break;
    case 600: u3([](u32 a, u32 b, u32 c) { return a | b | c; }); break;
    case 601: { auto a = H(0, false), b = H(1, false); auto c = U(2); each([&](int l) { put(l, a[l] * b[l] + c[l]); }); break; }
    case 602: { auto a = H(0, false), b = H(1, false); auto c = U(2); each([&](int l) { put(l, (u32)((i16)a[l] * (i16)b[l]) + c[l]); }); break; }
    case 603: case 604: {  // permlane16, permlanex16
      u64 sel = s32(o.src[1]) | (u64)s32(o.src[2]) << 32;
      auto a = U(0);
      each([&](int l) {
        int from = ((l & 16) ^ (op == 604 ? 16 : 0)) + (sel >> 4 * (l & 15) & 15);
        if (o.opsel & 1 || s[EXEC] >> from & 1) put(l, a[from]);
        else if (o.opsel & 2) put(l, 0u);
      });
      break;
    }
    case 605: { u32 m = s32(o.src[2]); auto a = H(0), b = H(1); each([&](int l) { put(l, (u16)(m >> l & 1 ? b[l] : a[l])); }); break; }
    case 606: f3([](float a, float b, float c) { return fmin_(fmax_(a, b), c); }); break;
    case 607: f3([](float a, float b, float c) { return fmax_(fmin_(a, b), c); }); break;
    case 608: h3([](double a, double b, double c) { return fmin_(fmax_(a, b), c); }); break;
    case 609: h3([](double a, double b, double c) { return fmax_(fmin_(a, b), c); }); break;
    case 610: u3([](u32 a, u32 b, u32 c) { return std::min(std::max(a, b), c); }); break;
    case 611: u3([](u32 a, u32 b, u32 c) { return std::max(std::min(a, b), c); }); break;
    case 612: i3([](i32 a, i32 b, i32 c) { return std::min(std::max(a, b), c); }); break;
    case 613: i3([](i32 a, i32 b, i32 c) { return std::max(std::min(a, b), c); }); break;
    case 764: case 765: {  // div_scale
      u32 out = 0;
      if (op == 764) {
        auto a = F(0), b = F(1), c = F(2);
        each([&](int l) { bool k; put(l, div_scale(a[l], b[l], c[l], k)); out |= (u32)k << l; });
      } else {
        auto a = D(0); auto b = D(1); auto c = D(2);
        each([&](int l) { bool k; put(l, div_scale(a[l], b[l], c[l], k)); out |= (u32)k << l; });
      }
      set32(o.sdst, out);
      break;
    }
    case 766: case 767: {  // mad_u64_u32, mad_i64_i32
      auto a = U(0), b = U(1);
      auto c = Q(2);
      u32 out = 0;
      each([&](int l) {
        u64 p = op == 766 ? (u64)a[l] * b[l] : (u64)((i64)(i32)a[l] * (i32)b[l]), x = c[l], r = p + x;
        out |= (u32)(op == 766 ? r < p : (~(p ^ x) & (p ^ r)) >> 63) << l;
        put(l, r);
      });
      set32(o.sdst, out);
      break;
    }
    case 771: w2([](u32 a, u32 b) { return a + b; }); break;
    case 772: w2([](u32 a, u32 b) { return a - b; }); break;
    case 773: w2([](u32 a, u32 b) { return a * b; }); break;
    case 774: { auto a = F(0), b = F(1); each([&](int l) { put(l, (u32)(u16)sat<i16>(std::trunc(a[l])) | (u32)sat<i16>(std::trunc(b[l])) << 16); }); break; }
    case 775: { auto a = F(0), b = F(1); each([&](int l) { put(l, (u32)sat<u16>(std::trunc(a[l])) | (u32)sat<u16>(std::trunc(b[l])) << 16); }); break; }
    case 777: w2([](u32 a, u32 b) { return std::max(a, b); }); break;
    case 778: w2([](u32 a, u32 b) { return std::max((i16)a, (i16)b); }); break;
    case 779: w2([](u32 a, u32 b) { return std::min(a, b); }); break;
    case 780: w2([](u32 a, u32 b) { return std::min((i16)a, (i16)b); }); break;
    case 781: w2([](u32 a, u32 b) { return a + b; }); break;
    case 782: w2([](u32 a, u32 b) { return a - b; }); break;
    case 785: { auto a = H(0), b = H(1); each([&](int l) { put(l, a[l] | b[l] << 16); }); break; }
    case 796: { auto a = F(0); auto b = I(1); each([&](int l) { put(l, std::ldexp(a[l], b[l])); }); break; }
    case 797: u2([](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); }); break;
    case 798: u2([](u32 a, u32 b) { return __builtin_popcount(a) + b; }); break;
    case 799: { auto a = U(0), b = U(1); each([&](int l) { put(l, __builtin_popcount(a[l] & ((1u << l) - 1)) + b[l]); }); break; }
    case 800: { auto b = U(1); each([&](int l) { put(l, b[l]); }); break; }
    case 803: u2([](u32 a, u32 b) { return std::min(a, 65535u) | std::min(b, 65535u) << 16; }); break;
    case 804: u2([](u32 a, u32 b) { return (u32)(u16)sat<i16>((i32)a) | (u32)sat<i16>((i32)b) << 16; }); break;
    case 805: u2([&](u32 a, u32 b) { i64 t = (i64)(i32)a - (i32)b; return o.clamp ? (u32)sat<i32>(t) : (u32)t; }); break;
    case 806: u2([&](u32 a, u32 b) { i64 t = (i64)(i32)a + (i32)b; return o.clamp ? (u32)sat<i32>(t) : (u32)t; }); break;
    case 807: d2([](double a, double b) { return a + b; }); break;
    case 808: d2([](double a, double b) { return a * b; }); break;
    case 809: d2(fmin_<double>); break;
    case 810: d2(fmax_<double>); break;
    case 811: { auto a = D(0); auto b = I(1); each([&](int l) { put(l, std::ldexp(a[l], b[l])); }); break; }
    case 812: u2([](u32 a, u32 b) { return a * b; }); break;
    case 813: u2([](u32 a, u32 b) { return (u32)((u64)a * b >> 32); }); break;
    case 814: u2([](u32 a, u32 b) { return (u32)((i64)(i32)a * (i32)b >> 32); }); break;
    case 824: w2([](u32 a, u32 b) { return b << (a & 15); }); break;
    case 825: w2([](u32 a, u32 b) { return b >> (a & 15); }); break;
    case 826: w2([](u32 a, u32 b) { return (i16)b >> (a & 15); }); break;
    case 828: { auto a = U(0); auto b = Q(1); each([&](int l) { put(l, b[l] << (a[l] & 63)); }); break; }
    case 829: { auto a = U(0); auto b = Q(1); each([&](int l) { put(l, b[l] >> (a[l] & 63)); }); break; }
    case 830: { auto a = U(0); auto b = QI(1); each([&](int l) { put(l, b[l] >> (a[l] & 63)); }); break; }
    case 864: { u32 l = s32(o.src[1]) & 31; set32(o.dst, U(0)[l]); break; }
    case 865: { u32 l = s32(o.src[1]) & 31; v[o.dst][l] = s32(o.src[0]); break; }
    case 866: w2([](u32 a, u32 b) { return a & b; }); break;
    case 867: w2([](u32 a, u32 b) { return a | b; }); break;
    case 868: w2([](u32 a, u32 b) { return a ^ b; }); break;
    default: unknown("VOP3", op);
  }
}

// Reads the DPP word, narrows `mask` to the lanes that are written, and fills the lane table.
u8 lanes[kLanes];
void Wave::dpp(VOp &o, int code, u32 w) {
  o.src[0] = 256 + (w & 255);
  o.lane0 = lanes;
  if (code != 250) {  // DPP8
    for (int l = 0; l < kLanes; l++) {
      int from = (l & ~7) + (w >> (8 + 3 * (l & 7)) & 7);
      lanes[l] = code == 234 || s[EXEC] >> from & 1 ? from : 255;
    }
    return;
  }
  u32 ctrl = field(w, 16, 8);
  bool fi = w >> 18 & 1, bc = w >> 19 & 1;
  o.neg |= field(w, 20, 20) | field(w, 22, 22) << 1;
  o.abs |= field(w, 21, 21) | field(w, 23, 23) << 1;
  for (int l = 0; l < kLanes; l++) {
    int row = l & 16, i = l & 15, n = ctrl & 15, from;
    if (ctrl < 0x100) from = (l & ~3) + (ctrl >> 2 * (l & 3) & 3);
    else if (ctrl > 0x100 && ctrl < 0x110) from = i + n < 16 ? row + i + n : -1;
    else if (ctrl > 0x110 && ctrl < 0x120) from = i - n >= 0 ? row + i - n : -1;
    else if (ctrl > 0x120 && ctrl < 0x130) from = row + ((i - n) & 15);
    else if (ctrl == 0x140) from = row + 15 - i;
    else if (ctrl == 0x141) from = row + (i ^ 7);
    else if (ctrl >= 0x150 && ctrl < 0x160) from = row + n;
    else if (ctrl >= 0x160 && ctrl < 0x170) from = row + (i ^ n);
    else unknown("DPP control", ctrl);
    bool valid = from >= 0 && (fi || s[EXEC] >> from & 1);
    lanes[l] = valid ? from : 255;
    bool on = field(w, 31, 28) >> (l / 16) & 1 && field(w, 27, 24) >> (i / 4) & 1;
    if (!on || (!valid && !bc)) mask &= ~(1u << l);
  }
}

void Wave::vop_e32(u32 w) {
  VOp o = {};
  o.e32 = true;
  o.src[0] = field(w, 8, 0);
  o.src[1] = 256 + field(w, 16, 9);
  o.dst = field(w, 24, 17);
  o.src[2] = VCC;
  o.sdst = VCC;
  u32 op = field(w, 30, 25);
  if (op == 63) o.op = 0x180 + field(w, 16, 9);
  else if (op == 62) { o.op = field(w, 24, 17); o.dst = VCC; }
  else {
    o.op = 0x100 + op;
    if (op == 2 || op == 6 || op == 43 || op == 54 || op == 60) o.src[2] = 256 + o.dst;
    if (op == 44 || op == 45 || op == 55 || op == 56) lit = *pc++;
  }
  mask = s[EXEC];
  if (o.src[0] == 250 || o.src[0] == 233 || o.src[0] == 234) dpp(o, o.src[0], *pc++);
  else if (o.src[0] == 255 && !(o.op == 300 || o.op == 301 || o.op == 311 || o.op == 312)) lit = *pc++;
  valu(o);
}

void Wave::vop3(u64 w) {
  VOp o = {};
  o.op = field(w, 25, 16);
  o.dst = field(w, 7, 0);
  o.src[0] = field(w, 40, 32);
  o.src[1] = field(w, 49, 41);
  o.src[2] = field(w, 58, 50);
  o.omod = field(w, 60, 59);
  o.neg = field(w, 63, 61);
  o.clamp = field(w, 15, 15);
  if ((o.op >= 288 && o.op <= 290) || (o.op >= 764 && o.op <= 770)) o.sdst = field(w, 14, 8);
  else { o.abs = field(w, 10, 8); o.opsel = field(w, 14, 11); }
  if (o.op == 262 || o.op == 299 || o.op == 310 || o.op == 258) o.src[2] = 256 + o.dst;
  if (o.op == 310 && o.opsel & 8) o.opsel |= 4;  // fmac_f16: the accumulator is the destination half
  mask = s[EXEC];
  if (o.src[0] == 250 || o.src[0] == 233 || o.src[0] == 234) dpp(o, o.src[0], *pc++);
  else if (o.src[0] == 255 || o.src[1] == 255 || o.src[2] == 255) lit = *pc++;
  valu(o);
}

}  // namespace softhip
