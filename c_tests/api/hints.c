/* SPDX-License-Identifier: MIT */

/* The hints in the log and the last error that help to find a mistake. */
#include "../fixture.h"

#include <sys/stat.h>
#include <unistd.h>

static const char LOG[] = "hints_log.txt";

/* Everything logged since the last call. */
static const char* logged(void)
{
    static char text[1 << 18];
    static long read_up_to = 0;
    text[0] = '\0';
    FILE* file = fopen(LOG, "rb");
    if (file != NULL && fseek(file, read_up_to, SEEK_SET) == 0) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        read_up_to = ftell(file);
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

/* Callers compare the text of this error as a whole; the log has the ids. */
static void test_unknown_engine(hipdnnBackendDescriptor_t graph)
{
    char known[64];
    const int64_t id = 42;
    check_about("unknown engine");
    snprintf(known, sizeof known, " (%lld)", (long long)best_engine_id(graph));
    hipdnnBackendDescriptor_t engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    put_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    (void)logged();
    CHECK_STATUS(hipdnnBackendFinalize(engine), HIPDNN_STATUS_BAD_PARAM);
    const char* log = logged();
    CHECK_CONTAINS(log, "no engine has the id 42; there are CPU_ENGINE (");
    CHECK_CONTAINS(log, known);
    drop(engine);
}

static hipdnnBackendDescriptor_t pack_of(int64_t count, const int64_t* uids, buffers* data)
{
    void* const pointers[] = {data->x, data->w, data->y, data->y, data->y, data->y, data->y, data->y};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, count, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, count, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &data->workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    return pack;
}

/* Engines ignore what they do not need, so this is not an error; it may be the cause of one. */
static void test_packs(hipdnnHandle_t handle)
{
    static buffers data;
    const char* log;
    check_about("packs");
    /* y = relu(convolution(x, w)), with a virtual tensor between. */
    hipdnnBackendDescriptor_t operations[] = {open_convolution(), open_relu()};
    hipdnnBackendDescriptor_t between = make_tensor(UID_BETWEEN, 1, CHANNELS, SIDE, SIDE, true);
    put_descriptor(operations[0], HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, between);
    put_descriptor(operations[1], HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, between);
    drop(between);
    hipdnnBackendDescriptor_t graph = open_graph_of(handle, 2, operations);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, 7, "hinting");
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    fill_buffers(&data, plan);

    static const int64_t right[] = {UID_X, UID_W, UID_Y};
    hipdnnBackendDescriptor_t pack = pack_of(3, right, &data);
    (void)logged();
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    log = logged();
    CHECK_CONTAINS(log, "execute: CPU_ENGINE ran graph \"hinting\" and returned after ");
    CHECK(strstr(log, "variant pack binds") == NULL);
    drop(pack);

    static const int64_t odd[] = {UID_X, UID_W, UID_Y, UID_BETWEEN, 99, UID_Y, 100, 101};
    pack = pack_of(8, odd, &data);
    char expected[200];
    snprintf(expected, sizeof expected,
             "[warning] [hipdnn_backend] the variant pack binds tensor %d, which is virtual, tensor 99, which the "
             "graph does not have, "
             "tensor %d twice, tensor 100, which the graph does not have, 1 more\n",
             UID_BETWEEN, UID_Y);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    log = logged();
    CHECK_CONTAINS(log, expected);
    /* Once for each plan. */
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    log = logged();
    CHECK(strstr(log, "variant pack binds") == NULL);
    drop(pack);

    static const int64_t wrong[] = {98, UID_W, UID_Y};
    pack = pack_of(3, wrong, &data);
    CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "; the variant pack binds tensor 98, which the graph does not have",
                hipdnnBackendExecute(handle, plan, pack));
    log = logged();
    CHECK_CONTAINS(log, "execute: CPU_ENGINE ran graph \"hinting\" and failed after ");
    /* The error has the hint even with the log switched off. */
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_OFF));
    CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "; the variant pack binds tensor 98, which the graph does not have",
                hipdnnBackendExecute(handle, plan, pack));
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_INFO));
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
}

static void test_words(void)
{
    check_about("words of JSON");
    static const char text[] =
        "{\"tensors\": [{\"uid\": 1, \"dims\": [1], \"strides\": [1], \"data_type\": \"flaot\"}], \"nodes\": []}";
    hipdnnBackendDescriptor_t graph = NULL;
    (void)logged();
    CHECK_OK(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, text, sizeof text));
    const char* log = logged();
    CHECK_CONTAINS(
        log,
        "[warning] [hipdnn_backend] jsonGraph: tensors[0].data_type: is \"flaot\", which is no data type and counts as "
        "\"unset\"; did you mean \"float\"?\n");
    drop(graph);
}

/* Hints about valid but probably mistaken graphs, logged once. */
static void test_graphs(hipdnnHandle_t handle)
{
    static const struct {
        const char* dims;
        const char* bias;
        const char* expected;
    } rows[] = {
        {"1, 4, 4, 4", "1, 4, 1, 1", NULL},
        {"1, 4, 5, 4", "1, 1, 1, 4",
         "[warning] [hipdnn_backend] tensor 4 \"b\" is added to the result of a convolution along dimension 3; where "
         "it is meant for the 4 "
         "channels of dimension 1, its dims are [1, 4, 1, 1], not [1, 1, 1, 4]\n"},
        {"1, 4, -1, 5", "1, 4, 1, 1",
         "[warning] [hipdnn_backend] tensor 3 \"conv\": dims[2] is -1, and no engine takes that: shapes are not "
         "inferred, no dimension "
         "is below 0\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2048];
        check_about("graph of %s and %s", rows[i].dims, rows[i].bias);
        snprintf(
            text, sizeof text,
            "{\"tensors\": ["
            "{\"uid\": 1, \"dims\": [1, 2, 5, 4], \"strides\": [40, 20, 4, 1], \"data_type\": \"float\"}, "
            "{\"uid\": 2, \"dims\": [4, 2, 1, 1], \"strides\": [2, 1, 1, 1], \"data_type\": \"float\"}, "
            "{\"uid\": 3, \"name\": \"conv\", \"dims\": [%s], \"strides\": [80, 20, 4, 1], \"data_type\": \"float\", "
            "\"virtual\": true}, "
            "{\"uid\": 4, \"name\": \"b\", \"dims\": [%s], \"strides\": [4, 1, 1, 1], \"data_type\": \"float\"}, "
            "{\"uid\": 5, \"dims\": [1, 4, 5, 4], \"strides\": [80, 20, 4, 1], \"data_type\": \"float\"}], \"nodes\": ["
            "{\"type\": \"ConvolutionFwdAttributes\", \"inputs\": {\"x_tensor_uid\": 1, \"w_tensor_uid\": 2}, "
            "\"outputs\": {\"y_tensor_uid\": 3}, \"parameters\": {\"pre_padding\": [0, 0], \"post_padding\": [0, 0], "
            "\"stride\": [1, 1], \"dilation\": [1, 1], \"conv_mode\": \"CROSS_CORRELATION\"}}, "
            "{\"type\": \"PointwiseAttributes\", \"inputs\": {\"operation\": \"add\", \"in_0_tensor_uid\": 3, "
            "\"in_1_tensor_uid\": 4}, \"outputs\": {\"out_0_tensor_uid\": 5}}]}",
            rows[i].dims, rows[i].bias);
        /* The same hint is not logged again. */
        for (int round = 0; round < 2; round++) {
            hipdnnBackendDescriptor_t graph = NULL;
            REQUIRE_OK(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, text, strlen(text)));
            put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
            (void)logged();
            CHECK_OK(hipdnnBackendFinalize(graph));
            const char* log = logged();
            if (round == 0 && rows[i].expected != NULL) {
                CHECK_CONTAINS(log, rows[i].expected);
            } else {
                CHECK(strstr(log, "[warning]") == NULL);
            }
            drop(graph);
        }
    }
}

/* Names instead of numbers, the elements of arrays, and results. */
static void test_calls(void)
{
    check_about("calls");
    static const int64_t dims[] = {1, 2, 4, 4};
    int64_t read[9] = {0};
    int64_t count = 0;
    (void)logged();
    hipdnnBackendDescriptor_t tensor = open_tensor(5, 4, dims, true);
    const char* log = logged();
    CHECK_CONTAINS(log, "API called: [hipdnnBackendCreateDescriptor] descriptorType=HIPDNN_BACKEND_TENSOR_DESCRIPTOR "
                        "(14), descriptor=0x");
    CHECK_CONTAINS(log, "API success: [hipdnnBackendCreateDescriptor] descriptor=0x");
    CHECK_CONTAINS(log, " (tensor), attributeName=HIPDNN_ATTR_TENSOR_DIMENSIONS (1303), "
                        "attributeType=HIPDNN_TYPE_INT64 (3), elementCount=4, "
                        "arrayOfElements=0x");
    CHECK_CONTAINS(log, "API success: [hipdnnBackendSetAttribute] arrayOfElements=[1, 2, 4, 4]\n");
    CHECK_CONTAINS(log, "API success: [hipdnnBackendSetAttribute] arrayOfElements=[HIPDNN_DATA_FLOAT (0)]\n");
    CHECK_CONTAINS(log, "API success: [hipdnnBackendSetAttribute] arrayOfElements=[true]\n");
    put(tensor, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, 5, "image");
    REQUIRE_OK(hipdnnBackendFinalize(tensor));
    CHECK_OK(hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 0, &count, NULL));
    CHECK_OK(hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 9, &count, read));
    CHECK_OK(hipdnnBackendGetAttribute(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, NULL, read));
    log = logged();
    CHECK_CONTAINS(log, "API success: [hipdnnBackendSetAttribute] arrayOfElements=\"image\"\n");
    CHECK_CONTAINS(log, "API called: [hipdnnBackendFinalize] descriptor=0x");
    CHECK_CONTAINS(log, "API success: [hipdnnBackendGetAttribute] elementCount=4\n");
    CHECK_CONTAINS(log, "API success: [hipdnnBackendGetAttribute] elementCount=4, arrayOfElements=[1, 2, 4, 4]\n");
    CHECK_CONTAINS(log, "API success: [hipdnnBackendGetAttribute] elementCount=null, arrayOfElements=[5]\n");
    drop(tensor);
    /* Invalid numbers and descriptors; the array does not match the call, and is not read. */
    (void)logged();
    CHECK_STATUS(hipdnnBackendSetAttribute(tensor, (hipdnnBackendAttributeName_t)77777,
                                           (hipdnnBackendAttributeType_t)55555, 1 << 20, &count),
                 HIPDNN_STATUS_BAD_PARAM);
    log = logged();
    CHECK_CONTAINS(
        log,
        " (no live descriptor), attributeName=77777, attributeType=55555, elementCount=1048576, arrayOfElements=0x");
}

/* The places searched for plugins, and the result for each file. */
static void test_plugins(void)
{
    const char* const path = "hints_plugins";
    char here[1024];
    char file[1200];
    check_about("plugins");
    REQUIRE(getcwd(here, sizeof here) != NULL);
    snprintf(file, sizeof file, "%s" SEPARATOR "%s", here, path);
    mkdir(file, 0777);
    const char* const folder = file;
    char broken[1300];
    snprintf(broken, sizeof broken, "%s" SEPARATOR LIBRARY_BEGIN "broken" LIBRARY_END, file);
    FILE* out = fopen(broken, "wb");
    REQUIRE(out != NULL);
    fputs("no library", out);
    fclose(out);
    (void)logged();
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, &folder, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    hipdnnHandle_t handle = make_handle();
    const char* log = logged();
    char expected[1400];
    snprintf(expected, sizeof expected, "looked for engine plugins in %s: 1 file\n", file);
    CHECK_CONTAINS(log, expected);
    snprintf(expected, sizeof expected, "Error loading plugin from [%s]: Failed to load library: ", broken);
    CHECK_CONTAINS(log, expected);
    CHECK_CONTAINS(log, "API success: [hipdnnCreate] handle=0x");
    CHECK_OK(hipdnnDestroy(handle));
    remove(broken);
    rmdir(file);
}

int main(void)
{
    remove(LOG);
    setenv("HIPDNN_LOG_LEVEL", "info", 1);
    setenv("HIPDNN_LOG_FILE", LOG, 1);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    test_unknown_engine(graph);
    test_packs(handle);
    test_words();
    test_graphs(handle);
    test_calls();
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    test_plugins();
    return check_result();
}
