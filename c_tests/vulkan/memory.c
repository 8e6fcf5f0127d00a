/* The functions of hipdnn_vulkan.h: memory of the first device. The argument is the plugin. Exit status 77: there is no device. */
#include "failures.h"

#include <dlfcn.h>
#include <hipdnn/hipdnn_vulkan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1000

/* The plugin's function of a name, with the type of its declaration. */
#define FUNCTION(name) __typeof__(name)* const own_##name = (__typeof__(name)*)find(plugin, #name)

static void* find(void* plugin, const char* name)
{
    void* const function = dlsym(plugin, name);
    if (function == NULL) {
        fprintf(stderr, "the plugin lacks %s\n", name);
        exit(1);
    }
    return function;
}

int main(int count, char** arguments)
{
    void* const plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", count == 2 ? dlerror() : "expected the path of the plugin");
        return 1;
    }
    FUNCTION(hipdnnVulkanGetDeviceCount_ext);
    FUNCTION(hipdnnVulkanGetDevice_ext);
    FUNCTION(hipdnnVulkanChooseDevice_ext);
    FUNCTION(hipdnnVulkanAllocate_ext);
    FUNCTION(hipdnnVulkanFree_ext);
    FUNCTION(hipdnnVulkanCopyToDevice_ext);
    FUNCTION(hipdnnVulkanCopyToHost_ext);
    FUNCTION(hipdnnVulkanCopy_ext);
    FUNCTION(hipdnnVulkanSynchronize_ext);
    FUNCTION(hipdnnVulkanAdopt_ext);
    FUNCTION(hipdnnVulkanAddMemory_ext);
    FUNCTION(hipdnnVulkanRemoveMemory_ext);
    FUNCTION(hipdnnVulkanFindDevice_ext);
    FUNCTION(hipdnnVulkanGetLastError_ext);

    char text[1024] = "";
    int32_t devices = -1;
    CHECK(own_hipdnnVulkanGetDeviceCount_ext(NULL) != 0);
    own_hipdnnVulkanGetLastError_ext(text, sizeof(text));
    CHECK(strcmp(text, "count is null") == 0);
    hipdnnVulkanDevice device;
    memset(&device, 0, sizeof(device));
    if (own_hipdnnVulkanGetDeviceCount_ext(&devices) != 0 || devices == 0 ||
        own_hipdnnVulkanGetDevice_ext(0, &device) != 0 || !device.is_usable) {
        own_hipdnnVulkanGetLastError_ext(text, sizeof(text));
        printf("no device: %s\n", text);
        return 77;
    }
    printf("%s\n", device.name);
    CHECK(device.name[0] != '\0' && device.major_version >= 1 && device.subgroup > 0);
    CHECK(device.memory_bytes > 0);
    CHECK(own_hipdnnVulkanGetDevice_ext(devices, &device) != 0);
    CHECK(own_hipdnnVulkanGetDevice_ext(-1, &device) != 0);
    CHECK(own_hipdnnVulkanChooseDevice_ext(devices) != 0);
    CHECK(own_hipdnnVulkanChooseDevice_ext(0) == 0);

    static float from[COUNT], to[COUNT];
    for (int i = 0; i < COUNT; i++) {
        from[i] = (float)i;
    }
    void *first = NULL, *second = NULL;
    CHECK(own_hipdnnVulkanAllocate_ext(0, sizeof(from), NULL) != 0);
    CHECK(own_hipdnnVulkanAllocate_ext(0, sizeof(from), &first) == 0 && first != NULL);
    CHECK(own_hipdnnVulkanAllocate_ext(0, sizeof(from), &second) == 0 && second != NULL && second != first);
    CHECK(own_hipdnnVulkanCopyToDevice_ext(0, first, from, sizeof(from)) == 0);
    CHECK(own_hipdnnVulkanCopyToDevice_ext(0, second, to, sizeof(to)) == 0);
    /* From the middle into the middle. */
    CHECK(own_hipdnnVulkanCopy_ext(0, (char*)second + 40, (char*)first + 400, 2000) == 0);
    CHECK(own_hipdnnVulkanSynchronize_ext(0) == 0);
    CHECK(own_hipdnnVulkanCopyToHost_ext(0, to, second, sizeof(to)) == 0);
    CHECK(to[9] == 0 && to[10] == 100 && to[509] == 599 && to[510] == 0);

    int32_t owner = 7;
    CHECK(own_hipdnnVulkanFindDevice_ext(first, NULL) != 0);
    CHECK(own_hipdnnVulkanFindDevice_ext((char*)second + sizeof(to) - 1, &owner) == 0 && owner == 0);
    CHECK(own_hipdnnVulkanFindDevice_ext(from, &owner) == 0 && owner == -1);
    CHECK(own_hipdnnVulkanFindDevice_ext(NULL, &owner) == 0 && owner == -1);

    CHECK(own_hipdnnVulkanCopyToHost_ext(0, to, (char*)second + 40, sizeof(to)) != 0);
    own_hipdnnVulkanGetLastError_ext(text, sizeof(text));
    CHECK(strstr(text, "from is 0x") != NULL && strstr(text, "expected 4000") != NULL);
    CHECK(own_hipdnnVulkanCopyToDevice_ext(0, NULL, from, sizeof(from)) != 0);
    CHECK(own_hipdnnVulkanAllocate_ext(0, (size_t)-1 / 2, &first) != 0);
    CHECK(own_hipdnnVulkanFree_ext(0, (char*)first + 4) != 0);
    CHECK(own_hipdnnVulkanFree_ext(0, first) == 0);
    CHECK(own_hipdnnVulkanFree_ext(0, first) != 0);
    CHECK(own_hipdnnVulkanFree_ext(0, second) == 0);
    CHECK(own_hipdnnVulkanFree_ext(0, NULL) == 0);
    CHECK(own_hipdnnVulkanAdopt_ext(NULL, &devices) != 0);
    CHECK(own_hipdnnVulkanAddMemory_ext(0, NULL, 1) != 0);
    CHECK(own_hipdnnVulkanRemoveMemory_ext(0, from) != 0);
    return failures == 0 ? 0 : 1;
}
