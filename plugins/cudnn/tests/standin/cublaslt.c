/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for cuBLASLt, in the processor's memory: products of float, half, bfloat16 and 8-bit floats with a bias and RELU, whose sums are exact.
 * Of 8-bit floats it takes what tensor cores of compute capability 9.0 take.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15, WORKSPACE = 512 };
/* Types. */
enum { FLOAT = 0, HALF = 2, BFLOAT16 = 14, E4M3 = 28, E5M2 = 29, COMPUTE_FLOAT = 68 };
/* Attributes of products, and of matrices. */
enum { TRANSA = 3, TRANSB = 4, EPILOGUE = 7, BIAS_POINTER = 8, A_SCALE = 17, B_SCALE = 18, BIAS_TYPE = 26 };
enum { BATCH_COUNT = 5, BATCH_OFFSET = 6 };
enum { WITH_RELU = 2, WITH_BIAS = 4 };

typedef struct {
    int compute, scale, transa, transb, epilogue, bias_type;
    const void* bias;
    const float *a_scale, *b_scale;
} product;

typedef struct {
    int type, count;
    uint64_t rows, columns;
    int64_t leading, offset;
} matrix;

typedef struct {
    uint64_t data[8];
} algorithm;

typedef struct {
    algorithm algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} result;

#define LT(name, ...) \
    int cublasLt##name(__VA_ARGS__); \
    int cublasLt##name(__VA_ARGS__)

const char* cublasLtGetStatusName(int status);
const char* cublasLtGetStatusName(int status) { return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_STANDIN"; }

LT(Create, void** handle) { *handle = malloc(1); return SUCCESS; }
LT(Destroy, void* handle) { free(handle); return SUCCESS; }

LT(MatmulDescCreate, product** made, int compute, int scale)
{
    *made = calloc(1, sizeof **made);
    (*made)->compute = compute;
    (*made)->scale = scale;
    return SUCCESS;
}

LT(MatmulDescDestroy, product* ended) { free(ended); return SUCCESS; }

LT(MatmulDescSetAttribute, product* of, int attribute, const void* value, size_t size)
{
    void* to[32] = {[TRANSA] = &of->transa, [TRANSB] = &of->transb, [EPILOGUE] = &of->epilogue, [BIAS_POINTER] = &of->bias,
                    [A_SCALE] = &of->a_scale, [B_SCALE] = &of->b_scale, [BIAS_TYPE] = &of->bias_type};
    const bool is_pointer = attribute == BIAS_POINTER || attribute == A_SCALE || attribute == B_SCALE;
    if (to[attribute] == NULL || size != (is_pointer ? sizeof(void*) : sizeof(int))) return INVALID_VALUE;
    memcpy(to[attribute], value, size);
    return SUCCESS;
}

LT(MatrixLayoutCreate, matrix** made, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    *made = malloc(sizeof **made);
    **made = (matrix){type, 1, rows, columns, leading, 0};
    return SUCCESS;
}

LT(MatrixLayoutDestroy, matrix* ended) { free(ended); return SUCCESS; }

LT(MatrixLayoutSetAttribute, matrix* of, int attribute, const void* value, size_t size)
{
    void* to = attribute == BATCH_COUNT ? (void*)&of->count : attribute == BATCH_OFFSET ? (void*)&of->offset : NULL;
    if (to == NULL) return INVALID_VALUE;
    memcpy(to, value, size);
    return SUCCESS;
}

LT(MatmulPreferenceCreate, void** made) { *made = malloc(1); return SUCCESS; }
LT(MatmulPreferenceDestroy, void* ended) { free(ended); return SUCCESS; }
LT(MatmulPreferenceSetAttribute, void* of, int attribute, const void* value, size_t size)
{
    return of == NULL || attribute == 0 || value == NULL || size == 0 ? INVALID_VALUE : SUCCESS;
}

static bool is_small(int type) { return type == E4M3 || type == E5M2; }

/* What cuBLAS documents of types and forms of 8-bit floats. */
static bool takes_small(const product* of, const matrix* a, const matrix* b, const matrix* c, const matrix* d)
{
    const int bias = d->type == HALF ? HALF : BFLOAT16;
    const uint64_t bytes = d->type == FLOAT ? 4 : 2;
    return of->compute == COMPUTE_FLOAT && of->scale == FLOAT && of->transa == 1 && of->transb == 0 && is_small(b->type) &&
           !(a->type == E5M2 && b->type == E5M2) && (d->type == FLOAT || d->type == HALF || d->type == BFLOAT16) && c->type == d->type &&
           a->leading % 16 == 0 && b->leading % 16 == 0 && (uint64_t)d->leading * bytes % 16 == 0 && a->rows % 16 == 0 &&
           ((of->epilogue & WITH_BIAS) == 0 || of->bias_type == bias);
}

LT(MatmulAlgoGetHeuristic, void* handle, const product* of, const matrix* a, const matrix* b, const matrix* c, const matrix* d,
   void* preference, int room, result* results, int* count)
{
    *count = 0;
    if (handle == NULL || preference == NULL || room < 1) return INVALID_VALUE;
    if (is_small(a->type) || is_small(b->type)) {
        if (!takes_small(of, a, b, c, d)) return NOT_SUPPORTED;
    } else if (of->a_scale != NULL || of->b_scale != NULL) {
        return NOT_SUPPORTED;
    }
    results[0] = (result){.algo = {{7}}, .workspace = WORKSPACE};
    *count = 1;
    return SUCCESS;
}

/* A float with so many bits of exponent and of mantissa. */
static double decoded(unsigned bits, int exponents, int mantissas)
{
    const int bias = (1 << (exponents - 1)) - 1, exponent = (int)(bits >> mantissas) & ((1 << exponents) - 1);
    const double mantissa = (double)(bits & ((1u << mantissas) - 1)) / (double)(1 << mantissas);
    const double magnitude = exponent == 0 ? ldexp(mantissa, 1 - bias) : ldexp(1.0 + mantissa, exponent - bias);
    return bits >> (exponents + mantissas) & 1 ? -magnitude : magnitude;
}

static double element(const void* from, int64_t at, int type)
{
    switch (type) {
    case HALF: return decoded(((const uint16_t*)from)[at], 5, 10);
    case BFLOAT16: return decoded(((const uint16_t*)from)[at], 8, 7);
    case E4M3: return decoded(((const uint8_t*)from)[at], 4, 3);
    case E5M2: return decoded(((const uint8_t*)from)[at], 5, 2);
    default: return (double)((const float*)from)[at];
    }
}

/* Results are of single precision. */
LT(Matmul, void* handle, const product* of, const float* alpha, const void* a, const matrix* a_layout, const void* b,
   const matrix* b_layout, const float* beta, const void* c, const matrix* c_layout, float* d, const matrix* d_layout,
   const algorithm* chosen, void* workspace, size_t size, void* stream)
{
    if (handle == NULL || chosen->data[0] != 7 || size < WORKSPACE || d_layout->type != FLOAT || stream == handle) return INVALID_VALUE;
    memset(workspace, 0xff, WORKSPACE);
    const double scale = (of->a_scale == NULL ? 1.0 : (double)*of->a_scale) * (of->b_scale == NULL ? 1.0 : (double)*of->b_scale);
    const int64_t terms = (int64_t)(of->transa ? a_layout->rows : a_layout->columns);
    for (int64_t batch = 0; batch < d_layout->count; batch++)
        for (int64_t column = 0; column < (int64_t)d_layout->columns; column++)
            for (int64_t row = 0; row < (int64_t)d_layout->rows; row++) {
                double sum = 0.0;
                for (int64_t k = 0; k < terms; k++) {
                    const int64_t of_a = of->transa ? row * a_layout->leading + k : k * a_layout->leading + row;
                    const int64_t of_b = of->transb ? k * b_layout->leading + column : column * b_layout->leading + k;
                    sum += element(a, batch * a_layout->offset + of_a, a_layout->type) *
                           element(b, batch * b_layout->offset + of_b, b_layout->type);
                }
                const int64_t of_c = batch * c_layout->offset + column * c_layout->leading + row;
                double value = (double)*alpha * scale * sum;
                if (*beta != 0.0f) value += (double)*beta * element(c, of_c, c_layout->type);
                if (of->epilogue & WITH_BIAS) value += element(of->bias, row, of->bias_type);
                if (of->epilogue & WITH_RELU && value < 0.0) value = 0.0;
                d[batch * d_layout->offset + column * d_layout->leading + row] = (float)value;
            }
    return SUCCESS;
}
