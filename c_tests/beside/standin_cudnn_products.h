/* SPDX-License-Identifier: MIT */

/* For standin_cudnn_compute.h: products of matrices, sequences that do not lie evenly, and the same elements in another shape. */

/* The offset of the value in a place of a ragged tensor; negative where the next sequence begins before it. */
static int64_t ragged_offset(const execution* e, const values* v, int64_t place)
{
    const object* offsets = child(v->tensor, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, 0);
    const int64_t offset = offset_of(v, place), sequence = place / (v->size / v->dims[0]);
    if (offsets == NULL) {
        return offset;
    }
    const char* at = e->pointers[bound_place(e, offsets)];
    const int type = type_of(offsets);
    const int64_t begin = (int64_t)standin_load(at, type, sequence),
                  end = (int64_t)standin_load(at, type, sequence + 1);
    const int64_t within = offset - sequence * v->strides[0];
    return begin + within < end ? begin + within : -1;
}

/* What the blocks of a table have: y is [batch, heads, positions, numbers], or with the last two exchanged. */
static void load_pages(const execution* e, const object* o)
{
    const values* container = load(e, child(o, CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC, 0));
    const values* table = load(e, child(o, CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC, 0));
    const values* lengths = load(e, child(o, CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC, 0));
    values* y = begin_result(child(o, CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC, 0));
    const int of_positions = y->strides[2] == 1 ? 3 : 2;
    for (int64_t i = 0; i < y->size; i++) {
        int64_t index[MOST_DIMS];
        indices(y, i, index);
        const int64_t position = index[of_positions], size = container->dims[2];
        if (position < (int64_t)lengths->at[index[0]]) {
            const int64_t block = (int64_t)table->at[index[0] * table->dims[2] + position / size];
            const int64_t from[] = {block, index[1], position % size, index[5 - of_positions]};
            y->at[i] = container->at[place_of(container, from, 4)];
        }
    }
    end_result(e, y);
}

/* The same elements: those at the same distance from the first. */
static void reshape(const execution* e, const object* o)
{
    const values* x = load(e, child(o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 0));
    values* y = begin_result(child(o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 0));
    int64_t extent = 1;
    for (int i = 0; i < x->rank; i++) {
        extent += (x->dims[i] - 1) * x->strides[i];
    }
    double* memory = calloc((size_t)extent, sizeof *memory);
    if (memory == NULL) {
        abort();
    }
    for (int64_t i = 0; i < x->size; i++) {
        memory[offset_of(x, i)] = x->at[i];
    }
    for (int64_t i = 0; i < y->size; i++) {
        y->at[i] = memory[offset_of(y, i)];
    }
    free(memory);
    end_result(e, y);
}

static void matmul(const execution* e, const object* o)
{
    const values* a = load(e, child(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, 0));
    const values* b = load(e, child(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, 0));
    const values* counts[3] = {load(e, child(o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, 0)),
                               load(e, child(o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, 0)),
                               load(e, child(o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, 0))};
    values* c = begin_result(child(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0));
    const int rank = c->rank;
    for (int64_t i = 0; i < c->size; i++) {
        int64_t index[MOST_DIMS], of[3];
        indices(c, i, index);
        const int64_t row = index[rank - 2], column = index[rank - 1],
                      most[3] = {c->dims[rank - 2], c->dims[rank - 1], a->dims[rank - 1]};
        for (int which = 0; which < 3; which++) {
            of[which] =
                counts[which] != NULL ? (int64_t)counts[which]->at[place_of(counts[which], index, rank)] : most[which];
        }
        for (int64_t k = 0; row < of[0] && column < of[1] && k < of[2]; k++) {
            /* Several matrices may share a factor, also some of the batch and not all. */
            int64_t of_a[MOST_DIMS], of_b[MOST_DIMS];
            for (int d = 0; d < rank - 2; d++) {
                of_a[d] = index[d] * a->dims[d] / c->dims[d];
                of_b[d] = index[d] * b->dims[d] / c->dims[d];
            }
            of_a[rank - 2] = row;
            of_a[rank - 1] = of_b[rank - 2] = k;
            of_b[rank - 1] = column;
            c->at[i] += a->at[place_of(a, of_a, rank)] * b->at[place_of(b, of_b, rank)];
        }
    }
    end_result(e, c);
}
