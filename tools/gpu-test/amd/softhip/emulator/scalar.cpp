// Scalar instructions: SOP1, SOP2, SOPC, SOPK, SOPP, SMEM.
#include "wave.h"

namespace softhip {

void Wave::sop2(u32 w) {
  int op = field(w, 29, 23), d = field(w, 22, 16), c1 = field(w, 15, 8), c0 = field(w, 7, 0);
  bool wide = op == 9 || op == 11 || op == 13 || op == 40 || op == 41 || op == 49 ||
              (op >= 22 && op <= 37 && op % 2);
  if (wide) {
    u64 a = s64(c0), b = op < 22 || op == 40 || op == 41 ? s32(c1) : s64(c1), r;
    switch (op) {
      case 9: r = a << (b & 63); break;
      case 11: r = a >> (b & 63); break;
      case 13: r = (i64)a >> (b & 63); break;
      case 23: r = a & b; break;
      case 25: r = a | b; break;
      case 27: r = a ^ b; break;
      case 29: r = ~(a & b); break;
      case 31: r = ~(a | b); break;
      case 33: r = ~(a ^ b); break;
      case 35: r = a & ~b; break;
      case 37: r = a | ~b; break;
      case 49: set64(d, scc ? a : b); return;
      case 40: case 41: {
        int off = b & 63, n = b >> 16 & 127;
        if (!n) { r = 0; break; }
        n = std::min(n, 64 - off);
        r = op == 40 ? a << (64 - off - n) >> (64 - n) : (u64)((i64)(a << (64 - off - n)) >> (64 - n));
        break;
      }
      default: unknown("SOP2", op);
    }
    set64(d, r);
    scc = r != 0;
    return;
  }
  u32 a = s32(c0), b = s32(c1), r;
  switch (op) {
    case 0: r = a + b; scc = r < a; break;
    case 1: r = a - b; scc = b > a; break;
    case 2: r = a + b; scc = (~(a ^ b) & (a ^ r)) >> 31; break;
    case 3: r = a - b; scc = ((a ^ b) & (a ^ r)) >> 31; break;
    case 4: { u64 t = (u64)a + b + scc; r = t; scc = t >> 32; break; }
    case 5: { u64 t = (u64)b + scc; r = a - (u32)t; scc = t > a; break; }
    case 6: r = std::abs((i32)a - (i32)b); scc = r; break;
    case 8: r = a << (b & 31); scc = r; break;
    case 10: r = a >> (b & 31); scc = r; break;
    case 12: r = (i32)a >> (b & 31); scc = r; break;
    case 14: case 15: case 16: case 17: { u64 t = ((u64)a << (op - 13)) + b; r = t; scc = t >> 32; break; }
    case 18: scc = (i32)a < (i32)b; r = scc ? a : b; break;
    case 19: scc = a < b; r = scc ? a : b; break;
    case 20: scc = (i32)a >= (i32)b; r = scc ? a : b; break;
    case 21: scc = a >= b; r = scc ? a : b; break;
    case 22: r = a & b; scc = r; break;
    case 24: r = a | b; scc = r; break;
    case 26: r = a ^ b; scc = r; break;
    case 28: r = ~(a & b); scc = r; break;
    case 30: r = ~(a | b); scc = r; break;
    case 32: r = ~(a ^ b); scc = r; break;
    case 34: r = a & ~b; scc = r; break;
    case 36: r = a | ~b; scc = r; break;
    case 38: case 39: {
      int off = b & 31, n = std::min<int>(b >> 16 & 127, 32 - off);
      r = !n ? 0 : op == 38 ? a << (32 - off - n) >> (32 - n) : (u32)((i32)(a << (32 - off - n)) >> (32 - n));
      scc = r;
      break;
    }
    case 42: r = ((1u << (a & 31)) - 1) << (b & 31); break;
    case 43: set64(d, ((1ull << (a & 63)) - 1) << (b & 63)); return;
    case 44: r = a * b; break;
    case 45: r = (u64)a * b >> 32; break;
    case 46: r = (i64)(i32)a * (i32)b >> 32; break;
    case 48: r = scc ? a : b; break;
    case 50: r = (a & 0xffff) | b << 16; break;
    case 51: r = (a & 0xffff) | (b & 0xffff0000); break;
    case 52: r = a >> 16 | (b & 0xffff0000); break;
    case 53: r = a >> 16 | b << 16; break;
    default: unknown("SOP2", op);
  }
  set32(d, r);
}

void Wave::sop1(u32 w) {
  int op = field(w, 15, 8), d = field(w, 22, 16), c = field(w, 7, 0);
  u64 here = (u64)pc;
  switch (op) {
    case 71: set64(d, here); return;
    case 72: pc = (const u32 *)s64(c); return;
    case 73: pc = (const u32 *)s64(c); set64(d, here); return;
    case 76: case 77: set64(d, count); return;  // sendmsg_rtn: a clock
  }
  if ((op >= 32 && op <= 51) || (op >= 52 && op <= 55)) {  // ..._saveexec, ..._wrexec
    if (op & 1 && op < 52) unknown("SOP1", op);
    u32 a = s32(c), e = s[EXEC], r;
    switch (op) {
      case 32: r = a & e; break;
      case 34: r = a | e; break;
      case 36: r = a ^ e; break;
      case 38: r = ~(a & e); break;
      case 40: r = ~(a | e); break;
      case 42: r = ~(a ^ e); break;
      case 44: r = ~a & e; break;
      case 46: r = ~a | e; break;
      case 48: r = a & ~e; break;
      case 50: r = a | ~e; break;
      case 52: r = ~a & e; break;
      case 54: r = a & ~e; break;
      default: unknown("SOP1", op);
    }
    set32(d, op >= 52 ? r : e);
    s[EXEC] = r;
    scc = r;
    return;
  }
  switch (op) {  // 64-bit sources
    case 1: set64(d, s64(c)); return;
    case 3: if (scc) set64(d, s64(c)); return;
    case 5: { u64 a = s64(c), r = 0; for (int i = 0; i < 64; i++) r |= (a >> i & 1) << (63 - i); set64(d, r); return; }
    case 9: { u64 a = s64(c); set32(d, a ? __builtin_ctzll(a) : -1); return; }
    case 11: { u64 a = s64(c); set32(d, a ? __builtin_clzll(a) : -1); return; }
    case 23: { u32 r = 64 - __builtin_popcountll(s64(c)); set32(d, r); scc = r; return; }
    case 25: { u32 r = __builtin_popcountll(s64(c)); set32(d, r); scc = r; return; }
    case 31: { u64 r = ~s64(c); set64(d, r); scc = r; return; }
    case 17: set64(d, s64(d) & ~(1ull << (s32(c) & 63))); return;
    case 19: set64(d, s64(d) | 1ull << (s32(c) & 63)); return;
    case 20: { u64 a = s32(c), r = 0; for (int i = 0; i < 32; i++) if (a >> i & 1) r |= 3ull << 2 * i; set64(d, r); return; }
  }
  u32 a = s32(c), r;
  switch (op) {
    case 0: r = a; break;
    case 2: if (!scc) return; r = a; break;
    case 4: r = 0; for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i); break;
    case 8: r = a ? __builtin_ctz(a) : -1; break;
    case 10: r = a ? __builtin_clz(a) : -1; break;
    case 12: r = a == 0 || a == ~0u ? -1 : __builtin_clz((i32)a < 0 ? ~a : a); break;
    case 14: r = (int8_t)a; break;
    case 15: r = (i16)a; break;
    case 16: r = s[d] & ~(1u << (a & 31)); break;
    case 18: r = s[d] | 1u << (a & 31); break;
    case 21: r = std::abs((i32)a); scc = r; break;
    case 22: r = 32 - __builtin_popcount(a); scc = r; break;
    case 24: r = __builtin_popcount(a); scc = r; break;
    case 28: r = 0; for (int i = 0; i < 8; i++) if (a >> 4 * i & 15) r |= 15u << 4 * i; scc = r; break;
    case 30: r = ~a; scc = r; break;
    case 64: r = s[c + s[M0]]; break;
    case 66: d += s[M0]; r = a; break;
    default: unknown("SOP1", op);
  }
  set32(d, r);
}

void Wave::sopc(u32 w) {
  int op = field(w, 22, 16), c1 = field(w, 15, 8), c0 = field(w, 7, 0);
  if (op == 16 || op == 17) { scc = (s64(c0) == s64(c1)) == (op == 16); return; }
  if (op == 14 || op == 15) { scc = (s64(c0) >> (s32(c1) & 63) & 1) == (u32)(op - 14); return; }
  u32 a = s32(c0), b = s32(c1);
  switch (op) {
    case 0: case 6: scc = a == b; break;
    case 1: case 7: scc = a != b; break;
    case 2: scc = (i32)a > (i32)b; break;
    case 3: scc = (i32)a >= (i32)b; break;
    case 4: scc = (i32)a < (i32)b; break;
    case 5: scc = (i32)a <= (i32)b; break;
    case 8: scc = a > b; break;
    case 9: scc = a >= b; break;
    case 10: scc = a < b; break;
    case 11: scc = a <= b; break;
    case 12: case 13: scc = (a >> (b & 31) & 1) == (u32)(op - 12); break;
    default: unknown("SOPC", op);
  }
}

void Wave::sopk(u32 w) {
  int op = field(w, 27, 23), d = field(w, 22, 16);
  i32 k = (i16)w;
  u32 a = s[d], u = (u16)w;
  switch (op) {
    case 0: set32(d, k); break;
    case 1: break;
    case 2: if (scc) set32(d, k); break;
    case 3: scc = (i32)a == k; break;
    case 4: scc = (i32)a != k; break;
    case 5: scc = (i32)a > k; break;
    case 6: scc = (i32)a >= k; break;
    case 7: scc = (i32)a < k; break;
    case 8: scc = (i32)a <= k; break;
    case 9: scc = a == u; break;
    case 10: scc = a != u; break;
    case 11: scc = a > u; break;
    case 12: scc = a >= u; break;
    case 13: scc = a < u; break;
    case 14: scc = a <= u; break;
    case 15: { u32 r = a + k; scc = (~(a ^ k) & (a ^ r)) >> 31; set32(d, r); break; }
    case 16: set32(d, a * k); break;
    case 17: set32(d, (u & 63) == 29 ? (u32)count : 0); break;  // getreg: only the cycle counter moves
    case 18: break;                                             // setreg: modes are not modelled
    case 19: pc++; break;
    case 20: set64(d, (u64)pc); pc += k; break;
    case 24: case 25: case 26: case 27: break;
    default: unknown("SOPK", op);
  }
}

// true: the wave stops here, at a barrier or at its end
bool Wave::sopp(u32 w) {
  int op = field(w, 22, 16);
  i32 k = (i16)w;
  switch (op) {
    case 16: unknown("trap", k);
    case 31: unknown("code end", k);
    case 32: pc += k; break;
    case 33: if (!scc) pc += k; break;
    case 34: if (scc) pc += k; break;
    case 35: if (!s[VCC]) pc += k; break;
    case 36: if (s[VCC]) pc += k; break;
    case 37: if (!s[EXEC]) pc += k; break;
    case 38: if (s[EXEC]) pc += k; break;
    case 48: case 49: done = true; return true;
    case 61: return true;
    default: break;  // waits, hints, modes
  }
  return false;
}

void Wave::smem(u64 w) {
  int op = field(w, 25, 18), d = field(w, 12, 6), base = field(w, 5, 0) * 2;
  i64 off = (i64)((i32)(field(w, 52, 32) << 11) >> 11) + s32(field(w, 63, 57));
  if (op <= 4) {
    u64 p = touch((s64(base) + off) & ~3ull, 4 << op);
    u32 t[16];
    memcpy(t, (void *)p, 4 << op);
    for (int i = 0; i < 1 << op; i++) set32(d + i, t[i]);
  } else if (op >= 8 && op <= 12) {
    u64 p = s64(base) & 0xffffffffffff, n = s[base + 2], stride = s[base + 1] >> 16 & 0x3fff;
    if (stride) n *= stride;
    u32 t[16];
    for (int i = 0; i < 1 << (op - 8); i++) { u64 o = (off & ~3ull) + 4 * i; t[i] = o + 4 <= n ? load<u32>(p + o) : 0; }
    for (int i = 0; i < 1 << (op - 8); i++) set32(d + i, t[i]);
  } else if (op != 32 && op != 33) unknown("SMEM", op);
}

}  // namespace softhip
