/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for cuBLASLt over the stand-in for the CUDA driver: products of matrices by plain loops, with sums in double precision, and
 * what may follow them.
 */
#include "standin_cuda.h"
#include "standin_numbers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14, R_8F_E4M3 = 28, R_8F_E5M2 = 29 };
enum { RELU = 2, BIAS = 4, BGRAD = 16, GELU = 32, DGELU = 64, AUX = 128, BGRADA = 256, BGRADB = 512 };
enum { SUMS = BGRAD | BGRADA | BGRADB };
enum { COMPUTE_64F = 70 };

#define LT(name, ...) \
    int cublasLt##name(__VA_ARGS__); \
    int cublasLt##name(__VA_ARGS__)

typedef struct {
    int scale_type, transposed[2], epilogue, bias_type;
    const void *bias, *scales[2];
    void* auxiliary;
    int64_t auxiliary_leading, auxiliary_offset;
} product;

typedef struct {
    int type, batch;
    uint64_t rows, columns;
    int64_t leading, offset;
} layout;

typedef struct {
    uint64_t limit;
} preference;

typedef struct {
    uint64_t data[8];
} algorithm;

typedef struct {
    algorithm algorithm;
    size_t workspace_size;
    int state;
    float waves_count;
    int reserved[4];
} found;

size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return 130000; }

const char* cublasLtGetStatusName(int status);
const char* cublasLtGetStatusName(int status)
{
    return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS"
           : status == 14    ? "CUBLAS_STATUS_INTERNAL_ERROR"
                             : "an error of the stand-in";
}

static int make(void** made, size_t size)
{
    *made = calloc(1, size);
    return *made != NULL ? SUCCESS : ALLOC_FAILED;
}

static int end(void* ended)
{
    free(ended);
    return SUCCESS;
}

LT(Create, void** handle) { return make(handle, 1); }

LT(Destroy, void* handle) { return end(handle); }

LT(MatmulDescCreate, void** made, int compute_type, int scale_type)
{
    const int result = make(made, sizeof(product));
    if (result == SUCCESS) {
        *(product*)*made = (product){.scale_type = scale_type, .epilogue = 1, .bias_type = -1};
    }
    return (compute_type == COMPUTE_64F) == (scale_type == R_64F) ? result : INVALID_VALUE;
}

LT(MatmulDescDestroy, void* ended) { return end(ended); }

/* Copies an attribute of a known size. */
static int take(void* to, size_t expected, const void* value, size_t size)
{
    if (size != expected) {
        return INVALID_VALUE;
    }
    memcpy(to, value, size);
    return SUCCESS;
}

LT(MatmulDescSetAttribute, void* of, int attribute, const void* value, size_t size)
{
    product* p = of;
    switch (attribute) {
    case 3: return take(&p->transposed[0], sizeof(int), value, size);
    case 4: return take(&p->transposed[1], sizeof(int), value, size);
    case 7: return take(&p->epilogue, sizeof(int), value, size);
    case 8: return take(&p->bias, sizeof(void*), value, size);
    case 11: return take(&p->auxiliary, sizeof(void*), value, size);
    case 12: return take(&p->auxiliary_leading, sizeof(int64_t), value, size);
    case 13: return take(&p->auxiliary_offset, sizeof(int64_t), value, size);
    case 17: return take(&p->scales[0], sizeof(void*), value, size);
    case 18: return take(&p->scales[1], sizeof(void*), value, size);
    case 26: return take(&p->bias_type, sizeof(int), value, size);
    default: return INVALID_VALUE;
    }
}

LT(MatrixLayoutCreate, void** made, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    const int result = make(made, sizeof(layout));
    if (result == SUCCESS) {
        *(layout*)*made = (layout){type, 1, rows, columns, leading, 0};
    }
    return leading >= (int64_t)rows ? result : INVALID_VALUE;
}

LT(MatrixLayoutDestroy, void* ended) { return end(ended); }

LT(MatrixLayoutSetAttribute, void* of, int attribute, const void* value, size_t size)
{
    layout* l = of;
    return attribute == 5   ? take(&l->batch, sizeof l->batch, value, size)
           : attribute == 6 ? take(&l->offset, sizeof l->offset, value, size)
                            : INVALID_VALUE;
}

LT(MatmulPreferenceCreate, void** made) { return make(made, sizeof(preference)); }

LT(MatmulPreferenceDestroy, void* ended) { return end(ended); }

LT(MatmulPreferenceSetAttribute, void* of, int attribute, const void* value, size_t size)
{
    uint32_t alignment;
    return attribute == 1 ? take(&((preference*)of)->limit, sizeof(uint64_t), value, size)
                          : take(&alignment, sizeof alignment, value, size);
}

static int is_known(int type) { return type == R_32F || type == R_64F || type == R_16F || type == R_16BF; }

static int is_small(int type) { return type == R_8F_E4M3 || type == R_8F_E5M2; }

/* What cuBLAS documents of types and forms of 8-bit floats. */
static int takes_small(const product* p, const layout* a, const layout* b, const layout* c, const layout* d)
{
    const int bias = d->type == R_16F ? R_16F : R_16BF;
    const int64_t bytes = d->type == R_32F ? 4 : 2;
    return p->scale_type == R_32F && p->transposed[0] && !p->transposed[1] && is_small(a->type) && is_small(b->type) &&
           !(a->type == R_8F_E5M2 && b->type == R_8F_E5M2) && d->type != R_64F && c->type == d->type &&
           a->leading % 16 == 0 && b->leading % 16 == 0 && d->leading * bytes % 16 == 0 && a->rows % 16 == 0 &&
           (!(p->epilogue & BIAS) || p->bias_type == bias);
}

/* The epilogues that cuBLAS documents, with the memory that each needs. */
static int takes_epilogue(const product* p, const layout* d)
{
    static const int known[] = {1,           RELU,
                                BIAS,        RELU | BIAS,
                                GELU,        GELU | BIAS,
                                GELU | AUX,  GELU | AUX | BIAS,
                                DGELU | AUX, DGELU | AUX | BGRAD,
                                BGRADA,      BGRADB};
    int found = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        found |= p->epilogue == known[i];
    }
    const int64_t leading = p->auxiliary_leading;
    const int steps = leading % 8 == 0 && leading >= (int64_t)d->rows && p->auxiliary_offset % 8 == 0;
    return found && (!(p->epilogue & (BIAS | SUMS)) || p->bias != NULL) &&
           (!(p->epilogue & AUX) || (p->auxiliary != NULL && steps)) &&
           (!(p->epilogue & SUMS) || (d->batch == 1 && p->bias_type == d->type));
}

/* Two algorithms: one that needs a workspace, where that is allowed, and one that needs none. */
LT(MatmulAlgoGetHeuristic, void* handle, void* of, void* a, void* b, void* c, void* d, void* preferred, int room,
   found* results, int* count)
{
    const product* p = of;
    const layout *la = a, *lb = b, *lc = c, *ld = d;
    const int known = takes_epilogue(p, ld);
    *count = 0;
    if (handle == NULL || !is_known(ld->type) || lc->type != ld->type || !known) {
        return NOT_SUPPORTED;
    }
    const int scaled = p->scales[0] != NULL || p->scales[1] != NULL;
    if (is_small(la->type) || is_small(lb->type) ? !takes_small(p, la, lb, lc, ld)
                                                 : scaled || !is_known(la->type) || la->type != lb->type) {
        return NOT_SUPPORTED;
    }
    for (size_t size = 4096; *count < room; size = 0) {
        if (size <= ((preference*)preferred)->limit) {
            results[*count] = (found){.algorithm = {{1 + size}}, .workspace_size = size, .state = SUCCESS};
            ++*count;
        }
        if (size == 0) {
            break;
        }
    }
    return SUCCESS;
}

typedef struct {
    product product;
    layout a, b, c, d;
    double alpha, beta;
    const char *at_a, *at_b, *at_c;
    char *at_d, *workspace;
    size_t size;
} call;

static double element(const char* at, const layout* l, int batch, uint64_t row, uint64_t column)
{
    return standin_load(at, l->type, batch * l->offset + (int64_t)row + (int64_t)column * l->leading);
}

static double left(const call* m, int batch, uint64_t row, uint64_t k)
{
    return m->product.transposed[0] ? element(m->at_a, &m->a, batch, k, row) : element(m->at_a, &m->a, batch, row, k);
}

static double right(const call* m, int batch, uint64_t k, uint64_t column)
{
    return m->product.transposed[1] ? element(m->at_b, &m->b, batch, column, k)
                                    : element(m->at_b, &m->b, batch, k, column);
}

/* GELU by the formula with tanh, and its derivative. */
static double gelu(double x) { return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

static double gelu_slope(double x)
{
    const double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * 0.7978845608028654 * (1.0 + 0.134145 * x * x);
}

/* The sums of the terms of a factor, or of the columns of the result, which a call adds up itself. */
static void add_up(const call* m, uint64_t terms, const double* of_rows)
{
    const product* p = &m->product;
    const uint64_t count = p->epilogue & BGRADB ? m->d.columns : m->d.rows;
    for (uint64_t place = 0; place < count; place++) {
        double sum = of_rows[p->epilogue & BGRADB ? 0 : place];
        for (uint64_t k = 0; k < terms && !(p->epilogue & BGRAD); k++) {
            sum += p->epilogue & BGRADA ? left(m, 0, place, k) : right(m, 0, k, place);
        }
        standin_store((char*)(uintptr_t)p->bias, p->bias_type, (int64_t)place, sum);
    }
}

static void multiply(void* data)
{
    const call* m = data;
    const product* p = &m->product;
    const uint64_t terms = p->transposed[0] ? m->a.rows : m->a.columns;
    double* of_rows = calloc(m->d.rows, sizeof(double));
    if (of_rows == NULL) {
        abort();
    }
    /* What is promised is used. */
    memset(m->workspace, 0x5a, m->size);
    for (int batch = 0; batch < m->d.batch; batch++) {
        for (uint64_t column = 0; column < m->d.columns; column++) {
            for (uint64_t row = 0; row < m->d.rows; row++) {
                double sum = 0.0;
                for (uint64_t k = 0; k < terms; k++) {
                    sum += left(m, batch, row, k) * right(m, batch, k, column);
                }
                sum *= m->alpha;
                for (int i = 0; i < 2; i++) {
                    sum *= p->scales[i] != NULL ? standin_load(p->scales[i], R_32F, 0) : 1.0;
                }
                sum += m->beta == 0.0 ? 0.0 : m->beta * element(m->at_c, &m->c, batch, row, column);
                if (p->epilogue & BIAS) {
                    sum += standin_load(p->bias, p->bias_type < 0 ? m->d.type : p->bias_type, (int64_t)row);
                }
                if (p->epilogue & RELU) {
                    sum = sum > 0.0 ? sum : 0.0;
                }
                const int64_t place =
                    batch * p->auxiliary_offset + (int64_t)row + (int64_t)column * p->auxiliary_leading;
                if ((p->epilogue & (GELU | AUX)) == (GELU | AUX)) {
                    standin_store(p->auxiliary, m->d.type, place, sum);
                }
                if (p->epilogue & GELU) {
                    sum = gelu(sum);
                }
                if (p->epilogue & DGELU) {
                    sum *= gelu_slope(standin_load(p->auxiliary, m->d.type, place));
                }
                of_rows[row] += p->epilogue & BGRAD ? sum : 0.0;
                standin_store(m->at_d, m->d.type, batch * m->d.offset + (int64_t)row + (int64_t)column * m->d.leading,
                              sum);
            }
        }
    }
    if (p->epilogue & SUMS) {
        add_up(m, terms, of_rows);
    }
    free(of_rows);
}

LT(Matmul, void* handle, void* of, const void* alpha, const void* a, void* la, const void* b, void* lb,
   const void* beta, const void* c, void* lc, void* d, void* ld, const algorithm* chosen, void* workspace, size_t size,
   void* stream)
{
    const product* p = of;
    double factors[2];
    if (p->scale_type == R_64F) {
        memcpy(&factors[0], alpha, sizeof(double));
        memcpy(&factors[1], beta, sizeof(double));
    } else {
        float single[2];
        memcpy(&single[0], alpha, sizeof(float));
        memcpy(&single[1], beta, sizeof(float));
        factors[0] = single[0];
        factors[1] = single[1];
    }
    if (handle == NULL || chosen->data[0] == 0 || size < chosen->data[0] - 1) {
        return INVALID_VALUE;
    }
    const call m = {*p, *(layout*)la, *(layout*)lb,       *(layout*)lc, *(layout*)ld, factors[0], factors[1], a, b, c,
                    d,  workspace,    chosen->data[0] - 1};
    return standin_cuda_queue(stream, multiply, &m, sizeof m) == SUCCESS ? SUCCESS : EXECUTION_FAILED;
}
