// Code shared by both languages.
DEVICE float bf16_up(unsigned short s) { return as<float>((unsigned)s << 16); }
#ifndef HAS_BFLOATS
DEVICE unsigned short bf16_of(float r)
{
    const unsigned bits = as<unsigned>(r);
    return (unsigned short)((r != r ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
DEVICE unsigned bf16_pair(float low, float high) { return bf16_of(low) | (unsigned)bf16_of(high) << 16; }
#endif
// 8-bit floats of OFP8: round to nearest even, saturated.
template <int MANTISSA, int BIAS>
DEVICE float byte_up(unsigned char s)
{
    const unsigned exponent = (s & 127u) >> MANTISSA, fraction = s & ((1u << MANTISSA) - 1);
    const unsigned sign = (unsigned)(s & 128u) << 24;
    if (MANTISSA == 3 ? (s & 127u) == 127u : exponent == 31u)
        return as<float>(sign | (MANTISSA == 2 && fraction == 0 ? 0x7f800000u : 0x7fc00000u));
    if (exponent == 0) {
        const float small = (float)fraction * as<float>((unsigned)(127 + 1 - BIAS - MANTISSA) << 23);
        return as<float>(as<unsigned>(small) | sign);
    }
    return as<float>(sign | (exponent + 127 - BIAS) << 23 | fraction << (23 - MANTISSA));
}
template <int MANTISSA, int BIAS>
DEVICE unsigned char byte_of(float r)
{
    const unsigned bits = as<unsigned>(r), sign = bits >> 24 & 128u;
    unsigned size = bits & 0x7fffffffu;
    const unsigned largest = MANTISSA == 3 ? 0x43e00000u : 0x47600000u;
    if (size > 0x7f800000u)
        return (unsigned char)(sign | 127u);
    if (size >= largest)
        return (unsigned char)(sign | (MANTISSA == 3 ? 126u : 123u));
    const int exponent = (int)(size >> 23) - 127 + BIAS;
    if (exponent <= 0) {
        const float scaled = as<float>(size) * as<float>((unsigned)(127 - 1 + BIAS + MANTISSA) << 23);
        return (unsigned char)(sign | (unsigned)rintf(scaled));
    }
    size += (1u << (22 - MANTISSA)) - 1 + (size >> (23 - MANTISSA) & 1u);
    return (unsigned char)(sign | ((size >> (23 - MANTISSA)) - ((127u - BIAS) << MANTISSA)));
}
template <class T, class R>
DEVICE T saturated(R r, R below, R above, T least, T most)
{
    if (r != r)
        return 0;
    return r <= below ? least : r >= above ? most : (T)r;
}

struct f16 {
    typedef unsigned short type;
    static DEVICE float up(type s) { return f16_up(s); }
    static DEVICE type of(float r) { return f16_of(r); }
    static DEVICE type of(double r) { return f16_of((float)r); }
    static DEVICE type of(int r) { return f16_of((float)r); }
    static DEVICE type of(long long r) { return f16_of((float)r); }
};
struct bf16 {
    typedef unsigned short type;
    static DEVICE float up(type s) { return bf16_up(s); }
    static DEVICE type of(float r) { return bf16_of(r); }
    static DEVICE type of(double r) { return bf16_of((float)r); }
    static DEVICE type of(int r) { return bf16_of((float)r); }
    static DEVICE type of(long long r) { return bf16_of((float)r); }
};
struct e4m3 {
    typedef unsigned char type;
    static DEVICE float up(type s) { return byte_up<3, 7>(s); }
    template <class R>
    static DEVICE type of(R r)
    {
        return byte_of<3, 7>((float)r);
    }
};
struct e5m2 {
    typedef unsigned char type;
    static DEVICE float up(type s) { return byte_up<2, 15>(s); }
    template <class R>
    static DEVICE type of(R r)
    {
        return byte_of<2, 15>((float)r);
    }
};
struct f32 {
    typedef float type;
    static DEVICE float up(type s) { return s; }
    template <class R>
    static DEVICE type of(R r)
    {
        return (float)r;
    }
};
struct f64 {
    typedef double type;
    static DEVICE double up(type s) { return s; }
    template <class R>
    static DEVICE type of(R r)
    {
        return (double)r;
    }
};
#define WHOLE(name, T, least, most, below, above)                      \
    struct name {                                                      \
        typedef T type;                                                \
        static DEVICE type up(type s) { return s; }                    \
        template <class R>                                             \
        static DEVICE type of(R r)                                     \
        {                                                              \
            return saturated<T, R>(r, (R)below, (R)above, least, most); \
        }                                                              \
        static DEVICE type of(int r) { return (T)r; }                  \
        static DEVICE type of(long long r) { return (T)r; }            \
        static DEVICE type of(signed char r) { return (T)r; }          \
        static DEVICE type of(unsigned char r) { return (T)r; }        \
        static DEVICE type of(bool r) { return (T)r; }                 \
    };
WHOLE(i32, int, -2147483647 - 1, 2147483647, -2147483648.0, 2147483648.0)
WHOLE(i64, long long, -0x7fffffffffffffffLL - 1, 0x7fffffffffffffffLL, -9223372036854775808.0, 9223372036854775808.0)
#define BYTE(name, T, least, most)                                                     \
    struct name {                                                                      \
        typedef T type;                                                                \
        static DEVICE int up(type s) { return s; }                                     \
        template <class R>                                                             \
        static DEVICE type of(R r)                                                     \
        {                                                                              \
            return saturated<T, R>(r, (R)least, (R)most, least, most);                 \
        }                                                                              \
    };
BYTE(i8, signed char, -128, 127)
BYTE(u8, unsigned char, 0, 255)
struct bool_ {
    typedef bool type;
    static DEVICE int up(type s) { return s; }
    template <class R>
    static DEVICE type of(R r)
    {
        return r != 0;
    }
};

template <int BYTES>
struct word;
template <>
struct word<1> {
    typedef unsigned char type;
};
template <>
struct word<2> {
    typedef unsigned short type;
};
template <>
struct word<4> {
    typedef unsigned type;
};
template <>
struct word<8> {
    typedef words2 type;
};
template <>
struct word<16> {
    typedef words4 type;
};
template <class T, int N>
struct vec {
    T e[N];
};
template <class T, int N>
DEVICE vec<T, N> load_vec(const T* p)
{
    return as<vec<T, N>>(*(const typename word<sizeof(T) * N>::type*)p);
}
template <class T, int N>
DEVICE void store_vec(T* p, vec<T, N> x)
{
    typedef typename word<sizeof(T) * N>::type own;
    *(own*)p = as<own>(x);
}
template <class To, class From, int N>
DEVICE vec<typename To::type, N> converted(vec<typename From::type, N> x)
{
    vec<typename To::type, N> r;
#pragma unroll
    for (int i = 0; i < N; ++i)
        r.e[i] = To::of(From::up(x.e[i]));
    return r;
}
template <int N>
DEVICE vec<unsigned short, N> f16_pairs(vec<float, N> x)
{
    vec<unsigned, N / 2> r;
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
        r.e[i] = f16_pair(x.e[2 * i], x.e[2 * i + 1]);
    return as<vec<unsigned short, N>>(r);
}
template <int N>
DEVICE vec<unsigned short, N> bf16_pairs(vec<float, N> x)
{
    vec<unsigned, N / 2> r;
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
        r.e[i] = bf16_pair(x.e[2 * i], x.e[2 * i + 1]);
    return as<vec<unsigned short, N>>(r);
}
template <int BYTES>
struct exchange {
    template <int MASK, class T>
    static DEVICE T swapped(T x)
    {
        typedef vec<int, (BYTES + 3) / 4> words;
        words w = as<words>(x);
#pragma unroll
        for (int i = 0; i < BYTES / 4; ++i)
            w.e[i] = swapped_bits<MASK>(w.e[i]);
        return as<T>(w);
    }
    template <class T>
    static DEVICE T taken(T x, int lane)
    {
        typedef vec<int, (BYTES + 3) / 4> words;
        words w = as<words>(x);
#pragma unroll
        for (int i = 0; i < BYTES / 4; ++i)
            w.e[i] = taken_bits(w.e[i], lane);
        return as<T>(w);
    }
};
template <>
struct exchange<2> {
    template <int MASK, class T>
    static DEVICE T swapped(T x)
    {
        return as<T>((unsigned short)swapped_bits<MASK>(as<unsigned short>(x)));
    }
    template <class T>
    static DEVICE T taken(T x, int lane)
    {
        return as<T>((unsigned short)taken_bits(as<unsigned short>(x), lane));
    }
};
template <>
struct exchange<1> {
    template <int MASK, class T>
    static DEVICE T swapped(T x)
    {
        return as<T>((unsigned char)swapped_bits<MASK>(as<unsigned char>(x)));
    }
    template <class T>
    static DEVICE T taken(T x, int lane)
    {
        return as<T>((unsigned char)taken_bits(as<unsigned char>(x), lane));
    }
};
DEVICE float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
DEVICE double multiply_add(double x, double y, double z) { return fma(x, y, z); }
DEVICE int multiply_add(int x, int y, int z) { return x * y + z; }
DEVICE long long multiply_add(long long x, long long y, long long z) { return x * y + z; }
template <class Tag, int ROWS, int COLUMNS, int DEPTH, class Sum>
DEVICE void multiply_plain(Sum* s, const typename Tag::type* a, const typename Tag::type* b)
{
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
        Sum own[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            own[c] = Tag::up(b[k * COLUMNS + c]);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const Sum x = Tag::up(a[k * ROWS + r]);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
                s[r * COLUMNS + c] = multiply_add(x, own[c], s[r * COLUMNS + c]);
        }
    }
}
#ifndef HAS_COPIES
template <int BYTES, bool NEAR>
DEVICE void copy_beside(void* to, const void* from, bool is_there)
{
    typedef typename word<BYTES>::type own;
    own x = {};
    if (is_there)
        x = *(const own*)from;
    *(own*)to = x;
}
DEVICE void copies_commit() {}
template <int PENDING>
DEVICE void copies_wait()
{
}
#endif
