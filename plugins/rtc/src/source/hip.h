// The kernels' definitions for HIP. Other platforms define the same names.
#define DEVICE __device__ __forceinline__
// Assumes no wave size.
#define WAVE 1
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

DEVICE unsigned bits_of(float r) { return __builtin_bit_cast(unsigned, r); }
DEVICE float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
DEVICE float half_read(unsigned short s) { return (float)__builtin_bit_cast(_Float16, s); }
DEVICE unsigned short half_made(float r) { return __builtin_bit_cast(unsigned short, (_Float16)r); }
DEVICE unsigned short half_made(double r) { return __builtin_bit_cast(unsigned short, (_Float16)r); }
DEVICE unsigned halves_made(float low, float high) { return half_made(low) | (unsigned)half_made(high) << 16; }
DEVICE float float_larger(float x, float y) { return x >= y || x != x ? x : y; }
DEVICE float float_smaller(float x, float y) { return x <= y || x != x ? x : y; }
DEVICE float quick_exp2(float x) { return exp2f(x); }
DEVICE float quick_reciprocal(float x) { return 1 / x; }
