/* SPDX-License-Identifier: MIT */

/* hipdnnBackendCreateDescriptor for every number, and hipdnnBackendDestroyDescriptor. */
#include "../fixture.h"

static bool is_creatable(int type)
{
    for (int64_t i = 0; i < COUNT(CREATABLE); i++) {
        if ((int)CREATABLE[i] == type) {
            return true;
        }
    }
    return false;
}

static void expect_refused(int type)
{
    hipdnnBackendDescriptor_t untouched = (hipdnnBackendDescriptor_t)(uintptr_t)0x77;
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "is not supported",
                hipdnnBackendCreateDescriptor((hipdnnBackendDescriptorType_t)type, &untouched));
    CHECK(untouched == (hipdnnBackendDescriptor_t)(uintptr_t)0x77);
}

int main(void)
{
    /* No handle is needed for any of this. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor",
                hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, NULL));
    /* The null pointer is found before the type. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor",
                hipdnnBackendCreateDescriptor((hipdnnBackendDescriptorType_t)12345, NULL));

    for (int64_t i = 0; i < COUNT(CREATABLE); i++) {
        check_about("type %d", (int)CREATABLE[i]);
        hipdnnBackendDescriptor_t one = NULL;
        hipdnnBackendDescriptor_t other = NULL;
        CHECK_OK(hipdnnBackendCreateDescriptor(CREATABLE[i], &one));
        CHECK_OK(hipdnnBackendCreateDescriptor(CREATABLE[i], &other));
        CHECK(one != NULL && other != NULL && one != other);
        CHECK_OK(hipdnnBackendDestroyDescriptor(one));
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "escriptor", hipdnnBackendDestroyDescriptor(one));
        CHECK_OK(hipdnnBackendDestroyDescriptor(other));
    }
    /* Reserved kinds that cannot be created, and undefined numbers */
    int refused = 0;
    for (int type = 0; type < 200; type++) {
        if (!is_creatable(type)) {
            check_about("type %d", type);
            expect_refused(type);
            refused++;
        }
    }
    CHECK_EQ(refused, 200 - COUNT(CREATABLE));
    const int reserved[] = {0, 5, 8, 9, 12, 13, 9999, 1 << 20};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        check_about("type %d", reserved[i]);
        CHECK(!is_creatable(reserved[i]));
        expect_refused(reserved[i]);
    }
    check_about("%s", "");
    hipdnnBackendDescriptor_t none = NULL;
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED,
                "HIPDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR is not supported. descriptorType is 12, which is reserved",
                hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR, &none));
    expect_refused(-1);
    expect_refused(-2147483647 - 1);
    expect_refused(2147483647);

    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "escriptor", hipdnnBackendDestroyDescriptor(NULL));
    return check_result();
}
