/* SPDX-License-Identifier: MIT */

/*
 * Random operations on random shapes, strides and types, many of them nonsense, through every engine that accepts them. Each
 * tensor is next to a guard page, and inputs are read only, so any invalid access ends the program, which then prints the graph.
 */
#define _DEFAULT_SOURCE

#include "../fixture.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GRAPHS = 4000, MOST_TENSORS = 14, MOST_RANK = 5, PAGE = 4096 };

typedef struct {
    int attribute;
    bool output;
    bool channel; /* one value a channel, or one alone */
} role;

typedef struct {
    hipdnnBackendDescriptorType_t type;
    int compute_type;
    const char* name;
    role roles[MOST_TENSORS]; /* ends with attribute 0 */
} operation;

static const operation TRIED[] = {
    {HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
     "conv forward",
     {{HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, false, false},
      {HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, false, false},
      {HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, true, false},
      {0, false, false}}},
    {HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
     "conv backward data",
     {{HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, true, false},
      {HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, false, false},
      {HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, false, false},
      {0, false, false}}},
    {HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
     "conv backward filter",
     {{HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, false, false},
      {HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, true, false},
      {HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, false, false},
      {0, false, false}}},
    {HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     HIPDNN_ATTR_POINTWISE_MATH_PREC,
     "pointwise",
     {{HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_POINTWISE_IN_2_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, true, false},
      {0, false, false}}},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT,
     HIPDNN_ATTR_BATCHNORM_INF_COMP_TYPE_EXT,
     "batchnorm inference",
     {{HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_X_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_MEAN_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_INV_VARIANCE_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_SCALE_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_BIAS_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_Y_EXT, true, false},
      {0, false, false}}},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT,
     HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT,
     "batchnorm inference, variance",
     {{HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT, true, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT, false, true},
      {0, false, false}}},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT,
     HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT,
     "batchnorm training",
     {{HIPDNN_ATTR_OPERATION_BATCHNORM_X_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT, true, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT, true, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_INV_VARIANCE_EXT, true, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT, true, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT, true, true},
      {0, false, false}}},
    {HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT,
     HIPDNN_ATTR_BATCHNORM_BACKWARD_COMP_TYPE_EXT,
     "batchnorm backward",
     {{HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DY_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_X_EXT, false, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_SCALE_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DX_EXT, true, false},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DSCALE_EXT, true, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DBIAS_EXT, true, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_MEAN_EXT, false, true},
      {HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT, false, true},
      {0, false, false}}},
};

/* A tensor's memory: pages between two guard pages */
typedef struct {
    unsigned char* pages;
    size_t size;
    unsigned char* start;
} guarded;

static uint64_t state = UINT64_C(0x853c49e6748fea9b);

static int pick(int count)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (int)((state * UINT64_C(0x2545f4914f6cdd1d) >> 32) % (uint64_t)count);
}

static char crash_text[512];

static void crashed(int signal_number)
{
    (void)signal_number;
    ssize_t ignored = write(STDERR_FILENO, crash_text, strlen(crash_text));
    (void)ignored;
    _exit(EXIT_FAILURE);
}

/* Memory whose last or first byte is adjacent to a guard page. */
static guarded guard(size_t bytes, bool at_end)
{
    guarded memory;
    memory.size = (bytes + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
    memory.pages = mmap(NULL, memory.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory.pages != MAP_FAILED);
    REQUIRE(mprotect(memory.pages + PAGE, memory.size - 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
    memory.start = at_end ? memory.pages + memory.size - PAGE - bytes : memory.pages + PAGE;
    return memory;
}

static void make_read_only(const guarded* memory)
{
    REQUIRE(mprotect(memory->pages + PAGE, memory->size - 2 * PAGE, PROT_READ) == 0);
}

static void release(const guarded* memory) { REQUIRE(munmap(memory->pages, memory->size) == 0); }

/* Shapes that could fit together: x [n, c, ...], w [k, c, ...], y as a convolution gives it */
typedef struct {
    int rank;
    int64_t x[MOST_RANK], w[MOST_RANK], y[MOST_RANK];
    int64_t padding[3], stride[3], dilation[3];
} shapes;

static shapes pick_shapes(void)
{
    shapes s;
    memset(&s, 0, sizeof s);
    s.rank = 3 + pick(3);
    s.x[0] = 1 + pick(3);
    s.x[1] = 1 + pick(4);
    s.w[0] = 1 + pick(4);
    s.w[1] = s.x[1];
    if (pick(3) == 0) { /* groups */
        s.w[1] = 1;
        s.w[0] = s.x[1] * (1 + pick(2));
    }
    s.y[0] = s.x[0];
    s.y[1] = s.w[0];
    for (int i = 0; i < s.rank - 2; i++) {
        s.x[2 + i] = 1 + pick(6);
        s.w[2 + i] = 1 + pick(3);
        s.padding[i] = pick(3);
        s.stride[i] = 1 + pick(2);
        s.dilation[i] = 1 + pick(2);
        const int64_t reach = s.dilation[i] * (s.w[2 + i] - 1) + 1;
        s.y[2 + i] = (s.x[2 + i] + 2 * s.padding[i] - reach) / s.stride[i] + 1;
    }
    return s;
}

static int64_t odd_number(void)
{
    static const int64_t numbers[] = {0, -1, 1, 2, 7, INT64_MAX, INT64_MIN, (int64_t)1 << 40};
    return numbers[pick((int)COUNT(numbers))];
}

static const struct {
    hipdnnDataType_t type;
    size_t size;
} TYPES[] = {
    {HIPDNN_DATA_FLOAT, 4}, {HIPDNN_DATA_FLOAT, 4},    {HIPDNN_DATA_DOUBLE, 8}, {HIPDNN_DATA_HALF, 2},
    {HIPDNN_DATA_FLOAT, 4}, {HIPDNN_DATA_BFLOAT16, 2}, {HIPDNN_DATA_INT32, 4},  {HIPDNN_DATA_BOOLEAN, 1},
    {HIPDNN_DATA_INT8, 1},  {HIPDNN_DATA_INT64, 8},    {HIPDNN_DATA_UINT8, 1},
};

/* A tensor of approximately this shape, and memory for exactly the elements that its strides reach. False if the shape is too
 * odd to compute that; it then has no memory and is not executed. */
static bool make_random_tensor(int64_t uid, int rank, const int64_t* like, bool same_type, guarded* memory,
                               hipdnnBackendDescriptor_t* tensor)
{
    int64_t dims[MOST_RANK];
    int64_t strides[MOST_RANK];
    int order[MOST_RANK];
    memcpy(dims, like, sizeof dims);
    for (int i = 0; i < rank; i++) {
        order[i] = i;
    }
    for (int i = rank - 1; i > 0 && pick(2) == 0; i--) {
        const int j = pick(i + 1);
        const int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[order[i]] = stride;
        stride *= dims[order[i]] > 0 ? dims[order[i]] : 1;
        stride += pick(6) == 0 ? pick(5) : 0;
    }
    if (pick(12) == 0) {
        strides[pick(rank)] = odd_number();
    }
    if (pick(25) == 0) {
        dims[pick(rank)] = odd_number();
    }
    int64_t reach = 1;
    bool sane = true;
    for (int i = 0; i < rank; i++) {
        sane = sane && dims[i] >= 0 && dims[i] < 64 && strides[i] >= 0 && strides[i] < 100000;
        if (sane) {
            reach += (dims[i] > 0 ? dims[i] - 1 : 0) * strides[i];
        }
    }
    const int type = same_type && pick(8) != 0 ? 0 : pick((int)(sizeof TYPES / sizeof TYPES[0]));
    const int64_t alignment = (int64_t)TYPES[type].size;
    *tensor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    put(*tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid);
    put(*tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, &TYPES[type].type);
    put(*tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, rank, dims);
    put(*tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, rank, strides);
    put(*tensor, HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, HIPDNN_TYPE_INT64, 1, &alignment);
    *memory = guard(sane ? (size_t)reach * TYPES[type].size : 1, pick(2) == 0);
    return sane && hipdnnBackendFinalize(*tensor) == HIPDNN_STATUS_SUCCESS;
}

static void put_convolution_parameters(hipdnnBackendDescriptor_t descriptor, const shapes* s)
{
    const int count = pick(40) == 0 ? 1 + pick(3) : s->rank - 2;
    const hipdnnConvolutionMode_t mode = pick(2) == 0 ? HIPDNN_CROSS_CORRELATION : HIPDNN_CONVOLUTION;
    int64_t padding[3], stride[3], dilation[3];
    memcpy(padding, s->padding, sizeof padding);
    memcpy(stride, s->stride, sizeof stride);
    memcpy(dilation, s->dilation, sizeof dilation);
    if (pick(10) == 0) {
        int64_t* const vectors[] = {padding, stride, dilation};
        vectors[pick(3)][pick(3)] = odd_number();
    }
    put(descriptor, HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, HIPDNN_TYPE_INT64, count, padding);
    put(descriptor, HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, HIPDNN_TYPE_INT64, count, padding);
    put(descriptor, HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, HIPDNN_TYPE_INT64, count, stride);
    put(descriptor, HIPDNN_ATTR_CONVOLUTION_DILATIONS, HIPDNN_TYPE_INT64, count, dilation);
    put(descriptor, HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
}

static int executions;
static int accepted;

static void run_engines(hipdnnHandle_t handle, hipdnnBackendDescriptor_t graph, int tensors, const guarded* memory)
{
    enum { MOST_ENGINES = 4 };
    hipdnnBackendDescriptor_t configs[MOST_ENGINES];
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    CHECK_OK(hipdnnBackendFinalize(heuristic));
    int64_t count = count_results(heuristic);
    REQUIRE(count <= MOST_ENGINES);
    accepted += count > 0;
    for (int64_t i = 0; i < count; i++) {
        configs[i] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (count > 0) {
        CHECK_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                           count, &count, configs));
    }
    for (int64_t i = 0; i < count; i++) {
        hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        CHECK_OK(hipdnnBackendFinalize(configs[i]));
        put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        CHECK_OK(hipdnnBackendFinalize(plan));
        if (tensors > 0) {
            int64_t uids[MOST_TENSORS];
            void* pointers[MOST_TENSORS];
            for (int t = 0; t < tensors; t++) {
                uids[t] = t + 1;
                pointers[t] = memory[t].start;
            }
            const guarded workspace = guard((size_t)plan_workspace(plan), pick(2) == 0);
            void* const workspace_start = workspace.start;
            hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
            put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, tensors, uids);
            put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, tensors, pointers);
            put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace_start);
            REQUIRE_OK(hipdnnBackendFinalize(pack));
            CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
            executions++;
            drop(pack);
            release(&workspace);
        }
        drop(plan);
        drop(configs[i]);
    }
    drop(heuristic);
}

static void random_graph(hipdnnHandle_t handle)
{
    const operation* op = &TRIED[pick((int)COUNT(TRIED))];
    const shapes s = pick_shapes();
    hipdnnBackendDescriptor_t tensors[MOST_TENSORS];
    guarded memory[MOST_TENSORS];
    int count = 0;
    bool sane = true;
    const bool same_type = pick(4) != 0;
    const bool is_convolution = op->compute_type == HIPDNN_ATTR_CONVOLUTION_COMP_TYPE;
    const int operands = op->compute_type == HIPDNN_ATTR_POINTWISE_MATH_PREC ? 1 + pick(3) : 3;
    hipdnnBackendDescriptor_t descriptor = make(op->type);
    for (int i = 0; op->roles[i].attribute != 0; i++) {
        const role* r = &op->roles[i];
        int64_t dims[MOST_RANK];
        const bool is_operand = op->compute_type == HIPDNN_ATTR_POINTWISE_MATH_PREC && !r->output;
        if (is_operand && i >= operands) {
            continue;
        }
        memcpy(dims, s.x, sizeof dims);
        if (is_convolution && i > 0) {
            memcpy(dims, i == 1 ? s.w : s.y, sizeof dims);
        }
        for (int d = 0; d < s.rank; d++) {
            if (r->channel ? d != 1 : is_operand && pick(6) == 0) {
                dims[d] = 1;
            }
        }
        /* Epsilon and momentum are one number. */
        if (r->attribute == HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT ||
            r->attribute == HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT ||
            r->attribute == HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT) {
            dims[1] = 1;
        }
        sane = make_random_tensor(count + 1, s.rank, dims, same_type, &memory[count], &tensors[count]) && sane;
        if (sane) {
            put_descriptor(descriptor, (hipdnnBackendAttributeName_t)r->attribute, tensors[count]);
            if (!r->output) {
                make_read_only(&memory[count]);
            }
        }
        count++;
    }
    const hipdnnDataType_t compute = pick(4) == 0 ? HIPDNN_DATA_DOUBLE : HIPDNN_DATA_FLOAT;
    put(descriptor, (hipdnnBackendAttributeName_t)op->compute_type, HIPDNN_TYPE_DATA_TYPE, 1, &compute);
    if (is_convolution) {
        put_convolution_parameters(descriptor, &s);
    } else if (op->compute_type == HIPDNN_ATTR_POINTWISE_MATH_PREC) {
        const int mode = 1 + pick(47);
        const int64_t axis = pick(4);
        put(descriptor, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &mode);
        put(descriptor, HIPDNN_ATTR_POINTWISE_AXIS, HIPDNN_TYPE_INT64, 1, &axis);
    }
    if (hipdnnBackendFinalize(descriptor) == HIPDNN_STATUS_SUCCESS) {
        hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        put(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
        put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
        REQUIRE_OK(hipdnnBackendFinalize(graph));
        run_engines(handle, graph, sane ? count : 0, memory);
        drop(graph);
    } else {
        CHECK_LAST_ERROR("HIPDNN_ATTR_");
    }
    drop(descriptor);
    for (int i = 0; i < count; i++) {
        drop(tensors[i]);
        release(&memory[i]);
    }
}

int main(void)
{
    REQUIRE(signal(SIGSEGV, crashed) != SIG_ERR && signal(SIGBUS, crashed) != SIG_ERR);
    hipdnnHandle_t handle = make_handle();
    for (int i = 0; i < GRAPHS; i++) {
        snprintf(crash_text, sizeof crash_text, "memory outside of a tensor was touched by graph %d\n", i);
        check_about("graph %d", i);
        random_graph(handle);
    }
    check_about("%s", "");
    CHECK_OK(hipdnnDestroy(handle));
    printf("%d of %d graphs accepted, %d executions\n", accepted, GRAPHS, executions);
    CHECK(executions > GRAPHS / 2);
    return check_result();
}
