/* Functions of ThreadSanitizer's runtime that newer compilers call for copies of memory, for gcc's runtime, which intercepts the C
 * library's. */

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

void* __tsan_memcpy(void* to, const void* from, size_t size);
void* __tsan_memmove(void* to, const void* from, size_t size);
void* __tsan_memset(void* to, int byte, size_t size);

__attribute__((weak)) void* __tsan_memcpy(void* to, const void* from, size_t size) { return memcpy(to, from, size); }

__attribute__((weak)) void* __tsan_memmove(void* to, const void* from, size_t size) { return memmove(to, from, size); }

__attribute__((weak)) void* __tsan_memset(void* to, int byte, size_t size) { return memset(to, byte, size); }

#ifdef __cplusplus
}
#endif
