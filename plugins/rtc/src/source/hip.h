// What the kernels need of HIP's language. Another target gives the same names in its own words.
#define DEVICE __device__ __forceinline__
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

DEVICE unsigned bits_of(float r) { return __builtin_bit_cast(unsigned, r); }
DEVICE float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
DEVICE float half_read(unsigned short s) { return (float)__builtin_bit_cast(_Float16, s); }
DEVICE unsigned short half_made(float r) { return __builtin_bit_cast(unsigned short, (_Float16)r); }
DEVICE unsigned short half_made(double r) { return __builtin_bit_cast(unsigned short, (_Float16)r); }
