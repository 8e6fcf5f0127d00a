// Loads code objects for gfx1100.
#include "code_object.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "memory.h"

namespace softhip {

using Bytes = std::vector<uint8_t>;

constexpr unsigned kMachGfx1100 = 0x41, kMachGfx11Generic = 0x54;

Module::~Module() {
  if (image) take_back(image);
  free(image);
}

static void load_elf(Module &m, const uint8_t *elf) {
  auto eh = get<Elf64_Ehdr>(elf);
  unsigned mach = eh.e_flags & 0xff;
  if (eh.e_machine != 224 || (mach != kMachGfx1100 && mach != kMachGfx11Generic))
    throw std::runtime_error("softhip: code object is not for gfx1100");
  std::vector<Elf64_Phdr> ph(eh.e_phnum);
  memcpy(ph.data(), elf + eh.e_phoff, eh.e_phnum * sizeof(Elf64_Phdr));
  for (auto &p : ph)
    if (p.p_type == PT_LOAD) m.size = std::max<size_t>(m.size, p.p_vaddr + p.p_memsz);
  if (posix_memalign((void **)&m.image, 65536, m.size + 65536)) throw std::bad_alloc();
  memset(m.image, 0, m.size + 65536);
  lend(m.image, m.size + 65536, hipMemoryTypeDevice);
  std::vector<Node> kernels;  // a linked library of kernels carries one metadata note for each
  for (auto &p : ph) {
    if (p.p_type == PT_LOAD) {
      memcpy(m.image + p.p_vaddr, elf + p.p_offset, p.p_filesz);
      if (p.p_flags & PF_X) m.code_end = m.image + p.p_vaddr + p.p_memsz;
    } else if (p.p_type == PT_NOTE) {
      for (const uint8_t *q = elf + p.p_offset, *e = q + p.p_filesz; q + 12 <= e;) {
        auto n = get<Elf64_Nhdr>(q);
        const uint8_t *desc = q + 12 + (n.n_namesz + 3) / 4 * 4;
        if (n.n_type == 32) {
          Node meta = Msgpack{desc}.read();
          for (auto &k : meta["amdhsa.kernels"].list) kernels.push_back(k);
        }
        q = desc + (n.n_descsz + 3) / 4 * 4;
      }
    }
  }
  std::vector<Elf64_Sym> dynsym;
  for (unsigned i = 0; i < eh.e_shnum; i++) {
    auto sh = get<Elf64_Shdr>(elf + eh.e_shoff + i * eh.e_shentsize);
    if (sh.sh_type != SHT_DYNSYM) continue;
    auto str = get<Elf64_Shdr>(elf + eh.e_shoff + sh.sh_link * eh.e_shentsize);
    dynsym.resize(sh.sh_size / sizeof(Elf64_Sym));
    memcpy(dynsym.data(), elf + sh.sh_offset, sh.sh_size);
    for (auto &s : dynsym)
      if (s.st_shndx) m.symbols[(const char *)elf + str.sh_offset + s.st_name] = {m.image + s.st_value, s.st_size};
  }
  for (unsigned i = 0; i < eh.e_shnum; i++) {
    auto sh = get<Elf64_Shdr>(elf + eh.e_shoff + i * eh.e_shentsize);
    if (sh.sh_type != SHT_RELA) continue;
    for (size_t o = 0; o < sh.sh_size; o += sizeof(Elf64_Rela)) {
      auto r = get<Elf64_Rela>(elf + sh.sh_offset + o);
      auto &s = dynsym.at(ELF64_R_SYM(r.r_info));
      uint64_t value = (s.st_shndx ? (uint64_t)m.image + s.st_value : 0) + r.r_addend;
      uint8_t *at = m.image + r.r_offset;
      switch (ELF64_R_TYPE(r.r_info)) {
        case 13: value = (uint64_t)m.image + r.r_addend;  // RELATIVE64
        [[fallthrough]];
        case 3: memcpy(at, &value, 8); break;              // ABS64
        case 1: memcpy(at, &value, 4); break;              // ABS32_LO
        case 2: value >>= 32; memcpy(at, &value, 4); break;
        default: throw std::runtime_error("softhip: unknown relocation");
      }
    }
  }
  for (auto &k : kernels) {
    auto sym = m.symbols.find(k[".symbol"].str);
    if (sym == m.symbols.end()) continue;
    auto f = std::unique_ptr<Function>(new Function{&m, k[".name"].str, k, sym->second.first});
    m.functions[f->name] = std::move(f);
  }
}

// zstd (method 1) or zlib (method 0) by the libraries the process already has or can find.
static Bytes decompress(unsigned method, const uint8_t *src, size_t n, size_t out) {
  Bytes r(out);
  if (method == 1) {
    void *h = dlopen("libzstd.so.1", RTLD_NOW);
    auto f = h ? (size_t(*)(void *, size_t, const void *, size_t))dlsym(h, "ZSTD_decompress") : nullptr;
    if (!f || f(r.data(), out, src, n) != out) throw std::runtime_error("softhip: zstd failed");
  } else {
    void *h = dlopen("libz.so.1", RTLD_NOW);
    auto f = h ? (int (*)(void *, unsigned long *, const void *, unsigned long))dlsym(h, "uncompress") : nullptr;
    unsigned long got = out;
    if (!f || f(r.data(), &got, src, n) || got != out) throw std::runtime_error("softhip: zlib failed");
  }
  return r;
}

static void load_image(Module &m, const uint8_t *p) {
  if (!memcmp(p, ELFMAG, 4)) return load_elf(m, p);
  if (!memcmp(p, "CCOB", 4)) {
    unsigned version = get<uint16_t>(p + 4), method = get<uint16_t>(p + 6);
    size_t total = version >= 3 ? get<uint64_t>(p + 8) : get<uint32_t>(p + 8);
    size_t out = version >= 3 ? get<uint64_t>(p + 16) : get<uint32_t>(p + 12);
    size_t head = version >= 3 ? 32 : 24;
    return load_image(m, decompress(method, p + head, total - head, out).data());
  }
  if (!memcmp(p, "__CLANG_OFFLOAD_BUNDLE__", 24)) {
    const uint8_t *q = p + 32;
    for (uint64_t n = get<uint64_t>(p + 24); n--;) {
      uint64_t off = get<uint64_t>(q), size = get<uint64_t>(q + 8), len = get<uint64_t>(q + 16);
      std::string id((const char *)q + 24, len);
      q += 24 + len;
      bool ours = id.find("--gfx1100") != std::string::npos || id.find("--gfx11-generic") != std::string::npos;
      if (ours && size) return load_elf(m, p + off);
    }
  }
  throw std::runtime_error("softhip: no gfx1100 code in this image");
}

hipError_t load_module(hipModule_t *out, const void *image) {
  std::unique_ptr<Module> m(new Module);
  try {
    load_image(*m, (const uint8_t *)image);
  } catch (std::exception &e) {
    fprintf(stderr, "%s\n", e.what());
    return set(hipErrorNoBinaryForGpu);
  }
  *out = (hipModule_t)m.release();
  return hipSuccess;
}

}  // namespace softhip
