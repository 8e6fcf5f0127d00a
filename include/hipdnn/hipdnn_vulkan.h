/**
 * @file
 * Memory of Vulkan devices for VULKAN_ENGINE.
 *
 * The functions are exported by the plugin libhipdnn_vulkan_plugin.so: link it, or look them up there. Addresses are those of the
 * device, so that they can be bound as the data pointers of tensors, at any offset, and are not for the host to read. Work and copies
 * of a device run in the order in which they were started. Small ones may begin together, at the latest when the program waits for
 * the device or copies to the host.
 *
 * All functions may be called from any thread. They return a hipdnnPluginStatus_t, 0 for success; hipdnnVulkanGetLastError_ext has the
 * reason otherwise.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define HIPDNN_VULKAN_EXPORT __declspec(dllimport)
#else
#define HIPDNN_VULKAN_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** A device. */
typedef struct hipdnnVulkanDevice
{
    /** Its name, with a NUL. */
    char name[256];
    /** Its UUID, as in VkPhysicalDeviceIDProperties. */
    uint8_t uuid[16];
    /** Its VkPhysicalDeviceType: 1 integrated, 2 discrete, 3 virtual, 4 the host's processor. */
    int32_t kind;
    /** The version of Vulkan that its driver supports. */
    uint32_t major_version;
    /** The version's second number. */
    uint32_t minor_version;
    /** Threads of a subgroup. */
    uint32_t subgroup;
    /** 1 if the host's memory is the device's. */
    int32_t shares_memory;
    /** 1 if VULKAN_ENGINE can compute on it. */
    int32_t is_usable;
    /** The size of its memory. */
    uint64_t memory_bytes;
} hipdnnVulkanDevice;

/** A device that the program opened. All members are Vulkan's handles; they outlive every use of the device here. */
typedef struct hipdnnVulkanAdopted
{
    /** PFN_vkGetInstanceProcAddr of the loader that made them. */
    void* get_instance_proc_addr;
    /** VkInstance, of Vulkan 1.2 or newer. */
    void* instance;
    /** VkPhysicalDevice. */
    void* physical_device;
    /** VkDevice with bufferDeviceAddress, timelineSemaphore and shaderInt64; and with shaderFloat64, shaderInt16, shaderInt8,
     * shaderFloat16, storageBuffer16BitAccess and storageBuffer8BitAccess where the physical device has them. */
    void* device;
    /** VkQueue that computes. While a function here or an execution runs, the program does not use it. */
    void* queue;
    /** The queue's family. */
    uint32_t queue_family;
} hipdnnVulkanAdopted;

/** The number of devices; they are numbered from 0. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanGetDeviceCount_ext(int32_t* count);

/** Describes a device. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanGetDevice_ext(int32_t number, hipdnnVulkanDevice* device);

/** Makes a device the one of handles that have not planned or executed yet. Without this it is the one that HIPDNN_VULKAN_DEVICE names,
 * or else the best. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanChooseDevice_ext(int32_t number);

/** Allocates device memory, aligned to 256 bytes. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanAllocate_ext(int32_t number, size_t bytes, void** memory);

/** Frees memory of hipdnnVulkanAllocate_ext when the device's work is done. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanFree_ext(int32_t number, void* memory);

/** Copies from the host after the device's earlier work. Returns when the host's memory may be changed. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanCopyToDevice_ext(int32_t number, void* to, const void* from, size_t bytes);

/** Copies to the host after the device's earlier work. Returns when the copy is done. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanCopyToHost_ext(int32_t number, void* to, const void* from, size_t bytes);

/** Copies between places that do not overlap, after the device's earlier work. Returns when the copy is queued. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanCopy_ext(int32_t number, void* to, const void* from, size_t bytes);

/** Waits for the device's work. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanSynchronize_ext(int32_t number);

/** Makes a program's device one of the numbered ones, and returns its number. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanAdopt_ext(const hipdnnVulkanAdopted* adopted, int32_t* number);

/** Closes a device whose handles and plans were destroyed, and whose memory was freed or removed; else it fails. Afterwards a program
 * may destroy its own device, whose number stays unusable. The next use of another opens it again, also if it was lost. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanCloseDevice_ext(int32_t number);

/** Tells that a device has memory of the program's at these addresses (vkGetBufferDeviceAddress). */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanAddMemory_ext(int32_t number, void* memory, size_t bytes);

/** Takes back hipdnnVulkanAddMemory_ext, when the device's work is done. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanRemoveMemory_ext(int32_t number, void* memory);

/** The number of the device whose memory has this address, from hipdnnVulkanAllocate_ext or hipdnnVulkanAddMemory_ext; -1 if none has.
 * It opens no device. */
HIPDNN_VULKAN_EXPORT int hipdnnVulkanFindDevice_ext(const void* memory, int32_t* number);

/** Writes the reason of this thread's last failure here, at most `size` bytes with the NUL. */
HIPDNN_VULKAN_EXPORT void hipdnnVulkanGetLastError_ext(char* text, size_t size);

#ifdef __cplusplus
}
#endif
