/*
 * A program with a Vulkan device of its own lends it to VULKAN_ENGINE: a graph reads and writes the program's own buffers by their
 * addresses, before and after work of the program on the same queue. The argument is the plugin. Exit status 77: there is no device.
 */
#define VK_NO_PROTOTYPES
#include "../../examples_c/hipdnn_helpers.h"
#include "failures.h"

#include <dlfcn.h>
#include <hipdnn/hipdnn_vulkan.h>
#include <vulkan/vulkan.h>

enum { X, Y, SUM, BUFFERS };
enum { COUNT = 1000, PADDING = 64, BYTES = (COUNT + PADDING) * sizeof(float) };

static PFN_vkGetInstanceProcAddr find;
static VkInstance instance;

/* Vulkan's function of a name; the call has to succeed. */
#define VULKAN(name) ((PFN_##name)find(instance, #name))
#define DONE(call)                                                                                                    \
    do {                                                                                                              \
        const VkResult done = (call);                                                                                 \
        if (done != VK_SUCCESS) {                                                                                     \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, done);                                  \
            exit(EXIT_FAILURE);                                                                                       \
        }                                                                                                             \
    } while (0)

/* The plugin's function of a name, with the type of its declaration. */
#define PLUGIN(name) ((__typeof__(name)*)dlsym(plugin, #name))

/* A buffer of the program's. */
typedef struct own_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    float* mapped;
    char* address;
} own_buffer;

static VkPhysicalDevice the_device(void)
{
    uint32_t count = 1;
    VkPhysicalDevice device = VK_NULL_HANDLE;
    const VkResult found = VULKAN(vkEnumeratePhysicalDevices)(instance, &count, &device);
    if ((found != VK_SUCCESS && found != VK_INCOMPLETE) || count == 0) {
        printf("no device\n");
        exit(77);
    }
    return device;
}

static uint32_t compute_family(VkPhysicalDevice physical)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    VULKAN(vkGetPhysicalDeviceQueueFamilyProperties)(physical, &count, families);
    for (uint32_t family = 0; family < count; family++) {
        if (families[family].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            return family;
        }
    }
    hd_fail("no queue computes");
    return 0;
}

/* A device with what hipdnn_vulkan.h asks for. */
static VkDevice open_device(VkPhysicalDevice physical, uint32_t family)
{
    VkPhysicalDeviceVulkan12Features has12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features has11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                              .pNext = &has12};
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &has11};
    VULKAN(vkGetPhysicalDeviceFeatures2)(physical, &has);
    VkPhysicalDeviceVulkan12Features wants12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                .bufferDeviceAddress = VK_TRUE,
                                                .timelineSemaphore = VK_TRUE,
                                                .shaderFloat16 = has12.shaderFloat16,
                                                .shaderInt8 = has12.shaderInt8,
                                                .storageBuffer8BitAccess = has12.storageBuffer8BitAccess};
    VkPhysicalDeviceVulkan11Features wants11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                .pNext = &wants12,
                                                .storageBuffer16BitAccess = has11.storageBuffer16BitAccess};
    const VkPhysicalDeviceFeatures2 wants = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                             .pNext = &wants11,
                                             .features = {.shaderInt64 = VK_TRUE,
                                                          .shaderFloat64 = has.features.shaderFloat64,
                                                          .shaderInt16 = has.features.shaderInt16}};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &wants,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue};
    VkDevice device = VK_NULL_HANDLE;
    DONE(VULKAN(vkCreateDevice)(physical, &info, NULL, &device));
    return device;
}

/* A buffer that the host sees, and whose address kernels use. */
static own_buffer new_buffer(VkPhysicalDevice physical, VkDevice device)
{
    own_buffer own = {0};
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = BYTES,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                              VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    DONE(VULKAN(vkCreateBuffer)(device, &info, NULL, &own.buffer));
    VkMemoryRequirements needs;
    VULKAN(vkGetBufferMemoryRequirements)(device, own.buffer, &needs);
    VkPhysicalDeviceMemoryProperties memory;
    VULKAN(vkGetPhysicalDeviceMemoryProperties)(physical, &memory);
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t kind = 0;
    while (kind < memory.memoryTypeCount &&
           !((needs.memoryTypeBits >> kind & 1) && (memory.memoryTypes[kind].propertyFlags & wanted) == wanted)) {
        kind++;
    }
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo allocation = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                             .pNext = &flags,
                                             .allocationSize = needs.size,
                                             .memoryTypeIndex = kind};
    DONE(VULKAN(vkAllocateMemory)(device, &allocation, NULL, &own.memory));
    DONE(VULKAN(vkBindBufferMemory)(device, own.buffer, own.memory, 0));
    DONE(VULKAN(vkMapMemory)(device, own.memory, 0, VK_WHOLE_SIZE, 0, (void**)&own.mapped));
    const VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                               .buffer = own.buffer};
    own.address = (char*)(uintptr_t)VULKAN(vkGetBufferDeviceAddress)(device, &address);
    return own;
}

/* The program's own work on the queue: fills a buffer with a number, and waits. */
static void fill(VkDevice device, VkQueue queue, uint32_t family, VkBuffer buffer, float number)
{
    const VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = family};
    VkCommandPool pool;
    DONE(VULKAN(vkCreateCommandPool)(device, &info, NULL, &pool));
    const VkCommandBufferAllocateInfo allocation = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool, .commandBufferCount = 1};
    VkCommandBuffer commands;
    DONE(VULKAN(vkAllocateCommandBuffers)(device, &allocation, &commands));
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    DONE(VULKAN(vkBeginCommandBuffer)(commands, &begin));
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    VULKAN(vkCmdFillBuffer)(commands, buffer, 0, VK_WHOLE_SIZE, bits);
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
    VULKAN(vkCmdPipelineBarrier)(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
                                 0, NULL, 0, NULL);
    DONE(VULKAN(vkEndCommandBuffer)(commands));
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    DONE(VULKAN(vkQueueSubmit)(queue, 1, &submit, VK_NULL_HANDLE));
    DONE(VULKAN(vkQueueWaitIdle)(queue));
    VULKAN(vkDestroyCommandPool)(device, pool, NULL);
}

/* sum = x + y by VULKAN_ENGINE. */
static hd_plan addition(hipdnnHandle_t handle)
{
    hd_graph graph = hd_graph_begin(handle, "addition");
    hipdnnBackendDescriptor_t x = hd_tensor(&graph, X, 1, 1, 1, COUNT);
    hipdnnBackendDescriptor_t y = hd_tensor(&graph, Y, 1, 1, 1, COUNT);
    hd_pointwise(&graph, HIPDNN_POINTWISE_ADD, x, y, hd_tensor(&graph, SUM, 1, 1, 1, COUNT));
    return hd_graph_build(&graph, "VULKAN");
}

int main(int count, char** arguments)
{
    void* const plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", count == 2 ? dlerror() : "expected the path of the plugin");
        return EXIT_FAILURE;
    }
    void* const loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    find = loader == NULL ? NULL : (PFN_vkGetInstanceProcAddr)dlsym(loader, "vkGetInstanceProcAddr");
    if (find == NULL) {
        printf("no loader\n");
        return 77;
    }
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    DONE(VULKAN(vkCreateInstance)(&info, NULL, &instance));
    VkPhysicalDevice physical = the_device();
    const uint32_t family = compute_family(physical);
    VkDevice device = open_device(physical, family);
    VkQueue queue;
    VULKAN(vkGetDeviceQueue)(device, family, 0, &queue);

    hipdnnVulkanAdopted adopted = {(void*)find, instance, physical, device, queue, family};
    int32_t before = -1, number = -1, owner = -1;
    CHECK(PLUGIN(hipdnnVulkanGetDeviceCount_ext)(&before) == 0);
    CHECK(PLUGIN(hipdnnVulkanAdopt_ext)(&adopted, &number) == 0 && number == before);
    CHECK(PLUGIN(hipdnnVulkanChooseDevice_ext)(number) == 0);

    own_buffer own[BUFFERS];
    float* memory[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        own[i] = new_buffer(physical, device);
        CHECK(PLUGIN(hipdnnVulkanAddMemory_ext)(number, own[i].address, BYTES) == 0);
        /* In the middle of each buffer. */
        memory[i] = (float*)(void*)(own[i].address + 4 * 16);
    }
    CHECK(PLUGIN(hipdnnVulkanFindDevice_ext)(memory[Y], &owner) == 0 && owner == number);
    for (int i = 0; i < COUNT + PADDING; i++) {
        own[X].mapped[i] = (float)i;
        own[SUM].mapped[i] = -1;
    }
    fill(device, queue, family, own[Y].buffer, 5);

    hipdnnHandle_t handle = NULL;
    HD_CHECK(hipdnnCreate(&handle));
    hd_plan plan = addition(handle);
    CHECK(strcmp(plan.engine, "VULKAN_ENGINE") == 0);
    hd_execute(&plan, memory);
    CHECK(PLUGIN(hipdnnVulkanSynchronize_ext)(number) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(own[SUM].mapped[16 + i] == (float)(16 + i) + 5);
    }
    /* Nothing beside the tensor. */
    CHECK(own[SUM].mapped[15] == -1 && own[SUM].mapped[16 + COUNT] == -1);

    /* After the program used its queue again. */
    fill(device, queue, family, own[Y].buffer, -3);
    hd_execute(&plan, memory);
    CHECK(PLUGIN(hipdnnVulkanSynchronize_ext)(number) == 0);
    CHECK(own[SUM].mapped[16] == 13 && own[SUM].mapped[16 + COUNT - 1] == (float)(16 + COUNT - 1) - 3);

    /* The library's own memory works beside it, and its copies know only that. */
    void* allocated = NULL;
    float number_back = 0;
    CHECK(PLUGIN(hipdnnVulkanAllocate_ext)(number, COUNT * sizeof(float), &allocated) == 0);
    float* mixed[BUFFERS] = {memory[X], memory[Y], allocated};
    hd_execute(&plan, mixed);
    CHECK(PLUGIN(hipdnnVulkanCopyToHost_ext)(number, &number_back, allocated, sizeof(float)) == 0);
    CHECK(number_back == 13);
    CHECK(PLUGIN(hipdnnVulkanCopyToHost_ext)(number, &number_back, memory[X], sizeof(float)) != 0);
    CHECK(PLUGIN(hipdnnVulkanFree_ext)(number, allocated) == 0);

    /* The device is given back when nothing uses it any more, and is the program's alone to destroy. */
    CHECK(PLUGIN(hipdnnVulkanCloseDevice_ext)(number) != 0);
    hd_plan_destroy(&plan);
    HD_CHECK(hipdnnDestroy(handle));
    CHECK(PLUGIN(hipdnnVulkanCloseDevice_ext)(number) != 0);
    for (int i = 0; i < BUFFERS; i++) {
        CHECK(PLUGIN(hipdnnVulkanRemoveMemory_ext)(number, own[i].address) == 0);
        CHECK(PLUGIN(hipdnnVulkanFindDevice_ext)(memory[i], &owner) == 0 && owner == -1);
        VULKAN(vkDestroyBuffer)(device, own[i].buffer, NULL);
        VULKAN(vkFreeMemory)(device, own[i].memory, NULL);
    }
    CHECK(PLUGIN(hipdnnVulkanCloseDevice_ext)(number) == 0);
    CHECK(PLUGIN(hipdnnVulkanAllocate_ext)(number, 16, &allocated) != 0);
    CHECK(PLUGIN(hipdnnVulkanChooseDevice_ext)(number) != 0);
    VULKAN(vkDestroyDevice)(device, NULL);
    VULKAN(vkDestroyInstance)(instance, NULL);
    if (failures == 0) {
        printf("a graph read and wrote the program's own buffers\n");
    }
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
