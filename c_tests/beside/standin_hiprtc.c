/* SPDX-License-Identifier: MIT */

/* A stand-in for hipRTC: every source becomes the same code object, an ELF header without anything, which standin_hip.c loads. */
#include "may_throw.h"

#include <stddef.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, SIZE = 64, MACHINE = 224 };

#define RTC(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

const char* hiprtcGetErrorString(int result);
const char* hiprtcGetErrorString(int result) { return result == SUCCESS ? "no error" : "an error of the stand-in"; }

RTC(hiprtcVersion, int* major, int* minor)
{
    may_throw("hiprtcVersion");
    *major = 7;
    *minor = 0;
    return SUCCESS;
}

RTC(hiprtcCreateProgram, void** program, const char* source, const char* name, int count, const char** headers,
    const char** names)
{
    (void)source;
    (void)name;
    (void)count;
    (void)headers;
    (void)names;
    may_throw("hiprtcCreateProgram");
    *program = malloc(1);
    return *program != NULL ? SUCCESS : OUT_OF_MEMORY;
}

RTC(hiprtcCompileProgram, void* program, int count, const char** options)
{
    (void)program;
    (void)count;
    (void)options;
    may_throw("hiprtcCompileProgram");
    return SUCCESS;
}

RTC(hiprtcGetProgramLogSize, void* program, size_t* size)
{
    (void)program;
    may_throw("hiprtcGetProgramLogSize");
    *size = may_lie("hiprtcGetProgramLogSize", 1);
    return SUCCESS;
}

RTC(hiprtcGetProgramLog, void* program, char* log)
{
    (void)program;
    may_throw("hiprtcGetProgramLog");
    *log = '\0';
    return SUCCESS;
}

RTC(hiprtcGetCodeSize, void* program, size_t* size)
{
    (void)program;
    may_throw("hiprtcGetCodeSize");
    *size = may_lie("hiprtcGetCodeSize", SIZE);
    return SUCCESS;
}

RTC(hiprtcGetCode, void* program, char* code)
{
    (void)program;
    may_throw("hiprtcGetCode");
    memset(code, 0, SIZE);
    memcpy(code,
           "\x7f"
           "ELF\x02\x01",
           6);
    code[18] = (char)MACHINE;
    return SUCCESS;
}

RTC(hiprtcDestroyProgram, void** program)
{
    free(*program);
    *program = NULL;
    may_throw("hiprtcDestroyProgram");
    return SUCCESS;
}
