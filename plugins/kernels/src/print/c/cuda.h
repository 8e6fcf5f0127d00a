// Definitions for CUDA, without its headers.
#define DEVICE __device__ __forceinline__
template <class T, class S>
DEVICE T as(S s)
{
    union both {
        S s;
        T t;
        DEVICE both() {}
    } u;
    u.s = s;
    return u.t;
}
typedef uint2 words2;
typedef uint4 words4;
DEVICE float f16_up(unsigned short s)
{
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(s));
    return r;
}
DEVICE unsigned short f16_of(float r)
{
    unsigned short s;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(s) : "f"(r));
    return s;
}
DEVICE float quick_exp2(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
#if __CUDA_ARCH__ >= 800
#define HAS_BFLOATS
DEVICE unsigned f16_pair(float low, float high)
{
    unsigned s;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(high), "f"(low));
    return s;
}
DEVICE unsigned bf16_pair(float low, float high)
{
    unsigned s;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(high), "f"(low));
    return s;
}
DEVICE unsigned short bf16_of(float r) { return (unsigned short)bf16_pair(r, 0.0f); }
#else
DEVICE unsigned f16_pair(float low, float high) { return f16_of(low) | (unsigned)f16_of(high) << 16; }
#endif
DEVICE float m_max(float x, float y) { return x >= y || x != x ? x : y; }
DEVICE float m_min(float x, float y) { return x <= y || x != x ? x : y; }
template <int MASK>
DEVICE int swapped_bits(int x)
{
    return __shfl_xor_sync(0xffffffffu, x, MASK);
}
DEVICE int taken_bits(int x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }

DEVICE unsigned shared_place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
DEVICE void matrices(unsigned* t, const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3])
                 : "r"(shared_place(p))
                 : "memory");
}
DEVICE void matrices_turned(unsigned* t, const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3])
                 : "r"(shared_place(p))
                 : "memory");
}
#define MMA_FLOAT(name, what)                                                                              \
    DEVICE void name(float *s, const unsigned *a, const unsigned *b)                                       \
    {                                                                                                      \
        asm volatile("mma.sync.aligned." what " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                     : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])                                      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                  \
    }
#define MMA_INT(name, what)                                                                                \
    DEVICE void name(int *s, const unsigned *a, const unsigned *b)                                         \
    {                                                                                                      \
        asm volatile("mma.sync.aligned." what " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                     : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])                                      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                  \
    }
#if __CUDA_ARCH__ >= 800
MMA_FLOAT(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_FLOAT(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_INT(mma_i8, "m16n8k32.row.col.s32.s8.s8.s32")
MMA_INT(mma_u8, "m16n8k32.row.col.s32.u8.u8.s32")
#endif
#if __CUDA_ARCH__ >= 890
MMA_FLOAT(mma_e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
MMA_FLOAT(mma_e5m2, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
#endif
#if __CUDA_ARCH__ >= 800
#define HAS_COPIES
template <int BYTES, bool NEAR>
DEVICE void copy_beside(void* to, const void* from, bool is_there)
{
    const int size = is_there ? BYTES : 0;
    // The L1 cache keeps what goes by "ca", the only way for fewer bytes.
    if (BYTES == 16 && !NEAR)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_place(to)), "l"(from), "r"(size)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_place(to)), "l"(from), "n"(BYTES),
                     "r"(size)
                     : "memory");
}
DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
DEVICE void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
#endif
