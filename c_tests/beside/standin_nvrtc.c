/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for NVRTC that compiles kernels for the processor, by g++, for the stand-in for the CUDA driver: a shared object, whose header
 * says that it is for an NVIDIA GPU, and has the machine that it is for in truth where its flags are.
 *
 * It knows the part of CUDA's language that the generated kernels use.
 */
#define _GNU_SOURCE

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL_ERROR = 11 };
enum { NVIDIA = 190 };

#define NVRTC(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

/* What the language has. Threads run in turns, from one barrier to the next, and a block's in one thread of the processor. */
static const char LANGUAGE[] =
    "#include <cmath>\n#include <cstddef>\n#include <cstring>\n#include <utility>\n"
    "struct standin_index { unsigned x, y, z; };\n"
    "static thread_local standin_index threadIdx, blockIdx;\n"
    "extern \"C\" { void (*standin_barrier)(); void standin_place(unsigned b, unsigned t) { blockIdx.x = b; "
    "threadIdx.x = t; } }\n"
    "static inline void __syncthreads()\n"
    "{ const standin_index t = threadIdx, b = blockIdx; standin_barrier(); threadIdx = t; blockIdx = b; }\n"
    /* The threads of a wave give each other their numbers between barriers, at which all threads of a block come by. */
    "template <class R> static inline R __shfl_xor_sync(unsigned, R own, int step)\n"
    "{\n"
    "    static thread_local R all[1024];\n"
    "    all[threadIdx.x] = own;\n"
    "    __syncthreads();\n"
    "    const R other = all[threadIdx.x ^ (unsigned)step];\n"
    "    __syncthreads();\n"
    "    return other;\n"
    "}\n"
    "#define __CUDA_ARCH__ 900\n"
    "#define __device__\n#define __forceinline__ inline\n#define __global__\n#define __launch_bounds__(threads)\n"
    "#define __shared__ static thread_local\n"
    "static inline unsigned __float_as_uint(float r) { unsigned b; memcpy(&b, &r, 4); return b; }\n"
    "static inline float __uint_as_float(unsigned b) { float r; memcpy(&r, &b, 4); return r; }\n"
    "static inline float standin_half(unsigned short s)\n"
    "{\n"
    "    const int e = s >> 10 & 31, m = s & 1023;\n"
    "    const float r = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24);\n"
    "    return s & 0x8000 ? -r : r;\n"
    "}\n"
    "static inline unsigned short standin_half_of(double r)\n"
    "{\n"
    "    const unsigned short sign = std::signbit(r) ? 0x8000 : 0;\n"
    "    int e;\n"
    "    r = fabs(r);\n"
    "    if (r != r) return 0x7fff;\n"
    "    if (r >= 65520.0) return sign | 0x7c00;\n"
    "    frexp(r, &e);\n"
    "    e = r < 0x1p-14 ? -13 : e;\n"
    "    const unsigned m = (unsigned)nearbyint(ldexp(r, 11 - e));\n"
    "    return sign | (e == -13 ? m : (unsigned)((e + 13) << 10) + m);\n"
    "}\n"
    "static inline unsigned standin_bfloat_of(float r)\n"
    "{\n"
    "    unsigned b;\n"
    "    memcpy(&b, &r, 4);\n"
    "    return r != r ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16;\n"
    "}\n"
    "static inline unsigned short standin_byte_of(float r, int fraction, int bias, unsigned most)\n"
    "{\n"
    "    const unsigned short sign = std::signbit(r) ? 0x80 : 0;\n"
    "    int e;\n"
    "    if (r != r) return 0x7f;\n"
    "    if (r - r != 0) return sign | most;\n"
    "    frexpf(r, &e);\n"
    "    e = e - 1 < 1 - bias || r == 0 ? 1 - bias : e - 1;\n"
    "    const unsigned m = (unsigned)nearbyintf(ldexpf(fabsf(r), fraction - e));\n"
    "    const unsigned b = ((unsigned)(e + bias - 1) << fraction) + m;\n"
    "    return sign | (b < most ? b : most);\n"
    "}\n"
    "static inline float standin_largest(float x, float y) { return x != x || y != y ? NAN : x > y ? x : y; }\n"
    "static inline float standin_tiny(float r) { return fabsf(r) < 0x1p-126f ? copysignf(0, r) : r; }\n"
    "template <class... A, std::size_t... I> static void standin_call(void (*f)(A...), void **p, "
    "std::index_sequence<I...>)\n"
    "{ f(*(A *)p[I]...); }\n"
    "template <class... A> static void standin_call(void (*f)(A...), void **p)\n"
    "{ standin_call(f, p, std::index_sequence_for<A...>{}); }\n"
    "template <class... A> static constexpr int standin_arguments(void (*)(A...)) { return sizeof...(A); }\n";

/* Instructions of the device, and the same for the processor. */
static const char* const INSTRUCTIONS[][2] = {
    {"asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(s));", "r = standin_half(s);"},
    {"asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(s) : \"f\"(r));", "s = standin_half_of(r);"},
    {"asm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(s) : \"d\"(r));", "s = standin_half_of(r);"},
    {"asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(s) : \"f\"(high), \"f\"(low));",
     "s = standin_half_of(low) | (unsigned)standin_half_of(high) << 16;"},
    {"asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(s) : \"f\"(high), \"f\"(low));",
     "s = standin_bfloat_of(low) | standin_bfloat_of(high) << 16;"},
    {"asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(s) : \"f\"(0.0f), \"f\"(r));",
     "s = standin_byte_of(r, 3, 7, 0x7e);"},
    {"asm(\"cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;\" : \"=h\"(s) : \"f\"(0.0f), \"f\"(r));",
     "s = standin_byte_of(r, 2, 15, 0x7b);"},
    {"asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(x), \"f\"(y));", "r = standin_largest(x, y);"},
    {"asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(x), \"f\"(y));", "r = -standin_largest(-x, -y);"},
    {"asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(x));", "r = standin_tiny(exp2f(standin_tiny(x)));"},
    {"asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(x));", "r = standin_tiny(1 / standin_tiny(x));"},
};

typedef struct {
    char *source, *code, *words;
    size_t size;
} program;

const char* nvrtcGetErrorString(int result);
const char* nvrtcGetErrorString(int result)
{
    switch (result) {
    case SUCCESS: return "NVRTC_SUCCESS";
    case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    case INTERNAL_ERROR: return "NVRTC_ERROR_INTERNAL_ERROR";
    default: return "an error of the stand-in for NVRTC";
    }
}

NVRTC(nvrtcVersion, int* major, int* minor)
{
    *major = 13;
    *minor = 0;
    return SUCCESS;
}

NVRTC(nvrtcCreateProgram, void** made, const char* source, const char* name, int count, const char** headers,
      const char** names)
{
    (void)name;
    (void)headers;
    (void)names;
    program* p = calloc(1, sizeof *p);
    *made = p;
    if (p != NULL) {
        p->source = strdup(source);
    }
    return count != 0 ? INVALID_INPUT : p != NULL && p->source != NULL ? SUCCESS : INTERNAL_ERROR;
}

NVRTC(nvrtcDestroyProgram, void** ended)
{
    program* p = *ended;
    if (p == NULL) {
        return INVALID_PROGRAM;
    }
    free(p->source);
    free(p->code);
    free(p->words);
    free(p);
    *ended = NULL;
    return SUCCESS;
}

/* Writes the source as the processor's compiler takes it. */
static int write_source(const char* path, const char* source)
{
    FILE* file = fopen(path, "w");
    if (file == NULL) {
        return INTERNAL_ERROR;
    }
    fputs(LANGUAGE, file);
    for (const char* at = source; *at != '\0';) {
        size_t skipped = 0;
        for (size_t i = 0; i < sizeof INSTRUCTIONS / sizeof *INSTRUCTIONS && skipped == 0; i++) {
            const size_t length = strlen(INSTRUCTIONS[i][0]);
            if (strncmp(at, INSTRUCTIONS[i][0], length) == 0) {
                fputs(INSTRUCTIONS[i][1], file);
                skipped = length;
            }
        }
        if (skipped == 0) {
            fputc(*at, file);
            skipped = 1;
        }
        at += skipped;
    }
    /* An entry for each kernel, which takes the addresses of its arguments. */
    for (const char* at = source; (at = strstr(at, "KERNEL(")) != NULL; at++) {
        int threads, end = 0;
        char name[100];
        if (sscanf(at, "KERNEL(%d) %99[A-Za-z0-9_]%n", &threads, name, &end) == 2 && end > 0) {
            fprintf(file, "\nextern \"C\" void %s_run(void **p) { standin_call(%s, p); }\n", name, name);
            fprintf(file, "extern \"C\" const int %s_count = standin_arguments(%s);\n", name, name);
        }
    }
    return fclose(file) == 0 ? SUCCESS : INTERNAL_ERROR;
}

static char* read_file(const char* path, size_t* size)
{
    FILE* file = fopen(path, "r");
    char* bytes = NULL;
    *size = 0;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0) {
        *size = (size_t)ftell(file);
        rewind(file);
        bytes = calloc(1, *size + 1);
        if (bytes != NULL && fread(bytes, 1, *size, file) != *size) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return bytes;
}

NVRTC(nvrtcCompileProgram, void* of, int count, const char** options)
{
    program* p = of;
    for (int i = 0; i < count; i++) {
        if (strcmp(options[i], "--gpu-architecture=sm_90") != 0 && strcmp(options[i], "--std=c++17") != 0 &&
            strcmp(options[i], "--fmad=false") != 0) {
            return INVALID_OPTION;
        }
    }
    char folder[] = "/tmp/standin_nvrtc_XXXXXX", source[64], code[64], words[64], line[400];
    if (mkdtemp(folder) == NULL) {
        return INTERNAL_ERROR;
    }
    snprintf(source, sizeof source, "%s/kernels.cpp", folder);
    snprintf(code, sizeof code, "%s/kernels.so", folder);
    snprintf(words, sizeof words, "%s/words", folder);
    snprintf(line, sizeof line, "g++ -std=c++17 -O1 -ffp-contract=off -w -fPIC -shared -o %s %s > %s 2>&1", code,
             source, words);
    int result = write_source(source, p->source);
    size_t size;
    if (result == SUCCESS) {
        const int status = system(line);
        result = status == -1 ? INTERNAL_ERROR : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SUCCESS : COMPILATION;
        free(p->words);
        p->words = read_file(words, &size);
    }
    if (result == SUCCESS) {
        Elf64_Ehdr head;
        free(p->code);
        p->code = read_file(code, &p->size);
        result = p->code != NULL && p->size > sizeof head ? SUCCESS : INTERNAL_ERROR;
        if (result == SUCCESS) {
            memcpy(&head, p->code, sizeof head);
            head.e_flags = head.e_machine;
            head.e_machine = NVIDIA;
            memcpy(p->code, &head, sizeof head);
        }
    }
    unlink(source);
    unlink(code);
    unlink(words);
    rmdir(folder);
    return result;
}

NVRTC(nvrtcGetProgramLogSize, void* of, size_t* size)
{
    const program* p = of;
    *size = p->words != NULL ? strlen(p->words) + 1 : 1;
    return SUCCESS;
}

NVRTC(nvrtcGetProgramLog, void* of, char* words)
{
    const program* p = of;
    strcpy(words, p->words != NULL ? p->words : "");
    return SUCCESS;
}

NVRTC(nvrtcGetCUBINSize, void* of, size_t* size)
{
    const program* p = of;
    *size = p->size;
    return p->code != NULL ? SUCCESS : INVALID_PROGRAM;
}

NVRTC(nvrtcGetCUBIN, void* of, char* code)
{
    const program* p = of;
    memcpy(code, p->code, p->size);
    return SUCCESS;
}
