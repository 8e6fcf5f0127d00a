// Common code of all kernels: elements in memory, unary functions, and reductions across threads.
typedef unsigned int index_t;

// Truncates toward zero; out of range the nearest value, 0 for NaN.
template <class T, class R>
DEVICE T saturated(R r, R below, R above, T least, T most)
{
    if (r != r)
        return 0;
    return r <= below ? least : r >= above ? most : (T)r;
}

#ifndef HAS_BFLOATS
DEVICE unsigned bfloat_made(float r)
{
    const unsigned bits = bits_of(r);
    return (r != r ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
DEVICE unsigned bfloats_made(float low, float high) { return bfloat_made(low) | bfloat_made(high) << 16; }
#endif

struct f32 {
    typedef float type;
    static DEVICE float load(type s) { return s; }
    template <class R>
    static DEVICE type store(R r)
    {
        return (float)r;
    }
};
struct f64 {
    typedef double type;
    static DEVICE double load(type s) { return s; }
    template <class R>
    static DEVICE type store(R r)
    {
        return (double)r;
    }
};
struct f16 {
    typedef unsigned short type;
    static DEVICE float load(type s) { return half_read(s); }
    template <class R>
    static DEVICE type store(R r)
    {
        return half_made(r);
    }
    template <class R>
    static DEVICE unsigned both(R low, R high)
    {
        return halves_made((float)low, (float)high);
    }
    static DEVICE unsigned both(double low, double high) { return half_made(low) | (unsigned)half_made(high) << 16; }
};
struct bf16 {
    typedef unsigned short type;
    static DEVICE float load(type s) { return float_of((unsigned)s << 16); }
    template <class R>
    static DEVICE type store(R r)
    {
        return (type)both((float)r, 0.0f);
    }
    template <class R>
    static DEVICE unsigned both(R low, R high)
    {
        return bfloats_made((float)low, (float)high);
    }
};
struct i64 {
    typedef long long type;
    static DEVICE type load(type s) { return s; }
    template <class R>
    static DEVICE type store(R r)
    {
        const type most = 0x7fffffffffffffffLL;
        return saturated<type, R>(r, (R)-9223372036854775808.0, (R)9223372036854775808.0, -most - 1, most);
    }
};
struct i32 {
    typedef int type;
    static DEVICE type load(type s) { return s; }
    template <class R>
    static DEVICE type store(R r)
    {
        return saturated<type, R>(r, (R)-2147483648.0, (R)2147483648.0, -2147483647 - 1, 2147483647);
    }
};
struct i8 {
    typedef signed char type;
    static DEVICE int load(type s) { return s; }
    template <class R>
    static DEVICE type store(R r)
    {
        return saturated<type, R>(r, (R)-128, (R)128, -128, 127);
    }
};
struct u8 {
    typedef unsigned char type;
    static DEVICE int load(type s) { return s; }
    template <class R>
    static DEVICE type store(R r)
    {
        return saturated<type, R>(r, (R)0, (R)256, 0, 255);
    }
};

// Rounds a double to odd: the float's last bit tells if it is inexact, so that rounding it once more is as
// good as rounding the double.
DEVICE float to_odd(float r) { return r; }
DEVICE float to_odd(double r)
{
    const float near = (float)r;
    if ((double)near == r || near != near || bits_of(near) << 1 == 0xff000000u)
        return near;
    const unsigned below = bits_of(near) - ((near < 0 ? -near : near) > (r < 0 ? -r : r) ? 1u : 0u);
    return float_of(below | 1u);
}
#ifndef HAS_BYTE_FLOATS
// 8-bit floats (OFP8 1.0) with MANTISSA fraction bits: round to nearest even; values too large become the
// largest finite one.
template <int MANTISSA, int BIAS>
DEVICE unsigned char byte_float_made(float r, float most)
{
    const unsigned sign = bits_of(r) >> 24 & 0x80u;
    const float size = float_of(bits_of(r) & 0x7fffffffu);
    if (r != r)
        return sign | 0x7fu;
    const unsigned bits = bits_of(size < most ? size : most);
    const float least = float_of((unsigned)(128 - BIAS) << 23);
    // Adding a number whose last bit has the weight of a subnormal's rounds a magnitude to such bits.
    const float shift = float_of((unsigned)(128 - BIAS - MANTISSA + 23) << 23);
    const unsigned small = bits_of(size + shift) - bits_of(shift);
    const unsigned half = (1u << (22 - MANTISSA)) - 1 + (bits >> (23 - MANTISSA) & 1u);
    const unsigned normal = ((bits + half) >> (23 - MANTISSA)) - ((unsigned)(127 - BIAS) << MANTISSA);
    return sign | (size < least ? small : normal);
}
DEVICE unsigned char e4m3_made(float r) { return byte_float_made<3, 7>(r, 448.0f); }
DEVICE unsigned char e5m2_made(float r) { return byte_float_made<2, 15>(r, 57344.0f); }
#endif
struct e4m3 {
    typedef unsigned char type;
    static DEVICE float load(type s)
    {
        const unsigned size = s & 0x7fu;
        const float normal = float_of((size << 20) + (120u << 23));
        const float whole = size == 0x7fu ? float_of(0x7fc00000u) : size < 8 ? (float)size * 0.001953125f : normal;
        return s & 0x80u ? -whole : whole;
    }
    template <class R>
    static DEVICE type store(R r)
    {
        return e4m3_made(to_odd(r));
    }
};
struct e5m2 {
    typedef unsigned char type;
    static DEVICE float load(type s) { return half_read((unsigned short)(s << 8)); }
    template <class R>
    static DEVICE type store(R r)
    {
        return e5m2_made(to_odd(r));
    }
};
struct truth {
    typedef unsigned char type;
    static DEVICE int load(type s) { return s != 0; }
    template <class R>
    static DEVICE type store(R r)
    {
        return r != (R)0;
    }
};

// Contiguous elements that are loaded and stored at once.
template <class TAG, int N, int SIZE = sizeof(typename TAG::type)>
struct alignas(SIZE* N) pack {
    typename TAG::type e[N];
    DEVICE auto at(int i) const { return TAG::load(e[i]); }
    template <class R>
    static DEVICE pack of(const R* r)
    {
        pack made;
#pragma unroll
        for (int i = 0; i < N; i++)
            made.e[i] = TAG::store(r[i]);
        return made;
    }
};
// Two per word, which are unpacked when they are converted.
template <class TAG, int N>
struct alignas(2 * N) pack<TAG, N, 2> {
    unsigned e[N / 2];
    DEVICE float at(int i) const { return TAG::load((unsigned short)(e[i / 2] >> (i % 2 * 16))); }
    template <class R>
    static DEVICE pack of(const R* r)
    {
        pack made;
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            made.e[i] = TAG::both(r[2 * i], r[2 * i + 1]);
        return made;
    }
};

#define FUNCTION(name) \
    DEVICE float m_##name(float x) { return name##f(x); } \
    DEVICE double m_##name(double x) { return name(x); }
FUNCTION(fabs)
FUNCTION(ceil)
FUNCTION(floor)
FUNCTION(sqrt)
FUNCTION(exp)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log1p)
FUNCTION(sin)
FUNCTION(tan)
FUNCTION(tanh)
FUNCTION(erf)

DEVICE float m_fma(float x, float y, float z) { return fmaf(x, y, z); }
DEVICE double m_fma(double x, double y, double z) { return fma(x, y, z); }

template <class R>
DEVICE R sigmoid(R x)
{
    return 1 / (1 + m_exp(-x));
}
DEVICE float sigmoid(float x) { return quick_reciprocal(1 + m_exp(-x)); }
template <class R>
DEVICE R larger(R x, R y)
{
    return x >= y || x != x ? x : y;
}
template <class R>
DEVICE R smaller(R x, R y)
{
    return x <= y || x != x ? x : y;
}
DEVICE float larger(float x, float y) { return float_larger(x, y); }
DEVICE float smaller(float x, float y) { return float_smaller(x, y); }
template <class R>
DEVICE R relu(R x, R lower, R upper, R slope)
{
    if (x <= lower)
        return (slope == 0 ? (R)0 : slope * (x - lower)) + lower;
    return x >= upper ? upper : x;
}
template <class R>
DEVICE R relu_slope(R dy, R x, R lower, R upper, R slope)
{
    if (x <= lower)
        return slope == 0 ? (R)0 : slope * dy;
    return x > upper ? (R)0 : dy;
}
// x times a share; 0 if the share is 0, although x may be infinite.
template <class R>
DEVICE R share_of(R x, R share)
{
    return share == 0 ? (R)0 : x * share;
}
// The value with its magnitude limited to where the slope of GELU is 0 or 1; NaN stays.
template <class R>
DEVICE R limited(R x)
{
    return x > (R)1e4 ? (R)1e4 : x < (R)-1e4 ? (R)-1e4 : x;
}
template <class R>
DEVICE R gelu(R x)
{
    return share_of((R)0.5 * x, 1 + m_erf(x * (R)0.7071067811865476));
}
// x times the normal distribution function of x: Abramowitz and Stegun 7.1.26, error at most 0.75e-7 plus
// rounding.
DEVICE float gelu(float x)
{
    const float t = quick_reciprocal(fmaf(fabsf(x), 0.231641888f, 1));
    float above = fmaf(t, 0.5307027145f, -0.7265760135f);
    above = fmaf(t, above, 0.7107068705f);
    above = fmaf(t, above, -0.142248368f);
    above = fmaf(t, above, 0.127414796f);
    above = above * t * quick_exp2(x * x * -0.7213475204f);
    return share_of(x, x > 0 ? 1 - above : above);
}
template <class R>
DEVICE R gelu_slope(R dy, R x)
{
    x = limited(x);
    const R below = (R)0.5 * (1 + m_erf(x * (R)0.7071067811865476));
    return dy * (below + x * (m_exp(-((R)0.5 * x * x)) * (R)0.3989422804014327));
}
template <class R>
DEVICE R gelu_argument(R x)
{
    return (R)0.7978845608028654 * (x + (R)0.044715 * x * x * x);
}
template <class R>
DEVICE R gelu_by_tanh(R x)
{
    return share_of((R)0.5 * x, 1 + m_tanh(gelu_argument(x)));
}
// The same as x / (1 + 2^-z), z = 2 log2(e) times the argument of tanh.
DEVICE float gelu_by_tanh(float x)
{
    const float z = x * fmaf(x * x, -0.10294324f, -2.302208198f);
    return share_of(x, quick_reciprocal(1 + quick_exp2(z)));
}
template <class R>
DEVICE R gelu_by_tanh_slope(R dy, R x)
{
    x = limited(x);
    const R t = m_tanh(gelu_argument(x));
    const R inner = (R)0.7978845608028654 * (1 + (R)0.134145 * x * x);
    return dy * ((R)0.5 * (1 + t) + (R)0.5 * x * (1 - t * t) * inner);
}
template <class R>
DEVICE R sigmoid_slope(R dy, R x)
{
    const R s = sigmoid(x);
    return dy * s * (1 - s);
}
template <class R>
DEVICE R tanh_slope(R dy, R x)
{
    const R t = m_tanh(x);
    return dy * (1 - t * t);
}
template <class R>
DEVICE R swish(R x, R beta)
{
    return x / (1 + m_exp(-(beta * x)));
}
DEVICE float swish(float x, float beta) { return x * sigmoid(beta * x); }
template <class R>
DEVICE R swish_slope(R dy, R x, R beta)
{
    const R s = sigmoid(beta * x);
    return dy * (s + beta * x * s * (1 - s));
}
template <class R>
DEVICE R elu(R x, R alpha)
{
    return x > 0 ? x : alpha * m_expm1(x);
}
template <class R>
DEVICE R elu_slope(R dy, R x, R alpha)
{
    return x > 0 ? dy : dy * alpha * m_exp(x);
}
template <class R>
DEVICE R softplus(R x, R beta)
{
    const R z = beta * x;
    return ((z > 0 ? z : (R)0) + m_log1p(m_exp(-m_fabs(z)))) / beta;
}

struct join_sum {
    template <class R>
    static DEVICE R of(R a, R b)
    {
        return a + b;
    }
};
struct join_product {
    template <class R>
    static DEVICE R of(R a, R b)
    {
        return a * b;
    }
};
struct join_largest {
    template <class R>
    static DEVICE R of(R a, R b)
    {
        return larger(a, b);
    }
};
struct join_smallest {
    template <class R>
    static DEVICE R of(R a, R b)
    {
        return smaller(a, b);
    }
};

// Shared memory that `across` needs for COUNT values, in values. They share it if `across` ends with a
// barrier.
template <int THREADS, int STRIDE, int BLOCK, int COUNT>
struct shared_words {
    static constexpr bool waves = STRIDE == 1 && WAVE > 1;
    static constexpr int step = waves ? (BLOCK + WAVE - 1) / WAVE : 0;
    static constexpr int all = waves ? step * COUNT : BLOCK;
};

// Reduces the values of a row's THREADS threads, which are STRIDE apart in the workgroup. `shared` is for
// this row and value alone.
template <class JOIN, int THREADS, int STRIDE, class R>
DEVICE R across(R own, R* shared, index_t lane)
{
    const index_t at = threadIdx.x;
    if constexpr (STRIDE == 1 && WAVE > 1) {
#pragma unroll
        for (int step = (THREADS < WAVE ? THREADS : WAVE) / 2; step > 0; step /= 2)
            own = JOIN::of(own, of_lane(own, step));
        if constexpr (THREADS > WAVE) {
            constexpr int WAVES = THREADS / WAVE;
            const index_t first = (at - lane) / WAVE;
            if (lane % WAVE == 0)
                shared[at / WAVE] = own;
            __syncthreads();
            own = shared[first + lane % WAVES];
#pragma unroll
            for (int step = WAVES / 2; step > 0; step /= 2)
                own = JOIN::of(own, of_lane(own, step));
        }
        return own;
    } else {
        shared[at] = own;
        __syncthreads();
        for (int half = THREADS / 2; half > 0; half /= 2) {
            if (lane < half)
                shared[at] = JOIN::of(shared[at], shared[at + half * STRIDE]);
            __syncthreads();
        }
        const R all = shared[at - lane * STRIDE];
        __syncthreads();
        return all;
    }
}
