/*
 * A Vulkan loader that passes calls on to the system's and changes some answers, for a process that finds it first as libvulkan.so.1.
 * STANDIN_VULKAN=old: devices say that they support Vulkan 1.1; none: there is no device. By standin_fail a call fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define EXPORTED __attribute__((visibility("default")))

/* How many more calls succeed before one fails, -1 if none does; the answer of that call, and its name afterwards. */
static atomic_int left = -1;
static atomic_int answer;
static _Atomic(const char*) asked;
static _Atomic(const char*) failed;

/* Makes the call after `calls` others fail with a result: of the function of a name, or of any. */
EXPORTED void standin_fail(int calls, int result, const char* name);
/* The function that failed since, or null. */
EXPORTED const char* standin_failed(void);

void standin_fail(int calls, int result, const char* name)
{
    failed = NULL;
    answer = result;
    asked = name;
    left = calls;
}

const char* standin_failed(void) { return failed; }

static VkResult next(const char* name)
{
    const char* const wanted = asked;
    if (left < 0 || (wanted != NULL && strcmp(wanted, name) != 0) || atomic_fetch_sub(&left, 1) != 0) {
        return VK_SUCCESS;
    }
    failed = name;
    return (VkResult)answer;
}

static int is_mode(const char* mode)
{
    const char* const own = getenv("STANDIN_VULKAN");
    return own != NULL && strcmp(own, mode) == 0;
}

static PFN_vkGetInstanceProcAddr real(void)
{
    static _Atomic(void*) found;
    if (found == NULL) {
        const char* const path = getenv("STANDIN_VULKAN_LOADER");
        void* const library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            fprintf(stderr, "STANDIN_VULKAN_LOADER: %s\n", path == NULL ? "expected a path" : dlerror());
            abort();
        }
        found = dlsym(library, "vkGetInstanceProcAddr");
    }
    return (PFN_vkGetInstanceProcAddr)found;
}

/* Functions that can fail, in the order in which a process uses them. */
#define FALLIBLE(F)                                                                                                   \
    F(vkCreateInstance, (const VkInstanceCreateInfo* a, const VkAllocationCallbacks* b, VkInstance* c), (a, b, c))    \
    F(vkEnumeratePhysicalDevices, (VkInstance a, uint32_t* b, VkPhysicalDevice* c), (a, b, c))                        \
    F(vkCreateDevice,                                                                                                 \
      (VkPhysicalDevice a, const VkDeviceCreateInfo* b, const VkAllocationCallbacks* c, VkDevice* d), (a, b, c, d))   \
    F(vkCreateSemaphore,                                                                                              \
      (VkDevice a, const VkSemaphoreCreateInfo* b, const VkAllocationCallbacks* c, VkSemaphore* d), (a, b, c, d))     \
    F(vkCreateCommandPool,                                                                                            \
      (VkDevice a, const VkCommandPoolCreateInfo* b, const VkAllocationCallbacks* c, VkCommandPool* d), (a, b, c, d)) \
    F(vkCreateBuffer, (VkDevice a, const VkBufferCreateInfo* b, const VkAllocationCallbacks* c, VkBuffer* d),         \
      (a, b, c, d))                                                                                                   \
    F(vkAllocateMemory,                                                                                               \
      (VkDevice a, const VkMemoryAllocateInfo* b, const VkAllocationCallbacks* c, VkDeviceMemory* d), (a, b, c, d))   \
    F(vkBindBufferMemory, (VkDevice a, VkBuffer b, VkDeviceMemory c, VkDeviceSize d), (a, b, c, d))                   \
    F(vkMapMemory,                                                                                                    \
      (VkDevice a, VkDeviceMemory b, VkDeviceSize c, VkDeviceSize d, VkMemoryMapFlags e, void** f),                   \
      (a, b, c, d, e, f))                                                                                             \
    F(vkCreatePipelineCache,                                                                                          \
      (VkDevice a, const VkPipelineCacheCreateInfo* b, const VkAllocationCallbacks* c, VkPipelineCache* d),           \
      (a, b, c, d))                                                                                                   \
    F(vkGetPipelineCacheData, (VkDevice a, VkPipelineCache b, size_t* c, void* d), (a, b, c, d))                      \
    F(vkCreateShaderModule,                                                                                           \
      (VkDevice a, const VkShaderModuleCreateInfo* b, const VkAllocationCallbacks* c, VkShaderModule* d),             \
      (a, b, c, d))                                                                                                   \
    F(vkCreatePipelineLayout,                                                                                         \
      (VkDevice a, const VkPipelineLayoutCreateInfo* b, const VkAllocationCallbacks* c, VkPipelineLayout* d),         \
      (a, b, c, d))                                                                                                   \
    F(vkCreateQueryPool,                                                                                              \
      (VkDevice a, const VkQueryPoolCreateInfo* b, const VkAllocationCallbacks* c, VkQueryPool* d), (a, b, c, d))     \
    F(vkAllocateCommandBuffers, (VkDevice a, const VkCommandBufferAllocateInfo* b, VkCommandBuffer* c), (a, b, c))    \
    F(vkBeginCommandBuffer, (VkCommandBuffer a, const VkCommandBufferBeginInfo* b), (a, b))                           \
    F(vkEndCommandBuffer, (VkCommandBuffer a), (a))                                                                   \
    F(vkQueueSubmit, (VkQueue a, uint32_t b, const VkSubmitInfo* c, VkFence d), (a, b, c, d))                         \
    F(vkGetSemaphoreCounterValue, (VkDevice a, VkSemaphore b, uint64_t* c), (a, b, c))                                \
    F(vkWaitSemaphores, (VkDevice a, const VkSemaphoreWaitInfo* b, uint64_t c), (a, b, c))

#define DEFINED(name, parameters, arguments)                                                                          \
    static PFN_##name real_##name;                                                                                    \
    static VKAPI_ATTR VkResult VKAPI_CALL own_##name parameters                                                       \
    {                                                                                                                 \
        const VkResult result = next(#name);                                                                          \
        return result == VK_SUCCESS ? real_##name arguments : result;                                                 \
    }
FALLIBLE(DEFINED)

static PFN_vkCreateComputePipelines real_vkCreateComputePipelines;

static VKAPI_ATTR VkResult VKAPI_CALL own_vkCreateComputePipelines(VkDevice device, VkPipelineCache cache,
                                                                   uint32_t count,
                                                                   const VkComputePipelineCreateInfo* infos,
                                                                   const VkAllocationCallbacks* callbacks,
                                                                   VkPipeline* pipelines)
{
    const VkResult result = next("vkCreateComputePipelines");
    if (result == VK_SUCCESS) {
        return real_vkCreateComputePipelines(device, cache, count, infos, callbacks, pipelines);
    }
    memset(pipelines, 0, count * sizeof(*pipelines));
    return result;
}

static PFN_vkGetPhysicalDeviceProperties real_vkGetPhysicalDeviceProperties;

static VKAPI_ATTR void VKAPI_CALL own_vkGetPhysicalDeviceProperties(VkPhysicalDevice device,
                                                                    VkPhysicalDeviceProperties* properties)
{
    real_vkGetPhysicalDeviceProperties(device, properties);
    if (is_mode("old")) {
        properties->apiVersion = VK_API_VERSION_1_1;
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL no_devices(VkInstance instance, uint32_t* count, VkPhysicalDevice* devices)
{
    (void)instance;
    (void)devices;
    *count = 0;
    return VK_SUCCESS;
}

static PFN_vkGetDeviceProcAddr real_vkGetDeviceProcAddr;
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* name);

/* What stands in for a function, if something does. */
static PFN_vkVoidFunction wrapped(const char* name, PFN_vkVoidFunction function)
{
    if (function == NULL) {
        return NULL;
    }
    if (strcmp(name, "vkEnumeratePhysicalDevices") == 0 && is_mode("none")) {
        return (PFN_vkVoidFunction)no_devices;
    }
#define CHOSEN(own_name, parameters, arguments)                                                                       \
    if (strcmp(name, #own_name) == 0) {                                                                               \
        real_##own_name = (PFN_##own_name)function;                                                                   \
        return (PFN_vkVoidFunction)own_##own_name;                                                                    \
    }
    FALLIBLE(CHOSEN)
    CHOSEN(vkCreateComputePipelines, , )
    CHOSEN(vkGetPhysicalDeviceProperties, , )
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
        real_vkGetDeviceProcAddr = (PFN_vkGetDeviceProcAddr)function;
        return (PFN_vkVoidFunction)of_device;
    }
    return function;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* name)
{
    return wrapped(name, real_vkGetDeviceProcAddr(device, name));
}

EXPORTED VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name)
{
    return wrapped(name, real()(instance, name));
}
