/* SPDX-License-Identifier: MIT */

/* Graphs as JSON and as bytes, for the C tests. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include "fixture.h"

static inline hipdnnStatus_t read_json(hipdnnBackendDescriptor_t* graph, const char* text)
{
    return hipdnnBackendCreateAndDeserializeJsonGraph_ext(graph, text, strlen(text));
}

static inline hipdnnBackendDescriptor_t graph_of_json(const char* text)
{
    hipdnnBackendDescriptor_t graph = NULL;
    REQUIRE_OK(read_json(&graph, text));
    REQUIRE(graph != NULL);
    return graph;
}

/* The graph as JSON; the caller frees it. */
static inline char* json_of(hipdnnBackendDescriptor_t graph)
{
    size_t size = 0;
    size_t again = 0;
    REQUIRE_OK(hipdnnBackendGetSerializedJsonGraph_ext(graph, 0, &size, NULL));
    char* const text = malloc(size);
    REQUIRE(size > 0 && text != NULL);
    REQUIRE_OK(hipdnnBackendGetSerializedJsonGraph_ext(graph, size, &again, text));
    CHECK(again == size && strlen(text) == size - 1);
    return text;
}

/* The graph's bytes; the caller frees them. */
static inline uint8_t* bytes_of(hipdnnBackendDescriptor_t graph, size_t* size)
{
    size_t again = 0;
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, size, NULL));
    uint8_t* const bytes = malloc(*size);
    REQUIRE(*size > 0 && bytes != NULL);
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, *size, &again, bytes));
    CHECK(again == *size);
    return bytes;
}

static inline hipdnnBackendDescriptor_t graph_of_bytes(const uint8_t* bytes, size_t size)
{
    hipdnnBackendDescriptor_t graph = NULL;
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&graph, bytes, size));
    return graph;
}

static inline void finalize_with(hipdnnBackendDescriptor_t graph, hipdnnHandle_t handle)
{
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
}

/* y = relu(convolution(x, w)) with the uids, shapes and padding of the graph of open_graph; every node and tensor has a
 * default that is left out. */
#define CONV_RELU_JSON                                                                                          \
    "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\",\n"  \
    " \"nodes\": [\n"                                                                                           \
    "  {\"type\": \"ConvolutionFwdAttributes\",\n"                                                              \
    "   \"inputs\": {\"x_tensor_uid\": 1, \"w_tensor_uid\": 2}, \"outputs\": {\"y_tensor_uid\": 3},\n"          \
    "   \"parameters\": {\"conv_mode\": \"CROSS_CORRELATION\", \"pre_padding\": [1, 1], \"post_padding\": [1, 1],\n" \
    "                  \"stride\": [1, 1], \"dilation\": [1, 1]}},\n"                                           \
    "  {\"type\": \"PointwiseAttributes\",\n"                                                                   \
    "   \"inputs\": {\"operation\": \"relu_fwd\", \"in_0_tensor_uid\": 3}, \"outputs\": {\"out_0_tensor_uid\": 4}}],\n" \
    " \"tensors\": [\n"                                                                                         \
    "  {\"uid\": 1, \"dims\": [1, 2, 4, 4], \"strides\": [32, 16, 4, 1]},\n"                                    \
    "  {\"uid\": 2, \"dims\": [2, 2, 3, 3], \"strides\": [18, 9, 3, 1]},\n"                                     \
    "  {\"uid\": 3, \"dims\": [1, 2, 4, 4], \"strides\": [32, 16, 4, 1], \"virtual\": true},\n"                 \
    "  {\"uid\": 4, \"dims\": [1, 2, 4, 4], \"strides\": [32, 16, 4, 1]}]}\n"

#endif
