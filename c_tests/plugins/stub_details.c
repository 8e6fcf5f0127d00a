/* SPDX-License-Identifier: MIT */

/*
 * The stub plugin's engine details, and its reading of configurations.
 */

#include "stub.h"

#include "../flatbuffer_writer.h"

#include <stdio.h>

/*
 * KNOBS: knobs of every kind, one whose value is of an unknown kind, and notes. One of the following instead: knobs with
 * one defect. NOTE: one behavior note and no knob.
 */

enum { INT = 1, FLOAT = 2, TEXT = 3, UNKNOWN = 9 };

static inline uint32_t write_int(flatbuffer* fb, int64_t value)
{
    fb_begin(fb);
    fb_long(fb, 0, value);
    return fb_end(fb);
}

static inline uint32_t write_float(flatbuffer* fb, double value)
{
    fb_begin(fb);
    fb_double(fb, 0, value);
    return fb_end(fb);
}

static inline uint32_t write_text(flatbuffer* fb, const char* value)
{
    const uint32_t text = fb_text(fb, value);
    fb_begin(fb);
    fb_reference(fb, 0, text);
    return fb_end(fb);
}

static inline uint32_t write_int_limits(flatbuffer* fb, int64_t min, int64_t max, int64_t step, uint32_t count,
                                        const int64_t* valid)
{
    const uint32_t list = fb_longs(fb, count, valid);
    fb_begin(fb);
    fb_long(fb, 0, min);
    fb_long(fb, 1, max);
    fb_long(fb, 2, step);
    fb_reference(fb, 3, list);
    return fb_end(fb);
}

static inline uint32_t write_float_limits(flatbuffer* fb, double min, double max)
{
    fb_begin(fb);
    fb_double(fb, 0, min);
    fb_double(fb, 1, max);
    return fb_end(fb);
}

static inline uint32_t write_text_limits(flatbuffer* fb, int32_t length, uint32_t count, const char* const* valid)
{
    uint32_t texts[4];
    for (uint32_t i = 0; i < count; i++) {
        texts[i] = fb_text(fb, valid[i]);
    }
    const uint32_t list = fb_offsets(fb, count, texts);
    fb_begin(fb);
    fb_int(fb, 0, length);
    fb_reference(fb, 1, list);
    return fb_end(fb);
}

/* Kind 0 means no limits. */
static inline uint32_t write_knob(flatbuffer* fb, const char* id, const char* description, int kind, uint32_t value,
                                  int limits_kind, uint32_t limits, int deprecated)
{
    const uint32_t name = fb_text(fb, id);
    const uint32_t about = fb_text(fb, description);
    fb_begin(fb);
    fb_reference(fb, 0, name);
    fb_reference(fb, 1, about);
    fb_reference(fb, 3, value);
    if (limits_kind != 0) {
        fb_reference(fb, 5, limits);
        fb_byte(fb, 4, limits_kind);
    }
    fb_byte(fb, 2, kind);
    fb_byte(fb, 6, deprecated);
    return fb_end(fb);
}

/* A knob for an integer from 2 to 10. */
static inline uint32_t write_plain_knob(flatbuffer* fb, const char* id, const char* description, int64_t value)
{
    return write_knob(fb, id, description, INT, write_int(fb, value), INT, write_int_limits(fb, 2, 10, 1, 0, NULL), 0);
}

#ifdef KNOBS
#define KNOB_COUNT 8
static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    static const int64_t picks[] = {3, 5, 8};
    static const char* const modes[] = {"fast", "exact"};
    to[0] =
        write_knob(fb, "count", "How many.", INT, write_int(fb, 4), INT, write_int_limits(fb, 2, 10, 2, 0, NULL), 0);
    to[1] = write_knob(fb, "pick", "Which.", INT, write_int(fb, 3), INT, write_int_limits(fb, 0, 0, 1, 3, picks), 0);
    to[2] =
        write_knob(fb, "ratio", "How much.", FLOAT, write_float(fb, 0.5), FLOAT, write_float_limits(fb, 0.0, 1.0), 0);
    to[3] = write_knob(fb, "mode", "How.", TEXT, write_text(fb, "fast"), TEXT, write_text_limits(fb, 0, 2, modes), 0);
    to[4] = write_knob(fb, "label", "", TEXT, write_text(fb, ""), TEXT, write_text_limits(fb, 8, 0, NULL), 0);
    to[5] =
        write_knob(fb, "free", "Any number.", INT, write_int(fb, -1), INT, write_int_limits(fb, 0, 0, 1, 0, NULL), 0);
    to[6] = write_knob(fb, "bare", "Without limits.", FLOAT, write_float(fb, 0.25), 0, 0, 1);
    to[7] = write_knob(fb, "odd", "Of an unknown kind.", UNKNOWN, write_int(fb, 1), 0, 0, 0);
}
#endif

/* KNOB_DEFAULT_OUTSIDE: the default value of the second knob is not in its range. */
#ifdef KNOB_DEFAULT_OUTSIDE
#define KNOB_COUNT 2
static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    to[0] = write_plain_knob(fb, "good", "", 2);
    to[1] = write_plain_knob(fb, "bad", "", 11);
}
#endif

/* KNOB_BENCHMARKING: the knob that makes an engine tune itself. */
#ifdef KNOB_BENCHMARKING
#define KNOB_COUNT 1
static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    to[0] = write_knob(fb, "global.benchmarking", "", INT, write_int(fb, 0), INT,
                       write_int_limits(fb, 0, 1, 1, 0, NULL), 0);
}
#endif

/* KNOB_TWICE: two knobs have one id. */
#ifdef KNOB_TWICE
#define KNOB_COUNT 2
static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    to[0] = write_plain_knob(fb, "same", "", 2);
    to[1] = write_plain_knob(fb, "same", "", 3);
}
#endif

/* KNOB_ID, KNOB_DESCRIPTION, KNOB_TEXT: how long they are, in bytes. */
#if defined(KNOB_ID) || defined(KNOB_DESCRIPTION) || defined(KNOB_TEXT)
#ifndef KNOB_ID
#define KNOB_ID 1
#endif
#ifndef KNOB_DESCRIPTION
#define KNOB_DESCRIPTION 0
#endif
#ifndef KNOB_TEXT
#define KNOB_TEXT 0
#endif
#define KNOB_COUNT 1
static const char* letters(char* text, size_t length)
{
    memset(text, 'k', length);
    text[length] = '\0';
    return text;
}

static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    static _Thread_local char id[KNOB_ID + 1], description[KNOB_DESCRIPTION + 1], text[KNOB_TEXT + 1];
    const uint32_t value = write_text(fb, letters(text, KNOB_TEXT));
    letters(description, KNOB_DESCRIPTION);
    to[0] = write_knob(fb, letters(id, KNOB_ID), description, TEXT, value, 0, 0, 0);
}
#endif

/* KNOB_LIMITS_OF_ANOTHER_KIND: a range of numbers for an integer. */
#ifdef KNOB_LIMITS_OF_ANOTHER_KIND
#define KNOB_COUNT 1
static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    to[0] = write_knob(fb, "k", "", INT, write_int(fb, 1), FLOAT, write_float_limits(fb, 0.0, 1.0), 0);
}
#endif

/* KNOB_RANGE_BACKWARDS: the smallest value is above the largest. */
#ifdef KNOB_RANGE_BACKWARDS
#define KNOB_COUNT 1
static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    to[0] = write_knob(fb, "k", "", INT, write_int(fb, 5), INT, write_int_limits(fb, 9, 1, 1, 0, NULL), 0);
}
#endif

#ifdef NOTE
#define KNOB_COUNT 0
static void write_knobs(flatbuffer* fb, uint32_t* to)
{
    (void)fb;
    (void)to;
}
#endif

#ifdef KNOB_COUNT
#ifndef NOTE
#define NOTES 0, 3, 4, 77
#else
#define NOTES NOTE
#endif

unsigned char* details_of(int64_t engine_id, size_t* size)
{
    static _Thread_local flatbuffer fb;
    static const int32_t notes[] = {NOTES};
    uint32_t knobs[KNOB_COUNT + 1];
    fb.used = 0;
    write_knobs(&fb, knobs);
    const uint32_t knob_list = fb_offsets(&fb, KNOB_COUNT, knobs);
    const uint32_t note_list = fb_ints(&fb, sizeof notes / sizeof notes[0], notes);
    const uint32_t name = fb_text(&fb, "an unused name");
    fb_begin(&fb);
    fb_long(&fb, 0, engine_id);
    fb_reference(&fb, 1, knob_list);
    fb_reference(&fb, 2, note_list);
    fb_reference(&fb, 3, name);
    const unsigned char* bytes = fb_finish(&fb, fb_end(&fb), size);
/* DETAILS_CUT: not all of the bytes. */
#ifdef DETAILS_CUT
    *size = *size * 3 / 4;
#endif
    unsigned char* copy = malloc(*size);
    if (copy != NULL) {
        memcpy(copy, bytes, *size);
    }
    return copy;
}

#else

unsigned char* details_of(int64_t engine_id, size_t* size)
{
    /* The offset of the table, its list of slots, the table: the distance back to the slots, and the id. */
    static const unsigned char HEAD[16] = {12, 0, 0, 0, 6, 0, 12, 0, 4, 0, 0, 0, 8, 0, 0, 0};
    unsigned char* bytes = calloc(1, 24);
    *size = 24;
    if (bytes != NULL) {
        memcpy(bytes, HEAD, sizeof HEAD);
        memcpy(bytes + 16, &engine_id, sizeof engine_id);
    }
    return bytes;
}

#endif
