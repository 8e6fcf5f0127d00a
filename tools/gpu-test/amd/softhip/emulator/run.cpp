// An RDNA3 (gfx11, wave32) functional emulator: it runs one kernel launch on host memory. Each
// instruction is executed for the 32 lanes of a wave at once; the waves of a workgroup take turns at
// barriers; workgroups run one after another. An instruction it does not know stops the launch.
#include <memory>

#include "wave.h"

namespace softhip {

void Wave::run() {
  for (;;) {
    const u32 *at = pc;
    u32 w = at[0];
    if (++count >> 32) unknown("end: a wave ran 2^32 instructions", w);
    auto two = [&] { pc = at + 2; return w | (u64)at[1] << 32; };
    auto literal = [&](int c) { if (c == 255) lit = *pc++; };
    pc = at + 1;
    if (w >> 31 == 0) vop_e32(w);
    else if (w >> 30 == 2) {
      u32 top = field(w, 29, 23);
      if (top == 127) { if (sopp(w)) return; }
      else if (top == 125) { literal(field(w, 7, 0)); sop1(w); }
      else if (top == 126) { literal(field(w, 7, 0)); if (field(w, 7, 0) != 255) literal(field(w, 15, 8)); sopc(w); }
      else if (top >= 96) sopk(w);
      else { literal(field(w, 7, 0)); if (field(w, 7, 0) != 255) literal(field(w, 15, 8)); sop2(w); }
    } else switch (w >> 26) {
      case 0b110010: vopd(two()); break;
      case 0b110011: if (w >> 24 != 0xcc) { pc = at; unknown("VINTERP", w); } vop3p(two()); break;
      case 0b110101: vop3(two()); break;
      case 0b110110: ds(two()); break;
      case 0b110111: flat(two()); break;
      case 0b111000: mubuf(two()); break;
      case 0b111101: smem(two()); break;
      default: pc = at; unknown("format", w >> 26);
    }
  }
}

namespace {

void run_group(softhip_dispatch &d, u32 x, u32 y, u32 z) {
  u32 rsrc2 = load<u32>((u64)d.kd + 52), props = load<u16>((u64)d.kd + 56);
  if (!(props >> 10 & 1)) throw Unknown("rdna3: wave64 kernel");
  u32 id[3] = {x, y, z}, n[3];
  for (int i = 0; i < 3; i++) n[i] = std::min(d.group[i], d.grid[i] - id[i] * d.group[i]);
  u32 items = n[0] * n[1] * n[2];
  Group g(d);
  std::vector<std::unique_ptr<Wave>> waves;
  for (u32 first = 0; first < items; first += kLanes) {
    waves.emplace_back(new Wave(g));
    Wave &w = *waves.back();
    u32 r = 0;
    if (props & 1) r += 4;
    if (props & 2) { w.set64(r, (u64)d.packet); r += 2; }
    if (props & 4) r += 2;
    if (props & 8) { w.set64(r, (u64)d.kernarg); r += 2; }
    if (props & 16) r += 2;
    if (props & 32) r += 2;
    if (props & 64) w.s[r++] = d.scratch;
    u32 preload = load<u16>((u64)d.kd + 58);
    for (u32 i = 0; i < (preload & 127); i++) w.s[r++] = load<u32>((u64)d.kernarg + 4 * ((preload >> 7) + i));
    r = rsrc2 >> 1 & 31;
    for (int i = 0; i < 3; i++)
      if (rsrc2 >> (7 + i) & 1) w.s[r++] = id[i];
    u32 lanes = std::min<u32>(kLanes, items - first);
    w.s[EXEC] = lanes == 32 ? ~0u : (1u << lanes) - 1;
    for (u32 l = 0; l < lanes; l++) {
      u32 t = first + l;
      w.v[0][l] = t % n[0] | t / n[0] % n[1] << 10 | t / n[0] / n[1] << 20;
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < waves.size(); i++) {
      Wave &w = *waves[d.reverse ? waves.size() - 1 - i : i];
      if (!w.done) { w.run(); more |= !w.done; }
    }
  }
  for (auto &w : waves) d.instructions += w->count;
}

}  // namespace
}  // namespace softhip

extern "C" int softhip_run(softhip_dispatch *d) {
  using namespace softhip;
  u32 n[3];
  for (int i = 0; i < 3; i++) n[i] = (d->grid[i] + d->group[i] - 1) / d->group[i];
  try {
    u64 total = (u64)n[0] * n[1] * n[2];
    for (u64 i = 0; i < total; i++) {
      u64 t = d->reverse ? total - 1 - i : i;
      run_group(*d, t % n[0], t / n[0] % n[1], t / n[0] / n[1]);
    }
  } catch (std::exception &e) {
    fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
