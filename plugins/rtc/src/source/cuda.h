// The kernels' definitions for CUDA, without its headers, which NVRTC does not need.
#define DEVICE __device__ __forceinline__
// Number of threads that exchange values without shared memory.
#define WAVE 32
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
DEVICE unsigned halves_made(float low, float high)
{
#if __CUDA_ARCH__ >= 800
    unsigned s;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(high), "f"(low));
    return s;
#else
    return half_made(low) | (unsigned)half_made(high) << 16;
#endif
}
#if __CUDA_ARCH__ >= 800
#define HAS_BFLOATS
DEVICE unsigned bfloats_made(float low, float high)
{
    unsigned s;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(high), "f"(low));
    return s;
}
DEVICE float float_larger(float x, float y)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
DEVICE float float_smaller(float x, float y)
{
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
#else
DEVICE float float_larger(float x, float y) { return x >= y || x != x ? x : y; }
DEVICE float float_smaller(float x, float y) { return x <= y || x != x ? x : y; }
#endif
#if __CUDA_ARCH__ >= 890
#define HAS_BYTE_FLOATS
DEVICE unsigned char e4m3_made(float r)
{
    unsigned short s;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(s) : "f"(0.0f), "f"(r));
    return (unsigned char)s;
}
DEVICE unsigned char e5m2_made(float r)
{
    unsigned short s;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(s) : "f"(0.0f), "f"(r));
    return (unsigned char)s;
}
#endif
// Relative error about 2^-22; subnormal results become 0.
DEVICE float quick_exp2(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
DEVICE float quick_reciprocal(float x)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
template <class R>
DEVICE R of_lane(R own, int step)
{
    return __shfl_xor_sync(0xffffffffu, own, step);
}
