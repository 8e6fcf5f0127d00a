/* SPDX-License-Identifier: MIT */

/* A stand-in for hipBLASLt: it knows one algorithm for every product, and the first number of a product is STANDIN_ANSWER. */
#include "forwarding.h"
#include "may_throw.h"

enum { SUCCESS = 0, VERSION = 100100 };

/* Handles, layouts, descriptions and preferences are all alike. */
static int make_object(const char* function, void** made)
{
    may_throw(function);
    *made = malloc(1);
    return *made != NULL ? SUCCESS : 2;
}

static int end_object(const char* function, void* ended)
{
    free(ended);
    may_throw(function);
    return SUCCESS;
}

static int set_number(const char* function)
{
    may_throw(function);
    return SUCCESS;
}

#define LT(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

LT(hipblasLtGetVersion, void* handle, int* version)
{
    (void)handle;
    may_throw("hipblasLtGetVersion");
    *version = VERSION;
    return SUCCESS;
}

LT(hipblasLtCreate, void** handle) { return make_object("hipblasLtCreate", handle); }

LT(hipblasLtDestroy, void* handle) { return end_object("hipblasLtDestroy", handle); }

LT(hipblasLtMatrixLayoutCreate, void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    (void)type;
    (void)rows;
    (void)columns;
    (void)leading;
    return make_object("hipblasLtMatrixLayoutCreate", layout);
}

LT(hipblasLtMatrixLayoutDestroy, void* layout) { return end_object("hipblasLtMatrixLayoutDestroy", layout); }

LT(hipblasLtMatrixLayoutSetAttribute, void* layout, int attribute, const void* value, size_t size)
{
    (void)layout;
    (void)attribute;
    (void)value;
    (void)size;
    return set_number("hipblasLtMatrixLayoutSetAttribute");
}

LT(hipblasLtMatmulDescCreate, void** desc, int compute_type, int scale_type)
{
    (void)compute_type;
    (void)scale_type;
    return make_object("hipblasLtMatmulDescCreate", desc);
}

LT(hipblasLtMatmulDescDestroy, void* desc) { return end_object("hipblasLtMatmulDescDestroy", desc); }

LT(hipblasLtMatmulDescSetAttribute, void* desc, int attribute, const void* value, size_t size)
{
    (void)desc;
    (void)attribute;
    (void)value;
    (void)size;
    return set_number("hipblasLtMatmulDescSetAttribute");
}

LT(hipblasLtMatmulPreferenceCreate, void** preference)
{
    return make_object("hipblasLtMatmulPreferenceCreate", preference);
}

LT(hipblasLtMatmulPreferenceDestroy, void* preference)
{
    return end_object("hipblasLtMatmulPreferenceDestroy", preference);
}

LT(hipblasLtMatmulPreferenceSetAttribute, void* preference, int attribute, const void* value, size_t size)
{
    (void)preference;
    (void)attribute;
    (void)value;
    (void)size;
    return set_number("hipblasLtMatmulPreferenceSetAttribute");
}

typedef struct {
    uint8_t data[16];
    size_t max_workspace_bytes;
} algorithm;

typedef struct {
    algorithm algo;
    size_t workspace_size;
    int state;
    float waves_count;
    int reserved[4];
} result;

LT(hipblasLtMatmulAlgoGetHeuristic, void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference,
   int requested, result* results, int* count)
{
    (void)handle;
    (void)desc;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    (void)preference;
    may_throw("hipblasLtMatmulAlgoGetHeuristic");
    *count = requested > 0 ? 1 : 0;
    if (*count > 0) {
        memset(results, 0, sizeof *results);
        results->algo.data[0] = 1;
    }
    return SUCCESS;
}

LT(hipblasLtMatmul, void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
   void* b_layout, const void* beta, const void* c, void* c_layout, float* d, void* d_layout, const algorithm* algo,
   void* workspace, size_t workspace_size, void* stream)
{
    (void)handle;
    (void)desc;
    (void)alpha;
    (void)a;
    (void)a_layout;
    (void)b;
    (void)b_layout;
    (void)beta;
    (void)c;
    (void)c_layout;
    (void)d_layout;
    (void)algo;
    (void)workspace;
    (void)workspace_size;
    (void)stream;
    may_throw("hipblasLtMatmul");
    *d = STANDIN_ANSWER;
    return SUCCESS;
}
