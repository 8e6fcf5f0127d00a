/* SPDX-License-Identifier: MIT */

/* Elements in memory as numbers, by CUDA's numbers of data types. */
#ifndef STANDIN_NUMBERS_H
#define STANDIN_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    STANDIN_FLOAT = 0,
    STANDIN_DOUBLE = 1,
    STANDIN_HALF = 2,
    STANDIN_INT32 = 10,
    STANDIN_BFLOAT16 = 14,
    STANDIN_E4M3 = 28,
    STANDIN_E5M2 = 29
};

static inline double standin_half(uint16_t s)
{
    const int e = s >> 10 & 31, m = s & 1023;
    const double r = e == 31 ? (m != 0 ? NAN : INFINITY) : e != 0 ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return s & 0x8000 ? -r : r;
}

static inline uint16_t standin_half_of(double r)
{
    const unsigned sign = signbit(r) ? 0x8000u : 0;
    int e;
    r = fabs(r);
    if (isnan(r)) {
        return 0x7fff;
    }
    if (r >= 65520.0) {
        return (uint16_t)(sign | 0x7c00u);
    }
    frexp(r, &e);
    e = r < 0x1p-14 ? -13 : e;
    const unsigned m = (unsigned)nearbyint(ldexp(r, 11 - e));
    return (uint16_t)(sign | (e == -13 ? m : ((unsigned)(e + 13) << 10) + m));
}

static inline uint16_t standin_bfloat16_of(float r)
{
    uint32_t bits;
    memcpy(&bits, &r, sizeof bits);
    return (uint16_t)(isnan(r) ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Four bits of exponent and three of mantissa, with one pattern for NaN and none for infinity. */
static inline double standin_e4m3(uint8_t s)
{
    const int e = s >> 3 & 15, m = s & 7;
    const double r = (s & 127) == 127 ? NAN : e != 0 ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    return s & 0x80 ? -r : r;
}

/* The nearest value, ties to even; too large values saturate. */
static inline uint8_t standin_e4m3_of(double r)
{
    const uint8_t sign = signbit(r) ? 0x80 : 0;
    int e;
    r = fabs(r);
    if (isnan(r)) {
        return 0x7f;
    }
    if (r >= 448.0) {
        return sign | 0x7e;
    }
    frexp(r, &e);
    e = r < 0x1p-6 ? -5 : e;
    const unsigned m = (unsigned)nearbyint(ldexp(r, 4 - e));
    return (uint8_t)(sign | (e == -5 ? m : ((unsigned)(e + 5) << 3) + m));
}

static inline double standin_load(const void* memory, int type, int64_t place)
{
    float single;
    double number;
    uint16_t bits;
    int32_t whole;
    uint32_t wide;
    switch (type) {
    case STANDIN_E4M3: return standin_e4m3(((const uint8_t*)memory)[place]);
    case STANDIN_E5M2:
        /* The upper half of a half. */
        return standin_half((uint16_t)(((const uint8_t*)memory)[place] << 8));
    case STANDIN_DOUBLE: memcpy(&number, (const char*)memory + place * 8, 8); return number;
    case STANDIN_FLOAT: memcpy(&single, (const char*)memory + place * 4, 4); return single;
    case STANDIN_INT32: memcpy(&whole, (const char*)memory + place * 4, 4); return whole;
    default:
        memcpy(&bits, (const char*)memory + place * 2, 2);
        if (type == STANDIN_HALF) {
            return standin_half(bits);
        }
        wide = (uint32_t)bits << 16;
        memcpy(&single, &wide, 4);
        return single;
    }
}

static inline void standin_store(void* memory, int type, int64_t place, double number)
{
    const float single = (float)number;
    const uint16_t bits = type == STANDIN_HALF ? standin_half_of(number) : standin_bfloat16_of(single);
    const int32_t whole = type == STANDIN_INT32 ? (int32_t)number : 0;
    switch (type) {
    case STANDIN_E4M3: ((uint8_t*)memory)[place] = standin_e4m3_of(number); break;
    case STANDIN_DOUBLE: memcpy((char*)memory + place * 8, &number, 8); break;
    case STANDIN_FLOAT: memcpy((char*)memory + place * 4, &single, 4); break;
    case STANDIN_INT32: memcpy((char*)memory + place * 4, &whole, 4); break;
    default: memcpy((char*)memory + place * 2, &bits, 2); break;
    }
}

#endif
