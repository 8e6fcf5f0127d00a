#pragma once
#include <cstddef>
inline size_t cublasLtGetVersion() { return 130500; }
