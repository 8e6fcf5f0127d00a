/* SPDX-License-Identifier: MIT */

/* A graph's bytes: queried in two calls, and converted back to the same graph. */
#include "../fixture.h"

/* The bytes of a graph; the caller frees them. */
static uint8_t* bytes_of(hipdnnBackendDescriptor_t graph, size_t* size)
{
    *size = 0;
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, size, NULL));
    REQUIRE(*size > 0);
    uint8_t* bytes = malloc(*size);
    REQUIRE(bytes != NULL);
    size_t again = 0;
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, *size, &again, bytes));
    CHECK(again == *size);
    return bytes;
}

static int64_t operations_of(hipdnnBackendDescriptor_t graph)
{
    int64_t count = -1;
    REQUIRE_OK(hipdnnBackendGetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                         &count, NULL));
    return count;
}

int main(void)
{
    hipdnnHandle_t const handle = make_handle();

    /* Open, even empty, and finalized graphs have bytes. */
    hipdnnBackendDescriptor_t empty = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    size_t size = 0;
    uint8_t* bytes = bytes_of(empty, &size);
    hipdnnBackendDescriptor_t copy = NULL;
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&copy, bytes, size));
    CHECK(operations_of(copy) == 0);
    free(bytes);
    drop(copy);
    drop(empty);

    hipdnnBackendDescriptor_t graph = make_graph(handle);
    bytes = bytes_of(graph, &size);
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&copy, bytes, size));
    CHECK(operations_of(copy) == operations_of(graph));
    size_t copy_size = 0;
    uint8_t* copy_bytes = bytes_of(copy, &copy_size);
    CHECK(copy_size == size && memcmp(copy_bytes, bytes, size) == 0);
    put(copy, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(copy));

    /* Too small a buffer: only the size is written. */
    copy_bytes[0] = 0x5a;
    size_t needed = 0;
    CHECK_STATUS(hipdnnBackendGetSerializedBinaryGraph_ext(graph, size - 1, &needed, copy_bytes),
                 HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    CHECK(needed == size);
    CHECK(copy_bytes[0] == 0x5a);

    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    CHECK_STATUS(hipdnnBackendGetSerializedBinaryGraph_ext(tensor, 0, &needed, NULL), HIPDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(hipdnnBackendGetSerializedBinaryGraph_ext(NULL, 0, &needed, NULL),
                 HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, NULL, NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    drop(tensor);
    drop(copy);
    drop(graph);
    CHECK_STATUS(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, &needed, NULL), HIPDNN_STATUS_BAD_PARAM);
    free(bytes);
    free(copy_bytes);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
