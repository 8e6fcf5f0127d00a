/* SPDX-License-Identifier: MIT */

/* KNOB_CHOICE: a value of each type, and finalize's requirements. attributes.c tests the general rules. */
#include "../fixture.h"

static hipdnnBackendDescriptor_t open_choice(void)
{
    hipdnnBackendDescriptor_t choice = make(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, 4, "knob");
    return choice;
}

static void test_required(void)
{
    const int64_t one = 1;
    hipdnnBackendDescriptor_t choice = make(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "KNOB_CHOICE_KNOB_TYPE", hipdnnBackendFinalize(choice));
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, 1, &one);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "KNOB_CHOICE_KNOB_TYPE", hipdnnBackendFinalize(choice));
    drop(choice);
    choice = open_choice();
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "KNOB_CHOICE_KNOB_VALUE", hipdnnBackendFinalize(choice));
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, 1, &one);
    CHECK_OK(hipdnnBackendFinalize(choice));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "finalized", hipdnnBackendFinalize(choice));
    drop(choice);
}

static hipdnnStatus_t get(hipdnnBackendDescriptor_t choice, hipdnnBackendAttributeType_t type, int64_t room,
                          int64_t* count, void* value)
{
    return hipdnnBackendGetAttribute(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, type, room, count, value);
}

static void test_types(void)
{
    const int64_t whole = INT64_MIN;
    const double fraction = 0.125;
    char bytes[16] = "";
    int64_t count = 0;
    int64_t got = 0;
    double got_fraction = 0.0;

    hipdnnBackendDescriptor_t choice = open_choice();
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, 1, &whole);
    CHECK_OK(hipdnnBackendFinalize(choice));
    CHECK_OK(get(choice, HIPDNN_TYPE_INT64, 1, &count, &got));
    CHECK(got == whole && count == 1);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", get(choice, HIPDNN_TYPE_DOUBLE, 1, &count, &got_fraction));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", get(choice, HIPDNN_TYPE_CHAR, 16, &count, bytes));
    drop(choice);

    choice = open_choice();
    /* The last one counts, also of another type. */
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, 1, &whole);
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_DOUBLE, 1, &fraction);
    CHECK_OK(hipdnnBackendFinalize(choice));
    CHECK_OK(get(choice, HIPDNN_TYPE_DOUBLE, 1, &count, &got_fraction));
    CHECK(got_fraction == fraction && count == 1);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", get(choice, HIPDNN_TYPE_INT64, 1, &count, &got));
    drop(choice);

    choice = open_choice();
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_CHAR, 5, "exact");
    CHECK_OK(hipdnnBackendFinalize(choice));
    CHECK_OK(get(choice, HIPDNN_TYPE_CHAR, 16, &count, bytes));
    CHECK_STR(bytes, "exact");
    CHECK_EQ(count, 6);
    CHECK_OK(get(choice, HIPDNN_TYPE_CHAR, 0, &count, NULL));
    CHECK_EQ(count, 6);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType", get(choice, HIPDNN_TYPE_INT64, 1, &count, &got));
    CHECK_OK(hipdnnBackendGetAttribute(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, 16, &count, bytes));
    CHECK_STR(bytes, "knob");
    drop(choice);
}

static void test_sizes(void)
{
    static char letters[65537];
    const double nan = strtod("nan", NULL);
    memset(letters, 'k', sizeof letters);
    hipdnnBackendDescriptor_t choice = make(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const int64_t lengths[] = {0, 4097};
    for (int64_t i = 0; i < COUNT(lengths); i++) {
        CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "expected 1 to 4096",
                    hipdnnBackendSetAttribute(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, lengths[i],
                                              letters));
    }
    CHECK_OK(hipdnnBackendSetAttribute(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, 4096, letters));
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "65537 bytes, expected at most 65536",
        hipdnnBackendSetAttribute(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_CHAR, 65537, letters));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "NaN",
                hipdnnBackendSetAttribute(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_DOUBLE, 1, &nan));
    CHECK_OK(hipdnnBackendSetAttribute(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_CHAR, 65536, letters));
    CHECK_OK(hipdnnBackendFinalize(choice));
    drop(choice);
}

int main(void)
{
    test_required();
    test_types();
    test_sizes();
    return check_result();
}
