/* SPDX-License-Identifier: MIT */

/*
 * Trains a convolutional network on handwritten digits using only the hipDNN C API.
 *
 * Every tensor operation, forward and backward and the update of the weights, is in an operation graph that an engine of
 * hipDNN runs: digits_network.h builds them. The C code here reads the file, shuffles, counts correct answers and draws
 * the progress bar.
 *
 * Usage: train_digits [--device] [--steps N] [DIGITS.CSV [ENGINE]]
 *   --device   tensors are in the memory of an AMD or NVIDIA GPU, and each graph goes to the library's first choice of engines
 *   --steps N  trains only this many steps, and prints the loss of each
 * Exit status: 0 when at least 97 % of the held-out digits are recognised, or, with --steps, when each loss is a number.
 */
#define _POSIX_C_SOURCE 200809L

#include "digits_network.h"
#include "gpu_memory.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

enum {
    TRAIN = DIGITS - TEST,
    STEPS = TRAIN / BATCH, /* in an epoch; the remainder changes with every shuffle */
    EPOCHS = 16,
};

static const float LEARNING_RATE = 0.05f;
static const double REQUIRED_ACCURACY = 0.97;

/* Memory */

/* Points each weight at its part of the array of all weights. */
static void place_weights(float* memory[TENSORS])
{
    for (int i = 0; i < WEIGHT_KINDS; i++) {
        memory[WEIGHT_TABLE[i].uid] = memory[WEIGHTS] + WEIGHT_TABLE[i].start;
        memory[WEIGHT_TABLE[i].gradient_uid] = memory[GRADIENTS] + WEIGHT_TABLE[i].start;
    }
}

static void exchange(float* memory[TENSORS], int a, int b)
{
    float* kept = memory[a];
    memory[a] = memory[b];
    memory[b] = kept;
}

static void fill(float* values, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = value;
    }
}

/* Uniform values whose variance preserves the scale of activations through a relu (He). */
static void fill_random(float* values, size_t count, size_t inputs)
{
    const float limit = sqrtf(6.0f / (float)inputs);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_float(limit);
    }
}

static void allocate(float* memory[TENSORS])
{
    const struct {
        int uid;
        size_t count;
    } sizes[] = {
        {IMAGES, BATCH * PIXELS},
        {LABELS, BATCH * CLASSES},
        {LOSS, BATCH},
        {LOGITS, BATCH * CLASSES},
        {DLOGITS, BATCH * CLASSES},
        {CONV1, BATCH * C1 * PIXELS},
        {MEAN1, C1},
        {INV_STD1, C1},
        {OUT1, BATCH * C1 * PIXELS},
        {RUNNING_MEAN1, C1},
        {RUNNING_VAR1, C1},
        {NEXT_MEAN1, C1},
        {NEXT_VAR1, C1},
        {DOUT1, BATCH * C1 * PIXELS},
        {CONV2, BATCH * C2 * HALF * HALF},
        {MEAN2, C2},
        {INV_STD2, C2},
        {OUT2, BATCH * C2 * HALF * HALF},
        {RUNNING_MEAN2, C2},
        {RUNNING_VAR2, C2},
        {NEXT_MEAN2, C2},
        {NEXT_VAR2, C2},
        {DOUT2, BATCH * C2 * HALF * HALF},
        {WEIGHTS, WEIGHT_COUNT},
        {NEXT_WEIGHTS, WEIGHT_COUNT},
        {GRADIENTS, WEIGHT_COUNT},
        {VELOCITY, WEIGHT_COUNT},
        {NEXT_VELOCITY, WEIGHT_COUNT},
        {RATE, 1},
        {ONE_PER_IMAGE, BATCH},
        {TEST_IMAGES, TEST * PIXELS},
        {TEST_LOGITS, TEST * CLASSES},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memory[sizes[i].uid] = hd_floats(sizes[i].count);
    }
    place_weights(memory);
    static float weights[WEIGHT_COUNT];
    fill_random(weights + W1_START, W1_COUNT, 9);
    fill_random(weights + W2_START, W2_COUNT, C1 * 9);
    fill_random(weights + W3_START, W3_COUNT, C2 * HALF * HALF);
    fill(weights + SCALE1_START, C1, 1.0f);
    fill(weights + SCALE2_START, C2, 1.0f);
    hd_write_floats(memory[WEIGHTS], weights, WEIGHT_COUNT);

    float ones[C2]; /* the longest of these */
    fill(ones, C2, 1.0f);
    hd_write_floats(memory[RUNNING_VAR1], ones, C1);
    hd_write_floats(memory[RUNNING_VAR2], ones, C2);
    hd_write_floats(memory[ONE_PER_IMAGE], ones, BATCH);
}

static void release(float* memory[TENSORS])
{
    for (int uid = 0; uid < TENSORS; uid++) {
        int is_part = 0;
        for (int i = 0; i < WEIGHT_KINDS; i++) {
            is_part |= uid == WEIGHT_TABLE[i].uid || uid == WEIGHT_TABLE[i].gradient_uid;
        }
        if (!is_part && memory[uid] != NULL) {
            hd_memory.release(memory[uid]);
        }
    }
}

/* Training */

static void draw_progress(bool in_place, int epoch, int step, double loss, double accuracy)
{
    enum { WIDTH = 30 };
    const int done = step * WIDTH / STEPS;
    char bar[WIDTH + 1];
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)done);
    bar[WIDTH] = '\0';
    if (in_place) {
        printf("\repoch %2d/%d [%s] loss %.4f  accuracy %5.1f %%", epoch + 1, EPOCHS, bar, loss, 100.0 * accuracy);
        if (step == STEPS) {
            printf("\n");
        }
        fflush(stdout);
    } else if (step == STEPS) {
        printf("epoch %2d/%d  loss %.4f  accuracy %5.1f %%\n", epoch + 1, EPOCHS, loss, 100.0 * accuracy);
        fflush(stdout);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct options {
    bool device;
    int steps; /* 0: all */
    const char *path, *engine;
} options;

static options read_options(int count, char** arguments)
{
    options read = {false, 0, NULL, NULL};
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--device") == 0) {
            read.device = true;
        } else if (strcmp(arguments[i], "--steps") == 0 && i + 1 < count) {
            read.steps = atoi(arguments[++i]);
        } else if (read.path == NULL && arguments[i][0] != '-') {
            read.path = arguments[i];
        } else if (read.engine == NULL && arguments[i][0] != '-') {
            read.engine = arguments[i];
        } else {
            hd_fail("usage: train_digits [--device] [--steps N] [DIGITS.CSV [ENGINE]]");
        }
    }
    read.path = read.path != NULL ? read.path : "examples_c/data/digits.csv";
    /* On a GPU any engine, the library's first choice; CPU engines refuse its memory. */
    read.engine = read.engine != NULL ? read.engine : read.device ? "" : "CPU";
    return read;
}

int main(int argument_count, char** arguments)
{
    const options chosen = read_options(argument_count, arguments);
    const char* path = chosen.path;
    const char* engine = chosen.engine;
    if (chosen.device) {
        hd_use_device();
    }
    digits data = read_digits(path);
    int order[DIGITS];
    for (int i = 0; i < DIGITS; i++) {
        order[i] = i;
    }
    shuffle(order, DIGITS);
    int* const train_rows = order;
    const int* const test_rows = order + TRAIN;

    hipdnnHandle_t handle = NULL;
    HD_CHECK(hipdnnCreate(&handle));
    float* memory[TENSORS] = {NULL};
    allocate(memory);
    hd_plan block1_forward_plan = block_forward(handle, engine, "block 1 forward", &BLOCK1);
    hd_plan block2_forward_plan = block_forward(handle, engine, "block 2 forward", &BLOCK2);
    hd_plan classifier_forward_plan = classifier_forward(handle, engine);
    hd_plan loss_plan = loss_and_gradient(handle, engine);
    hd_plan classifier_backward_plan = classifier_backward(handle, engine);
    hd_plan block2_backward_plan = block_backward(handle, engine, "block 2 backward", &BLOCK2);
    hd_plan block1_backward_plan = block_backward(handle, engine, "block 1 backward", &BLOCK1);
    hd_plan update_plan = weight_update(handle, engine);
    hd_plan inference_plan = network_inference(handle, engine);

    hd_plan* const step_plans[] = {
        &block1_forward_plan,      &block2_forward_plan,  &classifier_forward_plan, &loss_plan,
        &classifier_backward_plan, &block2_backward_plan, &block1_backward_plan,    &update_plan};
    enum { STEP_PLANS = sizeof step_plans / sizeof step_plans[0] };

    if (chosen.steps == 0) {
        printf("Training on %d digits, %d held out, in %d epochs of %d steps of %d\n", TRAIN, TEST, EPOCHS, STEPS,
               BATCH);
    }
    const bool in_place = isatty(STDOUT_FILENO) != 0;
    const double start = seconds();
    int steps_done = 0;
    bool is_number = true;
    for (int epoch = 0; epoch < EPOCHS && (chosen.steps == 0 || steps_done < chosen.steps); epoch++) {
        shuffle(train_rows, TRAIN);
        double loss = 0.0;
        int correct = 0;
        for (int step = 0; step < STEPS && (chosen.steps == 0 || steps_done < chosen.steps); step++) {
            /* Inputs: the images, their labels, and the rate, which falls from its start to zero along half a cosine. */
            const int* const rows = train_rows + step * BATCH;
            static float images[BATCH * PIXELS];
            static float labels[BATCH * CLASSES];
            copy_images_moved(images, &data, rows, BATCH);
            fill(labels, BATCH * CLASSES, 0.0f);
            for (int i = 0; i < BATCH; i++) {
                labels[i * CLASSES + data.labels[rows[i]]] = 1.0f;
            }
            const double progress = (double)(epoch * STEPS + step) / (EPOCHS * STEPS);
            const float rate = LEARNING_RATE * (float)(0.5 + 0.5 * cos(3.14159265358979 * progress));
            hd_write_floats(memory[IMAGES], images, BATCH * PIXELS);
            hd_write_floats(memory[LABELS], labels, BATCH * CLASSES);
            hd_write_floats(memory[RATE], &rate, 1);

            for (int i = 0; i < STEP_PLANS; i++) {
                hd_execute(step_plans[i], memory);
            }

            exchange(memory, WEIGHTS, NEXT_WEIGHTS);
            exchange(memory, VELOCITY, NEXT_VELOCITY);
            exchange(memory, RUNNING_MEAN1, NEXT_MEAN1);
            exchange(memory, RUNNING_VAR1, NEXT_VAR1);
            exchange(memory, RUNNING_MEAN2, NEXT_MEAN2);
            exchange(memory, RUNNING_VAR2, NEXT_VAR2);
            place_weights(memory);

            /* Outputs. */
            float losses[BATCH];
            float logits[BATCH * CLASSES];
            hd_read_floats(losses, memory[LOSS], BATCH);
            hd_read_floats(logits, memory[LOGITS], BATCH * CLASSES);
            double step_loss = 0.0;
            for (int i = 0; i < BATCH; i++) {
                step_loss += losses[i];
            }
            loss += step_loss;
            correct += count_correct(logits, &data, rows, BATCH);
            steps_done++;
            if (chosen.steps > 0) {
                printf("step %d loss %.6f\n", steps_done, step_loss / BATCH);
                fflush(stdout);
                is_number = is_number && isfinite(step_loss);
            } else {
                const int seen = (step + 1) * BATCH;
                draw_progress(in_place, epoch, step + 1, loss / seen, (double)correct / seen);
            }
        }
    }
    const double elapsed = seconds() - start;

    static float test_images[TEST * PIXELS];
    static float test_logits[TEST * CLASSES];
    copy_images(test_images, &data, test_rows, TEST);
    hd_write_floats(memory[TEST_IMAGES], test_images, TEST * PIXELS);
    hd_execute(&inference_plan, memory);
    hd_read_floats(test_logits, memory[TEST_LOGITS], TEST * CLASSES);
    const int correct = count_correct(test_logits, &data, test_rows, TEST);
    const double accuracy = (double)correct / TEST;
    const bool trained = chosen.steps == 0;
    const bool good = trained ? accuracy >= REQUIRED_ACCURACY : is_number;

    if (chosen.device || !trained) {
        for (int i = 0; i < STEP_PLANS; i++) {
            printf("Graph %d        %s\n", i + 1, step_plans[i]->engine);
        }
    }
    printf("Engine         %s\n", block2_forward_plan.engine);
    printf("Training       %.2f s, %.3f ms a step\n", elapsed, 1000.0 * elapsed / steps_done);
    printf("Test accuracy  %.2f %% (%d of %d held-out digits)%s\n", 100.0 * accuracy, correct, TEST,
           good || !trained ? "" : ", below the required 97 %");

    for (int i = 0; i < STEP_PLANS; i++) {
        hd_plan_destroy(step_plans[i]);
    }
    hd_plan_destroy(&inference_plan);
    HD_CHECK(hipdnnDestroy(handle));
    release(memory);
    free(data.pixels);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
