// What the kernels need of CUDA's language, without its headers: NVRTC needs none.
#define DEVICE __device__ __forceinline__
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

DEVICE unsigned bits_of(float r) { return __float_as_uint(r); }
DEVICE float float_of(unsigned bits) { return __uint_as_float(bits); }
DEVICE float half_read(unsigned short s)
{
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(s));
    return r;
}
DEVICE unsigned short half_made(float r)
{
    unsigned short s;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(s) : "f"(r));
    return s;
}
DEVICE unsigned short half_made(double r)
{
    unsigned short s;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(s) : "d"(r));
    return s;
}
