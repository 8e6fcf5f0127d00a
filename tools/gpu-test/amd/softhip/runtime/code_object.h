// Modules: code objects that were loaded, with their kernels and variables.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "common.h"
#include "metadata.h"

namespace softhip {

struct Module;
struct Function {
  Module *module;
  std::string name;
  Node meta;
  const uint8_t *kd;
};

struct Module {
  uint8_t *image = nullptr;  // the loaded segments
  size_t size = 0;
  const uint8_t *code_end = nullptr;
  std::map<std::string, std::pair<uint8_t *, size_t>> symbols;
  std::map<std::string, std::unique_ptr<Function>> functions;
  ~Module();
  Function *function(const std::string &n) {
    auto it = functions.find(n);
    return it == functions.end() ? nullptr : it->second.get();
  }
};

// An ELF, an offload bundle, or a compressed offload bundle.
hipError_t load_module(hipModule_t *out, const void *image);

}  // namespace softhip
