/* SPDX-License-Identifier: MIT */

/*
 * Runs relu(convolution(x, w) + bias) as one graph and checks every value against plain loops.
 *
 * The two tensors between the operations are virtual: they have a shape, but no memory, so that
 * an engine can fuse the three operations into one pass.
 *
 * Usage: conv_bias_relu [ENGINE]
 * Exit status: 0 when every value agrees.
 */
#include "hipdnn_helpers.h"

#include <math.h>

enum { BATCH = 2, IN = 3, OUT = 4, SIDE = 9, FILTER = 3, PADDING = 1 };
enum { X, W, BIAS, Y, TENSORS };

/* A repeatable mix of positive and negative values. */
static void fill(float* values, int count, int seed)
{
    for (int i = 0; i < count; i++) {
        values[i] = (float)((i * 37 + seed * 11) % 41 - 20) / 16.0f;
    }
}

static hd_plan build_plan(hipdnnHandle_t handle, const char* engine)
{
    hd_graph g = hd_graph_begin(handle, "convolution, bias, relu");
    hipdnnBackendDescriptor_t x = hd_tensor(&g, X, BATCH, IN, SIDE, SIDE);
    hipdnnBackendDescriptor_t w = hd_tensor(&g, W, OUT, IN, FILTER, FILTER);
    hipdnnBackendDescriptor_t bias = hd_tensor(&g, BIAS, 1, OUT, 1, 1);
    hipdnnBackendDescriptor_t product = hd_virtual(&g, BATCH, OUT, SIDE, SIDE);
    hipdnnBackendDescriptor_t biased = hd_virtual(&g, BATCH, OUT, SIDE, SIDE);
    hipdnnBackendDescriptor_t y = hd_tensor(&g, Y, BATCH, OUT, SIDE, SIDE);
    hd_conv_forward(&g, x, w, product, PADDING, 1);
    hd_pointwise(&g, HIPDNN_POINTWISE_ADD, product, bias, biased);
    hd_pointwise(&g, HIPDNN_POINTWISE_RELU_FWD, biased, NULL, y);
    return hd_graph_build(&g, engine);
}

/* One value of the result, by plain loops. */
static double expected(const float* x, const float* w, const float* bias, int n, int k, int row, int column)
{
    double sum = bias[k];
    for (int c = 0; c < IN; c++) {
        for (int r = 0; r < FILTER; r++) {
            for (int s = 0; s < FILTER; s++) {
                const int y_in = row + r - PADDING;
                const int x_in = column + s - PADDING;
                if (y_in >= 0 && y_in < SIDE && x_in >= 0 && x_in < SIDE) {
                    sum += (double)x[((n * IN + c) * SIDE + y_in) * SIDE + x_in] *
                           w[((k * IN + c) * FILTER + r) * FILTER + s];
                }
            }
        }
    }
    return sum > 0.0 ? sum : 0.0;
}

int main(int argument_count, char** arguments)
{
    const char* engine = argument_count > 1 ? arguments[1] : "CPU";
    float* memory[TENSORS] = {
        hd_floats(BATCH * IN * SIDE * SIDE),
        hd_floats(OUT * IN * FILTER * FILTER),
        hd_floats(OUT),
        hd_floats(BATCH * OUT * SIDE * SIDE),
    };
    fill(memory[X], BATCH * IN * SIDE * SIDE, 1);
    fill(memory[W], OUT * IN * FILTER * FILTER, 2);
    fill(memory[BIAS], OUT, 3);
    fill(memory[Y], BATCH * OUT * SIDE * SIDE, 4); /* must be overwritten */

    hipdnnHandle_t handle = NULL;
    HD_CHECK(hipdnnCreate(&handle));
    hd_plan plan = build_plan(handle, engine);
    hd_execute(&plan, memory);

    int compared = 0;
    int positive = 0;
    double largest_error = 0.0;
    for (int n = 0; n < BATCH; n++) {
        for (int k = 0; k < OUT; k++) {
            for (int row = 0; row < SIDE; row++) {
                for (int column = 0; column < SIDE; column++) {
                    const double want = expected(memory[X], memory[W], memory[BIAS], n, k, row, column);
                    const double got = memory[Y][((n * OUT + k) * SIDE + row) * SIDE + column];
                    const double error = fabs(got - want);
                    if (!(error <= largest_error)) { /* also when got is not a number */
                        largest_error = error;
                    }
                    positive += want > 0.0;
                    compared++;
                }
            }
        }
    }
    /* 27 products of magnitude up to 1.6 in float: rounding stays far below 1e-4. */
    const bool good = largest_error <= 1e-4;
    printf("Engine         %s, workspace %" PRId64 " bytes\n", plan.engine, plan.workspace_size);
    printf("Compared       %d values, %d of them above zero\n", compared, positive);
    printf("Largest error  %.2g%s\n", largest_error, good ? "" : ", more than 1e-4");

    hd_plan_destroy(&plan);
    HD_CHECK(hipdnnDestroy(handle));
    for (int uid = 0; uid < TENSORS; uid++) {
        free(memory[uid]);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
