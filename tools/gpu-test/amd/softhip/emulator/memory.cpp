// Memory: FLAT, GLOBAL, SCRATCH, MUBUF and DS, with atomics.
#include "wave.h"

namespace softhip {

// Loads and stores 16..37 have the same numbers in FLAT, GLOBAL, SCRATCH and MUBUF.
// at(lane) gives a host address, or 0 for an access that is out of range.
template <class At> void Wave::move(u32 op, int vdst, int vdata, At at) {
  each([&](int l) {
    u64 p = at(l);
    u32 &d = v[vdst][l], x = v[vdata][l];
    if (!p) {
      if (op >= 20 && op <= 23) for (u32 i = 0; i < op - 19; i++) v[vdst + i][l] = 0;
      else if (op < 20) d = 0;
      return;
    }
    switch (op) {
      case 16: d = load<u8>(p); break;
      case 17: d = load<int8_t>(p); break;
      case 18: d = load<u16>(p); break;
      case 19: d = load<i16>(p); break;
      case 20: case 21: case 22: case 23: {
        u32 t[4];
        memcpy(t, (void *)p, 4 * (op - 19));
        for (u32 i = 0; i < op - 19; i++) v[vdst + i][l] = t[i];
        break;
      }
      case 24: store<u8>(p, x); break;
      case 25: store<u16>(p, x); break;
      case 26: case 27: case 28: case 29:
        for (u32 i = 0; i < op - 25; i++) store(p + 4 * i, v[vdata + i][l]);
        break;
      case 30: d = (d & 0xffff0000) | load<u8>(p); break;
      case 31: d = (d & 0xffff0000) | (u16)load<int8_t>(p); break;
      case 32: d = (d & 0xffff0000) | load<u16>(p); break;
      case 33: d = (d & 0xffff) | load<u8>(p) << 16; break;
      case 34: d = (d & 0xffff) | (u32)load<int8_t>(p) << 16; break;
      case 35: d = (d & 0xffff) | (u32)load<u16>(p) << 16; break;
      case 36: store<u8>(p, x >> 16); break;
      case 37: store<u16>(p, x >> 16); break;
      default: unknown("memory operation", op);
    }
  });
}
template <class T> T Wave::amo(u32 kind, T old, T x, T y) {
  using S = typename std::make_signed<T>::type;
  switch (kind) {
    case 51: return x;
    case 52: return old == y ? x : old;
    case 53: return old + x;
    case 54: return old - x;
    case 55: return old < x ? 0 : old - x;
    case 56: return (S)old < (S)x ? old : x;
    case 57: return old < x ? old : x;
    case 58: return (S)old > (S)x ? old : x;
    case 59: return old > x ? old : x;
    case 60: return old & x;
    case 61: return old | x;
    case 62: return old ^ x;
    case 63: return old >= x ? 0 : old + 1;
    case 64: return old == 0 || old > x ? x : old - 1;
  }
  unknown("atomic", kind);
}
static u32 amo_f(u32 kind, u32 old, u32 x, u32 y) {
  float o = bits<float>(old), f = bits<float>(x);
  return kind == 80 ? (o == bits<float>(y) ? x : old) : bits<u32>(kind == 81 ? fmin_(o, f) : kind == 82 ? fmax_(o, f) : o + f);
}
template <class At> void Wave::atomic(u32 op, int vdst, int vdata, bool ret, At at) {
  each([&](int l) {
    u64 p = at(l);
    if (!p) { if (ret) v[vdst][l] = 0; return; }
    u32 x = v[vdata][l], y = v[vdata + 1][l];
    if (op >= 80) {
      u32 old = load<u32>(p);
      store(p, amo_f(op, old, x, y));
      if (ret) v[vdst][l] = old;
    } else if (op >= 65) {
      u64 a = x | (u64)y << 32, b = op == 66 ? v[vdata + 2][l] | (u64)v[vdata + 3][l] << 32 : 0, old = load<u64>(p);
      u32 kind = op <= 68 ? op - 14 : op - 13;  // the 64-bit row has no CSUB
      store(p, amo<u64>(kind, old, a, b));
      if (ret) { v[vdst][l] = old; v[vdst + 1][l] = old >> 32; }
    } else {
      u32 old = load<u32>(p);
      store(p, amo<u32>(op, old, x, y));
      if (ret) v[vdst][l] = old;
    }
  });
}
// Bytes that a memory operation touches.
static u32 bytes(u32 op) {
  switch (op) {
    case 16: case 17: case 24: case 30: case 31: case 33: case 34: case 36: return 1;
    case 18: case 19: case 25: case 32: case 35: case 37: return 2;
    case 20: case 21: case 22: case 23: return 4 * (op - 19);
    case 26: case 27: case 28: case 29: return 4 * (op - 25);
  }
  return op >= 65 && op < 80 ? 8 : 4;
}
template <class At> void Wave::access(u32 op, int vdst, int vdata, bool glc, At at) {
  if (op >= 51) atomic(op, vdst, vdata, glc, at);
  else move(op, vdst, vdata, at);
}

void Wave::flat(u64 w) {
  i32 off = (i32)(field(w, 12, 0) << 19) >> 19;
  int seg = field(w, 17, 16), addr = field(w, 39, 32), data = field(w, 47, 40), sa = field(w, 54, 48);
  u32 op = field(w, 24, 18);
  int vdst = field(w, 63, 56);
  bool glc = field(w, 14, 14), sve = field(w, 55, 55);
  u32 n = bytes(op);
  mask = s[EXEC];
  if (seg == 1) {
    u32 base = (sa == NUL ? 0 : s[sa]) + off;
    const u32 *va = v[addr];
    return access(op, vdst, data, glc, [&](int l) { return scratch_at(l, base + (sve ? va[l] : 0), n); });
  }
  if (op == 40 || op == 41) unknown("FLAT", op);
  if (seg == 2 && sa != NUL) {
    u64 base = s64(sa) + off;
    return access(op, vdst, data, glc, [&](int l) { return touch(base + v[addr][l], n); });
  }
  access(op, vdst, data, glc, [&](int l) -> u64 {
    u64 p = (v[addr][l] | (u64)v[addr + 1][l] << 32) + off;
    if (seg == 0 && p >> 32 == kShared) return lds_at(p, n);
    if (seg == 0 && p >> 32 == kPrivate) return scratch_at(l, p, n);
    return touch(p, n);
  });
}

void Wave::mubuf(u64 w) {
  u32 op = field(w, 25, 18), inst = field(w, 11, 0);
  int addr = field(w, 39, 32), data = field(w, 47, 40), r = field(w, 52, 48) * 4;
  bool glc = field(w, 14, 14), offen = field(w, 54, 54), idxen = field(w, 55, 55);
  if (op == 43 || op == 44) return;
  if (op < 16 || (op > 37 && op < 51) || field(w, 53, 53)) unknown("MUBUF", op);
  u64 base = s64(r) & 0xffffffffffff;
  u32 stride = s[r + 1] >> 16 & 0x3fff, records = s[r + 2], oob = s[r + 3] >> 28 & 3, soff = s32(field(w, 63, 56));
  if (s[r + 1] >> 30 || s[r + 3] >> 23 & 1) unknown("MUBUF swizzle", op);
  u32 size = bytes(op);
  mask = s[EXEC];
  access(op, data, data, glc, [&](int l) -> u64 {
    u32 index = idxen ? v[addr][l] : 0, off = inst + (offen ? v[addr + idxen][l] : 0);
    u64 o = (u64)index * stride + off + soff;
    bool out = oob == 2 ? records == 0
             : oob == 3 || !stride ? o + size > records
             : oob == 1 ? index >= records
                        : index >= records || off + size > stride;
    return out ? 0 : touch(base + o, size);
  });
}

void Wave::ds(u64 w) {
  u32 op = field(w, 25, 18), o0 = field(w, 7, 0), o1 = field(w, 15, 8), off = field(w, 15, 0);
  int addr = field(w, 39, 32), d0 = field(w, 47, 40), d1 = field(w, 55, 48), vdst = field(w, 63, 56);
  if (field(w, 17, 17)) unknown("GDS", op);
  mask = s[EXEC];
  const u32 *va = v[addr];
  auto at = [&](int l) { return lds_at(va[l] + off); };
  auto single = [&](u32 kind, u32 n) { move(kind, vdst, d0, [&](int l) { return lds_at(va[l] + off, n); }); };
  auto pair = [&](bool st, u32 words, u32 step) {
    for (int t = 0; t < 2; t++) {
      u32 o = (t ? o1 : o0) * step;
      each([&](int l) {
        u64 p = lds_at(va[l] + o, 4 * words);
        for (u32 i = 0; i < words; i++) {
          u32 &r = tmp[t * words + i][l];
          if (st) { if (p) store(p + 4 * i, v[(t ? d1 : d0) + i][l]); }
          else r = p ? load<u32>(p + 4 * i) : 0;
        }
      });
    }
    if (!st) each([&](int l) { for (u32 i = 0; i < 2 * words; i++) v[vdst + i][l] = tmp[i][l]; });
  };
  static const u8 kind32[] = {53, 54, 0, 63, 64, 56, 58, 57, 59, 60, 61, 62};
  switch (op) {
    case 13: single(26, 4); return;
    case 30: single(24, 1); return;
    case 31: single(25, 2); return;
    case 77: single(27, 8); return;
    case 222: single(28, 12); return;
    case 223: single(29, 16); return;
    case 160: single(36, 1); return;
    case 161: single(37, 2); return;
    case 54: single(20, 4); return;
    case 57: single(17, 1); return;
    case 58: single(16, 1); return;
    case 59: single(19, 2); return;
    case 60: single(18, 2); return;
    case 118: single(21, 8); return;
    case 254: single(22, 12); return;
    case 255: single(23, 16); return;
    case 162: single(30, 1); return;
    case 163: single(33, 1); return;
    case 164: single(31, 1); return;
    case 165: single(34, 1); return;
    case 166: single(32, 2); return;
    case 167: single(35, 2); return;
    case 14: pair(true, 1, 4); return;
    case 15: pair(true, 1, 256); return;
    case 78: pair(true, 2, 8); return;
    case 79: pair(true, 2, 512); return;
    case 55: pair(false, 1, 4); return;
    case 56: pair(false, 1, 256); return;
    case 119: pair(false, 2, 8); return;
    case 120: pair(false, 2, 512); return;
    case 20: return;
    case 176: case 177: {  // addtid
      move(op == 176 ? 26 : 20, vdst, d0, [&](int l) { return lds_at(off + (s[M0] & 0xffff) + 4 * l); });
      return;
    }
    case 18: atomic(81, vdst, d0, false, at); return;
    case 19: atomic(82, vdst, d0, false, at); return;
    case 21: atomic(86, vdst, d0, false, at); return;
    case 50: atomic(81, vdst, d0, true, at); return;
    case 51: atomic(82, vdst, d0, true, at); return;
    case 121: atomic(86, vdst, d0, true, at); return;
    case 45: atomic(51, vdst, d0, true, at); return;
    case 109: atomic(65, vdst, d0, true, at); return;
    case 16: case 48:  // compare and store: data0 is the new value, data1 what is expected
      each([&](int l) {
        u64 p = at(l);
        u32 old = p ? load<u32>(p) : 0, y = v[d1][l];
        if (p && old == y) store(p, v[d0][l]);
        if (op == 48) v[vdst][l] = old;
      });
      return;
    case 178: case 179: case 53: {  // permute, bpermute, swizzle
      u32 *x = tmp[0];
      memset(x, 0, sizeof tmp[0]);
      for (int l = 0; l < kLanes; l++) {
        int other;
        if (op != 53) other = (va[l] + off) >> 2 & 31;
        else if (off >= 0xe000) unknown("DS swizzle", off);
        else if (off >> 15) other = (l & ~3) + (off >> 2 * (l & 3) & 3);
        else other = (((l & off) | off >> 5) ^ off >> 10) & 31;
        if (op == 178) { if (mask >> l & 1) x[other] = v[d0][l]; }
        else if (mask >> other & 1) x[l] = v[op == 53 ? addr : d0][other];
      }
      each([&](int l) { v[vdst][l] = x[l]; });
      return;
    }
  }
  bool ret = op & 32, wide = op & 64;
  u32 k = op & 31;
  if (op < 128 && k < sizeof kind32 && kind32[k])
    return atomic(!wide ? kind32[k] : kind32[k] <= 54 ? kind32[k] + 14 : kind32[k] + 13, vdst, d0, ret, at);
  unknown("DS", op);
}

}  // namespace softhip
