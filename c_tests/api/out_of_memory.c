/* SPDX-License-Identifier: MIT */

/*
 * Caller-controlled sizes with little memory: a call succeeds, fails as it would anyway, or returns ALLOC_FAILED, and the process goes
 * on. Each case runs in children with an increasing limit of address space.
 */
#include "../fixture.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, MANY = 1 << 20 };

static hipdnnHandle_t handle;
static int64_t* numbers; /* MANY ones */
static char* text;       /* 4 * MANY letters */
static uint8_t* bytes;   /* a graph with long lists */
static size_t byte_size;
static char* json; /* the same */
static size_t json_size;
static hipdnnBackendDescriptor_t operation;                  /* the one of that graph */
static hipdnnBackendDescriptor_t product_plan, product_pack; /* a graph that needs a workspace of 64 MiB */

static hipdnnStatus_t set_dims(void)
{
    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    return hipdnnBackendSetAttribute(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, MANY, numbers);
}

static hipdnnStatus_t set_name(void)
{
    hipdnnBackendDescriptor_t tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    return hipdnnBackendSetAttribute(tensor, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, 4 * MANY, text);
}

static hipdnnStatus_t set_uids(void)
{
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    return hipdnnBackendSetAttribute(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, MANY, numbers);
}

static hipdnnStatus_t set_pointers(void)
{
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    return hipdnnBackendSetAttribute(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, MANY, numbers);
}

static hipdnnStatus_t set_overrides(void)
{
    static const int64_t uids[] = {1, 2};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 2, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 2, uids);
    const hipdnnStatus_t status = hipdnnBackendSetAttribute(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT,
                                                            HIPDNN_TYPE_INT64, MANY, numbers);
    if (status != HIPDNN_STATUS_SUCCESS) {
        return status;
    }
    const hipdnnStatus_t lengths = hipdnnBackendSetAttribute(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT,
                                                             HIPDNN_TYPE_INT64, MANY, numbers);
    return lengths != HIPDNN_STATUS_SUCCESS ? lengths : hipdnnBackendFinalize(pack);
}

static hipdnnStatus_t read_bytes(void)
{
    hipdnnBackendDescriptor_t graph = NULL;
    return hipdnnBackendCreateAndDeserializeGraph_ext(&graph, bytes, byte_size);
}

static hipdnnStatus_t read_plan(void)
{
    hipdnnBackendDescriptor_t plan = NULL;
    return hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &plan, bytes, byte_size);
}

static hipdnnStatus_t read_json(void)
{
    hipdnnBackendDescriptor_t graph = NULL;
    return hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, json, json_size);
}

/* Values that are small in the text and large in memory. */
static hipdnnStatus_t read_values(const char* value)
{
    const size_t length = strlen(value);
    const size_t size = MANY - MANY % length;
    hipdnnBackendDescriptor_t graph = NULL;
    for (size_t i = 0; i < size; i++) {
        text[i] = value[i % length];
    }
    text[0] = '[';
    text[size] = ']';
    return hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, text, size + 1);
}

static hipdnnStatus_t read_numbers(void) { return read_values(",0"); }

static hipdnnStatus_t read_objects(void) { return read_values(",{\"\":[]}"); }

static hipdnnBackendDescriptor_t open_large_graph(void)
{
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    put_descriptor(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    put_float_type(graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT);
    return graph;
}

static hipdnnStatus_t finalize_graph(void) { return hipdnnBackendFinalize(open_large_graph()); }

static hipdnnStatus_t write_bytes(void)
{
    size_t size = 0;
    return hipdnnBackendGetSerializedBinaryGraph_ext(open_large_graph(), 0, &size, NULL);
}

static hipdnnStatus_t write_json(void)
{
    size_t size = 0;
    return hipdnnBackendGetSerializedJsonGraph_ext(open_large_graph(), 0, &size, NULL);
}

/* Packed bytes are unpacked when they are to be changed. */
static hipdnnStatus_t change_bytes(void)
{
    hipdnnBackendDescriptor_t graph = NULL;
    const hipdnnDataType_t type = HIPDNN_DATA_FLOAT;
    const hipdnnStatus_t status = hipdnnBackendCreateAndDeserializeGraph_ext(&graph, bytes, byte_size);
    return status != HIPDNN_STATUS_SUCCESS
               ? status
               : hipdnnBackendSetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT, HIPDNN_TYPE_DATA_TYPE, 1,
                                           &type);
}

/* The sum over all of a · b, a column and a row: the virtual tensor has count² elements. */
static hipdnnBackendDescriptor_t make_product(int64_t count)
{
    const long long n = count;
    static char product[2048];
    hipdnnBackendDescriptor_t graph = NULL;
    const int length = snprintf(
        product, sizeof product,
        "{\"io_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"compute_data_type\": \"float\",\n"
        " \"nodes\": [{\"type\": \"MatmulAttributes\", \"inputs\": {\"a_tensor_uid\": 1, \"b_tensor_uid\": 2},\n"
        "   \"outputs\": {\"c_tensor_uid\": 3}},\n"
        "  {\"type\": \"ReductionAttributes\", \"inputs\": {\"mode\": \"add\", \"in_tensor_uid\": 3},\n"
        "   \"outputs\": {\"out_tensor_uid\": 4}}],\n"
        " \"tensors\": [{\"uid\": 1, \"dims\": [1, %lld, 1], \"strides\": [%lld, 1, 1]},\n"
        "  {\"uid\": 2, \"dims\": [1, 1, %lld], \"strides\": [%lld, %lld, 1]},\n"
        "  {\"uid\": 3, \"dims\": [1, %lld, %lld], \"strides\": [%lld, %lld, 1], \"virtual\": true},\n"
        "  {\"uid\": 4, \"dims\": [1, 1, 1], \"strides\": [1, 1, 1]}]}\n",
        n, n, n, n, n, n, n, n * n, n);
    REQUIRE(length > 0 && length < (int)sizeof product);
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, product, (size_t)length));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    return graph;
}

/* The engine takes the workspace that the caller does not give. */
static hipdnnStatus_t execute_without_workspace(void)
{
    return hipdnnBackendExecute(handle, product_plan, product_pack);
}

typedef struct {
    const char* name;
    hipdnnStatus_t (*call)(void);
    hipdnnStatus_t with_memory; /* the result with enough memory */
} row;

static const row ROWS[] = {
    {"dims", set_dims, HIPDNN_STATUS_SUCCESS},
    {"name", set_name, HIPDNN_STATUS_SUCCESS},
    {"uids", set_uids, HIPDNN_STATUS_SUCCESS},
    {"pointers", set_pointers, HIPDNN_STATUS_SUCCESS},
    {"overrides", set_overrides, HIPDNN_STATUS_BAD_PARAM},
    {"graph bytes", read_bytes, HIPDNN_STATUS_SUCCESS},
    {"plan bytes", read_plan, HIPDNN_STATUS_BAD_PARAM},
    {"JSON", read_json, HIPDNN_STATUS_SUCCESS},
    {"JSON of numbers", read_numbers, HIPDNN_STATUS_BAD_PARAM},
    {"JSON of objects", read_objects, HIPDNN_STATUS_BAD_PARAM},
    {"finalizing a graph", finalize_graph, HIPDNN_STATUS_SUCCESS},
    {"bytes of a graph", write_bytes, HIPDNN_STATUS_SUCCESS},
    {"JSON of a graph", write_json, HIPDNN_STATUS_SUCCESS},
    {"changing bytes", change_bytes, HIPDNN_STATUS_SUCCESS},
    {"a workspace that the engine takes", execute_without_workspace, HIPDNN_STATUS_SUCCESS},
};

/* The address space of this process in bytes. */
static rlim_t used(void)
{
    unsigned long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

enum { ENOUGH, TOO_LITTLE, OTHER, WITHOUT_WORDS };

/* The result of a call with so much additional address space. */
static int run(const row* it, rlim_t more)
{
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        char words[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
        const rlim_t most = used() + more;
        const struct rlimit limit = {most, most};
        if (setrlimit(RLIMIT_AS, &limit) != 0) {
            _exit(99);
        }
        const hipdnnStatus_t status = it->call();
        hipdnnGetLastErrorString(words, sizeof words);
        /* The text has the plugin's status. */
        if (status == HIPDNN_STATUS_ALLOC_FAILED ||
            (status == HIPDNN_STATUS_PLUGIN_ERROR && strstr(words, "HIPDNN_PLUGIN_STATUS_ALLOC_FAILED") != NULL)) {
            _exit(strstr(words, "there is no memory for ") != NULL ? TOO_LITTLE : WITHOUT_WORDS);
        }
        _exit(status == it->with_memory ? ENOUGH : OTHER);
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static void make_product_plan(void)
{
    enum { SIDE_OF_PRODUCT = 4096 };
    static _Alignas(64) float a[SIDE_OF_PRODUCT], b[SIDE_OF_PRODUCT], sum;
    const int64_t uids[] = {1, 2, 4};
    void* const pointers[] = {a, b, &sum};
    hipdnnBackendDescriptor_t graph = make_product(SIDE_OF_PRODUCT);
    product_plan = make_plan(graph);
    product_pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(product_pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(product_pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    REQUIRE_OK(hipdnnBackendFinalize(product_pack));
    CHECK(plan_workspace(product_plan) >= (int64_t)sizeof(float) * SIDE_OF_PRODUCT * SIDE_OF_PRODUCT);
    drop(graph);
}

/* Workspaces that no machine has are a size, up to what an address can say; from there on no engine takes the graph. */
static void check_huge_workspaces(void)
{
    for (int64_t count = 1000; count <= 3000000000; count = count * 17 / 4) {
        check_about("a product of %lld by %lld", (long long)count, (long long)count);
        hipdnnBackendDescriptor_t graph = make_product(count);
        hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
        REQUIRE_OK(hipdnnBackendFinalize(heuristic));
        const bool fits = count < INT64_MAX / (int64_t)sizeof(float) / count;
        CHECK_EQ(count_results(heuristic) > 0, fits);
        if (fits) {
            hipdnnBackendDescriptor_t plan = make_plan(graph);
            CHECK(plan_workspace(plan) >= count * count * (int64_t)sizeof(float));
            drop(plan);
        }
        drop(heuristic);
        drop(graph);
    }
}

static void make_inputs(void)
{
    numbers = malloc(MANY * sizeof *numbers);
    text = malloc(4 * MANY);
    REQUIRE(numbers != NULL && text != NULL);
    for (int i = 0; i < MANY; i++) {
        numbers[i] = 1;
    }
    memset(text, 'x', 4 * MANY);
    handle = make_handle();
    const int64_t one = 1;
    hipdnnBackendDescriptor_t large = open_tensor(7, 1, &one, false);
    put(large, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, MANY / 4, numbers);
    put(large, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, MANY / 4, numbers);
    REQUIRE_OK(hipdnnBackendFinalize(large));
    operation = open_single_convolution();
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, large);
    REQUIRE_OK(hipdnnBackendFinalize(operation));
    hipdnnBackendDescriptor_t graph = open_large_graph();
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, &byte_size, NULL));
    bytes = malloc(byte_size);
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, byte_size, &byte_size, bytes));
    REQUIRE_OK(hipdnnBackendGetSerializedJsonGraph_ext(graph, 0, &json_size, NULL));
    json = malloc(json_size);
    REQUIRE_OK(hipdnnBackendGetSerializedJsonGraph_ext(graph, json_size, &json_size, json));
    drop(graph);
    drop(large);
}

int main(void)
{
    /* Return large blocks to the system when freed, so that none are left from before. */
    mallopt(M_MMAP_THRESHOLD, MIB / 8);
    /* Children have the thread alone that forked them. */
    setenv("HIPDNN_CPU_THREADS", "1", 1);
    make_inputs();
    make_product_plan();
    check_huge_workspaces();
    for (int64_t i = 0; i < COUNT(ROWS); i++) {
        check_about("%s", ROWS[i].name);
        CHECK_EQ(run(&ROWS[i], 2 * MIB), TOO_LITTLE);
        /* Increase the limit until it succeeds. */
        int last = TOO_LITTLE;
        for (rlim_t more = 4 * MIB; more < (rlim_t)4096 * MIB && last == TOO_LITTLE; more += more / 4) {
            last = run(&ROWS[i], more);
        }
        CHECK_EQ(last, ENOUGH);
    }
    return check_result();
}
