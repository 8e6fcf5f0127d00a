/* SPDX-License-Identifier: MIT */

/* For standin_cudnn.c: what the operations of a graph compute. Values lie in the order of the dims, the last one inside. */

enum { MOST_DIMS = 8, MOST_VALUES = 256 };

typedef struct {
    object* graph;
    int64_t count;
    int64_t uids[MOST_BOUND];
    char* pointers[MOST_BOUND];
    double numbers[MOST_BOUND];
    bool is_number[MOST_BOUND];
    char* workspace;
    int64_t workspace_size;
} execution;

/* A tensor with its values. */
typedef struct {
    const object* tensor;
    int rank;
    int64_t dims[MOST_DIMS], strides[MOST_DIMS], size;
    double* at;
} values;

static values computed[MOST_VALUES];
static int computed_count;

/* By the numbers of standin_numbers.h. */
static int type_of(const object* tensor)
{
    switch (integer(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, 0, 0)) {
    case CUDNN_DATA_FP8_E4M3: return STANDIN_E4M3;
    case CUDNN_DATA_FP8_E5M2: return STANDIN_E5M2;
    case CUDNN_DATA_HALF: return STANDIN_HALF;
    case CUDNN_DATA_BFLOAT16: return STANDIN_BFLOAT16;
    case CUDNN_DATA_INT32: return STANDIN_INT32;
    case CUDNN_DATA_DOUBLE: return STANDIN_DOUBLE;
    default: return STANDIN_FLOAT;
    }
}

static values shape_of(const object* tensor)
{
    values v = {.tensor = tensor, .rank = (int)find(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS)->count, .size = 1};
    for (int i = 0; i < v.rank; i++) {
        v.dims[i] = integer(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, i, 1);
        v.strides[i] = integer(tensor, CUDNN_ATTR_TENSOR_STRIDES, i, 1);
        v.size *= v.dims[i];
    }
    return v;
}

/* The indices of the value in a place. */
static void indices(const values* v, int64_t place, int64_t* index)
{
    for (int i = v->rank - 1; i >= 0; i--) {
        index[i] = place % v->dims[i];
        place /= v->dims[i];
    }
}

/* The place of the value at these indices, where a dimension of one stands for all. */
static int64_t place_of(const values* v, const int64_t* index, int rank)
{
    int64_t place = 0;
    for (int i = 0; i < v->rank; i++) {
        const int64_t at = index[rank - v->rank + i];
        place = place * v->dims[i] + (v->dims[i] == 1 ? 0 : at);
    }
    return place;
}

static int64_t offset_of(const values* v, int64_t place)
{
    int64_t index[MOST_DIMS], offset = 0;
    indices(v, place, index);
    for (int i = 0; i < v->rank; i++) {
        offset += index[i] * v->strides[i];
    }
    return offset;
}

static int64_t bound_place(const execution* e, const object* tensor)
{
    const int64_t uid = integer(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0, -1);
    for (int64_t i = 0; i < e->count; i++) {
        if (e->uids[i] == uid) {
            return i;
        }
    }
    return -1;
}

static int64_t ragged_offset(const execution* e, const values* v, int64_t place);

/* The values of a tensor: computed before, a number, or in memory. */
static values* load(const execution* e, const object* tensor)
{
    if (tensor == NULL) {
        return NULL;
    }
    for (int i = 0; i < computed_count; i++) {
        if (integer(computed[i].tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0, -1) ==
            integer(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0, -2)) {
            return &computed[i];
        }
    }
    const int64_t bound = bound_place(e, tensor);
    values v = shape_of(tensor);
    v.at = calloc((size_t)v.size, sizeof *v.at);
    if (v.at == NULL || bound < 0 || computed_count == MOST_VALUES) {
        abort();
    }
    for (int64_t i = 0; i < v.size; i++) {
        const int64_t offset = ragged_offset(e, &v, i);
        if (offset >= 0) {
            v.at[i] =
                e->is_number[bound] ? e->numbers[bound] : standin_load(e->pointers[bound], type_of(tensor), offset);
        }
    }
    computed[computed_count] = v;
    return &computed[computed_count++];
}

/* A result that is still zero everywhere. */
static values* begin_result(const object* tensor)
{
    values v = shape_of(tensor);
    v.at = calloc((size_t)v.size, sizeof *v.at);
    if (v.at == NULL || computed_count == MOST_VALUES) {
        abort();
    }
    computed[computed_count] = v;
    return &computed[computed_count++];
}

/* Rounds a result to its type, and writes it to memory if it is not virtual. */
static void end_result(const execution* e, values* v)
{
    const int type = type_of(v->tensor);
    const int64_t bound = bound_place(e, v->tensor);
    for (int64_t i = 0; i < v->size; i++) {
        double element[1];
        standin_store(element, type, 0, v->at[i]);
        v->at[i] = standin_load(element, type, 0);
        const int64_t offset = bound >= 0 ? ragged_offset(e, v, i) : -1;
        if (offset >= 0) {
            standin_store(e->pointers[bound], type, offset, v->at[i]);
        }
    }
}

#include "standin_cudnn_products.h"

/* ---- Operations ---- */

/* What a mode makes of numbers; `known` says whether it is computed here. */
static double pointwise_of(int64_t mode, double x, double b, double t, int* known)
{
    *known = 1;
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_MAX: return x > b ? x : b;
    case CUDNN_POINTWISE_MIN: return x < b ? x : b;
    case CUDNN_POINTWISE_EXP: return exp(x);
    case CUDNN_POINTWISE_LOG: return log(x);
    case CUDNN_POINTWISE_SQRT: return sqrt(x);
    case CUDNN_POINTWISE_RSQRT: return 1.0 / sqrt(x);
    case CUDNN_POINTWISE_NEG: return -x;
    case CUDNN_POINTWISE_ABS: return fabs(x);
    case CUDNN_POINTWISE_ERF: return erf(x);
    case CUDNN_POINTWISE_RELU_FWD: return x > 0.0 ? x : 0.0;
    case CUDNN_POINTWISE_TANH_FWD: return tanh(x);
    case CUDNN_POINTWISE_SIGMOID_FWD: return 1.0 / (1.0 + exp(-x));
    case CUDNN_POINTWISE_GELU_FWD: return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
        return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    case CUDNN_POINTWISE_CMP_GT: return x > b;
    case CUDNN_POINTWISE_CMP_LT: return x < b;
    case CUDNN_POINTWISE_CMP_NEQ: return x != b;
    case CUDNN_POINTWISE_LOGICAL_AND: return x != 0.0 && b != 0.0;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0.0 ? x : b;
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_GEN_INDEX: return x;
    default: *known = 0; return NAN;
    }
}

static void pointwise(const execution* e, const object* o)
{
    const object* described = child(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    const int64_t mode = integer(described, CUDNN_ATTR_POINTWISE_MODE, 0, -1);
    const int64_t axis = integer(described, CUDNN_ATTR_POINTWISE_AXIS, 0, 0);
    const values* x = load(e, child(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0));
    const values* b = load(e, child(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 0));
    const values* t = load(e, child(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, 0));
    values* y = begin_result(child(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0));
    int known;
    for (int64_t i = 0; i < y->size; i++) {
        int64_t index[MOST_DIMS];
        indices(y, i, index);
        y->at[i] = mode == CUDNN_POINTWISE_GEN_INDEX
                       ? (double)index[axis]
                       : pointwise_of(mode, x->at[place_of(x, index, y->rank)],
                                      b != NULL ? b->at[place_of(b, index, y->rank)] : 0.0,
                                      t != NULL ? t->at[place_of(t, index, y->rank)] : 0.0, &known);
    }
    end_result(e, y);
}

static void reduction(const execution* e, const object* o)
{
    const object* described = child(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 0);
    const int64_t mode = integer(described, CUDNN_ATTR_REDUCTION_OPERATOR, 0, -1);
    const values* x = load(e, child(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 0));
    values* y = begin_result(child(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 0));
    for (int64_t i = 0; i < y->size; i++) {
        y->at[i] = mode == CUDNN_REDUCE_TENSOR_MAX                                               ? -INFINITY
                   : mode == CUDNN_REDUCE_TENSOR_MIN                                             ? INFINITY
                   : mode == CUDNN_REDUCE_TENSOR_MUL || mode == CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS ? 1.0
                                                                                                 : 0.0;
    }
    for (int64_t i = 0; i < x->size; i++) {
        int64_t index[MOST_DIMS];
        indices(x, i, index);
        /* Along a dimension that stays in part, each result is of as many neighbours. */
        for (int axis = 0; axis < x->rank; axis++) {
            index[axis] = index[axis] * y->dims[axis] / x->dims[axis];
        }
        double* to = &y->at[place_of(y, index, x->rank)];
        const double with = mode == CUDNN_REDUCE_TENSOR_AMAX ? fabs(x->at[i]) : x->at[i];
        *to = mode == CUDNN_REDUCE_TENSOR_ADD            ? *to + with
              : mode == CUDNN_REDUCE_TENSOR_MUL          ? *to * with
              : mode == CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS ? *to * (with != 0.0 ? with : 1.0)
              : mode == CUDNN_REDUCE_TENSOR_MIN          ? fmin(*to, with)
                                                         : fmax(*to, with);
    }
    end_result(e, y);
}

/* y += x · w, in the direction that has one of them as its result: each product of one x, one w and one y. */
static void convolution(const execution* e, const object* o)
{
    static const struct {
        cudnnBackendDescriptorType_t kind;
        cudnnBackendAttributeName_t tensors[3], described;
        int result;
    } DIRECTIONS[3] = {{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                        2},
                       {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                        0},
                       {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                        1}};
    int d = 0;
    while (DIRECTIONS[d].kind != o->kind) {
        d++;
    }
    const object* described = child(o, DIRECTIONS[d].described, 0);
    values* v[3];
    for (int i = 0; i < 3; i++) {
        const object* tensor = child(o, DIRECTIONS[d].tensors[i], 0);
        v[i] = i == DIRECTIONS[d].result ? begin_result(tensor) : load(e, tensor);
    }
    const values *x = v[0], *w = v[1], *y = v[2];
    const int64_t groups = x->dims[1] / w->dims[1], filters = w->dims[0] / groups, of_filter = w->size / w->dims[0];
    const bool is_turned = integer(described, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 0, 1) == CUDNN_CONVOLUTION;
    for (int64_t i = 0; i < y->size; i++) {
        int64_t of_y[MOST_DIMS];
        indices(y, i, of_y);
        for (int64_t k = of_y[1] * of_filter; k < (of_y[1] + 1) * of_filter; k++) {
            int64_t of_w[MOST_DIMS], of_x[MOST_DIMS];
            indices(w, k, of_w);
            bool is_inside = true;
            of_x[0] = of_y[0];
            of_x[1] = of_w[1] + of_w[0] / filters * w->dims[1];
            for (int s = 2; s < x->rank; s++) {
                const int64_t tap = is_turned ? w->dims[s] - 1 - of_w[s] : of_w[s];
                of_x[s] = of_y[s] * integer(described, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s - 2, 1) +
                          tap * integer(described, CUDNN_ATTR_CONVOLUTION_DILATIONS, s - 2, 1) -
                          integer(described, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s - 2, 0);
                is_inside = is_inside && of_x[s] >= 0 && of_x[s] < x->dims[s];
            }
            if (is_inside) {
                const int64_t at = place_of(x, of_x, x->rank);
                double* to = DIRECTIONS[d].result == 0 ? &x->at[at] : DIRECTIONS[d].result == 1 ? &w->at[k] : &y->at[i];
                *to += DIRECTIONS[d].result == 0   ? y->at[i] * w->at[k]
                       : DIRECTIONS[d].result == 1 ? x->at[at] * y->at[i]
                                                   : x->at[at] * w->at[k];
            }
        }
    }
    end_result(e, v[DIRECTIONS[d].result]);
}

/* Statistics lie along the dimensions that the scale has for images, and along the others for rows. */
static void normalization(const execution* e, const object* o)
{
    const int64_t mode = integer(o, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, 0, -1);
    const values* x = load(e, child(o, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, 0));
    const values* scale = load(e, child(o, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, 0));
    const values* bias = load(e, child(o, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, 0));
    const double epsilon = load(e, child(o, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, 0))->at[0];
    const object* running[2] = {child(o, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, 0),
                                child(o, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, 0)};
    const cudnnBackendAttributeName_t next[2] = {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                                                 CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC};
    values s = {.rank = x->rank, .size = 1};
    for (int i = 0; i < x->rank; i++) {
        s.dims[i] = (scale->dims[i] == 1) == (mode == CUDNN_BATCH_NORM) ? 1 : x->dims[i];
        s.size *= s.dims[i];
    }
    const double count = (double)(x->size / s.size);
    double* statistics[2] = {calloc((size_t)s.size, sizeof(double)), calloc((size_t)s.size, sizeof(double))};
    int64_t index[MOST_DIMS];
    for (int moment = 0; moment < 2; moment++) {
        for (int64_t i = 0; i < x->size && !(moment == 0 && mode == CUDNN_RMS_NORM); i++) {
            indices(x, i, index);
            const int64_t at = place_of(&s, index, x->rank);
            const double off = x->at[i] - statistics[0][at];
            statistics[moment][at] += (moment == 0 ? x->at[i] : off * off) / count;
        }
    }
    values* y = begin_result(child(o, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, 0));
    for (int64_t i = 0; i < x->size; i++) {
        indices(x, i, index);
        const int64_t at = place_of(&s, index, x->rank);
        y->at[i] = (x->at[i] - statistics[0][at]) / sqrt(statistics[1][at] + epsilon) *
                   scale->at[place_of(scale, index, x->rank)];
        y->at[i] += bias != NULL ? bias->at[place_of(bias, index, x->rank)] : 0.0;
    }
    end_result(e, y);
    for (int moment = 0; moment < 2; moment++) {
        const object* kept = child(
            o, moment == 0 ? CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC : CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
            0);
        values* result = kept != NULL ? begin_result(kept) : NULL;
        for (int64_t i = 0; result != NULL && i < s.size; i++) {
            result->at[i] = moment == 0 ? statistics[0][i] : 1.0 / sqrt(statistics[1][i] + epsilon);
        }
        if (result != NULL) {
            end_result(e, result);
        }
        if (running[moment] != NULL) {
            const double share = load(e, child(o, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, 0))->at[0];
            const values* before = load(e, running[moment]);
            values* after = begin_result(child(o, next[moment], 0));
            for (int64_t i = 0; i < s.size; i++) {
                const double now = moment == 0 ? statistics[0][i] : statistics[1][i] * count / (count - 1.0);
                after->at[i] = (1.0 - share) * before->at[i] + share * now;
            }
            end_result(e, after);
        }
    }
    free(statistics[0]);
    free(statistics[1]);
}

static int is_computed(const object* o)
{
    switch (o->kind) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return 1;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
        const object* described = child(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
        const bool is_clipped = find(described, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP) != NULL ||
                                find(described, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP) != NULL ||
                                find(described, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE) != NULL;
        int known;
        pointwise_of(integer(described, CUDNN_ATTR_POINTWISE_MODE, 0, -1), 1.0, 1.0, 1.0, &known);
        return known && !is_clipped && find(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC) != NULL;
    }
    default: return 0;
    }
}

/* Every tensor of an operation that is passed by value is read from the host's memory. Answers whether all others are bound. */
static int read_numbers(execution* e)
{
    const attribute* operations = find(e->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    int known = 1;
    for (int64_t i = 0; i < operations->count; i++) {
        for (const attribute* a = child(e->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)->attributes; a != NULL;
             a = a->next) {
            const object* tensor = a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR
                                       ? child(child(e->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i), a->name, 0)
                                       : NULL;
            if (tensor == NULL || tensor->kind != CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
                continue;
            }
            const int64_t at = bound_place(e, tensor);
            known = known && (at >= 0 || integer(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0, 0));
            if (at >= 0 && integer(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0, 0)) {
                e->is_number[at] = true;
                e->numbers[at] = standin_load(e->pointers[at], type_of(tensor), 0);
            }
        }
    }
    return known;
}

/* The work: under the lock of the stand-in for the driver, so one at a time. */
static void compute(void* data)
{
    const execution* e = data;
    /* What is promised is used. */
    memset(e->workspace, 0x5a, (size_t)e->workspace_size);
    const attribute* operations = find(e->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    for (int64_t i = 0; i < operations->count; i++) {
        const object* o = child(e->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
        switch (o->kind) {
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: pointwise(e, o); break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: reduction(e, o); break;
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: matmul(e, o); break;
        case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: normalization(e, o); break;
        case CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR: load_pages(e, o); break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: reshape(e, o); break;
        default: convolution(e, o); break;
        }
    }
    while (computed_count > 0) {
        free(computed[--computed_count].at);
    }
}
