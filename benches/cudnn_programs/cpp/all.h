/* Compiled once for all samples. */
#include <catch2/benchmark/catch_benchmark.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime.h>
#include <cudnn_frontend.h>
#include <random>
#include <thread>
