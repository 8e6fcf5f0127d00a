/* SPDX-License-Identifier: MIT */

/*
 * Saves an execution plan to a file, destroys everything, and loads the plan again without the graph: for programs that
 * want to plan once and not at every start.
 *
 * relu(convolution(x, w)) is executed with the original and with the loaded plan; both must give the same values, which are checked
 * against plain loops. Then one bit of the file is flipped, and loading the plan must fail.
 *
 * Usage: save_plan [ENGINE]
 * Exit status: 0 when every value agrees and the damaged plan is refused.
 */
#include "hipdnn_helpers.h"

#include <math.h>

enum { IN = 3, OUT = 4, SIDE = 8, FILTER = 3, PADDING = 1 };
enum { X, W, Y, TENSORS };
enum { X_COUNT = IN * SIDE * SIDE, W_COUNT = OUT * IN * FILTER * FILTER, Y_COUNT = OUT * SIDE * SIDE };

static hd_plan build_plan(hipdnnHandle_t handle, const char* engine)
{
    hd_graph g = hd_graph_begin(handle, "convolution, relu");
    hipdnnBackendDescriptor_t x = hd_tensor(&g, X, 1, IN, SIDE, SIDE);
    hipdnnBackendDescriptor_t w = hd_tensor(&g, W, OUT, IN, FILTER, FILTER);
    hipdnnBackendDescriptor_t product = hd_virtual(&g, 1, OUT, SIDE, SIDE);
    hipdnnBackendDescriptor_t y = hd_tensor(&g, Y, 1, OUT, SIDE, SIDE);
    hd_conv_forward(&g, x, w, product, PADDING, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_RELU_FWD, product, NULL, y);
    return hd_graph_build(&g, engine);
}

/* Writes a plan to a file: queries the size, then the bytes. */
static void save(hipdnnBackendDescriptor_t plan, FILE* file)
{
    size_t size = 0;
    HD_CHECK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &size, NULL));
    uint8_t* bytes = malloc(size);
    if (bytes == NULL) {
        hd_fail("out of memory");
    }
    HD_CHECK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, size, &size, bytes));
    if (fwrite(bytes, 1, size, file) != size || fflush(file) != 0) {
        hd_fail("the plan cannot be written");
    }
    free(bytes);
}

/* All bytes of a file. The caller frees them. */
static uint8_t* read_all(FILE* file, size_t* size)
{
    if (fseek(file, 0, SEEK_END) != 0 || ftell(file) <= 0) {
        hd_fail("the plan cannot be read");
    }
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t* bytes = malloc(*size);
    if (bytes == NULL || fread(bytes, 1, *size, file) != *size) {
        hd_fail("the plan cannot be read");
    }
    return bytes;
}

/* The loaded plan with its own workspace, ready for hd_execute. It needs no graph, only the uids of its tensors. */
static hd_plan load(hipdnnHandle_t handle, const uint8_t* bytes, size_t size)
{
    hd_plan plan = {.handle = handle, .bound = {X, W, Y}, .bound_count = TENSORS};
    HD_CHECK(hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &plan.descriptor, bytes, size));
    HD_CHECK(hipdnnBackendGetAttribute(plan.descriptor, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1,
                                       NULL, &plan.workspace_size));
    if (plan.workspace_size > 0) {
        plan.workspace = hd_floats(((size_t)plan.workspace_size + sizeof(float) - 1) / sizeof(float));
    }
    int64_t engine = 0;
    size_t length = sizeof plan.engine;
    HD_CHECK(hipdnnBackendGetAttribute(plan.descriptor, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT,
                                       HIPDNN_TYPE_INT64, 1, NULL, &engine));
    HD_CHECK(hipdnnGetEngineNameById_ext(handle, engine, plan.engine, &length));
    return plan;
}

/* One value of the result, by plain loops. */
static double expected(const float* x, const float* w, int k, int row, int column)
{
    double sum = 0.0;
    for (int c = 0; c < IN; c++) {
        for (int r = 0; r < FILTER; r++) {
            for (int s = 0; s < FILTER; s++) {
                const int i = row + r - PADDING;
                const int j = column + s - PADDING;
                if (i >= 0 && i < SIDE && j >= 0 && j < SIDE) {
                    sum += (double)x[(c * SIDE + i) * SIDE + j] * w[((k * IN + c) * FILTER + r) * FILTER + s];
                }
            }
        }
    }
    return sum > 0.0 ? sum : 0.0;
}

int main(int argument_count, char** arguments)
{
    float* memory[TENSORS] = {hd_floats(X_COUNT), hd_floats(W_COUNT), hd_floats(Y_COUNT)};
    float* first = hd_floats(Y_COUNT);
    for (int i = 0; i < X_COUNT; i++) {
        memory[X][i] = (float)(i * 37 % 41 - 20) / 16.0f;
    }
    for (int i = 0; i < W_COUNT; i++) {
        memory[W][i] = (float)(i * 29 % 31 - 15) / 16.0f;
    }
    FILE* file = tmpfile();
    if (file == NULL) {
        hd_fail("no temporary file can be made");
    }

    /* The first start: plan, save, execute. */
    hipdnnHandle_t handle = NULL;
    HD_CHECK(hipdnnCreate(&handle));
    hd_plan plan = build_plan(handle, argument_count > 1 ? arguments[1] : "CPU");
    save(plan.descriptor, file);
    hd_execute(&plan, memory);
    memcpy(first, memory[Y], Y_COUNT * sizeof(float));
    hd_plan_destroy(&plan);
    HD_CHECK(hipdnnDestroy(handle));

    /* Every later start: load and execute. */
    memset(memory[Y], 0, Y_COUNT * sizeof(float));
    HD_CHECK(hipdnnCreate(&handle));
    size_t size = 0;
    uint8_t* bytes = read_all(file, &size);
    plan = load(handle, bytes, size);
    hd_execute(&plan, memory);

    int same = 0;
    double largest_error = 0.0;
    for (int i = 0; i < Y_COUNT; i++) {
        const double want = expected(memory[X], memory[W], i / (SIDE * SIDE), i / SIDE % SIDE, i % SIDE);
        const double error = fabs(memory[Y][i] - want);
        if (!(error <= largest_error)) { /* also when a value is not a number */
            largest_error = error;
        }
        same += memory[Y][i] == first[i];
    }
    printf("Engine         %s, plan of %zu bytes\n", plan.engine, size);
    printf("Compared       %d values, %d of them the same with the loaded plan\n", Y_COUNT, same);
    printf("Largest error  %.2g\n", largest_error);

    /* A damaged file */
    char reason[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
    hipdnnBackendDescriptor_t damaged = NULL;
    bytes[size / 2] ^= 0x04;
    const bool refused =
        hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &damaged, bytes, size) != HIPDNN_STATUS_SUCCESS;
    hipdnnGetLastErrorString(reason, sizeof reason);
    printf("One bit off    %s\n", refused ? reason : "was not noticed");

    const bool good = same == Y_COUNT && largest_error <= 1e-5 && refused;
    printf("%s\n", good ? "The loaded plan is the plan that was saved." : "Something is wrong.");
    hd_plan_destroy(&plan);
    HD_CHECK(hipdnnDestroy(handle));
    free(bytes);
    fclose(file);
    free(first);
    for (int uid = 0; uid < TENSORS; uid++) {
        free(memory[uid]);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
