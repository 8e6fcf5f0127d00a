/* SPDX-License-Identifier: MIT */

/* Graphs from JSON and as JSON: arguments, the two-call query, defaults, and hostile texts. */
#include "../json_text.h"

static hipdnnHandle_t handle;

static void test_arguments(void)
{
    hipdnnBackendDescriptor_t untouched = (hipdnnBackendDescriptor_t)(uintptr_t)0x77;
    const char* const text = CONV_RELU_JSON;
    const size_t size = strlen(text);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor",
                hipdnnBackendCreateAndDeserializeJsonGraph_ext(NULL, text, size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "jsonGraph",
                hipdnnBackendCreateAndDeserializeJsonGraph_ext(&untouched, NULL, size));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "jsonByteSize",
                hipdnnBackendCreateAndDeserializeJsonGraph_ext(&untouched, text, 0));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "jsonByteSize",
                hipdnnBackendCreateAndDeserializeJsonGraph_ext(&untouched, text, SIZE_MAX));
    CHECK(untouched == (hipdnnBackendDescriptor_t)(uintptr_t)0x77);

    hipdnnBackendDescriptor_t graph = graph_of_json(text);
    char* const json = json_of(graph);
    const size_t needed = strlen(json) + 1;
    size_t got = 0;
    char first = '?';
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor",
                hipdnnBackendGetSerializedJsonGraph_ext(NULL, 0, &got, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "graphByteSize",
                hipdnnBackendGetSerializedJsonGraph_ext(graph, 0, NULL, NULL));
    /* Too small a buffer, even if only for the NUL: only the size is written. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "requestedByteSize",
                hipdnnBackendGetSerializedJsonGraph_ext(graph, needed - 1, &got, &first));
    CHECK(got == needed && first == '?');
    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "graph", hipdnnBackendGetSerializedJsonGraph_ext(tensor, 0, &got, NULL));
    drop(tensor);
    drop(graph);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "destroyed", hipdnnBackendGetSerializedJsonGraph_ext(graph, 0, &got, NULL));
    free(json);
}

/* The text needs no NUL but may have one, and may be freed at once. */
static void test_text(void)
{
    const char* const text = CONV_RELU_JSON;
    const size_t size = strlen(text);
    hipdnnBackendDescriptor_t whole = graph_of_json(text);
    char* const expected = json_of(whole);
    for (size_t behind = 0; behind < 2; behind++) {
        hipdnnBackendDescriptor_t graph = NULL;
        char* const copy = malloc(size + behind);
        REQUIRE(copy != NULL);
        memcpy(copy, text, size + behind);
        REQUIRE_OK(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, copy, size + behind));
        free(copy);
        char* const got = json_of(graph);
        CHECK_STR(got, expected);
        free(got);
        drop(graph);
    }
    /* The shortest there is. An open graph without anything is written like it. */
    static const char empty[] = "{\"compute_data_type\":\"unset\",\"intermediate_data_type\":\"unset\","
                                "\"io_data_type\":\"unset\",\"is_override_shape_enabled\":false,\"name\":\"\","
                                "\"nodes\":[],\"tensors\":[]}";
    hipdnnBackendDescriptor_t none = graph_of_json("{\"nodes\":[],\"tensors\":[]}");
    char* json = json_of(none);
    CHECK_STR(json, empty);
    free(json);
    drop(none);
    drop(whole);
    free(expected);
}

static void test_messages(void)
{
    hipdnnBackendDescriptor_t graph = NULL;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "jsonGraph: nodes[0].type: is \"X\"",
                read_json(&graph, "{\"tensors\": [], \"nodes\": [{\"type\": \"X\"}]}"));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "jsonGraph: tensors[0].uid: is 0.5, expected an integer",
                read_json(&graph, "{\"nodes\": [], \"tensors\": [{\"uid\": 0.5}]}"));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "jsonGraph: tensors[0].uid: number out of range",
                read_json(&graph, "{\"nodes\": [], \"tensors\": [{\"uid\": 1e400}]}"));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "twice", read_json(&graph, "{\"nodes\": [], \"nodes\": []}"));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "UTF-8 at byte 1", read_json(&graph, "\"\xc3\x28\""));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "plugin API 1.4.0",
                read_json(&graph, "{\"nodes\": [], \"tensors\": [], \"min_required_engine_api_version\": "
                                  "{\"major\": 1, \"minor\": 4, \"patch\": 0}}"));
    CHECK(graph == NULL);
}

/* Takes a graph as far as possible. Each failure has a text, and the process survives. */
static void drive(const char* text, size_t size)
{
    char message[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnBackendDescriptor_t graph = NULL;
    check_forget_error();
    const hipdnnStatus_t status = hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, text, size);
    if (status != HIPDNN_STATUS_SUCCESS) {
        hipdnnGetLastErrorString(message, sizeof message);
        CHECK(message[0] != '\0' && graph == NULL);
        CHECK(status == HIPDNN_STATUS_BAD_PARAM || status == HIPDNN_STATUS_NOT_SUPPORTED);
        return;
    }
    free(json_of(graph));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    if (hipdnnBackendFinalize(graph) == HIPDNN_STATUS_SUCCESS) {
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        if (hipdnnBackendFinalize(heuristic) != HIPDNN_STATUS_SUCCESS) {
            hipdnnGetLastErrorString(message, sizeof message);
            CHECK(message[0] != '\0');
        }
        drop(heuristic);
    }
    drop(graph);
}

static void test_damage(void)
{
    static const char whole[] = CONV_RELU_JSON;
    const size_t size = sizeof whole - 1;
    for (size_t length = 1; length < size - 1; length++) {
        check_about("cut to %zu", length);
        char* const part = malloc(length);
        hipdnnBackendDescriptor_t graph = NULL;
        REQUIRE(part != NULL);
        memcpy(part, whole, length);
        CHECK_STATUS(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, part, length), HIPDNN_STATUS_BAD_PARAM);
        free(part);
    }
    static const unsigned char values[] = {0, '"', '[', '}', '0', '9', '-', 'e', ',', '\\', 0x80, 0xff};
    char* const text = malloc(size);
    REQUIRE(text != NULL);
    for (size_t at = 0; at < size; at++) {
        for (int64_t i = 0; i < COUNT(values); i++) {
            check_about("byte %zu is %d", at, values[i]);
            memcpy(text, whole, size);
            text[at] = (char)values[i];
            drive(text, size);
        }
    }
    free(text);
    check_about("%s", "");
}

static void test_junk(void)
{
    enum { MEGABYTES = 8 << 20 };
    char* const text = malloc(MEGABYTES);
    REQUIRE(text != NULL);
    static const char fillings[] = {'[', '{', '"', '9', ' ', '\0', 'x', (char)0xff};
    for (int64_t i = 0; i < COUNT(fillings); i++) {
        check_about("filled with %d", fillings[i]);
        hipdnnBackendDescriptor_t graph = NULL;
        memset(text, fillings[i], MEGABYTES);
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "jsonGraph",
                    hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, text, MEGABYTES));
    }
    uint64_t state = 4711;
    for (int round = 0; round < 2000; round++) {
        const size_t size = 1 + (size_t)round;
        for (size_t i = 0; i < size; i++) {
            static const char alphabet[] = "[]{}\":,0123456789.-+eE \\untrfals\x80\xe2";
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            text[i] = alphabet[(state >> 33) % (sizeof alphabet - 1)];
        }
        check_about("noise %d", round);
        drive(text, size);
    }
    free(text);
    check_about("%s", "");
}

int main(void)
{
    handle = make_handle();
    test_arguments();
    test_text();
    test_messages();
    test_damage();
    test_junk();
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
