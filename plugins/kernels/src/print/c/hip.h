// Definitions for HIP, without its headers.
#define DEVICE __device__ __forceinline__
template <class T, class S>
DEVICE T as(S s)
{
    return __builtin_bit_cast(T, s);
}
template <int N>
using halves_n = _Float16 __attribute__((ext_vector_type(N)));
template <int N>
using bfloats_n = __bf16 __attribute__((ext_vector_type(N)));
template <int N>
using shorts_n = short __attribute__((ext_vector_type(N)));
template <class T, int N>
using vector_n = T __attribute__((ext_vector_type(N)));
typedef unsigned words2 __attribute__((ext_vector_type(2)));
typedef unsigned words4 __attribute__((ext_vector_type(4)));
DEVICE float f16_up(unsigned short s) { return (float)as<_Float16>(s); }
DEVICE unsigned short f16_of(float r) { return as<unsigned short>((_Float16)r); }
DEVICE unsigned f16_pair(float low, float high) { return f16_of(low) | (unsigned)f16_of(high) << 16; }
DEVICE float quick_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
DEVICE float m_max(float x, float y) { return x >= y || x != x ? x : y; }
DEVICE float m_min(float x, float y) { return x <= y || x != x ? x : y; }
template <int MASK>
DEVICE int swapped_bits(int x)
{
    if (MASK < 32)
        return __builtin_amdgcn_ds_swizzle(x, MASK % 32 << 10 | 31);
    return __builtin_amdgcn_ds_bpermute((int)(threadIdx.x ^ MASK) << 2, x);
}
DEVICE int taken_bits(int x, int lane) { return __builtin_amdgcn_ds_bpermute(lane << 2, x); }
