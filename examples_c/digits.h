/* SPDX-License-Identifier: MIT */

/* Handwritten digits for the training example: reads and shuffles them, fills tensors, and counts correct answers. */
#ifndef DIGITS_H
#define DIGITS_H

#include "hipdnn_helpers.h"

enum {
    SIDE = 8,
    PIXELS = SIDE * SIDE,
    CLASSES = 10,
    DIGITS = 1797,
};

/* Random numbers: xorshift64*, always the same sequence */

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static inline uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1du;
}

/* Uniform in [-limit, limit) */
static inline float random_float(float limit)
{
    const float unit = (float)(random_bits() >> 40) / 16777216.0f;
    return (2.0f * unit - 1.0f) * limit;
}

static inline void shuffle(int* order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        const int j = (int)(random_bits() % (uint64_t)(i + 1));
        const int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* Data */

typedef struct digits {
    float* pixels; /* DIGITS x PIXELS, 0 to 1 */
    int labels[DIGITS];
} digits;

static inline digits read_digits(const char* path)
{
    FILE* file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    digits data;
    data.pixels = malloc(sizeof(float) * DIGITS * PIXELS);
    if (data.pixels == NULL) {
        hd_fail("out of memory");
    }
    for (int row = 0; row < DIGITS; row++) {
        for (int column = 0; column <= PIXELS; column++) {
            int value = 0;
            if (fscanf(file, column < PIXELS ? "%d," : "%d", &value) != 1 || value < 0 ||
                value > (column < PIXELS ? 16 : CLASSES - 1)) {
                fprintf(stderr, "%s: row %d, column %d is not what it should be\n", path, row + 1, column + 1);
                exit(EXIT_FAILURE);
            }
            if (column < PIXELS) {
                data.pixels[row * PIXELS + column] = (float)value / 16.0f;
            } else {
                data.labels[row] = value;
            }
        }
    }
    fclose(file);
    return data;
}

static inline void copy_images(float* images, const digits* data, const int* rows, int count)
{
    for (int i = 0; i < count; i++) {
        memcpy(images + i * PIXELS, data->pixels + rows[i] * PIXELS, PIXELS * sizeof(float));
    }
}

/* Each image moved by up to one pixel, so that the network does not learn the exact places of 1,437 digits by heart. */
static inline void copy_images_moved(float* images, const digits* data, const int* rows, int count)
{
    for (int i = 0; i < count; i++) {
        const float* const from = data->pixels + rows[i] * PIXELS;
        const int down = (int)(random_bits() % 3) - 1;
        const int right = (int)(random_bits() % 3) - 1;
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                const int from_y = y - down;
                const int from_x = x - right;
                const bool inside = from_y >= 0 && from_y < SIDE && from_x >= 0 && from_x < SIDE;
                images[i * PIXELS + y * SIDE + x] = inside ? from[from_y * SIDE + from_x] : 0.0f;
            }
        }
    }
}

static inline int count_correct(const float* logits, const digits* data, const int* rows, int count)
{
    int correct = 0;
    for (int i = 0; i < count; i++) {
        int best = 0;
        for (int k = 1; k < CLASSES; k++) {
            if (logits[i * CLASSES + k] > logits[i * CLASSES + best]) {
                best = k;
            }
        }
        correct += best == data->labels[rows[i]];
    }
    return correct;
}

#endif
