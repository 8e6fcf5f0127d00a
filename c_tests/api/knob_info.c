/* SPDX-License-Identifier: MIT */

/* KNOB_INFO: a knob of each type, finalize's requirements, and every limit. attributes.c tests the general rules. */
#include "../fixture.h"

static void put_id(hipdnnBackendDescriptor_t knob)
{
    put(knob, HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, 4, "knob");
}

/* A knob with this default, otherwise open. */
static hipdnnBackendDescriptor_t open_int(int64_t value)
{
    hipdnnBackendDescriptor_t knob = make(HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    put_id(knob);
    put(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_INT64, 1, &value);
    return knob;
}

static hipdnnBackendDescriptor_t open_float(double value)
{
    hipdnnBackendDescriptor_t knob = make(HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    put_id(knob);
    put(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_DOUBLE, 1, &value);
    return knob;
}

static hipdnnBackendDescriptor_t open_text(const char* value)
{
    hipdnnBackendDescriptor_t knob = make(HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    put_id(knob);
    put(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_CHAR, (int64_t)strlen(value), value);
    return knob;
}

static void put_int(hipdnnBackendDescriptor_t knob, hipdnnBackendAttributeName_t name, int64_t value)
{
    put(knob, name, HIPDNN_TYPE_INT64, 1, &value);
}

static void put_double(hipdnnBackendDescriptor_t knob, hipdnnBackendAttributeName_t name, double value)
{
    put(knob, name, HIPDNN_TYPE_DOUBLE, 1, &value);
}

static void expect_good(hipdnnBackendDescriptor_t knob)
{
    CHECK_OK(hipdnnBackendFinalize(knob));
    drop(knob);
}

static void expect_bad(hipdnnBackendDescriptor_t knob, const char* part)
{
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, part, hipdnnBackendFinalize(knob));
    drop(knob);
}

static int64_t count_of(hipdnnBackendDescriptor_t knob, hipdnnBackendAttributeName_t name,
                        hipdnnBackendAttributeType_t type)
{
    int64_t count = 4711;
    CHECK_OK(hipdnnBackendGetAttribute(knob, name, type, 0, &count, NULL));
    return count;
}

static int64_t default_type(hipdnnBackendDescriptor_t knob)
{
    int64_t type = -1;
    CHECK_OK(
        hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE, HIPDNN_TYPE_INT64, 1, NULL, &type));
    return type;
}

static void test_required(void)
{
    hipdnnBackendDescriptor_t knob = make(HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "KNOB_INFO_TYPE", hipdnnBackendFinalize(knob));
    put_id(knob);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "KNOB_INFO_DEFAULT_VALUE", hipdnnBackendFinalize(knob));
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, 1);
    expect_good(knob);
}

static void test_int(void)
{
    hipdnnBackendDescriptor_t knob = open_int(6);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, 2);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 10);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_STRIDE, 4);
    CHECK_OK(hipdnnBackendFinalize(knob));
    int64_t value = 0;
    double wrong = 0.0;
    CHECK_OK(hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_INT64, 1, NULL, &value));
    CHECK_EQ(value, 6);
    CHECK_EQ(default_type(knob), HIPDNN_TYPE_INT64);
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_DOUBLE, 1, NULL, &wrong));
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, HIPDNN_TYPE_DOUBLE, 1, NULL, &wrong));
    /* What was not set */
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, HIPDNN_TYPE_INT64), 0);
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR), 0);
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32), 0);
    drop(knob);

    knob = open_int(0);
    CHECK_OK(hipdnnBackendFinalize(knob));
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, HIPDNN_TYPE_INT64), 0);
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, HIPDNN_TYPE_DOUBLE), 0);
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_STRIDE, HIPDNN_TYPE_INT64), 0);
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, HIPDNN_TYPE_CHAR, 0, &value, NULL));
    drop(knob);

    const struct {
        int64_t value;
        bool good;
    } cases[] = {{2, true},   {10, true}, {1, false},         {11, false},
                 {14, false}, {4, false}, {INT64_MIN, false}, {INT64_MAX, false}};
    for (int64_t i = 0; i < COUNT(cases); i++) {
        check_about("default %lld", (long long)cases[i].value);
        knob = open_int(cases[i].value);
        put_int(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, 2);
        put_int(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 10);
        put_int(knob, HIPDNN_ATTR_KNOB_INFO_STRIDE, 4);
        if (cases[i].good) {
            expect_good(knob);
        } else {
            expect_bad(knob, "expected an integer from 2 to 10 in steps of 4");
        }
    }
    check_about("%s", "");
    /* One bound alone; the bounds of the type */
    knob = open_int(INT64_MAX);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, INT64_MIN);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_STRIDE, INT64_MAX);
    expect_bad(knob, "of at least");
    knob = open_int(INT64_MAX);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, INT64_MIN);
    expect_good(knob);
    knob = open_int(5);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 4);
    expect_bad(knob, "expected an integer of at most 4");
    knob = open_int(5);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, 9);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 4);
    expect_bad(knob, "the minimum 9 is above the maximum 4");

    const int64_t listed[] = {3, 5, 8};
    knob = open_int(5);
    put(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, HIPDNN_TYPE_INT64, 3, listed);
    expect_good(knob);
    knob = open_int(4);
    put(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, HIPDNN_TYPE_INT64, 3, listed);
    /* A failure leaves the knob open. */
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "4, expected an integer, one of 3, 5, 8", hipdnnBackendFinalize(knob));
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, 8);
    expect_good(knob);

    knob = open_int(4);
    const int64_t strides[] = {0, -1, INT64_MIN};
    for (int64_t i = 0; i < COUNT(strides); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "expected more than 0",
                    hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_STRIDE, HIPDNN_TYPE_INT64, 1, &strides[i]));
    }
    drop(knob);
}

static void test_float(void)
{
    hipdnnBackendDescriptor_t knob = open_float(0.5);
    put_double(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, 0.0);
    put_double(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 1.0);
    CHECK_OK(hipdnnBackendFinalize(knob));
    double value = 0.0;
    int64_t count = 0;
    CHECK_EQ(default_type(knob), HIPDNN_TYPE_DOUBLE);
    CHECK_OK(
        hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_DOUBLE, 1, &count, &value));
    CHECK(value == 0.5 && count == 1);
    CHECK_OK(
        hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, HIPDNN_TYPE_DOUBLE, 1, &count, &value));
    CHECK(value == 1.0);
    drop(knob);
    knob = open_float(1.5);
    put_double(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 1.0);
    expect_bad(knob, "1.5, expected a double precision number of at most 1");

    const double nan = strtod("nan", NULL);
    knob = make(HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    const hipdnnBackendAttributeName_t numbers[] = {
        HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE};
    for (int64_t i = 0; i < COUNT(numbers); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "NaN, expected a number",
                    hipdnnBackendSetAttribute(knob, numbers[i], HIPDNN_TYPE_DOUBLE, 1, &nan));
    }
    drop(knob);
}

static void test_text(void)
{
    /* With and without a NUL after the last one */
    static const char ended[] = {'f', 'a', 's', 't', 0, 'e', 'x', 'a', 'c', 't', 0};
    const int32_t length = 5;
    for (int64_t size = 10; size <= 11; size++) {
        char bytes[16];
        int64_t count = 0;
        hipdnnBackendDescriptor_t knob = open_text("exact");
        put(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR, size, ended);
        put(knob, HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32, 1, &length);
        CHECK_OK(hipdnnBackendFinalize(knob));
        CHECK_EQ(default_type(knob), HIPDNN_TYPE_CHAR);
        CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR), 11);
        CHECK_OK(hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR, 16,
                                           &count, bytes));
        CHECK(count == 11 && memcmp(bytes, ended, 11) == 0);
        CHECK_OK(
            hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_CHAR, 16, &count, bytes));
        CHECK_STR(bytes, "exact");
        CHECK_EQ(count, 6);
        int32_t most = 0;
        CHECK_OK(hipdnnBackendGetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32, 1, &count,
                                           &most));
        CHECK_EQ(most, 5);
        drop(knob);
    }
    hipdnnBackendDescriptor_t knob = open_text("slow");
    put(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR, sizeof ended, ended);
    expect_bad(knob, "\"slow\", expected a text, one of \"fast\", \"exact\"");
    knob = open_text("longer");
    put(knob, HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32, 1, &length);
    expect_bad(knob, "expected a text of at most 5 bytes");
    /* No text is one as well. */
    expect_good(open_text(""));

    knob = open_text("x");
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "elementCount",
                hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR, 0, ended));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements",
                hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR, 4, NULL));
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "attributeType",
        hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_INT64, 1, ended));
    const int32_t lengths[] = {0, -1, INT32_MIN};
    for (int64_t i = 0; i < COUNT(lengths); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "expected more than 0",
                    hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32, 1,
                                              &lengths[i]));
    }
    const int64_t wide = 5;
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT64, 1, &wide));
    drop(knob);
}

/* Limits that are not for values of the knob's type */
static void test_mismatch(void)
{
    const int32_t length = 5;
    hipdnnBackendDescriptor_t knob = open_int(1);
    put_double(knob, HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, 0.0);
    expect_bad(knob, "MINIMUM_VALUE is not for the type");
    knob = open_float(1.0);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 2);
    expect_bad(knob, "MAXIMUM_VALUE is not for the type");
    knob = open_float(1.0);
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_STRIDE, 2);
    expect_bad(knob, "STRIDE is not for the type");
    knob = open_text("1");
    put_int(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, 1);
    expect_bad(knob, "VALID_VALUES_INT is not for the type");
    knob = open_int(1);
    put(knob, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING, HIPDNN_TYPE_CHAR, 1, "1");
    expect_bad(knob, "VALID_VALUES_STRING is not for the type");
    knob = open_int(1);
    put(knob, HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_TYPE_INT32, 1, &length);
    expect_bad(knob, "STRING_MAX_LENGTH is not for the type");
}

static void test_sizes(void)
{
    static char letters[65537];
    memset(letters, 'k', sizeof letters);
    hipdnnBackendDescriptor_t knob = open_int(1);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "0 bytes, expected 1 to 4096",
                hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, 0, letters));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "0 bytes, expected 1 to 4096",
                hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, 1, ""));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "4097 bytes, expected 1 to 4096",
                hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, 4097, letters));
    CHECK_OK(hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, 4096, letters));
    CHECK_OK(hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DESCRIPTION, HIPDNN_TYPE_CHAR, 65537, letters));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "65537 bytes, expected at most 65536", hipdnnBackendFinalize(knob));
    CHECK_OK(hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DESCRIPTION, HIPDNN_TYPE_CHAR, 65536, letters));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "65537 bytes, expected at most 65536",
                hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_CHAR, 65537, letters));
    CHECK_OK(hipdnnBackendSetAttribute(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_CHAR, 65536, letters));
    CHECK_OK(hipdnnBackendFinalize(knob));
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR), 4097);
    CHECK_EQ(count_of(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_CHAR), 65537);
    drop(knob);
}

int main(void)
{
    test_required();
    test_int();
    test_float();
    test_text();
    test_mismatch();
    test_sizes();
    return check_result();
}
