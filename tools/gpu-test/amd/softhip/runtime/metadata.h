// The metadata of kernels, which is msgpack.
#pragma once
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace softhip {

struct Node {
  uint64_t num = 0;
  std::string str;
  std::vector<Node> list;
  std::map<std::string, Node> map;
  const Node &operator[](const char *k) const {
    static const Node none;
    auto it = map.find(k);
    return it == map.end() ? none : it->second;
  }
};

struct Msgpack {
  const uint8_t *p;
  uint64_t be(int n) {
    uint64_t v = 0;
    while (n--) v = v << 8 | *p++;
    return v;
  }
  Node text(size_t n) { Node r; r.str.assign((const char *)p, n); p += n; return r; }
  Node array(size_t n) { Node r; while (n--) r.list.push_back(read()); return r; }
  Node dict(size_t n) {
    Node r;
    while (n--) { std::string k = read().str; r.map[k] = read(); }
    return r;
  }
  Node number(uint64_t v) { Node r; r.num = v; return r; }
  Node read() {
    uint8_t t = *p++;
    if (t < 0x80 || t >= 0xe0) return number((int64_t)(int8_t)t);
    if (t < 0x90) return dict(t & 15);
    if (t < 0xa0) return array(t & 15);
    if (t < 0xc0) return text(t & 31);
    switch (t) {
      case 0xc0: case 0xc2: return number(0);
      case 0xc3: return number(1);
      case 0xc4: case 0xd9: return text(be(1));
      case 0xc5: case 0xda: return text(be(2));
      case 0xc6: case 0xdb: return text(be(4));
      case 0xca: case 0xcc: case 0xcd: case 0xce: case 0xcf: case 0xcb:
        return number(be(t == 0xca ? 4 : t == 0xcb ? 8 : 1 << (t - 0xcc)));
      case 0xd0: return number((int64_t)(int8_t)be(1));
      case 0xd1: return number((int64_t)(int16_t)be(2));
      case 0xd2: return number((int64_t)(int32_t)be(4));
      case 0xd3: return number(be(8));
      case 0xdc: return array(be(2));
      case 0xdd: return array(be(4));
      case 0xde: return dict(be(2));
      case 0xdf: return dict(be(4));
    }
    throw std::runtime_error("softhip: unexpected msgpack tag");
  }
};

}  // namespace softhip
