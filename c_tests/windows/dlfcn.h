/* SPDX-License-Identifier: MIT */

/* dlopen and its like, by the functions of Windows. */
#ifndef HIPDNN_C_TESTS_DLFCN_H
#define HIPDNN_C_TESTS_DLFCN_H

#include <windows.h>

enum { RTLD_LAZY = 1, RTLD_NOW = 2, RTLD_LOCAL = 0, RTLD_NOLOAD = 4 };

static inline void* dlopen(const char* path, int mode)
{
    return (void*)((mode & RTLD_NOLOAD) != 0 ? GetModuleHandleA(path) : LoadLibraryA(path));
}

static inline void* dlsym(void* library, const char* name)
{
    const FARPROC function = GetProcAddress((HMODULE)library, name);
    return *(void* const*)&function;
}

static inline int dlclose(void* library) { return FreeLibrary((HMODULE)library) ? 0 : -1; }

#endif
